"""Spread of scores over ``random_state`` alone: the same rows, ten seeds, gramian and LightGBM.

GRAMIAN_DATA=folder python benchmarks/seeds.py [--sets adult,cadata] [--seeds 10]

Of each set 5,000 rows are drawn and split as by tables.py (80 % learn, 20 % judge); only the seed changes.
LightGBM draws 80 % of the rows and of the columns for each tree. The score is log-loss, or the RMSE over the
targets' deviation. Lines are stored in results/seeds.jsonl; doors.py writes the table of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "seeds.jsonl"
ROWS, THREADS = 5_000, 1
SETS = (
    *("adult", "bank_marketing", "credit_default", "used_cars_us", "diamonds"),
    *("weather_aus", "cadata", "cpusmall", "wine", "letter"),
)
SUBSAMPLED = {"subsample": 0.8, "subsample_freq": 1, "colsample_bytree": 0.8}


def score(name: str, method: str, seed: int) -> float:
    """Return the score of one method with one seed."""
    from sklearn.pipeline import make_pipeline
    from suite.table_boosting import lightgbm_model
    from suite.table_columns import Columns
    from suite.table_job import scores
    from suite.table_methods import OURS, TABLE_METHODS, Terms
    from suite.table_sets import split_of

    warnings.simplefilter("ignore")  # convergence is judged by the score
    split = split_of(name, 0, ROWS)
    if method == OURS:
        model: Any = TABLE_METHODS[OURS].build(Terms(split.task, seed, THREADS))
    else:
        model = make_pipeline(Columns("category"), lightgbm_model(split.task, seed, THREADS, **SUBSAMPLED))
    found = scores(split, model.fit(split.X, split.y))
    return found.get("log_loss", found["error"])


def main() -> None:
    """Measure the sets, two processes at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(THREADS)
    from joblib import Parallel, delayed
    from papers.lines import provenance

    lines = []
    for name in options.sets.split(","):
        for method in ("gramian", "lightgbm"):
            every = Parallel(2)(delayed(score)(name, method, seed) for seed in range(options.seeds))
            lines.append({"set": name, "method": method, "scores": every, **provenance(THREADS)})
            print(name, method, [round(one, 4) for one in every], flush=True)
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
