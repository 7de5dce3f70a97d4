"""Kernel and noise of a Gaussian process as a function of their logarithms θ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel, Scaled
from gramian.kernels.gradient import log_parameters, with_log_parameters


@dataclass(frozen=True)
class Hyperparameters:
    """A kernel, the variance of the noise, and whether the noise is learned."""

    kernel: Kernel
    noise: float
    learn_noise: bool = True

    @cached_property
    def own(self) -> Float64Array:
        """The kernel's log parameters; empty if their gradient is not known."""
        try:
            return log_parameters(self.kernel)
        except InputError:
            return np.zeros(0)

    @property
    def theta(self) -> Float64Array:
        """θ: logarithms of the kernel's parameters and, if it is learned, of the noise."""
        return np.append(self.own, np.log(self.noise)) if self.learn_noise else self.own

    def at(self, theta: Array) -> Hyperparameters:
        """Return the hyperparameters of another θ."""
        theta = np.asarray(theta, np.float64)
        own = theta[: len(self.own)]
        kernel = with_log_parameters(self.kernel, own) if len(own) else self.kernel
        noise = float(np.exp(theta[-1])) if self.learn_noise else self.noise
        return Hyperparameters(kernel, noise, self.learn_noise)

    def slope(self, by_all: Float64Array) -> Float64Array:
        """Return the derivatives in θ from those in the kernel's parameters and, last, in the noise."""
        return by_all if self.learn_noise else by_all[:-1]

    @property
    def names(self) -> tuple[str, ...]:
        """What each entry of θ is called in messages."""
        own = [f"parameter {i} of {type(self.kernel).__name__}" for i in range(len(self.own))]
        inner = feature_kernel(self.kernel)
        if inner is not None:
            size = len(self.own) - (1 if isinstance(self.kernel, Scaled) else 0)
            lengths = ["lengthscale"] if size == 1 else [f"lengthscale[{i}]" for i in range(size)]
            own = (["signal variance"] if len(self.own) > size else []) + lengths
        return (*own, "noise") if self.learn_noise else tuple(own)


def feature_kernel(kernel: Kernel) -> Any:
    """Return the kernel with lengthscales inside a multiple of it, or None for sums and other kernels."""
    inner = kernel.kernel if isinstance(kernel, Scaled) else kernel
    return inner if hasattr(inner, "lengthscale") else None


def lengthscales(kernel: Kernel) -> Float64Array | None:
    """Return one lengthscale for each feature; None if a kernel has one for all, or no such thing."""
    inner = feature_kernel(kernel)
    if inner is None or not isinstance(inner.lengthscale, tuple):
        return None
    return np.asarray(inner.lengthscale, np.float64)


def in_units(kernel: Kernel) -> Kernel:
    """Return the kernel for rows that were divided by its lengthscales."""
    inner = replace(feature_kernel(kernel), lengthscale=1.0)
    return Scaled(kernel.factor, inner) if isinstance(kernel, Scaled) else inner
