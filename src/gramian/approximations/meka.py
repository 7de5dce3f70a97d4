"""MEKA as a transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gramian._checks import one_of
from gramian._random import children
from gramian._typing import Array, Float64Array, IntArray, Rows
from gramian.approximations.approximation import Approximation, approximation
from gramian.compression.basis import Basis
from gramian.compression.builder import Bounds, Builder, BuildSettings, block_members
from gramian.compression.cores import projection_core, sampled_core
from gramian.compression.features import FeatureMap
from gramian.compression.recompression import (
    LEFT_OVER,
    LEFT_OVER_AFTER,
    Size,
    recompress_core,
    recompression_bytes,
)
from gramian.data.source import RowSource
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel
from gramian.kernels.precomputed import Precomputed
from gramian.landmarks.partition import Partition
from gramian.landmarks.rules import Landmarks, select_landmarks


@dataclass(frozen=True)
class MEKABuilder(Builder):
    r"""w_s(x) = V_sᵀ k(Z_s, x) in each block, coupled by C.

    The projection core replaces the kernel's feature φ(x) by its projection on the span of its block's
    landmarks. A core with dropped blocks (``epsilon``) need not be positive semi-definite. ``rank_rule``
    "singular" is the paper's section 4, rule (ii).

    Time O(c m³ + (c m)² d + (c m)² r), memory O(c m d + R²), R = c·rank.
    """

    method: ClassVar[str] = "meka"
    coupled: ClassVar[bool] = True
    rank: int = 128
    n_blocks: int = 10
    core: str = "projection"
    oversampling: float = 3.0
    core_oversampling: float = 2.0
    epsilon: float = 0.0
    rank_rule: str = "equal"
    landmarks: Landmarks | Sequence[Array] = "kmeans"
    partition: str = "kmeans"

    @property
    def bounds(self) -> Bounds:
        recompressed = self.core == "recompressed"
        if isinstance(self.landmarks, str):
            landmarks = max(1, round(self.oversampling * self.rank))
        elif isinstance(self.landmarks, np.ndarray):
            landmarks = max(1, -(-len(self.landmarks) // self.n_blocks))
        else:
            landmarks = max((len(points) for points in self.landmarks), default=1)
        return Bounds(
            n_blocks=self.n_blocks,
            landmarks=landmarks,
            rank=self.rank,  # before ranks are shared out
            passes=int(recompressed),
            definite=(recompressed or self.core == "projection") and not self.epsilon,
        )

    def assemble(self, sample: Rows, partition: Partition, settings: BuildSettings) -> FeatureMap:
        """Choose landmarks in each block, whiten the kernel on them and couple the blocks."""
        members = block_members(partition.route(sample, settings.engine), partition.n_blocks)
        streams = children(settings.rng, partition.n_blocks)
        rule = self.landmarks
        points = [] if isinstance(rule, str) else self._given(sample, partition)
        recompressed = self.core == "recompressed"
        whole = recompressed or self.rank_rule == "singular"
        cap = self.bounds.landmarks if whole else self.rank

        def build(s: int) -> Basis:
            if isinstance(rule, str):
                local = select_landmarks(
                    sample[members[s]],
                    self.bounds.landmarks,
                    rule,
                    streams[s],
                    kernel=settings.kernel,
                    tol=LEFT_OVER if recompressed else 0.0,
                    tol_after=LEFT_OVER_AFTER * self.rank,
                )
            else:
                local = points[s]
            # A recompressed core gets its eigenvectors from all rows later.
            return settings.basis(local, cap, coupled=True, spectral=not recompressed)

        bases = settings.engine.map(build, range(partition.n_blocks))
        if recompressed:  # finish computes its ranks and core from all rows
            return FeatureMap.of_blocks(bases, None, partition, settings.kernel, settings.dtype)
        if self.rank_rule == "singular":
            counts = np.asarray([len(m) for m in members], np.float64)
            bases = share_ranks(bases, counts, self.rank * partition.n_blocks)
        keep = self._kept_pairs(settings.kernel, sample, members) if self.epsilon > 0 else None
        if self.core == "projection":
            core = projection_core(settings.kernel, bases, keep, settings.engine)
        else:
            count = round((1.0 + self.core_oversampling) * self.rank)
            drawn = (
                np.sort(stream.choice(mine, min(count, len(mine)), replace=False))
                for stream, mine in zip(streams, members, strict=True)
            )
            rows = [sample[numbers] for numbers in drawn]
            regularised = self.core == "sampled"
            core = sampled_core(settings.kernel, bases, rows, keep, settings.engine, regularised=regularised)
        return FeatureMap.of_blocks(bases, core, partition, settings.kernel, settings.dtype)

    def finish(self, features: FeatureMap, source: RowSource, settings: BuildSettings) -> FeatureMap:
        """Recompress the core if it is a recompressed one; otherwise return the features unchanged."""
        if self.core != "recompressed":
            return features
        size = Size.of_equal_ranks(source.shape[0], self.rank, features.partition.n_blocks)
        return recompress_core(features, size, source, settings)

    def working_bytes(self, n_rows: int, n_features: int, itemsize: int) -> int:
        """Return the bytes of the recompression: ΦᵀΦ, its factors, and two more matrices a block."""
        if self.core != "recompressed":
            return 0
        return recompression_bytes(self.n_blocks, min(self.bounds.landmarks, n_rows))

    def _given(self, sample: Rows, partition: Partition) -> list[Array]:
        """Return the user's points per block: a list unchanged, one array split by routing its rows."""
        if isinstance(self.landmarks, np.ndarray):
            points = np.asarray(select_landmarks(sample, 0, self.landmarks, np.random.default_rng(0)))
            labels = partition.route(points)
            return [points[labels == s] for s in range(partition.n_blocks)]
        if len(self.landmarks) != partition.n_blocks:
            raise InputError(
                f"landmarks lists {len(self.landmarks)} arrays, but the partition has "
                f"{partition.n_blocks} blocks. Give one array for each block, or one array for all."
            )
        unused = np.random.default_rng(0)
        return [np.asarray(select_landmarks(sample, 0, p, unused)) for p in self.landmarks]

    def _kept_pairs(self, kernel: Kernel, sample: Rows, members: list[IntArray]) -> Array:
        if isinstance(kernel, Precomputed):
            raise InputError(
                f"epsilon={self.epsilon:g} compares means of blocks, which a precomputed kernel does not "
                "have. Take epsilon=0."
            )
        means = np.stack(
            [
                np.asarray(sample[m].mean(axis=0), np.float64).ravel()
                if len(m)
                else np.zeros(sample.shape[1])
                for m in members
            ]
        )
        keep = kernel(means, dtype=np.float64, n_jobs=1) > self.epsilon
        np.fill_diagonal(keep, True)
        return keep


