"""Gradient boosting beside the kernel models of a table: its values for encoded and scaled rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray
from gramian.data.source import ArraySource
from gramian.engine import Engine
from gramian.estimator import answers
from gramian.tables.boosting.trees import Trees

#: Rows that boosting answers at a time, and the probability of a class that it has not seen.
BLOCK_ROWS, UNSEEN = 2_000, 1e-4
#: Categories of a group that any order tells apart: a split sends one of them to either side.
BOTH = 2


@dataclass(frozen=True)
class Boosted:
    """Gradient boosting on encoded and scaled rows; trees see a one-hot group as its category and its mean.

    trees : of the rows of :func:`join_groups`; groups : places of the one-hot groups; means : a number for
    each place of a group, one group after the other; n_classes : 0 for numbers; classes : those that the
    trees have seen, of several classes one output each.
    """

    trees: Trees
    groups: tuple[tuple[int, ...], ...]
    means: Float64Array
    n_classes: int = 0
    classes: tuple[int, ...] = ()

    def of(self, X: Any, numbers: IntArray | None = None, *, engine: Engine | None = None) -> Float64Array:
        """Return the values of rows, (n, outputs), of classes log odds; ``numbers`` are rows of a source.

        ``engine`` are threads that read rows in memory; by default there is one.
        """
        n = X.shape[0] if numbers is None else len(numbers)
        threads = engine if engine is not None and isinstance(X, np.ndarray | ArraySource) else Engine(1)
        parts = threads.map(lambda part: self._block(X, part, numbers), row_slices(n, BLOCK_ROWS))
        return np.concatenate(parts) if parts else np.zeros((0, self._outputs))

    @property
    def _outputs(self) -> int:
        return len(self.trees.starts) if self.n_classes == 0 else 1 if self.n_classes == 2 else self.n_classes

    def _block(self, X: Any, part: slice, numbers: IntArray | None) -> Float64Array:
        if numbers is not None:
            rows = np.asarray(X.take(numbers[part]))
        else:
            rows = np.asarray(X.rows(part) if hasattr(X, "rows") else X[part])
        values = self.trees.of(join_groups(rows, self.groups, self.means))
        return log_odds(values, self.classes, self.n_classes) if self.n_classes else values


def log_odds(values: Float64Array, classes: tuple[int, ...], n_classes: int) -> Float64Array:
    """Return the log odds of all classes, (n, 1) of two, from trees that have seen some of them."""
    chances = np.full((len(values), n_classes), UNSEEN)
    chances[:, classes] = answers.probabilities(values) if len(classes) > 1 else 1.0
    logs = np.log(np.clip(chances, UNSEEN, 1.0 - UNSEEN))
    return logs[:, 1:] - logs[:, :1] if n_classes == 2 else logs


def join_groups(rows: Array, groups: tuple[tuple[int, ...], ...], means: Float64Array) -> Float64Array:
    """Return rows in which a group is its category, and the mean of its category.

    First come the categories of groups that have more than two: whole numbers from 1, 0 of none. Then the
    columns of no group in their order, and last the means, 0 of none.
    """
    grouped = np.array([place for group in groups for place in group], np.intp)
    categories, numbers, first = [], [np.delete(np.asarray(rows, np.float64), grouped, axis=1)], 0
    for group in groups:
        # A scaled group is 0 but for the place of its category.
        at = rows[:, list(group)] != 0.0
        if len(group) > BOTH:
            categories.append((at @ np.arange(1.0, len(group) + 1.0))[:, None])
        numbers.append((at @ means[first : first + len(group)])[:, None])
        first += len(group)
    return np.hstack([*categories, *numbers])


def count_categories(groups: tuple[tuple[int, ...], ...]) -> int:
    """Return how many columns hold categories; they come first."""
    return sum(len(group) > BOTH for group in groups)
