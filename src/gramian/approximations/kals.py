"""KALS as a transformer, and its alternating least squares on sampled entries of K."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from gramian._lapack import cho_solve, cholesky
from gramian._numerics import als_ridge
from gramian._phases import Progress, uncounted
from gramian._random import children
from gramian._typing import Array, Float64Array, IntArray, Rows
from gramian.approximations.approximation import Approximation, approximation
from gramian.compression.basis import Basis
from gramian.compression.builder import Bounds, Builder, BuildSettings
from gramian.compression.features import FeatureMap
from gramian.compression.storage import dense_features
from gramian.data.source import RowSource, sample_rows
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel
from gramian.landmarks.partition import Partition, fit_partition
from gramian.landmarks.rules import Landmarks, pick_rows, rows_seen, select_landmarks


@dataclass(frozen=True)
class KALSBuilder(Builder):
    r"""K̃ = F Fᵀ with features u(x) = (U_JᵀU_J + μ I)⁻¹ U_Jᵀ k(X_J, x).

    U comes from ``n_iter`` iterations of V = argmin_V Σ_Ω (K_ij − v_iᵀu_j)², U ← (U + V)/2, started at a
    Nyström approximation of rank r. Ω has k = n_entries/n columns a row, and the diagonal. Half of the
    columns are the same for all rows and chosen by the rule ``columns``; the other half is drawn for each
    tile of 64 rows. The last half-step uses the same k columns J for all rows, which defines u(x) for any x.

    Time O(n_iter · n k (r²/64 + d + r)), memory 16 n r bytes and O(k d + k r).
    """

    method: ClassVar[str] = "kals"
    rank: int = 100
    n_iter: int = 6
    n_entries: int | None = None
    landmarks: Landmarks = "kmeans"
    columns: str = "rpcholesky"
    per_row: int | None = None

    def settle(self, source: RowSource, settings: BuildSettings) -> Self:
        """Return the builder with the entries of a row filled in, by default log(n) per rank."""
        n = source.shape[0]
        rank = min(self.rank, n)
        entries = math.ceil(n * rank * max(1.0, math.log(n))) if self.n_entries is None else self.n_entries
        per_row = min(n, entries // n)
        if per_row < rank:
            raise InputError(
                f"n_entries={self.n_entries} gives each of {n} rows {per_row} entries, which do not "
                f"determine rank={self.rank} numbers. Give at least n_samples · rank = {n * rank}, or a "
                "lower rank."
            )
        return replace(self, per_row=per_row)

    @property
    def bounds(self) -> Bounds:
        # Features are computed from the columns J; an iteration is a pass.
        return Bounds(root_landmarks=self.per_row or self.rank, root_rank=self.rank, passes=self.n_iter)

    def working_bytes(self, n_rows: int, n_features: int, itemsize: int) -> int:
        """Return the bytes of U, V, the start's features and the tiles of two threads."""
        tile = 8 * self.bounds.root_landmarks * (self.rank + n_features + 128)
        return n_rows * self.rank * (2 * 8 + itemsize) + 2 * tile

    def assemble(self, sample: Rows, partition: Partition, settings: BuildSettings) -> FeatureMap:
        """Return the start of the iteration, a Nyström basis of the rank."""
        count = self.rank if isinstance(self.landmarks, str) else len(self.landmarks)
        points = select_landmarks(
            sample, count, self.landmarks, settings.rng, settings.engine, kernel=settings.kernel
        )
        return FeatureMap.lone(settings.basis(points, self.rank), partition, settings.kernel)

    def build(self, source: RowSource, settings: BuildSettings) -> FeatureMap:
        """Iterate over all rows, also those of weight 0, because they are rows of K."""
        starting, choosing, drawing = children(settings.rng, 3)
        n = source.shape[0]
        size = self.sample_size(n) if settings.sample_rows is None else settings.sample_rows
        rows, numbers = sample_rows(source, size, starting)
        rows = settings.floats(rows)
        partition = fit_partition(rows, 1, rng=starting)
        start = self.assemble(rows, partition, replace(settings, rng=starting))
        engine = settings.engine
        U = dense_features(start, source, chunk_rows=settings.chunk_rows, engine=engine).astype(np.float64)
        entries = self._entries(source, rows, numbers, settings, choosing, drawing)
        for _ in range(self.n_iter):
            U += half_step(entries, U, engine, settings.progress)
            U *= 0.5
        J = np.sort(np.concatenate([entries.chosen, entries.columns(-1)]))
        points = settings.floats(source.take(J))
        gram = U[J].T @ U[J]
        vectors = cho_solve(ridged_factor(gram), U[J].T).T
        values = np.linalg.eigvalsh(gram)[::-1] * (n / len(J))
        root = Basis.of_columns(points, vectors, settings.kernel, settings.dtype, values)
        return FeatureMap.lone(root, partition, settings.kernel)

    def _entries(
        self,
        source: RowSource,
        rows: Rows,
        numbers: Array,
        settings: BuildSettings,
        choosing: np.random.Generator,
        drawing: np.random.Generator,
    ) -> Entries:
        assert self.per_row is not None
        n, kernel = source.shape[0], settings.kernel
        if self.per_row >= n:
            chosen = np.arange(n)
        else:
            count = (self.per_row + 1) // 2
            looked = np.arange(rows.shape[0])
            if len(looked) > rows_seen(self.columns, count):
                looked = np.sort(choosing.choice(len(looked), rows_seen(self.columns, count), replace=False))
            count = min(count, len(looked))
            threads = settings.engine.n_threads
            picked = pick_rows(rows[looked], count, self.columns, kernel, choosing, n_jobs=threads)
            chosen = np.sort(numbers[looked[picked]])
        return Entries(
            source,
            kernel,
            chosen,
            source.take(chosen),
            self.per_row - len(chosen),
            int(drawing.integers(2**32)),
        )


