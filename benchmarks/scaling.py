"""Memory and time of a fit against rows, threads and kinds of file: flat and linear.

python benchmarks/scaling.py [--rows 2000000] [--memory 200MB] [--file-rows 200000]

64-feature uint8 rows made from scikit-learn's digits lie in a memory-mapped file (128 MB for 2,000,000). Each
fit runs in a process of its own, which samples RssAnon: the memory that is the process's own, without the
page cache of the file. The growth is counted from after the imports and the loading of the labels. First the
rows grow, then the threads, then ``--file-rows`` of them come from files of several kinds (written here)
through ``gm.open_data``: what decoding costs beside the sums.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from comparison import PeakMemory
from sklearn.datasets import load_digits
from suite.datasets import make_digits

import gramian as gm

ALPHA = 0.1
#: exp(-‖x − y‖²/(2ℓ²)) with ℓ = 300: digits with pixels 0..255 are about 600 apart.
GAMMA = 1.0 / (2.0 * 300.0**2)


def opened(folder: Path, rows: int, kind: str) -> tuple[object, object]:
    """Return rows and labels of a kind of file."""
    if kind == "npy":
        X, y = (np.load(folder / f"{name}.npy", mmap_mode="r")[:rows] for name in ("rows", "labels"))
        return X, y
    return gm.open_data(folder / f"rows.{kind}", target="label"), None


def write(folder: Path, rows: int) -> None:
    """Write some of the rows as Parquet and CSV."""
    X, y = np.load(folder / "rows.npy", mmap_mode="r")[:rows], np.load(folder / "labels.npy")[:rows]
    table = pa.table({**{f"p{j}": X[:, j] for j in range(X.shape[1])}, "label": y})
    pq.write_table(table, folder / "rows.parquet", row_group_size=50_000)
    pyarrow.csv.write_csv(table, folder / "rows.csv")


def worker(folder: Path, rows: int, memory: str, threads: int, kind: str) -> None:
    began = time.perf_counter()
    X, y = opened(folder, rows, kind)
    opening = time.perf_counter() - began
    model = gm.KernelRidgeClassifier(
        ALPHA, gamma=GAMMA, memory_budget=memory, random_state=0, n_jobs=threads or None
    )
    sizes = gm.MultiResolution(root_rank=400, rank=120, n_blocks=64)
    model.set_params(approximation=sizes)
    with PeakMemory() as peak:
        start = time.perf_counter()
        model.fit(X, y)
        took = time.perf_counter() - start
    warnings.simplefilter("ignore", UserWarning)  # the test rows have no names of columns
    score = model.score(np.load(folder / "test.npy"), np.load(folder / "test_labels.npy"))
    plan = model.plan_
    print(
        f"{kind:8} {threads or 'all':>7} {rows:9,d} {opening:7.2f} {took:7.2f} "
        f"{1e6 * took / rows:9.2f} {peak.growth / 1e6:9.1f} "
        f"{plan.peak_bytes / 1e6:11.1f} {plan.used_seconds['bases']:8.2f} "
        f"{plan.used_seconds['sums']:7.2f} {score:9.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--memory", default="200MB")
    parser.add_argument("--file-rows", type=int, default=200_000)
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        folder, rows, threads, kind = args.worker
        worker(Path(folder), int(rows), args.memory, int(threads), kind)
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
            f"{'file':8} {'threads':>7} {'rows':>9} {'open s':>7} {'fit s':>7} {'us/row':>9} {'peak MB':>9} "
            f"{'planned MB':>11} {'bases s':>8} {'sums s':>7} {'accuracy':>9}"
        )
        write(folder, args.file_rows)
        runs = [(args.rows // share, 0, "npy") for share in (20, 10, 4, 2, 1)]
        runs += [(args.rows // 4, threads, "npy") for threads in (1, 2)]
        runs += [(args.file_rows, 0, kind) for kind in ("npy", "parquet", "csv")]
        for rows, threads, kind in runs:
            command = [sys.executable, __file__, "--memory", args.memory, "--worker", name]
            subprocess.run([*command, str(rows), str(threads), kind], check=True)


if __name__ == "__main__":
    main()
