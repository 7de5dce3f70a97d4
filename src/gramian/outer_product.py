"""Average gradient outer product of any fitted model, in the features of its input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils.validation import check_is_fitted

from gramian._checks import refuse_masked, whole_number
from gramian._random import as_generator
from gramian._typing import Array, Float64Array, RandomState, Rows, RowsLike
from gramian.compression.predictor import Predictor
from gramian.data.source import RowSource, as_source
from gramian.engine import Engine
from gramian.estimator.base import KernelEstimator, read_rows
from gramian.estimator.input import Input
from gramian.estimator.labels import checked_weights
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import InputError
from gramian.fast.base import FastKernelModel
from gramian.fast.dcpred.estimators import DCPredClassifier, DCPredRegressor
from gramian.fast.estimators import FastKernelRegressor
from gramian.gp.regressor import GaussianProcessRegressor
from gramian.kernels.base import Kernel
from gramian.kernels.precomputed import StoredRows
from gramian.metric.gradients import Differentiable, Group, Predicts
from gramian.metric.outer_product import outer_product
from gramian.tables.serving import TableServer

#: What a model that is not of this library is asked for, the first that it has.
ASKED = ("decision_function", "predict_proba")


def average_gradient_outer_product(
    model: BaseEstimator,
    X: RowsLike,
    *,
    form: str = "full",
    sample_weight: ArrayLike | None = None,
    n_rows: int = 2000,
    switched: Sequence[Group] = (),
    rank: int | None = None,
    random_state: RandomState = None,
) -> Float64Array:
    r"""Return M = Σ w_i Σ_o ∇f_o(x_i) ∇f_o(x_i)ᵀ / Σ w_i of a fitted model: along which directions it varies.

    f are its predictions (of a regressor) or decision values (of a classifier; of :class:`gramian.DCSVC`
    those of each pair of classes), differentiated by the features in the units of X.

    Parameters
    ----------
    model : any fitted model of this library, in closed form but for explicit feature maps, function kernels
        and the fast predictors, which are differentiated by finite differences, as are other models with
        ``predict`` or ``decision_function``
    X : rows at which the gradients are taken, of the kind that the model takes
    form : "full" for M (d, d), "diagonal" for its diagonal (d,): the mean squared slope along each feature
    sample_weight : (n,), weights of the rows
    n_rows : rows drawn from X, of those with a weight; all where there are fewer
    switched : groups of columns that take two or a few values, (3,) or the one-hot columns (4, 5, 6), for
        which the change by switching stands in for a slope
    rank : F (d, rank) with F Fᵀ ≈ M is returned instead, without M: for many features
    random_state : of the draw

    Cost O(n_rows m d outputs) for m landmarks on a row's path, and O(n_rows outputs d²) for the full form;
    memory the answer and tiles. Raises ``InputError`` for a precomputed kernel, which has no features, and
    for unusable input.

    Source: Radhakrishnan, Beaglehole, Pandit and Belkin 2024 (recursive feature machines).

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> from gramian.outer_product import average_gradient_outer_product
    >>> X = np.random.default_rng(0).random((1000, 3))
    >>> m = gm.KernelRidge(alpha=1e-3, gamma=2.0, random_state=0).fit(X, np.sin(4 * X[:, 0]) + X[:, 1])
    >>> average_gradient_outer_product(m, X, form="diagonal", random_state=0).round(1)
    array([9.1, 1. , 0. ])
    """
    own = isinstance(model, KernelEstimator) and not isinstance(model, TableServer)
    predictor, kernel, taken = _parts(model, own)
    source = _read(model, X, own)
    if isinstance(source, StoredRows):
        raise InputError(
            "kernel='precomputed' has no features along which values could change. Fit the model to the rows "
            "themselves, with a kernel's name."
        )
    weights, scaler = checked_weights(sample_weight, source.shape[0]), taken.scaler
    rows, weights = _draw_rows(source, weights, whole_number("n_rows", n_rows, 1), as_generator(random_state))
    M = outer_product(
        Differentiable(predictor, kernel, taken.metric),
        rows if scaler is None else scaler.apply(rows),
        form=form,
        weights=weights,
        switched=switched,
        rank=rank,
        engine=Engine(getattr(model, "n_jobs", None) if own else 1),
    )
    if scaler is None:
        return M
    inverse = 1.0 / scaler.scale
    if rank is not None:
        return M * inverse[:, None]
    return M * inverse**2 if form == "diagonal" else M * np.outer(inverse, inverse)


def _read(model: BaseEstimator, X: RowsLike, own: bool) -> RowSource:
    if isinstance(model, FastKernelModel):
        return as_source(model._dense(X, reset=False))
    if own:
        return read_rows(model, X)
    refuse_masked("X", X)
    return as_source(np.asarray(X) if not hasattr(X, "nnz") else cast("Rows", X))


def _parts(model: BaseEstimator, own: bool) -> tuple[Predicts, Kernel | None, Input]:
    """Return what a model's values are made of: rows are scaled, put under a metric and predicted."""
    if isinstance(model, GaussianProcessRegressor):
        check_is_fitted(model, "posterior_")
        predictor = model.posterior_.smooth
        spread = np.asarray(model.y_std_)
        scaled: Predictor | ExactPredictor
        if isinstance(predictor, ExactPredictor):
            scaled = replace(predictor, coefficients=predictor.coefficients * spread)
        else:
            weights = tuple(tuple(w * spread for w in level) for level in predictor.weights)
            scaled = replace(predictor, weights=weights)
        return scaled, model.kernel_, Input.of(model)
    if isinstance(model, DCPredClassifier | DCPredRegressor):
        check_is_fitted(model, "model_")
        leaves = model.model_
        return lambda rows: leaves(rows, Engine(1)), None, Input.of(model)
    if isinstance(model, FastKernelModel):
        check_is_fitted(model, "predictor_")
        fast, factor = model.predictor_, model.y_std_ if isinstance(model, FastKernelRegressor) else 1.0
        return lambda rows: np.asarray(fast(rows, Engine(1)), np.float64) * factor, None, Input()
    if not own:
        return _predictions_of(model), None, Input()
    check_is_fitted(model)
    if not hasattr(model, "predictor_"):
        raise InputError(
            f"{type(model).__name__} maps rows to features and predicts nothing. Pass a model that was "
            "fitted to targets, such as gm.KernelRidge(approximation=...)."
        )
    return model.predictor_, getattr(model, "kernel_", None), Input.of(model)


def _predictions_of(model: BaseEstimator) -> Any:
    """Return rows → values of a model that is not of this library."""
    if isinstance(model, BaseEstimator) and is_regressor(model):
        return model.predict
    for name in ASKED:
        if hasattr(model, name):
            return getattr(model, name)
    if callable(model):
        return model
    raise InputError(
        f"model has type {type(model).__name__}, which has neither predict of numbers nor decision_function. "
        "Pass a fitted regressor or classifier, or a function from rows to values."
    )


def _draw_rows(
    source: RowSource, weights: Array | None, count: int, rng: np.random.Generator
) -> tuple[Rows, Array | None]:
    """Return rows drawn without replacement from those with a weight, and their weights."""
    numbers = np.arange(source.shape[0]) if weights is None else np.flatnonzero(weights > 0)
    if len(numbers) > count:
        numbers = np.sort(rng.choice(numbers, count, replace=False))
    elif len(numbers) == source.shape[0]:
        return source.rows(slice(0, len(numbers))), weights
    return source.take(numbers), None if weights is None else weights[numbers]
