"""Block-diagonal approximation as a transformer."""

from __future__ import annotations

from typing import Any

from gramian.approximations.approximation import Approximation, at_least_one, one_of
from gramian.approximations.block_diagonal_builder import BlockDiagonalBuilder
from gramian.estimator.base import whole_number
from gramian.landmarks.partition import METHODS as PARTITIONS
from gramian.landmarks.rules import METHODS as LANDMARKS


class BlockDiagonal(Approximation):
    r"""The kernel within blocks, zero between them: K̃_ss = K_ss, or its Nyström approximation.

    Good where the kernel is narrow beside the blocks; BKA in the MEKA paper.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params : as for :class:`MEKA`.
    rank : int, optional
        Rank of a block; None keeps the blocks of K whole, n·(rows of a block) numbers.
    n_blocks : int
    oversampling : float
        Landmarks per rank, where there is one.
    landmarks : str
        Rule by name (:func:`gramian.landmarks.rules.select_landmarks`).
    partition : {"tree", "kmeans", "minibatch", "kcenters", "kernel"}
        The tree has even blocks, which whole blocks want.
    memory_budget, tile_dtype, random_state, n_jobs : as for :class:`MEKA`.

    Attributes
    ----------
    As of :class:`MEKA`; ``features_.notes`` says what trace the whitening of whole blocks cut off.

    Raises ``InputError`` for unusable input and ``BudgetError`` for a budget that is too small.

    Time O(n m (d + m)) for m landmarks or rows a block; memory n·m numbers for whole blocks.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((400, 2))
    >>> a = gm.BlockDiagonal(gamma=500.0, n_blocks=8, random_state=0).fit(X)
    >>> bool(a.relative_error(X) < 0.4), bool(a.block_errors(X).max() < 1e-6)
    (True, True)
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        rank: int | None = None,
        n_blocks: int = 50,
        oversampling: float = 1.5,
        landmarks: str = "kmeans",
        partition: str = "tree",
        memory_budget: int | str = "2GB",
        tile_dtype: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.rank = rank
        self.n_blocks = n_blocks
        self.oversampling = oversampling
        self.landmarks = landmarks
        self.partition = partition
        self.memory_budget = memory_budget
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _builder(self) -> BlockDiagonalBuilder:
        one_of("partition", self.partition, PARTITIONS)
        one_of("landmarks", self.landmarks, LANDMARKS)
        return BlockDiagonalBuilder(
            rank=None if self.rank is None else whole_number("rank", self.rank, 1),
            n_blocks=whole_number("n_blocks", self.n_blocks, 1),
            oversampling=at_least_one("oversampling", self.oversampling),
            landmarks=self.landmarks,
            partition=self.partition,
        )
