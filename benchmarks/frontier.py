"""Error against the time of an answer: gm.compress beside what people deploy, on ten sets.

GRAMIAN_DATA=folder python benchmarks/frontier.py [--quick] [--sets a,b] [--methods ours,lightgbm,...]
    [--rows 10000] [--batch 10000] [--seconds 0.3] [--out FILE] [--report FOLDER]

Everything has one thread. Batches of float32 rows; one row by each library's fastest call. Sizes of boosting
and the settings of DC-Pred++ and LDKL are chosen on held-out training rows. gm.compress and the MLP learn
from the same teacher, whose seconds are part of theirs. Trees get columns as numbers, the others scaled and
one-hot columns; preparing the columns is not timed. --quick: the sets that scikit-learn brings, tiny models.
--report draws the pictures and fills the page from the stored run. Methods whose library is absent are left
out; ``make frontier`` measures in an environment that has them.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "frontier.jsonl"
QUICK_RESULTS = HERE.parent / "build" / "benchmarks" / "quick_frontier.jsonl"
DOCS = HERE.parent / "docs"


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="sets of scikit-learn, tiny models")
    parser.add_argument("--sets", help="names, separated by commas (default: all)")
    parser.add_argument("--methods", help="names, separated by commas (default: all installed)")
    parser.add_argument("--rows", type=int, help="most training rows of a set (default 10,000; 400)")
    parser.add_argument("--batch", type=int, help="rows of a timed batch (default 10,000; 1,000)")
    parser.add_argument("--seconds", type=float, help="of each timing (default 0.3; 0.02)")
    parser.add_argument("--out", type=Path, help="JSON lines (default benchmarks/results/frontier.jsonl)")
    parser.add_argument("--report", type=Path, help="folder of the page, written from --out alone")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    options = arguments(given)
    # Before NumPy is imported, which is when libraries read them.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    from serving.page import write_report
    from serving.problems import QUICK, SETS
    from serving.run import Settings, available, check, line_text, read, run

    from gramian.exceptions import GramianError

    out = options.out or (QUICK_RESULTS if options.quick else RESULTS)
    try:
        if options.report is not None:
            for written in write_report(read(out), options.report):
                print(f"wrote {written}")
            return 0
        sets = options.sets.split(",") if options.sets else list(QUICK if options.quick else SETS)
        methods = check(options.methods.split(",")) if options.methods else available()
        usual = Settings(400, 1_000, 0.02, True) if options.quick else Settings(10_000, 10_000, 0.3)
        settings = Settings(
            options.rows or usual.n_rows,
            options.batch or usual.batch_rows,
            options.seconds or usual.seconds,
            usual.quick,
        )
        for line in run(sets, methods, settings, out):
            print(line_text(line), flush=True)
    except GramianError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
