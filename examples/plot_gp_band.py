"""
The band of a Gaussian process
==============================

A Gaussian process says how sure it is. Where rows are dense its band is narrow; in a gap it widens, and the
functions drawn from the posterior differ.
"""

import matplotlib.pyplot as plt
import numpy as np

import gramian as gm
from gramian.plotting import PosteriorDisplay

# %%
# A sine with a gap from 4 to 6.5.
rng = np.random.default_rng(0)
X = np.concatenate([rng.uniform(0, 4, 60), rng.uniform(6.5, 10, 40)])[:, None]
y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(100)
gp = gm.GaussianProcessRegressor(random_state=0).fit(X, y)
print(f"kernel {gp.kernel_}, noise of deviation {np.sqrt(gp.noise_ * y.var()):.2f}")

# %%
# Left: the band of the function, with three draws of it. Right: the band of a new observation, which has the
# noise as well; nine in ten of the rows lie in it.
figure, axes = plt.subplots(1, 2, figsize=(12, 4.2), sharey=True, layout="constrained")
PosteriorDisplay.from_estimator(gp, X, y, sample_kw={"n_samples": 3}, ax=axes[0])
PosteriorDisplay.from_estimator(gp, X, y, include_noise=True, ax=axes[1])
mean, std = gp.predict(X, return_std=True, include_noise=True)
print(f"rows in the band: {np.mean(np.abs(y - mean) < 1.645 * std):.0%}")
