"""Preconditioners of K + D: a low-rank root, exact blocks of its residual, both, or any approximation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gramian._lapack import cho_solve, inverse_of_factored, solve_triangular
from gramian._numerics import cholesky_lower
from gramian._typing import Float64Array, Rows
from gramian.compression.builder import Builder, BuildSettings
from gramian.compression.storage import stored_levels
from gramian.data.source import as_source
from gramian.engine import Engine
from gramian.exact.policy import ENOUGH, Costs, Sizes
from gramian.exact.system import ExactSystem
from gramian.exceptions import BudgetError
from gramian.kernels.base import Kernel
from gramian.landmarks.picking import PivotedFactor, rpcholesky_factor
from gramian.operators.base import SymmetricOperator
from gramian.operators.block import BlockOperator
from gramian.operators.diagonal import DiagonalPlus

#: Number of tasks of an application, for any number of threads. Chosen by hand.
TASKS = 16
#: If a root leaves more than this share of the trace, it is dropped: blocks alone are better. By hand.
USELESS_ROOT = 0.9
#: If a root leaves less than this share, the kernel is smooth, and a larger root replaces the blocks. By
#: hand.
SMOOTH_ROOT = 0.05
#: Number of rows whose features are computed at once. Chosen by hand.
CHUNK_ROWS = 65_536


class RootAndBlocks:
    r"""Preconditioner M = FᵀF + B + D, B the diagonal blocks of K − FᵀF, D > 0 diagonal; applied as M⁻¹.

    With E = B + D, inverted block by block, and H = F E⁻¹

        M⁻¹ v = E⁻¹ v − Hᵀ (I + F Hᵀ)⁻¹ H v.

    With F empty this is block Jacobi; with ``slices`` empty, B = 0 and it is Nyström. With both it is the
    partially independent training conditional (PITC): the multi-resolution operator with whole blocks, which
    represents global and local structure. M is positive definite, because F comes from pivots of K and D > 0.

    Parameters
    ----------
    kernel, rows : k and the rows (n, d) in the order of the blocks.
    shift : ndarray (n,)
        D > 0.
    factor : ndarray (r, n)
        F; **overwritten** by H, which has the same size.
    slices : sequence of slice
        Positions of the blocks, covering all rows; empty for B = 0.

    Attributes
    ----------
    logdet : float
        log det M.
    jitter : float
        Largest jitter of a factorisation; it affects the speed, but not the solution.
    nbytes, evaluations : int
        Bytes held, and number of kernel values computed.

    Time n·b² + n·r·(b + r) for blocks of b rows and rank r, and n·(b + 2r) multiplications to apply; memory
    8·n·(b + r) bytes.

    Source: Snelson and Ghahramani 2007 (the operator), Quiñonero-Candela and Rasmussen 2005 (the name), the
    Woodbury identity.
    """

    def __init__(
        self,
        kernel: Kernel,
        rows: Rows,
        shift: Float64Array,
        factor: Float64Array,
        slices: Sequence[slice],
        engine: Engine,
    ) -> None:
        self._engine, self._h = engine, factor
        self._whole = not slices
        rank, n = factor.shape
        self._slices = list(slices) or _even_slices(n)
        self._inverses: list[Float64Array] = [np.zeros((0, 0))] * len(self._slices)
        core = np.eye(rank)
        self.logdet, self.evaluations, self.jitter = 0.0, 0, 0.0

        def work(number: int) -> tuple[Float64Array, float, float]:
            place = self._slices[number]
            own = factor[:, place]
            if self._whole:
                inverse = 1.0 / shift[place]
                logdet, jitter = float(np.log(shift[place]).sum()), 0.0
                solved = own * inverse
            else:
                inverse, logdet, jitter = _inverse(kernel, rows[place], own, shift[place])
                solved = own @ inverse
            self._inverses[number] = inverse
            product = own @ solved.T
            factor[:, place] = solved
            return product, logdet, jitter

        with engine.results(work, range(len(self._slices))) as results:
            for product, logdet, jitter in results:
                core += product
                self.logdet += logdet
                self.jitter = max(self.jitter, jitter)
        self._core = np.zeros((0, 0))
        if rank:
            self._core, jitter = cholesky_lower(
                0.5 * (core + core.T), "the core I + F(B + D)⁻¹Fᵀ", warn=False
            )
            self.logdet += 2.0 * float(np.log(self._core.diagonal()).sum())
        if not self._whole:
            self.evaluations = sum((place.stop - place.start) ** 2 for place in self._slices)
        self._groups = [
            range(len(self._slices))[start::TASKS] for start in range(min(TASKS, len(self._slices)))
        ]

    @property
    def nbytes(self) -> int:
        """Bytes of H, of the blocks' inverses and of the core."""
        return self._h.nbytes + self._core.nbytes + sum(block.nbytes for block in self._inverses)

    @property
    def rank(self) -> int:
        """Rank of the root."""
        return len(self._h)

    def __call__(self, values: Float64Array) -> Float64Array:
        """Return M⁻¹ v for ``values`` v of shape (n, p)."""
        out = np.empty_like(values)
        rank = len(self._h)

        def first(group: range) -> Float64Array:
            seen = np.zeros((rank, values.shape[1]))
            for number in group:
                place = self._slices[number]
                inverse = self._inverses[number]
                out[place] = inverse[:, None] * values[place] if self._whole else inverse @ values[place]
                if rank:
                    seen += self._h[:, place] @ values[place]
            return seen

        seen = np.sum(self._engine.map(first, self._groups), axis=0)
        if not rank:
            return out
        inner = cho_solve(self._core, seen)

        def second(group: range) -> None:
            for number in group:
                place = self._slices[number]
                out[place] -= self._h[:, place].T @ inner

        self._engine.run(second, self._groups)
        return out

    def draw(self, count: int, rng: np.random.Generator) -> Float64Array:
        """Return columns z ~ N(0, M), (n, count), as Fᵀg₁ + E^(1/2) g₂. Time n·b² plus an application."""
        out = rng.standard_normal((self._h.shape[1], count))
        inner = rng.standard_normal((len(self._h), count))

        def work(group: range) -> None:
            for number in group:
                place, inverse = self._slices[number], self._inverses[number]
                # E⁻¹ = L Lᵀ gives E^(1/2) = L⁻ᵀ and Fᵀ = E Hᵀ = L⁻ᵀ L⁻¹ Hᵀ.
                spread = self._h[:, place].T @ inner
                if self._whole:
                    out[place] = out[place] / np.sqrt(inverse)[:, None] + spread / inverse[:, None]
                    continue
                lower, _ = cholesky_lower(inverse, "the inverse of a block", warn=False)
                spread = solve_triangular(lower, spread)
                out[place] = solve_triangular(lower, out[place] + spread, transposed=True)

        self._engine.run(work, self._groups)
        return out

    def inverse_diagonal(self) -> Float64Array:
        """Return diag(M⁻¹), (n,). Time n·r²."""
        out = np.empty(self._h.shape[1])

        def work(group: range) -> None:
            for number in group:
                place, inverse = self._slices[number], self._inverses[number]
                out[place] = inverse if self._whole else inverse.diagonal()
                if len(self._h):
                    half = solve_triangular(self._core, self._h[:, place])
                    out[place] -= np.einsum("ij,ij->j", half, half)

        self._engine.run(work, self._groups)
        return out


