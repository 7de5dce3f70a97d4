"""KALS with its dense oracle: the same rounds over the same entries, one row at a time."""

from __future__ import annotations

import numpy as np
from approximation_market import Case, gram, settings

import gramian as gm


def half_step(fitted, X, Y):
    """K̃ = F Fᵀ by the last half-step alone, u(x) = Vᵀ k(X_J, x): V is what the model holds."""
    root = fitted.features_.nodes[0]
    V = root.vectors.astype(np.float64)
    return gram(X, root.landmarks) @ V @ V.T @ gram(root.landmarks, Y)


MARKET = {
    "kals": Case(gm.KALS(rank=12, **settings()), half_step),
    "kals, uniform": Case(
        gm.KALS(rank=8, n_iter=3, n_entries=210 * 60, columns="uniform", landmarks="uniform", **settings()),
        half_step,
    ),
    "kals, all entries": Case(gm.KALS(rank=10, n_entries=10**6, **settings()), half_step),
}
