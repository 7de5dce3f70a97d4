"""Training of ridge models with one setting on rows of a table, at sizes that fit into memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gramian._budget import format_bytes
from gramian._numerics import unit_roundoff
from gramian._phases import Phases, silent
from gramian._random import as_generator
from gramian._typing import Float64Array, IntArray
from gramian.approximations.auto import shrink
from gramian.approximations.multiresolution import MultiResolution, MultiResolutionBuilder
from gramian.approximations.setup import FitSetup
from gramian.compression.plan import Plan
from gramian.data.source import SubsetRows
from gramian.engine import Run
from gramian.estimator.fitting import check_finite
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.parameters import KernelParameters, float32_alpha
from gramian.estimator.targets import ClassTargets, Targets
from gramian.exact.exact import Exact
from gramian.exact.penalties import IterativeTrials, PenaltyTrials
from gramian.exact.system import keeps_tiles
from gramian.exceptions import BudgetError
from gramian.kernels import Exponential, Gaussian, Kernel, Laplacian
from gramian.metric.learning import Round
from gramian.metric.metric import Metric
from gramian.ridge.choosing import fit_ridge
from gramian.ridge.model import KernelModel
from gramian.ridge.planning import plan_ridge, plan_sums
from gramian.ridge.streaming import RidgeStream
from gramian.tables.effort import DEFAULT, EFFORTS, TableEffort
from gramian.tables.holdout import HoldOut
from gramian.tables.small_problem import Point

#: Up to this many rows an exact model is solved by a Cholesky factor, beyond by conjugate gradients if memory
#: holds the tiles of K. On 16,000 letters the exact model errs in 2.6 %, one with blocks of rank 500 in 3.9
#: %; in regression the two differ by 3 to 6 %. Chosen by hand.
EXACT_ROWS = 2_500
#: Relative residual to which exact models are solved; the share of a regression's held-out error that it may
#: reach; and the largest factor by which a penalty is raised to suit float32 tiles. Chosen by hand.
EXACT_TOL, TOL_OF_ERROR, MOST_RAISED = 1e-2, 0.03, 10.0
#: Root, rank of a block and rows of a block, if memory holds them. The first is for classification only: on
#: letters it makes a tenth fewer errors, while errors of regressions fall by 0.3 %. Chosen by hand.
SIZES = ((1000, 500, 1000), (400, 500, 1000))
#: Sizes that are shrunk until memory holds them, blocks faster than ranks. On 395,000 network connections
#: the largest that 1 GB holds errs in 0.07 %, a root of 1,000 alone in 0.35 %. Chosen by hand.
SHRUNK_SIZES = (400, 380, 650)
LEAST_SIZES = (100, 0, None)
#: Sizes of the one model of a fit that compares nothing. Chosen by hand.
QUICK_SIZES = (300, 100, 650)
#: Mean squared error on targets ±1 below which none of 4,000 held-out rows can be wrong, so that no further
#: choice is needed.
ENOUGH_OF_CLASSES = 1e-4
#: Methods that train the models of tables.
Method = Exact | MultiResolution


@dataclass(frozen=True)
class ModelFactory:
    """Train models for one point of the search on a table's encoded rows.

    rows : all rows of weight above 0; point : kernel, metric, bandwidth and penalty; resources, seed : of
    each fit; holdout : how rows are held out; effort : whether large models are exact; phases : is told of
    the phases of each fit; rounds : those in which the metric of the point was learned.
    """

    rows: LabelledRows[Targets]
    point: Point
    resources: Run
    seed: int
    holdout: HoldOut = field(default_factory=HoldOut)
    effort: TableEffort = EFFORTS[DEFAULT]
    phases: Phases = silent
    rounds: tuple[Round, ...] = ()

    def setup(self, approximation: Method, metric: Metric | None = None) -> FitSetup:
        """Return the setup of a fit; ``metric`` replaces that of the point."""
        kernel = KernelParameters(_kernel_of(self.point))
        run = replace(self.resources, random_state=self.seed, phases=self.phases)
        metric = self.point.metric if metric is None else metric
        setup = FitSetup(kernel, approximation, run, "KernelRidge", metric=metric)
        return replace(setup, alpha=self.point.alpha, intercept=True)

    @property
    def classifies(self) -> bool:
        """Whether the targets are classes."""
        return isinstance(self.rows.targets, ClassTargets)

    @property
    def enough(self) -> float:
        """The held-out error at which the search for a better model may stop."""
        return ENOUGH_OF_CLASSES if self.classifies else 0.0

    def add(self, stream: RidgeStream, numbers: IntArray, alpha: float | None = None) -> RidgeStream:
        """Return the stream with the rows of these numbers; ``alpha`` replaces its penalty."""
        setup = stream.setup
        run = replace(setup.run, phases=self.phases)
        setup = replace(setup, run=run, alpha=setup.alpha if alpha is None else alpha)
        return stream.with_rows(setup, self.rows.taken(numbers))

    def drawn(self, rows: IntArray, most: int, rng: np.random.Generator) -> IntArray:
        """Return ``most`` random rows, plus the first row of each class that was not drawn."""
        drawn = rng.choice(rows, most, replace=False)
        if self.classifies:
            labels = np.asarray(self.rows.targets.values)
            classes, first = np.unique(labels[rows], return_index=True)
            drawn = np.concatenate([drawn, rows[first[~np.isin(classes, labels[drawn])]]])
        return np.sort(drawn)

    def with_resources(self, **resources: Any) -> ModelFactory:
        """Return this factory with other resources: ``memory_bytes``, ``engine`` or ``tile_dtype``."""
        return replace(self, resources=replace(self.resources, **resources))

    def part(self, count: int) -> ModelFactory:
        """Return this factory with its part of the memory, for one of ``count`` models side by side."""
        return replace(self.with_resources(memory_bytes=self.resources.memory_bytes // count), phases=silent)

    def plan(self, approximation: Method, numbers: IntArray, *, streamed: bool = False) -> Plan | None:
        """Return the plan of a fit to these rows; ``streamed``: rows arrive in more than one part.

        None if the memory budget does not hold it, or no rows.
        """
        if not len(numbers):
            return None
        setup, rows = self.setup(approximation), SubsetRows(self.rows.source, numbers)
        try:
            if streamed:
                return plan_sums(setup, rows, self.rows.n_outputs, stream=True)[0]
            return plan_ridge(setup, rows, self.rows.n_outputs)
        except BudgetError:
            return None

    @cached_property
    def approximations(self) -> list[MultiResolution]:
        """Approximations for the last model, from large to small."""
        n = self.rows.n
        large, first = SIZES[not self.classifies :], SHRUNK_SIZES
        if not self.effort.compare:
            large, first = (), QUICK_SIZES
        options = [of_sizes(sizes, n) for sizes in large]
        names = ("root_rank", "rank", "n_blocks", "oversampling")
        builder: MultiResolutionBuilder | None = of_sizes(first, n).builder()
        while builder is not None and builder.n_levels > 1:
            options.append(MultiResolution(**{name: getattr(builder, name) for name in names}))
            builder = shrink(builder)
        return [*options, of_sizes(LEAST_SIZES, n)]

    def too_small(self) -> BudgetError:
        """Return the error of a budget that does not hold the smallest model, in the larger precision."""
        setup = self.with_resources(memory_bytes=1, tile_dtype="float64").setup(self.approximations[-1])
        n, budget = self.rows.n, format_bytes(self.resources.memory_bytes)
        try:
            plan_sums(setup, self.rows.source, self.rows.n_outputs, stream=True)
        except BudgetError as error:
            least = error.least_bytes
            return BudgetError(
                f"memory_budget={budget} is too small for the smallest model of {n:,} rows: at least "
                f"{format_bytes(1.01 * least)} is needed. Raise it.",
                least,
            )
        raise AssertionError("no model fits into a byte")

    def fit(self, setup: FitSetup, numbers: IntArray) -> KernelModel:
        """Return the model of the rows with these numbers; raise if its coefficients are not finite."""
        model = fit_ridge(self.rows.taken(numbers), setup)
        check_finite(model.predictor, setup.estimator)
        return model

    @property
    def direct(self) -> bool:
        """Whether exact models of all rows are solved by a factor of K."""
        return self.rows.n <= EXACT_ROWS

    def exact_factory(self) -> ModelFactory | None:
        """Return the factory of exact models of all rows; None if memory or effort does not allow them.

        Beyond ``EXACT_ROWS`` it fixes the precision of the tiles: float32, with the penalty raised to suit
        it, or float64 if that would raise the penalty by more than the factor ``MOST_RAISED``.
        """
        factory, n = self, self.rows.n
        if not self.direct:
            factory, least = self.with_resources(tile_dtype="float64"), self.least_float32
            if self.point.alpha >= least / MOST_RAISED:
                factory = self.with_resources(tile_dtype="float32")
                factory = replace(factory, point=replace(self.point, alpha=max(self.point.alpha, least)))
            kept = keeps_tiles(n, factory.resources.tile_dtype, factory.resources.memory_bytes)
            if not self.effort.exact or not kept:
                return None
        return None if factory.plan(factory.exact_solver(), np.arange(n)) is None else factory

    @property
    def least_float32(self) -> float:
        """Smallest penalty for which float32 tiles of all rows are accurate enough."""
        largest = 1.0 if self.rows.weights is None else float(self.rows.weights.max())
        return largest * float32_alpha(self.rows.n, 1.0, unit_roundoff(np.float32))

    def exact_solver(self, tol: float = EXACT_TOL, time_limit: float | None = None) -> Exact:
        """Return the solver of an exact model of all rows; ``time_limit`` in seconds ends its iterations."""
        return Exact(solver="cholesky") if self.direct else Exact(solver="cg", tol=tol, time_limit=time_limit)

    def trials(self, rest: IntArray, held: IntArray) -> PenaltyTrials | IterativeTrials:
        """Return exact models that are fitted to ``rest`` for several penalties and scored on ``held``."""
        weights, resources = self.rows.weights, self.resources
        counted = rest if weights is None else rest[weights[rest] > 0]
        rows = self.point.metric.apply(np.asarray(self.rows.source.take(np.concatenate([counted, held]))))
        given = (
            self.point.kernel_of(),
            rows[: len(counted)],
            rows[len(counted) :],
            self.rows.targets.part(counted)[slice(0, len(counted))],
            None if weights is None else weights[counted],
            resources.engine,
        )
        if self.direct:
            return PenaltyTrials(*given)
        rng = as_generator(self.seed)
        return IterativeTrials(*given, resources.tile_dtype, resources.memory_bytes, rng)

    def values(self, model: KernelModel, numbers: IntArray) -> Float64Array:
        """Return the values of the rows with these numbers, (numbers, outputs)."""
        return model.values(SubsetRows(self.rows.source, numbers), self.resources.engine)


def _kernel_of(point: Point) -> Kernel:
    """Return the kernel of a point of the search, as a user would write it."""
    if point.kernel == "laplacian":
        return Laplacian(point.bandwidth)
    if point.kernel == "exponential":
        return Exponential(point.bandwidth)
    return Gaussian(point.bandwidth / np.sqrt(2.0))  # exp(−r²/L²) = exp(−r²/(2 ℓ²))


def of_sizes(sizes: tuple[int, int, int | None], n_rows: int) -> MultiResolution:
    """Return the approximation with this root, rank and rows of a block (None: the root alone)."""
    # A rank above the number of rows would warn, but the user did not ask for this rank.
    root, rank, block = min(sizes[0], n_rows), min(sizes[1], n_rows), sizes[2]
    if block is None:
        return MultiResolution(root_rank=root, n_levels=1, oversampling=1.0)
    return MultiResolution(root_rank=root, rank=rank, n_blocks=max(2, n_rows // block), oversampling=1.0)
