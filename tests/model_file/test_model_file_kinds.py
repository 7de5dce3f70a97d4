"""Model files of every public estimator: the same bits, the same parameters, damage refused."""

from __future__ import annotations

import inspect
import io
import json
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from pairs import pairs
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gramian as gm
from gramian.approximations.explicit import ExplicitBuilder
from gramian.approximations.methods import METHODS
from gramian.compression.plan import Plan
from gramian.exceptions import InputError, ModelFileError
from gramian.kernels.columns import dense
from gramian.model_file.parts import KNOWN
from gramian.model_file.records import PartRecords
from gramian.solvers.solution import Solution

RNG = np.random.default_rng(0)
X = RNG.standard_normal((240, 4)) + 1.0
Y = np.sin(X[:, 0]) + X[:, 1]
TWO = np.where(Y > 1.0, "yes", "no")
THREE = np.digitize(Y, [0.7, 1.4])
NEW = RNG.standard_normal((50, 4))
COMMON = {"gamma": 0.3, "random_state": 0, "n_jobs": 1}
SMALL = {"n_levels": 1, "n_units": 4, "n_directions": 2, "random_state": 0, "n_jobs": 1}
LEAVES = {"n_leaves": 6, "n_landmarks": 6, "n_pseudo": 8, **COMMON}

MODELS: dict[str, tuple[Any, Any]] = {
    "svc": (gm.KernelSVC(2.0, **COMMON), THREE),
    "svc, calibrated": (gm.KernelSVC(probability=True, loss="hinge", approximation="meka", **COMMON), TWO),
    "ridge, chosen": (gm.KernelRidgeCV(gammas=(0.1, 1.0), random_state=0, n_jobs=1), Y),
    "ridge, refined": (
        gm.KernelRidgeCV((0.1, 1.0), refine="lengthscales", store_cv_results=True, **COMMON),
        Y,
    ),
    "ridge, outputs": (
        gm.KernelRidgeCV(alpha_per_target=True, approximation="meka", **COMMON),
        np.stack([Y, X[:, 2]], axis=1),
    ),
    "svr": (gm.KernelSVR(epsilon=0.05, **COMMON), Y),
    "svr, outputs": (gm.KernelSVR(**COMMON), np.stack([Y, X[:, 2]], axis=1)),
    "logistic": (gm.KernelLogisticRegression(approximation="nystrom", **COMMON), THREE),
    "dcsvc": (gm.DCSVC(leaf_size=60, branching=2, class_weight="balanced", **COMMON), THREE),
    "dcsvc, early": (gm.DCSVC(leaf_size=60, branching=2, early=True, **COMMON), TWO),
    "dcpred": (gm.DCPredClassifier(**LEAVES), THREE),
    "dcpred, cubic": (gm.DCPredRegressor(pseudo_degree=3, **LEAVES), Y),
    "dcpred, upper": (gm.DCPredClassifier(pseudo="triangle-upper", dtype="float32", **LEAVES), TWO),
    "dcpred, tree": (gm.DCPredRegressor(pseudo="triangle-lower", partition="tree", **LEAVES), Y),
    "dcpred, plain": (
        gm.DCPredRegressor(pseudo=None, **{**LEAVES, "n_pseudo": 0}),
        np.stack([Y, -Y], axis=1),
    ),
    "gp": (gm.GaussianProcessRegressor(ard=True, optimizer=None, **COMMON), Y),
    "gp, outputs": (
        gm.GaussianProcessRegressor(approximation="lowrankplusblocks", **COMMON),
        np.stack([Y, X[:, 2]], axis=1),
    ),
    "pca": (gm.KernelPCA(3, fit_inverse_transform=False, **COMMON), None),
    "pca, features": (gm.KernelPCA(4, approximation="meka", **COMMON), None),
    "fast": (gm.FastKernelClassifier(gm.KernelRidgeClassifier(gamma=0.3), **SMALL), THREE),
    "fast, half": (gm.FastKernelClassifier(learn="labels", dtype="float16", **SMALL), TWO),
    "fast numbers": (gm.FastKernelRegressor(**SMALL), Y),
    "fast outputs": (gm.FastKernelRegressor(learn="labels", **SMALL), np.stack([Y, 3 * Y], axis=1)),
}
ROWS = {
    "float64": X,
    "float32": X.astype(np.float32),
    "columnwise": np.asfortranarray(X),
    "csr": sp.csr_array(X * (np.random.default_rng(1).random(X.shape) < 0.5)),
}
ASKED = ("predict", "decision_function", "predict_proba", "transform")


def again(model: Any, folder: Path) -> Any:
    gm.save(model, folder / "m.gramian")
    return gm.load(folder / "m.gramian")


