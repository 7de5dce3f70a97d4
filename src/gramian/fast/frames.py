"""Rows of numbers as the frames that a teacher was trained on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from gramian._typing import Array
from gramian.data.formats.frames import frame_kind


def frame_form(X: Any, teacher: Any) -> Callable[[Array], Any] | None:
    """Return a function from numbers (n, d) to a frame with the columns of X, if X is one.

    None if the teacher learned from rows without names, as scikit-learn's models say.
    """
    kind, make = frame_kind(X), cast("Any", type(X))
    nameless = hasattr(teacher, "n_features_in_") and not hasattr(teacher, "feature_names_in_")
    if kind is None or nameless:
        return None
    if kind == "pandas":
        return partial(make, columns=X.columns)
    if kind == "polars":
        return partial(make, schema=X.columns, orient="row")
    names = X.schema.names
    return lambda rows: make.from_arrays(list(rows.T.copy()), names=names)
