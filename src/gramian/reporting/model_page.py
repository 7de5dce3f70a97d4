"""HTML page about one model file: description, scores and pictures, without external resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.pipeline import Pipeline

from gramian._budget import format_bytes
from gramian.reporting.document import Section, code, document, paragraph, wrapped
from gramian.reporting.drawing import Picture
from gramian.reporting.judging import Judgement
from gramian.summary import Grid, Summary
from gramian.summary.html import facts_html, facts_table, tables_html

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


#: Largest number of features, or of arrays of the file, in a table. Chosen by hand.
MOST_LISTED = 200


def summary_of_file(model: BaseEstimator, header: Mapping[str, Any]) -> Summary:
    """Return the summary of the model in a file, with the notes and the scaler stored in it."""
    last = model[-1] if isinstance(model, Pipeline) else model
    own = last.summary()
    title = " → ".join(type(step).__name__ for _, step in model.steps) if last is not model else own.title
    notes = [(name, text) for name, text in header["notes"].items() if text]
    grids = [*own.grids, *_scaler(model), _arrays(header)]
    return Summary(title, (*notes, *own.facts), tuple(grids), own.warnings, own.note)


def judged_facts(judged: Judgement) -> list[tuple[str, str]]:
    """Return rows, seconds, and scores next to those of a model without features."""
    simple = "mean" if judged.task == "regression" else "most frequent class"
    facts = [("rows", f"{judged.n_rows:,}")]
    for name, value in judged.scores.items():
        facts.append((name, f"{value:.4g} ({simple}: {judged.baseline[name]:.4g})"))
    if judged.coverage:
        told = (f"{level:.0%} hold {share:.1%}" for level, share in judged.coverage.items())
        facts.append(("intervals", ", ".join(told)))
    if judged.frobenius is not None:
        error = judged.frobenius
        facts.append(
            ("Frobenius error", f"{error:.3g} of ‖K‖_F, 95 % within {error.low:.3g} and {error.high:.3g}")
        )
    if judged.trace is not None:
        facts.append(("trace error", f"{judged.trace:.3g} of tr(K)"))
    per_row = 1e6 * judged.seconds / max(judged.n_rows, 1)
    facts.append((f"seconds of the {judged.what}", f"{judged.seconds:.3g}, {per_row:.3g} µs a row"))
    if judged.why_not:
        facts.append(("no scores", judged.why_not))
    return facts


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
        html = wrapped(facts_table(judged_facts(judged)))
        if judged.scores:
            html += paragraph("Scores count where the model was not fitted to these rows.")
        sections.append(Section(f"Scores{source}", html))
    sections += [
        Section("Model", both_sides(summary)),
        Section("Pictures", pictures=pictures),
        Section("In Python", code(f"import gramian as gm\n\nmodel = gm.load({str(path.name)!r})")),
    ]
    written = "Written by <code>gramian report</code>."
    return document(path.name, summary.title, made, tiles_of(summary, judged), sections, written)


def both_sides(summary: Summary) -> str:
    """Return facts on the left and tables on the right."""
    both = f"<div>{facts_html(summary)}</div><div>{tables_html(summary.grids, opened=2)}</div>"
    return wrapped(both, "sides")


def tiles_of(summary: Summary, judged: Judgement | None) -> list[tuple[str, str]]:
    """Return the most important numbers, as label and text."""
    facts = dict(summary.facts)
    tiles = []
    if judged is not None:
        tiles += [(name, f"{value:.4g}") for name, value in judged.scores.items()]
        if judged.frobenius is not None:
            tiles.append(("relative Frobenius error", f"{judged.frobenius:.3g}"))
        tiles.append((f"µs a row, {judged.what}", f"{1e6 * judged.seconds / max(judged.n_rows, 1):.3g}"))
    tiles += [(name, facts[name].split(",")[0]) for name in ("model", "memory") if name in facts]
    tiles += [(name, facts[name].split(" (")[0]) for name in ("method", "blocks", "rank") if name in facts]
    tiles += [(name, facts[name]) for name in ("fit took",) if name in facts]
    return tiles


def _scaler(model: BaseEstimator) -> Iterator[Grid]:
    """Yield the scaler's mean and deviation for each feature."""
    if not isinstance(model, Pipeline):
        return
    scaler = model[0]
    names = getattr(scaler, "feature_names_in_", [f"column {j}" for j in range(scaler.n_features_in_)])
    mean = scaler.mean_ if scaler.mean_ is not None else [0.0] * len(names)
    deviation = scaler.scale_ if scaler.scale_ is not None else [1.0] * len(names)
    rows = tuple((str(name), f"{m:.4g}", f"{s:.4g}") for name, m, s in zip(names, mean, deviation))
    yield _listed("Features", ("name", "mean", "deviation"), rows)


def _arrays(header: Mapping[str, Any]) -> Grid:
    """Return a table of the arrays in the file."""
    rows = tuple(
        (name, " × ".join(f"{size:,}" for size in array["shape"]), array["dtype"])
        for name, array in header["arrays"].items()
    )
    return _listed("Arrays of the file", ("name", "shape", "type"), rows)


def _listed(title: str, columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> Grid:
    cut = "" if len(rows) <= MOST_LISTED else f"The first {MOST_LISTED} of {len(rows):,}."
    return Grid(f"{title} ({len(rows):,})", columns, rows[:MOST_LISTED], cut)
