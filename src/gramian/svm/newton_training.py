"""Training with losses other than squares, for any approximation, by passes of Newton's method."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace

import numpy as np

from gramian._budget import UNSEEN_BYTES
from gramian._numerics import gram_factor, least_smoothing, unit_roundoff
from gramian._phases import named
from gramian._random import children
from gramian._typing import Array, Float64Array
from gramian.compression.features import UNIT_ROWS, FeatureMap
from gramian.compression.plan import NOMINAL_THREADS, Plan
from gramian.compression.predictor import Predictor, fold
from gramian.compression.sums import accumulate
from gramian.data.source import RowSource
from gramian.engine import Engine, Run
from gramian.estimator.targets import SlicedTargets
from gramian.exceptions import AccuracyWarning, user_level
from gramian.kernels.base import Kernel
from gramian.solvers.core import CoupledCore
from gramian.solvers.coupled import CoupledSystem
from gramian.solvers.losses import Loss, Proximal, Softmax
from gramian.solvers.newton import Minimum, Newton
from gramian.solvers.newton_system import NewtonPoint, factored_by
from gramian.solvers.quasi_newton import minimise_coupled
from gramian.svm.newton_check import FLOAT32_GAP, PreciseCheck
from gramian.svm.newton_start import nested_samples, row_bytes, sample_sizes
from gramian.svm.newton_sums import FeatureTiles, LossPasses

#: Relative decrease, and duality gap, below which rounding of the tiles dominates, in unit roundoffs.
ROUNDINGS, GAP_ROUNDINGS = 4.0, 100.0
#: Relative accuracy of the minima for samples of the rows, which serve as starting points only.
NEAR = 1e-2
#: Width of a proximal loss's first parabolas, relative to a cold start, if the start is such a minimum.
WARM_SHARPNESS = 0.1
#: Arrays held at once: of all coefficients, and of the decision values of a unit.
POINTS, UNIT_TERMS = 12, 16
#: Pairs of steps and gradients that the quasi-Newton method keeps: if the budget holds them, and at least.
MEMORY, LEAST_MEMORY = 20, 3


@dataclass(frozen=True)
class NewtonSettings:
    """Loss, penalty and stopping rule of a minimisation."""

    loss: Loss
    alpha: float  #: Σ w ℓ + (alpha/2)‖f‖² is minimised
    intercept: bool
    tol: float
    max_iterations: int
    scale: float = 1.0  #: typical size of decision values; an intercept's step is at most four times this
    floor: float = 0.0  #: tolerances are relative to the objective or to this, whichever is larger


class NewtonTraining:
    """Bases, and features of all rows if the budget holds them, for one or several minimisations.

    Working memory is that of the plan, and whatever the budget leaves beyond it. That is spent first on the
    rows' features, which then are computed in the first pass only, and next on the Gram matrices of as many
    outputs at a time as fit. If the features do not fit, memory does not depend on n, except for a few
    numbers per row (``anchored``: one for each output of a proximal loss).
    """

    def __init__(
        self,
        source: RowSource,
        kernel: Kernel,
        weights: Array | None,
        plan: Plan,
        *,
        n_outputs: int,
        anchored: bool,
        run: Run,
    ) -> None:
        started, engine = time.perf_counter(), run.engine
        self.plan, self._engine, self._phases = plan, engine, run.phases
        self.features: FeatureMap = plan.build(source, kernel, run, weights)
        self._source = source
        (self._rng,) = children(run.rng, 1)
        # Features may take half of what is left; the other half is for Gram matrices.
        taken = POINTS * 8 * self.features.rank * n_outputs
        taken += bytes_beside(source.shape[0], n_outputs, anchored)
        spare = max(0, plan.memory_budget - plan.peak_bytes - taken)
        self._tiles = FeatureTiles(self.features, source, plan.chunk_rows, engine, spare // 2)
        self._spare = spare - self._tiles.kept_bytes
        self._group = min(n_outputs, self._group_size(NOMINAL_THREADS))
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
        nothing = np.broadcast_to(np.zeros(1), (self._source.shape[0], 1))
        sums = accumulate(
            self.features, self._source, nothing, None, chunk_rows=self.plan.chunk_rows, engine=self._engine
        )
        factors = [gram_factor(s.gram) for s in sums]
        system = CoupledSystem([t for t, _ in factors], core, engine=self._engine)
        values, vectors = system.eigh()
        root = np.concatenate([i @ v for (_, i), v in zip(factors, system.split(vectors), strict=True)])
        clipped = (root * values) @ root.T
        return CoupledCore((clipped + clipped.T) / 2, core.ranks, psd=True)

    def minimise(
        self,
        targets: SlicedTargets,
        weights: Array | None,
        settings: NewtonSettings,
        start: NewtonPoint | None = None,
        *,
        checked: bool = True,
        trial: str = "",
    ) -> Minimum:
        """Minimise; warn if the tolerance was missed, with what is left and the remedy.

        With ``checked`` the returned gap is computed in float64, whatever the type of the tiles. Phases are
        named by the ``trial`` that they are part of.
        """
        started = time.perf_counter()
        phases = named(self._phases, trial) if trial else self._phases
        passes = LossPasses(self._tiles, targets, weights, phases)
        newton = self._newton(settings)
        warm = False
        if start is None:
            start, warm = self._near(passes, settings, newton)
        found = self._solve(passes, settings.loss, newton, start, warm=warm)
        met = float(found.gap.max(initial=0.0)) <= newton.tol
        allowed = newton.tol
        if checked and np.dtype(self.plan.dtype) != np.float64:
            check = PreciseCheck(self.features, self._core, self._spare)
            gap = check.gap(passes, settings.loss, newton, found.point, self._group)
            if gap is not None:
                found, allowed = replace(found, gap=gap), max(newton.tol, FLOAT32_GAP)
        self.reached = met and float(found.gap.max(initial=0.0)) <= allowed
        if not self.reached:
            _warn(found, allowed, newton.tol, settings.max_iterations)
        self.seconds["passes"] = time.perf_counter() - started
        return found

    def decisions(self, targets: SlicedTargets, point: NewtonPoint) -> Float64Array:
        """Return f(x) + b of the training rows, shape (n, outputs)."""
        return LossPasses(self._tiles, targets, None).decisions(point)

    def values(self, source: RowSource, point: NewtonPoint) -> Float64Array:
        """Return f(x) + b of any rows, shape (rows, outputs)."""
        tiles = FeatureTiles(self.features, source, self.plan.chunk_rows, self._engine)
        nothing = np.broadcast_to(np.zeros(1), (source.shape[0], 1))
        return LossPasses(tiles, nothing, None).decisions(point)

    def predictor(self, point: NewtonPoint) -> Predictor:
        """Fold the coefficients into kernel weights."""
        return fold(self.features, np.split(point.beta, self.features.offsets[1:]))

    def used(self) -> Plan:
        """Return the plan with what the fit used."""
        held = {"bases": self.features.nbytes, "passes": self.features.nbytes + self._tiles.kept_bytes}
        return self.plan.used(held, dict(self.seconds))

    def _newton(self, settings: NewtonSettings) -> Newton:
        alpha, engine = settings.alpha, self._engine
        roundings = GAP_ROUNDINGS if isinstance(settings.loss, Proximal) else ROUNDINGS
        return Newton(
            factored_by(self.features.forest, self._core, alpha, engine),
            engine,
            alpha,
            settings.intercept,
            4.0 * settings.scale,
            max(settings.tol, roundings * unit_roundoff(self.plan.dtype)),
            settings.max_iterations,
            settings.floor,
            least_smoothing(self.plan.dtype),
            self._core,
            np.dtype(self.plan.dtype) != np.float64,
        )

    def _solve(
        self, passes: LossPasses, loss: Loss, newton: Newton, start: NewtonPoint, *, warm: bool
    ) -> Minimum:
        """Minimise; independent outputs are handled in groups whose Gram matrices fit in memory."""
        outputs, size = np.arange(passes.targets.shape[1]), self._group
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
        found = minimise(outputs, start, WARM_SHARPNESS)
        # Narrow parabolas may stall in rounding errors of the tiles; wide ones do not.
        missed = outputs[found.gap > newton.tol]
        return found.updated(missed, minimise(missed, found.point, 1.0)) if len(missed) else found

    def _near(self, passes: LossPasses, settings: NewtonSettings, newton: Newton) -> tuple[NewtonPoint, bool]:
        """Return a starting point, and whether it is the minimum for half the rows.

        That minimum is found from the one for a quarter of the rows, and so on. With few rows, or a loss that
        couples outputs (which needs few Gram matrices), the start is f = 0.
        """
        n, k = passes.targets.shape
        rough = replace(newton, tol=max(newton.tol, NEAR))
        taken = 2 * row_bytes(self._source) + 8 * (k + 1)
        # Drawing the samples also takes a permutation of the row numbers.
        sizes = sample_sizes(n, self._spare // 4 - 16 * n, taken) if settings.loss.separable else []
        point = NewtonPoint.zeros(self.features.rank, k)
        active: dict[int, int] = {}
        warm = False
        samples = nested_samples(self._source, passes.targets, passes.weights, sizes, self._rng)
        for sample in samples:
            tiles = FeatureTiles(
                self.features, sample.source, self.plan.chunk_rows, self._engine, self._spare // 4
            )
            part = LossPasses(
                tiles, sample.targets, sample.weights, passes.phases, "pass over a sample", active=active
            )
            if not warm:
                point = self._first(part, settings.loss, newton, point)
                part.active.update(dict.fromkeys(range(k), len(sample.targets)))
            point = self._solve(part, settings.loss, rough, point, warm=warm).point
            active = {j: 2 * count for j, count in part.active.items()}
            warm = True
        passes.active.update(active)
        return (point, True) if warm else (self._first(passes, settings.loss, newton, point), False)

    def _first(self, passes: LossPasses, loss: Loss, newton: Newton, zero: NewtonPoint) -> NewtonPoint:
        """Return the first Newton step from f = 0 if all outputs have the same Gram matrix there."""
        outputs = np.arange(passes.targets.shape[1])
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


def bytes_beside(n_rows: int, n_outputs: int, anchored: bool) -> int:
    """Return the bytes that a plan does not count, whatever the sizes of the bases.

    These are terms of units, row numbers, and what BLAS and malloc keep: twice what is usual for a thread,
    since passes and systems alternate. With it logistic regression of five classes keeps to 50 MB.
    """
    units = NOMINAL_THREADS * UNIT_TERMS * 8 * UNIT_ROWS * n_outputs
    rows = n_rows * (8 + 8 * n_outputs * anchored)
    return units + rows + 2 * (1 + NOMINAL_THREADS) * UNSEEN_BYTES


def _warn(found: Minimum, allowed: float, target: float, limit: int) -> None:
    """Warn of a missed tolerance; a gap above ``allowed`` is put down to float32 tiles."""
    worst = float(found.gap.max(initial=0.0))
    text = (
        f"the objective ended a predicted {worst:.2g} of its value above its minimum, the target is "
        f"{target:.2g} (max_iter={limit}, {found.iterations} passes). Raise max_iter or tol, or lower C."
    )
    if allowed > target and not worst <= allowed:
        text = (
            f"in float64 the objective is {worst:.2g} of its value above its minimum: float32 tiles are too "
            "coarse for these rows and this C. Pass tile_dtype='float64', or centre and scale the features."
        )
    warnings.warn(text, AccuracyWarning, stacklevel=user_level())
