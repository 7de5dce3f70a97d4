"""Passes of Newton's method over the rows, weighted by each row's curvature."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, TypeVar

import numpy as np

from gramian._numerics import narrowed
from gramian._phases import Phases, silent
from gramian._typing import Array, Float64Array, FloatArray, IntArray, Rows
from gramian.compression.features import FeatureMap, Unit
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.estimator.targets import NumberTargets, Signs
from gramian.solvers.arrowhead import Forest, NodeSums
from gramian.solvers.losses import Loss, Proximal
from gramian.solvers.newton import STEPS, Evaluation
from gramian.solvers.newton_system import ActiveRows, Curvature, NewtonPoint

Result = TypeVar("Result")
#: Work on a unit, given its path features.
Work = Callable[[Unit, FloatArray], Result]


@dataclass
class FeatureTiles:
    """Path features of all rows, unit by unit; kept after the first pass if ``room`` bytes hold them."""

    features: FeatureMap
    source: RowSource
    chunk_rows: int
    engine: Engine
    room: int = 0
    _kept: dict[int, list[tuple[Unit, FloatArray]]] = field(default_factory=dict)

    @property
    def kept_bytes(self) -> int:
        """Bytes of all features if they are kept; 0 if ``room`` is too small."""
        n, width = self.source.shape[0], max(self.features.path_ranks)
        need = n * (width * self.features.dtype.itemsize + 8)
        return need if need <= self.room else 0

    def map(self, begin: Callable[[slice], Work[Result]]) -> Generator[tuple[slice, Unit, Result]]:
        """Yield results of all units in their order; ``begin`` returns the work on a chunk of rows."""
        n = self.source.shape[0]
        if n and len(self._kept) == -(-n // self.chunk_rows):
            for start, stored in self._kept.items():
                where = slice(start, min(n, start + self.chunk_rows))
                with self.engine.results(partial(_with_unit, begin(where)), stored) as results:
                    for unit, result in results:
                        yield where, unit, result
            return
        keeps = self.kept_bytes > 0
        for where, rows in row_blocks(self.source, self.chunk_rows):
            work, stored = begin(where), []

            def compute(
                unit: Unit, _: Rows, F: FloatArray, work: Work[Result] = work
            ) -> tuple[FloatArray | None, Result]:
                return F if keeps else None, work(unit, F)

            with self.features.map_units(rows, compute, self.engine) as computed:
                for unit, (F, result) in computed:
                    if F is not None:
                        stored.append((unit, F))
                    yield where, unit, result
            if keeps:
                self._kept[where.start] = stored

    def values(self, point: NewtonPoint) -> Float64Array:
        """Return f(x) + b of every row, shape (n, outputs)."""
        out = np.empty((self.source.shape[0], len(point.offset)))
        by_node = self.by_node(point.beta)
        with closing(self.map(lambda _: lambda unit, F: self.products(unit, F, by_node))) as units:
            for where, unit, f in units:
                out[where.start + unit.rows] = f + point.offset
        return out

    def by_node(self, coefficients: Float64Array) -> list[FloatArray]:
        """Return the coefficients of each node, in the type of the features."""
        return np.split(narrowed(coefficients, self.features.dtype), self.features.offsets[1:])

    def products(self, unit: Unit, F: FloatArray, by_node: list[FloatArray]) -> Float64Array:
        """Return the products of a unit's features with the coefficients of their nodes."""
        forest = self.features.forest
        f = np.zeros((len(F), by_node[0].shape[1]), by_node[0].dtype)
        for segment in unit.segments:
            f[segment.rows] += F[segment.rows, forest.columns(segment.node)] @ by_node[segment.node]
        return f.astype(np.float64)


def _with_unit(work: Work[Result], stored: tuple[Unit, FloatArray]) -> tuple[Unit, Result]:
    return stored[0], work(*stored)


@dataclass
class _UnitTerms:
    losses: Float64Array
    slopes: list[tuple[int, FloatArray]]
    slope_offset: Float64Array
    grams: list[tuple[int, int, FloatArray, FloatArray, FloatArray]]  # output, node, D, E, WᵀH1
    masses: Float64Array
    rows: list[tuple[int, FloatArray, IntArray, FloatArray]]  # output, H^(1/2)F, nodes, H^(1/2)
    counts: IntArray  # rows with curvature, by output


