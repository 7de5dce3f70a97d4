"""Conversion of predictors to named arrays and back: centres, landmarks and weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array, IntArray, Rows
from gramian.approximations.explicit import ExplicitColumns
from gramian.compression.predictor import Predictor
from gramian.exceptions import InputError, ModelFileError
from gramian.kernels import Kernel
from gramian.kernels.columns import Columns
from gramian.landmarks.partition import BisectionPartition, CenterPartition, Partition
from gramian.model_file.container import CURE
from gramian.model_file.maps import map_from_arrays, map_to_arrays


def predictor_to_arrays(predictor: Predictor) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return a JSON description and the arrays of a predictor. Memory O(landmarks · (d + outputs)).

    A node that is an explicit feature map is described under ``"maps"``, and has no landmarks.
    """
    info, arrays = _partition_arrays(predictor.partition)
    maps = {}
    for node, columns in enumerate(predictor.columns):
        if isinstance(columns, ExplicitColumns):
            maps[str(node)], own_arrays = map_to_arrays(columns, f"map_{node}")
            arrays |= own_arrays
    kinds = [_kind(points) for points in predictor.landmarks]
    distinct = list(dict.fromkeys(kinds))
    for k, (layout, _) in enumerate(distinct):
        own: list[Any] = [p for p, kind in zip(predictor.landmarks, kinds) if kind == distinct[k]]
        if layout == "csr":
            points: Any = sp.vstack(own, format="csr")
            for part in ("data", "indices", "indptr"):
                arrays[f"landmarks_{k}_{part}"] = getattr(points, part)
        else:
            arrays[f"landmarks_{k}"] = np.concatenate(own)
    arrays["node_kind"] = np.asarray([distinct.index(kind) for kind in kinds], np.int64)
    arrays["node_size"] = np.asarray([points.shape[0] for points in predictor.landmarks], np.int64)
    arrays["leaf_levels"] = np.asarray(predictor.leaf_levels, np.int64)
    for level, weights in enumerate(predictor.weights):
        arrays[f"weights_{level}"] = np.concatenate(weights)
    info |= {
        "landmarks": [{"layout": layout, "dtype": dtype} for layout, dtype in distinct],
        "n_outputs": predictor.n_outputs,
        "tile_dtype": predictor.dtype.name,
    }
    if maps:
        info["maps"] = maps
    return info, arrays


def predictor_from_arrays(
    info: Mapping[str, Any], arrays: Mapping[str, Array], kernel: Kernel, n_features: int
) -> Predictor:
    """Rebuild a predictor from the output of :func:`predictor_to_arrays`; it holds the same numbers.

    Raises :class:`ModelFileError` if the arrays do not fit together.
    """
    dtype = np.dtype(info["tile_dtype"])
    if dtype not in (np.float32, np.float64):
        raise ModelFileError(f"tiles are stored as {dtype}; expected float32 or float64. {CURE}")
    partition = _partition(info, arrays, n_features)
    size, kind = arrays["node_size"], arrays["node_kind"]
    leaf_levels = _whole(arrays, "leaf_levels", len(size))
    _check("node_kind", kind, size.shape)
    _check("leaf_levels", leaf_levels, (len(leaf_levels), partition.n_blocks))
    landmarks: list[Rows] = [np.empty((0, n_features))] * len(size)
    for k, form in enumerate(info["landmarks"]):
        nodes = np.flatnonzero(_whole(arrays, "node_kind", len(info["landmarks"])) == k)
        points = _points(f"landmarks_{k}", form, arrays, (int(size[nodes].sum()), n_features))
        ends = np.cumsum(size[nodes])
        for node, end in zip(nodes, ends):
            part = points[end - size[node] : end]
            landmarks[node] = np.asfortranarray(part) if form["layout"] == "F" else part
    columns: list[Columns] = [kernel.against(points, dtype) for points in landmarks]
    for node, stored_map in info.get("maps", {}).items():
        columns[int(node)] = map_from_arrays(stored_map, arrays, f"map_{node}", n_features, dtype)
    widths = np.asarray([c.n_columns for c in columns], np.intp)
    n_outputs = int(info["n_outputs"])
    weights = []
    for level, nodes in enumerate(leaf_levels):
        rows = widths[nodes]
        stored = arrays[f"weights_{level}"]
        _check(f"weights_{level}", stored, (int(rows.sum()), n_outputs))
        weights.append(tuple(np.split(stored, np.cumsum(rows)[:-1])))
    return Predictor(partition, leaf_levels, tuple(landmarks), tuple(columns), tuple(weights), n_outputs)


