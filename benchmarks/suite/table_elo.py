"""Elo ratings of methods from their errors on sets: a Bradley-Terry model, with bootstrap intervals."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

#: Points by which a method that wins ten times as often is above, the rating of the method that all others
#: are compared with, bootstrap samples of the sets, and what they leave out on each side.
POINTS, MIDDLE, SAMPLES, OUTSIDE = 400.0, 1000.0, 200, 0.025
#: Penalty of the ratings in units of a game, which keeps that of a method that wins everywhere finite.
PENALTY = 1e-2


@dataclass(frozen=True)
class Elo:
    """A rating with its 95 % interval over bootstrap samples of the sets."""

    value: float
    low: float
    high: float


def elo(errors: dict[str, np.ndarray], middle: str) -> dict[str, Elo]:
    """Return the ratings of methods by their errors (sets,), which are NaN where a method was not run.

    The chance that i has a lower error than j is 1/(1 + 10^((r_j − r_i)/400)); an infinite error loses, equal
    ones are half a win. The rating of ``middle`` is 1000. Empty without it, or without two methods.
    Source: Bradley and Terry 1952.
    """
    names = list(errors)
    if middle not in names or len(names) < 2:
        return {}
    pairs = list(combinations(range(len(names)), 2))
    won = np.zeros((len(pairs), len(errors[middle]), 2))  # games that the first and the second of a pair won
    for k, (i, j) in enumerate(pairs):
        first, second = errors[names[i]], errors[names[j]]
        both = ~(np.isnan(first) | np.isnan(second))
        won[k, both, 0] = np.where(first == second, 0.5, first < second)[both]
        won[k, both, 1] = both[both] - won[k, both, 0]
    left, right = np.array(pairs).T

    def ratings(weights: np.ndarray) -> np.ndarray:
        wins = np.einsum("ksw,s->kw", won, weights)

        def loss(r: np.ndarray) -> tuple[float, np.ndarray]:
            chance = expit(r[left] - r[right])
            slope = wins.sum(axis=1) * chance - wins[:, 0]
            value = -float(wins[:, 0] @ np.log(chance) + wins[:, 1] @ np.log1p(-chance))
            gradient = PENALTY * r
            np.add.at(gradient, left, slope)
            np.add.at(gradient, right, -slope)
            return value + 0.5 * PENALTY * float(r @ r), gradient

        found = minimize(loss, np.zeros(len(names)), jac=True, method="L-BFGS-B").x
        return np.asarray(MIDDLE + POINTS / np.log(10.0) * (found - found[names.index(middle)]))

    n_sets, rng = won.shape[1], np.random.default_rng(0)
    values = ratings(np.ones(n_sets))
    drawn = np.array(
        [ratings(np.bincount(rng.integers(0, n_sets, n_sets), minlength=n_sets)) for _ in range(SAMPLES)]
    )
    low, high = np.quantile(drawn, (OUTSIDE, 1.0 - OUTSIDE), axis=0)
    return {name: Elo(*map(float, each)) for name, *each in zip(names, values, low, high, strict=True)}
