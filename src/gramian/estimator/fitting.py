"""The frame of a fit: checked parameters, and every attribute put back where the fit fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gramian._budget import give_back_early
from gramian.estimator.constraints import check_parameters
from gramian.exceptions import NumericalError


@contextmanager
def all_or_nothing(estimator: BaseEstimator, *, keep: bool = True) -> Iterator[None]:
    """Open a fit: check the parameters, and put every attribute back if the body fails.

    ``keep=False`` puts them back in any case. Fits only ever rebind attributes, so that the names and
    references are all there is to restore. A new model whose coefficients are not finite counts as a failure
    (:func:`check_finite`).
    """
    check_parameters(estimator)
    give_back_early()
    before = dict(estimator.__dict__)
    done = False
    try:
        yield
        if keep:
            for name in ("predictor_", "posterior_", "intercept_", "_y_std"):
                model = estimator.__dict__.get(name)
                if model is not before.get(name):
                    check_finite(model, type(estimator).__name__)
        done = keep
    except np.linalg.LinAlgError as error:
        if isinstance(error, NumericalError):
            raise
        raise NumericalError(
            f"{type(estimator).__name__} could not factor a matrix ({error}): numbers overflowed, or are too "
            "far apart in size. Scale the features and targets, raise alpha (lower C), or pass "
            "tile_dtype='float64'."
        ) from error
    finally:
        if not done:
            estimator.__dict__.clear()
            estimator.__dict__.update(before)


def remove(estimator: BaseEstimator, *names: str) -> None:
    """Remove those of these attributes that an estimator has, such as those of an earlier fit."""
    for name in names:
        estimator.__dict__.pop(name, None)


#: Names of what a model learns by solving systems, in predictors of every kind.
LEARNED = ("coefficients", "weights", "offsets", "predictor")


def check_finite(model: Any, name: str) -> None:
    """Raise where a predictor has coefficients that are not finite; ``name`` is the estimator's."""
    if isinstance(model, np.ndarray):
        if model.dtype.kind == "f" and not np.isfinite(model).all():
            raise NumericalError(
                f"{name} ended with coefficients that are not finite: sums or kernel values overflowed, or "
                "a solve diverged. Scale the features and targets, raise alpha (lower C), or pass "
                "tile_dtype='float64'."
            )
    elif isinstance(model, tuple | list):
        for part in model:
            check_finite(part, name)
    else:
        for part in LEARNED:
            check_finite(getattr(model, part, ()), name)
