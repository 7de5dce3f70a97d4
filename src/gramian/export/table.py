"""Description of a fast table model's encoding and answers for export: plain arrays, read by every writer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.data.cells import BOOLEAN, CATEGORY, DATE, DURATION, NOUNS
from gramian.exceptions import InputError, quoted
from gramian.fast.base import FastKernelModel
from gramian.fast.probabilities import LEAST
from gramian.tables import Column, Scaling, TableColumns
from gramian.tables.column import LevelLookup, LevelMeans
from gramian.tables.dates import HOUR, SEASON, WEEKDAY, WIDTHS, YEAR
from gramian.tables.empirical import TAIL
from gramian.tables.scaling import HARD, LARGEST, QUANTILE, ROBUST, SOFT
from gramian.tables.target import MARGIN, NONE, YEO_JOHNSON, OutputMap

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from sklearn.base import BaseEstimator


#: Kinds of columns in exports, beside booleans (the numbers 0 and 1), dates and durations (days). CODE is a
#: category named by a number or a boolean, TEXT one named by text.
UNUSED, NUMBER, CODE, TEXT = "unused", "number", "code", "text"
#: Largest whole number up to which float64 holds all.
EXACT = 2.0**53
#: Columns of ``back``.
BACK = ("spread", "centre", "low", "high", "scale", "mean", "power", "unit")
#: Names in exports of the maps of targets that have another one there.
HOWS = {NONE: "linear", YEO_JOHNSON: "power"}
#: Constants of the formulas, by name.
CONSTANTS = {"largest": LARGEST, "hard": HARD, "soft": SOFT, "tail": TAIL, "least": LEAST, "year": YEAR}


def fields_of(value: DataclassInstance) -> dict[str, Any]:
    """Return the fields of a dataclass's value by name."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


@dataclass(frozen=True, eq=False)
class Lookup:
    """A number for each of many levels of a category.

    column : number of the column.
    place : number of the encoded place, which is 0 where a row has none of the levels.
    levels : text in the order of its code points, or ascending numbers.
    values : the number of each level.
    """

    column: int
    place: int
    levels: Array
    values: Float64Array


@dataclass(frozen=True, eq=False)
class TableForm:
    """What stands before and behind the fast model of a table of d columns, with e encoded places.

    A missing number becomes ``fill``; ``origin`` is subtracted from numbers. A category becomes 1 at place
    ``value`` + its number in ``levels``, an unknown one at ``other``, a missing one at ``gone``.

    names, kinds : of the columns.
    places : (d, 6), the first place of value (or categories), missing-value indicator (or missing category),
        infrequent category, season, weekday and time of day; −1 for none.
    fill, origin : (d,).
    levels : of each column, its categories: text in the order of its code points, or numbers (float64, in
        any order); empty for columns of numbers.
    means : (k, 3), a place, the place of a category's value, and what that adds to the first where it is 1.
    lookups : numbers of the levels of categories of many levels.
    dtype : type to which numbers are rounded before they are scaled, the type of the encoded training rows.
    scalings : (e,), "linear": t = (x − shift)/scale; "robust": t/√(1 + (t/soft)²) of that; "quantile": the
        curve of the place, and beyond its ends a rise of at most ``tail``, in units of ``scale``.
    shift, scale : (e,).
    curves : knots and values (2, knots) of the quantile places, by place.
    hows : of each output of a regressor, the map whose inverse is taken; empty for classes.
    back : (outputs, 8), columns :data:`BACK`; y = unit·h⁻¹(mean + scale·cut(centre + spread·v, low, high)).
    scores : values of the inverse map "quantile" (2, knots), by output.
    calibration : slope and bend of the log odds; None for a regressor, or if there are no probabilities.
    missing : text that is a missing value in any column, without spaces around it; "" stands for blank text.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    places: IntArray
    fill: Float64Array
    origin: Float64Array
    levels: tuple[Array, ...]
    means: Float64Array
    lookups: tuple[Lookup, ...]
    dtype: np.dtype[Any]
    scalings: tuple[str, ...]
    shift: Float64Array
    scale: Float64Array
    curves: dict[int, Float64Array]
    hows: tuple[str, ...]
    back: Float64Array
    scores: dict[int, Float64Array]
    calibration: tuple[float, float] | None
    missing: tuple[str, ...] = ()


def table_form(model: BaseEstimator) -> TableForm:
    """Return the description of a fitted fast table model's encoding, scales and answers."""
    columns: TableColumns = model.columns_
    scaling: Scaling = model.scaling_
    starts = np.cumsum([0, *(column.width for column in columns.columns)]).tolist()
    kinds = tuple(map(_kind, columns.columns))
    quantile = [j for j, how in enumerate(scaling.methods) if how == QUANTILE]
    classes = hasattr(model, "classes_")
    maps = () if classes else _maps(model)
    calibration = model.calibration_ if classes and hasattr(model, "predict_proba") else None
    return TableForm(
        names=columns.column_names,
        kinds=kinds,
        places=np.array([_places(*each) for each in zip(columns.columns, starts)], np.int64),
        fill=np.array([float(column.centre) for column in columns.columns]),
        origin=np.array([column.centre if column.kind == DATE else 0.0 for column in columns.columns]),
        levels=tuple(_levels(c.name, c.categories, kind) for c, kind in zip(columns.columns, kinds)),
        means=_means(columns),
        lookups=_lookups(columns, kinds),
        dtype=columns.dtype,
        scalings=tuple(how if how in (ROBUST, QUANTILE) else "linear" for how in scaling.methods),
        shift=np.asarray(scaling.shift, np.float64),
        scale=np.asarray(scaling.scale, np.float64),
        curves=dict(zip(quantile, scaling.tables, strict=True)),
        hows=tuple(HOWS.get(one.how, one.how) for one in maps),
        back=np.zeros((0, len(BACK))) if classes else _back(maps, model.model_),
        scores={
            k: np.stack([one.scores, one.knots])
            for k, one in enumerate(maps)
            if one.knots is not None and one.scores is not None
        },
        calibration=None if calibration is None else (calibration.slope, calibration.bend),
        missing=tuple(
            sorted({"", *columns.missing} - {text for c in columns.columns for text in c.categories})
        ),
    )


