"""Bands of Gaussian processes with a factor for each row beside those with one factor for all rows.

GRAMIAN_DATA=folder python benchmarks/row_scale.py [--sets airfoil ...]

Sets, rows and splits are those of gp.py. Each model is fitted once and its band asked for twice, so that the
means are the same. nlpd is of standardised targets; thirds are the shares of judged targets within the 90 %
interval, for the third of rows with the lowest means, the middle third and the highest. Lines are stored in
results/row_scale.jsonl with commit, versions and machine; doors.py writes the table of docs/uncertainty.md.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gp import SETS, THREADS, table
from papers.lines import provenance

import gramian as gm

RESULTS = Path(__file__).parent / "results" / "row_scale.jsonl"


def measured(model: Any, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return density and coverage of a model's band on judged rows."""
    mean, deviation = model.predict(X, return_std=True, include_noise=True)
    ends = model.predict_interval(X, 0.9)
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    thirds = [float(inside[third].mean()) for third in np.array_split(np.argsort(mean), 3)]
    density = 0.5 * ((y - mean) / deviation) ** 2 + np.log(deviation) + 0.5 * np.log(2.0 * np.pi)
    return {"nlpd": float(density.mean()), "cover": float(inside.mean()), "thirds": thirds}


def one(name: str) -> dict[str, Any]:
    """Fit one model, and ask for its band with both kinds of factors."""
    X, y, judged, targets = table(name, 0)
    model = gm.GaussianProcessRegressor(random_state=0).fit(X, y)
    scale = model.calibration_.scale
    rows = measured(model, judged, targets)
    weights = np.zeros_like(scale.weights)
    weights[0] = np.log(model.calibration_.spread)
    model.calibration_ = replace(model.calibration_, scale=replace(scale, weights=weights))
    alike = measured(model, judged, targets)
    sizes = {"set": name, "rows": len(X), "judged": len(judged), "by row": scale.by_row}
    return sizes | {"one factor": alike, "factors of rows": rows} | provenance(THREADS)


def main() -> None:
    """Measure sets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    options = parser.parse_args()
    found = []
    for name in options.sets:
        found.append(one(name))
        print(name, found[-1]["one factor"], found[-1]["factors of rows"], flush=True)
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in found), encoding="utf-8")


if __name__ == "__main__":
    main()
