"""Checks beside the cases: changed model files, CSV text, laws of data, and means over many draws."""

from __future__ import annotations

import csv
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import gramian as gm
from adversary import mutated, processes, tables
from adversary.trial import Broken
from gramian.data import read_table
from gramian.data.formats import text

#: What an interval or a set is asked to cover, and new rows that a draw is judged by.
COVERAGE, NEW_ROWS = 0.9, 200
#: Characters of texts: all that mean something in a CSV file, and some that do not.
CHARACTERS = (*",;\t\"'\n#=| ", *"abcé0", "\r\n", '""', "\\")

#: How cells are quoted; None: only where they have to be.
STYLES = (csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC, None)


@dataclass(frozen=True)
class Outcome:
    """What a check has found: a failure's text, or a number whose mean is judged, such as a coverage."""

    kind: str
    number: int
    failure: str = ""
    value: float = float("nan")


# ---- model files -------------------------------------------------------------------------------------


def mutated_file(seed: int, number: int) -> None:
    """A model file with one thing changed is refused, or its model answers."""
    names = list(mutated.KINDS)
    name = names[number % len(names)]
    with tempfile.TemporaryDirectory() as folder:
        stored = mutated.saved(name, Path(tempfile.gettempdir()))
        mutation = mutated.MUTATIONS[(seed + number // len(names)) % len(mutated.MUTATIONS)]
        what, data = mutation(stored.copy(), np.random.default_rng([seed, number]))
        mutated.check(name, what, data, Path(folder))


# ---- CSV ---------------------------------------------------------------------------------------------


def _word(rng: np.random.Generator, first: str) -> str:
    return first + "".join(CHARACTERS[i] for i in rng.integers(len(CHARACTERS), size=rng.integers(0, 6)))


def _bare(cell: Any) -> str:
    """Return a cell that is quoted only where it has to be: quotes within others stay as they are."""
    if isinstance(cell, str) and any(mark in cell for mark in ",\r\n"):
        return '"' + cell.replace('"', '""') + '"'
    return str(cell)


def csv_text(seed: int, number: int) -> None:
    """A CSV file holds what Python's csv module reads of it: names, numbers and texts."""
    rng = np.random.default_rng([seed, number])
    n, d = int(rng.integers(1, 60)), int(rng.integers(1, 5))
    names = [_word(rng, f"c{j}") for j in range(d)] + [_word(rng, "label")]
    numbers = np.round(rng.standard_normal((n, d)) * 10.0 ** rng.integers(0, 6, d), int(rng.integers(0, 5)))
    labels = [_word(rng, "L") for _ in range(n)]
    style, end = STYLES[int(rng.integers(len(STYLES)))], ("\n", "\r\n")[int(rng.integers(2))]
    lines = [names, *([*row, label] for row, label in zip(numbers.tolist(), labels, strict=True))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            if style is None:
                file.writelines(",".join(map(_bare, line)) + end for line in lines)
            else:
                csv.writer(file, quoting=style, lineterminator=end).writerows(lines)
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        X = np.array([[float(cell) for cell in row[:-1]] for row in rows])
        y = [row[-1] for row in rows]
        # Blocks of a few lines, so that texts lie across their borders.
        with mock.patch.object(text, "TEXT_BYTES", int(rng.choice([40, 300, 1 << 21]))):
            table = read_table(path, target=header[-1])
            source = gm.open_data(path, target=header[-1])
            order = rng.permutation(n)
            _equal("read_table", (table.feature_names, table.X, table.y), (header[:-1], X, y))
            found = source.rows(slice(0, n)), source.target[slice(0, n)]
            _equal("open_data", (source.feature_names, *found), (header[:-1], X, y))
            taken = source.take(order), source.target[order]
            _equal("take", (source.feature_names, *taken), (header[:-1], X[order], [y[i] for i in order]))


def _equal(what: str, found: Any, expected: Any) -> None:
    for name, got, want in zip(("names", "numbers", "texts"), found, expected, strict=True):
        same = np.array_equal(got, want) if name == "numbers" else list(map(str, got)) == list(want)
        if not same:
            raise Broken(f"{what}: the {name} are {got!r}; expected {want!r}")


# ---- coverage ----------------------------------------------------------------------------------------


def _sample(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with a smooth target whose noise is even, heavy-tailed or grows."""
    X = rng.standard_normal((n, 3))
    noise = (rng.standard_normal(n), rng.standard_t(3, n), rng.standard_normal(n) * np.exp(X[:, 1]))
    return X, np.sin(X @ [2.0, 1.0, 0.0]) + 0.3 * noise[int(rng.integers(3))]


def _interval(model: Any) -> Callable[[Any, np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    def covered(n: int, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        low, high = model().fit(X[:n], y[:n]).predict_interval(X[n:], COVERAGE).T
        return (low <= y[n:]) & (y[n:] <= high)

    return covered


def _set(n: int, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    model = gm.TabularClassifier(effort="fast", random_state=0).fit(X[:n], labels[:n])
    return model.predict_set(X[n:], COVERAGE)[
        np.arange(len(X) - n), np.searchsorted(model.classes_, labels[n:])
    ]


COVERED: dict[str, Callable[[int, np.ndarray, np.ndarray], np.ndarray]] = {
    "intervals of tables": _interval(lambda: gm.TabularRegressor(effort="fast", random_state=0)),
    "intervals of Gaussian processes": _interval(lambda: gm.GaussianProcessRegressor(random_state=0)),
    "sets of tables": _set,
}


def coverage(kind: str, seed: int, number: int) -> float:
    """Return the share of new rows that are covered, of a model of 30 to 100 rows."""
    rng = np.random.default_rng([seed, number])
    n = int(rng.integers(30, 101))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.AccuracyWarning)  # so few rows compare no settings
        return float(COVERED[kind](n, *_sample(rng, n + NEW_ROWS)).mean())


# ---- all ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mean:
    """A number of each draw, what its mean over draws should be, and how far it may be below and above."""

    of: Callable[[int, int], float]
    asked: float
    below: float = 0.0
    above: float = float("inf")


CHECKS: dict[str, Callable[[int, int], None]] = {
    "mutated model files": mutated_file,
    "CSV text": csv_text,
    **tables.CHECKS,
    **processes.CHECKS,
}
MEANS = {
    **{kind: Mean(partial(coverage, kind), COVERAGE) for kind in COVERED},
    "share below the median, tables": Mean(tables.median, 0.5, 0.03, 0.03),
    "share below the median, processes": Mean(processes.median, 0.5, 0.03, 0.03),
    "log of predicted over true totals": Mean(tables.total, 0.0, 0.1, 0.1),
}
#: One check for so many cases.
EVERY = dict.fromkeys((*CHECKS, *MEANS), 50) | {"mutated model files": 5, "CSV text": 10}


def judged(kind: str, seed: int, number: int) -> Outcome:
    """Make one check."""
    try:
        if kind in MEANS:
            return Outcome(kind, number, value=MEANS[kind].of(seed, number))
        CHECKS[kind](seed, number)
    except Exception as error:
        return Outcome(kind, number, f"{type(error).__name__}: {error}")
    return Outcome(kind, number)


def tasks(cases: int) -> list[tuple[str, int]]:
    """Return the checks that go with so many cases."""
    return [(kind, number) for kind, every in EVERY.items() for number in range(cases // every)]


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """Return for each kind how many checks were made, what failed, and the mean of what they measured.

    A mean fails if it is further from what was asked than allowed, and three standard errors.
    """
    found: dict[str, Any] = {}
    for kind in EVERY:
        own = [one for one in outcomes if one.kind == kind]
        if not own:
            continue
        failures = [f"{kind} {one.number}: {one.failure[:400]}" for one in own if one.failure]
        found[kind] = {"checks": len(own), "failures": failures}
        if kind in MEANS and len(own) > len(failures) + 1:
            values, law = np.array([one.value for one in own if not one.failure]), MEANS[kind]
            mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
            found[kind] |= {"mean": round(mean, 4), "standard error": round(error, 4), "asked": law.asked}
            if not -law.below - 3.0 * error <= mean - law.asked <= law.above + 3.0 * error:
                failures.append(f"{kind}: {mean:.3f} ± {error:.3f}; {law.asked} was asked for")
    return found
