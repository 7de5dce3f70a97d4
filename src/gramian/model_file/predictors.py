"""Predictors and feature maps as named parts, and back: centres, landmarks and weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array, IntArray, Rows
from gramian.approximations.explicit import ExplicitColumns
from gramian.compression.basis import Basis
from gramian.compression.features import FeatureMap
from gramian.compression.predictor import Predictor
from gramian.exceptions import ModelFileError
from gramian.kernels import Kernel
from gramian.kernels.columns import Columns
from gramian.landmarks.partition import BisectionPartition, Partition
from gramian.model_file.container import CURE


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
    leaf_levels: Array,
    landmarks: Sequence[tuple[str, Rows]],
    node_kind: Array,
    node_size: Array,
    maps: dict[int, Columns],
    weights: Sequence[Array],
    n_outputs: int,
    dtype: np.dtype[Any],
) -> Predictor:
    """Return the predictor of :func:`predictor_parts`; raise if the parts do not fit together."""
    if dtype not in (np.float32, np.float64):
        raise ModelFileError(f"tiles are stored as {dtype}; expected float32 or float64. {CURE}")
    levels = _whole("leaf_levels", leaf_levels, len(node_size))
    check_shape("node_kind", node_kind, node_size.shape)
    check_shape("leaf_levels", levels, (len(levels), partition.n_blocks))
    kinds = _whole("node_kind", node_kind, len(landmarks))
    points: list[Rows] = [np.empty((0, 0))] * len(node_size)
    for k, (layout, stored) in enumerate(landmarks):
        nodes = np.flatnonzero(kinds == k)
        ends = np.cumsum(node_size[nodes])
        check_shape("landmarks", stored, (int(node_size[nodes].sum()), landmarks[0][1].shape[1]))
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


def bisection(children: Array, **parts: Any) -> BisectionPartition:
    """Return a partition by half-spaces; raise if a row's descent in it could be endless.

    It could be if the number of a child is not above that of its parent.
    """
    inner = len(parts["thresholds"])
    check_shape("children", children, (inner, 2))
    below = (children < 0) | (children > np.arange(inner)[:, None])
    if not (below & (children < inner) & (children >= -1 - inner)).all():
        raise ModelFileError(f"the array 'children' of a partition is not a tree. {CURE}")
    return BisectionPartition(children=np.asarray(children, np.intp), **parts)


# ---- feature maps --------------------------------------------------------------------------------


def _basis_parts(basis: Basis) -> dict[str, Any]:
    names = ("landmarks", "vectors", "projection", "values", "dropped", "negative")
    explicit = basis.columns if basis.vectors is None else None
    return {**{name: getattr(basis, name) for name in names}, "explicit": explicit}


def feature_parts(features: FeatureMap) -> dict[str, Any]:
    """Return the parts of a feature map, without the columns that kernel and landmarks imply."""
    nodes = [_basis_parts(basis) for basis in features.nodes]
    names = ("kernel", "partition", "forest", "core", "dtype", "notes")
    return {**{name: getattr(features, name) for name in names}, "nodes": nodes}


def made_features(nodes: list[Any], kernel: Kernel, dtype: Any, **rest: Any) -> FeatureMap:
    """Return the feature map of :func:`feature_parts`."""

    def basis(parts: dict[str, Any]) -> Basis:
        explicit = parts.pop("explicit")
        columns = kernel.against(parts["landmarks"], dtype) if explicit is None else explicit
        if columns.dtype != dtype:
            raise ModelFileError(f"an explicit map gives {columns.dtype}; expected {dtype}. {CURE}")
        return Basis(columns=columns, **parts)

    return FeatureMap(kernel=kernel, dtype=dtype, nodes=tuple(basis(parts) for parts in nodes), **rest)


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


# ---- checks --------------------------------------------------------------------------------------


def check_shape(name: str, array: Any, shape: tuple[int, ...]) -> None:
    """Raise if an array has another shape."""
    if array.shape != shape:
        raise ModelFileError(f"the array {name!r} has shape {array.shape}; expected {shape}. {CURE}")


def _whole(name: str, array: Array, below: int) -> IntArray:
    """Return an array of whole numbers from 0 up to ``below``."""
    numbers = np.asarray(array, np.intp)
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < below:
        raise ModelFileError(f"the array {name!r} holds numbers outside 0 … {below - 1}. {CURE}")
    return numbers