def same(loaded: Any, model: Any, rows: Any) -> None:
    """Compare answers: the arrays are the same bits, but BLAS may round by their place in memory."""
    for ask in ASKED:
        if hasattr(model, ask):
            found, expected = (getattr(one, ask)(rows) for one in (loaded, model))
            assert sp.issparse(found) == sp.issparse(expected)
            found, expected = dense(found), dense(expected)
            if found.dtype.kind != "f":
                np.testing.assert_array_equal(found, expected)
                continue
            assert found.dtype == expected.dtype
            margin = 8 * np.finfo(found.dtype).eps * np.abs(expected).max(initial=0.0)
            np.testing.assert_allclose(found, expected, rtol=0.0, atol=margin)


def test_every_public_estimator_has_a_kind() -> None:
    assert public() == set(KNOWN) - {"FastTabularRegressor", "FastTabularClassifier"}  # made by the others


def public() -> set[str]:
    """Return the names of the public estimators."""
    names = [*vars(gm).values(), *vars(gm.approximations).values()]
    found = {v.__name__ for v in names if inspect.isclass(v) and issubclass(v, BaseEstimator)}
    return found - {"Exact", "LearnedMetric"}  # parameters of estimators, never fitted themselves


#: Learned attributes that a model file leaves out, with the reason.
LEFT_OUT = {
    "operator_": "as large as the data",
    "n_rows_waiting_": "a file holds no rows that wait for others",
}
#: Fits that learn more than a first one does: a scaler, a metric, stages of an exact solve.
MORE: dict[str, tuple[Any, Any]] = {
    "ridge": (gm.KernelRidge(standardize=True, approximation=gm.Exact(solver="cg"), **COMMON), Y),
    "ridge, metric": (gm.KernelRidge(metric=gm.LearnedMetric(), **COMMON), Y),
    "ridge classes": (gm.KernelRidgeClassifier(standardize=True, **COMMON), THREE),
    "svc, metric": (gm.KernelSVC(standardize=True, metric=gm.LearnedMetric(), **COMMON), TWO),
    "gp, metric": (gm.GaussianProcessRegressor(metric=gm.LearnedMetric(), max_iter=3, **COMMON), Y),
    "table": (gm.TabularRegressor(kernel="laplacian", scaling="standard", random_state=0), Y),
    "table classes": (gm.TabularClassifier(kernel="laplacian", scaling="standard", random_state=0), TWO),
}


def fits() -> dict[str, tuple[Any, Any]]:
    """Return unfitted models with their targets; every public estimator is among them."""
    sizes = {"rank": 6, "root_rank": 6, "n_blocks": 3, **COMMON}
    features = {}
    for kind in METHODS.values():
        name, model = kind.__name__, kind()
        features[name] = (
            model.set_params(**{k: v for k, v in sizes.items() if k in model.get_params()}),
            None,
        )
    features["TensorSketch"][0].set_params(kernel="poly")
    features["RandomMaclaurin"][0].set_params(kernel="poly")
    inverse = {"pca, inverse": (gm.KernelPCA(3, **COMMON), None)}
    return MODELS | MORE | features | inverse


def test_every_public_estimator_is_fitted_here() -> None:
    assert {type(model).__name__ for model, _ in fits().values()} == public()


@pytest.mark.parametrize("name", fits())
@pytest.mark.filterwarnings("ignore::gramian.NumericalWarning", "ignore::gramian.AccuracyWarning")
def test_every_learned_attribute_comes_back(name: str, tmp_path: Path) -> None:
    model, y = fits()[name]
    model = clone(model)
    model.fit(X, y)
    check_learned(again(model, tmp_path), model)


def test_the_learned_attributes_of_a_stream_come_back(tmp_path: Path) -> None:
    model = gm.KernelRidge(standardize=True, **COMMON)
    for _ in range(3):
        model.partial_fit(X, Y)
        check_learned(again(model, tmp_path), model)


def check_learned(loaded: Any, model: Any) -> None:
    """Compare every attribute whose name ends in an underscore, by what a file would hold of it."""
    found, expected = (
        {k: v for k, v in attributes(one).items() if k.endswith("_") and k not in LEFT_OUT}
        for one in (loaded, model)
    )
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert stored(found[name]) == stored(value), name


def attributes(model: Any) -> dict[str, Any]:
    """Return the attributes of a model, with those that its stream finds when asked for."""
    return vars(model) | getattr(model, "_state", dict)()


def stored(value: Any) -> Any:
    """Return a learned value as comparable text."""
    if isinstance(value, Solution):
        return repr(replace(value, value=None))
    if isinstance(value, BaseEstimator):
        return {name: stored(each) for name, each in vars(value).items() if name.endswith("_")}
    if isinstance(value, list | tuple):
        return [stored(each) for each in value]
    if isinstance(value, Plan):
        return str(value)
    values = PartRecords({})
    text = json.dumps(values.write("value", value))
    return text, {name: array.tobytes() for name, array in values.arrays.items()}


