"""Check of the files that commands write: they can be written, and are none of the files that are read."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path

from gramian._files import check_replaceable
from gramian.cli.pipes import refuse_pipe
from gramian.data.stored_file import find_files
from gramian.exceptions import InputError


def refuse_output_over_input(option: str, out: Path | None, *read: Path | str | None) -> None:
    """Raise, before any work, if an output cannot be written or would damage what the command reads.

    ``option`` is the name of the output's option; without an output nothing is checked. ``read`` are the
    files, folders and patterns that the command reads. The output must be none of their files, by whatever
    name or link, and must not lie inside a folder that is read.
    """
    if out is None:
        return
    refuse_pipe(option, out)
    check_replaceable(out)
    for path in read:
        if path is None:
            continue
        folder = next((each for each in _folders(path) if _is_inside(out, each)), None)
        if folder is not None:
            raise InputError(
                f"{option} {out} lies inside {folder}, whose files this command reads as rows. Pass a path "
                "outside it."
            )
        files = _files(path) if out.exists() else []
        file = next((each for each in files if each.exists() and os.path.samefile(out, each)), None)
        if file is not None:
            which = "is" if str(out) == str(file) else f"leads to {file}, which is"
            raise InputError(
                f"{option} {out} {which} a file that this command reads, and would be written over. Pass "
                "another path."
            )


def files_of(rows: Path | None, target: str | None) -> tuple[Path | str | None, ...]:
    """Return the paths that are read for rows: the target of ``.npy`` rows is a file of its own."""
    return (rows, target) if rows is not None and rows.name.lower().endswith(".npy") else (rows,)


def _folders(path: Path | str) -> Iterator[Path]:
    """Yield the folders that a path, or a pattern, names."""
    named = [path, *(glob.glob(str(path), recursive=True) if glob.has_magic(str(path)) else ())]
    yield from (Path(each) for each in named if os.path.isdir(each))


def _files(path: Path | str) -> list[Path]:
    """Return the files behind a path; none if it names nothing, which its reader will say."""
    try:
        return find_files(path)
    except InputError:
        return []


def _is_inside(out: Path, folder: Path) -> bool:
    parents = Path(os.path.realpath(out)).parents
    return any(parent.exists() and os.path.samefile(parent, folder) for parent in parents)
