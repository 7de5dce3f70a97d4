"""HTML page about one model file: description, scores and pictures, without external resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

from gramian._budget import format_bytes
from gramian.cli.judging import Judgement
from gramian.cli.pictures import Picture
from gramian.summary import Grid, Summary
from gramian.summary.html import STYLE, facts_table, folded, stated

#: Largest number of features, or of arrays of the file, in a table. Chosen by hand.
MOST_LISTED = 200
PAGE_STYLE = """
:root{color-scheme:light dark;--page:#fff;--ink:#1f2328;--card:#f6f8fa;--line:#d8dee4}
@media (prefers-color-scheme:dark){:root{--page:#14171c;--ink:#e6e8eb;--card:#1d2127;--line:#343a43}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:76rem;margin:0 auto;padding:1.5rem 1.25rem 3rem}
header{border-bottom:1px solid var(--line);margin-bottom:1.25rem;padding-bottom:.75rem}
h1{font-size:1.6rem;margin:0;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:1.75rem 0 .6rem}
header p{margin:.2rem 0 0;opacity:.75}
.gramian-summary{font-size:14px;max-width:none}
.tiles{display:flex;flex-wrap:wrap;gap:.75rem;margin:.5rem 0 1rem}
.tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6rem 1rem;min-width:9rem}
.tile b{display:block;font-size:1.35rem;font-weight:600;font-variant-numeric:tabular-nums}
.tile span{font-size:.85rem;opacity:.75}
.sides{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(27rem,100%),1fr));gap:0 2rem}
.pictures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(25rem,100%),1fr));gap:1rem;\
align-items:start}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;overflow:hidden}
figure div{background:#fff;padding:.6rem;text-align:center}
figure img{max-width:100%;height:auto;display:inline-block}
figcaption{padding:.6rem .9rem;font-size:.9rem;border-top:1px solid var(--line)}
figcaption b{display:block}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.75rem 1rem;overflow-x:auto}
footer{margin-top:2rem;font-size:.85rem;opacity:.7}
"""


def summary_of_file(model: Any, header: Mapping[str, Any]) -> Summary:
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
    model: Any,
    header: Mapping[str, Any],
    pictures: Sequence[Picture],
    judged: Judgement | None = None,
    data: Path | None = None,
) -> str:
    """Return the page of a model file, scored on the rows of ``data`` if they are given."""
    summary = summary_of_file(model, header)
    name = escape(path.name)
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{name}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}{PAGE_STYLE}</style></head><body><main>",
        f"<header><h1>{escape(summary.title)}</h1><p>{name}, {format_bytes(path.stat().st_size)}, written by "
        f"gramian {escape(str(header.get('library', 'unknown')))}</p></header>",
        _tiles(summary, judged),
    ]
    if judged is not None:
        source = "" if data is None else f" on {escape(data.name)}"
        parts.append(f"<h2>Scores{source}</h2>{_wrapped(facts_table(judged_facts(judged)))}")
        if judged.scores:
            parts.append("<p>Scores count where the model was not fitted to these rows.</p>")
    both = f"<div>{stated(summary)}</div><div>{folded(summary.grids, opened=2)}</div>"
    parts.append(f"<h2>Model</h2>{_wrapped(both, 'sides')}")
    if pictures:
        parts.append(f'<h2>Pictures</h2><div class="pictures">{"".join(map(_figure, pictures))}</div>')
    code = f"import gramian as gm\n\nmodel = gm.load({str(path.name)!r})"
    parts.append(f"<h2>In Python</h2><pre>{escape(code)}</pre>")
    parts.append("<footer>Written by <code>gramian report</code>.</footer></main></body></html>")
    return "\n".join(parts)


def _tiles(summary: Summary, judged: Judgement | None) -> str:
    """Return the tiles with the most important numbers, at the top of the page."""
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
    each = (
        f'<div class="tile"><b>{escape(text)}</b><span>{escape(name)}</span></div>' for name, text in tiles
    )
    return f'<div class="tiles">{"".join(each)}</div>'


def _figure(picture: Picture) -> str:
    alt = escape(f"{picture.title}. {picture.caption}", quote=True)
    return (
        f'<figure><div><img src="{picture.address}" alt="{alt}"></div>'
        f"<figcaption><b>{escape(picture.title)}</b>{escape(picture.caption)}</figcaption></figure>"
    )


def _wrapped(html: str, *classes: str) -> str:
    return f'<div class="{" ".join(("gramian-summary", *classes))}">{html}</div>'


def _scaler(model: Any) -> Iterator[Grid]:
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
