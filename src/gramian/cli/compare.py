"""Comparison of methods on the same rows with the same time limit, each search and fit in a fresh process."""

from __future__ import annotations

import importlib.metadata
import math
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from gramian import __version__
from gramian._budget import format_bytes
from gramian._typing import Array
from gramian.cli.opening import Opened
from gramian.cli.table_training import choice
from gramian.cli.wording import in_options
from gramian.comparison import CONTENDERS, Measured, SearchResult, error_of, measure, search
from gramian.comparison.contenders import ProblemFacts
from gramian.comparison.quiet_threads import quiet_children
from gramian.exceptions import InputError
from gramian.reporting.scores import CLASSIFICATION, trivial
from gramian.summary import Grid, Summary
from gramian.tables import TableColumns
from gramian.tables.classifier import TabularClassifier
from gramian.tables.regressor import TabularRegressor

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


Result = TypeVar("Result")
#: The table model, which has a search of its own.
OURS = "gramian"
#: The methods that are compared; all but ours are keys of ``CONTENDERS``.
METHODS = (OURS, "nystroem", "boosting")
#: Fraction of the rows held out to score the methods. Chosen by hand.
HELD_OUT = 0.2
#: Share of the time for the search; the rest is for the fit to all rows, which cannot be cut short.
#: Chosen by hand.
SEARCH_SHARE = 0.6
#: A method that took more than this multiple of its time gets a warning. Chosen by hand.
OVER = 1.1
#: A verdict names the best method only if each one tried at least this many settings. Chosen by hand.
LEAST_TRIED = 10
#: Packages whose versions are recorded with the results.
PACKAGES = ("scikit-learn", "numpy", "scipy")


@dataclass(frozen=True)
class Rules:
    """Settings that are the same for all methods."""

    task: str
    seconds: float  #: for search and fit of each method
    memory: str  #: budget of gramian; the others have none
    seed: int
    threads: int | None


@dataclass(frozen=True)
class TrainAndTest:
    """Training rows and held-out rows: arrays of numbers or Arrow tables."""

    X: Any
    y: Array
    X_test: Any
    y_test: Array

    def encoded(self) -> TrainAndTest:
        """Return the rows as numbers, by columns learned from the training rows; arrays stay unchanged."""
        if isinstance(self.X, np.ndarray):
            return self
        columns = TableColumns.learn(self.X)
        return replace(self, X=columns.encode(self.X), X_test=columns.encode(self.X_test))


@dataclass(frozen=True)
class Entry:
    """Result of one method; ``failure`` says why there are no numbers."""

    method: str
    size: Any = None
    size_name: str = "size"
    settings: dict[str, Any] = field(default_factory=dict)
    error: float = math.nan  #: on the held-out rows, by ``error_of``
    search_error: float = math.nan  #: of the best setting of the search, on the search's own held-out rows
    tried: int = 0
    failed: int = 0
    search_rows: int = 0
    search_seconds: float = math.nan
    fit_seconds: float = math.nan
    predict_seconds: float = math.nan
    peak_bytes: float = math.nan
    model_bytes: int = 0
    warnings: tuple[str, ...] = ()
    failure: str | None = None

    @property
    def seconds(self) -> float:
        """Seconds of search and fit."""
        return self.search_seconds + self.fit_seconds


def check_rows(rules: Rules, X: Opened, y: Array) -> None:
    """Raise for data that one of the methods cannot handle."""
    if X.storage.sparse:
        raise InputError(
            "the rows are sparse, which HistGradientBoosting does not read. Store them as .csv, .parquet or "
            "a dense .npz."
        )
    if rules.task == CLASSIFICATION and len(np.unique(y)) < 2:
        raise InputError("the target has one class only. Pass rows of two classes or more.")


