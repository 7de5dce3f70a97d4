"""The registry of model files: parts that are of a known class but do not belong where they stand."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adversary.mutated import Stored
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gramian as gm
from gramian.exceptions import ModelFileError
from gramian.model_file.registry import PARTS

X = np.random.default_rng(0).standard_normal((80, 3))
Y = np.sin(X[:, 0])
MODELS = {
    "ridge": lambda: gm.KernelRidge(approximation=gm.MEKA(rank=4, n_blocks=3), random_state=0).fit(X, Y),
    "map": lambda: gm.Nystrom(rank=4, random_state=0).fit(X),
    "leaves": lambda: gm.DCPredRegressor(n_leaves=2, n_landmarks=4, n_pseudo=6, random_state=0).fit(X, Y),
    "mean": lambda: gm.TabularClassifier(effort="instant", random_state=0).fit(X, Y > 0),
    "steps": lambda: make_pipeline(StandardScaler(), gm.KernelRidge(random_state=0)).fit(X, Y),
}


@cache
def saved(name: str, folder: Path) -> Stored:
    gm.save(MODELS[name](), folder / "m.gramian")
    return Stored.of((folder / "m.gramian").read_bytes())


def parts(header: Any, name: str) -> Any:
    return header["estimator"]["learned"][name]["parts"]


def leaf(header: Any) -> Any:
    return parts(header, "model_")["leaves"]["tuple"][0]["parts"]


def node(header: Any) -> Any:
    return parts(header, "features_")["nodes"]["tuple"][0]["parts"]


def waves(frequencies: Any, amplitudes: Any) -> Any:
    held = {"frequencies": frequencies, "amplitudes": amplitudes, "phases": None}
    return {"record": "FourierColumns", "parts": held}


def products(header: Any) -> Any:
    levels = parts(header, "predictor_")["leaf_levels"]
    return {"record": "MonomialColumns", "parts": {"left": levels, "right": levels}}


MISPLACED: dict[str, tuple[str, Any, str]] = {
    "monomials without landmarks": (
        "ridge",
        lambda h: parts(h, "predictor_")["columns"]["tuple"].__setitem__(0, products(h)),
        "a map of a predictor is not explicit",
    ),
    "a leaf too many": (
        "ridge",
        lambda h: parts(h, "predictor_")["weights"]["tuple"][0]["rows"].append(0),
        "3 leaves have 4 weights",
    ),
    "a node too few": (
        "ridge",
        lambda h: parts(h, "predictor_")["columns"]["tuple"].pop(),
        "a predictor has 3 nodes and 2 maps",
    ),
    "no estimator": (
        "ridge",
        lambda h: h["estimator"]["params"].update(approximation={"approximation": "Forest", "params": {}}),
        "the class 'Forest' is no estimator that a file holds",
    ),
    "two maps": (
        "map",
        lambda h: node(h).update(columns=waves(node(h)["vectors"], node(h)["values"])),
        "a basis has both vectors and an explicit map",
    ),
    "a leaf of waves": (
        "leaves",
        lambda h: leaf(h).update(columns=waves(leaf(h)["landmarks"], leaf(h)["bias"])),
        "the columns of a leaf are not those of landmarks",
    ),
    "a leaf without landmarks": (
        "leaves",
        lambda h: leaf(h).update(landmarks=None),
        "a leaf without landmarks has columns",
    ),
    "a mean of nothing": (
        "mean",
        lambda h: parts(h, "model_").update(members_={"list": []}),
        "a mean has no models",
    ),
    "a mean of other features": (
        "mean",
        lambda h: parts(h, "model_").update(n_features_in_=2),
        "a mean has other features than its models",
    ),
    "a mean without calibration": (
        "mean",
        lambda h: parts(h, "model_").pop("calibration_"),
        r"a mean of models has only one of \('calibration_', 'classes_'\)",
    ),
    "a model before a model": (
        "steps",
        lambda h: h["pipeline"]["before"].__setitem__(0, {"model": h["estimator"]}),
        "a KernelRidge is no step before a model",
    ),
}


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore::gramian.AccuracyWarning")
@pytest.mark.parametrize("case", MISPLACED)
def test_parts_in_a_place_of_others_are_refused(
    case: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name, edit, said = MISPLACED[case]
    stored = saved(name, tmp_path_factory.getbasetemp()).copy()
    edit(stored.header)
    (tmp_path / "m.gramian").write_bytes(stored.packed())
    with pytest.raises(ModelFileError, match=said):
        gm.load(tmp_path / "m.gramian")


def test_a_quantile_map_has_scores() -> None:
    numbers = dict.fromkeys(("origin", "unit", "mean", "scale", "low", "high"), 1.0)
    with pytest.raises(ModelFileError, match="a quantile map has no scores"):
        PARTS["OutputMap"].made({"how": "quantile", **numbers, "knots": np.zeros(3), "scores": None}, np.inf)


def test_every_part_is_a_class_of_the_package_or_a_step_of_scikit_learn() -> None:
    for name, part in PARTS.items():
        assert part.kind.__name__ == name
        assert part.kind.__module__.startswith(("gramian.", "sklearn."))
