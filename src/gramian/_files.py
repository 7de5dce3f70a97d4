"""Atomic writing of files: a file is complete or absent."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from gramian.exceptions import InputError, quoted

#: What a path may name beside regular files and folders.
_SPECIAL = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)


def as_path(path: Any) -> Path:
    """Return the path that a caller gave, or raise ``InputError`` for what names no file.

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
    """Give a file to write; it appears under ``path`` when the block ends well, until then the old one stays.

    An existing file keeps its mode, owner and group. A symbolic link stays, and the file that it leads to is
    the one that is written.

    Raises ``InputError`` where the folder is missing, where ``path`` is a folder, a device or anything else
    that is not a regular file, and where its owner cannot be kept.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "numbers.bin"
    >>> with complete_file(path) as file:
    ...     _ = file.write(b"123")
    >>> path.read_bytes()
    b'123'
    """
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if not target.parent.is_dir():
        raise InputError(f"Cannot write {path}: the folder {target.parent} does not exist. Create it first.")
    old = _existing(path, target)
    unfinished = target.with_name(f".{target.name[:50]}.{uuid.uuid4().hex}.tmp")
    # Never open to more users than the file that it replaces.
    mode = 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o777
    try:
        created = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        with os.fdopen(created, "wb") as file:
            if old is not None:
                _take_over(path, file, old)
            yield file
            file.flush()
            # Renamed before its bytes are on disk, a power cut could leave an empty file under the name.
            os.fsync(file.fileno())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _existing(path: Path, target: Path) -> os.stat_result | None:
    """Return what is known of the file that will be replaced; None where there is none."""
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
    """Give a new file the owner, the group and the mode of the one that it will replace."""
    if not hasattr(os, "fchown"):  # Windows has neither
        return
    new = os.fstat(file.fileno())
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(file.fileno(), old.st_uid, old.st_gid)
        except PermissionError:
            raise InputError(
                f"Cannot write {path}: it belongs to user {old.st_uid} and group {old.st_gid}, whom a new "
                "file could not be given. Delete it first, or pass another path."
            ) from None
    os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
