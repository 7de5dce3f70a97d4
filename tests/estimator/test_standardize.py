"""standardize=True: columns scaled as they are read equal rows that were scaled before."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from every_estimator import ESTIMATORS, parameters
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

import gramian as gm
from gramian.data.scaled import Moments, Scaler, moments
from gramian.data.source import ArraySource
from gramian.exceptions import InputError

# Targets here are any numbers, some of them far from 0.
pytestmark = pytest.mark.filterwarnings("ignore:.*Pass fit_intercept=True")


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


@pytest.mark.slow
def test_classes_files_pickles_and_clones(tmp_path):
    X, y = table()
    labels = np.where(y > 0, "up", "down")
    model = gm.KernelRidgeClassifier(0.1, gamma=0.3, standardize=True, random_state=0).fit(X, labels)
    assert model.score(X, labels) > 0.9
    gm.save(model, tmp_path / "model.gramian")
    for other in (gm.load(tmp_path / "model.gramian"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))
    assert not hasattr(clone(model), "scaler_")
    with pytest.warns(UserWarning, match="differ in scale"):
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


def sparse_table(n=500, d=30):
    return sp.random_array((n, d), density=0.1, format="csr", rng=np.random.default_rng(0)) * 50.0


def test_sparse_rows_are_divided_by_the_deviation_and_keep_their_zeros():
    X = sparse_table()
    X.data[X.indices == 3] = 7.0
    y = np.asarray(X.sum(axis=1)).ravel()
    model = ridge(standardize=True, approximation="auto").fit(X, y)
    assert not model.scaler_.mean.any()
    np.testing.assert_allclose(model.scaler_.scale, StandardScaler(with_mean=False).fit(X).scale_, rtol=1e-12)
    dense = ridge(standardize=True).fit(X.toarray(), y)
    np.testing.assert_allclose(dense.scaler_.scale, model.scaler_.scale, rtol=1e-12)
    with pytest.raises(InputError, match=r"X is sparse.*Pass X\.toarray"):
        dense.predict(X)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_sparse_and_dense_rows_are_one_model_under_kernels_of_differences(kernel):
    X = sparse_table()
    y, w = np.asarray(X.sum(axis=1)).ravel(), np.random.default_rng(1).random(X.shape[0])
    model = ridge(standardize=True, approximation="exact", kernel=kernel)
    found = clone(model).fit(X, y, w).predict(X)
    np.testing.assert_allclose(found, model.fit(X.toarray(), y, w).predict(X.toarray()), atol=1e-6 * y.max())


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("labels", [False, True])
def test_the_scale_is_weighted(form, labels):
    rng = np.random.default_rng(0)
    X, w = rng.random((120, 3)) * [1.0, 50.0, 1e-3] + 5.0, rng.integers(0, 4, 120)
    X[5:9], w[5:9] = 1000.0, 0
    y = np.where(X[:, 0] > 5.5, "up", "down") if labels else X[:, 0] + X[:, 1]
    kind = gm.KernelRidgeClassifier if labels else gm.KernelRidge
    model = kind(0.1, gamma=0.3, standardize=True, approximation="exact")

    def values(model):
        return model.decision_function(form(X)) if labels else model.predict(form(X))

    found = values(model.fit(form(X), y, sample_weight=w))
    far = X.copy()
    far[w == 0] *= -1000.0
    np.testing.assert_array_equal(values(model.fit(form(far), y, sample_weight=w)), found)
    repeated = np.repeat(np.arange(120), w)
    np.testing.assert_allclose(values(model.fit(form(X[repeated]), y[repeated])), found, atol=1e-6)
    np.testing.assert_allclose(
        model.scaler_.scale, StandardScaler().fit(X, sample_weight=w).scale_, rtol=1e-12
    )
    streamed = ridge(standardize=True).partial_fit(form(X), w * 1.0, sample_weight=w)
    assert streamed.score(form(X), w, sample_weight=w) is not None
    np.testing.assert_allclose(streamed.scaler_.scale, model.scaler_.scale, rtol=1e-12)
    if labels:
        doubled = np.where(y == "up", 2, 1)
        weighted = kind(standardize=True).fit(form(X), y, sample_weight=doubled)
        np.testing.assert_array_equal(
            kind(standardize=True, class_weight={"up": 2.0}).fit(form(X), y).scaler_.scale,
            weighted.scaler_.scale,
        )


def test_rows_without_weight_have_no_part_in_the_plan():
    X, y = table(2500)
    w = np.ones(2500)
    w[::3] = 0.0
    far = X.copy()
    far[::3] *= 1000.0
    model = ridge(standardize=True, approximation="auto")
    found = clone(model).fit(far, y, w).predict(X)
    np.testing.assert_array_equal(found, model.fit(X, y, w).predict(X))


def test_dask_rows_have_the_same_weighted_scale():
    da = pytest.importorskip("dask.array")
    X, y = table(400)
    w = np.random.default_rng(0).random(400)
    here = ridge(standardize=True).fit(X, y, w)
    parts = [da.from_array(part, chunks=(90, *part.shape[1:])) for part in (X, y, w)]
    there = ridge(standardize=True).fit(*parts)
    np.testing.assert_allclose(there.scaler_.scale, here.scaler_.scale, rtol=1e-12)
    np.testing.assert_allclose(there.scaler_.mean, here.scaler_.mean, rtol=1e-12)


def test_moments_of_blocks_join_without_loss():
    rng = np.random.default_rng(0)
    X = 1e8 + rng.standard_normal((40_000, 2))
    found = moments(ArraySource(X))
    np.testing.assert_allclose(np.sqrt(found.squares / found.mass), X.std(axis=0), rtol=1e-8)
    empty = Moments.joined([Moments(0.0, np.zeros(2), np.zeros(2)), found])
    np.testing.assert_array_equal(empty.mean, found.mean)
    assert Scaler.of(Moments.of(np.full((5, 1), 1e9 / 3))).scale.tolist() == [1.0]
    constant, weights = np.full((40_000, 1), 1 / 3), rng.random(40_000)
    for rows in (constant, sp.csr_array(constant), constant.astype(np.float32)):
        assert Scaler.of(Moments.of(rows, weights)).scale.tolist() == [1.0]
    # Squares of narrow whole numbers would not fit into their type.
    whole = sp.csr_array(np.array([[100], [0], [-100]], np.int8))
    assert Moments.of(whole).squares.tolist() == [20_000.0]


def test_what_cannot_be_scaled():
    X, y = table(300)
    with pytest.raises(InputError, match="standardize=True scales the columns of rows"):
        ridge(standardize=True, kernel="precomputed").fit(X @ X.T, y)
    fitted = gm.MultiResolution(root_rank=20, n_levels=1, gamma=0.3).fit(StandardScaler().fit_transform(X))
    with pytest.raises(InputError, match="fixed by FrozenEstimator"):
        ridge(standardize=True, approximation=FrozenEstimator(fitted)).fit(X, y)


#: Every estimator that takes ``standardize``, with parameters under which two fits are comparable.
SCALING = {
    "DCPredClassifier": {"n_leaves": 2},
    "DCPredRegressor": {"n_leaves": 2},
    "DCSVC": {"C": 5.0},
    "GaussianProcessRegressor": {},
    "KernelLogisticRegression": {"C": 5.0},
    "KernelPCA": {"n_components": 2, "fit_inverse_transform": True},
    "KernelRidge": {},
    "KernelRidgeCV": {},
    "KernelRidgeClassifier": {},
    "KernelSVC": {"C": 5.0, "probability": True},
    "KernelSVR": {"C": 5.0},
}


def columns_of_all_sizes(name):
    """Return rows whose columns differ in scale and centre, and targets that suit the estimator."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3)) * [1.0, 50.0, 0.01] + [0.0, 900.0, 1.0]
    y = np.sin(X[:, 0]) + X[:, 1] / 50.0
    return X, np.where(y > np.median(y), "up", "down") if is_classifier(ESTIMATORS[name]()) else y


