"""Errors of open_data, by their text; dropped rows, categories, and reading ahead."""

from __future__ import annotations

import gc
import gzip
import os
import re
import threading

import numpy as np
import pytest

import gramian as gm
from gramian.data.formats import text
from gramian.data.source import row_blocks

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
h5py = pytest.importorskip("h5py")
pl = pytest.importorskip("polars")
zarr = pytest.importorskip("zarr")


def fails(*pieces, **call):
    """The call must raise an InputError whose text has these pieces in this order."""
    return pytest.raises(gm.InputError, match="(?s)" + ".*".join(map(re.escape, pieces)))


def csv(folder, content, name="t.csv"):
    path = folder / name
    path.write_text(content)
    return path


def parquet(folder, columns, name="t.parquet", **options):
    pq.write_table(pa.table(columns), folder / name, **options)
    return folder / name


# ---- files that are not there, or do not go together --------------------------------------------


def test_paths(tmp_path):
    path = csv(tmp_path, "a,b\n1,2\n")
    with fails("There is no file", "u.csv", "Did you mean 't.csv'?"):
        gm.open_data(tmp_path / "u.csv")
    with fails("No file matches", "*.parquet", "Check the pattern"):
        gm.open_data(str(tmp_path / "*.parquet"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "_SUCCESS").touch()
    with fails("The folder", "holds no files"):
        gm.open_data(tmp_path / "empty")
    with fails("The list of paths is empty"):
        gm.open_data([])
    with fails("t.csv is listed more than once"):
        gm.open_data([path, str(path)])
    with fails("t.txt has the suffix '.txt', which is not a known format. Supported: .csv"):
        gm.open_data(csv(tmp_path, "1", "t.txt"))
    np.save(tmp_path / "t.npy", np.ones((2, 2)))
    with fails("t.csv is CSV and", "t.npy is npy", "have one format"):
        gm.open_data([path, tmp_path / "t.npy"])
    with fails("is empty (0 bytes)"):
        gm.open_data(csv(tmp_path, "", "empty.csv"))
    with fails("no rows. Pass at least one row"):
        gm.open_data(csv(tmp_path, "a,b\n", "header.csv"), target="b")
    with fails("no rows. Pass at least one row"):
        gm.open_data(parquet(tmp_path, {"a": pa.array([], "int8")}))
    with fails("Data of type ndarray cannot be opened", "arrays", "go to fit as they are"):
        gm.open_data(np.ones((2, 2)))


def test_options(tmp_path):
    path = csv(tmp_path, "a,b,y\n1,2,3\n")
    with fails("categorical='one-hot' is unknown. Choose one of refuse, onehot. Did you mean 'onehot'?"):
        gm.open_data(path, categorical="one-hot")
    with fails("nan='skip' is unknown"):
        gm.open_data(path, nan="skip")
    with fails("columns='a' is a single string. Pass a list of names: ['a']"):
        gm.open_data(path, columns="a")
    with fails("no target column 'z'", "Its columns are: 'a', 'b', 'y'"):
        gm.open_data(path, target="z")
    with fails("The target 'y' is also among columns"):
        gm.open_data(path, target="y", columns=["a", "y"])
    with fails("target=[] names no column"):
        gm.open_data(path, target=[])
    with fails("target has type int"):
        gm.open_data(path, target=3)
    with fails("no feature columns besides the target"):
        gm.open_data(path, target=["a", "b", "y"])
    source = gm.open_data(path, target=["y", "a"])
    np.testing.assert_array_equal(source.target[:], [[3, 1]])
    assert source.target.shape == (1, 2)
    with fails("KernelRidge requires y to be passed"):
        gm.KernelRidge().fit(gm.open_data(path))


def test_files_of_other_columns(tmp_path):
    for k, columns in enumerate(({"a": [1], "y": [1.0]}, {"a": ["1"], "y": [1.0]}, {"b": [1], "y": [1.0]})):
        parquet(tmp_path, columns, f"{k}.parquet")
    with fails(
        "Column 'a' is int64 in", "0.parquet and string in", "1.parquet. Write all files with the same"
    ):
        gm.open_data([tmp_path / "0.parquet", tmp_path / "1.parquet"])
    with fails("0.parquet has no column 'b', which", "2.parquet has"):
        gm.open_data([tmp_path / "0.parquet", tmp_path / "2.parquet"])
    assert gm.open_data(tmp_path, columns=["y"]).shape == (3, 1)
    files = [csv(tmp_path, "a,b\n1,2\n", "0.csv"), csv(tmp_path, "b,a\n3.5,4\n", "1.csv")]
    np.testing.assert_array_equal(gm.open_data(files).rows(slice(None)), [[1, 2], [4, 3.5]])
    with fails("2.csv has no column 'b', which", "0.csv has"):
        gm.open_data([*files, csv(tmp_path, "a\n3\n", "2.csv")])
    for name, array in (("0", np.ones((2, 3))), ("1", np.ones((2, 3), np.float32))):
        np.save(tmp_path / f"{name}.npy", array)
    with fails("has rows of 3 features, float64, no target, but", "of 3 features, float32"):
        gm.open_data(str(tmp_path / "*.npy"))


def test_numbers_of_several_types_in_the_parts_of_a_data_set(tmp_path):
    parts = ({"a": [1, 2], "b": [1, None]}, {"a": [1.5, 2.5], "b": [1, 2]}, {"a": [None], "b": [3]})
    for k, columns in enumerate(parts):
        parquet(tmp_path, columns, f"{k}.parquet")
    source = gm.open_data(tmp_path)
    assert source.dtype == np.float64
    np.testing.assert_array_equal(source.rows(slice(1, 1)), np.empty((0, 2)))
    np.testing.assert_array_equal(source.rows(slice(2, 4)), [[1.5, 1], [2.5, 2]])
    assert gm.open_data(tmp_path, target="b", columns=["a"]).rows(slice(0, 4)).ravel().tolist() == [
        1,
        2,
        1.5,
        2.5,
    ]
    parquet(tmp_path, {"a": [2**53 + 1], "b": [1]}, "0.parquet")
    with fails("Row 0 of", "0.parquet", "'a' holds the integer 9007199254740993", "Write all files with the"):
        gm.open_data(tmp_path).rows(slice(0, 1))
    parquet(tmp_path, {"a": [2**60], "b": [1]}, "0.parquet")
    assert gm.open_data(tmp_path).rows(slice(0, 1))[0, 0] == 2.0**60


# ---- rows that cannot be read -------------------------------------------------------------------


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr("gramian.data.storage.PIECE_BYTES", 1 << 8)
    monkeypatch.setattr(text, "TEXT_BYTES", 1 << 8)


def test_ragged_and_truncated_text(tmp_path, small_pieces):
    lines = [f"{k},{k * k}" for k in range(100)]
    ragged = csv(tmp_path, "\n".join(["a,y", *lines[:70], "7,8,9", *lines[70:]]))
    with fails("Row 70 of", "t.csv (from 0): it has 3 columns, but the first line names 2: '7,8,9'"):
        gm.open_data(ragged)
    whole = "\n".join(["a,y", *lines]).encode()
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(whole)[:-20])
    with fails("t.csv.gz", "could not be read", "Check that the file is complete"):
        gm.open_data(packed)
    with fails("'x'), first in row 50 (from 0). Encode it as numbers, leave it out", "categorical='onehot'"):
        gm.open_data(csv(tmp_path, "\n".join(["a,y", *lines[:50], "x,1", *lines])))
    svm = csv(tmp_path, "\n".join(f"{k} 1:{k} 3:2" for k in range(80)) + "\n1 2:x\n", "t.svm")
    with fails("Row 80 of", "t.svm", "'1 2:x' is not 'target index:value"):
        gm.open_data(svm)
    with fails("The first line of", "holds numbers ('0', '0.5')"):
        gm.open_data(csv(tmp_path, "0,0.5\n1,2\n"))


