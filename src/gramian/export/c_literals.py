"""Literals of C for numbers and text."""

from __future__ import annotations

import numpy as np

from gramian._typing import Array

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
