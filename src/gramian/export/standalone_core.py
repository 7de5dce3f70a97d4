"""Code that exported Python files share: the fast model of rows of numbers, whose arrays a file appends."""

from __future__ import annotations

import base64
import functools
import io
import json
from typing import Any

import numpy as np


def _labelled(values: np.ndarray) -> np.ndarray:
    """Return the class of each row of decision values, or the predictions of a regressor as they are."""
    labels = _model().get("labels")
    if labels is None:
        return values
    return labels[(values > 0).astype(np.intp) if len(labels) == 2 else values.argmax(axis=1)]


def _matched(rows: Any) -> Any:
    """Return a table with its columns in the order of the training, found by name.

    Rows without names stay as they are, and so do all columns if the training rows had no names.
    """
    if hasattr(rows, "collect_schema") and not hasattr(rows, "__array__"):  # a LazyFrame of polars
        rows = rows.collect()
    dicts = isinstance(rows, (list, tuple)) and len(rows) > 0 and isinstance(rows[0], dict)
    if dicts:
        labels = list(dict.fromkeys(name for row in rows for name in row))
    else:
        labels = list(getattr(rows, "column_names", getattr(rows, "columns", ())))
    labels, model = list(map(str, labels)), _model()
    names = model["names"] if model["by_name"] else labels
    if not labels or _places(labels, names) or _places(names, labels):
        return rows
    unused = [column["name"] for column in model.get("columns", ()) if column["kind"] == "unused"]
    missing = [name for name in names if name not in labels and name not in unused]
    wrong = missing or [label for label in labels if label not in names or labels.count(label) > 1]
    if wrong:
        what = "are missing" if missing else "are not those of the training, or there twice"
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise ValueError(f"Columns of the rows {what}: {', '.join(map(repr, wrong[:5]))}{more}.")
    if dicts:
        return [[row.get(name) for name in names] for row in rows]
    table = np.asarray(rows)
    return table[:, [labels.index(name) if name in labels else 0 for name in names]]


def _places(names: list, others: list) -> bool:
    """Return whether names are the places of columns, and the others are no numbers."""
    return names == list(map(str, range(len(names)))) and not any(name.isdecimal() for name in others)


def _values(X: Any) -> np.ndarray:
    """Return the values (n, outputs) of rows X (n, features)."""
    model = _model()
    projection, forms, weights = model["projection"], model["forms"], model["weights"]
    center = model.get("center")
    X = np.asarray(_matched(X), weights.dtype if center is None else np.float64)
    if X.ndim != 2 or X.shape[1] != len(projection):
        raise ValueError(f"X has shape {X.shape}; expected (n, {len(projection)}).")
    if center is not None:  # features far from 0 keep their digits
        X = (X - center).astype(weights.dtype)
    z = X @ projection - model["offset"]
    ends = np.hstack([z, np.ones((len(z), 1), z.dtype)])
    leaves = _leaves(ends, model["planes"])
    points = np.hstack([ends, np.square(z)])
    values = np.empty((len(z), weights.shape[2]), z.dtype)
    units = weights.shape[1]
    order = np.argsort(leaves, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(leaves[order])) + 1):
        if len(rows):
            leaf = leaves[rows[0]]
            found = points[rows] @ forms[leaf]
            values[rows] = (1 / np.maximum(found[:, :units], 1)) @ weights[leaf] + found[:, units:]
    return values


def _leaves(points: np.ndarray, planes: np.ndarray) -> np.ndarray:
    """Return the leaf of each row: right in the tree where its half-space's product is above 0."""
    node = np.zeros(len(points), np.intp)
    for _ in range(len(planes).bit_length()):
        node = 2 * node + 1 + (np.einsum("ij,ij->i", points, planes[node]) > 0)
    return node - len(planes)


@functools.cache
def _model() -> dict[str, Any]:
    """Return by name the arrays, such as forms (leaves, 2 directions + 1, units + outputs), and all else."""
    with np.load(io.BytesIO(base64.b64decode(NUMBERS)), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return {**json.loads(arrays.pop("rest").tobytes()), **arrays}


#: The arrays, and JSON for all else, as an .npz file in base64.
NUMBERS = ""
