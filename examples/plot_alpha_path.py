"""
Choosing alpha and gamma
========================

:class:`gramian.KernelRidgeCV` compares every penalty by its exact leave-one-out error, from one set of sums
for each kernel. The picture shows how sure the choice is: a flat line says that many values do, an end of the
axis that the range was too short.
"""

import numpy as np

import gramian as gm
from gramian.plotting import AlphaPathDisplay

# %%
# A function of two features with noise of variance 0.04.
rng = np.random.default_rng(0)
X = rng.random((1500, 2))
y = np.sin(8.0 * X[:, 0]) * np.cos(5.0 * X[:, 1]) + 0.2 * rng.standard_normal(1500)
model = gm.KernelRidgeCV(np.logspace(-4, 3, 15), gammas=[0.3, 3.0, 30.0, 300.0], random_state=0).fit(X, y)
print(f"alpha {model.alpha_:.3g}, gamma {model.gamma_:g}: mean squared error {-model.best_score_:.4f}")

# %%
# The ring marks the choice. Narrow kernels (dark) need a large penalty, wide ones (pale) a small one; the
# upper axis counts the parameters that the chosen kernel in effect fits.
display = AlphaPathDisplay.from_estimator(model)
i, j = display.chosen
print(f"effective degrees of freedom {display.degrees_of_freedom[i, j]:.0f}")
