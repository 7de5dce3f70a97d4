"""
New patients: hold out whole groups
===================================

Ten rows of each patient are alike. If new rows come from new patients, rows that are held out at random
make the intervals too narrow. ``fit(..., groups="patient")`` holds out whole patients.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import gramian as gm

rng = np.random.default_rng(0)
patients = np.repeat(np.arange(150), 10)
level = rng.standard_normal((150, 3))
X = level[patients] + 0.1 * rng.standard_normal((1500, 3))
y = X[:, 0] + (rng.standard_normal(150))[patients] + 0.1 * rng.standard_normal(1500)
table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(patient=[f"p{number}" for number in patients])
train, test = patients < 100, patients >= 100

bars = {}
for name, columns, groups in (
    ("rows at random", ["a", "b", "c"], None),
    ("whole patients", ["a", "b", "c", "patient"], "patient"),
):
    model = gm.TabularRegressor(random_state=0).fit(table[train][columns], y[train], groups=groups)
    low, high = model.predict_interval(table[test][columns], coverage=0.9).T
    bars[name] = (np.mean((low <= y[test]) & (y[test] <= high)), np.mean(high - low))
    print(f"{name}: 90 % intervals hold {bars[name][0]:.0%}, mean width {bars[name][1]:.2f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
left.bar(list(bars), [held for held, _ in bars.values()], color=["#c03a00", "#0060a8"])
left.axhline(0.9, color="#444444", linewidth=1)
left.set(title="Targets of new patients in the interval", ylim=(0, 1))
right.bar(list(bars), [width for _, width in bars.values()], color=["#c03a00", "#0060a8"])
right.set(title="Mean width of the interval")
plt.show()
