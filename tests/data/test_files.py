"""Every format there and back, and every error by its text."""

from __future__ import annotations

import builtins
import datetime as dt
import gzip
import os
import re
from decimal import Decimal

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from gramian.data import Table, read_table, write_predictions
from gramian.data.formats.numpy_files import read_arrays
from gramian.exceptions import InputError, MissingPackageError

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = {"a": [1.5, 2.5, -3.0], "b": [4, 5, 6], "flag": [True, False, True], "y": ["no", "yes", "no"]}
WANTED = np.array([[1.5, 4, 1], [2.5, 5, 0], [-3.0, 6, 1]])


def csv(folder, text, name="t.csv"):
    path = folder / name
    path.write_text(text)
    return path


def parquet(folder, columns, name="t.parquet"):
    path = folder / name
    pq.write_table(pa.table(columns), path)
    return path


def npz(folder, name="t.npz", **arrays):
    path = folder / name
    np.savez(path, **arrays)
    return path


def fails(text, path, **options):
    """Read must fail with an InputError whose text contains every piece of ``text`` in its order."""
    pattern = ".*".join(map(re.escape, [text] if isinstance(text, str) else text))
    with pytest.raises(InputError, match=f"(?s){pattern}"):
        read_table(path, **options)


# ---- there and back ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "T.CSV", "t.parquet"])
def test_features_and_text_target(tmp_path, name):
    path = tmp_path / name
    write_predictions(path, {key: np.array(values) for key, values in ROWS.items()})
    table = read_table(path, target="y")
    assert isinstance(table, Table)
    np.testing.assert_array_equal(table.X, WANTED)
    assert table.X.dtype == np.float64
    assert table.X.flags.c_contiguous
    assert list(table.y) == ROWS["y"]
    assert table.feature_names == ("a", "b", "flag")
    assert table.target == "y"
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_columns_are_picked_in_order_and_others_left_alone(tmp_path, name):
    path = tmp_path / name
    write_predictions(path, {key: np.array(values) for key, values in ROWS.items()})
    table = read_table(path, columns=["b", "a"])  # the text column y is not looked at
    np.testing.assert_array_equal(table.X, WANTED[:, [1, 0]])
    assert table.y is None
    assert table.target is None
    assert table.feature_names == ("b", "a")
    assert list(read_table(path, columns=["a"], target="flag").y) == [True, False, True]


@pytest.mark.parametrize(
    ("types", "dtype"),
    [
        (["float32", "float32"], np.float32),
        (["float32", "uint8"], np.float32),
        (["float16", "float32"], np.float32),
        (["float32", "int32"], np.float64),
        (["float32", "float64"], np.float64),
        (["uint8", "uint8"], np.float64),
    ],
)
def test_float32_only_where_exact(tmp_path, types, dtype):
    path = parquet(tmp_path, {f"c{j}": np.array([1, 2], kind) for j, kind in enumerate(types)})
    table = read_table(path)
    assert table.X.dtype == dtype
    np.testing.assert_array_equal(table.X, [[1, 1], [2, 2]])


def test_many_batches_and_row_groups(tmp_path):
    values = np.arange(20_001.0)
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({"a": values, "a.b": -values, "y": values.astype(int)}), path, row_group_size=3000
    )
    table = read_table(path, target="y")
    np.testing.assert_array_equal(table.X, np.column_stack([values, -values]))
    np.testing.assert_array_equal(table.y, values)
    assert table.y.dtype == np.int64
    text = csv(tmp_path, "a,b\n" + "1,2\n" * 20_000 + "1,2.5\n")
    assert read_table(text, target="b").y[-1] == 2.5


def test_arrow_types_that_are_numbers(tmp_path):
    path = parquet(
        tmp_path,
        {
            "decimal": [Decimal("1.25"), Decimal("2.50")],
            "category": pa.array([7, 9]).dictionary_encode(),
            "y": pa.array(["u", "v"]).dictionary_encode(),
        },
    )
    table = read_table(path, target="y")
    np.testing.assert_array_equal(table.X, [[1.25, 7], [2.5, 9]])
    assert list(table.y) == ["u", "v"]


def test_index_of_pandas_is_no_feature(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, index=pd.Index([11, 12], name="id"))
    frame.to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").feature_names == ("a", "b")
    assert read_table(tmp_path / "t.parquet", columns=["id", "a"]).X[0, 0] == 11
    frame.to_csv(tmp_path / "t.csv", index_label="")
    fails(["Column 1 of", "has no name", "index=False"], tmp_path / "t.csv")
    assert read_table(tmp_path / "t.csv", columns=["a"]).X.shape == (2, 1)
    pd.DataFrame(np.ones((2, 3))).to_csv(tmp_path / "n.csv", index=False)
    assert read_table(tmp_path / "n.csv").feature_names == ("0", "1", "2")


