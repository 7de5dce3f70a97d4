"""Random cases: ``draw(seed, number)`` returns one configuration out of all that are promised to work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from adversary.cases import CONTAINERS, LABELS, NUMBERS, ROWS, WEIGHTS, Case, typed

#: Estimators and how often each is drawn, in shares of a hundred. The slow ones are drawn seldom.
SHARES = {
    "KernelRidge": 20,
    "KernelRidgeClassifier": 12,
    "KernelRidgeCV": 8,
    "KernelSVC": 8,
    "KernelSVR": 8,
    "KernelLogisticRegression": 6,
    "DCSVC": 5,
    "GaussianProcessRegressor": 8,
    "KernelPCA": 6,
    "approximation": 16,
    "DCPredClassifier": 1,
    "DCPredRegressor": 1,
    "FastKernelRegressor": 0.5,
    "FastKernelClassifier": 0.5,
}
CLASSIFIERS = (
    "KernelRidgeClassifier",
    "KernelSVC",
    "KernelLogisticRegression",
    "DCSVC",
    "DCPredClassifier",
    "FastKernelClassifier",
)
ONE_OUTPUT = ("DCPredRegressor", "FastKernelRegressor")
STATIONARY = ("rbf", "laplacian", "exponential", "matern32", "matern52", "rational_quadratic", "cauchy")
OTHERS = ("linear", "poly", "cosine", "powered_exponential", "gm.Gaussian(1.5)", "gm.Matern(2.0, nu=2.5)")
SUMS = (
    "gm.Gaussian(2.0) + gm.Linear()",
    "2.0 * gm.Matern(1.0, nu=1.5)",
    "gm.Gaussian(2.0) * gm.kernels.Cauchy(1.5)",
)


def _methods(rank: int, blocks: int, rng: np.random.Generator) -> dict[str, str]:
    """Return each approximation's sizes as arguments."""
    landmarks = _one(rng, ("'kmeans'", "'uniform'", "'rpcholesky'"))
    partition = _one(rng, ("'kmeans'", "'tree'", "'kcenters'"))
    split = f"n_blocks={blocks}, partition={partition}"
    return {
        "Nystrom": f"rank={rank}, landmarks={landmarks}",
        "MultiResolution": f"root_rank={rank}, rank={max(1, rank // 2)}, landmarks={landmarks}, {split}",
        "MEKA": f"rank={rank}, {split}, landmarks={landmarks}",
        "BlockBasis": f"rank={rank}, {split}",
        "BlockDiagonal": f"rank={rank}, {split}" if rank % 2 else split,
        "LowRankPlusBlocks": f"root_rank={rank}, {split}",
        "ClusteredLowRank": f"rank={rank}, {split}",
        "EnsembleNystrom": f"rank={rank}, n_experts={1 + blocks % 4}",
        "KALS": f"rank={rank}, columns='rpcholesky'",
        "TruncatedEigen": f"rank={rank}",
        "RandomFourier": f"rank={2 * rank}",
        "Fastfood": f"rank={2 * rank}",
        "RandomMaclaurin": f"rank={2 * rank + 8}",
        "TensorSketch": f"rank={2 * rank}",
    }


#: Methods that are made for some kernels only.
FOURIER, SERIES = ("RandomFourier", "Fastfood"), ("RandomMaclaurin", "TensorSketch")


