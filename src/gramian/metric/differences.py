"""Slopes of any function of rows: by finite differences, and by switching what takes two or a few values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from gramian._typing import Array, Float64Array, IntArray

#: Rows (n, d) → values (n, outputs).
Function: TypeAlias = "Callable[[Array], Float64Array]"
#: Columns that are switched together: one of two values, or the one-hot columns of a category.
Group: TypeAlias = "Sequence[int] | IntArray"

#: Step of a finite difference, in standard deviations of a feature: wide enough for functions with kinks.
STEP = 0.1
#: Evaluations by switching values, at most, and rows at which gradients are taken at least.
EVALUATIONS, LEAST_GRADIENTS = 40_000, 100


def gradient_rows(switched: Sequence[Group], most: int) -> int:
    """Return at how many rows gradients are taken: fewer where many columns are switched.

    >>> gradient_rows([(0,), (1, 2, 3)], 500), gradient_rows([(j,) for j in range(100)], 500)
    (500, 200)
    """
    switches = sum(max(2, len(group)) for group in switched)
    return most if not switches else int(np.clip(EVALUATIONS // switches, LEAST_GRADIENTS, most))


def by_differences(
    function: Function, rows: Float64Array, columns: Sequence[int] | IntArray, steps: Float64Array
) -> Float64Array:
    """Return (f(x + h_j e_j) − f(x − h_j e_j))/(2 h_j) for some columns j, shape (n, columns, outputs).

    steps : h, (d,), positive at these columns. Two evaluations of ``function`` at all rows a column.
    """
    slopes = []
    for j in columns:
        ends = [rows.copy(), rows.copy()]
        ends[0][:, j] += steps[j]
        ends[1][:, j] -= steps[j]
        slopes.append((function(ends[0]) - function(ends[1])) / (2.0 * steps[j]))
    return np.stack(slopes, axis=1)


def by_switching(
    function: Function, rows: Float64Array, group: Group, low: Float64Array, high: Float64Array
) -> Float64Array:
    r"""Return what stands for the slope of columns that are switched, shape (n, columns, outputs).

    One column of two values: (f(high) − f(low))/(high − low); of a local kernel the derivative at one value
    is 0, however much the other changes. The columns of a category, of which one at a time is high: with
    g_c(x) = f(x, switched to c), h_c = (g_c − mean_c g)/(high_c − low_c), so that a step from c to c'
    changes f by hᵀΔx as it does in truth. A column with high = low has 0.

    low, high : (d,), the values of each column.
    """
    columns = np.asarray(group, np.intp)
    widths = (high - low)[columns]
    values = []
    if len(columns) == 1:
        moved = rows.copy()
        for level in (low, high):
            moved[:, columns] = level[columns]
            values.append(function(moved))
        slopes = (values[1] - values[0])[:, None, :]
    else:
        moved = rows.copy()
        for c in columns:
            moved[:, columns] = low[columns]
            moved[:, c] = high[c]
            values.append(function(moved))
        slopes = np.stack(values, axis=1)
        slopes -= slopes.mean(axis=1, keepdims=True)
    inverse = np.divide(1.0, widths, out=np.zeros_like(widths), where=widths > 0)
    return slopes * inverse[:, None]