def tabular(held: TrainAndTest, rules: Rules) -> Entry:
    """Return the result of the table model, whose search is part of its fit."""
    kind = TabularClassifier if rules.task == CLASSIFICATION else TabularRegressor
    model = kind(
        time_limit=rules.seconds, memory_budget=rules.memory, random_state=rules.seed, n_jobs=rules.threads
    )
    measured, told = measured_fit(model, held, rules)
    found = model.search_
    settings = choice(model) | {"alpha": float(model.model_.alpha)}
    fit_seconds = max(0.0, measured.fit_seconds - found.seconds)
    entry = Entry(OURS, model.plan_.root_rank, "root rank", settings, tried=found.n_judged)
    entry = replace(entry, search_rows=found.n_rows, search_seconds=found.seconds)
    return replace(entry, **asdict(measured) | {"fit_seconds": fit_seconds}, warnings=told)


def search_settings(name: str, held: TrainAndTest, rules: Rules) -> SearchResult:
    """Search a method's settings on the training rows."""
    with threadpool_limits(rules.threads):
        return search(
            CONTENDERS[name],
            held.X,
            held.y,
            rules.task,
            seconds=SEARCH_SHARE * rules.seconds,
            random_state=rules.seed,
        )


def fit_and_score(
    name: str, settings: dict[str, Any], held: TrainAndTest, rules: Rules
) -> tuple[Measured, tuple[str, ...]]:
    """Fit a method to all training rows and score it; return its measurements and its warnings."""
    shape = ProblemFacts.of(rules.task, held.X, rules.seed)
    return measured_fit(CONTENDERS[name].make(settings, shape), held, rules)


def measured_fit(model: BaseEstimator, held: TrainAndTest, rules: Rules) -> tuple[Measured, tuple[str, ...]]:
    """Fit a model and score it; return its measurements and its warnings."""
    with warnings.catch_warnings(record=True) as told, threadpool_limits(rules.threads):
        warnings.simplefilter("always")
        measured = measure(model, held.X, held.y, held.X_test, held.y_test, rules.task)
    return measured, tuple(dict.fromkeys(str(warning.message) for warning in told))


def in_fresh_process(work: Callable[..., Result], *arguments: object) -> Result:
    """Return ``work(*arguments)``, run in a new process whose memory holds nothing else."""
    with quiet_children(), ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def contend(name: str, held: TrainAndTest, rules: Rules) -> Entry:
    """Search a method's settings, fit it to all rows with the best of them, and measure that.

    An error of one method is recorded in its entry, so that the others are still shown.
    """
    entry = Entry(OURS)
    if name != OURS:
        known = CONTENDERS[name]
        entry = Entry(known.name, known.usual_size, known.size_name)
    try:
        if name == OURS:
            return in_fresh_process(tabular, held, rules)
        numbers = held.encoded()
        found = in_fresh_process(search_settings, name, numbers, rules)
        measured, told = in_fresh_process(fit_and_score, name, found.settings, numbers, rules)
    except BrokenProcessPool:
        why = "its process was ended by the system, most likely because memory ran out"
        return replace(entry, failure=why)
    except Exception as error:
        return replace(entry, failure=f"{type(error).__name__}: {error}")
    entry = replace(
        entry,
        settings=found.settings,
        search_error=found.error,
        tried=found.tried,
        failed=found.failed,
        search_rows=found.n_rows,
        search_seconds=found.seconds,
    )
    return replace(entry, **asdict(measured), warnings=told)


def entries(held: TrainAndTest, rules: Rules) -> Iterator[Entry]:
    """Yield the result of each method, one after the other."""
    for name in METHODS:
        yield contend(name, held, rules)


# ---- output ------------------------------------------------------------------------------------


