"""The run of the tables: a process for every method on every split."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from suite.machine import describe
from suite.results import Line, append, key, read
from suite.runner import in_fresh_process
from suite.table_job import TableJob

#: Whose versions a line tells.
DISTRIBUTIONS = ("pandas", "catboost", "lightgbm", "xgboost", "interpret-core", "pytabkit")
#: What makes two lines the same figure.
TABLE_KEY = ("set", "method", "split")


def run_tables(
    sets: list[str],
    methods: list[str],
    *,
    splits: int,
    most_rows: int | None,
    limit: float,
    memory: float,
    threads: int,
    out: Path,
    again: bool = False,
) -> Iterator[Line]:
    """Yield the lines that ``out`` lacks, or all where ``again``, as they are made and appended."""
    done = {key(line, TABLE_KEY): line for line in read(out, TABLE_KEY)}
    machine = describe(threads, DISTRIBUTIONS) | {"limit_seconds": limit, "limit_bytes": memory}
    for split in range(splits):
        for name in sets:
            for method in methods:
                line: Line = {"set": name, "method": method, "split": split, "most_rows": most_rows}
                before = done.get(key(line, TABLE_KEY))
                if before is not None and not again and before["most_rows"] == most_rows:
                    continue
                line["load"] = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
                job = TableJob(name, method, split, threads, most_rows)
                line |= in_fresh_process(job, limit=limit, memory=memory) | {"machine": machine}
                append(out, line)
                done[key(line, TABLE_KEY)] = line
                yield line
