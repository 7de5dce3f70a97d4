"""The frame of a fit: checked parameters, and every attribute put back where the fit fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
    held = vars(estimator)
    before = dict(held)
    done = False
    try:
        yield
        if keep:
            for name in ("predictor_", "posterior_", "intercept_", "y_std_"):
                if held.get(name) is not before.get(name):
                    check_finite(held.get(name), type(estimator).__name__)
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
            held.clear()
            held.update(before)


def remove(estimator: BaseEstimator, name: str) -> None:
    """Remove an attribute of an earlier fit, if there is one."""
    vars(estimator).pop(name, None)


#: Names of what a model learns by solving systems, in predictors of every kind.
LEARNED = ("coefficients", "weights", "offsets", "predictor")


def check_finite(learned: object, name: str) -> None:
    """Raise where a predictor, or an array, is not finite; ``name`` is the estimator's."""
    if isinstance(learned, np.ndarray):
        if learned.dtype.kind == "f" and not np.isfinite(learned).all():
            raise NumericalError(
                f"{name} ended with coefficients that are not finite: sums or kernel values overflowed, or "
                "a solve diverged. Scale the features and targets, raise alpha (lower C), or pass "
                "tile_dtype='float64'."
            )
    elif isinstance(learned, tuple | list):
        for part in learned:
            check_finite(part, name)
    else:
        for part in LEARNED:
            check_finite(getattr(learned, part, ()), name)
