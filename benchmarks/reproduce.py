"""The tables and figures of the five papers, measured here beside the papers' numbers.

GRAMIAN_DATA=folder python benchmarks/reproduce.py [--quick] [--only meka survey kals bbf dcpred]
    [--items "table 2" ...] [--sets a b] [--again] [--threads 2] [--report]

Measures every item of every paper on each of its sets, and stores a line for each number in
benchmarks/results/papers.jsonl; what is there already is left alone unless --again is given, so that a run
that was stopped goes on. --quick: fewer rows, seeds and sets, in minutes, stored under build/. --report:
writes the tables and pictures of all stored lines into the pages of docs/ and measures nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
SETS = "docs/benchmarks.md says where each set comes from. A new run goes on from the lines that are stored."


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="in minutes: fewer rows, seeds and sets")
    parser.add_argument("--only", nargs="+", metavar="PAPER", help="papers (default: all)")
    parser.add_argument("--items", nargs="+", metavar="ITEM", help='tables and figures, such as "table 2"')
    parser.add_argument("--sets", nargs="+", metavar="SET", help="data sets of the items")
    parser.add_argument("--again", action="store_true", help="measure also what there are lines of")
    parser.add_argument("--threads", type=int, default=2, help="of every method (default 2)")
    parser.add_argument("--report", action="store_true", help="write the pages from the stored lines")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    options = arguments(given)
    # Before NumPy is imported, which is when libraries read them.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    from gramian.exceptions import InputError

    try:
        return report() if options.report else reproduce(options)
    except InputError as error:  # a set that is neither in the folder of sets nor to be fetched
        print(f"{error}\n{SETS}", file=sys.stderr)
        return 1


def reproduce(options: argparse.Namespace) -> int:
    """Measure what the options ask for, and print and store a line for each number."""
    from papers.catalogue import PAPERS, chosen
    from papers.items import Run
    from papers.lines import QUICK_RESULTS, RESULTS, measure, read
    from papers.page import number

    path = QUICK_RESULTS if options.quick else RESULTS
    run = Run(options.quick)
    there = {(line["paper"], line["item"], line["set"]) for line in read(path)}
    for paper, item in chosen(PAPERS, options.only, options.items):
        for name in item.sets[:1] if options.quick else item.sets:
            if options.sets and name not in options.sets:
                continue
            if (paper.key, item.name, name) in there and not options.again:
                continue
            began = time.perf_counter()
            print(f"{paper.key}, {item.name}, {name}", flush=True)
            for line in measure(paper, item, name, run, path, options.threads):
                printed = "" if line["published"] is None else f"   (paper {number(line['published'])})"
                setting = ", ".join(f"{key} {value}" for key, value in line["setting"].items())
                value = f"{line['measure']:20} {number(line['value']):>10}"
                print(f"  {line['method']:30} {setting:44} {value}{printed}", flush=True)
            print(f"  {time.perf_counter() - began:.0f} s", flush=True)
    return 0


def report(folder: Path = REPOSITORY / "docs") -> int:
    """Write tables and pictures into every page that asks for them."""
    from papers.catalogue import PAPERS
    from papers.lines import RESULTS, read
    from papers.page import draw, filled, marked

    lines = read(RESULTS)
    for page in sorted(folder.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if marked(text):
            new = filled(text, PAPERS, lines, way_to_pictures(page, folder))
            if new != text:
                page.write_text(new, encoding="utf-8")
                print(page)
    for paper in PAPERS:
        for item in paper.items:
            draw(paper, item, lines, folder / "papers" / "figures")
    return 0


def way_to_pictures(page: Path, folder: Path) -> str:
    """Return the relative path from a page to the pictures of the papers."""
    return Path(os.path.relpath(folder / "papers" / "figures", page.parent)).as_posix()


if __name__ == "__main__":
    sys.exit(main())
