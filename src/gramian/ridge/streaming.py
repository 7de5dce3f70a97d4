"""Rows that a ridge model takes in several calls: first rows that wait, then an input, a map and sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from gramian._phases import silent
from gramian.approximations.setup import FitSetup, frozen_map
from gramian.compression.costs import Workload
from gramian.compression.plan import Plan
from gramian.data.source import RowSource, as_source
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.summaries import FitFacts
from gramian.estimator.targets import ClassTargets, NumberTargets
from gramian.exceptions import InputError
from gramian.metric.input import learned_input, planned_source, with_metric
from gramian.ridge.model import KernelModel
from gramian.ridge.planning import check_penalties, plan_sums
from gramian.ridge.stream import Stream
from gramian.ridge.sums import RidgeSums
from gramian.ridge.training import ridge_round


def begin_stream(setup: FitSetup, rows: LabelledRows[Any], *, held: int = 0) -> Stream:
    """Return the stream that these rows begin, which take ``held`` bytes of the memory budget."""
    input_ = learned_input(setup, rows, ridge_round)
    rows, budget = input_.prepared(rows), setup.run.memory_bytes
    source, weights, n_outputs = rows.source, rows.weights, rows.n_outputs
    plan, kernel, run = plan_sums(
        setup.with_memory(budget - held), source, n_outputs, stream=True, weights=weights
    )
    features, engine = plan.build(source, kernel, run, weights), run.engine
    shift = rows.targets.centre(weights) if setup.intercept else np.zeros(n_outputs)
    sums = RidgeSums.zeros(features, shift, intercept=setup.intercept)
    return Stream(input_, features, sums, plan).extended(rows, engine, run.phases("sums", rows.n))


def extend_stream(setup: FitSetup, stream: Stream, rows: LabelledRows[Any]) -> Stream:
    """Return the stream with further rows."""
    rows, run = stream.input.prepared(rows), setup.run
    _check_unchanged(setup, stream, rows.source, rows.n_outputs)
    engine = stream_engine(stream, run.engine)
    return stream.extended(rows, engine, run.phases("sums", rows.n))


def stream_engine(stream: Stream, engine: Engine) -> Engine:
    """Return an engine of as many threads as this one has and the plan has room for."""
    return Engine(min(engine.n_threads, stream.plan.n_threads))


def other_outputs(outputs: int, expected: int) -> InputError:
    """Return the error about rows with more or fewer outputs than those before."""
    return InputError(
        f"y has {outputs} outputs, but the rows so far have {expected}. Give targets of the same shape in "
        "every call."
    )


def _check_unchanged(setup: FitSetup, stream: Stream, source: RowSource, n_outputs: int) -> None:
    """Raise where the rows, or parameters that have changed, do not go with the stream so far."""
    outputs = len(stream.sums.shift)
    if n_outputs != outputs:
        raise other_outputs(n_outputs, outputs)
    frozen = frozen_map(setup, source.shape[1])
    known: Any = stream.features.kernel
    kernel: Any = setup.kernel.resolve_for(source) if frozen is None else frozen.features.kernel
    if setup.kernel.by_rows and type(kernel) is type(known) and hasattr(known, "lengthscale"):
        kernel = replace(kernel, lengthscale=known.lengthscale)  # the first rows have decided
    if kernel != known:
        raise InputError(
            f"the kernel is now {kernel}, but the stream was started with {known}. "
            "Change it before the first call of partial_fit, or clone the model."
        )
    if setup.intercept != stream.sums.intercept:
        raise InputError(
            f"fit_intercept={setup.intercept!r}, but the stream was started with "
            f"{stream.sums.intercept}. Change it before the first call of partial_fit, or clone the "
            "model."
        )


#: Rows of positive weight after which scaler, metric and landmarks of a stream are chosen. With fewer rows
#: ``"auto"`` would take every row as a landmark.
FIRST_ROWS = 2_000
#: Fraction of the memory budget that waiting rows may take; when they exceed it they wait no longer.
WAITING_PART = 1 / 16


def enough(rows: LabelledRows[Any], nbytes: int, memory_budget: int) -> bool:
    """Return whether rows are enough to choose from, or take too much memory to wait."""
    counted = rows.n if rows.weights is None else int(np.count_nonzero(rows.weights))
    return counted >= FIRST_ROWS or nbytes > WAITING_PART * memory_budget


def bytes_of(rows: LabelledRows[Any]) -> int:
    """Return the bytes of rows in memory, their targets and weights."""
    block: Any = rows.rows
    parts = [block.data, block.indices, block.indptr] if sp.issparse(rows.rows) else [block]
    return sum(int(part.nbytes) for part in (*parts, rows.targets.values, rows.weights) if part is not None)


def bytes_unread(rows: LabelledRows[Any]) -> int:
    """Return the bytes that rows take once they are read, from the first of them."""
    work = Workload.of(rows.source, rows.n_outputs)
    return rows.n * work.itemsize * (work.n_features if work.row_numbers is None else work.row_numbers)


def joined(*parts: LabelledRows[Any]) -> LabelledRows[Any]:
    """Return copies of labelled rows, those of a part behind those before, as CSR if some are sparse."""
    first = parts[0].targets
    blocks: list[Any] = [part.rows for part in parts]
    rows: Any
    targets: Any
    if any(map(sp.issparse, blocks)):
        rows = sp.vstack([sp.csr_array(block) for block in blocks], format="csr")
    else:
        rows = np.concatenate(blocks)
    n, weighted = rows.shape[0], any(part.weights is not None for part in parts)
    weights = np.concatenate([part.all_weights for part in parts]) if weighted else None
    if isinstance(first, ClassTargets):
        labels = [first.classes[part.targets.codes(slice(0, part.n))] for part in parts]
        targets = ClassTargets(np.concatenate(labels), n, first.classes)
    else:
        targets = NumberTargets(np.concatenate([part.numbers for part in parts]), n)
    return LabelledRows(as_source(rows), targets, weights)


#: Learned attributes that are found from a stream's sums when they are asked for, and not before.
SOLVED = ("predictor_", "intercept_", "solution_")
#: Learned attributes that are chosen from a stream's first rows: when they are enough, or are asked for.
CHOSEN = ("kernel_", "rank_", "n_blocks_", "plan_", "scaler_", "metric_", "metric_rounds_")


@dataclass(frozen=True, eq=False)
class RidgeStream:
    """All rows so far, with the setup of the latest call.

    The first rows wait until there are enough to choose scaler, metric and landmarks from; then sums stand
    for them. What is asked for before is found once, and kept for as long as no rows come.
    """

    setup: FitSetup
    waiting: LabelledRows[Any] | None = None
    summed: Stream | None = None

    @classmethod
    def of(
        cls, setup: FitSetup, *, waiting: LabelledRows[Any] | None = None, summed: Stream | None = None
    ) -> Self:
        """Return the stream; it keeps nothing that shows the progress of a call."""
        return cls(replace(setup, run=replace(setup.run, phases=silent)), waiting, summed)

    # ---- what is known of it ---------------------------------------------------------------------

    @cached_property
    def begun(self) -> Stream:
        """Input, feature map and sums; rows that wait begin them for as long as no others come."""
        if self.summed is not None:
            return self.summed
        assert self.waiting is not None
        # A generator is left as it is: what is chosen in the end does not depend on who asks before.
        return _begin_with(self.setup.planning(), self.waiting)

    @cached_property
    def solved(self) -> KernelModel:
        """The model of the rows so far."""
        stream = self.begun
        return stream.solved(self.setup.alpha, stream_engine(stream, self.setup.run.engine))

    def _has(self, name: str) -> bool:
        """Return whether ``begun`` or ``solved`` was asked for, so that it costs nothing now."""
        return name in vars(self)

    @property
    def n_rows(self) -> int:
        """Rows so far."""
        return self.summed.sums.n_rows if self.summed is not None else self.n_waiting

    @property
    def n_waiting(self) -> int:
        """Rows that wait."""
        return 0 if self.waiting is None else self.waiting.n

    @property
    def plan(self) -> Plan:
        """The plan of the map, with the bytes and seconds that were used once the model is solved."""
        return self.solved.plan if self._has("solved") else self.begun.plan

    def chosen(self) -> dict[str, Any]:
        """Return the learned attributes that are known without a solve, by name."""
        stream, features = self.begun, self.begun.features
        known = {"kernel_": features.kernel, "rank_": features.rank, "n_blocks_": stream.n_blocks}
        return {**known, "plan_": self.plan, **stream.input.state()}

    def state(self) -> dict[str, Any]:
        """Return the learned attributes that an estimator keeps; the others it finds when asked for."""
        counts = {"n_rows_seen_": self.n_rows, "n_rows_waiting_": self.n_waiting}
        if self.summed is None:
            return counts
        return counts | {name: value for name, value in self.chosen().items() if name != "plan_"}

    def learned(self, name: str) -> Any:
        """Return the learned attribute of this name, found when it is asked for; None if there is none."""
        if name in SOLVED:
            return self.solved.state()[name]
        return self.chosen().get(name) if name in CHOSEN else None

    def facts(self, names: tuple[str, ...] | None) -> FitFacts:
        """Return what the model states, without a choice or a solve that nobody asked for."""
        facts = FitFacts(penalty={"alpha": self.setup.alpha})
        if self.summed is not None or self._has("begun"):
            of_map = FitFacts.of_map(self.begun.features)
            facts = with_metric(
                replace(of_map, penalty=facts.penalty, plan=self.plan), self.begun.input, names
            )
        if self._has("solved"):
            solved = self.solved.facts()
            said = (*solved.warnings, *facts.warnings)
            facts = replace(facts, nbytes=solved.nbytes, solver=solved.solver, warnings=said)
        return replace(facts, n_rows=self.n_rows, waiting=self.n_waiting)

    # ---- further streams -------------------------------------------------------------------------

    def with_rows(self, setup: FitSetup, rows: LabelledRows[Any]) -> RidgeStream:
        """Return the stream with further rows; the first ones wait until there are enough."""
        check_penalties(setup.alpha, rows.n_outputs)
        if self.summed is not None:
            extended = extend_stream(setup, self.summed, rows)
            return RidgeStream.of(setup, summed=extended)
        before, budget = self.waiting, setup.run.memory_bytes
        if before is not None and rows.n_outputs != before.n_outputs:
            raise other_outputs(rows.n_outputs, before.n_outputs)
        frozen = frozen_map(setup, rows.source.shape[1])
        if frozen is None and not enough(rows, bytes_unread(rows), budget):
            now = joined(rows) if before is None else joined(before, rows)
            if enough(now, bytes_of(now), budget):
                return RidgeStream.of(setup, summed=_begin_with(setup, now))
            if before is None:
                _check_first(setup, now)
            return RidgeStream.of(setup, waiting=now)
        stream = begin_stream(setup, rows)
        if before is not None:
            stream = extend_stream(setup, stream, before)
        return RidgeStream.of(setup, summed=stream)

    def fade(self, setup: FitSetup, factor: float) -> RidgeStream:
        """Return the stream whose rows have ``factor`` times their weight."""
        if self.summed is None:
            assert self.waiting is not None
            faded = replace(self.waiting, weights=factor * self.waiting.all_weights)
            return RidgeStream.of(setup, waiting=faded)
        return RidgeStream.of(setup, summed=self.summed.fade(factor))

    def merge(self, setup: FitSetup, other: RidgeStream) -> RidgeStream:
        """Return the stream of the rows of both; raise if their features or sums differ in kind."""
        if self.summed is not None and other.summed is not None:
            return RidgeStream.of(setup, summed=self.summed.merge(other.summed))
        kept, added = (other, self) if other.summed is not None else (self, other)
        assert added.waiting is not None
        return kept.with_rows(setup, added.waiting)

    def with_penalty(self, alpha: float) -> KernelModel:
        """Return the model of the rows so far with this alpha; the sums are shared."""
        return RidgeStream(replace(self.setup, alpha=alpha), summed=self.begun).solved


def _begin_with(setup: FitSetup, rows: LabelledRows[Any]) -> Stream:
    """Return the stream that rows which wait begin."""
    return begin_stream(setup, rows, held=bytes_of(rows))


def _check_first(setup: FitSetup, rows: LabelledRows[Any]) -> None:
    """Raise at the first call for parameters that nothing can be trained with."""
    setup = setup.planning()
    plan_sums(setup, planned_source(setup, rows.source), rows.n_outputs, stream=True)
