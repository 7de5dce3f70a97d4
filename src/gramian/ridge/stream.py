"""State of a stream: one feature map, and the sums of all rows so far."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gramian._phases import Progress, uncounted
from gramian._typing import Float64Array
from gramian.compression.features import FeatureMap, difference
from gramian.compression.plan import Plan
from gramian.compression.predictor import fold
from gramian.engine import Engine
from gramian.estimator.input import Input
from gramian.estimator.labelled import LabelledRows
from gramian.exceptions import InputError
from gramian.ridge.model import KernelModel
from gramian.ridge.sums import RidgeSums, solve_ridge, sum_rows
from gramian.solvers.arrowhead import Forest, NodeSums


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
        return replace(self, sums=sums)

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
