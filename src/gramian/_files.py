"""Atomic writing of files: a file is complete or absent."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gramian.exceptions import InputError, quoted

#: Kinds of file that are neither regular files nor folders, by their test.
_SPECIAL = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)


def as_path(path: object) -> Path:
    """Return a caller's path as a ``Path``, or raise ``InputError`` for a value that names no file.

    >>> as_path(None)
    Traceback (most recent call last):
    ...
    gramian.exceptions.InputError: path=None has type NoneType. Pass the path of a file as text or as a Path.
    """
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise InputError(
            f"path={quoted(path)} has type {type(path).__name__}. Pass the path of a file as text or "
            "as a Path."
        )
    if not os.fspath(path):
        raise InputError("path='' is empty. Pass the path of a file.")
    if "\0" in os.fspath(path):
        raise InputError(f"path={quoted(os.fspath(path))} holds a null character. Pass the path of a file.")
    return Path(path)


@contextmanager
def complete_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces ``path`` only when the block ends without an error.

    Until then an existing file stays as it is. Its mode, owner and group are kept. If ``path`` is a symbolic
    link, the link stays and the file that it leads to is replaced.

    Raises ``InputError`` if the folder is missing, if ``path`` is a folder, a device or anything else that is
    not a regular file, or if its owner cannot be kept.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "numbers.bin"
    >>> with complete_file(path) as file:
    ...     _ = file.write(b"123")
    >>> path.read_bytes()
    b'123'
    """
    target, old = check_replaceable(path)
    unfinished = target.with_name(f".{target.name[:50]}.{uuid.uuid4().hex}.tmp")
    # Readable by no more users than the file that it replaces.
    mode = 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o777
    try:
        created = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        with os.fdopen(created, "wb") as file:
            if old is not None:
                _take_over(path, file, old)
            yield file
            file.flush()
            # Without this, a power cut after the rename could leave an empty file under the name.
            os.fsync(file.fileno())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def check_replaceable(path: Path) -> tuple[Path, os.stat_result | None]:
    """Return the file behind a path, and the ``stat`` of what it replaces; raise if it cannot be written."""
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if not target.parent.is_dir():
        raise InputError(f"Cannot write {path}: the folder {target.parent} does not exist. Create it first.")
    return target, _existing(path, target)


def _existing(path: Path, target: Path) -> os.stat_result | None:
    """Return the ``stat`` of the file that will be replaced; None if there is none."""
    try:
        old = target.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISREG(old.st_mode):
        return old
    if stat.S_ISDIR(old.st_mode):
        raise InputError(f"Cannot write {path}: it is a folder. Pass the path of a file.")
    what = next((name for is_one, name in _SPECIAL if is_one(old.st_mode)), "a link that leads to itself")
    raise InputError(f"Cannot write {path}: it is {what}. Pass the path of a regular file, or of a new one.")


def _take_over(path: Path, file: BinaryIO, old: os.stat_result) -> None:
    """Give the new file the owner, the group and the mode of the file that it replaces."""
    if not hasattr(os, "fchown"):  # Windows has neither
        return
    new = os.fstat(file.fileno())
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(file.fileno(), old.st_uid, old.st_gid)
        except PermissionError:
            raise InputError(
                f"Cannot write {path}: it belongs to user {old.st_uid} and group {old.st_gid}, and a new "
                "file could not be given to them. Delete it first, or pass another path."
            ) from None
    os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
