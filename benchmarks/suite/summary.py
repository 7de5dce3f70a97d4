"""Summary of the results: ranks, ratios, and the winner on each set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from suite.methods import METHODS
from suite.results import Line, of_sizes

OURS = "gramian"
#: Errors closer than this share are called equal: splits and seeds move them as much.
EQUAL = 0.03
COSTS = ("fit_seconds", "predict_seconds", "peak_bytes", "model_bytes")


def sets_of(lines: list[Line]) -> list[str]:
    """Name the sets, by rows to train on."""
    rows = {line["set"]: line["n_train"] for line in of_sizes(lines)}
    return sorted(rows, key=lambda name: (rows[name], name))


def methods_of(lines: list[Line]) -> list[str]:
    """Name the methods in the order in which they are listed."""
    there = {line["method"] for line in lines}
    return [name for name in METHODS if name in there]


def usual(lines: list[Line]) -> dict[tuple[str, str], Line]:
    """Return the lines of the usual sizes by (set, method), failures too."""
    return {
        (line["set"], line["method"]): line
        for line in lines
        if line["size"] == METHODS[line["method"]].usual_size
    }


def score(line: Line) -> float:
    """Return the error, infinite where there is none."""
    return float(line.get("error", np.inf))


@dataclass(frozen=True)
class Standing:
    """A method over all sets that it can do, at its usual size."""

    method: str
    n_sets: int
    failures: int
    wins: int  #: sets where no other has a lower error by more than EQUAL
    rank: float  #: mean, 1 is best; a failure takes the last place
    over_best: float  #: geometric mean of error / lowest error on the set, without failures
    costs: dict[str, float]  #: geometric mean of each cost over ours on the same set


def standings(lines: list[Line]) -> list[Standing]:
    """Return the methods, the lowest mean rank first."""
    table = usual(lines)
    found = []
    for method in methods_of(lines):
        places, ratios, wins, failures = [], [], 0, 0
        costs: dict[str, list[float]] = {name: [] for name in COSTS}
        for name in sets_of(lines):
            if (name, method) not in table:
                continue
            mine, ours = table[name, method], table.get((name, OURS))
            others = [score(line) for (of, _), line in table.items() if of == name]
            best, error = min(others), score(mine)
            places.append(1 + sum(other < error for other in others) if np.isfinite(error) else len(others))
            if not np.isfinite(error):
                failures += 1
                continue
            wins += error <= best * (1.0 + EQUAL)
            ratios.append(ratio(error, best))
            for cost in COSTS:
                if ours is not None and cost in ours and ours[cost] > 0 and mine[cost] > 0:
                    costs[cost].append(mine[cost] / ours[cost])
        if places:
            found.append(
                Standing(
                    method,
                    len(places),
                    failures,
                    wins,
                    float(np.mean(places)),
                    geometric(ratios),
                    {cost: geometric(values) for cost, values in costs.items()},
                )
            )
    return sorted(found, key=lambda one: one.rank)


def ratio(error: float, best: float) -> float:
    """Return error / best, where half a wrong row in a thousand counts as none."""
    return (error + 5e-4) / (best + 5e-4)


def geometric(values: list[float]) -> float:
    """Return the geometric mean, NaN of nothing."""
    return float(np.exp(np.mean(np.log(values)))) if values else float("nan")


def lost(lines: list[Line]) -> list[tuple[str, float, list[tuple[str, float]]]]:
    """Return the sets where a peer's error is lower than ours: (set, our error, [(method, error), …])."""
    table = usual(lines)
    found = []
    for name in sets_of(lines):
        ours = score(table[name, OURS]) if (name, OURS) in table else np.inf
        better = [
            (method, score(line))
            for (of, method), line in table.items()
            if of == name
            and METHODS[method].settings_of != OURS
            and ratio(ours, score(line)) > 1.0 + EQUAL
            and np.isfinite(score(line))
        ]
        if better:
            found.append((name, ours, sorted(better, key=lambda one: one[1])))
    return found
