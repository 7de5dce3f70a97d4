"""The leading singular vectors of a matrix by products with random vectors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg as la

from gramian._numerics import descending_eigh
from gramian._typing import Float64Array
from gramian.exceptions import InputError


class SingularTriplets(NamedTuple):
    """M ≈ U Σ Vᵀ: ``left`` (m, r), ``values`` (r,) descending, ``right`` (n, r)."""

    left: Float64Array
    values: Float64Array
    right: Float64Array


def randomized_svd(
    matrix: Float64Array, rank: int, n_power: int, n_extra: int, rng: np.random.Generator
) -> SingularTriplets:
    r"""Return approximations of the ``rank`` leading singular triplets of an m × n matrix.

    Let Q be an orthonormal basis of (M Mᵀ)^q M Ω for a Gaussian Ω (n × (rank + p)). Then M ≈ Q (Qᵀ M), and
    the SVD of the small matrix Qᵀ M gives the triplets. Every product is orthonormalised, so that small
    singular values survive the powers. If rank + p reaches min(m, n), the result is exact.

    matrix : (m, n); read, never written to.
    rank : r, at least 1; cut to min(m, n).
    n_power, n_extra : q and p, at least 0. Each power squares the ratio σ_{r+1}/σ_r, which separates wanted
        from unwanted directions. With two powers and ten extra vectors the error is within a few per cent of
        the best.

    Time O(m n (r + p) (q + 1) + (m + n) (r + p)²), memory O((m + n) (r + p)).
    Source: Halko, Martinsson and Tropp 2011, Algorithms 4.4 and 5.1; Wang, Li, Mahoney and Darve, Algorithm 4
    (with their ℓ = ``n_extra``).

    >>> M = np.outer(np.arange(4.0), np.ones(3))
    >>> U, values, V = randomized_svd(M, 1, 2, 1, np.random.default_rng(0))
    >>> np.allclose(U * values @ V.T, M)
    True
    """
    m, n = matrix.shape
    if rank < 1 or n_power < 0 or n_extra < 0:
        raise InputError(
            f"rank={rank}, n_power={n_power} and n_extra={n_extra} were given. Pass rank >= 1, n_power >= 0 "
            "and n_extra >= 0."
        )
    width, rank = min(rank + n_extra, m, n), min(rank, m, n)
    if width == min(m, n):
        return _cut(*la.svd(matrix, full_matrices=False, check_finite=False), rank)
    basis = _leading_basis(matrix, width, n_power, rng)
    small, values, right = la.svd(basis.T @ matrix, full_matrices=False, check_finite=False)
    return _cut(basis @ small, values, right, rank)


def randomized_eigh(
    matrix: Float64Array, rank: int, n_power: int, n_extra: int, rng: np.random.Generator
) -> tuple[Float64Array, Float64Array]:
    """Return approximate leading eigenpairs of a positive semi-definite matrix K, largest eigenvalues first.

    They are those of Q (Qᵀ K Q) Qᵀ with the basis Q of :func:`randomized_svd` (Rayleigh-Ritz), so no value
    exceeds the true eigenvalue. If rank + p reaches half the size of K, the result is exact. Time
    O(m² (r + p) (q + 1)).
    """
    m = len(matrix)
    width, rank = rank + n_extra, min(rank, m)
    if 2 * width >= m:
        return descending_eigh(matrix, rank)
    basis = _leading_basis(matrix, width, n_power, rng)
    inner = basis.T @ (matrix @ basis)
    values, small = descending_eigh(0.5 * (inner + inner.T), rank)
    return np.maximum(values, 0.0), basis @ small


def _leading_basis(matrix: Float64Array, width: int, n_power: int, rng: np.random.Generator) -> Float64Array:
    """Return an orthonormal basis of (M Mᵀ)^q M Ω, shape (m, width)."""
    basis = _orthonormal(matrix @ rng.standard_normal((matrix.shape[1], width)))
    for _ in range(n_power):
        basis = _orthonormal(matrix @ _orthonormal(matrix.T @ basis))
    return basis


def _cut(left: Float64Array, values: Float64Array, right: Float64Array, rank: int) -> SingularTriplets:
    return SingularTriplets(left[:, :rank], values[:rank], right[:rank].T)


def _orthonormal(matrix: Float64Array) -> Float64Array:
    basis, _ = la.qr(matrix, mode="economic", overwrite_a=True, check_finite=False)
    return np.asarray(basis, np.float64)
