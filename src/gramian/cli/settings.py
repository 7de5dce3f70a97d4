"""Options of ``gramian fit``, checked, and the choice between the numeric and the table model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gramian._budget import parse_bytes
from gramian._checks import positive_number
from gramian.data.file_formats import file_format
from gramian.exceptions import InputError
from gramian.kernels.lookup import resolve_kernel
from gramian.ridge.planning import method_of
from gramian.ridge.ridge import KernelRidge
from gramian.tables.small_problem import POWERS

AUTO = "auto"
#: Kernel of plain kernel ridge regression, where none is named.
PLAIN_KERNEL = "rbf"
#: Kernels among which the model for tables chooses.
TABLE_KERNELS = tuple(POWERS)


@dataclass(frozen=True)
class Settings:
    """What the command line asks for; the last three are of the model for tables alone."""

    task: str
    kernel: str
    gamma: float | None
    alpha: float | None
    approximation: str
    memory: str
    standardize: bool
    holdout: float
    seed: int
    threads: int | None
    verbose: bool
    metric: str = AUTO
    categorical: tuple[str, ...] = ()
    time_limit: float | None = None


def for_tables(settings: Settings, path: Path) -> bool:
    """Return whether the model for tables is trained, rather than plain kernel ridge regression.

    It is on CSV and Parquet files, unless an option says what only plain kernel ridge regression knows:
    gamma, alpha, an approximation, no standardisation, or a kernel that tables are not searched for.

    Raises
    ------
    InputError : for options of both.
    """
    plain = next(_plain(settings, path), None)
    own = next(_table(settings), None)
    if plain is not None and own is not None:
        raise InputError(
            f"{own} is of the model for tables, but {plain} means plain kernel ridge regression. Leave one "
            "of them out."
        )
    return plain is None


def _plain(settings: Settings, path: Path) -> Iterator[str]:
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


def _table(settings: Settings) -> Iterator[str]:
    if settings.metric != AUTO:
        yield "--metric"
    if settings.categorical:
        yield "--categorical"
    if settings.time_limit is not None:
        yield "--time-limit"


def checked(settings: Settings, path: Path) -> tuple[Settings, bool]:
    """Return the settings of the model that is meant, and whether it is that for tables.

    Raises
    ------
    InputError : for a slip, before a large file is read.
    """
    tables = for_tables(settings, path)
    parse_bytes(settings.memory)
    if tables:
        if settings.time_limit is not None:
            positive_number("--time-limit", settings.time_limit)
        return settings, True
    if settings.kernel == AUTO:
        settings = replace(settings, kernel=PLAIN_KERNEL)
    resolve_kernel(settings.kernel, n_features=1, gamma=settings.gamma)
    if settings.alpha is not None:
        positive_number("alpha", settings.alpha)
    if settings.approximation not in (AUTO, "exact"):
        method_of(KernelRidge(approximation=settings.approximation))
    return settings, False
