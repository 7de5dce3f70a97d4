"""Importances of table models beside permutation importances of rows that no fit has seen.

GRAMIAN_DATA=folder python benchmarks/importances.py [--sets adult,used_cars_us] [--rows 50000] [--repeats 3]

A fifth of the rows is kept apart. scikit-learn's permutation_importance of the fitted model on up to 4,000 of
them (log-loss, squared error), negative ones 0, in shares, is what importances are compared with: Spearman's
rank correlation, and the largest difference of a column. Shares of the metric are compared in the same way.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split

import gramian as gm

SETS = "telco_churn,ames,adult,used_cars_us"
APART = 4_000


def compared(name: str, most: int, repeats: int) -> None:
    """Fit a set and print how near its importances are to those of the rows kept apart."""
    X = pd.read_parquet(Path(os.environ["GRAMIAN_DATA"]).parent / "tables" / f"{name}.parquet")
    X = X.sample(min(most, len(X)), random_state=0)
    y = X.pop("__target__")
    numbers = y.dtype.kind in "if"
    y = y.to_numpy(np.float64) if numbers else y.astype(str).to_numpy()
    X, apart, y, wanted = train_test_split(X, y, test_size=0.2, random_state=0)
    model: Any = (gm.TabularRegressor if numbers else gm.TabularClassifier)(random_state=0)
    began = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - began
    found = permutation_importance(
        model,
        apart[:APART],
        wanted[:APART],
        scoring="neg_mean_squared_error" if numbers else "neg_log_loss",
        n_repeats=repeats,
        random_state=0,
    )
    truth = np.maximum(found.importances_mean, 0.0)
    truth /= truth.sum()
    print(f"{name}: {len(y):,} rows, {X.shape[1]} columns, fit {seconds:.1f} s")
    for which in ("feature_importances_", "metric_importances_"):
        shares = getattr(model, which)
        rank, largest = spearmanr(shares, truth)[0], np.abs(shares - truth).max()
        print(f"  {which}: rank correlation {rank:.3f}, largest difference {largest:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for each in args.sets.split(","):
        compared(each, args.rows, args.repeats)
