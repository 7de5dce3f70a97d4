"""Every threshold, jitter and clipping rule of the library, each relative and dtype-aware."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.linalg as la
from numpy.typing import DTypeLike

from gramian._lapack import cholesky, inverse_of_triangle, pivoted_cholesky
from gramian._typing import Float64Array, FloatArray
from gramian.exceptions import NumericalError, NumericalWarning, user_level

#: Largest size, and the inverse of the least, of numbers that are rounded to float32.
_NARROW = 1e30
#: What is added to features and subtracted again, by the bytes of a number.
_GRAIN = {4: 2.0**-38, 8: 2.0**-457}


def unit_roundoff(dtype: DTypeLike) -> float:
    """Return u = eps/2 of a float type: 6e-8 for float32, 1.1e-16 for float64."""
    return float(np.finfo(dtype).eps) / 2


def entry_tolerance(dtype: DTypeLike) -> float:
    """Return the largest error that an entry of a tile k(X, Z) may have, for |k| ≤ 1.

    float32: 2e-5, about 300 u, which a fast matrix product can keep; float64: 1e-8.
    """
    return 2e-5 if np.dtype(dtype) == np.float32 else 1e-8


#: Relative error, 2e-5, up to which a stored kernel matrix is accepted without a warning. It is that of
#: float32 whatever the type, because many matrices are computed in float32 and stored in float64.
STORED_TOLERANCE = entry_tolerance(np.float32)
#: Largest error of a routing score relative to the squared distance of two centres. A row closer than that to
#: the border of two blocks may go to either. Chosen by hand.
ROUTING_TOLERANCE = 1e-3
#: Smallest safe divisor, the square root of the smallest normal float64: 1.5e-154.
LEAST_DIVISOR = float(np.sqrt(np.finfo(np.float64).tiny))
#: Relative rounding error of Σ a_i k(x, x_i) above which tiles must be float64. Chosen by hand.
EXPANSION_TOLERANCE = 1e-5
#: Length, √u, up to which the rest of a unit vector counts as dependent on earlier directions. Half of the
#: digits of such a rest are rounding, and a product with it would bring little that is new.
DIRECTION_CUTOFF = float(np.sqrt(unit_roundoff(np.float64)))


def distance_error(square: Float64Array, n_features: int, dtype: DTypeLike) -> Float64Array:
    """Bound the rounding error of ‖a − b‖² = ‖a‖² − 2a·b + ‖b‖² computed by one matrix product.

    ``square`` is ‖b‖², and ‖a − b‖ is of order 1. The error is c(d)·u·(1 + ‖b‖²). Rounding errors in a sum of
    d terms behave like a random walk (Higham and Mary 2019). c(d) = 2 + √d leaves a margin over 1.5 + 0.8·√d,
    the largest value found by hand for d from 2 to 3,000.
    """
    return (2.0 + np.sqrt(n_features)) * unit_roundoff(dtype) * (1.0 + square)


def phase_limit(dtype: DTypeLike) -> float:
    """Return the phase t beyond which the rounding error u·|t| of cos(t) exceeds :func:`entry_tolerance`.

    float32: 335; float64: 9e7.
    """
    return entry_tolerance(dtype) / unit_roundoff(dtype)


def largest_exponent(dtype: DTypeLike) -> float:
    """Return a t with exp(−t) = 0 in ``dtype`` and finite powers: 207 for float32, 1,489 for float64."""
    return -2.0 * float(np.log(np.finfo(dtype).smallest_subnormal))


def narrowed(values: FloatArray, dtype: DTypeLike) -> FloatArray:
    """Return values (rows, outputs) in ``dtype``; in float64 where float32 would overflow or lose digits.

    The largest size of a column must lie between 1e-30 and 1e30, so that smaller numbers beside it and sums
    of products stay within float32.

    >>> [narrowed(np.array([[size]]), np.float32).dtype.name for size in (1.0, 0.0, 1e-40, 1e40)]
    ['float32', 'float32', 'float64', 'float64']
    """
    sizes = np.abs(values).max(axis=0, initial=0.0)
    safe = ((sizes >= 1.0 / _NARROW) & (sizes <= _NARROW)) | (sizes == 0.0)
    return np.asarray(values, dtype if safe.all() else np.float64)


def size_of(values: Float64Array) -> float:
    """Return the power of two at or below the largest size; 1 if that is 0 or infinite.

    Powers of values that are divided by it neither overflow nor underflow, and the division does not round.

    >>> size_of(np.array([3.0, -5.0])), size_of(np.zeros(2))
    (4.0, 1.0)
    """
    largest = float(np.abs(values).max(initial=0.0))
    return float(2.0 ** np.floor(np.log2(largest))) if 0.0 < largest < np.inf else 1.0


def drop_tiny(values: FloatArray) -> None:
    """Drop values under 2e-19 (float32) or 1e-154 (float64), in place; others are rounded once more at most.

    Products of two smaller ones would be subnormal, and a sum of them takes many times as long.
    """
    grain = values.dtype.type(_GRAIN[values.dtype.itemsize])
    values += grain
    values -= grain


def ridge_tolerance(dtype: DTypeLike) -> float:
    """Return the relative residual that a direct ridge solve must reach: √u, which is 1e-8 in float64."""
    return float(np.sqrt(unit_roundoff(dtype)))


def rank_cutoff(dtype: DTypeLike, *, residual: bool = False, coupled: bool = False) -> float:
    """Return the relative eigenvalue up to which a direction is left out as rounding noise.

    The Gram matrix of the landmarks is float64, but the features w(x) = λ^(−1/2) eᵀ k(Z, x) come from tiles
    of ``dtype``. Their noise is u·λ^(−1/2) and their size (λ/m)^(1/2). At λ = 2u·λ_max, with λ_max of order
    m, the noise is below a tenth of the size.

    ``residual``: a residual kernel k − φφᵀ is a difference of numbers near 1 and loses three more digits.
    ``coupled``: the core V_sᵀ K V_t, always float64, has its rounding divided by the cutoff c, and the
    directions that a block leaves out enter the other blocks with norm √c. c = u^(2/3) balances √c and u/c.

    float32: 1e-7, residual 1e-4; float64: 1e-13, residual 1e-10, coupled 2e-11.
    """
    u = unit_roundoff(dtype)
    if coupled:
        return max(rank_cutoff(dtype), unit_roundoff(np.float64) ** (2 / 3))
    if np.dtype(dtype) == np.float32:
        return (1.7e3 if residual else 2.0) * u
    return (1e6 if residual else 1e3) * u


def als_ridge(gram: Float64Array) -> float:
    """Return the ridge μ that alternating least squares adds to U_JᵀU_J: 1e-10 of its trace.

    Smaller directions hold less than 1e-10 of K̃ on the columns J. Without the ridge they would blow up on
    rows that J does not represent. μ is never 0: if K is nearly diagonal, U may be 0 on all of J.
    """
    return max(rank_cutoff(np.float64, residual=True) * float(np.trace(gram)), LEAST_DIVISOR)


def pivot_floor(diagonal: Float64Array) -> float:
    """Return the residual diagonal entry up to which a row counts as lying in the span of the pivots."""
    return rank_cutoff(np.float64) * float(diagonal.max(initial=0.0))


@dataclass(frozen=True, slots=True)
class Whitening:
    """Whitening vectors V, with Vᵀ K V = I on the kept directions, and the amount that was dropped."""

    vectors: Float64Array  #: V, shape (m, r)
    values: Float64Array  #: the r kept eigenvalues or pivots, descending
    dropped: float  #: sum of the absolute eigenvalues below the cutoff or beyond the rank
    negative: float = 0.0  #: the part of ``dropped`` in negative eigenvalues below minus the cutoff


#: A remainder with entries above this multiple of the pivot threshold shows that a matrix is not
#: semi-definite. Chosen by hand.
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
    """Whiten a symmetric positive semi-definite matrix, or the positive part of another symmetric one.

    If ``rank`` truncates, or with ``spectral``, V = E_r Λ_r^(−1/2), the best basis of that rank. Otherwise
    V = P L⁻ᵀ from the Cholesky factorisation with complete pivoting, which spans the same space in a quarter
    of the time. ``definite=False`` says that the matrix may be indefinite; pivots are then used only if it
    turns out to be semi-definite up to rounding.

    Eigenvalues up to max(cutoff · λ_max, floor) and pivots up to max(cutoff · ‖K‖_F²/trace, floor) are left
    out, so that the rank may be smaller than asked for, and 0 for a zero matrix. Time O(m³), memory O(m²).
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
    """Whiten by pivoted Cholesky; return None if the matrix turns out to be indefinite."""
    trace = float(np.trace(gram))
    # ‖K‖_F²/trace is at most λ_max, and at least λ_max over the effective rank.
    largest = float(np.einsum("ij,ij->", gram, gram)) / trace if trace > 0 else 0.0
    least = max(cutoff * largest, floor)
    if not gram.diagonal().max() > least:
        if not definite and np.abs(gram).max() > PIVOT_SLACK * least:
            return None
        return Whitening(np.zeros((len(gram), 0)), np.zeros(0), abs(trace))
    # LAPACK stops at the first pivot that is not above the tolerance.
    factor, order = pivoted_cholesky(gram, least)
    keep = factor.shape[1]
    if not definite and keep < len(gram):
        # The entries of a semi-definite remainder are bounded by its diagonal, which is below the last pivot.
        below, rest = factor[keep:], order[keep:]
        if np.abs(gram[np.ix_(rest, rest)] - below @ below.T).max() > PIVOT_SLACK * least:
            return None
    vectors = np.zeros((len(gram), keep))
    vectors[order[:keep]] = inverse_of_triangle(factor[:keep]).T
    explained = float(np.einsum("ij,ij->", factor, factor))
    return Whitening(vectors, factor.diagonal() ** 2, max(0.0, trace - explained))


