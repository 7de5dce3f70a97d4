"""Representative columns of the block rows K(X_s, X) by pivoted QR and LQ of a few rows and columns.

Source: Wang, Li, Mahoney and Darve, "Block Basis Factorization for Scalable Kernel Evaluation", Algorithms 1
to 3; the alternation is that of Engquist and Ying 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gramian._typing import Float64Array, IntArray, Rows
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.landmarks.picking import pivot_columns


@dataclass(frozen=True)
class BlockRow:
    """Block row K(X_s, Y) that is never stored: entries are evaluated on request.

    ``rows`` are the points X_s of a block (n_s, d), ``columns`` the candidates Y.
    """

    kernel: Kernel
    rows: Rows
    columns: Rows

    def entries(self, rows: IntArray | None, columns: IntArray | None) -> Float64Array:
        """Return a submatrix in float64; None selects all rows or columns."""
        left = self.rows if rows is None else self.rows[rows]
        right = self.columns if columns is None else self.columns[columns]
        return np.asarray(self.kernel(left, right, dtype=np.float64, n_jobs=1), np.float64)


@dataclass(frozen=True)
class SampledColumns:
    """Chosen columns Π_c and rows Π_r of a block row M, and the values M(:, Π_c)."""

    columns: IntArray  #: numbers of the chosen candidates
    rows: IntArray  #: numbers of the block's important rows
    matrix: Float64Array  #: (n_s, columns): all rows of the chosen columns


def sample_columns(row: BlockRow, count: int, n_rounds: int, rng: np.random.Generator) -> SampledColumns:
    r"""Return representative columns of one block row: Algorithm 1, the randomized pivoted QR and LQ.

    Each round draws ``count`` random rows in addition to the important ones. The ``count`` pivots of a QR of
    these rows become the important columns. The round then draws as many random columns in addition to
    these, and the pivots of an LQ of all rows of these columns become the important rows. The result has at
    most 2·count columns. The rounds stop early when one leaves the important columns unchanged.

    Time O(rounds · count² (n_s + candidates)); at most rounds · 2·count · (n_s + candidates) kernel values.
    """
    n_rows, n_columns = row.rows.shape[0], row.columns.shape[0]
    rows = columns = important = np.zeros(0, np.intp)
    matrix = np.zeros((n_rows, 0))
    for done in range(n_rounds):
        tried = np.union1d(rows, draw(n_rows, count, rng))
        before, important = important, np.sort(pivot_columns(row.entries(tried, None), count))
        if done and np.array_equal(important, before):
            break
        columns = np.union1d(important, draw(n_columns, count, rng))
        matrix = row.entries(None, columns)
        rows = pivot_columns(matrix.T, count)
    return SampledColumns(columns, rows, matrix)


def important_rows(
    kernel: Kernel,
    points: Rows,
    members: Sequence[IntArray],
    counts: IntArray,
    streams: Sequence[np.random.Generator],
    engine: Engine,
) -> IntArray:
    r"""Return Γ, the numbers of some important rows of every block: the first half of Algorithm 3.

    They are the ``counts[s]`` pivots of an LQ of the block's rows in as many random columns. With these m
    rows per block as candidates in place of all n columns, Algorithm 1 on c blocks costs O(n m² + c² m³)
    instead of O(c n m²).
    """
    n = points.shape[0]

    def pick(s: int) -> IntArray:
        drawn = points[draw(n, int(counts[s]), streams[s])]
        strip = BlockRow(kernel, points[members[s]], drawn).entries(None, None)
        return members[s][pivot_columns(strip.T, int(counts[s]))]

    picked = engine.map(pick, range(len(members)))
    return np.sort(np.concatenate([np.zeros(0, np.intp), *picked]))


def draw(n: int, count: int, rng: np.random.Generator) -> IntArray:
    """Draw ``count`` of the numbers 0 … n − 1 without replacement, in ascending order; all if n <= count."""
    return np.arange(n) if count >= n else np.sort(rng.choice(n, count, replace=False))
