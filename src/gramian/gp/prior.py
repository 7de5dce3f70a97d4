"""Prior covariance K̃ + D of a Gaussian process, for any kernel on fixed landmarks and blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import Float64Array, Rows
from gramian.compression.basis import Basis, build_basis
from gramian.compression.features import FeatureMap
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel
from gramian.solvers.arrowhead import Forest


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
