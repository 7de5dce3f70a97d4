"""Shared parts of the items of the block basis factorization paper: rows, K, the rule, methods at a size.

Kernels are exp(−‖x − y‖²/h²). Rows are standardised, but those of ctg have 23 features in [−1, 1]: the
squared radii of the classes are then those of the paper's Table 1, about 1.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse.linalg as spla
from suite.datasets import load_dataset

import gramian as gm
from gramian.approximations.block_basis_sampled import BlockRow, draw, sample_columns
from gramian.approximations.block_basis_search import BlockSearch, Spectra
from gramian.compression.builder import block_members
from gramian.compression.randomized_svd import randomized_eigh, randomized_svd
from gramian.compression.recompression import Size
from gramian.engine import Engine
from gramian.exceptions import NumericalError
from gramian.landmarks.partition import Partition
from papers.meka_methods import Sizes, clustered, even, meka, nystrom, unit_box

#: Columns of K that errors of large sets are measured on.
ERROR_COLUMNS, LARGE = 500, 3_000
#: The paper's algorithm as written with blocks and ranks by its rule as printed, and by the rule without the
#: factor (n_i/n)²; our factorization with the blocks of each, and with those of its own trials.
PRINTED, PLAIN = "BBF, printed rule", "BBF, plain rule"
OURS_PRINTED, OURS_PLAIN, OURS = "ours, printed rule", "ours, plain rule", "ours, own trials"
SAMPLED = "BBF with our least squares, plain rule"
LITERAL_MEKA, OUR_MEKA = "MEKA, literal", "MEKA, projection"
LOW_RANK = ("Nys", "kNys", "lsNys", "RKS")
BLOCKED = (PRINTED, PLAIN, SAMPLED, OURS_PRINTED, OURS_PLAIN, OURS)


@cache
def rows(name: str) -> np.ndarray:
    if name == "ctg":
        with np.load(Path(os.environ["GRAMIAN_DATA"]) / "ctg.npz") as file:
            return unit_box(file["X_raw23"].astype(np.float64), -1.0)
    return standardised(load_dataset(name).X)


def training_rows() -> np.ndarray:
    """Return the 7,494 training rows of pendigits, which the paper's Figure 9 has."""
    data = load_dataset("pendigits")
    return standardised(data.X[: data.n_train])


def standardised(X: np.ndarray) -> np.ndarray:
    X = np.asarray(X, np.float64)
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def some(X: np.ndarray, count: int) -> np.ndarray:
    """Return at most so many rows, drawn at random."""
    return X[np.sort(np.random.default_rng(0).permutation(len(X))[:count])]


def gaussian(inverse_square: float) -> gm.Gaussian:
    """Return the kernel of 1/h²."""
    return gm.Gaussian((0.5 / inverse_square) ** 0.5)


class Matrix:
    """K on all rows, and errors of approximations: on all columns, or on 500 of a large set."""

    def __init__(self, X: np.ndarray, kernel: gm.Kernel) -> None:
        n = len(X)
        self.X, self.kernel = X, kernel
        drawn = np.random.default_rng(0).permutation(n)
        self.columns = np.sort(drawn[:ERROR_COLUMNS]) if n > LARGE else np.arange(n)
        self.K = kernel(X, dtype=np.float64)
        self.some = self.K[:, self.columns]
        self.unit = np.zeros((n, len(self.columns)))
        self.unit[self.columns, np.arange(len(self.columns))] = 1.0

    def error(self, operator: Any) -> float:
        return float(np.linalg.norm(self.some - operator @ self.unit) / np.linalg.norm(self.some))

    def tails(self, ranks: Sequence[int]) -> list[float]:
        """Return the relative errors of the best low ranks."""
        values, _ = randomized_eigh(self.K, max(ranks), 3, 20, np.random.default_rng(0))
        total = float(np.square(self.K).sum())
        return [float(np.sqrt(max(total - np.square(values[:r]).sum(), 0.0) / total)) for r in ranks]


# ---- the rule --------------------------------------------------------------------------------------


class PlainSearch(BlockSearch):
    """The rule without its factor (n_i/n)²: each diagonal block to the relative error ε."""

    def spectra(self, n_blocks: int, tol: float = 0.0, numbers: float = np.inf) -> tuple[Partition, Spectra]:
        partition, found = super().spectra(n_blocks, tol, numbers)
        shares = found.counts / found.counts.sum()
        blocks = (replace(b, levels=b.levels * s) for b, s in zip(found.blocks, shares, strict=True))
        return partition, replace(found, blocks=tuple(blocks))


def search(X: np.ndarray, kernel: gm.Kernel, plain: bool) -> BlockSearch:
    kind = PlainSearch if plain else BlockSearch
    return kind(X, len(X), kernel, np.random.default_rng(0), Engine(None))


@dataclass(frozen=True)
class Blocks:
    """Rows of each block, and its rank."""

    members: list[np.ndarray]
    ranks: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, partition: Partition, ranks: np.ndarray) -> Blocks:
        return cls(block_members(partition.route(X), len(ranks)), np.asarray(ranks))

    @classmethod
    def by_rule(cls, X: np.ndarray, kernel: gm.Kernel, memory: float, plain: bool) -> Blocks:
        """Return the blocks and ranks of the least tolerance within so many numbers a row."""
        found = search(X, kernel, plain).for_size(Size(memory * len(X)))
        return cls.of(X, found.partition, found.ranks)


