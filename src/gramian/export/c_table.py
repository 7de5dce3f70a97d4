"""Export of a table's encoding and answers to C: the slots of ``template_table.c``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gramian._typing import Float64Array
from gramian.data.missing import missing_numbers
from gramian.export.c_literals import real, text
from gramian.export.table import CODE, CONSTANTS, DAY, TEXT, UNUSED, TableForm

#: Names in the C file of the scalings and of the maps of a regressor's outputs.
_HOWS = {
    "linear": "LINEAR",
    "robust": "ROBUST",
    "quantile": "QUANTILE",
    "none": "LINEAR",
    "log": "LOG",
    "yeo-johnson": "POWER",
}


def table_slots(table: TableForm) -> dict[str, str]:
    """Return the text for each slot of the template."""
    curves = _Curves()
    texts: list[str] = []
    codes: list[float] = []
    columns = []
    for j, (name, kind) in enumerate(zip(table.names, table.kinds)):
        kept: list[Any] = texts if kind == TEXT else codes
        first = len(kept)
        kept += table.levels[j].tolist()
        numbers = [*table.places[j].tolist(), first, len(kept) - first]
        reals = [real(table.fill[j]), real(table.origin[j])]
        named = kind.upper() if kind in (UNUSED, DAY, CODE, TEXT) else "NUMBER"
        columns.append(_braced([named, *map(str, numbers), *reals]) + f" /* {_remark(name)} */")
    lookups, values = [], list[float]()
    for each in table.lookups:
        kept = texts if table.kinds[each.column] == TEXT else codes
        numbers = [each.column, each.place, len(kept), len(each.levels), len(values)]
        lookups.append(_braced(map(str, numbers)))
        kept += each.levels.tolist()
        values += each.values.tolist()
    scalings = [
        _braced([_HOWS[how], *curves.of(table.curves.get(j)), real(table.shift[j]), real(table.scale[j])])
        for j, how in enumerate(table.scalings)
    ]
    back = [
        _braced([_HOWS[how], *curves.of(table.scores.get(k)), *map(real, table.back[k].tolist())])
        for k, how in enumerate(table.hows)
    ]
    means = [_braced([str(int(to)), str(int(level)), real(mean)]) for to, level, mean in table.means]
    slope, bend = table.calibration or (0.0, 0.0)
    return {
        "COLUMNS": str(len(table.names)),
        "NUMBER": "float" if table.dtype == np.float32 else "double",
        "COLUMN": ",\n".join(columns),
        # An array of C has at least one element.
        "TEXTS": ",\n".join(map(text, texts or [""])),
        "MISSINGS": str(len(table.missing)),
        "MISSING": ", ".join(map(text, table.missing or [""])),
        "LOSTS": str(len(lost := missing_numbers(table.missing))),
        "LOST": ", ".join(map(real, lost or [0.0])),
        "CODES": ",\n".join(map(real, codes or [0.0])),
        "MEANS": str(len(table.means)),
        "MEAN": ",\n".join(means or ["{0, 0, 0.0}"]),
        "LOOKUPS": str(len(lookups)),
        "LOOKUP": ",\n".join(lookups or ["{0, 0, 0, 0, 0}"]),
        "VALUES": ",\n".join(map(real, values or [0.0])),
        "SCALING": ",\n".join(scalings),
        "BACK": ",\n".join(back),
        "CURVES": ",\n".join(curves.points or ["{0.0, 0.0}"]),
        "SLOPE": real(slope),
        "BEND": real(bend),
        **{name.upper(): real(value) for name, value in CONSTANTS.items()},
    }


class _Curves:
    """Points of all curves, one curve after another."""

    def __init__(self) -> None:
        self.points: list[str] = []

    def of(self, curve: Float64Array | None) -> tuple[str, str]:
        """Add a curve (2, knots), if there is one; return the place of its first point, and their number."""
        first = len(self.points)
        if curve is not None:
            self.points += [_braced([real(knot), real(value)]) for knot, value in curve.T.tolist()]
        return str(first), str(len(self.points) - first)


def _braced(words: Iterable[str]) -> str:
    return f"{{{', '.join(words)}}}"


def _remark(name: str) -> str:
    """Return a column's name for a comment."""
    return text(name).replace("*", "\\052")
