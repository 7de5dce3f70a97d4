"""Traces and log-determinants from products with random vectors, each with its standard error."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import scipy.linalg as la

from gramian._numerics import rank_cutoff, unit_roundoff
from gramian._typing import Float64Array
from gramian.exceptions import AccuracyWarning, InputError, user_level

#: The quadrature stops once its own error is below this share of the standard error. Chosen by hand.
QUADRATURE_SHARE = 0.1
#: Steps over which the convergence of a quadrature is judged, because it falls in stairs rather than
#: steadily. Chosen by hand.
WINDOW = 4
#: Bound on the standard error of a mean of estimates that share their random vectors, relative to independent
#: ones: the space of the other vectors varies as much as the vector that tests it. Trials by hand gave 1.1 to
#: 1.4.
SHARED = float(np.sqrt(2.0))

Multiply = Callable[[Float64Array], Float64Array]


class StochasticValue(float):
    """A number with its ``standard_error``, which is 0 for an exact number.

    ``n_probes`` is the number of random vectors, ``products`` that of products of blocks of them with the
    matrix.
    """

    standard_error: float
    n_probes: int
    products: int

    def __new__(
        cls, value: float, standard_error: float = 0.0, n_probes: int = 0, products: int = 0
    ) -> StochasticValue:
        """Make the number and attach its evidence."""
        self = super().__new__(cls, value)
        self.standard_error = standard_error
        self.n_probes, self.products = n_probes, products
        return self

    def __repr__(self) -> str:
        if not self.standard_error:
            return f"{float(self):.6g}"
        return f"{float(self):.6g} ± {self.standard_error:.2g} ({self.n_probes} probes)"

    def __reduce__(self) -> tuple[type[StochasticValue], tuple[float, float, int, int]]:
        return StochasticValue, (float(self), self.standard_error, self.n_probes, self.products)


class LeaveOneOutTrace:
    r"""Leave-one-out estimates of trace and diagonal from products of A with m random vectors and their span.

    With Ω (n × m) of random signs, AΩ = QR and Z = AQ, the projector on the products of all vectors but the
    i-th is Q(I − s_i s_iᵀ)Qᵀ, with s_i the i-th column of R⁻ᵀ scaled to length 1. The part of A outside this
    projection is tested with ω_i, on which the projection does not depend. This gives m unbiased estimates,
    and their mean is the result. It is exact for A of low rank; the rest has the variance of a plain sample.

    Time two products with m columns and O(n m²), memory 5 n m numbers.

    Source: Epperly, Tropp and Webber 2024 (XTrace and XDiag), sections 2.1 and 2.4.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.diag(0.5 ** np.arange(50.0))
    >>> seen = LeaveOneOutTrace(lambda V: A @ V, 50, 12, np.random.default_rng(0))
    >>> bool(abs(seen.trace() - 2.0) < 4 * seen.trace().standard_error < 0.05)
    True
    """

    def __init__(self, multiply: Multiply, n: int, count: int, rng: np.random.Generator) -> None:
        if not 1 < count <= n:
            raise InputError(f"{count} random vectors of {n} rows: take 2 to {n}.")
        self._omega = rng.choice((-1.0, 1.0), (n, count))
        image = multiply(self._omega)
        q, triangle = la.qr(image, mode="economic", check_finite=False)
        self._q, self._r = np.asarray(q, np.float64), np.asarray(triangle, np.float64)
        sizes = la.svdvals(self._r, check_finite=False)
        #: Whether the span of the products holds all of A, so that no vector needs to be left out.
        self.exact = bool(sizes[-1] <= rank_cutoff(np.float64) * sizes[0])
        self._z = multiply(self._q)
        self._s = np.zeros_like(self._r)
        if not self.exact:
            lower = la.solve_triangular(self._r, np.eye(count), trans="T", check_finite=False)
            self._s = lower / la.norm(lower, axis=0)

    def trace(self) -> StochasticValue:
        """Return tr A."""
        count = self._r.shape[1]
        h = self._q.T @ self._z
        if self.exact:
            return StochasticValue(float(np.trace(h)), 0.0, count, 2)
        s, w = self._s, self._q.T @ self._omega
        x = w - s * np.einsum("ij,ij->j", s, w)
        tested = np.einsum("ij,ij->j", w - 2.0 * x, self._r) + np.einsum("ij,ij->j", x, h @ x)
        each = np.trace(h) - np.einsum("ij,ij->j", s, h @ s) + tested
        return StochasticValue(float(each.mean()), SHARED * _mean_error(each), count, 2)

    def diagonal(self) -> tuple[Float64Array, Float64Array]:
        """Return diag A and the standard error of each entry, both (n,)."""
        base = np.einsum("ij,ij->i", self._q, self._z)
        if self.exact:
            return base, np.zeros(len(base))
        along, image = self._q @ self._s, self._z @ self._s
        each = along * (self._omega * np.einsum("ij,ij->j", self._s, self._r) - image)
        error = SHARED * each.std(axis=1, ddof=1) / np.sqrt(each.shape[1])
        return base + each.mean(axis=1), np.asarray(error, np.float64)


def _mean_error(each: Float64Array) -> float:
    return float(each.std(ddof=1) / np.sqrt(len(each)))


def lanczos_quadrature(
    multiply: Multiply,
    precondition: Multiply,
    probes: Float64Array,
    function: Callable[[Float64Array], Float64Array],
    *,
    max_steps: int,
) -> StochasticValue:
    r"""Estimate tr f(M^(−1/2) A M^(−1/2)) for A, M symmetric positive definite from z ~ N(0, M).

    u = M^(−1/2) z has a uniform direction, so n·uᵀf(·)u/‖u‖² is unbiased. Lanczos in the inner product of
    M⁻¹, which needs only products with A and M⁻¹, gives T_j and Gauss's rule Σ_i τ_i² f(θ_i), where θ are the
    eigenvalues of T_j and τ the first entries of its eigenvectors. The Lanczos vectors are not kept: lost
    orthogonality only repeats converged θ, and the rule remains valid (Knizhnerman 1996).

    Stops once further steps, at the rate of the last ones, would change the mean by less than a tenth of its
    standard error or by rounding; warns if ``max_steps`` is reached first.

    probes : (n, p). Each step takes one product and one application of M⁻¹ to p columns; memory 6 n p
        numbers.

    Source: Ubaru, Chen and Saad 2017, Algorithm 1; Gardner, Pleiss, Bindel, Weinberger and Wilson 2018 for
    the preconditioner.
    """
    n, p = probes.shape
    if p < 2:
        raise InputError(f"{p} probe: take at least 2, because their spread gives the standard error.")
    v = np.array(probes)
    w = precondition(v)
    scale = np.sqrt(np.einsum("ij,ij->j", v, w))
    v, w = v / scale, w / scale
    before, beta = np.zeros_like(v), np.zeros(p)
    diagonal, off = np.zeros((p, max_steps)), np.zeros((p, max_steps))
    means: list[float] = []
    alive = np.ones(p, bool)
    each, missing, step = np.zeros(p), np.inf, 0
    largest = np.zeros(p)
    while step < max_steps:
        image = multiply(w)
        alpha = np.einsum("ij,ij->j", w, image)
        image -= alpha * v + beta * before
        inner = precondition(image)
        size = np.sqrt(np.maximum(np.einsum("ij,ij->j", image, inner), 0.0))
        # A probe whose Krylov space is exhausted continues with weight 0.
        diagonal[:, step] = np.where(alive, alpha, 1.0)
        largest = np.maximum(largest, np.abs(diagonal[:, step]) + size)
        alive &= size > unit_roundoff(np.float64) * n**0.5 * largest
        beta = np.where(alive, size, 0.0)
        off[:, step] = beta
        step += 1
        each = n * _gauss(diagonal[:, :step], off[:, : step - 1], function)
        means.append(float(each.mean()))
        missing = _missing(means, step >= n or not alive.any())
        enough = max(QUADRATURE_SHARE * _mean_error(each), unit_roundoff(np.float64) * n * abs(means[-1]))
        if missing <= enough:
            break
        inverse = np.divide(1.0, beta, out=np.zeros(p), where=beta > 0)
        before, v, w = v, image * inverse, inner * inverse
    else:
        warnings.warn(
            f"The log-determinant's quadrature stopped after {step} steps with an error of about "
            f"{missing:.2g} left, against a standard error of {_mean_error(each):.2g}. Raise alpha, or "
            "memory_budget for a better preconditioner.",
            AccuracyWarning,
            stacklevel=user_level(),
        )
    # The standard error includes the remaining error of the quadrature.
    error = float(np.hypot(_mean_error(each), missing))
    return StochasticValue(float(each.mean()), error, p, step)


def _gauss(
    diagonal: Float64Array, off: Float64Array, function: Callable[[Float64Array], Float64Array]
) -> Float64Array:
    """Return e₁ᵀ f(T) e₁ of each tridiagonal T, (p,)."""
    p, steps = diagonal.shape
    matrix = np.zeros((p, steps, steps))
    place = np.arange(steps)
    matrix[:, place, place] = diagonal
    matrix[:, place[1:], place[:-1]] = off
    values, vectors = np.linalg.eigh(matrix)  # reads the lower triangle
    least = float(values.min())
    if not least > 0:
        raise InputError(
            f"The matrix is not positive definite: a Ritz value is {least:.3g} times the preconditioner. "
            "Raise alpha, or take float64 tiles."
        )
    sums: Float64Array = np.einsum("ij,ij->i", vectors[:, 0] ** 2, function(values))
    return sums


def _missing(means: list[float], exhausted: bool) -> float:
    """Estimate the distance of the last mean from its limit, if changes go on falling at their rate."""
    if exhausted:
        return 0.0
    if len(means) <= WINDOW:
        return np.inf
    last, rate = abs(means[-1] - means[-1 - WINDOW]), 0.5
    if len(means) > 2 * WINDOW:
        previous = abs(means[-1 - WINDOW] - means[-1 - 2 * WINDOW])
        rate = max(rate, last / previous if previous > 0 else 1.0)
    if last == 0.0:
        return 0.0
    return last * rate / (1.0 - rate) if rate < 1.0 else np.inf
