"""Gradient boosting on the rows of a table model, with values of rows by models without them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from gramian._budget import parse_bytes
from gramian._typing import Array, Float64Array, IntArray
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.tables.holdout import HoldOut
from gramian.tables.ridge_mean import Boosted
from gramian.tables.training.logistic import FOLDS

#: Bytes of memory for each number of the rows that boosting learns from. Chosen by hand.
NUMBER_BYTES = 32
#: Share of the remaining time that boosting may take. Chosen by hand.
TIME_SHARE = 0.2


def with_boosting(
    rows: LabelledRows[Array],
    groups: tuple[tuple[int, ...], ...],
    classes: bool,
    held: IntArray,
    holdout: HoldOut,
    options: Mapping[str, Any],
    until: float,
    rng: np.random.Generator,
) -> tuple[Boosted, Float64Array] | None:
    """Return boosting of all rows, and values (n, outputs) of rows by boosting without their fifth.

    rows : (n, d) encoded and scaled rows with targets (n,) or (n, outputs), or labels where ``classes``;
    groups : places of one-hot groups; held : rows that judge if they can't be parted, as for times, where the
    values of the others are NaN; options : the estimator's threads ``n_jobs``, and its ``memory_budget``: of
    more rows than that holds some are drawn. None if there is too little time until ``until``, on the clock
    of ``time.perf_counter``.
    """
    counted, began, n_classes = rows.counted, time.perf_counter(), 0
    if classes:
        labels, codes = np.unique(rows.targets, return_inverse=True)
        rows, n_classes = replace(rows, targets=codes), len(labels)
    seed = int(rng.integers(2**31))
    folds = holdout.folds(counted, FOLDS, rng) or [held]
    most = max(2, parse_bytes(options["memory_budget"]) // (NUMBER_BYTES * rows.source.shape[1]))
    threads = Engine(options["n_jobs"]).n_threads

    def fitted(numbers: IntArray) -> Boosted:
        if len(numbers) > most:
            numbers = np.sort(rng.choice(numbers, most, replace=False))
        weights = None if rows.weights is None else rows.weights[numbers]
        X = np.asarray(rows.source.take(numbers))
        with threadpool_limits(threads, user_api="openmp"):
            return Boosted.fit(X, np.asarray(rows.targets)[numbers], weights, groups, n_classes, seed)

    values: Float64Array | None = None
    for done, fold in enumerate(folds, 1):
        some = fitted(np.setdiff1d(counted, fold)).of(rows.source, fold)
        values = np.full((rows.n, some.shape[1]), np.nan) if values is None else values
        values[fold] = some
        spent = time.perf_counter() - began
        if spent / done * (len(folds) + 1) > TIME_SHARE * (until - began):
            return None
    assert values is not None
    return fitted(counted), values
