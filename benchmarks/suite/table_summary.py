"""Summary of the table results: errors beside CatBoost's, ranks, Elo, and the thresholds to pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from comparison import REGRESSION

from suite.results import Line
from suite.summary import geometric, ratio
from suite.table_elo import Elo, elo
from suite.table_methods import BEST, FAST, OURS, REFERENCE, TABLE_METHODS
from suite.table_sets import BINARY, MIXED, MULTICLASS, NUMBERS

#: A mean error within this share of another counts as no worse.
NO_WORSE = 0.005
#: Load beyond the threads of the run itself from which its seconds are doubtful.
OTHER_WORK = 0.7
#: Training rows up to which a set is small.
SMALL = 2_000
COSTS = ("fit_seconds", "predict_seconds", "peak_bytes", "model_bytes")


@dataclass(frozen=True)
class Tables:
    """Lines by set, method and split."""

    lines: dict[tuple[str, str], dict[int, Line]]

    @staticmethod
    def of(lines: list[Line]) -> Tables:
        """Sort lines."""
        found: dict[tuple[str, str], dict[int, Line]] = {}
        for line in lines:
            if line["method"] in TABLE_METHODS:
                found.setdefault((line["set"], line["method"]), {})[line["split"]] = line
        return Tables(found)

    @property
    def facts(self) -> dict[str, Line]:
        """One measured line of each set, by rows."""
        found = {of: line for (of, _), splits in self.lines.items() for line in splits.values() if ok(line)}
        return dict(sorted(found.items(), key=lambda item: (rows_of(item[1]), item[0])))

    @property
    def methods(self) -> list[str]:
        """The methods that were run, in the order in which they are listed."""
        there = {method for _, method in self.lines}
        return [name for name in TABLE_METHODS if name in there]

    @property
    def ranked(self) -> list[str]:
        """Those of them that take part in the ranks: if they were run on every set."""
        sets = self.facts
        names = [name for name in self.methods if TABLE_METHODS[name].ranked]
        return [name for name in names if all(self.splits(each, name) for each in sets)]

    def splits(self, name: str, method: str) -> dict[int, Line]:
        """Return the lines of a method on a set by split."""
        return self.lines.get((name, method), {})

    def mean(self, name: str, method: str, measure: str = "error") -> tuple[float, float]:
        """Return mean and standard error of the splits: infinite where one failed, NaN where none was run."""
        lines = self.splits(name, method).values()
        if not lines:
            return float("nan"), float("nan")
        found = np.array([line.get(measure, np.inf) for line in lines])
        if not np.isfinite(found).all():
            return float("inf"), float("nan")
        return float(found.mean()), standard_error(found)

    def pairs(self, name: str, method: str, other: str = REFERENCE) -> Iterator[tuple[Line, Line]]:
        """Yield the lines of both methods of the splits on which both are there and succeeded."""
        mine, theirs = self.splits(name, method), self.splits(name, other)
        for split in sorted(mine.keys() & theirs.keys()):
            if ok(mine[split]) and ok(theirs[split]):
                yield mine[split], theirs[split]

    def over(self, name: str, method: str, measure: str = "error") -> float:
        """Return the mean of a measure over CatBoost's on the same splits, NaN without any."""
        pairs = list(self.pairs(name, method))
        if not pairs or measure not in pairs[0][0]:
            return float("nan")
        return ratio(
            float(np.mean([mine[measure] for mine, _ in pairs])),
            float(np.mean([theirs[measure] for _, theirs in pairs])),
        )

    def times(self, name: str, method: str, cost: str = "fit_seconds") -> float:
        """Return the median over the splits of a cost over CatBoost's on the same split, NaN without any."""
        found = [mine[cost] / theirs[cost] for mine, theirs in self.pairs(name, method) if theirs[cost] > 0]
        return float(np.median(found)) if found else float("nan")

    def of_task(self, *tasks: str) -> list[str]:
        """Name the sets of these tasks."""
        return [name for name, facts in self.facts.items() if facts["task"] in tasks]


