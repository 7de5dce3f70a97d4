"""
Spectrum and rank
=================

How large a rank is enough? The eigenvalues of the kernel matrix say: those far below the ridge penalty have
no part in a fit, and the effective dimension counts the others.
"""

import matplotlib.pyplot as plt
import numpy as np

import gramian as gm
from gramian.plotting import SpectrumDisplay

# %%
# A wide kernel is smooth and its eigenvalues fall fast: thirty landmarks follow all that a penalty of 0.1
# lets through. The same thirty miss most of a narrow one.
X = np.random.default_rng(0).random((3000, 2))
alpha = 0.1
figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for ax, gamma in zip(axes, (1.0, 30.0), strict=True):
    nystrom = gm.Nystrom(gamma=gamma, rank=30, random_state=0).fit(X)
    display = SpectrumDisplay.from_estimator(nystrom, X, alpha=alpha, n_rows=600, ax=ax)
    exact, close = (float(d[0]) for d in display.effective_dimension)
    print(f"gamma {gamma:g}: effective dimension {exact:.1f} of K, {close:.1f} of its approximation")

# %%
# Where the two curves part above the dashed line, more rank changes predictions; below it, hardly.
