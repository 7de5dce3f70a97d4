"""Structured approximations with their dense oracles, from rows and labels alone."""

from __future__ import annotations

import numpy as np
from approximation_market import Case, gram, meka, multiresolution, settings

import gramian as gm
from gramian.approximations import ClusteredLowRank, LowRankPlusBlocks


def block_diagonal(fitted, X, Y):
    """K within blocks (by way of the landmarks, where there is a rank), 0 between them."""
    partition, nodes = fitted.features_.partition, fitted.features_.nodes
    a, b = partition.route(X), partition.route(Y)
    out = np.zeros((len(X), len(Y)))
    for s, node in enumerate(nodes):
        Z = node.landmarks
        values, vectors = np.linalg.eigh(gram(Z, Z))
        V = vectors[:, ::-1][:, : node.rank] / np.sqrt(values[::-1][: node.rank])
        out[np.ix_(a == s, b == s)] = gram(X[a == s], Z) @ V @ V.T @ gram(Z, Y[b == s])
    return out


def eigen(fitted, X, Y):
    """K cut to its leading eigenpairs, carried to new rows by K u = λ u."""
    train = fitted.training_rows
    values, vectors = np.linalg.eigh(gram(train, train))
    U, top = vectors[:, ::-1][:, : fitted.rank], values[::-1][: fitted.rank]
    return (gram(X, train) @ U / top) @ (U.T @ gram(train, Y))


MARKET = {
    "whole blocks": Case(gm.BlockDiagonal(n_blocks=5, **settings()), block_diagonal),
    "blocks of low rank": Case(gm.BlockDiagonal(n_blocks=4, rank=9, **settings()), block_diagonal),
    "low rank plus blocks": Case(LowRankPlusBlocks(root_rank=12, n_blocks=5, **settings()), multiresolution),
    "low rank plus blocks, k-means": Case(
        LowRankPlusBlocks(root_rank=8, n_blocks=6, partition="kmeans", **settings()), multiresolution
    ),
    "eigen": Case(gm.TruncatedEigen(rank=15, tol=1e-9, **settings()), eigen),
    "clustered low rank": Case(ClusteredLowRank(rank=8, n_blocks=4, **settings()), meka),
}
