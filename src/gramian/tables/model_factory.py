"""Training of models with one setting on rows of a table, at sizes that memory allows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gramian._budget import parse_bytes
from gramian._numerics import unit_roundoff
from gramian._random import as_generator
from gramian._typing import Array, Float64Array, IntArray
from gramian.approximations.choice import shrink
from gramian.approximations.multiresolution import MultiResolution, MultiResolutionBuilder
from gramian.compression.plan import Plan
from gramian.compression.training import float32_alpha
from gramian.data.taken import TakenRows
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import ClassTargets, NumberTargets
from gramian.exact.exact import Exact
from gramian.exact.penalties import IterativeTrials, PenaltyTrials
from gramian.exact.system import keeps_tiles
from gramian.exceptions import BudgetError
from gramian.kernels import Exponential, Gaussian, Kernel, Laplacian
from gramian.metric.metric import Metric
from gramian.ridge.decisions import values_of
from gramian.ridge.planning import plan_sums
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier
from gramian.tables.small_problem import Point

#: Up to so many rows an exact model is made by a Cholesky factor; beyond, by conjugate gradients, where
#: memory keeps K's tiles. Of 16,000 letters the exact model errs in 2.6 %, one of blocks of rank 500
#: in 3.9; in regression the two are 3 to 6 % apart.
EXACT_ROWS = 2_500
#: Relative residual that exact models are solved to, and share of a regression's held-out error that it may
#: be; factor by which a penalty is raised at most to suit float32 tiles.
EXACT_TOL, TOL_OF_ERROR, MOST_RAISED = 1e-2, 0.03, 10.0
#: Root, rank of a block and rows of a block where memory holds them. The first is for classes alone: of
#: letters a tenth fewer are wrong with it, while errors of regressions fall by 0.3 %.
SIZES = ((1000, 500, 1000), (400, 500, 1000))
#: What is shrunk, blocks faster than ranks, until memory holds it: of 395,000 connections 0.07 % are wrong
#: with what 1 GB holds so, 0.35 % with a root of 1,000 alone.
SHRUNK_SIZES = (400, 380, 650)
LEAST_SIZES = (100, 0, None)


@dataclass(frozen=True)
class ModelFactory:
    """Make models of one point of the search on a table's encoded rows.

    kind : the estimator; rows : all rows that count; point : kernel, metric, bandwidth and penalty;
    options : of the estimator.
    """

    kind: type[KernelRidge] | type[KernelRidgeClassifier]
    rows: LabelledRows[Array]
    point: Point
    options: dict[str, Any]

    def model(self, approximation: Any, metric: Metric | None = None) -> Any:
        return self.kind(
            self.point.alpha,
            kernel=_kernel_of(self.point),
            metric=self.point.metric if metric is None else metric,
            approximation=approximation,
            fit_intercept=True,
            **self.options,
        )

    @cached_property
    def classes(self) -> Array:
        """The classes of all rows."""
        return np.unique(self.rows.targets)

    def add(self, model: Any, numbers: IntArray) -> None:
        classes = {} if self.kind is KernelRidge else {"classes": self.classes}
        rows = self.rows.taken(numbers)
        model.partial_fit(rows.source, rows.targets, rows.weights, **classes)

    def drawn(self, rows: IntArray, most: int, rng: np.random.Generator) -> IntArray:
        """Return so many of some rows at random, and the first of each class that none of them has."""
        drawn = rng.choice(rows, most, replace=False)
        if self.kind is KernelRidgeClassifier:
            classes, first = np.unique(self.rows.targets[rows], return_index=True)
            drawn = np.concatenate([drawn, rows[first[~np.isin(classes, self.rows.targets[drawn])]]])
        return np.sort(drawn)

    def under(self, **options: Any) -> ModelFactory:
        """Return this with other options."""
        return replace(self, options={**self.options, **options})

    def plan(self, approximation: Any, numbers: IntArray, *, streamed: bool = False) -> Plan | None:
        """Return the plan of a fit to these rows, ``streamed``: in more than one part.

        None where the memory budget does not hold it.
        """
        model = self.model(approximation)
        try:
            if streamed:
                rows, seed = TakenRows(self.rows.source, numbers), self.options["random_state"]
                plan, *_ = plan_sums(model, rows, self._n_outputs, model.alpha, seed, stream=True)
            else:
                plan = model.plan(TakenRows(self.rows.source, numbers), self.rows.targets[numbers])
        except BudgetError:
            return None
        found: Plan = plan
        return found

    def fits(self, approximation: Any, numbers: IntArray, *, streamed: bool = False) -> bool:
        """Return whether the memory budget holds a fit to these rows."""
        return self.plan(approximation, numbers, streamed=streamed) is not None

    @cached_property
    def approximations(self) -> list[MultiResolution]:
        """Approximations of the last model from large to small."""
        n = self.rows.n
        found = [of_sizes(sizes, n) for sizes in SIZES[self.kind is KernelRidge :]]
        builder: MultiResolutionBuilder | None = of_sizes(SHRUNK_SIZES, n)._builder()
        while builder is not None and builder.n_levels > 1:
            found.append(_of_builder(builder))
            builder = shrink(builder)
        return [*found, of_sizes(LEAST_SIZES, n)]

    @property
    def _n_outputs(self) -> int:
        if self.kind is KernelRidgeClassifier:
            n_classes = len(self.classes)
            return 1 if n_classes == 2 else n_classes
        return 1 if self.rows.targets.ndim == 1 else self.rows.targets.shape[1]

    def least_bytes(self) -> int:
        """Return what the smallest model of all rows takes, whatever precision its penalty asks for."""
        model = self.under(memory_budget=1, tile_dtype="float64").model(self.approximations[-1])
        try:
            seed = self.options["random_state"]
            plan_sums(model, self.rows.source, self._n_outputs, model.alpha, seed, stream=True)
        except BudgetError as error:
            return error.least_bytes
        raise AssertionError("no model fits into a byte")

    def fit(self, model: Any, numbers: IntArray) -> Any:
        rows = self.rows.taken(numbers)
        return model.fit(rows.source, rows.targets, rows.weights)

    def exact(self) -> ModelFactory | None:
        """Return the factory of exact models of all rows; None where memory does not hold them.

        Beyond ``EXACT_ROWS`` it has the tiles' precision: float32, with a penalty raised to what suits
        it; float64 where that would be by more than ``MOST_RAISED``.
        """
        n, budget = self.rows.n, parse_bytes(self.options["memory_budget"])
        if n <= EXACT_ROWS:
            return self if self.fits(self.exactly(), np.arange(n)) else None
        factory, least = self.under(tile_dtype="float64"), self.least_float32
        if self.point.alpha >= least / MOST_RAISED:
            factory = self.under(tile_dtype="float32")
            factory = replace(factory, point=replace(self.point, alpha=max(self.point.alpha, least)))
        kept = keeps_tiles(n, factory.options["tile_dtype"], budget)
        return factory if kept and factory.fits(factory.exactly(), np.arange(n)) else None

    @property
    def least_float32(self) -> float:
        """Least penalty that float32 tiles of all rows are good enough for."""
        largest = 1.0 if self.rows.weights is None else float(self.rows.weights.max())
        return largest * float32_alpha(self.rows.n, 1.0, unit_roundoff(np.float32))

    def exactly(self, tol: float = EXACT_TOL, time_limit: float | None = None) -> Exact:
        """Return how an exact model of all rows is solved; ``time_limit``: iterations end after so long."""
        if self.rows.n <= EXACT_ROWS:
            return Exact(solver="cholesky")
        return Exact(solver="cg", tol=tol, time_limit=time_limit)

    def trials(self, rest: IntArray, held: IntArray) -> PenaltyTrials | IterativeTrials:
        """Return the exact models of some rows, as the estimator has them, judged by others."""
        n, weights = self.rows.n, None if self.rows.weights is None else self.rows.weights[rest]
        counted = rest if weights is None else rest[weights > 0]
        weights = None if self.rows.weights is None else self.rows.weights[counted]
        kind = NumberTargets if self.kind is KernelRidge else ClassTargets
        targets = kind(self.rows.targets, n).part(counted)
        rows = self.point.metric.apply(np.asarray(self.rows.source.take(np.concatenate([counted, held]))))
        fitted, others = rows[: len(counted)], rows[len(counted) :]
        wanted = targets[slice(0, len(counted))]
        kernel, engine = self.point.kernel_of(), Engine(self.options["n_jobs"])
        if n <= EXACT_ROWS:
            return PenaltyTrials(kernel, fitted, others, wanted, weights, engine)
        return IterativeTrials(
            kernel,
            fitted,
            others,
            wanted,
            weights,
            engine,
            self.options["tile_dtype"],
            parse_bytes(self.options["memory_budget"]),
            as_generator(self.options["random_state"]),
        )

    def values(self, model: Any, numbers: IntArray) -> Float64Array:
        return values_of(model, TakenRows(self.rows.source, numbers))


def _kernel_of(point: Point) -> Kernel:
    """Return the kernel of a point of the search by its usual name."""
    if point.kernel == "laplacian":
        return Laplacian(point.bandwidth)
    if point.kernel == "exponential":
        return Exponential(point.bandwidth)
    return Gaussian(point.bandwidth / np.sqrt(2.0))  # exp(−r²/L²) = exp(−r²/(2 ℓ²))


def of_sizes(sizes: tuple[int, int, int | None], n_rows: int) -> MultiResolution:
    """Return the approximation of a root, a rank and rows of a block (None: the root alone)."""
    # A rank above the number of rows warns, and nobody asked for this one.
    root, rank, block = min(sizes[0], n_rows), min(sizes[1], n_rows), sizes[2]
    if block is None:
        return MultiResolution(root_rank=root, n_levels=1, oversampling=1.0)
    return MultiResolution(root_rank=root, rank=rank, n_blocks=max(2, n_rows // block), oversampling=1.0)


def _of_builder(builder: MultiResolutionBuilder) -> MultiResolution:
    names = ("root_rank", "rank", "n_blocks", "oversampling")
    return MultiResolution(**{name: getattr(builder, name) for name in names})
