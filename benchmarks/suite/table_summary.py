"""Summary of the table results: errors with standard errors, ranks, and the threshold to pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from suite.results import Line
from suite.summary import geometric, ratio
from suite.table_methods import BOOSTING, OURS, TABLE_METHODS

#: A mean error within this share of another counts as no worse.
NO_WORSE = 0.005
#: The bar: least shares of sets no worse and better, most times boosting's fit time, and most seconds of a
#: fit on sets of up to so many rows.
SHARE_NO_WORSE, SHARE_BETTER, MOST_TIMES, MOST_SECONDS, UP_TO_ROWS = 0.8, 0.5, 10.0, 60.0, 50_000
#: Load beyond the threads of the run itself from which its seconds are doubtful.
OTHER_WORK = 0.7
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

    def splits(self, name: str, method: str) -> dict[int, Line]:
        """Return the lines of a method on a set by split."""
        return self.lines.get((name, method), {})

    def error(self, name: str, method: str) -> tuple[float, float]:
        """Return mean and standard error of the splits: infinite where one failed, NaN where none was run."""
        lines = self.splits(name, method).values()
        if not lines:
            return float("nan"), float("nan")
        errors = np.array([line.get("error", np.inf) for line in lines])
        if not np.isfinite(errors).all():
            return float("inf"), float("nan")
        return float(errors.mean()), standard_error(errors)

    def pairs(self, name: str, method: str, other: str = BOOSTING) -> Iterator[tuple[Line, Line]]:
        """Yield the lines of both methods of the splits on which both are there and succeeded."""
        mine, theirs = self.splits(name, method), self.splits(name, other)
        for split in sorted(mine.keys() & theirs.keys()):
            if ok(mine[split]) and ok(theirs[split]):
                yield mine[split], theirs[split]

    def times(self, name: str, method: str, cost: str = "fit_seconds") -> float:
        """Return the median over the splits of a cost over boosting's on the same split, NaN without any."""
        found = [mine[cost] / theirs[cost] for mine, theirs in self.pairs(name, method) if theirs[cost] > 0]
        return float(np.median(found)) if found else float("nan")


def ok(line: Line) -> bool:
    """Return whether a line has a figure."""
    return "error" in line and bool(np.isfinite(line["error"]))


def rows_of(line: Line) -> int:
    """Return the rows of the set that a measured line is of."""
    return int(line["n_train"] + line["n_test"])


def was_busy(line: Line) -> bool:
    """Return whether the machine had other work when a fit began: more than the run's own threads make."""
    return (line.get("load") or 0.0) > line["machine"]["threads"] + OTHER_WORK


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of a mean, NaN of one value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


# ---- against boosting ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Duel:
    """gramian against HistGradientBoosting with defaults on a set, over the splits that both were given."""

    set: str
    n_rows: int
    ours: float  #: mean error; infinite where a split failed
    theirs: float
    difference: float  #: mean over the splits of our error / theirs, less 1
    spread: float  #: standard error of that
    times: float  #: median of our fit time / theirs
    longest: float  #: seconds of our longest fit; infinite where a split failed

    @property
    def no_worse(self) -> bool:
        """Whether our mean error is lower, or above by at most ``NO_WORSE``."""
        return bool(np.isfinite(self.ours)) and self.ours <= self.theirs * (1.0 + NO_WORSE)

    @property
    def better(self) -> bool:
        """Whether our mean error is lower."""
        return self.ours < self.theirs


def duels(tables: Tables) -> list[Duel]:
    """Return a duel for each set on which both were run and boosting did not fail, by rows."""
    found = []
    for name, facts in tables.facts.items():
        ours, theirs = tables.splits(name, OURS), tables.splits(name, BOOSTING)
        common = sorted(ours.keys() & theirs.keys())
        if not common or not all(ok(theirs[split]) for split in common):
            continue
        pairs = list(tables.pairs(name, OURS))
        shares = np.array([ratio(mine["error"], other["error"]) - 1.0 for mine, other in pairs])
        found.append(
            Duel(
                name,
                rows_of(facts),
                float(np.mean([ours[split].get("error", np.inf) for split in common])),
                float(np.mean([theirs[split]["error"] for split in common])),
                float(shares.mean()) if pairs else float("inf"),
                standard_error(shares),
                tables.times(name, OURS),
                max(ours[split].get("fit_seconds", np.inf) for split in common),
            )
        )
    return found


