"""Gradients of expansions Σ_j κ_j k(x, z_j) with respect to x, in closed form for every family."""

from __future__ import annotations

import numpy as np

from gramian._numerics import distance_error, unit_roundoff
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, Rows
from gramian.exceptions import InputError
from gramian.kernels.base import Constant, Kernel, Product, Scaled, Sum, as_rows, lengthscale_array
from gramian.kernels.cityblock import minkowski
from gramian.kernels.columns import dense
from gramian.kernels.dot_products import Cosine
from gramian.kernels.families import Family, Map
from gramian.kernels.mapped import Mapped, OnFeatures, Periodic
from gramian.kernels.powered import PoweredExponential

#: Rows and points of one tile, whose few float64 blocks stay in a core's cache. Chosen by hand.
TILE_ROWS, TILE_POINTS = 128, 1024
#: Rows and points of a tile of a distance that is not computed by a product, which needs a block per feature.
#: Chosen by hand.
SMALL_ROWS, SMALL_POINTS = 32, 512


def has_input_gradient(kernel: Kernel) -> bool:
    """Return whether a kernel has an input gradient here: any family, sums, products, multiples."""
    if isinstance(kernel, Scaled | Mapped):
        return has_input_gradient(kernel.kernel)
    if isinstance(kernel, Sum | Product):
        return has_input_gradient(kernel.left) and has_input_gradient(kernel.right)
    return isinstance(kernel, Cosine | Constant) or (isinstance(kernel, Family) and kernel.has_gradient)


def input_gradient(kernel: Kernel, X: Rows, Z: Rows, coefficients: Array) -> Float64Array:
    r"""Return the gradients of f_o(x) = Σ_j κ_jo k(x, z_j) at rows X, shape (n, d, outputs), in float64.

    For a kernel of r² = ‖(x − z)/ℓ‖² with S_ij = dk/d(r²), the gradient is
    2/ℓ_f² (x_if (Sκ_o)_i − (S (κ_o ∘ z_·f))_i): two products per output. For the Laplacian it is
    −Σ_j κ_jo k_ij sign(x_if − z_jf)/ℓ_f, computed feature by feature; other kernels of ‖x − z‖_p have a power
    of |x_f − z_f| in addition. A product of kernels is differentiated factor by factor.

    At a kink (r = 0, or x_f = z_f for the Laplacian) the term counts as 0, the mean of the slopes on both
    sides. Rows are rounded to the precision of the points, so that equal values stay equal; if the slope is
    infinite, points also count as equal when rounding cannot distinguish r from 0.

    Parameters
    ----------
    kernel : any family, and sums, products and positive multiples of them
    X : (n, d) rows, dense or CSR; Z : (m, d) points
    coefficients : κ, (m, outputs), or (m,) for one output

    Returns
    -------
    (n, d, outputs)

    Time O(n m d outputs) by matrix products (for p ≠ 2 feature by feature, about ten times slower); memory
    for the result, Z in float64 and one tile.

    Raises
    ------
    InputError
        For a function kernel or precomputed values, which have no formula in x, and for shapes that do not
        fit.

    >>> import numpy as np, gramian as gm
    >>> X, Z = np.array([[0.0, 1.0]]), np.array([[1.0, 1.0]])
    >>> input_gradient(gm.Gaussian(2.0), X, Z, np.ones((1, 1)))[0, :, 0].round(4).tolist()
    [0.2206, 0.0]
    """
    X, Z = as_rows(X, "X"), as_rows(Z, "Z")
    kappa = np.asarray(coefficients, np.float64)
    kappa = kappa[:, None] if kappa.ndim == 1 else kappa
    if X.shape[1] != Z.shape[1] or kappa.ndim != 2 or len(kappa) != Z.shape[0]:
        raise InputError(
            f"X has shape {X.shape}, Z {Z.shape} and coefficients {np.shape(coefficients)}; expected (n, d), "
            "(m, d) and (m, outputs). Pass one row of coefficients for each point of Z."
        )
    if not has_input_gradient(kernel):
        raise InputError(
            f"{kernel!r} has no known gradient with respect to its rows: it is not built from gramian's "
            "families. Use one of these, such as gm.Gaussian(), or sums, products and multiples of such."
        )
    points = dense(Z, np.float64)
    out = np.zeros((X.shape[0], points.shape[1], kappa.shape[1]))
    held = np.float32 if Z.dtype == np.float32 else np.float64
    for rows in row_slices(X.shape[0], TILE_ROWS):
        part = dense(X[rows], np.float64)
        if np.abs(part).max(initial=0.0) < np.finfo(held).max:
            part = part.astype(held).astype(np.float64)
        for some in row_slices(len(points), TILE_POINTS):
            out[rows] += weighted_gradient(kernel, part, points[some], kappa[some], None, unit_roundoff(held))
    return out


