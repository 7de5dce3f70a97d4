"""Gaussian processes side by side: errors, densities, coverage, seconds and memory.

GRAMIAN_DATA=folder python benchmarks/gp.py [--sets airfoil ...] [--methods gramian ...] [--splits 1]
python benchmarks/gp.py --table

Nine tenths of the rows train (20,000 at most), the rest are judged (4,000 at most); features are
standardised, categories are numbers by their order. Every GP has a Matérn 3/2 kernel with a lengthscale for
each feature. "scikit-learn" and "GPyTorch exact" learn from and keep 2,000 and 3,000 rows; "SVGP" is
GPyTorch's with 1,024 inducing points, 20 epochs and at least 1,000 steps; "Vecchia" is GPBoost's with 20
neighbours; "boosting" is scikit-learn's histogram boosting with split-conformal intervals of one width.
Each fit runs in a process of its own, for 600 s at most, and is stored in benchmarks/results/gp.jsonl with
commit, versions and machine;
--table prints what is stored.

rmse, width (of the 90 % interval) and crps are over the targets' deviation, nlpd is of standardised targets,
cover is the share of judged targets within the intervals of 50, 80, 90 and 95 %: of gramian those of
``predict_interval``, of the others the normal ones (boosting: conformal).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from papers.lines import provenance
from scipy.stats import norm

RESULTS = Path(__file__).parent / "results" / "gp.jsonl"
LEVELS = (0.5, 0.8, 0.9, 0.95)
MOST_ROWS, MOST_JUDGED, LIMIT = 20_000, 4_000, 600
THREADS = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
SETS = (
    "airfoil",
    "concrete",
    "ccpp",
    "cpusmall",
    "wine",
    "cadata",
    "census_house16H",
    "diamonds",
    "nyc_taxis",
)
Answer = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def table(name: str, seed: int) -> tuple[np.ndarray, ...]:
    """Return standardised training rows and targets, and judged ones."""
    folder = Path(os.environ["GRAMIAN_DATA"])
    stored = folder / f"{name}.npz"
    if stored.exists():
        with np.load(stored, allow_pickle=False) as file:
            X, y = np.asarray(file["X"], np.float64), np.asarray(file["y"], np.float64)
    else:
        X, y = of_frame(next((folder.parent / "tables").glob(f"{name}*.parquet")))
    order = np.random.default_rng(seed).permutation(len(X))
    judged = order[: min(len(X) // 10, MOST_JUDGED)]
    rows = order[len(X) // 10 :][:MOST_ROWS]
    spread = X[rows].std(axis=0)
    X = (X - X[rows].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    y = (y - y[rows].mean()) / y[rows].std()
    return X[rows], y[rows], X[judged], y[judged]


def of_frame(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return a stored table as numbers: categories by their order, dates in seconds, medians if missing."""
    import pandas as pd

    frame = pd.read_parquet(path)
    target = frame.pop("__target__").to_numpy(np.float64)
    columns = []
    for _, column in frame.items():
        if pd.api.types.is_datetime64_any_dtype(column):
            values = column.astype("int64").to_numpy(np.float64) / 1e9
        elif pd.api.types.is_numeric_dtype(column):
            values = column.to_numpy(np.float64, na_value=np.nan)
        else:
            values = pd.factorize(column, sort=True)[0].astype(np.float64)
        columns.append(np.where(np.isfinite(values), values, np.nanmedian(values)))
    kept = np.isfinite(target)
    return np.column_stack(columns)[kept], target[kept]


# ---- the methods: fit, and return what gives mean and deviation of new observations ----------------


def gramian(X: np.ndarray, y: np.ndarray, **options: Any) -> tuple[Answer, Any]:
    import gramian as gm

    model = gm.GaussianProcessRegressor(random_state=0, **options).fit(X, y)
    return lambda new: model.predict(new, return_std=True, include_noise=True), model.predict_interval


