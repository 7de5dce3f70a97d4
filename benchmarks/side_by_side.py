"""Every method on every set: error, seconds, memory, bytes. Tables and figures from the JSON lines.

GRAMIAN_DATA=folder python benchmarks/side_by_side.py [--quick] [--sets a,b] [--methods gramian,boosting]
    [--seconds 6] [--runs 3] [--limit 60] [--memory 12GB] [--threads 1] [--out FILE] [--report FOLDER]
    [--forget]

For each set and method one process searches the settings for --seconds (the same rows for all; random
candidates for peers, its own choice for gramian: ``comparison``), then a process per size fits it on
all training rows --runs times, with seeds 0, 1, …, and predicts the test rows. Medians. A run goes on where
it stopped; --report makes tables and figures from what is there without measuring. --forget removes the
lines of --sets and --methods and ends, so that the next run measures them anew. --quick: small sets, the
usual sizes, two seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "side_by_side.jsonl"
QUICK_RESULTS = HERE.parent / "build" / "benchmarks" / "quick.jsonl"
DOCS = HERE.parent / "docs"


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sets, usual sizes, two seconds of search")
    parser.add_argument("--sets", help="names, separated by commas (default: all)")
    parser.add_argument("--methods", help="names, separated by commas (default: all installed)")
    parser.add_argument("--seconds", type=float, help="of each search (default 6; 2 with --quick)")
    parser.add_argument("--runs", type=int, help="fits of each size (default 3; 1 with --quick)")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a process (default 60)")
    parser.add_argument("--memory", default="12GB", help="of a process, address space (default 12GB)")
    parser.add_argument("--threads", type=int, default=1, help="of every library (default 1)")
    parser.add_argument("--out", type=Path, help="JSON lines (default benchmarks/results/side_by_side.jsonl)")
    parser.add_argument(
        "--report", type=Path, help="folder for tables and figures, from the lines of --out alone"
    )
    parser.add_argument("--forget", action="store_true", help="remove lines of --sets and --methods, and end")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    options = arguments(given)
    # Before NumPy is imported, which is when libraries read them.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    from suite.methods import absent, available, check
    from suite.report import line_text, write_report
    from suite.results import forget, read
    from suite.runner import run
    from suite.sets import names

    from gramian._budget import parse_bytes
    from gramian.exceptions import GramianError

    out = options.out or (QUICK_RESULTS if options.quick else RESULTS)
    try:
        if options.report is None:
            sets = options.sets.split(",") if options.sets else names(quick=options.quick)
            methods = check(options.methods.split(",")) if options.methods else available()
            if options.forget:
                print(f"removed {forget(out, sets, methods)} lines of {out.name}")
                return 0
            for library, how in absent().items():
                print(f"{library} is not installed and left out; install it {how}")
            lines = run(
                sets,
                methods,
                seconds=options.seconds or (2.0 if options.quick else 6.0),
                runs=options.runs or (1 if options.quick else 3),
                limit=options.limit,
                memory=parse_bytes(options.memory),
                threads=options.threads,
                out=out,
                all_sizes=not options.quick,
            )
            for line in lines:
                print(line_text(line), flush=True)
        folder = options.report or (out.parent if options.quick or options.out else DOCS)
        for written in write_report(read(out), folder):
            print(f"wrote {written}")
    except GramianError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
