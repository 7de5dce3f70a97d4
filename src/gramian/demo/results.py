"""Measurements of the demo, each model in a process of its own, and their table."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gramian._budget import format_bytes
from gramian.comparison.quiet_threads import quiet_children
from gramian.exceptions import GramianError


@dataclass(frozen=True)
class Result:
    """Report of a worker, one line of the table."""

    model: str
    rows: int  #: rows it was trained on
    score: float
    fit_seconds: float
    predict_seconds: float
    peak_bytes: float  #: growth of the process over its size after the imports
    note: str = ""


def in_own_process(name: str, rows: int, memory: str, out: Path) -> Result:
    """Run a worker of the demo in a process of its own, so that it has its own memory peak."""
    options = ["--worker", name, "--rows", str(rows), "--memory", memory, "--out", str(out)]
    hint = "A negative status is a signal: -9 usually means that memory ran out; try fewer --rows."
    return Result(**run_and_read(["-m", "gramian.demo", *options], f"The demo's worker {name!r}", hint))


def run_and_read(arguments: Sequence[str], name: str, hint: str) -> dict[str, Any]:
    """Run Python with these arguments and return the JSON in its last line of output.

    Its OpenMP threads sleep while they wait, so that other work on the machine does not multiply its seconds.
    Raises ``GramianError``, which begins with ``name`` and ends with ``hint``, if the process fails.
    """
    with quiet_children():
        done = subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise GramianError(
            f"{name} ended with exit status {done.returncode}; its own message is above. {hint}"
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(results: list[Result], score: str) -> str:
    """Return the results as an aligned table; ``score`` is the name of the score column."""
    head = ("model", "rows", score, "fit", "predict", "peak memory")
    lines = [
        (
            r.model,
            f"{r.rows:,}",
            f"{r.score:.4f}" if r.score <= 1 else f"{r.score:.2f}",
            f"{r.fit_seconds:.1f} s",
            f"{r.predict_seconds:.1f} s",
            format_bytes(r.peak_bytes) if r.peak_bytes == r.peak_bytes else "unknown",
        )
        for r in results
    ]
    widths = [max(len(cell) for cell in column) for column in zip(head, *lines, strict=True)]

    def aligned(cells: tuple[str, ...]) -> str:
        first, *others = cells
        numbers = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        return "  ".join([first.ljust(widths[0]), *numbers])

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([aligned(head), rule, *map(aligned, lines)])


def say(text: str) -> None:
    """Print a progress message."""
    # Flush, so that messages appear at once even through a pipe.
    print(text, flush=True)
