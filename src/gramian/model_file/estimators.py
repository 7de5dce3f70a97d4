"""Conversion of fitted estimators to a description and arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gramian._typing import Array, Rows
from gramian.approximations.approximation import Approximation
from gramian.approximations.explicit import fitted_map, set_map
from gramian.approximations.methods import EXPLICIT, METHODS
from gramian.compression.expansion import class_pairs
from gramian.compression.predictor import Predictor
from gramian.data.source import as_source
from gramian.engine import Engine
from gramian.estimator.base import KernelEstimator
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import InputError, ModelFileError, quoted
from gramian.fast.cost import batch_rows
from gramian.fast.dcpred.estimators import DCPredClassifier, DCPredRegressor
from gramian.fast.estimators import FastKernelClassifier, FastKernelRegressor
from gramian.gp.regressor import GaussianProcessRegressor
from gramian.kernels.spec import kernel_from_spec, kernel_to_spec
from gramian.model_file.arrays import predictor_from_arrays, predictor_to_arrays
from gramian.model_file.container import CURE, PLAIN_KINDS
from gramian.model_file.maps import map_from_arrays, map_to_arrays
from gramian.model_file.records import Records
from gramian.model_file.tabular import TABULAR, read_tabular, tabular_state
from gramian.ridge.cross_validation import KernelRidgeCV
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier
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
#: Estimators whose learned attributes are stored one by one, with the name of the attribute that predicts.
RECORDED: dict[str, tuple[type[Any], str]] = {
    "DCSVC": (DCSVC, "predictor_"),
    "DCPredClassifier": (DCPredClassifier, "model_"),
    "DCPredRegressor": (DCPredRegressor, "model_"),
    "FastKernelClassifier": (FastKernelClassifier, "predictor_"),
    "FastKernelRegressor": (FastKernelRegressor, "predictor_"),
    "GaussianProcessRegressor": (GaussianProcessRegressor, "posterior_"),
}
FITTED_BY = {
    "streaming": "predictor_",
    "map": "features_",
    "transformer": "features_",
    "tabular": "model_",
} | {name: attribute for name, (_, attribute) in RECORDED.items()}
#: Learned attributes that only some streaming estimators have.
_LEARNED = (
    "n_iter_",
    "calibration_",
    "stages_",
    "alpha_",
    "gamma_",
    "best_score_",
    "cv_results_",
    "refinement_",
    "loo_residuals_",
    "eigenvalues_",
    "n_rows_seen_",
    "n_blocks_",
    "scaler_",
    "metric_",
    "metric_rounds_",
)
#: Prefix of the array names of an inverse transform.
INVERSE = "inverse_"
#: Attributes stored elsewhere in the file or not at all (rows for timing, rows of a likelihood).
_APART = ("_batch", "_training", "plan_", "n_features_in_", "feature_names_in_")


def kind_of(model: Any) -> str | None:
    """Return the class name under which a file stores a model, or None if a file cannot hold it."""
    name = type(model).__name__
    kinds: tuple[tuple[str, Mapping[str, type[Any]]], ...] = (
        ("streaming", STREAMING),
        ("map", MAPS),
        ("transformer", TRANSFORMERS),
        ("tabular", TABULAR),
    )
    for kind, known in kinds:
        if known.get(name) is type(model):
            return kind
    return name if name in RECORDED and RECORDED[name][0] is type(model) else None


def estimator_header(model: Any, values: Records) -> dict[str, Any]:
    """Return class, parameters and state of a fitted estimator; arrays go to ``values``."""
    if type(model).__name__ in TABULAR:
        state = tabular_state(model, values, estimator_header)
    else:
        write = {"streaming": _streaming_state, "map": _map_state, "transformer": _transformer_state}
        state = write.get(str(kind_of(model)), _recorded_state)(model, values)
    own = {"n_features": model.n_features_in_, "feature_names": feature_names(model)}
    return {
        "class": type(model).__name__,
        "params": values.plain.write_params(model),
        "state": {**state, **own},
    }


def estimator_from_header(header: Mapping[str, Any], values: Records) -> Any:
    """Return the fitted estimator that :func:`estimator_header` described."""
    name, state = header["class"], header["state"]
    known = {**STREAMING, **MAPS, **TRANSFORMERS, **TABULAR}
    known |= {name: kind for name, (kind, _) in RECORDED.items()}
    if name not in known:
        raise ModelFileError(
            f"the model is a {name!r}; expected one of {', '.join(known)}. The file may come from a newer "
            "version: upgrade gramian."
        )
    model = values.read_params(known[name], header["params"])
    model.n_features_in_ = int(state["n_features"])
    set_feature_names(model, state["feature_names"])
    if name in STREAMING:
        _read_streaming(model, state, values)
    elif name in MAPS:
        _read_map(model, state, values)
    elif name in TRANSFORMERS:
        _read_transformer(model, state, values)
    elif name in TABULAR:
        read_tabular(model, state, values, estimator_from_header)
    else:
        _read_recorded(model, state, values)
    return model


# ---- estimators trained by streaming sums -------------------------------------------------------


def _streaming_state(model: Any, values: Records) -> dict[str, Any]:
    solution = model.solution_
    state: dict[str, Any] = {
        "kernel": kernel_to_spec(model.kernel_),
        "predictor": _predictor_header(model.predictor_, values),
        "intercept": values.write("intercept_", model.intercept_),
        "rank": model.rank_,
        "plan": values.plain.write_plan(model.plan_),
        "solution": {
            "status": solution.status.name,
            "iterations": solution.iterations,
            "residual": solution.residual,
            "clipped": solution.clipped,
            "jitter": solution.jitter,
            "evaluations": solution.evaluations,
            "bytes": solution.bytes,
        },
    }
    learned = {name: values.write(name, getattr(model, name)) for name in _LEARNED if hasattr(model, name)}
    if learned:
        state["learned"] = learned
    if hasattr(model, "inverse_"):
        # Its arrays need a container of their own: their names equal those of the outer predictor.
        inner = Records({})
        state["inverse"] = estimator_header(model.inverse_, inner)
        values.arrays.update({INVERSE + name: array for name, array in inner.arrays.items()})
    if hasattr(model, "classes_"):
        state["classes"] = _classes_header(model.classes_, values)
    else:
        state["flat"] = bool(model._flat)
    return state


def _read_streaming(model: Any, state: Mapping[str, Any], values: Records) -> None:
    model.kernel_ = kernel_from_spec(state["kernel"])
    model.predictor_ = _predictor(state["predictor"], values, model)
    n_outputs = model.predictor_.n_outputs
    model.intercept_ = of_length("intercept_", values.read(state["intercept"]), n_outputs)
    model.rank_ = int(state["rank"])
    model.plan_ = values.read_plan(state["plan"])
    evidence = dict(state["solution"])
    status = Status[evidence.pop("status")]
    model.solution_ = Solution(value=np.empty(0), status=status, **evidence)
    for name, stored in state.get("learned", {}).items():
        if name not in _LEARNED:
            raise ModelFileError(f"{name!r} is not one of {', '.join(_LEARNED)}. {CURE}")
        setattr(model, name, values.read(stored))
    if "eigenvalues_" in state.get("learned", {}):
        of_length("eigenvalues_", model.eigenvalues_, n_outputs)
    if "inverse" in state:
        own = {k.removeprefix(INVERSE): v for k, v in values.arrays.items() if k.startswith(INVERSE)}
        model.inverse_ = estimator_from_header(state["inverse"], Records(own))
        if (model.inverse_.n_features_in_, model.inverse_.predictor_.n_outputs) != (
            n_outputs,
            model.n_features_in_,
        ):
            raise ModelFileError(f"the inverse does not go from scores to rows. {CURE}")
    if "calibration_" in state.get("learned", {}):
        _check_shape("calibration_", model.calibration_, (n_outputs, 2))
    if "classes" in state:
        model.classes_ = _classes(state["classes"], values)
        of_length("intercept_", model.intercept_, _outputs(model))
    else:
        model._flat = bool(state["flat"])


def _predictor_header(predictor: Predictor | ExactPredictor, values: Records) -> dict[str, Any]:
    if isinstance(predictor, ExactPredictor):
        return {"exact": values.write("predictor_", predictor)}
    info, arrays = predictor_to_arrays(predictor)
    values.arrays.update(arrays)
    return info


def _predictor(stored: Mapping[str, Any], values: Records, model: Any) -> Predictor | ExactPredictor:
    d = model.n_features_in_
    if "exact" not in stored:
        return predictor_from_arrays(stored, values.arrays, model.kernel_, d)
    predictor: ExactPredictor = values.read(stored["exact"])
    n = predictor.rows.shape[0]
    _check_shape("rows", predictor.rows, (n, d))
    _check_shape("coefficients", predictor.coefficients, (n, predictor.n_outputs))
    return predictor


def _outputs(model: Any) -> int:
    return 1 if len(model.classes_) == 2 else len(model.classes_)


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
    n_features = model.n_features_in_
    columns = map_from_arrays(state["map"], values.arrays, "map", n_features, state["tile_dtype"])
    set_map(model, columns, kernel_from_spec(state["kernel"]))
    model.plan_ = values.read_plan(state["plan"])


def _transformer_state(model: Approximation, values: Records) -> dict[str, Any]:
    return {
        "features": values.write("features_", model.features_),
        "plan": values.plain.write_plan(model.plan_),
    }


def _read_transformer(model: Approximation, state: Mapping[str, Any], values: Records) -> None:
    model.features_ = values.read(state["features"])
    model.kernel_ = model.features_.kernel
    model.rank_ = model._n_features_out = model.features_.rank
    model.plan_ = values.read_plan(state["plan"])
    found = model._features(as_source(np.ones((1, model.n_features_in_))))
    _check_shape("features of a row", found, (1, model.rank_))


# ---- estimators of parts ------------------------------------------------------------------------


def _recorded_state(model: Any, values: Records) -> dict[str, Any]:
    params = model.get_params(deep=False)
    learned = {name: v for name, v in vars(model).items() if name not in params and name not in _APART}
    state: dict[str, Any] = {"learned": {name: values.write(name, v) for name, v in learned.items()}}
    if hasattr(model, "plan_"):
        state["plan"] = values.plain.write_plan(model.plan_)
    if hasattr(model, "_batch"):
        rows = np.asarray(model._batch, np.float64)
        state["timed"] = values.write("_batch", np.stack([rows.mean(axis=0), rows.std(axis=0)]))
    return state


def _read_recorded(model: Any, state: Mapping[str, Any], values: Records) -> None:
    params = model.get_params(deep=False)
    for name, stored in state["learned"].items():
        if name in params or not name.isidentifier() or hasattr(type(model), name):
            raise ModelFileError(f"{name!r} is not something that a {type(model).__name__} learns. {CURE}")
        setattr(model, name, values.read(stored))
    if "plan" in state:
        model.plan_ = values.read_plan(state["plan"])
    d = model.n_features_in_
    if "timed" in state:
        mean, spread = values.read(state["timed"])
        drawn = np.random.default_rng(0).standard_normal((batch_rows(d), d))
        model._batch = np.asarray(mean + spread * drawn, np.float32)
    predict = getattr(model, RECORDED[type(model).__name__][1])
    with np.errstate(all="ignore"):
        found = predict(np.ones((1, d)), Engine(1))
    if hasattr(model, "classes_"):
        several = len(class_pairs(len(model.classes_))) if isinstance(model, DCSVC) else _outputs(model)
        _check_shape("decision values of a row", found, (1, several))
    if hasattr(model, "_spread"):
        _check_shape("_spread", model._spread, found.shape[1:])
        _check_shape("_center", model._center, found.shape[1:])
    if hasattr(model, "_y_std"):
        _check_shape("_y_std", model._y_std, found.shape[1:])
        _check_shape("_y_mean", model._y_mean, found.shape[1:])


# ---- what they share ----------------------------------------------------------------------------


def _check_shape(name: str, array: Rows, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ModelFileError(f"the array {name!r} has shape {array.shape}; expected {shape}. {CURE}")


def of_length(name: str, array: Array, length: int) -> Array:
    """Check that an array has a given length and return it."""
    _check_shape(name, array, (length,))
    return array


def _classes_header(classes: Array, values: Records) -> Any:
    if classes.dtype.kind in PLAIN_KINDS:
        return values.write("classes_", classes)
    if all(isinstance(label, str) for label in classes):
        return list(classes)
    raise InputError(
        f"classes_ holds {classes.dtype} with other things than text ({quoted(classes[0])}), which a model "
        "file cannot hold. Fit with numbers or text as labels."
    )


def _classes(stored: Any, values: Records) -> Array:
    if not isinstance(stored, list):
        labels: Array = values.read(stored)
        return labels
    # Text labels from pandas and CSV files are object arrays of Python strings.
    classes = np.empty(len(stored), object)
    classes[:] = [str(label) for label in stored]
    return classes


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
