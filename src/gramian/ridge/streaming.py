"""The state of a ridge model that takes rows in several calls: rows that wait, then a feature map and sums.

A model of a stream has ``_waiting``, its first rows until there are enough to choose scaler, metric and
landmarks from, and ``_stream``, the feature map and the sums: from then on, or for the waiting rows once
somebody asks for predictions.
"""

from __future__ import annotations

import warnings
from copy import copy, deepcopy
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from gramian._budget import parse_bytes
from gramian._checks import positive_number
from gramian._typing import Array
from gramian.approximations.frozen import frozen_map
from gramian.compression.costs import Workload
from gramian.compression.given import GivenBuilder, sizes_of
from gramian.compression.ridge_sums import RidgeSums
from gramian.data.distributed import cluster_of
from gramian.data.source import RowSource, as_source
from gramian.engine import Engine
from gramian.estimator.base import required_target
from gramian.estimator.fitting import all_or_nothing
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.progress import rows_bar
from gramian.estimator.targets import ClassTargets, NumberTargets, Targets
from gramian.exceptions import InputError
from gramian.metric.input import Input, planned_input
from gramian.ridge.growth import Territory, growable, growing_sizes
from gramian.ridge.planning import plan_sums
from gramian.ridge.stream import Stream
from gramian.ridge.training import ridge_input
from gramian.ridge.waiting import Waiting, enough

#: What is found from a stream's sums when it is asked for, and not before.
SOLVED = ("predictor_", "intercept_", "solution_")
#: What is chosen from a stream's first rows: when they are enough, or when it is asked for before that.
CHOSEN = ("kernel_", "rank_", "n_blocks_", "plan_", "scaler_", "metric_", "metric_rounds_")
#: What a model of a stream has beside what a fit leaves.
STREAMED = ("_stream", "_waiting", "n_rows_seen_", "n_rows_waiting_", "n_blocks_")

Model = TypeVar("Model")


# ---- the state of a stream -----------------------------------------------------------------------


def begun(model: Any) -> bool:
    """Return whether there is a stream that the next rows belong to."""
    return "_stream" in vars(model) or waits(model)


def waits(model: Any) -> bool:
    """Return whether scaler, metric and landmarks are still to be chosen."""
    return "_waiting" in vars(model)


def end(model: Any) -> None:
    """Drop the stream of a model, as a ``fit`` does."""
    remove(model, *STREAMED)


def closed(model: Model) -> Model:
    """Solve and drop the sums: what is left is as of one ``fit``."""
    solve(model)
    end(model)
    return model


def with_penalty(model: Model, alpha: float) -> Model:
    """Return another model of the same stream, with this alpha; both share the sums."""
    made: Any = copy(model)
    stream = stream_of(model)
    keep(made.set_params(alpha=alpha), stream)
    found: Model = made
    return found


def stream_of(model: Any) -> Stream:
    """Return the stream so far, of waiting rows that which they begin; raise where there is none."""
    if waits(model) and "_stream" not in vars(model):
        choose(model)
    if "_stream" in vars(model):
        found: Stream = model._stream
        return found
    check_is_fitted(model)
    raise InputError(
        f"this {type(model).__name__} was trained by fit (or loaded from a file) and keeps no sums of its "
        "rows. Train it by partial_fit, which can also take all rows in its first call."
    )


def solve(model: Any) -> None:
    """Find the coefficients of a stream, and keep them until rows come."""
    stream = stream_of(model)
    found = stream.solved(model._alpha, _stream_engine(model, stream))
    model.intercept_, model.solution_ = found.intercept, found.solution
    model.plan_, model.predictor_ = found.plan, found.predictor


def keep(model: Any, stream: Stream) -> Any:
    """Make this the model of a stream; its coefficients are found when they are asked for."""
    remove(model, *SOLVED)
    model._alpha = positive_number("alpha", model.alpha)
    model._stream = stream
    model.n_rows_seen_ = stream.sums.n_rows
    model.n_rows_waiting_ = model._waiting.n_rows if waits(model) else 0
    model.n_blocks_ = stream.n_blocks
    model.kernel_, model.rank_, model.plan_ = stream.features.kernel, stream.features.rank, stream.plan
    return model


