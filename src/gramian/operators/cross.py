"""Rectangular K̃ between two sets of rows, such as test and training rows."""

from __future__ import annotations

from collections.abc import Sequence

from gramian._budget import format_bytes
from gramian._typing import Float64Array, IntArray
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.operators.base import Operator
from gramian.operators.basis import BasisLevel, entries, product
from gramian.solvers.core import CoupledCore


class CrossOperator(Operator):
    r"""The n × m matrix A_1B_1ᵀ + … + A_LB_Lᵀ, or with A_L C B_Lᵀ as the last term.

    A_l and B_l are the bases of two sets of rows over the same blocks, so this is K̃(X, Y) for any rows X and
    Y, stored in n·r + m·r numbers. Column j of block t on one side belongs to column j of block t on the
    other.

    Parameters
    ----------
    left, right : sequence of BasisLevel
        Bases with n and m rows, and the same ranks level by level; kept without a copy.
    core : CoupledCore, optional
        Couples the blocks of the last level; the identity if left out.
    n_jobs : int, optional
        Threads, as in :class:`gramian.engine.Engine`.

    Cost: a product with p columns O((n + m) r p + R² p). All results are float64.
    Source: the asymmetric form of Wang, Li, Mahoney and Darve, "Block basis factorization for scalable
    kernel evaluation" (2019).

    Examples
    --------
    >>> import numpy as np
    >>> A, B = BasisLevel.whole(np.array([[1.0], [2.0]])), BasisLevel.whole(np.array([[3.0], [4.0], [5.0]]))
    >>> K = CrossOperator([A], [B])
    >>> K.shape, (K @ np.ones(3)).tolist(), (K.T @ np.ones(2)).tolist()
    ((2, 3), [12.0, 24.0], [9.0, 12.0, 15.0])
    """

    def __init__(
        self,
        left: Sequence[BasisLevel],
        right: Sequence[BasisLevel],
        core: CoupledCore | None = None,
        *,
        n_jobs: int | None = None,
    ) -> None:
        self.left, self.right, self.core, self.n_jobs = tuple(left), tuple(right), core, n_jobs
        self._engine = Engine(n_jobs)
        ranks = [[level.ranks for level in side] for side in (self.left, self.right)]
        if not ranks[0] or ranks[0] != ranks[1]:
            raise InputError(
                f"left has levels of ranks {ranks[0]}, right of {ranks[1]}. Pass one level or more on each "
                "side, with the same ranks level by level."
            )
        for name, side in (("left", self.left), ("right", self.right)):
            counts = sorted({level.n_rows for level in side})
            if len(counts) > 1:
                raise InputError(
                    f"The levels of {name} have different numbers of rows: {counts}. Pass bases of the "
                    "same rows."
                )
        if core is not None and core.ranks != ranks[0][-1]:
            raise InputError(
                f"The core has ranks {core.ranks}, but the blocks of the last level have {ranks[0][-1]}. "
                "Pass a core with one block of rows per block of the last level."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        return self.left[0].n_rows, self.right[0].n_rows

    @property
    def nbytes(self) -> int:
        """Bytes of both sides' bases and row numbers and of the core."""
        bases = sum(level.nbytes for level in (*self.left, *self.right))
        return bases + (self.core.nbytes if self.core else 0)

    @property
    def T(self) -> CrossOperator:
        """The transpose, on the same arrays."""
        return CrossOperator(self.right, self.left, self.core, n_jobs=self.n_jobs)

    def __repr__(self) -> str:
        n, m = self.shape
        core = "" if self.core is None else ", core"
        blocks = " + ".join(str(level.n_blocks) for level in self.left)
        return f"<CrossOperator {n} × {m}: {blocks} blocks{core}, {format_bytes(self.nbytes)}>"

    def _product(self, values: Float64Array) -> Float64Array:
        return product(self.left, self.right, self.core, values, self._engine)

    def _entries(self, rows: IntArray, cols: IntArray) -> Float64Array:
        return entries(self.left, self.right, self.core, rows, cols)
