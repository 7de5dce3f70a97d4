"""Rows of CSV files with quotes: as many as Python's ``csv`` module finds, wherever blocks end."""

from __future__ import annotations

import csv
import gzip
import io
import re
from pathlib import Path

import numpy as np
import pytest

import gramian as gm

pytest.importorskip("pyarrow")

from gramian.data.file_options import FileOptions
from gramian.data.formats import csv_dialect, text
from gramian.data.formats.csv_dialect import Dialect
from gramian.data.opening import open_table

#: Parts of cells, joined at random; the quotes among them are plain characters, or open cells, or close them.
PARTS = [
    '"',
    '""',
    "a",
    "7",
    " ",
    "é",
    "\n",
    "\r\n",
    ",",
    ";",
    'x"y',
    '5"',
    '"a, b"',
    '"p\nq"',
    '"he said ""so"""',
]


def rows_of(content: str, sep: str = ",") -> list[list[str]]:
    """Return the rows that Python's module finds, without blank lines."""
    return [row for row in csv.reader(io.StringIO(content, newline=""), delimiter=sep) if row]


def read(folder: Path, content: str, **options: object) -> list[tuple[str | None, ...]]:
    """Return the rows of a file as text."""
    path = folder / "t.csv"
    path.write_bytes(content.encode())
    header = tuple(rows_of(content, str(options.get("sep", ",")))[0])
    table = open_table(path, FileOptions(text=header, **options))  # type: ignore[arg-type]
    columns = table.rows(slice(0, table.shape[0])).to_pydict()
    return list(zip(*columns.values(), strict=True))


def rows_or_error(folder: Path, content: str) -> list[tuple[str | None, ...]] | str:
    """Return the rows of a file as text, or the error's text."""
    try:
        return read(folder, content)
    except gm.InputError as error:
        return str(error)


def random_file(rng: np.random.Generator) -> str:
    """Return a file of 3 columns with a first line of names; some of its rows may be ragged."""
    lines = ['size 5",note,y' if rng.random() < 0.5 else '"size",note,y']
    end = ["\n", "\r\n", "\r"][rng.integers(3)]
    for _ in range(rng.integers(1, 12)):
        cells = ["".join(rng.choice(PARTS, rng.integers(0, 4))) for _ in range(3)]
        # Half of the cells are written as a program would, the others as somebody who does not know how.
        cells = [
            '"' + c.replace('"', '""') + '"' if rng.random() < 0.5 else re.sub(r"[,\n\r]", "", c)
            for c in cells
        ]
        lines += ["" if rng.random() < 0.1 else ",".join(cells)]
    return end.join(lines) + end * int(rng.integers(0, 3))


@pytest.mark.parametrize("bytes_", [7, 40, 1 << 21])
def test_rows_are_those_of_the_csv_module(
    bytes_: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "TEXT_BYTES", bytes_)
    rng, same, refused = np.random.default_rng(bytes_), 0, 0
    for _ in range(50):
        content = random_file(rng)
        expected = rows_of(content)
        found = rows_or_error(tmp_path, content)
        if isinstance(found, str):
            # Ragged rows and quotes that swallow rows are named, and so is a file of no rows.
            assert re.search("columns, but the first line|begins with a quote|no rows", found), content
            refused += 1
            continue
        same += 1
        missing = {"", "NA"}
        wanted = [tuple(None if cell in missing else cell for cell in row) for row in expected[1:]]
        assert found == wanted, content
    assert same > 12
    assert refused > 3


def test_row_ends_are_found_in_every_cut(tmp_path: Path) -> None:
    rng, dialect = np.random.default_rng(1), Dialect(",", "utf-8")
    for _ in range(20):
        whole = random_file(rng).encode()
        ends = dialect.row_ends(whole)
        for cut in range(len(whole)):
            at = dialect.whole_rows(whole[:cut])
            assert at == 0 or at - 1 in ends
            # The last byte may be half of \r\n: its row ends with the next byte, or is known to end there.
            known = [end for end in ends.tolist() if end < cut and not (end == cut - 1 and whole[end] == 13)]
            assert at == (known[-1] + 1 if known else 0)


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ('diag 5",note,y\n1,a,2\n3,b,4\n5,c,6\n7,8" long,8\n9,e,10\n', 5),
        ('a,b\n1,"two\nlines"\n2,x', 2),
        ('a,b\r\n1,"two\r\nlines"\r\n2,x\r\n', 2),
        ('a,b\n1,""\n2,""""\n', 2),
        ('a,b\n1, "x\n2, y"\n', 2),
        ('a,b\n1,"5"" pipe"\n2,"6""\n pipe"\n', 2),
        ("\n\na,b\n\n1,2\n\n\n3,4\n\n", 2),
        ("a,b\r1,2\r3,4", 2),
        ('\ufeff"a\nb",c\n1,2\n', 1),
        ('a,b\n"5" pipe,1\n6" pipe,2\n', 2),
    ],
)
def test_rows_of_odd_files(content: str, rows: int, tmp_path: Path) -> None:
    for name in ("t.csv", "t.csv.gz"):
        data = content.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        assert open_table(tmp_path / name, FileOptions()).shape[0] == rows


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('a,b\n1,2\n3,"x\n4,y\n', "Row 1 of .* a cell that begins with a quote never ends"),
        ('a,b\n1,2\n3,"', "Row 1 of .* a cell that begins with a quote never ends"),
        ('a,"b\n1,2\n3,4\n', "The first line of .* a cell that begins with a quote never ends"),
        ('a,b\n1,"x\n2,y\n3,"z\n', "Row 0 of .* ends 2 lines below, amid other text"),
    ],
)
def test_quotes_that_swallow_rows_are_named(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(gm.InputError, match=f"(?s){said}.*double it and put the whole value in quotes"):
        open_table(tmp_path / "t.csv", FileOptions())


def test_a_row_without_end_stops_the_search_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "TEXT_BYTES", 100)
    monkeypatch.setattr(csv_dialect, "LONGEST_ROW", 300)
    lines = [f"{k},x" for k in range(200)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b", *lines[:50], '50,"x', *lines[51:]]))
    with pytest.raises(gm.InputError, match=r"Row 50 of .* never ends: '\"x\\n51,x"):
        open_table(tmp_path / "t.csv", FileOptions())


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (("12345678901234567891", "12345678901234567892"), True),
        (("1234567890123456789", "12345678901234567892"), True),  # the first fits 64 bits
        (("12345678901234567891", "NA", ""), True),
        (("100000000000000000000", "3"), False),  # float64 holds it
        (("12345678901234567891", "1.5"), False),
        (("9007199254740993", "1"), False),  # an integer of 64 bits
    ],
)
def test_codes_too_long_for_numbers_are_text(tmp_path, cells, text):
    path = tmp_path / "a.csv"
    path.write_text("code,y\n" + "".join(f"{cell},{k}\n" for k, cell in enumerate(cells * 3)))
    kind = open_table(path, FileOptions(target="y")).rows(slice(0, 4)).schema.field("code").type
    assert (str(kind) == "string") == text
    kind = (
        open_table(path, FileOptions(target="y", numeric=("code",)))
        .rows(slice(0, 4))
        .schema.field("code")
        .type
    )
    assert str(kind) in ("int64", "double")
