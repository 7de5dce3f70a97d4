"""Periodic kernels: kernels of distances between points on circles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array, Rows
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel, lengthscale_array, stored_lengthscale
from gramian.kernels.columns import dense
from gramian.kernels.families import EuclideanKernel, Gaussian
from gramian.kernels.groups import Mapped


@dataclass(frozen=True)
class Periodic(Mapped):
    r"""k(x, z) = kernel(T(x), T(z)), T(x) = [cos 2πx_f/p_f, sin 2πx_f/p_f] for each feature f.

    With a Gaussian this is exp(−2 Σ_f sin²(π(x_f − z_f)/p_f)/ℓ²), scikit-learn's ``ExpSineSquared`` in one
    dimension. It repeats itself exactly; times a kernel of x − z it repeats itself nearly. It is positive
    semi-definite for any number of features, unlike exp(−2 sin²(π‖x − z‖/p)/ℓ²).

    Parameters
    ----------
    kernel : Kernel, default=Gaussian()
        A kernel of ‖(x − z)/ℓ‖₂ with one lengthscale ℓ, in units of the circle's radius.
    period : float or sequence, default=1.0
        p, one number or one for each feature.

    The cost is that of the kernel on twice the features. Raises ``InputError`` for other kernels, and for
    periods that are not positive. For a lengthscale per feature multiply kernels of single features
    (:class:`OnFeatures`).

    Source: MacKay 1998, section 5 (warping of the inputs).

    >>> import numpy as np, gramian as gm
    >>> k = Periodic(gm.Gaussian(1.0), period=24.0)
    >>> k(np.array([[1.0]]), np.array([[25.0], [13.0]])).round(4)  # exp(−2) half a period away
    array([[1.    , 0.1353]])
    """

    kernel: Kernel = field(default_factory=Gaussian)
    period: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, EuclideanKernel) or not self.kernel.one_bandwidth:
            raise InputError(
                f"kernel={self.kernel!r} is no kernel of a Euclidean distance with one lengthscale. Give for "
                "example gm.Gaussian(lengthscale=1.0)."
            )
        try:
            object.__setattr__(self, "period", stored_lengthscale(self.period))
        except InputError as error:
            raise InputError(str(error).replace("lengthscale", "period")) from None

    def part(self, X: Rows) -> Float64Array:
        angles = self.angles(dense(X, np.float64))
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)

    def angles(self, X: Array) -> Float64Array:
        """Return 2πx_f/p_f, shape (n, features)."""
        try:
            return np.asarray(X * (2.0 * np.pi / lengthscale_array(self.period, X.shape[1])), np.float64)
        except InputError as error:
            raise InputError(str(error).replace("lengthscale", "period")) from None

    def by_period(self, X: Array, gradient: Float64Array) -> Float64Array:
        """Return Σ_i g_i · ∂T(x_i)/∂ln p of each period, for gradients g by T(x_i), shape (n, 2 features)."""
        angles, (by_cosine, by_sine) = self.angles(X), np.split(gradient, 2, axis=1)
        turned = np.sin(angles) * by_cosine - np.cos(angles) * by_sine
        each = np.asarray(np.einsum("if,if->f", angles, turned), np.float64)
        return each if isinstance(self.period, tuple) else each.sum(keepdims=True)

    def by_row(self, X: Array, gradient: Any) -> Float64Array:
        """Return the gradients by x from those by T(x): (n, 2 features, …) to (n, features, …)."""
        angles, (by_cosine, by_sine) = self.angles(X)[:, :, None], np.split(gradient, 2, axis=1)
        turned = np.cos(angles) * by_sine - np.sin(angles) * by_cosine
        return np.asarray(turned * (2.0 * np.pi / lengthscale_array(self.period, X.shape[1]))[:, None])
