"""Ridge leverage scores: how much of a row the other rows cannot explain at a given ridge."""

from __future__ import annotations

import numpy as np
import scipy.linalg as la
from scipy.optimize import brentq

from gramian._lapack import cholesky, solve_triangular
from gramian._numerics import rank_cutoff, whiten
from gramian._typing import Float64Array, IntArray, Rows
from gramian.kernels.base import Kernel

#: Pilot rows per requested landmark. Chosen by hand.
PILOT_SHARE = 1.0
#: BLESS: rows that a level examines per unit of 1/lambda, and points that it keeps per unit of effective
#: dimension. Chosen by hand.
SEEN, KEPT = 5.0, 5.0
#: BLESS: further rows that a level examines per requested landmark. Chosen by hand.
CHOICE = 4
#: BLESS: stop if halving lambda raises the effective dimension by less than this factor, since more landmarks
#: would then span nothing new. Chosen by hand.
GROWTH = 1.02


def ridge_leverage_scores(
    kernel: Kernel, rows: Rows, pilot: Rows, dimension: float, *, n_jobs: int = 1
) -> Float64Array:
    r"""Estimate ℓ_i(λ) = (K (K + λ I)⁻¹)_ii for the λ at which they sum to ``dimension``, shape (n,).

    With Nyström features B of the pilot points (K ≈ B Bᵀ, σ the singular values of B) the scores are
    b_iᵀ(BᵀB + λ I)⁻¹ b_i, and λ solves Σ σ²/(σ² + λ) = dimension. If B has too few directions for that, λ is
    the rounding error of its eigenvalues.

    rows : (n, d); pilot : (p, d).

    Time O(n p (d + p)), memory O(n p). Source: the two-stage estimate of Alaoui and Mahoney 2015.
    """
    gram = kernel(pilot, dtype=np.float64, n_jobs=n_jobs)
    white = whiten(0.5 * (gram + gram.T), len(gram), rank_cutoff(np.float64))
    B = kernel(rows, pilot, dtype=np.float64, n_jobs=n_jobs) @ white.vectors
    values, vectors = la.eigh(B.T @ B, driver="evd", check_finite=False)
    values = np.maximum(values, 0.0)
    ridge = _ridge(values, dimension)
    scores: Float64Array = np.square(B @ (vectors / np.sqrt(values + ridge))).sum(axis=1)
    return scores


def _ridge(values: Float64Array, dimension: float) -> float:
    """Return the λ with Σ σ²/(σ² + λ) = dimension."""
    largest = float(values.max(initial=0.0))
    least = rank_cutoff(np.float64) * max(largest, np.finfo(np.float64).tiny)

    def excess(log_ridge: float) -> float:
        return float((values / (values + np.exp(log_ridge))).sum()) - dimension

    low, high = np.log(least), np.log(max(largest, least) * max(len(values), 2) / dimension + least)
    if excess(low) <= 0:
        return float(least)
    return float(np.exp(brentq(excess, low, high))) if excess(high) < 0 else float(np.exp(high))


def leverage_sample(
    kernel: Kernel, rows: Rows, count: int, rng: np.random.Generator, *, n_jobs: int = 1
) -> IntArray:
    """Return ``count`` row numbers drawn without replacement with probability ∝ their leverage scores.

    The scores are estimated from ``count`` pilot rows drawn at random, at the ridge whose effective
    dimension is half of ``count``.
    """
    n = rows.shape[0]
    pilot = np.sort(rng.choice(n, min(n, max(1, round(PILOT_SHARE * count))), replace=False))
    scores = ridge_leverage_scores(kernel, rows, rows[pilot], max(1.0, count / 2), n_jobs=n_jobs)
    return draw(scores, count, rng)


def draw(scores: Float64Array, count: int, rng: np.random.Generator) -> IntArray:
    """Draw at most ``count`` distinct row numbers with probability ∝ scores; rows of score 0 are not drawn.

    If all scores are 0, every row is equally likely.
    """
    usable = int(np.count_nonzero(scores))
    if not usable:
        return np.sort(rng.choice(len(scores), count, replace=False))
    return np.sort(rng.choice(len(scores), min(count, usable), replace=False, p=scores / scores.sum()))


def bless(kernel: Kernel, rows: Rows, count: int, rng: np.random.Generator, *, n_jobs: int = 1) -> IntArray:
    r"""Return ``count`` row numbers by bottom-up leverage score sampling.

    The levels have λ_0 = max k(x, x) and λ_h = λ_{h−1}/2. A level examines each row with probability
    β = (5·λ_0/λ_h + 4·count)/n and estimates its score ℓ_i = (k_ii − k_iᵀ(K_JJ + λ_h n A)⁻¹ k_i)/(λ_h n) from
    the points J that the level before kept. It keeps the row with probability p_i = min(β, 5·ℓ_i), which
    becomes its weight in A. The last level is the one whose effective dimension Σ ℓ_i/β reaches half of
    ``count``, or stops growing; the landmarks are drawn by its scores.

    A level reads only the rows that it examines: time O(β n · count · (d + count)) for the last, independent
    of n for large n. Source: Rudi, Calandriello, Carratino and Rosasco 2018, Algorithm 2 (BLESS-R).
    """
    n = rows.shape[0]
    diagonal = kernel.diagonal(rows)
    scale = float(diagonal.max())
    kept, weights = np.zeros(0, np.intp), np.zeros(0)
    ridge, dimension = scale, 0.0
    while scale > 0:
        ridge /= 2.0
        size = int(min(n, np.ceil(SEEN * scale / ridge) + CHOICE * count))
        share = size / n
        seen = np.sort(rng.choice(n, size, replace=False))
        scores = _explained(kernel, rows, diagonal, seen, kept, weights, ridge * n, n_jobs)
        before, dimension = dimension, float(scores.sum()) / share
        if 2.0 * dimension >= count or dimension < GROWTH * before:
            return seen[draw(scores, count, rng)]
        chances = np.minimum(KEPT * scores, share)
        taken = rng.random(size) * share < chances
        kept, weights = seen[taken], chances[taken]
    return np.sort(rng.choice(n, count, replace=False))


def _explained(
    kernel: Kernel,
    rows: Rows,
    diagonal: Float64Array,
    seen: IntArray,
    kept: IntArray,
    weights: Float64Array,
    ridge: float,
    n_jobs: int,
) -> Float64Array:
    """Return (k_ii − k_iᵀ(K_JJ + ridge·A)⁻¹k_i)/ridge of the examined rows, between rounding error and 1."""
    left = diagonal[seen].copy()
    if len(kept):
        points = rows[kept]
        system = kernel(points, dtype=np.float64, n_jobs=n_jobs) + np.diag(ridge * weights)
        columns = kernel(points, rows[seen], dtype=np.float64, n_jobs=n_jobs)
        half = solve_triangular(cholesky(system, overwrite=True), columns)
        left -= np.einsum("ij,ij->j", half, half)
    least = rank_cutoff(np.float64) * diagonal[seen]
    return np.clip(left, least, None).clip(max=ridge) / ridge
