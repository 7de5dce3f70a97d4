"""Number of BLAS threads to use for a dense system."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gramian._tiles import one_blas_thread

#: Systems smaller than this are solved on one BLAS thread.
SMALL_SYSTEM = 500


def blas_for(size: int) -> AbstractContextManager[Any]:
    """Hold BLAS to one thread for a small matrix, where waking a second one costs more than it saves.

    On busy cores an eigendecomposition of 12 × 12 took 5 ms on two threads and 0.1 ms on one.
    """
    return one_blas_thread() if size < SMALL_SYSTEM else nullcontext()
