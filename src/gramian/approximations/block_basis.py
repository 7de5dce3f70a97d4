"""Block basis factorization as a transformer, and its builder by recompression to the best ranks and core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from gramian._budget import format_bytes, parse_bytes
from gramian._checks import one_of, positive_number
from gramian._random import children
from gramian._typing import IntArray, Rows
from gramian.approximations.approximation import Approximation, approximation, checked
from gramian.approximations.block_basis_sampled import SampledBasisBuilder
from gramian.approximations.meka import MEKABuilder
from gramian.compression.builder import Bounds, Builder, BuildSettings
from gramian.compression.features import FeatureMap
from gramian.compression.recompression import DEFAULT_RANK, Size, asked_size, leave_diagonal, recompress_core
from gramian.compression.residual import Residual
from gramian.data.source import ArraySource, RowSource, sample_rows
from gramian.exceptions import BudgetError, InputError
from gramian.landmarks.partition import Partition, fit_partition
from gramian.landmarks.rules import Landmarks

#: Parameters that only one of the cores takes, with their defaults.
OWN: dict[str, dict[str, Any]] = {
    "recompressed": {"landmarks": "rpcholesky"},
    "sampled": {"sampling": "full", "n_rounds": 2, "cutoff": 0.0},
}
#: Landmarks per rank in trials. They rank settings almost as more landmarks do, at a third of the time.
#: Chosen by hand.
TRIAL_OVERSAMPLING = 4.0


@dataclass(frozen=True)
class BlockBasisBuilder(Builder):
    r"""K̃ = U C Uᵀ of a given size, where the orthonormal U_s comes from the whole block row.

    A block has fewer landmarks than ``oversampling`` times its rank where they leave little of the trace
    (:data:`~.recompression.LEFT_OVER`). The trials include a stored diagonal in the error.
    :meth:`settle` fills in ``n_blocks``, ``rank`` (the mean) and ``limit``; the size properties need it.

    Time of the trials: about ten builds on 12,000 rows. Of the build: O(n (m d + m²) + (c m)² (d + r)).
    """

    method: ClassVar[str] = "bbf"
    coupled: ClassVar[bool] = True
    rank: int | None = None
    n_blocks: int | None = None
    tol: float | None = None
    max_bytes: int | None = None
    oversampling: float = 7.0
    landmarks: Landmarks = "rpcholesky"
    partition: str = "kmeans"
    diagonal: bool = False
    limit: float | None = None
    trial_error: float | None = None

    def settle(self, source: RowSource, settings: BuildSettings) -> Self:
        """Choose the open sizes by trials on a sample."""
        n = source.shape[0]
        trials = BlockTrials.of(source, self, settings)
        budget = self.max_bytes
        if budget is not None and self.diagonal:
            budget -= n * np.dtype(np.float64).itemsize
        size = asked_size(n, settings.dtype.itemsize, self.rank, self.n_blocks, budget)
        if self.tol is not None:
            count, size = self._for_tolerance(trials, size, n)
        else:
            count = trials.best_count(size) if self.n_blocks is None else min(self.n_blocks, n)
        rank = max(1, round(size.equal_rank(n, count)))
        error = trials.errors.get((count, size.limit))
        return replace(self, n_blocks=count, rank=rank, limit=size.limit, trial_error=error)

    def _for_tolerance(self, trials: BlockTrials, size: Size, n: int) -> tuple[int, Size]:
        assert self.tol is not None
        # K itself has n²/2 numbers.
        most = size.limit if self.max_bytes is not None else size.basis * n * n / 2
        start = Size(min(most, size.basis * DEFAULT_RANK * n), size.basis, size.core)
        count, size, error = trials.least_size(self.tol, start, most)
        if error > self.tol:
            got = format_bytes(size.limit if size.basis > 1 else 8 * size.limit)
            raise BudgetError(
                f"tol={self.tol:g} cannot be reached within {got}: the best that fits, {count} blocks, has a "
                f"relative error of about {error:.2g}. Raise "
                f"{'max_bytes or ' if self.max_bytes is not None else ''}tol.",
                round(size.limit),
            )
        return count, size

    def larger(self, n_blocks: int, rank: int, oversampling: float) -> MEKABuilder:
        """Return the builder of the larger bases before recompression."""
        return MEKABuilder(
            rank=rank,
            n_blocks=n_blocks,
            core="recompressed",
            oversampling=oversampling,
            landmarks=self.landmarks,
            partition=self.partition,
        )

    @property
    def settled(self) -> MEKABuilder:
        """Builder of the larger bases before recompression; raises before :meth:`settle`."""
        if self.n_blocks is None or self.rank is None or self.limit is None:
            raise InputError("sizes are not chosen yet; call settle first.")
        return self.larger(self.n_blocks, self.rank, self.oversampling)

    @property
    def bounds(self) -> Bounds:
        return replace(self.settled.bounds, passes=1)

    def working_bytes(self, n_rows: int, n_features: int, itemsize: int) -> int:
        """Return the bytes of the recompression."""
        return self.settled.working_bytes(n_rows, n_features, itemsize)

    def assemble(self, sample: Rows, partition: Partition, settings: BuildSettings) -> FeatureMap:
        """Choose landmarks in each block and whiten the kernel on all of them."""
        return self.settled.assemble(sample, partition, settings)

    def finish(self, features: FeatureMap, source: RowSource, settings: BuildSettings) -> FeatureMap:
        """Recompress bases and core to the size."""
        assert self.limit is not None
        assert self.rank is not None
        numbers = self.max_bytes is None
        size = Size(self.limit) if numbers else Size(self.limit, features.dtype.itemsize, 8.0)
        return self.recompressed(features, size, source, settings)

    def recompressed(
        self,
        features: FeatureMap,
        size: Size,
        source: RowSource,
        settings: BuildSettings,
        n_rows: int | None = None,
    ) -> FeatureMap:
        """Return the features within a size that is meant for ``n_rows`` rows, by default the source's."""
        smaller = recompress_core(features, size, source, settings, n_rows=n_rows)
        return leave_diagonal(smaller, source, chunk_rows=settings.chunk_rows) if self.diagonal else smaller


