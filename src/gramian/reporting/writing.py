"""Report of a fitted model as one HTML file: choices, scores, effects, errors by segment, cost, versions."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy
import sklearn
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from gramian._files import complete_file
from gramian._random import as_generator
from gramian._typing import Array, RandomState, Rows, RowsLike
from gramian.data.column import as_column
from gramian.data.tables import as_table
from gramian.estimator.base import KernelEstimator, own_target
from gramian.estimator.fit_inputs import read_rows
from gramian.estimator.labels import label_array
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import GramianError, InputError
from gramian.explanation import explain
from gramian.plotting.explanation import ExplanationDisplay
from gramian.reporting.document import Section, code, document, paragraph, wrapped
from gramian.reporting.drawing import Picture, axes, check_drawing, draw_svg
from gramian.reporting.effects import of_effects, segments
from gramian.reporting.inspected import rows_to_inspect
from gramian.reporting.judging import Judgement, judge
from gramian.reporting.model_page import both_sides, judged_facts, tiles_of
from gramian.reporting.pictures import of_importances, of_inside, of_path
from gramian.reporting.prediction_pictures import of_predictions, of_shares, of_trials
from gramian.summary.html import facts_table, grid_table
from gramian.tables.serving import TableServer

#: Rows from which effects of columns are computed, and rows with their errors by segment. Chosen by hand.
EFFECT_ROWS, SEGMENT_ROWS = 200, 20_000


def report(
    model: BaseEstimator,
    path: str | Path,
    X: RowsLike | None = None,
    y: ArrayLike | None = None,
    *,
    random_state: RandomState = 0,
) -> Path:
    """Write a report of a fitted model as one HTML file without external resources; return its path.

    It shows what was chosen and how sure that is, the validation errors of trials, importances, bytes and
    seconds of the fit, versions and parameters. With rows X also the effects of the most important columns
    (partial dependence), and why one prediction came out as it did; with their targets y also scores,
    calibration, and errors by segment. Rows should be ones that the model has not seen.

    Parameters
    ----------
    model : fitted classifier, regressor or transformer of this library
    path : file to write, replaced if it exists; a failure leaves the old one
    X : rows of the kind that the model takes; y : their targets, by default those of a row source
    random_state : of the rows that are drawn for pictures

    Time: predictions of X, and of some 10,000 rows for effects; memory as for these.

    Raises
    ------
    InputError
        For an object that is no model of this library, y without X, or rows that do not fit the model.
        NotFittedError; MissingPackageError without matplotlib.

    Examples
    --------
    >>> import tempfile, numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> model = gm.KernelRidge(0.1, gamma=5.0).fit(X[:150], X[:150, 0])
    >>> folder = Path(tempfile.mkdtemp())
    >>> made = model.report(folder / "report.html", X[150:], X[150:, 0])
    >>> "Errors by segment" in made.read_text(encoding="utf-8")
    True
    """
    check_drawing()
    if not isinstance(model, KernelEstimator):
        raise InputError(
            f"model has type {type(model).__name__}; expected a fitted model of gramian, such as "
            "gm.TabularRegressor().fit(X, y)."
        )
    check_is_fitted(model)
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"path={str(path)!r}: there is no folder {str(path.parent)!r}. Make it first.")
    y = own_target(X, y)
    if X is None and y is not None:
        raise InputError("y is given without X. Pass the rows too: model.report(path, X, y).")
    rng = as_generator(random_state)
    seed = int(rng.integers(2**31))
    judged = None if X is None else _judge(model, X, y, seed)
    summary = model.summary()
    sections = [
        Section("Scores on the given rows", *_scores(model, judged, seed)),
        Section(
            "What was chosen, and how sure that is", both_sides(summary), [*of_trials(model), *of_path(model)]
        ),
        Section("What the model looks at", "", list(of_importances(model))),
        *_about_rows(model, X, judged, rng),
        Section("Inside", "", [*of_inside(model, seed)]),
        Section("How to reproduce it", reproduction(model)),
    ]
    subtitle = f"report of a fitted model, gramian {_version()}"
    text = document(
        type(model).__name__,
        summary.title,
        subtitle,
        tiles_of(summary, judged),
        sections,
        "Written by <code>model.report(path)</code>.",
    )
    with complete_file(path) as file:
        file.write(text.encode("utf-8"))
    return path


def _judge(model: BaseEstimator, X: RowsLike, y: ArrayLike, seed: int) -> Judgement:
    rows = as_table(X) if isinstance(model, TableServer) else read_rows(model, X)
    given = None if y is None else _truth(y, labels=is_classifier(model))
    if given is not None and given.shape[:1] != (rows.shape[0],):
        count = len(given) if given.ndim else "no"
        raise InputError(f"y has {count} targets, but X has {rows.shape[0]} rows. Pass one for each row.")
    source = rows if not getattr(model, "_precomputed", False) else cast("Rows", X)
    return judge(model, source, given, seed=seed)


def _truth(y: ArrayLike, *, labels: bool) -> Array:
    """Return targets or labels as an array, (n,) if there is one output; raise for missing ones."""
    if labels:
        return np.asarray(label_array(y))
    given = as_column(y)
    found = np.asarray(NumberTargets(given, len(given)).values if given.ndim else given)
    return found[:, 0] if found.shape[1:] == (1,) else found


def _scores(model: BaseEstimator, judged: Judgement | None, seed: int) -> tuple[str, list[Picture]]:
    if judged is None:
        text = (
            "Pass rows that the model has not seen, model.report(path, X, y), for scores, effects and errors."
        )
        return paragraph(text), []
    html = wrapped(facts_table(judged_facts(judged)))
    return html, [*of_predictions(judged, model, seed), *of_shares(judged)]


def _about_rows(
    model: BaseEstimator, X: RowsLike | None, judged: Judgement | None, rng: np.random.Generator
) -> Iterator[Section]:
    """Yield effects of columns, errors by segment, and an explained prediction."""
    if judged is None or X is None:
        return
    n = judged.n_rows
    some = np.sort(rng.choice(n, min(n, EFFECT_ROWS), replace=False))
    found = rows_to_inspect(model, X, some)
    if found is not None:
        yield Section(
            "Effects of the most important columns",
            paragraph("Mean predictions if a column is set to a value in all rows, others as they are."),
            list(of_effects(found)),
        )
    errors = _errors(judged)
    if errors is not None:
        many = np.sort(rng.choice(n, min(n, SEGMENT_ROWS), replace=False))
        whole = rows_to_inspect(model, X, many)
        if whole is not None:
            what = "RMSE" if judged.task == "regression" else "share of wrong classes"
            grids = segments(whole, errors[many], what)
            html = "".join(map(grid_table, grids))
            yield Section("Errors by segment", wrapped(html) if grids else "")
    number = int(rng.integers(n)) if errors is None else int(np.argmax(errors))
    picture = _explanation_picture(model, X, number, worst=errors is not None)
    yield Section("Why one prediction came out as it did", "", [] if picture is None else [picture])


def _errors(judged: Judgement) -> Array | None:
    """Return squared errors, or 1 for wrong classes; None without targets."""
    if judged.y is None or judged.predicted is None or judged.task is None:
        return None
    if judged.task == "classification":
        return (judged.y.astype(str) != judged.predicted.astype(str)).astype(np.float64)
    return (judged.y.astype(np.float64) - judged.predicted.astype(np.float64)) ** 2


def _explanation_picture(model: BaseEstimator, X: Any, number: int, *, worst: bool) -> Picture | None:
    """Return the picture of one explained prediction; None for a model that cannot be explained."""
    row = X.iloc[number : number + 1] if hasattr(X, "iloc") else X[number : number + 1]
    many = not hasattr(model, "classes_") and not getattr(model, "_flat", True)
    try:
        found = explain(model, row, by="similarity", output=0 if many else None)
    except (GramianError, AttributeError):
        return None
    count = 2 if found.columns is not None else 1
    figure, _ = axes((5.6 * count, 3.6))
    figure.clear()
    display = ExplanationDisplay(found).plot(figure.subplots(1, count))
    which = "The row with the largest error" if worst else "A row drawn at random"
    return draw_svg(display.figure_, f"Row {number:,}", f"{which}: the points most like it, and its columns.")


def reproduction(model: BaseEstimator) -> str:
    """Return versions and parameters as HTML, with the call that makes the unfitted model."""
    facts = [
        ("gramian", _version()),
        ("Python", platform.python_version()),
        ("NumPy", np.__version__),
        ("SciPy", scipy.__version__),
        ("scikit-learn", sklearn.__version__),
        ("machine", f"{platform.system()} {platform.machine()}"),
    ]
    return code(f"import gramian as gm\n\nmodel = gm.{model!r}") + wrapped(facts_table(facts))


def _version() -> str:
    from gramian import __version__

    return __version__
