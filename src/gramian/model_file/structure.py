"""Checks that the parts of a predictor fit together, made before anything is computed from them.

Each takes the named parts of one class. A tree has to end, a number of a row, node or block has to be in
range, and sizes have to agree, so that no count in a file is larger than the arrays that it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gramian._typing import Array, IntArray
from gramian.exceptions import ModelFileError
from gramian.fast.dcpred.center_tree import CenterTree
from gramian.fast.serving.router import STAGE_LEVELS, stage_width
from gramian.landmarks.partition import BisectionPartition, CenterPartition, Partition
from gramian.model_file.container import CURE

#: Most levels of a hierarchy of blocks: a fit makes fewer than ten.
MOST_LEVELS = 64

Parts = SimpleNamespace


def check_structure(name: str, parts: Mapping[str, Any], most: float) -> None:
    """Raise if the parts of a class, by its name, do not fit together.

    most : numbers that the file can hold, a bound for a size that no array of the part tells.
    """
    if name in CHECKS:
        CHECKS[name](Parts(**parts, most=most))


def check_shape(name: str, array: ArrayLike, shape: tuple[int | None, ...]) -> None:
    """Raise if an array has another shape; None stands for any length."""
    found = np.shape(array) if not hasattr(array, "shape") else array.shape
    if len(found) != len(shape) or any(b not in (None, a) for a, b in zip(found, shape)):
        expected = str(tuple("any" if b is None else b for b in shape)).replace("'", "")
        raise ModelFileError(f"the array {name!r} has shape {found}; expected {expected}. {CURE}")


def whole(name: str, array: ArrayLike, below: int) -> IntArray:
    """Return an array of whole numbers from 0 up to ``below``; raise if it holds others."""
    numbers = np.asarray(array)
    if numbers.size and (numbers.dtype.kind not in "iu" or not 0 <= numbers.min() <= numbers.max() < below):
        raise ModelFileError(f"the array {name!r} holds numbers outside 0 … {below - 1}. {CURE}")
    return numbers.astype(np.intp)


def require(holds: bool, text: str) -> None:
    """Raise with a text unless a condition holds."""
    if not holds:
        raise ModelFileError(f"{text}. {CURE}")


# ---- partitions ------------------------------------------------------------------------------------------


def features_of(partition: Partition) -> int | None:
    """Return the number of features of the rows that a partition routes; None if it says nothing of them."""
    if isinstance(partition, CenterPartition):
        return int(partition.centers.shape[1])
    if isinstance(partition, BisectionPartition):
        return int(partition.directions.shape[1])
    return features_of(partition.root) if isinstance(partition, CenterTree) else None


def _levels(ancestors: tuple[Array, ...], n_blocks: int) -> None:
    """Check that each coarser level numbers its blocks without a gap, its leaves next to each other."""
    require(len(ancestors) <= MOST_LEVELS, f"a partition has {len(ancestors)} levels")
    for level in ancestors:
        check_shape("ancestors", level, (n_blocks,))
        steps = np.diff(whole("ancestors", level, n_blocks), prepend=-1)
        require(bool(np.isin(steps, (0, 1)).all()), "the levels of a partition are not numbered in order")


def _centers(parts: Parts) -> None:
    check_shape("centers", parts.centers, (None, None))
    require(len(parts.centers) > 0, "a partition has no blocks")
    _levels(parts.ancestors, len(parts.centers))


def _bisection(parts: Parts) -> None:
    # A row's descent ends if the number of a child is above that of its parent.
    inner = len(parts.thresholds)
    check_shape("thresholds", parts.thresholds, (inner,))
    check_shape("directions", parts.directions, (inner, None))
    check_shape("children", parts.children, (inner, 2))
    if parts.offset is not None:
        check_shape("offset", parts.offset, (parts.directions.shape[1],))
    children = np.asarray(parts.children)
    below = (children < 0) | (children > np.arange(inner)[:, None])
    tree = bool((below & (children < inner) & (children >= -1 - inner)).all())
    require(tree, "the array 'children' of a partition is not a tree")
    _levels(parts.ancestors, inner + 1)


def _center_tree(parts: Parts) -> None:
    require(
        parts.root.n_blocks == len(parts.children),
        f"a tree of centres has {parts.root.n_blocks} blocks and {len(parts.children)} children",
    )
    widths = {features_of(part) for part in (parts.root, *parts.children)}
    require(len(widths) == 1, f"the centres of a tree have {sorted(map(str, widths))} features")


def check_routing(partition: Partition, n_features: int) -> None:
    """Raise unless a partition takes rows of so many features."""
    found = features_of(partition)
    wrong = f"the partition takes rows of {found} features; expected {n_features}"
    require(found in (None, n_features), wrong)


# ---- predictors ------------------------------------------------------------------------------------------


def _predictor(parts: Parts) -> None:
    tiles(parts.dtype)
    nodes = len(parts.node_size)
    check_shape("node_size", parts.node_size, (nodes,))
    check_shape("node_kind", parts.node_kind, (nodes,))
    require(bool((np.asarray(parts.node_size) >= 0).all()), "a node has a negative number of landmarks")
    whole("leaf_levels", parts.leaf_levels, nodes)
    kinds = whole("node_kind", parts.node_kind, len(parts.landmarks))
    check_shape("leaf_levels", parts.leaf_levels, (len(parts.weights), parts.partition.n_blocks))
    require(0 < len(parts.weights) <= MOST_LEVELS, f"a predictor has {len(parts.weights)} levels")
    require(bool(parts.landmarks) and nodes > 0, "a predictor has no landmarks")
    width = parts.landmarks[0][1].shape[-1]
    check_routing(parts.partition, width)
    for kind, (_, points) in enumerate(parts.landmarks):
        rows = int(np.asarray(parts.node_size)[kinds == kind].sum())
        check_shape("landmarks", points, (rows, width))
    for weights in parts.weights:
        check_shape("weights", weights, (None, parts.n_outputs))
    require(parts.n_outputs >= 0, f"a predictor has {parts.n_outputs} outputs")  # 0: components of one row
    whole("maps", np.asarray(list(parts.maps), np.intp), nodes)


def _exact(parts: Parts) -> None:
    check_shape("rows", parts.rows, (None, None))
    check_shape("coefficients", parts.coefficients, (parts.rows.shape[0], None))
    tiles(parts.dtype)


def tiles(dtype: np.dtype[Any]) -> None:
    """Raise unless tiles are of a float type."""
    require(dtype in (np.float32, np.float64), f"tiles are stored as {dtype}; expected float32 or float64")


def _pairwise(parts: Parts) -> None:
    vectors, classes = parts.support.shape[0], len(parts.coefficients) + 1
    check_shape("support", parts.support, (vectors, None))
    check_shape("coefficients", parts.coefficients, (classes - 1, vectors))
    check_shape("offsets", parts.offsets, (None, classes * (classes - 1) // 2))
    clusters = len(parts.offsets)
    require(clusters > 0, "a predictor has no clusters")
    for name, array, below in (("owner", parts.owner, classes), ("cluster", parts.cluster, clusters)):
        check_shape(name, array, (vectors,))
        whole(name, array, below)
    require(bool((np.diff(parts.cluster) >= 0).all()), "the support vectors are not sorted by cluster")
    if parts.partition is not None and parts.level is not None:
        check_shape("level", parts.level, (parts.partition.n_blocks,))
        whole("level", parts.level, clusters)
        check_routing(parts.partition, parts.support.shape[1])
    else:
        require(parts.partition is parts.level, "a predictor routes rows to no clusters")


def _dcpred(parts: Parts) -> None:
    check_routing(parts.partition, parts.n_features)
    leaves, blocks = parts.leaves, parts.partition.n_blocks
    require(len(leaves) == blocks, f"there are {len(leaves)} leaves for {blocks} blocks")
    outputs = len(leaves[0]["bias"])
    for leaf in leaves:
        bias, points, expansion = leaf["bias"], leaf["landmarks"], leaf["expansion"]
        check_shape("bias", bias, (outputs,))
        check_shape("limits", leaf["limits"], (2, outputs))
        tiles(bias.dtype)
        if expansion is None:
            continue
        check_shape("landmarks", points, (None, parts.n_features))
        columns = points.shape[0]
        if "left" in expansion:
            columns += len(expansion["left"])
            check_shape("right", expansion["right"], np.shape(expansion["left"]))
        elif "points" in expansion:
            check_shape("points", expansion["points"], (None, parts.n_features))
            columns += expansion["points"].shape[0]
        check_shape("beta", leaf["beta"], (columns, outputs))


# ---- feature maps ----------------------------------------------------------------------------------------


def _forest(parts: Parts) -> None:
    nodes = len(parts.parent)
    require(len(parts.ranks) == nodes > 0, f"a forest of {nodes} nodes has {len(parts.ranks)} ranks")
    require(0 < len(parts.levels) <= MOST_LEVELS, f"a forest has {len(parts.levels)} levels")
    require(all(rank >= 0 for rank in parts.ranks), "a node has a negative rank")
    ends = [0, *(level.stop for level in parts.levels)]
    starts = [level.start for level in parts.levels]
    ordered = starts == ends[:-1] and ends[-1] == nodes and all(a < b for a, b in pairwise(ends))
    require(ordered, "the levels of a forest do not follow each other")
    above = range(-1, 0)  # what the parents of the roots are
    for level in parts.levels:
        require(
            all(parts.parent[node] in above for node in range(level.start, level.stop)),
            "the parent of a node is not on the level above",
        )
        above = range(level.start, level.stop)


def _feature_map(parts: Parts) -> None:
    tiles(parts.dtype)
    forest, nodes = parts.forest, parts.nodes
    require(len(nodes) == len(forest.ranks), f"a map of {len(nodes)} bases has {len(forest.ranks)} nodes")
    leaves = forest.levels[-1]
    blocks = parts.partition.n_blocks
    require(leaves.stop - leaves.start == blocks, f"a map of {blocks} blocks has {leaves} as leaves")
    width = nodes[0]["landmarks"].shape[-1]
    check_routing(parts.partition, width)
    for node, basis in enumerate(nodes):
        rank = forest.ranks[node]
        check_shape("landmarks", basis["landmarks"], (None, width))
        if basis["vectors"] is None:
            explicit = basis["explicit"]
            require(explicit is not None, "a basis has neither vectors nor an explicit map")
            require(explicit.n_columns == rank, f"a map of {explicit.n_columns} features has the rank {rank}")
            require(explicit.n_features == width, f"a map takes {explicit.n_features} features")
        else:
            check_shape("vectors", basis["vectors"], (basis["landmarks"].shape[0], rank))
        above = np.shape(basis["projection"])[0] if np.ndim(basis["projection"]) else -1
        require(above in (0, forest.path_rank(node)), f"a projection has {above} rows")
        check_shape("projection", basis["projection"], (above, rank))
        check_shape("values", basis["values"], (rank,))
    if parts.core is not None:
        ranks = forest.ranks[leaves]
        require(parts.core.ranks == ranks, "the core has other ranks than the blocks")


def _core(parts: Parts) -> None:
    require(all(rank >= 0 for rank in parts.ranks), "a block of the core has a negative rank")


def _path_factor(parts: Parts) -> None:
    forest = parts.forest
    require(len(parts.lower) == len(parts.cross) == len(forest.ranks), "a factor lacks blocks")
    for node, rank in enumerate(forest.ranks):
        check_shape("lower", parts.lower[node], (rank, rank))
        check_shape("cross", parts.cross[node], (rank, forest.path_rank(node)))


def _posterior(parts: Parts) -> None:
    forest = parts.features.forest
    require(parts.factor.forest == forest, "factor and features have other nodes")
    require(len(parts.beta) == len(forest.ranks), "the coefficients lack a node")
    outputs = np.shape(parts.beta[0])[-1]
    for rank, beta in zip(forest.ranks, parts.beta):
        check_shape("beta", beta, (rank, outputs))


def _fastfood(parts: Parts) -> None:
    check_shape("scales", parts.scales, (None, None))
    blocks, features = parts.scales.shape
    width = 1 << max(0, features - 1).bit_length()
    check_shape("gauss", parts.gauss, (blocks * width,))
    check_shape("order", parts.order, parts.gauss.shape)
    whole("order", parts.order, len(parts.gauss))
    draws = len(parts.lengths)
    require(0 < draws <= len(parts.gauss), f"a map draws {draws} of {len(parts.gauss)} frequencies")
    _frequencies(parts, draws)


def _fourier(parts: Parts) -> None:
    check_shape("frequencies", parts.frequencies, (None, None))
    _frequencies(parts, parts.frequencies.shape[1])


def _frequencies(parts: Parts, draws: int) -> None:
    # A single amplitude is that of all.
    check_shape("amplitudes", parts.amplitudes, (1,) if np.shape(parts.amplitudes) == (1,) else (draws,))
    if parts.phases is not None:
        check_shape("phases", parts.phases, (draws,))


def _maclaurin(parts: Parts) -> None:
    check_shape("signs", parts.signs, (None, None))
    products = len(parts.amplitudes)
    check_shape("amplitudes", parts.amplitudes, (products,))
    if len(parts.low):
        check_shape("low", parts.low, (1 + len(parts.signs),))
    whole("counts", parts.counts, products + 1)
    check_shape("signs", parts.signs, (None, int(np.sum(parts.counts))))


def _sketch(parts: Parts) -> None:
    check_shape("buckets", parts.buckets, (None, None))
    check_shape("values", parts.values, parts.buckets.shape)
    require(min(parts.buckets.shape) > 0, "a sketch has no hashes")
    require(0 < parts.rank <= parts.most, f"a sketch has {parts.rank} buckets, more than the file can hold")
    whole("buckets", parts.buckets, parts.rank)


# ---- fast models -----------------------------------------------------------------------------------------


def _router(parts: Parts) -> None:
    require(len(parts.stages) == len(parts.levels) <= MOST_LEVELS, "a router lacks stages")
    trees = 1
    for planes, levels in zip(parts.stages, parts.levels):
        require(0 < levels <= STAGE_LEVELS, f"a stage of a router has {levels} levels")
        check_shape("stages", planes, (trees, stage_width(levels), None))
        require(planes.shape == (trees, stage_width(levels), parts.stages[0].shape[2]), "stages differ")
        trees *= 2**levels


def _fast(parts: Parts) -> None:
    r, leaves = len(parts.offset), parts.router.n_leaves
    check_shape("offset", parts.offset, (r,))
    if parts.projection is not None:
        check_shape("projection", parts.projection, (None, r))
    check_shape("weights", parts.weights, (leaves, None, None))
    _, outputs, units = parts.weights.shape
    check_shape("forms", parts.forms, (leaves, units + outputs, 2 * r + 1))
    for planes in parts.router.stages:
        check_shape("stages", planes, (None, None, r + 1))
    types = {a.dtype for a in (parts.offset, parts.forms, parts.weights, *parts.router.stages)}
    require(len(types) == 1, f"the arrays of a fast model have the dtypes {sorted(map(str, types))}")


# ---- tables ----------------------------------------------------------------------------------------------


def _columns(parts: Parts) -> None:
    places = sorted(column.place for column in parts.columns)
    require(places == list(range(len(places))), "the columns of a table are not numbered in order")
    tiles(parts.dtype)


def _scaling(parts: Parts) -> None:
    for name in ("shift", "scale"):
        check_shape(name, getattr(parts, name), (len(parts.methods),))
    stepped = parts.methods.count("quantile")
    require(stepped == len(parts.tables), f"{len(parts.tables)} tables scale {stepped} columns")
    for table in parts.tables:
        check_shape("tables", table, (2, None))
    require(all(table.shape[1] for table in parts.tables), "a table of a scaling is empty")


def _output(parts: Parts) -> None:
    if parts.how == "quantile":
        require(parts.knots is not None and len(parts.knots) > 0, "a quantile map has no knots")
        check_shape("scores", parts.scores, (len(parts.knots),))


def _scaler(parts: Parts) -> None:
    check_shape("mean", parts.mean, (len(parts.mean),))
    check_shape("scale", parts.scale, parts.mean.shape)


def _boosted(parts: Parts) -> None:
    check_shape("means", parts.means, (sum(map(len, parts.groups)),))
    require(min(map(min, parts.groups), default=0) >= 0, "a group has a place below 0")
    for pair in parts.pairs:
        own = pair.first, pair.second
        require(0 <= min(own) <= max(own) < len(parts.groups), "a pair of levels is of an unknown group")
        check_shape("values of pairs", pair.values, tuple(len(parts.groups[j]) + 1 for j in own))
    require(all(0 <= one < parts.n_classes for one in parts.classes), "boosting has seen unknown classes")


CHECKS: dict[str, Callable[[Parts], None]] = {
    "BisectionPartition": _bisection,
    "Boosted": _boosted,
    "CenterPartition": _centers,
    "CenterTree": _center_tree,
    "CoupledCore": _core,
    "DCPred": _dcpred,
    "ExactPredictor": _exact,
    "FastfoodColumns": _fastfood,
    "FastPredictor": _fast,
    "FeatureMap": _feature_map,
    "Forest": _forest,
    "FourierColumns": _fourier,
    "MaclaurinColumns": _maclaurin,
    "OutputMap": _output,
    "PairwisePredictor": _pairwise,
    "PathFactor": _path_factor,
    "Posterior": _posterior,
    "Predictor": _predictor,
    "Scaler": _scaler,
    "Scaling": _scaling,
    "TableColumns": _columns,
    "TensorSketchColumns": _sketch,
    "TreeRouter": _router,
}
