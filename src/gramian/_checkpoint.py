"""Checkpoint files for unfinished work: complete, verified, and valid for the same work only."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from json import dumps, loads
from pathlib import Path

import numpy as np

from gramian._files import complete_file
from gramian._typing import Array
from gramian.exceptions import InputError

#: Name of the stored text that identifies the work.
IDENTITY = "identity"


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
        found = str(arrays.pop(IDENTITY))
    except (OSError, ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path} is not a checkpoint of gramian, or is damaged ({error}). Delete it, or give another "
            "path."
        ) from None
    if identity is not None:
        check_identity(path, found, identity)
    return arrays


def check_identity(path: Path, found: str, identity: Mapping[str, str]) -> None:
    """Raise ``InputError``, which names what differs, unless the stored text is that of this identity."""
    try:
        stored = loads(found)
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
    check_parent(folder)
    try:
        folder.mkdir(exist_ok=True)
    except (OSError, ValueError) as error:
        raise InputError(
            f"checkpoint={str(folder)!r}: this folder cannot be created ({error}). Pass one in a folder that "
            "you may write to."
        ) from None
    return folder


def check_parent(path: Path) -> None:
    """Raise if the parent folder of a checkpoint is missing, or if a part of its path is a file."""
    barrier = next((part for part in path.parents if part.exists() and not part.is_dir()), None)
    if barrier is not None:
        raise InputError(f"checkpoint={str(path)!r}: {barrier} is a file, not a folder. Pass another path.")
    if not path.parent.is_dir():
        raise InputError(f"checkpoint={str(path)!r}: the folder {path.parent} does not exist. Create it.")
