"""Task of a target, its held-out split, and the outcome of a training."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from gramian._typing import Array, IntArray
from gramian.compression.plan import Plan
from gramian.data.arrow import is_number
from gramian.data.cells import is_code
from gramian.data.missing import MARKERS
from gramian.data.written import written_advice
from gramian.exceptions import InputError, quoted
from gramian.reporting.judging import CLASSIFICATION, REGRESSION, score_text, scores, trivial
from gramian.tables.holdout import HoldOut

#: Whole numbers with at most this many distinct values are treated as classes. Chosen by hand.
MOST_CLASSES = 20


def find_task(y: Array, requested: str) -> tuple[str, str]:
    """Return the task and the reason for it."""
    if requested != CLASSIFICATION:
        _refuse_markers(y)
    if requested != "auto":
        if requested == REGRESSION and y.dtype.kind not in "biuf":
            raise InputError(
                "the target holds text, which regression cannot predict. "
                + (written_advice(np.unique(y).tolist()) or "Pass --task classification.")
            )
        return requested, "as asked"
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


@dataclass
class Outcome:
    """A trained model, its scores, and facts to print."""

    model: Any
    task: str
    reason: str
    n_rows: int
    n_features: int
    facts: list[tuple[str, str]] = field(default_factory=list)  #: choices of the training, as label and text
    plan: Plan | None = None  #: plan of the last fit
    on_all_rows: bool = True  #: whether the model was fitted on the held-out rows too, after the score
    unused: tuple[str, ...] = ()  #: columns that say nothing, by their names
    n_held: int = 0
    how_held: str = ""  #: which rows were held out, where they are not random ones
    scores: dict[str, float] = field(default_factory=dict)
    baseline: dict[str, float] = field(default_factory=dict)

    def judge(
        self, y: Array, predicted: Array, used: IntArray, held: IntArray, weights: Array | None = None
    ) -> None:
        """Store the scores of held-out rows, and those of a model without features.

        y : the targets of all rows, of which those with the numbers ``used`` trained the model; ``predicted``
        are those of the rows ``held``.
        """
        w, w_held = (None, None) if weights is None else (weights[used], weights[held])
        simple = trivial(self.task, y[used], len(held), w)
        self.n_held = len(held)
        self.scores = scores(self.task, y[held], predicted, w_held)
        self.baseline = scores(self.task, y[held], simple, w_held)

    @property
    def held_out_text(self) -> str:
        """The held-out scores as a note for the model file; empty if nothing was held out."""
        if not self.scores:
            return ""
        when = "before the fit to all rows" if self.on_all_rows else "on which the model was not fitted"
        return f"{score_text(self.scores)} on {self.n_held:,} rows{self.how_held}, {when}"


class Clock:
    """Stopwatch that records the seconds of each phase."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.seconds: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        """Record the time since the last lap as that of ``phase``."""
        now = time.perf_counter()
        self.seconds[phase], self._last = now - self._last, now
