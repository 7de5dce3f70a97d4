"""Checks of an estimator that is read back, and the names of its features."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from gramian.data.source import as_source
from gramian.model_file.container import require
from gramian.model_file.registry import check_shape, describe_value
from gramian.tables.serving import TableServer

#: Learned numbers that predictions use as they are.
FINITE = ("intercept_", "y_std_", "y_mean_", "eigenvalues_", "calibration_", "noise_")
#: What a model is asked when it was read, and about how many rows: an array of one number fits any one row.
ASKED = ("decision_function", "predict", "predict_proba", "transform")
ROWS = 2
#: Learned attributes with a number for each output, or for KernelPCA each component.
OF_OUTPUTS = ("eigenvalues_", "y_std_", "y_mean_")


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
        fits = outputs in ({1} if k == 2 else {k, k * (k - 1) // 2})
        require(fits, f"a row has {outputs} decision values for {k} classes")


def feature_names(model: BaseEstimator) -> list[str] | None:
    """Return the names of the columns that a model was fitted to."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def set_feature_names(model: BaseEstimator, names: list[str] | None) -> None:
    """Set the names of the columns, one for each feature."""
    if names is not None:
        texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
        require(texts, f"feature names are {describe_value(names)}; expected a list of texts")
        count = model.n_features_in_
        require(len(names) == count, f"{len(names)} feature names; expected {count}")
        model.feature_names_in_ = np.asarray(names, object)
