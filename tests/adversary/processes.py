"""Laws of Gaussian processes: quantiles on both sides of the mean, and what is said inside a gap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from adversary.tables import MANY, PROCESS, fitted
from adversary.trial import Broken

KERNELS = ("rbf", "matern32", "matern52", "exponential")
#: Deviations within which the truth lies, and the least share of points where it does.
DEVIATIONS, ALMOST_ALL = 4.5, 0.95


def _noisy(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and targets whose noise is even, heavy-tailed or skewed."""
    X = rng.standard_normal((n, int(rng.integers(1, 8))))
    noise = (rng.standard_normal(n), rng.standard_t(3, n), rng.exponential(1.0, n))
    return X, 1e3 * (X[:, 0] + 0.5 * noise[int(rng.integers(3))])


def mirrored_quantiles(seed: int, number: int) -> None:
    """Quantiles of −y are those of y mirrored, intervals have the mean in the middle, and none cross."""
    rng = np.random.default_rng([seed, number, 7])
    n = int(rng.integers(30, 90))
    X, y = _noisy(rng, n + 20)
    model, other = (fitted(PROCESS(), X[:n], sign * y[:n]) for sign in (1.0, -1.0))
    levels = (0.1, 0.3, 0.49, 0.5, 0.51, 0.7, 0.9)
    found, mirrored = model.predict_quantiles(X[n:], levels), -other.predict_quantiles(X[n:], levels)[:, ::-1]
    width = found[:, -1:] - found[:, :1]
    off = float((np.abs(found - mirrored) / width).max())
    if not off < 1e-3:  # a search for hyperparameters may end a rounding elsewhere
        raise Broken(f"quantiles of -y differ by {off:.3g} of their width from those of y mirrored", off)
    low, high = model.predict_interval(X[n:], 0.9).T
    off = float((np.abs(low + high - 2.0 * model.predict(X[n:])) / (high - low)).max())
    if not off < 1e-9:
        raise Broken(f"the middle of an interval is {off:.3g} of its width off the mean")
    if (np.diff(found, axis=1) < 0).any():
        raise Broken("quantiles cross")


def median(seed: int, number: int) -> float:
    """Return the share of new targets below the quantile .5."""
    rng = np.random.default_rng([seed, number, 8])
    n = int(rng.integers(30, 90))
    X, y = _noisy(rng, n + MANY)
    return float(np.mean(y[n:] < fitted(PROCESS(), X[:n], y[:n]).predict_quantiles(X[n:], 0.5)))


def gap(seed: int, number: int) -> None:
    """In a gap of one column the truth lies within the band almost everywhere, and the band is wider."""
    rng = np.random.default_rng([seed, number, 9])
    n, noise, phase = int(rng.integers(60, 300)), float(rng.choice([0.05, 0.15, 0.4])), rng.uniform(0, 6)
    width = float(rng.uniform(1.0, 2.5))
    start = float(rng.uniform(2.0, 8.0 - width))
    unit = 10.0 ** rng.integers(-3, 4)
    x = np.sort(rng.uniform(0.0, 10.0, n))
    x = x[(x < start) | (x > start + width)]

    def truth(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.sin(1.5 * x + phase) + 0.3 * x)

    kernel = KERNELS[int(rng.integers(len(KERNELS)))]
    y = truth(x) + noise * rng.standard_normal(len(x))
    model = fitted(PROCESS(kernel=kernel), unit * x[:, None], y)
    inside, outside = np.linspace(start, start + width, 100), np.linspace(0.2, 9.8, 100)
    mean, deviation = model.predict(unit * np.concatenate([inside, outside])[:, None], return_std=True)
    off = np.abs(mean - truth(np.concatenate([inside, outside]))) / deviation
    share = float(np.mean(off < DEVIATIONS))
    if share < ALMOST_ALL:
        raise Broken(
            f"{kernel}: {share:.0%} of the truth is within {DEVIATIONS} deviations, up to {off.max():.3g}"
        )
    free = (outside < start - 0.5) | (outside > start + width + 0.5)
    if not deviation[50] > np.median(deviation[100:][free]):
        raise Broken(f"{kernel}: the band is no wider in the gap ({deviation[50]:.3g}) than elsewhere")


CHECKS: dict[str, Callable[[int, int], None]] = {
    "mirrored quantiles of processes": mirrored_quantiles,
    "gaps of processes": gap,
}
