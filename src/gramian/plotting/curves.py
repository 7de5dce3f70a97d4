"""Points of several methods as curves, from lists or records, one marked line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gramian._checks import numbers_of
from gramian._typing import Array, Float64Array, IntArray
from gramian.exceptions import InputError, did_you_mean
from gramian.plotting.canvas import MARK_SIZES, MARKS, Axes, colour_and_mark, name_lines


def checked_points(
    methods: Iterable[object], **columns: ArrayLike | None
) -> tuple[list[str], dict[str, Float64Array]]:
    """Return a name for each point, and columns of as many numbers.

    ``methods`` names every point, or with columns of shape (methods, sizes) every row of them.
    """
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        raise InputError(f"methods={methods!r} is no list. Pass the name of each point's method.")
    names = [str(name) for name in methods]
    if not names:
        raise InputError("methods is empty. Pass at least one method with a point.")
    found: dict[str, Float64Array] = {}
    shape: tuple[int, ...] | None = None
    for key, column in columns.items():
        values = numbers_of(key, column, "Pass one for each point.")
        if values.ndim not in (1, 2) or len(values) != len(names) or shape not in (None, values.shape):
            wanted = f"({len(names)},) or ({len(names)}, sizes)" if shape is None else f"{shape}"
            raise InputError(
                f"{key} has shape {values.shape}, but there are {len(names)} methods; expected {wanted}. "
                "Pass one number for each point, or a row for each method."
            )
        shape = values.shape
        found[key] = values.ravel()
    if shape is not None and len(shape) == 2:
        names = [name for name in names for _ in range(shape[1])]
    return names, found


def records_of(results: Iterable[Mapping[str, Any]], fields: Mapping[str, str]) -> dict[str, list[Any]]:
    """Return columns of records such as JSON lines, by purpose; ``fields`` maps each purpose to a key.

    None counts as a number that is not there.
    """
    if isinstance(results, Mapping | str) or not isinstance(results, Iterable):
        raise InputError(
            f"results has type {type(results).__name__}; expected a list of records. Pass one mapping for "
            "each point, such as the lines of a results file."
        )
    columns: dict[str, list[Any]] = {purpose: [] for purpose in fields}
    for k, record in enumerate(results):
        if not isinstance(record, Mapping):
            raise InputError(f"result {k} has type {type(record).__name__}; expected a mapping.")
        for purpose, key in fields.items():
            if key not in record:
                raise InputError(
                    f"result {k} has no field {key!r}; it has {', '.join(map(str, record))}."
                    f"{did_you_mean(key, map(str, record))} Name the field with {purpose}='...'."
                )
            columns[purpose].append(np.nan if record[key] is None else record[key])
    if not columns or not next(iter(columns.values())):
        raise InputError("results is empty. Pass at least one record.")
    return columns


def flat_items(given: Mapping[Any, Any]) -> list[tuple[str, Any]]:
    """Return (name, value) of a mapping whose values may be lists or tuples of several.

    >>> flat_items({"a": [1, 2], "b": 3})
    [('a', 1), ('a', 2), ('b', 3)]
    """
    return [
        (str(name), one)
        for name, several in given.items()
        for one in (several if isinstance(several, list | tuple) else [several])
    ]


def members(names: Sequence[str]) -> dict[str, IntArray]:
    """Return the indices of each method's points, with methods in order of appearance.

    >>> members(["a", "b", "a"])
    {'a': array([0, 2]), 'b': array([1])}
    """
    every = np.array(names, object)
    return {name: np.flatnonzero(every == name) for name in dict.fromkeys(names)}


def draw_curves(ax: Axes, names: Sequence[str], x: Float64Array, y: Float64Array) -> list[Any]:
    """Draw each method's points, joined in their order, with a legend beside them; return the lines."""
    lines, groups = [], members(names)
    for k, (name, numbers) in enumerate(groups.items()):
        colour, mark = colour_and_mark(k)
        lines += ax.plot(
            x[numbers],
            y[numbers],
            color=colour,
            marker=mark,
            markersize=MARK_SIZES[MARKS.index(mark)],
            markeredgecolor="white",
            markeredgewidth=0.6,
            linewidth=1.4,
            label=name,
            zorder=3,
        )
    name_lines(ax, lines, list(groups))
    return lines


def pareto_front(cost: Array, error: Array) -> IntArray:
    """Return the indices of the Pareto-optimal points, those that no other point dominates, by rising cost.

    >>> pareto_front([1.0, 2.0, 3.0, 2.0], [0.3, 0.1, 0.2, 0.1])
    array([0, 1])
    """
    cost, error = np.asarray(cost, np.float64), np.asarray(error, np.float64)
    order = np.lexsort((error, cost))
    best = np.minimum.accumulate(np.append(np.inf, error[order]))
    return order[error[order] < best[:-1]]
