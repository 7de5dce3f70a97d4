"""Base of the file formats that store arrays, X and perhaps y: npy, npz, HDF5 and Zarr."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from gramian._typing import Array
from gramian.data.file_options import FileOptions
from gramian.data.storage import (
    Piece,
    Storage,
    Target,
    cut,
    explain_errors,
    kept_dtype,
    piece_rows,
    refuse_columns,
)
from gramian.exceptions import InputError, did_you_mean, listed


class ArrayStorage(Storage):
    """Base of the formats that store X of shape (n, d) as an array; a subclass opens a file's arrays."""

    #: Name of X in its file.
    key = "X"
    #: Name of y in its file; None: the format's default.
    y_key: str | None = None
    #: Name of an earlier source's y, used if a file has it.
    y_like: str | None = None
    #: Which columns of X are read; None: all.
    places: list[int] | None = None

    def __init__(self, paths: Sequence[Path], choice: FileOptions) -> None:
        super().__init__(paths)
        if len(choice.targets) > 1:
            raise InputError(f"target={list(choice.targets)}: a file has one array of targets. Name one.")
        self.key = choice.key or "X"
        self.y_key = choice.targets[0] if choice.target is not None else None
        self.y_like = choice.target_like if isinstance(choice.target_like, str) else None
        self.plan(choice)

    @abstractmethod
    def arrays(self, number: int) -> AbstractContextManager[tuple[Any, Any]]:
        """Open the arrays X and y (None: no targets) of a file, with shape, dtype, slices, maybe chunks."""

    def y_name(self, has: Callable[[str], bool]) -> str | None:
        """Return the name of y in a file; ``has`` says whether the file has an array of a given name."""
        like = self.y_like if self.y_key is None else None
        return like if like is not None and has(like) else self.y_key

    def pick(self, name: str, file: Any, kind: type[Any], stored: Callable[[], Iterable[str]]) -> list[Any]:
        """Return X and y (None: no targets) of an open file, by name; ``stored`` lists all names."""
        y_name = self.y_name(lambda key: isinstance(file.get(key), kind))
        for key, role in ((self.key, "X"), (y_name, "y")):
            if key is not None and not isinstance(file.get(key), kind):
                lookup(name, stored(), key, role)
        return [None if key is None else file[key] for key in (self.key, y_name)]

    def plan(self, choice: FileOptions) -> None:
        """Check every file's arrays, which must agree in width, types and targets."""
        names, wanted = self.feature_names, choice.columns
        if names is None or wanted is None:
            refuse_columns(str(self.names[0]), wanted, choice.categorical)
        elif absent := [name for name in wanted if name not in names]:
            raise InputError(
                f"{self.names[0]} has no columns {listed(absent)}. Its columns are: {listed(names)}."
            )
        pieces: list[Piece] = []
        self.pieces = pieces
        seen: Any = None
        for number, name in enumerate(self.names):
            with explain_errors(name, 0), self.arrays(number) as (X, y):
                facts = (*_checked_rows(name, self.key, X), _checked_target(name, X, y))
                if seen is None:
                    self.n_features, stored, self._target_facts = seen = facts
                    self.dtype = kept_dtype(stored) or stored
                    self.views = self.views and self.dtype == stored and isinstance(X, np.ndarray)
                elif facts != seen:
                    raise InputError(
                        f"{self.names[0]} has rows of {_describe_file(seen)}, but {name} of "
                        f"{_describe_file(facts)}. All files of a source have the same width and types."
                    )
                n, item = int(X.shape[0]), X.dtype.itemsize
                chunks = getattr(X, "chunks", None)
                step = piece_rows(item * self.n_features, chunks[0] if chunks else 1)
                pieces += cut(number, n, n if self.views and n else step)
        if self._target_facts is not None:
            dtype, outputs = self._target_facts
            named = self.y_key or self.y_like
            self.target_columns = named
            self.target = Target(", ".join(choice.targets) or named or "y", dtype, outputs)
        if names is not None and wanted is not None:
            self.places = [names.index(name) for name in wanted]
            self.left_out = tuple(name for name in names if name not in wanted)
            self.feature_names, self.n_features, self.views = wanted, len(wanted), False

    def read(self, piece: Piece, *, rows: bool, target: bool) -> tuple[Array | None, Array | None]:
        """Return slices of the stored arrays."""
        part = slice(piece.first, piece.first + piece.n_rows)
        with self.arrays(piece.file) as (X, y):
            values = self.part(X, part, "rows") if rows else None
            labels = self.part(y, part, "targets") if target else None
        if labels is not None and self.target is not None and labels.dtype != self.target.dtype:
            labels = labels.astype(self.target.dtype)
        if values is not None and self.places is not None:
            values = values[:, self.places]
        return values, labels

    def part(self, array: Array, part: slice, lane: str) -> Array:
        """Return a slice of an open array."""
        return array[part] if isinstance(array, np.ndarray) else np.asarray(array[part])


def lookup(name: str, stored: Iterable[str], key: str, role: str) -> None:
    """Raise if a file has no array ``key``."""
    known = list(stored)
    if key not in known:
        cure = "Pass key= the name of the array of rows." if role == "X" else "Pass target= the array's name."
        raise InputError(
            f"{name} has no array {key!r}.{did_you_mean(key, known)} Its arrays are: {listed(known)}. {cure}"
        )


def _checked_rows(name: str, key: str, X: Array) -> tuple[int, np.dtype[Any]]:
    if len(X.shape) != 2 or not X.shape[1]:
        raise InputError(f"{name}: {key} has shape {tuple(X.shape)}. Store one row a sample, shape (n, d).")
    if kept_dtype(np.dtype(X.dtype)) is None:
        raise InputError(f"{name}: {key} holds values of type {X.dtype}. Store numbers.")
    return int(X.shape[1]), np.dtype(X.dtype)


def _checked_target(name: str, X: Array, y: Array | None) -> tuple[np.dtype[Any], int | None] | None:
    if y is None:
        return None
    if len(y.shape) not in (1, 2) or y.shape[0] != X.shape[0] or 0 in y.shape[1:]:
        raise InputError(
            f"{name}: the target has shape {tuple(y.shape)} and X {tuple(X.shape)}. Store one target a row."
        )
    kind = np.dtype(y.dtype).kind
    if kind not in "biufUTO":
        raise InputError(f"{name}: the target holds values of type {y.dtype}. Store numbers or text.")
    return np.dtype(y.dtype if kind in "biuf" else object), int(y.shape[1]) if len(y.shape) == 2 else None


def _describe_file(facts: Any) -> str:
    width, dtype, target = facts
    said = (
        "no target" if target is None else f"{target[0]} targets" + (f" × {target[1]}" if target[1] else "")
    )
    return f"{width} features, {dtype}, {said}"
