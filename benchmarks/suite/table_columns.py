"""A table's columns as each kind of method takes them, learned from the training rows alone."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

#: Levels with fewer rows share a column where columns are made of levels, and the most such columns.
LEAST_OF_LEVEL, MOST_LEVELS = 5, 100
#: Levels that HistGradientBoosting takes as categories.
MOST_CATEGORIES = 255
MISSING = "missing"
SECONDS_PER_DAY = 86_400.0


def is_text(column: pd.Series) -> bool:
    """Return whether a column holds categories or text."""
    return not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column))


class Columns(TransformerMixin, BaseEstimator):
    """Frame with dates as days, booleans and numbers as float64, and categories in one of three forms.

    form : "category" (a pandas category of the training rows' levels), "codes" (their numbers from 0, NaN for
        missing and unseen ones) or "text" (strings, a word of its own for missing ones).
    most : columns of more levels become codes; None: no limit.
    """

    def __init__(self, form: str = "category", most: int | None = None) -> None:
        self.form = form
        self.most = most

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        """Learn the levels of the text columns."""
        text = {name: X[name] for name in X if is_text(X[name])}
        self.levels_ = {name: sorted(column.dropna().astype(str).unique()) for name, column in text.items()}
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return a new frame."""
        return pd.DataFrame({name: self._column(name, X[name]) for name in X}, index=X.index)

    def _column(self, name: Any, column: pd.Series) -> Any:
        if pd.api.types.is_datetime64_any_dtype(column):
            return (column - pd.Timestamp("2000-01-01")).dt.total_seconds() / SECONDS_PER_DAY
        if name not in self.levels_:
            return column.astype(np.float64)
        words = [None if missing else str(word) for word, missing in zip(column, column.isna(), strict=True)]
        if self.form == "text":
            return pd.Series([word or MISSING for word in words], column.index, object)
        levels = self.levels_[name]
        codes = pd.Index(levels, dtype=object).get_indexer(pd.Index(words, dtype=object))
        if self.form == "category" and (self.most is None or len(levels) <= self.most):
            return pd.Series(pd.Categorical.from_codes(codes, levels), column.index)
        return pd.Series(np.where(codes < 0, np.nan, codes), column.index)

    @property
    def text_columns_(self) -> list[Any]:
        """Names of the columns of categories or text."""
        return list(self.levels_)


def dense_columns() -> Any:
    """Return what makes scaled, complete and dense columns for linear models and kernels."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    levels = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        min_frequency=LEAST_OF_LEVEL,
        max_categories=MOST_LEVELS,
        sparse_output=False,
    )
    mixed = make_column_transformer(
        (numbers, make_column_selector(dtype_include=np.number)),
        (levels, make_column_selector(dtype_exclude=np.number)),
    )
    return make_pipeline(Columns("text"), mixed)


def coded_columns() -> Any:
    """Return what makes an array of numbers with NaN for missing values: for trees without categories."""
    return Columns("codes")
