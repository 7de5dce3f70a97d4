"""The columns of an estimator's rows: learned by a fit, and matched by name at every later call."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gramian._typing import RowsLike
from gramian.data.names import names_of, places_of, with_columns
from gramian.estimator.fitting import remove
from gramian.exceptions import InputError


def matched(estimator: BaseEstimator, X: RowsLike, *, reset: bool) -> Any:
    """Return X with its columns in the order of the fit, by the rule of :mod:`gramian.data.names`.

    ``reset``: X is what the estimator is fitted to; its names become ``feature_names_in_``.
    """
    names = names_of(X)
    if reset:
        remove(estimator, "feature_names_in_")  # of an earlier fit
        if names:
            estimator.feature_names_in_ = np.asarray(names, object)
        return X
    places = places_of(names, names_known(estimator), type(estimator).__name__)
    return X if places is None else with_columns(X, places)


def names_known(estimator: BaseEstimator) -> tuple[str, ...] | None:
    """Return the names of the columns that an estimator was fitted to; None if they had none."""
    known = getattr(estimator, "feature_names_in_", None)
    return None if known is None else tuple(known)


def check_width(estimator: BaseEstimator, width: int, *, reset: bool) -> None:
    """Keep the number of features of a fit, or raise if rows have another one; scikit-learn's words."""
    if reset:
        estimator.n_features_in_ = width
    elif width != getattr(estimator, "n_features_in_", width):
        raise InputError(
            f"X has {width} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
