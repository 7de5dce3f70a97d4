"""Literals of C, and a table's encoding and answers in them: the slots of ``template_table.c``."""

from __future__ import annotations

import re

import numpy as np

from gramian._typing import Array
from gramian.data.missing import missing_numbers
from gramian.export.table import CONSTANTS, TableForm
from gramian.tables.scaling import QUANTILE

#: Numbers on a line of the file.
_ROW = 8


def real(value: float, digits: int = 17, suffix: str = "") -> str:
    """Return a finite number with enough digits to restore its bits.

    >>> real(3.0), real(0.1)
    ('3.0', '0.10000000000000001')
    """
    text = f"{value:.{digits}g}"
    return text + ("" if set(text) & set(".e") else ".0") + suffix


def numbers(values: Array) -> str:
    """Return an array as a braced initializer without its outer braces."""
    if values.ndim > 1:
        return ",\n".join(f"{{\n{numbers(part)}\n}}" for part in values)
    digits, suffix = (9, "f") if values.dtype == np.float32 else (17, "")
    words = [real(value, digits, suffix) for value in values.tolist()]
    return ",\n".join(", ".join(words[at : at + _ROW]) for at in range(0, len(words), _ROW))


def text(label: str) -> str:
    """Return a string literal of UTF-8 bytes, with octal escapes, which always end after three digits."""
    safe = {byte: chr(byte) for byte in range(32, 127)} | {34: '\\"', 92: "\\\\", 63: "\\?"}
    return '"' + "".join(safe.get(byte, f"\\{byte:03o}") for byte in label.encode()) + '"'


def table_slots(table: TableForm) -> dict[str, str]:
    """Return the text for each slot of the template."""
    pools: dict[str, list[str]] = {"TEXTS": [], "NUMBERS": [], "CURVES": []}
    columns, means, lookups = [], [], []
    for j, c in enumerate(table.columns):
        places = (c.value, c.gone, c.other, c.season, c.weekday, c.hour)
        columns.append(f"{_row(pools, c.kind, *places, c.levels, c.fill, c.origin)} /* {_remark(c.name)} */")
        for at, values in c.means:
            means += [_row(pools, at, place, mean) for place, mean in enumerate(values, c.value)]
        lookups += [_row(pools, j, *lookup) for lookup in c.lookups]
    scaling, tables = table.scaling, iter(table.scaling.tables)
    scalings = [
        _row(pools, how, next(tables) if how == QUANTILE else None, shift, scale)
        for how, shift, scale in zip(scaling.methods, scaling.shift.tolist(), scaling.scale.tolist())
    ]
    back = []
    for to, spread, centre in zip(table.outputs, table.spread.tolist(), table.centre.tolist()):
        curve = None if to.how != QUANTILE else np.array([to.scores, to.knots])
        cut = (spread, centre, to.low, to.high)
        back.append(_row(pools, to.how, curve, *cut, to.scale, to.mean, to.power, to.unit))
    lost = missing_numbers(table.missing)
    slope, bend = table.calibration or (0.0, 0.0)
    # An array of C has at least one element.
    return {
        "COLUMN": ",\n".join(columns),
        "LOOKUP": ",\n".join(lookups or ["{0}"]),
        "SCALING": ",\n".join(scalings),
        "BACK": ",\n".join(back),
        "MEAN": ",\n".join(means or ["{0}"]),
        "TEXTS": ",\n".join(pools["TEXTS"] or [text("")]),
        "NUMBERS": ",\n".join(pools["NUMBERS"] or ["0"]),
        "CURVES": ",\n".join(pools["CURVES"] or ["{0}"]),
        "COLUMNS": str(len(columns)),
        "NUMBER": "float" if table.dtype == np.float32 else "double",
        "MISSINGS": str(len(table.missing)),
        "MISSING": ", ".join(map(text, table.missing or [""])),
        "LOSTS": str(len(lost)),
        "LOST": ", ".join(map(real, lost or [0.0])),
        "MEANS": str(len(means)),
        "LOOKUPS": str(len(lookups)),
        "SLOPE": real(slope),
        "BEND": real(bend),
        **{name.upper(): real(value) for name, value in CONSTANTS.items()},
    }


def _row(pools: dict[str, list[str]], *values: str | float | Array | None) -> str:
    """Return the initializer of a record of names, numbers and arrays.

    What an array holds goes to a pool; the record has the place of the first of it, and the length.
    """
    words: list[str] = []
    for value in values:
        if isinstance(value, str):
            words.append(re.sub(r"\W", "_", value).upper())
        elif isinstance(value, np.ndarray):
            if value.ndim > 1:  # a curve, (2, knots)
                pool, more = pools["CURVES"], [_row(pools, *point) for point in value.T.tolist()]
            elif value.dtype.kind == "U":
                pool, more = pools["TEXTS"], list(map(text, value.tolist()))
            else:
                pool, more = pools["NUMBERS"], list(map(real, value.tolist()))
            words += [str(len(pool)), str(len(more))]
            pool += more
        elif value is None:
            words += ["0", "0"]
        else:
            words.append(real(value) if isinstance(value, float) else str(value))
    return f"{{{', '.join(words)}}}"


def _remark(name: str) -> str:
    """Return a column's name for a comment."""
    return text(name).replace("*", "\\052")
