"""Atomic writing of files, which are complete or absent; checkpoints, which fit one piece of work."""

from __future__ import annotations

import os
import stat
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from json import dumps, loads
from pathlib import Path
from typing import BinaryIO

import numpy as np

from gramian._typing import Array
from gramian.exceptions import InputError, quoted

#: Name of the stored text that identifies the work.
IDENTITY = "identity"
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


def write_state(path: Path, identity: Mapping[str, str], arrays: Mapping[str, Array]) -> None:
    """Write arrays and the identity of the work: a text by name for each thing that the arrays depend on.

    Until all is written, the old file stays.
    """
    with complete_file(path) as file:
        np.savez(file, allow_pickle=False, **{IDENTITY: np.asarray(dumps(identity))}, **arrays)


def read_state(path: Path, identity: Mapping[str, str] | None = None) -> dict[str, Array] | None:
    """Read the arrays of a file and verify their checksums; return None if there is no file.

    Raises ``InputError`` for a damaged file, and for a file of another ``identity`` (None accepts any).

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "state.npz"
    >>> write_state(path, {"rows": "a", "alpha": "1"}, {"total": np.arange(3.0)})
    >>> read_state(path, {"rows": "a", "alpha": "1"})["total"]
    array([0., 1., 2.])
    >>> read_state(path, {"rows": "a", "alpha": "2"})
    Traceback (most recent call last):
    gramian.exceptions.InputError: the checkpoint ... belongs to another fit, with other alpha. ...
    """
    if not path.exists():
        return None
    try:
        # np.load leaves a damaged file open if it opened it itself.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        text = str(arrays.pop(IDENTITY))
    except (OSError, ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path} is not a checkpoint of gramian, or is damaged ({error}). Delete it, or give another "
            "path."
        ) from None
    if identity is not None:
        check_identity(path, text, identity)
    return arrays


def check_identity(path: Path, stored_text: str, identity: Mapping[str, str]) -> None:
    """Raise ``InputError``, which names what differs, unless the stored text is that of this identity."""
    try:
        stored = loads(stored_text)
    except ValueError:
        stored = None
    known = stored if isinstance(stored, dict) else {}
    other = [name for name, text in identity.items() if known.get(name) != text]
    if other or len(known) != len(identity):
        what = ", ".join(other) if known.keys() == identity.keys() else "contents, of another version"
        raise InputError(
            f"the checkpoint {path} belongs to another fit, with other {what}. To go on with it, pass the "
            "data and parameters that it was made with. To begin anew, delete it, or give another path."
        )


def checkpoint_folder(folder: Path) -> Path:
    """Return the folder, created if it is missing; raise if it cannot be created."""
    if folder.is_file():
        raise InputError(f"checkpoint={str(folder)!r} is a file. Pass the path of a folder.")
    barrier = next((part for part in folder.parents if part.exists() and not part.is_dir()), None)
    if barrier is not None:
        raise InputError(f"checkpoint={str(folder)!r}: {barrier} is a file, not a folder. Pass another path.")
    if not folder.parent.is_dir():
        raise InputError(f"checkpoint={str(folder)!r}: the folder {folder.parent} does not exist. Create it.")
    try:
        folder.mkdir(exist_ok=True)
    except (OSError, ValueError) as error:
        raise InputError(
            f"checkpoint={str(folder)!r}: this folder cannot be created ({error}). Pass one in a folder that "
            "you may write to."
        ) from None
    return folder
