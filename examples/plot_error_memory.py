"""
Error against memory
====================

Methods compare fairly at equal bytes, not at equal rank. Here four of them compress the kernel matrix of rows
in twelve clusters. Each line is a method at growing sizes; the bars are 95 % intervals of the error, which is
estimated from sampled rows.
"""

import numpy as np

import gramian as gm
from gramian.plotting import ErrorMemoryDisplay

# %%
# Twelve groups of rows in five dimensions.
rng = np.random.default_rng(0)
centres = rng.random((12, 5))
X = centres[rng.integers(12, size=2000)] + 0.1 * rng.standard_normal((2000, 5))

# %%
# Approximations that are not fitted yet: the display fits a copy of each and lets it go again.
common = {"gamma": 10.0, "random_state": 0}
methods = [
    *(gm.MEKA(rank=r, n_blocks=12, **common) for r in (8, 16, 32)),
    *(gm.MultiResolution(root_rank=2 * r, rank=r, n_blocks=12, **common) for r in (8, 16, 32)),
    *(gm.Nystrom(rank=r, **common) for r in (32, 64, 128)),
    *(gm.RandomFourier(rank=r, **common) for r in (32, 64, 128)),
]
display = ErrorMemoryDisplay.from_approximations(methods, X, n_rows=300)
for name, size, error in zip(display.names, display.nbytes, display.errors, strict=True):
    print(f"{name:16} {size / 1e6:6.2f} MB  relative error {error:.4f}")
