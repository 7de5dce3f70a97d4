"""Command options declared as fields of a dataclass, and the arguments that commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from gramian.data.file_options import FileOptions
from gramian.data.missing import missing_texts

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
            settings = kind(**{option.name: _plain(given.pop(option.name)) for option in options})
            command(settings=settings, **given)

        called.__name__, called.__doc__ = command.__name__, command.__doc__
        called.__annotations__ = {one.name: one.annotation for one in shown}
        # Typer reads a command's options from its signature.
        called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        return called

    return decorated


def _plain(value: object) -> Any:
    """Return an enum member as its text; other values unchanged."""
    return value.value if isinstance(value, Enum) else value
