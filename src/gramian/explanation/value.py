"""Explanation of predictions as a frozen value: shares of rows and contributions of columns."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.exceptions import InputError
from gramian.summary import Grid, Shown, Summary, short

#: What the points of a sum are: rows of the training set, or points that stand for many of them.
ROWS, LANDMARKS = "training rows", "landmarks"
#: Predictions, rows and columns that a summary lists. Chosen by hand.
MOST_PREDICTIONS, MOST_LISTED = 3, 10


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Shown):
    r"""Shares of rows and contributions of columns in n predictions, made by ``model.explain(X)``.

    A kernel machine predicts f(x) = base + Σ_j k(x, z_j) c_j. The share of the point z_j is k(x, z_j) c_j, so

        prediction = base + shares.sum(axis=1) + rest + other.

    Attributes
    ----------
    prediction : (n,), the explained number of each row, in the unit that ``unit`` names.
    base : (n,), the prediction without any share: the intercept.
    kind : "training rows", or "landmarks", which stand for many training rows: centres of clusters, or rows
        that were picked from them.
    points : (n, k) numbers of the points with the largest shares (or similarities), the largest first: row
        numbers of the training rows (of those with a weight above 0), or numbers of landmarks.
    similarities : (n, k), k(x, z_j); in a mean of models the mean of their kernels.
    weights : (n, k), their coefficients c_j, whatever the row.
    shares : (n, k), k(x, z_j) c_j in the unit of the prediction.
    rest : (n,), sum of the shares of all other points.
    other : (n,), what a part of the model adds that is no kernel machine (boosting in a mean); mostly 0.
    nearest : (n, k) or None, for landmarks: the number of the row of ``X_train`` that is nearest to each.
    columns : (n, d) or None, f(x) − f(x with this column at its reference), in the unit of the prediction.
    column_names : (d,) names of the columns.
    outputs : (n,) number of the explained output or class of each row.
    unit : what the numbers are.

    ``explanation[i]`` is the explanation of row i alone; ``len`` is n; ``summary()`` is text.
    """

    prediction: Float64Array
    base: Float64Array
    kind: str
    points: IntArray
    similarities: Float64Array
    weights: Float64Array
    shares: Float64Array
    rest: Float64Array
    other: Float64Array
    nearest: IntArray | None
    columns: Float64Array | None
    column_names: tuple[str, ...]
    outputs: IntArray
    unit: str
    labels: tuple[str, ...] = ()  #: names of the explained outputs, if they have names

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, row: int) -> Explanation:
        n = len(self)
        if isinstance(row, bool) or not isinstance(row, int | np.integer) or not -n <= row < n:
            raise InputError(f"row={row!r} must be a whole number from 0 to {n - 1}: {n} rows are explained.")
        where = slice(row % n, row % n + 1)
        cut: dict[str, Array] = {
            each.name: value[where].copy()
            for each in fields(self)
            if isinstance(value := getattr(self, each.name), np.ndarray)
        }
        return replace(self, **cut)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"<Explanation of {len(self):,} predictions by {self.points.shape[1]} {self.kind}>"

    def point_name(self, row: int, place: int) -> str:
        """Return how a point is called: "row 17", or "landmark 3, near row 17"."""
        number = int(self.points[row, place])
        if self.kind == ROWS:
            return f"row {number:,}"
        near = "" if self.nearest is None else f", near row {int(self.nearest[row, place]):,}"
        return f"landmark {number:,}{near}"

    def summary(self) -> Summary:
        """Return the first three predictions, each with its points and its columns, as tables."""
        facts = [
            ("explained", f"{len(self):,} prediction{'s' if len(self) != 1 else ''}"),
            ("unit", self.unit),
            ("points", self.kind),
        ]
        if self.nearest is None and self.kind == LANDMARKS:
            facts.append(("landmarks", "stand for many training rows; pass X_train to see the nearest"))
        grids = [grid for i in range(min(len(self), MOST_PREDICTIONS)) for grid in self._grids(i)]
        more = len(self) - MOST_PREDICTIONS
        note = f"{more:,} further predictions: see explanation[i].summary()." if more > 0 else ""
        return Summary("Explanation", tuple(facts), tuple(grids), (), note)

    def _grids(self, row: int) -> list[Grid]:
        value = f"{self.prediction[row]:.4g}"
        label = f" for {short(self.labels[row], 40)}" if self.labels else ""
        rows = [
            (
                self.point_name(row, j),
                f"{self.similarities[row, j]:.3g}",
                f"{self.weights[row, j]:+.4g}",
                f"{self.shares[row, j]:+.4g}",
            )
            for j in range(min(MOST_LISTED, self.points.shape[1]))
        ]
        rest = self.rest[row] + self.shares[row, MOST_LISTED:].sum()
        rows.append((f"all other {self.kind}", "", "", f"{rest:+.4g}"))
        rows.append(("base", "", "", f"{self.base[row]:+.4g}"))
        if self.other[row]:
            rows.append(("boosting", "", "", f"{self.other[row]:+.4g}"))
        found = [
            Grid(f"Prediction {row}: {value}{label}", ("point", "similarity", "weight", "share"), tuple(rows))
        ]
        if self.columns is not None and self.columns.shape[1]:
            own = self.columns[row]
            order = np.argsort(-np.abs(own), kind="stable")[:MOST_LISTED]
            parts = tuple((short(self.column_names[j], 60), f"{own[j]:+.4g}") for j in order)
            note = "Each is the change if this column alone is set to its reference; they need not add up."
            found.append(Grid(f"Columns of prediction {row}", ("column", "contribution"), parts, note))
        return found


def largest(shares: Array, count: int) -> IntArray:
    """Return the places of the largest absolute shares of each row, the largest first; (n, count)."""
    size: Any = np.abs(shares)
    if count < shares.shape[1]:
        kept = np.argpartition(-size, count - 1, axis=1)[:, :count]
    else:
        kept = np.broadcast_to(np.arange(shares.shape[1]), shares.shape)
    order = np.argsort(-np.take_along_axis(size, kept, 1), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(kept, order, 1))
