"""Predictions for a file's rows, written block by block, and scored if the file has the target."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from gramian._typing import Array
from gramian.cli.report import say
from gramian.data.arrow import column_writer
from gramian.data.stored_source import StoredSource
from gramian.data.writing import prediction_file
from gramian.exceptions import InputError
from gramian.reporting.judging import CLASSIFICATION, REGRESSION, behind, named_columns, score_text, scores
from gramian.reporting.rows import blocks


def last_of(model: BaseEstimator) -> BaseEstimator:
    """Return a loaded estimator, which may be the last step of a pipeline."""
    return model[-1] if isinstance(model, Pipeline) else model


def set_threads(model: BaseEstimator, threads: int | None) -> None:
    """Let a loaded model use this many threads; a table model predicts with the model inside it."""
    last = last_of(model)
    for each in (last, *behind(last)):
        each.n_jobs = threads


def check_answers(model: BaseEstimator, coverage: float | None, probabilities: bool) -> None:
    """Raise, before rows are read, for output that the model cannot give."""
    last = last_of(model)
    name = type(last).__name__
    if coverage is not None and not hasattr(last, "predict_interval"):
        raise InputError(
            f"--coverage needs a model with prediction intervals, but {name} has none. Fit a "
            "TabularRegressor: give a numeric target and no option of plain kernel ridge regression."
        )
    if coverage is not None and not 0 < coverage < 1:
        raise InputError(f"--coverage {coverage:g} must be a number between 0 and 1, such as 0.9.")
    if probabilities and not hasattr(last, "predict_proba"):
        raise InputError(
            f"--probabilities needs a model with class probabilities, but {name} has none. Fit a "
            "TabularClassifier: give a target of classes and no option of plain kernel ridge regression."
        )


def predict_file(
    model: BaseEstimator,
    rows: StoredSource,
    out: Path,
    *,
    coverage: float | None,
    probabilities: bool,
    kept: StoredSource | None = None,
    stream: BinaryIO | None = None,
) -> None:
    """Write the predictions of all rows to a file, or as CSV to a stream; print the score if there is one.

    The columns of ``kept``, whose rows are the same, are written in front of them.
    """
    target, true, predicted = rows.target, list[Array](), list[Array]()
    classes: Any = getattr(last_of(model), "classes_", None)
    with prediction_file(out) if stream is None else column_writer(stream, out) as write:
        for where, block in blocks(rows):
            with named_columns():
                columns = {"prediction": np.asarray(model.predict(block))}
                if coverage is not None:
                    ends = model.predict_interval(block, coverage)
                    columns |= {"low": ends[:, 0], "high": ends[:, 1]}
                if probabilities:
                    shares = model.predict_proba(block)
                    columns |= {f"probability of {name}": shares[:, j] for j, name in enumerate(classes)}
            kept_cells = dict(zip(kept.feature_names or (), kept.rows(where).columns)) if kept else {}
            if both := columns.keys() & kept_cells:
                raise InputError(
                    f"--keep {both.pop()} has the name of a column of predictions. Rename it in the file."
                )
            write(kept_cells | columns)
            if stream is not None:
                stream.flush()
            if target is not None:
                try:
                    true.append(target[where])
                    predicted.append(columns["prediction"])
                except InputError as error:  # a true value is missing
                    say(f"Not scored: {error}")
                    target = None
    say(f"Wrote {rows.shape[0]:,} predictions to {out if stream is None else 'the standard output'}")
    if target is None:
        return
    y, answers = np.concatenate(true), np.concatenate(predicted)
    # A file of rows to predict holds a constant if its format requires a target (svmlight).
    if y.ndim != 1 or len(np.unique(y)) < 2 or (answers.dtype.kind in "OUS") != (y.dtype.kind in "OUS"):
        say("Not scored: the target in the file is constant, or of another type than the predictions.")
        return
    text = score_text(scores(REGRESSION if classes is None else CLASSIFICATION, y, answers))
    say(f"Score on the {len(y):,} values of {target.name!r} in the file: {text}")
