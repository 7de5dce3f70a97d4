"""
A table in; predictions, intervals and a C file out
===================================================

A table with a category, a skewed column and missing values is fitted as it is. The model gives an
interval for every row and the share of each column, and is then compressed and written as one C file.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import gramian as gm

rng = np.random.default_rng(0)
n = 1500
flats = pd.DataFrame(
    {
        "area": rng.lognormal(4.3, 0.4, n),
        "town": rng.choice(["Bath", "Hull", "York"], n),
        "floor": rng.integers(0, 6, n),
        "noise": rng.standard_normal(n),
    }
)
per_metre = flats.town.map({"Bath": 2.5, "Hull": 1.5, "York": 2.2})
price = flats.area * per_metre + 6 * flats.floor + 10 * rng.standard_normal(n)
flats.loc[::20, "area"] = np.nan
train, test = slice(0, 1000), slice(1000, n)

# %%
# Fit, judge, and ask for intervals.

model = gm.TabularRegressor(random_state=0).fit(flats[train], price[train])
predicted = model.predict(flats[test])
low, high = model.predict_interval(flats[test], coverage=0.9).T
true = price[test].to_numpy()
print(f"R² {model.score(flats[test], true):.3f}")
print(f"the 90 % intervals hold {np.mean((low <= true) & (true <= high)):.0%} of the prices")

# %%
# Compress it, and write C that takes the raw table.

fast = model.compress(flats[train], price[train], cost="20x", random_state=0)
gm.export(fast, "flats.c")
print(f"R² of the compressed model {fast.score(flats[test], true):.3f}")


def nanoseconds_a_row(of):
    rows = pd.concat([flats] * 5, ignore_index=True)
    begin = time.perf_counter()
    of(rows)
    return 1e9 * (time.perf_counter() - begin) / len(rows)


# The fast model's rows are encoded as the model's are, so both times include that.
times = {"model": nanoseconds_a_row(model.predict), "compressed": nanoseconds_a_row(fast.predict)}

# %%
# One picture of it all.

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
few = np.argsort(predicted)[:: len(predicted) // 40]
inside = (low[few] <= true[few]) & (true[few] <= high[few])
left.vlines(np.arange(len(few)), low[few], high[few], color="#9db8d6", linewidth=4, label="90 % interval")
left.plot(np.flatnonzero(inside), true[few][inside], "o", color="#0060a8", markersize=4, label="price")
left.plot(
    np.flatnonzero(~inside), true[few][~inside], "o", color="#c03a00", markersize=4, label="price outside"
)
left.set(title="Predictions and intervals", xlabel="held-out flats by prediction", ylabel="price")
left.legend(frameon=False)
names, shares = list(flats.columns), model.feature_importances_
middle.barh(names[::-1], shares[::-1], color="#0060a8")
middle.set(title="Share of each column", xlim=(0, 1))
right.bar(list(times), list(times.values()), color=["#9db8d6", "#0060a8"])
right.set(title="Time of a prediction", ylabel="nanoseconds a row")
plt.show()
