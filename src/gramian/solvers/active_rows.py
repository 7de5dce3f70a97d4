"""Normal equations of few rows: S = H^(1/2)F kept as rows, where their number is below the rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gramian._typing import Float64Array, FloatArray, IntArray
from gramian.solvers.arrowhead import Forest, NodeSums


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
        found = []
        for level in self.nodes:
            order = np.argsort(level, kind="stable")
            cuts = np.flatnonzero(np.diff(level[order])) + 1
            for which in np.split(order, cuts):
                if len(which):
                    node = int(level[which[0]])
                    own = self.path[:, self.forest.columns(node)]
                    found.append((node, which, own if len(which) == len(self) else own[which]))
        return found
