"""The rows of all benchmarks here: made, with structure at a large and a small scale."""

from __future__ import annotations

import numpy as np


def made(n: int, d: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Return n rows around 40 centres and a target that varies between and within them."""
    rng = np.random.default_rng(0)
    centres = 2.0 * rng.standard_normal((40, d))
    X = centres[rng.integers(40, size=n)] + 0.5 * rng.standard_normal((n, d))
    y = np.sin(X[:, 0]) + 0.5 * np.sin(4.0 * X[:, 1]) + 0.1 * rng.standard_normal(n)
    return X, y
