"""Shapley values of columns: rows a second, and how near they are to the truth of made-up flats.

python benchmarks/explain.py [--rows 2000] [--repeats 3]

Speed: an exact model of 1,000 training rows and 20 columns with a Gaussian kernel, 500 of them as background,
on one thread and on two; and estimates of a Matérn kernel from 32 draws. The fastest repetition counts.

Truth: the flats of docs/explain.md. Their price is made of products and sums of the columns, so that the true
values are known; root mean square difference over 100 new flats.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
from suite.machine import describe

import gramian as gm

RESULT = Path(__file__).parent / "results" / "explain.json"
POINTS, COLUMNS, ESTIMATED = 1_000, 20, 20


def speed(rows: int, repeats: int) -> dict[str, float]:
    """Return rows a second of exact values on one and two threads, and of estimates on one."""
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((POINTS, COLUMNS)), rng.standard_normal((rows, COLUMNS))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    found = {}
    for name, kernel, threads, count in (
        ("exact, one thread", "rbf", 1, rows),
        ("exact, two threads", "rbf", 2, rows),
        ("estimated, one thread", "matern52", 1, ESTIMATED),
    ):
        model = gm.KernelRidge(0.1, kernel=kernel, gamma=0.05, approximation="exact", n_jobs=threads).fit(
            X, y
        )
        taken = []
        for _ in range(repeats):
            began = time.perf_counter()
            gm.explain(model, new[:count], n_points=1, X_train=X)
            taken.append(time.perf_counter() - began)
        found[name] = count / min(taken)
    return found


def truth() -> dict[str, float]:
    """Return the root mean square difference to the true values, of each column."""
    rng = np.random.default_rng(0)
    n = 600
    flats = pd.DataFrame(
        {
            "area": rng.lognormal(4.3, 0.4, n).round(1),
            "town": rng.choice(["Bath", "Hull", "York"], n),
            "lift": rng.random(n) < 0.5,
        }
    )
    slope = np.where(flats["town"] == "Bath", 4.0, 2.0)
    price = flats["area"] * slope + 30.0 * flats["lift"] + 20.0 * rng.standard_normal(n)
    train, new = flats[:500], flats[500:]
    found = gm.explain(gm.TabularRegressor(random_state=0).fit(train, price[:500]), new, X_train=train)
    area, mean_area, mean_slope = new["area"], train["area"].mean(), slope[:500].mean()
    true = {
        "area": (area - mean_area) * (slope[500:] + mean_slope) / 2.0,
        "town": (slope[500:] - mean_slope) * (area + mean_area) / 2.0,
        "lift": 30.0 * (new["lift"] - train["lift"].mean()),
    }
    return {
        name: float(np.sqrt(np.mean((found.values[:, j] - true[name]) ** 2)))
        for j, name in enumerate(found.names)
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    result = {**describe(2), "rows_a_second": speed(args.rows, args.repeats), "rms_from_truth": truth()}
    print(json.dumps(result, indent=1))
    args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
