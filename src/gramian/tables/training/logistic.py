"""Values of rows by exact models without them, and logistic models beside those of classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gramian._random import as_generator
from gramian._typing import Array, Float64Array, IntArray
from gramian.exact.folds import LOGISTIC, SQUARED, FoldModels, left_out
from gramian.exact.predictor import ExactPredictor, served_dtype
from gramian.exact.system import KEPT_SHARE
from gramian.operators.kernel import KernelOperator
from gramian.ridge.model import KernelModel
from gramian.tables.importance.unseen import ExactUnseen
from gramian.tables.training.gain import best_penalty
from gramian.tables.training.model_factory import ModelFactory

#: Parts of the rows whose values come from models without them, if all rows calibrate. Chosen by hand.
FOLDS = 5
#: Largest number of multiplications of PRODUCTS products with K, about what all penalties take: for models
#: without a fifth of the rows each, in a classification and in a regression, whose penalties are smaller, so
#: that it takes more products; and for models without the held-out rows. Chosen by hand.
FOLD_WORK, REGRESSION_WORK, MOST_WORK, PRODUCTS = 5e10, 6e9, 3e11, 100
#: Penalty of the logistic loss for each unit of the ridge penalty: at f = 0 the loss is (f − 2y)²/8 and a
#: constant, y = ±1, so that with a quarter of it the ridge model times two would solve both.
QUARTER = 0.25
#: Held-out loss of a row below which no further penalty is tried. Chosen by hand.
ENOUGH = 1e-4


@dataclass(frozen=True)
class LogisticPart:
    """A logistic model of the rows of an exact ridge model.

    values : (held, outputs), log odds of the held-out rows from models without them; coefficients : (n,
    outputs), of the model of all rows, and offset (outputs,); folds : coefficients (n, folds, outputs) and
    offsets (folds, outputs) of the models without rows.
    """

    values: Float64Array
    coefficients: Float64Array
    offset: Float64Array
    folds: tuple[Float64Array, Float64Array]

    def with_ridge(self, ridge: KernelModel) -> KernelModel:
        """Return a model that answers the ridge model's values and, in further columns, these log odds."""
        old = ridge.predictor
        assert isinstance(old, ExactPredictor)
        dtype = served_dtype(ridge.kernel, old.rows, self.coefficients, self.values, old.dtype)
        both = np.hstack([old.coefficients, self.coefficients])
        predictor = replace(old, coefficients=both, dtype=dtype)
        return replace(ridge, predictor=predictor, intercept=np.concatenate([ridge.intercept, self.offset]))


def with_logistic(
    factory: ModelFactory,
    ridge: KernelModel,
    alpha: float,
    held: IntArray,
    values: Float64Array,
    unseen: ExactUnseen | None,
    *,
    folded: bool,
) -> tuple[IntArray, Float64Array, LogisticPart | None, ExactUnseen | None]:
    """Return row numbers, their values by models without them, the logistic model, and those models.

    ridge, alpha : exact model of all rows, and its penalty; held, values, unseen : row numbers, their values
    by the model without them, and this model. If ``folded`` and that takes little, all rows are returned,
    with values of models without a fifth of the rows each. There is no logistic model if it would take too
    long.
    """
    rows, counted = factory.rows, factory.rows.counted
    signs = np.asarray(rows.targets.part(counted)[slice(0, len(counted))], np.float64)
    weights = None if rows.weights is None else rows.weights[counted]
    assert isinstance(ridge.predictor, ExactPredictor)
    kernel = KernelOperator(
        ridge.kernel,
        ridge.predictor.rows,
        dtype=np.dtype(ridge.plan.dtype),
        n_jobs=factory.resources.engine.n_jobs,
        keep_bytes=int(KEPT_SHARE * factory.resources.memory_bytes),
    )
    places = [np.searchsorted(counted, held)]
    folds = factory.holdout.folds(counted, FOLDS, as_generator(factory.seed))
    if folded and folds and _work(signs, FOLDS) <= (FOLD_WORK if factory.classifies else REGRESSION_WORK):
        places = [np.searchsorted(counted, fold) for fold in folds]
        models = FoldModels(kernel.__matmul__, SQUARED, signs, weights, places)
        held, values = counted, left_out(models.fit(alpha), places)
        if unseen is not None and models.coefficients is not None:
            unseen = replace(
                unseen,
                points=counted,
                folds=tuple(folds),
                coefficients=models.coefficients,
                offsets=models.offsets,
            )
    if not factory.classifies or not factory.effort.logistic or _work(signs, len(places)) > MOST_WORK:
        return held, values, None, unseen
    part = _part(kernel, 0.5 * (1.0 + signs), weights, places, QUARTER * alpha)
    return held, values, part, None if unseen is None else unseen.add_outputs(counted, *part.folds)


def _part(
    kernel: KernelOperator,
    chances: Float64Array,
    weights: Array | None,
    places: Sequence[IntArray],
    penalty: float,
) -> LogisticPart:
    """Return the logistic model with the penalty that suits the rows left out, starting from this one."""
    trials = FoldModels(kernel.__matmul__, LOGISTIC, chances, weights, places)
    starts: dict[float, Float64Array] = {}
    folds: dict[float, tuple[Float64Array, Float64Array]] = {}
    out = np.concatenate(places)
    seen = len(places) - np.bincount(out, minlength=len(chances))

    def judge(held: IntArray, penalty: float) -> tuple[float, Float64Array]:
        values = left_out(trials.fit(penalty), places)
        assert trials.coefficients is not None
        # A row's mean coefficient over the models that have seen it: where the model of all rows starts.
        starts[penalty] = trials.coefficients.sum(axis=1, keepdims=True) / np.maximum(seen, 1)[:, None, None]
        folds[penalty] = trials.coefficients, trials.offsets
        losses = LOGISTIC.loss(values, chances[held])
        return float(np.average(losses, weights=None if weights is None else weights[held])), values

    penalty, values = best_penalty(judge, np.sort(out), penalty, ENOUGH, lambda: True)
    whole = FoldModels(kernel.__matmul__, LOGISTIC, chances, weights, [np.zeros(0, np.intp)], starts[penalty])
    whole.fit(penalty)
    assert whole.coefficients is not None
    return LogisticPart(values, whole.coefficients[:, 0], whole.offsets[0], folds[penalty])


def _work(signs: Float64Array, n_models: int) -> float:
    return 2.0 * len(signs) ** 2 * signs.shape[1] * n_models * PRODUCTS