def wait(model: Any, rows: Waiting, *, grow: bool = False) -> Any:
    """Make this the model of rows that wait.

    Parameters that nothing can be trained with are refused at the first call, as those of a map that
    cannot grow (``"auto"`` may still choose one that can).
    """
    penalty = positive_number("alpha", model.alpha)
    if not waits(model):
        with all_or_nothing(model, keep=False):
            if grow and not isinstance(model.approximation, str):
                _first_of(model, rows, deepcopy(model.random_state), grow=grow)
            source = as_source(rows.rows)
            found = planned_input(model, source, metric=model.metric, standardize=model.standardize)
            outputs = _targets_of(model, rows.y).shape[1]
            state = deepcopy(model.random_state)
            plan_sums(model, found.over(source), outputs, penalty, state, stream=True)
    remove(model, "_stream", "stages_", *SOLVED, *CHOSEN)
    model._alpha, model._waiting = penalty, rows
    model.n_rows_seen_ = model.n_rows_waiting_ = rows.n_rows
    return model


def choose(model: Any) -> None:
    """Choose scaler, metric and landmarks from the rows that wait, for as long as no others come."""
    alpha, rows = model._alpha, model._waiting
    with all_or_nothing(model):
        # A generator is left as it is: what is chosen in the end does not depend on who asks before.
        keep(model, _first_of(model, rows, deepcopy(model.random_state), grow=False))
        model._alpha = alpha


def remove(model: Any, *names: str) -> None:
    """Remove those of these attributes that a model has."""
    for name in names:
        vars(model).pop(name, None)


# ---- rows ----------------------------------------------------------------------------------------


def next_rows(model: Any, X: Any, y: Any) -> RowSource:
    """Return the checked rows of a call of ``partial_fit``."""
    required_target(model, y)
    if not begun(model) and "predictor_" in vars(model):
        # scikit-learn's contract has partial_fit go on after fit, of which there are no sums.
        warnings.warn(
            f"this {type(model).__name__} was trained by fit (or loaded from a file) and keeps no sums: "
            "partial_fit starts anew with these rows, and those of fit are forgotten. To add rows to "
            "rows, pass all of them to partial_fit.",
            UserWarning,
            stacklevel=3,
        )
    source: RowSource = model._rows(X, reset=not begun(model))
    if source.shape[0] == 0:
        raise InputError(f"X has shape {source.shape}: a call of partial_fit takes at least one row.")
    cluster = cluster_of(X, model.engine)
    return source if cluster is None else cluster.over(source)


def take(model: Any, rows: LabelledRows[Any], *, grow: bool) -> Any:
    """Add rows to the stream of a model; the first ones wait until there are enough."""
    if begun(model) and not waits(model):
        return keep(model, _added(model, model._stream, rows, grow=grow))
    before: Waiting | None = vars(model).get("_waiting")
    if before is not None:
        outputs = _targets_of(model, before.y).shape[1]
        if rows.n_outputs != outputs:
            raise _other_outputs(rows.n_outputs, outputs)
    budget = parse_bytes(model.memory_budget)
    if frozen_map(model, rows.source.shape[1]) is None and not _enough(rows, budget):
        read = rows.rows
        now = Waiting(
            read.copy() if sp.issparse(read) else np.array(read),
            _kept_targets(rows),
            None if rows.weights is None else np.array(rows.weights, np.float64),
        )
        now = now if before is None else before.joined(now)
        if not now.enough(budget):
            return wait(model, now, grow=grow)
        stream = _first_of(model, now, model.random_state, grow=grow)
    else:
        stream = _first(model, rows, model.random_state, grow=grow)
        if before is not None:
            stream = _added(model, stream, labelled(model, before, as_source(before.rows)), grow=False)
    remove(model, "_waiting", "n_rows_waiting_")
    return keep(model, stream)


def _enough(rows: LabelledRows[Any], memory_budget: int) -> bool:
    """Return whether rows are enough to choose from, or too large to wait, before any is read."""
    work = Workload.of(rows.source, rows.n_outputs)
    each = work.itemsize * (work.n_features if work.row_numbers is None else work.row_numbers)
    return enough(rows.n, rows.weights, rows.n * each, memory_budget)


def _targets_of(model: Any, y: Array) -> Targets:
    """Return the targets of rows that wait."""
    if is_classifier(model):
        return ClassTargets(y, len(y), model.classes_)
    return NumberTargets(y, len(y))


