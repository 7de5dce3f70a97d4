"""Stored answers as a teacher of the rows they belong to, with a kernel ridge model between these rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gramian._checks import refuse_masked
from gramian._typing import Array, Float64Array, IntArray, RandomState
from gramian.exceptions import InputError
from gramian.fast.default_teacher import default_teacher
from gramian.fast.teacher_adapters import Chances, are_chances
from gramian.fast.teachers import LEAST_CHANCE
from gramian.ridge.ridge import KernelRidge


class KnownRows:
    """Lookup of rows (n, d) of float64 by their values."""

    def __init__(self, rows: Float64Array) -> None:
        self._number = {key: i for i, key in reversed(list(enumerate(_keys(rows))))}

    def numbers(self, rows: Array) -> IntArray:
        """Return the number of the first known row with the values of each row, −1 if there is none."""
        found = (self._number.get(key, -1) for key in _keys(rows))
        return np.fromiter(found, np.intp, len(rows))


def _keys(rows: Array) -> list[bytes]:
    whole = np.ascontiguousarray(rows, np.float64) + 0.0  # −0.0 becomes 0.0
    return [row.tobytes() for row in whole]


class StoredNumbers:
    """A teacher of stored numbers (n, outputs) at rows (n, d)."""

    def __init__(self, rows: Float64Array, answers: Float64Array, random_state: RandomState) -> None:
        self._known, self._answers = KnownRows(rows), answers.reshape(len(rows), -1)
        wanted = self._answers[:, 0] if self._answers.shape[1] == 1 else self._answers
        self._between = default_teacher(KernelRidge, rows, wanted, np.ones(len(rows)), random_state)

    def predict(self, rows: Array) -> Float64Array:
        """Return the stored answers of known rows, and those of a kernel ridge model for others."""
        numbers = self._known.numbers(rows)
        found = self._answers[numbers]
        new = numbers < 0
        if new.any():
            found[new] = self._between.predict(rows[new]).reshape(int(new.sum()), -1)
        return found

    def chances(self, rows: Array) -> Float64Array:
        """Return the answers as probabilities of classes, (n, classes)."""
        found = np.clip(self.predict(rows), LEAST_CHANCE, None)
        return np.asarray(found / found.sum(axis=1, keepdims=True))


def stored_teacher(
    answers: ArrayLike, rows: Float64Array, y: ArrayLike, random_state: RandomState
) -> tuple[Any, bool]:
    """Return the teacher of stored answers for rows, and whether it teaches classes.

    Their kind is told as that of a function's answers (:func:`.kinds.teacher_of`).
    """
    refuse_masked("answers", answers)
    found = np.asarray(answers)
    if found.ndim not in (1, 2) or len(found) != len(rows):
        raise InputError(
            f"The stored answers have shape {found.shape}, but X has {len(rows)} rows. Pass one answer for "
            f"each row, in the same order: ({len(rows)},) or ({len(rows)}, outputs)."
        )
    numbers_wanted = y is not None and np.asarray(y).dtype.kind == "f"

    def chances(answers: Array, classes: Array) -> Chances:
        return Chances(StoredNumbers(rows, answers.astype(np.float64), random_state).chances, classes)

    if found.dtype.kind != "f" and not numbers_wanted:
        labels = found.reshape(len(rows), -1)
        if labels.shape[1] != 1:
            raise InputError(
                f"The stored answers have shape {found.shape} and type {found.dtype}; labels have one "
                "column. Convert numbers to float: answers.astype(float)."
            )
        classes = np.unique(labels) if y is None else np.unique(np.concatenate([labels[:, 0], np.ravel(y)]))
        return chances(labels == classes, classes), True
    if not np.isfinite(np.asarray(found, np.float64)).all():
        bad = ~np.isfinite(np.asarray(found, np.float64).reshape(len(rows), -1)).all(axis=1)
        raise InputError(
            f"The stored answers hold NaN or infinity for {int(bad.sum())} of {len(rows)} rows. Drop those "
            "rows from X and from the answers."
        )
    if are_chances(found) and not numbers_wanted:
        classes = np.arange(found.shape[1]) if y is None else np.unique(y)
        if len(classes) != found.shape[1]:
            raise InputError(
                f"The stored probabilities have {found.shape[1]} columns, but y has {len(classes)} classes. "
                "Pass one column for each class, in ascending order."
            )
        return chances(found, classes), True
    if y is not None and not numbers_wanted:
        raise InputError(
            "y holds class labels, but the stored answers are neither labels nor probabilities. Pass labels, "
            "or rows of probabilities that sum to 1."
        )
    return StoredNumbers(rows, found.astype(np.float64), random_state), False
