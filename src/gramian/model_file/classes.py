"""Class labels in model files: arrays of numbers and text as they are, objects as lists of text."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian._typing import Array
from gramian.exceptions import InputError, quoted
from gramian.model_file.container import PLAIN_KINDS


def classes_header(classes: Array, values: Any) -> Any:
    """Return how a file describes class labels: a list of text, or a reference to an array."""
    if classes.dtype.kind in PLAIN_KINDS:
        return values.write("classes_", classes)
    if all(isinstance(label, str) for label in classes):
        return list(classes)
    raise InputError(
        f"classes_ holds {classes.dtype} with other things than text ({quoted(classes[0])}), which a model "
        "file cannot hold. Fit with numbers or text as labels."
    )


def classes_of(stored: Any, values: Any) -> Array:
    """Return the labels that :func:`classes_header` described."""
    if not isinstance(stored, list):
        labels: Array = values.read(stored)
        return labels
    # Text labels from pandas and CSV files are object arrays of Python strings.
    classes = np.empty(len(stored), object)
    classes[:] = [str(label) for label in stored]
    return classes
