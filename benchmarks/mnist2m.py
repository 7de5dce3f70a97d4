"""Two million deformed digits: kernel ridge in one pass within 500 MB, beside what else fits there.

GRAMIAN_DATA=folder python benchmarks/mnist2m.py [--rows 2000000] [--folder FOLDER] [--memory 500MB]
    [--methods ours,meka,growth,subset,nystroem] [--peer-rows 200000]

Rows are made once from mnist.npz by shifts, rotations and elastic fields (2,000,000 x 784 bytes in FOLDER, by
default in the system's folder for temporary files) and read from there; errors are on MNIST's own 10,000 test
images. "ours": ten classes; a root of 500 and two levels of blocks below it, of rank 350, 28 at the leaves.
"meka": MEKA with 40 blocks of rank 80. "growth": ours on 5, 10, 25 and 50 % of the rows. "subset": the exact
model on 20,000 rows. "nystroem": scikit-learn's Nystroem and a streaming ridge on its features, with as many
components as the memory holds, on ``--peer-rows`` of the rows. The papers' task, a regression on two digits,
is the item "two million rows" of benchmarks/papers/meka.py.

Each method runs in a process of its own. "peak MB" is what the process's own memory (RssAnon) grew by: the
page cache of the file is not counted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import scipy.linalg as la
from comparison import PeakMemory
from deformed_digits import make
from sklearn.kernel_approximation import Nystroem
from suite.datasets import load_dataset

import gramian as gm
from gramian._budget import parse_bytes

#: gamma of pixels in [0, 1], and alpha.
GAMMA, ALPHA = 0.04, 0.02
APPROXIMATIONS = {
    "multi-resolution": gm.MultiResolution(
        root_rank=500, rank=350, n_blocks=28, n_levels=3, oversampling=1.0
    ),
    "MEKA": gm.MEKA(rank=80, n_blocks=40),
}
#: gamma and alpha of the exact model on few rows, at which it is best.
FEW_GAMMA, FEW_ALPHA = 0.03, 0.1
SHARES = (0.05, 0.1, 0.25, 0.5)
CHUNK = 4_096


def line(name: str, rows: int, error: float, fit: float, predict: float, peak: float, phases: str) -> None:
    print(
        f"{name:34} {rows:9,d} {error:8.4f} {fit:8.1f} {1e6 * fit / rows:8.1f} {predict:10.2f} {peak:8.0f}  "
        f"{phases}",
        flush=True,
    )


def compressed(
    name: str, X: np.ndarray, y: np.ndarray, test: np.ndarray, truth: np.ndarray, memory: str
) -> None:
    model = gm.KernelRidgeClassifier(
        ALPHA,
        gamma=GAMMA / 255.0**2,
        approximation=APPROXIMATIONS[name],
        memory_budget=memory,
        random_state=0,
    )
    with PeakMemory() as peak:
        begin = time.perf_counter()
        model.fit(X, y)
        fit = time.perf_counter() - begin
    begin = time.perf_counter()
    found = model.predict(test)
    predict = time.perf_counter() - begin
    error = np.mean(found != truth)
    used = model.plan_.used_seconds
    phases = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in used.items())
    line(f"{name}, rank {model.rank_:,}", len(X), error, fit, predict, peak.growth / 1e6, phases)


def exact(X: np.ndarray, y: np.ndarray, test: np.ndarray, truth: np.ndarray, memory: str) -> None:
    rows = np.ascontiguousarray(X[:20_000])
    model = gm.KernelRidgeClassifier(
        FEW_ALPHA, gamma=FEW_GAMMA / 255.0**2, approximation="exact", memory_budget="4GB", random_state=0
    )
    with PeakMemory() as peak:
        begin = time.perf_counter()
        model.fit(rows, y[:20_000])
        fit = time.perf_counter() - begin
    begin = time.perf_counter()
    error = np.mean(model.predict(test) != truth)
    line("exact", 20_000, error, fit, time.perf_counter() - begin, peak.growth / 1e6, "")


def nystroem(X: np.ndarray, y: np.ndarray, test: np.ndarray, truth: np.ndarray, memory: str) -> None:
    # Its Gram matrix, vectors and inverse root while they are made; then the features' Gram matrix, a chunk.
    count = int(np.sqrt(parse_bytes(memory) / (8 * 5.5)))
    classes = np.unique(y[:100_000])
    with PeakMemory() as peak:
        begin = time.perf_counter()
        sample = np.sort(np.random.default_rng(0).choice(len(X), count, replace=False))
        mapping = Nystroem(gamma=GAMMA, n_components=count, random_state=0)
        mapping.fit(X[sample].astype(np.float32) / 255)
        built = time.perf_counter() - begin
        gram, right = np.zeros((count, count)), np.zeros((count, len(classes)))
        for start in range(0, len(X), CHUNK):
            F = mapping.transform(X[start : start + CHUNK].astype(np.float32) / 255)
            gram += F.T @ F
            right += F.T @ np.where(y[start : start + CHUNK, None] == classes, 1.0, -1.0)
        gram.flat[:: count + 1] += ALPHA
        coefficients = la.solve(gram, right, assume_a="pos", overwrite_a=True)
        fit = time.perf_counter() - begin
    begin = time.perf_counter()
    values = mapping.transform(test.astype(np.float32) / 255) @ coefficients
    error = np.mean(classes[values.argmax(axis=1)] != truth)
    predict = time.perf_counter() - begin
    phases = f"bases {built:.1f}, pass and solve {fit - built:.1f}"
    line(f"Nystroem({count}) + ridge", len(X), error, fit, predict, peak.growth / 1e6, phases)


METHODS: dict[str, Callable[..., None]] = {
    "ours": partial(compressed, "multi-resolution"),
    "meka": partial(compressed, "MEKA"),
    "subset": exact,
    "nystroem": nystroem,
}


def worker(method: str, files: list[str], rows: int, memory: str) -> None:
    warnings.simplefilter("ignore", gm.NumericalWarning)
    X, y = np.load(files[0], mmap_mode="r")[:rows], np.load(files[1])[:rows]
    data = load_dataset("mnist")
    test, truth = data.X[data.n_train :], data.y[data.n_train :]
    METHODS[method](X, y, test, truth, memory)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "gramian-mnist2m")
    parser.add_argument("--memory", default="500MB")
    parser.add_argument("--methods", default="ours,meka,growth,subset,nystroem")
    parser.add_argument("--peer-rows", type=int, default=200_000)
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        method, rows, *files = args.worker
        worker(method, files, int(rows), args.memory)
        return
    files = make(args.folder, args.rows)
    print(f"{args.rows:,} rows of 784 bytes, budget {args.memory}; errors on MNIST's 10,000 test images")
    print(
        f"{'method':34} {'rows':>9} {'error':>8} {'fit s':>8} {'us/row':>8} {'predict s':>10} "
        f"{'peak MB':>8}  phases"
    )
    for method in args.methods.split(","):
        runs = [("ours", int(share * args.rows)) for share in SHARES] if method == "growth" else []
        alone = min(args.rows, args.peer_rows) if method == "nystroem" else args.rows
        for name, rows in runs or [(method, alone)]:
            command = [sys.executable, __file__, "--memory", args.memory, "--worker", name, str(rows)]
            subprocess.run([*command, *map(str, files)], check=True)


if __name__ == "__main__":
    main()
