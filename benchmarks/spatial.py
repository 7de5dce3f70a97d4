"""Gaussian processes on rows in space whose function is known: error beside that of the true posterior.

python benchmarks/spatial.py [--rows 100000 1000000] [--methods gramian Vecchia]

Rows are uniform in a unit cube. f is a draw of a Matérn 3/2 process of variance 1 and lengthscale 0.1 (4,096
random Fourier features), targets are f plus normal noise of deviation 0.3. Each method learns kernel and
noise itself, one lengthscale for each feature. "true" knows them: the posterior given the 1,024 nearest rows.
Judged are 2,000 new rows: rmse is that of the mean from f, over f's deviation; cover is the share of f within
its 90 % band, and of new observations within theirs. "Vecchia" is GPBoost's, with 20 neighbours. Each fit
runs in a process of its own for 600 s at most. Lines are stored in results/spatial.jsonl with commit,
versions and machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from gp import THREADS, vecchia_model
from papers.lines import provenance
from scipy.stats import norm

RESULTS = Path(__file__).parent / "results" / "spatial.jsonl"
LENGTH, NOISE, FEATURES, JUDGED, NEAREST, LIMIT = 0.1, 0.3, 4_096, 2_000, 1_024, 600
#: Methods, and how often each is asked for the rows to answer all questions.
CALLS = {"gramian": 2, "Vecchia": 2, "true": 1}


def field(points: np.ndarray) -> np.ndarray:
    """Return the known function at the points: Fourier features whose frequencies are Student-t(3)."""
    rng = np.random.default_rng(1)
    normal = rng.standard_normal((3, FEATURES))
    frequencies = normal / np.sqrt(rng.chisquare(3.0, FEATURES) / 3.0) / LENGTH
    phases, weights = rng.uniform(0, 2 * np.pi, FEATURES), rng.standard_normal(FEATURES)
    out = np.empty(len(points))
    for at in range(0, len(points), 10_000):
        out[at : at + 10_000] = np.cos(points[at : at + 10_000] @ frequencies + phases) @ weights
    return out * np.sqrt(2.0 / FEATURES)


def world(n: int) -> tuple[np.ndarray, ...]:
    """Return training rows and targets, and judged rows with their values and observations."""
    rng = np.random.default_rng(0)
    points = rng.random((n + JUDGED, 3))
    values = field(points)
    targets = values + NOISE * rng.standard_normal(len(points))
    return points[:n], targets[:n], points[n:], values[n:], targets[n:]


def fitted(method: str, X: np.ndarray, y: np.ndarray) -> Any:
    """Fit, and return what gives mean, deviation of f and deviation of new observations."""
    if method == "Vecchia":
        model = vecchia_model(X, y)

        def answer(new: np.ndarray) -> tuple[np.ndarray, ...]:
            ones = np.ones((len(new), 1))
            latent = model.predict(gp_coords_pred=new, X_pred=ones, predict_var=True, predict_response=False)
            seen = model.predict(gp_coords_pred=new, X_pred=ones, predict_var=True, predict_response=True)
            return latent["mu"], np.sqrt(latent["var"]), np.sqrt(seen["var"])

        return answer
    import gramian as gm

    if method == "true":
        from gramian.data.source import ArraySource
        from gramian.engine import Engine
        from gramian.estimator.labelled import LabelledRows
        from gramian.gp.neighbours import NeighbourPosterior
        from gramian.gp.prior import Hyperparameters

        known = Hyperparameters(1.0 * gm.Matern((LENGTH,) * 3, nu=1.5), NOISE**2, learn_noise=False)
        rows = LabelledRows(ArraySource(X), y[:, None])
        near = NeighbourPosterior.of(rows, known, NEAREST, np.random.default_rng(0))

        def posterior(new: np.ndarray) -> tuple[np.ndarray, ...]:
            mean, variance = near.moments(new, Engine(THREADS))
            return mean[:, 0], np.sqrt(variance - NOISE**2), np.sqrt(variance)

        return posterior
    gp = gm.GaussianProcessRegressor(random_state=0).fit(X, y)

    def told(new: np.ndarray) -> tuple[np.ndarray, ...]:
        mean, deviation = gp.predict(new, return_std=True)
        return mean, deviation, gp.predict(new, return_std=True, include_noise=True)[1]

    return told


def one(method: str, n: int) -> dict[str, Any]:
    """Measure one method in this process."""
    X, y, new, values, targets = world(n)
    began = time.perf_counter()
    answer = fitted(method, X, y)
    fit = time.perf_counter() - began
    began = time.perf_counter()
    mean, deviation, seen = answer(new)
    wide = norm.ppf(0.95)
    return {
        "method": method,
        "rows": n,
        "rmse": float(np.sqrt(np.mean((mean - values) ** 2)) / values.std()),
        "cover": [
            float((np.abs(values - mean) <= wide * deviation).mean()),
            float((np.abs(targets - mean) <= wide * seen).mean()),
        ],
        "fit": round(fit, 1),
        "predict": (time.perf_counter() - began) / len(new) / CALLS[method],
        "megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        **provenance(THREADS),
    }


def main() -> None:
    """Measure every method at every number of rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--methods", nargs="+", choices=CALLS, default=list(CALLS))
    parser.add_argument("--one", action="store_true", help="in this process; prints a line")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.methods[0], options.rows[0])))
        return
    found = []
    for n in options.rows:
        for method in options.methods:
            command = [sys.executable, __file__, "--one", "--rows", str(n), "--methods", method]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT)
                found.append(json.loads(done.stdout.splitlines()[-1]))
            except subprocess.TimeoutExpired:
                line = {"method": method, "rows": n, "failed": f"not done in {LIMIT} s"}
                found.append(line | provenance(THREADS))
            print(found[-1], flush=True)
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in found), encoding="utf-8")


if __name__ == "__main__":
    main()
