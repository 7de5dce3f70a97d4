"""
How a Gaussian process learned
==============================

Lengthscales, signal variance and noise are found by likelihood: from a few rows and several starts, then from
more rows. A model says what it saw on the way.
"""

import numpy as np

import gramian as gm
from gramian.plotting import LearningDisplay

# %%
# Three of six features matter. Learning starts from lengthscales of three sizes, and rows that were left out
# say which of them to go on from. Here all three end at the same place, which is a good sign.
rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (2_500, 6))
y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(2_500)
gp = gm.GaussianProcessRegressor(random_state=0).fit(X, y)

# %%
# Short lengthscales are those of features that matter; the others grow until they say nothing.
display = LearningDisplay.from_estimator(gp)
for name, value in zip(display.names, display.values[display.chosen], strict=True):
    print(f"{name:16} {value:8.3f}")

# %%
# The same as numbers.
for stage in gp.optimizer_report_.stages:
    print(f"{stage.n_rows:5,} rows, {stage.evaluations:3} evaluations, loss {stage.loss:.3f}")
