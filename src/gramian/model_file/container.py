"""Container of a model file: a zip of plain arrays and a JSON description, checked before use.

Members are ``.npy`` files stored without compression and without pickles, so that reading one can neither
run code nor take more memory than the file has bytes. :mod:`gramian.model_file.registry` checks
what is made from them.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gramian._files import complete_file
from gramian._typing import Array
from gramian.exceptions import ModelFileError, did_you_mean

FORMAT, VERSION, HEADER = "gramian-model", 3, "model.json"
#: Bytes that an array without numbers may stand for, and a count may have, in a smaller file. Chosen by hand.
LEAST_ROOM = 1 << 20
#: Array kinds (numbers and text) that need no pickle.
PLAIN_KINDS = "biufUS"
#: A fixed date, so that equal models give equal files; it is the earliest that zip can store.
_DATE = (1980, 1, 1, 0, 0, 0)
#: Errors that zipfile raises for a damaged member.
_UNREADABLE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError)


def write_container(path: Path, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write arrays and a JSON header, to which format, version and the arrays' checksums are added.

    The file appears under its name only when it is complete; until then the old file stays. Time and disk
    O(bytes of the arrays).
    """
    listed: dict[str, dict[str, Any]] = {}
    with complete_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(_member(name), _DATE)
            with archive.open(member, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asarray(array, order="C"), allow_pickle=False)
            listed[name] = {"shape": list(array.shape), "dtype": array.dtype.str, "crc32": member.CRC}
        whole = {"format": FORMAT, "version": VERSION, **header, "arrays": listed}
        text = json.dumps(whole, allow_nan=False, indent=1)
        archive.writestr(zipfile.ZipInfo(HEADER, _DATE), text)


def read_header(path: Path) -> dict[str, Any]:
    """Return the JSON description of a file."""
    with _open(path) as archive:
        return _header(archive)


