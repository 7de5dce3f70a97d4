"""Solves along one path of an arrowhead's factor, for variances and gradients of single rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from gramian._lapack import solve_triangular
from gramian._typing import Float64Array
from gramian.solvers.arrowhead import ArrowheadFactor, Forest, whiten_node


@dataclass(frozen=True)
class PathFactor:
    r"""The block Cholesky factor S = L Lᵀ of S = FᵀF + alpha·I, node by node.

    A row's features f are nonzero on its path from root to leaf only, and so is L⁻¹ f, because eliminating a
    node updates only its ancestors. Therefore f(x)ᵀ S⁻¹ f(y) = z(x)ᵀ z(y) with z = L⁻¹ f needs only the
    blocks of the path. Rows are given as features [root | … | node | …] and changed in place.

    ``lower[b]`` is L_b, and ``cross[b]`` is the block Y_b of Lᵀ between node b and its ancestors, as in
    :mod:`gramian.solvers.arrowhead`. Time O(path²) per row.
    """

    forest: Forest
    lower: tuple[Float64Array, ...]
    cross: tuple[Float64Array, ...]

    @classmethod
    def of(cls, factor: ArrowheadFactor) -> Self:
        """Return the blocks of a factor, without a copy."""
        lower, cross = factor.blocks
        return cls(factor.forest, lower, cross)

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks."""
        return sum(a.nbytes for a in (*self.lower, *self.cross))

    def forward(self, node: int, rows: Float64Array) -> None:
        """Replace a node's columns of the rows by z_b = L_b⁻¹ f_b; subtract Y_bᵀ z_b from its ancestors'."""
        whiten_node(self.lower[node], self.cross[node], rows)

    def backward(self, node: int, rows: Float64Array) -> None:
        """Replace the node's columns of the rows by x_b = L_b⁻ᵀ (z_b − Y_b x_ancestors)."""
        rank, start = self.cross[node].shape
        if not rank:
            return
        own = rows[:, start : start + rank]
        if start:
            own = own - rows[:, :start] @ self.cross[node].T
        rows[:, start : start + rank] = solve_triangular(self.lower[node], own.T, transposed=True).T

    def drawn(self, normal: Float64Array) -> list[Float64Array]:
        """Return L⁻ᵀ z for z of shape (R, draws), one (r_b, draws) array per node; normal z gives N(0, S⁻¹).

        Time O(Σ r_b (r_b + path)) per draw.
        """
        forest = self.forest
        out: list[Float64Array] = []
        offset = 0
        for node, rank in enumerate(forest.ranks):
            right = np.asarray(normal[offset : offset + rank], np.float64)
            offset += rank
            path = forest.path(node)
            if path and rank:
                right = np.subtract(right, self.cross[node] @ np.concatenate([out[a] for a in path]))
            out.append(solve_triangular(self.lower[node], right, transposed=True))
        return out
