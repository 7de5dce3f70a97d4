"""A model of a table that gramian exported. This file needs NumPy only: import it, or give it rows of a CSV
file without a header:

python FILE.py < rows.csv
"""

from __future__ import annotations

import csv
import datetime
import sys
from typing import Any

import numpy as np

from gramian.export.standalone_core import _labelled, _matched, _model, _values


def predict(rows: Any) -> np.ndarray:
    """Return the class of each row, or its prediction.

    rows : a list of rows or an array (n, columns) of any type, with the columns of the training in the same
        order; or a frame, an Arrow table or a list of dicts, whose columns are found by name. Cells are
        numbers, booleans, text, dates (datetime, numpy.datetime64, text such as 2024-05-31, or days since
        1970) or durations (timedelta, or days). None and NaN are missing.
    """
    return _labelled(decision(rows))


def decision(rows: Any) -> np.ndarray:
    """Return the decision values of rows, or the predictions of a regressor, in float64.

    Shape (n,) for two classes or one target, (n, outputs) otherwise.
    """
    values, model = _values(_scaled(_encoded(rows))).astype(np.float64), _model()
    for k, (to, spread, centre) in enumerate(zip(model["outputs"], model["spread"], model["centre"])):
        how, power = to["how"], to["power"]
        h = to["mean"] + to["scale"] * np.clip(centre + spread * values[:, k], to["low"], to["high"])
        if how == "log":
            h = np.exp(h)
        elif how == "yeo-johnson":
            h = _unbox(np.maximum(h, 0.0), power) - _unbox(np.maximum(-h, 0.0), 2.0 - power)
        elif how == "quantile":
            h = np.interp(h, to["scores"], to["knots"])
        values[:, k] = to["unit"] * h
    return values[:, 0] if model["one_value"] else values


