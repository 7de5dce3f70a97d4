"""Dense oracles of the approximations, written naively in float64 from landmarks and labels alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import gramian as gm

GAMMA = 3.0


def gram(X, Z, gamma=GAMMA):
    """Gaussian kernel by differences."""
    return np.exp(-gamma * ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2))


def nystrom(K, Kz):
    """K(·, Z) K(Z, Z)⁺ K(Z, ·) needs this root: rows times it are features."""
    values, vectors = np.linalg.eigh(Kz)
    keep = values > 1e-11 * max(values[-1], 0.0)
    return K @ (vectors[:, keep] / np.sqrt(values[keep]))


def meka(fitted, X, Y):
    """K̃ of the projection core: replace φ(x) by its projection on the span of its block's landmarks."""
    nodes, partition = fitted.features_.nodes, fitted.features_.partition
    a, b = partition.route(X), partition.route(Y)
    out = np.zeros((len(X), len(Y)))
    for s, left in enumerate(nodes):
        for t, right in enumerate(nodes):
            Zs, Zt = left.landmarks, right.landmarks
            L = projector(gram(X[a == s], Zs), gram(Zs, Zs), left.rank)
            R = projector(gram(Y[b == t], Zt), gram(Zt, Zt), right.rank)
            out[np.ix_(a == s, b == t)] = L @ gram(Zs, Zt) @ R.T
    return out


def projector(K, Kz, rank):
    """K(x, Z) V Vᵀ for the top ``rank`` eigenpairs."""
    values, vectors = np.linalg.eigh(Kz)
    V = vectors[:, len(values) - rank :] / np.sqrt(values[len(values) - rank :])
    return K @ V @ V.T


def multiresolution(fitted, X, Y):
    """K̃ by recursion: what the path's landmarks explain of the residual kernel, level by level.

    K_0 = K; on rows that share a node with landmarks Z, K̃ gains K_l(x, Z) K_l(Z, Z)⁺_r K_l(Z, y), and K_{l+1}
    is K_l less that.
    """
    features = fitted.features_
    forest, nodes, partition = features.forest, features.nodes, features.partition
    out = np.zeros((len(X), len(Y)))
    a, b = partition.route(X), partition.route(Y)
    leaves = forest.levels[-1]

    def explained(node, P, Q):
        """The residual kernel above ``node`` between P and Q."""
        block = gram(P, Q)
        for ancestor in forest.path(node):
            block = block - gain(ancestor, P, Q)
        return block

    def gain(node, P, Q):
        Z = nodes[node].landmarks
        own = explained(node, Z, Z)
        values, vectors = np.linalg.eigh((own + own.T) / 2)
        top = slice(len(values) - nodes[node].rank, None)
        V = vectors[:, top] / np.sqrt(values[top])
        return explained(node, P, Z) @ V @ V.T @ explained(node, Q, Z).T

    for node in range(len(nodes)):
        under = [leaf for leaf in range(partition.n_blocks) if node in path(forest, leaves.start + leaf)]
        rows, columns = np.isin(a, under), np.isin(b, under)
        if nodes[node].rank and rows.any() and columns.any():
            out[np.ix_(rows, columns)] += gain(node, X[rows], Y[columns])
    return out


def path(forest, leaf):
    return (*forest.path(leaf), leaf)


@dataclass(frozen=True)
class Case:
    """An approximation with its oracle f(fitted, X, Y) → K̃(X, Y)."""

    estimator: object
    oracle: object


def settings(**parameters):
    return {"gamma": GAMMA, "random_state": 1, "tile_dtype": "float64", **parameters}


def tree(**parameters):
    return gm.MultiResolution(**settings(**{"root_rank": 12, "rank": 5, "n_blocks": 6, **parameters}))


MARKET = {
    "meka": Case(gm.MEKA(**settings(rank=10, n_blocks=4)), meka),
    "meka uniform": Case(gm.MEKA(**settings(rank=10, n_blocks=4, landmarks="uniform", oversampling=1)), meka),
    "meka kcenters": Case(gm.MEKA(**settings(rank=10, n_blocks=4, partition="kcenters")), meka),
    "meka tree": Case(gm.MEKA(**settings(rank=6, n_blocks=8, partition="tree")), meka),
    "meka one block": Case(gm.MEKA(**settings(rank=15, n_blocks=1)), meka),
    "meka singular": Case(gm.MEKA(**settings(rank=10, n_blocks=4, rank_rule="singular")), meka),
    "nystrom": Case(tree(n_levels=1, root_rank=20), multiresolution),
    "two levels": Case(tree(), multiresolution),
    "two levels, uniform": Case(tree(landmarks="uniform", oversampling=2.0), multiresolution),
    "two levels, tree": Case(tree(partition="tree", n_blocks=8), multiresolution),
    "three levels": Case(tree(n_levels=3, n_blocks=9), multiresolution),
    "four levels, tree": Case(tree(n_levels=4, n_blocks=8, rank=4, partition="tree"), multiresolution),
}