def _kept_targets(rows: LabelledRows[Any]) -> Array:
    """Return what rows that are to wait keep of their targets: labels, or numbers (n, outputs)."""
    targets = rows.targets
    if isinstance(targets, ClassTargets):
        return np.asarray(targets.classes[targets.codes(slice(0, rows.n))])
    return np.array(rows.numbers)


def labelled(model: Any, rows: Waiting, source: RowSource) -> LabelledRows[Any]:
    """Return rows that wait, read through ``source``, with their targets and weights."""
    return LabelledRows(source, _targets_of(model, rows.y), rows.weights)


# ---- streams that begin and go on ----------------------------------------------------------------


def _first_of(model: Any, rows: Waiting, random_state: Any, *, grow: bool) -> Stream:
    """Return the stream that waiting rows begin."""
    source = as_source(rows.rows)
    cluster = cluster_of(source, model.engine)
    source = source if cluster is None else cluster.over(source)
    return _first(model, labelled(model, rows, source), random_state, grow=grow, held=rows.nbytes)


def _first(model: Any, rows: LabelledRows[Any], random_state: Any, *, grow: bool, held: int = 0) -> Stream:
    """Return the stream that these rows begin, which take ``held`` bytes of the memory budget."""
    remove(model, "stages_")  # of an earlier fit to the exact system
    chosen = ridge_input(model, rows)
    chosen.keep_in(model)
    source, weights, n_outputs = chosen.over(rows.source), rows.weights, rows.n_outputs
    alpha = positive_number("alpha", model.alpha)
    plan, kernel, engine, rng = plan_sums(
        model, source, n_outputs, alpha, random_state, stream=True, weights=weights, held=held
    )
    features = plan.build(source, kernel, rng=rng, engine=engine, weights=weights)
    intercept = bool(model.fit_intercept)
    shift = rows.targets.centre(weights) if intercept else np.zeros(n_outputs)
    given, sizes, territory = isinstance(plan.builder, GivenBuilder), sizes_of(plan.builder), None
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
    sums = RidgeSums.zeros(features, shift, intercept=intercept)
    work = Workload.of(source, n_outputs, streamed=True)
    stream = Stream(features, sums, plan, work, territory)
    if grow and given:  # no row is new to a map that was built from it
        stream = stream.explored(source, weights, engine, parse_bytes(model.memory_budget))
    with rows_bar(rows.n, model.verbose) as done:
        return stream.extended(source, rows.targets, weights, engine, done)


def _added(model: Any, stream: Stream, rows: LabelledRows[Any], *, grow: bool) -> Stream:
    """Return a stream, whose input this model has, with further rows."""
    source = Input.of(model).over(rows.source)
    _check_parameters(model, stream, source, rows.n_outputs)
    engine = _stream_engine(model, stream)
    if grow:
        growing_sizes(stream.features, sizes_of(stream.plan.builder))
        stream = stream.explored(source, rows.weights, engine, parse_bytes(model.memory_budget))
    with rows_bar(rows.n, model.verbose) as done:
        return stream.extended(source, rows.targets, rows.weights, engine, done)


def _check_parameters(model: Any, stream: Stream, source: RowSource, n_outputs: int) -> None:
    """Raise where the rows, or parameters that have changed, do not go with the stream so far."""
    outputs = len(stream.sums.shift)
    if n_outputs != outputs:
        raise _other_outputs(n_outputs, outputs)
    positive_number("alpha", model.alpha)
    frozen = frozen_map(model, source.shape[1])
    kernel = model._kernel_of(source) if frozen is None else frozen.features.kernel
    if kernel != stream.features.kernel:
        raise InputError(
            f"the kernel is now {kernel}, but the stream was started with {stream.features.kernel}. "
            "Change it before the first call of partial_fit, or clone the model."
        )
    if bool(model.fit_intercept) != stream.sums.intercept:
        raise InputError(
            f"fit_intercept={model.fit_intercept!r}, but the stream was started with "
            f"{stream.sums.intercept}. Change it before the first call of partial_fit, or clone the "
            "model."
        )


def _stream_engine(model: Any, stream: Stream) -> Engine:
    """Return an engine of as many threads as there are here and the plan has room for."""
    return Engine(min(model._engine().n_threads, stream.plan.n_threads))


def _other_outputs(found: int, expected: int) -> InputError:
    return InputError(
        f"y has {found} outputs, but the rows so far have {expected}. Give targets of the same shape in "
        "every call."
    )
