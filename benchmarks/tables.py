"""gramian's estimators for tables beside boosting, forests, networks, kernels and linear models.

GRAMIAN_DATA=folder python benchmarks/tables.py [--quick] [--sets a,b] [--methods gramian,catboost]
    [--splits 3] [--rows 10000] [--limit 300] [--memory 12GB] [--threads 2] [--again] [--out FILE]
    [--report FOLDER] [--full]

Sets are NAME.npz of the data folder and NAME.parquet of the folder "tables" beside it. Every set is split at
random --splits times into rows to learn from and rows to be judged on; on each split every method is fitted
in a process of its own, with its defaults unless its name says otherwise. A run goes on where it stopped, one
split of all sets after the other; --again measures what was asked for anew; --report makes tables and
figures from what is there without measuring. --quick: the sets that scikit-learn brings, one split, and what
is installed. --full: sets of 10,000 rows and more with all of them up to 50,000, one split, beside CatBoost
and LightGBM, for docs/tables-full-size.md. The peers are in the environment that ``make peers`` makes.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "tables.jsonl"
FULL_RESULTS = HERE / "results" / "tables_full.jsonl"
QUICK_RESULTS = HERE.parent / "build" / "benchmarks" / "quick_tables.jsonl"
DOCS = HERE.parent / "docs"


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the sets that scikit-learn brings, one split")
    parser.add_argument("--full", action="store_true", help="sets of 10,000 rows and more, one split")
    parser.add_argument("--sets", help="names, separated by commas (default: all)")
    parser.add_argument(
        "--methods", help="names, separated by commas (default: all installed that are ranked)"
    )
    parser.add_argument("--splits", type=int, help="random splits of each set (default 3; 1 with --quick)")
    parser.add_argument("--rows", type=int, help="of a set at most (default 10,000; 50,000 with --full)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of a process (default 300)")
    parser.add_argument("--memory", default="12GB", help="of a process, address space (default 12GB)")
    parser.add_argument("--threads", type=int, default=2, help="of every method (default 2)")
    parser.add_argument("--again", action="store_true", help="measure also what there is a line of")
    parser.add_argument("--out", type=Path, help="JSON lines (default benchmarks/results/tables.jsonl)")
    parser.add_argument(
        "--report", type=Path, help="folder for tables and figures, from the lines of --out alone"
    )
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    options = arguments(given)
    # Before NumPy is imported, which is when libraries read them.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    from suite import table_full, table_report
    from suite.results import read
    from suite.sets import QUICK
    from suite.table_methods import TABLE_METHODS, absent, available, check
    from suite.table_run import TABLE_KEY, run_tables
    from suite.table_sets import table_names

    from gramian._budget import parse_bytes
    from gramian.exceptions import GramianError, InputError

    usual = QUICK_RESULTS if options.quick else FULL_RESULTS if options.full else RESULTS
    out, rows = options.out or usual, options.rows or (table_full.ROWS if options.full else 10_000)
    try:
        if options.report is None:
            one = options.quick or options.full
            splits = options.splits if options.splits is not None else (1 if one else 3)
            if splits < 1:
                raise InputError(f"--splits {splits} is too few. Give 1 or more.")
            if options.full:
                sets, methods = list(table_full.SETS), list(table_full.METHODS)
            else:
                sets = list(QUICK) if options.quick else table_names()
                methods = [name for name in available() if TABLE_METHODS[name].ranked]
            sets = options.sets.split(",") if options.sets else sets
            methods = check(options.methods.split(",")) if options.methods else methods
            if absent():
                print(f"not installed and left out: {', '.join(absent())} (see make peers)")
            lines = run_tables(
                sets,
                methods,
                splits=splits,
                most_rows=rows,
                limit=options.limit,
                memory=parse_bytes(options.memory),
                threads=options.threads,
                out=out,
                again=options.again,
            )
            for line in lines:
                print(table_report.line_text(line), flush=True)
        kind = table_full if options.full else table_report
        folder = options.report or (out.parent if options.quick or options.out else DOCS)
        lines_there = read(out, TABLE_KEY)
        for written in kind.write_report(lines_there, folder):
            print(f"wrote {written}")
        if folder.resolve() == DOCS.resolve():
            for page, docs in ((DOCS.parent / "README.md", "docs/"), (DOCS / "tables.md", "")):
                text = kind.filled(page.read_text(encoding="utf-8"), lines_there, docs)
                page.write_text(text, encoding="utf-8")
    except GramianError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
