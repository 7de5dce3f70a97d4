r"""The leave-one-out error of dense kernel ridge as a function of kernel and alpha, with its gradient.

With G = (K + alpha·W⁻¹)⁻¹ and a = G y, the residual of row i under the fit to all other rows is
e_i = a_i/G_ii. The gradient of L = Σ w_i e_i² is

    dL = Σ_ij M_ij dK_ij,   M = −2 (G c) aᵀ + 2 G diag(d) G,   c = w e/diag G,   d = c a/diag G,
    dL/d alpha = Σ_i M_ii/w_i.

An unpenalised intercept replaces G by G − G1 1ᵀG/(1ᵀG1): the limit of (K + c·11ᵀ + alpha·W⁻¹)⁻¹, so that
the gradient has the same form. Source: Rasmussen and Williams 2006, section 5.4.2.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from gramian._checks import positive_alpha
from gramian._lapack import inverse_of_factored
from gramian._numerics import cholesky_lower
from gramian._tiles import blas_for
from gramian._typing import Array, Float64Array
from gramian.exceptions import NumericalError
from gramian.kernels.base import Constant, Kernel, Product, Scaled, Sum
from gramian.kernels.gradient import contract, log_parameters, with_log_parameters
from gramian.kernels.mapped import OnFeatures, Periodic

#: Largest number of L-BFGS iterations; they stop earlier if the error falls by less than this share. By hand.
MAX_ITERATIONS, FALL = 60, 1e-5
#: Factors by which a kernel's parameters and alpha may differ from their start. Chosen by hand.
KERNEL_RANGE, ALPHA_RANGE = 1e3, 1e4
#: Height above the least error, in its logarithm, of points where the system can't be factored. By hand.
WALL = 10.0
#: Arrays of m × m numbers held at a time: K, its factor, G, M, a product and a temporary.
SQUARES = 6


@dataclass(frozen=True)
class ExactLeaveOneOut:
    """Leave-one-out error L = Σ w_i ‖e_i‖² and its gradient by the logs of kernel parameters and alpha."""

    loss: float
    by_kernel: Float64Array
    by_alpha: float
    residuals: Float64Array  #: e, shape (m, outputs)


def leave_one_out(
    kernel: Kernel,
    X: Array,
    Y: Float64Array,
    alpha: float,
    *,
    weights: Float64Array | None = None,
    intercept: bool = False,
) -> ExactLeaveOneOut:
    """Return the leave-one-out error of kernel ridge on these rows, summed over outputs.

    X : (m, d); Y : (m, outputs); weights : (m,), all > 0, None for ones. Time O(m³ + m² d), memory six
    m × m arrays. The kernel needs a gradient (:func:`gramian.kernels.gradient.log_parameters`).

    Examples
    --------
    >>> from gramian.kernels import Gaussian
    >>> X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [1.0], [0.0]])
    >>> leave_one_out(Gaussian(1.0), X, Y, 0.1).residuals[1].round(6)  # the others are 0
    array([1.])
    """
    alpha = positive_alpha(alpha)
    w = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
    with blas_for(len(X)):
        gram = np.asarray(kernel(X, dtype=np.float64, n_jobs=1), np.float64)
        system = 0.5 * (gram + gram.T)
        system.flat[:: len(X) + 1] += alpha / w
        lower, _ = cholesky_lower(system, "the kernel matrix K + alpha·I")
        G = inverse_of_factored(lower)
        if intercept:
            ones = G.sum(axis=0)
            G -= np.outer(ones, ones / ones.sum())
        a, g = G @ Y, G.diagonal().copy()
        e = a / g[:, None]
        c = w[:, None] * e / g[:, None]
        d = np.einsum("ip,ip->i", c, a) / g
        root = G * np.sqrt(2.0 * d)  # d = w e²/diag G is not negative
        M = root @ root.T  # by BLAS syrk, at half the cost of a general product
        M -= 2.0 * (G @ c) @ a.T
        # K and its derivative are symmetric.
        by_kernel = contract(kernel, X, X, M)
    loss = float(np.einsum("i,ip,ip->", w, e, e))
    return ExactLeaveOneOut(loss, by_kernel, alpha * float(np.sum(M.diagonal() / w)), e)


def per_feature(kernel: Kernel, n_features: int) -> Kernel:
    """Return the same kernel with one lengthscale per feature instead of one for all.

    >>> from gramian.kernels import Gaussian
    >>> per_feature(2.0 * Gaussian(3.0), 2).kernel
    Gaussian(lengthscale=(3.0, 3.0))
    """
    if isinstance(kernel, Scaled):
        return Scaled(kernel.factor, per_feature(kernel.kernel, n_features))
    if isinstance(kernel, Sum | Product):
        return type(kernel)(per_feature(kernel.left, n_features), per_feature(kernel.right, n_features))
    if isinstance(kernel, Constant | Periodic):  # the lengthscale of a circle is one number
        return kernel
    if isinstance(kernel, OnFeatures):
        return OnFeatures(per_feature(kernel.kernel, len(kernel.features)), kernel.features)
    log_parameters(kernel)  # raises for a kernel without log parameters
    before = kernel.lengthscale  # type: ignore[attr-defined]
    if isinstance(before, tuple):
        return kernel
    return replace(kernel, lengthscale=(float(before),) * n_features)  # type: ignore[type-var]


@dataclass(frozen=True)
class Refined:
    """Kernel and alpha at a local minimum of the leave-one-out error of some rows."""

    kernel: Kernel
    alpha: float
    before: float  #: mean squared leave-one-out error at the start, summed over outputs
    after: float
    evaluations: int
    n_rows: int


def refine_kernel(
    kernel: Kernel,
    X: Array,
    Y: Float64Array,
    alpha: float,
    *,
    weights: Float64Array | None = None,
    intercept: bool = False,
    max_iterations: int = MAX_ITERATIONS,
    prior: float | None = None,
    enough: float = 0.0,
    deadline: float = math.inf,
) -> Refined:
    """Minimise the leave-one-out error of these rows over the kernel's parameters and alpha.

    L-BFGS minimises the logarithm of the error, starting at ``kernel`` and ``alpha``. Parameters stay within
    a factor of 1,000 of their start, alpha within 10,000. ``prior`` is the deviation of a normal prior on the
    logarithm of each kernel parameter over its start: the error is taken as that of normal residuals. It ends
    early at a mean squared error of ``enough``, and at the time ``deadline`` of ``time.perf_counter``. Up to
    about 80 evaluations, each with time and memory of :func:`leave_one_out`.
    """
    mass = float(len(X) if weights is None else weights.sum())
    best: tuple[float, float, Float64Array] | None = None
    start = np.append(log_parameters(kernel), math.log(positive_alpha(alpha)))
    evaluations, before = 0, 0.0

    def objective(theta: Float64Array) -> tuple[float, Float64Array]:
        nonlocal best, evaluations, before
        try:
            errors = leave_one_out(
                with_log_parameters(kernel, theta[:-1]),
                X,
                Y,
                float(np.exp(theta[-1])),
                weights=weights,
                intercept=intercept,
            )
        except NumericalError:
            if best is None:
                raise
            # A wall that the line search turns back from.
            return best[0] + WALL, np.zeros_like(theta)
        if evaluations == 0:
            before = errors.loss
        evaluations += 1
        value = math.log(errors.loss) if errors.loss > 0.0 else -math.inf
        pull = np.zeros_like(theta)
        if prior is not None:
            # −2/m of the log density, beside the logarithm of the error.
            away = (theta - start)[:-1]
            value += float(away @ away) / (prior**2 * len(X))
            pull[:-1] = 2.0 * away / (prior**2 * len(X))
        if best is None or value < best[0]:
            best = value, errors.loss, theta.copy()
        if not errors.loss > 0.0:
            return -math.inf, np.zeros_like(theta)
        return value, np.append(errors.by_kernel, errors.by_alpha) / errors.loss + pull

    def ends(_: Float64Array) -> None:
        assert best is not None
        if best[1] <= enough * mass or time.perf_counter() > deadline:
            raise StopIteration

    reach = np.full(len(start), math.log(KERNEL_RANGE))
    reach[-1] = math.log(ALPHA_RANGE)
    first, _ = objective(start)
    if math.isfinite(first):
        minimize(  # type: ignore[call-overload]
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=ends,
            bounds=list(zip(start - reach, start + reach, strict=True)),
            options={"maxiter": max_iterations, "ftol": FALL, "maxls": 10},
        )
    assert best is not None
    _, loss, theta = best
    return Refined(
        with_log_parameters(kernel, theta[:-1]),
        float(np.exp(theta[-1])),
        before / mass,
        loss / mass,
        evaluations,
        len(X),
    )
