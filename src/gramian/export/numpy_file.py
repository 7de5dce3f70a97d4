"""Export to one Python file that needs only NumPy: the code of ``standalone.py`` with a model's numbers."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from gramian.data.missing import missing_numbers
from gramian.export.description import Description, template
from gramian.export.table import CONSTANTS, Lookup, fields_of

FUTURE = "from __future__ import annotations\n"
_IMPORT = re.compile(r"^(?:import|from) .*\n", re.MULTILINE)


def numpy_bytes(model: Description) -> bytes:
    """Return the Python file: the code, then the arrays of the model as a compressed .npz in base64.

    It has about 4/3 of the bytes of the model. Numbers are read at the first call, without pickles.
    """
    own = template("standalone.py" if model.table is None else "standalone_table.py")
    head, _, code = own.partition(FUTURE)
    core = template("standalone_core.py").partition(FUTURE)[2]
    imports = sorted({line for line in _IMPORT.findall(core + code) if "gramian" not in line})
    core, code = (_IMPORT.sub("", part).strip() for part in (core, code))
    code, _, main = code.rpartition("if __name__")
    text = base64.encodebytes(_npz(model)).decode("ascii")
    core = core.replace('NUMBERS = ""', f'NUMBERS = """\n{text}"""')
    head = f'"""{model.title}.\n\n{head.partition(". ")[2]}{FUTURE}\n{"".join(imports)}'
    return f"{head}\n\n{code}{core}\n\nif __name__{main}\n".encode()


def _npz(model: Description) -> bytes:
    named = model.names is not None
    parts = {**fields_of(model.flat), "labels": model.labels, "one_value": model.one_value, "by_name": named}
    parts["names"], table = model.names, model.table
    if table is not None:
        lost = np.array(missing_numbers(table.missing), np.float64)
        parts |= {**CONSTANTS, **fields_of(table), "dtype": table.dtype.name, "lost": lost}
    file = io.BytesIO()
    np.savez_compressed(file, **_arrays(parts))
    return file.getvalue()


def _arrays(parts: Mapping[Any, Any]) -> dict[str, Any]:
    """Return arrays by name; those of parts have the name of the whole before their own."""
    found: dict[str, Any] = {}
    for name, part in parts.items():
        if isinstance(part, Lookup):
            part = fields_of(part)
        if isinstance(part, tuple) and part and isinstance(part[0], Lookup | np.ndarray):
            part = dict(enumerate(part))
        if isinstance(part, dict):
            found |= {f"{name}_{key}": array for key, array in _arrays(part).items()}
        elif part is not None:
            found[str(name)] = np.array(part)
    return found
