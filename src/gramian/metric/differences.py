"""Slopes of any function of rows: finite differences, or switched values for features with few values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray

#: Rows (n, d) → values (n, outputs).
Function: TypeAlias = "Callable[[Array], Float64Array]"
#: Columns that are switched together: one of two values, or the one-hot columns of a category.
Group: TypeAlias = "Sequence[int] | IntArray"

#: Step of a finite difference, in standard deviations of a feature: wide enough for functions with kinks.
STEP = 0.1
#: Evaluations by switching values, at most, and rows at which gradients are taken at least.
EVALUATIONS, LEAST_GRADIENTS = 16_000, 100

#: Bytes of changed rows that a function is given at a time: few at a time cost more in calls than in sums.
BATCH_BYTES = 1 << 23


def gradient_rows(switched: Sequence[Group], most: int) -> int:
    """Return at how many rows gradients are taken: fewer where many columns are switched.

    >>> gradient_rows([(0,), (1, 2, 3)], 500), gradient_rows([(j,) for j in range(40)], 500)
    (500, 200)
    """
    switches = sum(max(2, len(group)) for group in switched)
    return most if not switches else int(np.clip(EVALUATIONS // switches, LEAST_GRADIENTS, most))


def by_differences(
    function: Function, rows: Float64Array, columns: Sequence[int] | IntArray, steps: Float64Array
) -> Float64Array:
    """Return (f(x + h_j e_j) − f(x − h_j e_j))/(2 h_j) for some columns j, shape (n, columns, outputs).

    steps : h, (d,), positive at these columns. Two evaluations of ``function`` at all rows a column, for
    several columns in one call.
    """
    n, columns = len(rows), np.asarray(columns, np.intp)
    slopes = []
    for some in row_slices(len(columns), max(1, BATCH_BYTES // (2 * rows.nbytes))):
        mine = columns[some]
        ends = np.tile(rows, (2, len(mine), 1, 1))
        at = np.arange(len(mine))
        ends[0, at, :, mine] += steps[mine, None]
        ends[1, at, :, mine] -= steps[mine, None]
        found = function(ends.reshape(-1, rows.shape[1])).reshape(2, len(mine), n, -1)
        slopes.append((found[0] - found[1]) / (2.0 * steps[mine, None, None]))
    return np.concatenate(slopes).swapaxes(0, 1)


def by_switching(
    function: Function, rows: Float64Array, groups: Sequence[Group], low: Float64Array, high: Float64Array
) -> Iterator[Float64Array]:
    r"""Yield what stands for the slope of each group of columns that is switched, (n, columns, outputs).

    One column of two values: (f(high) − f(low))/(high − low); of a local kernel the derivative at one value
    is 0, however much the other changes. The columns of a category, of which one at a time is high: with
    g_c(x) = f(x, switched to c), h_c = (g_c − mean_c g)/(high_c − low_c), so that a step from c to c'
    changes f by hᵀΔx as it does in truth. A column with high = low has 0.

    low, high : (d,), the values of each column. ``function`` is evaluated at the rows, and at many changed
    ones at a time: each value that a row does not have already costs one.
    """
    columns = [np.asarray(group, np.intp) for group in groups]
    values = _values_after_moves(
        function, rows, (move for group in columns for move in _moves(group, low, high))
    )
    for group in columns:
        widths = (high - low)[group]
        if len(group) == 1:
            below, above = next(values), next(values)
            slopes = (above - below)[:, None, :]
        else:
            slopes = np.stack(list(islice(values, len(group))), axis=1)
            slopes -= slopes.mean(axis=1, keepdims=True)
        inverse = np.divide(1.0, widths, out=np.zeros_like(widths), where=widths > 0)
        yield slopes * inverse[:, None]


def _moves(group: IntArray, low: Float64Array, high: Float64Array) -> Iterator[tuple[IntArray, Float64Array]]:
    """Yield the columns of a group with each of the values that they take together."""
    if len(group) == 1:
        yield group, low[group]
        yield group, high[group]
        return
    for k in range(len(group)):
        yield group, np.where(np.arange(len(group)) == k, high[group], low[group])


def _values_after_moves(
    function: Function, rows: Float64Array, moves: Iterable[tuple[IntArray, Float64Array]]
) -> Iterator[Float64Array]:
    """Yield f at the rows with some columns set to some values, for each move."""
    own = function(rows)
    most = max(1, BATCH_BYTES // max(1, rows[:1].nbytes))
    waiting: list[tuple[IntArray, Float64Array]] = []

    def found() -> Iterator[Float64Array]:
        values = function(np.concatenate([changed for _, changed in waiting]))
        start = 0
        for places, changed in waiting:
            out = own.copy()
            out[places] = values[start : start + len(changed)]
            start += len(changed)
            yield out
        waiting.clear()

    held = 0
    for columns, values in moves:
        places = np.flatnonzero((rows[:, columns] != values).any(axis=1))
        changed = rows[places]
        changed[:, columns] = values
        waiting.append((places, changed))
        held += len(places)
        if held >= most:
            yield from found()
            held = 0
    if waiting:
        yield from found()
