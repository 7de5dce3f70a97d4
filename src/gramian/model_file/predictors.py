"""Predictors and feature maps as named parts, and back: centres, landmarks and weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
import scipy.sparse as sp

from gramian._typing import FloatArray, IntArray, Rows
from gramian.approximations.explicit import ExplicitColumns
from gramian.compression.basis import Basis
from gramian.compression.features import FeatureMap
from gramian.compression.predictor import Predictor
from gramian.exceptions import ModelFileError
from gramian.kernels import Kernel
from gramian.kernels.columns import Columns
from gramian.landmarks.partition import Partition
from gramian.model_file.container import CURE
from gramian.model_file.structure import check_shape
from gramian.solvers.arrowhead import Forest
from gramian.solvers.core import CoupledCore


def predictor_parts(predictor: Predictor) -> dict[str, Any]:
    """Return the parts of a predictor; the landmarks of all nodes of one layout and type are one array.

    A node that is an explicit feature map is one of ``maps``, and has no landmarks.
    """
    kinds = [_kind(points) for points in predictor.landmarks]
    distinct = list(dict.fromkeys(kinds))
    landmarks = []
    for layout, dtype in distinct:
        own: list[Any] = [p for p, each in zip(predictor.landmarks, kinds) if each == (layout, dtype)]
        landmarks.append((layout, sp.vstack(own, format="csr") if layout == "csr" else np.concatenate(own)))
    explicit = enumerate(predictor.columns)
    return {
        "kernel": predictor.kernel,
        "partition": predictor.partition,
        "leaf_levels": predictor.leaf_levels,
        "landmarks": landmarks,
        "node_kind": np.asarray([distinct.index(kind) for kind in kinds], np.int64),
        "node_size": np.asarray([points.shape[0] for points in predictor.landmarks], np.int64),
        "maps": {node: columns for node, columns in explicit if isinstance(columns, ExplicitColumns)},
        "weights": [np.concatenate(weights) for weights in predictor.weights],
        "n_outputs": predictor.n_outputs,
        "dtype": predictor.dtype,
    }


def made_predictor(
    kernel: Kernel,
    partition: Partition,
    leaf_levels: IntArray,
    landmarks: Sequence[tuple[str, Rows]],
    node_kind: IntArray,
    node_size: IntArray,
    maps: dict[int, Columns],
    weights: Sequence[FloatArray],
    n_outputs: int,
    dtype: np.dtype[Any],
) -> Predictor:
    """Return the predictor of :func:`predictor_parts`; raise if the parts do not fit together."""
    levels, kinds = leaf_levels.astype(np.intp), node_kind
    points: list[Rows] = [np.empty((0, 0))] * len(node_size)
    for k, (layout, stored) in enumerate(landmarks):
        nodes = np.flatnonzero(kinds == k)
        ends = np.cumsum(node_size[nodes])
        for node, end in zip(nodes, ends):
            part = stored[end - node_size[node] : end]
            points[node] = np.asfortranarray(part) if layout == "F" else part
    columns = [maps[node] if node in maps else kernel.against(Z, dtype) for node, Z in enumerate(points)]
    widths = np.asarray([each.n_columns for each in columns], np.intp)
    split = []
    for nodes, stored in zip(levels, weights, strict=True):
        check_shape("weights", stored, (int(widths[nodes].sum()), n_outputs))
        split.append(tuple(np.split(stored, np.cumsum(widths[nodes])[:-1])))
    return Predictor(kernel, partition, levels, tuple(points), tuple(columns), tuple(split), n_outputs)


def _kind(points: Rows) -> tuple[str, str]:
    """Return layout and dtype of points; the layout matters because it changes how sums are rounded."""
    if sp.issparse(points):
        return "csr", points.dtype.str
    flags = np.asarray(points).flags
    return ("F" if flags.f_contiguous and not flags.c_contiguous else "C"), points.dtype.str


# ---- feature maps --------------------------------------------------------------------------------


class BasisParts(TypedDict):
    """Parts of a node's basis; either vectors or an explicit map."""

    landmarks: Rows
    vectors: FloatArray | None
    projection: FloatArray
    values: FloatArray
    dropped: float
    negative: float
    explicit: ExplicitColumns | None


def _basis_parts(basis: Basis) -> dict[str, Any]:
    names = ("landmarks", "vectors", "projection", "values", "dropped", "negative")
    explicit = basis.columns if basis.vectors is None else None
    return {**{name: getattr(basis, name) for name in names}, "explicit": explicit}


def feature_parts(features: FeatureMap) -> dict[str, Any]:
    """Return the parts of a feature map, without the columns that kernel and landmarks imply."""
    nodes = [_basis_parts(basis) for basis in features.nodes]
    names = ("kernel", "partition", "forest", "core", "dtype", "notes")
    return {**{name: getattr(features, name) for name in names}, "nodes": nodes}


def made_features(
    kernel: Kernel,
    partition: Partition,
    forest: Forest,
    core: CoupledCore | None,
    dtype: np.dtype[Any],
    notes: dict[str, float],
    nodes: list[BasisParts],
) -> FeatureMap:
    """Return the feature map of :func:`feature_parts`."""

    def basis(parts: BasisParts) -> Basis:
        explicit = parts["explicit"]
        columns = kernel.against(parts["landmarks"], dtype) if explicit is None else explicit
        if columns.dtype != dtype:
            raise ModelFileError(f"an explicit map gives {columns.dtype}; expected {dtype}. {CURE}")
        own: dict[str, Any] = {name: value for name, value in parts.items() if name != "explicit"}
        return Basis(columns=columns, **own)

    return FeatureMap(kernel, partition, forest, tuple(map(basis, nodes)), core, dtype, notes)


def made_map(kind: type[ExplicitColumns], **parts: Any) -> ExplicitColumns:
    """Return an explicit feature map; raise if it does not map a row of zeros to finite numbers."""
    try:
        columns = kind(**parts)
        with np.errstate(all="ignore"):
            tried = columns(np.zeros((1, columns.n_features)))
    except (ValueError, IndexError, TypeError, AttributeError, MemoryError) as error:
        raise ModelFileError(
            f"the arrays of the {kind.__name__} do not fit together ({error}). {CURE}"
        ) from None
    if not np.isfinite(tried).all():
        raise ModelFileError(f"the {kind.__name__} gives numbers that are not finite. {CURE}")
    return columns