def weighted_gradient(
    kernel: Kernel,
    X: Float64Array,
    Z: Float64Array,
    kappa: Float64Array,
    weights: Float64Array | None,
    unit: float = 0.0,
) -> Float64Array:
    """Return Σ_j w_ij κ_jo ∂k(x_i, z_j)/∂x_i, shape (rows, d, outputs); ``weights=None`` is 1.

    unit : roundoff of the precision in which the points were computed.
    """
    if isinstance(kernel, Scaled):
        return kernel.factor * weighted_gradient(kernel.kernel, X, Z, kappa, weights, unit)
    if isinstance(kernel, Sum):
        return weighted_gradient(kernel.left, X, Z, kappa, weights, unit) + weighted_gradient(
            kernel.right, X, Z, kappa, weights, unit
        )
    if isinstance(kernel, Product):
        beside_left = _weighted(kernel_values(kernel.right, X, Z), weights)
        beside_right = _weighted(kernel_values(kernel.left, X, Z), weights)
        left = weighted_gradient(kernel.left, X, Z, kappa, beside_left, unit)
        return left + weighted_gradient(kernel.right, X, Z, kappa, beside_right, unit)
    if isinstance(kernel, Constant):
        return np.zeros((*X.shape, kappa.shape[1]))
    if isinstance(kernel, Periodic):
        slopes = weighted_gradient(kernel.kernel, kernel.part(X), kernel.part(Z), kappa, weights, unit)
        return kernel.by_row(X, slopes)
    if isinstance(kernel, OnFeatures):
        whole = np.zeros((*X.shape, kappa.shape[1]))
        whole[:, kernel.features] = weighted_gradient(
            kernel.kernel, kernel.part(X), kernel.part(Z), kappa, weights, unit
        )
        return whole
    assert isinstance(kernel, Family)  # checked by has_input_gradient
    scale = lengthscale_array(kernel.lengthscale, X.shape[1])
    X, Z = X / scale, Z / scale
    power, slope, dot = kernel.norm_power, kernel.radial_slope, kernel.product_slope
    if power is not None:
        gradient = _by_features(X, Z, kappa, _weighted(-power_slope(kernel, X, Z), weights), power)
    elif slope is not None:
        gradient = _of_squares(slope, X, Z, kappa, weights, unit)
    elif dot is not None:
        gradient = _against(_weighted(dot(X @ Z.T), weights), Z, kappa)
    else:
        gradient = _of_angles(X, Z, kappa, weights)
    gradient /= scale[:, None]
    return gradient


def _weighted(block: Float64Array, weights: Float64Array | None) -> Float64Array:
    return block if weights is None else block * weights


def _against(slope: Float64Array, Z: Float64Array, kappa: Float64Array) -> Float64Array:
    """Return Σ_j S_ij κ_jo z_jf, by one product per output."""
    out = np.empty((len(slope), Z.shape[1], kappa.shape[1]))
    for o in range(kappa.shape[1]):
        out[:, :, o] = slope @ (kappa[:, o, None] * Z)
    return out


