"""Kernel matrices by naive formulas in float64, and how far a matrix of tiles may be from them."""

from __future__ import annotations

from typing import Any

import numpy as np

import gramian as gm
from adversary.cases import Case
from gramian._numerics import entry_tolerance, rank_cutoff, unit_roundoff
from gramian.approximations.auto import EXACT_ROWS

#: Kernels of a distance whose derivative by the squared distance is infinite at 0.
ROUGH = ("exponential", "matern12", "powered_exponential")


def _differences(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.asarray(X[:, None, :] - Z[None, :, :])


def by_name(name: str, X: np.ndarray, Z: np.ndarray, gamma: float, case: Case) -> np.ndarray:
    """Return k(X, Z) for a name, by scikit-learn's formula in gamma, one difference for each pair."""
    if name in ("linear", "poly", "cosine"):
        dots = X @ Z.T
        if name == "linear":
            return dots
        if name == "poly":
            return np.asarray((gamma * dots + case.value("coef0", 1.0)) ** case.value("degree", 3))
        norms = np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(Z, axis=1))
        return np.asarray(np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0))
    D = np.abs(_differences(X, Z))
    if name == "laplacian":
        return np.exp(-gamma * D.sum(axis=-1))
    if name == "powered_exponential":
        power = {"p": 2.0, "q": 1.0} | case.value("kernel_params", {})
        distance = (D ** power["p"]).sum(axis=-1) ** (1.0 / power["p"])
        return np.exp(-gamma * distance ** power["q"])
    square = (D**2).sum(axis=-1)
    r = gamma * np.sqrt(square)
    if name in ("rbf", "gaussian"):
        return np.exp(-gamma * square)
    if name == "exponential":
        return np.exp(-r)
    if name == "matern32":
        return np.asarray((1.0 + np.sqrt(3.0) * r) * np.exp(-np.sqrt(3.0) * r))
    if name == "matern52":
        return np.asarray((1.0 + np.sqrt(5.0) * r + 5.0 * r**2 / 3.0) * np.exp(-np.sqrt(5.0) * r))
    if name in ("rational_quadratic", "cauchy"):
        return np.asarray(1.0 / (1.0 + gamma * square))
    raise AssertionError(f"no formula for {name!r}")


def of_instance(kernel: Any, X: np.ndarray, Z: np.ndarray, case: Case) -> np.ndarray:
    """Return k(X, Z) of a kernel's value, by its parts."""
    if hasattr(kernel, "left"):
        join = np.add if "Sum" in type(kernel).__name__ else np.multiply
        return np.asarray(join(*(of_instance(k, X, Z, case) for k in (kernel.left, kernel.right))))
    if hasattr(kernel, "factor"):
        return np.asarray(kernel.factor * of_instance(kernel.kernel, X, Z, case))
    scale = np.asarray(kernel.lengthscale, np.float64)
    name, gamma = _named(kernel)
    if name in ("linear", "poly", "cosine"):
        A, B = X / scale, Z / scale
    else:  # differences before the division, which would round rows far from 0
        A, B = (X - Z[:1]) / scale, (Z - Z[:1]) / scale
    if isinstance(kernel, gm.Polynomial):
        return np.asarray((A @ B.T + kernel.offset) ** kernel.degree)
    return by_name(name, A, B, gamma, case)


def _named(kernel: Any) -> tuple[str, float]:
    """Return a kernel's name, and the gamma that lengthscale 1 stands for."""
    if isinstance(kernel, gm.Matern):
        return ("matern52" if kernel.nu == 2.5 else "matern32"), 1.0
    names = {
        gm.Gaussian: ("rbf", 0.5),
        gm.Polynomial: ("poly", 1.0),
        gm.kernels.Cauchy: ("cauchy", 1.0),
        gm.Linear: ("linear", 1.0),
        gm.kernels.Cosine: ("cosine", 1.0),
        gm.Exponential: ("exponential", 1.0),
        gm.Laplacian: ("laplacian", 1.0),
        gm.RationalQuadratic: ("rational_quadratic", 0.5),
        gm.kernels.PoweredExponential: ("powered_exponential", 1.0),
    }
    return names[type(kernel)]


def gamma_of(kernel: Any) -> float:
    """Return gamma of a kernel, or of a multiple of one; of several lengthscales, that of the shortest."""
    if hasattr(kernel, "factor"):
        return gamma_of(kernel.kernel)
    name, gamma = _named(kernel)
    squared = name in ("rbf", "cauchy", "rational_quadratic", "linear", "poly")
    return float(gamma / np.min(kernel.lengthscale) ** (2 if squared else 1))


def matrix(case: Case, X: Any, Z: Any) -> np.ndarray:
    """Return the case's k(X, Z) in float64."""
    X, Z = np.asarray(X, np.float64), np.asarray(Z, np.float64)
    kernel = case.value("kernel", "poly" if case.estimator in ("RandomMaclaurin", "TensorSketch") else "rbf")
    if not isinstance(kernel, str):
        return of_instance(kernel, X, Z, case)
    gamma = case.value("gamma")
    return by_name(kernel, X, Z, 1.0 / X.shape[1] if gamma is None else float(gamma), case)


def sizes(case: Case, X: Any) -> np.ndarray:
    """Return k(x, x) of each row."""
    X = np.asarray(X, np.float64)
    return np.array([matrix(case, X[i : i + 1], X[i : i + 1])[0, 0] for i in range(len(X))])


def entry_error(case: Case, X: Any, dtype: Any) -> float:
    """Return how far an entry of a tile may be from k, relative to √(k(x, x) k(z, z)).

    The library promises ``entry_tolerance``; at rows near each other (relative to the lengthscale) rounding
    is far smaller than that, and so is what is allowed: of ‖x − z‖² the error is about
    c(d) u (1 + γ R²), R the rows' distance from their mean, and roots of it have the root of the error.
    """
    X = np.asarray(X, np.float64)
    u, most = unit_roundoff(dtype), entry_tolerance(dtype)
    spread = float(np.abs(X - X.mean(axis=0)).max(initial=0.0)) * np.sqrt(X.shape[1])
    c = 16.0 * (2.0 + np.sqrt(X.shape[1]))
    kernel = case.value("kernel", "rbf")
    if not isinstance(kernel, str) or kernel in ROUGH:
        return most
    if kernel in ("linear", "poly", "cosine"):
        return min(most, c * u * (1.0 + case.value("degree", 3)))
    gamma = case.value("gamma")
    gamma = 1.0 / X.shape[1] if gamma is None else float(gamma)
    reach = gamma * spread**2 if kernel in ("rbf", "cauchy", "rational_quadratic") else (gamma * spread) ** 2
    return float(min(most, c * u * (1.0 + reach)))


def is_plainly_exact(case: Case) -> bool:
    """Return whether the model works with K itself: asked for, or planned for so few rows."""
    chosen = case.value("approximation", "auto")
    return isinstance(chosen, str) and chosen in ("auto", "exact") and case.n <= EXACT_ROWS


def cutoff(case: Case, K: np.ndarray, dtype: Any) -> float:
    """Return what whitening of all rows may leave out of K, in the units of an entry."""
    return float(rank_cutoff(dtype) * np.trace(K)) if len(K) else 0.0
