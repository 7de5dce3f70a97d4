"""Kernels as functions of their log parameters: gradients contracted with weights, also of stacks of sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from gramian._typing import Array, Float64Array, FloatArray
from gramian.exceptions import InputError
from gramian.kernels.base import Constant, Kernel, Product, Scaled, Sum, lengthscale_array
from gramian.kernels.families import EuclideanKernel, Family
from gramian.kernels.input_gradient import kernel_values, power_slope, squared_distances, weighted_gradient
from gramian.kernels.mapped import Mapped, Periodic

#: Names of the parameters that are tuned.
TUNED = ("factor", "lengthscale", "period")
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
    logs = [
        log_parameters(value) if isinstance(value, Kernel) else np.log(np.atleast_1d(value))
        for value in _tuned(kernel).values()
    ]
    return np.concatenate([np.zeros(0), *logs])


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
    of_part = partial(_contract_part, X, Z)
    return chained(kernel, np.asarray(weights, np.float64), lambda part: kernel_values(part, X, Z), of_part)


def chained(
    kernel: Kernel,
    weights: Array,
    values: Callable[[Kernel], Array],
    of_part: Callable[[Kernel, Array], Array],
) -> Float64Array:
    """Return Σ w ∂k/∂θ_p of each log parameter by the chain rule, through multiples, sums and products.

    ``values`` gives the values of a part, ``of_part`` the sums of a part that is none of these.
    """
    if isinstance(kernel, Scaled):
        own = kernel.factor * float(np.vdot(weights, values(kernel.kernel)))
        return np.append(own, chained(kernel.kernel, kernel.factor * weights, values, of_part))
    if isinstance(kernel, Sum | Product):
        parts = []
        for part, other in ((kernel.left, kernel.right), (kernel.right, kernel.left)):
            factor = weights * values(other) if isinstance(kernel, Product) else weights
            parts.append(chained(part, factor, values, of_part))
        return np.concatenate(parts)
    return np.zeros(0) if isinstance(kernel, Constant) else np.asarray(of_part(kernel, weights))


def _contract_part(X: Float64Array, Z: Float64Array, kernel: Kernel, weights: Array) -> Float64Array:
    if isinstance(kernel, Periodic) and len(Z):
        # Only differences count: angles about a common centre keep their digits far from the origin.
        X, Z = X - Z.mean(axis=0), Z - Z.mean(axis=0)
    if isinstance(kernel, Mapped):
        left, right = kernel.part(X), kernel.part(Z)
        slopes = contract(kernel.kernel, left, right, weights)
        if not isinstance(kernel, Periodic):
            return slopes
        by_x = weighted_gradient(kernel.kernel, left, right, np.ones((len(Z), 1)), weights)[:, :, 0]
        by_z = weighted_gradient(kernel.kernel, right, left, np.ones((len(X), 1)), weights.T)[:, :, 0]
        return np.concatenate([slopes, kernel.by_period(X, by_x) + kernel.by_period(Z, by_z)])
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
    X = np.asarray(X, np.float64)

    def of_part(part: Kernel, weights: Array) -> Array:
        if isinstance(part, Mapped):  # a period changes no distance on the diagonal
            rest = np.zeros(np.size(part.period) if isinstance(part, Periodic) else 0)
            return np.concatenate([contracted_diagonal(part.kernel, part.part(X), weights), rest])
        family = _differentiable(part)
        slope, each = family.product_slope, np.zeros(X.shape[1])
        if slope is not None:
            square = np.square(X / lengthscale_array(family.lengthscale, X.shape[1]))
            each = -2.0 * (weights * slope(square.sum(axis=1))) @ square
        return each if isinstance(family.lengthscale, tuple) else each.sum(keepdims=True)

    return chained(kernel, np.asarray(weights, np.float64), lambda part: part.diagonal(X), of_part)


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

    def fill(value: Any) -> Any:
        if isinstance(value, Kernel):
            return _filled(value, rest)
        if isinstance(value, tuple):
            return tuple(map(fill, value))
        if not rest:
            raise InputError(
                f"theta is too short for {kernel!r}. Give as many numbers as log_parameters has."
            )
        return float(rest.pop(0))

    filled = {name: fill(value) for name, value in _tuned(kernel).items()}
    return replace(kernel, **filled)  # type: ignore[type-var]


def _tuned(kernel: Kernel) -> dict[str, Any]:
    """Return the parameters and the parts of a kernel by their names, in the order of θ."""
    if not isinstance(kernel, Scaled | Sum | Product | Mapped | Constant):
        _differentiable(kernel)
    named = {field.name: getattr(kernel, field.name) for field in fields(kernel)}  # type: ignore[arg-type]
    return {name: value for name, value in named.items() if name in TUNED or isinstance(value, Kernel)}


def _differentiable(kernel: Kernel) -> Family:
    if isinstance(kernel, Family) and kernel.has_gradient:
        return kernel
    raise InputError(
        f"{kernel!r} has no known gradient with respect to its parameters, so they cannot be learned. Use "
        "a kernel such as gm.Gaussian() (not Cosine), or sums, products and multiples of such, or keep "
        "the parameters fixed."
    )


def stacked_grams(kernel: Kernel, points: Array, dtype: DTypeLike = np.float64) -> FloatArray:
    """Return k(x_i, x_j) within each set of points, shape (b, m, m), in ``dtype``.

    points : (b, m, d), b sets of m rows. Kernels of Euclidean distances, their sums, products and multiples
    are evaluated for all sets together, by products about the first point of each set, so that distances
    keep their digits where a set is small beside its distance from the origin. Other kernels are evaluated
    set by set. Time O(b m² d), memory twice the result.

    >>> from gramian.kernels import Gaussian
    >>> stacked_grams(Gaussian(1.0), np.zeros((2, 3, 1))).shape
    (2, 3, 3)
    """
    if isinstance(kernel, Scaled):
        out = stacked_grams(kernel.kernel, points, dtype)
        out *= kernel.factor
        return out
    if isinstance(kernel, Sum | Product):
        out = stacked_grams(kernel.left, points, dtype)
        combine = np.add if isinstance(kernel, Sum) else np.multiply
        return np.asarray(combine(out, stacked_grams(kernel.right, points, dtype), out=out))
    if isinstance(kernel, EuclideanKernel):
        return _euclidean(kernel, points, np.dtype(dtype))
    made = np.empty((*points.shape[:2], points.shape[1]), dtype)
    for rows, tile in zip(points, made, strict=True):
        tile[:] = kernel(rows, dtype=np.float64, n_jobs=1)
    return made


def _euclidean(kernel: EuclideanKernel, points: Array, dtype: np.dtype[Any]) -> FloatArray:
    scale = np.sqrt(abs(kernel.distance_factor)) / lengthscale_array(kernel.lengthscale, points.shape[2])
    with np.errstate(over="ignore", invalid="ignore"):
        about = np.asarray((points - points[:, :1]) * scale, dtype)
        norms = np.einsum("bmd,bmd->bm", about, about)
        tile = about @ about.transpose(0, 2, 1)
        tile *= -2.0
        tile += norms[:, :, None]
        tile += norms[:, None, :]
    if not np.isfinite(norms).all():
        tile[~np.isfinite(tile)] = np.inf  # a distance that overflows
    np.maximum(tile, 0.0, out=tile)
    diagonal = np.arange(points.shape[1])
    tile[:, diagonal, diagonal] = 0.0
    if kernel.distance_factor < 0:
        np.negative(tile, out=tile)
    kernel.map_tile(tile)
    return np.asarray(tile)


def stacked_contraction(
    kernel: Kernel, points: Array, weights: Float64Array, values: FloatArray | None = None
) -> Float64Array:
    r"""Return Σ_b Σ_ij w_bij ∂k(x_bi, x_bj)/∂θ_p for each log parameter θ_p, over a stack of sets of points.

    points : (b, m, d); weights : (b, m, m), symmetric; values : the kernel's, if they are at hand. This is
    :func:`contract` of each set, summed; in float64. Time O(b m² d), memory a few
    times the weights.
    """
    if isinstance(kernel, Scaled):
        own = float(np.vdot(weights, stacked_grams(kernel, points) if values is None else values))
        return np.append(own, stacked_contraction(kernel.kernel, points, kernel.factor * weights))
    return chained(
        kernel, weights, lambda part: stacked_grams(part, points), partial(_contract_stack, points)
    )


def _contract_stack(points: Array, kernel: Kernel, weights: Float64Array) -> Float64Array:
    slope = kernel.radial_slope if isinstance(kernel, Family) else None
    if slope is None or not isinstance(kernel, Family):
        return np.asarray(
            np.sum([contract(kernel, x, x, w) for x, w in zip(points, weights, strict=True)], axis=0)
        )
    x = (points - points[:, :1]) / lengthscale_array(kernel.lengthscale, points.shape[2])
    square = np.einsum("bmd,bmd->bm", x, x)
    distance = square[:, :, None] + square[:, None, :] - 2.0 * (x @ x.transpose(0, 2, 1))
    distance[:, np.arange(x.shape[1]), np.arange(x.shape[1])] = 0.0
    S = weights * slope(np.maximum(distance, 0.0))
    each = -4.0 * (np.einsum("bi,bif->f", S.sum(axis=2), x * x) - np.einsum("bif,bif->f", x, S @ x))
    per_feature = isinstance(kernel.lengthscale, tuple)
    return np.asarray(each if per_feature else each.sum(keepdims=True))
