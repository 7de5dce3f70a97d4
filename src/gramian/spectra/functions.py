r"""Spectral functions of kernel matrices: eigenpairs, effective dimension, leverage, log-determinant.

Approximations that the library builds give exact values by their own algebra. For the exact K, products with
K give eigenpairs to a tolerance, and sums over all eigenvalues with a standard error. This error is small
because an approximation M ≈ K + D accounts for most of the sum exactly:

    log det(K + D)       = log det M + tr log(M^(−1/2) (K + D) M^(−1/2)),
    tr K (K + alpha·I)⁻¹ = n − alpha·tr M⁻¹ + alpha·tr(M⁻¹ − (K + alpha·I)⁻¹).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as la
from numpy.typing import ArrayLike

from gramian._budget import format_bytes, parse_bytes
from gramian._checks import numbers_of, one_of, positive_alpha, whole_number
from gramian._numerics import entry_tolerance
from gramian._phases import Progress
from gramian._random import as_generator
from gramian._typing import Array, Float64Array, RandomState
from gramian.exact.solve import DIRECT_ROWS
from gramian.exact.system import ExactSystem
from gramian.exceptions import BudgetError, InputError
from gramian.landmarks.picking import rpcholesky_factor
from gramian.operators.base import SymmetricOperator
from gramian.operators.kernel import KernelOperator
from gramian.solvers.lanczos import LEAST_BLOCK, Eigenpairs, basis_bytes, leading_eigenpairs
from gramian.solvers.trace import LeaveOneOutTrace, StochasticValue, lanczos_quadrature
from gramian.spectra.probing import Probed, factored, inverse_diagonal, rows_of_square, system_of

METHODS = ("auto", "direct", "stochastic")
#: Pivots of the starting approximation: a multiple of the wanted eigenvectors plus a constant. Chosen by
#: hand.
PIVOTS, MORE_PIVOTS = 2, 100
#: Most steps of a quadrature, and most iterations of conjugate gradients. Chosen by hand.
MAX_STEPS, MAX_ITERATIONS = 200, 1000


@dataclass(frozen=True, slots=True)
class LeverageScores:
    """Ridge leverage scores, with standard errors if they are estimates."""

    values: Float64Array  #: (n,), each from 0 to 1
    standard_error: Float64Array  #: (n,); 0 if exact
    n_probes: int = 0  #: random vectors


def top_eigenpairs(
    operator: KernelOperator | SymmetricOperator,
    count: int,
    *,
    tol: float = 1e-8,
    start: Array | None = None,
    max_products: int = 200,
    random_state: RandomState = None,
) -> Eigenpairs:
    r"""Return the ``count`` largest eigenvalues and eigenvectors, ‖K v − λ v‖ ≤ tol·‖K‖₂ for each.

    The method is block Lanczos (:func:`gramian.solvers.lanczos.leading_eigenpairs`). For the exact K it
    starts from the eigenvectors of a pivoted Nyström approximation. Products with float32 tiles reach about
    1e-5; if ``tol`` is smaller, products in float64 follow.

    Parameters
    ----------
    operator : KernelOperator (square), or an operator of the library such as ``MEKA().fit(X).operator_``
    count : int
    tol : float
    start : ndarray (n, q), optional
        Vectors to start from, such as those of an earlier call.
    max_products : int
        Most products with blocks of vectors; if they do not suffice, a warning gives the residual.
    random_state : as in scikit-learn.

    Returns
    -------
    Eigenpairs
        ``values``, ``vectors``, ``residuals``, ``products``, ``columns``.

    Time for the exact K: n²/2 kernel values and n² q multiplications for each block of q vectors; memory
    8 n (2·count + max(100, 8 q)) bytes. Raises ``InputError`` for a count outside 1 … n.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> from gramian.operators import KernelOperator
    >>> from gramian.spectra import top_eigenpairs
    >>> X = np.random.default_rng(0).random((500, 2))
    >>> pairs = top_eigenpairs(KernelOperator(gm.Gaussian(0.5), X), 3, random_state=0)
    >>> bool(np.allclose(pairs.values, np.linalg.eigvalsh(gm.Gaussian(0.5)(X))[::-1][:3]))
    True
    """
    n, rng = rows_of_square(operator), as_generator(random_state)
    count, max_products = whole_number("count", count, 1), whole_number("max_products", max_products, 1)
    if start is not None:
        start = _vectors(start, n)
    if isinstance(operator, SymmetricOperator):
        return leading_eigenpairs(
            operator.__matmul__, n, count, tol=tol, rng=rng, start=start, max_products=max_products
        )
    return kernel_eigenpairs(operator, count, tol=tol, rng=rng, start=start, max_products=max_products)


def kernel_eigenpairs(
    operator: KernelOperator,
    count: int,
    *,
    tol: float,
    rng: np.random.Generator,
    start: Array | None = None,
    max_products: int = 200,
    centred: bool = False,
    progress: Progress | None = None,
) -> Eigenpairs:
    """Return the largest eigenpairs of K or, if ``centred``, of J K J, J = I − 11ᵀ/n.

    See :func:`top_eigenpairs`; centring costs two means a product. ``progress`` is called with 1 for each.
    """
    n = operator.shape[0]
    given = _pivot_vectors(operator, count, rng) if start is None else np.asarray(start, np.float64)
    if centred and given is not None:
        given = given - given.mean(axis=0)

    def solve(matrix: KernelOperator, target: float, first: Float64Array | None, products: int) -> Eigenpairs:
        def multiply(values: Float64Array) -> Float64Array:
            if progress is not None:
                progress(1)
            if not centred:
                return matrix @ values
            image = matrix @ (values - values.mean(axis=0))
            return image - image.mean(axis=0)

        return leading_eigenpairs(multiply, n, count, tol=target, rng=rng, start=first, max_products=products)

    loose = entry_tolerance(np.float32)
    if operator.tile_dtype == np.float64 or tol >= loose:
        return solve(operator, tol, given, max_products)
    rough = solve(operator, loose, given, max_products)
    exact = operator.with_dtype(np.float64)
    pairs = solve(exact, tol, rough.vectors, max(max_products - rough.products, 1))
    operator.evaluations += exact.evaluations
    return replace(pairs, products=pairs.products + rough.products, columns=pairs.columns + rough.columns)


def log_determinant(
    operator: KernelOperator | SymmetricOperator,
    alpha: float | Array,
    *,
    method: str = "auto",
    n_probes: int = 16,
    memory_budget: int | str = "1GB",
    random_state: RandomState = None,
) -> StochasticValue:
    r"""Return log det(K + alpha·I), a float with ``standard_error``.

    Parameters
    ----------
    operator : KernelOperator (square), or an approximation's operator, for which the value is exact
    alpha : float or ndarray (n,)
        Positive; for the exact K it may be a diagonal.
    method : {"auto", "direct", "stochastic"}
        For the exact K: "direct" is a Cholesky factor, which "auto" uses up to 2,000 rows. "stochastic" uses
        random vectors and a preconditioner in half the memory
        (:func:`gramian.solvers.trace.lanczos_quadrature`).
    n_probes : int
        Number of random vectors; the standard error falls with its square root.
    memory_budget, random_state : as in estimators.

    Time of "stochastic": several tens of products of K with ``n_probes`` columns. Source: Ubaru, Chen and
    Saad 2017; Gardner et al. 2018.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> from gramian.operators import KernelOperator
    >>> from gramian.spectra import log_determinant
    >>> X = np.random.default_rng(0).random((400, 2))
    >>> K = KernelOperator(gm.Gaussian(0.1), X)
    >>> logdet = log_determinant(K, 0.1, method="stochastic", random_state=0)
    >>> bool(abs(logdet - log_determinant(K, 0.1)) < 4 * logdet.standard_error)
    True
    """
    n = rows_of_square(operator)
    if isinstance(operator, SymmetricOperator):
        return StochasticValue(operator.logdet(_scalar(alpha)))
    system, count, direct = _prepared(operator, _shift(alpha, n), memory_budget, method, n_probes)
    if direct:
        return StochasticValue(2.0 * float(np.log(factored(system).diagonal()).sum()))
    rng = as_generator(random_state)
    probed = Probed.of(system, count, rng)
    quadrature = lanczos_quadrature(
        probed.system.fast,
        probed.preconditioner,
        probed.preconditioner.draw(count, rng),
        np.log,
        max_steps=min(n, MAX_STEPS),
    )
    value = probed.preconditioner.logdet + float(quadrature)
    return StochasticValue(value, quadrature.standard_error, count, quadrature.products)


def effective_dimension(
    operator: KernelOperator | SymmetricOperator,
    alpha: float,
    *,
    method: str = "auto",
    n_probes: int = 16,
    tol: float = 1e-6,
    memory_budget: int | str = "1GB",
    random_state: RandomState = None,
) -> StochasticValue:
    r"""Return d(alpha) = tr K (K + alpha·I)⁻¹, the effective degrees of freedom of a ridge fit.

    The result is a float with ``standard_error``. Parameters are those of :func:`log_determinant`; ``tol`` is
    the relative residual of the solves. Values are exact for approximations, and by default for the exact K
    up to 2,000 rows.

    Time of "stochastic": two solves with ``n_probes`` right-hand sides by preconditioned conjugate gradients.
    Source: Epperly, Tropp and Webber 2024 for the trace of the preconditioner's error.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> from gramian.operators import KernelOperator
    >>> from gramian.spectra import effective_dimension
    >>> X = np.random.default_rng(0).random((400, 2))
    >>> K = KernelOperator(gm.Gaussian(0.1), X)
    >>> dimension = effective_dimension(K, 0.1, method="stochastic", random_state=0)
    >>> bool(abs(dimension - effective_dimension(K, 0.1)) <= 4 * dimension.standard_error + 1e-3)
    True
    """
    n, alpha = rows_of_square(operator), _scalar(alpha)
    if isinstance(operator, SymmetricOperator):
        return StochasticValue(float(operator.leverages(alpha).sum()))
    system, count, direct = _prepared(operator, np.full(n, alpha), memory_budget, method, n_probes)
    if direct:
        return StochasticValue(n - alpha * float(inverse_diagonal(system).sum()))
    probed, seen = _missed(system, alpha, min(count, n), tol, as_generator(random_state))
    trace = seen.trace()
    value = n - alpha * float(probed.preconditioner.inverse_diagonal().sum()) + float(trace)
    return StochasticValue(value, trace.standard_error, trace.n_probes, trace.products)


def leverage_scores(
    operator: KernelOperator | SymmetricOperator,
    alpha: float,
    *,
    method: str = "auto",
    n_probes: int = 64,
    tol: float = 1e-6,
    memory_budget: int | str = "1GB",
    random_state: RandomState = None,
) -> LeverageScores:
    r"""Return the ridge leverage scores ℓ_i = (K (K + alpha·I)⁻¹)_ii with their standard errors.

    Parameters and cost are those of :func:`effective_dimension`, with O(n·n_probes) memory. Estimates are
    clipped to 0 … 1. The preconditioner's error is estimated for each row (XDiag), to about its size at the
    row over √n_probes. To choose landmarks, rough scores are enough and far cheaper:
    :func:`gramian.landmarks.picking.ridge_leverage_scores`.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> from gramian.operators import KernelOperator
    >>> from gramian.spectra import effective_dimension, leverage_scores
    >>> X = np.random.default_rng(0).random((400, 2))
    >>> K = KernelOperator(gm.Gaussian(0.1), X)
    >>> scores = leverage_scores(K, 0.1).values
    >>> bool(np.isclose(scores.sum(), effective_dimension(K, 0.1)))
    True
    """
    n, alpha = rows_of_square(operator), _scalar(alpha)
    if isinstance(operator, SymmetricOperator):
        return LeverageScores(operator.leverages(alpha), np.zeros(n))
    system, count, direct = _prepared(operator, np.full(n, alpha), memory_budget, method, n_probes)
    if direct:
        return LeverageScores(np.clip(1.0 - alpha * inverse_diagonal(system), 0.0, 1.0), np.zeros(n))
    count = min(count, n)
    probed, seen = _missed(system, alpha, count, tol, as_generator(random_state))
    missed, error = seen.diagonal()
    values, errors = np.empty(n), np.empty(n)
    values[probed.order] = 1.0 - alpha * probed.preconditioner.inverse_diagonal() + missed
    errors[probed.order] = error
    return LeverageScores(np.clip(values, 0.0, 1.0), errors, count)


def _missed(
    system: ExactSystem, alpha: float, count: int, tol: float, rng: np.random.Generator
) -> tuple[Probed, LeaveOneOutTrace]:
    """Return M, and random probes of alpha·(M⁻¹ − (K + alpha·I)⁻¹), rows in the order of M's blocks."""
    probed = Probed.of(system, count, rng)

    def multiply(values: Float64Array) -> Float64Array:
        return alpha * (probed.preconditioner(values) - probed.solve(values, tol, MAX_ITERATIONS))

    return probed, LeaveOneOutTrace(multiply, len(system), count, rng)


