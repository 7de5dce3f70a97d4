"""Shared base of the DC-Pred++ estimators: settings, training, decisions in chunks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from gramian._checks import one_of, whole_number
from gramian._random import as_generator
from gramian._typing import Array, Float64Array, FloatArray
from gramian.data.source import RowSource
from gramian.estimator.answers import PREDICT_ROWS, in_blocks
from gramian.estimator.base import KernelEstimator, required_target
from gramian.estimator.finite import finite_values, quietly
from gramian.exceptions import AccuracyWarning, InputError
from gramian.fast.dcpred.center_tree import METHODS
from gramian.fast.dcpred.pseudo_landmarks import check_pseudo
from gramian.fast.dcpred.training import LANDMARKS, DCPredSettings, TargetsOf, train_dcpred
from gramian.kernels import Kernel

LOSSES = ("hinge", "squared_hinge", "logistic", "ridge")
DTYPES = ("auto", "float32", "float64")
#: ``n_leaves="auto"``: so many training rows a leaf, up to so many leaves.
ROWS_PER_LEAF, MOST_LEAVES = 500, 64
#: Steps of the exact SVM of a leaf, at most; or 100 a row. Without a limit some take minutes.
LEAST_SVM_STEPS = 100_000
#: ``dtype="auto"`` keeps float64 up to this many rows, as the other estimators do.
FLOAT64_ROWS = 3_000


def exact_svm(gram: Float64Array, y: Float64Array, costs: Float64Array) -> Float64Array:
    """Return α of the hinge loss on a kernel matrix, by libsvm. Time O(n²) to O(n³).

    A cost that the data cannot meet ends at the limit of steps, with scikit-learn's ConvergenceWarning: what
    there is of α weighs the landmarks.
    """
    alpha = np.zeros(len(y))
    most = max(LEAST_SVM_STEPS, 100 * len(y))
    model = SVC(C=1.0, kernel="precomputed", max_iter=most).fit(gram, y, sample_weight=costs)
    alpha[model.support_] = model.dual_coef_[0]
    return alpha


class DCPredEstimator(KernelEstimator):
    """Base of the classifier and the regressor."""

    n_leaves: Any
    n_levels: int
    partition: str
    n_landmarks: int
    landmarks: str
    n_pseudo: int
    pseudo: str | None
    loss: str
    fit_intercept: bool
    core_rows: int
    exact_rows: int
    dtype: str
    random_state: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = False
        return tags

    def _fit_rows(self, X: Any, y: Any) -> RowSource:
        required_target(self, y)
        if self._precomputed:
            raise InputError(
                "kernel='precomputed' has no points, which the leaves are found by. Pass the rows and a "
                "kernel's name, such as 'rbf'."
            )
        return self._rows(X, reset=True)

    def _settings(self, source: RowSource, n_used: int, kernel: Kernel, cost: float) -> DCPredSettings:
        if isinstance(self.n_leaves, str) and self.n_leaves == "auto":
            n_leaves = int(np.clip(n_used // ROWS_PER_LEAF, 1, MOST_LEAVES))
        else:
            n_leaves = self._n_leaves()
        check_pseudo(self.pseudo, kernel)
        small = source.dtype.itemsize == 1 or source.dtype == np.float32
        dtype = one_of("dtype", self.dtype, DTYPES)
        if dtype == "auto":
            dtype = "float32" if small or source.shape[0] > FLOAT64_ROWS else "float64"
        return DCPredSettings(
            n_leaves=n_leaves,
            n_levels=whole_number("n_levels", self.n_levels, 1),
            partition=one_of("partition", self.partition, METHODS),
            n_landmarks=whole_number("n_landmarks", self.n_landmarks, 1),
            landmarks=one_of("landmarks", self.landmarks, LANDMARKS),
            n_pseudo=whole_number("n_pseudo", self.n_pseudo, 0),
            pseudo=self.pseudo,
            loss=self.loss,
            cost=cost,
            intercept=bool(self.fit_intercept),
            core_rows=whole_number("core_rows", self.core_rows, 1),
            exact_rows=whole_number("exact_rows", self.exact_rows, 2),
            dtype=np.dtype(dtype),
        )

    def _n_leaves(self) -> int:
        if isinstance(self.n_leaves, str):
            raise InputError(
                f"n_leaves={self.n_leaves!r} is unknown. Give a whole number of at least 1, or 'auto'."
            )
        return whole_number("n_leaves", self.n_leaves, 1)

    def _train(self, source: RowSource, targets: TargetsOf, weights: Array | None, cost: float) -> Self:
        used = np.arange(source.shape[0]) if weights is None else np.flatnonzero(weights)
        kernel = self._kernel_of(source)
        settings = self._settings(source, len(used), kernel, cost)
        model = train_dcpred(
            source,
            used,
            targets,
            weights,
            kernel,
            settings,
            rng=as_generator(self.random_state),
            engine=self._engine(),
            hinge=exact_svm,
        )
        self.model_ = model
        self.kernel_ = kernel
        self.leaves_ = tuple(leaf.report for leaf in model.leaves)
        self.n_leaves_ = len(model.leaves)
        self.exact_from_sample_ = np.array([leaf.exact_sampled for leaf in self.leaves_])
        self.nbytes_ = model.nbytes
        worst = max(leaf.gradient for leaf in self.leaves_)
        missed = sum(not leaf.converged for leaf in self.leaves_)
        if missed:
            warnings.warn(
                f"{missed} of {len(self.leaves_)} local models missed their tolerance: the gradient is down "
                f"to {worst:.2g} of its start, where 1e-4 was the target. Scale the features, or lower C.",
                AccuracyWarning,
                stacklevel=3,
            )
        return self

    def _decision_blocks(self, X: Any) -> tuple[int, Iterator[tuple[slice, FloatArray]]]:
        check_is_fitted(self, "model_")
        source = self._rows(X, reset=False)
        blocks = self.model_.blocks(source, engine=self._engine(), chunk_rows=PREDICT_ROWS)
        return source.shape[0], quietly(blocks)

    def _decision(self, X: Any) -> Float64Array:
        n, blocks = self._decision_blocks(X)
        out = in_blocks(blocks, (n, self.model_.n_outputs))
        return finite_values(out, lambda at: self._rows(X, reset=False).take(at))
