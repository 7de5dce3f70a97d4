"""Run many random cases over processes, store what happened, and write the table of docs/reliability.md.

    python tests/adversary/run.py --cases 10000 --seed 1 --jobs 2
    python tests/adversary/run.py --report docs/reliability.md

Failures are made smaller and written as scripts into build/adversary/. The exit status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import math
import os
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

# One BLAS thread a process, before NumPy is loaded here and in the workers.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from suite.machine import describe
from tqdm import tqdm

from adversary import beside
from adversary.cases import close_files, script
from adversary.draw import draw
from adversary.judge import LIMIT, Failure, Verdict, judged
from adversary.laws import LAWS
from adversary.shrink import shrink, why

RESULT = ROOT / "benchmarks" / "results" / "reliability.json"
SCRIPTS = ROOT / "build" / "adversary"
#: Cases that a worker takes at a time, and failures that are made smaller at most.
BATCH, SHRUNK = 25, 20
#: Limits of a case after which its process is ended.
HARD = 3.0
MARKS = ("<!-- table: begin -->", "<!-- table: end -->")


def batch(seed: int, numbers: range) -> list[Verdict]:
    """Judge some cases in this process."""
    found = []
    for number in numbers:
        end_process_after(HARD * LIMIT)
        found.append(judged(seed, number))
    close_files()
    return found


def end_process_after(seconds: float) -> None:
    """End this process, with its traceback, after further seconds of processor time of all its threads.

    A compiled loop hears no signal that Python handles: the process ends, and the case is found by itself.
    """
    faulthandler.register(signal.SIGXCPU, chain=True)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds), most))


def crashed(seed: int, number: int) -> Verdict:
    """Return the verdict of a case whose process died."""
    case = draw(seed, number)
    text = f"the process died, or was ended after {HARD * LIMIT:g} s of processor time"
    return Verdict(number, case, [Failure("no crash", case, text, float("inf"))])


def alone(seed: int, numbers: range) -> list[Verdict]:
    """Judge the cases of a batch that died, each in a process of its own."""
    found = []
    for number in numbers:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            try:
                found += pool.submit(batch, seed, range(number, number + 1)).result()
            except BrokenProcessPool:
                found.append(crashed(seed, number))
    return found


def run(seed: int, cases: int, jobs: int) -> list[Verdict]:
    """Judge cases over processes; a process that dies costs its case only."""
    batches = [range(start, min(cases, start + BATCH)) for start in range(0, cases, BATCH)]
    verdicts: list[Verdict] = []
    with tqdm(total=cases, unit="case", smoothing=0.05) as bar:
        while batches:
            with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
                waiting = {pool.submit(batch, seed, numbers): numbers for numbers in batches}
                batches, dead = [], []
                for done in as_completed(waiting):
                    try:
                        found = done.result()
                    except BrokenProcessPool:
                        dead.append(waiting[done])
                        continue
                    verdicts += found
                    for failure in (failure for verdict in found for failure in verdict.failures):
                        bar.write(f"{failure.case!r}: {failure.law}: {failure.text[:200]}", file=sys.stderr)
                    bar.update(len(found))
                    bar.set_postfix(failed=sum(bool(v.failures) for v in verdicts), refresh=False)
            # The pool is gone with the one that died: the first of what is left is judged by itself.
            for numbers in dead[:jobs]:
                verdicts += alone(seed, numbers)
                bar.update(len(numbers))
            batches = dead[jobs:]
    return sorted(verdicts, key=lambda verdict: verdict.number)


def run_beside(seed: int, cases: int, jobs: int) -> dict[str, Any]:
    """Make the checks that go with so many cases, over processes, and return their summary."""
    outcomes: list[beside.Outcome] = []
    tasks = beside.tasks(cases)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(beside.judged, kind, seed, number): (kind, number) for kind, number in tasks}
        for done in tqdm(as_completed(waiting), total=len(waiting), unit="check", smoothing=0.05):
            try:
                outcomes.append(done.result())
            except BrokenProcessPool:
                outcomes.append(beside.Outcome(*waiting[done], "a process died during this or another check"))
    return beside.summary(outcomes)


def write_scripts(verdicts: list[Verdict], folder: Path, most: int = SHRUNK) -> list[dict[str, Any]]:
    """Make failures smaller, a few of each law, and write each as a script; return them as records."""
    folder.mkdir(parents=True, exist_ok=True)
    records, seen = [], Counter[str]()
    failures = [(verdict, failure) for verdict in verdicts for failure in verdict.failures]
    for verdict, failure in failures:
        case, text = failure.case, failure.text
        seen[failure.law] += 1
        if failure.law in LAWS and seen[failure.law] <= 3 and len(records) < most:
            case = shrink(case, failure.law)
            text = why(case, failure.law) or text
        path = folder / f"case_{verdict.number}_{failure.law.replace(' ', '_')}.py"
        law = failure.law if failure.law in LAWS else "fits"
        path.write_text(script(case, law, text), encoding="utf-8")
        records.append({"number": verdict.number, "law": failure.law, "case": repr(case), "text": text[:400]})
    close_files()
    return records


def summary(verdicts: list[Verdict], seed: int, jobs: int, seconds: float) -> dict[str, Any]:
    """Return what is stored of a run."""
    estimators = Counter(v.case.estimator for v in verdicts)
    broken, worst = Counter[str](), defaultdict[str, float](float)
    failed = Counter(v.case.estimator for v in verdicts if v.failures)
    for verdict in verdicts:
        broken.update(failure.law for failure in verdict.failures)
        for law, excess in verdict.worst.items():
            worst[law] = max(worst[law], excess)
    return {
        **describe(threads=1),
        "seed": seed,
        "cases": len(verdicts),
        "failed": sum(bool(v.failures) for v in verdicts),
        "refused": sum(bool(v.refused) for v in verdicts),
        "beyond float64": sum(v.vacuous for v in verdicts),
        "seconds": round(seconds, 1),
        "slowest": round(max(v.seconds for v in verdicts), 1),
        "limit": LIMIT,
        "jobs": jobs,
        "by estimator": {k: [n, failed[k]] for k, n in sorted(estimators.items())},
        "by law": {k: [broken[k], float(f"{worst[k]:.2g}")] for k in sorted({*worst, *broken})},
    }


def table(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    lines = [
        f"{result['cases']:,} cases of seed {result['seed']} on {result['day']}, commit "
        f"{result['commit']}: {result['failed']} failed, {result['refused']} were refused with a reason that "
        f"is documented, in {result['beyond float64']} alpha was smaller than what float64 resolves of K. "
        f"{result['seconds'] / 60:.0f} minutes on {result['jobs']} processes, "
        f"{result['slowest']:.1f} s for the slowest case. {result['processor']}; Python {result['python']}; "
        f"{versions}.",
        "",
        "| law | failed | largest error / tolerance |",
        "|---|---|---|",
        *(f"| {k} | {bad} | {worst:.2g} |" for k, (bad, worst) in result["by law"].items()),
        "",
        "| estimator | cases | failed |",
        "|---|---|---|",
        *(f"| `{k}` | {n:,} | {bad} |" for k, (n, bad) in result["by estimator"].items()),
        "",
        "| beside them | checks | failed | mean, of what was asked |",
        "|---|---|---|---|",
    ]
    for kind, own in result["beside"].items():
        mean = ""
        if "mean" in own:
            mean = f"{own['mean']:.3f} ± {own['standard error']:.3f}, of {own['asked']:g}"
        lines.append(f"| {kind} | {own['checks']:,} | {len(own['failures'])} | {mean} |")
    return "\n".join(lines)


def report(page: Path, result: dict[str, Any]) -> None:
    """Write the table between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    page.write_text(f"{before}{MARKS[0]}\n\n{table(result)}\n\n{MARKS[1]}{after}", encoding="utf-8")


def main() -> int:
    """Run cases, or write the report of the run that is stored."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=0, help="cases to draw and judge")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--report", type=Path, help="page whose table is written from the stored result")
    parser.add_argument("--result", type=Path, default=RESULT, help="JSON file of the result")
    chosen = parser.parse_args()
    failed = 0
    if chosen.cases:
        began = time.perf_counter()
        verdicts = run(chosen.seed, chosen.cases, chosen.jobs)
        found = summary(verdicts, chosen.seed, chosen.jobs, time.perf_counter() - began)
        found["failures"] = write_scripts(verdicts, SCRIPTS)
        found["beside"] = run_beside(chosen.seed, chosen.cases, chosen.jobs)
        failures = [text for own in found["beside"].values() for text in own["failures"]]
        failed = found["failed"] + len(failures)
        chosen.result.parent.mkdir(parents=True, exist_ok=True)
        chosen.result.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(table(found))
        for record in found["failures"]:
            print(f"case {record['number']}, {record['law']}: {record['text'][:200]}")
        print(*failures, sep="\n")
    if chosen.report:
        report(chosen.report, json.loads(chosen.result.read_text(encoding="utf-8")))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
