"""Task of a target (regression or classification), and its held-out split."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import train_test_split

from gramian._typing import Array, IntArray
from gramian.data.arrow import is_number
from gramian.data.cells import is_code
from gramian.data.missing import MARKERS
from gramian.data.written import written_advice
from gramian.exceptions import InputError, quoted
from gramian.reporting.judging import CLASSIFICATION, REGRESSION
from gramian.tables.holdout import HoldOut

#: Whole numbers with at most this many distinct values are treated as classes. Chosen by hand.
MOST_CLASSES = 20


def find_task(y: Array, asked: str) -> tuple[str, str]:
    """Return the task and the reason for it."""
    if asked != CLASSIFICATION:
        _refuse_markers(y)
    if asked != "auto":
        if asked == REGRESSION and y.dtype.kind not in "biuf":
            raise InputError(
                "the target holds text, which regression cannot predict. "
                + (written_advice(np.unique(y).tolist()) or "Pass --task classification.")
            )
        return asked, "as asked"
    if y.dtype.kind in "OUS":
        _refuse_own_classes(np.unique(y).tolist(), len(y))
    if y.dtype.kind not in "iuf":
        return CLASSIFICATION, "the target holds " + ("booleans" if y.dtype.kind == "b" else "text")
    distinct = len(np.unique(y))
    if distinct <= MOST_CLASSES and bool((y == np.rint(y)).all()):
        return CLASSIFICATION, f"the target holds {distinct} distinct whole numbers"
    return REGRESSION, f"the target holds numbers, {distinct:,} distinct ones"


def _refuse_own_classes(values: list[str], n_rows: int) -> None:
    """Raise for text that stands for numbers, or of which nearly every row has its own."""
    if len(values) <= MOST_CLASSES:
        return
    advice = written_advice(values)
    if not advice and len(values) > n_rows / 2:
        advice = (
            f"Nearly every row, such as {quoted(values[0])}, is a class of its own. Pass another --target."
        )
    if advice:
        raise InputError(
            f"the target holds text, {len(values):,} different values in {n_rows:,} rows. {advice} If each "
            "value is a class, pass --task classification."
        )


def _refuse_markers(y: Array) -> None:
    """Raise for a target of numbers among which text such as "?" stands for missing values."""
    if y.dtype.kind not in "OUS":
        return
    values, counts = np.unique(y.astype(str), return_counts=True)
    marks = np.array([value.strip().lower() in MARKERS for value in values])
    numbers = all(is_number(value) and not is_code(value) for value in values[~marks])
    if marks.any() and not marks.all() and numbers:
        raise InputError(
            f"the target holds numbers, and {str(values[marks][0])!r} in {int(counts[marks].sum()):,} rows. "
            "Remove the rows without a value. If that is a class, pass --task classification."
        )


def prepared_target(y: Array, task: str) -> Array:
    """Return the target in the estimator's form: whole-numbered classes as integers."""
    if task != CLASSIFICATION or y.dtype.kind != "f":
        return y
    exact = bool((y == np.rint(y)).all() and (np.abs(y) < 2.0**53).all())  # else the classifier refuses them
    return y.astype(np.int64) if exact else y


def split_order(
    y: Array, task: str, share: float, seed: int, weights: Array | None = None, holdout: HoldOut | None = None
) -> tuple[IntArray, IntArray]:
    """Return the numbers of the training rows and of the held-out rows, each in random order.

    Each class keeps its share if the held-out part has room for every class. Rows of weight 0 are in
    neither. ``holdout`` may hold out whole groups, or the latest rows.
    """
    counted = np.arange(len(y)) if weights is None else np.flatnonzero(weights > 0)
    n, y = len(counted), y[counted]
    if n < 10:
        raise InputError(f"{n} rows are too few to hold out a part of them. Pass --holdout 0.")
    if holdout is not None and not holdout.random:
        held = holdout.held(counted, int(n * share), np.random.default_rng(seed))
        return np.setdiff1d(counted, held), held
    strata = None
    if task == CLASSIFICATION:
        counts = np.unique(y, return_counts=True)[1]
        room = min(int(n * share), n - int(np.ceil(n * share)))
        strata = y if counts.min() >= 2 and len(counts) <= room else None
    train, test = train_test_split(counted, test_size=share, random_state=seed, stratify=strata)
    return train, test
