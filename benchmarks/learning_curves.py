"""Errors of gramian and CatBoost by the number of training rows, judged on the same test rows.

GRAMIAN_DATA=folder python benchmarks/learning_curves.py [--sets a,b]

Sets are split as by ``tables.py --full``; every fit has a process of its own. Results are appended to
results/learning_curves.jsonl, and a run goes on where it stopped. ``tables.py --full --report docs`` makes
the page of them. CatBoost is in the environment that ``make peers`` makes.
"""

from __future__ import annotations

import argparse
import os

THREADS, LIMIT, MEMORY = 2, 600.0, 12e9


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", help="names, separated by commas (default: eight)")
    options = parser.parse_args()
    # Before NumPy is imported, which is when libraries read them.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(THREADS)
    from suite import table_curves, table_full

    sets = options.sets.split(",") if options.sets else list(table_curves.SETS)
    for line in table_curves.run_curves(sets, table_full.ROWS, THREADS, LIMIT, MEMORY):
        told = line["failure"] if "failure" in line else f"{table_curves.error(line):.4f}"
        print(f"{line['set']:16} {line['method']:10} {line['size']!s:>7} {told}", flush=True)


if __name__ == "__main__":
    main()
