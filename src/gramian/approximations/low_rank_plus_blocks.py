"""Low rank plus diagonal blocks as a transformer."""

from __future__ import annotations

from typing import Any

from gramian.approximations.approximation import Approximation, given_or_one_of, one_of
from gramian.approximations.low_rank_plus_blocks_builder import LowRankPlusBlocksBuilder
from gramian.estimator.base import whole_number
from gramian.landmarks.partition import METHODS as PARTITIONS
from gramian.landmarks.rules import METHODS as LANDMARKS


class LowRankPlusBlocks(Approximation):
    r"""Nyström plus the exact diagonal blocks of what it leaves over: K̃ = F Fᵀ + blockdiag(K − F Fᵀ).

    The partially independent training conditional (PITC) of Gaussian processes; features of new rows are
    those of PIC. K̃ equals K within blocks. :class:`MultiResolution` has the same form with blocks of low
    rank, a fraction of the bytes.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params : as for :class:`MEKA`.
    root_rank : int
        Rank (and landmarks) of F.
    n_blocks : int, optional
        None makes blocks of about 200 rows.
    landmarks : str or array (m, d)
        Landmarks of F: a rule by name (:func:`gramian.landmarks.rules.select_landmarks`), or points.
    partition : {"tree", "kmeans", "minibatch", "kcenters", "kernel"}
    memory_budget, tile_dtype, random_state, n_jobs : as for :class:`MEKA`.

    Attributes
    ----------
    As of :class:`MEKA`; ``features_.notes`` says what trace of the residual blocks whitening cut off:
    rounding, negative directions among it.

    Raises ``InputError`` for unusable input and ``BudgetError`` where n·(root_rank + rows of a block) numbers
    exceed the budget: more blocks take less.

    Time O(n (m₀ + m) (d + m₀ + m)) for m₀ landmarks and m rows a block, memory n·(root_rank + m) numbers.

    Source: Quiñonero-Candela and Rasmussen 2005; Snelson and Ghahramani 2007.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((600, 2))
    >>> a = gm.LowRankPlusBlocks(gamma=20.0, root_rank=40, random_state=0).fit(X)
    >>> bool(a.relative_error(X) < 0.05), bool(a.block_errors(X).max() < 1e-6)
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
        root_rank: int = 500,
        n_blocks: int | None = None,
        landmarks: Any = "kmeans",
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
        self.root_rank = root_rank
        self.n_blocks = n_blocks
        self.landmarks = landmarks
        self.partition = partition
        self.memory_budget = memory_budget
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _builder(self) -> LowRankPlusBlocksBuilder:
        one_of("partition", self.partition, PARTITIONS)
        given_or_one_of("landmarks", self.landmarks, LANDMARKS)
        return LowRankPlusBlocksBuilder(
            root_rank=whole_number("root_rank", self.root_rank, 1),
            n_blocks=None if self.n_blocks is None else whole_number("n_blocks", self.n_blocks, 1),
            landmarks=self.landmarks,
            partition=self.partition,
        )