def eigenpairs_bytes(n: int, count: int) -> int:
    """Return the bytes that :func:`kernel_eigenpairs` needs for the pivots' factor or the Lanczos basis."""
    pivots = min(n, PIVOTS * count + MORE_PIVOTS)
    return max(8 * n * (pivots + count + LEAST_BLOCK), basis_bytes(n, count, count + LEAST_BLOCK))


def _pivot_vectors(operator: KernelOperator, count: int, rng: np.random.Generator) -> Float64Array | None:
    """Return eigenvectors of a pivoted Nyström approximation; None if half the rows would be pivots."""
    n = operator.shape[0]
    pivots = min(n, PIVOTS * count + MORE_PIVOTS)
    if 2 * pivots > n:
        return None
    factor = rpcholesky_factor(
        operator.kernel, operator.rows, pivots, rng, n_jobs=operator.n_jobs or -1
    ).factor
    operator.evaluations += n * len(factor)
    if not len(factor):
        return None
    values, vectors = la.eigh(factor @ factor.T, check_finite=False)
    wanted = min(len(values), count + LEAST_BLOCK)
    return np.asarray(factor.T @ vectors[:, ::-1][:, :wanted], np.float64)


def _vectors(start: ArrayLike, n: int) -> Float64Array:
    """Return a user's starting vectors (n, q), checked."""
    cure = f"Pass one column a vector, ({n}, q)."
    vectors = numbers_of("start", start, cure)
    if vectors.ndim != 2 or len(vectors) != n or not vectors.shape[1]:
        raise InputError(f"start has shape {vectors.shape}. {cure}")
    if not np.isfinite(vectors).all():
        raise InputError("start holds NaN or infinity. Pass finite vectors, or leave it out.")
    return vectors


