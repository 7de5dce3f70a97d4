"""Clustered low rank as a transformer, and of given matrices."""

from __future__ import annotations

from typing import Any

from gramian._random import as_generator
from gramian.approximations.approximation import Approximation, one_of
from gramian.approximations.clustered_low_rank_builder import ClusteredLowRankBuilder, clustered_low_rank
from gramian.estimator.base import whole_number
from gramian.landmarks.partition import METHODS as PARTITIONS
from gramian.operators import BlockOperator


class ClusteredLowRank(Approximation):
    r"""Eigenvectors of the diagonal blocks, coupled by their exact products with K: K̃ = U (UᵀKU) Uᵀ.

    The parent of MEKA, quadratic in the rows; :meth:`of_matrix` compresses a given symmetric matrix, such as
    the adjacency matrix of a graph.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params : as for :class:`MEKA`.
    rank, n_blocks : int
        Eigenvectors of each block; blocks.
    partition : {"kmeans", "minibatch", "kcenters", "tree", "kernel"}
    memory_budget, tile_dtype, random_state, n_jobs : as for :class:`MEKA`.

    Attributes: as of :class:`MEKA`.

    Raises ``InputError`` for unusable input and ``BudgetError`` for a budget that is too small.

    Time O(n² (d + rank) + Σ n_s³), memory O(n (d + rank) + max n_s² + (rank·n_blocks)²).

    Source: Savas and Dhillon, "Clustered low rank approximation of graphs in information science
    applications", 2011.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> a = gm.ClusteredLowRank(gamma=5.0, rank=15, n_blocks=4, random_state=0).fit(X)
    >>> bool(a.relative_error(X) < 0.01)
    True
    >>> A = np.kron(np.eye(3), np.ones((20, 20)))
    >>> gm.ClusteredLowRank.of_matrix(A, 1, n_blocks=3, random_state=0).shape
    (60, 60)
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        rank: int = 50,
        n_blocks: int = 10,
        partition: str = "kmeans",
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
        self.partition = partition
        self.memory_budget = memory_budget
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    @staticmethod
    def of_matrix(
        matrix: Any, rank: int, *, n_blocks: int = 10, labels: Any = None, random_state: Any = None
    ) -> BlockOperator:
        """Compress a symmetric matrix, dense or sparse: see :func:`.clustered_low_rank`."""
        return clustered_low_rank(
            matrix,
            whole_number("rank", rank, 1),
            n_blocks=whole_number("n_blocks", n_blocks, 1),
            labels=labels,
            rng=as_generator(random_state),
        )

    def _builder(self) -> ClusteredLowRankBuilder:
        one_of("partition", self.partition, PARTITIONS)
        return ClusteredLowRankBuilder(
            rank=whole_number("rank", self.rank, 1),
            n_blocks=whole_number("n_blocks", self.n_blocks, 1),
            partition=self.partition,
        )
