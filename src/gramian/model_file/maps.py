"""Conversion of explicit feature maps to fields and arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from gramian._typing import Array
from gramian.approximations.explicit import ExplicitColumns
from gramian.approximations.fastfood import FastfoodColumns
from gramian.approximations.random_fourier import FourierColumns
from gramian.approximations.random_maclaurin import MaclaurinColumns
from gramian.approximations.tensor_sketch import TensorSketchColumns
from gramian.exceptions import ModelFileError
from gramian.model_file.container import CURE

_MAPS: dict[str, type[ExplicitColumns]] = {
    kind.__name__: kind for kind in (FastfoodColumns, FourierColumns, MaclaurinColumns, TensorSketchColumns)
}


def map_to_arrays(columns: ExplicitColumns, name: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return a description (class and numbers) of a map, and its arrays with the name prefix ``name``."""
    values = {field.name: getattr(columns, field.name) for field in fields(columns)}  # type: ignore[arg-type]
    arrays = {f"{name}_{k}": v for k, v in values.items() if isinstance(v, np.ndarray)}
    plain = {k: v for k, v in values.items() if not isinstance(v, np.ndarray)}
    return {"class": type(columns).__name__, "fields": plain}, arrays


def map_from_arrays(
    info: Mapping[str, Any], arrays: Mapping[str, Array], name: str, n_features: int, dtype: Any
) -> ExplicitColumns:
    """Rebuild a map from the output of :func:`map_to_arrays`, and test it on a row of zeros.

    Raises :class:`ModelFileError` if the map does not take ``n_features`` features in tiles of ``dtype``.
    """
    kind = _MAPS.get(info["class"])
    if kind is None:
        raise ModelFileError(f"the feature map {info['class']!r} is not one of {', '.join(_MAPS)}. {CURE}")
    missing = [field.name for field in fields(kind) if field.name not in info["fields"]]  # type: ignore[arg-type]
    try:
        parts: dict[str, Any] = {**info["fields"], **{key: arrays[f"{name}_{key}"] for key in missing}}
        columns = kind(**parts)
        with np.errstate(all="ignore"):
            tried = columns(np.zeros((1, columns.n_features)))
    except (ValueError, IndexError, TypeError, AttributeError, MemoryError) as error:
        raise ModelFileError(
            f"the arrays of the {kind.__name__} do not fit together ({error}). {CURE}"
        ) from None
    if (columns.n_features, columns.dtype) != (n_features, np.dtype(dtype)) or not np.isfinite(tried).all():
        raise ModelFileError(
            f"the {kind.__name__} maps {columns.n_features} features to {columns.dtype}; expected "
            f"{n_features} to finite {np.dtype(dtype)}. {CURE}"
        )
    return columns
