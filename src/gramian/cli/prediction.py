"""Predictions for a file's rows, written block by block, and scored if the file has the target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from gramian._typing import Array
from gramian.cli.answers import answers
from gramian.cli.opening import Opened
from gramian.cli.report import print_scores, say
from gramian.data.arrow import column_writer
from gramian.data.stored_table import StoredTable
from gramian.data.writing import prediction_file
from gramian.exceptions import InputError
from gramian.reporting.judging import CLASSIFICATION, REGRESSION, scores
from gramian.reporting.rows import blocks

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def predict_file(
    model: BaseEstimator,
    rows: Opened,
    out: Path,
    *,
    coverage: float | None,
    probabilities: bool,
    kept: StoredTable | None = None,
    stream: BinaryIO | None = None,
) -> Scored:
    """Write the predictions of all rows to a file, or as CSV to a stream; return the data to score them.

    The columns of ``kept``, whose rows are the same, are written in front of them.
    """
    scored = Scored(rows)
    with prediction_file(out) if stream is None else column_writer(stream, out) as write:
        for where, block in blocks(rows):
            columns = answers(model, block, coverage=coverage, probabilities=probabilities)
            beside = {} if kept is None else dict(zip(kept.storage.columns, kept.columns(where).columns))
            if both := columns.keys() & beside:
                raise InputError(
                    f"--keep {both.pop()} has the name of a column of predictions. Rename it in the file."
                )
            write(beside | columns)
            if stream is not None:
                stream.flush()
            scored.add(where, columns["prediction"])
    return scored


class Scored:
    """Predictions and the true values of a file, as far as it has them."""

    def __init__(self, rows: Opened) -> None:
        self._target = rows.target
        self._true: list[Array] = []
        self._predicted: list[Array] = []

    def add(self, where: slice, predicted: Array) -> None:
        """Add the predictions of some rows; if a true value is missing, warn and score nothing."""
        if self._target is None:
            return
        try:
            self._true.append(self._target[where])
        except InputError as error:
            say(f"Not scored: {error}")
            self._target = None
            return
        self._predicted.append(predicted)

    def print(self, *, classes: bool) -> None:
        """Print the score, or the reason why there is none."""
        if self._target is None:
            return
        y, predicted = np.concatenate(self._true), np.concatenate(self._predicted)
        text = predicted.dtype.kind in "OUS"
        # A file of rows to predict holds a constant if its format requires a target (svmlight).
        if y.ndim != 1 or len(np.unique(y)) < 2 or text != (y.dtype.kind in "OUS"):
            say("Not scored: the target in the file is constant, or of another type than the predictions.")
            return
        task = CLASSIFICATION if classes else REGRESSION
        print_scores(scores(task, y, predicted), len(y), self._target.name)