def ok(line: Line) -> bool:
    """Return whether a line has a figure."""
    return "error" in line and bool(np.isfinite(line["error"]))


def rows_of(line: Line) -> int:
    """Return the rows of a measured line, to learn from and to be judged on."""
    return int(line["n_train"] + line["n_test"])


def was_busy(line: Line) -> bool:
    """Return whether the machine had other work when a fit began: more than the run's own threads make."""
    return (line.get("load") or 0.0) > line["machine"]["threads"] + OTHER_WORK


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of a mean, NaN of one value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


# ---- what was to be reached ----------------------------------------------------------------------


@dataclass(frozen=True)
class Criterion:
    """One part of what was to be reached."""

    text: str
    wanted: str
    measured: str
    met: bool


def bar(tables: Tables) -> list[Criterion]:
    """Return the parts that the sets measured on both sides tell about."""
    found: list[Criterion] = []

    def against(method: str, tasks: tuple[str, ...], measure: str = "error") -> np.ndarray:
        shares = np.array([tables.over(name, method, measure) for name in tables.of_task(*tasks)])
        return shares[np.isfinite(shares)]

    for method in (OURS, BEST):
        named = TABLE_METHODS[method].name
        shares = against(method, (REGRESSION,))
        if len(shares):
            below, mean = int((shares < 1.0).sum()), geometric(list(shares))
            text = f"{below} of {len(shares)}: {below / len(shares):.0%}; {mean:.3f}"
            what = f"regression: sets with an RMSE of {named} below CatBoost's; geometric mean of the ratios"
            met = below >= 0.85 * len(shares) and mean <= 0.9
            found.append(Criterion(what, "≥ 85 %; ≤ 0.90", text, met))
        gains = [
            tables.mean(name, REFERENCE)[0] - tables.mean(name, method)[0]
            for name in tables.of_task(BINARY)
            if len(list(tables.pairs(name, method)))
        ]
        gains = [gain for gain in gains if np.isfinite(gain)]
        if gains:
            up, mean = sum(gain >= 0.0 for gain in gains), float(np.mean(gains))
            text = f"{up} of {len(gains)}: {up / len(gains):.0%}; {mean:+.4f}"
            what = f"two classes: sets with an AUC of {named} at least CatBoost's; mean difference"
            met = up >= 0.7 * len(gains) and mean >= 0.005
            found.append(Criterion(what, "≥ 70 %; ≥ +0.005", text, met))
    for method, most in ((OURS, 1.0), (BEST, 0.97)):
        shares = against(method, (BINARY, MULTICLASS), "log_loss")
        if len(shares):
            mean = geometric(list(shares))
            what = f"classes: log-loss of {TABLE_METHODS[method].name} over CatBoost's, geometric mean"
            found.append(Criterion(what, f"≤ {most:.2f}", f"{mean:.3f} ({len(shares)} sets)", mean <= most))
    ours = next((place for place in places(tables) if place.method == OURS), None)
    if ours is not None and len(tables.ranked) > 1:
        what = f"mean rank among {len(tables.ranked)} methods"
        found.append(Criterion(what, "≤ 2.0 of ten", f"{ours.rank:.2f}", ours.rank <= 2.0))
    for method, median, most in ((OURS, 4.0, 8.0), (FAST, 1.5, np.inf)):
        times = {name: tables.times(name, method) for name in tables.facts}
        times = {name: value for name, value in times.items() if np.isfinite(value)}
        if times:
            slowest = max(times, key=lambda name: times[name])
            middle = float(np.median(list(times.values())))
            what = f"fit time of {TABLE_METHODS[method].name} over CatBoost's: median; largest"
            wanted = f"≤ {median:g}" + (f"; ≤ {most:g}" if np.isfinite(most) else "")
            text = f"{middle:.2g}; {times[slowest]:.2g} ({slowest})"
            found.append(Criterion(what, wanted, text, middle <= median and times[slowest] <= most))
    return found


