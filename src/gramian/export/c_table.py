"""Export of a table's encoding and answers to C: the slots of ``template_table.c``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gramian.data.missing import missing_numbers
from gramian.export.c_literals import real, text
from gramian.export.table import CONSTANTS, TEXT, TableForm


def table_slots(table: TableForm) -> dict[str, str]:
    """Return the text for each slot of the template."""
    texts: list[str] = []
    codes, values = list[float](), list[float]()
    points: list[list[float]] = []
    kept: list[list[Any]] = [texts if kind == TEXT else codes for kind in table.kinds]
    columns = []
    for j, (name, kind) in enumerate(zip(table.names, table.kinds)):
        levels = _added(kept[j], table.levels[j].tolist())
        row = [kind.upper(), *table.places[j].tolist(), *levels, table.fill[j], table.origin[j]]
        columns.append(f"{_braced(row)} /* {_remark(name)} */")
    lookups = [
        [
            each.column,
            each.place,
            *_added(kept[each.column], each.levels.tolist()),
            _added(values, each.values.tolist())[0],
        ]
        for each in table.lookups
    ]
    scalings = [
        [how.upper(), *_added(points, table.curves[j].T.tolist() if j in table.curves else []), *numbers]
        for j, (how, *numbers) in enumerate(zip(table.scalings, table.shift, table.scale))
    ]
    back = [
        [how.upper(), *_added(points, table.scores[k].T.tolist() if k in table.scores else []), *numbers]
        for k, (how, numbers) in enumerate(zip(table.hows, table.back))
    ]
    means = [[int(to), int(level), mean] for to, level, mean in table.means]
    lost = missing_numbers(table.missing)
    slope, bend = table.calibration or (0.0, 0.0)
    return {
        "COLUMNS": str(len(columns)),
        "NUMBER": "float" if table.dtype == np.float32 else "double",
        "COLUMN": ",\n".join(columns),
        # An array of C has at least one element.
        "TEXTS": ",\n".join(map(text, texts or [""])),
        "MISSINGS": str(len(table.missing)),
        "MISSING": ", ".join(map(text, table.missing or [""])),
        "LOSTS": str(len(lost)),
        "LOST": ", ".join(map(real, lost or [0.0])),
        "CODES": ",\n".join(map(real, codes or [0.0])),
        "MEANS": str(len(means)),
        "MEAN": _lines(means or [[0, 0, 0.0]]),
        "LOOKUPS": str(len(lookups)),
        "LOOKUP": _lines(lookups or [[0] * 5]),
        "VALUES": ",\n".join(map(real, values or [0.0])),
        "SCALING": _lines(scalings),
        "BACK": _lines(back),
        "CURVES": _lines(points or [[0.0, 0.0]]),
        "SLOPE": real(slope),
        "BEND": real(bend),
        **{name.upper(): real(value) for name, value in CONSTANTS.items()},
    }


def _added(kept: list[Any], more: list[Any]) -> tuple[int, int]:
    """Add items to a list that the file has; return the place of the first of them, and their number."""
    kept += more
    return len(kept) - len(more), len(more)


def _lines(rows: Iterable[Iterable[float | str]]) -> str:
    return ",\n".join(map(_braced, rows))


def _braced(row: Iterable[float | str]) -> str:
    """Return an initializer of names, whole numbers and reals."""
    return f"{{{', '.join(real(each) if isinstance(each, float) else str(each) for each in row)}}}"


def _remark(name: str) -> str:
    """Return a column's name for a comment."""
    return text(name).replace("*", "\\052")
