"""Plans of the fits that train by sums: sizes, precision and bytes, from an estimator's parameters and rows.

An estimator that is passed as ``model`` gives its parameters alone, and is not changed.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gramian._budget import parse_bytes
from gramian._checks import positive_number
from gramian._random import as_generator
from gramian._typing import Array
from gramian.approximations.approximation import Approximation
from gramian.approximations.choice import auto_plan, probe, probe_rows
from gramian.approximations.frozen import frozen_map
from gramian.approximations.methods import METHODS
from gramian.approximations.multiresolution import MultiResolutionBuilder
from gramian.compression.costs import Resources, Workload
from gramian.compression.plan import AS_ASKED, EXACT, GIVEN, Plan, make_plan
from gramian.compression.training import choose_dtype
from gramian.data.source import RowSource
from gramian.data.taken import TakenRows
from gramian.engine import Engine
from gramian.exact.exact import Exact
from gramian.exact.plan import exact_plan
from gramian.exceptions import InputError, did_you_mean
from gramian.kernels import Kernel
from gramian.metric.input import planned_input

#: Parameters of an approximation's instance that the estimator which it is given to decides.
OUTER = ("kernel", "gamma", "degree", "coef0", "kernel_params", "memory_budget", "tile_dtype")
#: Rows for which a stream's precision is chosen: nobody knows how many will come.
STREAM_ROWS = 1_000_000

#: Sizes, kernel, threads, and the generator of the bases, from which the probe has drawn.
Planned = tuple[Plan, Kernel, Engine, np.random.Generator]


def plan_sums(
    model: Any,
    source: RowSource,
    n_outputs: int,
    alpha: float,
    random_state: Any,
    *,
    stream: bool = False,
    weights: Array | None = None,
    held: int = 0,
) -> Planned:
    """Return plan, kernel, engine and generator of a fit by sums over features.

    ``alpha`` is the ridge penalty that sizes and precision are planned for. With ``stream`` more rows will
    follow, so that precision is chosen as for :data:`STREAM_ROWS`. Rows whose weight is 0 are not looked at.
    ``held`` bytes of the memory budget are taken by the rows.
    """
    engine, rng = model._engine(), as_generator(random_state)
    budget = parse_bytes(model.memory_budget) - held
    work = Workload.of(source, n_outputs, streamed=stream)
    frozen = frozen_map(model, source.shape[1])
    if frozen is not None:
        resources = Resources(frozen.features.dtype, engine.n_threads, budget)
        plan = replace(make_plan(frozen.builder.sizes, work, resources, reason=GIVEN), builder=frozen.builder)
        return plan, frozen.features.kernel, Engine(plan.n_threads), rng
    kernel = model._kernel_of(source)
    if weights is not None and not (weights > 0).all():
        counted: RowSource = TakenRows(source, np.flatnonzero(weights > 0))
    else:
        counted = source
    n = STREAM_ROWS if stream else source.shape[0]
    dtype = choose_dtype(model.tile_dtype, counted, kernel, alpha, n)
    # Drawn in any case: landmarks must not depend on whether the precision is asked for.
    sample = probe_rows(counted, rng, budget)
    chosen = is_auto(model.approximation)
    open_dtype = model.tile_dtype == "auto" and dtype == np.float32
    found = probe(sample, kernel, source.shape[0]) if chosen or open_dtype else None
    if found is not None and open_dtype and replace(found, n_rows=n).needs_float64(alpha):
        dtype = np.dtype(np.float64)
    resources = Resources(dtype, engine.n_threads, budget)
    if chosen and found is not None:
        plan = auto_plan(found, alpha, work, resources)
    else:
        exact = isinstance(model.approximation, str) and model.approximation == "exact"
        builder = MultiResolutionBuilder.root_only(work.n_rows) if exact else method_of(model)._builder()
        plan = make_plan(
            builder.settle(source, kernel, dtype=dtype, rng=rng, engine=engine),
            work,
            resources,
            reason=EXACT if exact else AS_ASKED,
        )
    return plan, kernel, Engine(plan.n_threads), rng


def plan_exact(
    model: Any, source: RowSource, n_outputs: int, alpha: float, exact: Exact
) -> tuple[Plan, Kernel]:
    """Return plan and kernel of a fit that solves the exact system."""
    kernel = model._kernel_of(source)
    work = Workload.of(source, n_outputs + bool(model.fit_intercept))
    return exact_plan(work, exact.settings(), model._resources(source, kernel, alpha)), kernel


def plan_ridge(model: Any, source: RowSource, n_outputs: int) -> Plan:
    """Return the plan of a ridge fit to rows: of the exact system, or of the approximation."""
    alpha, exact = positive_number("alpha", model.alpha), exact_of(model.approximation)
    source = planned_input(model, source, metric=model.metric, standardize=model.standardize).over(source)
    if exact is not None:
        return plan_exact(model, source, n_outputs, alpha, exact)[0]
    return plan_sums(model, source, n_outputs, alpha, deepcopy(model.random_state))[0]


def is_auto(approximation: Any) -> bool:
    """Return whether the approximation is left to the plan."""
    return isinstance(approximation, str) and approximation == "auto"


def exact_of(approximation: Any) -> Exact | None:
    """Return how the exact system is to be solved, where that was asked for."""
    if isinstance(approximation, Exact):
        return approximation
    return Exact() if isinstance(approximation, str) and approximation == "exact" else None


def method_of(model: Any) -> Approximation:
    """Return the approximation that an estimator names, or was given as an unfitted instance."""
    chosen = model.approximation
    if isinstance(chosen, Exact):
        raise InputError(
            f"approximation=Exact(...) solves ridge systems; {type(model).__name__} has none. Use "
            "approximation='exact', or KernelRidge and KernelRidgeClassifier."
        )
    if isinstance(chosen, Approximation):
        _refuse_ignored(model, chosen)
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


def _refuse_ignored(model: Any, chosen: Approximation) -> None:
    """Raise where the instance sets what only the outer estimator decides."""
    given, plain = chosen.get_params(deep=False), type(chosen)().get_params(deep=False)
    for name in OUTER:
        inner, outer = given[name], getattr(model, name)
        if inner is not outer and inner != plain[name] and inner != outer:
            kind = type(chosen).__name__
            raise InputError(
                f"approximation={kind}({name}={inner!r}) would have no effect: {name} is taken from "
                f"{type(model).__name__}. Write {type(model).__name__}({name}={inner!r}, "
                f"approximation={kind}(...))."
            )
