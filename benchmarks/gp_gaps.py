"""Gaussian processes in gaps between the rows and beyond them, beside the exact process on 1,000 of the rows.

python benchmarks/gp_gaps.py [--seeds 1] [--rows 500 3000] [--kernels rbf ...]

Rows are uniform in (0, 10)^d for one and two features, without those between 4 and 6 in the first feature.
Truths are a smooth function and a draw of a Gaussian process of lengthscale 1.5 (2,048 random Fourier
features), targets have noise of deviation 0.15. Asked are 400 points on a line along the first feature from
-1 to 11, through the gap and beyond both ends. A fit is right if

- within: the truth lies within 3.5 deviations at 99 % of the points, or at as many as with the exact process;
- steps: the largest step of the mean is at most that of the exact process and a fifth;
- lengths: every lengthscale is within a factor of 1.5 of that of the exact process.

A truth that is much smoother or rougher than the kernel believes can deceive the exact process too; hence
the second half of the first line. results/gp_gaps.json holds one record for each fit, with commit, versions
and machine.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from gp import THREADS
from papers.lines import provenance

import gramian as gm

RESULTS = Path(__file__).parent / "results" / "gp_gaps.json"
KERNELS = ("rbf", "matern32", "matern52", "rational_quadratic")
NOISE, LENGTH, EXACT, POINTS, FEATURES = 0.15, 1.5, 1_000, 400, 2_048


def truth(kind: str, kernel: str, d: int, rng: np.random.Generator) -> Any:
    """Return a function of rows: smooth, or a draw of the process."""
    if kind == "smooth":
        return lambda X: np.sin(2 * X[:, 0]) + 0.3 * X[:, 0] + (np.cos(X[:, 1]) if d == 2 else 0.0)
    freedom = {"rbf": np.inf, "matern32": 3.0, "matern52": 5.0, "rational_quadratic": np.inf}[kernel]
    width = np.sqrt(rng.chisquare(freedom, FEATURES) / freedom) if np.isfinite(freedom) else np.ones(FEATURES)
    if kernel == "rational_quadratic":  # a mixture of Gaussian kernels over their precision
        width = 1.0 / np.sqrt(rng.gamma(1.0, 1.0, FEATURES))
    frequencies = rng.standard_normal((d, FEATURES)) / width / LENGTH
    phases, weights = rng.uniform(0, 2 * np.pi, FEATURES), rng.standard_normal(FEATURES)
    return lambda X: np.cos(X @ frequencies + phases) @ weights * np.sqrt(2.0 / FEATURES)


def asked(model: Any, line: np.ndarray, values: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Return the share of true values within 3.5 deviations, the largest step, and the lengthscales."""
    mean, deviation = model.predict(line, return_std=True)
    inside = np.abs(mean - values) <= 3.5 * deviation
    return (
        float(inside.mean()),
        float(np.abs(np.diff(mean)).max()),
        np.ravel(model.kernel_.kernel.lengthscale),
    )


def one(kind: str, kernel: str, d: int, n: int, seed: int) -> dict[str, Any]:
    """Fit to a draw, and compare with the exact process."""
    rng = np.random.default_rng([seed, d, n])
    f = truth(kind, kernel, d, rng)
    X = rng.uniform(0, 10, (n * 5 // 4 + 200, d))
    X = X[(X[:, 0] < 4) | (X[:, 0] > 6)][:n]
    y = f(X) + NOISE * rng.standard_normal(len(X))
    line = np.full((POINTS, d), 5.0)
    line[:, 0] = np.linspace(-1, 11, POINTS)
    values = f(line)
    began = time.process_time()
    model = gm.GaussianProcessRegressor(kernel, random_state=0).fit(X, y)
    seconds = time.process_time() - began
    inside, step, lengths = asked(model, line, values)
    exact = gm.GaussianProcessRegressor(kernel, random_state=0).fit(X[:EXACT], y[:EXACT])
    other_inside, other_step, other = asked(exact, line, values)
    ratio = float(np.exp(np.abs(np.log(lengths / other)).max()))
    return {
        "truth": kind,
        "kernel": kernel,
        "features": d,
        "rows": n,
        "seed": seed,
        "within": [inside, other_inside],
        "step": [step, other_step],
        "ratio of lengthscales": ratio,
        "right": [inside >= min(0.99, other_inside), step <= 1.2 * other_step, ratio <= 1.5],
        "posterior": model.plan_.reason.split("; ")[-1],
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Measure all draws, and store them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", nargs="+", type=int, default=[500, 3_000])
    parser.add_argument("--kernels", nargs="+", default=list(KERNELS))
    options = parser.parse_args()
    warnings.simplefilter("ignore", gm.AccuracyWarning)
    about, found = provenance(THREADS), []
    for seed in range(options.seeds):
        for n in options.rows:
            for d in (1, 2):
                for kind in ("smooth", "process"):
                    for kernel in options.kernels:
                        found.append(one(kind, kernel, d, n, seed))
                        print(json.dumps(found[-1]), flush=True)
                        lines = ",\n  ".join(json.dumps(line) for line in found)
                        text = json.dumps(about, indent=1)[:-2] + ',\n "draws": [\n  ' + lines + "\n ]\n}\n"
                        RESULTS.write_text(text, encoding="utf-8")
    right = np.array([line["right"] for line in found])
    print(f"of {len(found)}: within, steps, lengths right in", right.sum(axis=0))


if __name__ == "__main__":
    main()
