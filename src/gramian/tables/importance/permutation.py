"""Importances of the columns of a table: how much the held-out loss rises if a column is permuted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.data.source import RowSource
from gramian.tables.columns import TableColumns
from gramian.tables.effort import ASKED
from gramian.tables.importance.unseen import Change, Unseen
from gramian.tables.training.gain import Gain

#: Most and fewest rows that are permuted, and most permutations of a column. Chosen by hand.
MOST_ROWS, FEWEST_ROWS, MOST_REPEATS = 2_000, 100, 3
#: Most columns that are permuted one by one; the others are permuted together. Chosen by hand.
MOST_COLUMNS = 100
#: Share of the time limit that the permutations may take, and the rows of the trial that tells how long they
#: will take. Chosen by hand.
TIME_SHARE, TRIAL_ROWS = 0.05, 200


@dataclass(frozen=True)
class Importances:
    """Shares of the columns (columns,), their standard errors, and why they are not by permutation.

    ``errors`` is None, and ``reason`` not empty, where the shares are those of the metric.
    """

    shares: Float64Array
    errors: Float64Array | None = None
    reason: str = ""


@dataclass(frozen=True)
class HeldOutModel:
    """The model of a table without the rows that judge it.

    source : encoded and scaled rows; numbers : of the held-out rows; members, weights : kernel models and
    their weights in the mean, none where boosting alone answers; boosted : boosting, None where there
    is none; answer : from the mean's and boosting's values (m, outputs) to answers; loss : from answers and
    the rows' numbers to a loss.
    """

    source: RowSource
    numbers: IntArray
    members: Sequence[Unseen | None]
    weights: Sequence[float]
    boosted: Unseen | None
    answer: Callable[[Float64Array, Float64Array | None], Float64Array]
    loss: Callable[[Float64Array, IntArray], float]

    def gains(self, numbers: IntArray, changes: Sequence[Sequence[Change]]) -> list[Gain]:
        """Return by how much each list of changes raises the loss of the rows, on average over its changes.

        Time: of the models' values of all changed rows.
        """
        rows, every = np.asarray(self.source.take(numbers)), [each for some in changes for each in some]
        trees = None if self.boosted is None else self.boosted.changed(rows, numbers, every)
        parts = [each.changed(rows, numbers, every) for each in self.members if each is not None]
        means = sum(weight * part for weight, part in zip(self.weights, parts, strict=True))
        means = np.asarray(means if parts else trees)
        answers = [self.answer(mean, None if trees is None else trees[j]) for j, mean in enumerate(means)]
        before, after = answers[0], iter(answers[1:])
        gains = []
        for some in changes:
            own = [next(after) for _ in some]

            def rise(places: IntArray, own: Sequence[Float64Array] = own) -> float:
                losses = [self.loss(each[places], numbers[places]) for each in (before, *own)]
                return float(np.mean(losses[1:]) - losses[0])

            gains.append(Gain.of(len(numbers), rise))
        return gains


def permutation_importances(
    model: HeldOutModel,
    columns: TableColumns,
    metric_shares: Float64Array,
    rng: np.random.Generator,
    limit: float | None = None,
    deadline: float = math.inf,
    n_predictions: int = ASKED,
) -> Importances:
    r"""Return each column's share in the rise of the held-out loss if its values are permuted.

    max(0, L_j − L) / Σ_k max(0, L_k − L), where L is the loss of rows that the models have not seen, and L_j
    the loss after the values of column j moved to other rows; a category, a date and a missing value move as
    a whole. Standard errors are the jackknife's over twenty parts of the rows, in the same unit.

    At most 2,000 rows are used. With many columns, fewer rows come first, and all rows only for the columns
    whose importances are least certain. Beyond 100 columns only those of the largest ``metric_shares`` are
    permuted one by one; the others are permuted together and share the rise by ``metric_shares``.
    About ``n_predictions`` changed rows are predicted; ``limit`` is the time limit of the fit and
    ``deadline`` its end, by ``time.perf_counter``: as many rows are permuted as time allows, at least a
    twentieth of the limit. If that is too few, the shares are ``metric_shares``.
    Source: Breiman 2001; Fisher, Rudin and Dominici 2019.
    """
    places = column_places(columns)
    used = [j for j in np.argsort(-metric_shares, kind="stable").tolist() if len(places[j])]
    groups = [[j] for j in used]
    if len(groups) > MOST_COLUMNS:
        groups = [*groups[: MOST_COLUMNS - 1], used[MOST_COLUMNS - 1 :]]
    held = model.numbers
    if len(held) < 2 or any(each is None for each in model.members):
        return Importances(metric_shares, reason="no rows were held out")
    rows = held if len(held) <= MOST_ROWS else np.sort(rng.choice(held, MOST_ROWS, replace=False))
    changed = [np.concatenate([places[j] for j in group]) for group in groups]
    if limit is not None:
        began, some = time.perf_counter(), rows[:TRIAL_ROWS]
        model.gains(some, [_changes(changed[0], len(some), 1, rng)])
        now = time.perf_counter()
        left = max(deadline - now, TIME_SHARE * limit) / max(now - began, 1e-9)
        n_predictions = int(min(n_predictions, 2 * len(some) * left))
        if n_predictions < min(len(rows), FEWEST_ROWS) * (1 + len(groups)):
            return Importances(metric_shares, reason="time_limit left too little time to permute columns")
    count = min(len(rows), max(FEWEST_ROWS, n_predictions // (2 * len(groups))))
    first = rows if count == len(rows) else np.sort(rng.choice(rows, count, replace=False))
    repeats = int(np.clip(n_predictions // (2 * len(groups) * count), 1, MOST_REPEATS))
    # Where few rows are permuted at first, some columns get a second look, at all rows.
    n_again = n_predictions // (2 * len(rows)) if count < len(rows) else 0
    gains = model.gains(first, [_changes(own, count, repeats, rng) for own in changed])
    again = sorted(range(len(groups)), key=lambda j: -gains[j].error)[:n_again]
    if again:
        finer = model.gains(rows, [_changes(changed[j], len(rows), 1, rng) for j in again])
        for j, gain in zip(again, finer, strict=True):
            gains[j] = gain
    shares, errors = np.zeros(len(metric_shares)), np.zeros(len(metric_shares))
    for group, gain in zip(groups, gains, strict=True):
        part = metric_shares[group]
        part = part / part.sum() if part.sum() > 0 else np.full(len(group), 1.0 / len(group))
        shares[group], errors[group] = max(0.0, gain.loss) * part, gain.error * part
    total = float(shares.sum())
    if not (0.0 < total < math.inf and np.isfinite(errors).all()):
        return Importances(metric_shares, reason="no permuted column raises the held-out loss")
    return Importances(shares / total, errors / total)


def column_places(columns: TableColumns) -> list[IntArray]:
    """Return the places of each column's encoded numbers, none of an unused column."""
    places: dict[str, list[int]] = {column.name: [] for column in columns.columns}
    for feature in columns.features:
        places[feature.column] += range(columns.width)[feature.places]
    return [np.array(places[column.name], np.intp) for column in columns.columns]


def column_shares(columns: TableColumns, sensitivities: Iterable[float] | Array) -> Float64Array:
    """Return each column's share of numbers of the encoded columns; equal shares if all are 0."""
    every: Any = np.asarray(sensitivities, np.float64)
    total = np.array([every[places].sum() for places in column_places(columns)])
    return total / total.sum() if total.sum() > 0 else np.full(len(total), 1.0 / len(total))


def _changes(places: IntArray, count: int, repeats: int, rng: np.random.Generator) -> list[Change]:
    """Return changes by which each row takes the places of another: one cycle in random order."""
    changes = []
    for _ in range(repeats):
        shuffled, order = rng.permutation(count), np.empty(count, np.intp)
        order[shuffled] = np.roll(shuffled, 1)
        changes.append(Change(places, order))
    return changes