def test_quoted_line_breaks(tmp_path, small_pieces):
    rows = [(k, f'line\n"{k}", and more' if k % 3 else f"plain{k % 2}") for k in range(120)]
    frame = pd.DataFrame({"a": [k for k, _ in rows], "y": [name for _, name in rows]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    source = gm.open_data(tmp_path / "t.csv", target="y")
    assert len(source.storage.pieces) > 5
    np.testing.assert_array_equal(source.rows(slice(None)).ravel(), frame["a"])
    assert list(source.target[:]) == list(frame["y"])


def test_damaged_parquet_hdf5_and_npz(tmp_path):
    path = parquet(tmp_path, {"a": np.random.default_rng(0).random(5000)}, write_page_checksum=True)
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2])
    with fails("t.parquet", "could not be read", "Check that the file is complete"):
        gm.open_data(path)
    path.write_bytes(good[:100] + bytes(20_000) + good[20_100:])
    with fails("Rows 0 to 4999 of", "t.parquet (from 0) could not be read"):
        gm.open_data(path).rows(slice(0, 10))
    (tmp_path / "t.h5").write_bytes(b"no HDF5 at all")
    with fails("t.h5", "could not be read"):
        gm.open_data(tmp_path / "t.h5")
    np.savez_compressed(tmp_path / "t.npz", X=np.random.default_rng(0).random((4000, 2)))
    packed = bytearray((tmp_path / "t.npz").read_bytes())
    packed[3000:3010] = bytes(10)
    (tmp_path / "t.npz").write_bytes(packed)
    with fails("Rows 0 to 3999 of", "t.npz (from 0) could not be read"):
        gm.open_data(tmp_path / "t.npz").take(np.arange(4000))


