"""Export to one Python file that needs only NumPy: the code of ``standalone.py`` with a model's numbers."""

from __future__ import annotations

import base64
import importlib.resources
import io
from typing import Any

import numpy as np

from gramian.export.description import Description

#: Lines of standalone.py that are filled in: the first one, and the one with the numbers.
HEAD, NUMBERS = '"""A model that gramian exported. ', 'NUMBERS = ""\n'


def numpy_bytes(model: Description) -> bytes:
    """Return the Python file: the code, then the arrays of the model as a compressed .npz in base64.

    It has about 4/3 of the bytes of the model. Numbers are read at the first call, without pickles.
    """
    code = importlib.resources.files(__package__).joinpath("standalone.py").read_text("utf-8")
    text = base64.encodebytes(_npz(model)).decode("ascii")
    for line, filled in ((HEAD, f'"""{model.title}.\n\n'), (NUMBERS, f'NUMBERS = """\n{text}"""\n')):
        before, found, after = code.partition(line)
        assert found, f"standalone.py lacks {line!r}"
        code = before + filled + after
    return code.encode()


def _npz(model: Description) -> bytes:
    flat = model.flat
    arrays: dict[str, Any] = {
        "projection": flat.projection,
        "offset": flat.offset,
        "planes": flat.planes,
        "forms": flat.forms,
        "weights": flat.weights,
        "one_value": np.array(model.one_value),
    }
    if model.labels is not None:
        arrays["labels"] = model.labels
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()
