"""Conversion of fitted estimators to a description and arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gramian._typing import Array, Rows
from gramian.approximations.approximation import Approximation
from gramian.approximations.explicit import fitted_map, lone_map, one_block
from gramian.approximations.methods import EXPLICIT, METHODS
from gramian.compression.expansion import PairwisePredictor, class_pairs
from gramian.compression.predictor import Predictor
from gramian.data.source import as_source
from gramian.engine import Engine
from gramian.estimator.base import KernelEstimator
from gramian.estimator.summaries import SERVES
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import ModelFileError
from gramian.fast.dcpred.estimators import DCPredClassifier, DCPredRegressor
from gramian.fast.estimators import FastKernelClassifier, FastKernelRegressor
from gramian.gp.regressor import GaussianProcessRegressor
from gramian.kernels import Kernel
from gramian.kernels.spec import kernel_from_spec, kernel_to_spec
from gramian.model_file.arrays import predictor_from_arrays, predictor_to_arrays
from gramian.model_file.classes import classes_header, classes_of
from gramian.model_file.container import CURE
from gramian.model_file.maps import map_from_arrays, map_to_arrays
from gramian.model_file.records import Records
from gramian.model_file.tabular import TABULAR, read_tabular, tabular_state
from gramian.ridge.cross_validation import KernelRidgeCV
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier
from gramian.ridge.training import TRAINED
from gramian.solvers.solution import Solution, Status
from gramian.spectra.kernel_pca import KernelPCA
from gramian.svm.classifier import KernelSVC
from gramian.svm.dcsvc import DCSVC
from gramian.svm.logistic import KernelLogisticRegression
from gramian.svm.regressor import KernelSVR

#: Estimators trained by streaming sums, by the class name that the file stores.
STREAMING: dict[str, type[KernelEstimator]] = {
    kind.__name__: kind
    for kind in (
        KernelRidge,
        KernelRidgeCV,
        KernelRidgeClassifier,
        KernelSVC,
        KernelSVR,
        KernelLogisticRegression,
        KernelPCA,
    )
}
MAPS: dict[str, type[Approximation]] = {METHODS[name].__name__: METHODS[name] for name in EXPLICIT}
TRANSFORMERS: dict[str, type[Approximation]] = {
    kind.__name__: kind for name, kind in METHODS.items() if name not in EXPLICIT
}
#: Estimators whose learned attributes are stored one by one.
RECORDED: dict[str, type[KernelEstimator]] = {
    kind.__name__: kind
    for kind in (
        DCSVC,
        DCPredClassifier,
        DCPredRegressor,
        FastKernelClassifier,
        FastKernelRegressor,
        GaussianProcessRegressor,
    )
}
#: All estimators that a model file may hold.
KNOWN: dict[str, type[Any]] = {**STREAMING, **MAPS, **TRANSFORMERS, **RECORDED, **TABULAR}
#: Prefix of the array names of an inverse transform.
INVERSE = "inverse_"
#: Learned attributes with a place of their own in the file, for each layout.
_STREAMING_APART = (*TRAINED, "inverse_", "classes_", "_flat")
_FEATURES_APART = ("features_", "plan_")
_RECORDED_APART = ("plan_", "_batch")


def is_known(model: Any) -> bool:
    """Return whether a model file can hold this kind of model."""
    return KNOWN.get(type(model).__name__) is type(model)


def estimator_header(model: Any, values: Records) -> dict[str, Any]:
    """Return class, parameters and state of a fitted estimator; arrays go to ``values``."""
    name = type(model).__name__
    if name in TABULAR:
        state = tabular_state(model, values, nested_header)
    elif name in STREAMING:
        state = _streaming_state(model, values)
    elif name in MAPS:
        state = _map_state(model, values)
    elif name in TRANSFORMERS:
        state = _transformer_state(model, values)
    else:
        state = _recorded_state(model, values)
    own = {"n_features": model.n_features_in_, "feature_names": feature_names(model)}
    return {"class": name, "params": values.plain.write_params(model), "state": {**state, **own}}


def estimator_from_header(header: Mapping[str, Any], values: Records) -> Any:
    """Return the fitted estimator that :func:`estimator_header` described."""
    name, state = header["class"], header["state"]
    if name not in KNOWN:
        raise ModelFileError(
            f"the model is a {name!r}; expected one of {', '.join(KNOWN)}. The file may come from a newer "
            "version: upgrade gramian."
        )
    model = values.read_params(KNOWN[name], header["params"])
    model.n_features_in_ = int(state["n_features"])
    set_feature_names(model, state["feature_names"])
    if name in STREAMING:
        _read_streaming(model, state, values)
    elif name in MAPS:
        _read_map(model, state, values)
    elif name in TRANSFORMERS:
        _read_transformer(model, state, values)
    elif name in TABULAR:
        read_tabular(model, state, values, nested)
    else:
        _read_recorded(model, state, values)
    return model


def nested_header(model: Any, prefix: str, values: Records) -> dict[str, Any]:
    """Return the description of an estimator within another one; its arrays get names with this prefix."""
    inner = Records({})
    header = estimator_header(model, inner)
    values.arrays.update({prefix + name: array for name, array in inner.arrays.items()})
    return header


def nested(header: Mapping[str, Any], prefix: str, values: Records) -> Any:
    """Return the estimator that :func:`nested_header` described."""
    own = {k.removeprefix(prefix): v for k, v in values.arrays.items() if k.startswith(prefix)}
    return estimator_from_header(header, Records(own))


# ---- estimators trained by streaming sums -------------------------------------------------------


def _streaming_state(model: Any, values: Records) -> dict[str, Any]:
    kept = model._state()
    solution = kept["solution_"]
    state: dict[str, Any] = {
        "kernel": kernel_to_spec(kept["kernel_"]),
        "predictor": _predictor_header(kept["predictor_"], values),
        "intercept": values.write("intercept_", kept["intercept_"]),
        "rank": kept["rank_"],
        "plan": values.plain.write_plan(kept["plan_"]),
        "solution": {
            "status": solution.status.name,
            "iterations": solution.iterations,
            "residual": solution.residual,
            "clipped": solution.clipped,
            "jitter": solution.jitter,
            "evaluations": solution.evaluations,
            "bytes": solution.bytes,
        },
        "learned": values.write_learned(kept, _STREAMING_APART),
    }
    if "inverse_" in kept:
        state["inverse"] = nested_header(kept["inverse_"], INVERSE, values)
    if "classes_" in kept:
        state["classes"] = classes_header(kept["classes_"], values)
    else:
        state["flat"] = bool(kept["_flat"])
    return state


def _read_streaming(model: Any, state: Mapping[str, Any], values: Records) -> None:
    kernel = kernel_from_spec(state["kernel"])
    predictor = _predictor(state["predictor"], values, kernel, model.n_features_in_)
    n_outputs = predictor.n_outputs
    evidence = dict(state["solution"])
    status = Status[evidence.pop("status")]
    found = values.read_learned(model, state.get("learned", {}), _STREAMING_APART) | {
        "kernel_": kernel,
        "predictor_": predictor,
        "intercept_": of_length("intercept_", values.read(state["intercept"]), n_outputs),
        "rank_": int(state["rank"]),
        "plan_": values.read_plan(state["plan"]),
        "solution_": Solution(value=np.empty(0), status=status, **evidence),
    }
    if "eigenvalues_" in found:
        of_length("eigenvalues_", found["eigenvalues_"], n_outputs)
    if "inverse" in state:
        inverse = found["inverse_"] = nested(state["inverse"], INVERSE, values)
        if (inverse.n_features_in_, inverse.predictor_.n_outputs) != (n_outputs, model.n_features_in_):
            raise ModelFileError(f"the inverse does not go from scores to rows. {CURE}")
    if "calibration_" in found:
        _check_shape("calibration_", found["calibration_"], (n_outputs, 2))
    if "classes" in state:
        found["classes_"] = classes_of(state["classes"], values)
        of_length("intercept_", found["intercept_"], _outputs(found["classes_"]))
    else:
        found["_flat"] = bool(state["flat"])
    model._restore(found)


def _predictor_header(predictor: Predictor | ExactPredictor, values: Records) -> dict[str, Any]:
    if isinstance(predictor, ExactPredictor):
        return {"exact": values.write("predictor_", predictor)}
    info, arrays = predictor_to_arrays(predictor)
    values.arrays.update(arrays)
    return info


def _predictor(
    stored: Mapping[str, Any], values: Records, kernel: Kernel, d: int
) -> Predictor | ExactPredictor:
    if "exact" not in stored:
        return predictor_from_arrays(stored, values.arrays, kernel, d)
    predictor: ExactPredictor = values.read(stored["exact"])
    n = predictor.rows.shape[0]
    _check_shape("rows", predictor.rows, (n, d))
    _check_shape("coefficients", predictor.coefficients, (n, predictor.n_outputs))
    return predictor


def _outputs(classes: Array) -> int:
    return 1 if len(classes) == 2 else len(classes)


# ---- approximations -----------------------------------------------------------------------------


def _map_state(model: Approximation, values: Records) -> dict[str, Any]:
    columns = fitted_map(model)
    own, arrays = map_to_arrays(columns, "map")
    values.arrays.update(arrays)
    return {
        "kernel": kernel_to_spec(model.kernel_),
        "map": own,
        "tile_dtype": columns.dtype.name,
        "plan": values.plain.write_plan(model.plan_),
    }


def _read_map(model: Approximation, state: Mapping[str, Any], values: Records) -> None:
    d = model.n_features_in_
    columns = map_from_arrays(state["map"], values.arrays, "map", d, state["tile_dtype"])
    features = lone_map(columns, kernel_from_spec(state["kernel"]), one_block(d))
    model._restore({"features_": features, "plan_": values.read_plan(state["plan"])})


def _transformer_state(model: Approximation, values: Records) -> dict[str, Any]:
    return {
        "features": values.write("features_", model.features_),
        "plan": values.plain.write_plan(model.plan_),
        "learned": values.write_learned(model._state(), _FEATURES_APART),
    }


def _read_transformer(model: Approximation, state: Mapping[str, Any], values: Records) -> None:
    learned = values.read_learned(model, state.get("learned", {}), _FEATURES_APART)
    features, plan = values.read(state["features"]), values.read_plan(state["plan"])
    model._restore({**learned, "features_": features, "plan_": plan})
    found = model._features(as_source(np.ones((1, model.n_features_in_))))
    _check_shape("features of a row", found, (1, model.rank_))


# ---- estimators of parts ------------------------------------------------------------------------


def _recorded_state(model: Any, values: Records) -> dict[str, Any]:
    kept = model._state()
    state: dict[str, Any] = {"learned": values.write_learned(kept, _RECORDED_APART)}
    if "plan_" in kept:
        state["plan"] = values.plain.write_plan(kept["plan_"])
    if "_batch" in kept:
        state["timed"] = values.write("_batch", kept["_batch"])
    return state


def _read_recorded(model: Any, state: Mapping[str, Any], values: Records) -> None:
    learned = values.read_learned(model, state["learned"], _RECORDED_APART)
    if "plan" in state:
        learned["plan_"] = values.read_plan(state["plan"])
    if "timed" in state:
        learned["_batch"] = values.read(state["timed"])
    model._restore(learned)
    predict = learned[next((name for name in SERVES if name in learned), SERVES[0])]
    with np.errstate(all="ignore"):
        found = predict(np.ones((1, model.n_features_in_)), Engine(1))
    if "classes_" in learned:
        classes = learned["classes_"]
        pairs = isinstance(predict, PairwisePredictor)
        several = len(class_pairs(len(classes))) if pairs else _outputs(classes)
        _check_shape("decision values of a row", found, (1, several))
    for name in ("_spread", "_center", "_y_std", "_y_mean"):
        if name in learned:
            _check_shape(name, learned[name], found.shape[1:])


# ---- what they share ----------------------------------------------------------------------------


def _check_shape(name: str, array: Rows, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ModelFileError(f"the array {name!r} has shape {array.shape}; expected {shape}. {CURE}")


def of_length(name: str, array: Array, length: int) -> Array:
    """Check that an array has a given length and return it."""
    _check_shape(name, array, (length,))
    return array


def feature_names(model: BaseEstimator) -> list[str] | None:
    """Return the names of the columns that a model was fitted to."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def set_feature_names(model: BaseEstimator, names: list[str] | None) -> None:
    """Set the names of the columns, one for each feature."""
    if names is not None:
        if len(names) != model.n_features_in_:
            raise ModelFileError(f"{len(names)} feature names; expected {model.n_features_in_}. {CURE}")
        model.feature_names_in_ = np.asarray(names, object)
