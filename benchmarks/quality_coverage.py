"""Coverage and width of the 95 % interval of ``relative_error``.

[GRAMIAN_DATA=folder] python benchmarks/quality_coverage.py [--trials 200] [--large] [--spectral]

Rows at random, in clusters and with heavy tails, a table with outliers, and pendigits where its folder is
named; methods with one, two and three levels and with a core; wide to narrow kernels. 260 rows with 80
sampled, or with --large 2,000 with 200. "uniform" is the same number of rows drawn alike for all, with the
delta method's standard error: the estimate of version 0.1.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

import numpy as np
from suite.datasets import load_dataset

import gramian as gm
from gramian._tiles import one_blas_thread

FLOOR = 0.93


def tables(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    centres = 3.0 * rng.random((8, 3))
    outliers = rng.random((n, 3))
    outliers[: n // 60] += 5.0 * rng.random((n // 60, 3))
    found = {
        "random": rng.random((n, 3)),
        "clustered": centres[rng.integers(8, size=n)] + 0.05 * rng.standard_normal((n, 3)),
        "heavy": 0.3 * rng.standard_t(2, size=(n, 3)),
        "lognormal": np.exp(rng.standard_normal((n, 3))),
        "outliers": outliers,
    }
    if "GRAMIAN_DATA" in os.environ:
        X = load_dataset("pendigits").X.astype(np.float64) / 100.0
        found["pendigits"] = X[rng.choice(len(X), n, replace=False)]
    return found


def methods(gamma: float, large: bool) -> dict[str, gm.MEKA | gm.MultiResolution]:
    same = {"gamma": gamma, "random_state": 1, "n_jobs": 1}
    rank, root, blocks = (20, 60, 10) if large else (8, 15, 5)
    return {
        "core": gm.MEKA(rank=rank, n_blocks=blocks, **same),
        "one level": gm.MultiResolution(root_rank=root, n_levels=1, **same),
        "two levels": gm.MultiResolution(root_rank=root, rank=rank, n_blocks=blocks, **same),
        "three levels": gm.MultiResolution(
            root_rank=root, rank=rank // 2, n_blocks=2 * blocks, n_levels=3, **same
        ),
    }


def fits(large: bool) -> Iterator[tuple[str, np.ndarray, gm.MEKA | gm.MultiResolution]]:
    for table, X in tables(2000 if large else 260).items():
        for gamma in (0.1, 3.0, 100.0):
            for method, a in methods(gamma, large).items():
                yield f"{table}, gamma {gamma:g}, {method}", X, a.fit(X)


def uniform(E2: np.ndarray, K2: np.ndarray, m: int, rng: np.random.Generator) -> tuple[float, float]:
    """Relative error of m rows drawn alike, and its standard error."""
    n = len(E2)
    rows = rng.choice(n, m, replace=False)
    e, k = E2[rows].sum(axis=1), K2[rows].sum(axis=1)
    ratio = e.sum() / k.sum()
    spread = np.sqrt((1 - m / n) / m * (e - ratio * k).var(ddof=1)) / k.mean()
    return float(np.sqrt(ratio)), float(spread / 2 / np.sqrt(ratio))


def frobenius(trials: int, large: bool) -> None:
    m = 200 if large else 80
    print(
        f"Frobenius error from {m} rows: {trials} trials\n{'':34} {'':8} {'two-phase':^21}  {'uniform':^21}"
    )
    print(
        f"{'case':34} {'error':>8} {'cover':>6} {'width':>7} {'rms':>6}  {'cover':>6} {'width':>7} {'rms':>6}"
    )
    covers = []
    for name, X, a in fits(large):
        K = a.kernel_(X, dtype=np.float64)
        E2, K2 = (K - a.operator_.to_dense()) ** 2, K**2
        truth = float(np.sqrt(E2.sum() / K2.sum()))
        ours = [a.relative_error(X, n_rows=m, random_state=s) for s in range(trials)]
        plain = [uniform(E2, K2, m, np.random.default_rng(s)) for s in range(trials)]
        covers.append(np.mean([o.low <= truth <= o.high for o in ours]))
        columns = [
            covers[-1],
            np.mean([o.high - o.low for o in ours]) / truth,
            np.sqrt(np.mean((np.array(ours, float) / truth - 1) ** 2)),
            np.mean([abs(v - truth) <= 1.96 * s for v, s in plain]),
            np.mean([3.92 * s for _, s in plain]) / truth,
            np.sqrt(np.mean([(v / truth - 1) ** 2 for v, _ in plain])),
        ]
        print(
            f"{name:34} {truth:8.2g} {columns[0]:6.1%} {columns[1]:7.3f} {columns[2]:6.3f}  "
            f"{columns[3]:6.1%} {columns[4]:7.3f} {columns[5]:6.3f}" + "  <" * bool(columns[0] < FLOOR),
            flush=True,
        )
    print(
        f"{len(covers)} cases: mean coverage {np.mean(covers):.1%}, least {min(covers):.1%}, "
        f"{sum(c < FLOOR for c in covers)} below {FLOOR:.0%}"
    )


def spectral(trials: int, large: bool) -> None:
    print(
        f"spectral error: {trials} trials\n{'case':34} {'norm':>9} {'low/true':>9} {'high/true':>9} "
        f"{'cover':>6}"
    )
    for name, X, a in fits(large):
        truth = np.linalg.norm(a.kernel_(X, dtype=np.float64) - a.operator_.to_dense(), 2)
        found = [a.spectral_error(X, random_state=s) for s in range(trials)]
        low, high = (np.array([getattr(f, end) for f in found]) / truth for end in ("low", "high"))
        cover = np.mean((low <= 1 + 1e-9) & (high >= 1 - 1e-9))
        print(f"{name:34} {truth:9.3g} {low.min():9.5f} {high.max():9.5f} {cover:6.1%}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--large", action="store_true", help="2,000 rows")
    parser.add_argument("--spectral", action="store_true", help="bounds of the spectral error instead")
    options = parser.parse_args()
    with one_blas_thread():
        (spectral if options.spectral else frobenius)(options.trials, options.large)