def _of_squares(
    slope_of: Map,
    X: Float64Array,
    Z: Float64Array,
    kappa: Float64Array,
    weights: Float64Array | None,
    unit: float,
) -> Float64Array:
    """Return 2 Σ_j S_ij κ_jo (x_if − z_jf) for points in units of the lengthscale."""
    center = Z.mean(axis=0)
    # Points nearer than rounding can resolve count as equal: a slope of 1/r would amplify noise.
    stored = np.square((2.0 + np.sqrt(Z.shape[1])) * unit) * np.einsum("jf,jf->j", Z, Z)
    X, Z = X - center, Z - center
    square = squared_distances(X, Z)
    norms = np.einsum("jf,jf->j", Z, Z)
    square[square <= np.maximum(distance_error(norms, Z.shape[1], np.float64), stored)] = 0.0
    slope = _weighted(slope_of(square), weights)
    gradient = X[:, :, None] * (slope @ kappa)[:, None, :]
    gradient -= _against(slope, Z, kappa)
    gradient *= 2.0
    return gradient


def _by_features(
    X: Float64Array, Z: Float64Array, kappa: Float64Array, values: Float64Array, p: float
) -> Float64Array:
    """Return Σ_j v_ij κ_jo |x_if − z_jf|^(p − 1) sign(x_if − z_jf), in small tiles."""
    out = np.zeros((len(X), X.shape[1], kappa.shape[1]))
    for rows in row_slices(len(X), SMALL_ROWS):
        for some in row_slices(len(Z), SMALL_POINTS):
            block, weights = values[rows, some], kappa[some]
            steps = np.empty_like(block)
            for f in range(X.shape[1]):
                np.subtract(X[rows, f, None], Z[some, f], out=steps)
                signs = np.sign(steps)
                if p != 1.0:
                    # At a kink with p < 1 the slopes on both sides are infinite and cancel.
                    np.abs(steps, out=steps)
                    np.power(steps, p - 1.0, out=steps, where=steps > 0)
                    signs *= steps
                signs *= block
                out[rows, f] += signs @ weights
    return out


def _of_angles(
    X: Float64Array, Z: Float64Array, kappa: Float64Array, weights: Float64Array | None
) -> Float64Array:
    """Return Σ_j w_ij κ_jo (ẑ_j − cos_ij x̂_i)/‖x_i‖; 0 for rows of zeros."""
    sizes, others = np.linalg.norm(X, axis=1), np.linalg.norm(Z, axis=1)
    inverse = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    Z = Z * np.divide(1.0, others, out=np.zeros_like(others), where=others > 0)[:, None]
    X = X * inverse[:, None]
    cosines = _weighted(X @ Z.T, weights)
    ones = np.ones_like(cosines) if weights is None else weights
    gradient = _against(ones, Z, kappa) - X[:, :, None] * (cosines @ kappa)[:, None, :]
    return np.asarray(gradient * inverse[:, None, None])


def power_slope(kernel: Family, X: Float64Array, Z: Float64Array) -> Float64Array:
    """Return −p dk/ds, s = Σ_f |x_f − z_f|^p, for points in units of ℓ; 0 at s = 0. Shape (n, m).

    k = exp(−s^(q/p)) has −dk/ds = (q/p) s^(q/p − 1) k.
    """
    power = kernel.norm_power
    assert power is not None
    q = kernel.q if isinstance(kernel, PoweredExponential) else 1.0
    s = minkowski(X, Z, np.ones(1), power) ** power
    safe = np.where(s > 0, s, 1.0)
    k = np.exp(-(safe ** (q / power)))
    return np.where(s > 0, q * safe ** (q / power - 1.0) * k, 0.0)


def kernel_values(kernel: Kernel, X: Float64Array, Z: Float64Array) -> Float64Array:
    """Return k(X, Z) in float64, also on the diagonal by the formula of the block."""
    return np.asarray(kernel.against(Z, np.float64)(X), np.float64)


def squared_distances(X: Float64Array, Z: Float64Array) -> Float64Array:
    """Return ‖x_i − z_j‖² ≥ 0 by one product, shape (n, m); the rows should be centred."""
    square = X @ Z.T
    square *= -2.0
    square += np.einsum("if,if->i", X, X)[:, None]
    square += np.einsum("jf,jf->j", Z, Z)
    return np.clip(square, 0.0, np.inf, out=square)
