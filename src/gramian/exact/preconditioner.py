"""Preconditioners of K + D: a low-rank root, exact blocks of its residual, or both."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gramian._lapack import cho_solve, inverse_of_factored, solve_triangular
from gramian._numerics import cholesky_lower
from gramian._typing import Float64Array, Rows
from gramian.engine import Engine
from gramian.kernels.base import Kernel

#: Number of tasks of an application, for any number of threads. Chosen by hand.
TASKS = 16


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

        with engine.results(work, range(len(self._slices))) as found:
            for product, logdet, jitter in found:
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
