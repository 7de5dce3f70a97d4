"""Rows that a ridge model takes in several calls: rows that wait, then an input, a feature map and sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from gramian._phases import silent
from gramian.approximations.frozen import frozen_map
from gramian.compression.costs import Workload
from gramian.compression.plan import Plan
from gramian.data.source import as_source
from gramian.estimator.input import Input
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.summaries import Evidence
from gramian.metric.input import planned_source, with_metric
from gramian.ridge.model import KernelModel
from gramian.ridge.parameters import RidgeParameters
from gramian.ridge.planning import plan_sums
from gramian.ridge.stream import Stream
from gramian.ridge.stream_buffer import Waiting, enough
from gramian.ridge.stream_fit import begin_stream, extend_stream, other_outputs, stream_engine

#: Learned attributes that are found from a stream's sums when they are asked for, and not before.
SOLVED = ("predictor_", "intercept_", "solution_")
#: Learned attributes that are chosen from a stream's first rows: when they are enough, or are asked for.
CHOSEN = ("kernel_", "rank_", "n_blocks_", "plan_", "scaler_", "metric_", "metric_rounds_")

#: An input, and the feature map and sums of the rows that it makes.
Begun = tuple[Input, Stream]


@dataclass(frozen=True, eq=False)
class RidgeStream:
    """All rows so far, with the parameters of the latest call.

    The first rows wait until there are enough to choose scaler, metric and landmarks from; then sums stand
    for them. What is asked for before is found once, and kept for as long as no rows come.
    """

    parameters: RidgeParameters
    waiting: Waiting | None = None
    summed: Begun | None = None

    @classmethod
    def of(
        cls, parameters: RidgeParameters, *, waiting: Waiting | None = None, summed: Begun | None = None
    ) -> Self:
        """Return the stream; it keeps nothing that shows the progress of a call."""
        setup = replace(parameters.setup, phases=silent)
        return cls(replace(parameters, setup=setup), waiting, summed)

    # ---- what is known of it ---------------------------------------------------------------------

    @cached_property
    def begun(self) -> Begun:
        """Input, feature map and sums; rows that wait begin them for as long as no others come."""
        if self.summed is not None:
            return self.summed
        assert self.waiting is not None
        # A generator is left as it is: what is chosen in the end does not depend on who asks before.
        return _begin_with(self.parameters.planning(), self.waiting, grow=False)

    @cached_property
    def solved(self) -> KernelModel:
        """The model of the rows so far."""
        found, stream = self.begun
        engine = stream_engine(stream, self.parameters.setup.resources.engine)
        fit = stream.solved(self.parameters.alpha, engine)
        kernel = stream.features.kernel
        return KernelModel(
            fit.predictor, kernel, fit.intercept, fit.solution, fit.plan, fit.rank, input=found
        )

    def _has(self, name: str) -> bool:
        """Return whether ``begun`` or ``solved`` was asked for, so that it costs nothing now."""
        return name in vars(self)

    @property
    def n_rows(self) -> int:
        """Rows so far."""
        return self.summed[1].sums.n_rows if self.summed is not None else self.n_waiting

    @property
    def n_waiting(self) -> int:
        """Rows that wait."""
        return 0 if self.waiting is None else self.waiting.n_rows

    @property
    def plan(self) -> Plan:
        """The plan of the map, with the bytes and seconds that were used once the model is solved."""
        return self.solved.plan if self._has("solved") else self.begun[1].plan

    def chosen(self) -> dict[str, Any]:
        """Return the learned attributes that are known without a solve, by name."""
        found, stream = self.begun
        features = stream.features
        known = {"kernel_": features.kernel, "rank_": features.rank, "n_blocks_": stream.n_blocks}
        return {**known, "plan_": self.plan, **found.state()}

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

    def facts(self, names: tuple[str, ...] | None) -> Evidence:
        """Return what the model states, without a choice or a solve that nobody asked for."""
        found = Evidence(penalty={"alpha": self.parameters.alpha})
        if self.summed is not None or self._has("begun"):
            known, stream = self.begun
            of_map = replace(Evidence.of_map(stream.features), penalty=found.penalty, plan=self.plan)
            found = with_metric(of_map, known, names)
        if self._has("solved"):
            solved = self.solved.facts()
            said = (*solved.warnings, *found.warnings)
            found = replace(found, nbytes=solved.nbytes, solver=solved.solver, warnings=said)
        return replace(found, n_rows=self.n_rows, waiting=self.n_waiting)

    # ---- further streams -------------------------------------------------------------------------

    def with_rows(self, parameters: RidgeParameters, rows: LabelledRows[Any], *, grow: bool) -> RidgeStream:
        """Return the stream with further rows; the first ones wait until there are enough."""
        parameters.check_outputs(rows.n_outputs)
        if self.summed is not None:
            known, stream = self.summed
            extended = extend_stream(parameters, known, stream, rows, grow=grow)
            return RidgeStream.of(parameters, summed=(known, extended))
        before = self.waiting
        if before is not None and rows.n_outputs != before.labelled.n_outputs:
            raise other_outputs(rows.n_outputs, before.labelled.n_outputs)
        budget = parameters.setup.resources.memory_bytes
        if frozen_map(parameters.setup, rows.source.shape[1]) is None and not _enough(rows, budget):
            now = Waiting.of(rows) if before is None else before.joined(Waiting.of(rows))
            if now.enough(budget):
                return RidgeStream.of(parameters, summed=_begin_with(parameters, now, grow=grow))
            if before is None:
                _check_first(parameters, now, grow=grow)
            return RidgeStream.of(parameters, waiting=now)
        known, stream = begin_stream(parameters, rows, grow=grow)
        if before is not None:
            stream = extend_stream(parameters, known, stream, before.labelled, grow=False)
        return RidgeStream.of(parameters, summed=(known, stream))

    def fade(self, parameters: RidgeParameters, factor: float) -> RidgeStream:
        """Return the stream whose rows have ``factor`` times their weight."""
        if self.summed is None:
            assert self.waiting is not None
            return RidgeStream.of(parameters, waiting=self.waiting.fade(factor))
        known, stream = self.summed
        return RidgeStream.of(parameters, summed=(known, stream.fade(factor)))

    def merge(self, parameters: RidgeParameters, other: RidgeStream) -> RidgeStream:
        """Return the stream of the rows of both; raise if their features or sums differ in kind."""
        if self.summed is not None and other.summed is not None:
            known, stream = self.summed
            return RidgeStream.of(parameters, summed=(known, stream.merge(other.summed[1])))
        kept, added = (other, self) if other.summed is not None else (self, other)
        assert added.waiting is not None
        return kept.with_rows(parameters, added.waiting.labelled, grow=False)

    def with_penalty(self, alpha: float) -> KernelModel:
        """Return the model of the rows so far with this alpha; the sums are shared."""
        return RidgeStream(replace(self.parameters, alpha=alpha), summed=self.begun).solved


def _enough(rows: LabelledRows[Any], memory_budget: int) -> bool:
    """Return whether rows are enough to choose from, or too large to wait, before any is read."""
    work = Workload.of(rows.source, rows.n_outputs)
    each = work.itemsize * (work.n_features if work.row_numbers is None else work.row_numbers)
    return enough(rows.n, rows.weights, rows.n * each, memory_budget)


def _begin_with(parameters: RidgeParameters, rows: Waiting, *, grow: bool) -> Begun:
    """Return input and stream that rows which wait begin."""
    return begin_stream(parameters, rows.labelled, grow=grow, held=rows.nbytes)


def _check_first(parameters: RidgeParameters, rows: Waiting, *, grow: bool) -> None:
    """Raise at the first call for parameters that nothing can be trained with.

    So are those of a map that cannot grow (``"auto"`` may still choose one that can).
    """
    if grow and not isinstance(parameters.setup.approximation, str):
        _begin_with(parameters.planning(), rows, grow=grow)
    asked, source = parameters.planning(), as_source(rows.rows)
    source = planned_source(asked.setup, source)
    plan_sums(asked.setup, source, rows.labelled.n_outputs, asked.least, stream=True)
