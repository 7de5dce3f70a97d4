"""Tables of any columns in CSV and Parquet files, read block by block."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gramian as gm

for extra in ("pyarrow", "pandas"):
    pytest.importorskip(extra)

import pandas as pd

from gramian.data.file_options import FileOptions
from gramian.data.formats import text
from gramian.data.opening import open_table
from gramian.data.stored_source import StoredSource
from gramian.tables import EncodedRows, TableColumns

FRAME = pd.DataFrame(
    {
        "rooms": [3.0, None, 4.0],
        "town": ["Bath", None, "12"],
        "built": pd.to_datetime(["1990-05-01", "2001-01-31", None]),
        "lift": [True, False, True],
        "price": [1.5, 2.5, 3.5],
    }
)


def write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path


def read(path: Path, **options: object) -> tuple[StoredSource, object]:
    """Return a table and all of its columns."""
    table = open_table(path, FileOptions(**options))
    return table, table.rows(slice(0, table.shape[0]))


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_columns_stay_as_they_are(suffix: str, tmp_path: Path) -> None:
    table, X = read(write(FRAME, tmp_path / f"t{suffix}"), target="price")
    assert table.feature_names == ("rooms", "town", "built", "lift")
    assert X["rooms"].to_pylist() == [3.0, None, 4.0]
    assert X["town"].to_pylist() == ["Bath", None, "12"]
    assert [str(day)[:10] for day in X["built"].to_pylist()] == ["1990-05-01", "2001-01-31", "None"]
    assert X["lift"].to_pylist() == [True, False, True]
    np.testing.assert_array_equal(table.target[:], [1.5, 2.5, 3.5])
    assert table.target.name == "price"


def test_columns_are_picked_and_text_is_named(tmp_path: Path) -> None:
    path = write(pd.DataFrame({"zip": [101, 7], "n": [1, 2], "y": ["a", "b"]}), tmp_path / "t.csv")
    table, X = read(path, target="y", columns=("n", "zip"), text=("zip",))
    assert table.feature_names == ("n", "zip")
    assert X["zip"].to_pylist() == ["101", "7"]
    assert table.target[:].tolist() == ["a", "b"]
    assert read(path)[0].target is None


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("keep_bytes", [0.0, np.inf])
def test_blocks_are_those_of_the_whole(
    suffix: str, keep_bytes: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "TEXT_BYTES", 400)
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame(
        {"a": rng.standard_normal(n), "b": rng.choice(["x", "y", "z"], n), "y": rng.random(n)}
    )
    # A column's type is that of all its blocks: integers, then floats; numbers, then text; days, then times.
    frame["c"] = [*map(str, range(200)), *(np.arange(100) + 0.5).astype(str)]
    frame["d"] = ["07"] * 150 + ["x7"] * 150
    frame["t"] = ["2001-02-03"] * 150 + ["2001-02-03 04:05:06"] * 150
    if suffix == ".parquet":
        frame = frame.astype({"c": float}).assign(t=pd.to_datetime(frame.t, format="ISO8601"))
        path = tmp_path / "t.parquet"
        frame.to_parquet(path, index=False, row_group_size=70)
    else:
        path = write(frame, tmp_path / f"t{suffix}")
    table = open_table(path, FileOptions(target="y", keep_bytes=keep_bytes))
    whole = table.rows(slice(0, n))
    assert whole["c"].to_pylist() == frame.c.astype(float).tolist()
    assert whole["d"].to_pylist() == frame.d.tolist()
    assert str(whole["t"].to_pylist()[-1]) == "2001-02-03 04:05:06"
    assert table.rows(slice(100, 180)).equals(whole.slice(100, 80))
    some = rng.permutation(n)[:50]
    for asked in (some, np.sort(some), [-1, 0, 0], [], [299]):
        numbers = np.asarray(asked, np.intp)
        expected = whole.take(np.where(numbers < 0, n + numbers, numbers))
        assert table.take(numbers).combine_chunks().equals(expected.combine_chunks())
    np.testing.assert_array_equal(table.target[:], frame.y)
    np.testing.assert_array_equal(table.target[np.array([7, 2])], frame.y[[7, 2]])
    columns = TableColumns.learn(table)
    np.testing.assert_array_equal(EncodedRows(columns, table).rows(slice(0, n)), columns.encode(whole))


def test_only_files_whose_rows_fit_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "TEXT_BYTES", 2000)
    frame = pd.DataFrame({"a": np.arange(2000.0), "y": 1.0})
    path = write(frame, tmp_path / "t.csv")
    kept, most = [], 0
    for keep_bytes in (0.0, 8_000.0, np.inf):
        table = open_table(path, FileOptions(target="y", keep_bytes=keep_bytes))
        assert table.rows(slice(0, 2000))["a"].to_pylist() == frame.a.tolist()
        kept.append(len(table._kept["rows"]))
        most = len(table.storage.pieces)
        assert not table.storage._parsed
    assert kept == [2, 2, most]


def test_bad_files_are_told(tmp_path: Path) -> None:
    path = write(FRAME, tmp_path / "t.csv")
    for name, said in (
        ("prise", "has no target column 'prise'. Did you mean 'price'"),
        ("built", "target column 'built' holds dates or times"),
    ):
        with pytest.raises(gm.InputError, match=said):
            read(path, target=name)
    with pytest.raises(gm.InputError, match=r"Row 1 of .*t.csv \(from 0\) has a missing value.* 'rooms'"):
        read(path, target="rooms")[0].target[:]
    with pytest.raises(gm.InputError, match="has no feature column 'kitchen'"):
        read(path, columns=("kitchen",))
    with pytest.raises(gm.InputError, match="There is no file"):
        read(tmp_path / "x.csv")
    np.savez(tmp_path / "t.npz", X=np.ones((2, 2)))
    with pytest.raises(gm.InputError, match=r"t.npz does not name its columns"):
        read(tmp_path / "t.npz")
    write(FRAME[["price"]], tmp_path / "one.csv")
    with pytest.raises(gm.InputError, match="has no feature columns besides the target"):
        read(tmp_path / "one.csv", target="price")
    write(FRAME[:0], tmp_path / "none.parquet")
    with pytest.raises(gm.InputError, match="no rows"):
        read(tmp_path / "none.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and so on")
    with pytest.raises(gm.InputError, match=r"bad.parquet \(from 0\) could not be read"):
        read(tmp_path / "bad.parquet")
