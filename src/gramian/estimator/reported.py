"""The methods of every model that predicts, for people who want to know why: ``explain`` and ``report``.

They are written above all kinds of models, and imported here when they are called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from gramian._typing import RandomState, RowsLike

if TYPE_CHECKING:
    from pathlib import Path

    from gramian.explanation.value import Explanation


def explain(
    self: BaseEstimator,
    X: RowsLike,
    *,
    n_points: int = 5,
    by: str = "share",
    output: object = None,
    X_train: RowsLike | None = None,
    columns: bool = True,
) -> Explanation:
    """Return which training rows or landmarks, and which columns, the predictions for X come from.

    See :func:`gramian.explanation.explain` for the formulas, the cost and what each parameter means.
    """
    from gramian.explanation.explaining import explain

    return explain(self, X, n_points=n_points, by=by, output=output, X_train=X_train, columns=columns)


def report(
    self: BaseEstimator,
    path: str | Path,
    X: RowsLike | None = None,
    y: ArrayLike | None = None,
    *,
    random_state: RandomState = 0,
) -> Path:
    """Write a report of the fitted model as one HTML file without external resources; return its path.

    See :func:`gramian.reporting.report` for what it shows and what rows X and targets y add.
    """
    from gramian.reporting.writing import report

    return report(self, path, X, y, random_state=random_state)
