"""Choice of the rows that a Gaussian process learns from, in a fit and in rounds of metric learning."""

from __future__ import annotations

import numpy as np

from gramian._checks import whole_number
from gramian._typing import Float64Array
from gramian.data.source import RowSource, as_source, sample_rows

#: Rows that a round of metric learning learns kernel and noise from.
ROUND_ROWS = 1_000


def count_of(learning_rows: int | None, n_rows: int) -> int:
    """Return how many of the rows are learned from; None means all."""
    if learning_rows is None:
        return n_rows
    return min(n_rows, whole_number("learning_rows", learning_rows, 2))


def drawn(
    source: RowSource, targets: Float64Array, count: int, rng: np.random.Generator
) -> tuple[RowSource, Float64Array]:
    """Return ``count`` rows drawn at random with their targets; the rows themselves where that is all."""
    if count == source.shape[0]:
        return source, targets
    rows, numbers = sample_rows(source, count, rng)
    return as_source(rows), targets[numbers]