def scikit_learn(X: np.ndarray, y: np.ndarray) -> tuple[Answer, Any]:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    d = X.shape[1]
    kernel = ConstantKernel(1.0) * Matern(np.full(d, np.sqrt(d)), nu=1.5) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, normalize_y=True).fit(X[:2_000], y[:2_000])
    return lambda new: model.predict(new, return_std=True), None


def gpytorch_exact(X: np.ndarray, y: np.ndarray) -> tuple[Answer, Any]:
    import gpytorch
    import torch

    rows, target = (torch.as_tensor(a[:3_000], dtype=torch.float64) for a in (X, y))

    class Model(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(rows, target, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(
                gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=rows.shape[1])
            )

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = Model().double()
    loss_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    steps = torch.optim.Adam(model.parameters(), lr=0.1)
    with gpytorch.settings.fast_computations(False, False, False):
        for _ in range(100):
            steps.zero_grad()
            loss = -loss_of(model(rows), target)
            loss.backward()
            steps.step()
        model.eval()
        likelihood.eval()

    def answer(new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
            found = likelihood(model(torch.as_tensor(new, dtype=torch.float64)))
            return found.mean.numpy(), found.variance.sqrt().numpy()

    return answer, None


def svgp(X: np.ndarray, y: np.ndarray) -> tuple[Answer, Any]:
    import gpytorch
    import torch

    torch.manual_seed(0)
    rows, target = (torch.as_tensor(a, dtype=torch.float32) for a in (X, y))
    inducing = rows[torch.randperm(len(rows))[:1_024]].clone()

    class Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self) -> None:
            spread = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
            super().__init__(
                gpytorch.variational.VariationalStrategy(
                    self, inducing, spread, learn_inducing_locations=True
                )
            )
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(
                gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=rows.shape[1])
            )

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model, likelihood = Model(), gpytorch.likelihoods.GaussianLikelihood()
    loss_of = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(rows))
    steps = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.03)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows, target), 1_024, shuffle=True)
    for _ in range(max(20, -(-1_000 // len(loader)))):
        for x, t in loader:
            steps.zero_grad()
            loss = -loss_of(model(x), t)
            loss.backward()
            steps.step()
    model.eval()
    likelihood.eval()

    def answer(new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad():
            found = likelihood(model(torch.as_tensor(new, dtype=torch.float32)))
            return found.mean.double().numpy(), found.variance.sqrt().double().numpy()

    return answer, None


def vecchia_model(X: np.ndarray, y: np.ndarray) -> Any:
    """Return GPBoost's process, fitted."""
    import gpboost

    model = gpboost.GPModel(
        gp_coords=X,
        cov_function="matern_ard",
        cov_fct_shape=1.5,
        gp_approx="vecchia",
        num_neighbors=20,
        likelihood="gaussian",
    )
    return model.fit(y=y, X=np.ones((len(y), 1)))


def vecchia(X: np.ndarray, y: np.ndarray) -> tuple[Answer, Any]:
    model = vecchia_model(X, y)

    def answer(new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = model.predict(
            gp_coords_pred=new, X_pred=np.ones((len(new), 1)), predict_var=True, predict_response=True
        )
        return np.asarray(found["mu"]), np.sqrt(found["var"])

    return answer, None


def boosting(X: np.ndarray, y: np.ndarray) -> tuple[Answer, Any]:
    from sklearn.ensemble import HistGradientBoostingRegressor

    cut = len(X) // 5
    model = HistGradientBoostingRegressor(random_state=0).fit(X[cut:], y[cut:])
    errors = np.sort(np.abs(y[:cut] - model.predict(X[:cut])))
    spread = float(np.sqrt(np.mean(errors**2)))

    def interval(new: np.ndarray, level: float) -> np.ndarray:
        mean, half = model.predict(new), errors[min(cut - 1, int(np.ceil(level * (cut + 1))) - 1)]
        return np.stack([mean - half, mean + half], axis=-1)

    return lambda new: (model.predict(new), np.full(len(new), spread)), interval


METHODS: dict[str, Callable[[np.ndarray, np.ndarray], tuple[Answer, Any]]] = {
    "gramian": gramian,
    "scikit-learn": scikit_learn,
    "GPyTorch exact": gpytorch_exact,
    "SVGP": svgp,
    "Vecchia": vecchia,
    "boosting": boosting,
}

# ---- one fit, all fits, the table ------------------------------------------------------------------


def one(name: str, method: str, seed: int) -> dict[str, Any]:
    """Fit a method to a set and return what was measured."""
    X, y, new, target = table(name, seed)
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    answer, interval = METHODS[method](X, y)
    fitted = time.perf_counter()
    mean, std = answer(new)
    told = time.perf_counter()
    if interval is None:
        ends = [
            np.stack([mean - q * std, mean + q * std], axis=-1)
            for q in norm.ppf([0.5 + c / 2 for c in LEVELS])
        ]
    else:
        ends = [interval(new, level) for level in LEVELS]
    z = (target - mean) / std
    crps = std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    return {
        "rows": len(X),
        "features": X.shape[1],
        "rmse": float(np.sqrt(np.mean(np.square(target - mean)))),
        "nlpd": float(np.mean(-norm.logpdf(target, mean, std))),
        "crps": float(crps.mean()),
        "cover": [float(np.mean((e[:, 0] <= target) & (target <= e[:, 1]))) for e in ends],
        "width": float(np.mean(ends[2][:, 1] - ends[2][:, 0])),
        "fit": fitted - began,
        "predict": told - fitted,
        "judged": len(new),
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def run(sets: list[str], methods: list[str], splits: int) -> None:
    """Measure what is not stored yet."""
    for name in sets:
        for method in methods:
            for seed in range(splits):
                key = {"set": name, "method": method, "seed": seed}
                if any(all(line[k] == v for k, v in key.items()) for line in lines()):
                    continue
                command = [sys.executable, __file__, "--one", name, method, str(seed)]
                try:
                    done = subprocess.run(
                        command, stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=True
                    )
                    found = json.loads(done.stdout.splitlines()[-1])
                except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
                    found = {"failed": type(error).__name__}
                with RESULTS.open("a") as file:
                    file.write(json.dumps(key | found | provenance(THREADS)) + "\n")
                print(name, method, seed, found, flush=True)


def lines() -> list[dict[str, Any]]:
    """Return the stored lines."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def show() -> None:
    """Print the stored lines as a table: medians over the splits."""
    stored = lines()
    print(
        f"{'set':16}{'method':15}{'rows':>7}{'rmse':>7}{'nlpd':>8}{'crps':>7}{'width':>7}"
        f"{'cover 50 80 90 95':>22}{'fit':>7}{'predict':>9}{'MB':>6}"
    )
    for name in SETS:
        for method in METHODS:
            found = [line for line in stored if line["set"] == name and line["method"] == method]
            good = [line for line in found if "rmse" in line]
            if not good:
                if found:
                    print(f"{name:16}{method:15}  none within {LIMIT} s")
                continue
            middle = {
                key: float(np.median([line[key] for line in good]))
                for key in ("rmse", "nlpd", "crps", "width", "fit", "predict", "megabytes")
            }
            cover = " ".join(f"{100 * c:4.0f}" for c in np.mean([line["cover"] for line in good], axis=0))
            print(
                f"{name:16}{method:15}{good[0]['rows']:7,}{middle['rmse']:7.3f}{middle['nlpd']:8.3f}"
                f"{middle['crps']:7.3f}{middle['width']:7.2f}{cover:>22}{middle['fit']:7.1f}"
                f"{middle['predict']:9.2f}{middle['megabytes']:6.0f}"
            )
    for key in ("commit", "machine", "date"):
        print(f"{key}: {', '.join(sorted({line[key] for line in stored}))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="print what is stored, and run nothing")
    parser.add_argument(
        "--one", nargs=3, metavar=("SET", "METHOD", "SEED"), help="measure one fit, print JSON"
    )
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(one(asked.one[0], asked.one[1], int(asked.one[2]))))
        return
    if not asked.table:
        run(asked.sets, asked.methods, asked.splits)
    show()


if __name__ == "__main__":
    main()
