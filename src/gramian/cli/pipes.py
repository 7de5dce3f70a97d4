"""Standard input and output in place of files, both named "-"."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from gramian.exceptions import InputError

#: Name of the copy of the standard input, and the paths of such a copy.
_COPY = "standard-input.csv"
_PATH = re.compile(rf"[^\s'\"]*{re.escape(_COPY)}")


def is_pipe(path: Path | None) -> bool:
    """Return whether a path stands for the standard input or output."""
    return str(path) == "-"


@contextmanager
def readable(path: Path) -> Iterator[Path]:
    """Yield the path of rows; of the standard input that of a copy, because rows are read more than once."""
    if not is_pipe(path):
        yield path
        return
    with TemporaryDirectory() as folder:
        copy = Path(folder) / _COPY
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield copy


@contextmanager
def data_output(out: Path) -> Iterator[BinaryIO | None]:
    """Yield the standard output if data go there, and print all notes on the standard error output then."""
    if not is_pipe(out):
        yield None
        return
    stream = sys.stdout.buffer
    with redirect_stdout(sys.stderr):
        yield stream


def refuse_pipe(option: str, out: Path) -> None:
    """Raise if an output that is no table of predictions is to be the standard output."""
    if is_pipe(out):
        raise InputError(f"{option} - is the standard output, which only predict writes to. Pass a path.")


def without_copies(text: str) -> str:
    """Return a message with "the standard input" in place of its copy's path."""
    return _PATH.sub("the standard input", text)
