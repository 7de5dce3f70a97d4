"""Every format against the array that was written into it, by the same laws for all."""

from __future__ import annotations

import os
import pickle
import threading
import tracemalloc

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import r2_score

import gramian as gm
from gramian._tiles import row_slices
from gramian.data import RowSource, fingerprint
from gramian.data.formats import text
from gramian.data.source import row_blocks

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.csv")
pq = pytest.importorskip("pyarrow.parquet")
h5py = pytest.importorskip("h5py")
pl = pytest.importorskip("polars")
zarr = pytest.importorskip("zarr")

N, D = 3000, 5
RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (N, D)).astype(np.uint8)
F = np.round(RNG.standard_normal((N, D)), 3)
Y = np.round(np.sin(X[:, 0] / 40.0) + X[:, 1] / 100.0, 6)
LABELS = np.array(["low", "middle", "high"], object)[np.minimum(X[:, 0] // 90, 2)]
NAMES = [f"f{j}" for j in range(D)]
CUTS = [(0, 1100), (1100, 1101), (1101, N)]


def table(values=X, **more):
    return pa.table({**{name: values[:, j] for j, name in enumerate(NAMES)}, **(more or {"y": Y})})


def parquet_folder(folder, values):
    for k, (a, b) in enumerate(CUTS):
        pq.write_table(table(values).slice(a, b - a), folder / f"{k}.parquet", row_group_size=700)
    return folder, {"target": "y"}


def csv_files(folder, values):
    for k, (a, b) in enumerate(CUTS):
        pa.csv.write_csv(table(values).slice(a, b - a), folder / f"{k}.csv")
    return str(folder / "*.csv"), {"target": "y"}


def csv_packed(folder, values):
    with pa.output_stream(str(folder / "t.csv.gz"), compression="gzip") as stream:
        pa.csv.write_csv(table(values), stream)
    return folder / "t.csv.gz", {"target": "y"}


def npy(folder, values):
    np.save(folder / "X.npy", values)
    np.save(folder / "y.npy", Y)
    return folder / "X.npy", {"target": folder / "y.npy"}


def npy_parts(folder, values):
    for name, array in (("X", values), ("y", Y)):
        for k, (a, b) in enumerate(CUTS):
            np.save(folder / f"{name}{k}.npy", array[a:b])
    return [folder / f"X{k}.npy" for k in range(3)], {"target": str(folder / "y*.npy")}


def npz(folder, values):
    np.savez(folder / "t.npz", X=values, y=Y)
    return folder / "t.npz", {}


def npz_packed(folder, values):
    np.savez_compressed(folder / "t.npz", rows=values, wanted=Y)
    return folder / "t.npz", {"key": "rows", "target": "wanted"}


def hdf5(folder, values):
    with h5py.File(folder / "t.h5", "w") as file:
        file.create_dataset("train/X", data=values, chunks=(130, D))
        file["train/y"] = Y
    return folder / "t.h5", {"key": "train/X", "target": "train/y"}


def zarr_group(folder, values):
    group = zarr.open_group(folder / "t.zarr", mode="w")
    group.create_array("X", shape=values.shape, dtype=values.dtype, chunks=(130, 3))[...] = values
    group.create_array("y", shape=Y.shape, dtype=Y.dtype, chunks=(900,))[...] = Y
    return folder / "t.zarr", {"target": "y"}


def svmlight(folder, values):
    dump_svmlight_file(values.astype(float), Y, str(folder / "t.svm"), zero_based=False)
    return folder / "t.svm", {}


def arrow_table(folder, values):
    return table(values), {"target": "y"}


def pandas_frame(folder, values):
    return table(values).to_pandas(), {"target": "y"}


def polars_frame(folder, values):
    return pl.from_arrow(table(values)), {"target": "y"}


FILES = [
    parquet_folder, csv_files, csv_packed, npy, npy_parts, npz, npz_packed, hdf5, zarr_group, svmlight
]  # fmt: skip
FRAMES = [arrow_table, pandas_frame, polars_frame]
formats = pytest.mark.parametrize("write", [*FILES, *FRAMES], ids=lambda write: write.__name__)
files = pytest.mark.parametrize("write", FILES, ids=lambda write: write.__name__)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Pieces of a few hundred rows, so that a few thousand rows are many pieces."""
    monkeypatch.setattr("gramian.data.storage.PIECE_BYTES", 1 << 12)
    monkeypatch.setattr(text, "TEXT_BYTES", 1 << 12)


def dense(rows):
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


@pytest.mark.parametrize("values", [X, F], ids=["integers", "fractions"])
@formats
def test_rows_and_targets_are_those_of_the_array(tmp_path, write, values):
    data, options = write(tmp_path, values)
    source = gm.open_data(data, **options)
    assert isinstance(source, RowSource)
    assert source.shape == (N, D)
    assert source.n_dropped == 0
    text_format = write in (csv_files, csv_packed)
    assert source.dtype == (
        np.int64 if text_format and values is X else float if write is svmlight else values.dtype
    )
    assert source.target.shape == (N,)
    named = write in (*FRAMES, parquet_folder, csv_files, csv_packed)
    assert source.feature_names == (tuple(NAMES) if named else None)
    if not source.storage.views:
        assert len(source.storage.pieces) > 3
    for where in (
        slice(0, 7),
        slice(1090, 1110),
        slice(None),
        slice(-9, None),
        slice(5, 5),
        slice(None, None, -7),
    ):
        np.testing.assert_array_equal(dense(source.rows(where)), values[where])
        np.testing.assert_array_equal(source.target[where], Y[where])
    order = RNG.integers(0, N, 400)
    for indices in (order, order[:0], np.array([N - 1, 0, -1, 0])):
        taken = source.take(indices)
        np.testing.assert_array_equal(dense(taken), values[indices])
        assert taken.dtype == source.dtype
        np.testing.assert_array_equal(source.target[indices], Y[indices])
    np.testing.assert_array_equal(np.asarray(source.target), Y)
    again = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(dense(again.rows(slice(690, 720))), values[690:720])
    with pytest.raises(IndexError, match=f"Row numbers from 0 to {N} of a source with {N} rows"):
        source.take(np.array([0, N]))


SETTINGS = {
    "alpha": 0.1, "gamma": 0.2, "random_state": 0, "n_jobs": 1,
    "approximation": gm.MultiResolution(root_rank=20, rank=5, n_blocks=2),
}  # fmt: skip


@pytest.fixture(scope="module")
def expected():
    return gm.KernelRidge(**SETTINGS).fit(F, Y)


def same_model(model, expected):
    for weights, wanted in zip(model.predictor_.weights, expected.predictor_.weights, strict=True):
        np.testing.assert_allclose(weights, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


@formats
def test_a_fit_is_that_of_the_array(tmp_path, write, expected):
    data, options = write(tmp_path, F)
    source = gm.open_data(data, **options)
    model = gm.KernelRidge(**SETTINGS).fit(source)
    if write is svmlight:  # its rows are sparse
        expected = gm.KernelRidge(**SETTINGS).fit(source.rows(slice(None)), Y)
    same_model(model, expected)
    np.testing.assert_allclose(model.predict(source), expected.predict(F), rtol=0, atol=1e-12)
    assert not [t for t in threading.enumerate() if t.name.startswith("gramian-read")]


@formats
def test_like_keeps_the_target_where_the_new_rows_have_it(tmp_path, write):
    data, options = write(tmp_path, X)
    source = gm.open_data(data, **options)
    key = {"key": options["key"]} if "key" in options else {}
    # The targets of a .npy file lie in another file, which the new rows' path does not name.
    expected = None if write in (npy, npy_parts) else Y
    for like in (source, pickle.loads(pickle.dumps(source))):
        again = gm.open_data(data, like=like, **key)
        assert again.shape == (N, D)
        if expected is None:
            assert again.target is None
        else:
            np.testing.assert_array_equal(again.target[:], Y)
            assert again.target.shape == gm.open_data(data, like=again, **key).target.shape


def test_like_without_the_target_in_the_new_rows(tmp_path):
    both = gm.open_data(table(X, y=Y, z=-Y), target=["y", "z"], columns=NAMES)
    assert gm.open_data(table(X, y=Y, z=Y), like=both).target.shape == (N, 2)
    assert gm.open_data(table(X, y=Y), like=both).target is None  # z is not there
    one = gm.open_data(table(X, y=LABELS), target="y")
    assert gm.open_data(table(X, z=Y), like=one).target is None
    # An empty column is no target; one of the new rows' own is taken.
    assert gm.open_data(table(X, y=pa.nulls(N)), like=one).target is None
    assert gm.open_data(table(X, y=LABELS, z=Y), like=one, target="z").target.dtype == float
    assert gm.open_data(table(X, y=Y), like=one, columns=[*NAMES[1:], "y"]).target is None
    with h5py.File(tmp_path / "a.h5", "w") as first, h5py.File(tmp_path / "b.h5", "w") as other:
        first["X"], first["y"], other["X"] = X, Y, X
    known = gm.open_data(tmp_path / "a.h5", target="y")
    assert gm.open_data(tmp_path / "b.h5", like=known).target is None
    np.savez(tmp_path / "a.npz", X=X, label=Y)
    np.savez(tmp_path / "b.npz", X=X)
    known = gm.open_data(tmp_path / "a.npz", target="label")
    assert gm.open_data(tmp_path / "b.npz", like=known).target is None
    assert gm.open_data(tmp_path / "a.npz", like=known).target.name == "label"
    with pytest.raises(gm.InputError, match="same width and types"):
        gm.open_data([tmp_path / "a.npz", tmp_path / "b.npz"], like=known)


def test_new_rows_are_scored_by_their_own_target(tmp_path):
    data, options = parquet_folder(tmp_path, F)
    source = gm.open_data(data, **options)
    model = gm.KernelRidge(**SETTINGS).fit(source)
    new = gm.open_data(table(F[:500], y=Y[:500]), like=source)
    predicted = model.predict(source)[:500]
    np.testing.assert_allclose(model.predict(new), predicted, rtol=0, atol=1e-9)
    assert model.score(new, new.target) == pytest.approx(r2_score(Y[:500], predicted))


@files
def test_fingerprints_and_changed_files(tmp_path, write):
    data, options = write(tmp_path, X)
    source = gm.open_data(data, **options)
    assert fingerprint(source) == fingerprint(gm.open_data(data, **options))
    assert fingerprint(source) != fingerprint(source.target)
    source.rows(slice(0, 10))
    for file in [file for file in tmp_path.rglob("*") if file.is_file()]:
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        stat = file.stat()
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 10**9))
    for read in (source.rows, source.target.__getitem__):
        for where in (slice(0, 10), slice(N - 10, N)):
            with pytest.raises(gm.InputError, match=r"has changed since it was opened: .* open it again"):
                read(where)


def parquet_large(folder, values):
    pq.write_table(pa.table({f"f{j}": values[:, j] for j in range(values.shape[1])}), folder / "t.parquet")
    return folder / "t.parquet"


def csv_large(folder, values):
    pa.csv.write_csv(pa.table({f"f{j}": values[:, j] for j in range(values.shape[1])}), folder / "t.csv")
    return folder / "t.csv"


def npz_large(folder, values):
    np.savez_compressed(folder / "t.npz", X=values)
    return folder / "t.npz"


def hdf5_large(folder, values):
    with h5py.File(folder / "t.h5", "w") as file:
        file["X"] = values
    return folder / "t.h5"


@pytest.mark.slow
@pytest.mark.parametrize("write", [parquet_large, csv_large, npz_large, hdf5_large], ids=lambda w: w.__name__)
def test_nothing_is_read_whole(tmp_path, write):
    values = RNG.integers(0, 100, (60_000, 8)).astype(float)
    path = write(tmp_path, values)
    tracemalloc.start()
    source = gm.open_data(path)
    total = sum(rows.sum() for _, rows in row_blocks(source, 1000))
    source.take(np.arange(0, 60_000, 300))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == values.sum()
    assert peak < 0.25 * values.nbytes


def test_reading_is_counted_in_the_plan(tmp_path):
    data, options = parquet_folder(tmp_path, F)
    source = gm.open_data(data, **options)
    model = gm.KernelRidge(random_state=0, gamma=0.2, alpha=0.1)
    stored, array = model.plan(source), model.plan(F, Y)
    longest = max(piece.n_rows for piece in source.storage.pieces)
    held = 3 * 8 * D * longest + source.storage.buffer_bytes
    assert (source.row_bytes, source.read_bytes) == (3 * 8 * D, held)
    reading = min(N, array.chunk_rows) * source.row_bytes + source.read_bytes
    assert stored.bytes["sums"] - array.bytes["sums"] == reading
    score = gm.KernelRidge(random_state=0, gamma=0.2, alpha=0.1).fit(source).score(source, source.target)
    assert 0 < score < 1


def test_a_row_group_is_not_read_as_a_whole_and_its_buffers_are_planned_for(tmp_path):
    # By Arrow's defaults all of a row group's columns are in memory, here 32 MB, whatever the budget.
    pa = pytest.importorskip("pyarrow")
    columns = pa.table({f"c{j}": np.random.default_rng(j).random(1_000_000) for j in range(4)})
    pa.parquet.write_table(columns, tmp_path / "rows.parquet", row_group_size=1_000_000)
    source, pool = gm.open_data(tmp_path / "rows.parquet"), pa.default_memory_pool()
    before, most = pool.bytes_allocated(), 0
    for where in row_slices(1_000_000, 50_000):
        source.rows(where)
        most = max(most, pool.bytes_allocated() - before)
    assert most < source.read_bytes < 22_000_000
    assert source.read_bytes - source.storage.buffer_bytes == 3 * source.storage.piece_bytes
    few = gm.open_data(tmp_path / "rows.parquet", columns=["c0"])
    assert 0 < few.storage.buffer_bytes < source.storage.buffer_bytes / 3
