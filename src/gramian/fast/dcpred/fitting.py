"""Training and decision values shared by the DC-Pred++ classifier and regressor."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from gramian._checks import one_of, whole_number
from gramian._random import as_generator
from gramian._typing import Array, Float64Array, FloatArray
from gramian.data.source import RowSource
from gramian.estimator.answers import PREDICT_ROWS, in_blocks
from gramian.estimator.base import KernelEstimator, required_target
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.overflow_checks import finite_blocks, quietly
from gramian.estimator.progress import shown_phases
from gramian.estimator.summaries import Evidence
from gramian.exceptions import AccuracyWarning, InputError
from gramian.fast.dcpred.center_tree import METHODS
from gramian.fast.dcpred.pseudo_landmarks import check_pseudo
from gramian.fast.dcpred.training import (
    LANDMARKS,
    DCPred,
    DCPredSettings,
    LeafReport,
    TargetsOf,
    train_dcpred,
)
from gramian.kernels import Kernel
from gramian.metric.input import Input, InputParameters, scaled_input

#: Attributes that :func:`train` sets.
LEARNED = ("model_", "kernel_", "scaler_", "leaves_", "n_leaves_", "exact_from_sample_", "nbytes_")
LOSSES = ("hinge", "squared_hinge", "logistic", "ridge")
DTYPES = ("auto", "float32", "float64")
#: Training rows for each leaf with ``n_leaves="auto"``, and the most leaves. Chosen by hand.
ROWS_PER_LEAF, MOST_LEAVES = 500, 64
#: Step limit of the exact SVM of a leaf (100 a row if that is more). Without a limit some take minutes.
#: Chosen by hand.
LEAST_SVM_STEPS = 100_000
#: ``dtype="auto"`` keeps float64 up to this many rows, as the other estimators do.
FLOAT64_ROWS = 3_000


def exact_svm(gram: Float64Array, y: Float64Array, costs: Float64Array) -> Float64Array:
    """Return the dual coefficients α of the hinge loss on a kernel matrix, by libsvm. Time O(n²) to O(n³).

    If C is too large for the data, libsvm stops at the step limit with scikit-learn's ConvergenceWarning. The
    α found so far are used: they only weight rows for the choice of landmarks.
    """
    alpha = np.zeros(len(y))
    most = max(LEAST_SVM_STEPS, 100 * len(y))
    model = SVC(C=1.0, kernel="precomputed", max_iter=most).fit(gram, y, sample_weight=costs)
    alpha[model.support_] = model.dual_coef_[0]
    return alpha


def leaf_rows(model: KernelEstimator, X: Any, y: Any) -> RowSource:
    """Return the checked training rows; refuse a precomputed kernel, whose rows cannot be clustered."""
    required_target(model, y)
    if model._precomputed:
        raise InputError(
            "kernel='precomputed' has no points, which the leaves are found by. Pass the rows and a "
            "kernel's name, such as 'rbf'."
        )
    found: RowSource = model._rows(X, reset=True)
    return found


def train(
    model: KernelEstimator, rows: LabelledRows[Any], targets: TargetsOf, cost: float, *, wide: bool = False
) -> None:
    """Train a tree of local models with the parameters of ``model`` and store it in its attributes.

    targets : function from row numbers to target values (rows, outputs); cost : C, the cost of a row's loss;
    wide : whether float32 does not hold the targets.
    """
    weights = rows.weights
    asked = InputParameters(model._kernel_parameters, model.standardize)
    scaled = scaled_input(asked, rows.source, weights)
    scaled.keep_in(model)
    source = scaled.over(rows.source)
    used, kernel = rows.counted, asked.kernel.of(source)
    settings = checked_settings(model, source, len(used), kernel, cost)
    with shown_phases(model.verbose) as phases:
        found = train_dcpred(
            source,
            used,
            targets,
            weights,
            kernel,
            replace(settings, dtype=np.dtype(np.float64)) if wide else settings,
            rng=as_generator(model.random_state),
            engine=model._engine(),
            hinge=exact_svm,
            phases=phases,
        )
    model.model_, model.kernel_ = found, kernel
    model.leaves_ = tuple(leaf.report for leaf in found.leaves)
    model.n_leaves_ = len(found.leaves)
    model.exact_from_sample_ = np.array([leaf.exact_sampled for leaf in model.leaves_])
    model.nbytes_ = found.nbytes
    worst = max(leaf.gradient for leaf in model.leaves_)
    missed = sum(not leaf.converged for leaf in model.leaves_)
    if missed:
        warnings.warn(
            f"{missed} of {len(model.leaves_)} local models missed their tolerance: the gradient is down "
            f"to {worst:.2g} of its start, where 1e-4 was the target. Scale the features, or lower C.",
            AccuracyWarning,
            stacklevel=3,
        )


def tree_evidence(model: KernelEstimator, **penalty: Any) -> Evidence:
    """Return what an estimator that :func:`train` has trained states; ``penalty`` as for Evidence."""
    found: DCPred = model.model_
    leaves: tuple[LeafReport, ...] = model.leaves_
    missed = sum(not leaf.converged for leaf in leaves)
    text = f"{missed} of {len(leaves)} local models missed their tolerance. Lower C."
    return Evidence(
        n_rows=sum(leaf.n_rows for leaf in leaves),
        kernel=model.kernel_,
        penalty=penalty,
        blocks=[("rows", [leaf.n_rows for leaf in leaves]), ("rank", [leaf.rank for leaf in leaves])],
        nbytes=found.nbytes,
        points=[leaf.landmarks for leaf in found.leaves if leaf.landmarks is not None],
        warnings=(text,) if missed else (),
    )


def checked_settings(
    model: KernelEstimator, source: RowSource, n_used: int, kernel: Kernel, cost: float
) -> DCPredSettings:
    """Check the parameters of ``model`` and return them as settings."""
    if isinstance(model.n_leaves, str) and model.n_leaves == "auto":
        n_leaves = int(np.clip(n_used // ROWS_PER_LEAF, 1, MOST_LEAVES))
    elif isinstance(model.n_leaves, str):
        raise InputError(
            f"n_leaves={model.n_leaves!r} is unknown. Give a whole number of at least 1, or 'auto'."
        )
    else:
        n_leaves = whole_number("n_leaves", model.n_leaves, 1)
    check_pseudo(model.pseudo, kernel)
    small = source.dtype.itemsize == 1 or source.dtype == np.float32
    dtype = one_of("dtype", model.dtype, DTYPES)
    if dtype == "auto":
        dtype = "float32" if small or source.shape[0] > FLOAT64_ROWS else "float64"
    return DCPredSettings(
        n_leaves=n_leaves,
        n_levels=whole_number("n_levels", model.n_levels, 1),
        partition=one_of("partition", model.partition, METHODS),
        n_landmarks=whole_number("n_landmarks", model.n_landmarks, 1),
        landmarks=one_of("landmarks", model.landmarks, LANDMARKS),
        n_pseudo=whole_number("n_pseudo", model.n_pseudo, 0),
        pseudo=model.pseudo,
        pseudo_degree=whole_number("pseudo_degree", model.pseudo_degree, 2),
        loss=model.loss,
        cost=cost,
        intercept=bool(model.fit_intercept),
        exact_rows=whole_number("exact_rows", model.exact_rows, 2),
        dtype=np.dtype(dtype),
    )


def decision(
    model: KernelEstimator,
    X: Any,
    answer: Callable[[FloatArray], Array] | None = None,
    *,
    dtype: Any = np.float64,
) -> Array:
    """Return the fitted model's values (n, outputs) for unchecked rows X from a user; raise if one overflows.

    ``answer`` turns the values of a block of rows into what is returned of them, (rows,) of ``dtype``.
    """
    check_is_fitted(model, "model_")
    source = model._rows(X, reset=False)
    blocks = quietly(
        model.model_.blocks(Input.of(model).over(source), engine=model._engine(), chunk_rows=PREDICT_ROWS)
    )
    shape = source.shape[:1] if answer else (source.shape[0], model.model_.n_outputs)
    return in_blocks(finite_blocks(blocks, source.take), shape, answer, dtype=dtype)
