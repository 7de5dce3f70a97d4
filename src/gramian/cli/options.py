"""Options of commands as fields of a dataclass, their checks, and the choice of the table model."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin, get_type_hints

import typer

from gramian._budget import parse_bytes
from gramian._checks import positive_number
from gramian.approximations.setup import FitSetup
from gramian.data.file_formats import file_format
from gramian.data.file_options import FileOptions
from gramian.data.missing import missing_texts
from gramian.exceptions import InputError
from gramian.kernels.resolve import resolve_kernel
from gramian.ridge.planning import method_of
from gramian.ridge.ridge import KernelRidge
from gramian.tables.small_problem import POWERS

AUTO = "auto"
KEYWORD = inspect.Parameter.KEYWORD_ONLY

Target = Annotated[str | None, typer.Option(help="Column to predict (CSV and Parquet need it).")]
Seed = Annotated[
    int, typer.Option(min=0, help="Seed of the random numbers; the same seed gives the same model.")
]
Threads = Annotated[int | None, typer.Option(min=1, help="Number of threads; all cores by default.")]
Memory = Annotated[
    str, typer.Option(help="Working memory, such as 500MB. Rows that stay in memory may take as much again.")
]
Traceback = Annotated[bool, typer.Option("--traceback", help="Show the traceback of an error.")]
ModelFile = Annotated[
    Path, typer.Argument(help="Model file written by fit or gramian.save.", show_default=False)
]
TrainFile = Annotated[
    Path, typer.Argument(help=".csv, .tsv, .csv.gz, .parquet, .npz, .svmlight, …", show_default=False)
]
Task = Annotated[
    Literal["auto", "regression", "classification"],
    typer.Option(help="Kind of target; auto decides from its values."),
]


@dataclass(frozen=True)
class CellOptions:
    """How the columns and cells of files are read."""

    text: Annotated[
        list[str] | None,
        typer.Option(help="For CSV: a column that is text although it looks like numbers; may be repeated."),
    ] = None
    missing: Annotated[
        list[str] | None,
        typer.Option(
            help="A cell that is a missing value, such as '?', in place of NA, null and the like; may be "
            "repeated; '' keeps all but blank cells."
        ),
    ] = None
    sep: Annotated[
        str | None, typer.Option(help="For CSV: character between columns; detected by default.")
    ] = None
    encoding: Annotated[
        str | None, typer.Option(help="For CSV: encoding, such as latin-1; UTF-8 by default.")
    ] = None

    drop: Annotated[
        list[str] | None, typer.Option(help="A column to leave out, such as an id; may be repeated.")
    ] = None

    def applied(self, choice: FileOptions) -> FileOptions:
        """Return a choice with these options."""
        return replace(
            choice,
            drop=(*choice.drop, *(self.drop or ())),
            text=(*choice.text, *(self.text or ())),
            missing=missing_texts(self.missing) if self.missing else choice.missing,
            sep=self.sep,
            encoding=self.encoding,
        )


def taking(kind: type, *left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command the fields of a dataclass as options.

    The command takes ``settings``, a value of the dataclass. Fields named in ``left_out``, and fields whose
    type has no ``typer.Option``, keep their defaults.
    """
    hints = get_type_hints(kind, include_extras=True)
    options = [
        inspect.Parameter(field.name, KEYWORD, default=field.default, annotation=hints[field.name])
        for field in fields(kind)
        if get_origin(hints[field.name]) is Annotated and field.name not in left_out
    ]

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())
        place = next(j for j, one in enumerate(own) if one.name == "settings")
        shown = [one.replace(kind=KEYWORD) for one in (*own[:place], *options, *own[place + 1 :])]

        def called(**given: Any) -> None:
            settings = kind(**{option.name: given.pop(option.name) for option in options})
            command(settings=settings, **given)

        called.__name__, called.__doc__ = command.__name__, command.__doc__
        called.__annotations__ = {one.name: one.annotation for one in shown}
        # Typer reads a command's options from its signature.
        called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        return called

    return decorated


#: Kernel of plain kernel ridge regression if the user names none.
PLAIN_KERNEL = "rbf"
#: Kernels from which the table model chooses.
TABLE_KERNELS = tuple(POWERS)
PLAIN = "Selects plain kernel ridge regression, for numbers only."


@dataclass(frozen=True)
class TrainingOptions(CellOptions):
    """Options of a training; ``verbose`` is not an option but tells whether to show progress bars."""

    task: Task = "auto"
    kernel: Annotated[
        str,
        typer.Option(
            help="For tables: auto, laplacian, exponential or gaussian. Any other (rbf, matern32, poly, …) "
            "selects plain kernel ridge regression, for numbers only."
        ),
    ] = AUTO
    metric: Annotated[
        Literal["auto", "none", "diagonal", "full"],
        typer.Option(help="For tables: form of the distance between rows to learn."),
    ] = "auto"
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
    def fit_columns(self) -> dict[str, str]:
        """The columns that become arguments of ``fit``, by the names of its parameters."""
        named = {"groups": self.groups, "time": self.time, "sample_weight": self.weight}
        return {parameter: column for parameter, column in named.items() if column is not None}


def for_tables(settings: TrainingOptions, path: Path) -> bool:
    """Return whether to train the table model, rather than plain kernel ridge regression.

    The table model is used for CSV and Parquet files, unless an option belongs to plain kernel ridge
    regression alone: gamma, alpha, an approximation, no standardisation, or a kernel that the search for
    tables does not have.

    Raises ``InputError`` if there are options of both models.
    """
    kind = file_format(path)
    plain_options = (
        (not kind.columns, f"a file of format {kind.name}"),
        (settings.gamma is not None, "--gamma"),
        (settings.alpha is not None, "--alpha"),
        (settings.approximation != AUTO, "--approximation"),
        (not settings.standardize, "--no-standardize"),
        (settings.kernel not in (AUTO, *TABLE_KERNELS), f"--kernel {settings.kernel}"),
    )
    table_options = (
        (settings.metric != AUTO, "--metric"),
        (settings.categorical, "--categorical"),
        (settings.groups is not None, "--groups"),
        (settings.time is not None, "--time"),
        (settings.time_limit is not None, "--time-limit"),
    )
    plain, own = (
        next((name for used, name in each if used), None) for each in (plain_options, table_options)
    )
    if plain is not None and own is not None:
        raise InputError(
            f"{own} belongs to the table model, but {plain} selects plain kernel ridge regression. Leave out "
            "one of them."
        )
    return plain is None


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
