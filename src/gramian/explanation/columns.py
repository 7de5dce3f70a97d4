"""Contributions of single columns to predictions, by occlusion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray, RowsLike
from gramian.data.cells import DATE
from gramian.data.source import ArraySource, RowSource, row_blocks
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import InputError
from gramian.explanation.machines import Machines
from gramian.kernels.columns import dense
from gramian.kernels.precomputed import StoredRows
from gramian.tables import EncodedRows, TableColumns
from gramian.tables.column import LevelMeans
from gramian.tables.importance.permutation import column_places
from gramian.tables.input import checked_table
from gramian.tables.serving import TableServer

#: Numbers of the rows that are predicted at a time, and most of these rows. Chosen by hand.
NUMBERS, MOST_ROWS = 1 << 20, 4096


def contributions(
    machines: Machines, X: RowsLike, X_train: RowsLike | None, outputs: IntArray, signs: Float64Array
) -> tuple[Float64Array | None, tuple[str, ...]]:
    """Return f(x) − f(x with a column at its reference), (n, d), and names of the columns.

    None, and no names, for precomputed kernels, whose rows have no columns. Of sparse rows the reference is 0
    without ``X_train``; columns that already are at their reference cost nothing. Time O(d) predictions a
    row, memory a block of rows and the answer.
    """
    model, table = machines.model, isinstance(machines.model, TableServer)
    source = _encoded(model, X) if table else machines.read(X)
    if isinstance(source, StoredRows):
        return None, ()
    if table:
        names, places = model.columns_.column_names, column_places(model.columns_)
        reference = table_reference(model.columns_, None if X_train is None else _encoded(model, X_train))
    else:
        d = source.shape[1]
        named = getattr(model, "feature_names_in_", None)
        names = tuple(f"feature {j}" for j in range(d)) if named is None else tuple(map(str, named))
        places = [np.array([j]) for j in range(d)]
        if X_train is not None:
            reference = _mean(machines.read(X_train))
        else:
            thin = sp.issparse(source.rows(slice(0, 1)))
            reference = np.zeros(d) if thin else _known_mean(machines)

    def predict(rows: Array, numbers: IntArray) -> Float64Array:
        scaled = ArraySource(np.asarray(model.scaling_.apply(rows)) if table else rows)
        found = machines.predictions(machines.values(scaled)[0])
        return signs[numbers] * found[np.arange(len(rows)), outputs[numbers]]

    out = np.zeros((int(source.shape[0]), len(places)))
    step = int(np.clip(NUMBERS // max(1, int(source.shape[1])), 1, MOST_ROWS))
    for where, rows in row_blocks(source, step):
        own = dense(rows)
        own = own if own.dtype.kind == "f" else own.astype(np.float64)
        out[where] = _occluded(own, where.start, places, reference.astype(own.dtype), step, predict)
    return out, names


def _occluded(
    rows: Array,
    first: int,
    places: list[IntArray],
    reference: Array,
    step: int,
    predict: Callable[[Array, IntArray], Float64Array],
) -> Float64Array:
    """Return the contributions in a block of rows, which begins with the row ``first``."""
    out = np.zeros((len(rows), len(places)))
    changed = [(rows[:, own] != reference[own]).any(axis=1) for own in places]
    i, j = np.nonzero(np.column_stack(changed)) if places else (np.zeros(0, np.intp),) * 2
    whole = predict(rows, first + np.arange(len(rows))) if len(i) else np.zeros(len(rows))
    for part in row_slices(len(i), step):
        copies = rows[i[part]]
        for k, column in enumerate(j[part]):
            copies[k, places[column]] = reference[places[column]]
        out[i[part], j[part]] = whole[i[part]] - predict(copies, first + i[part])
    return out


def _encoded(model: TableServer, X: RowsLike) -> RowSource:
    """Return the rows of a table as numbers, not scaled."""
    return EncodedRows(model.columns_, checked_table(model, X, reset=False))


def table_reference(columns: TableColumns, known: RowSource | None) -> Float64Array:
    """Return the encoded reference: medians and no category, or means and most frequent categories."""
    reference = np.zeros(columns.width)
    if known is None:
        # Dates count from their median, which is 0; all places of a group without a category are 0.
        for column, own in zip(columns.columns, column_places(columns), strict=True):
            if len(own) and column.varies and column.kind != DATE:
                reference[own[0]] = column.centre
        return reference
    reference = _mean(known)
    for group in columns.groups:
        places = np.array(group, np.intp)
        likeliest = places[reference[places].argmax()]
        reference[places] = 0.0
        reference[likeliest] = 1.0
    for place in columns.two_valued:
        low, high = (ends[place] for ends in columns.ranges)
        reference[place] = high if reference[place] > 0.5 * (low + high) else low
    for place, each in columns.levels:
        if isinstance(each, LevelMeans):
            each.write(reference[None, :], place)
    return reference


def _known_mean(machines: Machines) -> Float64Array:
    """Return the mean row that the model knows, in the units of X."""
    machine = machines.machines[0]
    scaler, metric, predictor = machine.input.scaler, machine.input.metric, machine.predictor
    if scaler is not None:
        return scaler.mean
    if metric is not None and metric.scales is None:
        raise InputError(
            "a full metric mixes the columns, so the model does not know their means, from which "
            "contributions are measured. Pass X_train, or columns=False."
        )
    if isinstance(predictor, ExactPredictor):
        mean = _mean(ArraySource(predictor.rows))
    else:
        held = [_mean(ArraySource(Z)) * Z.shape[0] for Z in predictor.landmarks if Z.shape[0]]
        mean = np.asarray(sum(held)) / sum(Z.shape[0] for Z in predictor.landmarks)
    if metric is None:
        return mean
    assert metric.scales is not None
    # A column of scale 0 counts for nothing, whatever its reference.
    return np.divide(mean, metric.scales, out=np.zeros_like(mean), where=metric.scales > 0)


def _mean(source: RowSource) -> Float64Array:
    total = np.zeros(int(source.shape[1]))
    for _, rows in row_blocks(source, MOST_ROWS):
        total += np.asarray(rows.sum(axis=0, dtype=np.float64)).ravel()
    return total / source.shape[0]
