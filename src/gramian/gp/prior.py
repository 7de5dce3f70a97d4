"""Prior of a Gaussian process: kernel and noise by their logarithms θ, and K̃ + D on fixed landmarks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array, Float64Array, Rows
from gramian.compression.basis import Basis, build_basis
from gramian.compression.features import FeatureMap
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel, Scaled
from gramian.kernels.gradient import log_parameters, with_log_parameters
from gramian.solvers.arrowhead import Forest


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


def with_kernel(features: FeatureMap, kernel: Kernel, engine: Engine) -> FeatureMap:
    """Return the nested bases of another kernel on the same landmarks and blocks, in float64, at full rank.

    Only landmarks in the span of the others, up to rounding, are dropped, so that K̃ is a smooth function of
    the kernel's parameters. Time O(Σ (m_b³ + m_b² path)) over nodes with m_b landmarks.
    """
    if features.core is not None or any(basis.vectors is None for basis in features.nodes):
        raise InputError(
            "A Gaussian process needs nested bases of landmarks; this approximation couples its blocks by a "
            "core, or has no landmarks. Use approximation='multiresolution'."
        )
    forest = features.forest
    made: list[Basis] = []
    for level in forest.levels:

        def build(node: int) -> Basis:
            points = features.nodes[node].landmarks
            above = tuple(made[a] for a in forest.path(node))
            return build_basis(kernel, np.float64, points, points.shape[0], above)

        made.extend(engine.map(build, range(level.start, level.stop)))
    ranks = Forest(forest.parent, tuple(basis.rank for basis in made), forest.levels)
    return replace(
        # Make a new object, since the old one has cached its ranks.
        features,
        kernel=kernel,
        forest=ranks,
        nodes=tuple(made),
        dtype=np.dtype(np.float64),
    )


def scaled_back(features: FeatureMap, scale: Float64Array, kernel: Kernel) -> FeatureMap:
    """Return landmarks and blocks of rows x/scale as those of rows x; :func:`with_kernel` makes the bases.

    The blocks of a bisection stay what they were: (x/s − o)·w = (x − o s)·(w/s).
    """
    partition: Any = features.partition
    offset = None if partition.offset is None else partition.offset * scale
    partition = replace(partition, directions=partition.directions / scale, offset=offset)
    nodes = tuple(replace(basis, landmarks=_times(basis.landmarks, scale)) for basis in features.nodes)
    return replace(features, kernel=kernel, partition=partition, nodes=nodes)


def _times(rows: Rows, scale: Float64Array) -> Rows:
    sparse: Any = rows
    return sparse.multiply(scale).tocsr() if sp.issparse(rows) else rows * scale


def residual_diagonal(kernel: Kernel, X: Rows, F: Float64Array) -> Float64Array:
    """Return D = max(k(x, x) − ‖f(x)‖², 0), the variance that the features do not represent."""
    left = kernel.diagonal(X) - np.einsum("ij,ij->i", F, F)
    return np.asarray(np.maximum(left, 0.0))
