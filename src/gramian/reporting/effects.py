"""Partial dependence of predictions on single columns, and errors by segments of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from gramian._typing import Array, Float64Array, IntArray, RowsLike
from gramian.data.cells import CATEGORY, DATE
from gramian.data.source import ArraySource
from gramian.estimator.base import KernelEstimator, read_rows
from gramian.exceptions import GramianError
from gramian.explanation import Explanation, explain
from gramian.kernels.precomputed import StoredRows
from gramian.plotting.canvas import COLOURS, NOTE_SIZE, name_axes
from gramian.reporting.document import Picture, axes, draw_svg
from gramian.reporting.judging import named_columns
from gramian.summary import Grid, short
from gramian.tables import EncodedRows
from gramian.tables.classifier import TabularClassifier
from gramian.tables.column import LevelMeans
from gramian.tables.input import checked_table
from gramian.tables.regressor import TabularRegressor
from gramian.tables.serving import TableServer

#: Rows whose Shapley values rank the columns of a model without importances, the draws of an estimate, and
#: most columns. By hand.
RANKED_ROWS, RANKING_DRAWS, MOST_RANKED = 40, 16, 60
#: Points of a curve, most categories and most curves that are drawn, and columns that are shown. By hand.
POINTS, MOST_CATEGORIES, MOST_CURVES, MOST_COLUMNS = 12, 10, 5, 6
#: Segments of a numeric column, and fewest rows of a segment. Chosen by hand.
PARTS, LEAST_ROWS = 4, 10


@dataclass(frozen=True)
class InspectedColumn:
    """A column: its values as numbers (days, for a date), or as codes of ``categories``.

    ``places`` are the columns of the rows that the model takes. They hold the value less ``shift``, or for a
    category its row of ``encoded``.
    """

    name: str
    values: Float64Array
    places: IntArray
    shift: float = 0.0
    categories: tuple[str, ...] = ()
    encoded: Array | None = None


@dataclass(frozen=True)
class Inspected:
    """Rows as a model takes them (n, width), their columns by importance, and predictions for such rows.

    ``predict`` gives (n, curves): numbers, or the probability (else the decision value) of each class in
    ``curves``.
    """

    rows: Array
    columns: tuple[InspectedColumn, ...]
    predict: Callable[[Array], Float64Array]
    curves: tuple[str, ...]

    def effect(self, column: InspectedColumn, values: Array) -> Float64Array:
        """Return the mean predictions (values, curves) if the column has each value in all rows."""
        out = []
        for value in values:
            changed = self.rows.copy()
            encoded = value - column.shift if column.encoded is None else column.encoded[int(value)]
            changed[:, column.places] = encoded
            out.append(self.predict(changed).mean(axis=0))
        return np.array(out)


def rows_to_inspect(model: BaseEstimator, X: RowsLike, numbers: IntArray) -> Inspected | None:
    """Return rows of X, by number, for inspection; None for rows without columns that can be changed."""
    if isinstance(model, TabularRegressor | TabularClassifier):
        with named_columns():
            rows: Any = EncodedRows(model.columns_, checked_table(model, X, reset=False)).take(numbers)
        columns, importances = _columns_of_table(model, rows)
    else:
        source = None
        if isinstance(model, KernelEstimator) and not isinstance(model, TableServer):
            source = read_rows(model, X)
        rows = None if source is None or isinstance(source, StoredRows) else source.take(numbers)
        if rows is None or sp.issparse(rows):
            return None
        rows = np.asarray(rows, np.float64)
        d = rows.shape[1]
        names = map(str, getattr(model, "feature_names_in_", [f"feature {j}" for j in range(d)]))
        columns = [InspectedColumn(name, rows[:, j], np.array([j])) for j, name in enumerate(names)]
        importances = getattr(model, "feature_importances_", None)
        if importances is None:
            # The mean absolute value of each column, or else the order of the columns.
            importances = np.arange(d, 0, -1.0)
            options = {"n_points": 1, "X_train": rows, "n_draws": RANKING_DRAWS}
            found = explained(model, rows[:RANKED_ROWS], **options) if d <= MOST_RANKED else None
            if found is not None and found.values is not None:
                importances = np.abs(found.values).mean(axis=0)
    classes = getattr(model, "classes_", None)

    def predict(changed: Array) -> Float64Array:
        table = isinstance(model, TableServer)
        numeric = model.model_ if table else model
        scaled = ArraySource(np.asarray(model.scaling_.apply(changed))) if table else changed
        ask = numeric.predict
        if classes is not None:
            ask = numeric.predict_proba if hasattr(numeric, "predict_proba") else numeric.decision_function
        with named_columns():
            found = np.reshape(ask(scaled), (len(changed), -1))
        if isinstance(model, TabularRegressor):
            found = model.target_.expected(found)
        found = np.asarray(found, np.float64)
        return found[:, 1:] if classes is not None and found.shape[1] == 2 else found

    count = predict(rows[:1]).shape[1]
    curves = [f"output {j}" for j in range(count)] if count > 1 else ["prediction"]
    if classes is not None:
        curves = classes[1:] if count == 1 else classes
    order = np.argsort(-np.asarray(importances), kind="stable")
    return Inspected(rows, tuple(columns[j] for j in order), predict, tuple(map(str, curves)))


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
    columns, used, shares = model.columns_, list[InspectedColumn](), list[float]()
    means = {each.column: (place, each) for place, each in columns.levels if isinstance(each, LevelMeans)}
    for j, column in enumerate(columns.columns):
        feature = next((f for f in columns.features if f.column == column.name), None)
        if feature is None or (column.kind != CATEGORY and not column.varies):
            continue
        place = feature.places
        shares.append(float(model.feature_importances_[j]))
        if column.kind != CATEGORY:
            shift = column.centre if column.kind == DATE else 0.0
            values = np.asarray(rows[:, place.start] + shift, np.float64)
            used.append(InspectedColumn(column.name, values, np.array([place.start]), shift))
            continue
        hot, names = rows[:, place], feature.categories
        codes = np.where(hot.any(axis=1), hot.argmax(axis=1), -1).astype(np.float64)
        places, encoded = np.arange(place.start, place.stop), np.eye(len(names))
        if column.name in means:
            where, level = means[column.name]
            places = np.append(places, where)
            encoded = np.column_stack([encoded, np.asarray(level.values, np.float64)])
        used.append(InspectedColumn(column.name, codes, places, 0.0, names, encoded))
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
        figure, ax = axes()
        shown = range(min(MOST_CURVES, curves.shape[1]))
        width = 0.8 / len(shown)
        for c in shown:
            if names:
                ax.bar(np.arange(len(names)) + c * width, curves[:, c], width, color=COLOURS[c])
            else:
                ax.plot(values, curves[:, c], color=COLOURS[c], linewidth=1.8)
        if names:
            ax.set_xticks(np.arange(len(names)) + 0.4 - width / 2, [short(name, 14) for name in names])
            ax.tick_params(axis="x", labelrotation=30 if max(map(len, names)) > 6 else 0)
        if len(found.curves) > 1:
            ax.legend([short(found.curves[c], 14) for c in shown], fontsize=NOTE_SIZE, frameon=False)
        name_axes(
            ax, short(column.name, 40), "mean prediction" if len(found.curves) == 1 else "mean of each class"
        )
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
