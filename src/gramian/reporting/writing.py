"""HTML pages about a fitted model without external resources: one of the model, and one of its file."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy
import sklearn
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from gramian._budget import format_bytes
from gramian._files import complete_file
from gramian._random import as_generator
from gramian._typing import RandomState, Rows, RowsLike
from gramian.data.column import as_column
from gramian.data.tables import as_table
from gramian.estimator.base import KernelEstimator, is_source, read_rows
from gramian.estimator.labels import label_array
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import InputError
from gramian.plotting.canvas import pyplot
from gramian.plotting.explanation import ExplanationDisplay
from gramian.reporting.document import Picture, Section, axes, code, document, draw_svg, paragraph, wrapped
from gramian.reporting.effects import EFFECT_ROWS, explained, of_effects, rows_to_inspect, segments
from gramian.reporting.judging import REGRESSION, Judgement, judge
from gramian.reporting.pictures import (
    of_coverage,
    of_importances,
    of_inside,
    of_path,
    of_predictions,
    of_trials,
)
from gramian.summary import Grid, Summary
from gramian.summary.html import facts_html, facts_table, grid_table, tables_html
from gramian.tables.serving import TableServer

#: Most rows with their errors by segment. Chosen by hand.
SEGMENT_ROWS = 20_000
#: Largest number of features, or of arrays of the file, in a table. Chosen by hand.
MOST_LISTED = 200
WITHOUT_ROWS = (
    "Pass rows that the model has not seen, model.report(path, X, y), for scores, effects and errors."
)


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
    pyplot("gramian report")  # raise before the work if it is missing
    if not isinstance(model, KernelEstimator):
        raise InputError(
            f"model has type {type(model).__name__}; expected a fitted model of gramian, such as "
            "gm.TabularRegressor().fit(X, y)."
        )
    check_is_fitted(model)
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"path={str(path)!r}: there is no folder {str(path.parent)!r}. Make it first.")
    own: Any = getattr(X, "target", None) if y is None and is_source(X) else y
    if X is None and own is not None:
        raise InputError("y is given without X. Pass the rows too: model.report(path, X, y).")
    rng = as_generator(random_state)
    seed = int(rng.integers(2**31))
    judged = None if X is None else _judge(model, X, own, seed)
    html, pictures = paragraph(WITHOUT_ROWS), list[Picture]()
    if judged is not None:
        html = wrapped(facts_table(judged.facts()))
        pictures = [*of_predictions(judged, model, seed), *of_coverage(judged)]
    from gramian import __version__

    summary = model.summary()
    versions = (
        ("gramian", __version__),
        ("Python", platform.python_version()),
        ("NumPy", np.__version__),
        ("SciPy", scipy.__version__),
        ("scikit-learn", sklearn.__version__),
        ("machine", f"{platform.system()} {platform.machine()}"),
    )
    made = code(f"import gramian as gm\n\nmodel = gm.{model!r}") + wrapped(facts_table(versions))
    choices = [*of_trials(model), *of_path(model)]
    sections = [
        Section("Scores on the given rows", html, pictures),
        Section("What was chosen, and how sure that is", _both_sides(summary), choices),
        Section("What the model looks at", "", list(of_importances(model))),
        *_about_rows(model, X, judged, rng),
        Section("Inside", "", [*of_inside(model, seed)]),
        Section("How to reproduce it", made),
    ]
    text = document(
        type(model).__name__,
        summary.title,
        f"report of a fitted model, gramian {__version__}",
        _tiles(summary, judged),
        sections,
        "Written by <code>model.report(path)</code>.",
    )
    with complete_file(path) as file:
        file.write(text.encode("utf-8"))
    return path


def _judge(model: BaseEstimator, X: RowsLike, y: ArrayLike, seed: int) -> Judgement:
    rows = as_table(X) if isinstance(model, TableServer) else read_rows(model, X)
    if y is not None and is_classifier(model):
        y = np.asarray(label_array(y))
    elif y is not None:
        given = as_column(y)
        y = np.asarray(NumberTargets(given, len(given)).values if given.ndim else given)
        y = y[:, 0] if y.shape[1:] == (1,) else y
    if y is not None and y.shape[:1] != (rows.shape[0],):
        count = len(y) if y.ndim else "no"
        raise InputError(f"y has {count} targets, but X has {rows.shape[0]} rows. Pass one for each row.")
    source = rows if not getattr(model, "_precomputed", False) else cast("Rows", X)
    return judge(model, source, y, seed=seed)


def _about_rows(
    model: BaseEstimator, X: Any, judged: Judgement | None, rng: np.random.Generator
) -> Iterator[Section]:
    """Yield effects of columns, errors by segment, and an explained prediction."""
    if judged is None or X is None:
        return
    n, y, predicted = judged.n_rows, judged.y, judged.predicted
    most = EFFECT_ROWS if y is None else SEGMENT_ROWS
    numbers = np.sort(rng.choice(n, min(n, most), replace=False))
    found = rows_to_inspect(model, X, numbers)
    if found is not None:
        yield Section(
            "Effects of the most important columns",
            paragraph("Mean predictions if a column is set to a value in all rows, others as they are."),
            list(of_effects(found)),
        )
    if y is None or predicted is None:
        number, which = int(rng.integers(n)), "A row drawn at random"
    else:
        if judged.task == REGRESSION:
            errors, what = (y.astype(np.float64) - predicted.astype(np.float64)) ** 2, "RMSE"
        else:
            errors, what = (y.astype(str) != predicted.astype(str)).astype(float), "share of wrong classes"
        if found is not None:
            grids = segments(found, errors[numbers], what)
            yield Section("Errors by segment", wrapped("".join(map(grid_table, grids))) if grids else "")
        number, which = int(np.argmax(errors)), "The row with the largest error"
    row = X.iloc[number : number + 1] if hasattr(X, "iloc") else X[number : number + 1]
    explanation = explained(model, row, by="similarity", X_train=X)
    if explanation is not None:
        alike = grid_table(explanation.summary().grids[-1])
        pictures = list[Picture]()
        if explanation.values is not None:
            figure, panel = axes((6.4, 4.0))
            ExplanationDisplay(explanation).plot(panel)
            said = f"{which}: what each column adds to the base, the mean prediction of these rows."
            pictures = [draw_svg(figure, f"Row {number:,}", said)]
        yield Section("Why one prediction came out as it did", wrapped(alike), pictures)


def summary_of_file(model: BaseEstimator, header: Mapping[str, Any]) -> Summary:
    """Return the summary of the model in a file, with the notes and the scaler stored in it."""
    last = model[-1] if isinstance(model, Pipeline) else model
    own = last.summary()
    title, grids = own.title, [*own.grids]
    if isinstance(model, Pipeline):
        title = " → ".join(type(step).__name__ for _, step in model.steps)
        scaler = model[0]
        names = getattr(scaler, "feature_names_in_", [f"column {j}" for j in range(scaler.n_features_in_)])
        mean = scaler.mean_ if scaler.mean_ is not None else [0.0] * len(names)
        scale = scaler.scale_ if scaler.scale_ is not None else [1.0] * len(names)
        rows = [(str(name), f"{m:.4g}", f"{s:.4g}") for name, m, s in zip(names, mean, scale, strict=True)]
        grids.append(_listed("Features", ("name", "mean", "deviation"), rows))
    arrays = [
        (name, " × ".join(f"{size:,}" for size in array["shape"]), array["dtype"])
        for name, array in header["arrays"].items()
    ]
    grids.append(_listed("Arrays of the file", ("name", "shape", "type"), arrays))
    notes = [(name, text) for name, text in header["notes"].items() if text]
    return Summary(title, (*notes, *own.facts), tuple(grids), own.warnings, own.note)


def _listed(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Grid:
    cut = "" if len(rows) <= MOST_LISTED else f"The first {MOST_LISTED} of {len(rows):,}."
    return Grid(f"{title} ({len(rows):,})", columns, tuple(rows[:MOST_LISTED]), cut)


def page(
    path: Path,
    model: BaseEstimator,
    header: Mapping[str, Any],
    pictures: Sequence[Picture],
    judged: Judgement | None = None,
    data: Path | None = None,
) -> str:
    """Return the page of a model file, scored on the rows of ``data`` if they are given."""
    summary = summary_of_file(model, header)
    library = header.get("library", "unknown")
    made = f"{path.name}, {format_bytes(path.stat().st_size)}, written by gramian {library}"
    sections = []
    if judged is not None:
        source = "" if data is None else f" on {data.name}"
        html = wrapped(facts_table(judged.facts()))
        if judged.scores:
            html += paragraph("Scores count where the model was not fitted to these rows.")
        sections.append(Section(f"Scores{source}", html))
    sections += [
        Section("Model", _both_sides(summary)),
        Section("Pictures", pictures=pictures),
        Section("In Python", code(f"import gramian as gm\n\nmodel = gm.load({str(path.name)!r})")),
    ]
    written = "Written by <code>gramian report</code>."
    return document(path.name, summary.title, made, _tiles(summary, judged), sections, written)


def _both_sides(summary: Summary) -> str:
    """Return facts on the left and tables on the right."""
    both = f"<div>{facts_html(summary)}</div><div>{tables_html(summary.grids, opened=2)}</div>"
    return wrapped(both, "sides")


def _tiles(summary: Summary, judged: Judgement | None) -> list[tuple[str, str]]:
    """Return the most important numbers, as label and text."""
    tiles, facts = [] if judged is None else judged.tiles(), dict(summary.facts)
    for ends, names in (
        (",", ("model", "memory")),
        (" (", ("method", "blocks", "rank")),
        ("\n", ("fit took",)),
    ):
        tiles += [(name, facts[name].split(ends)[0]) for name in names if name in facts]
    return tiles
