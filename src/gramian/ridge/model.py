"""A trained kernel model as a value: its predictor, intercept and input, and what is stated about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike
from sklearn.base import BaseEstimator

from gramian._typing import Array, Float64Array, Rows
from gramian.compression.plan import Plan
from gramian.compression.predictor import Predictor
from gramian.data.distributed import Partitioned
from gramian.data.source import ArraySource, RowSource
from gramian.engine import Engine
from gramian.estimator.answers import (
    finite_blocks,
    finite_values,
    in_blocks,
    predicted_blocks,
    quietly,
    rows_at,
)
from gramian.estimator.input import Input
from gramian.estimator.summaries import FitFacts
from gramian.exact.predictor import ExactPredictor
from gramian.kernels import Kernel
from gramian.kernels.precomputed import bound, released
from gramian.metric.input import with_metric
from gramian.metric.learner import FittedRound
from gramian.selection.kernel_choice import KernelChoice
from gramian.solvers.solution import Solution

#: Attributes of an estimator that hold its :class:`KernelModel`, beside those of its input. ``predictor_``
#: comes first: a stream finds it when it is asked for, and updates ``plan_``.
TRAINED = ("predictor_", "intercept_", "solution_", "kernel_", "rank_", "plan_")
#: Attributes of what was chosen for parameters that are "auto".
CHOSEN = ("choice_", "alpha_")


@dataclass(frozen=True)
class KernelModel:
    """f(x) + b of a row x: ``predictor`` of the row that ``input`` makes of it, and ``intercept``."""

    predictor: Predictor | ExactPredictor
    kernel: Kernel
    intercept: Float64Array
    solution: Solution
    plan: Plan
    rank: int
    stages: Any = None  #: of an exact solve
    input: Input = field(default_factory=Input)
    alpha: float | None = None  #: the penalty, where the rows chose it
    choice: KernelChoice | None = None  #: what was tried, where the rows chose the kernel
    learned: Mapping[str, Any] = field(default_factory=dict)  #: more attributes of the estimator, by name

    @classmethod
    def of(cls, estimator: BaseEstimator) -> Self:
        """Return the model that a fitted estimator holds."""
        held = {name.rstrip("_"): getattr(estimator, name) for name in TRAINED}
        return cls(**held, stages=getattr(estimator, "stages_", None), input=Input.of(estimator))

    def state(self) -> dict[str, Any]:
        """Return the learned attributes of an estimator with this model, by name."""
        predictor, kernel = released(self.predictor, self.kernel)
        fitted = (predictor, self.intercept, self.solution, kernel, self.rank, self.plan)
        more = {"stages_": self.stages, "choice_": self.choice, "alpha_": self.alpha}
        chosen = {name: value for name, value in more.items() if value is not None}
        return {**dict(zip(TRAINED, fitted, strict=True)), **chosen, **self.learned, **self.input.state()}

    def blocks(self, source: RowSource, engine: Engine) -> Iterator[tuple[slice, Float64Array]]:
        """Yield blocks of rows and their values (rows, outputs), computed where the rows lie."""
        source = self.input.over(source)
        if isinstance(source, Partitioned):
            start = 0
            for values in source.map(partial(_on_one_thread, self.predictor)):
                yield slice(start, start + len(values)), values + self.intercept
                start += len(values)
            return
        predictor = bound(self.predictor, source)
        for where, values in quietly(predicted_blocks(predictor, source, engine)):
            values += self.intercept
            yield where, values

    def values(self, source: RowSource, engine: Engine) -> Float64Array:
        """Return the values of all rows, shape (n, outputs)."""
        return in_blocks(self.blocks(source, engine), (source.shape[0], self.predictor.n_outputs))

    def finite(self, source: RowSource, engine: Engine) -> Float64Array:
        """Return the values of all rows; raise for the first row of which one overflows."""
        return finite_values(self.values(source, engine), partial(rows_at, source))

    def classes(
        self, source: RowSource, engine: Engine, answer: Callable[[Float64Array], Array], dtype: DTypeLike
    ) -> Array:
        """Return ``answer`` to the values of each block, shape (n,); raise for the first that overflows."""
        checked = finite_blocks(self.blocks(source, engine), partial(rows_at, source))
        return in_blocks(checked, source.shape[:1], answer, dtype=dtype)

    def of_round(self, engine: Engine) -> FittedRound:
        """Return this as the fit of a round of learning a metric."""
        return FittedRound(self, partial(self.values, engine=engine), self.predictor, self.kernel)

    def facts(self, names: tuple[str, ...] | None = None, **penalty: object) -> FitFacts:
        """Return what a model states; ``names`` of the features, ``penalty`` as for FitFacts."""
        stated = FitFacts(
            n_rows=self.plan.n_rows,
            kernel=self.kernel,
            penalty=penalty,
            plan=self.plan,
            blocks=self.predictor.block_sizes,
            rank=self.rank,
            nbytes=self.predictor.model_bytes,
            points=self.predictor.landmarks,
            solver=(self.solution.as_fact(),),
            warnings=tuple(self.solution.warnings()),
        )
        return with_metric(stated, self.input, names)


def _on_one_thread(predictor: Predictor | ExactPredictor, rows: Rows) -> Array:
    """Return the predictor's values for a part of the rows."""
    blocks = quietly(predicted_blocks(predictor, ArraySource(rows), Engine(1)))
    return np.concatenate([values for _, values in blocks])
