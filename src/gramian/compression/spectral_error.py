"""Spectral error ‖K − K̃‖₂ by block Lanczos on products with K, with lower and upper bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg as la

from gramian._typing import Float64Array
from gramian.compression.residual import Residual
from gramian.data.source import sample_rows

#: Columns of a Lanczos block; each tile of K is evaluated once for all of them. Chosen by hand.
BLOCK = 4
#: Allowed probability that the upper bound is too low.
FAILURE = 0.05
#: Products with K that turn K̃'s leading eigenvector towards K's, to estimate ‖K‖₂. Chosen by hand.
POWER_STEPS = 2

Multiply = Callable[[Float64Array], Float64Array]


class SpectralError(float):
    """‖K − K̃‖₂ as a number with bounds.

    ``low`` ≤ ‖K − K̃‖₂ is certain: it is ‖Ev‖/‖v‖ for a vector v, with E = K − K̃. ``high`` ≥ ‖K − K̃‖₂
    holds with probability 95 % over the random start. If only ``n_rows`` of n rows were used, the number is
    n/n_rows times the norm of that principal submatrix. This estimate suits errors that are spread over all
    rows and is too large for local ones; ``low`` is the submatrix's own bound and still certain, and ``high``
    is infinite. ``norm`` is ‖K‖₂, estimated from below and scaled in the same way; ``relative`` is the ratio
    of the two norms. ``iterations`` counts the products with E.
    """

    low: float
    high: float
    norm: float
    iterations: int
    n_rows: int

    def __new__(
        cls, value: float, low: float, high: float, norm: float, iterations: int, n_rows: int
    ) -> SpectralError:
        """Make the number and attach its evidence."""
        self = super().__new__(cls, value)
        self.low, self.high, self.norm = low, high, norm
        self.iterations, self.n_rows = iterations, n_rows
        return self

    @property
    def relative(self) -> float:
        """‖K − K̃‖₂/‖K‖₂."""
        return float(self) / self.norm if self.norm > 0 else 0.0

    def __repr__(self) -> str:
        return f"{float(self):.4g} in [{self.low:.4g}, {self.high:.4g}] ({self.n_rows} rows)"

    def __reduce__(self) -> tuple[type[SpectralError], tuple[float, float, float, float, int, int]]:
        arguments = float(self), self.low, self.high, self.norm, self.iterations, self.n_rows
        return SpectralError, arguments


def spectral_error(
    residual: Residual, *, n_rows: int | None, tol: float, rng: np.random.Generator
) -> SpectralError:
    r"""Estimate ‖E‖₂ for E = K − K̃ on all rows, or on ``n_rows`` of them drawn without replacement.

    Block Lanczos with full reorthogonalisation makes k products with E from b = 4 Gaussian columns. The
    extreme Ritz values θ and the eigenvalues λ of E satisfy

        P(λ_1 − θ_1 > ε (λ_1 − λ_n)) ≤ (1.648 √n exp(−√ε (2k − 1)))^b

    and the same at the lower end; the power b means that b independent starts must all fail. So k is chosen
    for ε = tol/(2 (1 + tol)) at 2.5 % on either side, which gives high ≤ (1 + tol)·low. For at most b·k rows,
    E is multiplied with the identity and low = high.

    Time O(n² d + n² b) for each of k ≈ log(n)/√(2 tol) products, memory O(n (r + d + b k)).
    Source: Kuczyński and Woźniakowski (1992), Theorem 4.2 and its shift invariance.
    """
    n = residual.n_rows
    m = n if n_rows is None else min(n_rows, n)
    rows = sample_rows(residual.source, m, rng)[0]
    rows = rows.astype(np.float64, copy=False)
    operator = residual.on(rows).operator()
    kernel, threads = residual.features.kernel, residual.engine.n_jobs

    def exact(values: Float64Array) -> Float64Array:
        return np.asarray(kernel.matvec(rows, None, values, n_jobs=threads), np.float64)

    steps, epsilon = _steps(m, tol)
    error = _extremes(lambda v: exact(v) - operator @ v, m, steps, rng)
    low = error.norm
    high = low
    if error.products > 1:
        # 1 − 2ε > 0: the Ritz values' own spread gives the spread of E up to this factor.
        margin = epsilon * (error.top - error.bottom) / (1.0 - 2.0 * epsilon)
        high = max(low, error.top + margin, -error.bottom + margin)
    leading = _extremes(lambda v: operator @ v, m, steps, rng).vector
    norm = 0.0
    for _ in range(POWER_STEPS):
        image = exact(leading)
        norm = max(norm, float(la.norm(image) / la.norm(leading)))
        leading = image if image.any() else leading
    scale = n / m
    return SpectralError(scale * low, low, high if m == n else np.inf, scale * norm, error.products, m)


class _Extremes:
    """Extreme Ritz values of a symmetric operator on a Krylov space, and a lower bound of its norm."""

    def __init__(self, basis: Float64Array, images: Float64Array, products: int) -> None:
        projected = basis.T @ images
        values, vectors = la.eigh((projected + projected.T) / 2, check_finite=False)
        self.top, self.bottom, self.products = float(values[-1]), float(values[0]), products
        self.vector = basis @ vectors[:, -1]
        # ‖E v‖/‖v‖ for the v in the space with the largest ratio; valid even if orthogonality was lost.
        longest = la.svd(images, full_matrices=False, check_finite=False)[2][0]
        self.norm = float(la.norm(images @ longest) / la.norm(basis @ longest))


def _extremes(multiply: Multiply, n: int, steps: int, rng: np.random.Generator) -> _Extremes:
    if n <= BLOCK * steps:
        return _Extremes(np.eye(n), multiply(np.eye(n)), 1)
    block = _orthonormal(rng.standard_normal((n, BLOCK)))
    basis, images = np.empty((n, 0)), np.empty((n, 0))
    for _ in range(steps):
        image = multiply(block)
        basis, images = np.hstack([basis, block]), np.hstack([images, image])
        block = image
        for _ in range(2):  # two rounds suffice
            block = _orthonormal(block - basis @ (basis.T @ block))
    return _Extremes(basis, images, steps)


def _orthonormal(columns: Float64Array) -> Float64Array:
    return np.asarray(la.qr(columns, mode="economic", check_finite=False)[0], np.float64)


def _steps(n: int, tol: float) -> tuple[int, float]:
    """Return the number of products k for the tolerance, and the ε that k products reach."""
    reach = float(np.log(1.648 * np.sqrt(n)) + np.log(2.0 / FAILURE) / BLOCK)
    steps = int(np.ceil((reach / np.sqrt(tol / (2.0 * (1.0 + tol))) + 1.0) / 2.0))
    return steps, (reach / (2.0 * steps - 1.0)) ** 2
