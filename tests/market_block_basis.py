"""Dense oracle of the recompressed core, written from landmarks, labels and ranks alone."""

from __future__ import annotations

import numpy as np
from approximation_market import Case, gram, settings

import gramian as gm
from gramian.compression.recompression import MET, asked_size


def recompressed(fitted, X, Y):
    """K̃ on all landmarks, cut in each block row to the leading eigenvectors of S_s,: S_s,:ᵀ.

    Of the other side S_s,: has the leading eigenvectors of ΦᵀΦ: 5/4 of the rank that K̃_ss alone would get.
    """
    nodes, partition = fitted.features_.nodes, fitted.features_.partition
    train = fitted.training_rows
    labels = partition.route(train)
    points = [node.landmarks for node in nodes]
    roots, inverses, spectra = [], [], []
    for s, Z in enumerate(points):
        values, vectors = np.linalg.eigh(gram(Z, Z))
        keep = values > 2e-11 * values[-1]
        V = vectors[:, keep] / np.sqrt(values[keep])
        phi = gram(train[labels == s], Z) @ V
        squares, E = np.linalg.eigh(phi.T @ phi)
        some = squares > 1e-13 * squares[-1]
        spectra.append(squares[::-1] ** 2)
        roots.append(V @ E[:, some] * np.sqrt(squares[some]))
        inverses.append(V @ E[:, some] / np.sqrt(squares[some]))
    S = [[A.T @ gram(Zs, Zt) @ B for B, Zt in zip(roots, points)] for A, Zs in zip(roots, points)]
    left, right = features(X, partition, points, inverses), features(Y, partition, points, inverses)
    budget = fitted.max_bytes if isinstance(fitted, gm.BlockBasis) else None
    size = asked_size(len(train), 8, fitted.rank, fitted.n_blocks, budget)
    alone = size.share(spectra, np.bincount(labels).astype(float))
    met = [min(int(np.ceil(MET * (rank + 1))), root.shape[1]) for rank, root in zip(alone, roots)]
    cut = []
    for row, node in zip(S, nodes):
        squares = sum(block[:, -few:] @ block[:, -few:].T for block, few in zip(row, met))
        P = np.linalg.eigh(squares)[1][:, ::-1][:, : node.rank]
        cut.append(P @ P.T)
    out = np.zeros((len(X), len(Y)))
    for s in range(len(nodes)):
        for t in range(len(nodes)):
            (i, U), (j, W) = left[s], right[t]
            out[np.ix_(i, j)] = U @ cut[s] @ S[s][t] @ cut[t] @ W.T
    return out


def features(X, partition, points, inverses):
    labels = partition.route(X)
    return [
        (np.flatnonzero(labels == s), gram(X[labels == s], Z) @ B)
        for s, (Z, B) in enumerate(zip(points, inverses))
    ]


def block_basis(**parameters):
    return gm.BlockBasis(**settings(**{"rank": 8, "n_blocks": 4, "oversampling": 3.0, **parameters}))


MARKET = {
    "block basis": Case(block_basis(), recompressed),
    "block basis one block": Case(block_basis(n_blocks=1, rank=15), recompressed),
    "block basis budget": Case(block_basis(rank=None, max_bytes=40_000), recompressed),
    "block basis tree": Case(block_basis(partition="tree", n_blocks=5, rank=6), recompressed),
    "meka recompressed": Case(
        gm.MEKA(**settings(rank=8, n_blocks=3, core="recompressed", oversampling=2.0)), recompressed
    ),
}
