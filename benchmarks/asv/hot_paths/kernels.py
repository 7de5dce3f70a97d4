"""Tiles of the kernel: the floor of everything."""

from __future__ import annotations

import numpy as np

from gramian.kernels.resolve import resolve_kernel
from hot_paths.rows import made


class Block:
    """20,000 × 1,000 entries."""

    params = (["rbf", "laplacian", "matern32", "poly"], ["float32", "float64"])
    param_names = ("kernel", "dtype")

    def setup(self, kernel, dtype):
        self.X = made(20_000)[0].astype(dtype)
        self.kernel = resolve_kernel(kernel, n_features=16, gamma=0.1)
        self.dtype = np.dtype(dtype)

    def time_block(self, kernel, dtype):
        self.kernel(self.X, self.X[:1000], dtype=self.dtype)

    def track_error(self, kernel, dtype):
        """Largest difference from float64."""
        X = self.X[:500]
        exact = self.kernel(X.astype(np.float64), dtype=np.float64)
        return float(np.abs(self.kernel(X, dtype=self.dtype) - exact).max())