def test_npz(tmp_path):
    X = np.asfortranarray(np.arange(6, dtype=np.uint8).reshape(3, 2))
    y, z = np.array(["u", "v", "u"]), np.array([1.0, 2.0, 3.0])
    path = npz(tmp_path, X=X, y=y, z=z, feature_names=np.array(["p", "q"]))
    table = read_table(path)
    np.testing.assert_array_equal(table.X, X)
    assert table.X.dtype == np.uint8
    assert table.X.flags.c_contiguous
    assert list(table.y) == ["u", "v", "u"]
    assert (table.target, table.feature_names) == ("y", ("p", "q"))
    assert list(read_table(path, target="z").y) == [1, 2, 3]
    np.testing.assert_array_equal(read_table(path, columns=["q"]).X, X[:, [1]])
    alone = read_table(npz(tmp_path, "alone.npz", X=X))
    assert (alone.y, alone.target, alone.feature_names) == (None, None, None)
    assert sorted(read_arrays(path)) == ["X", "feature_names", "y", "z"]


@pytest.mark.parametrize("suffix", [".svm", ".svmlight", ".libsvm"])
def test_svmlight(tmp_path, suffix):
    X = sp.random_array((5, 4), density=0.5, format="csr", rng=np.random.default_rng(0)).toarray()
    X[0, 2], X[:, 3] = 2.5, 0
    path = tmp_path / f"t{suffix}"
    dump_svmlight_file(X, [1, -1, 1, 1, -1], str(path), zero_based=False)
    table = read_table(path, n_features=4)
    assert sp.issparse(table.X)
    assert table.X.format == "csr"
    np.testing.assert_allclose(table.X.toarray(), X)
    assert list(table.y) == [1, -1, 1, 1, -1]
    assert read_table(path).X.shape == (5, 3)  # zeros at the end of a row are not written


@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz", "p.parquet"])
def test_booleans_are_written_as_their_labels_are_named(tmp_path, name):
    write_predictions(tmp_path / name, {"x": np.arange(3.0), "label": np.array([True, False, True])})
    found = read_table(tmp_path / name, target="label").y
    assert (found.dtype, found.tolist()) == (bool, [True, False, True])
    if name != "p.parquet":
        assert pd.read_csv(tmp_path / name, dtype=str).label.tolist() == ["True", "False", "True"]


def test_predictions_round_trip(tmp_path):
    columns = {"file": np.array([0.1, 0.2], np.float32), "label, text": np.array(["a,b", 'c"d'], object)}
    for name in ("p.csv", "p.csv.gz", "p.parquet"):
        write_predictions(tmp_path / name, columns)
        table = read_table(tmp_path / name, target="label, text")
        np.testing.assert_allclose(table.X[:, 0], [0.1, 0.2], rtol=1e-6)
        assert list(table.y) == ["a,b", 'c"d']
    write_predictions(tmp_path / "p.npz", columns)
    stored = read_arrays(tmp_path / "p.npz")
    np.testing.assert_array_equal(stored["file"], columns["file"])
    assert list(stored["label, text"]) == ["a,b", 'c"d']


# ---- errors ------------------------------------------------------------------------------------


def test_paths(tmp_path):
    path = csv(tmp_path, "a\n1\n", "train.csv")
    fails(["There is no file", "Did you mean 'train.csv'?", "Check the path"], tmp_path / "trian.csv")
    fails("There is no file", tmp_path / "absent" / "train.csv")
    for name, said in (("t.xlsx", "the suffix '.xlsx'"), ("train", "no suffix")):
        (tmp_path / name).touch()
        fails(["has", said, "Supported: .csv, .csv.gz, .h5, .hdf5, .libsvm, .npy, .npz"], tmp_path / name)
    (tmp_path / "folder.csv").mkdir()
    fails("folder.csv holds no files", tmp_path / "folder.csv")
    assert read_table(str(path)).X.shape == (1, 1)


