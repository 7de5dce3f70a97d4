"""
scikit-learn's inspection of a table with categories
====================================================

Partial dependence and permutation importance of scikit-learn take the fitted model and the table as they
are, text columns included.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.inspection import PartialDependenceDisplay, permutation_importance

import gramian as gm

rng = np.random.default_rng(0)
n = 1200
table = pd.DataFrame({"area": rng.uniform(20, 150, n), "town": rng.choice(["Bath", "Hull", "York"], n)})
table["age"], table["unrelated"] = rng.uniform(0, 100, n), rng.standard_normal(n)
price = table.area * table.town.map({"Bath": 2.5, "Hull": 1.5, "York": 2.2}) - 40 * np.sin(table.age / 20)
price += 10 * rng.standard_normal(n)

model = gm.TabularRegressor(random_state=0).fit(table[:900], price[:900])
found = permutation_importance(model, table[900:], price[900:], n_repeats=5, random_state=0)
for name, mean, spread in zip(table.columns, found.importances_mean, found.importances_std, strict=True):
    print(f"{name:10} R² falls by {mean:.3f} ± {spread:.3f} where the column is shuffled")

figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
PartialDependenceDisplay.from_estimator(
    model, table[:200], ["area", "age", "town"], categorical_features=["town"], grid_resolution=25, ax=axes
)
plt.show()
