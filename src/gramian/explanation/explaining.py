"""The function that explains predictions by training rows or landmarks, and by columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gramian._checks import flag, one_of, whole_number
from gramian._tiles import row_slices
from gramian._typing import Array, IntArray, RowsLike
from gramian.data.formats.frames import frame_kind
from gramian.data.names import names_of
from gramian.data.source import RowSource, row_blocks
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import InputError
from gramian.explanation.columns import ColumnValues, column_values
from gramian.explanation.machines import Explained, Machines, explained_outputs, machines_of
from gramian.explanation.shapley import LEAST_ESTIMATES, STRATA
from gramian.explanation.value import LANDMARKS, ROWS, Explanation, largest
from gramian.kernels.columns import dense
from gramian.kernels.input_gradient import squared_distances
from gramian.kernels.precomputed import StoredRows

#: How points are ranked.
SHARE, SIMILARITY = BYS = ("share", "similarity")
#: Rows explained at a time, numbers of their shares in all training rows, and rows compared with landmarks at
#: a time. Chosen by hand.
BLOCK_ROWS, BLOCK_NUMBERS, NEAR_ROWS = 1024, 1 << 22, 4096


def explain(
    model: BaseEstimator,
    X: RowsLike,
    *,
    n_points: int = 5,
    by: str = SHARE,
    output: object = None,
    X_train: RowsLike | None = None,
    columns: bool = True,
    n_draws: int = 32,
) -> Explanation:
    r"""Return what each column adds to the predictions for rows X, and the rows most like them.

    **Columns.** The value φ_p of the column p is its Shapley value: its mean contribution to the prediction,
    over all orders in which the columns can take their values of the row x in place of unknown ones. With
    v(S) the mean prediction if the columns in S have the values of x and each other column those of the
    background rows, drawn apart from the others,

        φ_p = Σ over S without p of s! (d − s − 1)!/d! · (v(S with p) − v(S)), with s columns in S,

    so prediction = base + Σ_p φ_p with base = v(no column). The values are exact where the kernel is a
    product over the columns (Gaussian, Laplacian, powered exponential with p = q; sums and products of
    these; scaled columns and diagonal metrics) and the prediction is a linear map of its sums: values of a
    regression, decision values, means of a process, multi-resolution kernels with the row's blocks held
    fixed. Of other models, boosting and transformed targets among them, they are estimated from drawn orders,
    with standard errors. A column of a table is one column, whatever it was encoded to.

    **Rows.** A kernel machine predicts f(x) = b + Σ_j k(x, z_j) c_j; the share of z_j is k(x, z_j) c_j. In an
    exact model z_j are the training rows, in a compressed one the landmarks on the row's path: centres of
    clusters or rows picked from them, as the kernel takes them (scaled, and mapped by the metric). In a mean
    of models the shares of a training row are added up. Where a map h turns the sum into the prediction (a
    transformed target, calibrated log odds), shares are multiplied by its secant (h(f) − h(b))/(f − b), so
    that they still add up to the prediction.

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
    X_train : training rows, or rows like them: 500 of them are the background, and each landmark is matched
        with the nearest. Without it the background is 500 rows that the model keeps; of a table, whose models
        keep none that can be read, one row of medians without known categories; of sparse rows zeros.
    columns : False leaves out the values of the columns
    n_draws : draws of an estimate, at least 16; its standard error falls with the root of their number

    Returns
    -------
    Explanation

    Time O(m d) a row for its m points. Exact values: O(m d²) a row, and O(500 m d) once. Estimates: 2 d
    predictions a draw. Memory the answer and blocks of some 10 MB, never n × n. With ``X_train`` also
    O(n_train · d) for each landmark that is named.

    It fails to say what the world does: a column that the model does not use gets 0, however much depends on
    it, and correlated columns are drawn apart, so that the model is asked about rows that may never occur.

    Raises
    ------
    InputError
        For a model that is no sum over rows (random features, fast models, pairs of classes), or unusable
        rows or parameters. NotFittedError before a fit.

    Source: Shapley 1953; Owen 1972 and Mohammadi, Chau and Muandet 2025 (exact values); Yeh, Kim, Yen and
    Ravikumar 2018 (shares of rows).

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> m = gm.KernelRidge(0.1, gamma=5.0, approximation="exact").fit(X, 3.0 * X[:, 0])
    >>> found = m.explain(X[:2], n_points=3)
    >>> bool(np.allclose(found.base + found.values.sum(axis=1), m.predict(X[:2])))
    True
    >>> bool(abs(found.values[0, 0]) > 10 * abs(found.values[0, 1])), found.errors
    (True, None)
    >>> total = found.intercept + found.shares.sum(axis=1) + found.rest
    >>> found.points.shape, bool(np.allclose(total, m.predict(X[:2])))
    ((2, 3), True)
    """
    one_of("by", by, BYS)
    count, with_columns = whole_number("n_points", n_points, 1), flag("columns", columns)
    n_draws = whole_number("n_draws", n_draws, STRATA * LEAST_ESTIMATES)
    machines = machines_of(model)
    source = machines.read(X)
    sums, boosted = machines.values(source)
    if not np.isfinite(sums).all():
        raise InputError("predictions of X overflow, so there is nothing to explain. Scale the columns.")
    predictions = machines.predictions(sums)
    outputs, signs, labels = explained_outputs(model, predictions, output)
    n = len(outputs)
    base, factors, other = np.zeros(n), np.zeros(sums.shape[:2]), np.zeros(n)
    for o in np.unique(outputs):
        own = outputs == o
        base[own], factors[own], other[own] = machines.factors(int(o), sums[own], boosted[own])
    factors *= signs[:, None]
    base, other = signs * base, signs * other
    explained = Explained(outputs, signs, factors)
    kind, (points, similarities, weights, shares) = _largest_shares(machines, source, count, by, explained)
    prediction, nearest = signs * predictions[np.arange(n), outputs], None
    if X_train is not None and kind == LANDMARKS:
        nearest = nearest_rows(machines, points, machines.read(X_train))
    found = column_values(machines, X, X_train, explained, n_draws) if with_columns else ColumnValues()
    return Explanation(
        prediction,
        found.values,
        found.errors,
        None if found.values is None else prediction - found.values.sum(axis=1),
        found.names,
        found.background,
        _cells(X, n, found.names),
        base,
        kind,
        points,
        similarities,
        weights,
        shares,
        prediction - base - other - shares.sum(axis=1),
        other,
        nearest,
        outputs,
        machines.unit,
        labels,
    )


def _cells(X: RowsLike, n: int, names: tuple[str, ...]) -> Array | None:
    """Return a copy of the rows of an array or a frame (n, d), in the order of the columns' names.

    None for other rows, and for frames without these columns.
    """
    frame = frame_kind(X)
    if frame is None and not isinstance(X, np.ndarray | list | tuple):
        return None
    own = names_of(X) if frame is not None else None
    table: Any = X
    cells = np.asarray(table.to_pandas() if frame == "Arrow" else table)
    if cells.ndim != 2 or len(cells) != n:
        return None
    if own is None or own == names or not names:
        return np.array(cells)
    return np.array(cells[:, [own.index(name) for name in names]]) if set(names) <= set(own) else None


def _largest_shares(
    machines: Machines, source: RowSource, count: int, by: str, explained: Explained
) -> tuple[str, tuple[Array, ...]]:
    """Return what points are, and the numbers, similarities, weights and shares (n, k) of the largest."""
    sizes = [each.predictor.n_points for each in machines.machines]
    exact = all(isinstance(each.predictor, ExactPredictor) for each in machines.machines)
    # Exact members of a mean share their training rows.
    together = exact and len(set(sizes)) == 1
    n, mass = len(explained.outputs), sum(each.weight for each in machines.machines)
    k = min(count, sizes[0] if together else sum(sizes))
    height = int(np.clip(BLOCK_NUMBERS // max(1, sizes[0]), 1, BLOCK_ROWS)) if together else BLOCK_ROWS
    found = _zeros((n, k))
    for where in row_slices(n, height):
        kept = _zeros((where.stop - where.start, sizes[0] if together else k * len(sizes)))
        if together:
            kept[0][:] = np.arange(sizes[0])
        for j, each in enumerate(machines.machines):
            for terms in each.terms(source, where):
                rows = where.start + terms.rows
                c = machines.coefficients(each, terms, explained.rows(rows))
                shares = terms.values * c
                if together:
                    for out, more in zip(
                        kept[1:], (each.weight / mass * terms.values, c, shares), strict=True
                    ):
                        out[terms.rows] += more
                    continue
                best = largest(shares if by == SHARE else terms.values, min(k, shares.shape[1]))
                place = np.ix_(terms.rows, j * k + np.arange(best.shape[1]))
                kept[0][place] = sum(sizes[:j]) + terms.points[best]
                for out, whole in zip(kept[1:], (terms.values, c, shares), strict=True):
                    out[place] = np.take_along_axis(whole, best, 1)
        best = largest(kept[3 if by == SHARE else 1], k)
        for out, whole in zip(found, kept, strict=True):
            out[where] = np.take_along_axis(whole, best, 1)
    return ROWS if together else LANDMARKS, found


def _zeros(shape: tuple[int, int]) -> tuple[Array, ...]:
    """Return zeros for numbers of points, similarities, weights and shares."""
    return np.zeros(shape, np.intp), np.zeros(shape), np.zeros(shape), np.zeros(shape)


def nearest_rows(machines: Machines, points: IntArray, source: RowSource) -> IntArray:
    """Return for each landmark's number the number of the row of the source that is nearest to it.

    Distances are Euclidean, between rows as the kernel takes them. Time O(rows · landmarks named · d).
    """
    if isinstance(source, StoredRows):
        raise InputError(
            "X_train finds the rows nearest to landmarks; with kernel='precomputed' there are no features to "
            "measure distances in. Leave X_train out."
        )
    out, start = np.zeros(points.shape, np.intp), 0
    for each in machines.machines:
        count = each.predictor.n_points
        own = (points >= start) & (points < start + count)
        numbers = np.unique(points[own]) - start
        if len(numbers):
            Z = np.concatenate([dense(each.predictor.point(int(j)), np.float64) for j in numbers])
            center = Z.mean(axis=0)
            least, found = np.full(len(Z), np.inf), np.zeros(len(Z), np.intp)
            for where, rows in row_blocks(each.input.over(source), NEAR_ROWS):
                square = squared_distances(dense(rows, np.float64) - center, Z - center)
                best = square.argmin(axis=0)
                size = square[best, np.arange(len(Z))]
                nearer = size < least
                least[nearer], found[nearer] = size[nearer], where.start + best[nearer]
            out[own] = found[np.searchsorted(numbers, points[own] - start)]
        start += count
    return out