def _scalar(alpha: float | Array) -> float:
    if np.ndim(alpha):
        raise InputError(
            f"alpha has shape {np.shape(alpha)}; expected one positive number. Only log_determinant of a "
            "KernelOperator takes a diagonal."
        )
    return positive_alpha(alpha)


def _shift(alpha: float | Array, n: int) -> Float64Array:
    if not np.ndim(alpha):
        return np.full(n, positive_alpha(alpha))
    shift = numbers_of("alpha", alpha, f"Give {n} positive numbers, or one.")
    if shift.shape != (n,) or not (np.isfinite(shift).all() and (shift > 0).all()):
        raise InputError(f"alpha has shape {shift.shape}; expected {n} positive, finite numbers, or one.")
    return shift


def _prepared(
    operator: KernelOperator, shift: Float64Array, memory_budget: int | str, method: str, n_probes: int
) -> tuple[ExactSystem, int, bool]:
    """Return K + D, the number of random vectors, and whether a Cholesky factor takes their place.

    It also replaces as many random vectors as there are rows: it takes no more time, and is exact. Raises
    for an unknown method, and for a factor beyond the budget.
    """
    system = system_of(operator, shift, parse_bytes(memory_budget))
    # A standard error needs at least two probes.
    probes = whole_number("n_probes", n_probes, 2)
    one_of("method", method, METHODS)
    if method == "direct" and not system.direct_fits:
        raise BudgetError(
            f"a Cholesky factor of {len(system)} rows takes {format_bytes(system.square_bytes)}, above the "
            f"memory budget of {format_bytes(system.memory_bytes)}. Raise memory_budget, or take "
            "method='stochastic'.",
            system.square_bytes,
        )
    most = probes if method == "stochastic" else max(probes, DIRECT_ROWS)
    return system, probes, method == "direct" or (len(system) <= most and system.direct_fits)