def test_stored_arrays_of_wrong_names_and_shapes(tmp_path):
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["deep/rows"], file["y"], file["names"] = np.ones((3, 2)), np.ones(4), ["a", "b", "c"]
    with fails("t.h5 has no array 'X'", "Its arrays are: 'deep/rows', 'names', 'y'. Pass key="):
        gm.open_data(tmp_path / "t.h5")
    with fails("the target has shape (4,) and X (3, 2). Store one target a row"):
        gm.open_data(tmp_path / "t.h5", key="deep/rows", target="y")
    with fails("y has shape (4,). Store one row a sample"):
        gm.open_data(tmp_path / "t.h5", key="y")
    with fails("does not name its columns, so columns cannot be used"):
        gm.open_data(tmp_path / "t.h5", key="deep/rows", columns=["a"])
    source = gm.open_data(tmp_path / "t.h5", key="deep/rows", target="names")
    assert list(source.target[:]) == ["a", "b", "c"]
    zarr.save_array(tmp_path / "one.zarr", np.ones((3, 2)))
    assert gm.open_data(tmp_path / "one.zarr").shape == (3, 2)
    with fails("one.zarr is one array, so it has no target 'y'"):
        gm.open_data(tmp_path / "one.zarr", target="y")
    np.savez(tmp_path / "t.npz", X=np.array(["a"]), y=np.ones(1))
    with fails("X has shape (1,)"):
        gm.open_data(tmp_path / "t.npz")
    with fails("t.npz has no array 'z'", "Its arrays are: 'X', 'y'"):
        gm.open_data(tmp_path / "t.npz", target="z")
    np.save(tmp_path / "X.npy", np.ones((3, 2)))
    with fails("target= names 2 files, but there are 1 files of rows"):
        gm.open_data(tmp_path / "X.npy", target=[str(tmp_path / "X.npy"), str(tmp_path / "t.npz")])


@pytest.mark.parametrize(("version", "options"), [(2, {}), (3, {}), (3, {"shards": (20, 3)})])
def test_a_store_written_after_opening(tmp_path, version, options):
    group = zarr.open_group(tmp_path / "t.zarr", mode="w", zarr_format=version)
    array = group.create_array("X", shape=(40, 3), chunks=(10, 3), dtype="f8", fill_value=0.0, **options)
    array[:20] = 1.0
    source = gm.open_data(tmp_path / "t.zarr")
    assert source.rows(slice(None)).sum() == 60
    array[20:] = 2.0
    with fails("has been written since", "t.zarr was opened"):
        source.rows(slice(30, 40))


def test_a_file_that_is_gone(tmp_path):
    path = parquet(tmp_path, {"a": [1, 2]})
    source = gm.open_data(path)
    os.remove(path)
    with fails("t.parquet no longer exists"):
        source.rows(slice(0, 1))


# ---- missing values -----------------------------------------------------------------------------

LACKING = {"a": [1, 2, None, 4, 5], "b": [0.5, np.inf, 1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0, None, 5.0]}


def lacking_parquet(folder):
    parquet(folder, {"a": [7], "b": [7.0], "y": [7.0]}, "0.parquet")
    parquet(folder, LACKING, "1.parquet", row_group_size=2)
    return folder


