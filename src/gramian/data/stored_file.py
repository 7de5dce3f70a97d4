"""Files of a source: expansion of paths to files, and a check that files have not changed."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gramian.exceptions import InputError, did_you_mean

#: Arguments that name files: a path, a glob, a folder, or several paths.
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """Size and time of change of a file when it was opened."""

    path: Path
    size: int  #: bytes
    mtime_ns: int  #: time of the last change

    @classmethod
    def at(cls, path: Path) -> StoredFile:
        """Record a file or folder; raise for an empty file."""
        stat = path.stat()
        if path.is_file() and stat.st_size == 0:
            raise InputError(f"{path} is empty (0 bytes). Pass a file with at least one row of data.")
        return cls(path, stat.st_size, stat.st_mtime_ns)

    def check(self) -> None:
        """Raise if the file has changed since it was opened; costs one ``stat``."""
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            raise InputError(
                f"{self.path} no longer exists. Put it back, or open the files that are there."
            ) from None
        if (stat.st_size, stat.st_mtime_ns) != (self.size, self.mtime_ns):
            raise InputError(
                f"{self.path} has changed since it was opened: {self.size} bytes of {_time(self.mtime_ns)} "
                f"then, {stat.st_size} bytes of {_time(stat.st_mtime_ns)} now. A fit would mix old and "
                "new rows: open it again and repeat the fit."
            )


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9).isoformat(" ", "milliseconds")


def is_path(value: object) -> bool:
    """Return whether a value names files: a path, or a list of paths."""
    if isinstance(value, (str, os.PathLike)):
        return True
    return isinstance(value, (list, tuple)) and all(isinstance(one, (str, os.PathLike)) for one in value)


def find_files(paths: Paths) -> list[Path]:
    """Return the files that ``paths`` names; a list keeps its order, a folder and a glob are sorted.

    A folder stands for all files under it, except those whose names (or folders' names) start with a dot or
    an underscore. A folder whose name ends in ``.zarr`` is one array store.

    Raises ``InputError`` for a path that is not there, a glob without matches and an empty folder.
    """
    if not isinstance(paths, (str, os.PathLike)):
        listed = [file for path in paths for file in find_files(path)]
        if not listed:
            raise InputError("The list of paths is empty. Pass at least one file.")
        if len(set(listed)) < len(listed):
            twice = next(file for file, times in Counter(listed).items() if times > 1)
            raise InputError(f"{twice} is listed more than once. Pass each file once.")
        return listed
    path = Path(paths)
    if path.is_file() or _is_store(path):
        return [path]
    if path.is_dir():
        hidden = (".", "_")
        files = (file for file in path.rglob("*") if file.is_file())
        matches = sorted(
            file
            for file in files
            if not any(part.startswith(hidden) for part in file.relative_to(path).parts)
        )
        if not matches:
            raise InputError(f"The folder {path} holds no files. Pass one with at least one file of rows.")
        return matches
    if glob.has_magic(str(path)):
        matches = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
        matches = [file for file in matches if file.is_file() or _is_store(file)]
        if not matches:
            raise InputError(f"No file matches {path}. Check the pattern.")
        return matches
    siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    raise InputError(f"There is no file {path}.{did_you_mean(path.name, siblings)} Check the path.")


def _is_store(path: Path) -> bool:
    return path.is_dir() and path.name.lower().endswith(".zarr")