# ---- all methods ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A method over all sets that it was run on."""

    method: str
    n_sets: int
    failures: int  #: sets with a split that failed
    wins: int  #: sets where no other has an error lower by more than NO_WORSE
    rank: float  #: mean; ties share the best place, a failure takes the last; NaN if it takes no part
    elo: Elo | None
    error: float  #: geometric mean of the error over CatBoost's, without failures
    log_loss: float  #: the same of the log-loss
    costs: dict[str, float]  #: geometric means over CatBoost's on the same splits


def places(tables: Tables, sets: list[str] | None = None) -> list[Place]:
    """Return the methods over these sets (None: all), the lowest mean rank first, those without one last."""
    whole, sets = sets is None, list(tables.facts) if sets is None else sets
    errors = {m: np.array([tables.mean(name, m)[0] for name in sets]) for m in tables.methods}
    ratings = elo({method: errors[method] for method in tables.ranked}, REFERENCE) if whole else {}
    found = []
    for method in tables.methods:
        mine = errors[method]
        there = np.flatnonzero(~np.isnan(mine))
        if not len(there):
            continue
        ranks, wins = [], 0
        for j in there:
            others = [errors[other][j] for other in tables.ranked if not np.isnan(errors[other][j])]
            ranks.append(
                1 + sum(other < mine[j] for other in others) if np.isfinite(mine[j]) else len(others)
            )
            wins += bool(np.isfinite(mine[j])) and mine[j] <= min(others, default=0.0) * (1.0 + NO_WORSE)
        ranked = method in tables.ranked

        def mean(of: Callable[[str], float], there: np.ndarray = there) -> float:
            values = [of(sets[j]) for j in there]
            return geometric([value for value in values if np.isfinite(value) and value > 0])

        found.append(
            Place(
                method,
                len(there),
                int((~np.isfinite(mine[there])).sum()),
                wins if ranked else 0,
                float(np.mean(ranks)) if ranked else float("nan"),
                ratings.get(method),
                mean(lambda name, method=method: tables.over(name, method)),
                mean(lambda name, method=method: tables.over(name, method, "log_loss")),
                {
                    cost: mean(lambda name, method=method, cost=cost: tables.times(name, method, cost))
                    for cost in COSTS
                },
            )
        )
    return sorted(found, key=lambda place: place.rank if np.isfinite(place.rank) else np.inf)


def kinds(tables: Tables) -> dict[str, list[str]]:
    """Return the sets of each kind: by task, by what the columns hold, and by rows."""
    facts = tables.facts
    return {
        "regression": tables.of_task(REGRESSION),
        "two classes": tables.of_task(BINARY),
        "more classes": tables.of_task(MULTICLASS),
        "numbers only": [name for name in facts if facts[name]["kind"] == NUMBERS],
        "with categories": [name for name in facts if facts[name]["kind"] == MIXED],
        f"up to {SMALL:,} training rows": [name for name in facts if facts[name]["n_train"] <= SMALL],
        "more rows": [name for name in facts if facts[name]["n_train"] > SMALL],
    }


def lost(tables: Tables) -> list[tuple[str, float, list[tuple[str, float]]]]:
    """Return the sets where a ranked method has a mean error lower by more than ``NO_WORSE``, worst first.

    (set, our error, [(method, error), … the three lowest])
    """
    found = []
    for name in tables.facts:
        ours = tables.mean(name, OURS)[0]
        errors = [(method, tables.mean(name, method)[0]) for method in tables.ranked if method != OURS]
        better = sorted(
            ((method, error) for method, error in errors if error * (1.0 + NO_WORSE) < ours),
            key=lambda each: each[1],
        )
        if better:
            found.append((name, ours, better[:3]))
    return sorted(found, key=lambda each: -ratio(each[1], each[2][0][1]))
