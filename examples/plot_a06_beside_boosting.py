"""
Beside gradient boosting, by the number of rows
===============================================

A smooth target of five numbers and a category. With few rows a kernel model has the lower error;
boosting needs more rows to draw a smooth function by steps, and is trained sooner. On targets with jumps
boosting is better with few rows, and as good with more.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

import gramian as gm

rng = np.random.default_rng(0)
n = 3000
table = pd.DataFrame(rng.random((n, 5)), columns=list("abcde"))
table["kind"] = pd.Categorical(rng.choice(["x", "y", "z"], n))
smooth = (
    np.sin(6 * table.a * table.b)
    + 2 * (table.c - 0.5) ** 2
    + table.kind.map({"x": 0.0, "y": 0.5, "z": 1.0}).astype(float)
)
jumps = np.floor(4 * table.a) / 4 + (table.b > 0.4) + 1.0 * (table.kind == "x")
sizes = (200, 500, 1000)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for ax, name, clean in zip(axes, ("smooth target", "target with jumps"), (smooth, jumps), strict=True):
    y = clean + 0.1 * rng.standard_normal(n)
    errors = {"TabularRegressor, effort fast": [], "HistGradientBoostingRegressor": []}
    for size in sizes:
        models = (
            gm.TabularRegressor(effort="fast", random_state=0),
            HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0),
        )
        for found, model in zip(errors.values(), models, strict=True):
            with threadpool_limits(1):  # a small fit gains nothing by more threads
                predicted = model.fit(table[:size], y[:size]).predict(table[1000:])
            found.append(np.sqrt(np.mean((predicted - clean[1000:]) ** 2)))
    for label, colour in zip(errors, ("#0060a8", "#c03a00"), strict=True):
        ax.loglog(sizes, errors[label], "o-", color=colour, label=label)
        print(name, label, np.round(errors[label], 3))
    ax.set(title=name, xlabel="training rows", ylabel="RMSE to the noise-free target")
axes[0].legend(frameon=False)
plt.show()
