"""Methods to measure on tables: gramian's defaults, boosting, forests, Nystroem features, xRFM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gramian as gm
from gramian.comparison import CONTENDERS, REGRESSION, search
from gramian.comparison.contenders import Hyperparameters, Shape, log_uniform
from gramian.exceptions import InputError, did_you_mean
from suite.methods import METHODS, absent

#: By these names a line says whose it is.
OURS, BOOSTING, TUNED = "gramian", "boosting", "tuned_boosting"
TREES, COMPONENTS = 100, 1000
#: Penalties that RidgeCV compares, and numbers of trees that the search of boosting draws from.
ALPHAS, BOOSTED_TREES = np.logspace(-4, 3, 8), (30, 500)


@dataclass(frozen=True)
class Terms:
    """What a method is given beside the rows: threads, and the seconds of a search."""

    threads: int
    seconds: float | None = None


@dataclass(frozen=True)
class TableMethod:
    """A method by its unfitted model.

    Parameters
    ----------
    name : in tables.
    about : a line for the page.
    build : the model for a shape and terms.
    needs : library that must be installed, beside scikit-learn.
    """

    name: str
    about: str
    build: Callable[[Shape, Terms], Any]
    needs: str | None = None


class SearchedBoosting(BaseEstimator):
    """HistGradientBoosting with the settings that a random search of some seconds found, on all rows.

    The search is that of ``gramian compare`` with the number of trees among the settings; the last fit, on
    all rows, comes on top of the seconds.
    """

    def __init__(self, task: str, seconds: float, random_state: int = 0) -> None:
        self.task = task
        self.seconds = seconds
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Search, then fit to all rows."""
        shape = Shape.of(self.task, X, self.random_state)
        self.found_ = search(SEARCHED, X, y, self.task, seconds=self.seconds, random_state=self.random_state)
        self.model_ = SEARCHED.make(self.found_.settings, shape).fit(X, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict with the model of the best settings."""
        return np.asarray(self.model_.predict(X))


def _draw_boosting(rng: np.random.Generator, shape: Shape) -> Hyperparameters:
    return CONTENDERS["boosting"].draw(rng, shape) | {"trees": round(log_uniform(rng, *BOOSTED_TREES))}


def _build_boosting(settings: Hyperparameters, size: Any, shape: Shape) -> Any:
    others = {name: value for name, value in settings.items() if name != "trees"}
    return CONTENDERS["boosting"].build(others, settings.get("trees", size), shape)


SEARCHED = replace(CONTENDERS["boosting"], draw=_draw_boosting, build=_build_boosting)


def _gramian(shape: Shape, terms: Terms) -> Any:
    kind = gm.TabularRegressor if shape.task == REGRESSION else gm.TabularClassifier
    return kind(random_state=shape.seed)  # takes its threads from OMP_NUM_THREADS


def _boosting(shape: Shape, terms: Terms) -> Any:
    regression = shape.task == REGRESSION
    kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    return kind(random_state=shape.seed)


def _tuned(shape: Shape, terms: Terms) -> Any:
    assert terms.seconds is not None
    return SearchedBoosting(shape.task, terms.seconds, shape.seed)


def _forest(shape: Shape, terms: Terms) -> Any:
    kind = RandomForestRegressor if shape.task == REGRESSION else RandomForestClassifier
    return kind(n_estimators=TREES, n_jobs=terms.threads, random_state=shape.seed)


def _nystroem(shape: Shape, terms: Terms) -> Any:
    features = Nystroem(
        "rbf",
        gamma=1.0 / shape.n_features,
        n_components=min(COMPONENTS, shape.n_rows),
        random_state=shape.seed,
    )
    kind = RidgeCV if shape.task == REGRESSION else RidgeClassifierCV
    return make_pipeline(StandardScaler(), features, kind(ALPHAS))


def _xrfm(shape: Shape, terms: Terms) -> Any:
    return METHODS["xrfm"].make(METHODS["xrfm"].start(shape), shape)


TABLE_METHODS: dict[str, TableMethod] = {
    OURS: TableMethod(
        "gramian", "`TabularRegressor()` or `TabularClassifier()`: every parameter at its default", _gramian
    ),
    BOOSTING: TableMethod("HistGB", "`HistGradientBoosting*()` with its defaults", _boosting),
    TUNED: TableMethod(
        "HistGB, tuned",
        "the same after a random search (trees, learning rate, leaves, rows of a leaf, penalty; the defaults "
        "come first) for the seconds that gramian took to fit on that split, and a fit to all rows on top",
        _tuned,
    ),
    "forest": TableMethod("random forest", f"`RandomForest*({TREES})`", _forest),
    "nystroem": TableMethod(
        "Nystroem",
        f'`StandardScaler`, `Nystroem("rbf", gamma=1/d, n_components={COMPONENTS:,})`, `RidgeCV` or '
        f"`RidgeClassifierCV` over {len(ALPHAS)} penalties",
        _nystroem,
    ),
    "xrfm": TableMethod(
        "xRFM",
        f"on scaled columns, leaves of {METHODS['xrfm'].usual_size:,} rows, otherwise with its defaults",
        _xrfm,
        "xRFM",
    ),
}


def available() -> list[str]:
    """Name the methods whose libraries are installed."""
    return [name for name, method in TABLE_METHODS.items() if method.needs not in absent()]


def check(names: list[str]) -> list[str]:
    """Return the names in the order of a run, or say which is unknown or not installed."""
    for name in names:
        if name not in TABLE_METHODS:
            raise InputError(
                f"method {name!r} is unknown.{did_you_mean(name, TABLE_METHODS)} "
                f"There are: {', '.join(TABLE_METHODS)}."
            )
        needed = TABLE_METHODS[name].needs
        if needed in absent():
            raise InputError(
                f"method {name!r} needs {needed}, which is not installed. Install it {absent()[needed]}"
            )
    # gramian first: its seconds are those of the search.
    return [name for name in TABLE_METHODS if name in names]
