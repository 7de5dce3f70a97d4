"""Sums FᵀF and Fᵀy over one pass of the rows, which train ridge models without storing the features F."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gramian._numerics import narrowed
from gramian._phases import Progress, uncounted
from gramian._typing import Array, FloatArray, Rows
from gramian.compression.features import FeatureMap, Unit
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.solvers.arrowhead import Forest, NodeSums

#: Contributions of one unit of rows to the sums of its nodes, by the nodes' numbers.
UnitSums = list[tuple[int, NodeSums]]


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
    forest = features.forest

    def work(unit: Unit, _: Rows, F: FloatArray) -> UnitSums:
        Y = narrowed(targets[unit.rows], F.dtype)
        if weights is not None:
            root = np.sqrt(weights[unit.rows]).astype(F.dtype)[:, None]
            Y = Y * root
            for segment in unit.segments:
                F[segment.rows, forest.columns(segment.node)] *= root[segment.rows]
        return unit_products(forest, unit, F, Y)

    with features.map_units(rows, work, engine) as results:
        for unit, parts in results:
            add_unit(sums, parts)
            progress(len(unit.rows))


def add_unit(sums: Sequence[NodeSums], parts: UnitSums) -> None:
    """Add the contributions of a unit to the sums, in place."""
    for node, part in parts:
        sums[node].add(part)


def unit_products(forest: Forest, unit: Unit, F: FloatArray, Y: FloatArray) -> UnitSums:
    """Return each node's WᵀW, Wᵀ[ancestors] and WᵀY over a unit's rows; F has their path features."""
    done = []
    for segment in unit.segments:
        own = forest.columns(segment.node)
        W, above = F[segment.rows, own], F[segment.rows, : own.start]
        done.append((segment.node, NodeSums(W.T @ W, W.T @ above, W.T @ Y[segment.rows])))
    return done
