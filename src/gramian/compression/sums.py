"""Sums FᵀF and Fᵀy over one pass of the rows, which train ridge models without storing the features F."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain

import numpy as np

from gramian._numerics import narrowed
from gramian._phases import Progress, uncounted
from gramian._typing import Array, FloatArray, Rows
from gramian.compression.features import FeatureMap
from gramian.compression.grouping import Unit, units_by_leaf
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.solvers.arrowhead import Forest, NodeSums


@dataclass
class UnitSums:
    """Contribution of one unit of rows to the sums of a node."""

    node: int
    gram: FloatArray
    cross: FloatArray
    rhs: FloatArray


def accumulate(
    features: FeatureMap,
    source: RowSource,
    targets: Array,
    weights: Array | None,
    *,
    chunk_rows: int,
    engine: Engine,
    with_ones: bool = False,
    progress: Progress = uncounted,
) -> list[NodeSums]:
    """Return each node's D = WᵀΩW, E = WᵀΩ[ancestors], b = WᵀΩY for features W and weights Ω (None: ones).

    ``with_ones`` appends a column of ones to Y; an intercept needs the sums WᵀΩ1.

    ``targets`` has shape (n, outputs). Rows are read in chunks, routed, sorted by leaf and cut into
    units that threads work on. A unit's sums are products of at most 1,024 rows in the tiles' dtype; they are
    added up in float64 in the order of the units. Time O(n (m d + m r + R_path²)); memory: the sums
    and one chunk, independent of n.
    """
    sums = NodeSums.zeros_of(features.forest, targets.shape[1] + with_ones)
    for where, rows in row_blocks(source, chunk_rows):
        w = None if weights is None else weights[where]
        y = targets[where]
        if with_ones:
            y = np.column_stack([y, np.ones(len(y))])
        add_rows(sums, features, rows, y, w, engine, progress)
    return sums


def add_rows(
    sums: Sequence[NodeSums],
    features: FeatureMap,
    rows: Rows,
    targets: Array,
    weights: Array | None,
    engine: Engine,
    progress: Progress = uncounted,
) -> None:
    """Add a chunk of rows to the sums, in place, in the order of its units."""
    with _chunk_sums(features, rows, targets, weights, engine) as found:
        for unit, parts in found:
            for part in parts:
                total = sums[part.node]
                total.gram += part.gram
                total.rhs += part.rhs
                total.cross += part.cross
            progress(len(unit.rows))


def _chunk_sums(
    features: FeatureMap, rows: Rows, targets: Array, weights: Array | None, engine: Engine
) -> AbstractContextManager[Iterator[tuple[Unit, list[UnitSums]]]]:
    labels = features.partition.route(rows, engine)

    def work(unit: Unit) -> tuple[Unit, list[UnitSums]]:
        return unit, _unit_sums(features, rows[unit.rows], unit, targets, weights)

    return engine.results(work, units_by_leaf(labels, features.leaf_levels))


def _unit_sums(
    features: FeatureMap, X: Rows, unit: Unit, targets: Array, weights: Array | None
) -> list[UnitSums]:
    forest = features.forest
    F = features.unit_features(X, unit)
    Y = narrowed(targets[unit.rows], F.dtype)
    if weights is not None:
        root = np.sqrt(weights[unit.rows]).astype(F.dtype)[:, None]
        Y = Y * root
        for segment in chain.from_iterable(unit.levels):
            start = forest.path_rank(segment.node)
            F[segment.rows, start : start + forest.ranks[segment.node]] *= root[segment.rows]
    return unit_products(forest, unit, F, Y)


def unit_products(forest: Forest, unit: Unit, F: FloatArray, Y: FloatArray) -> list[UnitSums]:
    """Return each node's WᵀW, Wᵀ[ancestors] and WᵀY over a unit's rows; F has their path features."""
    done = []
    for segments in unit.levels:
        for segment in segments:
            start = forest.path_rank(segment.node)
            W = F[segment.rows, start : start + forest.ranks[segment.node]]
            above = F[segment.rows, :start]
            done.append(UnitSums(segment.node, W.T @ W, W.T @ above, W.T @ Y[segment.rows]))
    return done


def leaf_blocks(
    features: FeatureMap, source: RowSource, *, chunk_rows: int, engine: Engine
) -> Generator[tuple[Array, Unit, FloatArray], None, None]:
    """Yield (row numbers, unit, path features) of each unit over all rows, in order.

    Close it where the loop may end early: tasks are under way while it waits.
    """
    for where, rows in row_blocks(source, chunk_rows):
        with _chunk_features(features, rows, engine) as units:
            for unit, F in units:
                yield where.start + unit.rows, unit, F


def _chunk_features(
    features: FeatureMap, rows: Rows, engine: Engine
) -> AbstractContextManager[Iterator[tuple[Unit, FloatArray]]]:
    labels = features.partition.route(rows, engine)

    def work(unit: Unit) -> tuple[Unit, FloatArray]:
        return unit, features.unit_features(rows[unit.rows], unit)

    return engine.results(work, units_by_leaf(labels, features.leaf_levels))
