"""Values of a fitted kernel model by blocks of rows: its input, its predictor, its intercept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array, Rows
from gramian.compression.predictor import Predictor
from gramian.data.distributed import Cluster, Partitioned, cluster_of
from gramian.data.source import ArraySource, RowSource
from gramian.engine import Engine
from gramian.estimator.answers import PREDICT_ROWS, in_blocks
from gramian.estimator.base import KernelEstimator
from gramian.estimator.matching import check_width, matched
from gramian.estimator.overflow_checks import finite_blocks, finite_values, quietly, rows_at
from gramian.exact.predictor import ExactPredictor
from gramian.metric.input import Input


def decision_blocks(
    model: KernelEstimator, source: RowSource, *, cluster: Cluster | None = None
) -> Iterator[tuple[slice, Float64Array]]:
    """Yield blocks of rows and their values (rows, outputs), computed on a cluster if there is one."""
    if cluster is not None:
        source = cluster.over(source)
    predictor = model.predictor_  # of a stream whose rows wait, the input is chosen with it
    source = Input.of(model).over(source)
    if isinstance(source, Partitioned):
        start = 0
        for values in source.map(partial(_decided, predictor)):
            yield slice(start, start + len(values)), values + model.intercept_
            start += len(values)
        return
    yield from predicted_blocks(model._on(predictor, source), model.intercept_, source, model._engine())


def predicted_blocks(
    predictor: Predictor | ExactPredictor, intercept: Float64Array, source: RowSource, engine: Engine
) -> Iterator[tuple[slice, Float64Array]]:
    """Yield blocks of rows, which are ready for the kernel, and f(x) + b of them, (rows, outputs)."""
    for where, values in quietly(predictor.blocks(source, engine=engine, chunk_rows=PREDICT_ROWS)):
        values += intercept
        yield where, values


def predicted_classes(
    model: KernelEstimator, X: Any, answer: Callable[[Float64Array], Array], *, engine: Cluster | None = None
) -> Array:
    """Return ``answer`` to the values of each block of rows X as a user passes them, shape (n,).

    Raises for the first block with a value that overflows.
    """
    source = model._rows(X, reset=False)
    blocks = decision_blocks(model, source, cluster=cluster_of(source, engine))
    checked = finite_blocks(blocks, partial(rows_at, source))
    return in_blocks(checked, source.shape[:1], answer, dtype=model.classes_.dtype)


def decision(model: KernelEstimator, X: Any, *, engine: Cluster | None = None) -> Float64Array:
    """Return the values of rows X as a user passes them, shape (n, outputs); raise where one overflows."""
    source = model._rows(X, reset=False)
    blocks = decision_blocks(model, source, cluster=cluster_of(source, engine))
    out = in_blocks(blocks, (source.shape[0], model.predictor_.n_outputs))
    return finite_values(out, partial(rows_at, source))


def values_of(model: KernelEstimator, source: RowSource) -> Float64Array:
    """Return the values of checked rows, shape (n, outputs)."""
    return np.concatenate([values for _, values in decision_blocks(model, source)])


#: What a model needs to answer, beside its parameters.
ANSWERS = (
    "predictor_",
    "kernel_",
    "intercept_",
    "classes_",
    "_flat",
    "n_features_in_",
    "scaler_",
    "metric_",
)


def lazily(model: KernelEstimator, X: Any, method: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a method's values for a collection as one of the same package, nothing computed."""
    cluster = cluster_of(X, model.engine)
    assert cluster is not None
    cluster.header(X)  # raises for columns that are no numbers
    X = matched(model, X, reset=False)
    check_width(model, X.shape[1], reset=False)
    # One that runs where the rows lie: without what only a fit needs, and on one thread.
    plain = {"approximation": "auto", "random_state": None, "engine": None, "n_jobs": 1}
    plain |= {"checkpoint": None, "verbose": 0}
    sent = type(model)(**{**model.get_params(deep=False), **plain})
    sent.__dict__.update((name, getattr(model, name)) for name in ANSWERS if hasattr(model, name))
    return cluster.lazily(X, getattr(sent, method), shape, dtype)


def _decided(predictor: Predictor | ExactPredictor, rows: Rows) -> Float64Array:
    """Return the predictor's values for a part of the rows, on one thread."""
    blocks = predictor.blocks(ArraySource(rows), engine=Engine(1), chunk_rows=PREDICT_ROWS)
    return np.concatenate([values for _, values in quietly(blocks)])