class _OutputSums:
    """Sums of one output, or the rows themselves while there are at most ``few``."""

    def __init__(self, forest: Forest, few: int, dtype: np.dtype[Any]) -> None:
        self._forest, self._few, self._dtype = forest, few, dtype
        self._rows: list[tuple[FloatArray, IntArray, FloatArray]] = []
        self.sums: list[NodeSums] = [] if few else NodeSums.zeros_of(forest, 1)
        self.count = 0
        self.mass = 0.0

    def add_rows(self, path: FloatArray, nodes: IntArray, root: FloatArray) -> None:
        self._rows.append((path, nodes, root))
        if sum(len(r[2]) for r in self._rows) > self._few:
            self.sums = self.sums or NodeSums.zeros_of(self._forest, 1)
            self._active().add_to(self.sums)
            self._rows = []

    def _active(self) -> ActiveRows:
        path = np.concatenate([r[0] for r in self._rows], dtype=self._dtype)
        nodes = np.concatenate([r[1] for r in self._rows], axis=1)
        root = np.concatenate([r[2] for r in self._rows]).astype(np.float64)
        return ActiveRows(self._forest, path, nodes, root)

    def curvature(self) -> Curvature:
        if not self.sums:
            return Curvature([], self.mass, self._active())
        if self._rows:
            self._active().add_to(self.sums)
        return Curvature(self.sums, self.mass)


def few_rows(features: FeatureMap) -> int:
    """Return how many active rows at most are kept instead of their Gram matrix; 0 for a coupled core.

    m rows store m paths, which must not exceed half the numbers of the sums. They cost m³/3 + m² w
    operations, where two rows share w features on average, which must not exceed the cost of elimination.
    """
    if features.core is not None:
        return 0
    forest, width = features.forest, max(1, *features.path_ranks)
    above = [forest.path_rank(b) for b in range(len(forest.ranks))]
    numbers = sum(r * (r + a) for r, a in zip(forest.ranks, above, strict=True))
    work = sum(r**3 / 3 + r * r * a + r * a * a / 2 for r, a in zip(forest.ranks, above, strict=True))
    levels = [forest.ranks[level] for level in forest.levels]
    shared = sum(sum(ranks) / len(ranks) ** 2 for ranks in levels)
    most = numbers // (2 * width)
    while most and most**3 / 3 + most**2 * shared > work:
        most = int(0.9 * most)
    return most


