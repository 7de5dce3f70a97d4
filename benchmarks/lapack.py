"""Factorisations on two threads: SciPy's wrappers, which hold the interpreter's lock, and ours, which do not.

    python benchmarks/lapack.py [--rows 500]

Milliseconds on one thread, and how many times faster two threads do the same number of them.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable

import numpy as np
import scipy.linalg as la

from gramian._lapack import cho_solve, cholesky, pivoted_cholesky, solve_triangular
from gramian._tiles import one_blas_thread

TIMES = 20


def seconds(work: Callable[[], object], threads: int) -> float:
    """Seconds of ``TIMES`` calls, shared out among threads; the best of three."""

    def some() -> None:
        for _ in range(TIMES // threads):
            work()

    best = np.inf
    for _ in range(3):
        workers = [threading.Thread(target=some) for _ in range(threads)]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        best = min(best, time.perf_counter() - start)
    return float(best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=500)
    m = parser.parse_args().rows
    rng = np.random.default_rng(0)
    F = rng.standard_normal((m, m))
    A, b = F @ F.T + np.eye(m), rng.standard_normal((m, 2 * m))
    lower = cholesky(A)
    by_columns = np.asfortranarray(lower)
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "cholesky": (lambda: la.cholesky(A, lower=True, check_finite=False), lambda: cholesky(A)),
        "solve_triangular": (
            lambda: la.solve_triangular(by_columns, b, lower=True, check_finite=False),
            lambda: solve_triangular(lower, b),
        ),
        "cho_solve": (
            lambda: la.cho_solve((by_columns, True), b, check_finite=False),
            lambda: cho_solve(lower, b),
        ),
        "pstrf": (lambda: la.lapack.dpstrf(A, tol=1e-9, lower=1), lambda: pivoted_cholesky(A, 1e-9)),
    }
    print(f"{m} rows        SciPy: ms   2 threads    ours: ms   2 threads")
    with one_blas_thread():
        for name, both in pairs.items():
            cells = []
            for work in both:
                work()
                one, two = seconds(work, 1), seconds(work, 2)
                cells.append(f"{1e3 * one / TIMES:9.2f} {one / two:9.2f} x ")
            print(f"{name:18s}" + "  ".join(cells))


if __name__ == "__main__":
    main()