def _kind(points: Rows) -> tuple[str, str]:
    """Return layout and dtype of points; the layout matters because it changes how sums are rounded."""
    if sp.issparse(points):
        return "csr", points.dtype.str
    flags = np.asarray(points).flags
    return ("F" if flags.f_contiguous and not flags.c_contiguous else "C"), points.dtype.str


def _points(name: str, form: Mapping[str, str], arrays: Mapping[str, Array], shape: tuple[int, int]) -> Rows:
    if form["layout"] != "csr":
        _check(name, arrays[name], shape)
        return arrays[name]
    data, indices, indptr = (arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    _check(f"{name}_indptr", indptr, (shape[0] + 1,))
    points = sp.csr_array((data, indices, indptr), shape=shape)
    points.check_format(full_check=True)
    return points


def _partition_arrays(partition: Partition) -> tuple[dict[str, Any], dict[str, Array]]:
    levels = np.asarray(partition.ancestors, np.int64).reshape(-1, partition.n_blocks)
    arrays: dict[str, Array] = {"partition_ancestors": levels}
    if isinstance(partition, CenterPartition):
        return {"partition": "centers"}, arrays | {"partition_centers": partition.centers}
    if not isinstance(partition, BisectionPartition):
        raise InputError(
            f"the partition {type(partition).__name__} is not one that a model file can hold. Use one of "
            "gramian's: kmeans, minibatch, kcenters, tree."
        )
    arrays["partition_directions"] = partition.directions
    arrays["partition_thresholds"] = partition.thresholds
    arrays["partition_children"] = np.asarray(partition.children, np.int64)
    if partition.offset is not None:
        arrays["partition_offset"] = partition.offset
    return {"partition": "bisection"}, arrays


def _partition(info: Mapping[str, Any], arrays: Mapping[str, Array], n_features: int) -> Partition:
    levels = tuple(np.asarray(level, np.intp) for level in arrays["partition_ancestors"])
    partition: Partition
    if info["partition"] == "centers":
        centers = arrays["partition_centers"]
        _check("partition_centers", centers, (len(centers), n_features))
        partition = CenterPartition(centers, levels)
    elif info["partition"] == "bisection":
        thresholds, offset = arrays["partition_thresholds"], arrays.get("partition_offset")
        children = np.asarray(arrays["partition_children"], np.intp)
        inner = len(thresholds)
        _check("partition_children", children, (inner, 2))
        _check("partition_directions", arrays["partition_directions"], (inner, n_features))
        if offset is not None:
            _check("partition_offset", offset, (n_features,))
        check_tree(children, inner)
        partition = BisectionPartition(arrays["partition_directions"], thresholds, children, levels, offset)
    else:
        raise ModelFileError(f"the partition is stored as {info['partition']!r}. {CURE}")
    _check("partition_ancestors", arrays["partition_ancestors"], (len(levels), partition.n_blocks))
    return partition


def check_tree(children: Array, inner: int) -> None:
    """Raise if a child's number is not above its parent's, since a row's descent could then be endless."""
    _check("partition_children", children, (inner, 2))
    below = (children < 0) | (children > np.arange(inner)[:, None])
    if not (below & (children < inner) & (children >= -1 - inner)).all():
        raise ModelFileError(f"the array 'partition_children' is not a tree. {CURE}")


def _whole(arrays: Mapping[str, Array], name: str, below: int) -> IntArray:
    """Return an array of whole numbers from 0 up to ``below``."""
    numbers = np.asarray(arrays[name], np.intp)
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < below:
        raise ModelFileError(f"the array {name!r} holds numbers outside 0 … {below - 1}. {CURE}")
    return numbers


def _check(name: str, array: Array, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ModelFileError(f"the array {name!r} has shape {array.shape}; expected {shape}. {CURE}")