#: Rows on which trials are built, validation rows, and columns of the error matrix. Chosen by hand.
TRIAL_ROWS, VALIDATION_ROWS, VALIDATION_COLUMNS = 12_000, 2_000, 500
#: Numbers of blocks tried first. Half and double the best one follow, then steps of 2^(1/2). Chosen by hand.
FIRST_COUNTS = (1, 4, 16, 64)
#: Smallest number of rows in a block. Chosen by hand.
LEAST_BLOCK = 30
#: A size is accepted if its error is at least ``CLOSE`` times the tolerance; at most ``MOST_SIZES`` sizes are
#: tried. Chosen by hand.
CLOSE, MOST_SIZES = 0.8, 12


@dataclass
class BlockTrials:
    """Relative errors of approximations with given blocks and size, each built once.

    Every trial uses the same sample, validation rows and random stream, so two trials differ only in their
    blocks. One trial costs one build on 12,000 rows.
    """

    builder: BlockBasisBuilder
    settings: BuildSettings
    n_rows: int
    sample: ArraySource
    validation: ArraySource
    columns: IntArray
    seed: int
    errors: dict[tuple[int, float], float] = field(default_factory=dict)

    @classmethod
    def of(cls, source: RowSource, builder: BlockBasisBuilder, settings: BuildSettings) -> Self:
        """Draw the sample and, where there are enough rows, other rows for validation."""
        n = source.shape[0]
        drawing, validating, trial = children(settings.rng, 3)
        rows, numbers = sample_rows(source, min(n, TRIAL_ROWS), drawing)
        others = np.setdiff1d(np.arange(n), numbers) if n < 4 * TRIAL_ROWS else None
        if n <= TRIAL_ROWS + VALIDATION_ROWS:
            # Too few rows for a separate validation set: all rows serve for both.
            validation = rows
        elif others is None:
            validation = sample_rows(source, VALIDATION_ROWS, validating)[0]
        else:
            validation = source.take(np.sort(validating.choice(others, VALIDATION_ROWS, replace=False)))
        count = validation.shape[0]
        columns = np.sort(validating.choice(count, min(VALIDATION_COLUMNS, count), replace=False))
        seed = int(trial.integers(2**32))
        return cls(builder, settings, n, ArraySource(rows), ArraySource(validation), columns, seed)

    def error(self, n_blocks: int, size: Size) -> float:
        """Return ‖K − K̃‖_F/‖K‖_F estimated from validation rows × columns."""
        key = n_blocks, size.limit
        if key not in self.errors:
            features = self._build(n_blocks, size)
            engine, n_rows = self.settings.engine, self.validation.shape[0]
            left = Residual(features, self.validation, engine, n_rows, self.builder.diagonal)
            sums = left.column_sums(self.columns, np.ones(len(self.columns)))
            diagonal = left.leftover()
            # A full row of K has n − 1 off-diagonal entries, a sampled one has fewer: scale them up.
            others = (self.n_rows - 1) / max(1, n_rows - 1)
            error = others * sums.error.sum() + np.square(left.diagonal(diagonal)[self.columns]).sum()
            total = others * sums.kernel.sum() + np.square(diagonal.kernel[self.columns]).sum()
            self.errors[key] = float(np.sqrt(error / total)) if total > 0 else 0.0
        return self.errors[key]

    def _build(self, n_blocks: int, size: Size) -> FeatureMap:
        """Return the features of the sample with the bases and core of a size that is meant for all rows."""
        builder, settings = self.builder, replace(self.settings, rng=np.random.default_rng(self.seed))
        rank = max(1, round(size.equal_rank(self.n_rows, n_blocks)))
        larger = builder.larger(n_blocks, rank, min(builder.oversampling, TRIAL_OVERSAMPLING))
        rows = settings.floats(self.sample.rows(slice(0, self.sample.shape[0])))
        partition = fit_partition(
            rows, n_blocks, method=builder.partition, rng=settings.rng, kernel=settings.kernel
        )
        features = larger.assemble(rows, partition, settings)
        return builder.recompressed(features, size, self.sample, settings, n_rows=self.n_rows)

    @property
    def most_blocks(self) -> int:
        """Largest number of blocks for which a block still has ``LEAST_BLOCK`` rows."""
        return max(1, min(self.n_rows, self.sample.shape[0]) // LEAST_BLOCK)

    def best_count(self, size: Size, counts: Sequence[int] = FIRST_COUNTS) -> int:
        """Return the number of blocks with the least error, from a grid refined twice around its best."""
        tried = self._tried(size, counts)
        for factor in (2.0, np.sqrt(2.0)):
            best = min(tried, key=tried.__getitem__)
            tried |= self._tried(size, [round(best / factor), round(best * factor)])
        return min(tried, key=tried.__getitem__)

    def _tried(self, size: Size, counts: Sequence[int]) -> dict[int, float]:
        usable = sorted({min(max(1, c), self.most_blocks) for c in counts})
        # Keep only numbers of blocks for which each block gets a rank of at least 1.
        usable = [c for c in usable if c == 1 or size.equal_rank(self.n_rows, c) >= 1.0]
        return {c: self.error(c, size) for c in usable}

    def least_size(self, tol: float, start: Size, most: float) -> tuple[int, Size, float]:
        """Return blocks, size and error of the smallest size whose error is at most ``tol``.

        The search scales the size limit by the ratio of error to tolerance and keeps it inside a bracket. It
        stops at ``most``; the error may then exceed ``tol``.
        """
        size = Size(min(start.limit, most), start.basis, start.core)
        count = self.best_count(size)
        low, high = 0.0, np.inf
        best = count, size, self.error(count, size)
        for _ in range(MOST_SIZES):
            error = self.error(count, size)
            if error <= tol:
                best, high = (count, size, error), size.limit
                if error >= CLOSE * tol:
                    break
            else:
                low = size.limit
                if best[2] > tol:
                    best = count, size, error
                if size.limit >= most:
                    break
            step = float(np.clip(error / (0.9 * tol), 1 / 4, 4)) if error > 0 else 0.25
            limit = size.limit * step
            if not low < limit < high:
                limit = float(np.sqrt(max(low, high / 16) * high))
            size = Size(min(limit, most), start.basis, start.core)
            count = self.best_count(size, (count // 2, count, 2 * count))
        return best


@approximation
class BlockBasis(Approximation):
    r"""Block basis factorization: K̃ = U C Uᵀ, the most accurate matrix for its bytes.

    U is block-diagonal and orthonormal. The basis U_s of block s spans its kernel values with *all* rows,
    K_s,:, and C = UᵀKU couples the blocks. Both are computed by way of landmarks, so time and memory are
    linear in n, K̃ is positive semi-definite for any data, and the same formula gives features of new points.
    Each block gets a rank according to what its directions gain for their bytes.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="rbf"
        With ``gamma``, ``degree``, ``coef0``, ``kernel_params``, as for :class:`MEKA`.
    rank : int, optional
        Stored numbers per row: the factorization has n·rank numbers in all, or n·rank + (rank·n_blocks)² if
        ``n_blocks`` is given. Without ``rank``, ``tol`` and ``max_bytes`` it is 100.
    n_blocks : int, optional
        Number of blocks; None takes the number with the least error at the size, by trials on 12,000 rows.
        Smooth kernels need one block, which is the best global low rank; a smaller lengthscale needs more.
    tol : float, optional
        Relative Frobenius error to reach with as few bytes as possible.
    max_bytes : int or str, optional
        Size of the factorization in bytes (``nbytes_``), instead of ``rank``; an upper bound with ``tol``.
    core : {"recompressed", "sampled"}
        ``"recompressed"``: bases and core from landmarks, reduced to the best of the given size.
        ``"sampled"``: the published algorithm, with about twice the error. Bases come from sampled columns of
        each block row, the core from least squares on sampled rows, and the number of blocks (with ``tol``
        also the ranks) from the spectra of diagonal blocks. For a size this rule mostly takes one block, a
        low rank: give ``n_blocks``.
    oversampling : float, optional
        Landmarks (or sampled columns) per rank in a block. None: at most 7 for "recompressed" (4 to 8 work
        well), 2 for "sampled".
    diagonal : bool
        Store diag(K − K̃), clipped at 0, beside the factors: n float64 numbers, which ``max_bytes`` includes.
        Useful at small bandwidths, where the diagonal of K is much larger than the rest. It is part of
        ``operator_`` and of the errors, but not of the features.
    landmarks : str or array (m, d)
        Rule by name, see :func:`gramian.landmarks.rules.select_landmarks`. For the same number of landmarks,
        pivots of a randomly pivoted Cholesky factorization came a tenth nearer to the ideal than k-means.
        Only for ``core="recompressed"``.
    sampling : {"full", "important"}
        Sample columns from all rows (Algorithm 2 of the paper), or from important rows of the blocks
        (Algorithm 3: faster for many blocks, less accurate). This and the next two: ``core="sampled"`` only.
    n_rounds : int
        Rounds of pivoted QR and LQ, at least 1.
    cutoff : float
        Blocks C_st with ‖C_st‖_F ≤ cutoff·‖C‖_F/n_blocks are not stored, which adds an error of at most
        ``cutoff``. K̃ is then no longer guaranteed to be positive semi-definite.
    partition : {"kmeans", "minibatch", "kcenters", "tree", "kernel"}
    memory_budget, tile_dtype, random_state, n_jobs, verbose : as for :class:`MEKA`.

    Attributes
    ----------
    operator_, nbytes_, rank_, plan_, kernel_ : as for :class:`MEKA`. ``plan_.builder.trial_error`` is the
        relative error found in the trials, if there were any. With ``core="sampled"`` it is
        ``predicted_tol``, a tolerance by rule that does not estimate the error.

    Raises ``InputError`` for unusable input and ``BudgetError`` for a size that holds nothing, a tolerance
    that ``max_bytes`` cannot reach (with the best that fits), or a ``memory_budget`` that is too small.

    Time O(n (m d + m²) + (n_blocks·m)² (d + r)) for m landmarks and rank r a block; memory of the build
    O(n_blocks·m² + R²) and of the result O(n r + R²).

    Source: Wang, Li, Mahoney and Darve, "Block Basis Factorization for Scalable Kernel Evaluation" for the
    structure and for ``core="sampled"``; the recompressed core is gramian's: docs/how-it-works.md.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((1000, 4))
    >>> a = gm.BlockBasis(gamma=5.0, rank=50, random_state=0).fit(X)
    >>> a.operator_.shape, bool(a.relative_error(X) < 0.05)
    ((1000, 1000), True)
    """

    builders = (BlockBasisBuilder, SampledBasisBuilder)

    rank: int | None = None
    n_blocks: int | None = None
    tol: float | None = None
    max_bytes: int | str | None = None
    core: str = "recompressed"
    oversampling: float | None = None
    landmarks: Any = "rpcholesky"
    sampling: str = "full"
    n_rounds: int = 2
    cutoff: float = 0.0
    partition: str = "kmeans"
    diagonal: bool = False

    def builder(self) -> Builder:
        one_of("core", self.core, tuple(OWN))
        for name in ("landmarks", "sampling"):  # one of which the core does not take
            checked(name, getattr(self, name))
        self._refuse_others()
        sizes = {"rank": self.rank, "tol": self.tol, "max_bytes": self.max_bytes}
        given = [name for name, value in sizes.items() if value is not None]
        if self.rank is not None and len(given) > 1:
            raise InputError(
                f"rank={self.rank!r} and {given[1]}={sizes[given[1]]!r} both say how large the "
                "factorization is. Give one of them; tol and max_bytes go together."
            )
        kind = SampledBasisBuilder if self.core == "sampled" else BlockBasisBuilder
        others: dict[str, Any] = {
            "tol": None if self.tol is None else positive_number("tol", self.tol),
            "max_bytes": None if self.max_bytes is None else parse_bytes(self.max_bytes, "max_bytes"),
        }
        if self.oversampling is None:
            others["oversampling"] = kind.oversampling
        return self._sizes(kind, **others)

    def _refuse_others(self) -> None:
        """Raise if a parameter of the other core is set."""
        (other,) = set(OWN) - {self.core}
        for name, default in OWN[other].items():
            value = getattr(self, name)
            if not isinstance(value, type(default)) or value != default:
                raise InputError(
                    f"{name}={value!r} would have no effect: core={self.core!r} does not take it. Leave it "
                    f"out, or choose core={other!r}."
                )
