"""Export of fast models to files that need no gramian: ONNX, one NumPy file, one C file."""

from __future__ import annotations

import os
from collections.abc import Callable

from sklearn.base import BaseEstimator

from gramian._files import as_path, complete_file
from gramian.exceptions import InputError, did_you_mean
from gramian.export.c_source import c_bytes
from gramian.export.description import Description, describe
from gramian.export.numpy_file import numpy_bytes
from gramian.export.onnx import onnx_bytes

#: For each suffix, a function from a model's description to the bytes of the file.
TARGETS: dict[str, Callable[[Description], bytes]] = {".onnx": onnx_bytes, ".py": numpy_bytes, ".c": c_bytes}


def export(model: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted fast model to a file that predicts without gramian.

    Parameters
    ----------
    model : fitted :class:`gramian.FastKernelClassifier` or :class:`gramian.FastKernelRegressor` (from
        :func:`gramian.compress`, for example), or a scikit-learn ``Pipeline`` of a ``StandardScaler`` and one
        of these, which becomes one model that takes unscaled rows. Or the fast model of a table that
        ``compress`` returns for tables with text, categories, dates or missing values: the file takes raw
        rows, encodes and scales them, and maps predictions back to the target's own units.
    path : file to write; an existing file is replaced once the new one is complete. The suffix chooses the
        format:

        ``.onnx``  a graph of standard operators, for onnxruntime and others. Needs the extra ``export``. Of a
                   table it has one input for each column, with the column's name; NaN, empty text and text
                   that says missing ("NA") are missing values. Text is taken as it stands, so strip spaces
                   around it first: " NA " is an unknown category. It is compared by ``Equal`` of opset 19,
                   many levels of a category by ``LabelEncoder`` of ``ai.onnx.ml``.
        ``.py``    a module that needs NumPy only, with ``predict(X)`` and ``decision(X)``, for tables also
                   ``predict_proba(X)``. Columns of frames, Arrow tables and lists of dicts are found by name,
                   those of arrays and lists by place.
        ``.c``     C99 that needs libm only, with ``NAME_decision`` and ``NAME_predict``, NAME from the path,
                   for tables also ``NAME_probabilities``. Rows of tables are arrays of ``NAME_cell``.

    All three compute in float32, or in float64 for a model with ``dtype="float64"``, and agree with the model
    up to rounding. A row that lies on a border between leaves up to rounding may be sent to the other leaf.
    ONNX and C take rows in float32, and ``AccuracyWarning`` tells of features so far from 0 that they lose
    digits by that. Rows of tables are encoded and scaled in float64.

    Time and memory O(bytes of the model). Raises ``InputError`` for a model that is not fitted or of another
    kind, labels that are neither numbers nor text, labels and categories that a file cannot hold (text with
    NUL; in ONNX empty text beside missing values), a suffix that is none of these, or a missing folder;
    ``MissingPackageError`` for ONNX without the package onnx.

    >>> import tempfile, numpy as np, gramian as gm
    >>> from pathlib import Path
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> m = gm.FastKernelRegressor(n_levels=1, n_units=3, n_directions=2, random_state=0).fit(X, X[:, 0])
    >>> path = Path(tempfile.mkdtemp()) / "model.c"
    >>> gm.export(m, path)
    >>> "void model_decision(const float *x, float *out)" in path.read_text()
    True
    """
    path = as_path(path)
    target = TARGETS.get(path.suffix.lower())
    if target is None:
        raise InputError(
            f"path={str(path)!r} ends in {path.suffix!r}.{did_you_mean(path.suffix, TARGETS)} Give a path "
            f"that ends in one of {', '.join(TARGETS)}: the suffix says what is written."
        )
    content = target(describe(model, path.stem, single=target is not numpy_bytes))
    with complete_file(path) as file:
        file.write(content)