def lacking_csv(folder):
    csv(folder, "a,b,y\n7,7,7\n", "0.csv")
    csv(folder, "a,b,y\n1,0.5,1\n2,inf,2\n,1,3\n4,2,\n5,3,5\n", "1.csv")
    return folder


@pytest.mark.parametrize("write", [lacking_parquet, lacking_csv])
def test_missing_values_are_refused_by_row_or_dropped(tmp_path, write):
    source = gm.open_data(write(tmp_path), target="y")
    np.testing.assert_array_equal(source.rows(slice(0, 2)), [[7, 7], [1, 0.5]])
    with fails(
        "Row 1 of", "1.", "(from 0) has infinity in column 'b'. Fill it in, drop the row", "nan='drop'"
    ):
        source.rows(slice(0, 4))
    with fails("Row 2 of", "has a missing value or NaN in column 'a'"):
        source.take(np.array([5, 3]))
    with fails("Row 3 of", "has a missing value or NaN in the target 'y'"):
        source.target[:]
    with pytest.raises(gm.InputError, match="missing value or NaN in the target 'y'"):
        gm.KernelRidge().fit(source)
    with pytest.warns(
        UserWarning, match=r"^3 of 6 rows have a missing value, NaN or infinity and are left out"
    ):
        kept = gm.open_data(tmp_path, target="y", nan="drop")
    assert (kept.n_dropped, kept.shape) == (3, (3, 2))
    np.testing.assert_array_equal(kept.rows(slice(None)), [[7, 7], [1, 0.5], [5, 3]])
    np.testing.assert_array_equal(kept.take(np.array([2, 0])), [[5, 3], [7, 7]])
    np.testing.assert_array_equal(kept.rows(slice(1, 3)), [[1, 0.5], [5, 3]])
    np.testing.assert_array_equal(kept.target[:], [7, 1, 5])
    np.testing.assert_array_equal(kept.target[np.array([2, 1])], [5, 1])


def test_no_rows_left_and_views_with_rows_dropped(tmp_path):
    with fails("no rows without missing values, NaN or infinity (1 dropped)"):
        gm.open_data(parquet(tmp_path, {"a": [np.nan]}), nan="drop")
    rows = np.random.default_rng(0).random((50, 3))
    rows[[3, 4, 49], 1] = np.nan
    np.save(tmp_path / "t.npy", rows)
    with fails("Row 3 of", "t.npy (from 0) has a missing value or NaN in feature 1"):
        gm.open_data(tmp_path / "t.npy").rows(slice(2, 9))
    with pytest.warns(UserWarning, match="3 of 50 rows"):
        source = gm.open_data(tmp_path / "t.npy", nan="drop")
    wanted = rows[np.isfinite(rows).all(axis=1)]
    for where in (slice(None), slice(2, 5), slice(40, 47)):
        np.testing.assert_array_equal(source.rows(where), wanted[where])
    with fails("column 'a' has no values at all"):
        gm.open_data(parquet(tmp_path, {"a": pa.nulls(3), "b": [1, 2, 3]}))


# ---- categories ---------------------------------------------------------------------------------


def coloured(kind, folder):
    columns = {"x": [1.5, 2.5, 3.5, 4.5], "colour": ["red", "blue", "red", None], "y": [0, 1, 0, 1]}
    if kind == "csv":
        csv(folder, "x,colour,y\n1.5,red,0\n2.5,blue,1\n", "0.csv")
        csv(folder, "x,colour,y\n3.5,red,0\n4.5,,1\n", "1.csv")
        return str(folder / "*.csv")
    if kind == "parquet":
        table = pa.table(columns)
        return parquet(folder, table.set_column(1, "colour", table["colour"].dictionary_encode()))
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[kind]
    return frame(columns)


