"""The bar of a pass: rows, phase and seconds left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm.auto import tqdm


@contextmanager
def rows_bar(n_rows: int, verbose: Any) -> Iterator[Callable[[int], object]]:
    """Give a function to call with each number of rows that are done; a bar shows them if ``verbose``.

    Until the first rows it says that bases are being made. It is tqdm's, as the place demands: a widget in a
    notebook, a line in a terminal (and in a log, where standard error goes to a file).
    """
    with tqdm(total=n_rows, unit="rows", desc="bases", disable=not verbose, leave=False) as bar:

        def done(rows: int) -> None:
            if not bar.n:
                bar.set_description("sums")
            bar.update(rows)

        yield done
