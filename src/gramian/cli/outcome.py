"""Result of a training run: the model, its scores, and the seconds of each phase."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from gramian._typing import Array, IntArray
from gramian.compression.plan import Plan
from gramian.reporting.judging import score_text, scores, trivial


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
    seconds: dict[str, float] = field(default_factory=dict)

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
