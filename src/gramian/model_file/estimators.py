"""The estimators that a model file may hold, and what is checked when one is read back."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from gramian.approximations.methods import METHODS
from gramian.data.source import as_source
from gramian.exceptions import ModelFileError
from gramian.fast.dcpred.estimators import DCPredClassifier, DCPredRegressor
from gramian.fast.estimators import FastKernelClassifier, FastKernelRegressor
from gramian.gp.regressor import GaussianProcessRegressor
from gramian.model_file.container import CURE
from gramian.model_file.structure import check_shape
from gramian.model_file.typed import check_parts, describe_value, is_finite
from gramian.ridge.cross_validation import KernelRidgeCV
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier
from gramian.spectra.kernel_pca import KernelPCA
from gramian.svm.classifier import KernelSVC
from gramian.svm.dcsvc import DCSVC
from gramian.svm.logistic import KernelLogisticRegression
from gramian.svm.regressor import KernelSVR
from gramian.tables.classifier import TabularClassifier
from gramian.tables.compression import FastTabularClassifier, FastTabularRegressor
from gramian.tables.regressor import TabularRegressor
from gramian.tables.serving import TableServer

#: All estimators that a model file may hold.
KINDS: tuple[type[Any], ...] = (
    KernelRidge,
    KernelRidgeCV,
    KernelRidgeClassifier,
    KernelSVC,
    KernelSVR,
    KernelLogisticRegression,
    KernelPCA,
    *METHODS.values(),
    DCSVC,
    DCPredClassifier,
    DCPredRegressor,
    FastKernelClassifier,
    FastKernelRegressor,
    GaussianProcessRegressor,
    TabularRegressor,
    TabularClassifier,
    FastTabularRegressor,
    FastTabularClassifier,
)
#: The same kinds, by the class name that a file stores.
KNOWN = {kind.__name__: kind for kind in KINDS}
#: Learned numbers that predictions use as they are.
FINITE = ("intercept_", "y_std_", "y_mean_", "eigenvalues_", "calibration_", "noise_")
#: What a model is asked when it was read, and about how many rows: an array of one number fits any one row.
ASKED = ("decision_function", "predict", "predict_proba", "transform")
ROWS = 2
#: Learned attributes with a number for each output, or for KernelPCA each component.
OF_OUTPUTS = ("eigenvalues_", "y_std_", "y_mean_")


def is_known(value: object) -> bool:
    """Return whether a value is an estimator that a model file can hold."""
    return KNOWN.get(type(value).__name__) is type(value)


def check_learned(made_by: type[Any], learned: Mapping[str, Any]) -> None:
    """Raise if learned attributes are not of a class's types, or what predictions use is not finite."""
    kind = made_by.__name__
    check_parts(kind, made_by, learned, finite=False)
    for name in FINITE:
        if name in learned and not is_finite(learned[name]):
            raise ModelFileError(f"{name!r} of a {kind} holds NaN or infinity. {CURE}")


def check_answer(model: BaseEstimator) -> None:
    """Raise if a model that was read does not answer rows of ones, or not by its learned attributes.

    The answer needs scaler, metric, centres and landmarks of the same width, coefficients for each of them.
    Models of tables are asked about rows of missing values.
    """
    d = model.n_features_in_
    if isinstance(model, TableServer):
        rows: Any = np.full((ROWS, d), np.nan)
    else:
        rows = as_source(np.ones((ROWS, d)))
    found = {}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ASKED:
            if hasattr(model, name):
                found[name] = getattr(model, name)(rows)
    if isinstance(model, TableServer):
        return
    ask, answer = next(iter(found.items()))
    outputs = answer.size // ROWS if ask != "transform" else answer.shape[1]
    for name in OF_OUTPUTS:
        if hasattr(model, name):
            check_shape(name, getattr(model, name), (outputs,))
    calibration = getattr(model, "calibration_", None)
    if isinstance(calibration, np.ndarray):
        check_shape("calibration_", calibration, (outputs, 2))
    if hasattr(model, "rank_") and ask == "transform" and not hasattr(model, "eigenvalues_"):
        check_shape("features of a row", answer, (ROWS, model.rank_))
    if is_classifier(model):
        k = len(model.classes_)
        check_shape("classes_", model.classes_, (k,))
        if outputs not in ({1} if k == 2 else {k, k * (k - 1) // 2}):
            raise ModelFileError(f"a row has {outputs} decision values for {k} classes. {CURE}")


def feature_names(model: BaseEstimator) -> list[str] | None:
    """Return the names of the columns that a model was fitted to."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def set_feature_names(model: BaseEstimator, names: list[str] | None) -> None:
    """Set the names of the columns, one for each feature."""
    if names is not None:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ModelFileError(
                f"feature names are {describe_value(names)}; expected a list of texts. {CURE}"
            )
        if len(names) != model.n_features_in_:
            raise ModelFileError(f"{len(names)} feature names; expected {model.n_features_in_}. {CURE}")
        model.feature_names_in_ = np.asarray(names, object)
