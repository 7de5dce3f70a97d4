"""Kernel matrices of many small sets of points at once, a stack of Gram matrices, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from gramian._typing import Array, Float64Array, FloatArray
from gramian.kernels.base import Kernel, Product, Scaled, Sum, lengthscale_array
from gramian.kernels.families import EuclideanKernel, Family
from gramian.kernels.gradient import contract


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
    :func:`gramian.kernels.gradient.contract` of each set, summed; in float64. Time O(b m² d), memory a few
    times the weights.
    """
    if isinstance(kernel, Scaled):
        own = float(np.vdot(weights, stacked_grams(kernel, points) if values is None else values))
        return np.append(own, stacked_contraction(kernel.kernel, points, kernel.factor * weights))
    if isinstance(kernel, Sum | Product):
        parts = []
        for part, other in ((kernel.left, kernel.right), (kernel.right, kernel.left)):
            factor = 1.0 if isinstance(kernel, Sum) else stacked_grams(other, points)
            parts.append(stacked_contraction(part, points, weights * factor))
        return np.concatenate(parts)
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
