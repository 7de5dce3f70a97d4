"""Seconds of the same work at two commits, in one run: tiles, covertype, tables, exact systems and a process.

GRAMIAN_DATA=folder python benchmarks/two_commits.py OLD NEW [--repeat 5] [--threads 2] [--only NAME ...]

OLD and NEW are commits of this repository, each unpacked into a folder of its own. A case runs once at one
commit and once at the other, in turn, each in a fresh process, and again --repeat times. The seconds of a
process are of the work alone: imports and data are there before. The table has the medians, and the median
of the ratios of each pair, which a machine that slows down in the middle moves less than the ratio of
medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).parents[1]
RESULT = Path(__file__).parent / "results" / "two_commits.json"
ROWS = 10_000  #: of a table, half of them to learn from


def standardised(name: str, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows in a random order, each feature of deviation 1, and their targets."""
    from suite.datasets import load_dataset

    data = load_dataset(name)
    order = np.random.default_rng(0).permutation(len(data.y))[:n_rows]
    X = np.asarray(data.X, np.float64)[order]
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), data.y[order]


def tiles(dtype: str) -> Iterator[Callable[[], object]]:
    import gramian as gm

    X = np.random.default_rng(0).standard_normal((100_000, 54)).astype(dtype)
    kernel, Z = gm.Gaussian(lengthscale=np.sqrt(54.0)), X[:1000].copy()
    kernel(X[:5000], Z)
    yield lambda: kernel(X, Z)


def covertype() -> Iterator[Callable[[], object]]:
    """The fit, then its predictions for the other 20,000 rows, ten times."""
    import gramian as gm

    X, y = standardised("covtype_100k", 100_000)
    X, wanted = X.astype(np.float32), np.where(y == 2, 1, -1)
    sizes = gm.MultiResolution(root_rank=400, n_blocks=150, rank=200, oversampling=1.0)
    model = gm.KernelRidgeClassifier(
        0.1, gamma=0.3, approximation=sizes, memory_budget="1.5GB", random_state=0
    )
    yield lambda: model.fit(X[:80_000], wanted[:80_000])
    yield lambda: [model.predict(X[80_000:]) for _ in range(10)]


def table(name: str) -> Iterator[Callable[[], object]]:
    """A fit on at most 5,000 rows, then predictions of as many: kernel models alone, as at older commits."""
    import gramian as gm

    X, y = standardised(name, ROWS)
    half = len(X) // 2
    numbers = y.dtype.kind == "f"
    model = (gm.TabularRegressor if numbers else gm.TabularClassifier)(random_state=0)
    if "include" in model.get_params():
        model.set_params(include=())
    yield lambda: model.fit(X[:half], y[:half])
    yield lambda: model.predict(X[half:])


def exact(name: str, gamma: float, alpha: float) -> Iterator[Callable[[], object]]:
    import gramian as gm

    X, y = standardised(name, 8000)
    target = y.astype(np.float64) if y.dtype.kind == "f" else np.where(y == y[0], 1.0, -1.0)
    model = gm.KernelRidge(alpha, gamma=gamma, approximation=gm.Exact(), random_state=0)
    yield lambda: model.fit(X, target)
    yield lambda: model.predict(X)


def process() -> Iterator[Callable[[], object]]:
    """A Gaussian process without the factors of its bands, which older commits do not have."""
    import gramian as gm

    X, y = standardised("cadata", 8000)
    model = gm.GaussianProcessRegressor(calibration=None, random_state=0)
    yield lambda: model.fit(X[:4000], y[:4000])
    yield lambda: model.predict(X[4000:], return_std=True)


#: What is done, a step or several, by the case's name: steps are timed one by one.
CASES: dict[str, Callable[[], Iterator[Callable[[], object]]]] = {
    "tiles, float32": lambda: tiles("float32"),
    "tiles, float64": lambda: tiles("float64"),
    "covtype_100k, multi-resolution": covertype,
    "table, cpusmall": lambda: table("cpusmall"),
    "table, spambase": lambda: table("spambase"),
    "table, wine": lambda: table("wine"),
    "exact, cadata, alpha 1e-2": lambda: exact("cadata", 1.0, 1e-2),
    "exact, pendigits, alpha 1e-5": lambda: exact("pendigits", 0.1, 1e-5),
    "process, cadata": process,
}
STEPS = ("fit", "predict")


def once(case: str) -> list[float]:
    took = []
    for step in CASES[case]():
        began = time.perf_counter()
        step()
        took.append(time.perf_counter() - began)
    return took


def in_process(case: str, source: Path, threads: int) -> list[float]:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    path = os.pathsep.join([str(source.resolve()), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, **dict.fromkeys(names, str(threads)), "PYTHONPATH": path}
    ran = subprocess.run(
        [sys.executable, __file__, "--case", case], env=env, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(f"{case} at {source} failed:\n{ran.stderr}")
    return list(json.loads(ran.stdout.splitlines()[-1]))


def unpacked(commit: str, folder: Path) -> Path:
    """Return the folder with the sources of ``commit``."""
    target = folder / commit
    target.mkdir()
    packed = subprocess.run(
        ["git", "archive", commit, "src"], cwd=REPOSITORY, capture_output=True, check=True
    )
    subprocess.run(["tar", "-x", "-C", str(target)], input=packed.stdout, check=True)
    return target / "src"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commits", nargs="*", metavar="COMMIT", help="the old one, then the new one")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES), metavar="NAME")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--case", choices=list(CASES), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(once(args.case)))
        return
    if len(args.commits) != 2:
        parser.error(f"expected two commits, the old and the new one; got {len(args.commits)}")
    from suite.machine import describe

    print(f"{'work':34} {'step':8} {'old, s':>8} {'new, s':>8} {'new / old':>10}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        sources = [unpacked(commit, Path(folder)) for commit in args.commits]
        for case in args.only:
            pairs = []
            for repeat in range(args.repeat):
                order = sources if repeat % 2 == 0 else sources[::-1]
                both = {source: in_process(case, source, args.threads) for source in order}
                pairs.append([both[source] for source in sources])
            for step, name in enumerate(STEPS[: len(pairs[0][0])]):
                old, new = ([pair[side][step] for pair in pairs] for side in (0, 1))
                ratio = statistics.median(b / a for a, b in zip(old, new))
                rows.append([case, name, statistics.median(old), statistics.median(new), ratio])
                print(f"{case:34} {name:8} {rows[-1][2]:8.3f} {rows[-1][3]:8.3f} {ratio:10.3f}", flush=True)
    result = {**describe(args.threads), "commits": args.commits, "repeat": args.repeat, "rows": rows}
    args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
