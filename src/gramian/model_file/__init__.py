"""Model files, ``save`` and ``load``: numbers and text only, no pickle, nothing executable."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from gramian._files import as_path
from gramian._typing import Array
from gramian.exceptions import InputError, ModelFileError
from gramian.model_file.container import CURE, read_container, read_header, write_container
from gramian.model_file.estimators import (
    FITTED_BY,
    estimator_from_header,
    estimator_header,
    kind_of,
)
from gramian.model_file.records import Records
from gramian.model_file.steps import SCALERS, read_step, width_of, write_step

FORMAT, VERSION = "gramian-model", 1
#: Parameters of a StandardScaler, of files with one such step.
_SCALER_PARAMS = ("with_mean", "with_std")


def save(model: Any, path: str | os.PathLike[str], *, notes: Mapping[str, str] | None = None) -> None:
    """Write a fitted model to a file that :func:`load` reads, with no pickle in it.

    The file is a zip of ``model.json`` and plain ``.npy`` arrays: what prediction needs, the constructor's
    parameters, the plan. It is written under another name and renamed, so a file of that name is either the
    old one or the new one, complete.

    Parameters
    ----------
    model : a fitted estimator of :mod:`gramian` (of approximations, ``operator_``, of the size of the data,
        is left out), or a scikit-learn ``Pipeline`` that ends in one of these. The steps before it may be
        ``StandardScaler``, ``MinMaxScaler``, ``RobustScaler``, ``OneHotEncoder`` and a
        ``ColumnTransformer`` of them.
    path : file to write, by custom ``*.gramian``. An existing one is replaced and keeps its mode and owner;
        a symbolic link stays, and what it leads to is replaced.
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
        For another kind of model (the baselines among them), a step of a pipeline that is none of those
        above, a kernel that is a function (its code is not data), a folder that does not exist, or a path
        that is not one of a regular file.

    >>> import tempfile, numpy as np, gramian as gm
    >>> from pathlib import Path
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> model = gm.KernelRidge(gamma=5.0, random_state=0).fit(X, X[:, 0])
    >>> path = Path(tempfile.mkdtemp()) / "model.gramian"
    >>> gm.save(model, path)
    >>> bool((gm.load(path).predict(X) == model.predict(X)).all())
    True
    """
    file = as_path(path)
    steps = model.steps if isinstance(model, Pipeline) else [("", model)]
    estimator = _estimator_of(model)
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
    if isinstance(model, Pipeline):
        header["pipeline"] = {
            "steps": [name for name, _ in steps],
            "before": [write_step(f"the step {name!r}", step, values) for name, step in steps[:-1]],
        }
    write_container(file, header, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model of a file that :func:`save` wrote: the same kind, fitted, predicting the same bits.

    Nothing in the file is executed. Every array is compared with its checksum, shape and dtype.

    Time and memory O(bytes of the file).

    Raises
    ------
    ModelFileError
        (a ``ValueError``) for a file that is missing, not a gramian model, cut short, changed, or from a
        newer version.
    InputError
        (a ``ValueError`` too) for a path that is None, empty or not a path.
    """
    path = as_path(path)
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
    path = as_path(path)
    try:
        return read_header(path, FORMAT, VERSION)
    except ModelFileError as error:
        raise ModelFileError(f"{path} cannot be loaded: {error}") from None


def _library_version() -> str:
    try:
        return importlib.metadata.version("gramian")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


# ---- what a model is ---------------------------------------------------------------------------


def _estimator_of(model: Any) -> BaseEstimator:
    """Return the estimator of gramian that a model is, or that a pipeline ends in."""
    steps = model.steps if isinstance(model, Pipeline) else [("", model)]
    estimator = steps[-1][1]
    if kind_of(estimator) is not None:
        return estimator
    got = " → ".join(type(step).__name__ for _, step in steps)
    got = f"a Pipeline of {got}" if isinstance(model, Pipeline) else got
    raise InputError(
        f"the model is {got}; expected an estimator of gramian, or a Pipeline that ends in one of these. "
        "Save other models, the baselines among them, with pickle."
    )


def _model(header: Mapping[str, Any], values: Records) -> Any:
    estimator = estimator_from_header(header["estimator"], values)
    stored = header.get("pipeline")
    if stored is None:
        return estimator
    before = [read_step(one, values) for one in _steps_of(stored)]
    d = estimator.n_features_in_
    if before and width_of(before[-1]) != d:
        raise ModelFileError(f"the steps give {width_of(before[-1])} columns; the model takes {d}. {CURE}")
    return Pipeline([*zip(stored["steps"], [*before, estimator], strict=True)])


def _steps_of(stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the steps before the estimator; the first files had one StandardScaler."""
    if "scaler" not in stored:
        return list(stored["before"])
    scaler = stored["scaler"]
    learned = {name: scaler["state"][name] for name in SCALERS["StandardScaler"][1]}
    params = {name: scaler["params"][name] for name in _SCALER_PARAMS}
    own = {"n_features": scaler["n_features"], "feature_names": scaler["feature_names"], "output": None}
    return [{"class": "StandardScaler", "params": params, "learned": learned, **own}]