def _inverse(
    kernel: Kernel, points: Rows, own: Float64Array, shift: Float64Array
) -> tuple[Float64Array, float, float]:
    """Return (K_ss − F_sᵀF_s + D_s)⁻¹, the log-determinant of that matrix, and the jitter used."""
    block = np.asarray(kernel(points, dtype=np.float64, n_jobs=1))
    block -= own.T @ own
    block.flat[:: len(block) + 1] += shift
    lower, jitter = cholesky_lower(0.5 * (block + block.T), "a block of the preconditioner", warn=False)
    logdet = 2.0 * float(np.log(lower.diagonal()).sum())
    return inverse_of_factored(lower), logdet, jitter


def _even_slices(n: int) -> list[slice]:
    edges = np.linspace(0, n, min(TASKS, max(1, n)) + 1).astype(np.intp)
    return [slice(int(a), int(b)) for a, b in pairwise(edges)]


def root_and_blocks(
    system: ExactSystem,
    sizes: Sizes,
    slices: list[slice],
    room: int,
    rng: np.random.Generator,
    *,
    costs: Costs | None,
) -> tuple[RootAndBlocks, str]:
    """Return a preconditioner of these sizes and its name; the system counts the kernel values.

    With ``costs`` the sizes may be improved. The root stops growing once it is large enough. It is dropped if
    it explains little of the trace; if it explains nearly all, a larger root replaces the blocks. Without
    ``costs`` the sizes are used as given, and more than ``room`` bytes raise :class:`BudgetError`.
    """
    n = len(system)
    factor, name = np.zeros((0, n)), "jacobi"
    if sizes.rank:
        whole = float(system.kernel.diagonal(system.rows).sum())
        enough = ENOUGH * float(system.shift.min())
        tol = enough / whole if costs is not None and whole > 0 else 0.0
        pivoted, name = _pivot(system, sizes.rank, tol, rng), "pitc" if slices else "nystrom"
        factor = pivoted.factor
        remainder = float(pivoted.diagonal.sum())
        left = remainder / whole if whole > 0 else 0.0
        if costs is not None and left > USELESS_ROOT:
            factor, name = np.zeros((0, n)), "jacobi"
        elif costs is not None and left < SMOOTH_ROOT:
            slices, name = [], "nystrom"
            more = costs.root_affordable(costs.build(sizes), room) - len(pivoted.picked)
            if more > 0 and len(pivoted.picked) == sizes.rank and not remainder <= enough:
                factor = _pivot(system, more, tol, rng, pivoted).factor
    built = RootAndBlocks(system.kernel, system.rows, system.shift, factor, slices, system.engine)
    system.evaluations += built.evaluations
    if built.nbytes > room and costs is None:
        raise BudgetError(
            f"the preconditioner of rank {sizes.rank} and blocks of {sizes.block} rows takes more than "
            "its share of memory_budget. Lower rank or block, or raise the budget.",
            built.nbytes,
        )
    return built, name