def answers(model, X):
    """Return the model's values of rows: decision values, scores or predictions."""
    names = ("decision_function", "transform", "predict")
    return next(getattr(model, name) for name in names if hasattr(model, name))(X)


@pytest.mark.parametrize("name", SCALING)
def test_standardize_equals_rows_scaled_by_hand(name, tmp_path):
    X, y = columns_of_all_sizes(name)
    plain = ESTIMATORS[name](gamma=0.3, random_state=0, **SCALING[name])
    model = clone(plain).set_params(standardize=True).fit(X, y)
    scaled = StandardScaler().fit(X)
    expected = plain.fit(scaled.transform(X), y)
    found, wanted = answers(model, X), answers(expected, scaled.transform(X))
    np.testing.assert_allclose(found, wanted, atol=2e-3)
    np.testing.assert_allclose(model.scaler_.mean, scaled.mean_, rtol=1e-12)
    np.testing.assert_allclose(model.scaler_.scale, scaled.scale_, rtol=1e-7)
    if hasattr(model, "plan"):
        assert model.plan(X).peak_bytes > 0
    if hasattr(model, "inverse_transform"):
        back = scaled.inverse_transform(expected.inverse_transform(wanted))
        np.testing.assert_allclose(model.inverse_transform(found), back, rtol=1e-6)
    if hasattr(model, "support_vectors_"):
        np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    assert "standardize" in str(model.summary())
    gm.save(model, tmp_path / "model.gramian")
    np.testing.assert_array_equal(answers(gm.load(tmp_path / "model.gramian"), X), found)
    assert not hasattr(model.set_params(standardize=False).fit(scaled.transform(X), y), "scaler_")