def test_names(tmp_path):
    path = csv(tmp_path, "rooms,age,price\n1,2,3\n")
    fails(
        ["no target column 'prize'", "Did you mean 'price'?", "'rooms', 'age', 'price'"], path, target="prize"
    )
    fails("no feature column 'agee'. Did you mean 'age'?", path, columns=["rooms", "agee"])
    fails("no columns 'u', 'v'", path, columns=["u", "v"])
    fails("columns=['age', 'age'] names a feature more than once", path, columns=["age", "age"])
    fails("Pass a list of names: ['age']", path, columns="age")
    fails("The target 'age' is also among columns", path, columns=["age"], target="age")
    fails("names the column 'a' more than once", csv(tmp_path, "a,b,a\n1,2,3\n"))
    twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(twice, tmp_path / "t.parquet")
    fails("names the column 'a' more than once", tmp_path / "t.parquet")
    fails(["holds numbers ('1.5', '2')", "Put a line of names first"], csv(tmp_path, "1.5,2\n3,4\n"))
    wide = csv(tmp_path, ",".join(f"c{j}" for j in range(12)) + "\n" + ",".join("1" * 12) + "\n")
    fails("'c9', and 2 more", wide, target="z")


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ("Paris\nRome", "column 'city' holds text (such as 'Paris'), first in row 0 (from 0). Encode it"),
        ("1\n?", "column 'city' holds text (such as '?')"),
        ("2024-01-01\n2024-01-02", "column 'city' holds dates or times (date32[day]). Turn it into numbers"),
        ("2024-01-01 10:00\n2024-01-02 11:00", "column 'city' holds dates or times (timestamp"),
        ("10:00:00\n11:00:00", "column 'city' holds dates or times (time32"),
        ("1\n", "has a missing value or NaN in column 'city'. Fill it in, drop the row"),
        ("NA\nnan", "column 'city' has no values at all. Leave it out"),
        ("inf\n1", "has infinity in column 'city'. Fill it in, drop the row"),
    ],
)
def test_cells(tmp_path, cells, text):
    first, second = cells.split("\n")
    path = csv(tmp_path, f"a,city\n1,{first}\n2,{second}\n")
    fails(text, path)
    assert read_table(path, columns=["a"]).X.shape == (2, 1)
    if "text" not in text:
        said = text.split("(")[0].split(". ")[0].replace("in column", "in the target")
        fails(said.replace("column 'city' holds", "target column 'city' holds"), path, target="city")


def test_missing_values_of_parquet(tmp_path):
    nulls = {
        "a": [1.0, None, float("nan")],
        "i": [1, None, 2],
        "b": [None, True, None],
        "none": pa.nulls(3),
        "t": ["u", None, None],
    }
    path = parquet(tmp_path, nulls)
    for name in ("a", "i", "b"):
        fails(["has a missing value or NaN in column", f"'{name}'"], path, columns=[name])
    fails("column 'none' has no values at all", path, columns=["a", "none"])
    for name, said in (
        ("t", "NaN in the target 't'"),
        ("i", "NaN in the target"),
        ("b", "NaN in the target"),
    ):
        fails(said, parquet(tmp_path, nulls | {"x": [1, 2, 3]}), target=name, columns=["x"])
    fails(
        "column 'none' has no values",
        parquet(tmp_path, nulls | {"x": [1, 2, 3]}),
        target="none",
        columns=["x"],
    )
    many = csv(tmp_path, ",".join(f"c{j}" for j in range(8)) + "\n" + "," * 7 + "\n")
    fails("column 'c0' has no values at all", many)
    fails("Row 1 of", csv(tmp_path, "a,t\n1,u\n2,\n"), target="t")


def test_column_types_of_parquet(tmp_path):
    fails("column 'l' holds values of type list<", parquet(tmp_path, {"l": [[1], [2]]}))
    fails("target column 'l' holds values", parquet(tmp_path, {"a": [1, 2], "l": [[1], [2]]}), target="l")
    fails(
        "column 'c' holds text (such as 'u')", parquet(tmp_path, {"c": pa.array(["u"]).dictionary_encode()})
    )
    span = parquet(tmp_path, {"d": [dt.timedelta(days=1)]})
    fails("column 'd' holds dates or times (duration", span)
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,caf\xe9\n")
    fails(["Row 0 of", "byte 9 of the file (0xe9) is not UTF-8"], path)
    path.write_bytes(b"a,\xe9\n1,2\n")
    fails(["The first line of", "byte 2 of the file (0xe9) is not UTF-8"], path)