@approximation
class MEKA(Approximation):
    r"""Memory-efficient kernel approximation: K̃ = W C Wᵀ with a block-diagonal basis W.

    Block s has landmarks Z_s and features w_s(x) = V_sᵀ k(Z_s, x), where V_s whitens K(Z_s, Z_s). The core C
    couples the blocks. This needs n·rank + (rank·n_blocks)² numbers for the n × n matrix.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="rbf"
        scikit-learn's name with ``gamma``, ``degree``, ``coef0``; a kernel of gramian's; or f(X, Z) → (n, m).
        With "precomputed" X is K(X, X), an array, memmap or CSR matrix of which only the needed blocks are
        read, and for new rows K(X_new, X). A precomputed kernel has no points: landmarks are picked rows
        ("rpcholesky", "uniform", or given row numbers of shape (m, 1)), and blocks need
        ``partition="kernel"``.
    gamma : float, "scale" or None
        For a kernel given by its name, as in scikit-learn; None is 1/n_features, "scale"
        1/(n_features · X.var()).
    degree : int
        For "poly".
    coef0 : float
        For "poly", at least 0.
    kernel_params : dict, optional
        Arguments of a callable kernel; p and q of "powered_exponential".
    rank, n_blocks : int
        Rank of each block's basis (k in the paper), and number of k-means blocks (c).
    core : {"projection", "sampled", "literal", "recompressed"}
        "projection" is C_st = V_sᵀ K(Z_s, Z_t) V_t, positive semi-definite for any data. "sampled" is the
        paper's least squares on ``(1 + core_oversampling) · rank`` sampled rows of each pair of blocks,
        regularised. "literal" is the same without a ridge, as in the paper: with ``landmarks="uniform"`` it
        is the published algorithm, and can blow up, with a warning. "recompressed" is the projection core on
        all landmarks, reduced to the numbers that ``rank`` and ``n_blocks`` stand for, as in
        :class:`BlockBasis`: the most accurate, at 2 to 12 times the time.
    core_oversampling : float
        For "sampled" and "literal", ρ in the paper: rows per rank for each pair of blocks, beyond the first.
    oversampling : float, optional
        Landmarks per rank in a block; None is 3, and 6 for the recompressed core.
    epsilon : float
        Core blocks with k(m_s, m_t) ≤ epsilon are dropped, where m_s is the mean of block s; 0 keeps all.
    rank_rule : {"equal", "singular"}
        "equal" gives each block the same rank; "singular" keeps the rank·n_blocks largest eigenvalues over
        all blocks.
    landmarks : str, array (m, d), or list with one array for each block
        A rule by name (:func:`gramian.landmarks.rules.select_landmarks`), or points.
    partition : {"kmeans", "minibatch", "kcenters", "tree", "kernel"}
        How rows are clustered (:func:`gramian.landmarks.partition.fit_partition`).
    memory_budget : int or str
        Bound on working memory while the bases and the core are built.
    tile_dtype : {"auto", "float32", "float64"}
        Precision of kernel tiles; "auto" takes float64 up to 3,000 rows, and float32 above.
    random_state : int, Generator or RandomState, optional
        Seed of all random choices, as in scikit-learn.
    n_jobs : int, optional
        Threads; None uses all cores, -1 too. Results do not depend on it.
    verbose : int, default=0
        1 shows the phase of the fit ("bases", "operator"), the rows done and the seconds left. An estimator
        that is given this approximation shows its own bar, and only if its own ``verbose`` says so.

    Attributes
    ----------
    operator_ : BlockOperator
        K̃ on the training rows: ``shape, @, diagonal(), trace(), solve, logdet, eigvalsh, to_dense``.
    nbytes_, rank_, plan_, kernel_ : compressed size, total rank, plan and kernel.

    Raises ``InputError`` (a ``ValueError``) for unusable input and ``BudgetError`` for a budget that is
    too small, and ``NumericalError`` for a literal core whose least squares are singular. Inaccurate if the
    blocks' spectra are flat: check ``relative_error``.

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

    builders = (MEKABuilder,)

    rank: int = 128
    n_blocks: int = 10
    core: str = "projection"
    oversampling: float | None = None
    core_oversampling: float = 2.0
    epsilon: float = 0.0
    rank_rule: str = "equal"
    landmarks: Any = "kmeans"
    partition: str = "kmeans"

    def builder(self) -> MEKABuilder:
        one_of("core", self.core, ("projection", "sampled", "literal", "recompressed"))
        if self.oversampling is not None:
            return self._sizes(MEKABuilder)
        return self._sizes(MEKABuilder, oversampling=6.0 if self.core == "recompressed" else 3.0)


def share_ranks(bases: list[Basis], counts: Float64Array, total: int) -> list[Basis]:
    """Keep the ``total`` largest eigenvalues over all blocks.

    An eigenvalue of K(Z_s, Z_s), with m_s landmarks, is scaled by n_s/m_s to estimate one of K_ss with n_s
    rows. This makes blocks of different size comparable.
    """
    scaled = [
        b.values * (count / max(1, b.landmarks.shape[0])) for b, count in zip(bases, counts, strict=True)
    ]
    everything = np.sort(np.concatenate(scaled))[::-1]
    if len(everything) <= total:
        return bases
    least = everything[total - 1]
    return [b.truncated(int(np.count_nonzero(v >= least))) for b, v in zip(bases, scaled, strict=True)]
