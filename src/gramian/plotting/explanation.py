"""Display of an explanation: one prediction from its base upwards, or the values of many rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator

from gramian._checks import is_index, one_of, whole_number
from gramian._typing import Array, Float64Array, IntArray, RowsLike
from gramian.exceptions import InputError, quoted
from gramian.explanation import Explanation, explain
from gramian.plotting.bars import FRAME, LETTERS, name_rows, named_bars
from gramian.plotting.canvas import BLUE, INK, Axes, Display, caption, low_to_high, name_axes, padded, pyplot
from gramian.summary import short

WATERFALL, BAR, BEESWARM, DEPENDENCE = KINDS = ("waterfall", "bar", "beeswarm", "dependence")
#: Inches that a bar is high. Chosen by hand.
HEIGHT = 0.32
#: Bins along the axis by which points that lie beside each other are stacked, and the height of a stack.
BINS, SPREAD = 60, 0.38
#: Most levels of a category that are named, and room for the numbers at the ends of bars. Chosen by hand.
MOST_LEVELS, ROOM = 12, 0.18


class ExplanationDisplay(Display):
    """The Shapley values of columns: of one prediction, or of all explained ones.

    ``kind`` is one of

    - "waterfall": one prediction. From the base, which is the mean prediction if no column is known, each
      column moves it to the right or to the left; the last bar ends at the prediction.
    - "bar": the mean absolute value of each column, over all explained rows.
    - "beeswarm": a point for each row and column, coloured by the column's own value: blue low, orange high.
    - "dependence": the value of one column against the column itself.

    Build it with :meth:`from_estimator`; the constructor stores an explanation.

    Parameters
    ----------
    explanation : :class:`gramian.explanation.Explanation`, with values of the columns
    kind : str, default="waterfall"
    row : int, default=0
        Number of the explained prediction of a waterfall.
    column : str or int, optional
        Name or number of the column of a dependence, by default the one with the largest mean absolute value.
    n_columns : int, default=10
        Most columns to draw, those with the largest values. A waterfall draws the sum of the others too.

    Attributes
    ----------
    explanation, kind, row, column : as given; ``column`` as a number.
    names, values : of the bars from the top; of a beeswarm the columns, and their values (rows, columns); of
        a dependence the column, and its values (rows,).
    figure_, ax_ : set by :meth:`plot`.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((100, 2))
    >>> m = gm.KernelRidge(0.1, gamma=5.0, approximation="exact").fit(X, X[:, 0])
    >>> display = ExplanationDisplay(m.explain(X[:5])).plot()
    >>> display.names, len(display.values)
    (['feature 0 = 0.637', 'feature 1 = 0.27'], 2)
    """

    def __init__(
        self,
        explanation: Explanation,
        *,
        kind: str = WATERFALL,
        row: int = 0,
        column: str | int | None = None,
        n_columns: int = 10,
    ) -> None:
        if not isinstance(explanation, Explanation):
            raise InputError(
                f"explanation has type {type(explanation).__name__}; expected what model.explain(X) returns."
            )
        if explanation.values is None or explanation.base is None or not len(explanation):
            raise InputError(
                "the explanation has no values of columns. Explain at least one row, with columns=True; rows "
                "of precomputed kernels have no columns."
            )
        self.explanation, self.kind, self.row = explanation, one_of("kind", kind, KINDS), row
        count = whole_number("n_columns", n_columns, 1)
        sizes, own = np.abs(explanation.values).mean(axis=0), explanation[row]
        if kind == WATERFALL:
            sizes = np.abs(explanation.values[row])
        self._order: IntArray = np.argsort(-sizes, kind="stable")[:count]
        self.column = int(self._order[0]) if column is None else _number(column, explanation.names)
        names = [explanation.names[j] for j in self._order]
        self.names, self.values = names, sizes[self._order]
        if kind == WATERFALL:
            self.values = explanation.values[row, self._order]
            if own.data is not None:
                cells = [own.data[0, j] for j in self._order]
                self.names = [f"{name} = {_text(cell)}" for name, cell in zip(names, cells, strict=True)]
            if len(names) < len(explanation.names):
                rest = explanation.values[row].sum() - self.values.sum()
                self.names, self.values = [*self.names, "all other columns"], np.append(self.values, rest)
        elif kind == BEESWARM:
            self.values = explanation.values[:, self._order]
        elif kind == DEPENDENCE:
            self.names, self.values = [explanation.names[self.column]], explanation.values[:, self.column]
            self._cells()  # raise now where they are not known

    @classmethod
    def from_estimator(
        cls,
        model: BaseEstimator,
        X: RowsLike,
        *,
        kind: str = WATERFALL,
        row: int = 0,
        column: str | int | None = None,
        n_columns: int = 10,
        output: object = None,
        X_train: RowsLike | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Explain the predictions for X and draw them.

        model, X, output, X_train : as for :func:`gramian.explanation.explain`; kind, row, column, n_columns :
        as for the constructor; ax : as for :meth:`plot`.

        Errors: ``InputError``, ``NotFittedError``, ``MissingPackageError`` without matplotlib.
        """
        pyplot(cls.__name__)  # raise before the work if it is missing
        found = explain(model, X, n_points=1, output=output, X_train=X_train)
        return cls(found, kind=kind, row=row, column=column, n_columns=n_columns).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the display.

        ax : axes to draw on; None for a new figure.
        """
        height = 4.0 if self.kind == DEPENDENCE else FRAME + HEIGHT * len(self.names)
        axes = self._open(ax, (6.4, height))
        if self.kind == WATERFALL:
            self._draw_waterfall(axes)
        elif self.kind == BAR:
            named_bars(axes, self.names, self.values, (f"{value:.3g}" for value in self.values))
            axes.set_xlim(0.0, 1.15 * float(self.values.max()) or 1.0)
            caption(axes, "What moves predictions", f"mean over {len(self.explanation):,} rows")
            name_axes(axes, f"Mean absolute value ({self.explanation.unit})", "")
        elif self.kind == BEESWARM:
            self._draw_beeswarm(axes)
        else:
            self._draw_dependence(axes)
        return self

    def _draw_waterfall(self, ax: Axes) -> None:
        own = self.explanation[self.row]
        base, prediction = float(own.base[0]), float(own.prediction[0])  # type: ignore[index]
        # The base is at the bottom: the smallest bar starts there, the largest ends at the prediction.
        ends = prediction - np.append(0.0, np.cumsum(self.values)[:-1])
        starts = ends - self.values
        texts = (f"{value:+.3g}" for value in self.values)
        named_bars(ax, self.names, self.values, texts, starts=starts)
        for at, style in ((base, ":"), (prediction, "--")):
            ax.axvline(at, color=INK, linewidth=0.8, linestyle=style, zorder=1)
        ax.set_xlim(padded(np.array([base, *starts, *ends]), log=False, share=ROOM))
        label = f" for {short(own.labels[0], LETTERS)}" if own.labels else ""
        how = "" if own.errors is None else f", values within {float(own.errors.max()):.2g}"
        caption(ax, f"Prediction {prediction:.4g}{label}", f"from the base {base:.4g}{how}")
        name_axes(ax, f"Prediction ({own.unit})", "")

    def _draw_beeswarm(self, ax: Axes) -> None:
        low, high = float(self.values.min()), float(self.values.max())
        edges = np.linspace(low, high + ((high - low) or 1.0) * 1e-9, BINS + 1)
        for level, (j, values) in enumerate(zip(self._order, self.values.T, strict=True)):
            heights = np.zeros(len(values))
            bins = np.digitize(values, edges)
            for each in np.unique(bins):
                own = np.flatnonzero(bins == each)
                # One point stays in the middle; many fill the stack from the middle to both sides.
                heights[own] = (np.arange(len(own)) - (len(own) - 1) / 2.0) * min(0.08, 2 * SPREAD / len(own))
            look: dict[str, Any] = {"color": BLUE}
            if self.explanation.data is not None:
                ranks = rankdata(_numbers(self.explanation.data[:, j])[0], "dense", nan_policy="omit")
                look = {"c": ranks, "vmin": 1.0, "vmax": np.fmax.reduce(ranks, initial=2.0)}
                look |= {"cmap": low_to_high(), "plotnonfinite": True}
            ax.scatter(values, level + heights, s=9.0, linewidths=0.0, zorder=2, **look)
        ax.axvline(0.0, color=INK, linewidth=0.8, zorder=1)
        name_rows(ax, self.names)
        coloured = "" if self.explanation.data is None else "; blue: low values of the column, orange: high"
        caption(ax, "What moves predictions", f"{len(self.explanation):,} rows{coloured}")
        name_axes(ax, f"Value ({self.explanation.unit})", "")

    def _draw_dependence(self, ax: Axes) -> None:
        places, levels = _numbers(self._cells())
        ax.scatter(places, self.values, s=14.0, color=BLUE, alpha=0.7, linewidths=0.0, zorder=2)
        ax.axhline(0.0, color=INK, linewidth=0.8, zorder=1)
        if levels and len(levels) <= MOST_LEVELS:
            ax.set_xticks(np.arange(len(levels)), [short(level, LETTERS) for level in levels])
        caption(ax, f"What {short(self.names[0], LETTERS)} adds", f"{len(self.explanation):,} rows")
        name_axes(ax, short(self.names[0], LETTERS), f"Value ({self.explanation.unit})")

    def _cells(self) -> Array:
        """Return what the rows have in the chosen column."""
        if self.explanation.data is None:
            raise InputError(
                "the explanation does not hold the rows' own numbers, which a dependence is drawn against. "
                "Explain rows that are given as an array or a frame."
            )
        return self.explanation.data[:, self.column]


def _number(column: str | int, names: tuple[str, ...]) -> int:
    """Return the number of a column that is given by number or name."""
    if isinstance(column, str) and column in names:
        return names.index(column)
    if is_index(column, len(names)):
        return int(column)
    raise InputError(
        f"column={quoted(column)} is none of the {len(names)} columns; give a name or a number from 0 to "
        f"{len(names) - 1}."
    )


def _numbers(cells: Array) -> tuple[Float64Array, tuple[str, ...]]:
    """Return a column's numbers (NaN where missing), and the levels that they count where it has text."""
    for kind in (np.float64, "datetime64[ns]"):
        try:
            return np.asarray(np.asarray(cells, kind), np.float64), ()
        except (TypeError, ValueError):
            continue  # no numbers, no dates: then levels
    levels, codes = np.unique(np.array([str(cell) for cell in cells]), return_inverse=True)
    return codes.astype(np.float64), tuple(levels.tolist())


def _text(cell: object) -> str:
    """Return a cell as it is named beside its column."""
    return f"{cell:.3g}" if isinstance(cell, float | np.floating) else short(str(cell), 16)
