"""Predictions for a collection on a cluster, as a lazy collection."""

from __future__ import annotations

from typing import Any

from gramian._typing import Array
from gramian.data.distributed import cluster_of
from gramian.estimator.matching import check_width, matched


def lazily(model: Any, X: Any, method: str, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return a method's values for a collection as one of the same package, nothing computed.

    To callers it is an array; one of Dask has the same methods.
    """
    cluster = cluster_of(X, model.engine)
    assert cluster is not None
    cluster.header(X)  # raises for columns that are no numbers
    X = matched(model, X, reset=False)
    check_width(model, X.shape[1], reset=False)
    # One that runs where the rows lie: without what only a fit needs, and on one thread.
    plain = {"approximation": "auto", "random_state": None, "engine": None, "n_jobs": 1}
    plain |= {"checkpoint": None, "verbose": 0}
    sent = type(model)(**{**model.get_params(deep=False), **plain})
    sent._restore({**model._state(), "n_features_in_": model.n_features_in_})
    values: Array = cluster.lazily(X, getattr(sent, method), shape, dtype)
    return values
