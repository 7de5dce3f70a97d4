"""Training rows whose target the other rows contradict: label errors, and copies that disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.ndimage import median_filter
from scipy.sparse.csgraph import connected_components
from scipy.stats import norm
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.neighbors import NearestNeighbors

from gramian._numerics import unit_roundoff
from gramian._typing import Array, Float64Array, IntArray, RowsLike
from gramian.estimator.labelled import LabelledRows, labelled_classes, labelled_numbers
from gramian.exceptions import InputError, MissingPackageError
from gramian.explanation.machines import machines_of
from gramian.kernels.precomputed import StoredRows
from gramian.ridge.cross_validation import KernelRidgeCV
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier

if TYPE_CHECKING:
    import pandas as pd

#: Folds of models without exact leave-one-out residuals. Chosen by hand, as are the next constants.
FOLDS = 5
#: Rows of similar prediction whose residuals give the usual size of an error there.
NEIGHBOURHOOD = 101
#: Chance that normal noise alone makes one row of all implausible.
FALSE_ALARM = 0.05
#: Distance of near-duplicates as a share of the median distance of a row to its nearest other row.
NEAR = 0.001
#: Standard deviations of normal numbers in their median absolute value.
DEVIATIONS = 1.4826


def suspects(model: BaseEstimator, X: RowsLike, y: ArrayLike) -> pd.DataFrame:
    r"""Return the training rows whose target is implausible, given the other rows: where to look for errors.

    Each row is predicted from the others: of ridge models exactly, by e_i = (y_i − ŷ_i)/(1 − h_i) on the same
    landmarks and parameters, with copies of a row left out together; of other models by clones in 5 folds.

    * **Numbers.** An error is the size of e_i, times √(1 − h_i) where h_i is known, since rows that the
      others tell little of have larger ones. The surprise of a row is its error over 1.4826 times the median
      error of the 101 rows of most similar prediction, so noise may grow with the level. A row is listed
      beyond the surprise that the largest of n normal errors exceeds one time in twenty (4.1 of 1,000 rows,
      4.9 of 50,000).
    * **Classes.** A row is listed if, of the classes whose score is at least what rows of that class have on
      average, the best is not its own. Its surprise is the score of that class less that of its own, in
      decision values or log odds.
    * **Copies that disagree.** Rows that lie within a thousandth of the median distance to the nearest other
      row, as the kernel takes them (scaled, encoded), count as copies. They are listed if their classes
      differ, or their targets by more than √2 times what is implausible of one error.

    Parameters
    ----------
    model : fitted model that :func:`gramian.explain` takes; its parameters are used, it stays as it is
    X : its training rows, (n, d), of the kind that the model takes, dense
    y : their targets, one number or class each, (n,)

    Returns
    -------
    pandas.DataFrame
        The suspects, the most surprising first. ``row``: its number in X; ``target``; ``held_out``: the
        prediction from the others, of classes the most plausible; ``surprise``; ``reason``: "implausible",
        "copies disagree" or "both"; ``copy``: number of the copy whose target differs most, or <NA>.

    Time: two passes over the rows for ridge models, five fits for others, and a search for nearest rows,
    O(n² d) beyond some 15 columns. Memory O(n d).

    It fails where many rows are wrong in the same way, for they vouch for each other, and lists more rows the
    heavier the tails of the noise are: a surprising row may well be right.

    Raises
    ------
    InputError
        For a model that ``explain`` does not take, several targets, sparse rows or a precomputed kernel.
        NotFittedError before a fit, MissingPackageError without pandas.

    Source: Allen 1974 (leave-one-out); Northcutt, Jiang and Chuang 2021 (thresholds of the classes).

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.05 * np.random.default_rng(1).standard_normal(300)
    >>> y[7] += 1.0
    >>> m = gm.KernelRidge(0.1, gamma=5.0).fit(X, y)
    >>> found = gm.suspects(m, X, y)
    >>> found["row"].tolist(), found["reason"].tolist()
    ([7], ['implausible'])
    """
    try:
        import pandas as pd
    except ImportError:
        raise MissingPackageError(
            "suspects returns a frame of pandas, which is not installed. Run: pip install pandas"
        ) from None
    machines = machines_of(model)
    source = machines.read(X)
    if isinstance(source, StoredRows):
        raise InputError(
            "kernel='precomputed' has no rows to compare. Fit the model to the rows, with kernel='rbf'."
        )
    prepared = machines.machines[0].input.over(source)
    rows = prepared.rows(slice(0, source.shape[0]))
    if sp.issparse(rows):
        raise InputError("X is sparse, and copies are looked for in dense rows. Pass X.toarray(), or a part.")
    classes = getattr(model, "classes_", None)
    labelled: LabelledRows[Any]
    if classes is None:
        labelled = labelled_numbers(prepared, y)
        if labelled.n_outputs > 1:
            raise InputError(
                f"y has {labelled.n_outputs} targets; pass one, and a model that was fitted to it."
            )
        target = numbers = labelled.numbers[:, 0]
        scores, fitted = _held_out(model, X, np.asarray(y).ravel(), labelled)
        held_out = scores[:, 0]
        error = np.sqrt(np.abs((target - held_out) * (target - fitted[:, 0])))
        surprise, limit, allowed = _surprising_numbers(error, held_out)
        implausible = surprise > limit
    else:
        target = np.asarray(y)
        labelled = labelled_classes(prepared, target, None, getattr(model, "class_weight", None), classes)
        numbers = labelled.targets.codes(slice(0, len(target))).astype(np.intp)
        scores, _ = _held_out(model, X, target, labelled)
        surprise, chosen = _surprising_classes(numbers, scores)
        implausible, allowed, held_out = chosen != numbers, np.zeros(len(numbers)), classes[chosen]
    copy = _copies(np.asarray(rows, np.float64), numbers)
    disagree = np.abs(numbers[copy] - numbers) > np.maximum(allowed, allowed[copy])
    listed = np.flatnonzero(implausible | disagree)
    listed = listed[np.argsort(-surprise[listed], kind="stable")]
    reason = np.where(implausible, np.where(disagree, "both", "implausible"), "copies disagree")
    return pd.DataFrame(
        {
            "row": listed,
            "target": target[listed],
            "held_out": held_out[listed],
            "surprise": surprise[listed],
            "reason": reason[listed].astype(object),
            "copy": pd.Series(copy[listed], dtype="Int64").where(disagree[listed]),
        }
    )


def _held_out(
    model: BaseEstimator, X: RowsLike, y: Array, labelled: LabelledRows[Any]
) -> tuple[Float64Array, Float64Array]:
    """Return what the model predicts of each row from the others, (n, 1) numbers or (n, classes) scores.

    The second is what a ridge model of numbers predicts from all rows, and else the same again. X, y : as the
    user gave them; labelled : the same rows, prepared for the kernel.
    """
    classes = getattr(model, "classes_", None)
    if isinstance(model, KernelRidge | KernelRidgeClassifier | KernelRidgeCV):
        Y = labelled.numbers
        alpha: Any = model.alpha_ if hasattr(model, "alpha_") else model.alpha
        exact = KernelRidgeCV(
            [float(alpha)],
            kernel=model.kernel_,
            approximation=model.approximation,
            fit_intercept=model.fit_intercept,
            store_cv_results=True,
            memory_budget=model.memory_budget,
            tile_dtype=model.tile_dtype,
            random_state=model.random_state,
            n_jobs=model.n_jobs,
        ).fit(labelled.source, Y, labelled.weights)
        scores = fitted = np.asarray(Y - exact.loo_residuals_.reshape(Y.shape))
        if classes is None:
            fitted = exact.predict(labelled.source).reshape(Y.shape)
    else:
        kind = KFold if classes is None else StratifiedKFold
        folds = kind(FOLDS, shuffle=True, random_state=0)
        method = "predict" if classes is None else "decision_function"
        found: Array = cross_val_predict(clone(model), X, y, cv=folds, method=method)
        scores = fitted = found.reshape(len(found), -1).astype(np.float64)
    if classes is not None and scores.shape[1] == 1:
        return np.hstack([-scores, scores]), fitted
    return scores, fitted


def _surprising_numbers(
    error: Float64Array, held_out: Float64Array
) -> tuple[Float64Array, float, Float64Array]:
    """Return errors over their usual size, the largest plausible one, and plausible differences of copies."""
    order, usual = np.argsort(held_out, kind="stable"), np.empty(len(error))
    usual[order] = DEVIATIONS * median_filter(error[order], NEIGHBOURHOOD, mode="mirror")
    usual = np.maximum(usual, 2.0 * unit_roundoff(np.float64) * (np.abs(held_out).max() or 1.0))
    limit = float(norm.isf(FALSE_ALARM / (2 * len(error))))
    return error / usual, limit, np.sqrt(2.0) * limit * usual


def _surprising_classes(codes: IntArray, scores: Float64Array) -> tuple[Float64Array, IntArray]:
    """Return how far the score of another class is above that of a row's own, and the most plausible class.

    A class is plausible if its score is at least the mean of those rows that have it as their own.
    """
    n = np.arange(len(codes))
    means = np.bincount(codes, scores[n, codes], scores.shape[1]) / np.maximum(np.bincount(codes), 1)
    plausible = np.where(scores >= means, scores, -np.inf)
    plausible[n, codes] = np.maximum(plausible[n, codes], scores[n, codes])
    others = np.where(np.arange(scores.shape[1]) == codes[:, None], -np.inf, scores)
    return others.max(axis=1) - scores[n, codes], plausible.argmax(axis=1)


def _copies(rows: Float64Array, numbers: Array) -> IntArray:
    """Return for each row the one of its copies whose number differs most, and itself where there is none.

    Rows nearer than ``NEAR`` times the median distance to the nearest other row are copies, and copies of
    copies are.
    """
    unique, place = np.unique(rows, axis=0, return_inverse=True)
    place, groups = place.ravel(), np.arange(len(unique))
    if len(unique) > 1:
        distance, nearest = NearestNeighbors(n_neighbors=2).fit(unique).kneighbors(unique)
        # A row may stand behind one that is as near as itself up to rounding.
        other = np.where(nearest[:, 0] == groups, nearest[:, 1], nearest[:, 0])
        near = np.flatnonzero(distance[:, 1] <= NEAR * np.median(distance[:, 1]))
        edges = sp.coo_array((np.ones(len(near)), (near, other[near])), (len(unique),) * 2)
        groups = connected_components(edges, directed=False)[1].astype(np.intp)
    group = groups[place]
    order = np.lexsort((numbers, group))
    ends = np.searchsorted(group[order], np.arange(group.max() + 1), side="right") - 1
    starts = np.r_[0, ends[:-1] + 1]
    low, high = order[starts][group], order[ends][group]
    return np.where(numbers - numbers[low] >= numbers[high] - numbers, low, high)
