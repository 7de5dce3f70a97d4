"""
Blocks of a Gram matrix
=======================

Rows that are alike have large kernel values with each other. Sorted by cluster, they gather in the blocks on
the diagonal, and what is far from it is small and smooth: the one structure that every approximation of
gramian stores.
"""

from sklearn.datasets import load_digits

import gramian as gm
from gramian.plotting import GramDisplay

# %%
# Handwritten digits, 64 pixels each, compressed to eight blocks of rank 40.
X = load_digits().data / 16.0
meka = gm.MEKA(gamma=0.1, rank=40, n_blocks=8, random_state=0).fit(X)
print(f"{len(X):,} rows: {8e-6 * len(X) ** 2:.0f} MB as a matrix, {1e-6 * meka.nbytes_:.2f} MB compressed")

# %%
# Left: 400 of the rows as they come. Middle: the same rows, sorted by block. Right: the relative error of
# every pair of blocks. A pair with much error would ask for more rank there.
display = GramDisplay.from_estimator(meka, X, n_rows=400, random_state=0)
print(f"overall relative error {display.relative_error:.3f}")
