"""Numbers of the four doors (tables, fast models, kernels at scale, papers), from stored results alone.

python benchmarks/doors.py

Writes every block between ``<!-- measured: NAME -->`` and ``<!-- end -->`` of the README and of docs/ whose
name is in BLOCKS, and measures nothing. The results are those of tables.py, frontier.py, side_by_side.py,
parts.py, gp.py, row_scale.py, spatial.py, seeds.py, constants.py and reproduce.py; run this after any.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

HERE = Path(__file__).parent
ROOT, RESULTS = HERE.parent, HERE / "results"
MARKED = re.compile(r"(<!-- measured: ([\w -]+) -->\n).*?(<!-- end -->)", re.DOTALL)


@cache
def stored(name: str) -> list[dict[str, Any]]:
    """Return the lines of a file of results."""
    texts = (RESULTS / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(text) for text in texts]


@dataclass(frozen=True)
class Door:
    """A way into the library: who takes it, the page, and one measurement."""

    title: str
    page: str  #: in docs/, without the suffix
    has: str
    calls: str
    measured: str


@cache
def doors() -> list[Door]:
    """Return the four doors."""
    return [
        Door(
            "Tables",
            "tables",
            "a CSV file or a frame, and CatBoost in mind",
            "`TabularRegressor`, `TabularClassifier`",
            of_tables(),
        ),
        Door(
            "Make it fast",
            "make-any-model-fast",
            "a model that answers too slowly",
            "`compress`, `export`",
            of_fast_models(),
        ),
        Door(
            "Kernels at scale",
            "kernels-at-scale",
            "a hundred thousand rows of numbers or more, and ridge, an SVM or a Gaussian process in mind",
            "`KernelRidge`, `KernelSVC`, `GaussianProcessRegressor`",
            of_kernels(),
        ),
        Door(
            "Papers",
            "papers/index",
            "a paper to reproduce (MEKA, BBF, KALS, DC-Pred++)",
            "`MEKA`, `BlockBasis`, `KALS`, `DCPredClassifier`",
            of_papers(),
        ),
    ]


def of_tables() -> str:
    from suite.results import read
    from suite.table_methods import OURS, REFERENCE
    from suite.table_report import conditions
    from suite.table_run import TABLE_KEY
    from suite.table_summary import Tables, places

    tables = Tables.of(read(RESULTS / "tables.jsonl", TABLE_KEY))
    found = {place.method: place for place in places(tables, list(tables.facts))}
    ranked = [place for place in found.values() if np.isfinite(place.rank)]
    ours, theirs = found[OURS], found[REFERENCE]
    return (
        f"Mean rank {ours.rank:.2f} of {len(ranked)} methods on {len(tables.facts)} sets, CatBoost's "
        f"{theirs.rank:.2f}, by RMSE, AUC or log-loss; {conditions(tables)}"
    )


def of_fast_models() -> str:
    from serving.page import gain

    found = gain(stored("frontier.jsonl"))
    assert found is not None
    return (
        f"On {found.n_beaten} of {found.n_sets} sets another library errs less and is no slower; medians: "
        f"{found.speed:.0f} times as fast as the slow model in batches on 1 thread, with {found.error:.2f} "
        "times its error (share of wrong classes, or RMSE)"
    )


def of_kernels() -> str:
    lines = [line for line in stored("papers.jsonl") if line["item"] == "two million rows"]
    found = {(line["method"], line["measure"]): line["value"] for line in lines}
    rows = lines[0]["setting"]["rows"]

    def text(method: str) -> str:
        error, seconds, peak = (found[method, name] for name in ("test rmse", "fit seconds", "peak MB"))
        return f"RMSE {error:.3f} in {seconds:.0f} s and {peak:.0f} MB"

    threads = lines[0]["machine"].rpartition(", ")[2]
    return (
        f"{rows:,} rows, {threads}, same gamma and alpha: {text('multi-resolution')}; Nyström with 1,000 "
        f"landmarks {text('Nyström').removeprefix('RMSE ')}"
    )


def of_papers() -> str:
    lines = [line for line in stored("papers.jsonl") if line["published"] is not None]
    papers = {line["paper"] for line in lines}
    return f"{len(lines)} published numbers of {len(papers)} papers, each beside ours"


def door_table(docs: str) -> list[str]:
    """Return the doors as a table, for a page from which ``docs`` leads to the folder of the pages."""
    rows = ["| you have | door | call | measured |", "|---|---|---|---|"]
    rows += [
        f"| {door.has} | [{door.title}]({docs}{door.page}.md) | {door.calls} | {door.measured} |"
        for door in doors()
    ]
    return rows


def door_cards(_: str) -> list[str]:
    """Return the doors as the first cards of the site."""
    cards = ["::::{grid} 1 2 2 2", ":gutter: 3", ""]
    for door in doors():
        cards += [f":::{{grid-item-card}} {door.title}", f":link: {door.page}", ":link-type: doc", ""]
        cards += [f"You have {door.has}. Call {door.calls}.", "", f"**{door.measured}.**", ":::", ""]
    return [*cards[:-1], "::::"]


def _parts_in_short() -> str:
    from suite.summary import geometric, ratio

    lines = stored("parts.jsonl")

    def against(part: str) -> tuple[int, float]:
        pairs = [(line[part]["error"], line["both"]["error"]) for line in lines]
        return sum(mine < both for mine, both in pairs), geometric([ratio(*pair) for pair in pairs])

    (trees, over_trees), (kernels, over_kernels) = against("boosting"), against("kernels")
    n_in = sum(line["kept"] for line in lines)
    return (
        f"Boosting alone errs less than the default on {trees} of {len(lines)} sets, kernel models alone on "
        f"{kernels}. In the geometric mean boosting alone has {over_trees:.2f} times the default's error, "
        f"and kernel models alone have {over_kernels:.2f} times. Held-out rows put boosting into the default "
        f"on {n_in} sets. The error is RMSE over the targets' deviation, 1 − AUC of two classes, log-loss of "
        f"more; 1 split, at most {lines[0]['most_rows']:,} rows of a set, 1 thread."
    )


def parts_in_short(docs: str) -> list[str]:
    """Return what kernel models and boosting have alone, and the way to every set."""
    return [f"{_parts_in_short()} [Every set]({docs}tables.md#kernels-alone-boosting-alone-both)."]


def parts(_: str) -> list[str]:
    """Return the errors of kernel models alone, of boosting alone and of the default on every set."""
    rows = [
        "| set | rows | error | kernels alone | boosting alone | both: the default | boosting is |",
        "|---" * 7 + "|",
    ]
    measures = {"regression": "RMSE", "binary": "1 − AUC", "multiclass": "log-loss"}
    lines = sorted(stored("parts.jsonl"), key=lambda line: [*measures].index(line["task"]))
    for line in lines:
        errors = [line[part]["error"] for part in ("kernels", "boosting", "both")]
        cells = [f"**{each:.4f}**" if each == min(errors) else f"{each:.4f}" for each in errors]
        state = "alone" if line["boosting_alone"] else "in" if line["kept"] else "left out"
        rows.append(
            f"| {line['set']} | {line['rows']:,} | {measures[line['task']]} | {' | '.join(cells)} | {state} |"
        )
    machine = lines[0]["machine"]
    commits, days = (sorted({line["machine"][key] for line in lines}) for key in ("commit", "day"))
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    told = (
        "A fifth of the rows is judged. Boosting alone is the trees of the default's fit, with rounds and "
        "sizes chosen on held-out rows. `python benchmarks/parts.py` measured this: commit "
        f"{', '.join(commits)}, {' and '.join(days)}, {machine['processor']}; "
        f"Python {machine['python']}, {versions}."
    )
    return [_parts_in_short(), "", *rows, "", told]


def first_screen(_: str) -> list[str]:
    """Return the pictures of the first screen with what they show, measured by first_screen.py."""
    found = json.loads((RESULTS / "first_screen.json").read_text(encoding="utf-8"))
    island, band, machine = found["island"], found["interval"], found["machine"]
    cards = (
        (
            "rows",
            f"{island['rows']:,} rows in {island['megabytes']:.0f} MB",
            f"The whole process, Python included, in {island['seconds']:.0f} s. Made-up heights: one "
            f"measurement is off by {island['noise']:g} (deviation), the learned map by {island['rmse']:.3f} "
            "(RMSE).",
        ),
        (
            "interval",
            "An interval for every row",
            f"The width follows the noise. Asked for 90 %, it holds {100 * band['held']:.1f} % of "
            f"{band['new rows']:,} new rows of a made-up table.",
        ),
        (
            "curve",
            "Error against seconds",
            "The table diamonds, more and more of its rows: CatBoost reaches every error in less time. RMSE "
            "over the deviation, one split, defaults, 2 threads; "
            "[seven more sets](tables-full-size.md#more-rows).",
        ),
    )
    shown = ["::::{grid} 1 1 3 3", ":gutter: 2", ""]
    for name, title, text in cards:
        shown += [
            ":::{grid-item}",
            f"**{title}**",
            "",
            f"![{title}](figures/first_{name}.png)",
            "",
            text,
            ":::",
            "",
        ]
    origin = (
        f"`python benchmarks/first_screen.py`: commit {machine['commit']}, {machine['day']}, "
        f"{machine['processor']}, {machine['threads']} threads, gramian {machine['versions']['gramian']}, "
        "beside other work."
    )
    return [*shown[:-1], "::::", "", origin]


def kernel_methods(docs: str) -> list[str]:
    """Return the kernel methods of the run side by side, each at its usual size, the lowest rank first."""
    from suite.methods import METHODS
    from suite.report import measured_on
    from suite.results import read
    from suite.summary import OURS, sets_of, standings

    lines = read(RESULTS / "side_by_side.jsonl")
    found = [one for one in standings(lines) if one.n_sets == len(sets_of(lines))]  # not of one task alone
    better = [METHODS[one.method].name for one in found[: [one.method for one in found].index(OURS)]]
    first = (
        f"{', '.join(better)} ranks before gramian." if better else "No other method ranks before gramian."
    )
    rows = ["| method | mean rank | failed | error x | fit x | predict x | memory x |", "|---" * 7 + "|"]
    for one in found:
        costs = " | ".join(
            f"{one.costs[cost]:.2g}" for cost in ("fit_seconds", "predict_seconds", "peak_bytes")
        )
        name = f"{METHODS[one.method].name}, {METHODS[one.method].size_name} {METHODS[one.method].usual_size}"
        rows.append(f"| {name} | {one.rank:.1f} | {one.failures} | {one.over_best:.2f} | {costs} |")
    threads = lines[-1]["machine"]["threads"]
    return [
        first,
        "",
        *rows,
        "",
        f"{len(sets_of(lines))} sets, {threads} thread. {measured_on(lines)} "
        f"[Every set and how it was measured]({docs}side-by-side.md).",
    ]


def gaussian_processes(docs: str) -> list[str]:
    """Return the Gaussian processes that were measured, medians over the sets."""
    lines = [line for line in stored("gp.jsonl") if "rmse" in line]
    sets = list(dict.fromkeys(line["set"] for line in lines))
    error = {(line["set"], line["method"]): line["rmse"] for line in lines}
    lowest = {name: min(value for (of, _), value in error.items() if of == name) for name in sets}
    rows = ["| method | sets | lowest error | error x | within 90 % | fit s | MB |", "|---" * 7 + "|"]
    for method in dict.fromkeys(line["method"] for line in lines):
        own = [line for line in lines if line["method"] == method]
        first = sum(line["rmse"] == lowest[line["set"]] for line in own)
        ratio = median(line["rmse"] / error[line["set"], "gramian"] for line in own)
        cells = [method, f"{len(own)}", f"on {first}", f"{ratio:.2f}"]
        cells += [f"{100 * median(line['cover'][2] for line in own):.0f} %"]
        cells += [
            f"{median(line['fit'] for line in own):.1f}",
            f"{median(line['megabytes'] for line in own):,.0f}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    own = sum(error[name, "gramian"] > lowest[name] for name in sets)
    days = sorted({line["date"] for line in lines})
    machines = " and ".join(sorted({line["machine"] for line in lines}))
    return [
        f"Another method has a lower error than gramian on {own} of {len(sets)} sets.",
        "",
        *rows,
        "",
        f"{machines}, {' and '.join(days)}. "
        f"[Every set and how it was measured]({docs}benchmarks.md#uncertainty).",
    ]


def row_scale(docs: str) -> list[str]:
    """Return the table of bands with one factor for all rows and with a factor for each."""
    lines = stored("row_scale.jsonl")
    rows = [
        "| set, training rows | NLPD, one factor | by row | 90 % interval holds: one factor | by row |",
        "|---|---|---|---|---|",
    ]
    for line in lines:
        both = line["one factor"], line["factors of rows"]
        shares = [" ".join(f"{100 * share:.0f}" for share in each["thirds"]) for each in both]
        rows.append(
            f"| {line['set']}, {line['rows']:,} | {both[0]['nlpd']:.2f} | {both[1]['nlpd']:.2f} | "
            f"{shares[0]} % | {shares[1]} % |"
        )
    told = (
        "The intervals' shares are of the third of rows with the lowest means, the middle third and the "
        "highest. One split of nine tenths against a tenth, 20,000 training rows and 4,000 judged ones at "
        f"most; commit {lines[0]['commit']}, {lines[0]['date']}, {lines[0]['machine']}."
    )
    return [*rows, "", told]


def spatial(docs: str) -> list[str]:
    """Return the table of processes on rows in space."""
    lines = stored("spatial.jsonl")
    rows = [
        "| rows | method | error of the mean | 90 % band holds: f | new observations | fit, s | a row, µs "
        "| process, MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        begun = f"| {line['rows']:,} | {line['method']} | "
        if "failed" in line:
            rows.append(f"{begun}{line['failed']} | | | | | |")
            continue
        inside = [f"{100 * share:.0f} %" for share in line["cover"]]
        rows.append(
            f"{begun}{line['rmse']:.3f} | {inside[0]} | {inside[1]} | {line['fit']:.0f} | "
            f"{1e6 * line['predict']:.0f} | {line['megabytes']:,} |"
        )
    commits = ", ".join(dict.fromkeys(line["commit"] for line in lines if "commit" in line))
    told = f"One draw; commits {commits}; {lines[0]['date']}, {lines[0]['machine']}."
    return [*rows, "", told]


def seeds(docs: str) -> list[str]:
    """Return the table of scores over seeds: their means, and the deviations as shares of these."""
    lines = stored("seeds.jsonl")
    rows = ["| set | gramian, mean | deviation | LightGBM, mean | deviation |", "|---|---|---|---|---|"]
    wins, ratios = 0, []
    for ours, theirs in zip(lines[::2], lines[1::2], strict=True):
        cells = []
        for line in (ours, theirs):
            every = np.array(line["scores"])
            cells.append((every.mean(), every.std(ddof=1) / every.mean()))
        wins += cells[0][1] <= cells[1][1]
        ratios.append(cells[0][1] / cells[1][1])
        told = " | ".join(f"{mean:.4f} | {100 * spread:.2f} %" for mean, spread in cells)
        rows.append(f"| {ours['set']} | {told} |")
    count = len(lines[0]["scores"])
    said = (
        f"With {count} seeds gramian's score moves more than LightGBM's on {len(ratios) - wins} of "
        f"{len(ratios)} sets; the ratio of the deviations is {max(ratios):.1f} at most, "
        f"{np.exp(np.mean(np.log(ratios))):.2f} in the geometric mean."
    )
    commits = ", ".join(sorted({line["commit"] for line in lines}))
    origin = f"Commits {commits}; {lines[0]['date']}, {lines[0]['machine']}."
    return [said, "", *rows, "", origin]


#: Constants that the table lists; ratios of error and of time within which a change is noise.
SHOWN, SAME_ERROR, SAME_TIME = 20, 1.02, 1.25


def constants(docs: str) -> list[str]:
    """Return what was found at half and at twice each constant, and the table of the largest effects."""
    from constants import SHOWING

    first, *lines = stored("constants.jsonl")
    names = {name for name in first["reads"] if name.partition("/")[0] not in SHOWING}
    tries = []
    for line in lines:
        if f"{line['file']} {line['name']}" not in names:
            continue  # it is gone since it was tried
        for program, (error, seconds) in line["ratios"].items():
            size = math.inf if isinstance(error, str) else max(error, 1 / max(error, 1e-9))
            tries.append((size, seconds, (line["file"], line["name"]), line, program))
    every = {key for *_, key, _, _ in tries}
    moved = {key for size, _, key, _, _ in tries if size > SAME_ERROR}
    slower = {key for _, seconds, key, _, _ in tries if max(seconds, 1 / max(seconds, 1e-9)) > SAME_TIME}
    largest: dict[tuple[str, str], list[str]] = {}
    for _, seconds, key, line, program in sorted(tries, key=lambda one: one[0], reverse=True):
        error = line["ratios"][program][0]
        told = error if isinstance(error, str) else f"{error:.2f}"
        cells = [f"`{key[1]}` ({key[0]})", f"{line['value']:g}", f"{line['tried']:g}", program]
        largest.setdefault(key, [*cells, told, f"{seconds:.2f}"])
    rows = ["| constant | value | tried | program | error x | time x |", "|---|---|---|---|---|---|"]
    rows += [f"| {' | '.join(cells)} |" for cells in list(largest.values())[:SHOWN]]
    left = len(names) - len(every)
    said = (
        f"Of {first['all']} constants, {first['of_numerics']} are not about what is shown, drawn or listed. "
        f"{len(names)} of these are read by one of {len(first['usual'])} short programs, and "
        f"{len(every)} were tried at half and at twice their values{f' ({left} are left)' * bool(left)}. For "
        f"{len(every - moved)} no error changes by more than {100 * SAME_ERROR - 100:.0f} %, for "
        f"{len(every - slower)} no processor time by more than a quarter. The {SHOWN} "
        "that change an error most:"
    )
    origin = f"One split and one seed each; commit {first['commit']}, {first['date']}, {first['machine']}."
    return [said, "", *rows, "", origin]


#: By the name in the marker; each takes the way from the page to the folder of the pages.
BLOCKS: dict[str, Callable[[str], list[str]]] = {
    "doors": door_table,
    "door cards": door_cards,
    "first screen": first_screen,
    "parts": parts,
    "parts in short": parts_in_short,
    "kernel methods": kernel_methods,
    "Gaussian processes": gaussian_processes,
    "row-scale": row_scale,
    "spatial": spatial,
    "seeds": seeds,
    "constants": constants,
}


def filled(text: str, docs: str = "") -> str:
    """Return a page with every block that is known here made anew."""

    def block(found: re.Match[str]) -> str:
        if found[2] not in BLOCKS:
            return found[0]
        return found[1] + "\n".join(["", *BLOCKS[found[2]](docs), ""]) + "\n" + found[3]

    return MARKED.sub(block, text)


def way(page: Path) -> str:
    """Return the way from a page to the folder of the pages, as links begin with it."""
    return "docs/" if page.parent == ROOT else "../" * (len(page.relative_to(ROOT / "docs").parts) - 1)


def pages() -> list[Path]:
    """Return the pages that may show a block."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main() -> int:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        new = filled(text, way(page))
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(f"wrote {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
