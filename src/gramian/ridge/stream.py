"""State of a stream: one feature map, and the sums of all rows so far."""

from __future__ import annotations

import time
import warnings
from bisect import bisect_right
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._budget import format_bytes
from gramian._phases import Progress, uncounted
from gramian._typing import Array, Float64Array
from gramian.compression.builder import sizes_of
from gramian.compression.costs import Workload
from gramian.compression.features import FeatureMap, difference
from gramian.compression.plan import Plan, later_bytes
from gramian.compression.predictor import fold
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.estimator.input import Input
from gramian.estimator.labelled import LabelledRows
from gramian.exceptions import AccuracyWarning, InputError, user_level
from gramian.ridge.growth import MapCoverage, growing_sizes, settled_map
from gramian.ridge.model import KernelModel
from gramian.ridge.sums import RidgeSums, solve_ridge, sum_rows
from gramian.solvers.arrowhead import Forest, NodeSums

#: A number of rows so large that it bounds no size of a plan.
ENDLESS = 10**9


@dataclass(frozen=True)
class Stream:
    """A stream: input and feature map of its first rows, and sums over all rows so far.

    Nothing is changed in place: each method returns a new stream that shares unchanged arrays with this one.
    Work that is interrupted therefore leaves the old stream intact. Memory: map and sums, independent of the
    number of rows.
    """

    input: Input
    features: FeatureMap
    sums: RidgeSums
    plan: Plan
    work: Workload  #: what the plan was made for
    coverage: MapCoverage | None = None  #: rows that the map represents badly; None if the map cannot grow
    seconds: dict[str, float] = field(default_factory=dict)  #: spent so far, by phase

    @property
    def n_blocks(self) -> int:
        """Leaf blocks of the map."""
        return self.features.partition.n_blocks

    def extended(self, rows: LabelledRows[Any], engine: Engine, progress: Progress = uncounted) -> Stream:
        """Return the stream with these rows, which are ready for the kernel.

        Time O(n (m d + m r + R_path²)) as in a fit, and that of adding the sums of the nodes that rows reach.
        """
        began = time.perf_counter()
        old = self.sums
        width = len(old.shift) + old.intercept
        fresh = _NodesMet(self.features.forest, width)
        added = RidgeSums(fresh, old.shift, old.intercept, 0.0, np.zeros_like(old.right), 0)
        sum_rows(
            added, self.features, rows, chunk_rows=self.plan.chunk_rows, engine=engine, progress=progress
        )
        nodes = list(old.nodes)
        for node, new in fresh.met.items():
            new.add(nodes[node])
            nodes[node] = new
        sums = RidgeSums(
            nodes,
            old.shift,
            old.intercept,
            old.mass + added.mass,
            old.right + added.right,
            old.n_rows + added.n_rows,
        )
        spent = self.seconds.get("sums", 0.0) + time.perf_counter() - began
        return replace(self, sums=sums, seconds={**self.seconds, "sums": spent})

    def explored(
        self, source: RowSource, weights: Array | None, engine: Engine, memory_budget: int
    ) -> Stream:
        """Return the stream with new blocks, if enough rows lie in new territory; these rows count too.

        Earlier rows keep the features with which they were summed, so the new blocks do not know them. Growth
        ends, with a warning, when the memory budget is used up.
        """
        sizes = growing_sizes(self.features, sizes_of(self.plan.builder))
        coverage, plan = self.coverage, replace(self.plan, memory_budget=memory_budget)
        if coverage is None or memory_budget <= coverage.ended_at:
            return self
        coverage = coverage.with_badly_represented(self.features, source, weights, plan.chunk_rows, engine)
        first, most = coverage.leaves(sizes)
        if not most or coverage.rows is None:
            return replace(self, coverage=coverage)
        held = int(coverage.rows.nnz * 12 if sp.issparse(coverage.rows) else coverage.rows.nbytes)

        def needed(extra: int) -> dict[str, int]:
            """Predict the bytes per phase with so many further blocks, beside the rows that wait."""
            builder = replace(sizes, n_blocks=self.n_blocks + extra)
            needs = later_bytes(builder, replace(self.work, n_rows=ENDLESS), plan)
            return {phase: size + held for phase, size in needs.items()}

        blocks, largest = range(1, most + 1), lambda extra: max(needed(extra).values())
        count, settled = bisect_right(blocks, memory_budget, key=largest), False
        features = self.features
        if count:
            features, settled = settled_map(features, sizes, coverage, min(first, count), count, engine)
        extra = features.partition.n_blocks - self.n_blocks
        if count < most and not settled:
            _warn_of_end(self.n_blocks + extra, coverage, memory_budget, needed(count + 1))
            coverage = replace(coverage, ended_at=memory_budget)
        plan = replace(plan, n_blocks=self.n_blocks + extra, bytes={**plan.bytes, **needed(extra)})
        return replace(self.on_map(features, plan), coverage=coverage.cleared())

    def fade(self, factor: float) -> Stream:
        """Return the stream whose rows have ``factor`` times their weight. Time and memory of the sums."""
        sums = deepcopy(self.sums)
        sums.scale(factor)
        return replace(self, sums=sums)

    def merge(self, other: Stream) -> Stream:
        """Return the stream of both streams' rows; raise if their features or sums differ in kind."""
        mine, its = self.sums, other.sums
        parts = difference(self.features, other.features)
        if parts is not None:
            raise InputError(
                f"the two models have different feature maps: {parts} differ. Sums add up over one map only: "
                "start both with approximation=FrozenEstimator(a) of one fitted approximation a."
            )
        if len(mine.shift) != len(its.shift):
            raise InputError(
                f"this model has {len(mine.shift)} outputs, the other {len(its.shift)}. Give both streams "
                "targets of the same shape."
            )
        if mine.intercept != its.intercept:
            raise InputError(
                f"this model was started with fit_intercept={mine.intercept}, the other with "
                f"{its.intercept}. Start both alike."
            )
        sums = deepcopy(mine)
        sums.add(its)
        coverage = self.coverage
        if coverage is not None and other.coverage is not None:
            coverage = coverage.joined(other.coverage)
        return replace(self, sums=sums, coverage=coverage)

    def solved(self, alpha: float | Float64Array, engine: Engine) -> KernelModel:
        """Solve for the coefficients and fold them into a predictor; the sums stay. Time as in a fit."""
        began = time.perf_counter()
        beta, offset, solution = solve_ridge(self.features, self.sums, alpha, engine)
        solved = time.perf_counter()
        predictor = fold(self.features, beta)
        seconds = {**self.seconds, "solve": solved - began, "fold": time.perf_counter() - solved}
        bases, sums = self.features.nbytes, self.sums.nbytes
        used = {
            "bases": bases,
            "sums": bases + 2 * sums,
            "solve": bases + 2 * sums,
            "fold": bases + sums + predictor.nbytes,
        }
        kernel, plan = self.features.kernel, self.plan.used(used, seconds)
        return KernelModel(predictor, kernel, offset, solution, plan, self.features.rank, input=self.input)

    def on_map(self, features: FeatureMap, plan: Plan) -> Stream:
        """Return the stream on a map with further nodes, whose sums are empty."""
        width = len(self.sums.shift) + self.sums.intercept
        known = len(self.sums.nodes)
        new = [NodeSums.zeros(features.forest, node, width) for node in range(known, len(features.nodes))]
        sums = replace(self.sums, nodes=[*self.sums.nodes, *new])
        return replace(self, features=features, sums=sums, plan=plan)


def _warn_of_end(n_blocks: int, coverage: MapCoverage, memory_budget: int, needed: dict[str, int]) -> None:
    warnings.warn(
        f"the model stops growing at {n_blocks} blocks: memory_budget={format_bytes(memory_budget)} holds no "
        f"more ({format_bytes(max(needed.values()))} are needed with one), and {coverage.n_new} rows "
        f"have over {coverage.threshold:.0%} of k(x, x) outside of the blocks so far. Raise memory_budget.",
        AccuracyWarning,
        stacklevel=user_level(),
    )


class _NodesMet(Sequence[NodeSums]):
    """Empty sums for the nodes of a forest, created when a row first reaches a node."""

    def __init__(self, forest: Forest, n_outputs: int) -> None:
        self._forest, self._n_outputs = forest, n_outputs
        self.met: dict[int, NodeSums] = {}

    def __len__(self) -> int:
        return len(self._forest.ranks)

    def __getitem__(self, node: Any) -> Any:
        if node not in self.met:
            self.met[node] = NodeSums.zeros(self._forest, node, self._n_outputs)
        return self.met[node]