@approximation
class KALS(Approximation):
    r"""Kernel approximation by alternating least squares: K ≈ U Uᵀ fitted to sampled entries of K.

    Each iteration solves V = argmin_V Σ_{(i,j) ∈ Ω} (K_ij − v_iᵀu_j)² and sets U ← (U + V)/2, from a Nyström
    start. Features of any row, including the training rows, come from the last half-step,
    u(x) = (U_JᵀU_J + μ I)⁻¹ U_Jᵀ k(X_J, x), on the columns J that all rows share.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params : as for :class:`MEKA`.
    rank : int
        r, columns of U.
    n_iter : int
        Iterations. The paper found 4 enough; a spectrum that falls fast needs some more.
    n_entries : int, optional
        Number of sampled entries \|Ω\|; None is n·r·log n. A row has \|Ω\|/n, half in columns that all rows
        share.
    landmarks : str or array (m, d)
        Rule for the Nyström start (:func:`gramian.landmarks.rules.select_landmarks`), or its points.
    columns : str
        Rule for the shared columns. "rpcholesky" covers outlying rows; with "uniform" they can make the
        iteration diverge.
    memory_budget, tile_dtype, random_state, n_jobs, verbose : as for :class:`MEKA`.

    Raises ``InputError`` for unusable input, for instance fewer entries a row than the rank, and
    ``BudgetError`` for a budget that is too small: U and V take 16·n·r bytes.

    Time O(n_iter · \|Ω\| (r²/64 + d + r)); a new row costs \|Ω\|/n kernel values. The method is here for
    comparison. For the same rank :class:`Nystrom` with its defaults was faster on every table tried, and as
    accurate or more, except for the sampled error at rank 200 on ijcnn1 (docs/which-approximation.md).

    Source: "Kernel approximation via alternating least squares", ESANN 2016, Algorithm 1. Sharing columns
    within tiles and the half-step for new rows are gramian's.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((500, 3))
    >>> gm.KALS(gamma=2.0, rank=20, random_state=0).fit(X).relative_error(X) < 0.01
    True
    """

    builders = (KALSBuilder,)

    rank: int = 100
    n_iter: int = 6
    n_entries: int | None = None
    landmarks: Any = "kmeans"
    columns: str = "rpcholesky"


