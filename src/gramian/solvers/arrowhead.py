r"""Exact algebra of K̃ + alpha·I for nested block bases with an identity core.

F = [F₀ | F₁ | …] has one group of columns per node of a forest: the root's columns live on all rows, a
child's on its block of the rows, so FᵀF is zero except between a node and its ancestors. Eliminating
nodes from the leaves up fills nothing in:

    node b with path p = (root … parent):   L_b L_bᵀ = D_b + alpha·I,   Y_b = L_b⁻¹ [E_bp | b_b],
    every pair of ancestors and the right-hand side on the path:  −= Y_bᵀ Y_b.

With two levels this is the Schur complement of the arrowhead's corner (DESIGN's r₀ and r_s), time
O(r₀³ + Σ r_s³ + r₀² Σ r_s), memory O(r₀² + Σ r₀ r_s + Σ r_s²).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from gramian._numerics import cholesky_lower
from gramian._typing import Float64Array
from gramian.engine import Engine


@dataclass(frozen=True)
class Forest:
    """Which node hangs under which, and how many columns each has.

    Nodes are numbered level by level from the roots (so that a parent comes before its children);
    ``parent[b]`` is −1 for a root. ``levels`` is the slice of node numbers of each level.
    """

    parent: tuple[int, ...]
    ranks: tuple[int, ...]
    levels: tuple[slice, ...]

    @classmethod
    def from_levels(
        cls, ranks: Sequence[Sequence[int]], parents: Sequence[Sequence[int]]
    ) -> Forest:
        """Build from ranks per level and, for each level after the first, parents in the level above."""
        parent: list[int] = [-1] * len(ranks[0])
        levels = [slice(0, len(ranks[0]))]
        for level_ranks, level_parents in zip(ranks[1:], parents, strict=True):
            start = levels[-1].stop
            parent += [levels[-1].start + int(p) for p in level_parents]
            levels.append(slice(start, start + len(level_ranks)))
        flat = tuple(int(r) for level in ranks for r in level)
        return cls(tuple(parent), flat, tuple(levels))

    def path(self, node: int) -> tuple[int, ...]:
        """Ancestors of a node from the root to its parent."""
        steps: list[int] = []
        node = self.parent[node]
        while node >= 0:
            steps.append(node)
            node = self.parent[node]
        return tuple(reversed(steps))

    def path_rank(self, node: int) -> int:
        """Columns of all ancestors together."""
        return sum(self.ranks[a] for a in self.path(node))

    @property
    def total_rank(self) -> int:
        """R, the columns of all nodes."""
        return sum(self.ranks)


@dataclass
class NodeSums:
    """Sums over the rows of one node: D = WᵀW, E = Wᵀ[ancestors' columns], b = Wᵀy."""

    gram: Float64Array  #: (r, r)
    cross: Float64Array  #: (r, ranks of the path)
    rhs: Float64Array  #: (r, outputs)

    @classmethod
    def zeros(cls, forest: Forest, node: int, n_outputs: int) -> NodeSums:
        """Return empty sums of the right shapes."""
        r = forest.ranks[node]
        return cls(np.zeros((r, r)), np.zeros((r, forest.path_rank(node))), np.zeros((r, n_outputs)))

    @property
    def nbytes(self) -> int:
        """Bytes of the three arrays."""
        return self.gram.nbytes + self.cross.nbytes + self.rhs.nbytes


@dataclass(frozen=True)
class _Eliminated:
    lower: Float64Array
    cross: Float64Array  # Y_b restricted to the path


class ArrowheadFactor:
    """Block Cholesky factor of FᵀF + alpha·I in the order leaves to roots.

    ``jitter`` is what the factorisation had to add to a diagonal (0.0 as a rule), ``logdet`` is
    log det(FᵀF + alpha·I).
    """

    def __init__(
        self, forest: Forest, sums: Sequence[NodeSums], alpha: float, engine: Engine | None = None
    ) -> None:
        self._forest = forest
        self._engine = engine or Engine(1)
        self.alpha = float(alpha)
        self.jitter = 0.0
        self._nodes: list[_Eliminated] = [None] * len(sums)  # type: ignore[list-item]
        grams: list[Float64Array | None] = [None] * len(sums)
        crosses: list[Float64Array | None] = [None] * len(sums)
        for level in reversed(forest.levels):
            nodes = range(level.start, level.stop)

            def eliminate(node: int) -> tuple[_Eliminated, float, Float64Array | None]:
                gram = sums[node].gram if grams[node] is None else grams[node]
                cross = sums[node].cross if crosses[node] is None else crosses[node]
                assert gram is not None
                assert cross is not None
                shifted = gram.copy()
                shifted.flat[:: len(gram) + 1] += self.alpha
                lower, jitter = cholesky_lower(shifted, "the system FᵀF + alpha·I")
                solved = la.solve_triangular(lower, cross, lower=True, check_finite=False)
                update = solved.T @ solved if cross.shape[1] else None
                return _Eliminated(lower, solved), jitter, update

            for node, (done, jitter, update) in zip(
                nodes, self._engine.map(eliminate, nodes), strict=True
            ):
                self._nodes[node] = done
                self.jitter = max(self.jitter, jitter)
                if update is not None:
                    self._subtract(node, update, sums, grams, crosses)

    def _subtract(
        self,
        node: int,
        update: Float64Array,
        sums: Sequence[NodeSums],
        grams: list[Float64Array | None],
        crosses: list[Float64Array | None],
    ) -> None:
        # Rows of the update that belong to ancestor a hold its gram and its cross with a's path.
        start = 0
        for ancestor in self._forest.path(node):
            rows = slice(start, start + self._forest.ranks[ancestor])
            if grams[ancestor] is None:
                grams[ancestor] = sums[ancestor].gram.copy()
                crosses[ancestor] = sums[ancestor].cross.copy()
            grams[ancestor] -= update[rows, rows]  # type: ignore[operator]
            crosses[ancestor] -= update[rows, :start]  # type: ignore[operator]
            start = rows.stop

    @property
    def logdet(self) -> float:
        """Log determinant of FᵀF + alpha·I."""
        return float(sum(2.0 * np.log(np.diag(n.lower)).sum() for n in self._nodes))

    @property
    def nbytes(self) -> int:
        """Bytes of the factor."""
        return sum(n.lower.nbytes + n.cross.nbytes for n in self._nodes)

    def solve(self, rhs: Sequence[Float64Array]) -> list[Float64Array]:
        """Solve (FᵀF + alpha·I) β = rhs, both as one (r_b, outputs) array per node."""
        forest = self._forest
        right = [np.array(r, np.float64) for r in rhs]
        for level in reversed(forest.levels):
            for node in range(level.start, level.stop):
                done = self._nodes[node]
                right[node] = la.solve_triangular(
                    done.lower, right[node], lower=True, check_finite=False
                )
                if done.cross.shape[1]:
                    update, start = done.cross.T @ right[node], 0
                    for ancestor in forest.path(node):
                        stop = start + forest.ranks[ancestor]
                        right[ancestor] -= update[start:stop]
                        start = stop
        for node in range(len(right)):
            done = self._nodes[node]
            value = right[node]
            if done.cross.shape[1]:
                above = np.concatenate([right[a] for a in forest.path(node)])
                value = value - done.cross @ above
            right[node] = la.solve_triangular(
                done.lower, value, lower=True, trans="T", check_finite=False
            )
        return right


def multiply(
    forest: Forest, sums: Sequence[NodeSums], beta: Sequence[Float64Array], alpha: float
) -> list[Float64Array]:
    """Return (FᵀF + alpha·I) β, for the residual of a solution."""
    out = [alpha * b for b in beta]
    for node, s in enumerate(sums):
        out[node] += s.gram @ beta[node]
        path = forest.path(node)
        if path:
            out[node] += s.cross @ np.concatenate([beta[a] for a in path])
            start = 0
            for ancestor in path:
                stop = start + forest.ranks[ancestor]
                out[ancestor] += s.cross[:, start:stop].T @ beta[node]
                start = stop
    return out
