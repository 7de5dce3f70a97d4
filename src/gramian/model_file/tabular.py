"""Conversion of table models to descriptions and arrays: columns, scales, target, inner model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gramian.exceptions import InputError, ModelFileError
from gramian.model_file.classes import classes_header, classes_of
from gramian.model_file.container import CURE
from gramian.model_file.records import Records
from gramian.tables.classifier import TabularClassifier
from gramian.tables.compression import FastTabularClassifier, FastTabularRegressor
from gramian.tables.regressor import TabularRegressor
from gramian.tables.ridge_mean import RidgeMean

TABULAR: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (TabularRegressor, TabularClassifier, FastTabularRegressor, FastTabularClassifier)
}
#: Prefix of the array names of the models behind a table, followed by the model's number.
INNER = "model_"
#: Learned attributes with a place of their own in the file.
_APART = ("model_", "classes_")


def tabular_state(
    model: Any, values: Records, header_of: Callable[[Any, str, Records], dict[str, Any]]
) -> dict[str, Any]:
    """Return the learned state of a table model; ``header_of`` describes a model behind it."""
    state: dict[str, Any] = {"learned": values.write_learned(model._state(), _APART)}
    mean = isinstance(model.model_, RidgeMean)
    if hasattr(model.model_, "boosted_"):
        raise InputError(
            f"{type(model).__name__} includes boosting, which is scikit-learn's and which model files can't "
            "hold. Pickle the model, or save what compress makes of it, or fit without include."
        )
    if mean:
        state["weights"] = model.model_.weights_.tolist()
        if hasattr(model.model_, "classes_"):
            state["classes"] = classes_header(model.model_.classes_, values)
            state["calibration"] = values.write("calibration_", model.model_.calibration_)
    members = model.model_.members_ if mean else [model.model_]
    state["models"] = [header_of(member, f"{INNER}{j}_", values) for j, member in enumerate(members)]
    return state


def read_tabular(
    model: Any,
    state: Mapping[str, Any],
    values: Records,
    model_of: Callable[[Mapping[str, Any], str, Records], Any],
) -> None:
    """Restore the state of :func:`tabular_state`; a classifier takes the classes of its inner model."""
    model._restore(values.read_learned(model, state["learned"], _APART))
    members = [model_of(header, f"{INNER}{j}_", values) for j, header in enumerate(state["models"])]
    weights = state.get("weights")
    if weights is not None and len(weights) != len(members):
        raise ModelFileError(f"{len(members)} models have {len(weights)} weights. {CURE}")
    known = "classes" in state
    labels = classes_of(state["classes"], values) if known else None
    calibration = values.read(state["calibration"]) if known else None
    model.model_ = members[0] if weights is None else RidgeMean.of(members, weights, labels, calibration)
    if hasattr(model.model_, "classes_"):
        model.classes_ = model.model_.classes_
    width = model.columns_.width
    found = (len(model.columns_.columns), model.scaling_.n_columns, model.model_.n_features_in_)
    if found != (model.n_features_in_, width, width):
        raise ModelFileError(
            f"table, scales and model have {found} columns; expected {model.n_features_in_}, {width} and "
            f"{width}. {CURE}"
        )
    with np.errstate(all="ignore"):
        answers = model.model_.predict(np.ones((1, width)))
    if hasattr(model, "target_"):
        outputs = answers.reshape(1, -1).shape[1]
        if outputs != len(model.target_.outputs):
            raise ModelFileError(
                f"the model has {outputs} outputs, and the map of the target {len(model.target_.outputs)}. "
                f"{CURE}"
            )
