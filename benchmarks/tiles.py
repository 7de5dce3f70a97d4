"""Kernel tiles by compiled loops and by NumPy, beside scikit-learn's kernels, in one run.

python benchmarks/tiles.py [--rows 100000] [--columns 1000] [--repeat 7] [--threads 1]

"NumPy" and "compiled": k(X, Z) into fresh memory by NumPy and SciPy and by compiled loops (numba), beside
scikit-learn's kernel. "pass": compiled, tile by tile into memory that is used again, as every pass of the
library over the data does. The best of the repeats, in turn: other work on the machine counts as little as
it can. With one thread the seconds are the processor's, with more they are the clock's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

import gramian as gm
from gramian._tiles import row_slices, tile_rows
from gramian.engine import Engine
from gramian.kernels import compiled
from gramian.kernels.base import CHUNK_ROWS

#: Features of the rows, by scikit-learn's kernel.
FEATURES = {"rbf_kernel": 54, "laplacian_kernel": 20}


def seconds(function: Callable[[], object], threads: int) -> float:
    clock = time.process_time if threads == 1 else time.perf_counter
    start = clock()
    function()
    return clock() - start


def one_pass(kernel: gm.Kernel, X: np.ndarray, Z: np.ndarray, threads: int) -> None:
    """All entries of k(X, Z), a chunk at a time, none of them kept."""
    columns = kernel.against(Z, X.dtype)
    rows = tile_rows(len(Z), X.itemsize)

    def fill(chunk: slice) -> None:
        tile = np.empty((rows, len(Z)), X.dtype)
        for part in row_slices(chunk.stop - chunk.start, rows):
            piece = X[chunk.start + part.start : chunk.start + part.stop]
            columns.write(piece, tile[: len(piece)])

    with compiled.part_of_block(len(X), len(Z)):
        Engine(threads).run(fill, row_slices(len(X), 4 * CHUNK_ROWS))


def by(least: int, work: Callable[[], object]) -> None:
    """Do work with compiled loops for blocks of at least so many numbers."""
    before, compiled.LEAST_ENTRIES = compiled.LEAST_ENTRIES, least
    work()
    compiled.LEAST_ENTRIES = before


def measure(name: str, dtype: Any, args: argparse.Namespace) -> str:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((args.rows, FEATURES[name])).astype(dtype)
    Z = X[: args.columns].copy()
    gamma = 0.5 / FEATURES[name]
    peer = rbf_kernel if name == "rbf_kernel" else laplacian_kernel
    kernel = gm.Gaussian(np.sqrt(0.5 / gamma)) if peer is rbf_kernel else gm.Laplacian(1.0 / gamma)
    jobs: dict[str, Callable[[], object]] = {
        "peer": lambda: peer(X, Z, gamma=gamma),
        "numpy": lambda: by(10**18, lambda: kernel(X, Z, n_jobs=args.threads)),
        "block": lambda: by(0, lambda: kernel(X, Z, n_jobs=args.threads)),
        "pass": lambda: by(0, lambda: one_pass(kernel, X, Z, args.threads)),
    }
    times: dict[str, list[float]] = {job: [] for job in jobs}
    for repeat in range(args.repeat + 1):
        for job, work in jobs.items():
            took = seconds(work, args.threads)
            if repeat:
                times[job].append(took)
    t = {job: min(values) for job, values in times.items()}
    truth = peer(X[:2000].astype(np.float64), Z.astype(np.float64), gamma=gamma)
    found = np.empty((2000, len(Z)), dtype)
    by(0, lambda: np.copyto(found, kernel(X[:2000], Z)))
    return (
        f"{name:16} {np.dtype(dtype).name:8} {t['peer']:8.3f} {t['numpy']:8.3f} {t['block']:8.3f} "
        f"{t['pass']:8.3f} {t['peer'] / t['numpy']:8.2f} {t['peer'] / t['block']:8.2f} "
        f"{t['peer'] / t['pass']:8.2f} {np.abs(found - truth).max():10.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=1_000)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--threads", type=int, default=Engine().n_threads)
    args = parser.parse_args()
    print(
        f"Blocks {args.rows} x {args.columns}, d = {' and '.join(map(str, FEATURES.values()))}, "
        f"numba {version('numba')}, threads: {args.threads}, seconds; ratios to scikit-learn"
    )
    print(
        f"{'kernel':16} {'dtype':8} {'sklearn':>8} {'NumPy':>8} {'compiled':>8} {'pass':>8} {'NumPy x':>8} "
        f"{'comp. x':>8} {'pass x':>8} {'max error':>10}"
    )
    for name in FEATURES:
        for dtype in (np.float32, np.float64):
            print(measure(name, dtype, args), flush=True)


if __name__ == "__main__":
    main()
