"""Passes for losses other than squares: each row's curvature weighs it, its slope is its target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol, TypeVar

import numpy as np

from gramian._typing import Array, Float64Array, FloatArray, Rows
from gramian.approximation.features import FeatureMap
from gramian.approximation.grouping import Unit, units_by_leaf
from gramian.approximation.sums import Progress
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.solvers.arrowhead import NodeSums
from gramian.solvers.losses import Loss, Proximal
from gramian.solvers.newton import STEPS, Evaluation
from gramian.solvers.newton_system import Curvature, Point

Result = TypeVar("Result")
#: Work on a unit, given its path features.
Work = Callable[[Unit, FloatArray], Result]


class Targets(Protocol):
    """Targets of shape (n, outputs), read by slices of rows."""

    shape: tuple[int, int]

    def __getitem__(self, where: slice) -> Float64Array: ...


@dataclass
class Tiles:
    """The path features of all rows, unit by unit; kept after the first pass where ``room`` holds them."""

    features: FeatureMap
    source: RowSource
    chunk_rows: int
    engine: Engine
    room: int = 0
    _kept: dict[int, list[tuple[Unit, FloatArray]]] = field(default_factory=dict)

    @property
    def kept_bytes(self) -> int:
        """Bytes that keeping all features takes; 0 where ``room`` is too small for it."""
        n, width = self.source.shape[0], max(self.features.path_ranks)
        need = n * (width * self.features.dtype.itemsize + 8)
        return need if need <= self.room else 0

    def chunks(self) -> Iterator[tuple[slice, Callable[[Work[Result]], Iterator[tuple[Unit, Result]]]]]:
        """Yield chunks of rows, each with a function that maps work over its units in their order."""
        n = self.source.shape[0]
        if n and len(self._kept) == -(-n // self.chunk_rows):
            for start, stored in self._kept.items():
                yield slice(start, min(n, start + self.chunk_rows)), self._over(stored)
            return
        for where, rows in row_blocks(self.source, self.chunk_rows):
            yield where, self._through(where.start, rows)

    def _over(
        self, stored: list[tuple[Unit, FloatArray]]
    ) -> Callable[[Work[Result]], Iterator[tuple[Unit, Result]]]:
        def run(work: Work[Result]) -> Iterator[tuple[Unit, Result]]:
            return self.engine.map(lambda pair: (pair[0], work(*pair)), stored)

        return run

    def _through(self, start: int, rows: Rows) -> Callable[[Work[Result]], Iterator[tuple[Unit, Result]]]:
        def run(work: Work[Result]) -> Iterator[tuple[Unit, Result]]:
            labels = self.features.partition.route(rows, self.engine)

            def compute(unit: Unit) -> tuple[Unit, FloatArray | None, Result]:
                F = self.features.unit_features(rows[unit.rows], unit)
                return unit, F if self.kept_bytes else None, work(unit, F)

            stored = []
            units = units_by_leaf(labels, self.features.leaf_levels)
            for unit, F, result in self.engine.map(compute, units):
                if F is not None:
                    stored.append((unit, F))
                yield unit, result
            if self.kept_bytes:
                self._kept[start] = stored

        return run


@dataclass
class _UnitTerms:
    losses: Float64Array
    slopes: list[tuple[int, FloatArray]]
    slope_offset: Float64Array
    grams: list[tuple[int, int, FloatArray, FloatArray, FloatArray]]  # output, node, D, E, WᵀH1
    rows: list[tuple[int, FloatArray, FloatArray]]  # output, H^(1/2)F of active rows, their H^(1/2)
    masses: Float64Array


class _OutputSums:
    """The sums of one output; of a lone basis the rows themselves, as long as they are few."""

    def __init__(self, features: FeatureMap) -> None:
        forest = features.forest
        # A Gram matrix is made when it is needed: of the classes of which all rows are far, never.
        self._lone = few_rows(features)
        self._make = lambda: [NodeSums.zeros(forest, b, 1) for b in range(len(forest.ranks))]
        self._sums = None if self._lone else self._make()
        self._rank = forest.total_rank
        self._ones = np.zeros((self._rank, 1))
        self._rows: list[FloatArray] = []
        self._count = 0
        self.mass = 0.0

    def add(self, node: int, gram: FloatArray, cross: FloatArray, ones: FloatArray) -> None:
        total = self._formed()[node]
        total.gram += gram
        total.cross += cross
        total.rhs[:, 0] += ones

    def add_rows(self, rows: FloatArray, root: FloatArray) -> None:
        self._rows.append(rows)
        self._ones[:, 0] += rows.T @ root
        self._count += len(rows)
        if self._count > self._lone:
            self._flush()

    def _formed(self) -> list[NodeSums]:
        if self._sums is None:
            self._sums = self._make()
        return self._sums

    def _flush(self) -> None:
        if self._rows:
            rows = np.concatenate(self._rows)
            self._formed()[0].gram += rows.T @ rows
            self._rows, self._count = [], 0

    def curvature(self) -> Curvature:
        if self._lone and self._sums is None:
            rows = np.concatenate([np.zeros((0, self._rank)), *self._rows])
            empty = np.zeros((0, 0))
            return Curvature([NodeSums(empty, np.zeros((self._rank, 0)), self._ones)], self.mass, rows)
        sums = self._formed()
        if self._lone:
            self._flush()
            sums[0].rhs += self._ones
        return Curvature(sums, self.mass)


def few_rows(features: FeatureMap) -> int:
    """Return up to how many active rows stand for their Gram matrix: half the rank of a lone basis."""
    alone = features.core is None and len(features.forest.ranks) == 1
    return features.rank // 2 if alone else 0


@dataclass(frozen=True)
class LossPasses:
    """The rows' side of :class:`gramian.solvers.newton.Newton`: one pass over the tiles an evaluation.

    Time O(n r_path (outputs + active part · r_path)) beside the features: rows without curvature take no
    part in a Gram matrix. Memory: a Gram matrix for each output asked, independent of n.
    """

    tiles: Tiles
    targets: Targets
    weights: Array | None
    progress: Progress | None = None
    #: A number for each row and output, of losses that have anchors; made when first set.
    anchors: list[Float64Array] = field(default_factory=list)

    def anchor(self, point: Point, outputs: Array, loss: Proximal) -> tuple[Float64Array, Float64Array]:
        """Set the anchors of these outputs to the duals at ``point``; return losses and gaps per output."""
        if not self.anchors:
            self.anchors.append(np.full(self.targets.shape, loss.first_anchor))
        anchors = self.anchors[0]
        losses, gaps = np.zeros(len(outputs)), np.zeros(len(outputs))
        by_node = self._by_node(point.beta)
        for where, over in self.tiles.chunks():
            y, w = self.targets[where][:, outputs], self._weights(where)
            for unit, f in over(lambda unit, F: self._values(unit, F, by_node)):
                rows, f = np.ix_(where.start + unit.rows, outputs), f + point.offset
                dual = loss.dual(y[unit.rows], f, anchors[rows])
                anchors[rows] = dual
                gaps += w[unit.rows] @ loss.gap(y[unit.rows], f, dual)
                losses += w[unit.rows] @ loss.gap(y[unit.rows], f, np.zeros_like(dual))
        return losses, gaps

    def _weights(self, where: slice) -> Array:
        return np.ones(where.stop - where.start) if self.weights is None else self.weights[where]

    def evaluate(
        self, start: Point, step: Point | None, outputs: Array, loss: Loss, *, curvatures: int
    ) -> Evaluation:
        """Return losses, slopes and curvatures at ``start + step``."""
        forest, p = self.tiles.features.forest, len(outputs)
        losses = np.zeros((1 if step is None else len(STEPS), p if loss.separable else 1))
        slope, slope_offset = np.zeros((forest.total_rank, p)), np.zeros(p)
        sums = [_OutputSums(self.tiles.features) for _ in range(curvatures)]
        coefficients = start.beta if step is None else np.hstack([start.beta, step.beta])
        offsets = self.tiles.features.offsets
        by_node = self._by_node(coefficients)
        shift = start.offset if step is None else np.concatenate([start.offset, step.offset])
        whole = len(outputs) == self.targets.shape[1]
        for where, over in self.tiles.chunks():
            y = self.targets[where] if whole else self.targets[where][:, outputs]
            w, first = self._weights(where), where.start

            def work(unit: Unit, F: FloatArray, y: Array = y, w: Array = w, first: int = first) -> _UnitTerms:
                f = self._values(unit, F, by_node) + shift
                anchor = self.anchors[0][np.ix_(first + unit.rows, outputs)] if self.anchors else None
                return self._terms(unit, F, f, y[unit.rows], w[unit.rows], loss, anchor, curvatures)

            for _, part in over(work):
                losses += part.losses
                slope_offset += part.slope_offset
                for total, mass in zip(sums, part.masses, strict=True):
                    total.mass += float(mass)
                for node, own in part.slopes:
                    slope[offsets[node] : offsets[node] + len(own)] += own
                for output, node, gram, cross, ones in part.grams:
                    sums[output].add(node, gram, cross, ones)
                for output, active, root in part.rows:
                    sums[output].add_rows(active, root)
            if self.progress is not None:
                self.progress(len(y))
        found = list(self.tiles.engine.map(_OutputSums.curvature, sums))
        return Evaluation(losses, slope, slope_offset, found)

    def decisions(self, point: Point) -> Float64Array:
        """Return f(x) + b of every row, shape (n, outputs)."""
        out = np.empty((self.tiles.source.shape[0], len(point.offset)))
        by_node = self._by_node(point.beta)
        for where, over in self.tiles.chunks():
            for unit, f in over(lambda unit, F: self._values(unit, F, by_node)):
                out[where.start + unit.rows] = f + point.offset
        return out

    def _by_node(self, coefficients: Float64Array) -> list[FloatArray]:
        features = self.tiles.features
        return np.split(coefficients.astype(features.dtype), features.offsets[1:])

    def _values(self, unit: Unit, F: FloatArray, by_node: list[FloatArray]) -> Float64Array:
        forest = self.tiles.features.forest
        f = np.zeros((len(F), by_node[0].shape[1]), F.dtype)
        for segment in chain.from_iterable(unit.levels):
            start = forest.path_rank(segment.node)
            own = F[segment.rows, start : start + forest.ranks[segment.node]]
            f[segment.rows] += own @ by_node[segment.node]
        return f.astype(np.float64)

    def _terms(
        self,
        unit: Unit,
        F: FloatArray,
        f: Float64Array,
        y: Array,
        w: Array,
        loss: Loss,
        anchor: Float64Array | None,
        curvatures: int,
    ) -> _UnitTerms:
        forest, p = self.tiles.features.forest, y.shape[1]
        if f.shape[1] > p:
            f, d = f[:, :p], f[:, p:]
            terms = loss.terms(y, f + d, anchor)
            shorter = [w @ loss.terms(y, f + t * d, anchor).value for t in STEPS[1:]]
        else:
            terms, shorter = loss.terms(y, f, anchor), []
        g = terms.slope * w[:, None]
        narrow = g.astype(F.dtype)
        slopes: list[tuple[int, FloatArray]] = []
        for segment in chain.from_iterable(unit.levels):
            start = forest.path_rank(segment.node)
            own = F[segment.rows, start : start + forest.ranks[segment.node]]
            slopes.append((segment.node, own.T @ narrow[segment.rows]))
        bend = terms.curvature if loss.separable else terms.curvature.max(axis=1, keepdims=True)
        h = bend[:, :curvatures] * w[:, None]
        grams: list[tuple[int, int, FloatArray, FloatArray, FloatArray]] = []
        rows: list[tuple[int, FloatArray, FloatArray]] = []
        few = few_rows(self.tiles.features)
        for output in range(curvatures):
            active = np.flatnonzero(h[:, output] > 0)
            root = np.sqrt(h[active, output]).astype(F.dtype)
            scaled = F[active] * root[:, None]
            if few and len(active) <= few:
                rows.append((output, scaled, root))
            else:
                grams += self._grams(unit, active, scaled, root, output)
        losses = np.stack([w @ terms.value, *shorter])
        return _UnitTerms(losses, slopes, g.sum(axis=0), grams, rows, h.sum(axis=0))

    def _grams(
        self, unit: Unit, active: Array, scaled: FloatArray, root: FloatArray, output: int
    ) -> Iterator[tuple[int, int, FloatArray, FloatArray, FloatArray]]:
        forest = self.tiles.features.forest
        for segment in chain.from_iterable(unit.levels):
            a, b = np.searchsorted(active, [segment.rows.start, segment.rows.stop])
            if a == b:
                continue
            start = forest.path_rank(segment.node)
            W = scaled[a:b, start : start + forest.ranks[segment.node]]
            above = scaled[a:b, :start]
            yield output, segment.node, W.T @ W, W.T @ above, W.T @ root[a:b]