# ---- the algorithm as written ----------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """Ũ C̃ Ũᵀ."""

    members: list[np.ndarray]
    bases: list[np.ndarray]
    core: np.ndarray

    @property
    def numbers(self) -> int:
        return sum(U.size for U in self.bases) + self.core.size

    @property
    def operator_(self) -> Written:
        return self

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        inner = self.core @ np.concatenate(
            [U.T @ V[mine] for U, mine in zip(self.bases, self.members, strict=True)]
        )
        out, start = np.zeros_like(V), 0
        for U, mine in zip(self.bases, self.members, strict=True):
            out[mine] = U @ inner[start : start + U.shape[1]]
            start += U.shape[1]
        return out


def minres(operator: Any, y: np.ndarray, alpha: float) -> np.ndarray:
    """Solve (K̃ + alpha·I) a = y as the paper does, also where K̃ is indefinite."""
    n = len(y)
    system = spla.LinearOperator((n, n), lambda v: operator @ v.ravel() + alpha * v.ravel(), dtype=np.float64)
    return np.asarray(spla.minres(system, y, rtol=1e-10, maxiter=2000)[0])


def as_written(X: np.ndarray, kernel: gm.Kernel, blocks: Blocks, seed: int) -> Written:
    """Algorithm 5 with Algorithm 2: r_i pivots, pseudo-inverses, Γ_i and Γ_j of r_i and r_j rows, q = 2."""
    rng = np.random.default_rng(seed)
    bases, important = [], []
    for mine, rank in zip(blocks.members, blocks.ranks, strict=True):
        r = min(int(rank), len(mine))
        if not r:
            bases.append(np.zeros((len(mine), 0)))
            important.append(np.zeros(0, np.intp))
            continue
        found = sample_columns(BlockRow(kernel, X[mine], X), r, 2, rng)
        bases.append(randomized_svd(found.matrix, r, 2, 10, rng).left)
        important.append(found.rows)
    ends = np.cumsum([0, *(U.shape[1] for U in bases)])
    core = np.zeros((ends[-1], ends[-1]))
    for i, U in enumerate(bases):
        for j, V in enumerate(bases[: i + 1]):
            if not U.shape[1] or not V.shape[1]:
                continue
            left = np.union1d(important[i], draw(len(U), U.shape[1], rng))
            right = np.union1d(important[j], draw(len(V), V.shape[1], rng))
            entries = kernel(X[blocks.members[i][left]], X[blocks.members[j][right]], dtype=np.float64)
            C = np.linalg.pinv(U[left]) @ entries @ np.linalg.pinv(V[right]).T
            core[ends[i] : ends[i + 1], ends[j] : ends[j + 1]] = 0.5 * (C + C.T) if i == j else C
            core[ends[j] : ends[j + 1], ends[i] : ends[i + 1]] = core[
                ends[i] : ends[i + 1], ends[j] : ends[j + 1]
            ].T
    return Written(blocks.members, bases, core)


# ---- methods at a size -----------------------------------------------------------------------------


def bytes_of(n: int, memory: float) -> int:
    # The order of the rows is kept beside float64 numbers.
    return int(8 * n * memory) + 8 * n


class Methods:
    """Every method at so many numbers a row; MEKA has the blocks of the plain rule."""

    def __init__(self, X: np.ndarray, kernel: gm.Kernel, memory: float, n_blocks: int | None = None) -> None:
        """``n_blocks`` fixes the blocks of the plain rule, with equal ranks."""
        self.X, self.kernel, self.memory = X, kernel, memory
        self.printed = Blocks.by_rule(X, kernel, memory, plain=False)
        if n_blocks is None:
            self.plain = Blocks.by_rule(X, kernel, memory, plain=True)
        else:
            partition, _ = search(X, kernel, True).spectra(n_blocks, np.inf)
            rank = int(Size(memory * len(X)).equal_rank(len(X), n_blocks))
            self.plain = Blocks.of(X, partition, np.full(n_blocks, max(1, rank)))

    def fit(self, name: str, seed: int) -> tuple[Any, float] | None:
        """Return the fitted estimator and its seconds; None where a literal core is singular."""
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if name in (PRINTED, PLAIN):
                blocks = self.printed if name == PRINTED else self.plain
                a: Any = as_written(self.X, self.kernel, blocks, seed)
                return a, time.perf_counter() - start
            a = self._estimator(name, seed)
            a.set_params(kernel=self.kernel, tile_dtype="float64", memory_budget="8GB", random_state=seed)
            try:
                return a.fit(self.X), time.perf_counter() - start
            except NumericalError:
                return None

    def _estimator(self, name: str, seed: int) -> Any:
        size = {"max_bytes": bytes_of(len(self.X), self.memory)}
        plain, printed = len(self.plain.ranks), len(self.printed.ranks)
        s = Sizes(self.X, self.memory, plain, seed)
        made: dict[str, Callable[[], Any]] = {
            "Nys": lambda: nystrom()(s),
            "kNys": lambda: clustered(s),
            "lsNys": lambda: gm.Nystrom(
                rank=s.rank, landmarks="leverage", oversampling=2.0, recompress=False
            ),
            "RKS": lambda: gm.RandomFourier(rank=even(s.rank)),
            LITERAL_MEKA: lambda: meka("literal", "uniform", 2.0)(s),
            OUR_MEKA: lambda: meka("projection")(s),
            SAMPLED: lambda: gm.BlockBasis(core="sampled", n_blocks=plain, **size),
            OURS_PRINTED: lambda: gm.BlockBasis(n_blocks=printed, **size),
            OURS_PLAIN: lambda: gm.BlockBasis(n_blocks=plain, **size),
            OURS: lambda: gm.BlockBasis(**size),
        }
        return made[name]()

    def n_blocks(self, name: str, a: Any) -> int:
        if name in (PRINTED, PLAIN):
            return len(self.printed.ranks if name == PRINTED else self.plain.ranks)
        return int(a.operator_.n_blocks)


METHODS = (*LOW_RANK, LITERAL_MEKA, OUR_MEKA, *BLOCKED)
