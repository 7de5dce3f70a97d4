"""Methods to measure on tables: gramian, boosting, forests, networks, kernels and linear models."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from comparison import REGRESSION
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.pipeline import make_pipeline

import gramian as gm
from gramian.exceptions import InputError, did_you_mean
from suite.table_boosting import CatBoost, SearchedBoosting, lightgbm, xgboost
from suite.table_columns import MOST_CATEGORIES, Columns, coded_columns, dense_columns
from suite.table_networks import pytabkit, xrfm

#: By these names a line says whose it is.
OURS, FAST, INSTANT, BEST = "gramian", "gramian_fast", "gramian_instant", "gramian_best"
REFERENCE = "catboost"
KERNELS = "gramian_kernels"
TREES, COMPONENTS = 300, 1000
#: Penalties that RidgeCV compares, and inverse ones that LogisticRegressionCV does, by log-loss.
ALPHAS, INVERSE = np.logspace(-4, 3, 8), np.logspace(-2, 2, 3)


@dataclass(frozen=True)
class Terms:
    """What a method is given beside the rows: the task, the seed, and threads."""

    task: str
    seed: int
    threads: int

    @property
    def regression(self) -> bool:
        """Whether targets are numbers."""
        return self.task == REGRESSION


@dataclass(frozen=True)
class TableMethod:
    """A method by its unfitted model, which takes frames.

    about : a line for the page; build : the model for terms; needs : modules that must be installed beside
    scikit-learn; ranked : whether it takes part in the ranks, which have one form of each library.
    """

    name: str
    about: str
    build: Callable[[Terms], Any]
    needs: tuple[str, ...] = ()
    ranked: bool = True


def _gramian(**options: Any) -> Callable[[Terms], Any]:
    def build(terms: Terms) -> Any:
        kind = gm.TabularRegressor if terms.regression else gm.TabularClassifier
        return kind(random_state=terms.seed, **options)  # takes its threads from OMP_NUM_THREADS

    return build


def _histogram(terms: Terms) -> Any:
    kind = HistGradientBoostingRegressor if terms.regression else HistGradientBoostingClassifier
    return make_pipeline(Columns("category", MOST_CATEGORIES), kind(random_state=terms.seed))


def _extra_trees(terms: Terms) -> Any:
    kind = ExtraTreesRegressor if terms.regression else ExtraTreesClassifier
    return make_pipeline(
        coded_columns(), kind(n_estimators=TREES, n_jobs=terms.threads, random_state=terms.seed)
    )


def _last(terms: Terms) -> Any:
    if terms.regression:
        return RidgeCV(ALPHAS)
    return LogisticRegressionCV(Cs=INVERSE, cv=3, scoring="neg_log_loss", max_iter=300)


def _linear(terms: Terms) -> Any:
    return make_pipeline(dense_columns(), _last(terms))


class _Gamma(Nystroem):
    """Nystroem features of the Gaussian kernel with gamma = 1/d."""

    def fit(self, X: Any, y: Any = None) -> Any:
        self.gamma, self.n_components = 1.0 / X.shape[1], min(COMPONENTS, len(X))
        return super().fit(X, y)


def _nystroem(terms: Terms) -> Any:
    return make_pipeline(dense_columns(), _Gamma("rbf", random_state=terms.seed), _last(terms))


def _ebm(terms: Terms) -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kind = ExplainableBoostingRegressor if terms.regression else ExplainableBoostingClassifier
    return make_pipeline(Columns("text"), kind(random_state=terms.seed, n_jobs=terms.threads))


TABLE_METHODS: dict[str, TableMethod] = {
    OURS: TableMethod(
        "gramian", "`TabularRegressor()` or `TabularClassifier()`: every parameter at its default", _gramian()
    ),
    FAST: TableMethod(
        "gramian, fast", 'the same with `effort="fast"`', _gramian(effort="fast"), ranked=False
    ),
    INSTANT: TableMethod(
        "gramian, instant", 'the same with `effort="instant"`', _gramian(effort="instant"), ranked=False
    ),
    BEST: TableMethod(
        "gramian, best", 'the same with `effort="best"`', _gramian(effort="best"), ranked=False
    ),
    KERNELS: TableMethod(
        "gramian, kernels", "the same with `include=()`: without boosting", _gramian(include=()), ranked=False
    ),
    REFERENCE: TableMethod(
        "CatBoost",
        "`CatBoost*()` with its defaults and the columns of categories named",
        lambda terms: CatBoost(terms.task, terms.seed, terms.threads),
        ("catboost",),
    ),
    "lightgbm": TableMethod(
        "LightGBM", "`LGBM*()` with its defaults and categories as categories", lightgbm, ("lightgbm",)
    ),
    "xgboost": TableMethod(
        "XGBoost", "`XGB*(enable_categorical=True)`, otherwise with its defaults", xgboost, ("xgboost",)
    ),
    "histgb": TableMethod("HistGB", "`HistGradientBoosting*()` with its defaults", _histogram),
    "extra_trees": TableMethod(
        "extra trees", f"`ExtraTrees*({TREES})` on the numbers of the levels", _extra_trees
    ),
    "ebm": TableMethod(
        "EBM", "`ExplainableBoosting*()` of interpret with its defaults", _ebm, ("interpret",)
    ),
    "nystroem": TableMethod(
        "Nystroem",
        f'scaled and one-hot columns, `Nystroem("rbf", gamma=1/d, n_components={COMPONENTS:,})`, then as '
        "linear",
        _nystroem,
    ),
    "linear": TableMethod(
        "linear",
        f"scaled and one-hot columns, `RidgeCV` over {len(ALPHAS)} or `LogisticRegressionCV` over "
        f"{len(INVERSE)} penalties",
        _linear,
    ),
    "xrfm": TableMethod("xRFM", "on scaled and one-hot columns, with its defaults", xrfm, ("xrfm", "torch")),
    "realmlp": TableMethod(
        "RealMLP-TD",
        "`RealMLP_TD_*` of pytabkit with its tuned defaults",
        pytabkit("RealMLP_TD"),
        ("pytabkit", "torch"),
    ),
    "tabm": TableMethod(
        "TabM", "`TabM_D_*` of pytabkit with its defaults", pytabkit("TabM_D"), ("pytabkit", "torch")
    ),
    "tuned_lightgbm": TableMethod(
        "LightGBM, tuned",
        "the best of 50 random settings on a fifth of the rows that is held out, with early stopping, then "
        "all rows",
        lambda terms: SearchedBoosting("lightgbm", terms.task, terms.seed, terms.threads),
        ("lightgbm",),
        ranked=False,
    ),
    "tuned_xgboost": TableMethod(
        "XGBoost, tuned",
        "as LightGBM, tuned",
        lambda terms: SearchedBoosting("xgboost", terms.task, terms.seed, terms.threads),
        ("xgboost",),
        ranked=False,
    ),
}


def _missing(method: TableMethod) -> list[str]:
    return [module for module in method.needs if importlib.util.find_spec(module) is None]


def available() -> list[str]:
    """Name the methods whose libraries are installed."""
    return [name for name, method in TABLE_METHODS.items() if not _missing(method)]


def absent() -> list[str]:
    """Name the libraries that are not installed."""
    return sorted({module for method in TABLE_METHODS.values() for module in _missing(method)})


def check(names: list[str]) -> list[str]:
    """Return the names in the order of a run, or say which is unknown or not installed."""
    for name in names:
        if name not in TABLE_METHODS:
            raise InputError(
                f"method {name!r} is unknown.{did_you_mean(name, TABLE_METHODS)} "
                f"There are: {', '.join(TABLE_METHODS)}."
            )
        missing = _missing(TABLE_METHODS[name])
        if missing:
            raise InputError(
                f"method {name!r} needs {' and '.join(missing)}, which is not installed. make peers makes an "
                "environment that has it: build/peers/bin/python benchmarks/tables.py"
            )
    return [name for name in TABLE_METHODS if name in names]
