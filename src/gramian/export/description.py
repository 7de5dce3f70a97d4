"""Description of a model for export: plain arrays and the names of its classes."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from gramian._numerics import unit_roundoff
from gramian._typing import Array
from gramian.estimator.rows import names_known
from gramian.exceptions import AccuracyWarning, InputError, quoted, user_level
from gramian.export.table import TableForm, refuse_no_text, table_form
from gramian.fast.estimators import FastKernelModel
from gramian.fast.serving.flat import FlatPredictor, flatten
from gramian.tables.compression import FastTable

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Rounding of a feature, in its deviations, from which an export of unscaled rows warns. Chosen by hand.
MOST_LOST = 1e-4
WHAT_CAN_BE = (
    "A fitted FastKernelClassifier or FastKernelRegressor can be exported, a Pipeline of a StandardScaler "
    "and one of these, or a FastTabularClassifier or FastTabularRegressor. gramian.compress(model, X) makes "
    "one of any fitted model."
)


@dataclass(frozen=True, eq=False)
class Description:
    """Description of a model to export.

    name : name of the file, without its suffix.
    flat : arrays that give decision values (a classifier) or predictions (a regressor).
    labels : the classes, in the order of the outputs; None for a regressor. Two classes have one output,
        above 0 for the second.
    one_value : whether the outputs of n rows have shape (n,), not (n, outputs).
    table : what stands before and behind ``flat`` if the model takes tables, else None. ``flat`` then gives
        the values of the fast model of encoded and scaled rows.
    names : names of the columns of the training rows, by which tables are matched; None if they had none.
    """

    name: str
    flat: FlatPredictor
    labels: Array | None
    one_value: bool
    table: TableForm | None = None
    names: tuple[str, ...] | None = None

    @property
    def title(self) -> str:
        """One line that describes the model at the head of a file."""
        f = self.flat
        kind = "regressor" if self.labels is None else f"classifier of {len(self.labels)} classes"
        sizes = f"{f.n_leaves} leaves of {f.n_units} units in {f.n_directions} directions"
        version = importlib.metadata.version("gramian")
        features = f"{f.n_features} features"
        if self.table is not None:
            features = f"{len(self.table.columns)} columns of a table as {features}"
        return f"A fast kernel {kind}: {features}, {sizes}; by gramian {version}"


def template(name: str) -> str:
    """Return the text of a file of this folder, which an exporter fills in."""
    return importlib.resources.files(__package__).joinpath(name).read_text("utf-8")


def describe(model: BaseEstimator, name: str, *, single: bool = False) -> Description:
    """Return the description of a fitted fast model: alone, behind a ``StandardScaler``, or of tables.

    single : whether the file takes rows in float32; then features that lose digits by that are warned of.
    """
    scaler, estimator = _parts(model)
    of_table = isinstance(estimator, FastTable) and scaler is None
    if not isinstance(estimator, FastKernelModel) and not of_table:
        behind = "" if scaler is None else " behind a StandardScaler"
        raise InputError(f"A {type(estimator).__name__} cannot be exported{behind}. {WHAT_CAN_BE}")
    learned = "model_" if of_table else "predictor_"
    for step, name_of in ((estimator, learned), (scaler, "n_features_in_")):
        if step is not None and not hasattr(step, name_of):
            raise InputError(f"This {type(step).__name__} is not fitted: call fit first. {WHAT_CAN_BE}")
    if of_table:  # its answers are made of the plain values in float64
        flat, table = flatten(estimator.model_.predictor_), table_form(estimator)
    else:
        flat, table, deviation = estimator.flat_predictor(), None, estimator.feature_moments()[1]
        if scaler is not None:
            mean = scaler.mean_ if scaler.with_mean else np.zeros(flat.n_features)
            scale = scaler.scale_ if scaler.with_std else np.ones(flat.n_features)
            deviation = scale * deviation
            flat = flat.after_scaling(mean, scale, deviation)
        if single:
            _warn_if_far(flat, deviation)
    kept = (flat.projection, flat.offset, flat.planes, flat.forms, flat.weights)
    if not all(np.isfinite(part).all() for part in kept):
        raise InputError(
            f"The model has numbers that {flat.dtype} cannot hold: fit it on targets and features of smaller "
            "range (a StandardScaler before it), or with dtype='float64'."
        )
    names = names_known(estimator if scaler is None else scaler)
    labels = _plain_labels(estimator.classes_) if hasattr(estimator, "classes_") else None
    one_value = estimator._flat if labels is None else len(labels) == 2
    return Description(name, flat, labels, one_value, table, names)


def _parts(model: BaseEstimator) -> tuple[StandardScaler | None, Any]:
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


def _warn_if_far(flat: FlatPredictor, deviation: Array) -> None:
    """Warn if rows in float32 lose digits of features far from 0; deviation : (d,), of the features."""
    if flat.center is None:
        return
    used = flat.projection.any(axis=1) & (flat.center != 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where(used, np.abs(flat.center) / deviation, 0.0)
    j = int(far.argmax())
    lost = unit_roundoff(np.float32) * float(far[j])
    if lost > MOST_LOST:
        warnings.warn(
            f"The mean of feature {j} (from 0) is {far[j]:.2g} times its deviation. The file takes rows in "
            f"float32, which rounds it by up to {lost:.1g} deviations: its answers differ from those of the "
            "model. Export to a .py file, which takes rows in float64, or subtract the mean of such features "
            "from the rows before the fit and before the file.",
            AccuracyWarning,
            stacklevel=user_level(),
        )


def _plain_labels(classes: Array) -> Array:
    """Return class labels as int64 (also for booleans), float64 or text; objects must all be text."""
    if classes.dtype.kind in "OU" and all(isinstance(label, str) for label in classes):
        refuse_no_text("The model has the class", classes.tolist())
        return classes.astype(str)
    if classes.dtype.kind in "iub":
        if classes.dtype.kind == "u" and int(classes.max()) > np.iinfo(np.int64).max:
            raise InputError(
                f"The class {int(classes.max())} is beyond the signed 64-bit integers that exports hold. "
                "Fit the model on text: y.astype(str)."
            )
        return classes.astype(np.int64)
    if classes.dtype.kind == "f":
        return classes.astype(np.float64)
    raise InputError(
        f"The classes are {classes.dtype} ({quoted(classes[:2].tolist())}, …): only labels that are numbers "
        "or text can be exported. Fit the model on such labels."
    )
