"""The last fit of a tabular model: to all rows, its penalty chosen by rows that were held out of its sums."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.data.source import RowSource
from gramian.data.taken import TakenRows
from gramian.estimators.exact import Exact
from gramian.estimators.multiresolution import MultiResolution
from gramian.estimators.ridge import KernelRidge, KernelRidgeClassifier
from gramian.exceptions import BudgetError
from gramian.kernels import Exponential, Gaussian, Kernel, Laplacian
from gramian.tables.small_problem import Point

#: Up to so many rows the last model is the exact one.
EXACT_ROWS = 2_500
#: Part of the rows that judges the penalty, and such rows at most.
HELD_PART, MOST_HELD = 0.2, 4_000
#: Factors of the search's penalty, and how often one step further is tried where an end is best.
FACTORS, FURTHER = (1.0 / 3.0, 1.0, 3.0), 3
#: Sizes from large to small: root, rank of a block and rows of a block (None: a root alone).
SIZES: tuple[tuple[int, int, int | None], ...] = (
    (1000, 500, 1000),
    (600, 380, 650),
    (600, 200, 650),
    (300, 100, 650),
    (1000, 0, None),
    (300, 0, None),
    (100, 0, None),
)


@dataclass(frozen=True)
class LastFit:
    """The model of all rows, and what the rows that were held out of a part of it say.

    ``values`` are the held rows' decision values (held, outputs) of the model without them, ``held`` their
    numbers; ``cheapest`` whether the time sufficed for the smallest sizes alone.
    """

    model: Any
    alpha: float
    held: IntArray
    values: Float64Array
    cheapest: bool


def kernel_of(point: Point) -> Kernel:
    """Return the kernel of a point of the search by its usual name."""
    if point.kernel == "laplacian":
        return Laplacian(point.bandwidth)
    if point.kernel == "exponential":
        return Exponential(point.bandwidth)
    return Gaussian(point.bandwidth / np.sqrt(2.0))  # exp(−r²/L²) = exp(−r²/(2 ℓ²))


def last_fit(
    kind: type[KernelRidge] | type[KernelRidgeClassifier],
    source: RowSource,
    y: Array,
    weights: Array | None,
    point: Point,
    loss: Any,
    *,
    rng: np.random.Generator,
    until: float,
    **options: Any,
) -> LastFit:
    """Fit to a part of the rows, choose the penalty by the rest, and add the rest.

    kind : the estimator; source : (n, d) scaled rows; y : targets or labels; point : kernel, metric,
    bandwidth and penalty; loss : from values (held, outputs) and numbers of the held rows to an error;
    until : when it should end, on the clock of ``time.perf_counter``; options : of the estimator.

    The sums of the first part serve each penalty, and those of the rest are added to them, so that the whole
    costs one pass. Exact models of few rows are fitted twice.
    """
    n = source.shape[0]
    order = rng.permutation(n)
    if weights is not None:
        order = np.concatenate([order[weights[order] > 0], order[weights[order] == 0]])
    counted = n if weights is None else int(np.count_nonzero(weights))
    held = np.sort(order[: min(MOST_HELD, int(HELD_PART * counted))])
    rest = np.sort(np.setdiff1d(np.arange(n), held))
    make = _Maker(kind, point, source, weights, y, options)
    if n <= EXACT_ROWS and time.perf_counter() < until:
        return _exact(make, held, rest, loss)
    model, cheapest = _sized(make, until)
    make.add(model, rest)
    best, tried, values = point.alpha, {}, np.zeros((0, 1))
    line = [factor * point.alpha for factor in FACTORS]
    while line:
        alpha = line.pop(0)
        found = make.values(model._with_penalty(alpha), held) if len(held) else values
        tried[alpha] = loss(found, held) if len(held) else 0.0
        if tried[alpha] <= min(tried.values()):
            best, values = alpha, found
        done = len(tried) >= len(FACTORS) + FURTHER or cheapest or time.perf_counter() > until
        if not line and not done and best in (min(tried), max(tried)):
            line = [best / 3.0 if best == min(tried) else best * 3.0]
    model._with_penalty(best)
    if len(held):
        make.add(model, held)
    return LastFit(model._closed(), best, held, values, cheapest)


@dataclass(frozen=True)
class _Maker:
    """Makes models of a kernel on the rows of a table, and gives them rows."""

    kind: type[KernelRidge] | type[KernelRidgeClassifier]
    point: Point
    source: RowSource
    weights: Array | None
    y: Array
    options: dict[str, Any]

    def model(self, approximation: Any) -> Any:
        return self.kind(
            self.point.alpha,
            kernel=kernel_of(self.point),
            metric=self.point.metric,
            approximation=approximation,
            fit_intercept=True,
            **self.options,
        )

    def _some(self, numbers: IntArray) -> tuple[RowSource, Array, Array | None]:
        return (
            TakenRows(self.source, numbers),
            self.y[numbers],
            None if self.weights is None else self.weights[numbers],
        )

    def add(self, model: Any, numbers: IntArray) -> None:
        rows, y, weights = self._some(numbers)
        classes = {} if self.kind is KernelRidge else {"classes": np.unique(self.y)}
        model.partial_fit(rows, y, weights, **classes)

    def fit(self, model: Any, numbers: IntArray) -> Any:
        rows, y, weights = self._some(numbers)
        return model.fit(rows, y, weights)

    def values(self, model: Any, numbers: IntArray) -> Float64Array:
        return np.asarray(model._decision(TakenRows(self.source, numbers)))


def _exact(make: _Maker, held: IntArray, rest: IntArray, loss: Any) -> LastFit:
    """Return the exact model of all rows, after one of a part of them for each penalty."""
    model = make.model(Exact(solver="cholesky"))
    alpha, values = make.point.alpha, np.zeros((0, 1))
    split = len(held) > 0 and (
        make.kind is KernelRidge or len(np.unique(make.y[rest])) == len(np.unique(make.y))
    )
    if split:
        tried = {}
        for factor in FACTORS:
            model.alpha = factor * make.point.alpha
            found = make.values(make.fit(model, rest), held)
            tried[model.alpha] = loss(found, held)
            if tried[model.alpha] <= min(tried.values()):
                alpha, values = model.alpha, found
    else:
        held = held[:0]
    model.alpha = alpha
    return LastFit(make.fit(model, np.arange(make.source.shape[0])), alpha, held, values, False)


def _sized(make: _Maker, until: float) -> tuple[Any, bool]:
    """Return an unfitted model of the largest sizes that memory and time allow, and whether none did.

    Time counts where there is a limit: by the plan's seconds, which know this machine only roughly.
    """
    n = make.source.shape[0]
    error: BudgetError | None = None
    for root, rank, block in SIZES:
        if block is None:
            approximation = MultiResolution(root_rank=root, n_levels=1, oversampling=1.0)
        else:
            approximation = MultiResolution(
                root_rank=root, rank=rank, n_blocks=max(2, n // block), oversampling=1.0
            )
        model = make.model(approximation)
        try:
            plan = model.plan(make.source, make.y)
        except BudgetError as problem:
            error = problem
            continue
        if time.perf_counter() + sum(plan.seconds.values()) <= until:
            return model, False
        error = None
    if error is not None:
        raise error
    return model, True
