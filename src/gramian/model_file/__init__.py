"""Trained models as files that hold numbers and text only: no pickle, nothing that could run."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from gramian._typing import Array
from gramian.estimators.explicit import ExplicitMap
from gramian.estimators.ridge import KernelRidge, KernelRidgeClassifier
from gramian.estimators.streaming import StreamingRidge
from gramian.exceptions import InputError, ModelFileError
from gramian.kernels.spec import kernel_from_spec, kernel_to_spec
from gramian.model_file.arrays import predictor_from_arrays, predictor_to_arrays
from gramian.model_file.container import CURE, PLAIN_KINDS, read_container, read_header, write_container
from gramian.model_file.maps import map_from_arrays, map_to_arrays
from gramian.model_file.values import EXPLICIT, Values
from gramian.solvers.solution import Solution, Status

FORMAT, VERSION = "gramian-model", 1
_ESTIMATORS: dict[str, type[StreamingRidge]] = {
    kind.__name__: kind for kind in (KernelRidge, KernelRidgeClassifier)
}
#: Parameters and learned values of a StandardScaler.
_SCALER_PARAMS = ("with_mean", "with_std")
_SCALER_STATE = ("mean_", "scale_", "var_", "n_samples_seen_")


def save(model: Any, path: str | os.PathLike[str], *, notes: Mapping[str, str] | None = None) -> None:
    """Write a fitted model to a file that :func:`load` reads, with no pickle in it.

    The file is a zip of ``model.json`` and plain ``.npy`` arrays: what prediction needs, the constructor's
    parameters, the plan. It is written under another name and renamed, so a file of that name is either the
    old one or the new one, complete.

    Parameters
    ----------
    model : fitted :class:`KernelRidge` or :class:`KernelRidgeClassifier`, or a fitted approximation by random
        features (whose ``operator_``, of the size of the data, is left out), or a scikit-learn ``Pipeline``
        of a ``StandardScaler`` and one of these
    path : file to write, by custom ``*.gramian``; an existing one is replaced
    notes : texts to keep with the model, which :func:`describe` gives back

    Time, memory and disk O(landmarks · (features + blocks on its path · outputs)), independent of n.
    ``random_state`` is kept if it is an integer. Of ``solution_`` the vector is left out, of its evidence
    nothing.

    Raises
    ------
    NotFittedError
        For a model that is not fitted.
    InputError
        For another kind of model, a kernel that is a function (its code is not data), or a folder that
        does not exist.

    >>> import tempfile, numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> model = gm.KernelRidge(gamma=5.0, random_state=0).fit(X, X[:, 0])
    >>> path = Path(tempfile.mkdtemp()) / "model.gramian"
    >>> gm.save(model, path)
    >>> bool((gm.load(path).predict(X) == model.predict(X)).all())
    True
    """
    scaler, estimator, names = _parts(model)
    check_is_fitted(estimator, "features_" if isinstance(estimator, ExplicitMap) else "predictor_")
    kept = {} if notes is None else dict(notes)
    if not all(isinstance(text, str) for pair in kept.items() for text in pair):
        raise InputError(f"notes={notes!r} must map texts to texts.")
    arrays: dict[str, Array] = {}
    values = Values(arrays)
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "library": _library_version(),
        "notes": kept,
        "estimator": _estimator_header(estimator, values),
    }
    if scaler is not None:
        check_is_fitted(scaler)
        header["pipeline"] = {"steps": names, "scaler": _scaler_header(scaler, values)}
    write_container(Path(path), header, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model of a file that :func:`save` wrote: the same kind, fitted, predicting the same bits.

    Nothing in the file is executed. Every array is compared with its checksum, shape and dtype.

    Time and memory O(bytes of the file).

    Raises
    ------
    ModelFileError
        (a ``ValueError``) for a file that is missing, not a gramian model, cut short, changed, or from a
        newer version.
    """
    path = Path(path)
    try:
        header, arrays = read_container(path, FORMAT, VERSION)
        return _model(header, Values(arrays))
    except ModelFileError as error:
        raise ModelFileError(f"{path} cannot be loaded: {error}") from None
    # What a description with a key, a type or a length that is not a model's ends in.
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ModelFileError(
            f"{path} cannot be loaded: its parts do not make a model ({type(error).__name__}: {error}). "
            f"{CURE}"
        ) from error


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return a model file's description: class, parameters, plan, notes and the list of its arrays.

    Raises :class:`ModelFileError` as :func:`load` does; arrays are not read.
    """
    try:
        return read_header(Path(path), FORMAT, VERSION)
    except ModelFileError as error:
        raise ModelFileError(f"{path} cannot be loaded: {error}") from None


def _library_version() -> str:
    try:
        return importlib.metadata.version("gramian")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


# ---- what a model is ---------------------------------------------------------------------------


def _parts(model: Any) -> tuple[StandardScaler | None, StreamingRidge | ExplicitMap, list[str]]:
    """Return scaler (if any), estimator and the names of the steps."""
    steps = model.steps if isinstance(model, Pipeline) else [("", model)]
    kinds = [type(step) for _, step in steps]
    savable = kinds[-1] in _ESTIMATORS.values() or issubclass(kinds[-1], ExplicitMap)
    if savable and (not kinds[:-1] or kinds[:-1] == [StandardScaler]):
        scaler = steps[0][1] if len(steps) == 2 else None
        if scaler is not None or not isinstance(model, Pipeline):
            return scaler, steps[-1][1], [name for name, _ in steps]
    got = " → ".join(kind.__name__ for kind in kinds)
    got = f"a Pipeline of {got}" if isinstance(model, Pipeline) else got
    raise InputError(
        f"the model is {got}; expected {' or '.join(_ESTIMATORS)}, random features, or a Pipeline of "
        "StandardScaler and one of these. Save other models with pickle."
    )


def _model(header: Mapping[str, Any], values: Values) -> Any:
    estimator = _estimator(header["estimator"], values)
    stored = header.get("pipeline")
    if stored is None:
        return estimator
    first, last = stored["steps"]
    return Pipeline([(first, _scaler(stored["scaler"], values)), (last, estimator)])


def _estimator_header(model: StreamingRidge | ExplicitMap, values: Values) -> dict[str, Any]:
    kernel = kernel_to_spec(model.kernel_)
    if isinstance(model, ExplicitMap):
        own, arrays = map_to_arrays(model.map_, "map")
        values.arrays.update(arrays)
        mapped = {
            "kernel": kernel,
            "map": own,
            "n_features": model.n_features_in_,
            "feature_names": _names(model),
            "tile_dtype": model.map_.dtype.name,
            "plan": values.write_plan(model.plan_),
        }
        return {"class": type(model).__name__, "params": values.write_params(model), "state": mapped}
    info, arrays = predictor_to_arrays(model.predictor_)
    values.arrays.update(arrays)
    solution = model.solution_
    state: dict[str, Any] = {
        "kernel": kernel,
        "predictor": info,
        "n_features": model.n_features_in_,
        "feature_names": _names(model),
        "intercept": values.write("intercept_", model.intercept_),
        "rank": model.rank_,
        "plan": values.write_plan(model.plan_),
        "solution": {
            "status": solution.status.name,
            "iterations": solution.iterations,
            "residual": solution.residual,
            "clipped": solution.clipped,
            "jitter": solution.jitter,
        },
    }
    if isinstance(model, KernelRidge):
        state["flat"] = bool(model._flat)
    elif isinstance(model, KernelRidgeClassifier):
        state["classes"] = _classes_header(model.classes_, values)
    return {"class": type(model).__name__, "params": values.write_params(model), "state": state}


def _transformer(header: Mapping[str, Any], values: Values) -> ExplicitMap:
    state = header["state"]
    kernel = kernel_from_spec(state["kernel"])
    columns = map_from_arrays(
        state["map"], values.arrays, "map", int(state["n_features"]), state["tile_dtype"]
    )
    model = values.read_params(EXPLICIT[header["class"]], header["params"])
    model._set_map(columns, kernel)
    _set_names(model, state["feature_names"])
    model.plan_ = values.read_plan(state["plan"])
    return model


def _estimator(header: Mapping[str, Any], values: Values) -> StreamingRidge | ExplicitMap:
    name, state = header["class"], header["state"]
    if name in EXPLICIT:
        return _transformer(header, values)
    if name not in _ESTIMATORS:
        raise ModelFileError(
            f"the model is a {name!r}; expected {' or '.join(_ESTIMATORS)}. The file may come from a newer "
            "version: upgrade gramian."
        )
    model = values.read_params(_ESTIMATORS[name], header["params"])
    n_features = int(state["n_features"])
    model.n_features_in_ = n_features
    _set_names(model, state["feature_names"])
    model.kernel_ = kernel_from_spec(state["kernel"])
    model.predictor_ = predictor_from_arrays(state["predictor"], values.arrays, model.kernel_, n_features)
    model.intercept_ = _of_length("intercept_", values.read(state["intercept"]), model.predictor_.n_outputs)
    model.rank_ = int(state["rank"])
    model.plan_ = values.read_plan(state["plan"])
    evidence = dict(state["solution"])
    status = Status[evidence.pop("status")]
    model.solution_ = Solution(value=np.empty(0), status=status, **evidence)
    if isinstance(model, KernelRidge):
        model._flat = bool(state["flat"])
    elif isinstance(model, KernelRidgeClassifier):
        model.classes_ = _classes(state["classes"], values)
        outputs = 1 if len(model.classes_) == 2 else len(model.classes_)
        _of_length("intercept_", model.intercept_, outputs)
    return model


def _of_length(name: str, array: Array, length: int) -> Array:
    if array.shape != (length,):
        raise ModelFileError(f"the array {name!r} has shape {array.shape}; expected ({length},). {CURE}")
    return array


def _classes_header(classes: Array, values: Values) -> Any:
    if classes.dtype.kind in PLAIN_KINDS:
        return values.write("classes_", classes)
    if all(isinstance(label, str) for label in classes):
        return list(classes)
    raise InputError(
        f"classes_ holds {classes.dtype} with other things than text ({classes[0]!r}), which a model file "
        "cannot hold. Fit with numbers or text as labels."
    )


def _classes(stored: Any, values: Values) -> Array:
    if not isinstance(stored, list):
        labels: Array = values.read(stored)
        return labels
    # Text labels as pandas and CSV files give them: an array of Python's strings.
    classes = np.empty(len(stored), object)
    classes[:] = [str(label) for label in stored]
    return classes


def _names(model: BaseEstimator) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _set_names(model: BaseEstimator, names: list[str] | None) -> None:
    if names is not None:
        if len(names) != model.n_features_in_:
            raise ModelFileError(f"{len(names)} feature names; expected {model.n_features_in_}. {CURE}")
        model.feature_names_in_ = np.asarray(names, object)


def _scaler_header(scaler: StandardScaler, values: Values) -> dict[str, Any]:
    return {
        "params": {name: bool(getattr(scaler, name)) for name in _SCALER_PARAMS},
        "state": {name: values.write(name, getattr(scaler, name)) for name in _SCALER_STATE},
        "n_features": scaler.n_features_in_,
        "feature_names": _names(scaler),
    }


def _scaler(stored: Mapping[str, Any], values: Values) -> StandardScaler:
    params, state = stored["params"], stored["state"]
    scaler = StandardScaler(with_mean=params["with_mean"], with_std=params["with_std"])
    scaler.n_features_in_ = int(stored["n_features"])
    _set_names(scaler, stored["feature_names"])
    for name in _SCALER_STATE:
        value = values.read(state[name])
        if isinstance(value, np.ndarray):
            _of_length(name, value, scaler.n_features_in_)
        setattr(scaler, name, value)
    return scaler
