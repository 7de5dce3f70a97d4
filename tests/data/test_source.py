"""Row sources: views, order of rows, memmaps, scores with their own targets, rows sampled as float32."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import gramian as gm
from gramian.data import ArraySource, RowSource, as_source
from gramian.data.floats import as_float
from gramian.data.source import row_blocks, sample_rows
from gramian.data.values import too_large
from gramian.exceptions import InputError

X = np.arange(60.0).reshape(20, 3)
ORDER = np.array([7, 2, 2, 19, 0, 7])


@pytest.fixture
def mapped(tmp_path):
    def write(values: np.ndarray) -> np.memmap:
        values.tofile(tmp_path / "rows")
        return np.memmap(tmp_path / "rows", values.dtype, "r", shape=values.shape)

    return write


def test_slices_are_views():
    source = ArraySource(X)
    assert (source.shape, source.dtype) == ((20, 3), np.float64)
    part = source.rows(slice(4, 9))
    assert np.shares_memory(part, X)
    np.testing.assert_array_equal(part, X[4:9])
    assert not np.shares_memory(source.take(np.arange(20)), X)


def test_memmap_slices_are_plain_views(mapped):
    on_disk = mapped(X)
    source = ArraySource(on_disk)
    part = source.rows(slice(4, 9))
    assert type(part) is np.ndarray
    assert np.shares_memory(part, on_disk)
    assert type(source.take(ORDER)) is np.ndarray


@pytest.mark.parametrize("dtype", ["float32", "uint8", ">f4"])
def test_take_keeps_the_order(mapped, dtype):
    values = np.random.default_rng(0).integers(0, 99, (10_000, 3)).astype(dtype)
    indices = np.random.default_rng(1).integers(0, 10_000, 9500)
    for source in (ArraySource(values), ArraySource(mapped(values))):
        np.testing.assert_array_equal(source.take(indices), values[indices])
        np.testing.assert_array_equal(source.take(ORDER), values[ORDER])
        assert source.take(ORDER).dtype == values.dtype
        assert source.take(ORDER[:0]).shape == (0, 3)


def test_csr():
    source = as_source(sp.csr_array(X))
    assert source.rows(slice(3, 6)).format == "csr"
    np.testing.assert_array_equal(source.rows(slice(3, 6)).toarray(), X[3:6])
    np.testing.assert_array_equal(source.take(ORDER).toarray(), X[ORDER])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_rows_of_a_memmap_are_named(mapped, bad):
    values = X.copy()
    values[[13, 17], 1] = bad
    source = ArraySource(mapped(values))
    np.testing.assert_array_equal(source.rows(slice(0, 13)), X[:13])
    for where in (slice(10, 20), slice(10, None), slice(None), slice(-8, -2)):
        with pytest.raises(InputError, match=r"NaN or infinity in row 13\. Drop such rows or fill them in"):
            source.rows(where)
    with pytest.raises(InputError, match="in row 17"):
        source.take(np.array([3, 17, 13]))
    np.testing.assert_array_equal(source.take(np.array([12, 3])), X[[12, 3]])


def test_nothing_is_copied_whole(mapped):
    big = mapped(np.zeros((200_000, 10), np.float32))
    for values in (big, np.zeros((200_000, 10), np.float32)):
        tracemalloc.start()
        source = as_source(values)
        total = sum(len(rows) for _, rows in row_blocks(source, 5000))
        source.take(np.arange(0, 200_000, 100))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert total == 200_000
        assert peak < 0.1 * values.nbytes


def test_row_blocks_cover_the_rows():
    seen = list(row_blocks(as_source(X), 6))
    assert [(where.start, where.stop) for where, _ in seen] == [(0, 6), (6, 12), (12, 18), (18, 20)]
    np.testing.assert_array_equal(np.vstack([rows for _, rows in seen]), X)


def test_sample_rows():
    source = as_source(X)
    rows, indices = sample_rows(source, 8, np.random.default_rng(0))
    assert (np.diff(indices) > 0).all()
    np.testing.assert_array_equal(rows, X[indices])
    np.testing.assert_array_equal(sample_rows(source, 8, np.random.default_rng(0))[1], indices)
    for size in (20, 50):
        rows, indices = sample_rows(source, size, np.random.default_rng(0))
        assert np.shares_memory(rows, X)
        np.testing.assert_array_equal(indices, np.arange(20))


class Doubled:
    shape, dtype = (20, 3), np.dtype(np.float64)

    def rows(self, where):
        return 2 * X[where]

    def take(self, indices):
        return 2 * X[indices]


def test_any_object_with_the_protocol_is_a_source():
    mine = Doubled()
    assert isinstance(mine, RowSource)
    assert as_source(mine) is mine
    source = ArraySource(X)
    assert as_source(source) is source


@pytest.mark.parametrize("form", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
def test_sparse_rows_of_every_format_are_read(kind, form):
    rows = np.where(X % 4 > 1, X, 0.0)
    given = kind(rows).asformat(form)
    source = as_source(given)
    np.testing.assert_array_equal(source.rows(slice(1, 3)).toarray(), rows[1:3])
    np.testing.assert_array_equal(source.take(np.array([2, 0])).toarray(), rows[[2, 0]])
    assert given.format == form


def test_entries_of_coo_at_one_place_are_summed():
    given = sp.coo_array((np.ones(3), ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    np.testing.assert_array_equal(as_source(given).rows(slice(0, 2)).toarray(), [[0, 2], [1, 0]])


def test_errors():
    with pytest.raises(InputError, match=r"X has type list; expected an array, .* Pass np.asarray\(X\)"):
        as_source([[1.0, 2.0]])
    with pytest.raises(InputError, match=r"X has shape \(3,\); expected one row a sample.*reshape\(-1, 1\)"):
        as_source(np.zeros(3))


@pytest.mark.parametrize("kind", ["int8", "int64"])
def test_the_least_whole_number_has_a_size(kind):
    rows = np.array([[np.iinfo(kind).min, 0], [1, 2]], kind)
    assert too_large(rows) is too_large(sp.csr_matrix(rows)) is None


# ---- ``score(source)`` takes the target of ``open_data( ---------------------------------------------

FAST = {"n_levels": 0, "n_units": 4, "n_directions": 2, "random_state": 0}
REGRESSORS = [
    gm.KernelRidge(gamma=3.0),
    gm.KernelRidgeCV(gammas=[1.0, 3.0]),
    gm.KernelSVR(),
    gm.GaussianProcessRegressor(random_state=0),
    gm.DCPredRegressor(n_levels=1, random_state=0),
    gm.FastKernelRegressor(**FAST),
    gm.TabularRegressor(kernel="gaussian", metric=None, random_state=0),
]
CLASSIFIERS = [
    gm.KernelRidgeClassifier(gamma=3.0),
    gm.KernelSVC(),
    gm.KernelLogisticRegression(),
    gm.DCSVC(random_state=0),
    gm.DCPredClassifier(n_levels=1, random_state=0),
    gm.FastKernelClassifier(**FAST),
    gm.TabularClassifier(kernel="gaussian", metric=None, random_state=0),
]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Rows, and a source of them, with targets that are numbers or labels."""
    rng = np.random.default_rng(0)
    X = rng.random((150, 3))
    y = np.sin(4 * X[:, 0])
    folder = tmp_path_factory.mktemp("sources")
    found = {}
    for name, target in (("numbers", y), ("labels", np.where(y > 0.5, "up", "down"))):
        np.savez(folder / f"{name}.npz", X=X, y=target)
        found[name] = X, target, gm.open_data(folder / f"{name}.npz", target="y")
    return found


@pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS, ids=lambda m: type(m).__name__)
def test_a_source_is_scored_by_its_own_target(rows, model):
    X, y, source = rows["labels" if model in CLASSIFIERS else "numbers"]
    model.fit(X, y)
    expected = model.score(X, y)
    assert model.score(source) == pytest.approx(expected, abs=1e-6)
    assert model.score(source, y) == model.score(source)
    weights = np.arange(150.0)
    assert model.score(source, sample_weight=weights) == pytest.approx(
        model.score(X, y, sample_weight=weights), abs=1e-6
    )
    with pytest.raises(InputError, match="requires y to be passed"):
        model.score(X)


def test_compressed_models_score_sources_too(rows):
    X, y, source = rows["numbers"]
    fast = gm.compress(REGRESSORS[0].fit(X, y), X, **FAST)
    assert fast.score(source) == pytest.approx(fast.score(X, y), abs=1e-6)
    table = REGRESSORS[-1].fit(X, y).compress(X, n_levels=0, n_units=4, n_directions=2)
    assert table.score(source) == pytest.approx(table.score(X, y), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS, ids=lambda m: type(m).__name__)
def test_a_source_is_fitted_by_its_own_target(rows, model):
    X, y, source = rows["labels" if model in CLASSIFIERS else "numbers"]
    expected = clone(model).fit(source, y).predict(X)
    assert (clone(model).fit(source).predict(X) == expected).all()
    with pytest.raises(InputError, match="requires y to be passed"):
        clone(model).fit(X)


@pytest.mark.slow
@pytest.mark.parametrize("given", [True, False], ids=["targets", "no targets"])
def test_models_of_other_libraries_and_functions_are_compressed_on_sources(rows, given):
    X, y, source = rows["numbers"]
    pipeline = make_pipeline(StandardScaler(), SVR()).fit(X, y)
    for teacher in (SVR().fit(X, y), pipeline, lambda points: points[:, 0]):
        found = [gm.compress(teacher, one, y if given else None, **FAST) for one in (source, X)]
        assert (found[0].predict(X) == found[1].predict(X)).all()


# ---- sampled rows as float32 ------------------------------------------------------------------------

ROWS = np.random.default_rng(3).standard_normal((80, 4))


@pytest.mark.parametrize(
    ("kernel", "narrow"),
    [
        (gm.Gaussian(1.0), True),
        (gm.Gaussian(1e-7), False),
        (gm.Exponential(1e-3), False),
        (gm.Linear(), True),
    ],
    ids=str,
)
def test_rows_are_rounded_where_the_kernel_does_not_see_it(kernel, narrow):
    found = as_float(ROWS, np.float32, kernel)
    assert found.dtype == (np.float32 if narrow else np.float64)
    error = np.abs(np.diagonal(kernel(ROWS, found.astype(np.float64))) / kernel.diagonal(ROWS) - 1.0)
    assert error.max() <= 2e-5


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("model", [gm.KernelRidge, gm.KernelSVR])
def test_rows_of_any_size_are_known_again(model, size):
    # All other rows are too far to count: the answer for a row is its own target's.
    y = np.where(np.arange(80) % 2, 1.0, -1.0)
    fits = [
        model(kernel=gm.Matern(2.0, nu=2.5), tile_dtype=kind, random_state=0).fit(size * ROWS, y)
        for kind in ("float32", "float64")
    ]
    found, wanted = (fit.predict(size * ROWS) for fit in fits)
    assert np.abs(wanted).min() > 0.1
    np.testing.assert_allclose(found, wanted, atol=1e-3)
