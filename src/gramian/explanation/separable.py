"""Kernels that are sums of products over the coordinates, taken apart into the factors of each player."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.kernels import Gaussian, Kernel, Laplacian, PoweredExponential
from gramian.kernels.base import Constant, Product, Scaled, Sum, lengthscale_array
from gramian.kernels.families import Family


@dataclass(frozen=True)
class ProductTerm:
    """scale · exp(−Σ over (p, s) in ``powers`` of Σ_i (s_i |x_i − z_i|)^p): a factor for each coordinate."""

    scale: float
    powers: tuple[tuple[float, Float64Array], ...] = ()

    def factors(self, X: Array, Z: Array, places: IntArray) -> Float64Array:
        """Return the product of the factors of some coordinates, of rows (n, d) and points (m, d); (n, m)."""
        exponent = np.zeros((len(X), len(Z)))
        for power, scales in self.powers:
            for i in places[scales[places] > 0]:
                step = np.abs(np.subtract.outer(X[:, i], Z[:, i], dtype=np.float64))
                step *= scales[i]
                exponent -= np.square(step, out=step) if power == 2.0 else step**power
        return np.exp(exponent, out=exponent)


def product_terms(kernel: Kernel, n_features: int) -> tuple[ProductTerm, ...]:
    """Return the terms whose sum the kernel is; none for a kernel that is no sum of such products."""
    if isinstance(kernel, Constant):
        return (ProductTerm(1.0),)
    if isinstance(kernel, Scaled):
        inner = product_terms(kernel.kernel, n_features)
        return tuple(replace(term, scale=kernel.factor * term.scale) for term in inner)
    if isinstance(kernel, Sum | Product):
        left, right = (product_terms(part, n_features) for part in (kernel.left, kernel.right))
        if isinstance(kernel, Product):
            return tuple(ProductTerm(a.scale * b.scale, a.powers + b.powers) for a in left for b in right)
        return left + right if left and right else ()
    if isinstance(kernel, Gaussian):
        return _term(kernel, 2.0, np.sqrt(0.5), n_features)
    if isinstance(kernel, Laplacian):
        return _term(kernel, 1.0, 1.0, n_features)
    if isinstance(kernel, PoweredExponential) and kernel.p == kernel.q:
        return _term(kernel, kernel.p, 1.0, n_features)
    return ()


def _term(kernel: Family, power: float, factor: float, n_features: int) -> tuple[ProductTerm]:
    """Return the one term of a kernel exp(−Σ_i (factor |x_i − z_i|/ℓ_i)^power)."""
    scales = factor / lengthscale_array(kernel.lengthscale, n_features)
    return (ProductTerm(1.0, ((power, np.broadcast_to(scales, (n_features,))),)),)
