"""The run of the tables: a process for every method on every split."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from suite.machine import describe
from suite.results import Line, append, key, read
from suite.runner import in_fresh_process
from suite.table_job import TableJob
from suite.table_methods import OURS, TUNED

#: What makes two lines the same figure.
TABLE_KEY = ("set", "method", "split")
#: A search is made anew where it had less than this share of the seconds that gramian takes now.
ENOUGH = 0.9


def run_tables(
    sets: list[str],
    methods: list[str],
    *,
    splits: int,
    limit: float,
    memory: float,
    threads: int,
    out: Path,
    again: bool = False,
) -> Iterator[Line]:
    """Yield the lines that ``out`` lacks, or all where ``again``, as they are made and appended."""
    done = {key(line, TABLE_KEY): line for line in read(out, TABLE_KEY)}
    machine = describe(threads) | {"limit_seconds": limit, "limit_bytes": memory}
    for name in sets:
        for split in range(splits):
            for method in methods:
                line: Line = {"set": name, "method": method, "split": split}
                seconds = _seconds(done.get((name, OURS, split))) if method == TUNED else None
                if method == TUNED and seconds is None:
                    continue  # the seconds of its search are those of gramian's fit
                before = done.get(key(line, TABLE_KEY))
                if before is not None and not again and _still_good(before, seconds):
                    continue
                if seconds is not None:
                    line["search_seconds"] = seconds
                line["load"] = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
                job = TableJob(name, method, split, threads, seconds)
                answer = in_fresh_process(job, limit=limit + (seconds or 0.0), memory=memory)
                line |= answer | {"machine": machine}
                append(out, line)
                done[key(line, TABLE_KEY)] = line
                yield line


def _seconds(ours: Line | None) -> float | None:
    """Return the seconds of gramian's fit on a split, or None where there was none."""
    return None if ours is None or "fit_seconds" not in ours else max(float(ours["fit_seconds"]), 1e-3)


def _still_good(line: Line, seconds: float | None) -> bool:
    return seconds is None or line.get("search_seconds", 0.0) >= ENOUGH * seconds