@dataclass(frozen=True)
class LossPasses:
    """Sums over the rows for :class:`gramian.solvers.newton.Newton`: one pass over the tiles per evaluation.

    Time O(n r_path (outputs + active part · r_path)) in addition to the features: rows without curvature do
    not enter a Gram matrix. Memory: one Gram matrix for each requested output, independent of n.
    """

    tiles: FeatureTiles
    targets: NumberTargets | Signs | Float64Array
    weights: Array
    phases: Phases = silent  #: told of each pass and its rows
    name: str = "pass"  #: what the passes are called there
    #: Anchors of a proximal loss, one for each row and output; empty until first set.
    anchors: list[Float64Array] = field(default_factory=list)
    #: Number of rows with curvature at each output's last evaluation; if it was small, rows replace the sums.
    active: dict[int, int] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=partial(count, 1))  #: of the passes that are to come

    def anchor(self, point: NewtonPoint, outputs: Array, loss: Proximal) -> tuple[Float64Array, Float64Array]:
        """Set the anchors of these outputs to the duals at ``point``; return losses and gaps per output."""
        if not self.anchors:
            self.anchors.append(np.full(self.targets.shape, loss.first_anchor))
        anchors = self.anchors[0]
        losses, gaps = np.zeros(len(outputs)), np.zeros(len(outputs))
        by_node = self.tiles.by_node(point.beta)

        def begin(where: slice) -> Work[tuple[Float64Array, Float64Array]]:
            y, w = self.targets[where][:, outputs], self.weights[where]

            def work(unit: Unit, F: FloatArray) -> tuple[Float64Array, Float64Array]:
                rows, own, mass = np.ix_(where.start + unit.rows, outputs), y[unit.rows], w[unit.rows]
                f = self.tiles.products(unit, F, by_node) + point.offset
                anchors[rows] = dual = loss.dual(own, f, anchors[rows])
                return mass @ loss.gap(own, f, dual), mass @ loss.gap(own, f, np.zeros_like(dual))

            return work

        with closing(self.tiles.map(begin)) as units:
            for _, _, (gap, value) in units:
                gaps += gap
                losses += value
        return losses, gaps

    def evaluate(
        self, start: NewtonPoint, step: NewtonPoint | None, outputs: Array, loss: Loss, *, curvatures: int
    ) -> Evaluation:
        """Return losses, slopes and curvatures at ``start + step``."""
        forest, p = self.tiles.features.forest, len(outputs)
        losses = np.zeros((1 if step is None else len(STEPS), p if loss.separable else 1))
        slope, slope_offset = np.zeros((forest.total_rank, p)), np.zeros(p)
        few = few_rows(self.tiles.features)
        fews = [few if self.active.get(int(j), few + 1) <= few else 0 for j in outputs[:curvatures]]
        # Narrow parabolas weight rows by 1/ρ, which amplifies their rounding errors.
        precise = np.dtype(np.float64) if isinstance(loss, Proximal) else self.tiles.features.dtype
        sums = [_OutputSums(forest, limit, precise) for limit in fews]
        coefficients = start.beta if step is None else np.hstack([start.beta, step.beta])
        offsets = self.tiles.features.offsets
        by_node = self.tiles.by_node(coefficients)
        shift = start.offset if step is None else np.concatenate([start.offset, step.offset])
        whole = len(outputs) == self.targets.shape[1]
        progress = self.phases(f"{self.name} {next(self.numbers)}", self.tiles.source.shape[0])

        def begin(where: slice) -> Work[_UnitTerms]:
            y = self.targets[where] if whole else self.targets[where][:, outputs]
            w, first = self.weights[where], where.start

            def work(unit: Unit, F: FloatArray) -> _UnitTerms:
                f = self.tiles.products(unit, F, by_node) + shift
                anchor = self.anchors[0][np.ix_(first + unit.rows, outputs)] if self.anchors else None
                return self._terms(unit, F, f, y[unit.rows], w[unit.rows], loss, anchor, fews)

            return work

        with closing(self.tiles.map(begin)) as units:
            for _, unit, part in units:
                losses += part.losses
                slope_offset += part.slope_offset
                for total, mass, curved in zip(sums, part.masses, part.counts, strict=True):
                    total.mass += float(mass)
                    total.count += int(curved)
                for node, own in part.slopes:
                    slope[offsets[node] : offsets[node] + len(own)] += own
                for output, node, gram, cross, ones in part.grams:
                    formed = sums[output].sums[node]
                    formed.gram += gram
                    formed.cross += cross
                    formed.rhs[:, 0] += ones
                for output, active, nodes, root in part.rows:
                    sums[output].add_rows(active, nodes, root)
                progress(len(unit.rows))
        self.active.update({int(j): total.count for j, total in zip(outputs, sums)})
        by_output = self.tiles.engine.map(_OutputSums.curvature, sums)
        return Evaluation(losses, slope, slope_offset, by_output)

    def _terms(
        self,
        unit: Unit,
        F: FloatArray,
        f: Float64Array,
        y: Array,
        w: Array,
        loss: Loss,
        anchor: Float64Array | None,
        fews: list[int],
    ) -> _UnitTerms:
        forest, p = self.tiles.features.forest, y.shape[1]
        if f.shape[1] > p:
            f, d = f[:, :p], f[:, p:]
            terms = loss.terms(y, f + d, anchor)
            shorter = [w @ loss.value(y, f + t * d, anchor) for t in STEPS[1:]]
        else:
            terms, shorter = loss.terms(y, f, anchor), []
        g = terms.slope * w[:, None]
        narrow = narrowed(g, F.dtype)
        slopes: list[tuple[int, FloatArray]] = []
        for segment in unit.segments:
            own = F[segment.rows, forest.columns(segment.node)]
            slopes.append((segment.node, own.T @ narrow[segment.rows]))
        bend = terms.curvature if loss.separable else terms.curvature.max(axis=1, keepdims=True)
        h = bend[:, : len(fews)] * w[:, None]
        grams: list[tuple[int, int, FloatArray, FloatArray, FloatArray]] = []
        rows: list[tuple[int, FloatArray, IntArray, FloatArray]] = []
        nodes = np.empty((len(unit.levels), len(F)), np.intp)
        for level, segments in zip(nodes, unit.levels, strict=True):
            for segment in segments:
                level[segment.rows] = segment.node
        for output, few in enumerate(fews):
            active = np.flatnonzero(h[:, output] > 0)
            root = np.sqrt(narrowed(h[active, output], F.dtype))
            scaled = F[active] * root[:, None]
            if few:
                rows.append((output, scaled, nodes[:, active], root))
            else:
                grams += self._grams(unit, active, scaled, root, output)
        losses = np.stack([w @ terms.value, *shorter])
        return _UnitTerms(losses, slopes, g.sum(axis=0), grams, h.sum(axis=0), rows, (h > 0).sum(axis=0))

    def _grams(
        self, unit: Unit, active: Array, scaled: FloatArray, root: FloatArray, output: int
    ) -> Iterator[tuple[int, int, FloatArray, FloatArray, FloatArray]]:
        forest = self.tiles.features.forest
        for segment in unit.segments:
            a, b = np.searchsorted(active, [segment.rows.start, segment.rows.stop])
            if a == b:
                continue
            own = forest.columns(segment.node)
            W, above = scaled[a:b, own], scaled[a:b, : own.start]
            yield output, segment.node, W.T @ W, W.T @ above, W.T @ root[a:b]