def _kind(column: Column) -> str:
    if not column.width:
        return UNUSED
    if column.kind == CATEGORY:
        return TEXT if column.holds == NOUNS[CATEGORY] else CODE
    return column.kind if column.kind in (BOOLEAN, DATE, DURATION) else NUMBER


def _places(column: Column, start: int) -> list[int]:
    """Return where value, missing-value indicator and so on of a column are; −1 for what it has not."""
    if not column.width:
        return [-1] * 6
    if column.kind == CATEGORY:
        infrequent = start + len(column.categories) if column.infrequent else -1
        # A missing category without a place of its own counts as an unknown one.
        gone = start + column.width - 1 if column.missing else infrequent
        return [start, gone, infrequent, -1, -1, -1]
    parts = (WIDTHS[part] if part in column.parts else 0 for part in (SEASON, WEEKDAY, HOUR))
    widths = [int(column.varies), int(column.missing), 0, *parts]
    ends = np.cumsum([start, *widths])
    return [int(end) if width else -1 for end, width in zip(ends, widths)]


def _means(columns: TableColumns) -> Float64Array:
    """Return for each level with a mean: the place of the means, the level's own place, its mean."""
    found = [
        (place, level, value)
        for place, each in columns.levels
        if isinstance(each, LevelMeans)
        for level, value in zip(range(each.places.start, each.places.stop), each.values, strict=True)
    ]
    return np.array(found, np.float64).reshape(-1, 3)


def _lookups(columns: TableColumns, kinds: tuple[str, ...]) -> tuple[Lookup, ...]:
    found = []
    for place, each in columns.levels:
        if isinstance(each, LevelLookup):
            j = columns.column_names.index(each.column)
            levels = _levels(each.column, each.levels, kinds[j])
            order = np.argsort(levels)
            found.append(Lookup(j, place, levels[order], each.values[order]))
    return tuple(found)


def refuse_no_text(what: str, texts: Iterable[str]) -> None:
    """Raise for the first text that an exported file cannot hold."""
    for text in texts:
        if "\0" in text or text.encode(errors="ignore").decode() != text:
            raise InputError(
                f"{what} {quoted(text)}, which is no text in UTF-8 without NUL: exports cannot hold it. "
                "Rename it, and train again."
            )


_TRUTHS = {"True": 1.0, "False": 0.0}


def _levels(column: str, categories: tuple[str, ...], kind: str) -> Array:
    """Return the categories of a column as text or as numbers; an empty array if it is no category."""
    if kind == TEXT:
        refuse_no_text(f"Column {column!r} has the category", categories)
        return np.array(categories, str)
    if kind != CODE:
        return np.zeros(0)
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


def _maps(model: BaseEstimator) -> tuple[OutputMap, ...]:
    """Return the target's transformation for each output."""
    if hasattr(model, "target_"):
        return tuple(map(_as_curve, model.target_.outputs))
    same = OutputMap(NONE, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0)
    return (same,) * model.model_.predictor_.n_outputs


def _as_curve(one: OutputMap) -> OutputMap:
    """Return the map with its means as the curve of a quantile map."""
    if one.means is None:
        return one
    z, means = one.means
    return replace(one, how=QUANTILE, unit=1.0, mean=0.0, scale=1.0, scores=z, knots=means)


def _back(maps: tuple[OutputMap, ...], fast: FastKernelModel) -> Float64Array:
    """Return the numbers of the maps from the fast model's values to targets."""
    rows, most = [], float(np.finfo(np.float64).max)
    for one, spread, centre in zip(maps, fast.y_std_, fast.y_mean_, strict=True):
        low, high = (-most, most) if one.how == NONE else (one.low - MARGIN, one.high + MARGIN)
        mean = one.origin if one.scale == 0 else one.mean
        rows.append([spread, centre, low, high, one.scale, mean, one.power, one.unit])
    return np.array(rows, np.float64)
