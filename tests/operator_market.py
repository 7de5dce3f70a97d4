"""The market of operators that tests draw from: each stall with its dense oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from gramian.operators import BasisLevel, BlockOperator, CoupledCore

N = 90  # rows of every operator but one_row


@dataclass
class Stall:
    """One operator's ingredients, from which both the operator and its oracle are made."""

    levels: list[BasisLevel]
    core: CoupledCore | None = None

    def operator(self, n_jobs: int = 1) -> BlockOperator:
        return BlockOperator(self.levels, self.core, n_jobs=n_jobs)

    def oracle(self, *, clip: bool = False) -> np.ndarray:
        *upper, last = [level.to_dense() for level in self.levels]
        core = np.eye(last.shape[1]) if self.core is None else self.core.to_dense()
        coupled = last @ core @ last.T
        if clip:
            values, vectors = la.eigh(coupled)
            coupled = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return coupled + sum(g @ g.T for g in upper)


def rows_of(rng: np.random.Generator, sizes: list[int], n: int = N) -> list[np.ndarray]:
    return np.split(rng.permutation(n)[: sum(sizes)], np.cumsum(sizes)[:-1])


def basis(rng, rows, ranks, dtype, n: int = N) -> BasisLevel:
    blocks = [rng.standard_normal((len(r), k)).astype(dtype) for r, k in zip(rows, ranks, strict=True)]
    return BasisLevel(n, rows, blocks)


def whole(rng, rank, dtype, n: int = N) -> BasisLevel:
    return BasisLevel.whole(rng.standard_normal((n, rank)).astype(dtype))


def psd(rng, size):
    a = rng.standard_normal((size, size))
    return a @ a.T / size


def global_only(rng, dtype):
    return Stall([whole(rng, 7, dtype)])


def blocks_only(rng, dtype):
    return Stall([basis(rng, rows_of(rng, [40, 30, 20]), [5, 3, 6], dtype)])


def global_and_blocks(rng, dtype):
    return Stall([whole(rng, 6, dtype), basis(rng, rows_of(rng, [40, 30, 20]), [5, 3, 6], dtype)])


def tree(rng, dtype):
    middle = rows_of(rng, [50, 40])
    leaves = [middle[0][:20], middle[1][:15], middle[0][20:], middle[1][15:]]
    return Stall(
        [whole(rng, 4, dtype), basis(rng, middle, [3, 5], dtype), basis(rng, leaves, [2, 4, 3, 1], dtype)]
    )


def forest_without_a_root(rng, dtype):
    return Stall(tree(rng, dtype).levels[1:])


def dense_psd_core(rng, dtype):
    core = CoupledCore(psd(rng, 12), (4, 3, 5), psd=True)
    return Stall([basis(rng, rows_of(rng, [40, 30, 20]), [4, 3, 5], dtype)], core)


def dense_core_of_unknown_sign(rng, dtype):
    stall = dense_psd_core(rng, dtype)
    return Stall(stall.levels, CoupledCore(stall.core.to_dense(), stall.core.ranks))


def indefinite_core(rng, dtype):
    a = rng.standard_normal((12, 12))
    return Stall(dense_psd_core(rng, dtype).levels, CoupledCore(a + a.T, (4, 3, 5)))


def block_sparse_core(rng, dtype):
    blocks = {(0, 0): 5 * np.eye(4), (1, 1): 6 * np.eye(3), (2, 2): 7 * np.eye(5)}
    blocks[0, 2] = 0.3 * rng.standard_normal((4, 5))
    return Stall(dense_psd_core(rng, dtype).levels, CoupledCore(blocks, (4, 3, 5), psd=True))


def global_and_core(rng, dtype):
    stall = dense_psd_core(rng, dtype)
    return Stall([whole(rng, 6, dtype), *stall.levels], stall.core)


def global_and_indefinite_core(rng, dtype):
    stall = indefinite_core(rng, dtype)
    return Stall([whole(rng, 6, dtype), *stall.levels], stall.core)


def tree_and_core(rng, dtype):
    stall = tree(rng, dtype)
    return Stall(stall.levels, CoupledCore(psd(rng, 10), (2, 4, 3, 1), psd=True))


def ranks_zero(rng, dtype):
    return Stall([whole(rng, 3, dtype), basis(rng, rows_of(rng, [40, 30, 20]), [0, 3, 0], dtype)])


def core_with_ranks_zero(rng, dtype):
    stall = ranks_zero(rng, dtype)
    return Stall(stall.levels[1:], CoupledCore(psd(rng, 3), (0, 3, 0), psd=True))


def all_ranks_zero(rng, dtype):
    return Stall([whole(rng, 0, dtype), basis(rng, rows_of(rng, [60, 30]), [0, 0], dtype)])


def fewer_rows_than_rank(rng, dtype):
    return Stall([whole(rng, 4, dtype), basis(rng, rows_of(rng, [84, 5, 1]), [3, 9, 2], dtype)])


def core_with_fewer_rows_than_rank(rng, dtype):
    stall = fewer_rows_than_rank(rng, dtype)
    return Stall(stall.levels[1:], CoupledCore(psd(rng, 14), (3, 9, 2), psd=True))


def more_columns_than_rows(rng, dtype):
    return Stall([whole(rng, 120, dtype)])


def empty_block_and_uncovered_rows(rng, dtype):
    return Stall([whole(rng, 3, dtype), basis(rng, rows_of(rng, [40, 0, 20]), [4, 2, 3], dtype)])


def core_over_some_rows(rng, dtype):
    stall = empty_block_and_uncovered_rows(rng, dtype)
    return Stall(stall.levels, CoupledCore(psd(rng, 9), (4, 2, 3), psd=True))


def repeated_columns(rng, dtype):
    g = rng.standard_normal((N, 3)).astype(dtype)
    rows = rows_of(rng, [50, 40])
    core = CoupledCore(psd(rng, 12), (6, 6), psd=True)
    return Stall([BasisLevel(N, rows, [np.hstack([g[r], g[r]]) for r in rows])], core)


def one_row(rng, dtype):
    rows = [np.array([0])]
    return Stall([whole(rng, 1, dtype, 1), BasisLevel(1, rows, [np.ones((1, 1), dtype)])])


MARKET: list[Callable[..., Stall]] = [
    global_only,
    blocks_only,
    global_and_blocks,
    tree,
    forest_without_a_root,
    dense_psd_core,
    dense_core_of_unknown_sign,
    indefinite_core,
    block_sparse_core,
    global_and_core,
    global_and_indefinite_core,
    tree_and_core,
    ranks_zero,
    core_with_ranks_zero,
    all_ranks_zero,
    fewer_rows_than_rank,
    core_with_fewer_rows_than_rank,
    more_columns_than_rows,
    empty_block_and_uncovered_rows,
    core_over_some_rows,
    repeated_columns,
    one_row,
]
