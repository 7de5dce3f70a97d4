"""The state of a ridge model that takes rows in several calls: rows that wait, then a feature map and sums.

``fit`` leaves ``_fit_data``, a reference to what it was given; the next call of ``partial_fit``, ``forget``
or ``merge`` begins the stream with these rows. A model of a stream has ``_waiting``, its first rows until
there are enough to choose scaler, metric and landmarks from, and ``_stream``, the feature map and the sums:
from then on, or for the waiting rows once somebody asks for predictions.
"""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from gramian._checks import positive_number
from gramian._phases import Phases
from gramian._typing import Array
from gramian.approximations.frozen import frozen_map
from gramian.compression.costs import Workload
from gramian.data.distributed import cluster_of
from gramian.data.source import RowSource, as_source
from gramian.estimator.base import KernelEstimator, required_target
from gramian.estimator.fitting import all_or_nothing, remove
from gramian.estimator.labelled import LabelledRows, labelled_classes, labelled_numbers
from gramian.estimator.matching import names_known
from gramian.estimator.opening import fit_rows, opened
from gramian.estimator.progress import shown_phases
from gramian.estimator.summaries import Evidence
from gramian.estimator.targets import ClassTargets, NumberTargets, Targets
from gramian.exceptions import InputError
from gramian.metric.input import Input, planned_input
from gramian.metric.summary import with_metric
from gramian.ridge.fit_data import FitData
from gramian.ridge.model import KernelModel
from gramian.ridge.parameters import RidgeParameters
from gramian.ridge.planning import plan_sums
from gramian.ridge.stream import Stream
from gramian.ridge.stream_fit import begin_stream, extend_stream, other_outputs, stream_engine
from gramian.ridge.waiting import Waiting, enough

#: What is found from a stream's sums when it is asked for, and not before.
SOLVED = ("predictor_", "intercept_", "solution_")
#: What is chosen from a stream's first rows: when they are enough, or when it is asked for before that.
CHOSEN = ("kernel_", "rank_", "n_blocks_", "plan_", "scaler_", "metric_", "metric_rounds_")
#: What a model of a stream has beside what a fit leaves.
STREAMED = ("_stream", "_waiting", "_fit_data", "n_rows_seen_", "n_rows_waiting_", "n_blocks_")

Model = TypeVar("Model", bound=KernelEstimator)


# ---- the state of a stream -----------------------------------------------------------------------


def begun(model: KernelEstimator) -> bool:
    """Return whether there are earlier rows that the next rows are added to."""
    return "_stream" in vars(model) or "_fit_data" in vars(model) or waits(model)


def waits(model: KernelEstimator) -> bool:
    """Return whether scaler, metric and landmarks are still to be chosen."""
    return "_waiting" in vars(model)


def end(model: KernelEstimator) -> None:
    """Drop the stream of a model, as a ``fit`` does."""
    remove(model, *STREAMED)


def keep_fit_data(model: KernelEstimator, X: Any, y: Any, sample_weight: Any) -> None:
    """Keep what a ``fit`` was given, so that ``partial_fit`` can go on from it.

    A matrix of kernel values is not kept: there is no stream of such rows.
    """
    if not model._precomputed:
        model._fit_data = FitData.of(X, y, sample_weight)


def without_fit_data(model: Model) -> Model:
    """Drop the reference to the rows of a fit, from which no ``partial_fit`` will go on."""
    remove(model, "_fit_data")
    return model


def start(model: KernelEstimator) -> None:
    """Begin the stream of a model that was trained by ``fit`` with the rows of that fit."""
    given: FitData | None = vars(model).get("_fit_data")
    if given is None:
        return
    given.check_unchanged()
    labels = is_classifier(model)
    with all_or_nothing(model):
        remove(model, "_fit_data")
        X, y, weights = opened(given.X, given.y, given.sample_weight, engine=model.engine, labels=labels)
        source = fit_rows(model, X, y, engine=model.engine, reset=False)
        if labels:
            rows: Any = labelled_classes(source, y, weights, model.class_weight, model.classes_)
        else:
            rows = labelled_numbers(source, y, weights)
        take(model, rows, grow=False)


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


