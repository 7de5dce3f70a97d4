"""Columns by name: the names of any table, and the order in which a fitted model takes its columns.

The rule for every model: a table with names is matched by name, in any order. Missing and additional columns
are refused. Labels that are no text (numbers, dates, tuples) are names like any others. If only one of the
two tables has names, columns are taken by place, with a warning. The labels 0, 1, 2, … that pandas gives an
array are names beside a table with numbers as labels, and no names beside an array or other labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import Rows, RowsLike
from gramian.data.formats.frames import column_labels, frame_kind, text_names
from gramian.data.formats.records import Records
from gramian.data.mapped import map_rows, mapped_type
from gramian.data.source import RowSource
from gramian.data.tables import TableSource
from gramian.exceptions import InputError, did_you_mean, user_level

#: Most names in an error text.
SHOWN = 4
#: How every error about names begins; scikit-learn's words.
SHOULD_MATCH = "The feature names should match those that were passed during fit."

LIKE = "gramian.open_data(..., like=the training rows' source) chooses them from a file."


def names_of(X: RowsLike) -> tuple[str, ...] | None:
    """Return the names of the columns of a table; None if it has none.

    X : a frame of pandas, polars or Dask, an Arrow table or batch, records, a row source, or rows without
        names. Raises ``InputError`` if a name occurs twice, or only some of the labels are text.

    >>> names_of(Records([{"a": 1, "b": 2}])), names_of(np.zeros((2, 2)))
    (('a', 'b'), None)
    """
    if isinstance(X, np.ndarray | list | tuple) or sp.issparse(X):
        return None
    if frame_kind(X) is not None:
        return text_names(column_labels(X))
    if isinstance(X, Records | TableSource):
        return X.names
    if isinstance(X, RowSource):
        names = getattr(X, "feature_names", None)
        return None if names is None else text_names(names)
    labels = getattr(X, "columns", None)  # Dask, and other packages with frames
    return text_names(labels) if isinstance(labels, Iterable) else None


def places_of(
    names: Sequence[str] | None, known: Sequence[str] | None, model: str, *, unused: Collection[str] = ()
) -> tuple[int, ...] | None:
    """Return the place of each column of the training rows in a table; None: as they stand.

    names, known : names of the table and of the training rows, None if they have none. model : its name, for
    warnings. unused : columns that may be absent, whose place is then −1.

    >>> places_of(("b", "a"), ("a", "b"), "KernelRidge")
    (1, 0)
    """
    unlabelled = _is_unlabelled(names, known), _is_unlabelled(known, names)
    if all(unlabelled):
        return None
    if any(unlabelled) or names is None or known is None:
        text = f"X does not have valid feature names, but {model} was fitted with feature names."
        if unlabelled[1]:
            text = f"X has feature names, but {model} was fitted without feature names."
        warnings.warn(f"{text} Its columns are taken by place.", UserWarning, stacklevel=user_level())
        return None
    if tuple(names) == tuple(known):
        return None
    places = {name: j for j, name in enumerate(names)}
    missing = [name for name in known if name not in places and name not in unused]
    more = sorted(places.keys() - set(known), key=places.__getitem__)
    if missing:
        also = f" It has {shown_names(more)}, which they did not have." if more else ""
        raise InputError(
            f"{SHOULD_MATCH} X has no {shown_names(missing)}, which the training rows had.{also}"
            f"{did_you_mean(missing[0], names)} Pass all of their columns, in any order. {LIKE}"
        )
    if more:
        raise InputError(
            f"{SHOULD_MATCH} X has {shown_names(more, 'a ')}, which the training rows did not have. Leave "
            f"out what the model was not trained on, such as an id or the target. {LIKE}"
        )
    return tuple(places.get(name, -1) for name in known)


def is_counted(names: Sequence[str]) -> bool:
    """Return whether names are 0, 1, 2, …: those that pandas gives the columns of an array."""
    return tuple(names) == tuple(map(str, range(len(names))))


def _is_unlabelled(names: Sequence[str] | None, others: Sequence[str] | None) -> bool:
    """Return whether a table has no names to compare with those of another one."""
    if names is None:
        return True
    return is_counted(names) and not any(name.isdecimal() for name in others or ())


def shown_names(names: Sequence[str], article: str = "") -> str:
    """Return names of columns for an error text, a part of them if there are many.

    >>> shown_names(["a"]), shown_names(list("abcdef"))
    ("column 'a'", "columns 'a', 'b', 'c', 'd' and 2 more")
    """
    if len(names) == 1:
        return f"{article}column {names[0]!r}"
    first, rest = ", ".join(map(repr, names[:SHOWN])), len(names) - SHOWN
    return f"columns {first}" + (f" and {rest} more" if rest > 0 else "")


def with_columns(X: Any, places: Sequence[int]) -> Any:
    """Return a table with names and the same rows, and the columns at these places; X stays as it is."""
    kind = frame_kind(X)
    if kind == "pandas":
        return X.iloc[:, list(places)]
    if isinstance(X, Records):
        return X.chosen(places)
    if kind is None and isinstance(X, RowSource):
        moved: Any = map_rows(X, ColumnOrder(tuple(places)))
        names = moved.source.feature_names
        moved.feature_names = tuple(names[j] for j in places)
        return moved
    labels = list(column_labels(X))
    chosen = [labels[j] for j in places]
    return X[chosen] if kind is None else X.select(chosen)


@dataclass(frozen=True)
class ColumnOrder:
    """The columns of rows at these places, in this order."""

    places: tuple[int, ...]

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.places)

    @property
    def identity(self) -> tuple[Any, ...]:
        """Values that distinguish this order from others of the same source."""
        return "columns", self.places

    def apply(self, rows: Rows) -> Rows:
        """Return the rows with these columns as a new array."""
        return rows[:, list(self.places)].astype(mapped_type(rows.dtype), copy=False)