def draw(seed: int, number: int) -> Case:
    """Return case ``number`` of the sequence that ``seed`` names."""
    rng = np.random.default_rng([seed, number])
    names, shares = list(SHARES), np.array(list(SHARES.values()))
    estimator = names[rng.choice(len(names), p=shares / shares.sum())]
    n = int(np.exp(rng.uniform(0, np.log(300)))) if rng.random() < 0.5 else int(rng.integers(20, 301))
    d = int(rng.integers(1, 13)) if rng.random() < 0.5 else int(rng.integers(1, 5))
    rows = "plain" if rng.random() < 0.3 else _one(rng, tuple(ROWS))
    dtype = _one(rng, ("float64", "float64", "float64", "float32", "float32", "int64", "int32", "uint8"))
    container = "array" if rng.random() < 0.3 else _one(rng, CONTAINERS)
    method = ""
    if estimator == "approximation":
        made = _methods(_rank(rng, n), int(rng.integers(1, 7)), rng)
        estimator = method = _one(rng, tuple(made))
    target, weights = _target(rng, estimator, n), _one(rng, WEIGHTS)
    plain = Case(estimator, (), n, d, rows, dtype, container, target, weights, int(rng.integers(1, 4)), 0)
    plain = _changed(plain, seed=int(rng.integers(2**31)))
    parameters: dict[str, Any] = {}
    if not estimator.startswith("Fast"):
        parameters |= _kernel(rng, plain, method)
    if method:
        parameters |= _split(made[method])
    parameters |= _own(rng, plain, method, parameters.get("kernel", "'rbf'"))
    if parameters.get("kernel") == "'rbf'":
        parameters.pop("kernel_params", None)  # of a kernel that was drawn before
    if not estimator.startswith(("GaussianProcess", "DCPred", "Fast")) and rng.random() < 0.15:
        parameters["tile_dtype"] = repr(_one(rng, ("float32", "float64")))
    if parameters.get("kernel") == "'precomputed'":
        plain = _changed(plain, container="array")
    return _changed(plain, parameters=tuple(parameters.items()))


def _changed(case: Case, **changes: Any) -> Case:
    return replace(case, **changes)


