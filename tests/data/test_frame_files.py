"""Tables of any columns from CSV and Parquet files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gramian as gm

for extra in ("pyarrow", "pandas"):
    pytest.importorskip(extra)

import pandas as pd

from gramian.data.frame_files import holds_frame, read_frame

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


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_columns_stay_as_they_are(suffix: str, tmp_path: Path) -> None:
    frame = read_frame(write(FRAME, tmp_path / f"t{suffix}"), target="price")
    assert frame.feature_names == ("rooms", "town", "built", "lift")
    assert frame.X["rooms"].to_pylist() == [3.0, None, 4.0]
    assert frame.X["town"].to_pylist() == ["Bath", None, "12"]
    assert [str(day)[:10] for day in frame.X["built"].to_pylist()] == ["1990-05-01", "2001-01-31", "None"]
    assert frame.X["lift"].to_pylist() == [True, False, True]
    np.testing.assert_array_equal(frame.y, [1.5, 2.5, 3.5])
    assert frame.target == "price"


def test_columns_are_picked_and_text_is_named(tmp_path: Path) -> None:
    path = write(pd.DataFrame({"zip": [101, 7], "n": [1, 2], "y": ["a", "b"]}), tmp_path / "t.csv")
    frame = read_frame(path, target="y", columns=["n", "zip"], text=["zip", "not there"])
    assert frame.feature_names == ("n", "zip")
    assert frame.X["zip"].to_pylist() == ["101", "7"]
    assert frame.y.tolist() == ["a", "b"]
    assert read_frame(path).y is None


def test_the_formats_that_have_frames() -> None:
    assert [holds_frame(f"t.{name}") for name in ("csv", "csv.gz", "parquet", "npz", "svm")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_bad_files_are_told(tmp_path: Path) -> None:
    path = write(FRAME, tmp_path / "t.csv")
    for name, said in (
        ("prise", "has no target column 'prise'. Did you mean 'price'"),
        ("rooms", "target column 'rooms' has 1 missing value, of 3 rows"),
        ("built", "target column 'built' holds dates or times"),
    ):
        with pytest.raises(gm.InputError, match=said):
            read_frame(path, target=name)
    with pytest.raises(gm.InputError, match="has no feature column 'kitchen'"):
        read_frame(path, columns=["kitchen"])
    with pytest.raises(gm.InputError, match="There is no file"):
        read_frame(tmp_path / "x.csv")
    np.savez(tmp_path / "t.npz", X=np.ones((2, 2)))
    with pytest.raises(gm.InputError, match=r"npz file, whose columns have no types. Use read_table"):
        read_frame(tmp_path / "t.npz")
    write(FRAME[["price"]], tmp_path / "one.csv")
    with pytest.raises(gm.InputError, match="has no feature columns besides the target"):
        read_frame(tmp_path / "one.csv", target="price")
    write(FRAME[:0], tmp_path / "none.parquet")
    with pytest.raises(gm.InputError, match="has no rows"):
        read_frame(tmp_path / "none.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and so on")
    with pytest.raises(gm.InputError, match=r"bad.parquet could not be read as Parquet"):
        read_frame(tmp_path / "bad.parquet")