def _pivot(
    system: ExactSystem, rank: int, tol: float, rng: np.random.Generator, after: PivotedFactor | None = None
) -> PivotedFactor:
    system.evaluations += len(system) * rank
    return rpcholesky_factor(
        system.kernel, system.rows, rank, rng, tol=tol, after=after, n_jobs=system.engine.n_jobs or -1
    )


class Compressed:
    r"""Preconditioner M = K̃ + D on the system's rows, applied as its inverse.

    It takes the time and memory to build the approximation and store its bases (n times the ranks of a row's
    path). An application is one solve by the approximation's algebra (arrowhead or coupled core). Negative
    eigenvalues of an indefinite core are clipped, so that M is positive definite.
    """

    def __init__(self, builder: Builder, system: ExactSystem, rng: np.random.Generator) -> None:
        source = as_source(system.rows)
        settings = BuildSettings(system.kernel, np.dtype(system.dtype), rng, system.engine)
        features = builder.settle(source, settings).build(source, settings)
        levels = stored_levels(features, source, chunk_rows=CHUNK_ROWS, engine=system.engine)
        stored = BlockOperator(levels, features.core)
        self._least = float(system.shift.min())
        above = system.shift - self._least
        self._operator: SymmetricOperator = DiagonalPlus(stored, above) if above.any() else stored
        self.rank = features.rank
        self.nbytes = self._operator.nbytes

    def __call__(self, values: Float64Array) -> Float64Array:
        """Return M⁻¹ v for ``values`` v of shape (n, p)."""
        return self._operator.solve_quietly(values, self._least).value
