"""
A learned metric
================

One bandwidth for all features throws accuracy away where few of them matter: two rows look far apart because
of columns that say nothing. ``metric="diagonal"`` learns how much each one counts, in rounds: fit, look at
the average gradients of the fit, stretch the features by them, fit again. Here 2 of 20 features count.
"""

import matplotlib.pyplot as plt
import numpy as np

import gramian as gm
from gramian.plotting import ImportanceDisplay

# %%
# A wave over the features 3 and 11, and some noise; the other 18 columns are noise alone.

rng = np.random.default_rng(0)
X = rng.standard_normal((4_000, 20))
y = np.sin(2.0 * X[:, 3]) * np.cos(X[:, 11]) + 0.1 * rng.standard_normal(len(X))
X_train, y_train, X_test, y_test = X[:3_000], y[:3_000], X[3_000:], y[3_000:]

plain = gm.KernelRidge(alpha=0.1, random_state=0).fit(X_train, y_train)
learned = gm.KernelRidge(alpha=0.1, metric="diagonal", random_state=0).fit(X_train, y_train)
print(
    f"R² on other rows: {plain.score(X_test, y_test):.3f} without, {learned.score(X_test, y_test):.3f} with"
)

# %%
# Each round is judged on rows that were held out, and the best is kept. A round that makes things worse is
# undone; ``metric_rounds_`` says so.

errors = [each.error for each in learned.metric_rounds_]
for number, each in enumerate(learned.metric_rounds_):
    said = each.undone or ("kept" if each.kept else "")
    print(f"round {number}: held-out error {each.error:.4f}, bandwidth × {each.bandwidth:.2f} {said}")

# %%
# Error by rounds on the left; on the right each feature's share in the mean squared distance of two rows.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
kept = next(number for number, each in enumerate(learned.metric_rounds_) if each.kept)
left.semilogy(errors, "o-")
left.plot(kept, errors[kept], "o", markersize=14, markerfacecolor="none", markeredgecolor="black")
left.axhline(0.01, color="grey", linestyle="--")
left.annotate("variance of the noise", (0, 0.01), (0, 4), textcoords="offset points", fontsize=9)
left.set(
    xlabel="round; 0 is without a metric", ylabel="mean squared error, held out", title="Error by rounds"
)
left.set_xticks(range(len(errors)))
ImportanceDisplay.from_estimator(learned, n_features=8, ax=right)
plt.show()
