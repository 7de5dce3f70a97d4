"""Networks of pytabkit and xRFM on frames."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from sklearn.pipeline import make_pipeline

from suite.peers import XRFMClassifier, XRFMRegressor
from suite.table_columns import Columns, dense_columns


def xrfm(terms: Any) -> Any:
    """Return xRFM on dense columns."""
    kind = XRFMRegressor if terms.regression else XRFMClassifier
    return make_pipeline(dense_columns(), kind(random_state=terms.seed))


def pytabkit(name: str) -> Callable[[Any], Any]:
    """Return what makes a network of pytabkit, which takes categories; missing numbers are filled."""

    def build(terms: Any) -> Any:
        import pytabkit

        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)  # a benchmark's output is a table
        kind = getattr(pytabkit, f"{name}_{'Regressor' if terms.regression else 'Classifier'}")
        model = kind(random_state=terms.seed, device="cpu", n_threads=terms.threads, verbosity=0)
        return make_pipeline(Columns("text"), _Filled(), model)

    return build


class _Filled:
    """Frame whose missing numbers are the medians of the training rows."""

    def fit(self, X: Any, y: Any = None) -> _Filled:
        self.medians_ = X.median(numeric_only=True).fillna(0.0)
        return self

    def transform(self, X: Any) -> Any:
        return X.fillna(self.medians_)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        return self.fit(X).transform(X)