#: Models of dense rows only.
FAST = [name for name in MODELS if name.startswith("fast")]
OF_ROWS = [
    *pairs([name for name in MODELS if name not in FAST], ROWS),
    *pairs(FAST, [rows for rows in ROWS if rows != "csr"]),
]


@pytest.mark.parametrize(("name", "rows"), OF_ROWS)
@pytest.mark.filterwarnings(
    "ignore:learning ended at the bounds:gramian.AccuracyWarning"
)  # one target is linear
def test_predicts_the_same(name: str, rows: str, tmp_path: Path) -> None:
    model, y = MODELS[name]
    model.fit(ROWS[rows], y)
    loaded = again(model, tmp_path)
    assert type(loaded) is type(model)
    same(loaded, model, ROWS[rows])
    same(loaded, model, NEW)
    kept = {k: v for k, v in model.get_params(deep=False).items() if k != "teacher"}
    assert {k: v for k, v in loaded.get_params(deep=False).items() if k != "teacher"} == kept
    learned = {k for k in vars(model) if k.endswith("_")}
    assert {k for k in vars(loaded) if k.endswith("_")} == learned
    # Saved again it is the same file, and it can be fitted again.
    first = (tmp_path / "m.gramian").read_bytes()
    again(loaded, tmp_path)
    if not hasattr(model, "_batch"):
        assert (tmp_path / "m.gramian").read_bytes() == first


@pytest.mark.parametrize(
    "name",
    sorted(kind.__name__ for kind in METHODS.values() if not isinstance(kind().builder(), ExplicitBuilder)),
)
@pytest.mark.filterwarnings("ignore::gramian.NumericalWarning", "ignore::gramian.AccuracyWarning")
def test_approximations_keep_their_features(name: str, tmp_path: Path) -> None:
    model = KNOWN[name]()
    sizes = {"rank": 6, "root_rank": 6, "n_blocks": 3, **COMMON}
    model.set_params(**{k: v for k, v in sizes.items() if k in model.get_params()})
    pd = pytest.importorskip("pandas")
    model.fit(pd.DataFrame(X, columns=list("abcd")))
    loaded = again(model, tmp_path)
    same(loaded, model, pd.DataFrame(NEW, columns=list("abcd")))
    assert loaded.rank_ == model.rank_
    assert loaded.kernel_ == model.kernel_
    assert str(loaded.plan_) == str(model.plan_)
    assert not hasattr(loaded, "operator_")
    assert loaded.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()


@pytest.mark.slow
def test_a_fast_model_lacks_its_teacher_and_tells_its_cost(tmp_path: Path) -> None:
    model = gm.FastKernelRegressor(lambda rows: rows[:, 0], **SMALL).fit(X, Y)
    loaded = again(model, tmp_path)
    assert loaded.teacher is None
    assert (loaded.shape_, loaded.learned_) == (model.shape_, model.learned_)
    assert (loaded.cost_.operations, loaded.cost_.bytes) == (model.cost_.operations, model.cost_.bytes)
    assert loaded.predict_one(NEW[0]) == model.predict_one(NEW[0])
    # No training row is in the file: what it is timed on is drawn by mean and spread.
    moments = np.stack([model._batch.mean(axis=0), model._batch.std(axis=0)])
    np.testing.assert_allclose(loaded._batch, moments, atol=1e-5)


