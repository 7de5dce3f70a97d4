"""Shared base of the baselines: checked rows and weights, chunked predictions, one machine per class."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, FloatArray, Rows, RowsLike
from gramian.data.scaled import Moments, Scaler
from gramian.data.source import RowSource, as_source
from gramian.engine import Engine
from gramian.estimator.answers import class_labels, decision_values, predicted_numbers
from gramian.estimator.base import KernelEstimator, required_target
from gramian.estimator.fitting import all_or_nothing
from gramian.estimator.input import SCALE_FIRST, warn_of_scales
from gramian.estimator.labels import checked_weights
from gramian.estimator.mixins import Classifier, Regressor
from gramian.estimator.parameters import KernelParameters
from gramian.estimator.summaries import FitFacts
from gramian.estimator.targets import ClassTargets, NumberTargets, Targets
from gramian.exceptions import InputError, quoted

#: Rows of one prediction task, whose outputs take a few hundred kilobytes. Chosen by hand.
CHUNK_ROWS = 8192


class Model(Protocol):
    """Interface of a fitted baseline's predictor, in float32."""

    @property
    def n_outputs(self) -> int:
        """Number of values for a row."""

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers that a prediction reads."""

    def decide(self, X: Rows) -> FloatArray:
        """Return the values of rows in memory, shape (n, outputs)."""


@dataclass(frozen=True)
class WeightedRows:
    """Rows of positive weight, with their targets and weights.

    rows : (n, d), dense or CSR, in their original type.
    targets : (n, outputs), ±1 for classes.
    weights : (n,), or None if all are 1.
    """

    rows: Rows
    targets: Float64Array
    weights: Float64Array | None

    @property
    def floats(self) -> Rows:
        """The rows in float64, as libsvm needs them; CSR rows with 32-bit indices."""
        if not sp.issparse(self.rows):
            return np.ascontiguousarray(self.rows, np.float64)
        rows = self.rows
        parts = (rows.data.astype(np.float64), rows.indices.astype(np.int32), rows.indptr.astype(np.int32))
        return sp.csr_matrix(parts, shape=rows.shape)


class Baseline(KernelEstimator):
    """Base of the baselines; the only kernel is exp(−gamma ‖x − z‖²)."""

    kernel: Any = "rbf"
    gamma: float | str | None = None
    degree: Any = 3
    coef0: Any = 1.0
    kernel_params: Any = None
    tile_dtype: str = "float32"
    model_: Any

    @property
    def nbytes_(self) -> int:
        """Bytes of the numbers that a prediction reads."""
        check_is_fitted(self, "model_")
        return int(self.model_.nbytes)

    def _evidence(self) -> FitFacts:
        penalty = {name: getattr(self, name) for name in ("C", "alpha") if hasattr(self, name)}
        vectors, steps = getattr(self, "n_support_", None), getattr(self, "n_iter_", None)
        return FitFacts(
            penalty=penalty,
            sizes=() if vectors is None else (("support vectors", f"{vectors:,}"),),
            nbytes=self.nbytes_,
            solver=() if steps is None else (("iterations", f"{steps:,}"),),
        )

    def _checked_gamma(self, rows: Rows) -> float:
        """Return gamma as a number for these training rows; raise if it is not a positive number."""
        source = as_source(rows)
        settled = KernelParameters.given(self).settled(source)
        warn_of_scales(source, settled.resolve(source.shape[1]), cure=SCALE_FIRST)
        return 1.0 / source.shape[1] if settled.gamma is None else float(settled.gamma)

    @staticmethod
    def _counted(source: RowSource, targets: Targets, sample_weight: ArrayLike | None) -> WeightedRows:
        """Return the rows of positive weight, without a copy if that is all of them."""
        n = source.shape[0]
        weights = checked_weights(sample_weight, n)
        everything = slice(0, n)
        if weights is None or (weights > 0).all():
            return WeightedRows(source.rows(everything), targets[everything], weights)
        keep = np.flatnonzero(weights > 0)
        return WeightedRows(source.take(keep), targets[everything][keep], weights[keep])

    def _values(self, X: RowsLike) -> Float64Array:
        check_is_fitted(self, "model_")
        source, model = self._rows(X, reset=False), self.model_
        out = np.empty((source.shape[0], model.n_outputs))

        def fill(where: slice) -> None:
            out[where] = model.decide(source.rows(where))

        Engine(self.n_jobs).run(fill, row_slices(len(out), CHUNK_ROWS))
        return out


class BaselineClassifier(Classifier, Baseline):
    """Base of the classifiers: one value for two classes, else one for each; the largest wins."""

    @abstractmethod
    def _train(self, rows: WeightedRows) -> Model:
        """Train on rows with targets ±1 and return the predictor."""

    def fit(self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X (n, d) and class labels y (n,); a row source X may hold the labels.

        Rows of weight 0 are left out.
        """
        with all_or_nothing(self):
            y = required_target(self, X, y)
            source = self._rows(X, reset=True)
            targets = ClassTargets(y, source.shape[0])
            weights = targets.weights(None, sample_weight)
            mass = targets.mass(weights)
            if not mass.all():
                label = quoted(targets.classes.tolist()[int(mass.argmin())])
                raise InputError(
                    f"class {label} has rows of weight 0 only. "
                    "Give one of its rows a positive weight, or drop the class from y."
                )
            self.classes_ = targets.classes
            self.model_ = self._train(self._counted(source, targets, weights))
        return self

    def decision_function(self, X: RowsLike) -> Float64Array:
        """Return the value per class, shape (n, classes), or (n,) for two classes."""
        return decision_values(self._values(X))

    def predict(self, X: RowsLike) -> Array:
        """Return the class of each row."""
        return class_labels(self._values(X), self.classes_)


class BaselineRegressor(Regressor, Baseline):
    """Base of the regressors: targets of shape (n,) or (n, outputs)."""

    @abstractmethod
    def _train(self, rows: WeightedRows) -> Model:
        """Train on rows with real targets and return the predictor."""

    def fit(self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X (n, d) and targets y (n,) or (n, outputs); a row source X may hold the targets.

        Rows of weight 0 are left out.
        """
        with all_or_nothing(self):
            y = required_target(self, X, y)
            source = self._rows(X, reset=True)
            targets = NumberTargets(y, source.shape[0])
            targets.refuse_tiny()
            self._flat = targets.flat
            self.model_ = self._train(self._counted(source, targets, sample_weight))
        return self

    def predict(self, X: RowsLike) -> Float64Array:
        """Return f(x) per row, shape (n,) or (n, outputs)."""
        return predicted_numbers(self._values(X), flat=self._flat)


def moments(rows: Rows, weights: Array | None) -> tuple[FloatArray, FloatArray]:
    """Return each feature's weighted mean and deviation in float32; the deviation of a constant is 1."""
    found = Moments.of(rows, weights)
    return found.mean.astype(np.float32), Scaler.of(found).scale.astype(np.float32)
