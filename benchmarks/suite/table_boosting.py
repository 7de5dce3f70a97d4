"""Boosting libraries on frames: their defaults, and a random search of their settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import pandas as pd
from comparison import REGRESSION
from comparison.contenders import log_uniform
from sklearn.base import BaseEstimator
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from suite.table_columns import Columns

#: Settings that a search compares, rounds of boosting at most, rounds without gain after which one ends, and
#: the share of the rows that judges.
TRIALS, ROUNDS, PATIENCE, HELD_OUT = 50, 1000, 50, 0.2


class CatBoost(BaseEstimator):
    """CatBoost with its defaults, which takes categories and missing values as they are."""

    def __init__(self, task: str, seed: int, threads: int) -> None:
        self.task = task
        self.seed = seed
        self.threads = threads

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> Self:
        """Fit to a frame."""
        from catboost import CatBoostClassifier, CatBoostRegressor

        self.columns_ = Columns("text").fit(X)
        kind = CatBoostRegressor if self.task == REGRESSION else CatBoostClassifier
        self.model_ = kind(
            verbose=False,
            thread_count=self.threads,
            random_seed=self.seed,
            allow_writing_files=False,
            cat_features=self.columns_.text_columns_,
        ).fit(self.columns_.transform(X), y)
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """Predict numbers or classes."""
        return np.asarray(self.model_.predict(self.columns_.transform(X))).ravel()

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        """Predict probabilities of classes."""
        return np.asarray(self.model_.predict_proba(self.columns_.transform(X)))


def lightgbm_model(task: str, seed: int, threads: int, **settings: Any) -> Any:
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMRegressor if task == REGRESSION else LGBMClassifier
    return kind(random_state=seed, n_jobs=threads, verbosity=-1, **settings)


def _xgboost(task: str, seed: int, threads: int, **settings: Any) -> Any:
    from xgboost import XGBClassifier, XGBRegressor

    kind = XGBRegressor if task == REGRESSION else XGBClassifier
    return kind(random_state=seed, n_jobs=threads, verbosity=0, enable_categorical=True, **settings)


MAKERS = {"lightgbm": lightgbm_model, "xgboost": _xgboost}


def lightgbm(terms: Any) -> Any:
    """Return LightGBM with its defaults."""
    return make_pipeline(Columns("category"), lightgbm_model(terms.task, terms.seed, terms.threads))


def xgboost(terms: Any) -> Any:
    """Return XGBoost with its defaults."""
    return make_pipeline(Columns("category"), _xgboost(terms.task, terms.seed, terms.threads))


class SearchedBoosting(BaseEstimator):
    """LightGBM or XGBoost with the best of some random settings, the defaults first, fitted to all rows.

    A fifth of the rows is held out; each setting stops when its loss there has not fallen for some rounds,
    and the last fit has the rounds of the best.
    """

    def __init__(self, library: str, task: str, seed: int, threads: int, trials: int = TRIALS) -> None:
        self.library = library
        self.task = task
        self.seed = seed
        self.threads = threads
        self.trials = trials

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> Self:
        """Search, then fit to all rows."""
        self.columns_ = Columns("category").fit(X)
        table, make = self.columns_.transform(X), MAKERS[self.library]
        regression = self.task == REGRESSION
        rest, held = train_test_split(
            np.arange(len(y)), test_size=HELD_OUT, random_state=self.seed, stratify=None if regression else y
        )
        best = np.inf
        for settings in self._drawn():
            model = make(self.task, self.seed, self.threads, n_estimators=ROUNDS, **settings, **self._stops())
            rows = {"eval_set": [(table.iloc[held], y[held])]}
            model.fit(table.iloc[rest], y[rest], **rows, **self._watched())
            error = (
                mean_squared_error(y[held], model.predict(table.iloc[held]))
                if regression
                else log_loss(y[held], model.predict_proba(table.iloc[held]), labels=np.unique(y))
            )
            if error < best:
                rounds = model.best_iteration_ if self.library == "lightgbm" else model.best_iteration + 1
                best, self.found_ = error, {**settings, "n_estimators": max(int(rounds), 1)}
        self.model_ = make(self.task, self.seed, self.threads, **self.found_).fit(table, y)
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """Predict numbers or classes."""
        return np.asarray(self.model_.predict(self.columns_.transform(X)))

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        """Predict probabilities of classes."""
        return np.asarray(self.model_.predict_proba(self.columns_.transform(X)))

    def _drawn(self) -> Iterator[dict[str, Any]]:
        rng = np.random.default_rng(self.seed)
        yield {}
        for _ in range(self.trials - 1):
            drawn = {
                "learning_rate": log_uniform(rng, 5e-3, 0.3),
                "subsample": rng.uniform(0.5, 1.0),
                "colsample_bytree": rng.uniform(0.4, 1.0),
                "reg_lambda": log_uniform(rng, 1e-3, 30.0),
            }
            if self.library == "lightgbm":
                drawn |= {"num_leaves": round(log_uniform(rng, 4, 200)), "subsample_freq": 1}
                drawn |= {"min_child_samples": round(log_uniform(rng, 2, 100))}
            else:
                drawn |= {
                    "max_depth": int(rng.integers(3, 11)),
                    "min_child_weight": log_uniform(rng, 0.1, 30.0),
                }
            yield drawn

    def _stops(self) -> dict[str, Any]:
        return {} if self.library == "lightgbm" else {"early_stopping_rounds": PATIENCE}

    def _watched(self) -> dict[str, Any]:
        if self.library == "xgboost":
            return {"verbose": False}
        from lightgbm import early_stopping

        return {"callbacks": [early_stopping(PATIENCE, verbose=False)]}
