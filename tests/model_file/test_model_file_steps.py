"""Pipelines in model files: the preprocessing steps that they hold, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler

import gramian as gm
from gramian.exceptions import InputError, ModelFileError
from gramian.model_file.container import read_container, write_container

pd = pytest.importorskip("pandas")
# Of scikit-learn 1.6 alone, whose ColumnTransformer changes what it keeps of the remaining columns.
pytestmark = pytest.mark.filterwarnings(
    r"ignore:\s*The format of the columns of the 'remainder':FutureWarning"
)

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "area": RNG.lognormal(4.3, 0.4, 120),
        "rooms": RNG.integers(1, 6, 120),
        "town": RNG.choice(["Bath", "Hull", "York"], 120),
        "lift": RNG.choice([True, False], 120),
        "age": RNG.random(120),
    }
)
PRICE = FRAME.area * np.where(FRAME.town == "Hull", 1.5, 2.5)


def ridge() -> gm.KernelRidge:
    return gm.KernelRidge(gamma=0.3, random_state=0)


def again(model: Any, tmp_path: Path) -> Any:
    gm.save(model, tmp_path / "m.gramian")
    return gm.load(tmp_path / "m.gramian")


ENCODER = OneHotEncoder(handle_unknown="ignore")
COLUMNS = {
    "by name": ColumnTransformer([("n", StandardScaler(), ["area", "rooms"]), ("c", ENCODER, ["town"])]),
    "what remains passes": ColumnTransformer(
        [("c", OneHotEncoder(drop="first", dtype=np.float32), ["town", "lift"])], remainder="passthrough"
    ),
    "what remains is scaled": ColumnTransformer(
        [("c", ENCODER, ["town"]), ("out", "drop", ["lift"])], remainder=RobustScaler(with_centering=False)
    ),
    "kept and dropped": ColumnTransformer(
        [("keep", "passthrough", ["age"]), ("out", "drop", ["town"]), ("n", MinMaxScaler((-1, 1)), [0, 1])]
    ),
    "selected": make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include=float)),
        (OneHotEncoder(sparse_output=False), make_column_selector(pattern="town|lift")),
    ),
    "no columns for one": ColumnTransformer(
        [("none", StandardScaler(), []), ("n", "passthrough", slice("area", "rooms"))]
    ),
    "weighted, sparse": ColumnTransformer(
        [("n", StandardScaler(), ["area"]), ("c", ENCODER, ["town"])],
        transformer_weights={"n": 2.0},
        sparse_threshold=1.0,
        verbose_feature_names_out=False,
    ),
    "a pipeline inside": ColumnTransformer(
        [("n", make_pipeline(RobustScaler(), MinMaxScaler()), ["area", "age"]), ("c", ENCODER, [2])]
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_keep_every_bit(name: str, tmp_path: Path) -> None:
    model = make_pipeline(COLUMNS[name], ridge()).fit(FRAME, PRICE)
    loaded = again(model, tmp_path)
    np.testing.assert_array_equal(loaded.predict(FRAME), model.predict(FRAME))
    shuffled = FRAME[FRAME.columns[::-1]].iloc[::-1]  # columns are found by their names
    np.testing.assert_array_equal(loaded.predict(shuffled), model.predict(shuffled))
    names = model[:-1].get_feature_names_out()
    assert list(loaded[:-1].get_feature_names_out()) == list(names)
    np.testing.assert_array_equal(again(loaded, tmp_path).predict(FRAME), model.predict(FRAME))


def test_columns_of_arrays_by_position_and_mask(tmp_path: Path) -> None:
    X = RNG.random((90, 4))
    for columns in ([0, -1], slice(1, 3), np.array([True, False, True, False]), 1):
        chosen = [columns] if isinstance(columns, int) else columns
        step = ColumnTransformer([("n", StandardScaler(), chosen)], remainder="passthrough")
        model = make_pipeline(step, ridge()).fit(X, X[:, 0])
        np.testing.assert_array_equal(again(model, tmp_path).predict(X), model.predict(X))


def test_frames_between_steps_and_several_steps(tmp_path: Path) -> None:
    step = ColumnTransformer(
        [("n", StandardScaler(), ["area"]), ("c", OneHotEncoder(sparse_output=False), ["town"])]
    )
    model = Pipeline([("columns", step), ("scale", MinMaxScaler()), ("model", ridge())])
    model.set_output(transform="pandas").fit(FRAME, PRICE)
    loaded = again(model, tmp_path)
    np.testing.assert_array_equal(loaded.predict(FRAME), model.predict(FRAME))
    assert list(loaded.named_steps) == ["columns", "scale", "model"]
    alone = make_pipeline(ridge()).fit(FRAME[["area"]], PRICE)
    np.testing.assert_array_equal(
        again(alone, tmp_path).predict(FRAME[["area"]]), alone.predict(FRAME[["area"]])
    )


def test_an_unknown_category_is_refused_as_before(tmp_path: Path) -> None:
    step = ColumnTransformer([("c", OneHotEncoder(), ["town"])], remainder="drop")
    loaded = again(make_pipeline(step, ridge()).fit(FRAME, PRICE), tmp_path)
    with pytest.raises(ValueError, match="unknown categories"):
        loaded.predict(FRAME.assign(town="Leeds"))


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (PCA(2), r"the step 'pca' is a PCA, which a model file cannot hold\. It holds StandardScaler"),
        (
            ColumnTransformer([("n", StandardScaler(), [0]), ("fill", SimpleImputer(), [1])]),
            "the step 'columntransformer', transformer 'fill' is a SimpleImputer",
        ),
        (
            ColumnTransformer([("deep", make_pipeline(StandardScaler(), PCA(1)), [0, 1])]),
            "transformer 'deep', step 'pca' is a PCA",
        ),
        (
            ColumnTransformer([("c", OneHotEncoder(max_categories=2), [1])]),
            "transformer 'c' groups infrequent categories",
        ),
    ],
)
def test_what_a_file_cannot_hold_is_named(step: Any, said: str, tmp_path: Path) -> None:
    X = np.column_stack([RNG.random(80), RNG.integers(0, 3, 80)])
    model = make_pipeline(step, ridge()).fit(X, X[:, 0])
    with pytest.raises(InputError, match=said):
        gm.save(model, tmp_path / "m.gramian")
    assert not list(tmp_path.iterdir())


def test_a_step_that_is_not_fitted_is_refused(tmp_path: Path) -> None:
    X = RNG.random((50, 2))
    model = Pipeline([("scale", StandardScaler()), ("model", ridge().fit(X, X[:, 0]))])
    with pytest.raises(NotFittedError):
        gm.save(model, tmp_path / "m.gramian")


@pytest.mark.parametrize(
    "edit",
    [
        lambda step: step.update(record="PCA"),
        lambda step: step["parts"]["transformers"]["tuple"][0]["tuple"][2]["list"].append(99),
        lambda step: step["parts"]["transformers"]["tuple"].pop(),
        lambda step: step["parts"].pop("sparse_output"),
        lambda step: step["parts"]["transformers"]["tuple"][0]["tuple"][1]["parts"]["learned"]["dict"].pop(0),
    ],
)
def test_edited_steps_are_refused(edit: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.gramian"
    gm.save(make_pipeline(COLUMNS["by name"], ridge()).fit(FRAME, PRICE), path)
    header, arrays = read_container(path)
    header.pop("arrays")
    edit(header["pipeline"]["before"][0])
    write_container(path, json.loads(json.dumps(header)), arrays)
    with pytest.raises(ModelFileError, match="cannot be loaded"):
        gm.load(path)
