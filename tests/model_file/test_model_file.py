"""Model files: the same bits after a round trip, and a clear refusal of anything else."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import gramian as gm
from gramian import model_file
from gramian.exceptions import InputError, ModelFileError
from gramian.model_file import describe

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 4)) + 3.0
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(200)

APPROXIMATIONS = {
    "auto": "auto",
    "meka": gm.MEKA(rank=10, n_blocks=4),
    "meka-tree": gm.MEKA(rank=10, n_blocks=5, landmarks="uniform", partition="tree"),
    "nested": gm.MultiResolution(root_rank=20, rank=6, n_blocks=9, n_levels=3, landmarks="uniform"),
    "given": gm.MultiResolution(root_rank=20, rank=6, n_blocks=4, landmarks=X[:25], partition="kcenters"),
}
ROWS = {
    "float64": X,
    "float32": X.astype(np.float32),
    "columnwise": np.asfortranarray(X),
    "int8": np.rint(20 * (X - 3)).astype(np.int8),
    "csr": sp.csr_array(X * (np.random.default_rng(1).random(X.shape) < 0.4)),
}


def ridge(**changes: Any) -> gm.KernelRidge:
    return gm.KernelRidge(**{"alpha": 0.1, "gamma": 0.2, "random_state": 0, "n_jobs": 1} | changes)


@pytest.fixture(scope="module")
def fitted() -> gm.KernelRidge:
    return ridge(approximation=gm.MEKA(rank=5, n_blocks=3)).fit(X, Y)


@pytest.fixture
def path(tmp_path: Path, fitted: gm.KernelRidge) -> Path:
    gm.save(fitted, tmp_path / "m.gramian")
    return tmp_path / "m.gramian"


def again(model: Any, tmp_path: Path) -> Any:
    gm.save(model, tmp_path / "again.gramian")
    return gm.load(tmp_path / "again.gramian")


# ---- the round trip ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", APPROXIMATIONS)
def test_predicts_the_same_bits(name: str, rows: str, dtype: str, tmp_path: Path) -> None:
    model = ridge(approximation=APPROXIMATIONS[name], tile_dtype=dtype).fit(ROWS[rows], Y)
    loaded = again(model, tmp_path)
    np.testing.assert_array_equal(loaded.predict(ROWS[rows]), model.predict(ROWS[rows]))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.predictor_.dtype == dtype
    assert str(loaded.plan_) == str(model.plan_)
    assert type(loaded.plan_.builder) is type(model.plan_.builder)


@pytest.mark.parametrize(
    "kernel",
    [
        gm.Gaussian(lengthscale=(1.0, 2.0, 0.5, 3.0)),
        gm.Laplacian(2.0) + 0.5 * gm.Matern(1.5, nu=2.5),
        gm.Linear() * gm.RationalQuadratic(2.0),
        "poly",
        "cosine",
    ],
)
def test_keeps_any_kernel(kernel: Any, tmp_path: Path) -> None:
    model = ridge(kernel=kernel, gamma=None).fit(X, Y)
    loaded = again(model, tmp_path)
    assert loaded.kernel_ == model.kernel_
    assert loaded.kernel == kernel
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_loaded_regressor_is_a_fitted_estimator(fitted: gm.KernelRidge, tmp_path: Path) -> None:
    loaded = again(fitted, tmp_path)
    assert type(loaded) is gm.KernelRidge
    assert repr(loaded) == repr(fitted)
    assert loaded.score(X, Y) == fitted.score(X, Y)
    assert (loaded.n_features_in_, loaded.rank_) == (4, fitted.rank_)
    assert loaded.solution_.residual == fitted.solution_.residual
    assert loaded.solution_.status is fitted.solution_.status
    # It can be fitted again, as its parameters are those that it was made with.
    np.testing.assert_array_equal(loaded.fit(X, Y).predict(X), fitted.predict(X))


def test_many_outputs_and_intercept(tmp_path: Path) -> None:
    targets = np.column_stack([Y, -2 * Y + 5, X[:, 1]])
    model = ridge(fit_intercept=True).fit(X, targets)
    loaded = again(model, tmp_path)
    assert loaded.predict(X).shape == (200, 3)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


LABELS = {
    "int": (Y > 0).astype(np.int32) + 4,
    "bool": Y > 0,
    "text": np.where(Y > 0.5, "high", np.where(Y > 0, "mid", "löw")),
    "object": np.where(Y > 0.5, "high", np.where(Y > 0, "mid", "low")).astype(object),
}


@pytest.mark.parametrize("kind", LABELS)
def test_classifier(kind: str, tmp_path: Path) -> None:
    y = LABELS[kind]
    weights = {label: 1.0 + i for i, label in enumerate(np.unique(y).tolist())}
    model = gm.KernelRidgeClassifier(0.1, gamma=0.2, class_weight=weights, random_state=np.int64(3)).fit(X, y)
    loaded = again(model, tmp_path)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.class_weight == weights
    assert loaded.random_state == 3
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.score(X, y) == model.score(X, y)


def test_feature_names(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "ç", "d"])
    loaded = again(ridge().fit(frame, Y), tmp_path)
    assert loaded.feature_names_in_.tolist() == ["a", "b", "ç", "d"]
    np.testing.assert_allclose(loaded.predict(frame[["d", "a", "b", "ç"]]), loaded.predict(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame.rename(columns={"a": "e"}))


@pytest.mark.parametrize("rows", ["float64", "float32", "csr"])
def test_pipeline_with_a_scaler(rows: str, tmp_path: Path) -> None:
    model = make_pipeline(StandardScaler(with_mean=rows != "csr"), ridge()).fit(ROWS[rows], Y)
    loaded = again(model, tmp_path)
    assert type(loaded) is Pipeline
    assert list(loaded.named_steps) == ["standardscaler", "kernelridge"]
    np.testing.assert_array_equal(loaded.predict(ROWS[rows]), model.predict(ROWS[rows]))
    assert loaded.score(ROWS[rows], Y) == model.score(ROWS[rows], Y)


def test_pipeline_keeps_names_and_scalers_without_deviation(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = make_pipeline(StandardScaler(with_std=False), ridge()).fit(frame, Y)
    loaded = again(model, tmp_path)
    assert loaded[0].scale_ is None
    assert loaded[0].feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))


def test_same_model_gives_the_same_file(fitted: gm.KernelRidge, path: Path, tmp_path: Path) -> None:
    gm.save(fitted, tmp_path / "other.gramian")
    assert (tmp_path / "other.gramian").read_bytes() == path.read_bytes()
    gm.save(gm.load(path), tmp_path / "other.gramian")
    assert (tmp_path / "other.gramian").read_bytes() == path.read_bytes()


def test_description_and_notes(fitted: gm.KernelRidge, tmp_path: Path) -> None:
    gm.save(fitted, tmp_path / "m.gramian", notes={"target": "price"})
    header = describe(tmp_path / "m.gramian")
    assert (header["format"], header["version"]) == ("gramian-model", 3)
    assert header["notes"] == {"target": "price"}
    assert header["estimator"]["class"] == "KernelRidge"
    assert header["estimator"]["learned"]["kernel_"]["kernel"]["family"] == "Gaussian"
    intercept = header["estimator"]["learned"]["intercept_"]["array"]
    assert header["arrays"][intercept] | {"crc32": 0} == {"shape": [1], "dtype": "<f8", "crc32": 0}


def test_a_generator_is_not_kept(tmp_path: Path) -> None:
    model = ridge(random_state=np.random.RandomState(0)).fit(X, Y)
    assert again(model, tmp_path).random_state is None


def test_the_caller_keeps_what_it_gave(fitted: gm.KernelRidge, tmp_path: Path) -> None:
    before = pickle.dumps(fitted)
    gm.save(fitted, tmp_path / "m.gramian")
    assert pickle.dumps(fitted) == before


# ---- what cannot be saved ----------------------------------------------------------------------


def test_refuses_an_unfitted_model(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        gm.save(ridge(), tmp_path / "m.gramian")
    with pytest.raises(NotFittedError, match="not fitted yet"):
        gm.save(make_pipeline(StandardScaler(), ridge()), tmp_path / "m.gramian")
    assert not list(tmp_path.iterdir())


def test_refuses_a_function_as_kernel(tmp_path: Path) -> None:
    model = ridge(kernel=lambda a, b: a @ b.T, gamma=None).fit(X, Y)
    with pytest.raises(InputError, match="is a function, whose code a model file cannot hold"):
        gm.save(model, tmp_path / "m.gramian")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (StandardScaler(), "the model is StandardScaler; expected an estimator of gramian"),
        ({}, "the model is dict; expected"),
        (make_pipeline(PCA(), ridge().fit(X, Y)), "the step 'pca' is a PCA, which a model file cannot hold"),
        (make_pipeline(ridge(), StandardScaler()), "a Pipeline of KernelRidge → StandardScaler; expected"),
    ],
)
def test_refuses_other_models(model: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        gm.save(model, tmp_path / "m.gramian")


def test_refuses_what_json_has_no_word_for(fitted: gm.KernelRidge, tmp_path: Path) -> None:
    odd = pickle.loads(pickle.dumps(fitted)).set_params(n_jobs=object())
    with pytest.raises(InputError, match=r"n_jobs=.* has type object, which a model file cannot hold"):
        gm.save(odd, tmp_path / "m.gramian")
    odd.set_params(n_jobs=1, coef0=float("nan"))
    with pytest.raises(InputError, match="coef0=nan cannot be stored"):
        gm.save(odd, tmp_path / "m.gramian")
    with pytest.raises(InputError, match="must map texts to texts"):
        gm.save(fitted, tmp_path / "m.gramian", notes={"rows": 3})  # type: ignore[dict-item]
    labels = np.array([(1,), (2,)] * 2, object)
    model = gm.KernelRidgeClassifier(gamma=0.2).fit(X, Y > 0)
    model.classes_ = labels[:2]
    with pytest.raises(InputError, match="classes_ holds object with other things than text"):
        gm.save(model, tmp_path / "m.gramian")


def test_refuses_folders(fitted: gm.KernelRidge, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not exist\. Create it first"):
        gm.save(fitted, tmp_path / "absent" / "m.gramian")
    with pytest.raises(InputError, match="it is a folder"):
        gm.save(fitted, tmp_path)
    with pytest.raises(ModelFileError, match="the file is a folder"):
        gm.load(tmp_path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, r"path=None has type NoneType\. Pass the path of a file"),
        (3, "path=3 has type int"),
        (b"m.gramian", "has type bytes"),
        ("", "path='' is empty"),
        ("m\0.gramian", "holds a null character"),
    ],
)
def test_what_names_no_file(fitted: gm.KernelRidge, given: Any, said: str) -> None:
    for act in (lambda: gm.save(fitted, given), lambda: gm.load(given), lambda: describe(given)):
        with pytest.raises(InputError, match=said):
            act()


def test_a_failed_save_leaves_the_old_file(
    fitted: gm.KernelRidge, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        gm.save(fitted, path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_the_library_version_without_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise model_file.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(model_file.importlib.metadata, "version", absent)
    assert model_file._library_version() == "unknown"


def test_a_fast_model_of_a_frame_is_read_without_a_warning(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.random.default_rng(0).random((60, 2)), columns=["a", "b"])
    model = gm.FastKernelRegressor(n_levels=0, n_units=2, n_directions=2, random_state=0).fit(frame, frame.a)
    gm.save(model, tmp_path / "model.gramian")
    loaded = gm.load(tmp_path / "model.gramian")
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
