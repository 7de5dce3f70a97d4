"""Arrow columns of unusual layouts: string views, run-end encoding, and dictionaries of them."""

from __future__ import annotations

import numpy as np
import pytest

import gramian as gm
from gramian.tables import TableColumns

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.compute")
N = 48
TEXT = np.random.default_rng(0).choice(["a", "b", None], N).tolist()
NUMBERS = np.random.default_rng(1).normal(size=N).round(2)


def views(values):
    return pa.array(values).cast(pa.string_view())


def runs(values):
    """Return an array of runs of length 1, of any type of values, that starts inside its buffers."""
    doubled = pa.concat_arrays([values, values]) if not pa.types.is_dictionary(values.type) else values
    found = pa.RunEndEncodedArray.from_arrays(
        pa.array(np.arange(1, len(doubled) + 1, dtype=np.int32)), doubled
    )
    return found.slice(N) if len(doubled) > N else found


def dictionary_of_views():
    codes = pa.array([None if text is None else "ab".index(text) for text in TEXT], pa.int32())
    return pa.DictionaryArray.from_arrays(codes, views(["a", "b"]))


LAYOUTS = {
    "views": lambda: (views(TEXT), TEXT),
    "chunks of views": lambda: (pa.chunked_array([views(TEXT[:9]), views(TEXT[9:])]), TEXT),
    "runs of text": lambda: (runs(pa.array(TEXT)), TEXT),
    "runs of views": lambda: (runs(views(TEXT)), TEXT),
    "runs of dictionaries": lambda: (runs(pa.array(TEXT).dictionary_encode()), TEXT),
    "dictionary of views": lambda: (dictionary_of_views(), TEXT),
    "runs of numbers": lambda: (runs(pa.array(NUMBERS)), NUMBERS.tolist()),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["table", "batch", "pandas"])
def test_unusual_layouts_are_like_usual_ones(layout, kind):
    """Blocks of consecutive rows, rows by number, and numbers of open_data are those of plain columns."""
    column, values = LAYOUTS[layout]()
    usual = pa.table({"x": NUMBERS, "c": values})
    table = pa.table({"x": NUMBERS, "c": column})
    if kind == "batch":
        table = table.combine_chunks().to_batches()[0]
    if kind == "pandas":
        pandas = pytest.importorskip("pandas")
        table = table.to_pandas(types_mapper=pandas.ArrowDtype)
    weights = np.arange(N) % 3.0  # rows of weight 0 are left out by their numbers
    learned = [TableColumns.learn(X, sample_weight=weights) for X in (table, usual)]
    np.testing.assert_array_equal(*(one.encode(X) for one, X in zip(learned, (table, usual))))
    assert learned[0].feature_names == learned[1].feature_names
    if None not in values:
        X, Z = (gm.open_data(each, categorical="onehot") for each in (table, usual))
        np.testing.assert_array_equal(X.rows(slice(3, 30)), Z.rows(slice(3, 30)))
        np.testing.assert_array_equal(
            *(gm.KernelRidge().fit(each, NUMBERS).predict(each) for each in (table, usual))
        )


def test_lists_of_views_are_refused_by_name():
    table = pa.table({"x": NUMBERS, "c": pa.array([["a"]] * N).cast(pa.list_(pa.string_view()))})
    with pytest.raises(gm.InputError, match=r"Column 'c' holds values of type list<.*string_view>.*drop it"):
        TableColumns.learn(table)


def test_views_in_parquet_and_in_targets(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    labels = [text or "c" for text in TEXT]
    parquet.write_table(pa.table({"x": NUMBERS, "c": views(labels)}), tmp_path / "a.parquet")
    source = gm.open_data(tmp_path / "a.parquet", categorical="onehot")
    assert source.take(np.array([5, 2]))[:, 1:].argmax(axis=1).tolist() == [
        "abc".index(labels[k]) for k in (5, 2)
    ]
    pandas = pytest.importorskip("pandas")
    y = pandas.Series(labels, dtype=pandas.ArrowDtype(pa.string_view()))
    assert gm.KernelRidgeClassifier().fit(NUMBERS[:, None], y).classes_.tolist() == ["a", "b", "c"]
