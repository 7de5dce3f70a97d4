"""Setup of a ridge fit, read from its estimator and checked once, and the plan of rows for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from gramian._checks import positive_number, positive_numbers
from gramian._phases import Phases, silent
from gramian._typing import Array, Float64Array
from gramian.approximations.approximation import Approximation
from gramian.approximations.auto import Probe, auto_plan, probe_rows
from gramian.approximations.methods import METHODS
from gramian.approximations.multiresolution import MultiResolutionBuilder
from gramian.approximations.setup import FitSetup, frozen_map
from gramian.compression.builder import BuildSettings
from gramian.compression.costs import Workload
from gramian.compression.plan import AS_ASKED, EXACT, GIVEN, Plan, make_plan
from gramian.data.source import RowSource, SubsetRows
from gramian.engine import Engine, Run
from gramian.estimator.parameters import choose_dtype, settled_run
from gramian.exact.exact import Exact, exact_plan
from gramian.exceptions import InputError, did_you_mean
from gramian.kernels import Kernel
from gramian.metric.input import planned_source
from gramian.selection.automatic import USUAL_PENALTY, usual_setup


def ridge_setup(model: BaseEstimator, phases: Phases = silent) -> FitSetup:
    """Return the setup of a ridge estimator; ``phases`` is told of the phases of its fit."""
    setup = usual_setup(FitSetup.of(model, phases), alpha=model.alpha)
    return replace(setup, alpha=USUAL_PENALTY if "alpha" in setup.auto_names else _penalty(model))


def _penalty(model: BaseEstimator) -> float | Float64Array:
    """Return the checked penalty of an estimator; a regressor may have one for each output."""
    if isinstance(model.alpha, str) or np.ndim(model.alpha) != 1 or is_classifier(model):
        return positive_number("alpha", model.alpha)
    alphas = positive_numbers("alpha", model.alpha)
    return alphas if len(alphas) > 1 else float(alphas[0])


def check_penalties(alpha: float | Float64Array, n_outputs: int) -> None:
    """Raise where there are several penalties, but not one for each output."""
    if np.size(alpha) not in (1, n_outputs):
        raise InputError(
            f"alpha holds {np.size(alpha)} penalties, but y has {n_outputs} outputs. Give one number, or one "
            "for each output."
        )


def exact_of(approximation: object) -> Exact | None:
    """Return how the exact system is to be solved, where that was asked for."""
    if isinstance(approximation, Exact):
        return approximation
    return Exact() if isinstance(approximation, str) and approximation == "exact" else None


#: Rows for which a stream's precision is chosen: nobody knows how many will come.
STREAM_ROWS = 1_000_000

#: Sizes, kernel, and the run with the threads and precision of the plan, and the generator of the bases.
Planned = tuple[Plan, Kernel, Run]


def plan_sums(
    setup: FitSetup, source: RowSource, n_outputs: int, *, stream: bool = False, weights: Array | None = None
) -> Planned:
    """Return plan, kernel and run of a fit by sums over features.

    Sizes and precision are planned for the least penalty. With ``stream`` more rows will follow, so that
    precision is chosen as for :data:`STREAM_ROWS`. Rows whose weight is 0 are not looked at.
    """
    rng, alpha = setup.run.rng, setup.least
    run = replace(setup.run, random_state=rng)
    work = Workload.of(source, n_outputs, streamed=stream)
    frozen = frozen_map(setup, source.shape[1])
    if frozen is not None:
        run = replace(run, tile_dtype=frozen.features.dtype.name)
        plan = replace(make_plan(frozen.sizes, work, run, reason=GIVEN), builder=frozen)
        return plan, frozen.features.kernel, replace(run, engine=Engine(plan.n_threads))
    kernel, counted = setup.kernel.resolve_for(source, weights), source
    if weights is not None and not (weights > 0).all():
        counted = SubsetRows(source, np.flatnonzero(weights > 0))
    n = STREAM_ROWS if stream else source.shape[0]
    dtype = choose_dtype(run.tile_dtype, counted, kernel, alpha, n)
    # Drawn in any case: landmarks must not depend on whether the precision is asked for.
    probe = Probe(probe_rows(counted, rng, run.memory_bytes), kernel, source.shape[0])
    if run.tile_dtype == "auto" and dtype == np.float32 and probe.needs_float64(alpha, n):
        dtype = np.dtype(np.float64)
    run = replace(run, tile_dtype=dtype.name)
    if setup.automatic:
        plan = auto_plan(probe, alpha, work, run)
    else:
        exact = isinstance(setup.approximation, str) and setup.approximation == "exact"
        builder = MultiResolutionBuilder.root_only(work.n_rows) if exact else method_of(setup).builder()
        builder = builder.settle(source, BuildSettings(kernel, dtype, rng, run.engine))
        plan = make_plan(builder, work, run, reason=EXACT if exact else AS_ASKED)
    return plan, kernel, replace(run, engine=Engine(plan.n_threads))


def plan_exact(
    setup: FitSetup, source: RowSource, n_outputs: int, exact: Exact, *, weights: Array | None = None
) -> tuple[Plan, Kernel]:
    """Return plan and kernel of a fit that solves the exact system."""
    kernel = setup.kernel.resolve_for(source, weights)
    work = Workload.of(source, n_outputs + setup.intercept)
    run = settled_run(setup.run, source, kernel, setup.least)
    return exact_plan(work, exact.settings(), run), kernel


def plan_ridge(setup: FitSetup, source: RowSource, n_outputs: int) -> Plan:
    """Return the plan of a ridge fit to rows: of the exact system, or of the approximation."""
    source = planned_source(setup, source)
    exact = exact_of(setup.approximation)
    if exact is not None:
        return plan_exact(setup, source, n_outputs, exact)[0]
    return plan_sums(setup.planning(), source, n_outputs)[0]


def method_of(setup: FitSetup) -> Approximation:
    """Return the approximation that a setup names, or holds as an unfitted instance."""
    chosen = setup.approximation
    if isinstance(chosen, Exact):
        raise InputError(
            f"approximation=Exact(...) solves ridge systems; {setup.estimator} has none. Use "
            "approximation='exact', or KernelRidge and KernelRidgeClassifier."
        )
    if isinstance(chosen, Approximation):
        return chosen
    if isinstance(chosen, type) and issubclass(chosen, BaseEstimator):
        raise InputError(
            f"approximation={chosen.__name__} is a class. Pass an instance: {chosen.__name__}()."
        )
    names = ("auto", "exact", *METHODS)
    if not isinstance(chosen, str) or chosen not in METHODS:
        raise InputError(
            f"approximation={chosen!r} is unknown. Choose one of {', '.join(names)}, or pass an "
            "unfitted instance such as gramian.MEKA(rank=256)." + did_you_mean(chosen, names)
        )
    return METHODS[chosen]()
