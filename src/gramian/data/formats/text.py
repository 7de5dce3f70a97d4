"""Text files as blocks of whole lines, located once and read again by position."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

#: Bytes of text in a piece; the parsed numbers take a few times as much. Chosen by hand.
TEXT_BYTES = 1 << 21


def open_text(path: Path | str) -> BinaryIO:
    """Open a file as bytes, unpacked if its name ends in ``.gz``."""
    packed = str(path).lower().endswith(".gz")
    return cast(BinaryIO, gzip.open(path, "rb") if packed else open(path, "rb"))


def text_blocks(
    path: Path | str, whole: Callable[[bytes], int] = lambda text: text.rfind(b"\n") + 1, *, skip: int = 0
) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) of consecutive blocks of whole lines, without the first ``skip`` bytes.

    ``whole`` returns the number of bytes that the whole lines at the start of a text take. Memory: one block,
    or the longest line.
    """
    offset, rest = skip, b""
    with open_text(path) as file:
        file.read(skip)
        while data := file.read(TEXT_BYTES):
            text = rest + data
            end = whole(text)
            if end:
                yield offset, text[:end]
            offset, rest = offset + end, text[end:]
    if rest:
        yield offset, rest


class TextReader:
    """Bytes of text files by position; a packed file is unpacked forward and kept open."""

    def __init__(self) -> None:
        self._open: tuple[str, BinaryIO] | None = None

    def read(self, path: str, start: int, stop: int) -> bytes:
        """Return some bytes. In a packed file, going back means unpacking it again from the start."""
        if not path.lower().endswith(".gz"):
            with open_text(path) as file:
                file.seek(start)
                text = file.read(stop - start)
        else:
            if self._open is None or self._open[0] != path:
                self.close()
                self._open = (path, open_text(path))
            file = self._open[1]
            file.seek(start)
            text = file.read(stop - start)
            # At the end the file is closed; reading past the end verifies its checksum.
            if not file.read(1):
                self.close()
        if len(text) < stop - start:
            raise EOFError(f"the file ends at byte {start + len(text)}")
        return text

    def close(self) -> None:
        """Close all open files."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def __del__(self) -> None:
        self.close()

    def __getstate__(self) -> dict[str, None]:
        return {"_open": None}
