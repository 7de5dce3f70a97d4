"""Multi-resolution approximation as a transformer."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from gramian._typing import Array
from gramian.approximations.approximation import Approximation, at_least_one, given_or_one_of, one_of
from gramian.approximations.multiresolution_builder import MultiResolutionBuilder
from gramian.compression.storage import sparse_features
from gramian.data.source import RowSource
from gramian.estimator.base import whole_number
from gramian.landmarks.partition import METHODS as PARTITIONS
from gramian.landmarks.rules import METHODS as LANDMARKS


class MultiResolution(Approximation):
    r"""A global Nyström basis plus, in each block, a Nyström basis of the kernel that it leaves over.

    φ₀(x) = V₀ᵀ k(Z₀, x) and w_s(x) = V_sᵀ (k(Z_s, x) − φ₀(Z_s) φ₀(x)): positive semi-definite for any data,
    exact as the ranks grow, of total rank root_rank + n_blocks·rank at the per-row cost of root_rank + rank.

    Parameters
    ----------
    root_rank, rank, n_blocks : int
        Rank of the global basis, bound on each block's, number of leaf blocks.
    n_levels : int
        2 is root and blocks, 1 the root alone (Nyström), more a tree of nested blocks.
    oversampling : float
        Landmarks per rank in a block.
    sparse_output : bool
        ``transform`` gives a CSR matrix (a row has features on its own path only), or a dense array.
    Other parameters and attributes as for :class:`MEKA`; an array of ``landmarks`` serves the root.

    Source: Snelson and Ghahramani 2007 (PIC); Katzfuss 2017 (multi-resolution approximation).

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((500, 3))
    >>> a = gm.MultiResolution(gamma=20.0, root_rank=50, rank=20, n_blocks=8, random_state=0).fit(X)
    >>> a.rank_, a.transform(X[:2]).shape, bool(a.relative_error(X) < 0.2)
    (210, (2, 210), True)
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
        rank: int = 100,
        n_blocks: int = 50,
        n_levels: int = 2,
        oversampling: float = 1.5,
        landmarks: Any = "kmeans",
        partition: str = "kmeans",
        sparse_output: bool = True,
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
        self.rank = rank
        self.n_blocks = n_blocks
        self.n_levels = n_levels
        self.oversampling = oversampling
        self.landmarks = landmarks
        self.partition = partition
        self.sparse_output = sparse_output
        self.memory_budget = memory_budget
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _builder(self) -> MultiResolutionBuilder:
        levels = whole_number("n_levels", self.n_levels, 1)
        one_of("partition", self.partition, PARTITIONS)
        given_or_one_of("landmarks", self.landmarks, LANDMARKS)
        return MultiResolutionBuilder(
            root_rank=whole_number("root_rank", self.root_rank, 1),
            rank=whole_number("rank", self.rank, 1) if levels > 1 else 0,
            n_blocks=whole_number("n_blocks", self.n_blocks, 1) if levels > 1 else 1,
            n_levels=levels,
            oversampling=at_least_one("oversampling", self.oversampling),
            landmarks=self.landmarks,
            partition=self.partition,
        )

    def _features(self, source: RowSource) -> Array | sp.csr_array:
        if not self.sparse_output:
            return super()._features(source)
        return sparse_features(
            self._on(self.features_, source), source, chunk_rows=self.plan_.chunk_rows, engine=self._engine()
        )
