"""Explanation of predictions as a frozen value: what columns and rows add to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from gramian._checks import is_index
from gramian._typing import Array, Float64Array, IntArray
from gramian.exceptions import InputError, MissingPackageError
from gramian.summary import Grid, Shown, Summary, short

#: What the points of a sum are: rows of the training set, or points that stand for many of them.
ROWS, LANDMARKS = "training rows", "landmarks"
#: Predictions, rows and columns that a summary lists. Chosen by hand.
MOST_PREDICTIONS, MOST_LISTED = 3, 10


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Shown):
    r"""What columns and rows add to n predictions, made by ``model.explain(X)``.

        prediction = base + values.sum(axis=1) = intercept + shares.sum(axis=1) + rest + other.

    Attributes
    ----------
    prediction : (n,), the explained number of each row, in the unit that ``unit`` names.
    values : (n, d) or None, the Shapley value of each column, in the unit of the prediction.
    errors : (n, d) or None, the standard errors of estimated values; None if the values are exact.
    base : (n,) or None, the mean prediction if no column is known: the same for all rows of a model without
        blocks, up to rounding.
    names : (d,) names of the columns.
    background : of which rows a column takes its values if it is not known.
    data : (n, d) or None, what the explained rows have in each column, where they were an array or a frame.
    intercept : (n,), the prediction without any share.
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
    outputs : (n,) number of the explained output or class of each row.
    unit : what the numbers are.

    ``explanation[i]`` is the explanation of row i alone; ``len`` is n; ``summary()`` is text.
    """

    prediction: Float64Array
    values: Float64Array | None
    errors: Float64Array | None
    base: Float64Array | None
    names: tuple[str, ...]
    background: str
    data: Array | None
    intercept: Float64Array
    kind: str
    points: IntArray
    similarities: Float64Array
    weights: Float64Array
    shares: Float64Array
    rest: Float64Array
    other: Float64Array
    nearest: IntArray | None
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
        if not is_index(row, n, -n):
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

    def largest_columns(self, row: int, count: int = MOST_LISTED) -> IntArray:
        """Return the numbers of the columns with the largest values of a row, the largest first."""
        assert self.values is not None
        return np.argsort(-np.abs(self.values[row]), kind="stable")[:count]

    def to_shap(self) -> Any:
        """Return the values as a ``shap.Explanation``, for the plots of shap; it must be installed.

        Raises ``InputError`` if there are no values of columns, ``MissingPackageError`` without shap.
        """
        if self.values is None:
            raise InputError("there are no values of columns to hand over; explain with columns=True.")
        try:
            import shap
        except ImportError:
            raise MissingPackageError(
                "to_shap makes an object of shap, which is not installed. Run: pip install shap"
            ) from None
        return shap.Explanation(self.values, self.base, self.data, feature_names=list(self.names))

    def summary(self) -> Summary:
        """Return the first three predictions, each with its columns and its points, as tables."""
        facts = [
            ("explained", f"{len(self):,} prediction{'s' if len(self) != 1 else ''}"),
            ("unit", self.unit),
        ]
        if self.values is not None:
            how = "exact" if self.errors is None else "estimated, with standard errors"
            facts += [("columns", f"Shapley values, {how}"), ("background", self.background)]
        facts.append(("points", self.kind))
        if self.nearest is None and self.kind == LANDMARKS:
            facts.append(("landmarks", "stand for many training rows; pass X_train to see the nearest"))
        grids = [grid for i in range(min(len(self), MOST_PREDICTIONS)) for grid in self._grids(i)]
        more = len(self) - MOST_PREDICTIONS
        note = f"{more:,} further predictions: see explanation[i].summary()." if more > 0 else ""
        return Summary("Explanation", tuple(facts), tuple(grids), (), note)

    def _grids(self, row: int) -> Iterator[Grid]:
        label = f" for {short(self.labels[row], 40)}" if self.labels else ""
        title = f"Prediction {row}: {self.prediction[row]:.4g}{label}"
        if self.values is not None and self.base is not None:
            order = self.largest_columns(row)
            values, errors = self.values[row], None if self.errors is None else self.errors[row]
            rows = [
                (
                    short(self.names[j], 60),
                    f"{values[j]:+.4g}",
                    "" if errors is None else f"± {errors[j]:.2g}",
                )
                for j in order
            ]
            if len(order) < len(self.names):
                rest = values.sum() - values[order].sum()
                rows.append(("all other columns", f"{rest:+.4g}", ""))
            rows.append(("base", f"{self.base[row]:+.4g}", ""))
            width = 2 if self.errors is None else 3
            heads = ("column", "value", "error")[:width]
            yield Grid(f"{title}, by columns", heads, tuple(each[:width] for each in rows))
        lines = [
            (
                self.point_name(row, j),
                f"{self.similarities[row, j]:.3g}",
                f"{self.weights[row, j]:+.4g}",
                f"{self.shares[row, j]:+.4g}",
            )
            for j in range(min(MOST_LISTED, self.points.shape[1]))
        ]
        rest = self.rest[row] + self.shares[row, MOST_LISTED:].sum()
        lines.append((f"all other {self.kind}", "", "", f"{rest:+.4g}"))
        lines.append(("intercept", "", "", f"{self.intercept[row]:+.4g}"))
        if self.other[row]:
            lines.append(("boosting", "", "", f"{self.other[row]:+.4g}"))
        yield Grid(f"{title}, by {self.kind}", ("point", "similarity", "weight", "share"), tuple(lines))


def largest(shares: Array, count: int) -> IntArray:
    """Return the places of the largest absolute shares of each row, the largest first; (n, count)."""
    size: Any = np.abs(shares)
    if count < shares.shape[1]:
        kept = np.argpartition(-size, count - 1, axis=1)[:, :count]
    else:
        kept = np.broadcast_to(np.arange(shares.shape[1]), shares.shape)
    order = np.argsort(-np.take_along_axis(size, kept, 1), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(kept, order, 1))
