"""Translation of the kernels of scikit-learn's Gaussian processes to the kernels here."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any, TypeGuard

import numpy as np
from sklearn.gaussian_process import kernels as sk

from gramian.exceptions import InputError
from gramian.kernels.base import Constant, Kernel
from gramian.kernels.dot_products import Polynomial
from gramian.kernels.families import Gaussian, Matern, RationalQuadratic
from gramian.kernels.mapped import Periodic
from gramian.kernels.resolve import WITHOUT_GAMMA, resolve_kernel

#: Most factors of a kernel's power, which is multiplied out. Chosen by hand.
MOST_FACTORS = 8

#: Advice for a kernel that has no counterpart.
_CURE = (
    "Use a kernel of gramian.kernels such as gm.Gaussian or gm.Matern, or sums, products and multiples of "
    "them; or pass lambda X, Z: kernel(X, Z), of which no parameter is learned."
)


def is_sklearn_kernel(kernel: object) -> TypeGuard[sk.Kernel]:
    """Return whether a kernel is an instance of ``sklearn.gaussian_process.kernels``."""
    return isinstance(kernel, sk.Kernel)


def translated(kernel: sk.Kernel, n_features: int) -> Kernel:
    """Return the kernel with the same values as one of scikit-learn's, for rows of so many features.

    RBF, Matern (ν of 1/2, 3/2, 5/2 or ∞), RationalQuadratic, ExpSineSquared of one feature, DotProduct,
    ConstantKernel, PairwiseKernel, sums, products and whole powers. Raises ``InputError`` for others, among
    them WhiteKernel, which is no function of the rows: see :func:`without_noise`.

    >>> translated(sk.ConstantKernel(2.0) * sk.RBF(3.0), 1)
    Scaled(factor=2.0, kernel=Gaussian(lengthscale=3.0))
    """
    kind = type(kernel)
    if kind is sk.Sum:
        return translated(kernel.k1, n_features) + translated(kernel.k2, n_features)
    if kind is sk.Product:
        for factor, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if type(factor) is sk.ConstantKernel:
                return float(factor.constant_value) * translated(other, n_features)
        return translated(kernel.k1, n_features) * translated(kernel.k2, n_features)
    if kind is sk.RBF or (kind is sk.Matern and np.isinf(kernel.nu)):
        return Gaussian(kernel.length_scale)
    if kind is sk.Matern:
        return Matern(kernel.length_scale, nu=kernel.nu)
    if kind is sk.RationalQuadratic:
        return RationalQuadratic(kernel.length_scale, shape=kernel.alpha)
    if kind is sk.DotProduct:
        return Polynomial(1.0, degree=1, offset=kernel.sigma_0**2)
    if kind is sk.Exponentiation and type(kernel.kernel) is sk.DotProduct:
        return Polynomial(1.0, degree=kernel.exponent, offset=kernel.kernel.sigma_0**2)
    if (
        kind is sk.Exponentiation
        and float(kernel.exponent).is_integer()
        and 1 <= kernel.exponent <= MOST_FACTORS
    ):
        return reduce(mul, [translated(kernel.kernel, n_features)] * int(kernel.exponent))
    if kind is sk.ExpSineSquared:
        if n_features > 1:
            raise InputError(
                f"kernel={kernel!r} of {n_features} features is a function of ‖x − z‖, and not positive "
                "semi-definite. Give gramian.kernels.Periodic, a product over the features, or OnFeatures of "
                "it for one of them."
            )
        return Periodic(Gaussian(kernel.length_scale), kernel.periodicity)
    if kind is sk.PairwiseKernel and isinstance(kernel.metric, str) and not kernel.pairwise_kernels_kwargs:
        gamma = None if kernel.metric in WITHOUT_GAMMA else kernel.gamma
        return resolve_kernel(kernel.metric, n_features=n_features, gamma=gamma)
    if kind is sk.ConstantKernel:
        return float(kernel.constant_value) * Constant()
    if kind is sk.WhiteKernel:
        raise InputError(
            f"kernel has the term {kernel!r}, which is noise and no function of the rows. In a "
            f"GaussianProcessRegressor add it to a kernel, as in RBF() + {kernel!r}; other estimators have "
            "alpha for it: leave the term out."
        )
    raise InputError(f"kernel={kernel!r} of scikit-learn has no counterpart here. {_CURE}")


def without_noise(kernel: object) -> tuple[Any, float | None]:
    """Split a kernel of scikit-learn into its part without WhiteKernel terms, and the sum of their levels.

    The level is None without such a term.

    >>> without_noise(sk.RBF() + sk.WhiteKernel(0.25))
    (RBF(length_scale=1), 0.25)
    """
    rest, level = _split(kernel)
    if level is not None and rest is None:
        raise InputError(f"kernel={kernel!r} is noise alone. Add a kernel of the rows: RBF() + {kernel!r}.")
    return rest, level


def refuse_fixed(kernel: object) -> None:
    """Raise if some parameters of a kernel are fixed, since all would be learned."""
    if not is_sklearn_kernel(kernel):
        return
    fixed = [one.name for one in kernel.hyperparameters if one.fixed]
    if fixed:
        raise InputError(
            f"{', '.join(fixed)} of kernel={kernel!r} is 'fixed', but all lengthscales and factors are "
            "learned together. Leave the bounds out; keep all of them with optimizer=None, or the noise with "
            "learn_noise=False."
        )


def _split(kernel: sk.Kernel) -> tuple[Any, float | None]:
    if type(kernel) is sk.Sum:
        parts, levels = zip(*(_split(part) for part in (kernel.k1, kernel.k2)), strict=True)
        rest = [part for part in parts if part is not None]
        known = [level for level in levels if level is not None]
        if not known:
            return kernel, None
        return (sk.Sum(*rest) if len(rest) == 2 else rest[0] if rest else None), float(sum(known))
    if type(kernel) is sk.WhiteKernel:
        return None, float(kernel.noise_level)
    if type(kernel) is sk.Product:
        for factor, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            rest, level = _split(other)
            if type(factor) is sk.ConstantKernel and level is not None:
                return None if rest is None else sk.Product(factor, rest), factor.constant_value * level
    return kernel, None
