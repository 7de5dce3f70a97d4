"""Shapley values by their definition, over all coalitions and all combinations of background values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np


def coalition_value(
    predict: Callable[[np.ndarray], np.ndarray],
    row: np.ndarray,
    background: np.ndarray,
    players: Sequence[np.ndarray],
    coalition: tuple[int, ...],
) -> float:
    """The mean prediction if every absent player takes a background row's places, each on its own."""
    absent = [p for p in range(len(players)) if p not in coalition]
    rows = []
    for chosen in itertools.product(range(len(background)), repeat=len(absent)):
        changed = row.copy()
        for p, b in zip(absent, chosen, strict=True):
            changed[players[p]] = background[b, players[p]]
        rows.append(changed)
    return float(np.mean(predict(np.array(rows))))


def shapley_values(
    predict: Callable[[np.ndarray], np.ndarray],
    row: np.ndarray,
    background: np.ndarray,
    players: Sequence[np.ndarray],
) -> tuple[float, np.ndarray]:
    """Return the value of no player, and φ_p = Σ_S |S|! (d − |S| − 1)!/d! (v(S ∪ p) − v(S)) of each."""
    d = len(players)
    v = {
        coalition: coalition_value(predict, row, background, players, coalition)
        for size in range(d + 1)
        for coalition in itertools.combinations(range(d), size)
    }
    values = np.zeros(d)
    for coalition, value in v.items():
        for p in set(range(d)) - set(coalition):
            share = (
                math.factorial(len(coalition)) * math.factorial(d - len(coalition) - 1) / math.factorial(d)
            )
            values[p] += share * (v[tuple(sorted((*coalition, p)))] - value)
    return v[()], values
