"""Linear models on features that are computed in tiles: liblinear for classes, ridge for numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import scipy.linalg as la
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from gramian._checks import one_of, positive_number, whole_number
from gramian._numerics import cholesky_lower
from gramian._random import seed_for_sklearn
from gramian._tiles import row_slices
from gramian._typing import Float64Array, FloatArray, Rows
from gramian.baselines.base import CHUNK_ROWS, WeightedRows
from gramian.engine import Engine
from gramian.exceptions import AccuracyWarning

#: Function from rows to features φ, shape (n, features).
Features = Callable[[Rows], FloatArray]
LOSSES = ("squared_hinge", "hinge")


def linear_svm(
    features: Features,
    n_features: int,
    rows: WeightedRows,
    *,
    C: float,
    loss: str,
    tol: float,
    max_iter: int,
    rng: np.random.Generator,
    engine: Engine,
) -> tuple[Float64Array, Float64Array, int]:
    """Train linear SVMs by liblinear, one class against the rest; return weights, intercepts, iterations.

    Minimises ½(‖w‖² + b²) + C Σ_i weight_i · loss(1 − y_i (w·φ(x_i) + b)). Weights have shape (features,
    outputs). Memory O(n · features), since liblinear reads the features many times. Warns
    ``AccuracyWarning`` if ``max_iter`` is reached.
    """
    one_of("loss", loss, LOSSES)
    n, outputs = rows.targets.shape
    table = np.empty((n, n_features))

    def fill(where: slice) -> None:
        table[where] = features(rows.rows[where])

    model = LinearSVC(
        C=positive_number("C", C),
        loss=loss,
        tol=positive_number("tol", tol),
        max_iter=whole_number("max_iter", max_iter, 1),
        # The primal solver copes with a large C, but needs a differentiable loss.
        dual=loss == "hinge",
        random_state=seed_for_sklearn(rng),
    )
    engine.run(fill, row_slices(n, CHUNK_ROWS))
    codes = rows.targets[:, 0] > 0 if outputs == 1 else rows.targets.argmax(axis=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(table, codes, sample_weight=rows.weights)
    for warning in caught:
        if not issubclass(warning.category, ConvergenceWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        else:
            warnings.warn(
                f"liblinear ended after max_iter={max_iter} iterations, above its tolerance {tol:g}. Raise "
                "max_iter or tol, lower C, or take loss='squared_hinge'.",
                AccuracyWarning,
                stacklevel=2,
            )
    intercept = np.asarray(model.intercept_, np.float64).reshape(outputs)
    return model.coef_.T.astype(np.float64), intercept, int(np.max(model.n_iter_))


def ridge(
    features: Features, n_features: int, rows: WeightedRows, *, alpha: float, engine: Engine
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
