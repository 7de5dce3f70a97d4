"""Display of error against seconds or bytes for several methods at several sizes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from gramian._checks import whole_number
from gramian._typing import Array, IntArray, RowsLike
from gramian.exceptions import InputError
from gramian.plotting.canvas import Axes, Display, caption, checked_unit, padded, pyplot, scale_axis
from gramian.plotting.curves import checked_points, draw_curves, flat_items, pareto_front, records_of

#: Fields of results files, with the names and units of their axes.
KNOWN = {
    "fit_seconds": ("Time to fit", "s"),
    "predict_seconds": ("Time to predict", "s"),
    "seconds_per_row": ("Time to predict a row", "s"),
    "peak_bytes": ("Peak memory of the fit", "B"),
    "model_bytes": ("Size of the model", "B"),
    "error": ("Error", ""),
}
MISCLASSIFIED, UNEXPLAINED = "Misclassified", "Unexplained variance, 1 − R²"


class FrontierDisplay(Display):
    """Plot of error against cost, with a curve through the sizes of each method, and the Pareto front.

    The front has the points that no other point beats in cost or error without being worse in the other.

    Build it with :meth:`from_estimators`, :meth:`from_predictions` or :meth:`from_results`; the constructor
    stores given numbers.

    Parameters
    ----------
    methods : list of str
        The method of each point. A method's points are joined in the order in which they come. With ``cost``
        and ``error`` of shape (methods, sizes): the method of each row.
    cost, error : array-like (points,) or (methods, sizes)
        Smaller is better. Points without finite values of both are left out and counted below the title.
    cost_name, error_name : str
        Labels of the axes.
    cost_unit : {"s", "B", ""}
        Seconds, bytes, or plain numbers.
    error_unit : {"%", ""}
        "%" shows fractions as per cent.
    title : str

    Attributes
    ----------
    names : list of str, ``cost`` and ``error`` (points,): the points that are drawn.
    left_out : int, the points that are not.
    front : (f,) numbers of the points on the front, by rising cost.
    figure_, ax_ : set by :meth:`plot`; ``lines_`` a line for each method, ``front_`` that of the front.

    Examples
    --------
    >>> display = FrontierDisplay(
    ...     ["Nystrom", "MEKA"], [[0.1, 0.4], [0.2, 0.9]], [[0.30, 0.10], [0.12, 0.05]],
    ...     cost_name="Time to fit", error_name="Error", cost_unit="s")
    >>> display.front
    array([0, 2, 1, 3])
    >>> [line.get_label() for line in display.plot().lines_]
    ['Nystrom', 'MEKA']
    """

    def __init__(
        self,
        methods: Iterable[object],
        cost: ArrayLike,
        error: ArrayLike,
        *,
        cost_name: str,
        error_name: str,
        cost_unit: str = "",
        error_unit: str = "",
        title: str = "What accuracy costs",
    ) -> None:
        names, found = checked_points(methods, cost=cost, error=error)
        known = np.isfinite(found["cost"]) & np.isfinite(found["error"])
        if not known.any():
            raise InputError(
                "no point has both a finite cost and a finite error. Pass at least one measured point."
            )
        self.names = [name for name, keep in zip(names, known, strict=True) if keep]
        self.cost, self.error = found["cost"][known], found["error"][known]
        self.left_out = int((~known).sum())
        self.cost_name, self.error_name, self.title = cost_name, error_name, title
        self.cost_unit = checked_unit("cost_unit", cost_unit)
        self.error_unit = checked_unit("error_unit", error_unit)
        self.front: IntArray = pareto_front(self.cost, self.error)

    @classmethod
    def from_results(
        cls,
        results: Iterable[Mapping[str, Any]],
        *,
        method: str = "method",
        cost: str = "fit_seconds",
        error: str = "error",
        cost_name: str | None = None,
        error_name: str | None = None,
        units: Mapping[str, str] | None = None,
        title: str = "What accuracy costs",
        ax: Axes | None = None,
        log: bool = True,
    ) -> Self:
        """Draw stored results.

        Parameters
        ----------
        results : list of mappings, one for each point, as from a file of JSON lines.
        method, cost, error : the fields to draw. None in a field leaves the point out.
        cost_name, error_name : labels of the axes; by default those of a known field (``fit_seconds``,
            ``predict_seconds``, ``peak_bytes``, ``model_bytes`` …), or the field itself.
        units : unit of a field, for example ``{"error": "%"}``: "s", "B", "%" or "" as for the constructor;
            by default that of a known field.
        title : as for the constructor.
        ax, log : as for :meth:`plot`.

        Errors: ``InputError`` for a field that a record lacks, ``MissingPackageError`` without matplotlib.
        """
        pyplot(cls.__name__)
        columns = records_of(results, {"method": method, "cost": cost, "error": error})
        (cost_label, cost_unit), (error_label, error_unit) = (KNOWN.get(f, (f, "")) for f in (cost, error))
        known = {error: error_unit, cost: cost_unit}
        for field, unit in _mapping("units", {} if units is None else units).items():
            if field not in known:
                raise InputError(f"units has {field!r}, but the fields drawn are {cost!r} and {error!r}.")
            known[field] = unit
        return cls(
            columns["method"],
            columns["cost"],
            columns["error"],
            cost_name=cost_label if cost_name is None else cost_name,
            error_name=error_label if error_name is None else error_name,
            cost_unit=known[cost],
            error_unit=known[error],
            title=title,
        ).plot(ax, log=log)

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        predictions: Mapping[str, Any],
        cost: Mapping[str, Any],
        *,
        classes: bool | None = None,
        cost_name: str = "Time to fit",
        cost_unit: str = "s",
        title: str = "What accuracy costs",
        ax: Axes | None = None,
        log: bool = True,
    ) -> Self:
        """Draw the errors of predictions of y: the misclassified fraction, or 1 − R².

        Parameters
        ----------
        y : (n,) classes or numbers, or (n, outputs) numbers.
        predictions : name → an array of the shape of y, or a list of them, by size.
        cost : name → a number, or a list of as many.
        classes : whether y are classes; by default true for integers, booleans and text.
        cost_name, cost_unit, title : as for the constructor. ax, log : as for :meth:`plot`.
        """
        pyplot(cls.__name__)
        y = np.asarray(y)
        classed = y.dtype.kind not in "fc" if classes is None else bool(classes)
        names, costs, errors = list[str](), list[float](), list[float]()
        for name, given in _mapping("predictions", predictions).items():
            several = isinstance(given, list) and np.ndim(given) > y.ndim
            found = given if several else [given]
            if name not in _mapping("cost", cost):
                raise InputError(f"cost has no {name!r}. Give each method of predictions its cost.")
            prices = np.atleast_1d(np.asarray(cost[name], np.float64))
            if len(prices) != len(found):
                raise InputError(
                    f"cost[{name!r}] has {len(prices)} numbers, but there are {len(found)} predictions. Pass "
                    "one for each."
                )
            for price, predicted in zip(prices, found, strict=True):
                names.append(name)
                costs.append(float(price))
                errors.append(_error(y, np.asarray(predicted), classed, name))
        return cls(
            names,
            costs,
            errors,
            cost_name=cost_name,
            error_name=MISCLASSIFIED if classed else UNEXPLAINED,
            cost_unit=cost_unit,
            error_unit="%" if classed else "",
            title=title,
        ).plot(ax, log=log)

    @classmethod
    def from_estimators(
        cls,
        estimators: Mapping[str, Any],
        X: RowsLike,
        y: ArrayLike,
        *,
        n_repeats: int = 3,
        title: str = "What accuracy costs",
        ax: Axes | None = None,
        log: bool = True,
    ) -> Self:
        """Measure and draw the error of fitted models on X and y against the seconds to predict a row.

        Parameters
        ----------
        estimators : name → a fitted classifier or regressor, or a list of them, by size; all of one kind.
        X, y : (n, d) rows that none of them was fitted to, and their targets.
        n_repeats : predictions of all rows, after one that is not timed; the median counts.
        title : as for the constructor. ax, log : as for :meth:`plot`.

        Errors: ``InputError`` for what cannot predict or models of two kinds, ``NotFittedError``,
        ``MissingPackageError`` without matplotlib.
        """
        pyplot(cls.__name__)
        n_repeats = whole_number("n_repeats", n_repeats, 1)
        models = flat_items(_mapping("estimators", estimators))
        for name, model in models:
            if not hasattr(model, "predict"):
                raise InputError(
                    f"estimators[{name!r}] has type {type(model).__name__}, which does not predict. Pass a "
                    "fitted classifier or regressor."
                )
            check_is_fitted(model)
        kinds = {bool(is_classifier(model)) for _, model in models}
        if len(kinds) != 1:
            raise InputError(
                "estimators holds "
                + ("no model." if not kinds else "classifiers and regressors, whose errors differ in kind.")
                + " Pass fitted models of one kind."
            )
        predictions: dict[str, list[Any]] = {}
        costs: dict[str, list[float]] = {}
        for name, model in models:
            predictions.setdefault(name, []).append(np.asarray(model.predict(X)))
            seconds = []
            for _ in range(n_repeats):
                began = time.perf_counter()
                model.predict(X)
                seconds.append(time.perf_counter() - began)
            costs.setdefault(name, []).append(float(np.median(seconds)) / len(predictions[name][-1]))
        return cls.from_predictions(
            y,
            predictions,
            costs,
            classes=kinds.pop(),
            cost_name="Time to predict a row, in a batch",
            title=title,
            ax=ax,
            log=log,
        )

    def plot(self, ax: Axes | None = None, *, log: bool = True) -> Self:
        """Draw curves and front.

        ax : axes to draw on; None for a new figure. log : logarithmic axes, each only if all its values are
        positive.
        """
        axes = self._open(ax, (7.2, 4.6))
        by_cost, by_error = log and bool((self.cost > 0).all()), log and bool((self.error > 0).all())
        right, top = (padded(self.cost, log=by_cost, share=0.1), padded(self.error, log=by_error, share=0.1))
        scale_axis(axes, "x", right, self.cost_name, unit=self.cost_unit, log=by_cost)
        scale_axis(axes, "y", top, self.error_name, unit=self.error_unit, log=by_error)
        left_out = f"; {self.left_out} without a value left out" if self.left_out else ""
        note = f"lower left is better; grey: the Pareto front{left_out}"
        caption(axes, self.title, note)
        # The corners of the staircase through the points of the front.
        x = np.append(np.repeat(self.cost[self.front], 2), right[1])
        y = np.insert(np.repeat(self.error[self.front], 2), 0, top[1])
        (self.front_,) = axes.plot(x, y, color="#d8d8d8", linewidth=4.0, solid_joinstyle="round", zorder=1)
        self.front_.set_label("_Pareto front")
        self.lines_ = draw_curves(axes, self.names, self.cost, self.error)
        return self


def _mapping(name: str, given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InputError(
            f"{name} has type {type(given).__name__}; expected a mapping from names. Pass "
            f"{name}={{'name': ...}}."
        )
    return given


def _error(y: Array, predicted: Array, classed: bool, name: str) -> float:
    if predicted.shape != y.shape:
        raise InputError(
            f"the predictions of {name!r} have shape {predicted.shape}, but y has shape {y.shape}. Pass one "
            "prediction for each target."
        )
    return float(1.0 - (accuracy_score(y, predicted) if classed else r2_score(y, predicted)))
