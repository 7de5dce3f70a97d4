"""Memory and time of a fit against the number of rows: flat and linear.

python benchmarks/memory.py [--rows 2000000] [--memory 200MB]

64-feature uint8 rows made from scikit-learn's digits lie in a memory-mapped file (128 MB for 2,000,000). Each
fit runs in a process of its own, which samples RssAnon: the memory that is the process's own, without the
page cache of the file. The growth is counted from after the imports and the loading of the labels.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import gramian as gm
from gramian.data import make_digits
from gramian.demo import ALPHA, GAMMA, PeakMemory


def worker(folder: Path, rows: int, memory: str) -> None:
    X = np.load(folder / "rows.npy", mmap_mode="r")
    y = np.load(folder / "labels.npy", mmap_mode="r")
    model = gm.KernelRidgeClassifier(ALPHA, gamma=GAMMA, memory_budget=memory, random_state=0)
    sizes = gm.MultiResolution(root_rank=400, rank=120, n_blocks=64)
    model.set_params(approximation=sizes)
    with PeakMemory() as peak:
        start = time.perf_counter()
        model.fit(X[:rows], y[:rows])
        took = time.perf_counter() - start
    score = model.score(np.load(folder / "test.npy"), np.load(folder / "test_labels.npy"))
    plan = model.plan_
    print(
        f"{rows:9,d} {took:7.2f} {1e6 * took / rows:9.2f} {peak.growth / 1e6:9.1f} "
        f"{plan.peak_bytes / 1e6:11.1f} {plan.used_seconds['bases']:8.2f} "
        f"{plan.used_seconds['sums']:7.2f} {score:9.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--memory", default="200MB")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(Path(args.worker[0]), int(args.worker[1]), args.memory)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = np.random.default_rng(0).permutation(len(load_digits().target))
        cut = len(images) // 5
        for part, count, originals in (("test", 20_000, images[:cut]), ("rows", args.rows, images[cut:])):
            made = make_digits(folder / f"{part}.npy", count, originals=np.sort(originals), random_state=cut)
            labels = "labels.npy" if part == "rows" else "test_labels.npy"
            np.save(folder / labels, made.y)
        print(f"budget {args.memory}; scored on 20,000 rows made from other digits")
        print(
            f"{'rows':>9} {'fit s':>7} {'us/row':>9} {'peak MB':>9} {'planned MB':>11} {'bases s':>8} "
            f"{'sums s':>7} {'accuracy':>9}"
        )
        for share in (16, 8, 4, 2, 1):
            command = [sys.executable, __file__, "--memory", args.memory]
            subprocess.run([*command, "--worker", name, str(args.rows // share)], check=True)


if __name__ == "__main__":
    main()
