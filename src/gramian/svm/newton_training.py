"""Training with losses other than squares, for any approximation, by passes of Newton's method."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._numerics import gram_factor, least_smoothing, unit_roundoff
from gramian._phases import named
from gramian._random import children
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray
from gramian.compression.plan import NOMINAL_THREADS
from gramian.compression.predictor import fold
from gramian.compression.sums import accumulate
from gramian.data.source import RowSource, as_source
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.exceptions import AccuracyWarning, InputError, user_level
from gramian.ridge.model import KernelModel
from gramian.solvers.core import CoupledCore
from gramian.solvers.coupled import CoupledSystem
from gramian.solvers.losses import EpsilonInsensitive, Proximal, Softmax
from gramian.solvers.newton import Minimum, Newton
from gramian.solvers.newton_system import NewtonPoint, factored_by
from gramian.solvers.quasi_newton import minimise_coupled
from gramian.solvers.solution import Solution, Status
from gramian.svm.newton import NewtonParameters, bytes_beside, plan_bases
from gramian.svm.newton_check import FLOAT32_GAP, float64_gap
from gramian.svm.newton_sums import FeatureTiles, LossPasses

#: Tolerances are relative to the objective, or to this fraction of its value at f = 0 if that is larger:
#: with one class and an unpenalised intercept the loss has no minimum.
FLOOR = 1e-4
#: Largest outputs · rank³ that approximation="auto" may choose. Each unit takes 0.5 ns (squared hinge) to
#: 3.5 ns (hinge) of a fit, so this limit is 7 minutes to an hour. A rank that the user gives has no limit.
MOST_WORK = 9e11
#: Relative decrease, and duality gap, below which rounding of the tiles dominates, in unit roundoffs.
ROUNDINGS, GAP_ROUNDINGS = 4.0, 100.0
#: Relative accuracy of the minima for samples of the rows, which serve as starting points only.
NEAR = 1e-2
#: Width of a proximal loss's first parabolas, relative to a cold start, if the start is such a minimum.
WARM_SHARPNESS = 0.1
#: Arrays of all coefficients that are held at once.
POINTS = 12
#: Pairs of steps and gradients that the quasi-Newton method keeps: if the budget holds them, and at least.
MEMORY, LEAST_MEMORY = 20, 3
#: Fewest rows of the smallest sample to start from, and most rows of the largest.
LEAST_ROWS, MOST_ROWS = 500, 32_768
#: Rows whose targets are read at once for a sample.
TARGET_ROWS = 65_536


class NewtonTraining:
    """Bases, and features of all rows if the budget holds them, for one or several minimisations.

    Working memory is that of the plan, and whatever the budget leaves beyond it. That is spent first on the
    rows' features, which then are computed in the first pass only, and next on the Gram matrices of as many
    outputs at a time as fit. If the features do not fit, memory does not depend on n, except for a few
    numbers per row (``anchored``: one for each output of a proximal loss).
    """

    def __init__(self, parameters: NewtonParameters, rows: LabelledRows[Any], penalty: float) -> None:
        """Plan and build the bases for rows that are ready for the kernel, with targets as numbers.

        ``penalty`` is the ridge penalty that sizes and precision are planned for.
        """
        setup, source, outputs = parameters.setup, rows.source, rows.n_outputs
        anchored = isinstance(parameters.loss, Proximal)
        plan, kernel, run = plan_bases(setup, source, outputs, penalty, rows.weights, anchored=anchored)
        rank = min(plan.root_rank, rows.n)
        if setup.automatic and parameters.loss.separable and outputs * float(rank) ** 3 > MOST_WORK:
            raise InputError(
                f"{outputs:,} outputs, each a problem of its own with a matrix of {rank:,} columns, would "
                "take many minutes. Give a rank, such as approximation=Nystrom(rank=200), or solve for all "
                "outputs together: KernelRidge, KernelRidgeClassifier or KernelLogisticRegression."
            )
        started, engine = time.perf_counter(), run.engine
        self.parameters, self.rows, self.plan, self.kernel, self.rng = parameters, rows, plan, kernel, run.rng
        self.features = plan.build(source, kernel, run, rows.weights)
        (self._rng,) = children(run.rng, 1)
        # Features may take half of what is left; the other half is for Gram matrices.
        taken = POINTS * 8 * self.features.rank * outputs
        taken += bytes_beside(rows.n, outputs, anchored)
        spare = max(0, plan.memory_budget - plan.peak_bytes - taken)
        self._tiles = FeatureTiles(self.features, source, plan.chunk_rows, engine, spare // 2)
        self._spare = spare - self._tiles.kept_bytes
        self._group = min(outputs, self._group_size(NOMINAL_THREADS))
        threads = engine.n_threads
        while threads > NOMINAL_THREADS and self._group_size(threads) < self._group:
            threads -= 1
        self._engine = self._tiles.engine = Engine(threads)
        self.seconds = {"bases": time.perf_counter() - started}
        self._core = self._definite_core()
        self.reached = True  #: whether the last minimisation met its tolerance

    def _definite_core(self) -> CoupledCore | None:
        """Return the core with the negative eigenvalues of K̃ on these rows clipped."""
        core = self.features.core
        if core is None or core.psd:
            return core
        source, nothing = self.rows.source, np.broadcast_to(np.zeros(1), (self.rows.n, 1))
        sums = accumulate(
            self.features, source, nothing, None, chunk_rows=self.plan.chunk_rows, engine=self._engine
        )
        factors = [gram_factor(s.gram) for s in sums]
        system = CoupledSystem([t for t, _ in factors], core, engine=self._engine)
        values, vectors = system.eigh()
        root = np.concatenate([i @ v for (_, i), v in zip(factors, system.split(vectors), strict=True)])
        clipped = (root * values) @ root.T
        return CoupledCore((clipped + clipped.T) / 2, core.ranks, psd=True)

    def minimise(
        self,
        weights: Array | None,
        alpha: float,
        start: NewtonPoint | None = None,
        tol: float = 0.0,
        *,
        checked: bool = True,
        trial: str = "",
    ) -> Minimum:
        """Minimise Σ w ℓ + (alpha/2)‖f‖²; warn if the tolerance was missed, with the gap and the remedy.

        ``weights`` are those of all rows (None: 1), ``tol`` is the least tolerance. With ``checked`` the
        returned gap is computed in float64, whatever the type of the tiles. Phases are named by the ``trial``
        that they are part of.
        """
        started, parameters, dtype = time.perf_counter(), self.parameters, np.dtype(self.plan.dtype)
        loss, scale, phases = parameters.loss, parameters.scale, parameters.setup.run.phases
        roundings = GAP_ROUNDINGS if isinstance(loss, Proximal) else ROUNDINGS
        newton = Newton(
            factored_by(self.features.forest, self._core, alpha, self._engine),
            self._engine,
            alpha,
            parameters.setup.intercept,
            reach=4.0 * scale,
            tol=max(parameters.tol, tol, roundings * unit_roundoff(dtype)),
            max_iterations=parameters.max_iter,
            floor=FLOOR * self.rows.mass * (scale if isinstance(loss, EpsilonInsensitive) else scale**2),
            least_rho=least_smoothing(dtype),
            core=self._core,
            coarse=dtype != np.float64,
        )
        if weights is None:
            weights = np.broadcast_to(1.0, self.rows.n)
        phases = named(phases, trial) if trial else phases
        passes = LossPasses(self._tiles, self.rows.targets, weights, phases)
        warm = False
        if start is None:
            start, warm = self._near(passes, newton)
        minimum = self._solve(passes, newton, start, warm=warm)
        met = float(minimum.gap.max(initial=0.0)) <= newton.tol
        allowed = newton.tol
        if checked and newton.coarse:
            gap = float64_gap(passes, loss, newton, minimum.point, self._group, self._spare)
            if gap is not None:
                minimum, allowed = replace(minimum, gap=gap), max(newton.tol, FLOAT32_GAP)
        self.reached = met and float(minimum.gap.max(initial=0.0)) <= allowed
        if not self.reached:
            _warn(minimum, allowed, newton.tol, parameters.max_iter)
        self.seconds["passes"] = time.perf_counter() - started
        return minimum

    def values(self, point: NewtonPoint, source: RowSource | None = None) -> Float64Array:
        """Return f(x) + b of the training rows, or of those of a source, shape (rows, outputs)."""
        if source is None:
            return self._tiles.values(point)
        return FeatureTiles(self.features, source, self.plan.chunk_rows, self._engine).values(point)

    def model(self, minimum: Minimum) -> KernelModel:
        """Return the model of the last minimum, with its weights of kernel values and what the fit used."""
        point, held = minimum.point, self.features.nbytes
        used = {"bases": held, "passes": held + self._tiles.kept_bytes}
        status = Status.CONVERGED if self.reached else Status.LIMIT
        return KernelModel(
            fold(self.features, np.split(point.beta, self.features.offsets[1:])),
            self.kernel,
            point.offset,
            Solution(point.beta, status, minimum.iterations, float(minimum.gap.max(initial=0.0))),
            self.plan.used(used, dict(self.seconds)),
            self.features.rank,
        )

    def _solve(self, passes: LossPasses, newton: Newton, start: NewtonPoint, *, warm: bool) -> Minimum:
        """Minimise; independent outputs are handled in groups whose Gram matrices fit in memory."""
        loss, outputs, size = self.parameters.loss, np.arange(passes.targets.shape[1]), self._group
        if not loss.separable:
            pair = 4 * 8 * self.features.rank * len(outputs)
            memory = int(np.clip(self._spare // max(pair, 1), LEAST_MEMORY, MEMORY))
            return minimise_coupled(newton, passes, start, outputs, loss, Softmax.bound, memory=memory)

        def minimise(which: Array, point: NewtonPoint, sharpness: float) -> Minimum:
            groups = [which[i : i + size] for i in range(0, len(which), size)]
            return Minimum.joined(
                [newton.minimise(passes, point.columns(g), g, loss, sharpness=sharpness) for g in groups]
            )

        if not warm or not isinstance(loss, Proximal):
            return minimise(outputs, start, 1.0)
        coarse = minimise(outputs, start, WARM_SHARPNESS)
        # Narrow parabolas may stall in rounding errors of the tiles; wide ones do not.
        missed = outputs[coarse.gap > newton.tol]
        return coarse.updated(missed, minimise(missed, coarse.point, 1.0)) if len(missed) else coarse

    def _near(self, passes: LossPasses, newton: Newton) -> tuple[NewtonPoint, bool]:
        """Return a starting point, and whether it is the minimum for half the rows.

        That minimum is found from the one for a quarter of the rows, and so on. With few rows, or a loss that
        couples outputs (which needs few Gram matrices), the start is f = 0.

        Near the minimum few rows have curvature, so no Gram matrix of all rows is ever formed: each doubling
        of the rows adds only those new rows that the model gets wrong. Source: Chapelle 2007, "Training a
        support vector machine in the primal", algorithm 2.1.
        """
        n, k = passes.targets.shape
        point, active, warm = NewtonPoint.zeros(self.features.rank, k), dict[int, int](), False
        if self.parameters.loss.separable:
            rough = replace(newton, tol=max(newton.tol, NEAR))
            rows = replace(self.rows, weights=passes.weights)
            # Drawing the samples also takes a permutation of the row numbers.
            for sample in nested_samples(rows, self._spare // 4 - 16 * n, self._rng):
                tiles = FeatureTiles(
                    self.features, sample.source, self.plan.chunk_rows, self._engine, self._spare // 4
                )
                part = LossPasses(
                    tiles,
                    sample.targets,
                    sample.all_weights,
                    passes.phases,
                    "pass over a sample",
                    active=active,
                )
                if not warm:
                    point = self._first(part, newton, point)
                    part.active.update(dict.fromkeys(range(k), sample.n))
                point = self._solve(part, rough, point, warm=warm).point
                active = {j: 2 * count for j, count in part.active.items()}
                warm = True
        passes.active.update(active)
        return (point, True) if warm else (self._first(passes, newton, point), False)

    def _first(self, passes: LossPasses, newton: Newton, zero: NewtonPoint) -> NewtonPoint:
        """Return the first Newton step from f = 0 if all outputs have the same Gram matrix there."""
        loss, outputs = self.parameters.loss, np.arange(passes.targets.shape[1])
        if not loss.separable or not loss.even_start or len(outputs) == 1:
            return zero
        now = passes.evaluate(zero, None, outputs, loss, curvatures=1)
        g, g_b = newton.gradient(zero, now.slope, now.slope_offset)
        return newton.bordered(now.curvature[0]).solve(-g, -g_b)

    def _group_size(self, threads: int) -> int:
        """Return how many outputs' Gram matrices the budget holds at once, at least one.

        It is computed for two threads, so that results do not depend on the number of threads. More threads
        are used only as far as memory then allows.
        """
        forest, item = self.features.forest, np.dtype(self.plan.dtype).itemsize
        held = sum(8 * r * (r + forest.path_rank(b)) for b, r in enumerate(forest.ranks))
        flight = (2 * threads + 1) * item * max(self.features.path_ranks) ** 2
        # Each system that a thread solves takes a copy of its matrix, and the factor.
        left = self._spare - 2 * threads * held
        return 1 + max(0, int(left // max(1, held + flight)))


def nested_samples(
    rows: LabelledRows[Any], room: int, rng: np.random.Generator
) -> Iterator[LabelledRows[Float64Array]]:
    """Yield samples of the rows, each a part of the next and at most half as large, the last half the rows.

    Rows of weight 0 are left out. There are fewer samples if ``room`` bytes do not hold them, and none if
    there are few rows.
    """
    each = 2 * row_bytes(rows.source) + 8 * (rows.n_outputs + 1)
    sizes = [min(rows.n // 2, MOST_ROWS, max(0, room) // each)]
    if sizes[0] < LEAST_ROWS:
        return
    while sizes[-1] // 2 >= LEAST_ROWS:
        sizes.append(sizes[-1] // 2)
    drawn = rng.permutation(rows.counted)[: sizes[0]]
    for size in reversed(sizes):
        numbers = np.sort(drawn[:size])
        weights = None if rows.weights is None else rows.weights[numbers]
        yield LabelledRows(as_source(rows.source.take(numbers)), _targets_of(rows, numbers), weights)


def row_bytes(source: RowSource) -> int:
    """Return the bytes of a row; for sparse rows an average over the first ones."""
    n, d = source.shape
    item = source.dtype.itemsize
    first = source.rows(slice(0, min(1024, n)))
    # An index is as large as a number, or half of it.
    return -(-2 * first.nnz * item // first.shape[0]) if sp.issparse(first) else d * item


def _targets_of(rows: LabelledRows[Any], numbers: IntArray) -> Float64Array:
    """Return the targets of the rows with these ascending numbers, read in blocks."""
    out = np.empty((len(numbers), rows.n_outputs))
    for where in row_slices(rows.n, TARGET_ROWS):
        a, b = np.searchsorted(numbers, [where.start, where.stop])
        if a < b:
            out[a:b] = rows.targets[where][numbers[a:b] - where.start]
    return out


def _warn(minimum: Minimum, allowed: float, target: float, limit: int) -> None:
    """Warn of a missed tolerance; a gap above ``allowed`` is put down to float32 tiles."""
    worst = float(minimum.gap.max(initial=0.0))
    text = (
        f"the objective ended a predicted {worst:.2g} of its value above its minimum, the target is "
        f"{target:.2g} (max_iter={limit}, {minimum.iterations} passes). Raise max_iter or tol, or lower C."
    )
    if allowed > target and not worst <= allowed:
        text = (
            f"in float64 the objective is {worst:.2g} of its value above its minimum: float32 tiles are too "
            "coarse for these rows and this C. Pass tile_dtype='float64', or centre and scale the features."
        )
    warnings.warn(text, AccuracyWarning, stacklevel=user_level())