@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas", "polars", "arrow"])
def test_one_column_for_each_category(tmp_path, kind):
    data = coloured(kind, tmp_path)
    with fails("column 'colour' holds text (such as 'red'), first in row 0 (from 0)"):
        gm.open_data(data, target="y")
    source = gm.open_data(data, target="y", categorical="onehot")
    assert source.feature_names == ("x", "colour=blue", "colour=red")
    np.testing.assert_array_equal(source.rows(slice(0, 3)), [[1.5, 0, 1], [2.5, 1, 0], [3.5, 0, 1]])
    with fails("Row ", "has a missing value or NaN in column 'colour=blue'"):
        source.rows(slice(3, 4))
    with pytest.warns(UserWarning, match="1 of 4 rows"):
        kept = gm.open_data(data, target="y", categorical="onehot", nan="drop")
    assert kept.shape == (3, 3)
    assert kept.rows(slice(None)).dtype == source.dtype == np.float64
    new = gm.open_data(csv(tmp_path, "colour,x\nblue,2\nred,3\ngreen,4\n", "new.csv"), like=source)
    with fails(
        "Row 2 of", "new.csv (from 0): column 'colour' holds 'green', which is not one of its 2 categories"
    ):
        new.rows(slice(0, 3))


def test_rows_to_predict_have_the_features_of_the_training_rows(tmp_path):
    path = csv(
        tmp_path, "a,colour,y\n" + "\n".join(f"{k},{'red' if k % 2 else 'blue'},{k}" for k in range(40))
    )
    train = gm.open_data(path, target="y", categorical="onehot")
    model = gm.KernelRidge(alpha=0.1, random_state=0).fit(train)
    assert list(model.feature_names_in_) == ["a", "colour=blue", "colour=red"]
    new = gm.open_data(csv(tmp_path, "colour,a\nred,1\nred,3\n", "new.csv"), like=train)
    np.testing.assert_allclose(model.predict(new), model.predict(train)[[1, 3]])
    other = gm.open_data(csv(tmp_path, "a,b,c\n1,2,3\n", "other.csv"))
    with fails("X has no columns 'colour=blue', 'colour=red', which", "It has columns 'b', 'c'", "like="):
        model.predict(other)
    with fails("has no feature column 'colour'"):
        gm.open_data(tmp_path / "other.csv", like=train)
    with fails("column 'colour' holds numbers, but text in the data that like= names"):
        gm.open_data(parquet(tmp_path, {"a": [1], "colour": [2]}), like=train)
    with fails("column 'colour' holds '2', which is not one of its 2 categories"):
        gm.open_data(csv(tmp_path, "a,colour\n1,2\n", "numbers.csv"), like=train).rows(slice(0, 1))
    nothing = parquet(tmp_path, {"a": [1, 2], "b": pa.array([None, None], "string")}, "nothing.parquet")
    with fails("column 'b' has no values at all"):
        gm.open_data(nothing, categorical="onehot")
    many = csv(tmp_path, "a\n" + "\n".join(f"name{k}" for k in range(1001)), "many.csv")
    with fails("text column 'a' has more than 1000 different values"):
        gm.open_data(many, categorical="onehot")


def test_svmlight_rows_to_predict_have_the_width_of_the_training_rows(tmp_path):
    train = gm.open_data(csv(tmp_path, "1 0:5 4:2\n2 1:1\n", "train.svm"))
    new = gm.open_data(csv(tmp_path, "1 1:5\n", "new.svm"), like=train)
    np.testing.assert_array_equal(new.rows(slice(None)).toarray(), [[0, 5, 0, 0, 0]])
    with fails("wide.svm has 10 features, but 5 were expected"):
        gm.open_data(csv(tmp_path, "1 9:5\n", "wide.svm"), like=train)


def test_pandas_frames_of_all_kinds():
    source = gm.open_data(
        pd.DataFrame({0: [1, 2], 1: pd.array([True, False]), "y": pd.array([3, None], "Int8")})
    )
    assert (source.feature_names, source.dtype) == (("0", "1", "y"), np.int64)
    np.testing.assert_array_equal(source.rows(slice(0, 1)), [[1, 1, 3]])
    with fails("Row 1 of the pandas frame", "in column 'y'"):
        source.take(np.array([1]))
    with fails("the pandas frame names the column 'a' more than once"):
        gm.open_data(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with fails("The pandas frame has a column of mixed values", "Give each column one type"):
        gm.open_data(pd.DataFrame({"a": [1, "x", None]}))
    with fails("column 'a' holds dates or times (timestamp"):
        gm.open_data(pd.DataFrame({"a": pd.to_datetime(["2026-01-01"])}))
    for values in ([1j, 2j], pd.arrays.SparseArray([0.0, 1.0])):
        with fails("a type that cannot be read", "Convert the column"):
            gm.open_data(pd.DataFrame({"a": values}))
    nested = pd.DataFrame([[1.0, 2.0]], columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]))
    np.testing.assert_array_equal(gm.open_data(nested).rows(slice(0, 1)), [[1.0, 2.0]])


