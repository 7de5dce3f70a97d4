"""Checked options of ``gramian fit``, and the choice between the numeric and the table model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gramian._budget import parse_bytes
from gramian._checks import positive_number
from gramian.approximations.setup import FitSetup
from gramian.cli.options import CellOptions, Memory, Seed, Threads
from gramian.data.file_formats import file_format
from gramian.exceptions import InputError
from gramian.kernels.resolve import resolve_kernel
from gramian.ridge.planning import method_of
from gramian.ridge.ridge import KernelRidge
from gramian.tables.small_problem import POWERS

AUTO = "auto"
#: Kernel of plain kernel ridge regression if the user names none.
PLAIN_KERNEL = "rbf"
#: Kernels from which the table model chooses.
TABLE_KERNELS = tuple(POWERS)
PLAIN = "Selects plain kernel ridge regression, for numbers only."


class MetricForm(StrEnum):
    """Form of the metric that a table model may learn."""

    AUTO = "auto"
    NONE = "none"
    DIAGONAL = "diagonal"
    FULL = "full"


class Task(StrEnum):
    """Kind of target."""

    AUTO = "auto"
    REGRESSION = "regression"
    CLASSIFICATION = "classification"


@dataclass(frozen=True)
class TrainingOptions(CellOptions):
    """Options of a training; ``verbose`` is not an option but tells whether to show progress bars."""

    task: Annotated[Task, typer.Option(help="Kind of target; auto decides from its values.")] = Task.AUTO
    kernel: Annotated[
        str,
        typer.Option(
            help="For tables: auto, laplacian, exponential or gaussian. Any other (rbf, matern32, poly, …) "
            "selects plain kernel ridge regression, for numbers only."
        ),
    ] = AUTO
    metric: Annotated[
        MetricForm, typer.Option(help="For tables: form of the distance between rows to learn.")
    ] = MetricForm.AUTO
    categorical: Annotated[
        list[str] | None,
        typer.Option(help="For tables: a numeric column that holds category codes; may be repeated."),
    ] = None
    groups: Annotated[
        str | None,
        typer.Option(help="For tables: a column that says which rows belong together, such as a patient."),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(help="For tables: a column of times, if new rows are later than all of these."),
    ] = None
    weight: Annotated[str | None, typer.Option(help="A column of weights: how much each row counts.")] = None
    gamma: Annotated[float | None, typer.Option(help=f"Kernel parameter. {PLAIN}")] = None
    alpha: Annotated[float | None, typer.Option(help=f"Ridge penalty. {PLAIN}")] = None
    approximation: Annotated[str, typer.Option(help=f"exact, multiresolution, meka and others. {PLAIN}")] = (
        AUTO
    )
    time_limit: Annotated[float | None, typer.Option(help="For tables: seconds for the whole command.")] = (
        None
    )
    memory: Memory = "1GB"
    standardize: Annotated[
        bool, typer.Option(help=f"Scale features to mean 0 and deviation 1. --no-standardize {PLAIN.lower()}")
    ] = True
    holdout: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Share of the rows held out for the score.")
    ] = 0.2
    seed: Seed = 0
    threads: Threads = None
    verbose: bool = False

    @property
    def beside(self) -> dict[str, str]:
        """The columns that are given beside the rows, by the names of the parameters of ``fit``."""
        named = {"groups": self.groups, "time": self.time, "sample_weight": self.weight}
        return {parameter: column for parameter, column in named.items() if column is not None}


def for_tables(settings: TrainingOptions, path: Path) -> bool:
    """Return whether to train the table model, rather than plain kernel ridge regression.

    The table model is used for CSV and Parquet files, unless an option belongs to plain kernel ridge
    regression alone: gamma, alpha, an approximation, no standardisation, or a kernel that the search for
    tables does not have.

    Raises ``InputError`` if there are options of both models.
    """
    plain = next(_plain(settings, path), None)
    own = next(_table(settings), None)
    if plain is not None and own is not None:
        raise InputError(
            f"{own} belongs to the table model, but {plain} selects plain kernel ridge regression. Leave out "
            "one of them."
        )
    return plain is None


def _plain(settings: TrainingOptions, path: Path) -> Iterator[str]:
    if not file_format(path).columns:
        yield f"a file of format {file_format(path).name}"
    if settings.gamma is not None:
        yield "--gamma"
    if settings.alpha is not None:
        yield "--alpha"
    if settings.approximation != AUTO:
        yield "--approximation"
    if not settings.standardize:
        yield "--no-standardize"
    if settings.kernel not in (AUTO, *TABLE_KERNELS):
        yield f"--kernel {settings.kernel}"


def _table(settings: TrainingOptions) -> Iterator[str]:
    if settings.metric != AUTO:
        yield "--metric"
    if settings.categorical:
        yield "--categorical"
    for name, value in (("groups", settings.groups), ("time", settings.time)):
        if value is not None:
            yield f"--{name}"
    if settings.time_limit is not None:
        yield "--time-limit"


def check_settings(settings: TrainingOptions, path: Path) -> tuple[TrainingOptions, bool]:
    """Return the settings of the selected model, and whether it is the table model.

    Raises ``InputError`` for a wrong option, before a large file is read.
    """
    tables = for_tables(settings, path)
    parse_bytes(settings.memory)
    if tables:
        if settings.time_limit is not None:
            positive_number("time_limit", settings.time_limit)
        return settings, True
    if settings.kernel == AUTO:
        settings = replace(settings, kernel=PLAIN_KERNEL)
    resolve_kernel(settings.kernel, n_features=1, gamma=settings.gamma)
    if settings.alpha is not None:
        positive_number("alpha", settings.alpha)
    if settings.approximation not in (AUTO, "exact"):
        method_of(FitSetup.of(KernelRidge(approximation=settings.approximation)))
    return settings, False