def stream_of(model: KernelEstimator) -> Stream:
    """Return the stream so far, of waiting rows that which they begin; raise where there is none."""
    if waits(model) and "_stream" not in vars(model):
        choose(model)
    if "_stream" in vars(model):
        found: Stream = model._stream
        return found
    check_is_fitted(model)
    raise InputError(
        f"this {type(model).__name__} has neither the rows of its fit nor their sums: model files, pickles "
        "and copies leave the rows of fit out. Train by partial_fit, whose sums pickles and copies keep."
    )


def ridge_evidence(model: KernelEstimator) -> Evidence:
    """Return what a ridge model states; a stream is not solved for it, and its landmarks are not chosen."""
    held = vars(model)
    penalty = {"alpha": held.get("alpha_", model.alpha)}
    if "_stream" in held:
        of_map = Evidence.of_map(model._stream.features)
        found = with_metric(
            replace(of_map, penalty=penalty, plan=model.plan_), Input.of(model), names_known(model)
        )
        if "predictor_" in held:
            solved = KernelModel.of(model).facts()
            said = (*solved.warnings, *found.warnings)
            found = replace(found, nbytes=solved.nbytes, solver=solved.solver, warnings=said)
    else:
        if waits(model):
            found = Evidence(penalty=penalty)
        else:
            found = KernelModel.of(model).facts(names_known(model), **penalty)
    seen = held.get("n_rows_seen_", found.n_rows)
    return replace(found, n_rows=seen, waiting=held.get("n_rows_waiting_", 0))


def solve(model: KernelEstimator) -> None:
    """Find the coefficients of a stream, and keep them until rows come."""
    stream = stream_of(model)
    found = stream.solved(model._alpha, stream_engine(stream, model._engine()))
    model.intercept_, model.solution_ = found.intercept, found.solution
    model.plan_, model.predictor_ = found.plan, found.predictor


def keep(model: KernelEstimator, stream: Stream) -> Any:
    """Make this the model of a stream; its coefficients are found when they are asked for."""
    remove(model, *SOLVED)
    model._alpha = positive_number("alpha", model.alpha)
    model._stream = stream
    model.n_rows_seen_ = stream.sums.n_rows
    model.n_rows_waiting_ = model._waiting.n_rows if waits(model) else 0
    model.n_blocks_ = stream.n_blocks
    model.kernel_, model.rank_, model.plan_ = stream.features.kernel, stream.features.rank, stream.plan
    return model


def wait(model: KernelEstimator, rows: Waiting, *, grow: bool = False) -> Any:
    """Make this the model of rows that wait.

    Parameters that nothing can be trained with are refused at the first call, as those of a map that
    cannot grow (``"auto"`` may still choose one that can).
    """
    penalty = positive_number("alpha", model.alpha)
    if not waits(model):
        with all_or_nothing(model, keep=False):
            if grow and not isinstance(model.approximation, str):
                _begun_by(model, RidgeParameters.of(model).planning(), rows, grow=grow)
            source = as_source(rows.rows)
            asked = RidgeParameters.of(model).planning()
            found = planned_input(asked.input, asked.setup, source)
            outputs = _targets_of(model, rows.y).shape[1]
            plan_sums(asked.setup, found.over(source), outputs, penalty, stream=True)
    remove(model, "_stream", "stages_", *SOLVED, *CHOSEN)
    model._alpha, model._waiting = penalty, rows
    model.n_rows_seen_ = model.n_rows_waiting_ = rows.n_rows
    return model


def choose(model: KernelEstimator) -> None:
    """Choose scaler, metric and landmarks from the rows that wait, for as long as no others come."""
    alpha, rows = model._alpha, model._waiting
    with all_or_nothing(model):
        # A generator is left as it is: what is chosen in the end does not depend on who asks before.
        keep(model, _begun_by(model, RidgeParameters.of(model).planning(), rows, grow=False))
        model._alpha = alpha


# ---- rows ----------------------------------------------------------------------------------------


