"""Partial dependence of predictions on single columns, and errors by segments of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from gramian._typing import Array, Float64Array, IntArray, RowsLike
from gramian.data.cells import CATEGORY, DATE
from gramian.estimator.base import read_rows
from gramian.exceptions import GramianError
from gramian.explanation import Explanation, explain
from gramian.explanation.columns import named_places, scaled_rows, table_rows
from gramian.kernels.precomputed import StoredRows
from gramian.plotting.canvas import COLOURS, NOTE_SIZE, name_axes
from gramian.reporting.document import Picture, axes, draw_svg
from gramian.reporting.judging import named_columns
from gramian.summary import Grid, short
from gramian.tables.base import TabularModel
from gramian.tables.importance.permutation import column_places
from gramian.tables.regressor import TabularRegressor
from gramian.tables.serving import TableServer

#: Rows whose Shapley values rank the columns of a model without importances, the draws of an estimate, and
#: most columns. By hand.
RANKED_ROWS, RANKING_DRAWS, MOST_RANKED = 40, 16, 60
#: Most rows from which the effects of columns are computed. Chosen by hand.
EFFECT_ROWS = 200
#: Points of a curve, most categories and most curves that are drawn, and columns that are shown. By hand.
POINTS, MOST_CATEGORIES, MOST_CURVES, MOST_COLUMNS = 12, 10, 5, 6
#: Segments of a numeric column, and fewest rows of a segment. Chosen by hand.
PARTS, LEAST_ROWS = 4, 10


@dataclass(frozen=True)
class InspectedColumn:
    """A column: its values as numbers (days, for a date), or as codes of ``categories``.

    ``places`` are its columns among those that the model takes. The first holds a number less ``shift``; a
    category takes all of them.
    """

    name: str
    values: Float64Array
    places: IntArray
    shift: float = 0.0
    categories: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inspected:
    """A model, rows as it takes them (n, width), and their columns by importance."""

    model: Any
    rows: Array
    columns: tuple[InspectedColumn, ...]

    def predict(self, rows: Array) -> Float64Array:
        """Return for each row a number per output, or the probability (else the decision value) per class.

        Of two classes only the second counts. Returns (n, outputs).
        """
        table, classes = isinstance(self.model, TabularModel), hasattr(self.model, "classes_")
        numeric, method = self.model.model_ if table else self.model, "predict"
        if classes:
            method = "predict_proba" if hasattr(numeric, "predict_proba") else "decision_function"
        with named_columns():
            source = scaled_rows(self.model, rows) if table else rows
            found = np.reshape(getattr(numeric, method)(source), (len(rows), -1))
        if isinstance(self.model, TabularRegressor):
            found = self.model.target_.expected(found)
        found = np.asarray(found, np.float64)
        return found[:, 1:] if classes and found.shape[1] == 2 else found

    def effect(self, column: InspectedColumn, values: Array) -> Float64Array:
        """Return the mean predictions (values, outputs) if the column has each value in all rows.

        They are means over at most 200 rows, evenly spaced. Categories are those of the rows: they are
        written as in the first row that has them.
        """
        out, n = [], len(self.rows)
        shown = self.rows[np.linspace(0, n - 1, min(n, EFFECT_ROWS)).astype(np.intp)]
        for value in values:
            changed = shown.copy()
            if column.categories:
                changed[:, column.places] = self.rows[np.argmax(column.values == value), column.places]
            else:
                changed[:, column.places[0]] = value - column.shift
            out.append(self.predict(changed).mean(axis=0))
        return np.array(out)


def rows_to_inspect(model: BaseEstimator, X: RowsLike, numbers: IntArray) -> Inspected | None:
    """Return rows of X, by number, for inspection; None for rows without columns that can be changed."""
    if isinstance(model, TabularModel):
        with named_columns():
            rows: Any = table_rows(model, X).take(numbers)
        columns, importances = _columns_of_table(model, rows)
    else:
        if isinstance(model, TableServer) or not hasattr(model, "predict"):
            return None
        source = read_rows(model, X)
        rows = None if isinstance(source, StoredRows) else source.take(numbers)
        if rows is None or sp.issparse(rows):
            return None
        rows = np.asarray(rows, np.float64)
        names, places = named_places(model, rows.shape[1])
        columns = [InspectedColumn(name, rows[:, j[0]], j) for name, j in zip(names, places, strict=True)]
        importances = getattr(model, "feature_importances_", None)
        if importances is None:
            # The mean absolute value of each column, or else the order of the columns.
            importances = np.arange(len(names), 0, -1.0)
            options = {"n_points": 1, "X_train": rows, "n_draws": RANKING_DRAWS}
            few = len(names) <= MOST_RANKED
            found = explained(model, rows[:RANKED_ROWS], **options) if few else None
            if found is not None and found.values is not None:
                importances = np.abs(found.values).mean(axis=0)
    order = np.argsort(-np.asarray(importances), kind="stable")
    return Inspected(model, rows, tuple(columns[j] for j in order))


def explained(model: BaseEstimator, rows: Any, **options: Any) -> Explanation | None:
    """Return the explanation of rows, of the first of several targets; None for a model that has none."""
    several = not hasattr(model, "classes_") and not getattr(model, "_flat", True)
    try:
        with named_columns():
            return explain(model, rows, output=0 if several else None, **options)
    except (GramianError, AttributeError):
        return None


def _columns_of_table(model: BaseEstimator, rows: Array) -> tuple[list[InspectedColumn], Any]:
    """Return the columns of a table that vary, from its encoded rows, and their importances."""
    used, shares = list[InspectedColumn](), list[float]()
    places_of, importances = column_places(model.columns_), model.feature_importances_
    for column, places, share in zip(model.columns_.columns, places_of, importances, strict=True):
        if column.dropped or not (column.varies or column.kind == CATEGORY):
            continue
        shares.append(float(share))
        if column.kind == CATEGORY:
            hot = rows[:, places[: column.width]]
            codes = np.where(hot.any(axis=1), hot.argmax(axis=1), -1).astype(np.float64)
            used.append(InspectedColumn(column.name, codes, places, 0.0, column.one_hot))
        else:
            shift = column.centre if column.kind == DATE else 0.0
            values = np.asarray(rows[:, places[0]] + shift, np.float64)
            used.append(InspectedColumn(column.name, values, places, shift))
    return used, shares


def of_effects(found: Inspected) -> Iterator[Picture]:
    """Yield the partial dependence of the most important columns: mean predictions, column set to a value."""
    for column in found.columns[:MOST_COLUMNS]:
        names = []
        values: Array = np.unique(column.values)
        if column.categories:
            codes, counts = np.unique(column.values[column.values >= 0].astype(np.intp), return_counts=True)
            values = codes[np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]]
            names = [column.categories[code] for code in values]
        elif len(values) > POINTS:
            values = np.unique(np.quantile(column.values, np.linspace(0.02, 0.98, POINTS)))
        if len(values) < 2:
            continue
        curves = found.effect(column, values)
        count = curves.shape[1]
        # Of two classes, the curve is that of the second.
        outputs = getattr(found.model, "classes_", [f"output {j}" for j in range(count)])[-count:]
        figure, ax = axes()
        shown = range(min(MOST_CURVES, count))
        width = 0.8 / len(shown)
        for c in shown:
            if names:
                ax.bar(np.arange(len(names)) + c * width, curves[:, c], width, color=COLOURS[c])
            else:
                ax.plot(values, curves[:, c], color=COLOURS[c], linewidth=1.8)
        if names:
            ax.set_xticks(np.arange(len(names)) + 0.4 - width / 2, [short(name, 14) for name in names])
            ax.tick_params(axis="x", labelrotation=30 if max(map(len, names)) > 6 else 0)
        if count > 1:
            ax.legend([short(outputs[c], 14) for c in shown], fontsize=NOTE_SIZE, frameon=False)
        name_axes(ax, short(column.name, 40), "mean prediction" if count == 1 else "mean of each class")
        ends = f"{curves.min():.3g} to {curves.max():.3g}"
        caption = f"Mean prediction with {short(column.name, 14)} set to each value in all rows: {ends}."
        yield draw_svg(figure, f"Effect of {short(column.name, 30)}", caption)


def segments(found: Inspected, errors: Float64Array, what: str) -> tuple[Grid, ...]:
    """Return for the most important columns the errors of segments of the rows, the worst first.

    errors : (n,) squared errors, or 1 for a wrong class; ``what`` names the error of a segment, the root of
    its mean, or its mean.
    """

    def size(some: Float64Array) -> float:
        return float(np.sqrt(some.mean()) if what == "RMSE" else some.mean())

    rows: list[tuple[float, tuple[str, ...]]] = []
    whole = size(errors)
    for column in found.columns[:MOST_COLUMNS]:
        for name, members in _segments(column):
            if members.sum() < LEAST_ROWS or members.all():
                continue
            own = size(errors[members])
            times = own / whole if whole > 0 else 1.0
            texts = (short(column.name, 40), name, f"{int(members.sum()):,}", f"{own:.4g}", f"{times:.2f} ×")
            rows.append((own, texts))
    if not rows:
        return ()
    rows.sort(key=lambda each: -each[0])
    note = f"Of all rows the {what} is {whole:.4g}. Small segments differ by chance."
    head = ("column", "segment", "rows", what, "of all rows'")
    return (Grid("Errors by segment, the worst first", head, tuple(texts for _, texts in rows[:20]), note),)


def _segments(column: InspectedColumn) -> Iterator[tuple[str, Array]]:
    if column.categories:
        for code in np.unique(column.values):
            name = short(column.categories[int(code)], 40) if code >= 0 else "(not known in training)"
            yield name, column.values == code
        return
    edges = np.unique(np.quantile(column.values, np.linspace(0.0, 1.0, PARTS + 1)))
    if len(edges) < 3:
        yield from ((f"{value:.4g}", column.values == value) for value in edges)
        return
    place = np.clip(np.searchsorted(edges, column.values, "right") - 1, 0, len(edges) - 2)
    for part in range(len(edges) - 1):
        yield f"{edges[part]:.4g} to {edges[part + 1]:.4g}", place == part
