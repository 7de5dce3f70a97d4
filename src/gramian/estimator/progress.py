"""Progress bars: rows, phase and seconds left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm.std import tqdm


def shown_bar(verbose: Any, **options: Any) -> tqdm[Any]:
    """Return a bar of tqdm, which is shown if ``verbose``, and gone when it is done.

    As the place demands it is a widget in a notebook, and a line in a terminal (and in a log, where standard
    error goes to a file). The choice is made when a bar is to be shown, and not when gramian is imported:
    tqdm warns in notebooks that lack ipywidgets, which is of no use to those who asked for no bar.
    """
    if not verbose:
        return tqdm(disable=True, **options)
    from tqdm.auto import tqdm as fitting

    return fitting(leave=False, **options)


@contextmanager
def rows_bar(n_rows: int, verbose: Any) -> Iterator[Callable[[int], object]]:
    """Give a function to call with each number of rows that are done; a bar shows them if ``verbose``.

    Until the first rows it says that bases are being made.
    """
    with shown_bar(verbose, total=n_rows, unit="rows", desc="bases") as bar:

        def done(rows: int) -> None:
            if not bar.n:
                bar.set_description("sums")
            bar.update(rows)

        yield done
