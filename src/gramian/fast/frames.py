"""Rows of numbers in the form that a teacher was trained on: a frame, or columns in the teacher's order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gramian._typing import Array, RowsLike
from gramian.data.formats.frames import maker_like, opened_frame
from gramian.data.names import names_of, places_of, with_columns
from gramian.data.source import ArraySource
from gramian.engine import Engine
from gramian.estimator.base import KernelEstimator
from gramian.estimator.rows import names_known
from gramian.fast.libsvm_values import libsvm_values
from gramian.fast.teachers import Translated

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def by_name(teacher: BaseEstimator, X: RowsLike, engine: Engine) -> Any:
    """Return a fitted teacher of the rows X that is asked about arrays with the columns of X.

    If X is a frame, the teacher gets frames. If both have names, it gets the columns in its own order.
    """
    X = opened_frame(X)
    names, known = names_of(X), names_known(teacher)
    places = None
    if names is not None and known is not None:
        places = places_of(names, known, type(teacher).__name__)
    if places is None and libsvm_values(teacher, engine) is not None:
        return teacher
    # scikit-learn's models say whether they learned from rows without names.
    nameless = hasattr(teacher, "n_features_in_") and not hasattr(teacher, "feature_names_in_")
    form = None if nameless else maker_like(X)
    if form is not None:
        made = form
        form = made if places is None else lambda rows: with_columns(made(rows), places)
    elif names is not None and known is not None:
        form = partial(_order_columns, places, known if isinstance(teacher, KernelEstimator) else None)
    return teacher if form is None else Translated(teacher, form)


def _order_columns(places: Sequence[int] | None, names: tuple[str, ...] | None, rows: Array) -> Any:
    """Return rows with the columns at these places; with ``names``, as a row source that has them."""
    found = rows if places is None else rows[:, list(places)]
    if names is None:
        return found
    source = ArraySource(found)
    source.feature_names = names
    return source
