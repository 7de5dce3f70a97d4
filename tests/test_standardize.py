"""standardize=True: columns scaled as they are read equal rows that were scaled before."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

import gramian as gm
from gramian.data.scaled import Moments, Scaler, moments
from gramian.data.source import ArraySource
from gramian.exceptions import InputError


def table(n=3000):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4)) * [1e-3, 1.0, 500.0, 1.0] + [0.0, 1e4, -3.0, 2.0]
    X[:, 3] = 7.0
    return X, np.sin(2e3 * X[:, 0]) + 0.002 * X[:, 2]


def ridge(**changes):
    options = {"gamma": 0.3, "fit_intercept": True, "random_state": 0, "tile_dtype": "float64"}
    options["approximation"] = gm.MultiResolution(root_rank=40, rank=20, n_blocks=6)
    return gm.KernelRidge(0.1, **{**options, **changes})


@pytest.mark.parametrize("kind", ["float64", "float32", "uint8", "memmap"])
def test_scaled_as_read_equals_scaled_before(tmp_path, kind):
    X, y = table()
    if kind == "memmap":
        np.save(tmp_path / "X.npy", X)
        rows = np.load(tmp_path / "X.npy", mmap_mode="r")
    else:
        rows = (
            X.astype(kind)
            if kind != "uint8"
            else np.random.default_rng(1).integers(0, 99, X.shape).astype(kind)
        )
    before = np.array(rows)
    other = StandardScaler().fit(np.asarray(rows, np.float64))
    model = ridge(standardize=True).fit(rows, y)
    np.testing.assert_allclose(model.scaler_.mean, other.mean_, rtol=1e-12)
    np.testing.assert_allclose(model.scaler_.scale, other.scale_, rtol=1e-7)
    expected = ridge().fit(model.scaler_.apply(before), y)
    np.testing.assert_allclose(
        model.predict(rows), expected.predict(model.scaler_.apply(before)), atol=1e-9, rtol=1e-9
    )
    np.testing.assert_array_equal(rows, before)


def test_classes_files_pickles_and_clones(tmp_path):
    X, y = table()
    labels = np.where(y > 0, "up", "down")
    model = gm.KernelRidgeClassifier(0.1, gamma=0.3, standardize=True, random_state=0).fit(X, labels)
    assert model.score(X, labels) > 0.9
    gm.save(model, tmp_path / "model.gramian")
    for other in (gm.load(tmp_path / "model.gramian"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))
    assert not hasattr(clone(model), "scaler_")
    model.set_params(standardize=False).fit(X, labels)
    assert not hasattr(model, "scaler_")


def test_a_stream_keeps_the_scale_of_its_first_rows():
    X, y = table()
    model = ridge(standardize=True).partial_fit(X[:2000], y[:2000])
    first = model.scaler_
    model.partial_fit(X[2000:], y[2000:])
    assert model.scaler_ is first
    assert model.score(X, y) > 0.9


def test_exact_and_plans_scale_too():
    X, y = table(800)
    scaled = StandardScaler().fit_transform(X)
    model = ridge(standardize=True, approximation="exact").fit(X, y)
    np.testing.assert_allclose(
        model.predict(X), ridge(approximation="exact").fit(scaled, y).predict(scaled), atol=1e-6
    )
    assert ridge(standardize=True).plan(X, y).rank == 20


def test_sparse_rows_keep_their_zeros():
    X = sp.random_array((500, 30), density=0.1, format="csr", rng=np.random.default_rng(0)) * 50.0
    y = np.asarray(X.sum(axis=1)).ravel()
    model = ridge(standardize=True, approximation="auto").fit(X, y)
    other = StandardScaler(with_mean=False).fit(X)
    assert not model.scaler_.mean.any()
    # About zero, not about the mean: what is stored keeps its share.
    np.testing.assert_allclose(
        model.scaler_.scale**2, other.var_ + np.asarray(X.mean(axis=0)) ** 2, rtol=1e-12
    )
    dense = ridge(standardize=True).fit(X.toarray(), y)
    with pytest.raises(InputError, match=r"X is sparse.*Pass X\.toarray"):
        dense.predict(X)


def test_moments_of_blocks_join_without_loss():
    rng = np.random.default_rng(0)
    X = 1e8 + rng.standard_normal((40_000, 2))
    found = moments(ArraySource(X))
    np.testing.assert_allclose(np.sqrt(found.squares / found.count), X.std(axis=0), rtol=1e-8)
    empty = Moments.joined([Moments(0, np.zeros(2), np.zeros(2)), found])
    np.testing.assert_array_equal(empty.mean, found.mean)
    assert Scaler.of(Moments.of(np.full((5, 1), 1e9 / 3))).scale.tolist() == [1.0]


def test_what_cannot_be_scaled():
    X, y = table(300)
    with pytest.raises(InputError, match="standardize=True scales the columns of rows"):
        ridge(standardize=True, kernel="precomputed").fit(X @ X.T, y)
    fitted = gm.MultiResolution(root_rank=20, n_levels=1, gamma=0.3).fit(X)
    with pytest.raises(InputError, match="fixed by FrozenEstimator"):
        ridge(standardize=True, approximation=FrozenEstimator(fitted)).fit(X, y)
