"""Shapley values of the columns of rows, of the function that a fitted model computes from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray, Rows, RowsLike
from gramian.data.cells import DATE
from gramian.data.source import ArraySource, RowSource, row_blocks
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import InputError
from gramian.explanation.machines import Explained, Machines
from gramian.explanation.separable import ProductTerm, product_terms
from gramian.explanation.shapley import product_shares, sampled_shares
from gramian.kernels.columns import dense
from gramian.kernels.precomputed import StoredRows
from gramian.tables import EncodedRows, TableColumns
from gramian.tables.importance.permutation import column_places
from gramian.tables.input import checked_table
from gramian.tables.serving import TableServer

#: Numbers of the rows that are predicted at a time, and most of these rows. Chosen by hand.
NUMBERS, MOST_ROWS = 1 << 20, 4096
#: Rows that stand for the background, numbers of an array of factors, which stays in cache, and points at a
#: time. Chosen by hand.
BACKGROUND_ROWS, FACTORS, MOST_POINTS = 500, 1 << 17, 4096


@dataclass(frozen=True)
class ColumnValues:
    """Shapley values (n, d) of columns, their standard errors, or None of exact ones, and the columns' names.

    ``background`` says of which rows an absent column takes its values. Precomputed kernels have no columns.
    """

    values: Float64Array | None = None
    errors: Float64Array | None = None
    names: tuple[str, ...] = ()
    background: str = ""


def column_values(
    machines: Machines, X: RowsLike, X_train: RowsLike | None, explained: Explained, n_draws: int
) -> ColumnValues:
    """Return the Shapley values of the columns; none for precomputed kernels, whose rows have no columns.

    A column that is absent has the values of the background rows, drawn apart from other columns. Exact where
    kernels are products over the columns and the model is a linear map of their sums, else estimated from
    ``n_draws`` draws. Memory: some arrays of a megabyte a thread and the answer.
    """
    model = machines.model
    source = table_rows(model, X) if isinstance(model, TableServer) else machines.read(X)
    if isinstance(source, StoredRows):
        return ColumnValues()
    names, players = named_places(model, int(source.shape[1]))
    background, said = _background(machines, source, X_train)
    terms = _separated(machines)

    values, errors = (np.zeros((int(source.shape[0]), len(players))) for _ in range(2))
    step = int(np.clip(NUMBERS // max(1, int(source.shape[1])), 1, MOST_ROWS))
    for where, block in row_blocks(source, step):
        rows = dense(block, np.float64)
        # A column that is equal in all rows of the block and the background is worth nothing.
        used = [
            p
            for p, places in enumerate(players)
            if any((part[:, places] != background[0, places]).any() for part in (rows, background))
        ]
        own, at = [players[p] for p in used], (where.start + np.arange(len(rows))[:, None], used)
        if not used:
            continue
        part = explained.rows(where)
        if terms:
            values[at] = _exact(machines, terms, rows, background, own, part)
            continue

        def predict(changed: Array, numbers: IntArray, part: Explained = part) -> Float64Array:
            found = machines.predictions(machines.values(scaled_rows(model, changed))[0])
            return part.signs[numbers] * found[np.arange(len(changed)), part.outputs[numbers]]

        values[at], errors[at] = sampled_shares(predict, rows, background, own, n_draws, step)
    return ColumnValues(values, None if terms else errors, names, said)


def _exact(
    machines: Machines,
    terms: Sequence[tuple[ProductTerm, ...]],
    rows: Float64Array,
    background: Float64Array,
    players: list[IntArray],
    explained: Explained,
) -> Float64Array:
    """Return the values (n, players) of the players' places, summed over machines, points and terms."""
    out = np.zeros((len(rows), len(players)))
    rest = np.setdiff1d(np.arange(rows.shape[1]), np.concatenate(players))
    source = scaled_rows(machines.model, rows)
    for each, own_terms in zip(machines.machines, terms, strict=True):
        X, B = (
            dense(each.input.over(scaled_rows(machines.model, part)).rows(slice(0, len(part))), np.float64)
            for part in (rows, background)
        )
        Z = np.concatenate([dense(points, np.float64) for points in each.predictor.landmarks])
        for group in each.terms(source, slice(0, len(rows))):
            weights = machines.coefficients(each, group, explained.rows(group.rows))
            for points in row_slices(len(group.points), MOST_POINTS):
                near = Z[group.points[points]]
                height = max(1, FACTORS // (len(players) * len(near)))
                for term in own_terms:
                    absent = np.stack([term.factors(B, near, places).mean(axis=0) for places in players])

                    def work(
                        part: slice,
                        X: Float64Array = X[group.rows],
                        c: Float64Array = term.scale * weights[:, points],
                        near: Float64Array = near,
                        term: ProductTerm = term,
                        absent: Float64Array = absent[:, None],
                    ) -> Float64Array:
                        present = np.stack([term.factors(X[part], near, places) for places in players])
                        return product_shares(present, absent, c[part] * term.factors(X[part], near, rest))

                    parts = each.engine.map(work, row_slices(len(group.rows), height))
                    out[group.rows] += np.concatenate(parts)
    return out


def _separated(machines: Machines) -> list[tuple[ProductTerm, ...]]:
    """Return the product terms of each machine's kernel; empty if the model has no exact values."""
    found = list[tuple[ProductTerm, ...]]()
    for each in machines.machines:
        metric = each.input.metric
        if metric is not None and metric.scales is None:
            return []
        width = int(each.predictor.landmarks[0].shape[1])
        found.append(product_terms(each.predictor.kernel, width))
    return found if machines.straight and all(found) else []


def scaled_rows(model: BaseEstimator, rows: Array) -> RowSource:
    """Return rows of numbers as a model's kernels take them: those of a table are scaled."""
    return ArraySource(np.asarray(model.scaling_.apply(rows)) if isinstance(model, TableServer) else rows)


def table_rows(model: TableServer, X: RowsLike) -> RowSource:
    """Return the rows of a table as numbers, not scaled."""
    return EncodedRows(model.columns_, checked_table(model, X, reset=False))


def named_places(model: BaseEstimator, d: int) -> tuple[tuple[str, ...], list[IntArray]]:
    """Return the names of the columns, and the places of each among the d numbers of a row."""
    if isinstance(model, TableServer):
        return model.columns_.column_names, column_places(model.columns_)
    names = getattr(model, "feature_names_in_", [f"feature {j}" for j in range(d)])
    return tuple(map(str, names)), [np.array([j]) for j in range(d)]


def _background(machines: Machines, source: RowSource, X_train: RowsLike | None) -> tuple[Float64Array, str]:
    """Return the rows from which absent columns take their values, and what they are."""
    table = isinstance(machines.model, TableServer)
    if X_train is not None:
        known = table_rows(machines.model, X_train) if table else machines.read(X_train)
        n = int(known.shape[0])
        if n == 0:
            raise InputError("X_train has no rows; absent columns take their values from at least one.")
        chosen = np.sort(np.random.default_rng(0).permutation(n)[:BACKGROUND_ROWS])
        return dense(
            known.take(chosen), np.float64
        ), f"{len(chosen):,} row{'s' if len(chosen) != 1 else ''} of X_train"
    if table:
        reference = table_reference(machines.model.columns_)
        return reference[None, :], "one row of medians, and of no known category"
    if sp.issparse(source.rows(slice(0, 1))):
        return np.zeros((1, int(source.shape[1]))), "one row of zeros"
    return _known_rows(machines)


def table_reference(columns: TableColumns) -> Float64Array:
    """Return an encoded row of medians and no category."""
    reference = np.zeros(columns.width)
    # Dates count from their median, which is 0; all places of a group without a category are 0.
    for column, own in zip(columns.columns, column_places(columns), strict=True):
        if len(own) and column.varies and column.kind != DATE:
            reference[own[0]] = column.centre
    return reference


def _known_rows(machines: Machines) -> tuple[Float64Array, str]:
    """Return some of the rows that the first machine keeps, in the units of X."""
    machine = machines.machines[0]
    scaler, metric, predictor = machine.input.scaler, machine.input.metric, machine.predictor
    if metric is not None and metric.scales is None:
        raise InputError(
            "a full metric mixes the columns, so the model does not know rows from which an absent column "
            "could take its values. Pass X_train, or columns=False."
        )
    n = predictor.n_points
    chosen = np.sort(np.random.default_rng(0).permutation(n)[:BACKGROUND_ROWS])
    kept: list[Rows] = [predictor.point(int(j)) for j in chosen]
    rows = np.concatenate([dense(row, np.float64) for row in kept])
    if metric is not None:
        # A column of scale 0 counts for nothing, whatever its value.
        rows = np.divide(rows, metric.scales, out=np.zeros_like(rows), where=metric.scales > 0)
    if scaler is not None:
        rows = rows * scaler.scale + scaler.mean
    what = "training rows" if isinstance(predictor, ExactPredictor) else "landmarks"
    return rows, f"{len(rows):,} of the model's {n:,} {what}"
