"""The recompressed block basis factorization against its bars and against the ideal factorization.

GRAMIAN_DATA=folder python benchmarks/block_basis.py [--seeds 5] [--only bars,sweep,time] [--sets abalone,...]

bars: relative Frobenius error at the MEKA paper's memory (n·k + (c·k)² numbers) and at M = 100·n numbers,
    worst of the seeds; beside it the ideal factorization on the same partition and size: exact eigenvectors
    of each block row K_s,: K_:,s, exact core, ranks shared out in the same way.
sweep: the bandwidths of Figure 16 of the BBF paper at M = 100·n, ratio to the ideal.
time: seconds of the build against n, and against MEKA's projection core with the same blocks and rank.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.linalg as la
from papers.meka_methods import rows_of, unit_box

import gramian as gm
from gramian.compression.rank_sharing import Size
from gramian.data import load_dataset
from gramian.data.datasets import make_digits

#: name → (gamma, paper's (k, c) or None for M = 100·n, bar, Algorithm 5 of the paper or MEKA's figure).
SETS = {
    "pendigits": (2.0, (128, 5), 0.0215, 0.0811),
    "ijcnn1": (1.0, (128, 10), 0.0010, 0.0082),
    "covtype_100k": (10.0, (256, 15), 0.032, 0.1192),
    "abalone z": (1.0, None, 0.0205, 0.041),
    "pendigits z": (0.25, None, 0.048, 0.093),
    "ctg 21": (4.0, None, 0.39, np.nan),
    "ctg 23": (4.0, None, 0.39, 0.64),
}
SWEEP = {
    "abalone z": (0.25, 1.0, 4.0, 16.0, 64.0, 250.0, 1000.0),
    "pendigits z": (0.1, 0.25, 1.0, 4.0, 25.0),
}
DENSE_ROWS = 12_000


def rows(name: str) -> np.ndarray:
    if name.startswith("ctg"):
        with np.load(Path(os.environ["GRAMIAN_DATA"]) / "ctg.npz") as file:
            return unit_box(file["X" if name.endswith("21") else "X_raw23"].astype(np.float64), -1.0)
    if name.endswith(" z"):
        X = load_dataset(name.split()[0]).X.astype(np.float64)
        return (X - X.mean(axis=0)) / X.std(axis=0)
    return rows_of(name)[0]


def ideal(K: np.ndarray, labels: np.ndarray, numbers: float) -> float:
    """Relative error of exact bases and core with shared ranks; K is n × n."""
    members = [np.flatnonzero(labels == s) for s in range(labels.max() + 1)]
    spectra, vectors = [], []
    for mine in members:
        strip = K[mine]
        values, P = la.eigh(strip @ strip.T, driver="evd")
        spectra.append(np.maximum(values[::-1], 0.0))
        vectors.append(P[:, ::-1])
    ranks = Size(numbers).share(spectra, np.asarray([len(m) for m in members], np.float64))
    half = [P[:, :r].T @ K[mine] for P, r, mine in zip(vectors, ranks, members, strict=True)]
    kept = sum(
        float(np.square(part[:, mine] @ P[:, :r]).sum())
        for part in half
        for P, r, mine in zip(vectors, ranks, members, strict=True)
    )
    total = float(np.square(K).sum())
    return float(np.sqrt(max(total - kept, 0.0) / total))


def fitted(X: np.ndarray, gamma: float, numbers: float, seed: int, **options: object) -> gm.BlockBasis:
    # max_bytes counts bytes; in float64 a number has eight, and the order of the rows is kept beside.
    budget = int(8 * numbers) + 8 * len(X)
    options = {"tile_dtype": "float64", "max_bytes": budget, "memory_budget": "4GB", **options}
    return gm.BlockBasis(gamma=gamma, random_state=seed, **options).fit(X)


def dense_error(a: gm.BlockBasis, K: np.ndarray) -> float:
    return float(np.linalg.norm(K - a.operator_.to_dense()) / np.linalg.norm(K))


def bars(names: list[str], seeds: int) -> None:
    print("relative Frobenius error at equal numbers, worst of the seeds")
    head = ("set", "worst", "median", "bar", "paper", "ideal", "ratio", "blocks", "R", "numbers", "fit s")
    print("{:13} {:>8} {:>8} {:>7} {:>7} {:>8} {:>6} {:>7} {:>5} {:>8} {:>6}".format(*head))
    for name in names:
        gamma, setting, bar, paper = SETS[name]
        X = rows(name)
        n = len(X)
        numbers = 100 * n if setting is None else n * setting[0] + (setting[0] * setting[1]) ** 2
        K = gm.Gaussian((0.5 / gamma) ** 0.5)(X) if n <= DENSE_ROWS else None
        errors, took, best = [], [], np.nan
        for seed in range(seeds):
            start = time.perf_counter()
            a = fitted(X, gamma, numbers, seed)
            took.append(time.perf_counter() - start)
            errors.append(a.relative_error(X, random_state=seed) if K is None else dense_error(a, K))
            if seed == 0 and K is not None:
                best = ideal(K, a.features_.partition.route(X), numbers)
        used = sum(block.size for block in a.operator_.levels[0].blocks) + a.rank_**2
        print(
            f"{name:13} {max(errors):8.5f} {np.median(errors):8.5f} {bar:7.4f} {paper:7.4f} {best:8.5f} "
            f"{errors[0] / best:6.3f} {a.operator_.n_blocks:7d} {a.rank_:5d} {used / numbers:8.3f} "
            f"{np.median(took):6.2f}",
            flush=True,
        )


def sweep() -> None:
    print(
        "\nerror against bandwidth at M = 100·n, the sweep of Figure 16, and the ideal on the same partition"
    )
    print(f"{'set':13} {'1/h²':>7} {'error':>9} {'ideal':>9} {'ratio':>6} {'blocks':>6}")
    for name, gammas in SWEEP.items():
        X = rows(name)
        for gamma in gammas:
            K = gm.Gaussian((0.5 / gamma) ** 0.5)(X)
            a = fitted(X, gamma, 100 * len(X), 0)
            error = dense_error(a, K)
            best = ideal(K, a.features_.partition.route(X), 100 * len(X))
            print(
                f"{name:13} {gamma:7.2f} {error:9.6f} {best:9.6f} {error / best:6.3f} "
                f"{a.operator_.n_blocks:6d}",
                flush=True,
            )


def growth(folder: Path) -> None:
    print("\nseconds of the build against n: deformed digits in 64 features, 20 blocks of rank 50, float32")
    counts = (10_000, 31_600, 100_000, 316_000, 1_000_000)
    took = []
    for n in counts:
        X = make_digits(folder / f"{n}.npy", n).X / np.float32(255)
        start = time.perf_counter()
        gm.BlockBasis(gamma=0.1, rank=50, n_blocks=20, tile_dtype="float32", random_state=0).fit(X)
        took.append(time.perf_counter() - start)
        print(f"{n:9,d} {took[-1]:8.2f} s {1e6 * took[-1] / n:8.1f} us a row", flush=True)
    slope = np.polyfit(np.log(counts), np.log(took), 1)[0]
    print(f"exponent {slope:.3f} (bar 1.05)")
    print("\nbuild beside MEKA's projection core with the same blocks and rank")
    for name in ("pendigits", "ijcnn1", "covtype_100k"):
        gamma, setting, _, _ = SETS[name]
        assert setting is not None
        X = rows(name).astype(np.float32)
        shape = {"gamma": gamma, "rank": setting[0], "n_blocks": setting[1], "tile_dtype": "float32"}
        seconds = []
        for make in (
            lambda: gm.MEKA(random_state=0, **shape),  # noqa: B023
            lambda: gm.BlockBasis(random_state=0, **shape),  # noqa: B023
        ):
            runs = []
            for _ in range(3):
                start = time.perf_counter()
                make().fit(X)
                runs.append(time.perf_counter() - start)
            seconds.append(float(np.median(runs)))
        print(
            f"{name:13} projection {seconds[0]:6.2f} s, recompressed {seconds[1]:6.2f} s, "
            f"ratio {seconds[1] / seconds[0]:5.1f} (bar 12)",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="bars,sweep,time")
    parser.add_argument("--sets", default=",".join(SETS))
    args = parser.parse_args()
    parts = args.only.split(",")
    if "bars" in parts:
        bars(args.sets.split(","), args.seeds)
    if "sweep" in parts:
        sweep()
    if "time" in parts:
        with tempfile.TemporaryDirectory() as folder:
            growth(Path(folder))


if __name__ == "__main__":
    main()
