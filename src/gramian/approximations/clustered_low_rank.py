"""Clustered low rank approximation, as a transformer and for given matrices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from gramian._checks import refuse_masked, whole_number
from gramian._numerics import unit_roundoff
from gramian._random import as_generator, children
from gramian._typing import Array, Float64Array, IntArray, RandomState, Rows
from gramian.approximations.approximation import Approximation, approximation
from gramian.approximations.block_diagonal import check_rows, expected_rows, left_out
from gramian.compression.basis import Basis
from gramian.compression.builder import Bounds, Builder, BuildSettings, block_members
from gramian.compression.cores import projection_core
from gramian.compression.features import FeatureMap
from gramian.data.source import RowSource
from gramian.exceptions import InputError
from gramian.landmarks.partition import Partition, fit_partition
from gramian.operators.block import BlockOperator
from gramian.solvers.core import CoupledCore


@dataclass(frozen=True)
class ClusteredLowRankBuilder(Builder):
    r"""K̃ = U (UᵀKU) Uᵀ with U_s the ``rank`` leading eigenvectors of K_ss.

    With all rows of a block as landmarks, w_s(x) = Λ_s^(−1/2) U_sᵀ k(X_s, x) for its eigenvalues Λ_s, and
    the projection core C_st = Λ_s^(−1/2) U_sᵀ K_st U_t Λ_t^(−1/2) is exact.

    Time O(n² (d + rank) + Σ n_s³), memory O(n (d + rank) + max n_s² + (n_blocks · rank)²): quadratic in n.
    """

    method: ClassVar[str] = "clusteredlowrank"
    coupled: ClassVar[bool] = True
    remedy: ClassVar[str] = "lower rank, or raise n_blocks"  # smaller blocks take fewer bytes
    rank: int = 50
    n_blocks: int = 10
    partition: str = "kmeans"
    block_rows: int | None = None

    def settle(self, source: RowSource, settings: BuildSettings) -> Self:
        """Return the builder with the number of rows per block filled in."""
        return replace(self, block_rows=expected_rows(source.shape[0], self.n_blocks, self.partition))

    @property
    def bounds(self) -> Bounds:
        rows = self.block_rows or self.rank  # all of them are landmarks
        return Bounds(n_blocks=self.n_blocks, landmarks=rows, rank=self.rank)

    def sample_size(self, n_rows: int) -> int:
        """Return the number of rows, because each row is a landmark of its block."""
        return n_rows

    def assemble(self, sample: Rows, partition: Partition, settings: BuildSettings) -> FeatureMap:
        """Compute eigenvectors of each diagonal block and couple them."""
        members = block_members(partition.route(sample, settings.engine), partition.n_blocks)

        check_rows(max((len(mine) for mine in members), default=0), self.bounds.landmarks)

        def build(mine: IntArray) -> Basis:
            return settings.basis(sample[mine], self.rank, coupled=True)

        bases, kernel = settings.engine.map(build, members), settings.kernel
        core = projection_core(kernel, bases, None, settings.engine)
        return FeatureMap.of_blocks(bases, core, partition, kernel, settings.dtype, left_out(bases))


@approximation
class ClusteredLowRank(Approximation):
    r"""Eigenvectors of the diagonal blocks, coupled by their exact products with K: K̃ = U (UᵀKU) Uᵀ.

    MEKA was derived from this method, which is quadratic in the rows. :meth:`of_matrix` compresses a given
    symmetric matrix, such as the adjacency matrix of a graph.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params : as for :class:`MEKA`.
    rank, n_blocks : int
        Number of eigenvectors of each block; number of blocks.
    partition : {"kmeans", "minibatch", "kcenters", "tree", "kernel"}
    memory_budget, tile_dtype, random_state, n_jobs, verbose : as for :class:`MEKA`.

    Attributes: as for :class:`MEKA`.

    Raises ``InputError`` for unusable input and ``BudgetError`` for a budget that is too small.

    Time O(n² (d + rank) + Σ n_s³), memory O(n (d + rank) + max n_s² + (rank·n_blocks)²).

    Source: Savas and Dhillon, "Clustered low rank approximation of graphs in information science
    applications", 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.approximations import ClusteredLowRank
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> a = ClusteredLowRank(gamma=5.0, rank=15, n_blocks=4, random_state=0).fit(X)
    >>> bool(a.relative_error(X) < 0.01)
    True
    >>> A = np.kron(np.eye(3), np.ones((20, 20)))
    >>> ClusteredLowRank.of_matrix(A, 1, n_blocks=3, random_state=0).shape
    (60, 60)
    """

    builders = (ClusteredLowRankBuilder,)

    rank: int = 50
    n_blocks: int = 10
    partition: str = "kmeans"

    @staticmethod
    def of_matrix(
        matrix: Any, rank: int, *, n_blocks: int = 10, labels: Any = None, random_state: RandomState = None
    ) -> BlockOperator:
        """Compress a symmetric matrix, dense or sparse: see :func:`.clustered_low_rank`."""
        return clustered_low_rank(
            matrix,
            whole_number("rank", rank, 1),
            n_blocks=whole_number("n_blocks", n_blocks, 1),
            labels=labels,
            rng=as_generator(random_state),
        )


def clustered_low_rank(
    matrix: Any, rank: int, *, n_blocks: int = 10, labels: Array | None = None, rng: np.random.Generator
) -> BlockOperator:
    r"""Return A ≈ U (UᵀAU) Uᵀ for a given symmetric matrix, such as the adjacency matrix of a graph.

    matrix : (n, n), an array or a sparse matrix, symmetric; it may be indefinite.
    rank : number of eigenvectors of each diagonal block, those with the largest magnitudes.
    labels : (n,), the block of each row; None clusters the rows by the leading eigenvectors of the normalised
        matrix D^(−1/2) |A| D^(−1/2) (Ng, Jordan and Weiss 2002).

    Time O(nnz(A) · R + Σ n_s³) with R = n_blocks · rank. For a sparse block, if less than half of its
    eigenvectors are wanted, Lanczos replaces the n_s³ term. Memory O(n rank + R²).
    """
    A = _symmetric(matrix)
    n = A.shape[0]
    refuse_masked("labels", labels)
    if labels is None:
        labels = _spectral_labels(A, n_blocks, rng)
    elif np.shape(labels) != (n,) or np.asarray(labels).dtype.kind not in "iu":
        raise InputError(
            f"labels has shape {np.shape(labels)} and dtype {np.asarray(labels).dtype}; expected the "
            f"block of each of {n} rows as a whole number. Pass shape ({n},)."
        )
    _, numbers = np.unique(labels, return_inverse=True)
    members = block_members(numbers, int(numbers.max()) + 1)
    bases = [
        _eigenvectors(A[mine][:, mine], rank, stream)
        for mine, stream in zip(members, children(rng, len(members)))
    ]
    ranks = [U.shape[1] for U in bases]
    offsets = np.concatenate([[0], np.cumsum(ranks)])
    core = np.zeros((offsets[-1], offsets[-1]))
    for s, mine in enumerate(members):
        half = bases[s].T @ A[mine] if not _is_sparse(A) else np.asarray((A[mine].T @ bases[s]).T)
        for t, theirs in enumerate(members):
            core[offsets[s] : offsets[s + 1], offsets[t] : offsets[t + 1]] = half[:, theirs] @ bases[t]
    return BlockOperator.from_parts(n, rows=members, W=bases, core=CoupledCore(0.5 * (core + core.T), ranks))


def _is_sparse(matrix: Any) -> bool:
    return bool(sp.issparse(matrix))


def _symmetric(matrix: Any) -> Any:
    A: Any = sp.csr_array(matrix, dtype=np.float64) if _is_sparse(matrix) else np.asarray(matrix)
    if A.ndim != 2 or A.shape[0] != A.shape[1] or A.dtype.kind not in "fiub" or not A.shape[0]:
        raise InputError(
            f"the matrix has shape {A.shape} and dtype {A.dtype}; expected a square one of real numbers. "
            "Pass shape (n, n)."
        )
    A = A.astype(np.float64)
    values = A.data if _is_sparse(A) else A
    if not np.isfinite(values).all():
        raise InputError("the matrix holds NaN or infinite entries. Remove or impute them.")
    scale, apart = float(np.abs(values).max(initial=0.0)), float(abs(A - A.T).max())
    if apart > 64 * unit_roundoff(np.float32) * scale:
        raise InputError(
            f"the matrix is not symmetric: entries (i, j) and (j, i) differ by up to {apart:.3g}, with "
            f"entries up to {scale:.3g}. Pass (A + A.T)/2 if that is meant."
        )
    return A


def _eigenvectors(block: Any, rank: int, rng: np.random.Generator) -> Float64Array:
    n = block.shape[0]
    rank = min(rank, n)
    if _is_sparse(block) and 2 * rank < n and block.count_nonzero():
        _, vectors = sla.eigsh(block, rank, which="LM", v0=rng.standard_normal(n))
        return np.asarray(vectors, np.float64)
    values, vectors = la.eigh(block.toarray() if _is_sparse(block) else block, check_finite=False)
    largest = np.sort(np.argsort(-np.abs(values), kind="stable")[:rank])
    return np.asarray(vectors[:, largest], np.float64)


def _spectral_labels(A: Any, n_blocks: int, rng: np.random.Generator) -> IntArray:
    n = A.shape[0]
    n_blocks = min(n_blocks, n)
    if n_blocks < 2:
        return np.zeros(n, np.intp)
    size = abs(A)
    degree = np.asarray(size.sum(axis=1), np.float64).ravel()
    scale = 1.0 / np.sqrt(np.where(degree > 0, degree, 1.0))
    normal = (
        sp.diags_array(scale) @ size @ sp.diags_array(scale)
        if _is_sparse(A)
        else scale[:, None] * size * scale
    )
    if 2 * n_blocks < n and degree.any():
        _, vectors = sla.eigsh(normal, n_blocks, which="LA", v0=rng.standard_normal(n))
    else:
        vectors = la.eigh(normal.toarray() if _is_sparse(normal) else normal)[1][:, -n_blocks:]
    lengths = np.sqrt(np.square(vectors).sum(axis=1))
    points = vectors / np.where(lengths > 0, lengths, 1.0)[:, None]
    return fit_partition(points, n_blocks, rng=rng).route(points)
