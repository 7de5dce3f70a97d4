"""Tables by default: gramian's TabularRegressor and TabularClassifier beside gradient boosting.

GRAMIAN_DATA=folder python benchmarks/tables.py [--quick] [--sets a,b] [--methods gramian,boosting]
    [--splits 5] [--limit 300] [--memory 12GB] [--threads 2] [--again] [--out FILE] [--report FOLDER]

Every set is split at random --splits times into rows to learn from and rows to be judged on; on each split
every method is fitted in a process of its own. gramian and HistGradientBoosting have their defaults; tuned
boosting searches for as long as gramian's fit took. A run goes on where it stopped; --again measures what
was asked for anew; --report makes tables and figures from what is there without measuring. --quick: the sets
that scikit-learn brings, one split.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "tables.jsonl"
QUICK_RESULTS = HERE.parent / "build" / "benchmarks" / "quick_tables.jsonl"
DOCS = HERE.parent / "docs"

#: Why boosting wins on a set, a line of Markdown by the set's name, for the page's list of those sets. What
#: stands here must have been looked into; a set without a line is listed without a reason.
WHY: dict[str, str] = {
    "ctg": "Classes change at thresholds of single columns, which trees place exactly and a kernel smears: "
    "boosting with 8 bins a column errs in 0.158 (means of the five splits). Its loss counts too: with "
    "squared errors in place of the likelihood it errs in 0.124. Of its own errors three quarters are "
    "gramian's as well.",
    "german": "A difference of 4 in the 1,000 rows that were judged; its standard error is larger.",
    "mnist": '56,000 rows of 784 columns leave little of 1 GB for blocks: with `memory_budget="10GB"` '
    "gramian errs in 0.0248 on the same split, in 151 s.",
}


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the sets that scikit-learn brings, one split")
    parser.add_argument("--sets", help="names, separated by commas (default: all)")
    parser.add_argument("--methods", help="names, separated by commas (default: all installed)")
    parser.add_argument("--splits", type=int, help="random splits of each set (default 5; 1 with --quick)")
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
    from suite.methods import absent
    from suite.results import read
    from suite.sets import QUICK, names
    from suite.table_methods import TABLE_METHODS, available, check
    from suite.table_report import line_text, write_report
    from suite.table_run import TABLE_KEY, run_tables

    from gramian._budget import parse_bytes
    from gramian.exceptions import GramianError, InputError

    out = options.out or (QUICK_RESULTS if options.quick else RESULTS)
    try:
        if options.report is None:
            splits = options.splits if options.splits is not None else (1 if options.quick else 5)
            if splits < 1:
                raise InputError(f"--splits {splits} is too few. Give 1 or more.")
            sets = options.sets.split(",") if options.sets else list(QUICK) if options.quick else names()
            methods = check(options.methods.split(",")) if options.methods else available()
            for library, how in absent().items():
                if library in {method.needs for method in TABLE_METHODS.values()}:
                    print(f"{library} is not installed and left out; install it {how}")
            lines = run_tables(
                sets,
                methods,
                splits=splits,
                limit=options.limit,
                memory=parse_bytes(options.memory),
                threads=options.threads,
                out=out,
                again=options.again,
            )
            for line in lines:
                print(line_text(line), flush=True)
        folder = options.report or (out.parent if options.quick or options.out else DOCS)
        for written in write_report(read(out, TABLE_KEY), folder, WHY):
            print(f"wrote {written}")
    except GramianError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
