"""A fast predictor as a few plain arrays, for code without BLAS and for export."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gramian._typing import Array, Float64Array, FloatArray
from gramian.fast.serving.predictor import FastPredictor, far_center
from gramian.fast.serving.router import TreeRouter


@dataclass(frozen=True, eq=False)
class FlatPredictor:
    r"""Predictor f(x) = A_lᵀ φ + p F_l[:, u:], φ = 1/max(1, p F_l[:, :u]), with

    p = [z, 1, z²], z = Pᵀ(x − c) − o, and l the leaf of z.

    projection : (d, r), P; the identity if the predictor has none.
    offset : (r,), o.
    planes : (2^levels − 1, r + 1), half-spaces in breadth-first order. From node i the path goes to node
        2i + 2 if planes[i]·[z, 1] > 0, else to 2i + 1; after ``levels`` steps it is at node
        2^levels − 1 + l.
    forms : (leaves, 2r + 1, u + outputs), F: the units' denominators, then the linear parts.
    weights : (leaves, u, outputs), A.
    center : (d,), c in float64, subtracted in float64; None for c = 0.

    The other arrays are float32, or float64 if the predictor is. The last axes run over units and outputs:
    loops over them contain no sums, so compilers can vectorise them.
    """

    projection: FloatArray
    offset: FloatArray
    planes: FloatArray
    forms: FloatArray
    weights: FloatArray
    center: Float64Array | None = None

    @property
    def levels(self) -> int:
        """Levels of the tree: the number of half-spaces on a path."""
        return len(self.planes).bit_length()

    @property
    def n_features(self) -> int:
        """Columns of x."""
        return self.projection.shape[0]

    @property
    def n_directions(self) -> int:
        """Entries of z."""
        return self.projection.shape[1]

    @property
    def n_leaves(self) -> int:
        """Leaves: 2 to the number of levels."""
        return self.weights.shape[0]

    @property
    def n_units(self) -> int:
        """Kernel units of a leaf."""
        return self.weights.shape[1]

    @property
    def n_outputs(self) -> int:
        """Values a row."""
        return self.weights.shape[2]

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Float type of the arrays and of the arithmetic."""
        return self.weights.dtype

    def after_scaling(self, mean: Array, scale: Array, deviation: Array) -> FlatPredictor:
        """Return a predictor that maps unscaled x to this predictor's answer for (x − mean) / scale.

        deviation : (d,), of the features of x, by which those that are far from 0 are found.
        """
        mean, scale = np.asarray(mean, np.float64), np.asarray(scale, np.float64)
        P = self.projection.astype(np.float64) / scale[:, None]
        if self.center is None:
            inverse = np.divide(1.0, deviation, out=np.zeros(len(P)), where=deviation > 0)
            center, origin = far_center(mean, inverse), mean
        else:
            center = origin = mean + scale * self.center
        offset = self.offset + origin @ P if center is None else self.offset
        return replace(self, projection=P.astype(self.dtype), offset=offset.astype(self.dtype), center=center)


def flatten(
    predictor: FastPredictor, spread: Array | float = 1.0, center: Array | float = 0.0
) -> FlatPredictor:
    """Return a flat predictor of f(x) · spread + center. Time and memory O(bytes of the predictor).

    spread, center : (outputs,), or one number for all. Numbers too large for float32 become infinite.
    """
    dtype = np.dtype(np.float64 if predictor.dtype == np.float64 else np.float32)
    double = predictor.astype(np.dtype(np.float64))
    r = len(double.offset)
    spread = np.broadcast_to(np.asarray(spread, np.float64), (double.n_outputs,))
    linear = double.linear * spread[:, None]
    linear[..., r] += center
    forms = np.concatenate([double.denominators, linear], axis=1).swapaxes(1, 2)
    kept = {
        "projection": np.eye(r) if double.projection is None else double.projection,
        "offset": double.offset,
        "planes": _planes(double.router, r),
        "forms": forms,
        "weights": (double.weights * spread[:, None]).swapaxes(1, 2),
    }
    with np.errstate(over="ignore"):
        arrays = {name: np.ascontiguousarray(a, dtype) for name, a in kept.items()}
    return FlatPredictor(**arrays, center=predictor.center)


def _planes(router: TreeRouter, r: int) -> FloatArray:
    """Return the half-spaces of all stages as one tree in breadth-first order."""
    planes = np.empty((router.n_leaves - 1, r + 1))
    above = 0
    for stage, levels in zip(router.stages, router.levels, strict=True):
        for level in range(levels):
            # Nodes of this level, tree by tree: a stage's trees hang on the leaves above from left to right.
            nodes = stage[:, 2**level - 1 : 2 ** (level + 1) - 1].reshape(-1, r + 1)
            start = 2 ** (above + level) - 1
            planes[start : start + len(nodes)] = nodes
        above += levels
    return planes