def read_container(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return description and (read-only) arrays, each checked against its listed CRC, shape and dtype.

    Raises :class:`ModelFileError` for a file of another format, of another version, or damaged; its text
    leaves the path to the caller. Time and memory O(bytes of the file).
    """
    with _open(path) as archive:
        header = _header(archive)
        listed: Any = header.get("arrays")
        require(isinstance(listed, dict), f"{HEADER} lists no arrays")
        _check_members(archive, set(map(_member, listed)) | {HEADER})
        size = max(path.stat().st_size, LEAST_ROOM)
        return header, {key: _array(archive, key, expected, size) for key, expected in listed.items()}


#: Advice for a damaged file, as part of error messages.
CURE = "The file is damaged: copy it again, or save the model again."


def require(holds: bool, text: str) -> None:
    """Raise with a text and that advice unless a condition holds."""
    if not holds:
        raise ModelFileError(f"{text}. {CURE}")


def extent(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Return the bytes of an array, an empty axis counted as if it had one number."""
    return math.prod(max(1, size) for size in shape) * max(1, dtype.itemsize)


def _member(name: str) -> str:
    return f"{name}.npy"


@contextmanager
def _open(path: Path) -> Iterator[zipfile.ZipFile]:
    if not path.is_file():
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        what = "is a folder" if path.is_dir() else "does not exist"
        raise ModelFileError(f"the file {what}.{did_you_mean(path.name, siblings)} Check the path.")
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(0)
        try:
            archive = zipfile.ZipFile(file)
        except _UNREADABLE as error:
            if start == b"PK\x03\x04":
                raise ModelFileError(f"its directory cannot be read ({_first_line(error)}). {CURE}") from None
            raise ModelFileError(
                f"expected a zip archive, got a file that starts with {start!r}. It is not a gramian "
                "model, or it is damaged: pass a file that gramian.save wrote."
            ) from None
        with archive:
            # Overlapping members, or a size that is not true, would need more memory than the file has bytes.
            total, size = sum(member.file_size for member in archive.infolist()), path.stat().st_size
            require(total <= size, f"its members have {total} bytes, but the file has {size}")
            yield archive


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__


def _read(archive: zipfile.ZipFile, member: str) -> bytes:
    """Return a member's bytes; zipfile checks their CRC."""
    info = archive.getinfo(member)
    plain = info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size
    require(plain, f"the member {member} is compressed; expected stored bytes")
    try:
        return archive.read(info)
    except _UNREADABLE as error:
        raise ModelFileError(f"the member {member} cannot be read ({_first_line(error)}). {CURE}") from None


def _refuse_constant(constant: str) -> None:
    """Raise for NaN and Infinity, which are not JSON although Python reads them."""
    raise ValueError(f"it holds {constant}")


def _header(archive: zipfile.ZipFile) -> dict[str, Any]:
    if HEADER not in archive.namelist():
        raise ModelFileError(
            f"the archive has no member {HEADER}. It is not a gramian model: pass a file that "
            "gramian.save wrote."
        )
    try:
        header = json.loads(_read(archive, HEADER).decode(), parse_constant=_refuse_constant)
    except ModelFileError:
        raise
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError
        raise ModelFileError(f"{HEADER} is not JSON ({_first_line(error)}). {CURE}") from None
    found = header.get("format") if isinstance(header, dict) else None
    if found != FORMAT:
        raise ModelFileError(
            f"{HEADER} names the format {found!r}; expected {FORMAT!r}. Pass a file that gramian.save wrote."
        )
    number = header.get("version")
    whole = type(number) is int and number >= 1
    require(whole, f"{HEADER} gives the version {number!r}; expected a whole number")
    if number != VERSION:
        cure = "Train the model again and save it, or load it with the old gramian."
        cure = "Upgrade it: pip install --upgrade gramian." if number > VERSION else cure
        raise ModelFileError(
            f"the file has version {number}, written by gramian {header.get('library')}; this gramian reads "
            f"version {VERSION}. {cure}"
        )
    notes = header.setdefault("notes", {})
    texts = isinstance(notes, dict) and all(isinstance(text, str) for text in notes.values())
    require(texts, "its notes are not texts by name")
    return header


def _check_members(archive: zipfile.ZipFile, expected: set[str]) -> None:
    stored = archive.namelist()
    lacking, extra = sorted(expected - set(stored)), sorted(set(stored) - expected)
    require(not lacking, f"the member {''.join(lacking[:1])} is missing")
    extra += sorted(name for name in expected if stored.count(name) > 1)
    require(not extra, f"the archive has a member {''.join(extra[:1])} that {HEADER} does not list once")


def _array(archive: zipfile.ZipFile, name: str, expected: Mapping[str, Any], most: int) -> Array:
    """Return one array as a view of the member's bytes, without a copy.

    most : bytes that it may take; of an empty array those of its other axes.
    """
    data = _read(archive, _member(name))
    stream = io.BytesIO(data)
    try:
        shape, dtype = tuple(map(int, expected["shape"])), str(expected["dtype"])
        major = np.lib.format.read_magic(stream)[0]
        readers = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
        found, transposed, kind = readers[major](stream)
    # NumPy reads the header as a Python literal, which can be nested too deeply.
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
        raise ModelFileError(
            f"the array {name!r} has no readable header ({_first_line(error)}). {CURE}"
        ) from None
    if kind.kind not in PLAIN_KINDS:
        raise ModelFileError(
            f"the array {name!r} holds {kind}; expected numbers or text. A gramian model holds no objects, "
            "which could run code when read: do not trust this file."
        )
    what = f"the array {name!r} has"
    same = found == shape and kind.str == dtype and not transposed
    require(same, f"{what} shape {found} and dtype {kind.str}; expected {shape} and {dtype}")
    held = min(shape, default=0) >= 0 and extent(shape, kind) <= most
    require(held, f"{what} shape {shape} and dtype {kind.str}, which is more than the file can hold")
    count, left = math.prod(shape), len(data) - stream.tell()
    require(count * kind.itemsize == left, f"{what} {left} bytes; expected {count * kind.itemsize}")
    # The zip's checksum verifies the content; the listed one also verifies that it has the right name.
    checksum, own = expected.get("crc32"), archive.getinfo(_member(name)).CRC
    require(
        checksum == own,
        f"{what} the checksum {own}; {HEADER} lists {checksum}: its member was replaced, or swapped with "
        "another one",
    )
    if not count:
        return np.empty(shape, kind.newbyteorder("="))
    array = np.frombuffer(data, kind, count, stream.tell()).reshape(shape)
    return array.astype(kind.newbyteorder("="), copy=False)
