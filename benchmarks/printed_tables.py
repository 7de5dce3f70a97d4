"""Markdown tables of stored outputs that are easier to read across than down."""

from __future__ import annotations

import re
from collections.abc import Callable

#: A row of which.py: set, features, kernel, method, and error of the matrix, of predictions, and seconds.
WHICH = re.compile(r"(\S+) +\d+ (\w+) +(\S.*?)(?: {2,}(\S+))? {2,}(\S+)(?: +(\S+))?")
CAPTIONS = {
    "matrix": "Relative error of the matrix:",
    "test": "Test error of kernel ridge regression:",
    "s": "Seconds of the fit:",
}


def which(text: str) -> str:
    """Return a table for each measure of which.py, with a column for each set and kernel."""
    found: dict[str, dict[str, dict[str, str]]] = {measure: {} for measure in CAPTIONS}
    places: list[str] = []
    for line in text.splitlines()[1:]:
        row = WHICH.fullmatch(line)
        if row is None:
            raise ValueError(f"which.py prints no such row: {line!r}")
        name, kernel, method, *values = row.groups()
        place = f"{name}, {kernel}"
        if place not in places:
            places.append(place)
        for measure, value in zip(CAPTIONS, values, strict=True):
            if value is not None:
                found[measure].setdefault(method, {})[place] = value
    return "\n\n".join(f"{CAPTIONS[measure]}\n\n" + _table(places, rows) for measure, rows in found.items())


def _table(places: list[str], rows: dict[str, dict[str, str]]) -> str:
    cells = [["method", *places], ["---"] * (len(places) + 1)]
    cells += [[method, *(row.get(place, "") for place in places)] for method, row in rows.items()]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def by_setting(text: str) -> str:
    """Return a row for each line "setting: method values   method values", with a column for each method."""
    rows = []
    for line in text.splitlines():
        setting, _, rest = line.partition(":")
        parts = [part.split(maxsplit=1) for part in re.split(r" {3,}", rest.strip())]
        rows.append(
            (setting, {method: re.sub(r"(?<=[\ds]) (?=\d)", ", ", values) for method, values in parts})
        )
    methods = list(dict.fromkeys(method for _, found in rows for method in found))
    cells = [["set", *methods], ["---"] * (len(methods) + 1)]
    cells += [[setting, *(found.get(method, "") for method in methods)] for setting, found in rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


#: By the name of an output.
TABLES: dict[str, Callable[[str], str]] = {"which": which, "crossover": by_setting, "objective": by_setting}