def predict_proba(rows: Any) -> np.ndarray:
    """Return the probability of each class, shape (n, classes); classifiers with probabilities only."""
    model = _model()
    if model["calibration"] is None:
        raise AttributeError("This model has no probabilities.")
    slope, bend = model["calibration"]
    values, least = decision(rows), model["least"]
    chances = np.clip((1.0 + values) / 2.0, least, 1.0 - least)
    if values.ndim == 1:
        odds = slope * values + bend * (np.log(chances) - np.log1p(-chances))
        odds = np.column_stack([np.zeros_like(odds), odds])
    else:
        odds = slope * values + bend * np.log(chances)
    weights = np.exp(odds - odds.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _unbox(h: np.ndarray, power: float) -> np.ndarray:
    return np.expm1(np.log1p(power * h) / power) if power > 0 else np.expm1(h)


def _scaled(rows: np.ndarray) -> np.ndarray:
    """Return scaled rows of encoded ones."""
    model = _model()
    methods, shift, scale, tables = model["scaling"].values()
    curves = iter(tables)
    x = np.clip(rows.astype(np.float64), -model["largest"], model["largest"])
    with np.errstate(over="ignore"):
        out = np.clip((x - shift) / scale, -model["hard"], model["hard"])
    for j, how in enumerate(methods):
        if how == "robust":
            out[:, j] /= np.sqrt(1.0 + (out[:, j] / model["soft"]) ** 2)
        elif how == "quantile":
            knots, heights = map(np.array, next(curves))
            with np.errstate(over="ignore"):
                ends = np.array([x[:, j] - knots[-1], knots[0] - x[:, j]]) / scale[j]
            over, under = np.clip(ends, 0.0, 1e15)
            beyond = over / (1.0 + over) - under / (1.0 + under)
            out[:, j] = np.interp(x[:, j], knots, heights) + model["tail"] * beyond
    return out.astype(rows.dtype)


def _encoded(rows: Any) -> np.ndarray:
    """Return the numbers that stand for rows of a table."""
    model = _model()
    columns = model["columns"]
    rows = _matched(rows)
    table = np.asarray(rows) if hasattr(rows, "__array__") else _cells(rows, len(columns))
    if table.ndim != 2 or table.shape[1] != len(columns):
        raise ValueError(f"rows have shape {table.shape}; expected (n, {len(columns)}).")
    out = np.zeros((len(table), len(model["scaling"]["scale"])), model["dtype"])
    for j, column in enumerate(columns):
        keys = ("name", "kind", "value", "gone", "other")
        name, kind, value, gone, other = (column[key] for key in keys)
        if kind == "unused":
            continue
        if kind in ("text", "code"):
            place = {level: value + k for k, level in enumerate(column["levels"])}
            read = _names if kind == "text" else _numbers
            further = [level for _, known, _ in column["lookups"] for level in known]
            cells = read(table[:, j], kind, name).tolist()
            known_as = _levels if kind == "code" else _same_days
            cells = known_as(cells, [*place, *further])
            at = np.array([gone if _missing(cell) else place.get(cell, other) for cell in cells], np.intp)
            out[at >= 0, at[at >= 0]] = 1.0
            for to, numbers in column["means"]:
                out[:, to] = out[:, value : value + len(numbers)] @ numbers
            for to, known, its in column["lookups"]:
                number = dict(zip(known, its))
                out[:, to] = [0.0 if _missing(cell) else number.get(cell, 0.0) for cell in cells]
            continue
        numbers = _numbers(table[:, j], kind, name)
        lost = np.isnan(numbers)
        if value >= 0:
            out[:, value] = np.where(lost, column["fill"], numbers) - column["origin"]
        if gone >= 0:
            out[:, gone] = lost
        when = np.where(lost, 0.0, numbers)
        whole, season, weekday, hour = np.floor(when), column["season"], column["weekday"], column["hour"]
        if season >= 0:
            days = whole.astype(np.int64).astype("datetime64[D]")
            of_year = (days - days.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.float64)
            out[:, season : season + 2] = _turn((of_year + when - whole) / model["year"], lost)
        if weekday >= 0:
            of_week = (whole + 3.0) % 7.0
            out[:, weekday : weekday + 7] = (of_week[:, None] == np.arange(7)) & ~lost[:, None]
        if hour >= 0:
            out[:, hour : hour + 2] = _turn(when - whole, lost)
    return out


def _turn(turns: np.ndarray, lost: np.ndarray) -> np.ndarray:
    angle = 2.0 * np.pi * turns
    return np.where(lost[:, None], 0.0, np.column_stack([np.sin(angle), np.cos(angle)]))


def _cells(rows: Any, width: int) -> np.ndarray:
    """Return rows as an array of objects, with one cell each."""
    rows = [list(row) for row in rows]
    wrong = next((row for row in rows if len(row) != width), None)
    if wrong is not None:
        raise ValueError(f"A row has {len(wrong)} cells; expected {width}, the columns of the training.")
    out = np.empty((len(rows), width), object)
    out.ravel()[:] = [cell for row in rows for cell in row]
    return out


def _missing(cell: Any) -> bool:
    """Return whether a cell is missing, or is text that says so."""
    if isinstance(cell, str):
        return cell.strip() in _model()["missing"]
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or bool(cell != cell)


def _levels(cells: list[float], levels: list[float]) -> list[float]:
    """Return numbers, in place of a level that was rounded to float32 here or in training the level."""
    with np.errstate(over="ignore"):
        single = {number: float(np.float32(number)) for number in [*cells, *levels]}
    known, near = set(levels), {single[level]: level for level in levels if not level.is_integer()}

    def level_of(cell: float) -> float:
        level = near.get(single[cell], cell)
        return cell if cell in known or (cell != single[cell] and level != single[cell]) else level

    return [level_of(cell) for cell in cells]


def _same_days(cells: list[Any], levels: list[Any]) -> list[Any]:
    """Return text, in place of the text of a date the level that is the same date written otherwise."""
    known, days = set(levels), {_day(level): level for level in reversed(levels)}
    days.pop(None, None)
    new = {cell for cell in cells if isinstance(cell, str)} - known if days else set()
    same = {cell: days.get(_day(cell), cell) for cell in new}
    return [same.get(cell, cell) for cell in cells]


def _day(text: str) -> float | None:
    """Return the days since 1970 of the text of a date; None for other text."""
    try:
        return _number(text, "date", "") if text[4:5] == text[7:8] == "-" else None
    except ValueError:
        return None


def _names(column: np.ndarray, kind: str, name: str) -> np.ndarray:
    """Return a column of text, or raise for the first cell that is neither text nor missing."""
    for cell in column.tolist():
        if not isinstance(cell, str) and not _missing(cell):
            raise ValueError(f"Column {name!r} held {kind} in training and now holds {cell!r}. Pass text.")
    return column


def _numbers(column: np.ndarray, kind: str, name: str) -> np.ndarray:
    """Return a column as float64, dates and durations in days; NaN is missing."""
    if column.dtype.kind in "mM":
        counts = column.astype(f"{column.dtype.kind}8[us]").astype(np.int64)
        found = np.where(np.isnat(column), np.nan, counts / 86_400e6)
    elif column.dtype.kind in "iufb":
        found = column.astype(np.float64)
    else:
        found = np.array([_number(cell, kind, name) for cell in column.tolist()], np.float64)
    found[np.isin(found, _model()["lost"])] = np.nan
    if np.isinf(found).any():
        raise ValueError(f"Column {name!r} holds infinity. Pass a number, or NaN for a missing value.")
    if kind == "boolean" and not np.isin(found[~np.isnan(found)], [0.0, 1.0]).all():
        raise ValueError(f"Column {name!r} held booleans in training. Pass booleans, or 0 and 1.")
    return found


def _number(cell: Any, kind: str, name: str) -> float:
    if _missing(cell):
        return float("nan")
    if kind == "date" and isinstance(cell, str):
        if not cell.strip():
            return float("nan")
        try:
            cell = datetime.datetime.fromisoformat(cell.strip())
        except ValueError:
            raise ValueError(f"Column {name!r} holds {cell!r}, no date such as 2024-05-31.") from None
    if kind == "date" and isinstance(cell, np.datetime64 | datetime.date):
        if isinstance(cell, datetime.datetime) and cell.tzinfo is not None:
            cell = cell.astimezone(datetime.UTC).replace(tzinfo=None)
        return float(np.datetime64(cell, "us").astype(np.int64) / 86_400e6)
    if kind == "duration" and isinstance(cell, np.timedelta64 | datetime.timedelta):
        return float(np.timedelta64(cell, "us").astype(np.int64) / 86_400e6)
    if isinstance(cell, str | np.datetime64 | datetime.date | np.timedelta64 | datetime.timedelta):
        raise ValueError(f"Column {name!r} held {kind} cells in training and now holds {cell!r}.")
    return float(cell)


def _main() -> None:
    """Write the prediction of each row of a CSV file without a header on the standard input."""
    if sys.stdin.isatty():
        raise SystemExit(__doc__)
    kinds = [column["kind"] for column in _model()["columns"]]
    rows = [[_read(word, kind) for word, kind in zip(row, kinds)] for row in csv.reader(sys.stdin) if row]
    for answer in np.atleast_1d(predict(rows)):
        print(*np.atleast_1d(answer), sep=",")


def _read(word: str, kind: str) -> Any:
    if kind == "unused" or not word:
        return None
    if kind in ("text", "date"):
        return word
    truths = {"true": 1.0, "false": 0.0}
    return truths[word.lower()] if word.lower() in truths else float(word)


if __name__ == "__main__":
    _main()
