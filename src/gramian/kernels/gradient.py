"""Kernels as functions of their log parameters, with gradients contracted with weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gramian._typing import Array, Float64Array
from gramian.exceptions import InputError
from gramian.kernels.base import Constant, Kernel, Product, Scaled, Sum, lengthscale_array
from gramian.kernels.families import Family
from gramian.kernels.input_gradient import kernel_values, power_slope, squared_distances, weighted_gradient
from gramian.kernels.mapped import Mapped, Periodic

#: Rows whose differences are held at a time, for distances that are not computed by a product. Chosen by
#: hand.
DIFFERENCE_ROWS = 64


def log_parameters(kernel: Kernel) -> Float64Array:
    """Return θ: the logarithms of a kernel's lengthscales, factors and periods, left before right.

    A factor comes before what it multiplies, a period after the kernel on its circle. A lengthscale or period
    gives one number, or one per feature if it is a tuple. Raises ``InputError`` for a kernel without a known
    gradient (a user's function, precomputed values, the cosine).

    >>> from gramian.kernels import Gaussian, Linear
    >>> np.exp(log_parameters(3.0 * Gaussian((1.0, 2.0)) + Linear(5.0))).round(6).tolist()
    [3.0, 1.0, 2.0, 5.0]
    """
    if isinstance(kernel, Scaled):
        return np.concatenate([[np.log(kernel.factor)], log_parameters(kernel.kernel)])
    if isinstance(kernel, Sum | Product):
        return np.concatenate([log_parameters(kernel.left), log_parameters(kernel.right)])
    if isinstance(kernel, Constant):
        return np.zeros(0)
    if isinstance(kernel, Mapped):
        own = np.log(np.atleast_1d(kernel.period)) if isinstance(kernel, Periodic) else np.zeros(0)
        return np.concatenate([log_parameters(kernel.kernel), own])
    return np.log(np.atleast_1d(np.asarray(_differentiable(kernel).lengthscale, np.float64)))


def with_log_parameters(kernel: Kernel, theta: Array) -> Kernel:
    """Return the kernel with the parameters exp(θ), in the order of :func:`log_parameters`.

    >>> from gramian.kernels import Gaussian
    >>> with_log_parameters(2.0 * Gaussian(1.0), np.log([5.0, 0.5])).kernel
    Gaussian(lengthscale=0.5)
    """
    rest = list(np.exp(np.asarray(theta, np.float64)))
    made = _filled(kernel, rest)
    if rest:
        raise InputError(
            f"theta has {len(np.asarray(theta))} numbers, {len(rest)} too many for {kernel!r}. Give as many "
            "as log_parameters(kernel) has."
        )
    return made


def contract(kernel: Kernel, X: Array, Z: Array, weights: Array) -> Float64Array:
    r"""Return Σ_ij w_ij ∂k(x_i, z_j)/∂θ_p for each log parameter θ_p, as a chain rule needs it.

    X : (n, d); Z : (m, d); weights : (n, m). In float64; time O(n m d) by products of matrices (by
    differences where p ≠ 2 in ‖x − z‖_p), memory O(n m).

    With S = w ∘ dk/d(r²), the entry of lengthscale f is −2/ℓ_f² Σ_ij S_ij (x_if − z_jf)²: two sums over rows
    and one product.
    """
    X, Z = np.asarray(X, np.float64), np.asarray(Z, np.float64)
    weights = np.asarray(weights, np.float64)
    if isinstance(kernel, Scaled):
        own = kernel.factor * float(np.vdot(weights, kernel_values(kernel.kernel, X, Z)))
        return np.concatenate([[own], contract(kernel.kernel, X, Z, kernel.factor * weights)])
    if isinstance(kernel, Sum):
        parts = [contract(part, X, Z, weights) for part in (kernel.left, kernel.right)]
        return np.concatenate(parts)
    if isinstance(kernel, Product):
        left = contract(kernel.left, X, Z, weights * kernel_values(kernel.right, X, Z))
        right = contract(kernel.right, X, Z, weights * kernel_values(kernel.left, X, Z))
        return np.concatenate([left, right])
    if isinstance(kernel, Constant):
        return np.zeros(0)
    if isinstance(kernel, Periodic) and len(Z):
        # Only differences count: angles about a common centre keep their digits far from the origin.
        X, Z = X - Z.mean(axis=0), Z - Z.mean(axis=0)
    if isinstance(kernel, Mapped):
        left, right = kernel.part(X), kernel.part(Z)
        found = contract(kernel.kernel, left, right, weights)
        if not isinstance(kernel, Periodic):
            return found
        by_x = weighted_gradient(kernel.kernel, left, right, np.ones((len(Z), 1)), weights)[:, :, 0]
        by_z = weighted_gradient(kernel.kernel, right, left, np.ones((len(X), 1)), weights.T)[:, :, 0]
        return np.concatenate([found, kernel.by_period(X, by_x) + kernel.by_period(Z, by_z)])
    family = _differentiable(kernel)
    scale = lengthscale_array(family.lengthscale, X.shape[1])
    each = _by_feature(family, X / scale, Z / scale, weights)
    return each if isinstance(family.lengthscale, tuple) else each.sum(keepdims=True)


def contracted_diagonal(kernel: Kernel, X: Array, weights: Array) -> Float64Array:
    """Return Σ_i w_i ∂k(x_i, x_i)/∂θ_p for each log parameter θ_p. X : (n, d); weights : (n,).

    On the diagonal a distance is 0 for any lengthscale, and a product is ‖x/ℓ‖². Time O(n d).

    >>> from gramian.kernels import Gaussian, Linear
    >>> contracted_diagonal(3.0 * Gaussian(2.0) + Linear(0.5), np.ones((1, 2)), np.ones(1)).tolist()
    [3.0, 0.0, -16.0]
    """
    X, weights = np.asarray(X, np.float64), np.asarray(weights, np.float64)
    if isinstance(kernel, Scaled):
        own = kernel.factor * float(weights @ kernel.kernel.diagonal(X))
        return np.concatenate([[own], contracted_diagonal(kernel.kernel, X, kernel.factor * weights)])
    if isinstance(kernel, Sum):
        return np.concatenate([contracted_diagonal(part, X, weights) for part in (kernel.left, kernel.right)])
    if isinstance(kernel, Product):
        left = contracted_diagonal(kernel.left, X, weights * kernel.right.diagonal(X))
        right = contracted_diagonal(kernel.right, X, weights * kernel.left.diagonal(X))
        return np.concatenate([left, right])
    if isinstance(kernel, Constant):
        return np.zeros(0)
    if isinstance(kernel, Mapped):  # a period changes no distance on the diagonal
        rest = np.zeros(np.size(kernel.period) if isinstance(kernel, Periodic) else 0)
        return np.concatenate([contracted_diagonal(kernel.kernel, kernel.part(X), weights), rest])
    family = _differentiable(kernel)
    slope, each = family.product_slope, np.zeros(X.shape[1])
    if slope is not None:
        square = np.square(X / lengthscale_array(family.lengthscale, X.shape[1]))
        each = -2.0 * (weights * slope(square.sum(axis=1))) @ square
    return each if isinstance(family.lengthscale, tuple) else each.sum(keepdims=True)


def _by_feature(kernel: Family, X: Float64Array, Z: Float64Array, weights: Float64Array) -> Float64Array:
    """Return the derivatives by each feature's log lengthscale, for points in units of the lengthscales."""
    power, dot = kernel.norm_power, kernel.product_slope
    if power is not None:
        return _by_differences(X, Z, weights * power_slope(kernel, X, Z), power)
    if dot is not None:
        return np.asarray(-2.0 * np.einsum("if,if->f", X, (weights * dot(X @ Z.T)) @ Z))
    center = Z.mean(axis=0) if len(Z) else np.zeros(Z.shape[1])
    X, Z = X - center, Z - center
    rule = kernel.radial_slope
    assert rule is not None  # checked by _differentiable
    slope = weights * rule(squared_distances(X, Z))
    down, along = slope.sum(axis=1), slope.sum(axis=0)
    return np.asarray(-2.0 * (down @ (X * X) + along @ (Z * Z) - 2.0 * np.einsum("if,if->f", X, slope @ Z)))


def _by_differences(X: Float64Array, Z: Float64Array, weighted: Float64Array, p: float) -> Float64Array:
    """Return Σ_ij v_ij |x_if − z_jf|^p for each feature."""
    out = np.zeros(X.shape[1])
    for start in range(0, len(X), DIFFERENCE_ROWS):
        part = slice(start, start + DIFFERENCE_ROWS)
        sizes = np.abs(X[part, None] - Z[None])
        out += np.einsum("ij,ijf->f", weighted[part], sizes if p == 1.0 else sizes**p)
    return out


def _filled(kernel: Kernel, rest: list[float]) -> Kernel:
    """Return the kernel with parameters taken from the front of ``rest``."""
    if isinstance(kernel, Scaled):
        factor = _next(rest, kernel)
        return Scaled(factor, _filled(kernel.kernel, rest))
    if isinstance(kernel, Sum | Product):
        left = _filled(kernel.left, rest)
        return type(kernel)(left, _filled(kernel.right, rest))
    if isinstance(kernel, Constant):
        return kernel
    if isinstance(kernel, Mapped):
        kernel = replace(kernel, kernel=_filled(kernel.kernel, rest))
        return (
            replace(kernel, period=_like(kernel.period, rest, kernel))
            if isinstance(kernel, Periodic)
            else kernel
        )
    family = _differentiable(kernel)
    return replace(family, lengthscale=_like(family.lengthscale, rest, kernel))


def _like(before: float | tuple[float, ...], rest: list[float], kernel: Kernel) -> float | tuple[float, ...]:
    """Return as many of the next parameters as there were before."""
    return tuple(_next(rest, kernel) for _ in before) if isinstance(before, tuple) else _next(rest, kernel)


def _next(rest: list[float], kernel: Kernel) -> float:
    if not rest:
        raise InputError(f"theta is too short for {kernel!r}. Give as many numbers as log_parameters has.")
    return float(rest.pop(0))


def _differentiable(kernel: Kernel) -> Family:
    if isinstance(kernel, Family) and kernel.has_gradient:
        return kernel
    raise InputError(
        f"{kernel!r} has no known gradient with respect to its parameters, so they cannot be learned. Use "
        "a kernel such as gm.Gaussian() (not Cosine), or sums, products and multiples of such, or keep "
        "the parameters fixed."
    )
