"""Export to one Python file that needs only NumPy: the code of ``standalone.py`` with a model's numbers."""

from __future__ import annotations

import base64
import importlib.resources
import io
from typing import Any

import numpy as np

from gramian.data.missing import missing_numbers
from gramian.export.description import Description
from gramian.export.table import CODE, CONSTANTS, TEXT, TableForm

#: Lines of standalone.py that are filled in: the first one, and the one with the numbers.
HEAD, NUMBERS = '"""A model that gramian exported. ', 'NUMBERS = ""\n'
#: Lines of standalone_table.py: the first one, the import from standalone.py (of what follows its line CORE),
#: and the line before the imports.
TABLE_HEAD = '"""A model of a table that gramian exported. '
BORROWED = "from gramian.export.standalone import _labelled, _matched, _model, _values\n"
CORE, FUTURE = "# ---- the fast model of rows of numbers ----\n", "from __future__ import annotations\n"


def numpy_bytes(model: Description) -> bytes:
    """Return the Python file: the code, then the arrays of the model as a compressed .npz in base64.

    It has about 4/3 of the bytes of the model. Numbers are read at the first call, without pickles.
    """
    head, code = HEAD, _code("standalone.py")
    if model.table is not None:
        head, code = TABLE_HEAD, _table_code(code)
    text = base64.encodebytes(_npz(model)).decode("ascii")
    for line, filled in ((head, f'"""{model.title}.\n\n'), (NUMBERS, f'NUMBERS = """\n{text}"""\n')):
        before, after = _parted(code, line)
        code = before + filled + after
    return code.encode()


def _table_code(core: str) -> str:
    """Return the code for tables together with that for rows of numbers."""
    imports = _imports(core)
    before, after = _parted(_code("standalone_table.py"), BORROWED)
    head, own = _parted(before, FUTURE)
    both = sorted({*imports, *_imports(own)})
    return f"{head}{FUTURE}\n{''.join(both)}\n{after}\n\n{CORE}{_parted(core, CORE)[1]}"


def _imports(code: str) -> list[str]:
    lines = code.splitlines(keepends=True)
    return [line for line in lines if line.startswith(("import ", "from typing "))]


def _code(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text("utf-8")


def _parted(code: str, line: str) -> tuple[str, str]:
    """Return the code before and after a line."""
    before, found, after = code.partition(line)
    assert found, f"the template lacks {line!r}"
    return before, after


def _npz(model: Description) -> bytes:
    flat = model.flat
    arrays: dict[str, Any] = {
        "projection": flat.projection,
        "offset": flat.offset,
        "planes": flat.planes,
        "forms": flat.forms,
        "weights": flat.weights,
        "one_value": np.array(model.one_value),
        "by_name": np.array(model.names is not None),
    }
    if flat.center is not None:
        arrays["center"] = flat.center
    if model.names is not None:
        arrays["names"] = np.array(model.names, str)
    if model.labels is not None:
        arrays["labels"] = model.labels
    if model.table is not None:
        arrays |= _table_arrays(model.table)
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _table_arrays(table: TableForm) -> dict[str, Any]:
    arrays: dict[str, Any] = {name: np.array(value) for name, value in CONSTANTS.items()}
    for name in ("names", "kinds", "scalings", "hows", "missing"):
        arrays[name] = np.array(getattr(table, name), str)
    arrays["lost"] = np.array(missing_numbers(table.missing), np.float64)
    for name in ("places", "fill", "origin", "means", "shift", "scale", "back"):
        arrays[name] = getattr(table, name)
    arrays |= {f"levels_{j}": table.levels[j] for j, kind in enumerate(table.kinds) if kind in (CODE, TEXT)}
    places = [(each.column, each.place) for each in table.lookups]
    arrays["lookups"] = np.array(places, np.int64).reshape(-1, 2)
    for k, each in enumerate(table.lookups):
        arrays |= {f"lookup_levels_{k}": each.levels, f"lookup_values_{k}": each.values}
    arrays |= {f"curve_{j}": curve for j, curve in table.curves.items()}
    arrays |= {f"scores_{k}": curve for k, curve in table.scores.items()}
    arrays["encoded"] = np.zeros(0, table.dtype)
    if table.calibration is not None:
        arrays["calibration"] = np.array(table.calibration)
    return arrays