def next_rows(model: KernelEstimator, X: Any, y: Any) -> RowSource:
    """Return the checked rows of a call of ``partial_fit``."""
    required_target(model, y)
    if not begun(model) and "predictor_" in vars(model):
        warnings.warn(
            f"this {type(model).__name__} has neither the rows of its fit nor their sums, so that "
            "partial_fit starts anew with these rows: model files, pickles and copies leave the rows of fit "
            "out. To go on from them, train by partial_fit from the start: pickles and copies keep its sums.",
            UserWarning,
            stacklevel=3,
        )
    source = fit_rows(model, X, y, engine=model.engine, reset=not begun(model))
    if source.shape[0] == 0:
        raise InputError(f"X has shape {source.shape}: a call of partial_fit takes at least one row.")
    return source


def take(model: KernelEstimator, rows: LabelledRows[Any], *, grow: bool) -> Any:
    """Add rows to the stream of a model; the first ones wait until there are enough."""
    with shown_phases(model.verbose) as phases:
        return _taken(model, rows, phases, grow=grow)


def _taken(model: Any, rows: LabelledRows[Any], phases: Phases, *, grow: bool) -> Any:
    start(model)
    if begun(model) and not waits(model):
        parameters = RidgeParameters.of(model, phases)
        return keep(model, extend_stream(parameters, Input.of(model), model._stream, rows, grow=grow))
    before: Waiting | None = vars(model).get("_waiting")
    if before is not None:
        outputs = _targets_of(model, before.y).shape[1]
        if rows.n_outputs != outputs:
            raise other_outputs(rows.n_outputs, outputs)
    parameters = RidgeParameters.of(model, phases)
    budget = parameters.setup.resources.memory_bytes
    if frozen_map(parameters.setup, rows.source.shape[1]) is None and not _enough(rows, budget):
        read = rows.rows
        now = Waiting(
            read.copy() if sp.issparse(read) else np.array(read),
            _kept_targets(rows),
            None if rows.weights is None else np.array(rows.weights, np.float64),
        )
        now = now if before is None else before.joined(now)
        if not now.enough(budget):
            return wait(model, now, grow=grow)
        stream = _begun_by(model, parameters, now, grow=grow)
    else:
        stream = _begun(model, parameters, rows, grow=grow)
        if before is not None:
            waited = labelled(model, before, as_source(before.rows))
            stream = extend_stream(parameters, Input.of(model), stream, waited, grow=False)
    remove(model, "_waiting", "n_rows_waiting_")
    return keep(model, stream)


def _enough(rows: LabelledRows[Any], memory_budget: int) -> bool:
    """Return whether rows are enough to choose from, or too large to wait, before any is read."""
    work = Workload.of(rows.source, rows.n_outputs)
    each = work.itemsize * (work.n_features if work.row_numbers is None else work.row_numbers)
    return enough(rows.n, rows.weights, rows.n * each, memory_budget)


def _targets_of(model: KernelEstimator, y: Array) -> Targets:
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


def labelled(model: KernelEstimator, rows: Waiting, source: RowSource) -> LabelledRows[Any]:
    """Return rows that wait, read through ``source``, with their targets and weights."""
    return LabelledRows(source, _targets_of(model, rows.y), rows.weights)


def _begun_by(model: KernelEstimator, parameters: RidgeParameters, rows: Waiting, *, grow: bool) -> Stream:
    """Begin the stream of a model with rows that wait."""
    source = as_source(rows.rows)
    cluster = cluster_of(source, model.engine)
    source = source if cluster is None else cluster.over(source)
    return _begun(model, parameters, labelled(model, rows, source), grow=grow, held=rows.nbytes)


def _begun(
    model: KernelEstimator, parameters: RidgeParameters, rows: LabelledRows[Any], *, grow: bool, held: int = 0
) -> Stream:
    """Begin the stream of a model, which keeps the input that is learned from these rows."""
    remove(model, "stages_")  # of an earlier fit to the exact system
    found, stream = begin_stream(parameters, rows, grow=grow, held=held)
    found.keep_in(model)
    return stream
