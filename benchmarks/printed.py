"""Outputs of the benchmark scripts: stored, and written into the pages that show them.

GRAMIAN_DATA=folder python benchmarks/printed.py [NAME ...] [--again] [--report]

Runs each script of SCRIPTS in a process of its own, and stores its output with commit, versions, machine and
date in benchmarks/results/printed.jsonl; what is there already is left alone unless --again is given.
--report: writes the stored outputs into every page of docs/ and the README that asks for one, between
``<!-- printed: NAME -->`` and ``<!-- end -->``, and runs nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from papers.lines import provenance
from printed_tables import TABLES

REPOSITORY = Path(__file__).parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results" / "printed.jsonl"
MARKED = re.compile(r"(<!-- printed: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
THREADS = 2

#: The script and its options, by the name that pages use.
SCRIPTS = {
    "fast": "fast_prediction.py --runs 1",
    "fast-all": "fast_all_sets.py",
    "tiles": "tiles.py --rows 50000 --threads 1 --repeat 5",
    "covtype": "covtype.py",
    "mnist": "mnist.py",
    "auto": "auto.py --sets wine,cadata,pendigits,letter,ijcnn1,covtype_100k --gammas 1,10",
    "exact": "exact.py --sets pendigits,cadata --rows 10000 --alphas 1e-2,1e-5 --limit 8",
    "crossover": "exact.py --crossover",
    "objective": "exact.py --objective",
    "model-selection": "model_selection.py --n-jobs 2",
    "gp": "gp.py --table",
    "which": "which.py --sets cadata,pendigits,covtype_100k",
    "sources": "sources.py",
    "scaling": "scaling.py --rows 1000000",
    "dask": "dask_scaling.py",
    "intervals": "intervals.py",
}


def run(name: str) -> dict[str, Any]:
    """Return a script's output with what it was made of."""
    script, *options = SCRIPTS[name].split()
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(THREADS))
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "benchmarks" / script), *options],
        env=os.environ | threads,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds = round(time.perf_counter() - start, 1)
    text = "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines())
    return {
        "name": name,
        "command": f"python benchmarks/{SCRIPTS[name]}",
        "text": text,
        "seconds": seconds,
        "threads": THREADS,
        **provenance(THREADS),
    }


def read(path: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Return the stored outputs by name."""
    if not path.exists():
        return {}
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    return {line["name"]: line for line in lines}


def write(outputs: dict[str, dict[str, Any]], path: Path = RESULTS) -> None:
    """Store outputs, one a line."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in outputs.values())
    path.write_text(text, encoding="utf-8")


def filled(text: str, outputs: dict[str, dict[str, Any]]) -> str:
    """Return a page with every output that it asks for."""

    def block(found: re.Match[str]) -> str:
        line = outputs[found[2]]
        origin = (
            f"`{line['command']}` prints this. "
            f"Stored run: {line['date']}, commit {line['commit']}, {line['machine']}."
        )
        table = TABLES.get(found[2])
        shown = f"```text\n{line['text']}\n```" if table is None else table(line["text"])
        return f"{found[1]}\n{shown}\n\n{origin}\n\n{found[3]}"

    return MARKED.sub(block, text)


def pages() -> list[Path]:
    """Return the pages that may show an output."""
    return [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCRIPTS)} (default: all)")
    parser.add_argument("--again", action="store_true", help="run also what is stored")
    parser.add_argument("--report", action="store_true", help="write the pages from what is stored")
    args = parser.parse_args()
    unknown = set(args.names) - set(SCRIPTS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(SCRIPTS)}")
    if not args.report:
        for name in args.names or SCRIPTS:
            if args.again or name not in read():
                print(name, flush=True)
                line = run(name)
                write(read() | {name: line})
                print(line["text"], f"({line['seconds']} s)", sep="\n", flush=True)
        return
    outputs = read()
    for page in pages():
        text = page.read_text(encoding="utf-8")
        new = filled(text, outputs)
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(page)


if __name__ == "__main__":
    main()
