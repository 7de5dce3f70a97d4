"""Answers made from a model's values of shape (n, outputs): decision values, classes, probabilities, numbers.

A classifier has one column of values for two classes (positive for the second), else one for each class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.special import expit, log_expit, log_softmax, softmax

from gramian._typing import Array, Float64Array, IntArray

#: Rows that are predicted at a time: two outputs of this many rows are a few megabytes.
PREDICT_ROWS = 65_536


def likeliest(values: Array) -> IntArray:
    """Return the number of the class with the largest value for each row, the first of equal ones."""
    if values.shape[1] == 1:
        return (values[:, 0] > 0).astype(np.intp)
    return np.asarray(values.argmax(axis=1))


def class_labels(values: Array, classes: Array) -> Array:
    """Return the class with the largest value for each row."""
    return np.asarray(classes[likeliest(values)])


def decision_values(values: Float64Array) -> Float64Array:
    """Return values as ``decision_function`` gives them: (n,) for two classes, else (n, classes)."""
    return values[:, 0] if values.shape[1] == 1 else values


def predicted_numbers(values: Float64Array, *, flat: bool) -> Float64Array:
    """Return values as a regressor predicts them: shape (n,) if its targets were ``flat``."""
    return values[:, 0] if flat else values


def probabilities(log_odds: Float64Array) -> Float64Array:
    """Return the probability of each class, (n, classes): a sigmoid of one column, a softmax of several."""
    if log_odds.shape[1] == 1:
        return np.hstack([expit(-log_odds), expit(log_odds)])
    return np.asarray(softmax(log_odds, axis=1))


def log_probabilities(log_odds: Float64Array) -> Float64Array:
    """Return the logarithm of :func:`probabilities`, without its underflow."""
    if log_odds.shape[1] == 1:
        return np.hstack([log_expit(-log_odds), log_expit(log_odds)])
    return np.asarray(log_softmax(log_odds, axis=1))


def in_blocks(
    blocks: Iterable[tuple[slice, Any]],
    shape: tuple[int, ...],
    answer: Callable[[Any], Array] | None = None,
    *,
    dtype: DTypeLike = np.float64,
) -> Array:
    """Return an array filled with the blocks of values, or with an answer to each block.

    ``blocks`` yields the rows of a block and its values; together they cover all rows.
    """
    out = np.empty(shape, dtype)
    for where, values in blocks:
        out[where] = values if answer is None else answer(values)
    return out
