"""Gradient boosting beside the kernel models of a table: its values, and what it contributes."""

from __future__ import annotations

from collections.abc import Sequence
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
class LevelPairs:
    """A number for each pair of levels of two groups: what they are together beyond each of them alone.

    first, second : numbers of the groups; values : (levels + 1, levels + 1), of the first group in rows and
    the second in columns, the first row and column of no level.
    """

    first: int
    second: int
    values: Float64Array

    def look_up(self, codes: IntArray) -> Float64Array:
        """Return the numbers of rows by their levels (n, groups)."""
        return self.values[codes[:, self.first], codes[:, self.second]]


@dataclass(frozen=True)
class Boosted:
    """Gradient boosting on encoded and scaled rows; trees see a one-hot group as its category and its mean.

    trees : of the rows of :func:`join_groups`; groups : places of the one-hot groups; means : a number for
    each place of a group, one group after the other; n_classes : 0 for numbers; classes : those that the
    trees have seen, of several classes one output each; pairs : numbers for the levels of two groups.
    """

    trees: Trees
    groups: tuple[tuple[int, ...], ...]
    means: Float64Array
    n_classes: int = 0
    classes: tuple[int, ...] = ()
    pairs: tuple[LevelPairs, ...] = ()

    def predict(
        self, X: Any, numbers: IntArray | None = None, *, engine: Engine | None = None
    ) -> Float64Array:
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
        values = self.trees.predict(join_groups(rows, self.groups, self.means, self.pairs))
        return log_odds(values, self.classes, self.n_classes) if self.n_classes else values


def log_odds(values: Float64Array, classes: tuple[int, ...], n_classes: int) -> Float64Array:
    """Return the log odds of all classes, (n, 1) of two, from trees that have seen some of them."""
    chances = np.full((len(values), n_classes), UNSEEN)
    chances[:, classes] = answers.probabilities(values) if len(classes) > 1 else 1.0
    logs = np.log(np.clip(chances, UNSEEN, 1.0 - UNSEEN))
    return logs[:, 1:] - logs[:, :1] if n_classes == 2 else logs


def join_groups(
    rows: Array, groups: tuple[tuple[int, ...], ...], means: Float64Array, pairs: Sequence[LevelPairs] = ()
) -> Float64Array:
    """Return rows in which a group is its category, and the mean of its category.

    First come the categories of groups that have more than two: whole numbers from 1, 0 of none. Then the
    columns of no group in their order, the means, 0 of none, and last the numbers of pairs.
    """
    codes, ends = group_codes(rows, groups), np.cumsum([0, *map(len, groups)])
    grouped = np.array([place for group in groups for place in group], np.intp)
    categories = [codes[:, j] for j, group in enumerate(groups) if len(group) > BOTH]
    numbers = np.delete(np.asarray(rows, np.float64), grouped, axis=1)
    values = [np.append(0.0, means[a:b])[own] for a, b, own in zip(ends, ends[1:], codes.T, strict=False)]
    return np.column_stack([*categories, numbers, *values, *(pair.look_up(codes) for pair in pairs)])


def group_codes(rows: Array, groups: tuple[tuple[int, ...], ...]) -> IntArray:
    """Return the level of each group, (n, groups): whole numbers from 1, 0 of none."""
    codes = np.zeros((len(rows), len(groups)), np.intp)
    for j, group in enumerate(groups):
        # A scaled group is 0 but for the place of its category.
        at = rows[:, list(group)] != 0.0
        codes[:, j] = np.where(at.any(axis=1), at.argmax(axis=1) + 1, 0)
    return codes


def count_categories(groups: tuple[tuple[int, ...], ...]) -> int:
    """Return how many columns hold categories; they come first."""
    return sum(len(group) > BOTH for group in groups)


#: Least share by which logistic models, and kernel models beside boosting, must lower the held-out loss to be
#: used: each makes predictions several times slower. Chosen by hand.
LEAST_GAIN = 0.002


@dataclass(frozen=True)
class Contributions:
    """Losses on rows that no part has seen: of classes the log-loss, of numbers the squared error over
    the variance, or what ``scoring`` names.

    kernel : of the kernel models alone.
    boosting : of boosting alone.
    both : of their mix.
    error : standard error of kernel − both.
    kept : whether boosting is in the model: of classes if the difference is larger than its error, of numbers
        if its share in the mean is a tenth or more.
    looks : by how much small kernel models, one after the other, lowered the loss of boosting before a large
        one was fitted, the standard error of that, and whether it was 0.2 % or more: a large one was fitted
        then. Of classes these are squared errors of 2 P − 1.
    """

    kernel: float
    boosting: float
    both: float
    error: float
    kept: bool
    looks: tuple[tuple[float, float, bool], ...] = ()

    @property
    def boosting_alone(self) -> bool:
        """Whether the kernel models are not asked: ``both`` is less than 0.2 % below ``boosting``.

        Predictions are several times faster without them.
        """
        return self.kept and self.both > (1.0 - LEAST_GAIN) * self.boosting
