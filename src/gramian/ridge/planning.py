"""Plans of the fits that train by sums: sizes, precision and bytes, from the setup of a fit and its rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator

from gramian._random import as_generator
from gramian._typing import Array
from gramian.approximations.approximation import Approximation
from gramian.approximations.auto import auto_plan, probe, probe_rows
from gramian.approximations.frozen import frozen_map
from gramian.approximations.methods import METHODS
from gramian.approximations.multiresolution import MultiResolutionBuilder
from gramian.approximations.setup import FitSetup
from gramian.compression.builder import BuildSettings
from gramian.compression.costs import Resources, Workload
from gramian.compression.plan import AS_ASKED, EXACT, GIVEN, Plan, make_plan
from gramian.compression.training import choose_dtype
from gramian.data.source import RowSource
from gramian.data.subset import SubsetRows
from gramian.engine import Engine
from gramian.exact.exact import Exact
from gramian.exact.plan import exact_plan
from gramian.exceptions import InputError, did_you_mean
from gramian.kernels import Kernel
from gramian.metric.input import planned_source
from gramian.ridge.parameters import RidgeParameters

#: Rows for which a stream's precision is chosen: nobody knows how many will come.
STREAM_ROWS = 1_000_000

#: Sizes, kernel, threads, and the generator of the bases, from which the probe has drawn.
Planned = tuple[Plan, Kernel, Engine, np.random.Generator]


def plan_sums(
    setup: FitSetup,
    source: RowSource,
    n_outputs: int,
    alpha: float,
    *,
    stream: bool = False,
    weights: Array | None = None,
) -> Planned:
    """Return plan, kernel, engine and generator of a fit by sums over features.

    ``alpha`` is the ridge penalty that sizes and precision are planned for. With ``stream`` more rows will
    follow, so that precision is chosen as for :data:`STREAM_ROWS`. Rows whose weight is 0 are not looked at.
    """
    engine, rng = setup.resources.engine, as_generator(setup.random_state)
    budget, tile_dtype = setup.resources.memory_bytes, setup.resources.tile_dtype
    work = Workload.of(source, n_outputs, streamed=stream)
    frozen = frozen_map(setup, source.shape[1])
    if frozen is not None:
        resources = Resources(frozen.features.dtype, engine.n_threads, budget)
        plan = replace(make_plan(frozen.sizes, work, resources, reason=GIVEN), builder=frozen)
        return plan, frozen.features.kernel, Engine(plan.n_threads), rng
    kernel = setup.kernel.of(source, weights)
    if weights is not None and not (weights > 0).all():
        counted: RowSource = SubsetRows(source, np.flatnonzero(weights > 0))
    else:
        counted = source
    n = STREAM_ROWS if stream else source.shape[0]
    dtype = choose_dtype(tile_dtype, counted, kernel, alpha, n)
    # Drawn in any case: landmarks must not depend on whether the precision is asked for.
    sample = probe_rows(counted, rng, budget)
    open_dtype = tile_dtype == "auto" and dtype == np.float32
    found = probe(sample, kernel, source.shape[0]) if setup.automatic or open_dtype else None
    if found is not None and open_dtype and replace(found, n_rows=n).needs_float64(alpha):
        dtype = np.dtype(np.float64)
    resources = Resources(dtype, engine.n_threads, budget)
    if setup.automatic and found is not None:
        plan = auto_plan(found, alpha, work, resources)
    else:
        exact = isinstance(setup.approximation, str) and setup.approximation == "exact"
        builder = MultiResolutionBuilder.root_only(work.n_rows) if exact else method_of(setup).builder()
        plan = make_plan(
            builder.settle(source, BuildSettings(kernel, dtype, rng, engine)),
            work,
            resources,
            reason=EXACT if exact else AS_ASKED,
        )
    return plan, kernel, Engine(plan.n_threads), rng


def plan_exact(
    parameters: RidgeParameters,
    source: RowSource,
    n_outputs: int,
    exact: Exact,
    *,
    weights: Array | None = None,
) -> tuple[Plan, Kernel]:
    """Return plan and kernel of a fit that solves the exact system."""
    kernel = parameters.setup.kernel.of(source, weights)
    work = Workload.of(source, n_outputs + parameters.intercept)
    resources = parameters.setup.resources.settled(source, kernel, parameters.least)
    return exact_plan(work, exact.settings(), resources), kernel


def plan_ridge(parameters: RidgeParameters, source: RowSource, n_outputs: int) -> Plan:
    """Return the plan of a ridge fit to rows: of the exact system, or of the approximation."""
    source = planned_source(parameters.setup, source)
    exact = parameters.exact
    if exact is not None:
        return plan_exact(parameters, source, n_outputs, exact)[0]
    return plan_sums(parameters.setup.planning(), source, n_outputs, parameters.least)[0]


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
