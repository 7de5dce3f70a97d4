"""Linear systems of Newton steps: nested bases, coupled core or few rows, bordered by an intercept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gramian._lapack import cho_solve
from gramian._numerics import cholesky_lower, gram_factor, unit_roundoff
from gramian._tiles import blas_for
from gramian._typing import Array, Float64Array, FloatArray, IntArray
from gramian.engine import Engine
from gramian.solvers.arrowhead import ArrowheadFactor, Forest, NodeSums
from gramian.solvers.core import CoupledCore
from gramian.solvers.coupled import CoupledSystem

#: A factored system: maps right-hand sides (R, p) to β and v.
Factor = Callable[[Float64Array], tuple[Float64Array, Float64Array]]


@dataclass(frozen=True)
class ActiveRows:
    """The matrix S = H^(1/2)F (m × R), stored as each row's features along its path in the forest.

    Examples
    --------
    >>> forest = Forest.from_levels([[1], [1, 1]], [[0, 0]])
    >>> S = ActiveRows(forest, np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0, 0], [1, 2]]), np.ones(2))
    >>> S.times(np.eye(3)).tolist(), S.gram().tolist()
    ([[1.0, 2.0, 0.0], [3.0, 0.0, 4.0]], [[5.0, 3.0], [3.0, 25.0]])
    """

    forest: Forest
    path: FloatArray  #: (m, widest path), in the type in which products are computed
    nodes: IntArray  #: node of each row on each level, (levels, m)
    root: Float64Array  #: H^(1/2) of each row, (m,)

    def __len__(self) -> int:
        return len(self.root)

    def scaled(self, factor: float) -> ActiveRows:
        """Return the rows with H multiplied by a factor."""
        root = float(np.sqrt(factor))
        return replace(self, path=root * self.path, root=root * self.root)

    def precise(self) -> ActiveRows:
        """Return the rows in float64, for products of several vectors with them."""
        return replace(self, path=self.path.astype(np.float64, copy=False))

    def gram(self) -> Float64Array:
        """Return S Sᵀ. Time at most O(m² · widest path)."""
        out = np.zeros((len(self), len(self)))
        for _, which, own in self._groups:
            if len(which) == len(self):
                out += own @ own.T
            else:
                out[np.ix_(which, which)] += own @ own.T
        return out

    def times(self, values: Float64Array) -> Float64Array:
        """Return S values, from (R, p) to (m, p)."""
        out = np.zeros((len(self), values.shape[1]))
        offsets = self._offsets
        for node, which, own in self._groups:
            out[which] += own @ values[offsets[node] : offsets[node + 1]]
        return out

    def transposed(self, values: Float64Array) -> Float64Array:
        """Return Sᵀ values, from (m, p) to (R, p)."""
        out = np.zeros((self.forest.total_rank, values.shape[1]))
        offsets = self._offsets
        for node, which, own in self._groups:
            out[offsets[node] : offsets[node + 1]] += own.T @ values[which]
        return out

    def add_to(self, sums: Sequence[NodeSums]) -> None:
        """Add SᵀS to the sums of the nodes, and SᵀH^(1/2)1 to their right-hand sides."""
        for node, which, own in self._groups:
            sums[node].gram += own.T @ own
            sums[node].cross += own.T @ self.path[which, : sums[node].cross.shape[1]]
            sums[node].rhs[:, 0] += own.T @ self.root[which].astype(own.dtype)

    @property
    def _offsets(self) -> IntArray:
        return np.concatenate([[0], np.cumsum(self.forest.ranks)])

    @cached_property
    def _groups(self) -> list[tuple[int, IntArray, FloatArray]]:
        """Each node that has rows, with the row numbers and their features on that node."""
        groups = []
        for level in self.nodes:
            order = np.argsort(level, kind="stable")
            cuts = np.flatnonzero(np.diff(level[order])) + 1
            for which in np.split(order, cuts):
                if len(which):
                    node = int(level[which[0]])
                    own = self.path[:, self.forest.columns(node)]
                    groups.append((node, which, own if len(which) == len(self) else own[which]))
        return groups


@dataclass(frozen=True)
class NewtonPoint:
    """Coefficients of some outputs: β (R, p), v with β = C v (β itself without a core), b (p,)."""

    beta: Float64Array
    dual: Float64Array
    offset: Float64Array

    @classmethod
    def zeros(cls, rank: int, outputs: int) -> NewtonPoint:
        """Return f = 0."""
        beta = np.zeros((rank, outputs))
        return cls(beta, beta, np.zeros(outputs))

    @classmethod
    def joined(cls, points: Sequence[NewtonPoint]) -> NewtonPoint:
        """Return the outputs of several points side by side."""
        beta = np.concatenate([p.beta for p in points], axis=1)
        same = all(p.dual is p.beta for p in points)
        dual = beta if same else np.concatenate([p.dual for p in points], axis=1)
        return cls(beta, dual, np.concatenate([p.offset for p in points]))

    def columns(self, which: Array) -> NewtonPoint:
        """Return the coefficients of some of the outputs."""
        beta = self.beta[:, which]
        dual = beta if self.dual is self.beta else self.dual[:, which]
        return NewtonPoint(beta, dual, self.offset[which])

    def plus(self, step: NewtonPoint, length: Float64Array | float = 1.0) -> NewtonPoint:
        """Return the point after a step, of one length for each output or for all."""
        beta = self.beta + length * step.beta
        shared = self.dual is self.beta and step.dual is step.beta
        dual = beta if shared else self.dual + length * step.dual
        return NewtonPoint(beta, dual, self.offset + length * step.offset)

    def times(self, factor: float) -> NewtonPoint:
        """Return the point multiplied by a number."""
        beta = factor * self.beta
        dual = beta if self.dual is self.beta else factor * self.dual
        return NewtonPoint(beta, dual, factor * self.offset)

    def inner(self, other: NewtonPoint) -> Float64Array:
        """Return ⟨f, g⟩ of the functions without their intercepts, for each output."""
        return np.asarray(np.einsum("ij,ij->j", self.dual, other.beta))


@dataclass(frozen=True)
class Curvature:
    """The matrix FᵀHF by nodes; each node's ``rhs`` is its part of FᵀH1, and ``mass`` is 1ᵀH1.

    ``rows`` is H^(1/2)F of the rows with curvature, if they are so few that no sums were formed. Factoring
    empties ``sums``: the sums of a node are freed once it is factored.
    """

    sums: list[NodeSums]
    mass: float
    rows: ActiveRows | None = None

    def scaled(self, factor: float) -> Curvature:
        """Return the curvature with H multiplied by a factor; the sums are overwritten."""
        for node in self.sums:
            for array in node.arrays:
                array *= factor
        rows = None if self.rows is None else self.rows.scaled(factor)
        return Curvature(self.sums, factor * self.mass, rows)

    @property
    def border(self) -> Float64Array:
        """FᵀH1, (R, 1)."""
        if self.rows is not None:
            return self.rows.transposed(self.rows.root[:, None])
        return np.concatenate([s.rhs for s in self.sums])


class _Drained(Sequence[NodeSums]):
    """Sums of the nodes, each read once and then dropped."""

    def __init__(self, sums: list[NodeSums]) -> None:
        self._left, self._count = dict(enumerate(sums)), len(sums)
        sums.clear()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, node: Any) -> Any:
        return self._left.pop(node)


def _factor_of_rows(rows: ActiveRows, alpha: float) -> Factor:
    """Return a solver of (SᵀS + alpha·I) x = r by (S Sᵀ + alpha·I)⁻¹, for S with fewer rows than columns.

    x = (r − Sᵀ (S Sᵀ + alpha·I)⁻¹ S r)/alpha. One step of refinement restores the digits lost in the
    difference.
    """
    with blas_for(len(rows)):
        small = rows.gram()
        small.flat[:: len(small) + 1] += alpha
        lower, _ = cholesky_lower(small, "the system S Sᵀ + alpha·I")
    rows = rows.precise()

    def once(right: Float64Array) -> Float64Array:
        inner = cho_solve(lower, rows.times(right))
        return np.asarray((right - rows.transposed(inner)) / alpha)

    def solve(right: Float64Array) -> tuple[Float64Array, Float64Array]:
        if not len(rows):
            lone = right / alpha
            return lone, lone
        x = once(right)
        x += once(right - rows.transposed(rows.times(x)) - alpha * x)
        return x, x

    return solve


def factored_by(
    forest: Forest, core: CoupledCore | None, alpha: float, engine: Engine
) -> Callable[[Curvature], Factor]:
    r"""Return a function that factors the Newton systems of nested bases, or of a core where there is one.

    For nested bases FᵀHF + alpha·I is eliminated. With a core C it factors A C + alpha·I for A = WᵀHW = TᵀT,
    to solve for v and β = C v:

        v = (r − Tᵀ (T C Tᵀ + alpha·I)⁻¹ T C r)/alpha (Woodbury)

    holds for every r, also outside the range of A: slopes may be nonzero on rows without curvature.
    """

    def eliminated(curvature: Curvature) -> Factor:
        if curvature.rows is not None:
            return _factor_of_rows(curvature.rows, alpha)
        factor = ArrowheadFactor(forest, _Drained(curvature.sums), alpha, engine)
        cuts = np.cumsum(forest.ranks)[:-1]

        def solve(right: Float64Array) -> tuple[Float64Array, Float64Array]:
            beta = np.concatenate(factor.solve(np.split(right, cuts)))
            return beta, beta

        return solve

    def coupled(curvature: Curvature) -> Factor:
        assert core is not None
        sums = _Drained(curvature.sums)
        system = CoupledSystem(
            [gram_factor(sums[node].gram)[0] for node in range(len(sums))], core, engine=engine
        )

        def solve(right: Float64Array) -> tuple[Float64Array, Float64Array]:
            inner = core.split(core.multiply(right))
            b = np.concatenate([t @ part for t, part in zip(system.factors, inner, strict=True)])
            dual = (right - system.expand(system.solve(b, alpha).value)) / alpha
            return core.multiply(dual), dual

        return solve

    return eliminated if core is None else coupled


class Bordered:
    """The Newton system with an intercept: [A + alpha·I, s; sᵀ, m] for s = FᵀH1, m = 1ᵀH1.

    The intercept's step is limited to ``reach``, which matters if few rows have curvature and m − sᵀ(A +
    alpha·I)⁻¹s is nearly 0. The other coefficients follow from the limited step, so that the quadratic model
    still decreases.
    """

    def __init__(
        self,
        factored: Callable[[Curvature], Factor],
        curvature: Curvature,
        *,
        intercept: bool,
        reach: float = np.inf,
    ) -> None:
        self._intercept, self._reach = intercept, reach
        if intercept:
            self._border = curvature.border  # before the sums are freed
        self._factor = factored(curvature)
        if intercept:
            self._beta, self._dual = self._factor(self._border)
            left = curvature.mass - float(np.vdot(self._border, self._beta))
            self._left = max(left, unit_roundoff(np.float64) * curvature.mass, np.finfo(np.float64).tiny)

    def solve(self, right: Float64Array, right_offset: Float64Array) -> NewtonPoint:
        """Return the step for right-hand sides (R, p) and (p,)."""
        beta, dual = self._factor(right)
        if not self._intercept:
            return NewtonPoint(beta, dual, np.zeros(right.shape[1]))
        with np.errstate(over="ignore"):
            offset = (right_offset - (self._border.T @ beta)[0]) / self._left
        offset = np.clip(offset, -self._reach, self._reach)
        shared = dual is beta
        beta = beta - self._beta * offset
        return NewtonPoint(beta, beta if shared else dual - self._dual * offset, offset)
