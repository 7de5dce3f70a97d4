"""Choice of a penalty by held-out rows: the search's one, a smaller one, and others while that helps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gramian._typing import Float64Array, IntArray
from gramian.search import Judge, Limits, Trials, search

#: Factors of the search's penalty to try, since more rows need a smaller penalty; and how many further steps
#: of 3 to try if the best penalty is the smallest or largest so far. Chosen by hand.
FACTORS, FURTHER = (1.0, 1.0 / 3.0), 3


def best_penalty(
    judge: Judge[IntArray, float, Float64Array],
    held: IntArray,
    start: float,
    enough: float,
    more: Callable[[], bool],
) -> tuple[float, Float64Array]:
    """Return the best penalty and the held-out rows' values; try further if it is the smallest or largest.

    An error of at most ``enough`` ends the trials, and so does ``more()`` when it finds too little time.
    """

    def penalties(found: Trials[float, Float64Array]) -> Iterator[list[float]]:
        tried: list[float] = []
        todo = [factor * start for factor in FACTORS]
        while todo and (not tried or more()):
            found.drain()  # drop the values of all trials but the best
            tried.append(todo.pop(0))
            yield tried[-1:]
            best = None if found.best is None else found.best.candidate
            if best is None or todo or len(tried) >= len(FACTORS) + FURTHER:
                continue
            if best in (min(tried), max(tried)):
                todo = [best / 3.0 if best == min(tried) else best * 3.0]

    found = search(held, penalties, judge, Limits(enough=enough))
    best = found.best or found.made[-1]
    return best.candidate, best.evidence