@pytest.mark.parametrize("name", [n for n in SCALING if n not in ("GaussianProcessRegressor", "KernelPCA")])
def test_rows_of_weight_0_do_not_move_the_scales(name):
    X, y = columns_of_all_sizes(name)
    weights = np.ones(len(X))
    weights[::5] = 0.0
    far = X.copy()
    far[::5] *= 1e3
    model = ESTIMATORS[name](gamma=0.3, random_state=0, standardize=True, **SCALING[name])
    here = clone(model).fit(X, y, sample_weight=weights)
    there = clone(model).fit(far, y, sample_weight=weights)
    np.testing.assert_allclose(there.scaler_.mean, X[weights > 0].mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(there.scaler_.scale, here.scaler_.scale, rtol=1e-12)


@pytest.mark.parametrize("name", SCALING)
def test_sparse_rows_are_divided_by_the_same_scales(name):
    X, y = columns_of_all_sizes(name)
    rows = np.where(np.abs(X - X.mean(axis=0)) < 0.5 * X.std(axis=0), 0.0, X)
    parameters = {**SCALING[name], "gamma": 0.3, "random_state": 0, "standardize": True}
    parameters |= {"fit_inverse_transform": False} if name == "KernelPCA" else {}
    dense = ESTIMATORS[name](**parameters).fit(rows, y)
    sparse = ESTIMATORS[name](**parameters).fit(sp.csr_array(rows), y)
    np.testing.assert_allclose(sparse.scaler_.scale, dense.scaler_.scale, rtol=1e-9)
    np.testing.assert_array_equal(sparse.scaler_.mean, 0.0)
    assert np.isfinite(answers(sparse, sp.csr_array(rows))).all()


@pytest.mark.parametrize("name", [n for n in SCALING if not n.startswith("DCPred")])
def test_kernel_values_have_no_columns_to_scale(name):
    X, y = table(60)
    labels = np.where(y > np.median(y), "up", "down")
    model = ESTIMATORS[name](kernel="precomputed", standardize=True)
    with pytest.raises(InputError, match="standardize=True scales the columns of rows"):
        model.fit(np.exp(-((X[:, :1] - X[:, :1].T) ** 2)), labels if is_classifier(model) else y)


def test_every_estimator_takes_standardize_and_verbose():
    # Columns of tables are always scaled, and the fast models scale within their fit.
    for name, kind in ESTIMATORS.items():
        fits = hasattr(kind, "fit")
        assert ("verbose" in parameters(kind)) == fits, name
        predicts = fits and not kind.__module__.startswith("gramian.approximations")
        scales = predicts and not name.startswith(("Tabular", "FastKernel"))
        assert ("standardize" in parameters(kind)) == scales, name
