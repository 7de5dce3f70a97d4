"""MEKA as a transformer."""

from __future__ import annotations

from typing import Any

from gramian.approximations.approximation import (
    Approximation,
    at_least_one,
    given_or_one_of,
    not_negative,
    one_of,
)
from gramian.approximations.meka_builder import MEKABuilder
from gramian.estimator.base import positive_number, whole_number
from gramian.landmarks.partition import METHODS as PARTITIONS
from gramian.landmarks.rules import METHODS as LANDMARKS


class MEKA(Approximation):
    r"""Memory-efficient kernel approximation: K̃ = W C Wᵀ with a block-diagonal basis W.

    In block s with landmarks Z_s and V_s whitening K(Z_s, Z_s), w_s(x) = V_sᵀ k(Z_s, x); the core couples
    the blocks. It needs n·rank + (rank·n_blocks)² numbers for the n × n matrix.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="rbf"
        scikit-learn's name with ``gamma``, ``degree``, ``coef0``; a kernel of gramian's; or f(X, Z) → (n, m).
        With "precomputed" X is K(X, X), an array, memmap or CSR matrix that is read by the blocks that are
        needed, and for new rows K(X_new, X). Such a kernel has no points: landmarks are picked ("rpcholesky",
        "uniform"; given ones are row numbers, shape (m, 1)), and blocks want ``partition="kernel"``.
    gamma : float, optional
        Of a kernel given by its name, as in scikit-learn; None is 1/n_features.
    degree : int
        Of "poly".
    coef0 : float
        Of "poly", at least 0.
    kernel_params : dict, optional
        Arguments of a callable kernel; p and q of "powered_exponential".
    rank, n_blocks : int
        Rank of each block's basis (k in the paper), and number of k-means blocks (c).
    core : {"projection", "sampled", "recompressed"}
        C_st = V_sᵀ K(Z_s, Z_t) V_t, positive semi-definite for any data; or the paper's least squares on
        ``(1 + core_oversampling) · rank`` sampled rows of each pair of blocks, regularised; or the projection
        core on all landmarks, recompressed to the numbers that ``rank`` and ``n_blocks`` stand for, as
        :class:`BlockBasis` does it: the most accurate, at 2 to 12 times the time.
    core_oversampling : float
        Of "sampled": rows a rank for each pair of blocks, beyond the first.
    oversampling : float, optional
        Landmarks per rank in a block; None is 3, and 6 for the recompressed core.
    epsilon : float
        Core blocks with k(m_s, m_t) ≤ epsilon (m: block means) are dropped; 0 keeps all.
    rank_rule : {"equal", "singular"}
        The same rank in each block, or the rank·n_blocks largest eigenvalues over all blocks.
    landmarks : str, array (m, d), or list with one array for each block
        A rule by name (:func:`gramian.landmarks.rules.select_landmarks`), or points.
    partition : {"kmeans", "minibatch", "kcenters", "tree", "kernel"}
        How rows are clustered (:func:`gramian.landmarks.partition.fit_partition`).
    memory_budget : int or str
        Bound on working memory while the bases and the core are built.
    tile_dtype : {"auto", "float32", "float64"}
        Precision of kernel tiles; "auto" takes float64 up to 3,000 rows, else float32.
    random_state : int, Generator or RandomState, optional
        Seed of all random choices, as in scikit-learn.
    n_jobs : int, optional
        Threads; None uses all cores, -1 too. Results do not depend on it.

    Attributes
    ----------
    operator_ : BlockOperator
        K̃ on the training rows: ``shape, @, diagonal(), trace(), solve, logdet, eigvalsh, to_dense``.
    nbytes_, rank_, plan_, kernel_ : the compressed size, total rank, plan and kernel.

    Raises ``InputError`` (a ``ValueError``) for unusable input and ``BudgetError`` for a budget that is
    too small. Fails to be accurate where the blocks' spectra are flat: look at ``relative_error``.

    Source: Si, Hsieh and Dhillon, "Memory Efficient Kernel Approximation", Algorithm 1; the projection core
    is gramian's.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((500, 3))
    >>> a = gm.MEKA(gamma=2.0, rank=40, n_blocks=4, random_state=0).fit(X)
    >>> a.operator_.shape, a.transform(X[:5]).shape, bool(a.relative_error(X) < 0.01)
    ((500, 500), (5, 160), True)
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        rank: int = 128,
        n_blocks: int = 10,
        core: str = "projection",
        oversampling: float | None = None,
        core_oversampling: float = 2.0,
        epsilon: float = 0.0,
        rank_rule: str = "equal",
        landmarks: Any = "kmeans",
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
        self.core = core
        self.oversampling = oversampling
        self.core_oversampling = core_oversampling
        self.epsilon = epsilon
        self.rank_rule = rank_rule
        self.landmarks = landmarks
        self.partition = partition
        self.memory_budget = memory_budget
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _builder(self) -> MEKABuilder:
        one_of("core", self.core, ("projection", "sampled", "recompressed"))
        one_of("rank_rule", self.rank_rule, ("equal", "singular"))
        one_of("partition", self.partition, PARTITIONS)
        given_or_one_of("landmarks", self.landmarks, LANDMARKS)
        return MEKABuilder(
            rank=whole_number("rank", self.rank, 1),
            n_blocks=whole_number("n_blocks", self.n_blocks, 1),
            core=self.core,
            oversampling=self._oversampling(),
            core_oversampling=positive_number("core_oversampling", self.core_oversampling),
            epsilon=not_negative("epsilon", self.epsilon),
            rank_rule=self.rank_rule,
            landmarks=self.landmarks,
            partition=self.partition,
        )

    def _oversampling(self) -> float:
        if self.oversampling is None:
            return 6.0 if self.core == "recompressed" else 3.0
        return at_least_one("oversampling", self.oversampling)
