"""Description of a fast table model's encoding and answers for export: plain arrays, read by every writer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from gramian._typing import Array, Float64Array
from gramian.data.cells import BOOLEAN, CATEGORY, DATE, DURATION, NOUNS
from gramian.exceptions import InputError, quoted
from gramian.fast.probabilities import LEAST
from gramian.tables import Column, Scaling, TableColumns
from gramian.tables.column import LevelLookup, LevelMeans
from gramian.tables.dates import HOUR, SEASON, WEEKDAY, WIDTHS, YEAR
from gramian.tables.empirical import TAIL
from gramian.tables.scaling import HARD, LARGEST, QUANTILE, SOFT
from gramian.tables.target import MARGIN, NONE, OutputMap

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from sklearn.base import BaseEstimator


#: Kinds of columns in exports, beside booleans (the numbers 0 and 1), dates and durations (days). CODE is a
#: category named by a number or a boolean, TEXT one named by text.
UNUSED, NUMBER, CODE, TEXT = "unused", "number", "code", "text"
#: Largest whole number up to which float64 holds all.
EXACT = 2.0**53
#: Constants of the formulas, by name.
CONSTANTS = {"largest": LARGEST, "hard": HARD, "soft": SOFT, "tail": TAIL, "least": LEAST, "year": YEAR}


def fields_of(value: DataclassInstance) -> dict[str, Any]:
    """Return the fields of a dataclass's value by name."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


@dataclass(frozen=True, eq=False)
class ColumnForm:
    """A column, and the first places of what it is encoded as; −1 for what it has not.

    A missing number becomes ``fill``; ``origin`` is subtracted from numbers. A category becomes 1 at place
    ``value`` + its number in ``levels``, an unknown one at ``other``, a missing one at ``gone``.

    value, gone, other : places of the number or of the first category, of the missing-value indicator or the
        missing category, of the infrequent category.
    season, weekday, hour : places of the parts of a date.
    levels : the categories, text in the order of its code points or numbers (float64, in any order); empty
        for columns of numbers.
    means : places that have a number for each place of the category, and these numbers.
    lookups : places that have a number for each of many levels, and 0 for other values: the place, the levels
        (text in the order of its code points, or ascending numbers) and their numbers.
    """

    name: str
    kind: str
    value: int = -1
    gone: int = -1
    other: int = -1
    season: int = -1
    weekday: int = -1
    hour: int = -1
    levels: Array = field(default_factory=lambda: np.zeros(0))
    fill: float = 0.0
    origin: float = 0.0
    means: tuple[tuple[int, tuple[float, ...]], ...] = ()
    lookups: tuple[tuple[int, Array, Float64Array], ...] = ()


@dataclass(frozen=True, eq=False)
class TableForm:
    """What stands before and behind the fast model of a table.

    dtype : type to which numbers are rounded before they are scaled, the type of the encoded training rows.
    scaling : of the encoded places.
    spread, centre, outputs : of a regressor, for each output v of the fast model: the target is the inverse
        of the map at centre + spread·v, which is first cut to the map's ``low`` and ``high``. Empty for
        classes.
    calibration : slope and bend of the log odds; None for a regressor, or if there are no probabilities.
    missing : text that is a missing value in any column, without spaces around it; "" stands for blank text.
    """

    columns: tuple[ColumnForm, ...]
    dtype: np.dtype[Any]
    scaling: Scaling
    spread: Float64Array
    centre: Float64Array
    outputs: tuple[OutputMap, ...]
    calibration: tuple[float, float] | None
    missing: tuple[str, ...]


def table_form(model: BaseEstimator) -> TableForm:
    """Return the description of a fitted fast table model's encoding, scales and answers."""
    columns: TableColumns = model.columns_
    starts = accumulate((column.width for column in columns.columns), initial=0)
    classes, fast = hasattr(model, "classes_"), model.model_
    calibration = model.calibration_ if classes and hasattr(model, "predict_proba") else None
    return TableForm(
        columns=tuple(_column(column, start, columns) for column, start in zip(columns.columns, starts)),
        dtype=columns.dtype,
        scaling=model.scaling_,
        spread=np.zeros(0) if classes else fast.y_std_,
        centre=np.zeros(0) if classes else fast.y_mean_,
        outputs=() if classes else _outputs(model),
        calibration=None if calibration is None else (calibration.slope, calibration.bend),
        missing=tuple(
            sorted({"", *columns.missing} - {text for c in columns.columns for text in c.categories})
        ),
    )


