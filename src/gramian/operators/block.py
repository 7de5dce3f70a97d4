"""Operators from bases: K̃ = Σ_l W_l W_lᵀ, with a core C on the last level where given, and K̃(X, Y)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gramian._budget import format_bytes
from gramian._typing import Array, Float64Array, FloatArray, IntArray
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.operators.algebra import Algebra, ArrowheadAlgebra, CoupledAlgebra, WoodburyAlgebra
from gramian.operators.base import Operator, SymmetricOperator
from gramian.operators.basis import BasisLevel, Task, entries, product
from gramian.solvers.core import CoupledCore
from gramian.solvers.coupled import DIRECT_LIMIT
from gramian.solvers.solution import Solution


class BlockOperator(SymmetricOperator):
    r"""The symmetric n × n matrix K̃ = W_1W_1ᵀ + … + W_LW_Lᵀ, or with W_L C W_Lᵀ as the last term.

    Every approximation is one of these: Nyström is one global level, block-diagonal one level of
    blocks, MEKA and BBF one level with a core, multi-resolution a global level and nested blocks.

    Parameters
    ----------
    levels : sequence of BasisLevel
        Each block of level l + 1 lies inside one block of level l. Arrays are kept without a copy.
    core : CoupledCore, optional
        Couples the blocks of the last level; the identity if left out. If it is indefinite, products,
        diagonal and spectrum are those of K̃ as built, while ``solve`` and ``logdet`` clip the negative
        eigenvalues of W C Wᵀ, warn, and leave the amount in ``clipped_``.
    n_jobs : int, optional
        Threads, as in :class:`gramian.engine.Engine`; results do not depend on it.
    direct_limit : int
        Size of the largest dense system to factorise; larger coupled systems use conjugate gradients.

    Cost: a product O(n r p + R² p); solve and logdet as in :mod:`gramian.operators.algebra`. The sums and the
    factor of the last alpha are kept. All results are float64.

    Examples
    --------
    >>> import numpy as np
    >>> G = np.array([[1.0], [2.0], [0.0]])
    >>> K = BlockOperator.from_parts(3, G=G)
    >>> (K @ np.ones(3)).tolist(), K.trace(), K.rank
    ([3.0, 6.0, 0.0], 5.0, 1)
    >>> K.solve(np.array([6.0, 12.0, 1.0]), alpha=1.0).round(6).tolist()
    [1.0, 2.0, 1.0]
    """

    def __init__(
        self,
        levels: Sequence[BasisLevel],
        core: CoupledCore | None = None,
        *,
        n_jobs: int | None = None,
        direct_limit: int = DIRECT_LIMIT,
    ) -> None:
        self.levels = tuple(levels)
        self.core = core
        self.n_jobs = n_jobs
        self.direct_limit = int(direct_limit)
        self._engine = Engine(n_jobs)
        self._algebra: Algebra | None = None
        if not self.levels:
            raise InputError("levels is empty. Pass at least one BasisLevel.")
        _check_parts("The levels", self.levels, core)
        self._parents = [
            _parents(depth, *pair)
            for depth, pair in enumerate(zip(self.levels, self.levels[1:], strict=False))
        ]

    @classmethod
    def from_parts(
        cls,
        n: int,
        G: FloatArray | None = None,
        rows: Sequence[IntArray] | None = None,
        W: Sequence[FloatArray] | None = None,
        core: CoupledCore | Array | None = None,
        *,
        n_jobs: int | None = None,
    ) -> BlockOperator:
        """Build G Gᵀ + W C Wᵀ from arrays.

        ``rows`` and ``W`` are row numbers and basis per block; ``core`` may be a plain (R, R) array.
        """
        levels = []
        if G is not None:
            if np.ndim(G) != 2 or len(G) != n:
                raise InputError(f"G has shape {np.shape(G)}; pass shape ({n}, rank): one row per row of K̃.")
            levels.append(BasisLevel.whole(G))
        if (rows is None) != (W is None):
            raise InputError("rows and W go together: pass the row numbers and the basis of each block.")
        if rows is not None and W is not None:
            levels.append(BasisLevel(n, rows, W))
        if core is not None and not isinstance(core, CoupledCore):
            core = CoupledCore(core, levels[-1].ranks if levels else ())
        return cls(levels, core, n_jobs=n_jobs)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        n = self.levels[0].n_rows
        return n, n

    @property
    def rank(self) -> int:
        """R, the stored columns of all levels; the rank of K̃ is at most min(n, R)."""
        return sum(level.rank for level in self.levels)

    @property
    def nbytes(self) -> int:
        """Bytes of the bases, row numbers and core, without the factorisations that solving adds."""
        return sum(level.nbytes for level in self.levels) + (self.core.nbytes if self.core else 0)

    @property
    def clipped_(self) -> float:
        """Sum of the magnitudes of the negative eigenvalues that solve or logdet have clipped."""
        return 0.0 if self._algebra is None else self._algebra.clipped

    def _product(self, values: Float64Array) -> Float64Array:
        return product(self.levels, self.levels, self.core, values, self._engine)

    def _entries(self, rows: IntArray, cols: IntArray) -> Float64Array:
        return entries(self.levels, self.levels, self.core, rows, cols)

    def diagonal(self) -> Float64Array:
        """Return the n diagonal entries of K̃."""
        out = np.zeros(self.shape[0])
        last = self.levels[-1]
        for level in self.levels:
            _add_diagonal(level, self.core if level is last else None, out, self._engine)
        return out

    def scaled(self, scale: Float64Array) -> BlockOperator:
        """Return S K̃ S for S = diag(scale): the same levels and core on bases S W, kept in float64."""
        levels = [
            level.with_blocks([scale[level.rows(s), None] * block for s, block in enumerate(level.blocks)])
            for level in self.levels
        ]
        return BlockOperator(levels, self.core, n_jobs=self.n_jobs, direct_limit=self.direct_limit)

    @property
    def n_blocks(self) -> int:
        """Blocks of the last level."""
        return self.levels[-1].n_blocks

    def _block_rows(self, s: int) -> IntArray:
        return self.levels[-1].rows(s)

    def solve_quietly(self, y: Float64Array, alpha: float) -> Solution:
        """Solve (K̃ + alpha·I) a = y for checked arguments, without a warning."""
        return self.algebra.solve(y, alpha)

    def _logdet(self, alpha: float) -> float:
        return self.algebra.logdet(alpha)

    def _leverages(self, alpha: float) -> Float64Array:
        return self.algebra.leverages(alpha)

    def eigvalsh(self) -> Float64Array:
        """Return min(n, R) eigenvalues of K̃ as built (nothing clipped), descending.

        They include every nonzero one, and so the negative ones of an indefinite core.
        """
        values = self.algebra.eigenvalues()
        count = min(self.shape[0], self.rank)
        largest = values[np.argsort(np.abs(values))[::-1][:count]]
        padded = np.concatenate([largest, np.zeros(count - len(largest))])
        return np.sort(padded)[::-1]

    def __repr__(self) -> str:
        n = self.shape[0]
        core = "" if self.core is None else ", core"
        blocks = " + ".join(str(level.n_blocks) for level in self.levels)
        return (
            f"<BlockOperator {n} × {n}: {blocks} blocks{core}, rank {self.rank}, {format_bytes(self.nbytes)}>"
        )

    def __getstate__(self) -> dict[str, Any]:
        # Factorisations may be larger than the operator and are rebuilt on demand.
        state: Any = super().__getstate__()
        return {**state, "_algebra": None}

    @property
    def algebra(self) -> Algebra:
        """The algebra of K̃ + alpha·I, made when it is first needed."""
        if self._algebra is None:
            engine, limit = self._engine, self.direct_limit
            if self.core is None:
                self._algebra = ArrowheadAlgebra(self.levels, self._parents, engine, limit)
            elif len(self.levels) == 1:
                self._algebra = CoupledAlgebra(self.levels[0], self.core, engine, limit)
            else:
                *upper, basis = self.levels
                self._algebra = WoodburyAlgebra(upper, basis, self.core, engine, limit)
        return self._algebra


def _check_parts(what: str, levels: Sequence[BasisLevel], core: CoupledCore | None) -> None:
    """Raise unless the levels have the same rows, and the core has the ranks of the last one."""
    counts = sorted({level.n_rows for level in levels})
    if len(counts) > 1:
        raise InputError(f"{what} have different numbers of rows: {counts}. Pass bases of the same rows.")
    last = levels[-1].ranks
    if core is not None and core.ranks != last:
        raise InputError(
            f"The core has ranks {core.ranks}, but the blocks of the last level have {last}. "
            "Pass a core with one block of rows per block of the last level."
        )


def _add_diagonal(level: BasisLevel, core: CoupledCore | None, out: Float64Array, engine: Engine) -> None:
    """Add the diagonal of W Wᵀ, or of W C Wᵀ."""

    def work(task: Task) -> None:
        for s, start, stop in task:
            tile = level.tile(s, start, stop)
            right = tile if core is None else tile @ core.block(s, s)
            out[level.tile_rows(s, start, stop)] += np.einsum("ij,ij->i", tile, right)

    with level.map_tiles(work, engine) as done:
        for _ in done:
            pass


def _parents(depth: int, upper: BasisLevel, lower: BasisLevel) -> IntArray:
    """Return for each block of the lower level the block of the upper level that contains it."""
    parents = np.zeros(lower.n_blocks, np.intp)
    for s in range(lower.n_blocks):
        owners = np.unique(upper.locate(lower.rows(s))[0])
        if len(owners) > 1 or (len(owners) == 1 and owners[0] < 0):
            raise InputError(
                f"Block {s} of level {depth + 1} has rows in {len(owners)} places of level {depth} "
                f"(blocks {owners[:5].tolist()}, -1 for none), but each block must lie inside one "
                "block of the level above. Split it, or reorder the levels."
            )
        # A block without rows may have any parent.
        parents[s] = owners[0] if len(owners) else 0
    return parents


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
        _check_parts("The levels of left", self.left, core)
        _check_parts("The levels of right", self.right, core)

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