def summary(found: Sequence[Entry], held: TrainAndTest, rules: Rules) -> Summary:
    """Return the table of results, best first, with settings, facts and warnings."""
    ranked = sorted(found, key=lambda one: math.inf if math.isnan(one.error) else one.error)
    good = [entry for entry in ranked if entry.failure is None]
    columns = ("method", "error", "in search", "search", "fit", "predict", "peak", "model")
    chosen = tuple(
        (
            entry.method,
            f"{entry.tried:,}" + (f" ({entry.failed} failed)" if entry.failed else ""),
            _settings(entry),
        )
        for entry in good
    )
    n, held_out, d = len(held.y), len(held.y_test), held.X.shape[1]
    facts = (
        ("rows", f"{n:,} to learn from, {held_out:,} held out, {d:,} columns"),
        ("error", _error_text(held, rules.task)),
        ("time", f"{rules.seconds:g} s for search and fit of each; fit and predict use all rows"),
        ("peak", "growth of the process during the fit"),
    )
    return Summary(
        "Comparison",
        facts,
        (
            Grid("Results", columns, tuple(map(_row, good))),
            Grid("Settings", ("method", "tried", "chosen"), chosen),
        ),
        tuple(_warnings(ranked, rules)),
        _verdict(good),
    )


def record(found: Sequence[Entry], held: TrainAndTest, rules: Rules, data: str) -> dict[str, Any]:
    """Return all results as numbers and texts that JSON can hold."""
    methods = [{name: _plain(value) for name, value in asdict(entry).items()} for entry in found]
    return {
        "data": data,
        "rows": len(held.y),
        "held_out": len(held.y_test),
        "features": int(held.X.shape[1]),
        **asdict(rules),
        "error": _error_name(rules.task),
        "trivial_error": _plain(trivial_error(held, rules.task)),
        "versions": {
            "gramian": __version__,
            **{name: importlib.metadata.version(name) for name in PACKAGES},
            "python": platform.python_version(),
        },
        "machine": {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()},
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "methods": methods,
    }


def trivial_error(held: TrainAndTest, task: str) -> float:
    """Return the error of the training mean, or of the most frequent class."""
    return error_of(task, held.y_test, trivial(task, held.y, len(held.y_test)))


def _error_name(task: str) -> str:
    return "share of wrong classes" if task == CLASSIFICATION else "RMSE over the deviation of the target"


def _error_text(held: TrainAndTest, task: str) -> str:
    simple = "the most frequent class" if task == CLASSIFICATION else "the mean"
    return f"{_error_name(task)} on the held-out rows ({simple}: {trivial_error(held, task):.4g})"


def _row(entry: Entry) -> tuple[str, ...]:
    return (
        entry.method,
        f"{entry.error:.4g}",
        "" if math.isnan(entry.search_error) else f"{entry.search_error:.4g}",
        f"{entry.search_seconds:.3g} s",
        f"{entry.fit_seconds:.3g} s",
        f"{entry.predict_seconds:.3g} s",
        "unknown" if math.isnan(entry.peak_bytes) else format_bytes(max(entry.peak_bytes, 0.0)),
        format_bytes(entry.model_bytes),
    )


def _verdict(ranked: Sequence[Entry]) -> str:
    """Return which method has the smallest error, or that the time was too short to tell."""
    if not ranked:
        return ""
    if all(entry.tried >= LEAST_TRIED for entry in ranked):
        return f"The smallest error is that of {ranked[0].method}."
    counts = ", ".join(f"{entry.method} {entry.tried:,}" for entry in ranked)
    return (
        f"No verdict: the time was too short. Settings tried: {counts}. With fewer than {LEAST_TRIED} each, "
        "a difference says little about the methods. Give all of them more --seconds."
    )


def _settings(entry: Entry) -> str:
    texts = [
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in entry.settings.items()
    ]
    return ", ".join([*(texts or ["the usual ones"]), f"{entry.size_name} {entry.size}"])


def _warnings(found: Sequence[Entry], rules: Rules) -> Iterator[str]:
    for entry in found:
        if entry.failure is not None:
            yield f"{entry.method} failed: {in_options(entry.failure)}"
            continue
        if entry.seconds > OVER * rules.seconds:
            yield (
                f"{entry.method} took {entry.seconds:.3g} s of its {rules.seconds:g} s: a fit that has begun "
                "is not cut short. Give all of them more --seconds."
            )
        for text in entry.warnings:
            yield f"{entry.method}: {in_options(text).replace('--time-limit', '--seconds')}"


def _plain(value: object) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
