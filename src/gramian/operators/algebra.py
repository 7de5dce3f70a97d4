"""Exact algebras of K̃ + alpha·I: arrowhead, coupled core, and Woodbury on top of it.

==================================  ==============================================================
levels and core                     (K̃ + alpha·I)⁻¹ y
==================================  ==============================================================
nested levels, C = I                (y − Fβ)/alpha with (FᵀF + alpha·I) β = Fᵀy, leaves to roots
one level, core C                   Q (S + alpha·I)⁻¹ Qᵀy + (y − QQᵀy)/alpha with S = R C Rᵀ, W = QR
levels G above a level with core C  Woodbury: the coupled inverse M⁻¹, then I + GᵀM⁻¹G
==================================  ==============================================================
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import TypeAlias

import numpy as np
import scipy.linalg as la

from gramian._budget import format_bytes
from gramian._lapack import cho_solve, solve_triangular
from gramian._numerics import cholesky_lower, gram_factor
from gramian._tiles import blas_for
from gramian._typing import Float64Array, IntArray
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.operators.basis import TILE_ROWS, BasisLevel, Task
from gramian.solvers.arrowhead import ArrowheadFactor, Forest, NodeSums
from gramian.solvers.core import CoupledCore
from gramian.solvers.coupled import CoupledSystem
from gramian.solvers.solution import Solution, Status, relative_residual

#: Right-hand sides that are solved at a time. Chosen by hand.
COLUMNS = 64


class ArrowheadAlgebra:
    """Algebra of nested levels with an identity core: FᵀF is summed once, and eliminated once per alpha.

    Cost: sums O(n (Σ path ranks)²), kept in O(Σ r_b (r_b + p_b)) numbers; see ArrowheadFactor.
    """

    def __init__(
        self, levels: Sequence[BasisLevel], parents: Sequence[IntArray], engine: Engine, direct_limit: int
    ) -> None:
        self._levels = levels
        self._engine = engine
        self._direct_limit = direct_limit
        self._forest = Forest.from_levels([lv.ranks for lv in levels], [p.tolist() for p in parents])
        self._sums: list[NodeSums] | None = None
        self._factor: ArrowheadFactor | None = None

    @property
    def clipped(self) -> float:
        return 0.0

    def solve(self, y: Float64Array, alpha: float) -> Solution:
        factor = self._factored(alpha)
        a = self._solve_once(factor, y, alpha)
        # One step of refinement on the system itself removes the rounding error of FᵀF.
        a += self._solve_once(factor, y - self._shifted(a, alpha), alpha)
        residual = relative_residual(y - self._shifted(a, alpha), y)
        return Solution(a, Status.DIRECT, 0, residual, jitter=factor.jitter)

    def logdet(self, alpha: float) -> float:
        n, rank = self._levels[0].n_rows, self._forest.total_rank
        return (n - rank) * float(np.log(alpha)) + self._factored(alpha).blocks.logdet

    def eigenvalues(self) -> Float64Array:
        # K̃ = FFᵀ and FᵀF have the same nonzero eigenvalues, and FᵀF splits into one matrix per root.
        forest, sums = self._forest, self._summed()
        roots = range(forest.levels[0].start, forest.levels[0].stop)
        trees: dict[int, list[int]] = {root: [] for root in roots}
        for node in range(len(forest.ranks)):
            trees[(*forest.path(node), node)[0]].append(node)
        largest = max((sum(forest.ranks[b] for b in tree) for tree in trees.values()), default=0)
        require_direct("The eigenvalues", largest, self._direct_limit)

        def spectrum(tree: list[int]) -> Float64Array:
            starts = dict(zip(tree, np.cumsum([0] + [forest.ranks[b] for b in tree]).tolist()))
            size = sum(forest.ranks[b] for b in tree)
            dense = np.zeros((size, size))
            for node in tree:
                rows = slice(starts[node], starts[node] + forest.ranks[node])
                dense[rows, rows] = sums[node].gram
                for a in forest.path(node):
                    # eigvalsh reads the lower triangle, in which the deeper node is the row.
                    columns = slice(starts[a], starts[a] + forest.ranks[a])
                    dense[rows, columns] = sums[node].cross[:, forest.columns(a)]
            return np.asarray(la.eigvalsh(dense, check_finite=False), np.float64)

        spectra = self._engine.map(spectrum, trees.values())
        return np.concatenate([np.zeros(0), *spectra])

    def leverages(self, alpha: float) -> Float64Array:
        # The scores are f_iᵀ (FᵀF + alpha·I)⁻¹ f_i, computed along the path of each row.
        factor, out = self._factored(alpha), np.zeros(self._levels[0].n_rows)
        for depth, (level, nodes) in enumerate(zip(self._levels, self._forest.levels, strict=True)):
            with closing(self._path_leverages(factor, depth, level, nodes.start)) as parts:
                for numbers, values in parts:
                    out[numbers] = values
        return out

    def _path_leverages(
        self, factor: ArrowheadFactor, depth: int, level: BasisLevel, first: int
    ) -> Generator[tuple[IntArray, Float64Array], None, None]:
        """Yield numbers and leverages of the rows whose path ends on this level."""
        above, below = self._levels[:depth], self._levels[depth + 1 : depth + 2]

        def work(task: Task) -> list[tuple[IntArray, Float64Array]]:
            parts = []
            for s, start, stop in task:
                numbers, tile = level.rows(s)[start:stop], level.tile(s, start, stop)
                for deeper in below:
                    ends = deeper.locate(numbers)[0] < 0
                    numbers, tile = numbers[ends], tile[ends]
                path = [values for up in above for _, values in up.gather(numbers).values()]
                rows = np.hstack([*path, tile]) if len(numbers) else tile
                if len(rows):
                    for node in (first + s, *reversed(self._forest.path(first + s))):
                        factor.blocks.forward(node, rows)
                parts.append((numbers, np.einsum("ij,ij->i", rows, rows)))
            return parts

        with level.map_tiles(work, self._engine, columns=max(level.ranks, default=0)) as tiles:
            for parts in tiles:
                yield from parts

    def _shifted(self, a: Float64Array, alpha: float) -> Float64Array:
        out = alpha * a
        for level in self._levels:
            out += level.matmul(level.adjoint(a, self._engine), self._engine)
        return out

    def _solve_once(self, factor: ArrowheadFactor, y: Float64Array, alpha: float) -> Float64Array:
        columns = y if y.ndim == 2 else y[:, None]
        rhs: list[Float64Array] = []
        for level in self._levels:
            rhs += np.split(level.adjoint(columns, self._engine), level.offsets[1:-1])
        beta = factor.solve(rhs)
        out, first = columns.copy(), 0
        for level in self._levels:
            own = np.concatenate([np.zeros((0, columns.shape[1])), *beta[first : first + level.n_blocks]])
            out -= level.matmul(own, self._engine)
            first += level.n_blocks
        return (out / alpha).reshape(y.shape)

    def _factored(self, alpha: float) -> ArrowheadFactor:
        # Kept for the last alpha only, because a factor is as large as the sums.
        if self._factor is None or self._factor.alpha != alpha:
            self._factor = None
            self._factor = ArrowheadFactor(self._forest, self._summed(), alpha, self._engine)
        return self._factor

    def _summed(self) -> list[NodeSums]:
        if self._sums is None:
            self._sums = forest_sums(self._levels, self._forest, self._engine)
        return self._sums


def forest_sums(levels: Sequence[BasisLevel], forest: Forest, engine: Engine) -> list[NodeSums]:
    """Sum FᵀF over the rows, node by node: D = WᵀW and E = Wᵀ[ancestors' columns]."""
    sums = NodeSums.zeros_of(forest, 0)
    for depth, (level, nodes) in enumerate(zip(levels, forest.levels, strict=True)):
        with closing(_partial_sums(level, levels[:depth], engine)) as parts:
            for s, gram, cross in parts:
                sums[nodes.start + s].gram += gram
                sums[nodes.start + s].cross += cross
    return sums


def _partial_sums(
    level: BasisLevel, above: Sequence[BasisLevel], engine: Engine
) -> Generator[tuple[int, Float64Array, Float64Array], None, None]:
    """Yield (block, WᵀW, Wᵀ[ancestors' columns]) for each tile of rows, in order."""

    def work(task: Task) -> list[tuple[int, Float64Array, Float64Array]]:
        parts = []
        for s, start, stop in task:
            tile = level.tile(s, start, stop)
            rows = level.rows(s)[start:stop]
            # A block lies in one block of every level above it, so each gather has one entry.
            path = [values for up in above for _, values in up.gather(rows).values()]
            parts.append((s, tile.T @ tile, tile.T @ np.hstack([tile[:, :0], *path])))
        return parts

    with level.map_tiles(work, engine, columns=max(level.ranks, default=0)) as tiles:
        for parts in tiles:
            yield from parts


class CoupledAlgebra:
    """Algebra of one level with a core: orthonormal bases Q, kept in float64, and S = R C Rᵀ.

    Cost: O(n r²) once for the QR, memory 8 n r bytes for Q; then as for :class:`CoupledSystem`.
    """

    def __init__(self, basis: BasisLevel, core: CoupledCore, engine: Engine, direct_limit: int) -> None:
        self.engine = engine

        def orthonormalise(s: int) -> tuple[Float64Array, Float64Array]:
            block = basis.blocks[s].astype(np.float64)
            q, r = la.qr(block, mode="economic", overwrite_a=True, check_finite=False)
            return np.ascontiguousarray(q, np.float64), np.asarray(r, np.float64)

        pairs = engine.map(orthonormalise, range(basis.n_blocks))
        self.q = basis.with_blocks([q for q, _ in pairs])
        self.system = CoupledSystem([r for _, r in pairs], core, direct_limit=direct_limit, engine=engine)

    @property
    def clipped(self) -> float:
        return self.system.clipped

    def solve(self, y: Float64Array, alpha: float) -> Solution:
        inner = self.q.adjoint(y, self.engine)
        solution = self.system.solve(inner, alpha)
        a = y / alpha + self.q.matmul(solution.value - inner / alpha, self.engine)
        residual = relative_residual(y - self.multiply(a) - alpha * a, y)
        return Solution(a, solution.status, solution.iterations, residual, solution.clipped, solution.jitter)

    def multiply(self, a: Float64Array) -> Float64Array:
        """Return Q S₊ Qᵀ a, where S₊ is S without its clipped eigenvalues."""
        inner = self.system.multiply_clipped(self.q.adjoint(a, self.engine))
        return self.q.matmul(inner, self.engine)

    def logdet(self, alpha: float) -> float:
        return self.system.logdet(alpha, self.q.n_rows)

    def leverages(self, alpha: float) -> Float64Array:
        # The diagonal of Q S (S + alpha·I)⁻¹ Qᵀ; block s needs only its own rows of S's eigenvectors.
        values, vectors = self.system.eigh()
        half = vectors * np.sqrt(values / (values + alpha))
        q, out = self.q, np.zeros(self.q.n_rows)
        for s, start, stop in (tile for task in q.tasks for tile in task):
            rows = q.tile(s, start, stop) @ half[q.offsets[s] : q.offsets[s + 1]]
            out[q.tile_rows(s, start, stop)] = np.einsum("ij,ij->i", rows, rows)
        return out

    def eigenvalues(self) -> Float64Array:
        return self.system.eigenvalues()


class WoodburyAlgebra:
    """Algebra of levels G above a level with a core: K̃ = GGᵀ + Q S Qᵀ, by Woodbury's identity.

    M = Q S Qᵀ + alpha·I is inverted first. The capacity matrix I + GᵀM⁻¹G = I + Pᵀ(S + alpha·I)⁻¹P + H/alpha
    needs only the sums P = QᵀG and H = (G − QP)ᵀ(G − QP): time O(n R_G (r + R_G)) once, memory O(R R_G +
    R_G²).
    """

    def __init__(
        self,
        upper: Sequence[BasisLevel],
        basis: BasisLevel,
        core: CoupledCore,
        engine: Engine,
        direct_limit: int,
    ) -> None:
        self._upper = upper
        self._engine = engine
        self._direct_limit = direct_limit
        self._coupled = CoupledAlgebra(basis, core, engine, direct_limit)
        self._sums: tuple[Float64Array, Float64Array] | None = None
        self._capacity: tuple[float, Float64Array, float] | None = None

    @property
    def clipped(self) -> float:
        return self._coupled.clipped

    def solve(self, y: Float64Array, alpha: float) -> Solution:
        a, first = self._solve_once(y, alpha)
        correction, _ = self._solve_once(y - self._shifted(a, alpha), alpha)
        a += correction
        residual = relative_residual(y - self._shifted(a, alpha), y)
        jitter = max(first.jitter, self._factored(alpha)[1])
        return Solution(a, first.status, first.iterations, residual, first.clipped, jitter)

    def logdet(self, alpha: float) -> float:
        lower, _ = self._factored(alpha)
        return self._coupled.logdet(alpha) + 2.0 * float(np.log(np.diag(lower)).sum())

    def eigenvalues(self) -> Float64Array:
        # [G | Q] = [Q | Q⊥] [[P, I], [T, 0]] with TᵀT = H, so K̃ has the spectrum of a small middle matrix.
        p, h = self._summed()
        with blas_for(len(p) + len(h)):
            t, _ = gram_factor(h)
            require_direct("The eigenvalues", len(p) + len(t), self._direct_limit)
            joined = np.concatenate([p, t])
            middle = joined @ joined.T
            middle[: len(p), : len(p)] += self._coupled.system.to_dense()
            return np.asarray(la.eigvalsh(middle, check_finite=False), np.float64)

    def leverages(self, alpha: float) -> Float64Array:
        # 1 − alpha·diag(A⁻¹) with A⁻¹ = M⁻¹ − M⁻¹G (capacity)⁻¹ GᵀM⁻¹, for some columns of G at a time.
        out, (lower, _) = self._coupled.leverages(alpha), self._factored(alpha)
        for start in range(0, len(lower), COLUMNS):
            unit = np.eye(len(lower), min(COLUMNS, len(lower) - start), k=-start)
            inner = solve_triangular(lower, unit, transposed=True)
            solved = self._coupled.solve(self._matmul(inner), alpha).value
            out += alpha * np.einsum("ij,ij->i", solved, solved)
        return out

    def _solve_once(self, y: Float64Array, alpha: float) -> tuple[Float64Array, Solution]:
        first = self._coupled.solve(y, alpha)
        lower, _ = self._factored(alpha)
        inner = cho_solve(lower, self._adjoint(first.value))
        return first.value - self._coupled.solve(self._matmul(inner), alpha).value, first

    def _shifted(self, a: Float64Array, alpha: float) -> Float64Array:
        return self._matmul(self._adjoint(a)) + self._coupled.multiply(a) + alpha * a

    def _adjoint(self, values: Float64Array) -> Float64Array:
        return np.concatenate([level.adjoint(values, self._engine) for level in self._upper])

    def _matmul(self, inner: Float64Array) -> Float64Array:
        cuts = np.cumsum([level.rank for level in self._upper])[:-1]
        parts = zip(self._upper, np.split(inner, cuts), strict=True)
        return np.asarray(sum(level.matmul(part, self._engine) for level, part in parts))

    def _factored(self, alpha: float) -> tuple[Float64Array, float]:
        if self._capacity is None or self._capacity[0] != alpha:
            p, h = self._summed()
            capacity = p.T @ self._coupled.system.solve(p, alpha).value + h / alpha
            capacity = (capacity + capacity.T) / 2
            capacity.flat[:: len(capacity) + 1] += 1.0
            with blas_for(len(capacity)):
                factor = cholesky_lower(capacity, "the capacity matrix I + GᵀM⁻¹G")
            self._capacity = alpha, *factor
        return self._capacity[1:]

    def _summed(self) -> tuple[Float64Array, Float64Array]:
        """Return P = QᵀG (R' × R_G) and H = (G − QP)ᵀ(G − QP), summed by tiles of rows."""
        if self._sums is None:
            q = self._coupled.q
            width = sum(level.rank for level in self._upper)
            p, h = np.zeros((q.rank, width)), np.zeros((width, width))
            for s, start, stop in (tile for task in q.tasks for tile in task):
                own = slice(q.offsets[s], q.offsets[s + 1])
                p[own] += q.tile(s, start, stop).T @ self._coarse_rows(q.rows(s)[start:stop])
            for s, start, stop in (tile for task in q.tasks for tile in task):
                own = slice(q.offsets[s], q.offsets[s + 1])
                rest = self._coarse_rows(q.rows(s)[start:stop]) - q.tile(s, start, stop) @ p[own]
                h += rest.T @ rest
            outside = q.uncovered()
            for start in range(0, len(outside), TILE_ROWS):
                rest = self._coarse_rows(outside[start : start + TILE_ROWS])
                h += rest.T @ rest
            self._sums = p, h
        return self._sums

    def _coarse_rows(self, rows: IntArray) -> Float64Array:
        out = np.zeros((len(rows), sum(level.rank for level in self._upper)))
        first = 0
        for level in self._upper:
            for s, (where, values) in level.gather(rows).items():
                out[where, first + level.offsets[s] : first + level.offsets[s + 1]] = values
            first += level.rank
        return out


#: Each has solve(y, alpha), logdet(alpha), leverages(alpha), the diagonal of K̃ (K̃ + alpha·I)⁻¹, eigenvalues()
#: of K̃ as built, including all nonzero ones, in any order, and ``clipped``, the sum of the magnitudes of the
#: negative eigenvalues that solving has clipped. Factorisations are kept for reuse.
Algebra: TypeAlias = ArrowheadAlgebra | CoupledAlgebra | WoodburyAlgebra


def require_direct(what: str, size: int, direct_limit: int) -> None:
    """Raise if a dense factorisation is beyond the limit, and say how many bytes it would take."""
    if size > direct_limit:
        raise InputError(
            f"{what} need a dense matrix of {size} × {size} ({format_bytes(8 * size**2)}), beyond "
            f"direct_limit={direct_limit}. Lower the ranks, or raise direct_limit."
        )
