"""Files that are complete or absent."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gramian.exceptions import InputError


@contextmanager
def complete_file(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write; it appears under ``path`` when the block ends well, until then the old one stays.

    Raises ``InputError`` where the folder is missing or ``path`` is one.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "numbers.bin"
    >>> with complete_file(path) as file:
    ...     _ = file.write(b"123")
    >>> path.read_bytes()
    b'123'
    """
    if not path.parent.is_dir():
        raise InputError(f"Cannot write {path}: the folder {path.parent} does not exist. Create it first.")
    if path.is_dir():
        raise InputError(f"Cannot write {path}: it is a folder. Pass the path of a file.")
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            # Renamed before its bytes are on disk, a power cut could leave an empty file under the name.
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
