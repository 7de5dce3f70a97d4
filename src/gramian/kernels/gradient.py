"""Kernels as functions of their log parameters, with gradients contracted with weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel, Product, Scaled, Sum, lengthscale_array
from gramian.kernels.groups import OnFeatures
from gramian.kernels.radial_derivatives import (
    OF_PRODUCTS,
    kernel_values,
    norm_power,
    of_squares,
    power_slope,
    squared_distances,
)

#: Rows whose differences are held at a time, for distances that are not computed by a product. Chosen by
#: hand.
DIFFERENCE_ROWS = 64


def log_parameters(kernel: Kernel) -> Float64Array:
    """Return θ: the logarithms of a kernel's lengthscales and factors, outer ones first, left before right.

    A lengthscale gives one number, or one per feature if it is a tuple. Raises ``InputError`` for a kernel
    without a known gradient (a user's function, precomputed values, the cosine).

    >>> from gramian.kernels import Gaussian, Linear
    >>> np.exp(log_parameters(3.0 * Gaussian((1.0, 2.0)) + Linear(5.0))).round(6).tolist()
    [3.0, 1.0, 2.0, 5.0]
    """
    if isinstance(kernel, Scaled):
        return np.concatenate([[np.log(kernel.factor)], log_parameters(kernel.kernel)])
    if isinstance(kernel, Sum | Product):
        return np.concatenate([log_parameters(kernel.left), log_parameters(kernel.right)])
    if isinstance(kernel, OnFeatures):
        return log_parameters(kernel.kernel)
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
    if isinstance(kernel, OnFeatures):
        return contract(kernel.kernel, kernel.part(X), kernel.part(Z), weights)
    scale = lengthscale_array(_differentiable(kernel).lengthscale, X.shape[1])
    each = _by_feature(kernel, X / scale, Z / scale, weights)
    return each if isinstance(kernel.lengthscale, tuple) else each.sum(keepdims=True)  # type: ignore[attr-defined]


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
    if isinstance(kernel, OnFeatures):
        return contracted_diagonal(kernel.kernel, kernel.part(X), weights)
    lengthscale = _differentiable(kernel).lengthscale
    each = np.zeros(X.shape[1])
    if type(kernel) in OF_PRODUCTS:
        square = np.square(X / lengthscale_array(lengthscale, X.shape[1]))
        each = -2.0 * (weights * OF_PRODUCTS[type(kernel)](kernel, square.sum(axis=1))) @ square
    return each if isinstance(lengthscale, tuple) else each.sum(keepdims=True)


def _by_feature(kernel: Kernel, X: Float64Array, Z: Float64Array, weights: Float64Array) -> Float64Array:
    """Return the derivatives by each feature's log lengthscale, for points in units of the lengthscales."""
    power = norm_power(kernel)
    if power is not None:
        return _by_differences(X, Z, weights * power_slope(kernel, X, Z), power)
    if type(kernel) in OF_PRODUCTS:
        slope = weights * OF_PRODUCTS[type(kernel)](kernel, X @ Z.T)
        return np.asarray(-2.0 * np.einsum("if,if->f", X, slope @ Z))
    center = Z.mean(axis=0) if len(Z) else np.zeros(Z.shape[1])
    X, Z = X - center, Z - center
    rule = of_squares(kernel)
    assert rule is not None  # checked by _differentiable
    slope = weights * rule(kernel, squared_distances(X, Z))
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
    if isinstance(kernel, OnFeatures):
        return OnFeatures(_filled(kernel.kernel, rest), kernel.features)
    before = _differentiable(kernel).lengthscale
    if isinstance(before, tuple):
        return replace(kernel, lengthscale=tuple(_next(rest, kernel) for _ in before))  # type: ignore[type-var]
    return replace(kernel, lengthscale=_next(rest, kernel))  # type: ignore[type-var]


def _next(rest: list[float], kernel: Kernel) -> float:
    if not rest:
        raise InputError(f"theta is too short for {kernel!r}. Give as many numbers as log_parameters has.")
    return float(rest.pop(0))


def _differentiable(kernel: Kernel) -> Any:
    if of_squares(kernel) is not None or norm_power(kernel) is not None or type(kernel) in OF_PRODUCTS:
        return kernel
    raise InputError(
        f"{kernel!r} has no known gradient with respect to its parameters, so they cannot be learned. Use a "
        "Gaussian, Exponential, PoweredExponential, Matern, RationalQuadratic, Cauchy, Laplacian, Linear or "
        "Polynomial kernel, their sums, products and multiples, or keep the parameters fixed."
    )
