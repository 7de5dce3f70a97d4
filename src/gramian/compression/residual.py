"""Residual K − K̃ over the rows of a source, by tiles, and its spectral norm with lower and upper bounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as la

from gramian._typing import Array, Float64Array, FloatArray, IntArray, Rows
from gramian.compression.features import FeatureMap, Result, Unit
from gramian.compression.storage import operator_of
from gramian.compression.sums import leaf_blocks, map_source
from gramian.data.source import RowSource, as_source, sample_rows
from gramian.engine import Engine
from gramian.operators.base import SymmetricOperator


@dataclass(frozen=True)
class Leftover:
    """Diagonal of K, and the part of it that the levels of K̃ leave unexplained, row by row."""

    kernel: Float64Array  #: k(x_i, x_i), shape (n,)
    levels: Float64Array  #: k(x_i, x_i) minus the levels of bases up to each one, shape (levels, n)
    leaves: IntArray  #: leaf block of each row, shape (n,)

    @property
    def final(self) -> Float64Array:
        """diag(K − K̃)."""
        return np.asarray(self.levels[-1])


@dataclass(frozen=True)
class ColumnSums:
    """Sums of squares of E = K − K̃ and of K over m picked columns, without diagonal entries."""

    error: Float64Array  #: Σ_i E_ij² of column j, shape (m,)
    inside: Float64Array  #: the part of ``error`` from rows i in the leaf block of j, shape (m,)
    kernel: Float64Array  #: Σ_i K_ij², shape (m,)
    row_error: Float64Array  #: Σ_j w_j E_ij² of row i, shape (n,)
    row_kernel: Float64Array  #: Σ_j w_j K_ij², shape (n,)


@dataclass(frozen=True)
class Residual:
    """E = K − K̃ on the rows of ``source``, never stored.

    With ``stored_diagonal``, E = K − K̃ − D for D = max(diag(K − K̃), 0).
    """

    features: FeatureMap
    source: RowSource
    engine: Engine
    chunk_rows: int
    stored_diagonal: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return self.source.shape[0]

    def on(self, rows: Rows) -> Residual:
        """Return the residual over other rows."""
        return replace(self, source=as_source(rows))

    def operator(self) -> SymmetricOperator:
        """Return K̃ (+ D) on these rows with stored bases: n·(ranks of a row's path) numbers."""
        return operator_of(
            self.features,
            self.source,
            chunk_rows=self.chunk_rows,
            engine=self.engine,
            stored_diagonal=self.stored_diagonal,
        )

    def diagonal(self, leftover: Leftover) -> Float64Array:
        """Return diag(E): with a stored diagonal, only the negative part that clipping at 0 leaves."""
        return np.minimum(leftover.final, 0.0) if self.stored_diagonal else leftover.final

    def leftover(self) -> Leftover:
        """Return diag(K − K̃) level by level, without D. One pass; time O(n (m d + m r + r²))."""
        forest, core = self.features.forest, self.features.core
        kernel = np.empty(self.n_rows)
        levels = np.empty((len(forest.levels), self.n_rows))
        leaves = np.empty(self.n_rows, np.intp)

        def work(numbers: IntArray, unit: Unit, X: Rows, F: FloatArray) -> None:
            F = F.astype(np.float64)
            left = self.features.kernel.diagonal(X)
            kernel[numbers] = left
            for depth, segments in enumerate(unit.levels):
                for segment in segments:
                    W = F[segment.rows, forest.columns(segment.node)]
                    right = W if core is None else W @ core.block(segment.node, segment.node)
                    left[segment.rows] -= np.einsum("ij,ij->i", W, right)
                levels[depth, numbers] = left
            for segment in unit.levels[-1]:
                leaves[numbers[segment.rows]] = segment.node - forest.levels[-1].start

        with closing(self._units(work)) as units:
            for _ in units:
                pass
        return Leftover(kernel, levels, leaves)

    def column_sums(self, picked: IntArray, weights: Float64Array) -> ColumnSums:
        """Return sums over the columns ``picked``. One pass; time O(m n (d + r)), memory O(m (d + R) + n).

        Tiles of at most 1,024 × m float64 numbers, two for each thread.
        """
        points = self.source.take(picked)
        columns = self.features.kernel.against(points, np.float64)
        left = _left_factors(self.features, points, self.engine)
        leaf = self.features.leaf_levels[-1][self.features.partition.route(points, self.engine)]
        place = np.full(self.n_rows, -1)
        place[picked] = np.arange(len(picked))
        rows = np.empty((2, self.n_rows))

        def work(numbers: IntArray, unit: Unit, X: Rows, F: FloatArray) -> Float64Array:
            own = np.flatnonzero(place[numbers] >= 0)
            diagonal = own, place[numbers[own]]
            tile = columns(X).astype(np.float64, copy=False)
            tile[diagonal] = 0.0
            square = np.square(tile)
            kernel, rows[1, numbers] = square.sum(axis=0), square @ weights
            self._subtract(tile, F, unit, left)
            tile[diagonal] = 0.0
            np.square(tile, out=tile)
            rows[0, numbers] = tile @ weights
            inside = np.zeros(len(picked))
            for segment in unit.levels[-1]:
                mine = np.flatnonzero(leaf == segment.node)
                inside[mine] += tile[segment.rows, mine].sum(axis=0)
            return np.stack([tile.sum(axis=0), inside, kernel])

        total = np.zeros((3, len(picked)))
        with closing(self._units(work)) as parts:
            for part in parts:
                total += part
        return ColumnSums(*total, *rows)

    def _subtract(
        self, tile: Float64Array, F: FloatArray, unit: Unit, left: dict[int, tuple[IntArray, Float64Array]]
    ) -> None:
        """Subtract K̃(unit, picked) from a tile of K(unit, picked)."""
        forest = self.features.forest
        for segment in unit.segments:
            if segment.node in left:
                cols, factor = left[segment.node]
                W = F[segment.rows, forest.columns(segment.node)]
                tile[segment.rows, cols] -= W.astype(np.float64) @ factor

    def _units(
        self, work: Callable[[IntArray, Unit, Rows, FloatArray], Result]
    ) -> Generator[Result, None, None]:
        return map_source(self.features, self.source, work, chunk_rows=self.chunk_rows, engine=self.engine)


def _left_factors(
    features: FeatureMap, picked: Rows, engine: Engine
) -> dict[int, tuple[IntArray, Float64Array]]:
    """Return for each node the picked rows that meet it, and their factor (ranks × rows)."""
    forest = features.forest
    found: dict[int, list[tuple[Array, Float64Array]]] = defaultdict(list)
    with closing(
        leaf_blocks(features, as_source(picked), chunk_rows=picked.shape[0], engine=engine)
    ) as blocks:
        for numbers, unit, F in blocks:
            for segment in unit.segments:
                W = F[segment.rows, forest.columns(segment.node)].astype(np.float64)
                rows = numbers[segment.rows]
                if features.core is None:
                    found[segment.node].append((rows, W.T))
                else:
                    coupled = W @ features.core.row_strip(segment.node)
                    for t, part in enumerate(features.core.split_columns(coupled)):
                        found[t].append((rows, part.T))
    return {
        node: (np.concatenate([rows for rows, _ in parts]), np.concatenate([f for _, f in parts], axis=1))
        for node, parts in found.items()
    }


#: Columns of a Lanczos block; each tile of K is evaluated once for all of them. Chosen by hand.
BLOCK = 4
#: Allowed probability that the upper bound is too low.
FAILURE = 0.05
#: Products with K that turn K̃'s leading eigenvector towards K's, to estimate ‖K‖₂. Chosen by hand.
POWER_STEPS = 2

Multiply = Callable[[Float64Array], Float64Array]


class SpectralError(float):
    """‖K − K̃‖₂ as a number with bounds.

    ``low`` ≤ ‖K − K̃‖₂ is certain: it is ‖Ev‖/‖v‖ for a vector v, with E = K − K̃. ``high`` ≥ ‖K − K̃‖₂
    holds with probability 95 % over the random start. If only ``n_rows`` of n rows were used, the number is
    n/n_rows times the norm of that principal submatrix. This estimate suits errors that are spread over all
    rows and is too large for local ones; ``low`` is the submatrix's own bound and still certain, and ``high``
    is infinite. ``norm`` is ‖K‖₂, estimated from below and scaled in the same way; ``relative`` is the ratio
    of the two norms. ``iterations`` counts the products with E.
    """

    low: float
    high: float
    norm: float
    iterations: int
    n_rows: int

    def __new__(
        cls, value: float, low: float, high: float, norm: float, iterations: int, n_rows: int
    ) -> SpectralError:
        """Make the number and attach its evidence."""
        self = super().__new__(cls, value)
        self.low, self.high, self.norm = low, high, norm
        self.iterations, self.n_rows = iterations, n_rows
        return self

    @property
    def relative(self) -> float:
        """‖K − K̃‖₂/‖K‖₂."""
        return float(self) / self.norm if self.norm > 0 else 0.0

    def __repr__(self) -> str:
        return f"{float(self):.4g} in [{self.low:.4g}, {self.high:.4g}] ({self.n_rows} rows)"

    def __reduce__(self) -> tuple[type[SpectralError], tuple[float, float, float, float, int, int]]:
        arguments = float(self), self.low, self.high, self.norm, self.iterations, self.n_rows
        return SpectralError, arguments


def spectral_error(
    residual: Residual, *, n_rows: int | None, tol: float, rng: np.random.Generator
) -> SpectralError:
    r"""Estimate ‖E‖₂ for E = K − K̃ on all rows, or on ``n_rows`` of them drawn without replacement.

    Block Lanczos with full reorthogonalisation makes k products with E from b = 4 Gaussian columns. The
    extreme Ritz values θ and the eigenvalues λ of E satisfy

        P(λ_1 − θ_1 > ε (λ_1 − λ_n)) ≤ (1.648 √n exp(−√ε (2k − 1)))^b

    and the same at the lower end; the power b means that b independent starts must all fail. So k is chosen
    for ε = tol/(2 (1 + tol)) at 2.5 % on either side, which gives high ≤ (1 + tol)·low. For at most b·k rows,
    E is multiplied with the identity and low = high.

    Time O(n² d + n² b) for each of k ≈ log(n)/√(2 tol) products, memory O(n (r + d + b k)).
    Source: Kuczyński and Woźniakowski (1992), Theorem 4.2 and its shift invariance.
    """
    n = residual.n_rows
    m = n if n_rows is None else min(n_rows, n)
    rows = sample_rows(residual.source, m, rng)[0]
    rows = rows.astype(np.float64, copy=False)
    operator = residual.on(rows).operator()
    kernel, threads = residual.features.kernel, residual.engine.n_jobs

    def exact(values: Float64Array) -> Float64Array:
        return np.asarray(kernel.matvec(rows, None, values, n_jobs=threads), np.float64)

    steps, epsilon = _steps(m, tol)
    error = _extremes(lambda v: exact(v) - operator @ v, m, steps, rng)
    low = error.norm
    high = low
    if error.products > 1:
        # 1 − 2ε > 0: the Ritz values' own spread gives the spread of E up to this factor.
        margin = epsilon * (error.top - error.bottom) / (1.0 - 2.0 * epsilon)
        high = max(low, error.top + margin, -error.bottom + margin)
    leading = _extremes(lambda v: operator @ v, m, steps, rng).vector
    norm = 0.0
    for _ in range(POWER_STEPS):
        image = exact(leading)
        norm = max(norm, float(la.norm(image) / la.norm(leading)))
        leading = image if image.any() else leading
    scale = n / m
    return SpectralError(scale * low, low, high if m == n else np.inf, scale * norm, error.products, m)


class _Extremes:
    """Extreme Ritz values of a symmetric operator on a Krylov space, and a lower bound of its norm."""

    def __init__(self, basis: Float64Array, images: Float64Array, products: int) -> None:
        projected = basis.T @ images
        values, vectors = la.eigh((projected + projected.T) / 2, check_finite=False)
        self.top, self.bottom, self.products = float(values[-1]), float(values[0]), products
        self.vector = basis @ vectors[:, -1]
        # ‖E v‖/‖v‖ for the v in the space with the largest ratio; valid even if orthogonality was lost.
        longest = la.svd(images, full_matrices=False, check_finite=False)[2][0]
        self.norm = float(la.norm(images @ longest) / la.norm(basis @ longest))


def _extremes(multiply: Multiply, n: int, steps: int, rng: np.random.Generator) -> _Extremes:
    if n <= BLOCK * steps:
        return _Extremes(np.eye(n), multiply(np.eye(n)), 1)
    block = _orthonormal(rng.standard_normal((n, BLOCK)))
    basis, images = np.empty((n, 0)), np.empty((n, 0))
    for _ in range(steps):
        image = multiply(block)
        basis, images = np.hstack([basis, block]), np.hstack([images, image])
        block = image
        for _ in range(2):  # two rounds suffice
            block = _orthonormal(block - basis @ (basis.T @ block))
    return _Extremes(basis, images, steps)


def _orthonormal(columns: Float64Array) -> Float64Array:
    return np.asarray(la.qr(columns, mode="economic", check_finite=False)[0], np.float64)


def _steps(n: int, tol: float) -> tuple[int, float]:
    """Return the number of products k for the tolerance, and the ε that k products reach."""
    reach = float(np.log(1.648 * np.sqrt(n)) + np.log(2.0 / FAILURE) / BLOCK)
    steps = int(np.ceil((reach / np.sqrt(tol / (2.0 * (1.0 + tol))) + 1.0) / 2.0))
    return steps, (reach / (2.0 * steps - 1.0)) ** 2
