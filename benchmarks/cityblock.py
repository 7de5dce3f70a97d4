"""City-block distances: nanoseconds an entry and feature, by the ways in which a tile can be computed.

    python benchmarks/cityblock.py

SciPy's cdist (float64, which the Laplacian uses for features of many values), NumPy accumulation feature by
feature on tiles that stay in cache (float32 and float64; differences, or 2·max − x − z), and the product with
indicators that stands for features of few values; and compiled loops (numba), for numbers and for the one-hot
columns of categories of ten levels, which cost one step a category. Seconds are the thread's own, the best of
several, so that other work on the machine counts as little as it can.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import cdist

from gramian import Laplacian
from gramian._tiles import one_blas_thread
from gramian.kernels.compiled import LEAST_ENTRIES, available, part_of_block

ROWS, POINTS = 512, 1000
#: Rows and columns of the tiles of the NumPy loops.
TILES = ((8, 4000), (32, 1000), (64, 250))


def seconds(work: Callable[[], object], repeats: int) -> float:
    work()
    best = np.inf
    for _ in range(repeats):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return float(best)


def accumulated(X: np.ndarray, Z: np.ndarray, rows: int, columns: int, *, by_maximum: bool) -> np.ndarray:
    """Distances by one pass over a tile for each feature."""
    out = np.empty((len(X), len(Z)), X.dtype)
    points = np.ascontiguousarray(Z.T)
    for i in range(0, len(X), rows):
        for j in range(0, len(Z), columns):
            tile = np.zeros_like(out[i : i + rows, j : j + columns])
            step = np.empty_like(tile)
            for f in range(X.shape[1]):
                x, z = X[i : i + rows, f, None], points[f, j : j + columns]
                if by_maximum:
                    np.maximum(x, z, out=step)
                else:
                    np.subtract(z, x, out=step)
                    np.abs(step, out=step)
                tile += step
            if by_maximum:
                tile *= 2
                tile -= X[i : i + rows].sum(axis=1)[:, None]
                tile -= Z[j : j + columns].sum(axis=1)
            out[i : i + rows, j : j + columns] = tile
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, nargs="*", default=[8, 20, 60])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    print("nanoseconds an entry and feature, one thread")
    with one_blas_thread():
        for d in args.features:
            X, Z = rng.standard_normal((ROWS, d)), rng.standard_normal((POINTS, d))
            found = {"cdist": seconds(lambda X=X, Z=Z: cdist(X, Z, "cityblock"), args.repeats)}
            for dtype in (np.float32, np.float64):
                x, z = X.astype(dtype), Z.astype(dtype)
                for way in ("differences", "maximum"):
                    times = [
                        seconds(
                            lambda x=x, z=z, tile=tile, way=way: accumulated(
                                x, z, *tile, by_maximum=way == "maximum"
                            ),
                            args.repeats,
                        )
                        for tile in TILES
                    ]
                    found[f"{way} {np.dtype(dtype)}"] = min(times)
            for values in (2, 3, 5, 8):
                x, z = rng.integers(0, values, (ROWS, d)) * 1.0, rng.integers(0, values, (POINTS, d)) * 1.0
                columns = Laplacian().against(z)
                name = f"{values} values, the whole kernel"
                found[name] = seconds(lambda columns=columns, x=x: columns(x), args.repeats)
            columns = Laplacian().against(Z)
            found["many values, the whole kernel"] = seconds(lambda c=columns, X=X: c(X), args.repeats)
            at = 10 * np.arange(d // 10)
            one_hot = [np.zeros((n, 10 * len(at))) for n in (ROWS, POINTS)]
            for each in one_hot:
                np.put_along_axis(each, at + rng.integers(0, 10, (len(each), len(at))), 1.0, axis=1)
            with part_of_block(LEAST_ENTRIES, 1):
                for name, (x, z) in {"numbers": (X, Z), "one-hot": one_hot}.items():
                    if x.shape[1] and available():
                        columns = Laplacian().against(z)
                        found[f"compiled, {name}, the whole kernel"] = (
                            seconds(lambda c=columns, x=x: c(x), args.repeats) * d / x.shape[1]
                        )
            print(f"\n{d} features")
            for name, taken in found.items():
                print(f"  {name:32s} {1e9 * taken / (ROWS * POINTS * d):.3f}")


if __name__ == "__main__":
    main()
