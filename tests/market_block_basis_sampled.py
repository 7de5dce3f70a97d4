"""Dense oracle of the published block basis factorization, from sampled columns, vectors and core alone."""

from __future__ import annotations

import numpy as np
from approximation_market import Case, gram, settings

import gramian as gm


def sampled(fitted, X, Y):
    """K̃_st = K(X_s, Y_s) A_s C_st A_tᵀ K(Y_t, X_t)."""
    features = fitted.features_
    points = [node.landmarks for node in features.nodes]
    vectors = [np.asarray(node.vectors, np.float64) for node in features.nodes]
    a, b = features.partition.route(X), features.partition.route(Y)
    out = np.zeros((len(X), len(Y)))
    for s in range(len(points)):
        for t in range(len(points)):
            left = gram(X[a == s], dense(points[s])) @ vectors[s]
            right = gram(Y[b == t], dense(points[t])) @ vectors[t]
            out[np.ix_(a == s, b == t)] = left @ features.core.block(s, t) @ right.T
    return out


def dense(rows):
    return rows.toarray() if hasattr(rows, "toarray") else rows


def sampled_block_basis(**parameters):
    return gm.BlockBasis(**settings(**{"rank": 8, "n_blocks": 4, "core": "sampled", **parameters}))


MARKET = {
    "sampled": Case(sampled_block_basis(), sampled),
    "sampled, important rows": Case(sampled_block_basis(sampling="important", n_blocks=6), sampled),
    "sampled, one block": Case(sampled_block_basis(n_blocks=1, rank=15), sampled),
    "sampled, budget": Case(sampled_block_basis(rank=None, max_bytes=40_000), sampled),
    "sampled, tolerance": Case(sampled_block_basis(rank=None, tol=0.05, partition="tree"), sampled),
}
