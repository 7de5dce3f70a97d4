"""Streams that begin and go on: from parameters and labelled rows to a feature map and its sums."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gramian.approximations.frozen import frozen_map
from gramian.compression.builder import PrebuiltBuilder, sizes_of
from gramian.compression.costs import Workload
from gramian.compression.ridge_sums import RidgeSums
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.estimator.input import Input
from gramian.estimator.labelled import LabelledRows
from gramian.exceptions import InputError
from gramian.ridge.growth import Territory, growable, growing_sizes
from gramian.ridge.parameters import RidgeParameters
from gramian.ridge.planning import plan_sums
from gramian.ridge.stream import Stream
from gramian.ridge.training import ridge_input


def begin_stream(
    parameters: RidgeParameters, rows: LabelledRows[Any], *, grow: bool, held: int = 0
) -> tuple[Input, Stream]:
    """Return input and stream that these rows begin, which take ``held`` bytes of the memory budget."""
    found = ridge_input(parameters, rows)
    source, weights, n_outputs = found.over(rows.source), rows.weights, rows.n_outputs
    setup = parameters.setup
    plan, kernel, engine, rng = plan_sums(
        setup.less(held), source, n_outputs, parameters.least, stream=True, weights=weights
    )
    features = plan.build(source, kernel, rng=rng, engine=engine, weights=weights, phases=setup.phases)
    shift = rows.targets.centre(weights) if parameters.intercept else np.zeros(n_outputs)
    given, sizes, territory = isinstance(plan.builder, PrebuiltBuilder), sizes_of(plan.builder), None
    if growable(features, sizes):
        territory = Territory.around(
            features,
            growing_sizes(features, sizes),
            source,
            built=not given,
            rng=rng,
            engine=engine,
            memory_budget=plan.memory_budget,
        )
    if grow:
        growing_sizes(features, sizes)
    sums = RidgeSums.zeros(features, shift, intercept=parameters.intercept)
    work = Workload.of(source, n_outputs, streamed=True)
    stream = Stream(features, sums, plan, work, territory)
    if grow and given:  # no row is new to a map that was built from it
        stream = stream.explored(source, weights, engine, setup.resources.memory_bytes)
    done = setup.phases("sums", rows.n)
    return found, stream.extended(source, rows.targets, weights, engine, done)


def extend_stream(
    parameters: RidgeParameters, known: Input, stream: Stream, rows: LabelledRows[Any], *, grow: bool
) -> Stream:
    """Return the stream, which began with this input, with further rows."""
    source, resources = known.over(rows.source), parameters.setup.resources
    _check_unchanged(parameters, stream, source, rows.n_outputs)
    engine = stream_engine(stream, resources.engine)
    if grow:
        growing_sizes(stream.features, sizes_of(stream.plan.builder))
        stream = stream.explored(source, rows.weights, engine, resources.memory_bytes)
    done = parameters.setup.phases("sums", rows.n)
    return stream.extended(source, rows.targets, rows.weights, engine, done)


def stream_engine(stream: Stream, engine: Engine) -> Engine:
    """Return an engine of as many threads as this one has and the plan has room for."""
    return Engine(min(engine.n_threads, stream.plan.n_threads))


def other_outputs(found: int, expected: int) -> InputError:
    """Return the error about rows with more or fewer outputs than those before."""
    return InputError(
        f"y has {found} outputs, but the rows so far have {expected}. Give targets of the same shape in "
        "every call."
    )


def _check_unchanged(parameters: RidgeParameters, stream: Stream, source: RowSource, n_outputs: int) -> None:
    """Raise where the rows, or parameters that have changed, do not go with the stream so far."""
    outputs = len(stream.sums.shift)
    if n_outputs != outputs:
        raise other_outputs(n_outputs, outputs)
    frozen = frozen_map(parameters.setup, source.shape[1])
    known: Any = stream.features.kernel
    kernel: Any = parameters.setup.kernel.of(source) if frozen is None else frozen.features.kernel
    if parameters.setup.kernel.by_rows and type(kernel) is type(known) and hasattr(known, "lengthscale"):
        kernel = replace(kernel, lengthscale=known.lengthscale)  # the first rows have decided
    if kernel != known:
        raise InputError(
            f"the kernel is now {kernel}, but the stream was started with {known}. "
            "Change it before the first call of partial_fit, or clone the model."
        )
    if parameters.intercept != stream.sums.intercept:
        raise InputError(
            f"fit_intercept={parameters.intercept!r}, but the stream was started with "
            f"{stream.sums.intercept}. Change it before the first call of partial_fit, or clone the "
            "model."
        )