def _column(column: Column, start: int, columns: TableColumns) -> ColumnForm:
    """Return the form of one of the columns, whose first encoded place is ``start``."""
    if not column.width:
        return ColumnForm(column.name, UNUSED)
    if column.kind == CATEGORY:
        kind = TEXT if column.holds == NOUNS[CATEGORY] else CODE
        other = start + len(column.categories) if column.infrequent else -1
        # A missing category without a place of its own counts as an unknown one.
        gone = start + column.width - 1 if column.missing else other
        levels = _levels(column.name, column.categories, kind)
        own = [(place, each) for place, each in columns.levels if each.column == column.name]
        means = tuple((place, each.values) for place, each in own if isinstance(each, LevelMeans))
        lookups = []
        for place, each in own:
            if isinstance(each, LevelLookup):
                known = _levels(each.column, each.levels, kind)
                order = np.argsort(known)
                lookups.append((place, known[order], each.values[order]))
        places = (start, gone, other)
        return ColumnForm(column.name, kind, *places, levels=levels, means=means, lookups=tuple(lookups))
    kind = column.kind if column.kind in (BOOLEAN, DATE, DURATION) else NUMBER
    parts = (WIDTHS[part] if part in column.parts else 0 for part in (SEASON, WEEKDAY, HOUR))
    widths = [int(column.varies), int(column.missing), *parts]
    ends = accumulate(widths, initial=start)
    value, gone, season, weekday, hour = (end if width else -1 for end, width in zip(ends, widths))
    centre = float(column.centre)
    origin = centre if column.kind == DATE else 0.0
    levels = np.zeros(0)
    return ColumnForm(
        column.name, kind, value, gone, -1, season, weekday, hour, levels, fill=centre, origin=origin
    )


def refuse_no_text(what: str, texts: Iterable[str]) -> None:
    """Raise for the first text that an exported file cannot hold."""
    for text in texts:
        if "\0" in text or text.encode(errors="ignore").decode() != text:
            raise InputError(
                f"{what} {quoted(text)}, which is no text in UTF-8 without NUL: exports cannot hold it. "
                "Rename it, and train again."
            )


_MOST = float(np.finfo(np.float64).max)
_TRUTHS = {"True": 1.0, "False": 0.0}


def _levels(column: str, categories: tuple[str, ...], kind: str) -> Array:
    """Return the categories of a column as text or as numbers."""
    if kind == TEXT:
        refuse_no_text(f"Column {column!r} has the category", categories)
        return np.array(categories, str)
    levels = np.array([_TRUTHS[name] if name in _TRUTHS else float(name) for name in categories])
    if (np.abs(levels) > EXACT).any():
        raise InputError(
            f"Column {column!r} has the category {categories[int(np.abs(levels).argmax())]}: "
            "exports compare numbers as float64, which rounds beyond 2**53. Make text of the column, "
            "and train again."
        )
    if len(np.unique(levels)) < len(levels):
        raise InputError(
            f"Column {column!r} has booleans and the numbers 0 or 1 as different categories, which "
            "exports cannot tell apart. Make all of them numbers or text, and train again."
        )
    return levels


def _outputs(model: BaseEstimator) -> tuple[OutputMap, ...]:
    """Return the target's transformation for each output, with the numbers by which exports compute it."""
    if not hasattr(model, "target_"):
        same = OutputMap(NONE, 0.0, 1.0, 0.0, 1.0, -_MOST, _MOST)
        return (same,) * model.model_.predictor_.n_outputs
    return tuple(map(_output, model.target_.outputs))


def _output(one: OutputMap) -> OutputMap:
    """Return a map whose inverse exports compute in one way, whatever the targets were."""
    low, high = (-_MOST, _MOST) if one.how == NONE else (one.low - MARGIN, one.high + MARGIN)
    found = replace(one, low=low, high=high, mean=one.origin if one.scale == 0 else one.mean, means=None)
    if one.means is None:
        return found
    z, means = one.means
    return replace(found, how=QUANTILE, unit=1.0, mean=0.0, scale=1.0, scores=z, knots=means)
