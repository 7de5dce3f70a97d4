"""The stored lines of the papers' measurements: one JSON object each, with commit, versions and machine."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from suite.machine import describe
from suite.results import Line, append

from papers.items import Item, Paper, Run

RESULTS = Path(__file__).parents[1] / "results" / "papers.jsonl"
QUICK_RESULTS = Path(__file__).parents[2] / "build" / "benchmarks" / "quick_papers.jsonl"
#: Folders whose uncommitted changes a line tells of.
MEASURED = ("src", "benchmarks/papers", "benchmarks/serving")


def read(path: Path) -> list[Line]:
    """Return all lines; the later of two of the same figure."""
    if not path.exists():
        return []
    lines = (json.loads(text) for text in path.read_text(encoding="utf-8").splitlines())
    return list({_key(line): line for line in lines}.values())


def of_item(lines: list[Line], paper: str, item: str) -> list[Line]:
    """Return the lines of one item."""
    return [line for line in lines if (line["paper"], line["item"]) == (paper, item)]


def measure(paper: Paper, item: Item, name: str, run: Run, path: Path, threads: int) -> Iterator[Line]:
    """Measure one item on one set, and store its lines when all are there; yield them as they come.

    Earlier lines of the same item and set are replaced, so that a table is of one run.
    """
    about = provenance(threads)
    found = []
    for value in item.measure(name, run):
        line = {
            "paper": paper.key,
            "item": item.name,
            "set": name,
            "method": value.method,
            "setting": value.setting,
            "measure": value.measure,
            "value": float(value.value),
            "published": value.published,
            "seconds": None if value.seconds is None else round(value.seconds, 4),
            **about,
        }
        found.append(line)
        yield line
    drop(path, paper.key, item.name, name)
    for line in found:
        append(path, line)


def drop(path: Path, paper: str, item: str, name: str) -> None:
    """Remove the lines of an item on a set."""
    if not path.exists():
        return
    texts = path.read_text(encoding="utf-8").splitlines(keepends=True)
    wanted = (paper, item, name)
    kept = [text for text in texts if tuple(json.loads(text)[k] for k in ("paper", "item", "set")) != wanted]
    if len(kept) < len(texts):
        path.write_text("".join(kept), encoding="utf-8")


def provenance(threads: int) -> dict[str, Any]:
    """Return commit, versions, machine and date, as every line has them."""
    about = describe(threads)
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=no", *MEASURED],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return {
        "commit": f"{about['commit']}{' and changes' if changed else ''}",
        "versions": {"python": about["python"], **about["versions"]},
        "machine": f"{about['processor']}, {threads} thread{'s' * (threads > 1)}",
        "date": time.strftime("%Y-%m-%d"),
    }


def _key(line: Line) -> tuple[Any, ...]:
    names = ("paper", "item", "set", "method", "measure")
    return (*(line[name] for name in names), json.dumps(line["setting"], sort_keys=True))
