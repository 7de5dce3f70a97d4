"""Block basis factorization as a transformer."""

from __future__ import annotations

from typing import Any, ClassVar

from gramian._budget import parse_bytes
from gramian.approximation.block_basis import BlockBasisBuilder
from gramian.approximation.builder import Builder
from gramian.estimators.approximation import Approximation, at_least_one, given_or_one_of, one_of
from gramian.estimators.base import positive_number, whole_number
from gramian.exceptions import InputError
from gramian.landmarks import METHODS as LANDMARKS
from gramian.partition import METHODS as PARTITIONS


class BlockBasis(Approximation):
    r"""Block basis factorization: K̃ = U C Uᵀ, the most accurate matrix for its bytes.

    U is block-diagonal and orthonormal; the basis U_s of block s spans what its rows have with *all* rows,
    K_s,:, and C = UᵀKU couples the blocks, both by way of landmarks: time and memory are linear in n, K̃ is
    positive semi-definite for any data, and new points have features by the same formula. Ranks are shared
    out over the blocks by what each direction gains for its bytes.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="rbf"
        With ``gamma``, ``degree``, ``coef0``, ``kernel_params``, as for :class:`MEKA`.
    rank : int, optional
        Numbers a row: the factorization has n·rank numbers in all, or n·rank + (rank·n_blocks)² where
        ``n_blocks`` is given. 100 where nothing says how large it may be.
    n_blocks : int, optional
        Blocks; None takes the number with the least error at the size, by trials on 12,000 rows. Smooth
        kernels want one block, which is the best global low rank; the smaller the lengthscale, the more.
    tol : float, optional
        Relative Frobenius error to reach with as few bytes as possible.
    memory_budget : int or str, optional
        Bytes of the factorization (``nbytes_``), instead of ``rank``; a bound where ``tol`` is given.
    oversampling : float
        Landmarks per rank in a block, 4 to 8.
    diagonal : bool
        Store diag(K − K̃), clipped at 0, beside the factors: n float64 numbers, which a ``memory_budget``
        includes. Worth it at small bandwidths, where the diagonal of K dwarfs what lies off it. It is
        part of ``operator_`` and of the errors, not of the features.
    landmarks : str or array (m, d)
        Rule by name, see :func:`gramian.landmarks.select_landmarks`. With as many landmarks, pivots of a
        randomly pivoted Cholesky factorization came a tenth nearer to the ideal than k-means.
    partition : {"kmeans", "minibatch", "kcenters", "tree"}
    working_memory : int or str
        Bound on the memory that building takes.
    tile_dtype, random_state, n_jobs : as for :class:`MEKA`.

    Attributes
    ----------
    operator_, nbytes_, rank_, plan_, kernel_ : as of :class:`MEKA`. ``plan_.builder.trial_error`` is the
        relative error that the trials found, where there were any.

    Raises ``InputError`` for unusable input and ``BudgetError`` for a size that holds nothing, a tolerance
    that the budget cannot reach (with the best that fits), or a ``working_memory`` that is too small.

    Time O(n (m d + m²) + (n_blocks·m)² (d + r)) for m landmarks and rank r a block; memory of the build
    O(n_blocks·m² + R²) and of the result O(n r + R²).

    Source: Wang, Li, Mahoney and Darve, "Block Basis Factorization for Scalable Kernel Evaluation" for the
    structure; the bases and the core are gramian's: docs/how-it-works.md.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((1000, 4))
    >>> a = gm.BlockBasis(gamma=5.0, rank=50, random_state=0).fit(X)
    >>> a.operator_.shape, bool(a.relative_error(X) < 0.05)
    ((1000, 1000), True)
    """

    keeps: ClassVar[frozenset[str]] = frozenset({"memory_budget"})
    working_budget: ClassVar[str] = "working_memory"

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        rank: int | None = None,
        n_blocks: int | None = None,
        tol: float | None = None,
        memory_budget: int | str | None = None,
        oversampling: float = 6.0,
        landmarks: Any = "rpcholesky",
        partition: str = "kmeans",
        diagonal: bool = False,
        working_memory: int | str = "4GB",
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
        self.tol = tol
        self.memory_budget = memory_budget
        self.oversampling = oversampling
        self.landmarks = landmarks
        self.partition = partition
        self.diagonal = diagonal
        self.working_memory = working_memory
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _builder(self) -> Builder:
        one_of("partition", self.partition, PARTITIONS)
        given_or_one_of("landmarks", self.landmarks, LANDMARKS)
        sizes = {"rank": self.rank, "tol": self.tol, "memory_budget": self.memory_budget}
        given = [name for name, value in sizes.items() if value is not None]
        if self.rank is not None and len(given) > 1:
            raise InputError(
                f"rank={self.rank!r} and {given[1]}={sizes[given[1]]!r} both say how large the "
                "factorization is. Give one of them; tol and memory_budget go together."
            )
        return BlockBasisBuilder(
            rank=None if self.rank is None else whole_number("rank", self.rank, 1),
            n_blocks=None if self.n_blocks is None else whole_number("n_blocks", self.n_blocks, 1),
            tol=None if self.tol is None else positive_number("tol", self.tol),
            memory_budget=None if self.memory_budget is None else parse_bytes(self.memory_budget),
            oversampling=at_least_one("oversampling", self.oversampling),
            landmarks=self.landmarks,
            partition=self.partition,
            diagonal=bool(self.diagonal),
        )
