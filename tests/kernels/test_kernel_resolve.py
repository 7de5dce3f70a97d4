"""Names, parameters and stored forms of kernels: what the estimators' door and model files accept."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import pairwise

import gramian as gm
from gramian.exceptions import InputError, ModelFileError
from gramian.kernels import (
    KERNEL_NAMES,
    Cauchy,
    Cosine,
    FunctionKernel,
    Kernel,
    kernel_from_spec,
    kernel_to_spec,
    resolve_kernel,
)

D = 4
X = np.random.default_rng(0).standard_normal((9, D))
Z = np.random.default_rng(1).standard_normal((6, D))


def euclidean(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.sqrt(((x[:, None] - z[None]) ** 2).sum(axis=2))


FORMULAS: dict[str, Callable[[float], np.ndarray]] = {
    "rbf": lambda g: pairwise.rbf_kernel(X, Z, gamma=g),
    "gaussian": lambda g: pairwise.rbf_kernel(X, Z, gamma=g),
    "laplacian": lambda g: pairwise.laplacian_kernel(X, Z, gamma=g),
    "poly": lambda g: pairwise.polynomial_kernel(X, Z, gamma=g, degree=3, coef0=1),
    "polynomial": lambda g: pairwise.polynomial_kernel(X, Z, gamma=g, degree=3, coef0=1),
    "linear": lambda g: pairwise.linear_kernel(X, Z),
    "cosine": lambda g: pairwise.cosine_similarity(X, Z),
    "exponential": lambda g: np.exp(-g * euclidean(X, Z)),
    "matern12": lambda g: np.exp(-g * euclidean(X, Z)),
    "matern32": lambda g: (1 + 3**0.5 * g * euclidean(X, Z)) * np.exp(-(3**0.5) * g * euclidean(X, Z)),
    "matern52": lambda g: (
        (1 + 5**0.5 * g * euclidean(X, Z) + 5 / 3 * (g * euclidean(X, Z)) ** 2)
        * np.exp(-(5**0.5) * g * euclidean(X, Z))
    ),
    "rational_quadratic": lambda g: 1 / (1 + g * euclidean(X, Z) ** 2),
    "cauchy": lambda g: 1 / (1 + g * euclidean(X, Z) ** 2),
    "powered_exponential": lambda g: np.exp(-g * euclidean(X, Z)),
}


@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize("gamma", [None, 0.3, np.float32(2.0), 1])
def test_names_mean_what_scikit_learn_means(name: str, gamma: Any) -> None:
    kernel = resolve_kernel(name, n_features=D, gamma=gamma)
    expected = FORMULAS[name](1 / D if gamma is None else float(gamma))
    np.testing.assert_allclose(kernel(X, Z), expected, rtol=1e-9, atol=1e-12)
    assert set(FORMULAS) == set(KERNEL_NAMES)


def test_the_same_as_pairwise_kernels_by_default() -> None:
    for name in ("rbf", "laplacian", "poly", "polynomial", "linear", "cosine"):
        expected = pairwise.pairwise_kernels(X, Z, metric=name)
        np.testing.assert_allclose(resolve_kernel(name, n_features=D)(X, Z), expected, rtol=1e-9, atol=1e-12)


def test_degree_and_coef0() -> None:
    kernel = resolve_kernel("poly", n_features=D, gamma=0.25, degree=2, coef0=0)
    assert kernel == gm.Polynomial(2.0, degree=2, offset=0.0)
    np.testing.assert_allclose(kernel(X, Z), pairwise.polynomial_kernel(X, Z, gamma=0.25, degree=2, coef0=0))


@pytest.mark.parametrize("gamma", [1e-12, 1e12])
@pytest.mark.parametrize("name", ["rbf", "laplacian", "exponential", "matern52", "cauchy"])
def test_extreme_gamma_has_a_value(name: str, gamma: float) -> None:
    kernel = resolve_kernel(name, n_features=D, gamma=gamma)
    np.testing.assert_allclose(kernel(X), np.ones((9, 9)) if gamma < 1 else np.eye(9), atol=1e-5)


def test_powers_come_from_kernel_params() -> None:
    params = {"p": 1.0, "q": 0.5}
    kernel = resolve_kernel("powered_exponential", n_features=D, gamma=0.3, kernel_params=params)
    expected = np.exp(-0.3 * np.sqrt(pairwise.manhattan_distances(X, Z)))
    np.testing.assert_allclose(kernel(X, Z), expected, rtol=1e-9)


def test_a_kernel_passes_through() -> None:
    kernel = 2.0 * gm.Gaussian(3.0) + gm.Linear()
    assert resolve_kernel(kernel, n_features=D) is kernel


def weighted(X: np.ndarray, Z: np.ndarray, weight: float = 1.0) -> np.ndarray:
    return weight * (X @ Z.T)


def test_callables_and_their_parameters() -> None:
    assert resolve_kernel(weighted, n_features=D) == FunctionKernel(weighted)
    params = {"weight": 3.0}
    kernel = resolve_kernel(weighted, n_features=D, kernel_params=params)
    np.testing.assert_allclose(kernel(X, Z), 3 * X @ Z.T)
    np.testing.assert_allclose(kernel.diagonal(X), 3 * (X**2).sum(axis=1))
    params["weight"] = 5.0
    np.testing.assert_allclose(kernel(X, Z), 3 * X @ Z.T)
    np.testing.assert_allclose(
        resolve_kernel(RBF(2.0), n_features=D)(X, Z), gm.Gaussian(2.0)(X, Z), rtol=1e-9
    )


ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"kernel": "rbff"}, r"kernel='rbff' is not a known name\. Did you mean 'rbf'\? Give one of 'cauchy'"),
    ({"kernel": "RBF"}, "Did you mean 'rbf'"),
    (
        {"kernel": "zzz"},
        r"kernel='zzz' is not a known name\. Give one of .*'rbf', a gramian Kernel, or a callable",
    ),
    (
        {"kernel": "sigmoid"},
        "'sigmoid' is not available: .* is not positive semi-definite.* Use 'rbf' or 'poly'",
    ),
    (
        {"kernel": "chi2"},
        "'chi2' is not available: the chi-squared kernels are not offered. Use 'laplacian', or pass",
    ),
    ({"kernel": "additive_chi2"}, "not positive semi-definite. Use 'laplacian'"),
    ({"kernel": "precomputed", "gamma": 0.5}, "whose values are computed already. Pass gamma=None"),
    (
        {"kernel": "powered_exponential", "kernel_params": {"r": 1.0}},
        r"which takes p and q\. Pass for example kernel_params={'p': 1.0, 'q': 0.7}",
    ),
    ({"kernel": "powered_exponential", "kernel_params": {"q": 3.0}}, "only for 0 < q <= p <= 2"),
    ({"kernel": 3}, "kernel=3 has type int; expected a name such as 'rbf', a gramian Kernel, or a callable"),
    ({"kernel": None}, "kernel=None has type NoneType; expected a name"),
    ({"kernel": gm.Gaussian}, r"kernel=Gaussian is a class; expected an instance\. Pass kernel=Gaussian\(\)"),
    (
        {"kernel": gm.Gaussian(), "gamma": 1.0},
        r"gamma=1.0 .* a Kernel instance carries its lengthscale\. Pass gamma=None",
    ),
    (
        {"kernel": weighted, "gamma": 1.0},
        r"gamma=1.0 was given with a callable kernel.*kernel_params={'gamma': 1.0}",
    ),
    ({"kernel": "rbf", "gamma": 0}, "gamma=0 must be a positive, finite number. gamma=None means 1/n_feat"),
    ({"kernel": "rbf", "gamma": -1.0}, "gamma=-1.0 must be a positive"),
    ({"kernel": "rbf", "gamma": np.nan}, "gamma=nan must be a positive"),
    ({"kernel": "linear", "gamma": np.inf}, "gamma=inf must be a positive"),
    ({"kernel": "rbf", "gamma": True}, "gamma=True must be a positive, finite number. gamma=None"),
    ({"kernel": "rbf", "gamma": "median"}, "gamma='median' is unknown here. Give a positive number, 'scale'"),
    ({"kernel": "poly", "degree": 1.5}, "degree=1.5 is not whole; give an integer"),
    ({"kernel": "poly", "coef0": -1}, "coef0=-1 is not a number of at least 0. Give coef0 >= 0, else"),
    ({"kernel": "poly", "coef0": None}, "coef0=None is not a number"),
    (
        {"kernel": "rbf", "kernel_params": {"a": 1}},
        r"kernel_params={'a': 1} was given with kernel='rbf'.*Pass kernel_params=None",
    ),
    ({"kernel": gm.Linear(), "kernel_params": {}}, "holds arguments of a callable kernel"),
    (
        {"kernel": weighted, "kernel_params": {1: 2}},
        "kernel_params={1: 2} is not a dict of argument names and values",
    ),
    (
        {"kernel": weighted, "kernel_params": [("weight", 2)]},
        "is not a dict of argument names and values. Pass for",
    ),
]


@pytest.mark.parametrize(("arguments", "text"), ERRORS, ids=[text[:40] for _, text in ERRORS])
def test_errors_say_what_to_do(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        resolve_kernel(n_features=D, **arguments)


SPECS = [
    gm.Gaussian(2.0),
    gm.Gaussian((1.0, 2.0)),
    gm.Exponential(0.1),
    gm.Matern(np.float32(1.5), nu=2.5),
    gm.RationalQuadratic(3, shape=np.float64(0.5)),
    Cauchy(),
    gm.Laplacian(np.array([1, 2])),
    gm.Linear(),
    gm.Polynomial(2.0, degree=np.int64(4), offset=np.float32(0.5)),  # type: ignore[arg-type]
    Cosine(),
    np.float32(2) * gm.Gaussian() + gm.Linear(3) * (0.5 * Cosine() + Cauchy()),
]


@pytest.mark.parametrize("kernel", SPECS, ids=repr)
def test_specs_survive_json(kernel: Kernel) -> None:
    assert kernel_from_spec(json.loads(json.dumps(kernel_to_spec(kernel)))) == kernel


def test_specs_are_readable_and_fields_with_defaults_may_be_missing() -> None:
    assert kernel_to_spec(2 * gm.Matern((1, 2))) == {
        "family": "Scaled",
        "factor": 2.0,
        "kernel": {"family": "Matern", "lengthscale": [1.0, 2.0], "nu": 1.5},
    }
    assert kernel_from_spec({"family": "Matern"}) == gm.Matern()


class Mine(gm.Gaussian):
    pass


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (
            FunctionKernel(weighted),
            "is a function, whose code a model file cannot hold. Save the model with pickle",
        ),
        (2 * FunctionKernel(weighted), "is a function, whose code"),
        (Mine(), "has type Mine; expected one of Gaussian, Laplacian, .* Save the model with pickle"),
        ("rbf", "'rbf' has type str; expected one of"),
    ],
)
def test_what_a_file_cannot_hold(kernel: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        kernel_to_spec(kernel)


DEEP: dict[str, Any] = {"family": "Linear"}
for _ in range(3000):
    DEEP = {"family": "Scaled", "factor": 1.0, "kernel": DEEP}

DAMAGED: list[tuple[Any, str]] = [
    (None, "the kernel is stored as None; expected a dict with the key 'family'. The file is damaged"),
    ({"lengthscale": 1.0}, "expected a dict with the key 'family'"),
    ({"family": 3}, "expected a dict with the key 'family'"),
    (
        {"family": "Wavelet"},
        "kernel family 'Wavelet' is not one of Gaussian, .* newer version: upgrade gramian",
    ),
    ({"family": "FunctionKernel", "function": "f"}, "'FunctionKernel' is not one of"),
    (
        {"family": "Gaussian", "size": 1.0},
        r"Gaussian is stored with the fields \['size'\]; expected \['lengthscale'\]",
    ),
    ({"family": "Sum", "left": {"family": "Linear"}}, r"the fields \['left'\]; expected \['left', 'right'\]"),
    ({"family": "Sum", "left": {"family": "Linear"}, "right": 1}, "the kernel is stored as 1"),
    (
        {"family": "Gaussian", "lengthscale": -1.0},
        "Gaussian is stored with a bad value: lengthscale=-1.0 must be",
    ),
    (
        {"family": "Gaussian", "lengthscale": {}},
        "bad value: lengthscale={} must be a positive, finite number",
    ),
    (
        {"family": "Scaled", "factor": "2", "kernel": {"family": "Linear"}},
        "bad value: factor='2' must be a positive, finite number",
    ),
    (DEEP, "nested too deeply"),
]


@pytest.mark.parametrize(("spec", "text"), DAMAGED, ids=[text[:40] for _, text in DAMAGED])
def test_damaged_specs(spec: Any, text: str) -> None:
    with pytest.raises(ModelFileError, match=text):
        kernel_from_spec(spec)
