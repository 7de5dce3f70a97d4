"""Export to one C99 file that needs libm only: ``template.c`` with a model's numbers."""

from __future__ import annotations

import re

import numpy as np

from gramian._typing import Array
from gramian.export.c_table import numbers, table_slots, text
from gramian.export.description import Description, template
from gramian.export.table import fields_of

#: Pattern of an innermost conditional part of the template. @IF_NAME@ … @END@ stands if the slot NAME has
#: text, @IF_NOT_NAME@ … @END@ if it has none.
_PART = re.compile(r"@IF_(NOT_)?([A-Z]+)@((?:(?!@IF_).)*?)@END@", re.DOTALL)
_SLOT = re.compile(r"@([A-Z]+)@")


def c_bytes(model: Description) -> bytes:
    """Return the C file, with constant arrays and the functions that read them.

    It has about four times the bytes of the model. Numbers have enough digits to restore their bits.
    """
    f, labels, table = model.flat, model.labels, model.table
    name = _identifier(model.name)
    single = f.dtype == np.float32
    slots = {
        "TITLE": model.title,
        "NAME": name,
        "FILE": f"{model.name}.c" if re.fullmatch(r"[\w.-]+", model.name) else f"{name}.c",
        "REAL": "float" if single else "double",
        "CELL": "float",
        "ANSWER": "float",
        "STRIDE": "FEATURES",
        "ROW": f"{f.n_features} numbers",
        "FEATURES": str(f.n_features),
        "DIRECTIONS": str(f.n_directions),
        "LEVELS": str(f.levels),
        "UNITS": str(f.n_units),
        "OUTPUTS": str(f.n_outputs),
        "INPUT": "x" if f.center is None else "moved",
        **{part.upper(): "" if a is None or not a.size else numbers(a) for part, a in fields_of(f).items()},
        "LABELS": "" if labels is None else _label_table(name, labels),
        "BINARY": "yes" if labels is not None and len(labels) == 2 else "",
        "FORMAT": "" if labels is None else _FORMATS[labels.dtype.kind],
        "CLASSES": "" if labels is None else str(len(labels)),
        "TABLE": "",
        "CHANCES": "",
    }
    if table is not None:
        slots |= {"CELL": f"{name}_cell", "ANSWER": "double", "STRIDE": "COLUMNS"}
        slots |= {"ROW": f"{len(table.columns)} cells", **table_slots(table)}
        slots |= {
            "TABLE": template("template_table.c"),
            "CHANCES": "" if table.calibration is None else "yes",
        }
    code = template("template.c").replace("@TABLE@", slots["TABLE"])
    found = 1
    while found:  # from the inner parts outwards
        code, found = _PART.subn(lambda part: part[3] if bool(part[1]) != bool(slots[part[2]]) else "", code)
    return _SLOT.sub(lambda slot: slots[slot[1]], code).encode()


#: The printf format for each kind of labels.
_FORMATS = {"i": "%lld", "f": "%.17g", "U": "%s"}


def _identifier(name: str) -> str:
    """Return a C identifier (ASCII letters, digits and underscores) made from a file's name.

    >>> _identifier("my model-2"), _identifier("7up")
    ('my_model_2', 'model_7up')
    """
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    # Names that begin with an underscore are reserved for the compiler.
    return plain if plain[:1].isalpha() else f"model_{plain.lstrip('_')}"


def _label_table(name: str, labels: Array) -> str:
    """Return the array of labels, in the order of the classes."""
    kind = labels.dtype.kind
    if kind == "U":
        words, declared = [text(str(label)) for label in labels], "const char *const"
    elif kind == "i":
        words, declared = [_whole(int(label)) for label in labels], "const long long"
    else:
        words, declared = [f"{float(label)!r}" for label in labels], "const double"
    return f"{declared} {name}_labels[] = {{{', '.join(words)}}};\n"


def _whole(value: int) -> str:
    # −2^63 has no literal, since C would negate 2^63, which does not fit a signed type.
    return f"({value + 1}LL - 1)" if value == -(2**63) else f"{value}LL"
