"""Model files of explicit maps: the same bits after a round trip, and a refusal of maps that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from market_random_features import MARKET
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_model_file_damage import changed, npy

import gramian as gm
from gramian.approximations.polynomial_maps import RandomMaclaurin, TensorSketch
from gramian.approximations.random_fourier import Fastfood, RandomFourier
from gramian.exceptions import ModelFileError

X = np.random.default_rng(0).random((150, 3))
Y = np.sin(5 * X[:, 0]) + X[:, 1]
NEW = np.random.default_rng(1).random((40, 3))
EVERY = pytest.mark.parametrize("case", MARKET.values(), ids=MARKET.keys())


def again(model, tmp_path):
    gm.save(model, tmp_path / "m.gramian")
    return gm.load(tmp_path / "m.gramian")


@EVERY
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ridge_and_transformer_give_the_same_bits(case, dtype, tmp_path):
    outer = {n: getattr(case.estimator, n) for n in ("kernel", "gamma", "degree", "coef0")}
    inner = clone(case.estimator).set_params(tile_dtype=dtype)
    model = gm.KernelRidge(0.1, approximation=inner, random_state=0, n_jobs=1, tile_dtype=dtype, **outer).fit(
        X, Y
    )
    loaded = again(model, tmp_path)
    for rows in (X, NEW, NEW.astype(np.float32), sp.csr_array(NEW * (NEW > 0.9))):
        np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    assert type(loaded.plan_.builder) is type(model.plan_.builder)
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.fit(X, Y).predict(NEW), model.predict(NEW))

    a = inner.fit(X)
    b = again(a, tmp_path)
    assert type(b) is type(a)
    for rows in (X, NEW, sp.csr_array(NEW * (NEW > 0.9))):
        np.testing.assert_array_equal(b.transform(rows), a.transform(rows))
    assert (b.rank_, b.kernel_, repr(b), str(b.plan_)) == (a.rank_, a.kernel_, repr(a), str(a.plan_))
    np.testing.assert_array_equal(b.get_feature_names_out(), a.get_feature_names_out())
    assert b.trace_error(X) == a.trace_error(X)
    with pytest.raises(NotFittedError):
        _ = b.nbytes_


def test_classifier_and_pipelines(tmp_path):
    labels = np.where(Y.mean() < Y, "high", "low")
    model = gm.KernelRidgeClassifier(gamma=2.0, approximation=RandomFourier(rank=40), random_state=0)
    pipe = make_pipeline(StandardScaler(), model).fit(X, labels)
    np.testing.assert_array_equal(again(pipe, tmp_path).predict(NEW), pipe.predict(NEW))
    pipe = make_pipeline(StandardScaler(), RandomFourier(rank=40, random_state=0)).fit(X)
    np.testing.assert_array_equal(again(pipe, tmp_path).transform(NEW), pipe.transform(NEW))


def test_a_file_is_of_the_size_of_the_map(tmp_path):
    many = np.random.default_rng(0).random((4000, 3))
    gm.save(RandomFourier(rank=200, random_state=0).fit(many), tmp_path / "m.gramian")
    assert (tmp_path / "m.gramian").stat().st_size < 100 * 3 * 8 + 10_000


def test_unfitted_and_function_kernels_are_refused(tmp_path):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        gm.save(RandomFourier(), tmp_path / "m.gramian")
    with pytest.raises(gm.InputError, match="is a function, whose code a model file cannot hold"):
        gm.save(gm.Nystrom(kernel=lambda a, b: a @ b.T, rank=2).fit(X), tmp_path / "m.gramian")


def edit_map(**edits):
    def edit(members, header):
        features = header["estimator"]["learned"]["features_"]["parts"]
        explicit = features["nodes"]["tuple"][0]["parts"]["columns"]
        for name, value in edits.items():
            if isinstance(value, np.ndarray):
                stored = explicit["parts"][name]["array"]
                members[f"{stored}.npy"] = npy(value)
                header["arrays"][stored] |= {"shape": list(value.shape), "dtype": value.dtype.str}
            elif name == "kind":
                explicit["record"] = value
            elif name == "fields":
                explicit["parts"] |= value
            else:
                features["dtype"]["dtype"] = value

    return edit


DAMAGE = {
    "amplitudes": (
        RandomFourier(),
        {"amplitudes": np.ones(3)},
        r"'amplitudes' has shape \(3,\); expected \(500,\)",
    ),
    "wide": (
        RandomFourier(),
        {"frequencies": np.ones((5, 500))},
        "a map takes 5 features|the partition takes rows of",
    ),
    "dtype": (RandomFourier(), {"tile_dtype": "float32"}, "an explicit map gives float64; expected float32"),
    "infinite": (
        RandomFourier(),
        {"amplitudes": np.array([np.inf])},
        "'amplitudes' of a FourierColumns holds NaN or infinity",
    ),
    "unknown": (RandomFourier(), {"kind": "Sines"}, "the part 'Sines' is not one of"),
    "field": (RandomFourier(), {"fields": {"size": 3}}, "FourierColumns do not fit together"),
    "order": (
        Fastfood(),
        {"order": np.full(512, 99_999)},
        r"'order' has shape \(512,\)|'order' holds numbers outside",
    ),
    "counts": (RandomMaclaurin(), {"counts": np.array([2000])}, "'counts' holds numbers outside 0 … 1000"),
    "buckets": (
        TensorSketch(),
        {"buckets": np.full((3, 4), 1000)},
        "'buckets' holds numbers outside 0 … 999",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_maps_that_do_not_fit_are_refused(name, tmp_path):
    estimator, edits, said = DAMAGE[name]
    path = tmp_path / "m.gramian"
    gm.save(clone(estimator).fit(X), path)
    with pytest.raises(ModelFileError, match=said):
        gm.load(changed(path, edit_map(**edits)))