def test_empty_files(tmp_path):
    fails(["is empty (0 bytes)"], csv(tmp_path, ""))
    fails("no rows. Pass at least one row", csv(tmp_path, "a,b\n"))
    fails("no rows", csv(tmp_path, "a,b\n"), target="b")
    fails("no rows", parquet(tmp_path, {"a": pa.array([], "float64")}))
    fails("no rows", npz(tmp_path, X=np.empty((0, 3))))
    fails("is empty (0 bytes)", csv(tmp_path, "", "t.svm"))
    fails("is empty (0 bytes)", csv(tmp_path, "", "e.npz"))
    fails("has no feature columns besides the target", csv(tmp_path, "y\n1\n"), target="y")


def test_damaged_files(tmp_path):
    ragged = csv(tmp_path, "a,b\n1,2\n3\n")
    fails(["Row 1 of", str(ragged), "it has 1 columns, but the first line names 2: '3'. Correct"], ragged)
    fails("could not be read", csv(tmp_path, "not parquet at all", "t.parquet"))
    fails("'1 1:2 x:3' is not 'target index:value", csv(tmp_path, "1 1:2 x:3\n", "t.svm"))
    fails("could not be read", csv(tmp_path, "not gzip", "t.csv.gz"))
    (tmp_path / "half.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 999)[:-20])
    fails("could not be read", tmp_path / "half.csv.gz")
    whole = parquet(tmp_path, {"a": np.random.default_rng(0).random(1000)}).read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:900])
    fails("could not be read", tmp_path / "cut.parquet")
    whole = npz(tmp_path, X=np.ones((50, 50))).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:900])
    fails("could not be read", tmp_path / "cut.npz")
    (tmp_path / "flip.npz").write_bytes(whole[:900] + bytes(100) + whole[1000:])
    fails("could not be read", tmp_path / "flip.npz")


def test_npz_contents(tmp_path):
    X = np.ones((3, 2))
    fails(["no array 'X'", "Its arrays are: 'data'"], npz(tmp_path, data=X))
    fails("no array 'labels'. Did you mean 'label'?", npz(tmp_path, X=X, label=X), target="labels")
    fails("X has shape (3,)", npz(tmp_path, X=X[:, 0]))
    fails("the target has shape (2,) and X (3, 2)", npz(tmp_path, X=X, y=X[0]))
    fails("X holds values of type <U1", npz(tmp_path, X=X.astype(int).astype("U1")))
    fails("X holds values of type complex128", npz(tmp_path, X=X * 1j))
    fails("the target holds values of type datetime64", npz(tmp_path, X=X, y=np.zeros(3, "M8[D]")))
    fails("the array 'y' holds Python objects", npz(tmp_path, X=X, y=X.astype(object)))
    fails("does not name its columns", npz(tmp_path, X=X), columns=["a"])
    fails("has no columns 'c'", npz(tmp_path, X=X, feature_names=["a", "b"]), columns=["c"])
    fails("2 features, but 3 were expected", npz(tmp_path, X=X), n_features=3)
    X[1, 1] = np.nan
    fails("has a missing value or NaN in feature 1", npz(tmp_path, X=X))
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    fails("is not a .npz archive", tmp_path / "a.npz")


def test_svmlight_contents(tmp_path):
    path = csv(tmp_path, "1 1:2 3:nan\n", "t.svm")
    fails("has a missing value or NaN in feature 2", path)
    fails("the target is the first number of each line", path, target="y")
    fails("columns cannot be used. Leave it out", path, columns=["a"])
    fails("3 features, but 2 were expected", path, n_features=2)


def test_writing(tmp_path):
    one = {"p": np.ones(2)}
    for path, columns, text in (
        ("p.svm", one, "cannot be written as p.svm. Use .csv, .parquet or .npz"),
        ("p.txt", one, "is not a known format"),
        ("absent/p.csv", one, "does not exist. Create it first"),
        ("p.csv", {}, "one or more; got shapes {}"),
        ("p.csv", {"p": np.ones(2), "q": np.ones(3)}, r"got shapes {'p': \(2,\), 'q': \(3,\)}"),
        ("p.csv", {"p": np.ones((2, 2))}, "must be 1-D arrays"),
    ):
        with pytest.raises(InputError, match=text):
            write_predictions(tmp_path / path, columns)


def test_without_pyarrow(tmp_path, monkeypatch):
    real = builtins.__import__

    def absent(name, *args):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", absent)
    for act in (lambda p: read_table(p), lambda p: write_predictions(p, {"a": np.ones(1)})):
        with pytest.raises(MissingPackageError, match=r"pip install 'gramian\[files\]'"):
            act(csv(tmp_path, "a\n1\n"))
    assert read_table(npz(tmp_path, X=np.ones((1, 1)))).X.shape == (1, 1)
