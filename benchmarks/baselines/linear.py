"""Linear models on features that are computed in tiles: liblinear for classes, ridge for numbers."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import scipy.linalg as la
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from baselines.base import CHUNK_ROWS, Baseline, BaselineClassifier, BaselineRegressor, Model, WeightedRows
from gramian._checks import one_of, positive_number, whole_number
from gramian._numerics import cholesky_lower
from gramian._random import as_generator, children, seed_for_sklearn
from gramian._tiles import row_slices
from gramian._typing import Float64Array, FloatArray, Rows
from gramian.engine import Engine
from gramian.exceptions import AccuracyWarning, user_level

LOSSES = ("squared_hinge", "hinge")


class Features(Protocol):
    """Map from rows to ``rank`` features φ, shape (n, rank), and to the predictor φ(x)·w + b."""

    @property
    def rank(self) -> int:
        """Number of features."""

    def __call__(self, X: Rows, /) -> FloatArray: ...

    def folded(self, weights: Float64Array, intercept: Float64Array) -> Model:
        """Return the predictor for weights (rank, outputs) and intercepts (outputs,)."""


class LinearBaseline(Baseline):
    """Base of linear models on features."""

    random_state: Any

    @abstractmethod
    def _features(self, rows: WeightedRows, rng: np.random.Generator) -> Features:
        """Return the features, chosen or drawn for these training rows."""


class LinearClassifier(LinearBaseline, BaselineClassifier):
    """Base of the linear SVMs, trained by liblinear, one class against the rest."""

    C: Any
    loss: Any
    tol: Any
    max_iter: Any

    def _train(self, rows: WeightedRows) -> Model:
        """Minimise ½(‖w‖² + b²) + C Σ_i weight_i · loss(1 − y_i (w·φ(x_i) + b)) for each class.

        Memory O(n · features), since liblinear reads the features many times. Warns ``AccuracyWarning`` if
        ``max_iter`` is reached.
        """
        choosing, fitting = children(as_generator(self.random_state), 2)
        features = self._features(rows, choosing)
        one_of("loss", self.loss, LOSSES)
        n, outputs = rows.targets.shape
        table = np.empty((n, features.rank))

        def fill(where: slice) -> None:
            table[where] = features(rows.rows[where])

        model = LinearSVC(
            C=positive_number("C", self.C),
            loss=self.loss,
            tol=positive_number("tol", self.tol),
            max_iter=whole_number("max_iter", self.max_iter, 1),
            # The primal solver copes with a large C, but needs a differentiable loss.
            dual=self.loss == "hinge",
            random_state=seed_for_sklearn(fitting),
        )
        Engine(self.n_jobs).run(fill, row_slices(n, CHUNK_ROWS))
        codes = rows.targets[:, 0] > 0 if outputs == 1 else rows.targets.argmax(axis=1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            model.fit(table, codes, sample_weight=rows.weights)
        for warning in caught:
            if not issubclass(warning.category, ConvergenceWarning):
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
            else:
                warnings.warn(
                    f"liblinear ended after max_iter={self.max_iter} iterations, above its tolerance "
                    f"{self.tol:g}. Raise max_iter or tol, lower C, or take loss='squared_hinge'.",
                    AccuracyWarning,
                    stacklevel=user_level(),
                )
        self.n_iter_ = int(np.max(model.n_iter_))
        intercept = np.asarray(model.intercept_, np.float64).reshape(outputs)
        return features.folded(model.coef_.T.astype(np.float64), intercept)


class LinearRegressor(LinearBaseline, BaselineRegressor):
    """Base of the ridge regressions."""

    alpha: Any

    def _train(self, rows: WeightedRows) -> Model:
        features = self._features(rows, as_generator(self.random_state))
        found = ridge(features, features.rank, rows, alpha=self.alpha, engine=Engine(self.n_jobs))
        return features.folded(*found)


def ridge(
    features: Callable[[Rows], FloatArray],
    n_features: int,
    rows: WeightedRows,
    *,
    alpha: float,
    engine: Engine,
) -> tuple[Float64Array, Float64Array]:
    """Solve ridge regression from sums over the rows; return weights (features, outputs) and intercepts.

    Minimises Σ_i weight_i ‖y_i − wᵀφ(x_i) − b‖² + alpha ‖w‖². Time O(n features²), memory O(features²).
    """
    alpha = positive_number("alpha", alpha)
    n, outputs = rows.targets.shape

    def sums(where: slice) -> Float64Array:
        width = n_features + outputs
        block = np.empty((where.stop - where.start, width + 1))
        block[:, :n_features] = features(rows.rows[where])
        block[:, n_features:width] = rows.targets[where]
        block[:, width] = 1.0
        left = block if rows.weights is None else block * rows.weights[where, None]
        return left.T @ block

    total = np.zeros((n_features + outputs + 1,) * 2)
    with engine.results(sums, row_slices(n, CHUNK_ROWS)) as parts:
        for part in parts:
            total += part
    mean = total[-1, :-1] / total[-1, -1]
    centred = total[:-1, :-1] - total[-1, -1] * np.outer(mean, mean)
    gram = centred[:n_features, :n_features]
    gram.flat[:: len(gram) + 1] += alpha
    factor, _ = cholesky_lower(gram, "The Gram matrix of the features")
    right = centred[:n_features, n_features:]
    weights = la.cho_solve((factor, True), right, check_finite=False)
    return weights, mean[n_features:] - mean[:n_features] @ weights