def descending_eigh(matrix: Float64Array, count: int | None = None) -> tuple[Float64Array, Float64Array]:
    """Return the ``count`` largest eigenvalues (None: all), descending, and their vectors as columns.

    Time O(m³); at most two thirds of that if an eighth of them or fewer are wanted. LAPACK may then find too
    few if eigenvalues are equal (none for I − 11ᵀ/n at n = 50), in which case all are computed.
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
    """Return the lower Cholesky factor and the jitter that had to be added to the diagonal.

    The jitter starts at 16·u·(largest diagonal entry) and grows tenfold up to six times. Any jitter warns
    with its amount, except with ``warn=False``, which is for preconditioners, whose jitter changes no answer.
    A matrix that stays indefinite raises ``NumericalError``, which is a ``LinAlgError``.
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
                stacklevel=user_level(),
            )
        return factor, jitter
    raise NumericalError(
        f"{what} is indefinite: a jitter of {jitter:.3g} did not make it positive definite. "
        "Raise alpha or use tile_dtype='float64'."
    )


def gram_factor(gram: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Factor A = TᵀT for a positive semi-definite A of any rank.

    Returns T (r × m) and its pseudo-inverse T⁺ (m × r) with T T⁺ = I. Eigenvalues below the relative cutoff
    of float64 are left out.
    """
    values, vectors = descending_eigh(gram)
    keep = values > rank_cutoff(np.float64) * max(float(values.max(initial=0.0)), 0.0)
    root = np.sqrt(values[keep])
    return (vectors[:, keep] * root).T, vectors[:, keep] / root


def clip_negative(values: Float64Array, what: str, *, whitened: bool = False) -> tuple[Float64Array, float]:
    """Clip negative eigenvalues at zero; return all of them, and the sum of the clipped magnitudes.

    Warns if that sum is more than rounding: 64·u·m times the largest eigenvalue for m of them, or u^(1/3)·m
    times it for a core of ``whitened`` bases, whose entries carry that much rounding (:func:`rank_cutoff`).
    """
    clipped = float(-values[values < 0].sum())
    largest = float(np.abs(values).max(initial=0.0))
    u = unit_roundoff(np.float64)
    if clipped > (np.cbrt(u) if whitened else 64 * u) * len(values) * largest:
        warnings.warn(
            f"{what} is indefinite: negative eigenvalues with sum {-clipped:.3g} (largest "
            f"eigenvalue {largest:.3g}) were clipped to zero.",
            NumericalWarning,
            stacklevel=user_level(),
        )
    return np.maximum(values, 0.0), clipped


def warn_negative(negative: float, total: float, what: str) -> None:
    """Warn if clipped negative eigenvalues, given as the sum of their magnitudes, exceed rounding."""
    if negative > STORED_TOLERANCE * total:
        warnings.warn(
            f"{what} is indefinite: negative eigenvalues with sum {-negative:.3g} (of magnitudes with sum "
            f"{total:.3g}) were clipped to zero, so the model uses its positive part only.",
            NumericalWarning,
            stacklevel=user_level(),
        )


def design_cutoff(dtype: DTypeLike) -> float:
    """Return the relative singular value up to which a direction of sampled columns C is rounding noise.

    The entries of C have a relative error of u, which the pseudo-inverse multiplies by σ_1/σ. For σ > 100 u
    σ_1 the noise is below a hundredth of the signal. float32: 6e-6; float64: 1e-14.
    """
    return 100.0 * unit_roundoff(dtype)


def expansion_error(norm: float, dtype: DTypeLike) -> float:
    """Estimate the error of Σ a_i k(x, x_i) that rounding of |k| ≤ 1 in tiles causes, for ‖a‖₂ = ``norm``.

    Entries have independent errors of about 4 u. The coefficients of exact models are residuals divided by
    alpha: large numbers that cancel.
    """
    return 4.0 * unit_roundoff(dtype) * norm


def least_smoothing(dtype: DTypeLike) -> float:
    """Return the smallest width ρ of a proximal loss, relative to the size of the decision values f.

    The dual variables are f/ρ, and must keep four digits beside the rounding u·f. In float64 less than 1e-5
    gains nothing. float32: 6e-4; float64: 1e-5. Chosen by hand.
    """
    return max(1e-5, 1e4 * unit_roundoff(dtype))
