"""Display of one explained prediction: shares of rows or landmarks, and contributions of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator

from gramian._checks import whole_number
from gramian._typing import Float64Array, RowsLike
from gramian.exceptions import InputError
from gramian.explanation import Explanation, explain
from gramian.plotting.canvas import (
    COLOURS,
    INK,
    LETTERS,
    Axes,
    Display,
    caption,
    cut,
    name_axes,
    named_bars,
    pyplot,
)

#: Height in inches of a bar, and of everything around the bars. Chosen by hand.
BAR, FRAME = 0.3, 1.6


class ExplanationDisplay(Display):
    """Where one prediction comes from: bars of the largest shares, and of the columns' contributions.

    Bars to the right raise the prediction, bars to the left lower it. The left panel adds up to the
    prediction: the points with the largest shares, all others together, and the base (intercept). The right
    panel has the change of the prediction if a column alone is set to its reference, which need not add up.

    Build it with :meth:`from_estimator`; the constructor stores an explanation.

    Parameters
    ----------
    explanation : :class:`gramian.explanation.Explanation`
    row : int, default=0
        Number of the explained prediction to draw.
    n_columns : int, default=10
        Most columns to draw, those with the largest contributions.

    Attributes
    ----------
    explanation, row : as given.
    names, values : of the bars in the left panel; ``column_names``, ``contributions`` in the right one.
    figure_, axes_ : set by :meth:`plot`; the right panel is left out if no column was explained.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((100, 2))
    >>> m = gm.KernelRidge(0.1, gamma=5.0, approximation="exact").fit(X, X[:, 0])
    >>> display = ExplanationDisplay(m.explain(X[:1], n_points=2)).plot()
    >>> display.names[2:], len(display.values)
    (['all other training rows', 'base'], 4)
    """

    def __init__(self, explanation: Explanation, *, row: int = 0, n_columns: int = 10) -> None:
        if not isinstance(explanation, Explanation):
            raise InputError(
                f"explanation has type {type(explanation).__name__}; expected what model.explain(X) returns."
            )
        one = explanation[row]
        self.explanation, self.row = explanation, row
        parts = [(f"all other {one.kind}", one.rest[0]), ("boosting", one.other[0]), ("base", one.base[0])]
        parts = [(name, value) for name, value in parts if value or name != "boosting"]
        self.names = [
            *(one.point_name(0, j) for j in range(one.points.shape[1])),
            *(name for name, _ in parts),
        ]
        self.values = [*map(float, one.shares[0]), *(float(value) for _, value in parts)]
        count = whole_number("n_columns", n_columns, 1)
        self.column_names: list[str] = []
        self.contributions: Float64Array = np.zeros(0)
        if one.columns is not None:
            order = np.argsort(-np.abs(one.columns[0]), kind="stable")[:count]
            self.column_names = [one.column_names[j] for j in order]
            self.contributions = one.columns[0, order]

    @classmethod
    def from_estimator(
        cls,
        model: BaseEstimator,
        X: RowsLike,
        *,
        row: int = 0,
        n_points: int = 5,
        by: str = "share",
        n_columns: int = 10,
        output: object = None,
        X_train: RowsLike | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Explain the predictions for X and draw one of them.

        model, X, n_points, by, output, X_train : as for :func:`gramian.explanation.explain`;
        row, n_columns : as for the constructor; ax : as for :meth:`plot`.

        Errors: ``InputError``, ``NotFittedError``, ``MissingPackageError`` without matplotlib.
        """
        pyplot(cls.__name__)  # raise before the work if it is missing
        found = explain(model, X, n_points=n_points, by=by, output=output, X_train=X_train)
        return cls(found, row=row, n_columns=n_columns).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the panels.

        ax : as many axes as there are panels; None for a new figure.
        """
        one = self.explanation[self.row]
        panels = 2 if self.column_names else 1
        if ax is None:
            bars = max(len(self.names), len(self.column_names))
            size = (5.2 * panels, FRAME + BAR * bars)
            self.figure_, made = pyplot(type(self).__name__).subplots(
                1, panels, figsize=size, layout="constrained", squeeze=False
            )
            self.axes_ = list(made.ravel())
        else:
            self.axes_ = list(np.ravel(np.asarray(ax, dtype=object)))
            if len(self.axes_) != panels:
                raise InputError(
                    f"ax has {len(self.axes_)} axes, but the display has {panels} panels. Pass "
                    f"plt.subplots(1, {panels})[1], or None for a new figure."
                )
            self.figure_ = self.axes_[0].figure
        label = f" for {cut(one.labels[0], LETTERS)}" if one.labels else ""
        _bars(self.axes_[0], self.names, self.values)
        caption(
            self.axes_[0],
            f"{one.kind.capitalize()} it comes from",
            f"together {one.prediction[0]:.4g}{label}",
        )
        name_axes(self.axes_[0], f"Share ({one.unit})", "")
        if panels == 2:
            _bars(self.axes_[1], self.column_names, self.contributions)
            caption(self.axes_[1], "Columns", "change if this column alone is at its reference")
            name_axes(self.axes_[1], f"Contribution ({one.unit})", "")
        return self


def _bars(ax: Axes, names: Sequence[str], values: Sequence[float] | Float64Array) -> None:
    colours = [COLOURS[0] if value >= 0 else COLOURS[1] for value in values]
    named_bars(ax, names, values, (f"{value:+.3g}" for value in values), colours=colours)
    ax.axvline(0.0, color=INK, linewidth=0.8, zorder=3)
    # Leave room for the numbers at the ends of the bars.
    low, high = min(0.0, *values), max(0.0, *values)
    span = (high - low) or 1.0
    ax.set_xlim(
        low - (0.22 * span if low < 0 else 0.02 * span), high + (0.22 * span if high > 0 else 0.02 * span)
    )
