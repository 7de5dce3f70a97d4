"""Nyström approximations with their dense oracle: the span of K(·, Z), cut by dense eigenvectors."""

from __future__ import annotations

import numpy as np
from approximation_market import Case, gram, settings
from approximation_market import nystrom as whole

import gramian as gm


def cut(fitted, X, Y):
    """K̃ recompressed: K_XZ K_ZZ⁺ K_ZY cut to its rank by the eigenvectors of the training rows'."""
    Z, rank = fitted.landmarks_, fitted.rank
    root = gram(Z, Z)
    F = whole(gram(fitted.training_rows, Z), root)
    P = np.linalg.eigh(F.T @ F)[1][:, ::-1][:, :rank]
    return whole(gram(X, Z), root) @ P @ P.T @ whole(gram(Y, Z), root).T


def classical(fitted, X, Y):
    """K̃ of the classical method: the leading eigenpairs of K(Z, Z) alone."""
    Z = fitted.landmarks_
    values, vectors = np.linalg.eigh(gram(Z, Z))
    V = vectors[:, ::-1][:, : fitted.rank] / np.sqrt(values[::-1][: fitted.rank])
    return gram(X, Z) @ V @ V.T @ gram(Y, Z).T


def ensemble(fitted, X, Y):
    """Σ_t μ_t K_XZ K_ZZ⁺ K_ZY over the experts."""
    out = np.zeros((len(X), len(Y)))
    for Z, share in zip(fitted.expert_landmarks_, fitted.expert_weights_, strict=True):
        if share > 0:
            root = gram(Z, Z)
            out += share * whole(gram(X, Z), root) @ whole(gram(Y, Z), root).T
    return out


MARKET = {
    "nystrom": Case(gm.Nystrom(rank=20, **settings()), cut),
    "k-means": Case(gm.Nystrom(rank=20, landmarks="kmeans", oversampling=1.0, **settings()), cut),
    "classical": Case(
        gm.Nystrom(rank=15, landmarks="uniform", oversampling=2.0, recompress=False, **settings()), classical
    ),
    "ensemble": Case(gm.EnsembleNystrom(rank=12, n_experts=3, **settings()), ensemble),
    "ensemble, ridge weights": Case(
        gm.EnsembleNystrom(rank=12, n_experts=3, weights="ridge", **settings()), ensemble
    ),
}
