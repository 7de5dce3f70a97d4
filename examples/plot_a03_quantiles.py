"""
Quantiles where the noise differs
=================================

The target scatters more for large flats. ``predict_quantiles`` gives a band that is as wide as the
scatter at each row; one model answers for all quantiles.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import gramian as gm

rng = np.random.default_rng(0)
area = rng.uniform(20, 150, 2000)
price = 2 * area + 30 * np.sin(area / 15) + 0.25 * area * rng.standard_normal(2000)
table = pd.DataFrame({"area": area})

model = gm.TabularRegressor(random_state=0).fit(table[:1500], price[:1500])
levels = [0.05, 0.25, 0.5, 0.75, 0.95]
grid = pd.DataFrame({"area": np.linspace(22, 148, 200)})
quantiles = model.predict_quantiles(grid, levels)
held_out = model.predict_quantiles(table[1500:], levels)
for level, values in zip(levels, held_out.T, strict=True):
    print(f"{level:.0%} quantile: {np.mean(price[1500:] <= values):.0%} of the held-out prices lie below")

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.plot(area[1500:], price[1500:], ".", color="#888888", markersize=3, label="held-out rows")
ax.fill_between(grid.area, quantiles[:, 0], quantiles[:, 4], color="#0060a8", alpha=0.2, label="5 % to 95 %")
ax.fill_between(grid.area, quantiles[:, 1], quantiles[:, 3], color="#0060a8", alpha=0.3, label="25 % to 75 %")
ax.plot(grid.area, quantiles[:, 2], color="#0060a8", label="median")
ax.set(title="Quantiles follow the noise", xlabel="area", ylabel="price")
ax.legend(frameon=False)
plt.show()
