"""Kernel tiles against scikit-learn and against the floor (GEMM plus exp), in one run.

python benchmarks/tiles.py [--rows 100000] [--columns 1000] [--features 54] [--repeat 7]

``block``: k(X, Z) into fresh memory, beside ``rbf_kernel`` and beside a loop that does nothing but one
product and one exp per tile into fresh memory. ``pass``: the same entries computed tile by tile into memory
that is used again, as every pass of the library over the data does. Medians of the repeats, in turn.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

import gramian as gm
from gramian._tiles import row_slices, tile_rows
from gramian.engine import Engine
from gramian.kernels.base import CHUNK_ROWS


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def floor(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """The least that any implementation does: one product and one exp per tile, on threads."""
    out = np.empty((len(X), len(Z)), X.dtype)
    factor = np.ascontiguousarray(Z.T)

    def fill(rows: slice) -> None:
        np.matmul(X[rows], factor, out=out[rows])
        np.exp(out[rows], out=out[rows])

    Engine().run(fill, row_slices(len(X), tile_rows(len(Z), X.itemsize)))
    return out


def one_pass(kernel: gm.Kernel, X: np.ndarray, Z: np.ndarray) -> None:
    """All entries of k(X, Z), a chunk at a time, none of them kept."""
    columns = kernel.against(Z, X.dtype)
    rows = tile_rows(len(Z), X.itemsize)

    def fill(chunk: slice) -> None:
        tile = np.empty((rows, len(Z)), X.dtype)
        for part in row_slices(chunk.stop - chunk.start, rows):
            piece = X[chunk.start + part.start : chunk.start + part.stop]
            columns.into(piece, tile[: len(piece)])

    Engine().run(fill, row_slices(len(X), 4 * CHUNK_ROWS))


def measure(dtype: Any, args: argparse.Namespace) -> str:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((args.rows, args.features)).astype(dtype)
    Z = X[: args.columns].copy()
    gamma = 0.5 / args.features
    kernel = gm.Gaussian(lengthscale=np.sqrt(0.5 / gamma))
    scaled = (X * np.sqrt(0.01 * gamma)).astype(dtype)
    jobs: dict[str, Callable[[], object]] = {
        "block": lambda: kernel(X, Z),
        "pass": lambda: one_pass(kernel, X, Z),
        "floor": lambda: floor(scaled, -scaled[: args.columns]),
        "peer": lambda: rbf_kernel(X, Z, gamma=gamma),
    }
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for repeat in range(args.repeat + 1):
        for name, job in jobs.items():
            took = seconds(job)
            if repeat:
                times[name].append(took)
    t = {name: statistics.median(values) for name, values in times.items()}
    truth = rbf_kernel(X[:2000].astype(np.float64), Z.astype(np.float64), gamma=gamma)
    error = np.abs(kernel(X[:2000], Z) - truth).max()
    return (
        f"{np.dtype(dtype).name:8} {t['peer']:13.3f} {t['floor']:8.3f} {t['block']:8.3f} {t['pass']:8.3f} "
        f"{t['peer'] / t['block']:8.2f} {t['peer'] / t['pass']:8.2f} {t['block'] / t['floor']:12.2f} "
        f"{error:10.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=1_000)
    parser.add_argument("--features", type=int, default=54)
    parser.add_argument("--repeat", type=int, default=7)
    args = parser.parse_args()
    size = f"{args.rows} x {args.columns}, d = {args.features}"
    print(
        f"Gaussian block {size}, {Engine().n_threads} threads, seconds; ratios to rbf_kernel and to the floor"
    )
    print(
        f"{'dtype':8} {'rbf_kernel s':>13} {'floor s':>8} {'block s':>8} {'pass s':>8} {'block x':>8} "
        f"{'pass x':>8} {'block/floor':>12} {'max error':>10}"
    )
    for dtype in (np.float32, np.float64):
        print(measure(dtype, args), flush=True)


if __name__ == "__main__":
    main()