#: Rows of a tile; they share sampled columns and thus one Cholesky factorization. Chosen by hand.
TILE_ROWS = 64


@dataclass(frozen=True)
class Entries:
    """Sampled entries Ω of K by tiles of 64 rows: chosen columns, as many random ones a tile, the diagonal.

    All rows of a tile share their columns, so its 64 least-squares problems take one product and one
    factorization. A tile draws its random columns from its own stream, so they are the same in each iteration
    and for any number of threads.
    """

    source: RowSource
    kernel: Kernel
    chosen: IntArray  #: numbers of the columns that all rows share
    points: Rows  #: the rows with these numbers
    extra: int  #: random columns per tile
    seed: int

    @property
    def n_tiles(self) -> int:
        """Number of tiles."""
        return -(-self.source.shape[0] // TILE_ROWS)

    def columns(self, tile: int) -> IntArray:
        """Return the numbers of a tile's random columns; tile −1 draws those that all rows share."""
        stream = np.random.default_rng([self.seed, tile + 1])
        others = np.setdiff1d(np.arange(self.source.shape[0]), self.chosen, assume_unique=True)
        return np.sort(stream.choice(others, min(self.extra, len(others)), replace=False))


def half_step(
    entries: Entries, U: Float64Array, engine: Engine, progress: Progress = uncounted
) -> Float64Array:
    r"""Return V = argmin Σ_{(i,j) ∈ Ω} (K_ij − v_iᵀ u_j)², row by row.

    v_i solves (U_Jᵀ U_J + u_i u_iᵀ + μ I) v_i = U_Jᵀ K_Ji + K_ii u_i for the columns J of its tile. The
    diagonal entry is a rank-one change, left out if i is in J. μ is at the rounding level of the trace
    (:func:`gramian._numerics.als_ridge`).

    Time O(n/64 · k r² + n k (d + r)) for k columns a row, memory O(n r + k (d + r)) a thread. Source:
    Bhojanapalli and Jain's matrix completion, for kernels by KALS (ESANN 2016), Algorithm 1.
    """
    V = np.empty_like(U)
    shared = U[entries.chosen]
    gram = shared.T @ shared
    with engine.results(partial(_tile, entries, U, V, shared, gram), range(entries.n_tiles)) as tiles:
        for rows in tiles:
            progress(rows)
    return V


def _tile(
    entries: Entries, U: Float64Array, V: Float64Array, shared: Float64Array, gram: Float64Array, tile: int
) -> int:
    """Write the rows of a tile into V and return how many they are."""
    start = tile * TILE_ROWS
    stop = min(start + TILE_ROWS, entries.source.shape[0])
    drawn = entries.columns(tile)
    X = entries.source.rows(slice(start, stop))
    own = U[drawn]
    right = shared.T @ entries.kernel(entries.points, X, dtype=np.float64, n_jobs=1)
    if len(drawn):
        right += own.T @ entries.kernel(entries.source.take(drawn), X, dtype=np.float64, n_jobs=1)
    factor = ridged_factor(gram + own.T @ own)
    solved = cho_solve(factor, right).T
    # Sherman-Morrison adds the diagonal entry for rows that are not among the columns J.
    mine = U[start:stop]
    lift = cho_solve(factor, mine.T).T
    missing = entries.kernel.diagonal(X) - np.einsum("ij,ij->i", solved, mine)
    share = missing / (1.0 + np.einsum("ij,ij->i", lift, mine))
    rows = np.arange(start, stop)
    share[np.isin(rows, drawn) | np.isin(rows, entries.chosen)] = 0.0
    V[start:stop] = solved + share[:, None] * lift
    return stop - start


def ridged_factor(gram: Float64Array) -> Float64Array:
    """Return the Cholesky factor of U_JᵀU_J + μ I."""
    system = gram.copy()
    system.flat[:: len(gram) + 1] += als_ridge(gram)
    return cholesky(system, overwrite=True)
