"""Model files with ``save`` and ``load``: numbers and text only, no pickle, nothing executable."""

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
from gramian.exceptions import MESSAGE, InputError, ModelFileError, printable, shortened
from gramian.model_file.container import CURE, read_container, read_header, write_container
from gramian.model_file.parts import KNOWN
from gramian.model_file.records import PartRecords
from gramian.model_file.steps import check_chain, check_step


def save(
    model: BaseEstimator, path: str | os.PathLike[str], *, notes: Mapping[str, str] | None = None
) -> None:
    """Write a fitted model to a file that :func:`load` reads, with no pickle in it.

    The file is a zip of ``model.json`` and plain ``.npy`` arrays. It holds what prediction needs, the
    constructor's parameters and the plan. It is written under another name and then renamed, so that ``path``
    always holds either the complete old file or the complete new one.

    Parameters
    ----------
    model : a fitted estimator of :mod:`gramian`, or a scikit-learn ``Pipeline`` that ends in one. Earlier
        steps may be ``StandardScaler``, ``MinMaxScaler``, ``RobustScaler``, ``OneHotEncoder`` and a
        ``ColumnTransformer`` of them. The ``operator_`` of an approximation, as large as the data, is left
        out.
    path : file to write, usually ``*.gramian``. An existing file is replaced and keeps its mode and owner; if
        it is a symbolic link, the link stays and its target is replaced.
    notes : texts to keep with the model, returned by :func:`describe`.

    Time, memory and disk O(landmarks · (features + blocks on its path · outputs)), independent of n.
    ``random_state`` is kept if it is an integer. ``solution_`` is kept without its vector. The ``teacher`` of
    a fast model is left out, since predictions do not need it. A model trained by ``partial_fit`` keeps its
    coefficients but not its sums: once loaded it predicts but takes no further rows (a pickle does). A frozen
    approximation keeps its parameters.

    Raises
    ------
    NotFittedError
        For a model that is not fitted.
    InputError
        For another kind of model, another step in a pipeline, a kernel given as a function (code is not
        stored), a folder that does not exist, or a path that is no regular file.

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
    *before, (_, estimator) = steps
    if KNOWN.get(type(estimator).__name__) is not type(estimator):
        got = " → ".join(type(step).__name__ for _, step in steps)
        raise InputError(
            f"the model is {'a Pipeline of ' if isinstance(model, Pipeline) else ''}{got}; expected an "
            "estimator of gramian, or a Pipeline that ends in one of these. Save other models with pickle."
        )
    check_is_fitted(estimator)
    kept = {} if notes is None else dict(notes)
    if not all(isinstance(text, str) for pair in kept.items() for text in pair):
        raise InputError(f"notes={notes!r} must map texts to texts.")
    for name, step in before:
        check_step(f"the step {name!r}", step)
    arrays: dict[str, Array] = {}
    values = PartRecords(arrays)
    header: dict[str, Any] = {
        "library": _library_version(),
        "notes": kept,
        "estimator": values.write_model(estimator),
    }
    if isinstance(model, Pipeline):
        names = [name for name, _ in steps]
        header["pipeline"] = {"steps": names, "before": [values.write(name, step) for name, step in before]}
    write_container(file, header, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read the model of a file that :func:`save` wrote; it is fitted and holds exactly the same numbers.

    Nothing in the file is executed. Every array is checked against its checksum, shape and dtype, and all
    parts against each other before anything is computed from them; the model answers two rows at the end.

    Time and memory O(bytes of the file).

    Raises
    ------
    ModelFileError
        (a ``ValueError``) for a file that is missing, not a gramian model, cut short, changed, or of another
        version of the format.
    InputError
        (a ``ValueError`` too) for a path that is None, empty or not a path.
    """
    path = as_path(path)
    try:
        header, arrays = read_container(path)
        return _model(header, PartRecords(arrays, path.stat().st_size))
    except ModelFileError as error:
        raise ModelFileError(f"{path} cannot be loaded: {printable(str(error))}") from None
    except OSError:
        raise
    # Any other error is of parts that do not fit together in a way that no check names.
    except Exception as error:
        said = printable(shortened(str(error), MESSAGE))
        raise ModelFileError(
            f"{path} cannot be loaded: its parts do not make a model ({type(error).__name__}: {said}). {CURE}"
        ) from error


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return a model file's description (class, parameters, plan, notes, list of arrays).

    Raises :class:`ModelFileError` as :func:`load` does. Arrays are not read.
    """
    path = as_path(path)
    try:
        return read_header(path)
    except ModelFileError as error:
        raise ModelFileError(f"{path} cannot be loaded: {printable(str(error))}") from None


def _library_version() -> str:
    try:
        return importlib.metadata.version("gramian")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


def _model(header: Mapping[str, Any], values: PartRecords) -> Any:
    estimator = values.read_model(header["estimator"])
    stored = header.get("pipeline")
    if stored is None:
        return estimator
    before = [values.read(one) for one in stored["before"]]
    check_chain([*before, estimator])
    return Pipeline([*zip(stored["steps"], [*before, estimator], strict=True)])
