"""Block-diagonal basis W over disjoint sets of rows, its products and sums A_1B_1ᵀ + … with a core."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias, TypeVar

import numpy as np

from gramian._typing import Array, Float64Array, FloatArray, IntArray
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.solvers.core import CoupledCore

#: Rows that a product converts to float64 at a time, which is also about the size of a task. Chosen by hand.
TILE_ROWS = 4096

#: Products with fewer multiplications than this run in the calling thread, since starting threads would cost
#: more. Chosen by hand.
_SMALL = 1 << 18

#: A tile: the block, and the first row and end within it.
Tile: TypeAlias = tuple[int, int, int]
#: Tiles that one thread computes together.
Task: TypeAlias = tuple[Tile, ...]

Result = TypeVar("Result")


class BasisLevel:
    r"""Block-diagonal basis W (n × R): block s has its own rows and r_s columns, all else is zero.

    A global basis G is one block with all rows. Rows that are in no block are zero. The arrays are kept
    without a copy and never written to.

    Parameters
    ----------
    n_rows : int
        n.
    rows : sequence of int arrays
        Row numbers of each block, disjoint; an empty block is allowed.
    blocks : sequence of ndarray (n_s, r_s)
        float32 or float64; r_s may be 0.

    Products are computed in float64, one tile of rows at a time: time O(Σ n_s r_s p), memory O(tile · r) per
    thread.

    Examples
    --------
    >>> import numpy as np
    >>> W = BasisLevel(3, [np.array([0, 2]), np.array([1])], [np.ones((2, 1)), np.full((1, 1), 3.0)])
    >>> W.matmul(np.array([1.0, 2.0])).tolist()
    [1.0, 6.0, 1.0]
    >>> W.adjoint(np.array([1.0, 2.0, 3.0])).tolist()
    [4.0, 6.0]
    """

    def __init__(self, n_rows: int, rows: Sequence[IntArray], blocks: Sequence[FloatArray]) -> None:
        if len(rows) != len(blocks):
            raise InputError(
                f"rows has {len(rows)} row sets, but blocks has {len(blocks)} arrays. Pass one row "
                "set per block."
            )
        sets = [np.asarray(r, np.intp).ravel() for r in rows]
        offsets = np.concatenate([[0], np.cumsum([len(r) for r in sets])]).astype(np.intp)
        order = np.concatenate([*sets, np.empty(0, np.intp)])
        self.n_rows = int(n_rows)
        self.row_offsets = offsets
        self.blocks = tuple(_check_block(s, b, n) for s, (b, n) in enumerate(zip(blocks, np.diff(offsets))))
        self.ranks = tuple(b.shape[1] for b in self.blocks)
        self.offsets = np.concatenate([[0], np.cumsum(self.ranks)]).astype(np.intp)
        if len(order) and (order.min() < 0 or order.max() >= self.n_rows):
            raise InputError(
                f"rows has numbers from {order.min()} to {order.max()}, but the operator has "
                f"{self.n_rows} rows. Pass numbers from 0 to {self.n_rows - 1}."
            )
        if np.bincount(order, minlength=1).max() > 1:
            twice = int(np.bincount(order).argmax())
            raise InputError(
                f"Row {twice} is in more than one place of the blocks, but the blocks of one level "
                "must be disjoint. Put overlapping blocks on levels of their own."
            )
        # Rows in ascending order need no permutation, so products can use views instead of copies.
        self._order: IntArray | None = order
        if np.array_equal(order, np.arange(len(order))):
            self._order = None
        self._place: IntArray | None = None
        #: The tiles (block, start, stop), in groups of about equal work.
        self.tasks = _tasks(offsets)

    @classmethod
    def whole(cls, values: FloatArray) -> BasisLevel:
        """Build a global basis: one block of all rows."""
        return cls(len(values), [np.arange(len(values))], [values])

    def with_blocks(self, blocks: Sequence[FloatArray]) -> BasisLevel:
        """Return a basis on the same rows with other blocks."""
        return BasisLevel(self.n_rows, [self.rows(s) for s in range(self.n_blocks)], blocks)

    def uncovered(self) -> IntArray:
        """Return the rows that lie in no block, ascending."""
        missing = np.ones(self.n_rows, bool)
        missing[slice(0, self.row_offsets[-1]) if self._order is None else self._order] = False
        return np.flatnonzero(missing)

    @property
    def n_blocks(self) -> int:
        """Blocks of the level."""
        return len(self.blocks)

    @property
    def rank(self) -> int:
        """R, the columns of all blocks."""
        return int(self.offsets[-1])

    @property
    def shape(self) -> tuple[int, int]:
        """(n, R)."""
        return self.n_rows, self.rank

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks and of the row numbers."""
        order = 0 if self._order is None else self._order.nbytes
        return sum(b.nbytes for b in self.blocks) + order

    def rows(self, s: int) -> IntArray:
        """Return the row numbers of block s."""
        start, stop = self.row_offsets[s], self.row_offsets[s + 1]
        return np.arange(start, stop) if self._order is None else self._order[start:stop]

    def tile_rows(self, s: int, start: int, stop: int) -> slice | IntArray:
        """Return the index of rows start … stop of block s in the operator: a slice if possible."""
        first = self.row_offsets[s]
        if self._order is None:
            return slice(first + start, first + stop)
        return self._order[first + start : first + stop]

    def locate(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Return the block of each row (−1 if it is in none) and its place in the block."""
        if self._order is None:
            place = np.where(rows < self.row_offsets[-1], rows, -1)
        else:
            if self._place is None:
                self._place = np.full(self.n_rows, -1, np.intp)
                self._place[self._order] = np.arange(len(self._order))
            place = self._place[rows]
        block = np.searchsorted(self.row_offsets, place, side="right") - 1
        return block, place - self.row_offsets[block]

    def matmul(self, values: FloatArray, engine: Engine | None = None) -> Float64Array:
        """Return W V for V (R,) or (R, p)."""
        out = np.zeros((self.n_rows, *values.shape[1:]))

        def work(task: Task) -> None:
            for s, start, stop in task:
                part = values[self.offsets[s] : self.offsets[s + 1]]
                out[self.tile_rows(s, start, stop)] = self.tile(s, start, stop) @ part

        with self.map_tiles(work, engine, columns=_columns(values)) as done:
            for _ in done:
                pass
        return out

    def adjoint(self, values: FloatArray, engine: Engine | None = None) -> Float64Array:
        """Return Wᵀ V for V (n,) or (n, p), summed in float64."""
        out = np.zeros((self.rank, *values.shape[1:]))

        def work(task: Task) -> list[Float64Array]:
            return [self.tile(s, a, b).T @ values[self.tile_rows(s, a, b)] for s, a, b in task]

        with self.map_tiles(work, engine, columns=_columns(values)) as results:
            for task, parts in zip(self.tasks, results, strict=True):
                for (s, _, _), part in zip(task, parts, strict=True):
                    out[self.offsets[s] : self.offsets[s + 1]] += part
        return out

    def tile(self, s: int, start: int, stop: int) -> Float64Array:
        """Return rows start … stop of block s in float64."""
        return np.asarray(self.blocks[s][start:stop], np.float64)

    def map_tiles(
        self, work: Callable[[Task], Result], engine: Engine | None = None, *, columns: int = 1
    ) -> AbstractContextManager[Iterator[Result]]:
        """Give an iterator of ``work(task)`` for each group of tiles; uses threads only if they save time.

        ``columns`` is the number of multiplications per stored number.
        """
        if engine is None or sum(b.size for b in self.blocks) * columns < _SMALL:
            engine = Engine(1)  # still limits BLAS to one thread, which tiny products need
        return engine.results(work, self.tasks)

    def gather(self, rows: IntArray) -> dict[int, tuple[IntArray, Float64Array]]:
        """Return rows of W by block: {s: (places in ``rows``, their (m, r_s) values in float64)}."""
        block, place = self.locate(rows)
        by_block = np.argsort(block, kind="stable")
        cuts = np.flatnonzero(np.diff(block[by_block])) + 1
        blocks = {}
        for where in np.split(by_block, cuts):
            if len(where) and block[where[0]] >= 0:
                s = int(block[where[0]])
                blocks[s] = where, self.blocks[s][place[where]].astype(np.float64)
        return blocks

    def to_dense(self) -> Float64Array:
        """Return W as a dense (n, R) array."""
        out = np.zeros(self.shape)
        for s, block in enumerate(self.blocks):
            out[self.rows(s), self.offsets[s] : self.offsets[s + 1]] = block
        return out


def _columns(values: FloatArray) -> int:
    return values.shape[1] if values.ndim == 2 else 1


def _tasks(row_offsets: IntArray) -> tuple[Task, ...]:
    """Cut blocks into tiles of rows, and join small tiles into tasks of about TILE_ROWS rows."""
    tasks: list[Task] = []
    pending: list[Tile] = []
    waiting = 0
    for s, n in enumerate(np.diff(row_offsets).tolist()):
        for start in range(0, n, TILE_ROWS):
            stop = min(start + TILE_ROWS, n)
            pending.append((s, start, stop))
            waiting += stop - start
            if waiting >= TILE_ROWS:
                tasks.append(tuple(pending))
                pending, waiting = [], 0
    if pending:
        tasks.append(tuple(pending))
    return tuple(tasks)


def _check_block(s: int, block: Array, n_rows: int) -> FloatArray:
    block = np.asarray(block)
    if block.dtype not in (np.float32, np.float64):
        raise InputError(
            f"Block {s} has dtype {block.dtype}, but a basis is float32 or float64. "
            "Convert it with .astype(float)."
        )
    if block.ndim != 2 or len(block) != n_rows:
        raise InputError(
            f"Block {s} has shape {block.shape}, but its row set has {n_rows} rows. Pass shape "
            f"({n_rows}, rank); a block may have rank 0."
        )
    return block


def product(
    left: Sequence[BasisLevel],
    right: Sequence[BasisLevel],
    core: CoupledCore | None,
    values: Float64Array,
    engine: Engine,
) -> Float64Array:
    """Return Σ A_l (B_lᵀ V), with A_L (C (B_LᵀV)) as the last term if there is a core.

    Time O((n + m) r p + R² p).
    """
    out = np.zeros((left[0].n_rows, *values.shape[1:]))
    for up, down in zip(left, right, strict=True):
        inner = down.adjoint(values, engine)
        if down is right[-1] and core is not None:
            inner = core.multiply(inner)
        out += up.matmul(inner, engine)
    return out


def entries(
    left: Sequence[BasisLevel],
    right: Sequence[BasisLevel],
    core: CoupledCore | None,
    rows: IntArray,
    cols: IntArray,
) -> Float64Array:
    """Return the dense sub-block of these rows and columns."""
    out = np.zeros((len(rows), len(cols)))
    for up, down in zip(left, right, strict=True):
        above, below = up.gather(rows), down.gather(cols)
        if down is right[-1] and core is not None:
            for s, (i, a) in above.items():
                for t, (j, b) in below.items():
                    if not core.is_zero(s, t):
                        out[np.ix_(i, j)] += a @ core.block(s, t) @ b.T
        else:
            for s in above.keys() & below.keys():
                (i, a), (j, b) = above[s], below[s]
                out[np.ix_(i, j)] += a @ b.T
    return out
