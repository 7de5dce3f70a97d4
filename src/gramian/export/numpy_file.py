"""Export to one Python file that needs only NumPy: the code of ``standalone.py`` with a model's numbers."""

from __future__ import annotations

import base64
import io
import json
import re
from typing import Any

import numpy as np

from gramian.data.missing import missing_numbers
from gramian.export.description import Description, template
from gramian.export.table import CONSTANTS, fields_of

FUTURE = "from __future__ import annotations\n"
_IMPORT = re.compile(r"^(?:import|from) .*\n", re.MULTILINE)


def numpy_bytes(model: Description) -> bytes:
    """Return the Python file: the code, then its arrays and a JSON text as a compressed .npz in base64.

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
    rest: dict[str, Any] = {
        "one_value": model.one_value,
        "by_name": model.names is not None,
        "names": model.names,
    }
    if model.table is not None:
        lost = missing_numbers(model.table.missing)
        names = [column.name for column in model.table.columns]
        rest |= {**CONSTANTS, **fields_of(model.table), "names": names, "lost": lost}
    text = np.frombuffer(json.dumps(rest, default=_plain).encode(), np.uint8)
    arrays = {**fields_of(model.flat), "labels": model.labels, "rest": text}
    file = io.BytesIO()
    np.savez_compressed(file, **{name: array for name, array in arrays.items() if array is not None})
    return file.getvalue()


def _plain(value: Any) -> Any:
    """Return what JSON has for a part of a description that is no number, text or list of them."""
    if isinstance(value, np.dtype):
        return value.name
    return value.tolist() if isinstance(value, np.ndarray) else fields_of(value)