def test_options_of_another_type(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [3.0, 4.0]})
    path = csv(tmp_path, "a,y\n1,3\n2,4\n")
    for data in (frame, path):
        with fails("no target column 'z'", "Its columns are: 'a', 'y'"):
            gm.open_data(data, target="z")
        for columns in (5, {"a", "y"}):
            with fails("is no list of names"):
                gm.open_data(data, columns=columns)
        for name in ("categorical", "missing"):
            with fails(f"{name}=5 is no list of texts"):
                gm.open_data(data, **{name: 5})
        for like in (5, frame):
            with fails("like has type", "Pass what gramian.open_data returned"):
                gm.open_data(data, like=like)
        with fails("no arrays to name with key=", "Leave it out"):
            gm.open_data(data, key="X")


def test_text_targets_make_classes(tmp_path):
    labels = ["yes" if k % 3 else "no" for k in range(60)]
    path = parquet(tmp_path, {"a": np.arange(60.0), "y": labels}, row_group_size=25)
    source = gm.open_data(path, target="y")
    model = gm.KernelRidgeClassifier(random_state=0, gamma=1.0, alpha=1e-3).fit(source)
    assert list(model.classes_) == ["no", "yes"]
    assert list(model.predict(source)) == labels
    with pytest.raises(gm.InputError, match="cannot be read as numbers"):
        gm.KernelRidge().fit(source)


# ---- reading ahead ------------------------------------------------------------------------------


class Counted:
    """A source that counts the blocks asked for, and breaks at one."""

    reads_ahead, dtype, shape = True, np.dtype(float), (100, 1)

    def __init__(self, bad=None):
        self.asked, self.bad, self.threads = [], bad, set()
        self.taken = threading.Semaphore(0)

    def rows(self, where):
        self.asked.append(where.start)
        self.threads.add(threading.current_thread().name)
        if where.start == self.bad:
            raise gm.InputError(f"row {where.start} is broken")
        self.taken.release()
        return np.full((where.stop - where.start, 1), where.start)

    def take(self, indices):
        raise AssertionError("not asked for")


def readers():
    return [t for t in threading.enumerate() if t.name.startswith("gramian-read")]


def test_one_block_is_read_ahead_in_a_thread():
    source = Counted()
    blocks = row_blocks(source, 10)
    where, rows = next(blocks)
    assert (where.start, rows[0, 0]) == (0, 0)
    assert source.taken.acquire(timeout=600)
    assert source.taken.acquire(timeout=600)  # the second block comes without being asked for
    assert source.asked == [0, 10]
    assert [where.start for where, _ in blocks] == list(range(10, 100, 10))
    assert source.asked == list(range(0, 100, 10))
    assert all(name.startswith("gramian-read") for name in source.threads)
    assert not readers()
    assert [where.start for where, _ in row_blocks(source, 30, 60)] == [60, 90]


def test_an_error_comes_at_its_block_and_no_thread_stays():
    blocks = row_blocks(Counted(bad=20), 10)
    assert [next(blocks)[0].start for _ in range(2)] == [0, 10]
    with pytest.raises(gm.InputError, match="row 20 is broken"):
        next(blocks)
    assert not readers()
    for _ in row_blocks(Counted(), 10):
        break
    gc.collect()
    assert not readers()


def test_a_mapped_array_is_read_ahead_as_views(tmp_path):
    values = np.random.default_rng(0).integers(0, 9, (100, 7)).astype(np.uint8)
    np.save(tmp_path / "t.npy", values)
    for rows in (np.load(tmp_path / "t.npy", mmap_mode="r"), gm.open_data(tmp_path / "t.npy")):
        source = rows if not isinstance(rows, np.memmap) else gm.data.as_source(rows)
        assert source.reads_ahead
        assert source.row_bytes == 0
        blocks = [block for _, block in row_blocks(source, 30)]
        assert all(isinstance(block.base, np.memmap) for block in blocks)
        np.testing.assert_array_equal(np.vstack(blocks), values)
    assert not gm.data.as_source(values).reads_ahead