def not_compared(tables: Tables) -> list[str]:
    """Name the sets on which both were run and boosting failed, which no share counts."""
    there = {duel.set for duel in duels(tables)}
    both = {of for of, method in tables.lines if method == OURS} & {
        of for of, method in tables.lines if method == BOOSTING
    }
    return sorted(both - there)


@dataclass(frozen=True)
class Criterion:
    """One part of the bar."""

    text: str
    wanted: str
    measured: str
    met: bool


def bar(found: list[Duel]) -> list[Criterion]:
    """Return the parts of the bar; there must be a duel."""
    n = len(found)
    no_worse, better = sum(duel.no_worse for duel in found), sum(duel.better for duel in found)
    timed = [duel for duel in found if np.isfinite(duel.times)]
    small = [duel for duel in found if duel.n_rows <= UP_TO_ROWS]
    parts = [
        Criterion(
            f"sets with a mean error no worse (lower, or above by at most {NO_WORSE:.1%})",
            f"at least {SHARE_NO_WORSE:.0%}",
            f"{no_worse} of {n}: {no_worse / n:.0%}",
            no_worse >= SHARE_NO_WORSE * n,
        ),
        Criterion(
            "sets with a lower mean error",
            f"at least {SHARE_BETTER:.0%}",
            f"{better} of {n}: {better / n:.0%}",
            better >= SHARE_BETTER * n,
        ),
    ]
    if timed:
        slowest = max(timed, key=lambda duel: duel.times)
        over = sum(duel.times > MOST_TIMES for duel in timed)
        parts.append(
            Criterion(
                "fit time over boosting's, median of the splits, largest of the sets",
                f"at most {MOST_TIMES:g}",
                f"{slowest.times:.3g} ({slowest.set}); above on {over} of {len(timed)}",
                over == 0,
            )
        )
    if small:
        longest = max(small, key=lambda duel: duel.longest)
        seconds = f"{longest.longest:.1f} s" if np.isfinite(longest.longest) else "a fit failed"
        parts.append(
            Criterion(
                f"longest fit on sets of up to {UP_TO_ROWS:,} rows",
                f"at most {MOST_SECONDS:g} s",
                f"{seconds} ({longest.set})",
                longest.longest <= MOST_SECONDS,
            )
        )
    return parts


def lost(tables: Tables, boosting: tuple[str, ...]) -> list[tuple[str, float, list[tuple[str, float]]]]:
    """Return the sets where a kind of boosting has a lower mean error by more than ``NO_WORSE``.

    (set, our error, [(method, error), …])
    """
    found = []
    for name in tables.facts:
        ours = tables.error(name, OURS)[0]
        errors = [(method, tables.error(name, method)[0]) for method in boosting]
        better = [(method, error) for method, error in errors if error * (1.0 + NO_WORSE) < ours]
        if better:
            found.append((name, ours, better))
    return found


# ---- all methods ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A method over all sets that it was run on."""

    method: str
    n_sets: int
    failures: int  #: sets with a split that failed
    wins: int  #: sets where no other has an error lower by more than NO_WORSE
    rank: float  #: mean; ties share the best place, a failure takes the last
    error: float  #: geometric mean of the error over boosting's, without failures
    costs: dict[str, float]  #: geometric means over boosting's on the same splits


def places(tables: Tables) -> list[Place]:
    """Return the methods, the lowest mean rank first."""
    found = []
    for method in tables.methods:
        ranks, ratios, wins, failures = [], [], 0, 0
        costs: dict[str, list[float]] = {cost: [] for cost in COSTS}
        for name in tables.facts:
            error = tables.error(name, method)[0]
            others = [tables.error(name, other)[0] for other in tables.methods]
            others = [other for other in others if not np.isnan(other)]
            if np.isnan(error):
                continue
            failed = not np.isfinite(error)
            failures += failed
            ranks.append(len(others) if failed else 1 + sum(other < error for other in others))
            wins += not failed and error <= min(others) * (1.0 + NO_WORSE)
            theirs = tables.error(name, BOOSTING)[0]
            if not failed and np.isfinite(theirs):
                ratios.append(ratio(error, theirs))
            for cost in COSTS:
                times = tables.times(name, method, cost)
                if np.isfinite(times) and times > 0:
                    costs[cost].append(times)
        if ranks:
            means = {cost: geometric(values) for cost, values in costs.items()}
            found.append(
                Place(method, len(ranks), failures, wins, float(np.mean(ranks)), geometric(ratios), means)
            )
    return sorted(found, key=lambda place: place.rank)