def _one(rng: np.random.Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _rank(rng: np.random.Generator, n: int) -> int:
    """Return a rank: few, some, as many as rows, or more."""
    return max(1, int(_one(rng, (1, 5, 10, n // 3, n, n, 2 * n))))


def _split(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(", "))


def _target(rng: np.random.Generator, estimator: str, n: int) -> str:
    if estimator in CLASSIFIERS:
        count = int(min(n, rng.integers(2, 7)))
        if count < 2:
            return "1 classes of int"
        return f"{count} classes of {_one(rng, LABELS)}" + (" rare" if rng.random() < 0.2 else "")
    if estimator in ONE_OUTPUT:
        return _one(rng, ("number", "constant", "shifted", "whole"))
    # KernelSVR ravels a column and warns, as scikit-learn's SVR does.
    kinds = tuple(k for k in NUMBERS if k != "column") if estimator == "KernelSVR" else NUMBERS
    return _one(rng, ("number", *kinds))


def _typical(case: Case) -> float:
    """Return 1/(the median squared distance of the rows), rounded to be readable; 1 where it is 0."""
    X = np.asarray(typed(case.X, case.dtype), np.float64)[:50]
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    middle = float(np.median(squares[squares > 0])) if (squares > 0).any() else 1.0
    return float(f"{1.0 / middle:.1g}")


def _kernel(rng: np.random.Generator, case: Case, method: str) -> dict[str, str]:
    if method in SERIES:
        return {"kernel": "'poly'", "degree": str(int(rng.integers(1, 4))), "gamma": repr(_typical(case))}
    if method in FOURIER:
        return {"kernel": repr(_one(rng, ("rbf", "matern32"))), "gamma": repr(_typical(case))}
    if case.estimator == "KernelRidge" and rng.random() < 0.05:
        return {"kernel": "'precomputed'"}
    draw = rng.random()
    if draw < 0.15:
        name = _one(rng, OTHERS)
    elif draw < 0.2 and not case.estimator.startswith(("DCPred", "Gauss")):
        name = _one(rng, SUMS)
    else:
        name = _one(rng, ("rbf", "rbf", *STATIONARY))
    if name.startswith("gm.") or name[0].isdigit():
        return {"kernel": name}
    made = {} if name == "rbf" else {"kernel": repr(name)}
    chance = rng.random()
    if chance < 0.1:
        made["gamma"] = _one(rng, ("1e-12", "1e12", "1e-6", "1e6"))
    elif chance < 0.8:
        scale = _typical(case) * _one(rng, (0.1, 1.0, 10.0))
        if name in ("laplacian", "exponential", "matern32", "matern52"):
            scale = scale**0.5
        made["gamma"] = f"{scale:.2g}"
    if name == "poly":
        made |= {"degree": str(int(rng.integers(1, 4))), "coef0": repr(_one(rng, (0.0, 1.0, 3.0)))}
    if name == "powered_exponential":
        made["kernel_params"] = _one(rng, ("{'p': 1.0, 'q': 0.7}", "{'p': 2.0, 'q': 1.5}"))
    return made


def _map(rng: np.random.Generator, case: Case, kernel: str) -> dict[str, str]:
    """Return how the kernel matrix is approximated: not, by a method, or by a map that was fitted before."""
    chance = rng.random()
    if chance < 0.35:
        return {}
    if chance < 0.6 or kernel == "'precomputed'":
        return {"approximation": "'exact'"}
    made = _methods(_rank(rng, case.n), int(rng.integers(1, 7)), rng)
    # BlockBasis with a diagonal and the like are approximations of their own, not maps for a model.
    usable = [m for m in made if m not in (*FOURIER, *SERIES)]
    if kernel == "'rbf'":
        usable += FOURIER
    chosen = _one(rng, usable)
    return {"approximation": f"gm.approximations.{chosen}({made[chosen]})"}


def _own(rng: np.random.Generator, case: Case, method: str, kernel: str) -> dict[str, str]:
    """Return the parameters that are the estimator's own."""
    name, made = case.estimator, {}
    if method:
        return made
    alpha = _one(rng, ("1e-8", "1e-4", "0.01", "1.0", "1.0", "100.0"))
    C = _one(rng, ("1e-3", "0.1", "1.0", "1.0", "10.0", "1e3"))
    intercept = _one(rng, ({}, {"fit_intercept": "True"}, {"fit_intercept": "False"}))
    balanced = {"class_weight": "'balanced'"} if rng.random() < 0.2 else {}
    if name in ("KernelRidge", "KernelRidgeClassifier"):
        made = {"alpha": alpha} | _map(rng, case, kernel) | intercept
        shifts = kernel.strip("'") in STATIONARY and case.container not in ("csr", "csc")
        if shifts and rng.random() < 0.2:
            made["standardize"] = "True"
        return made | (balanced if name.endswith("Classifier") else {})
    if name == "KernelRidgeCV":
        made = {"alphas": _one(rng, ("(0.1,)", "(1e-3, 0.1, 10.0)")), "kernel": "'rbf'"}
        made |= _map(rng, case, kernel) | intercept
        return made | _one(rng, ({}, {"store_cv_results": "True"}))
    if name in ("KernelSVC", "KernelSVR", "KernelLogisticRegression"):
        made = {"C": C} | _map(rng, case, kernel) | intercept
        if name == "KernelSVC":
            made["loss"] = repr(_one(rng, ("hinge", "squared_hinge")))
            made |= _one(rng, ({}, {}, {"probability": "True"}))
        if name == "KernelSVR":
            made["loss"] = repr(_one(rng, ("epsilon_insensitive", "squared_epsilon_insensitive")))
            made |= _one(rng, ({}, {"epsilon": "0.0"}, {"epsilon": "1e-3"}))
        return made | (balanced if name != "KernelSVR" else {})
    if name == "DCSVC":
        leaf = _one(rng, ({}, {"leaf_size": "10", "branching": "2"}))
        return {"C": C} | intercept | leaf | balanced
    if name == "GaussianProcessRegressor":
        made = {"noise": _one(rng, ("1e-6", "0.01", "0.1", "10.0")), "optimizer": "None"}
        made |= _one(rng, ({}, {"normalize_y": "False"}))
        return made if rng.random() < 0.85 else {k: v for k, v in made.items() if k != "optimizer"}
    if name == "KernelPCA":
        count = _one(rng, ("1", "2", "5", str(max(1, case.n - 1)), str(case.n + 3)))
        return ({} if rng.random() < 0.2 else {"n_components": count}) | _map(rng, case, kernel)
    if name.startswith("DCPred"):
        penalty = {"C": C} if name.endswith("Classifier") else {"alpha": alpha}
        return penalty | _one(rng, ({}, {"n_landmarks": "4", "n_leaves": "3"}))
    return {"n_levels": "0", "n_units": "8", "n_directions": "2"}
