"""Work done on one part of a distributed collection: conversion, sampling of rows, sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from gramian._tiles import one_blas_thread
from gramian._typing import Array, IntArray, Rows
from gramian.data.source import KEPT, RowSource
from gramian.data.values import refuse_not_finite, refuse_overflow

Result = TypeVar("Result")


def is_number(kind: object) -> bool:
    """Return whether a column of this NumPy or pandas type holds real numbers or booleans."""
    code = getattr(kind, "kind", "O")
    return code in "fiub" and not getattr(kind, "categories", None)


def as_values(part: Any) -> Array:
    """Return a part of a series, frame or array as an array, missing numbers as NaN."""
    if not hasattr(part, "to_numpy"):
        return np.asarray(part)
    kinds = list(part.dtypes) if hasattr(part, "columns") else [part.dtype]
    if any(not isinstance(kind, np.dtype) for kind in kinds) and all(is_number(kind) for kind in kinds):
        values = part.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        values = part.to_numpy()
    return np.asarray(values)


def as_flat(part: Any) -> Array:
    """Return a part with one column as an array of shape (rows,)."""
    return as_values(part).ravel()


def as_rows(part: Any, first: int | None) -> Array:
    """Return a part as rows of finite numbers; ``first`` is the number of its first row, None if unknown."""
    rows = as_values(part)
    if rows.dtype not in KEPT:
        rows = rows.astype(np.float64)
    if rows.dtype.kind == "f":
        if first is None:
            refuse_not_finite(rows, "row {} of a partition".format)
        else:  # training rows, whose numbers are known
            refuse_not_finite(rows, lambda row: f"row {first + row}")
            refuse_overflow(rows, number=first.__add__)
    return rows


def some(part: Array, numbers: slice | IntArray) -> Array:
    """Return some rows of a part as a new array."""
    return np.array(part[numbers])


def read(source: RowSource, where: slice) -> Rows:
    """Return consecutive rows of a source that was opened elsewhere."""
    return source.rows(where)


def result(work: Callable[..., Result], *values: Sequence[Any]) -> Result:
    """Return the work's result for consecutive parts, joined: rows first, then the values beside them."""
    with one_blas_thread():
        return work(*(None if v[0] is None else v[0] if len(v) == 1 else np.concatenate(v) for v in values))


def onto(
    work: Callable[..., Result],
    tell: Callable[[int], object] | None,
    total: Result | None,
    *values: Sequence[Any],
) -> Result:
    """Return the total after adding consecutive parts to it, and report their number of rows."""
    combined = result(partial(work, total), *values)
    if tell is not None:
        tell(sum(len(part) for part in values[0]))
    return combined


def predict_part(rows: Any, work: Callable[[Any], Array], empty: Array) -> Array:
    """Return the work's result for one part's rows, or ``empty`` if it has none."""
    if not len(rows):
        return empty
    with one_blas_thread():
        return work(as_rows(rows, None))


def group_parts(lengths: Sequence[int], least: int) -> list[range]:
    """Return groups of consecutive parts with at least this many rows each, except perhaps the last."""
    groups, start, rows = [], 0, 0
    for number, length in enumerate(lengths):
        rows += length
        if rows >= least:
            groups.append(range(start, number + 1))
            start, rows = number + 1, 0
    if start < len(lengths):
        groups.append(range(start, len(lengths)))
    return groups
