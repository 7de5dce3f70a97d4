"""Multi-resolution approximation as a transformer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from gramian._checks import whole_number
from gramian._random import children
from gramian._typing import Array, IntArray, Rows
from gramian.approximations.approximation import Approximation, approximation
from gramian.compression.basis import Basis
from gramian.compression.builder import Bounds, Builder, BuildSettings, block_members
from gramian.compression.features import FeatureMap, forest_of
from gramian.compression.storage import sparse_features
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.kernels.precomputed import bound
from gramian.landmarks.partition import Partition
from gramian.landmarks.rules import Landmarks, select_landmarks


@dataclass(frozen=True)
class MultiResolutionBuilder(Builder):
    r"""φ₀(x) = V₀ᵀ k(Z₀, x) on all rows and, level by level, w_b(x) = V_bᵀ(k(Z_b, x) − f(Z_b) f(x)).

    V_b whitens the residual Gram matrix k(Z, Z) − f(Z) f(Z)ᵀ, where f are the features of the ancestors, in
    float64 with a relative cutoff: 1e-6 at the root and 1e-4 below it, above the noise of float32 tiles. K̃
    is positive semi-definite for any data, and exact as the ranks grow.

    Time O(r₀³ + Σ (m_s³ + m_s r_s R_path)), memory O(Σ (m_s d + m_s r_s + r_s R_path)).
    """

    method: ClassVar[str] = "multiresolution"
    stored_sample: ClassVar[bool] = True
    root_rank: int = 500
    rank: int = 100
    n_blocks: int = 50
    n_levels: int = 2
    oversampling: float = 1.5
    landmarks: Landmarks = "kmeans"
    partition: str = "kmeans"

    @classmethod
    def root_only(cls, rank: int) -> Self:
        """Return the builder of a root without blocks; with all rows as landmarks it gives K itself."""
        return cls(root_rank=rank, rank=0, n_blocks=1, n_levels=1)

    @property
    def bounds(self) -> Bounds:
        points = self.root_rank if isinstance(self.landmarks, str) else len(self.landmarks)
        if self.n_levels == 1:
            return Bounds(points, points)
        landmarks = max(1, round(self.oversampling * self.rank))
        return Bounds(points, points, self.n_blocks, self.n_levels - 1, landmarks, self.rank)

    def assemble(self, sample: Rows, partition: Partition, settings: BuildSettings) -> FeatureMap:
        """Choose landmarks level by level and whiten the residual kernel on them."""
        kernel, dtype, rng = settings.kernel, settings.dtype, settings.rng
        labels = partition.route(sample, settings.engine)
        points = select_landmarks(
            sample,
            self.bounds.root_landmarks,
            self.landmarks,
            rng,
            settings.engine,
            kernel=kernel,
            dtype=dtype,
        )
        root = settings.basis(settings.floats(points), self.root_rank)
        bases: list[list[Basis]] = [[root]]
        paths: list[tuple[Basis, ...]] = [(root,)] * partition.n_blocks
        levels = [*partition.ancestors, np.arange(partition.n_blocks)] if self.n_levels > 1 else []
        for level in levels:
            first_leaf = np.unique(level, return_index=True)[1]
            tasks = zip(
                block_members(level[labels], len(first_leaf)),
                children(rng, len(first_leaf)),
                [paths[leaf] for leaf in first_leaf],
                strict=True,
            )

            def build(task: tuple[IntArray, np.random.Generator, tuple[Basis, ...]]) -> Basis:
                members, stream, above = task
                return self.block_basis(sample[members], replace(settings, rng=stream), *above)

            made = settings.engine.map(build, tasks)
            bases.append(made)
            paths = [(*path, made[node]) for path, node in zip(paths, level, strict=True)]
        ranks = [[b.rank for b in level] for level in bases]
        forest = forest_of(partition, ranks, root=True, blocks=self.n_levels > 1)
        nodes = tuple(b for level in bases for b in level)
        return FeatureMap(kernel, partition, forest, nodes, None, dtype)

    def block_basis(self, rows: Rows, settings: BuildSettings, *above: Basis) -> Basis:
        """Choose a block's landmarks among its rows and whiten the residual kernel on them."""
        kernel, dtype = settings.kernel, settings.dtype
        # Given points are for the root; a block chooses landmarks from its own rows.
        rule = self.landmarks if isinstance(self.landmarks, str) else "kmeans"
        local = select_landmarks(rows, self.bounds.landmarks, rule, settings.rng, kernel=kernel, dtype=dtype)
        return settings.basis(settings.floats(local), self.rank, *above)


@approximation
class MultiResolution(Approximation):
    r"""A global Nyström basis plus, in each block, a Nyström basis of the residual kernel.

    φ₀(x) = V₀ᵀ k(Z₀, x) for global landmarks Z₀, and w_s(x) = V_sᵀ (k(Z_s, x) − φ₀(Z_s) φ₀(x)) for landmarks
    Z_s of block s, with whitening V₀ and V_s. K̃ is positive semi-definite for any data and exact as the ranks
    grow. Its total rank is root_rank + n_blocks·rank, at a cost per row of only root_rank + rank.

    Parameters
    ----------
    root_rank, rank, n_blocks : int
        Rank of the global basis, upper bound on each block's rank, number of leaf blocks.
    n_levels : int
        2 is a root and blocks, 1 the root alone (Nyström), more than 2 a tree of nested blocks.
    oversampling : float
        Landmarks per rank in a block.
    sparse_output : bool
        ``transform`` returns a CSR matrix (a row has features only on its own path) or a dense array.
    Other parameters and attributes as for :class:`MEKA`; an array of ``landmarks`` is used for the root.

    Source: Snelson and Ghahramani 2007 (PIC); Katzfuss 2017 (multi-resolution approximation).

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((500, 3))
    >>> a = gm.MultiResolution(gamma=20.0, root_rank=50, rank=20, n_blocks=8, random_state=0).fit(X)
    >>> a.rank_, a.transform(X[:2]).shape, bool(a.relative_error(X) < 0.2)
    (210, (2, 210), True)
    """

    builders = (MultiResolutionBuilder,)

    root_rank: int = 500
    rank: int = 100
    n_blocks: int = 50
    n_levels: int = 2
    oversampling: float = 1.5
    landmarks: Any = "kmeans"
    partition: str = "kmeans"
    sparse_output: bool = True

    def builder(self) -> MultiResolutionBuilder:
        if whole_number("n_levels", self.n_levels, 1) == 1:
            return self._sizes(MultiResolutionBuilder, rank=0, n_blocks=1)
        return self._sizes(MultiResolutionBuilder)

    def _features(self, source: RowSource) -> Array | sp.csr_array:
        if not self.sparse_output:
            return super()._features(source)
        return sparse_features(
            bound(self.features_, source),
            source,
            chunk_rows=self.plan_.chunk_rows,
            engine=Engine(self.n_jobs),
        )
