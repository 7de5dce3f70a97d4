"""Labels that are whole numbers of 16 digits and more: read from every format as they are, not as floats."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

import gramian as gm
from gramian.cli.task import prepared_target
from gramian.exceptions import InputError

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

N = 60
BASE = 2**60
LABELS = [BASE + k % 3 for k in range(N)]
COLUMNS = {
    "int64": pd.array(LABELS, "Int64"),
    "uint64": np.array(LABELS, np.uint64),
    "decimal": [Decimal(label) for label in LABELS],
    "decimal of 38 digits": pd.array(LABELS, pd.ArrowDtype(pa.decimal128(38, 0))),
    "category": pd.Categorical(np.array(LABELS, np.uint64)),
}


def frame(values):
    return pd.DataFrame({"a": [float(k % 3) for k in range(N)], "y": values})


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("form", ["pandas", "Parquet"])
def test_whole_numbers_stay_whole(name, form, tmp_path):
    data = frame(COLUMNS[name])
    if form == "Parquet":
        pa.parquet.write_table(pa.Table.from_pandas(data), tmp_path / "t.parquet")
        data = tmp_path / "t.parquet"
    source = gm.open_data(data, target="y")
    assert source.target[:].tolist() == LABELS
    model = gm.KernelRidgeClassifier().fit(source)
    assert model.classes_.tolist() == [BASE, BASE + 1, BASE + 2]
    assert model.predict(source).tolist() == LABELS


def test_whole_numbers_beside_missing_ones_stay_whole():
    data = frame(pd.array([None, *LABELS[1:]], "Int64"))
    with pytest.warns(UserWarning, match="1 of 60 rows have a missing value"):
        source = gm.open_data(data, target="y", nan="drop")
    assert source.target.dtype == np.int64
    assert source.target[:].tolist() == LABELS[1:]
    assert source.target[np.array([3, 1])].tolist() == [LABELS[4], LABELS[2]]


def test_decimals_with_fractions_are_floats():
    source = gm.open_data(frame([Decimal(k % 4) / 4 for k in range(N)]), target="y")
    assert source.target[:3].tolist() == [0.0, 0.25, 0.5]


def test_decimals_beyond_64_bits_are_refused():
    with pytest.raises(InputError, match=r"Row 0 of .*'y' holds .*10{30}.*beyond the 64 bits.*as text"):
        gm.open_data(frame([Decimal(10**30 + k) for k in range(N)]), target="y").target[:]


def test_labels_of_20_digits_in_a_csv_file_are_text_and_rounded_ones_are_refused(tmp_path):
    path, labels = tmp_path / "t.csv", [str(10**19 + k % 2) for k in range(N)]
    path.write_text("a,y\n" + "".join(f"{k},{label}\n" for k, label in enumerate(labels)))
    for categorical in ("refuse", ["y"]):
        source = gm.open_data(path, target="y", categorical=categorical)
        assert gm.KernelRidgeClassifier().fit(source).classes_.tolist() == [str(10**19), str(10**19 + 1)]
    path.write_text("a,y\n" + "".join(f"{k},{1 + k % 2}e19\n" for k in range(N)))
    with pytest.raises(InputError, match=r"as float64, which rounds whole numbers of that size.*--text name"):
        gm.KernelRidgeClassifier().fit(gm.open_data(path, target="y"))


def test_the_command_line_makes_no_integers_of_floats_that_are_rounded():
    large = np.array([1e19, 2e19])  # beyond int64, where a cast gives any number
    assert prepared_target(large, "classification") is large
    whole = prepared_target(np.array([2.0, 3.0]), "classification")
    assert (whole.dtype, whole.tolist()) == (np.int64, [2, 3])
