"""The function that explains predictions by training rows or landmarks, and by columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gramian._checks import flag, one_of, whole_number
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray, RowsLike
from gramian.data.source import RowSource
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import InputError
from gramian.explanation.columns import contributions
from gramian.explanation.machines import Machines, explained_outputs, machines_of
from gramian.explanation.nearest import nearest_rows
from gramian.explanation.value import LANDMARKS, ROWS, Explanation, largest

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


#: How points are ranked.
SHARE, SIMILARITY = BYS = ("share", "similarity")
#: Rows explained at a time, and numbers of their shares in all training rows. Chosen by hand.
BLOCK_ROWS, BLOCK_NUMBERS = 1024, 1 << 22


def explain(
    model: BaseEstimator,
    X: RowsLike,
    *,
    n_points: int = 5,
    by: str = SHARE,
    output: object = None,
    X_train: RowsLike | None = None,
    columns: bool = True,
) -> Explanation:
    r"""Return which training rows or landmarks, and which columns, the predictions for rows X come from.

    A kernel machine predicts f(x) = b + Σ_j k(x, z_j) c_j; the share of z_j is k(x, z_j) c_j. In an exact
    model z_j are the training rows, in a compressed one the landmarks on the row's path: centres of clusters
    or rows picked from them, as the kernel takes them (scaled, and mapped by the metric). In a mean of models
    the shares of a training row are added up. Where a map h turns the sum into the prediction (a transformed
    target, calibrated log odds), shares are multiplied by its secant (h(f) − h(b))/(f − b), so that they
    still add up to the prediction.

    The contribution of a column is f(x) − f(x with that column at its reference). References are, of
    ``X_train``, means of numbers and most frequent categories. Without it they are, of a table, medians and
    "no known category"; else the mean of the training rows that the model knows (its scaler's, its rows', or
    that of its landmarks). This is occlusion: columns that act together each count their joint effect, so
    contributions need not add up, and a row with a single column replaced may be one that never occurs.

    Parameters
    ----------
    model : fitted KernelRidge, KernelRidgeCV, KernelRidgeClassifier, KernelSVC, KernelSVR,
        KernelLogisticRegression, GaussianProcessRegressor (its mean), TabularRegressor or TabularClassifier
    X : rows of the kind that the model takes, (n, d)
    n_points : points to name for each row
    by : "share" names the points with the largest shares, whatever their sign; "similarity" those with the
        largest k(x, z_j). If the penalty is small, shares are large, of both signs, and cancel: then they
        show where the model bends, and similar rows tell more about the prediction.
    output : of several targets the number of the one to explain; of classes a label, by default the predicted
        one. A classifier is explained in its decision values, one of tables in its log odds.
    X_train : training rows, or rows like them: each landmark is matched with the nearest of them, and columns
        take their references from them
    columns : False leaves out the contributions of the columns, which take d predictions for each row

    Returns
    -------
    Explanation

    Time O(m d) a row for its m points, d times that for the columns; memory the answer and blocks of some
    10 MB, never n × n. With ``X_train`` also O(n_train · d) for each landmark that is named.

    Raises
    ------
    InputError
        For a model that is no sum over rows (random features, fast models, pairs of classes), or unusable
        rows or parameters. NotFittedError before a fit.

    Source: Yeh, Kim, Yen and Ravikumar 2018 (representer points); Zeiler and Fergus 2014 (occlusion).

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> m = gm.KernelRidge(0.1, gamma=5.0, approximation="exact").fit(X, 3.0 * X[:, 0])
    >>> found = m.explain(X[:2], n_points=3)
    >>> found.kind, found.points.shape
    ('training rows', (2, 3))
    >>> total = found.base + found.shares.sum(axis=1) + found.rest
    >>> bool(np.allclose(total, m.predict(X[:2])))
    True
    >>> bool(abs(found.columns[0, 0]) > abs(found.columns[0, 1]))
    True
    """
    one_of("by", by, BYS)
    count, with_columns = whole_number("n_points", n_points, 1), flag("columns", columns)
    machines = machines_of(model)
    source = machines.read(X)
    values, boosted = machines.values(source)
    if not np.isfinite(values).all():
        raise InputError("predictions of X overflow, so there is nothing to explain. Scale the columns.")
    predictions = machines.predictions(values, boosted)
    outputs, signs, labels = explained_outputs(model, predictions, output)
    n = len(outputs)
    base, factors, other = np.zeros(n), np.zeros((n, len(machines.maps(0)))), np.zeros(n)
    for o in np.unique(outputs):
        own = outputs == o
        base[own], factors[own], other[own] = machines.factors(int(o), values[own], boosted[own])
    factors *= signs[:, None]
    base, other = signs * base, signs * other
    shares = _Shares(machines, count, by, outputs, factors)
    shares.add_all(source)
    explained = signs * predictions[np.arange(n), outputs]
    chosen = explained_columns = None
    names: tuple[str, ...] = ()
    if X_train is not None and shares.kind == LANDMARKS:
        chosen = nearest_rows(machines, shares.points, machines.read(X_train))
    if with_columns:
        explained_columns, names = contributions(machines, X, X_train, outputs, signs)
    return Explanation(
        explained,
        base,
        shares.kind,
        shares.points,
        shares.similarities,
        shares.weights,
        shares.shares,
        explained - base - other - shares.shares.sum(axis=1),
        other,
        chosen,
        explained_columns,
        names,
        outputs,
        machines.unit,
        labels,
    )


class _Shares:
    """Collector of the largest shares of each row."""

    def __init__(
        self, machines: Machines, count: int, by: str, outputs: IntArray, factors: Float64Array
    ) -> None:
        self._machines, self._by, self._outputs, self._factors = machines, by, outputs, factors
        predictors = [each.predictor for each in machines.machines]
        sizes = {each.n_points for each in predictors}
        exact = all(isinstance(each, ExactPredictor) for each in predictors)
        #: Exact members of a mean share their training rows.
        self._together = exact and len(sizes) == 1
        self.kind = ROWS if self._together else LANDMARKS
        total = sizes.pop() if self._together else sum(each.n_points for each in predictors)
        n, k = len(outputs), min(count, total)
        self.points = np.zeros((n, k), np.intp)
        self.similarities, self.weights, self.shares = (np.zeros((n, k)) for _ in range(3))

    def add_all(self, source: RowSource) -> None:
        """Find the largest shares of all rows, block by block."""
        height = BLOCK_ROWS
        if self._together:
            total = self._machines.machines[0].predictor.n_points
            height = int(np.clip(BLOCK_NUMBERS // max(1, total), 1, BLOCK_ROWS))
        for where in row_slices(int(source.shape[0]), height):
            if self._together:
                self._add_rows(source, where)
            else:
                self._add_landmarks(source, where)

    def _add_rows(self, source: RowSource, where: slice) -> None:
        """Add up the shares of each training row over the machines, and keep the largest."""
        shape = where.stop - where.start, self._machines.machines[0].predictor.n_points
        alike, weights, shares = (np.zeros(shape) for _ in range(3))
        mass = sum(each.weight for each in self._machines.machines)
        for each in self._machines.machines:
            for terms in each.on(source).terms(each.rows(source).rows(where), each.engine):
                c = each.weight * self._coefficients(terms.weights, where.start + terms.rows)
                weights[terms.rows] += c
                shares[terms.rows] += terms.values * c
                alike[terms.rows] += (each.weight / mass) * terms.values
        points = np.broadcast_to(np.arange(shape[1]), shape)
        self._keep(where, points, alike, weights, shares)

    def _add_landmarks(self, source: RowSource, where: slice) -> None:
        """Keep the largest of the shares of all landmarks on each row's paths."""
        n, k = where.stop - where.start, self.points.shape[1]
        found: list[tuple[Array, ...]] = []
        start = 0
        for each in self._machines.machines:
            predictor = each.on(source)
            kept = tuple(np.zeros((n, k), dtype) for dtype in (np.intp, float, float, float))
            for terms in predictor.terms(each.rows(source).rows(where), each.engine):
                c = each.weight * self._coefficients(terms.weights, where.start + terms.rows)
                shares = terms.values * c
                ranked: Array = shares if self._by == SHARE else terms.values
                best = largest(ranked, min(k, shares.shape[1]))
                place = np.ix_(terms.rows, np.arange(best.shape[1]))
                kept[0][place] = start + terms.points[best]
                for out, whole in zip(kept[1:], (terms.values, c, shares), strict=True):
                    out[place] = np.take_along_axis(whole, best, 1)
            found.append(kept)
            start += predictor.n_points
        self._keep(where, *(np.hstack([one[j] for one in found]) for j in range(4)))

    def _keep(self, where: slice, points: Array, alike: Array, weights: Array, shares: Array) -> None:
        """Keep the best of the given points for a block of rows."""
        best = largest(np.asarray(shares if self._by == SHARE else alike), self.points.shape[1])
        into = self.points, self.similarities, self.weights, self.shares
        for out, whole in zip(into, (points, alike, weights, shares), strict=True):
            out[where] = np.take_along_axis(whole, best, 1)

    def _coefficients(self, weights: Any, rows: IntArray) -> Float64Array:
        """Return the coefficient of each point in the explained number of each row, (rows, points)."""
        width = self._machines.n_outputs
        total = np.zeros((len(rows), len(weights)))
        for g in range(self._factors.shape[1]):
            columns = g * width + self._outputs[rows]
            total += self._factors[rows, g, None] * np.asarray(weights, np.float64).T[columns]
        return total
