"""Every threshold, jitter and clipping rule of the library, each relative and dtype-aware."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as la

from gramian._lapack import cholesky, inverse_of_triangle, pivoted_cholesky
from gramian._typing import Float64Array
from gramian.exceptions import NumericalError, NumericalWarning


def unit_roundoff(dtype: Any) -> float:
    """Return u = eps/2 of a float type: 6e-8 for float32, 1.1e-16 for float64."""
    return float(np.finfo(dtype).eps) / 2


def entry_tolerance(dtype: Any) -> float:
    """Return the largest entrywise error that a tile of k(X, Z), |k| ≤ 1, may carry.

    float32: 2e-5, some 300 u, what a product of norms and inner products can keep at speed;
    float64: 1e-8.
    """
    return 2e-5 if np.dtype(dtype) == np.float32 else 1e-8


def stored_tolerance() -> float:
    """Return the relative error that a stored kernel matrix may have without remark.

    Many are computed in float32 and kept in float64, so that their type does not say: 2e-5.
    """
    return entry_tolerance(np.float32)


def distance_error(square: Float64Array, n_features: int, dtype: Any) -> Float64Array:
    """Bound the error of ‖a − b‖² = ‖a‖² − 2a·b + ‖b‖² when it is computed by one product.

    ``square`` is ‖b‖², and ‖a − b‖ is of order 1. The error is c(d)·u·(1 + ‖b‖²); rounding in a
    sum of d terms walks at random (Higham and Mary 2019), and c(d) = 2 + √d holds with a margin
    over 1.5 + 0.8·√d, the largest that was measured for d from 2 to 3,000.
    """
    return (2.0 + np.sqrt(n_features)) * unit_roundoff(dtype) * (1.0 + square)


def routing_tolerance() -> float:
    """Return the error of a score, over the squared distance of two centres, that routing may make: 1e-3.

    A row that lies closer than that to the border of two blocks may go to either.
    """
    return 1e-3


def phase_limit(dtype: Any) -> float:
    """Return the phase t beyond which the rounding u·|t| of cos(t) exceeds the tolerance of an entry.

    float32: 335; float64: 9e7.
    """
    return entry_tolerance(dtype) / unit_roundoff(dtype)


def least_divisor() -> float:
    """Return √ of the least normal float64, 1.5e-154: ordinary numbers over larger ones are finite."""
    return float(np.sqrt(np.finfo(np.float64).tiny))


def largest_exponent(dtype: Any) -> float:
    """Return a t with exp(−t) = 0 in ``dtype`` whose powers are finite: 207 and 1,489."""
    return -2.0 * float(np.log(np.finfo(dtype).smallest_subnormal))


def ridge_tolerance(dtype: Any) -> float:
    """Return the relative residual that a direct ridge solve must reach: √u, 1e-8 in float64."""
    return float(np.sqrt(unit_roundoff(dtype)))


def rank_cutoff(dtype: Any, *, residual: bool = False, coupled: bool = False) -> float:
    """Return the relative eigenvalue at or under which a direction is left out as rounding noise.

    The Gram matrix of the landmarks is float64, but its features w(x) = λ^(−1/2) eᵀ k(Z, x) are computed
    from tiles of ``dtype``: they carry noise u·λ^(−1/2) beside a size of (λ/m)^(1/2), so that at
    λ = 2u·λ_max, λ_max of order m, noise is still under a tenth. A *residual* kernel k − φφᵀ is a
    difference of numbers near 1, which loses three further digits. Bases that are *coupled* by V_sᵀ K V_t
    divide the rounding of that core (always float64) by the cutoff c, and what a block leaves out meets the
    other blocks with its norm, √c: c = u^(2/3) balances √c and u/c.

    float32: 1e-7, residual 1e-4; float64: 1e-13, residual 1e-10, coupled 2e-11.
    """
    u = unit_roundoff(dtype)
    if coupled:
        return max(rank_cutoff(dtype), unit_roundoff(np.float64) ** (2 / 3))
    if np.dtype(dtype) == np.float32:
        return (1.7e3 if residual else 2.0) * u
    return (1e6 if residual else 1e3) * u


def als_ridge(gram: Float64Array) -> float:
    """Return the μ that alternating least squares adds to U_JᵀU_J: 1e-10 of its trace.

    Directions under it hold less than 1e-10 of K̃ on the columns J; unregularised they blow up on rows that J
    does not stand for. Never 0: where K is nearly diagonal, U may be 0 on all of J.
    """
    return max(rank_cutoff(np.float64, residual=True) * float(np.trace(gram)), least_divisor())


def pivot_floor(diagonal: Float64Array) -> float:
    """Return the residual diagonal entry at or under which a row lies in the span of the pivots."""
    return rank_cutoff(np.float64) * float(diagonal.max(initial=0.0))


@dataclass(frozen=True, slots=True)
class Whitening:
    """V with Vᵀ K V = I on the kept directions, and what was dropped."""

    vectors: Float64Array  #: V, shape (m, r)
    values: Float64Array  #: the r kept eigenvalues or pivots, descending
    dropped: float  #: trace (of magnitudes) that fell under the cutoff or beyond the rank
    negative: float = 0.0  #: the part of it in negative eigenvalues under minus the cutoff


#: Entries that complete pivoting leaves of a semi-definite matrix, over the largest pivot that it leaves.
PIVOT_SLACK = 10.0


def whiten(
    gram: Float64Array,
    rank: int,
    cutoff: float,
    *,
    floor: float = 0.0,
    spectral: bool = False,
    definite: bool = True,
) -> Whitening:
    """Whiten a symmetric positive semi-definite matrix, or that part of one that is not ``definite``.

    Where ``rank`` truncates (or ``spectral`` asks for eigenvalues) V = E_r Λ_r^(−1/2), the best basis of
    its rank; where it does not, V = P L⁻ᵀ of the Cholesky factorisation with complete pivoting, which
    spans the same space at a quarter of the time (if the matrix need not be ``definite``, only where it is,
    up to rounding). Eigenvalues at or under max(cutoff · λ_max, floor), and pivots at or under
    max(cutoff · ‖K‖_F²/trace, floor), are left out: r may be smaller, and 0 for a
    matrix that vanishes. Time O(m³), memory O(m²).
    """
    m = gram.shape[0]
    if m == 0:
        return Whitening(np.zeros((0, 0)), np.zeros(0), 0.0)
    if rank >= m and not spectral:
        white = _whiten_by_pivots(gram, cutoff, floor, definite)
        if white is not None:
            return white
    values, vectors = descending_eigh(gram)
    least = max(cutoff * max(float(values[0]), 0.0), floor)
    keep = int(np.count_nonzero(values[:rank] > least))
    dropped = float(np.abs(values[keep:]).sum())
    scaled = vectors[:, :keep] / np.sqrt(values[:keep])
    negative = float(-values[values < -least].sum())
    return Whitening(np.ascontiguousarray(scaled), values[:keep].copy(), dropped, negative)


def _whiten_by_pivots(gram: Float64Array, cutoff: float, floor: float, definite: bool) -> Whitening | None:
    """Whiten by pivots; None for a matrix that shows itself to be indefinite."""
    trace = float(np.trace(gram))
    # ‖K‖_F²/trace bounds λ_max from below and is within the effective rank of it.
    largest = float(np.einsum("ij,ij->", gram, gram)) / trace if trace > 0 else 0.0
    least = max(cutoff * largest, floor)
    if not gram.diagonal().max() > least:
        if not definite and np.abs(gram).max() > PIVOT_SLACK * least:
            return None
        return Whitening(np.zeros((len(gram), 0)), np.zeros(0), abs(trace))
    # LAPACK stops at the first pivot at or under the tolerance.
    factor, order = pivoted_cholesky(gram, least)
    keep = factor.shape[1]
    if not definite and keep < len(gram):
        # A semi-definite remainder is bounded by its diagonal, which is under the last pivot.
        below, rest = factor[keep:], order[keep:]
        if np.abs(gram[np.ix_(rest, rest)] - below @ below.T).max() > PIVOT_SLACK * least:
            return None
    vectors = np.zeros((len(gram), keep))
    vectors[order[:keep]] = inverse_of_triangle(factor[:keep]).T
    explained = float(np.einsum("ij,ij->", factor, factor))
    return Whitening(vectors, factor.diagonal() ** 2, max(0.0, trace - explained))


def descending_eigh(matrix: Float64Array, count: int | None = None) -> tuple[Float64Array, Float64Array]:
    """Return the ``count`` largest eigenvalues (None: all), descending, and their vectors as columns.

    Time O(m³); two thirds of it, or less, where at most an eighth of them are wanted. LAPACK may find too
    few of these where eigenvalues are equal (none of I − 11ᵀ/n at n = 50): then all are computed.
    """
    m = len(matrix)
    if m == 0:
        return np.zeros(0), np.zeros((0, 0))
    count = m if count is None else count
    if 8 * count <= m:
        values, vectors = la.eigh(
            matrix, driver="evr", subset_by_index=(m - count, m - 1), check_finite=False
        )
    if 8 * count > m or len(values) < count:
        values, vectors = np.linalg.eigh(matrix)
    return values[::-1][:count].copy(), vectors[:, ::-1][:, :count]


def cholesky_lower(matrix: Float64Array, what: str, *, warn: bool = True) -> tuple[Float64Array, float]:
    """Return the lower Cholesky factor and the jitter that it took.

    The jitter starts at 16·u·(largest diagonal entry) and grows tenfold up to six times; any jitter
    warns with its amount (a preconditioner's, which changes no answer, with ``warn=False`` does not), and a
    matrix that stays indefinite raises ``NumericalError``, which is a ``LinAlgError``.
    """
    try:
        return cholesky(matrix), 0.0
    except la.LinAlgError:
        jitter = 16.0 * unit_roundoff(matrix.dtype) * float(np.abs(np.diag(matrix)).max())
    for attempt in range(7):
        jitter *= 10.0 if attempt else 1.0
        shifted = matrix.copy()
        shifted.flat[:: matrix.shape[0] + 1] += jitter
        try:
            factor = cholesky(shifted, overwrite=True)
        except la.LinAlgError:
            continue
        if warn:
            warnings.warn(
                f"{what} was not positive definite in floating point; {jitter:.3g} was added to "
                "its diagonal. A larger alpha, or tile_dtype='float64', avoids this.",
                NumericalWarning,
                stacklevel=3,
            )
        return factor, jitter
    raise NumericalError(
        f"{what} is indefinite: a jitter of {jitter:.3g} did not make it positive definite. "
        "Raise alpha or use tile_dtype='float64'."
    )


def gram_factor(gram: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Factor A = TᵀT for a positive semi-definite A of any rank.

    Returns T (r × m) and its pseudo-inverse T⁺ (m × r), with eigenvalues under the relative cutoff
    of float64 left out, so that T T⁺ = I.
    """
    values, vectors = descending_eigh(gram)
    keep = values > rank_cutoff(np.float64) * max(float(values.max(initial=0.0)), 0.0)
    root = np.sqrt(values[keep])
    return (vectors[:, keep] * root).T, vectors[:, keep] / root


def clip_negative(values: Float64Array, what: str, *, whitened: bool = False) -> tuple[Float64Array, float]:
    """Clip negative eigenvalues at zero; return them with the clipped sum of magnitudes.

    Warns where the clipped part is more than rounding: 64·u·size of the largest, or u^(1/3)·size for a
    core of ``whitened`` bases, whose entries carry that much (:func:`rank_cutoff`).
    """
    clipped = float(-values[values < 0].sum())
    largest = float(np.abs(values).max(initial=0.0))
    u = unit_roundoff(np.float64)
    if clipped > (np.cbrt(u) if whitened else 64 * u) * len(values) * largest:
        warnings.warn(
            f"{what} is indefinite: negative eigenvalues with sum {-clipped:.3g} (largest "
            f"eigenvalue {largest:.3g}) were clipped to zero.",
            NumericalWarning,
            stacklevel=3,
        )
    return np.maximum(values, 0.0), clipped


def warn_negative(negative: float, total: float, what: str) -> None:
    """Warn of clipped negative eigenvalues (the sum of their magnitudes)."""
    if negative > stored_tolerance() * total:
        warnings.warn(
            f"{what} is indefinite: negative eigenvalues with sum {-negative:.3g} (of magnitudes with sum "
            f"{total:.3g}) were clipped to zero, so that the model is one of its positive part.",
            NumericalWarning,
            stacklevel=3,
        )


def design_cutoff(dtype: Any) -> float:
    """Return the relative singular value at or under which a direction of sampled columns C is rounding.

    Entries of C carry u of their size, which its pseudo-inverse multiplies by σ_1/σ: under a hundredth of
    the signal is left where σ > 100 u σ_1. float32: 6e-6; float64: 1e-14.
    """
    return 100.0 * unit_roundoff(dtype)


def expansion_tolerance() -> float:
    """Return the relative rounding that Σ a_i k(x, x_i) may carry before its tiles must be float64: 1e-5."""
    return 1e-5


def expansion_error(norm: float, dtype: Any) -> float:
    """Return about what rounding of |k| ≤ 1 in tiles does to Σ a_i k(x, x_i) with ‖a‖₂ = ``norm``.

    Entries err by some 4 u, independently of each other. Coefficients of exact models are residuals over
    alpha, large numbers that cancel.
    """
    return 4.0 * unit_roundoff(dtype) * norm


def direction_cutoff() -> float:
    """Return the size at or under which a direction, of unit length before, depends on those before it: √u.

    What is left of it is half rounding then, and a product with it would say little that is new.
    """
    return float(np.sqrt(unit_roundoff(np.float64)))


def least_smoothing(dtype: Any) -> float:
    """Return the least width ρ of a proximal loss, relative to the size of decision values f.

    Its duals are f/ρ: rounding u·f of the values must leave them four digits, and float64 gains nothing by
    less than 1e-5. float32: 6e-4; float64: 1e-5.
    """
    return max(1e-5, 1e4 * unit_roundoff(dtype))