@pytest.mark.slow
def test_names_and_pipelines(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    for model in (gm.DCPredRegressor(**LEAVES), gm.KernelSVR(**COMMON), gm.FastKernelRegressor(**SMALL)):
        loaded = again(make_pipeline(StandardScaler(), model).fit(frame, Y), tmp_path)
        assert loaded[0].feature_names_in_.tolist() == list("abcd")
        np.testing.assert_array_equal(loaded.predict(frame), loaded[1].predict(loaded[0].transform(frame)))


@pytest.mark.parametrize("labels", [TWO.astype(object), THREE.astype(np.int8), Y > 1.0])
def test_labels(labels: Any, tmp_path: Path) -> None:
    for model in (gm.DCSVC(**COMMON), gm.DCPredClassifier(**LEAVES), gm.KernelSVC(**COMMON)):
        loaded = again(model.fit(X, labels), tmp_path)
        assert loaded.classes_.dtype == model.classes_.dtype
        same(loaded, model, NEW)


def test_other_models_and_precomputed_kernels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the model is StandardScaler; .*Save other models with pickle"):
        gm.save(StandardScaler().fit(X), tmp_path / "m.gramian")
    svc = gm.DCSVC(kernel="precomputed").fit(X @ X.T, TWO)
    with pytest.raises(InputError, match="expected one of"):
        gm.save(svc, tmp_path / "m.gramian")


def test_arrays_keep_the_order_of_their_axes() -> None:
    values = PartRecords({})
    cube = RNG.random((3, 4, 5))
    for array in (cube, cube.transpose(2, 0, 1), cube[:, :, 0], np.asfortranarray(cube), cube[:, ::2]):
        found = values.read(json.loads(json.dumps(values.write("a", array))))
        np.testing.assert_array_equal(found, array)
        order = np.argsort([-s for s in array.strides], kind="stable")
        np.testing.assert_array_equal(np.argsort([-s for s in found.strides], kind="stable"), order)
    for other in (np.inf, np.dtype(np.float16), slice(2, 5), np.array(2.5), np.float32(0.1)):
        assert values.read(json.loads(json.dumps(values.write("a", other)))) == other


# ---- damage ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("models")
    names = ("svc, calibrated", "dcsvc", "dcpred, tree", "fast")
    out = {}
    for name in names:
        model, y = MODELS[name]
        gm.save(model.fit(X, y), folder / "m.gramian")
        out[name] = (folder / "m.gramian").read_bytes()
    return out


def learned(header: dict[str, Any]) -> dict[str, Any]:
    return header["estimator"]["learned"]


def resized(header: dict[str, Any], members: dict[str, bytes], stored: Any, array: Any) -> None:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array))
    members[f"{stored['array']}.npy"] = stream.getvalue()
    header["arrays"][stored["array"]] = {
        "shape": list(np.shape(array)),
        "dtype": np.asarray(array).dtype.str,
        "crc32": zlib.crc32(stream.getvalue()),
    }


EDITS: dict[str, tuple[str, Any, str]] = {
    "calibration": (
        "svc, calibrated",
        lambda h, m: resized(h, m, learned(h)["calibration_"], np.zeros((3, 2))),
        r"'calibration_' has shape \(3, 2\); expected \(1, 2\)",
    ),
    "odd attribute": (
        "svc, calibrated",
        lambda h, m: learned(h).update(predict=1),
        "'predict' is not something that a KernelSVC learns",
    ),
    "classes": (
        "dcsvc",
        lambda h, m: resized(h, m, learned(h)["classes_"], np.arange(5)),
        "do not make a model|decision values for 5 classes",
    ),
    "unknown part": (
        "dcsvc",
        lambda h, m: learned(h)["predictor_"].update(record="os"),
        "the part 'os' is not one of",
    ),
    "coefficients": (
        "dcsvc",
        lambda h, m: resized(h, m, learned(h)["predictor_"]["parts"]["coefficients"], np.zeros((2, 3))),
        "'coefficients' has shape",
    ),
    "endless tree": (
        "dcpred, tree",
        lambda h, m: resized(
            h, m, learned(h)["model_"]["parts"]["partition"]["parts"]["children"], np.zeros((5, 2), int)
        ),
        "is not a tree",
    ),
    "a method": (
        "fast",
        lambda h, m: learned(h).update(fit=1),
        "'fit' is not something that a FastKernelClassifier learns",
    ),
    "a parameter": (
        "fast",
        lambda h, m: learned(h).update(dtype=1),
        "'dtype' is not something that a FastKernelClassifier learns",
    ),
    "field": ("fast", lambda h, m: learned(h)["predictor_"]["parts"].update(more=1), "do not make a model"),
    "missing": ("fast", lambda h, m: learned(h).pop("predictor_"), "do not make a model"),
    "features": ("fast", lambda h, m: h["estimator"].update(n_features=7), "do not make a model"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edited_files_are_refused(edit: str, files: dict[str, bytes], tmp_path: Path) -> None:
    name, change, said = EDITS[edit]
    with zipfile.ZipFile(io.BytesIO(files[name])) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    header = json.loads(members["model.json"])
    change(header, members)
    members["model.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(tmp_path / "m.gramian", "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    with pytest.raises(ModelFileError, match=said):
        gm.load(tmp_path / "m.gramian")


@pytest.mark.parametrize("name", ["svc, calibrated", "dcsvc", "dcpred, tree", "fast"])
def test_files_with_a_changed_byte_are_refused_or_the_same(
    name: str, files: dict[str, bytes], tmp_path: Path
) -> None:
    data = files[name]
    path = tmp_path / "m.gramian"
    for at in np.random.default_rng(0).integers(0, len(data), 20):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        try:
            loaded = gm.load(path)
        except ModelFileError:
            continue
        path.write_bytes(data)
        np.testing.assert_array_equal(loaded.predict(NEW), gm.load(path).predict(NEW))
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ModelFileError):
        gm.load(path)
