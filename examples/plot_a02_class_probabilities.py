"""
Probabilities that can be trusted
=================================

``TabularClassifier`` calibrates its probabilities on held-out rows. Of the rows that get a probability
near 0.8, about 80 % should have the class. The diagram shows this for a table with a category and
missing values.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.calibration import calibration_curve

import gramian as gm

rng = np.random.default_rng(0)
n = 3000
table = pd.DataFrame({"age": rng.uniform(20, 80, n), "plan": rng.choice(["free", "basic", "pro"], n)})
table["visits"] = rng.poisson(3, n)
score = (
    0.05 * (table.age - 50)
    - 0.6 * (table.visits - 3)
    + table.plan.map({"free": 1.0, "basic": 0.0, "pro": -1.5})
)
leaves = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "leaves", "stays")
table.loc[::15, "age"] = np.nan

model = gm.TabularClassifier(random_state=0).fit(table[:1500], leaves[:1500])
probability = model.predict_proba(table[1500:])[:, 0]
truth = leaves[1500:] == model.classes_[0]
sets = model.predict_set(table[1500:], coverage=0.9)
print(f"accuracy {model.score(table[1500:], leaves[1500:]):.3f}")
held = np.where(truth, sets[:, 0], sets[:, 1])
print(f"the sets of classes hold the true one in {np.mean(held):.0%} of the rows")

share, said = calibration_curve(truth, probability, n_bins=8, strategy="quantile")
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.plot([0, 1], [0, 1], color="#888888", linewidth=1, label="perfect")
left.plot(said, share, "o-", color="#0060a8", label="TabularClassifier")
left.set(title="Calibration", xlabel="probability", ylabel="share of rows with the class")
left.legend(frameon=False)
right.hist(
    [probability[truth], probability[~truth]],
    bins=20,
    label=list(model.classes_),
    color=["#0060a8", "#c03a00"],
)
right.set(title="Probabilities by true class", xlabel=f"probability of {model.classes_[0]!r}", ylabel="rows")
right.legend(frameon=False)
plt.show()
