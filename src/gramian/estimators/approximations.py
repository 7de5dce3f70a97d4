"""MEKA and MultiResolution as transformers: the compressed matrix, and features for any pipeline."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gramian._budget import parse_bytes
from gramian._random import as_generator
from gramian._typing import Array
from gramian.approximation.builder import Builder
from gramian.approximation.features import FeatureMap
from gramian.approximation.meka import MEKABuilder
from gramian.approximation.multiresolution import MultiResolutionBuilder
from gramian.approximation.plan import Plan, make_plan
from gramian.approximation.quality import ErrorEstimate, relative_error
from gramian.approximation.storage import dense_features, sparse_features, stored_operator
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.estimators.base import KernelEstimator, positive_number, whole_number
from gramian.exceptions import InputError, did_you_mean
from gramian.landmarks import METHODS as LANDMARKS
from gramian.operators.block import BlockOperator
from gramian.partition import METHODS as PARTITIONS


class Approximation(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    """Base of the approximations: ``fit`` builds the bases, the core and the operator."""

    memory_budget: Any
    random_state: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.tile_dtype != "float64":
            # Features come in the tiles' type: float32 where asked for, and from 3,000 rows on.
            tags.transformer_tags.preserves_dtype = []
        return tags

    @abstractmethod
    def _builder(self) -> Builder:
        """Return the builder with this estimator's sizes, all checked."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compress the Gram matrix of the rows of X. ``y`` is ignored.

        Time and memory as :meth:`plan` says; the operator's bases take n·rank numbers beside them.
        """
        with self._all_or_nothing():
            source = self._rows(X, reset=True)
            rng = as_generator(self.random_state)
            plan, kernel, engine = self._planned(source)
            began = time.perf_counter()
            self.features_: FeatureMap = plan.builder.build(
                source,
                kernel,
                dtype=np.dtype(plan.dtype),
                rng=rng,
                engine=engine,
                sample_size=plan.sample_rows,
            )
            self.kernel_ = kernel
            built = time.perf_counter()
            self.operator_: BlockOperator = stored_operator(
                self.features_, source, chunk_rows=plan.chunk_rows, engine=engine
            )
            stored = time.perf_counter()
            sizes = {"bases": self.features_.nbytes, "operator": self.operator_.nbytes}
            self.plan_ = plan.used(sizes, {"bases": built - began, "operator": stored - built})
            self.rank_ = self.features_.rank
            self._n_features_out = self.rank_
        return self

    @property
    def nbytes_(self) -> int:
        """Bytes of the compressed matrix: bases of the training rows and core."""
        check_is_fitted(self, "operator_")
        return self.operator_.nbytes

    def plan(self, X: Any) -> Plan:
        """Predict rank, blocks, bytes and seconds per phase of a fit to X, without fitting."""
        with self._all_or_nothing(keep=False):
            return self._planned(self._rows(X, reset=True))[0]

    def _planned(self, source: RowSource) -> tuple[Plan, Any, Any]:
        builder, engine = self._builder(), self._engine()
        kernel = self._resolved_kernel(source.shape[1])
        work = self._workload(source, 1)
        plan = make_plan(
            builder,
            work,
            dtype=self._tiles(source, kernel, None),
            n_threads=engine.n_threads,
            memory_budget=parse_bytes(self.memory_budget),
            training=False,
        )
        return plan, kernel, Engine(plan.n_threads)

    def transform(self, X: Any) -> Any:
        """Return features F of shape (n, rank_) with F Fᵀ ≈ k(X, X). Time O(n m (d + r))."""
        check_is_fitted(self, "features_")
        source = self._rows(X, reset=False)
        return self._features(source)

    def _features(self, source: RowSource) -> Any:
        return dense_features(self.features_, source, chunk_rows=self.plan_.chunk_rows, engine=self._engine())

    def relative_error(self, X: Any, *, n_rows: int = 2000, random_state: Any = None) -> ErrorEstimate:
        """Estimate ‖K − K̃‖_F/‖K‖_F over the rows of X from ``n_rows`` of them, drawn anew.

        Returns a float with ``standard_error``. Time O(n_rows · n · (d + r)); K is never stored.
        """
        check_is_fitted(self, "features_")
        source = self._rows(X, reset=False)
        return relative_error(
            self.features_,
            source,
            n_rows=whole_number("n_rows", n_rows, 1),
            rng=as_generator(random_state),
            engine=self._engine(),
            chunk_rows=self.plan_.chunk_rows,
        )

    def block_errors(self, X: Any, *, n_rows: int = 500) -> Array:
        """Return ‖K_ss − K̃_ss‖_F/‖K_ss‖_F of each diagonal block, shape (blocks,), for the training rows X.

        Blocks of more than ``n_rows`` rows are judged on that many. Time O(blocks · n_rows² · (d + r)).
        """
        check_is_fitted(self, "operator_")
        source = self._rows(X, reset=False)
        if source.shape[0] != self.operator_.shape[0]:
            raise InputError(
                f"X has {source.shape[0]} rows, but {type(self).__name__} was fitted with "
                f"{self.operator_.shape[0]}. Pass the training rows; for others use relative_error."
            )

        def exact(rows: Array, cols: Array) -> Array:
            return self.kernel_(source.take(rows), source.take(cols), dtype=np.float64)

        return self.operator_.block_errors(exact, n_rows=whole_number("n_rows", n_rows, 1))


class MEKA(Approximation):
    r"""Memory-efficient kernel approximation: K̃ = W C Wᵀ with a block-diagonal basis W.

    In block s with landmarks Z_s and V_s whitening K(Z_s, Z_s), w_s(x) = V_sᵀ k(Z_s, x); the core couples
    the blocks. It needs n·rank + (rank·n_blocks)² numbers for the n × n matrix.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="rbf"
        scikit-learn's name with ``gamma``, ``degree``, ``coef0``; a kernel of gramian's; or f(X, Z) → (n, m).
    rank, n_blocks : int
        Rank of each block's basis (k in the paper), and number of k-means blocks (c).
    core : {"projection", "sampled"}
        C_st = V_sᵀ K(Z_s, Z_t) V_t, positive semi-definite for any data; or the paper's least squares on
        ``(1 + core_oversampling) · rank`` sampled rows of each pair of blocks, regularised.
    oversampling : float
        Landmarks per rank in a block.
    epsilon : float
        Core blocks with k(m_s, m_t) ≤ epsilon (m: block means) are dropped; 0 keeps all.
    rank_rule : {"equal", "singular"}
        The same rank in each block, or the rank·n_blocks largest eigenvalues over all blocks.
    landmarks : {"kmeans", "uniform"}, array (m, d), or list with one array for each block
    partition : {"kmeans", "minibatch", "kcenters", "tree"}
    memory_budget : int or str
        Bound on working memory while the bases and the core are built.
    tile_dtype : {"auto", "float32", "float64"}
        Precision of kernel tiles; "auto" takes float64 up to 3,000 rows, else float32.
    random_state, n_jobs
        As in scikit-learn; ``n_jobs=None`` uses all cores. Results do not depend on ``n_jobs``.

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
        oversampling: float = 3.0,
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
        one_of("core", self.core, ("projection", "sampled"))
        one_of("rank_rule", self.rank_rule, ("equal", "singular"))
        one_of("partition", self.partition, PARTITIONS)
        given_or_one_of("landmarks", self.landmarks, LANDMARKS)
        return MEKABuilder(
            rank=whole_number("rank", self.rank, 1),
            n_blocks=whole_number("n_blocks", self.n_blocks, 1),
            core=self.core,
            oversampling=at_least_one("oversampling", self.oversampling),
            core_oversampling=positive_number("core_oversampling", self.core_oversampling),
            epsilon=not_negative("epsilon", self.epsilon),
            rank_rule=self.rank_rule,
            landmarks=self.landmarks,
            partition=self.partition,
        )


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
            self.features_, source, chunk_rows=self.plan_.chunk_rows, engine=self._engine()
        )


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise, with the nearest choice, for a value that is not among the choices."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(
            f"{name}={value!r} is unknown. Choose one of {', '.join(choices)}." + did_you_mean(value, choices)
        )


def given_or_one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise for a name that is not among the choices, or a value that cannot be points."""
    if isinstance(value, str):
        one_of(name, value, choices)
    elif not isinstance(value, np.ndarray | list | tuple):
        raise InputError(
            f"{name}={value!r} has type {type(value).__name__}. Choose one of {', '.join(choices)}, or give "
            "an array of points."
        )


def at_least_one(name: str, value: Any) -> float:
    """Return a number of at least 1."""
    number = positive_number(name, value)
    if number < 1.0:
        raise InputError(f"{name}={value!r} must be at least 1: a basis needs a landmark per rank.")
    return number


def not_negative(name: str, value: Any) -> float:
    """Return a finite number of at least 0."""
    return 0.0 if value == 0 and not isinstance(value, bool) else positive_number(name, value)
