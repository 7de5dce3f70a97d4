"""Number of BLAS threads to use for a dense system."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gramian._tiles import one_blas_thread

#: Systems smaller than this are solved with one BLAS thread. Chosen by hand.
SMALL_SYSTEM = 500


def blas_for(size: int) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread for a small matrix, because waking a second one costs more than it saves.

    On busy cores an eigendecomposition of 12 × 12 took 5 ms with two threads and 0.1 ms with one (measured by
    hand).
    """
    return one_blas_thread() if size < SMALL_SYSTEM else nullcontext()
