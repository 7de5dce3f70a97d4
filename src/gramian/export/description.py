"""Description of a model for export: plain arrays and the names of its classes."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from gramian._typing import Array
from gramian.exceptions import InputError, quoted
from gramian.fast.estimators import FastKernelClassifier, FastKernelModel, FastKernelRegressor
from gramian.fast.serving.flat import FlatPredictor

WHAT_CAN_BE = (
    "A fitted FastKernelClassifier or FastKernelRegressor can be exported, or a Pipeline of a StandardScaler "
    "and one of these. gramian.compress(model, X) makes one of any fitted model."
)


@dataclass(frozen=True, eq=False)
class Description:
    """Description of a model to export.

    name : name of the file, without its suffix.
    flat : arrays that give decision values (a classifier) or predictions (a regressor).
    labels : the classes, in the order of the outputs; None for a regressor. Two classes have one output,
        above 0 for the second.
    one_value : whether the outputs of n rows have shape (n,), not (n, outputs).
    """

    name: str
    flat: FlatPredictor
    labels: Array | None
    one_value: bool

    @property
    def title(self) -> str:
        """One line that describes the model at the head of a file."""
        f = self.flat
        kind = "regressor" if self.labels is None else f"classifier of {len(self.labels)} classes"
        sizes = f"{f.n_leaves} leaves of {f.n_units} units in {f.n_directions} directions"
        version = importlib.metadata.version("gramian")
        return f"A fast kernel {kind}: {f.n_features} features, {sizes}; by gramian {version}"


def describe(model: Any, name: str) -> Description:
    """Return the description of a fitted fast model, alone or behind a ``StandardScaler``."""
    scaler, estimator = _parts(model)
    if not isinstance(estimator, FastKernelModel):
        raise InputError(f"A {type(estimator).__name__} cannot be exported. {WHAT_CAN_BE}")
    for step, learned in ((estimator, "predictor_"), (scaler, "n_features_in_")):
        if step is not None and not hasattr(step, learned):
            raise InputError(f"This {type(step).__name__} is not fitted: call fit first. {WHAT_CAN_BE}")
    flat = estimator.flat_predictor()
    if scaler is not None:
        flat = flat.after_scaling(*_moments(scaler, flat.n_features))
    kept = (flat.projection, flat.offset, flat.planes, flat.forms, flat.weights)
    if not all(np.isfinite(part).all() for part in kept):
        raise InputError(
            f"The model has numbers that {flat.dtype} cannot hold: fit it on targets and features of smaller "
            "range (a StandardScaler before it), or with dtype='float64'."
        )
    if isinstance(estimator, FastKernelClassifier):
        labels = _plain_labels(estimator.classes_)
        return Description(name, flat, labels, len(labels) == 2)
    return Description(name, flat, None, isinstance(estimator, FastKernelRegressor) and estimator._flat)


def _parts(model: Any) -> tuple[StandardScaler | None, Any]:
    """Return the scaler, if there is one, and the estimator."""
    if not isinstance(model, Pipeline):
        return None, model
    steps = [step for _, step in model.steps if step not in (None, "passthrough")]
    if len(steps) == 1:
        return None, steps[0]
    if len(steps) == 2 and isinstance(steps[0], StandardScaler):
        return steps[0], steps[1]
    names = ", ".join(type(step).__name__ for step in steps)
    raise InputError(f"A Pipeline of {names} cannot be exported. {WHAT_CAN_BE}")


def _moments(scaler: StandardScaler, n_features: int) -> tuple[Array, Array]:
    mean = scaler.mean_ if scaler.with_mean else np.zeros(n_features)
    scale = scaler.scale_ if scaler.with_std else np.ones(n_features)
    return mean, scale


def _plain_labels(classes: Array) -> Array:
    """Return class labels as int64 (also for booleans), float64 or text; objects must all be text."""
    if classes.dtype.kind == "O" and all(isinstance(label, str) for label in classes):
        classes = classes.astype(str)
    if classes.dtype.kind in "iub":
        return classes.astype(np.int64)
    if classes.dtype.kind == "f":
        return classes.astype(np.float64)
    if classes.dtype.kind == "U":
        return classes
    raise InputError(
        f"The classes are {classes.dtype} ({quoted(classes[:2].tolist())}, …): only labels that are numbers "
        "or text can be exported. Fit the model on such labels."
    )
