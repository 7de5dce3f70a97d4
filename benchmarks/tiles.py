"""Kernel tiles against scikit-learn and against the floor (GEMM plus exp), in one run.

python benchmarks/tiles.py [--rows 100000] [--columns 1000] [--features 54] [--repeat 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

import gramian as gm
from gramian._tiles import row_slices, tile_rows
from gramian.engine import Engine


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def floor(X: np.ndarray, Z: np.ndarray, out: np.ndarray) -> None:
    """The least that any implementation does: one product and one exp per tile, on threads."""
    factor = np.ascontiguousarray(Z.T)

    def fill(rows: slice) -> None:
        np.matmul(X[rows], factor, out=out[rows])
        np.exp(out[rows], out=out[rows])

    Engine().run(fill, row_slices(len(X), tile_rows(len(Z), X.itemsize)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=1_000)
    parser.add_argument("--features", type=int, default=54)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    print(f"Gaussian block {args.rows} x {args.columns}, d = {args.features}, {Engine().n_threads} threads")
    print(
        f"{'dtype':8} {'ours s':>8} {'floor s':>8} {'rbf_kernel s':>13} {'speed-up':>9} {'ours/floor':>11} {'max error':>10}"
    )
    for dtype in (np.float32, np.float64):
        X = rng.standard_normal((args.rows, args.features)).astype(dtype)
        Z = X[: args.columns].copy()
        gamma = 0.5 / args.features
        kernel = gm.Gaussian(lengthscale=np.sqrt(0.5 / gamma))
        scaled = (X * np.sqrt(0.01 * gamma)).astype(dtype)

        # All three write fresh memory, so that page faults count for each alike.
        def run_floor() -> np.ndarray:
            out = np.empty((args.rows, args.columns), dtype)
            floor(scaled, -scaled[: args.columns], out)
            return out

        jobs = {
            "ours": lambda: kernel(X, Z),
            "floor": run_floor,
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
        print(
            f"{np.dtype(dtype).name:8} {t['ours']:8.3f} {t['floor']:8.3f} {t['peer']:13.3f} "
            f"{t['peer'] / t['ours']:9.2f} {t['ours'] / t['floor']:11.2f} {error:10.1e}"
        )


if __name__ == "__main__":
    main()
