"""Coverage of intervals and of sets of classes, beside conformalised quantile boosting.

GRAMIAN_DATA=folder python benchmarks/intervals.py [--sets wine,cadata] [--rows 4000] [--splits 3]
    [--coverage 0.9]

Each split draws rows to learn from and as many to be judged on. gramian: the predict_interval of a
TabularRegressor and the predict_set of a TabularClassifier, with the defaults. CQR: two
HistGradientBoostingRegressor of quantiles on four fifths of the rows, conformalised on the last (Romano,
Patterson and Candès 2019). Thirds: of the judged rows by the size of the prediction. The score is the mean
width plus 2/(1 − coverage) times how far targets lie outside (Gneiting and Raftery 2007), in parts of CQR's.
Means over the splits.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from suite.datasets import load_dataset

import gramian as gm

NUMBERS = [
    "airfoil",
    "concrete",
    "abalone",
    "wine",
    "cadata",
    "cpusmall",
    "ccpp",
    "insurance",
    "diamonds",
    "ames",
]
CLASSES = ["german", "ctg", "letter", "satimage", "adult", "car_evaluation"]


def table_rows(name: str) -> tuple[Any, Any]:
    """Return a set's frame and target: a file of the folder ``tables`` beside the data, or these."""
    file = Path(os.environ["GRAMIAN_DATA"]).parent / "tables" / f"{name}.parquet"
    if file.exists():
        X = pd.read_parquet(file)
        return X, X.pop("__target__").to_numpy()
    found = load_dataset(name)
    return pd.DataFrame(np.asarray(found.X)), np.asarray(found.y)


def split(name: str, seed: int, most: int) -> tuple[Any, Any, Any, Any]:
    X, y = table_rows(name)
    order = np.random.default_rng(seed).permutation(len(y))
    n = min(most, round(0.8 * len(y)))
    parts = order[:n], order[n : n + most]
    frames = [X.iloc[part].reset_index(drop=True) for part in parts]
    for frame in frames:  # boosting takes categories, not text
        for column in frame.select_dtypes(object).columns:
            frame[column] = pd.Categorical(frame[column], X[column].dropna().unique())
    return *frames, *(y[part] for part in parts)


def boosted(X: Any, y: Any, new: Any, coverage: float) -> np.ndarray:
    """Return CQR intervals (n, 2): quantiles by boosting, widened or narrowed by held-out rows."""
    rest = np.random.default_rng(0).permutation(len(y))
    held, rest = rest[: len(y) // 5], rest[len(y) // 5 :]
    ends = [
        HistGradientBoostingRegressor(
            loss="quantile", quantile=q, categorical_features="from_dtype", random_state=0
        ).fit(X.iloc[rest], y[rest])
        for q in ((1 - coverage) / 2, (1 + coverage) / 2)
    ]
    low, high = (end.predict(X.iloc[held]) for end in ends)
    scores = np.sort(np.maximum(low - y[held], y[held] - high))
    wider = scores[min(len(scores), int(np.ceil(coverage * (len(scores) + 1)))) - 1]
    return np.stack([ends[0].predict(new) - wider, ends[1].predict(new) + wider], axis=1)


def judged(ends: np.ndarray, wanted: np.ndarray, by: np.ndarray, coverage: float) -> np.ndarray:
    """Return coverage, that of each third, and the score."""
    low, high = ends.T
    inside = (low <= wanted) & (wanted <= high)
    third = np.searchsorted(np.quantile(by, [1 / 3, 2 / 3]), by)
    outside = np.maximum(low - wanted, 0) + np.maximum(wanted - high, 0)
    score = np.mean(high - low + 2 / (1 - coverage) * outside)
    return np.array([inside.mean(), *(inside[third == k].mean() for k in range(3)), score])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", help="names, separated by commas (default: all)")
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--coverage", type=float, default=0.9)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    wanted = options.sets.split(",") if options.sets else [*NUMBERS, *CLASSES]
    print(f"{'':15s} {'gramian':>7s}  {'by thirds':17s}  {'CQR':>5s}  {'by thirds':17s}  score of CQR's")
    for name in (name for name in wanted if name in NUMBERS):
        rows = []
        for seed in range(options.splits):
            X, new, y, truth = split(name, seed, options.rows)
            y, truth = np.asarray(y, float), np.asarray(truth, float)
            model = gm.TabularRegressor(random_state=seed).fit(X, y)
            by = model.predict(new)
            ours = judged(model.predict_interval(new, options.coverage), truth, by, options.coverage)
            theirs = judged(boosted(X, y, new, options.coverage), truth, by, options.coverage)
            rows.append([*ours[:4], *theirs[:4], ours[4] / theirs[4]])
        mean = np.mean(rows, axis=0)
        thirds = [" ".join(f"{value:.3f}" for value in mean[part]) for part in (slice(1, 4), slice(5, 8))]
        both = f"{mean[0]:7.3f}  {thirds[0]:17s}  {mean[4]:.3f}  {thirds[1]:17s}"
        print(f"{name:15s} {both}  {mean[8]:.2f}", flush=True)
    print(f"\n{'':15s} covered  classes in a set  coverage of the rarest and of the commonest class")
    for name in (name for name in wanted if name in CLASSES):
        rows = []
        for seed in range(options.splits):
            X, new, y, truth = split(name, seed, options.rows)
            model = gm.TabularClassifier(random_state=seed).fit(X, y)
            inside = model.predict_set(new, options.coverage)
            known = np.isin(truth, model.classes_)
            codes = np.searchsorted(model.classes_, truth[known])
            hit = inside[known][np.arange(len(codes)), codes]
            counts = np.bincount(codes, minlength=len(model.classes_))
            rarest = np.where(counts > 0, counts, counts.max() + 1).argmin()
            ends = [hit[codes == k].mean() for k in (rarest, counts.argmax())]
            rows.append([hit.mean(), inside.sum(axis=1).mean(), *ends])
        mean = np.mean(rows, axis=0)
        print(f"{name:15s} {mean[0]:7.3f}  {mean[1]:16.2f}  {mean[2]:.3f} {mean[3]:.3f}", flush=True)


if __name__ == "__main__":
    main()
