"""``gramian compare``: the table model beside two models of scikit-learn, cross-validated on one file."""

from __future__ import annotations

import math
import os
import platform
import re
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from json import dumps
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import sklearn
import typer
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from threadpoolctl import threadpool_limits

from gramian import __version__
from gramian._budget import parse_bytes
from gramian._files import complete_file
from gramian._typing import Array, Float64Array, RowsLike
from gramian.cli.files import all_targets, files_of, readable, refuse_output_over_input, training_rows
from gramian.cli.options import CellOptions, Memory, Seed, Target, Task, Threads, Traceback, TrainFile, taking
from gramian.cli.report import in_options, print_summary, report_errors, say, show_steps
from gramian.cli.task import find_task, prepared_target
from gramian.data.file_formats import file_format
from gramian.data.stored_source import StoredSource
from gramian.data.tables import TableSource, as_table
from gramian.exceptions import InputError
from gramian.reporting.judging import CLASSIFICATION, number
from gramian.reporting.rows import all_rows
from gramian.summary import Grid, Summary
from gramian.tables import TableColumns
from gramian.tables.classifier import TabularClassifier
from gramian.tables.regressor import TabularRegressor

#: Landmarks of ``Nystroem``, and the penalties among which its ridge regression chooses. Chosen by hand.
COMPONENTS, ALPHAS = 1_000, (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
#: A number in a warning that is no part of a word or a name.
NUMBER = re.compile(r"(?<![\w'])\d[\d,.]*(?![\w'])")


@dataclass(frozen=True)
class Rules(CellOptions):
    """Options of a comparison; ``seconds`` and ``memory`` limit gramian only."""

    task: Task = "auto"
    seconds: Annotated[float | None, typer.Option(min=0.1, help="Time limit of a fit of gramian.")] = None
    memory: Memory = "1GB"
    folds: Annotated[int, typer.Option(min=2, help="Parts of the rows; each is held out once.")] = 5
    seed: Seed = 0
    threads: Threads = None

    @property
    def classes(self) -> bool:
        """Whether the target holds classes; ``task`` is known by then."""
        return self.task == CLASSIFICATION


@dataclass(frozen=True)
class Entry:
    """Results of one method, a number for each fold; ``failure`` says why there are none."""

    method: str
    errors: tuple[float, ...] = ()
    fit_seconds: tuple[float, ...] = ()
    predict_seconds: tuple[float, ...] = ()  #: for the rows of a fold
    warnings: tuple[str, ...] = ()
    failure: str | None = None

    @property
    def error(self) -> float:
        """The mean error; infinite for a method that failed."""
        return float(np.mean(self.errors)) if self.errors else math.inf


class Encoder(TransformerMixin, BaseEstimator):
    """Numbers made of a table's columns, by kinds and categories learned from the training rows."""

    def fit(self, X: RowsLike, y: Array | None = None) -> Self:
        """Learn the columns."""
        self.columns_ = TableColumns.learn(X)
        return self

    def transform(self, X: RowsLike) -> Float64Array:
        """Return rows as numbers."""
        return np.asarray(self.columns_.encode(X), np.float64)


def check_rows(rows: StoredSource, y: Array, rules: Rules) -> None:
    """Raise for data that cannot be compared on."""
    if rows.storage.sparse:
        raise InputError(
            "the rows are sparse, which HistGradientBoosting does not read. "
            "Store them as .csv, .parquet or a dense .npz."
        )
    if rules.classes and len(np.unique(y)) < 2:
        raise InputError("the target has one class only. Pass rows of two classes or more.")
    if len(y) < 2 * rules.folds:
        raise InputError(f"{len(y)} rows are too few for {rules.folds} folds. Pass fewer --folds.")


def models(table: TableSource, rules: Rules) -> dict[str, BaseEstimator]:
    """Return the unfitted models by name, the trivial one last; their X are row numbers, shape (n, 1)."""
    rows = FunctionTransformer(lambda numbers: table.subset(numbers[:, 0]))
    n, seed, classes = table.shape[0], rules.seed, rules.classes
    ours = (TabularClassifier if classes else TabularRegressor)(
        time_limit=rules.seconds, memory_budget=rules.memory, random_state=seed, n_jobs=rules.threads
    )
    landmarks = Nystroem(n_components=min(COMPONENTS, n - math.ceil(n / rules.folds)), random_state=seed)
    ridge = RidgeClassifierCV(ALPHAS) if classes else RidgeCV(ALPHAS)
    boosting = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    trivial = DummyClassifier(strategy="most_frequent") if classes else DummyRegressor()
    return {
        "gramian": make_pipeline(rows, ours),
        "Nystroem + ridge": make_pipeline(rows, Encoder(), StandardScaler(), landmarks, ridge),
        "HistGradientBoosting": make_pipeline(rows, Encoder(), boosting(random_state=seed)),
        f"the {'most frequent class' if classes else 'mean'}": trivial,
    }


def measure(name: str, model: BaseEstimator, y: Array, rules: Rules) -> Entry:
    """Cross-validate a model on the folds that all methods have; an error of the model is recorded."""
    # Classes keep their shares in each fold if every class has enough rows.
    stratified = rules.classes and np.unique(y, return_counts=True)[1].min() >= rules.folds
    folds = (StratifiedKFold if stratified else KFold)(rules.folds, shuffle=True, random_state=rules.seed)
    scoring = "accuracy" if rules.classes else "neg_root_mean_squared_error"
    numbers = np.arange(len(y))[:, None]
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(rules.threads):
        warnings.simplefilter("always")
        try:
            validated = cross_validate(model, numbers, y, scoring=scoring, cv=folds, error_score="raise")
        except Exception as error:
            return Entry(name, failure=f"{type(error).__name__}: {error}")
    errors = float(rules.classes) - validated["test_score"]
    if not np.isfinite(errors).all():
        return Entry(name, failure="its errors are not finite")
    kept = [tuple(map(float, each)) for each in (errors, validated["fit_time"], validated["score_time"])]
    texts = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    return Entry(name, kept[0], kept[1], kept[2], texts)


def verdict(entries: Sequence[Entry]) -> str:
    """Return which method is best, if its lead, taken fold by fold, exceeds the lead's standard error."""
    first, second = sorted(entries, key=lambda entry: entry.error)[:2]
    if not second.errors:
        return ""
    leads = np.subtract(second.errors, first.errors)
    lead, error = float(leads.mean()), float(leads.std(ddof=1)) / math.sqrt(len(leads))
    by = f"by {number(lead)}, standard error {number(error)} over {len(leads)} folds."
    if lead > error:
        return f"Best is {first.method}: the error of {second.method} is larger {by}"
    return f"Can't be told apart: {first.method} and {second.method}. Their errors differ {by}"


def summary(entries: Sequence[Entry], shape: tuple[int, int], rules: Rules) -> Summary:
    """Return the results with the least error first, failures, warnings and the verdict."""
    what = "fraction of wrong classes" if rules.classes else "root mean squared error"
    limit = "" if rules.seconds is None else f"; a fit of gramian may take {rules.seconds:g} s"
    facts = (
        ("rows", f"{shape[0]:,}, {shape[1]:,} columns; {rules.folds} folds, each held out once"),
        ("error", f"{what}; spread is its deviation over the folds"),
        ("fit, predict", f"mean seconds of a fold{limit}"),
    )
    rows = tuple(
        (
            entry.method,
            number(entry.error),
            number(float(np.std(entry.errors, ddof=1))),
            *(f"{np.mean(each):.3g} s" for each in (entry.fit_seconds, entry.predict_seconds)),
        )
        for entry in sorted(entries, key=lambda entry: entry.error)
        if entry.errors
    )
    remarks: dict[str, str] = {}  # methods and folds may say the same, with other numbers
    for entry in entries:
        for text in filter(None, (*entry.warnings, entry.failure)):
            shown = in_options(text).replace("--time-limit", "--seconds")
            key, how = (entry.method, " failed") if entry.failure else (NUMBER.sub("0", shown), "")
            remarks.setdefault(key, f"{entry.method}{how}: {shown}")
    grid = Grid("Results", ("method", "error", "spread", "fit", "predict"), rows)
    return Summary("Comparison", facts, (grid,), tuple(remarks.values()), verdict(entries))


def record(entries: Sequence[Entry], shape: tuple[int, int], rules: Rules) -> dict[str, Any]:
    """Return all results as numbers and texts that JSON can hold."""
    means = [entry.error if entry.errors else None for entry in entries]
    return {
        **{"rows": shape[0], "features": shape[1], **asdict(rules)},
        "trivial_error": means[-1],
        "methods": [asdict(entry) | {"error": mean} for entry, mean in zip(entries, means)],
        "verdict": verdict(entries),
        "versions": {"gramian": __version__, "scikit-learn": sklearn.__version__, "numpy": np.__version__},
        "machine": f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


@taking(Rules)
def compare(
    train_file: TrainFile,
    target: Target = None,
    json: Annotated[Path | None, typer.Option(help="JSON file for the results.")] = None,
    *,
    settings: Rules,
    traceback: Traceback = False,
) -> None:
    """Cross-validate gramian, Nystroem and gradient boosting, and say whether one is better."""
    with report_errors(traceback), readable(train_file) as train_file:
        parse_bytes(settings.memory)
        refuse_output_over_input("--json", json, *files_of(train_file, target))
        columns = file_format(train_file).columns
        opened = training_rows(train_file, target, as_table=columns, memory=settings.memory, cells=settings)
        y = all_targets(opened)
        task, reason = find_task(y, settings.task)
        rules, y = replace(settings, task=task), prepared_target(y, task)  # type: ignore[arg-type]
        check_rows(opened, y, rules)
        # In memory, so that no method's seconds hold the reading of the file.
        rows = opened.rows(slice(0, len(y))) if columns else all_rows(opened)
        made = models(as_table(rows), rules)
        say(f"{task} ({reason}), {rules.folds} folds")
        steps = (measure(name, model, y, rules) for name, model in made.items())
        entries = list(show_steps(steps, list(made)))
        print_summary(summary(entries, rows.shape, rules))
        if json is not None:
            with complete_file(json) as file:
                report = {"data": train_file.name, **record(entries, rows.shape, rules)}
                file.write(dumps(report, indent=1, allow_nan=False).encode("utf-8"))
            say(f"Wrote {json}")
        if not any(entry.errors for entry in entries[:-1]):
            raise InputError("no method could be fitted. The reasons are above.")
