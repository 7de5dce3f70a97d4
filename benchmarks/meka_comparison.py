"""Shared parts of the MEKA paper's scripts: its rows, its methods and ours at a given memory, the measure."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

import gramian as gm
from gramian.approximations import LowRankPlusBlocks
from gramian.approximations.approximation import Approximation
from gramian.data import load_dataset
from gramian.operators import DiagonalPlus

#: (numbers a row, blocks of MEKA, rows) → estimator without its kernel.
Make = Callable[[float, int, int], Approximation]


@dataclass(frozen=True)
class Method:
    name: str
    make: Make
    in_paper: bool = True


def unit_box(X: np.ndarray, low: float = 0.0) -> np.ndarray:
    """Scale columns to [low, 1]; constant columns become low."""
    span = X.max(axis=0) - X.min(axis=0)
    return low + (1.0 - low) * (X - X.min(axis=0)) / np.where(span > 0, span, 1.0)


@cache
def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = load_dataset(name)
    X, y = data.X.astype(np.float64), data.y.astype(np.float64)
    if name == "ijcnn1":
        return X[: data.n_train], y[: data.n_train]
    if name in ("pendigits", "covtype_100k"):
        return unit_box(X), y
    if name == "cadata":
        return unit_box(X, -1.0), unit_box(y[:, None])[:, 0]
    return (unit_box(X, -1.0), y) if name == "cpusmall" else (X, y)


def some_rows(name: str, count: int) -> np.ndarray:
    """Return at most so many rows in float32, drawn at random."""
    X = rows_of(name)[0]
    picked = np.random.default_rng(0).permutation(len(X))[:count]
    return X[np.sort(picked)].astype(np.float32)


def block_rank(memory: float, n_blocks: int, n: int) -> int:
    """The rank k of MEKA's blocks that n·k + (c·k)² = n·memory leaves."""
    square = n_blocks**2 / n
    return max(1, round((np.sqrt(1.0 + 4.0 * square * memory) - 1.0) / (2.0 * square)))


def meka(core: str) -> Make:
    # Where much is recompressed, pivots err a tenth less than centroids; with few landmarks centroids do.
    landmarks = "rpcholesky" if core == "recompressed" else "kmeans"
    return lambda m, c, n: gm.MEKA(rank=block_rank(m, c, n), n_blocks=c, core=core, landmarks=landmarks)


def nystrom(landmarks: str, oversampling: float, svd: str = "exact") -> Make:
    return lambda m, c, n: gm.Nystrom(
        rank=round(m), landmarks=landmarks, oversampling=oversampling, recompress=False, svd=svd
    )


def even(m: float) -> int:
    return 2 * max(1, round(m / 2))


#: As the paper describes them: 2·k uniform columns, three experts that share the memory, k features. It does
#: not say how many centroids: its errors are nearer to those of 2·k than of k. Those of the random features
#: are the errors of k frequencies with a sine and a cosine each, 2·k numbers a row.
PAPER = (
    Method("Nys", nystrom("uniform", 2.0)),
    Method("RNys", nystrom("uniform", 2.0, "randomized")),
    Method("KNys", nystrom("kmeans", 2.0)),
    Method("ENys", lambda m, c, n: gm.EnsembleNystrom(rank=max(1, round(m / 3)), n_experts=3)),
    Method("RKS", lambda m, c, n: gm.RandomFourier(rank=even(m))),
    Method("fastfood", lambda m, c, n: gm.Fastfood(rank=even(m))),
    Method("MEKA, sampled", meka("sampled")),
)
OURS = (
    Method("MEKA, projection", meka("projection"), False),
    Method("MEKA, recompressed", meka("recompressed"), False),
    Method("BlockBasis", lambda m, c, n: gm.BlockBasis(rank=round(m)), False),
    Method("Nystrom", lambda m, c, n: gm.Nystrom(rank=round(m)), False),
    Method(
        "MultiResolution",
        lambda m, c, n: gm.MultiResolution(root_rank=round(m / 2), rank=round(m / 2), n_blocks=c),
        False,
    ),
)
#: For narrow kernels, whose diagonal (and what lies next to it) no low rank reaches.
OURS_NARROW = (
    Method(
        "LowRankPlusBlocks",
        lambda m, c, n: LowRankPlusBlocks(root_rank=round(m / 2), n_blocks=max(1, round(2 * n / m))),
        False,
    ),
    Method("BlockBasis + diag", lambda m, c, n: gm.BlockBasis(rank=round(m) - 1, diagonal=True), False),
)
#: Of Figure 1c alone.
BKA = Method("BKA", lambda m, c, n: gm.BlockDiagonal(n_blocks=max(1, round(n / m))))


@dataclass(frozen=True)
class Found:
    error: float
    seconds: float
    memory: float  #: numbers stored, for each row


def measure(
    method: Method, X: np.ndarray, gamma: float, memory: float, n_blocks: int, *, error_rows: int, seed: int
) -> Found:
    a = method.make(memory, n_blocks, len(X))
    a.set_params(gamma=gamma, tile_dtype="float32", random_state=seed)
    a.set_params(memory_budget="8GB")  # what the recompressed core of covtype takes
    start = time.perf_counter()
    a.fit(X)
    took = time.perf_counter() - start
    error = a.relative_error(X, n_rows=error_rows, random_state=1000 + seed)
    return Found(float(error), took, numbers(a) / len(X))


def numbers(a: Approximation) -> int:
    """Numbers stored: bases and, where there is one, the core."""
    stored = isinstance(a.operator_, DiagonalPlus)
    operator = a.operator_.operator if stored else a.operator_
    bases = sum(block.size for level in operator.levels for block in level.blocks)
    core = a.rank_**2 if a.features_.core is not None else 0
    return bases + core + (len(a.operator_.added) if stored else 0)
