"""Display of the importances of features, and horizontal bars with names and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gramian._checks import numbers_of, whole_number
from gramian._typing import Array, Float64Array, IntArray
from gramian.exceptions import InputError
from gramian.plotting.canvas import (
    BLUE,
    INK,
    NOTE_SIZE,
    ORANGE,
    Axes,
    Display,
    caption,
    pyplot,
    scale_axis,
    text_of,
)
from gramian.summary import short

#: Inches that a bar is high, and that a picture needs above and below its bars. Chosen by hand.
BAR, FRAME = 0.27, 1.5
#: Longest name of a bar in letters; longer names end in an ellipsis.
LETTERS = 32
#: A fraction below this is written as "less than" this.
LEAST = 1e-3


class ImportanceDisplay(Display):
    """The features that count most for a model, the first on top.

    A bar is a feature's share of the total in ``feature_importances_``. For a kernel estimator with a learned
    metric it is the feature's share of the mean squared distance of two rows, as the kernel measures it. For
    a model of tables it is the share of the rise in the held-out loss if the column is permuted, with a line
    of one standard error to either side. If two features are correlated, one of them may get the share of
    both, or neither much, since the model can use the other one.

    Build it with :meth:`from_estimator`; the constructor stores given numbers.

    Parameters
    ----------
    importances : (d,) shares, finite and at least 0.
    feature_names : (d,) names; by default "feature 0", ….
    errors : (d,) standard errors of the shares, finite and at least 0; by default none are drawn.
    n_features : int, default=20
        Most bars. A note under the title gives the total share of the other features.
    title : str

    Attributes
    ----------
    importances, errors : (d,) as given.
    feature_names : list of str
    order : (min(n_features, d),) numbers of the features that are drawn, the largest share first.
    figure_, ax_ : set by :meth:`plot`; ``bars_`` the bars.

    Examples
    --------
    >>> display = ImportanceDisplay([0.1, 0.6, 0.3], ["age", "income", "rooms"], n_features=2)
    >>> [display.feature_names[j] for j in display.order]
    ['income', 'rooms']
    >>> len(display.plot().bars_)
    2
    """

    def __init__(
        self,
        importances: ArrayLike,
        feature_names: Iterable[object] | None = None,
        *,
        errors: ArrayLike | None = None,
        n_features: int = 20,
        title: str = "What the model looks at",
    ) -> None:
        self.importances = _shares(importances)
        self.feature_names = _names(feature_names, len(self.importances))
        self.errors = None if errors is None else _shares(errors, "errors")
        if self.errors is not None and len(self.errors) != len(self.importances):
            raise InputError(
                f"errors has length {len(self.errors)}, but there are {len(self.importances)} importances. "
                "Pass one for each feature."
            )
        count = whole_number("n_features", n_features, 1)
        # Stable, so that equal shares keep the order of the columns.
        self.order: IntArray = np.argsort(-self.importances, kind="stable")[:count]
        self.title = title

    @classmethod
    def from_estimator(
        cls,
        model: BaseEstimator,
        *,
        feature_names: Iterable[object] | None = None,
        n_features: int = 20,
        title: str = "What the model looks at",
        ax: Axes | None = None,
    ) -> Self:
        """Draw the importances of a fitted model.

        Parameters
        ----------
        model : fitted, with ``feature_importances_``: one for tables, or a kernel estimator that was fitted
            with ``metric="diagonal"`` or ``"full"``.
        feature_names : names of the columns; by default the model's ``feature_names_in_``, if it has any.
        n_features, title : as for the constructor. ax : as for :meth:`plot`.

        Errors: ``InputError`` for a model without importances or a wrong number of names,
        ``NotFittedError``, ``MissingPackageError`` without matplotlib.
        """
        pyplot(cls.__name__)
        if not hasattr(model, "fit"):
            raise InputError(
                f"model has type {type(model).__name__}; expected a fitted estimator. Pass "
                "gramian.TabularRegressor().fit(X, y), or its like."
            )
        check_is_fitted(model)
        importances = getattr(model, "feature_importances_", None)
        if importances is None:
            raise InputError(
                f"this {type(model).__name__} has no feature_importances_: it has learned no metric. Fit it "
                "with metric='diagonal' or metric='full', or fit a TabularRegressor or TabularClassifier."
            )
        names = getattr(model, "feature_names_in_", None) if feature_names is None else feature_names
        errors = getattr(model, "feature_importances_std_", None)
        return cls(importances, names, errors=errors, n_features=n_features, title=title).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the bars.

        ax : axes to draw on; None for a new figure.
        """
        shown = self.importances[self.order]
        axes = self._open(ax, (6.4, FRAME + BAR * len(shown)))
        names = [self.feature_names[j] for j in self.order]
        spread = None if self.errors is None else self.errors[self.order]
        texts = (_percent(float(share)) for share in shown)
        self.bars_ = named_bars(axes, names, shown, texts, errors=spread)
        # Leave room for the number at the longest bar; the axis is empty if all importances are 0.
        most = float((shown if spread is None else shown + spread).max())
        scale_axis(axes, "x", (0.0, 1.15 * most or 1.0), "Share of the importances", unit="%", log=False)
        count, others = len(self.importances), len(self.importances) - len(shown)
        note = f"{count} feature{'s' if count > 1 else ''}"
        if others:
            rest = max(0.0, float(self.importances.sum() - shown.sum()))
            noun = "other" if others == 1 else "others together"
            note = f"{len(shown)} of {count} features; the {noun} {_percent(rest)}"
        caption(axes, self.title, note)
        return self


def _shares(given: ArrayLike, name: str = "importances") -> Float64Array:
    shares = np.array(numbers_of(name, given, "Pass one for each feature."))
    if shares.ndim != 1 or not len(shares):
        raise InputError(f"{name} has shape {shares.shape}; expected (d,). Pass one for each feature.")
    if not np.isfinite(shares).all() or (shares < 0).any():
        raise InputError(
            f"{name} holds a number that is negative, NaN or infinite; pass shares of at least 0."
        )
    return shares


def _names(given: Iterable[object] | None, count: int) -> list[str]:
    if given is None:
        return [f"feature {j}" for j in range(count)]
    if isinstance(given, str):
        raise InputError(f"feature_names={given!r} is one text; pass a list of {count} names.")
    names = [str(name) for name in given]
    if len(names) != count:
        raise InputError(
            f"feature_names has {len(names)} names, but there are {count} features. Pass one for each."
        )
    return names


def _percent(share: float) -> str:
    """Format a fraction as per cent, with at most a tenth: further digits would suggest false precision."""
    return "under 0.1 %" if 0.0 < share < LEAST else text_of(share, "%")


def named_bars(
    ax: Axes,
    names: Sequence[str],
    values: Array,
    texts: Iterable[str],
    *,
    starts: Array | float = 0.0,
    errors: Array | None = None,
) -> Any:
    """Draw bars, the first on top, with a name before and a text behind each; return the bars.

    Bars to the right are blue, bars to the left orange. ``errors`` are drawn as lines to either side of the
    ends.
    """
    bars = ax.barh(
        np.arange(len(names)),
        values,
        0.72,
        starts,
        color=[BLUE if value >= 0 else ORANGE for value in values],
        xerr=errors,
        error_kw={"ecolor": INK, "elinewidth": 1.0, "zorder": 3},
        zorder=2,
    )
    ax.bar_label(bars, list(texts), padding=4.0, fontsize=NOTE_SIZE, color=INK)
    name_rows(ax, names)
    return bars


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Write a name before each row of a display, the first on top."""
    ax.set_yticks(np.arange(len(names)), [short(name, LETTERS) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")
