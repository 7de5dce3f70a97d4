"""Parts of model files that answer rows: partitions, predictors, feature maps, posteriors."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from gramian.approximations import polynomial_maps, random_fourier
from gramian.approximations.explicit import ExplicitColumns
from gramian.compression.basis import Basis
from gramian.compression.expansion import PairwisePredictor
from gramian.compression.features import FeatureMap
from gramian.compression.predictor import Predictor
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import ModelFileError
from gramian.fast.dcpred.center_tree import CenterTree
from gramian.fast.dcpred.leaves import Leaf
from gramian.fast.dcpred.model import DCPred
from gramian.fast.dcpred.pseudo_landmarks import MonomialColumns, TriangleColumns
from gramian.gp import calibration, neighbours, posterior
from gramian.kernels.columns import Columns
from gramian.landmarks.partition import BisectionPartition, CenterPartition, Partition
from gramian.model_file.container import CURE, require
from gramian.model_file.registry import Parts, check_shape, hold, holds, own_parts, shapes, tiles, within
from gramian.solvers.arrowhead import Forest, PathFactor
from gramian.solvers.core import CoupledCore

#: Most levels of a hierarchy of blocks: a fit makes fewer than ten.
MOST_LEVELS = 64


# ---- partitions --------------------------------------------------------------------------------------------


@holds(CenterPartition)
def _centers(p: Parts) -> None:
    blocks = shapes(p, centers=("blocks", None))["blocks"]
    require(blocks > 0, "a partition has no blocks")
    _check_levels(p, blocks)


@holds(BisectionPartition)
def _bisection(p: Parts) -> None:
    named = shapes(p, thresholds=("i",), directions=("i", "d"), children=("i", 2), offset=("d",))
    # A row's descent ends if the number of a child is above that of its parent.
    inner, children = named["i"], p.children
    below = (children < 0) | (children > np.arange(inner)[:, None])
    tree = bool((below & (children < inner) & (children >= -1 - inner)).all())
    require(tree, "the array 'children' of a partition is not a tree")
    _check_levels(p, inner + 1)


def _check_levels(p: Parts, blocks: int) -> None:
    """Check that each coarser level numbers its blocks without a gap, its leaves next to each other."""
    require(len(p.ancestors) <= MOST_LEVELS, f"a partition has {len(p.ancestors)} levels")
    shapes(p, ancestors=(blocks,))
    within(p, ancestors=blocks)
    ordered = all(np.isin(np.diff(level, prepend=-1), (0, 1)).all() for level in p.ancestors)
    require(ordered, "the levels of a partition are not numbered in order")


@holds(CenterTree)
def _center_tree(p: Parts) -> None:
    blocks = p.root.n_blocks
    fits = blocks == len(p.children)
    require(fits, f"a tree of centres has {blocks} blocks and {len(p.children)} children")
    widths = {_features_of(part) for part in (p.root, *p.children)}
    require(len(widths) == 1, f"the centres of a tree have {sorted(map(str, widths))} features")


def _features_of(partition: Partition) -> int | None:
    """Return the number of features of the rows that a partition routes; None if it says nothing of them."""
    if isinstance(partition, CenterTree):
        return _features_of(partition.root)
    points = getattr(partition, "centers", getattr(partition, "directions", None))
    return None if points is None else int(points.shape[1])


def _check_routing(partition: Partition, n_features: int) -> None:
    """Raise unless a partition takes rows of so many features."""
    found = _features_of(partition)
    wrong = f"the partition takes rows of {found} features; expected {n_features}"
    require(found in (None, n_features), wrong)


# ---- predictors --------------------------------------------------------------------------------------------


def _made_predictor(kind: type[Predictor], parts: dict[str, Any]) -> Predictor:
    # A file holds no columns of a kernel against landmarks, which tell them.
    kernel, dtype, columns = parts["kernel"], parts.pop("dtype"), parts.pop("columns")
    pairs = zip(columns, parts["landmarks"], strict=True)
    return kind(columns=tuple(each or kernel.against(Z, dtype) for each, Z in pairs), **parts)


@holds(
    Predictor, take=lambda predictor: own_parts(predictor) | {"dtype": predictor.dtype}, make=_made_predictor
)
def _predictor(p: Parts) -> None:
    tiles(p.dtype)
    nodes = len(p.landmarks)
    shapes(p, leaf_levels=(len(p.weights), p.partition.n_blocks))
    within(p, leaf_levels=nodes)
    require(0 < len(p.weights) <= MOST_LEVELS, f"a predictor has {len(p.weights)} levels")
    require(len(p.columns) == nodes > 0, f"a predictor has {nodes} nodes and {len(p.columns)} maps")
    explicit = all(isinstance(each, ExplicitColumns | None) for each in p.columns)
    require(explicit, "a map of a predictor is not explicit")
    width = p.landmarks[0].shape[-1]
    _check_routing(p.partition, width)
    shapes(p, landmarks=(None, width))
    sizes = [Z.shape[0] if map is None else map.n_columns for Z, map in zip(p.landmarks, p.columns)]
    for level, weights in zip(p.leaf_levels, p.weights):
        require(len(weights) == len(level), f"{len(level)} leaves have {len(weights)} weights")
        for node, each in zip(level, weights):
            check_shape("weights", each, (sizes[node], p.n_outputs))
    require(p.n_outputs >= 0, f"a predictor has {p.n_outputs} outputs")  # 0: components of one row


@holds(ExactPredictor)
def _exact(p: Parts) -> None:
    shapes(p, rows=("n", None), coefficients=("n", None))
    tiles(p.dtype)


@holds(PairwisePredictor)
def _pairwise(p: Parts) -> None:
    classes = len(p.coefficients) + 1
    pairs = classes * (classes - 1) // 2
    named = shapes(
        p,
        support=("n", "d"),
        coefficients=(classes - 1, "n"),
        offsets=("clusters", pairs),
        owner=("n",),
        cluster=("n",),
    )
    clusters = named["clusters"]
    require(clusters > 0, "a predictor has no clusters")
    within(p, owner=classes, cluster=clusters)
    require(bool((np.diff(p.cluster) >= 0).all()), "the support vectors are not sorted by cluster")
    if p.partition is not None and p.level is not None:
        shapes(p, level=(p.partition.n_blocks,))
        within(p, level=clusters)
        _check_routing(p.partition, named["d"])
    else:
        require(p.partition is p.level, "a predictor routes rows to no clusters")


def _bind_later(kind: type[Columns], parts: dict[str, Any]) -> partial[Columns]:
    """Return what makes the columns of a leaf once its model gives kernel and landmarks."""
    return partial(kind, **parts)


hold(MonomialColumns, take=lambda each: {"left": each.left, "right": each.right}, make=_bind_later)
hold(TriangleColumns, take=lambda each: {"points": each.points, "upper": bool(each.upper)}, make=_bind_later)
hold(Leaf)


def _made_dcpred(kind: type[DCPred], parts: dict[str, Any]) -> DCPred:
    kernel, leaves = parts["kernel"], list[Leaf]()
    for leaf in parts.pop("leaves"):
        if leaf.landmarks is not None:
            bind = leaf.columns or type(kernel).against
            leaf = replace(leaf, columns=bind(kernel, leaf.landmarks, dtype=leaf.bias.dtype))
        leaves.append(leaf)
    return kind(leaves=tuple(leaves), **parts)


@holds(DCPred, make=_made_dcpred)
def _dcpred(p: Parts) -> None:
    _check_routing(p.partition, p.n_features)
    leaves, blocks = p.leaves, p.partition.n_blocks
    require(len(leaves) == blocks, f"there are {len(leaves)} leaves for {blocks} blocks")
    outputs = len(leaves[0].bias)
    for leaf in leaves:
        tiles(leaf.bias.dtype)
        shapes(leaf, bias=(outputs,), limits=(2, outputs))
        own = leaf.columns.keywords if isinstance(leaf.columns, partial) else {}
        require(bool(own) or leaf.columns is None, "the columns of a leaf are not those of landmarks")
        if leaf.landmarks is None:
            require(not own, "a leaf without landmarks has columns")
            continue
        shapes(leaf, landmarks=(None, p.n_features))
        more = shapes(Parts(**own), left=("n",), right=("n",)) if "left" in own else {"n": 0}
        if "points" in own:
            more = shapes(Parts(**own), points=("n", p.n_features))
        check_shape("beta", leaf.beta, (leaf.landmarks.shape[0] + more["n"], outputs))


# ---- feature maps ------------------------------------------------------------------------------------------


@holds(Forest)
def _forest(p: Parts) -> None:
    nodes = len(p.parent)
    require(len(p.ranks) == nodes > 0, f"a forest of {nodes} nodes has {len(p.ranks)} ranks")
    require(0 < len(p.levels) <= MOST_LEVELS, f"a forest has {len(p.levels)} levels")
    require(min(p.ranks) >= 0, "a node has a negative rank")
    ends = [0, *(level.stop for level in p.levels)]
    starts = [level.start for level in p.levels]
    ordered = starts == ends[:-1] and ends[-1] == nodes and all(a < b for a, b in pairwise(ends))
    require(ordered, "the levels of a forest do not follow each other")
    above = range(-1, 0)  # what the parents of the roots are
    for level in p.levels:
        known = all(parent in above for parent in p.parent[level])
        require(known, "the parent of a node is not on the level above")
        above = range(level.start, level.stop)


def _made_features(kind: type[FeatureMap], parts: dict[str, Any]) -> FeatureMap:
    kernel, dtype = parts["kernel"], parts["dtype"]
    nodes = (
        replace(each, columns=each.columns or kernel.against(each.landmarks, dtype))
        for each in parts.pop("nodes")
    )
    return kind(nodes=tuple(nodes), **parts)


hold(Basis)


@holds(FeatureMap, make=_made_features)
def _feature_map(p: Parts) -> None:
    tiles(p.dtype)
    forest, nodes = p.forest, p.nodes
    require(len(nodes) == len(forest.ranks), f"a map of {len(nodes)} bases has {len(forest.ranks)} nodes")
    leaves, blocks = forest.levels[-1], p.partition.n_blocks
    require(leaves.stop - leaves.start == blocks, f"a map of {blocks} blocks has {leaves} as leaves")
    width = nodes[0].landmarks.shape[-1]
    _check_routing(p.partition, width)
    for node, basis in enumerate(nodes):
        rank, explicit = forest.ranks[node], basis.columns
        points = shapes(basis, landmarks=("points", width))["points"]
        shapes(basis, vectors=(points, rank), values=(rank,), projection=(None, rank))
        above = len(basis.projection)
        require(above in (0, forest.path_rank(node)), f"a projection has {above} rows")
        if basis.vectors is not None:
            require(explicit is None, "a basis has both vectors and an explicit map")
            continue
        there = isinstance(explicit, ExplicitColumns)
        require(there, "a basis has neither vectors nor an explicit map")
        require(explicit.n_columns == rank, f"a map of {explicit.n_columns} features has the rank {rank}")
        require(explicit.n_features == width, f"a map takes {explicit.n_features} features")
        fits = explicit.dtype == p.dtype
        require(fits, f"an explicit map gives {explicit.dtype}; expected {p.dtype}")
    if p.core is not None:
        require(p.core.ranks == forest.ranks[leaves], "the core has other ranks than the blocks")


def _core_parts(core: CoupledCore) -> dict[str, Any]:
    blocks = range(len(core.ranks))
    pairs = [(s, t) for s in blocks for t in blocks[s:] if not core.is_dense and not core.is_zero(s, t)]
    values: Any = core.to_dense() if core.is_dense else {pair: core.block(*pair) for pair in pairs}
    return {"values": values, "ranks": list(core.ranks), "psd": core.psd}


@holds(CoupledCore, take=_core_parts)
def _core(p: Parts) -> None:
    require(min(p.ranks, default=0) >= 0, "a block of the core has a negative rank")


@holds(PathFactor)
def _path_factor(p: Parts) -> None:
    forest = p.forest
    require(len(p.lower) == len(p.cross) == len(forest.ranks), "a factor lacks blocks")
    for node, rank in enumerate(forest.ranks):
        check_shape("lower", p.lower[node], (rank, rank))
        check_shape("cross", p.cross[node], (rank, forest.path_rank(node)))


@holds(posterior.Posterior)
def _posterior(p: Parts) -> None:
    forest = p.features.forest
    require(p.factor.forest == forest, "factor and features have other nodes")
    require(len(p.beta) == len(forest.ranks), "the coefficients lack a node")
    outputs = p.beta[0].shape[-1]
    for rank, beta in zip(forest.ranks, p.beta):
        check_shape("beta", beta, (rank, outputs))


hold(calibration.RowScale)


@holds(neighbours.NearestRows)
def _nearest(p: Parts) -> None:
    leaves = p.partition.n_blocks
    named = shapes(
        p, points=("n", "d"), numbers=("n",), starts=(leaves + 1,), nearest=(leaves, "near"), kept=(leaves,)
    )
    count, starts = named["n"], p.starts
    _check_routing(p.partition, named["d"])
    within(p, starts=count + 1, nearest=leaves, kept=named["near"] + 1, numbers=count)
    every = starts[0] == 0 and starts[-1] == count and (np.diff(starts) >= 0).all()
    require(bool(every), "the leaves of the nearest rows do not hold all rows")
    require(bool((p.kept > 0).all()), "a leaf of the nearest rows searches no rows")


@holds(neighbours.NeighbourPosterior)
def _neighbours(p: Parts) -> None:
    tiles(p.dtype)
    rows, width = p.near.points.shape
    shapes(p, targets=(rows, None), scale=(width,), weights=(rows,))
    require(p.noise > 0, f"neighbours have a noise of {p.noise}")
    require(0 < p.count <= rows, f"{p.count} neighbours are wanted of {rows} rows")


# ---- explicit maps -----------------------------------------------------------------------------------------


def _made_map(kind: type[ExplicitColumns], parts: dict[str, Any]) -> ExplicitColumns:
    """Return an explicit feature map; raise if it does not map a row of zeros to finite numbers."""
    try:
        columns = kind(**parts)
        with np.errstate(all="ignore"):
            tried = columns(np.zeros((1, columns.n_features)))
    except (ValueError, IndexError, TypeError, AttributeError, MemoryError) as error:
        raise ModelFileError(
            f"the arrays of the {kind.__name__} do not fit together ({error}). {CURE}"
        ) from None
    require(bool(np.isfinite(tried).all()), f"the {kind.__name__} gives numbers that are not finite")
    return columns


@holds(random_fourier.FastfoodColumns, make=_made_map)
def _fastfood(p: Parts) -> None:
    named = shapes(p, scales=("blocks", "d"))
    total = named["blocks"] << max(0, named["d"] - 1).bit_length()
    shapes(p, gauss=(total,), order=(total,))
    within(p, order=total)
    draws = len(p.lengths)
    require(0 < draws <= total, f"a map draws {draws} of {total} frequencies")
    _check_waves(p, draws)


@holds(random_fourier.FourierColumns, make=_made_map)
def _fourier(p: Parts) -> None:
    _check_waves(p, shapes(p, frequencies=(None, "draws"))["draws"])


def _check_waves(p: Parts, draws: int) -> None:
    # A single amplitude is that of all.
    shapes(p, amplitudes=(1 if p.amplitudes.shape == (1,) else draws,), phases=(draws,))


@holds(polynomial_maps.MaclaurinColumns, make=_made_map)
def _maclaurin(p: Parts) -> None:
    products = shapes(p, amplitudes=("n",))["n"]
    within(p, counts=products + 1)
    d = shapes(p, signs=("d", int(np.sum(p.counts))))["d"]
    shapes(p, low=(1 + d if len(p.low) else 0,))


@holds(polynomial_maps.TensorSketchColumns, make=_made_map)
def _sketch(p: Parts) -> None:
    named = shapes(p, buckets=("degree", "numbers"), values=("degree", "numbers"))
    require(min(named.values()) > 0, "a sketch has no hashes")
    require(0 < p.rank <= p.most, f"a sketch has {p.rank} buckets, more than the file can hold")
    within(p, buckets=p.rank)
