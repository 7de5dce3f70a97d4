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
from gramian.exceptions import InputError, ModelFileError
from gramian.model_file.container import CURE, read_container, read_header, write_container
from gramian.model_file.estimators import (
    FITTED_BY,
    estimator_from_header,
    estimator_header,
    feature_names,
    kind_of,
    of_length,
    set_feature_names,
)
from gramian.model_file.records import Records

FORMAT, VERSION = "gramian-model", 1
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
    model : a fitted estimator of :mod:`gramian` (of approximations, ``operator_``, of the size of the data,
        is left out), or a scikit-learn ``Pipeline`` of a ``StandardScaler`` and one of these
    path : file to write, by custom ``*.gramian``; an existing one is replaced
    notes : texts to keep with the model, which :func:`describe` gives back

    Time, memory and disk O(landmarks · (features + blocks on its path · outputs)), independent of n.
    ``random_state`` is kept if it is an integer. Of ``solution_`` the vector is left out, of its evidence
    nothing. The ``teacher`` of a fast model is left out: the model has learned what it said. Of a model that
    was trained by ``partial_fit`` the coefficients are kept and the sums are not: it predicts, and takes no
    further rows (a pickle does); of a frozen approximation its parameters.

    Raises
    ------
    NotFittedError
        For a model that is not fitted.
    InputError
        For another kind of model (the baselines among them), a kernel that is a function (its code is not
        data), or a folder that does not exist.

    >>> import tempfile, numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> model = gm.KernelRidge(gamma=5.0, random_state=0).fit(X, X[:, 0])
    >>> path = Path(tempfile.mkdtemp()) / "model.gramian"
    >>> gm.save(model, path)
    >>> bool((gm.load(path).predict(X) == model.predict(X)).all())
    True
    """
    scaler, estimator, names = _parts(model)
    check_is_fitted(estimator, FITTED_BY[str(kind_of(estimator))])
    kept = {} if notes is None else dict(notes)
    if not all(isinstance(text, str) for pair in kept.items() for text in pair):
        raise InputError(f"notes={notes!r} must map texts to texts.")
    arrays: dict[str, Array] = {}
    values = Records(arrays)
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "library": _library_version(),
        "notes": kept,
        "estimator": estimator_header(estimator, values),
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
        return _model(header, Records(arrays))
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


def _parts(model: Any) -> tuple[StandardScaler | None, BaseEstimator, list[str]]:
    """Return scaler (if any), estimator and the names of the steps."""
    steps = model.steps if isinstance(model, Pipeline) else [("", model)]
    kinds = [type(step) for _, step in steps]
    savable = kind_of(steps[-1][1]) is not None
    if savable and (not kinds[:-1] or kinds[:-1] == [StandardScaler]):
        scaler = steps[0][1] if len(steps) == 2 else None
        if scaler is not None or not isinstance(model, Pipeline):
            return scaler, steps[-1][1], [name for name, _ in steps]
    got = " → ".join(kind.__name__ for kind in kinds)
    got = f"a Pipeline of {got}" if isinstance(model, Pipeline) else got
    raise InputError(
        f"the model is {got}; expected an estimator of gramian, or a Pipeline of StandardScaler and one of "
        "these. Save other models, the baselines among them, with pickle."
    )


def _model(header: Mapping[str, Any], values: Records) -> Any:
    estimator = estimator_from_header(header["estimator"], values)
    stored = header.get("pipeline")
    if stored is None:
        return estimator
    first, last = stored["steps"]
    return Pipeline([(first, _scaler(stored["scaler"], values)), (last, estimator)])


def _scaler_header(scaler: StandardScaler, values: Records) -> dict[str, Any]:
    return {
        "params": {name: bool(getattr(scaler, name)) for name in _SCALER_PARAMS},
        "state": {name: values.write(name, getattr(scaler, name)) for name in _SCALER_STATE},
        "n_features": scaler.n_features_in_,
        "feature_names": feature_names(scaler),
    }


def _scaler(stored: Mapping[str, Any], values: Records) -> StandardScaler:
    params, state = stored["params"], stored["state"]
    scaler = StandardScaler(with_mean=params["with_mean"], with_std=params["with_std"])
    scaler.n_features_in_ = int(stored["n_features"])
    set_feature_names(scaler, stored["feature_names"])
    for name in _SCALER_STATE:
        value = values.read(state[name])
        if isinstance(value, np.ndarray):
            of_length(name, value, scaler.n_features_in_)
        setattr(scaler, name, value)
    return scaler
