r"""Exact algebra of K̃ + alpha·I for nested block bases with an identity core.

F = [F₀ | F₁ | …] has one group of columns per node of a forest. The root's columns are nonzero on all rows, a
child's on its block of the rows, so FᵀF is zero except between a node and its ancestors. Eliminating nodes
from the leaves up creates no new nonzeros:

    node b with path p = (root … parent):   L_b L_bᵀ = D_b + alpha·I,   Y_b = L_b⁻¹ [E_bp | b_b],
    every pair of ancestors and the right-hand side on the path:  −= Y_bᵀ Y_b.

With two levels this is the Schur complement of the arrowhead's corner (ranks r₀ and r_s), time
O(r₀³ + Σ r_s³ + r₀² Σ r_s), memory O(r₀² + Σ r₀ r_s + Σ r_s²).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gramian._checks import positive_alpha
from gramian._lapack import solve_triangular
from gramian._numerics import cholesky_lower
from gramian._typing import Float64Array
from gramian.engine import Engine
from gramian.exceptions import InputError

#: Arrays of a node on itself and against its path: L_b and Y_b, or updates Σ Y_bᵀY_b of its descendants.
Pair = tuple[Float64Array, Float64Array]


@dataclass(frozen=True)
class Forest:
    """Tree structure of the nodes: the parent of each node and its number of columns.

    Nodes are numbered level by level from the roots, so that a parent comes before its children.
    ``parent[b]`` is −1 for a root. ``levels`` has the slice of node numbers of each level.
    """

    parent: tuple[int, ...]
    ranks: tuple[int, ...]
    levels: tuple[slice, ...]

    @classmethod
    def from_levels(cls, ranks: Sequence[Sequence[int]], parents: Sequence[Sequence[int]]) -> Forest:
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
        """Return the ancestors of a node, from the root to its parent."""
        steps: list[int] = []
        node = self.parent[node]
        while node >= 0:
            steps.append(node)
            node = self.parent[node]
        return tuple(reversed(steps))

    def path_rank(self, node: int) -> int:
        """Return the number of columns of all ancestors."""
        return sum(self.ranks[a] for a in self.path(node))

    def columns(self, node: int) -> slice:
        """Return the places of a node's columns among those of its path from the root."""
        start = self.path_rank(node)
        return slice(start, start + self.ranks[node])

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

    @classmethod
    def zeros_of(cls, forest: Forest, n_outputs: int) -> list[NodeSums]:
        """Return empty sums of every node."""
        return [cls.zeros(forest, node, n_outputs) for node in range(len(forest.ranks))]

    @property
    def arrays(self) -> tuple[Float64Array, Float64Array, Float64Array]:
        """The three arrays themselves."""
        return self.gram, self.cross, self.rhs

    def add(self, other: NodeSums) -> None:
        """Add the sums over other rows, in place."""
        for own, new in zip(self.arrays, other.arrays, strict=True):
            own += new

    @property
    def nbytes(self) -> int:
        """Bytes of the three arrays."""
        return self.gram.nbytes + self.cross.nbytes + self.rhs.nbytes


@dataclass(frozen=True)
class PathFactor:
    r"""The block Cholesky factor S = L Lᵀ of S = FᵀF + alpha·I, node by node.

    A row's features f are nonzero on its path from root to leaf only, and so is L⁻¹ f, because eliminating a
    node updates only its ancestors. Therefore f(x)ᵀ S⁻¹ f(y) = z(x)ᵀ z(y) with z = L⁻¹ f needs only the
    blocks of the path. Rows are given as features [root | … | node | …] and changed in place.

    ``lower[b]`` is L_b, and ``cross[b]`` is the block Y_b of Lᵀ between node b and its ancestors. Time
    O(path²) per row.
    """

    forest: Forest
    lower: tuple[Float64Array, ...]
    cross: tuple[Float64Array, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks."""
        return sum(a.nbytes for a in (*self.lower, *self.cross))

    @property
    def logdet(self) -> float:
        """Log determinant of S."""
        return float(sum(2.0 * np.log(np.diag(lower)).sum() for lower in self.lower))

    def forward(self, node: int, rows: Float64Array) -> None:
        """Replace a node's columns of the rows by z_b = L_b⁻¹ f_b; subtract Y_bᵀ z_b from its ancestors'."""
        lower, cross = self.lower[node], self.cross[node]
        start = cross.shape[1]
        own = rows[:, start : start + len(lower)]
        own[:] = solve_triangular(lower, own.T).T
        if start:
            rows[:, :start] -= own @ cross

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


class ArrowheadFactor:
    """Block Cholesky factor of FᵀF + alpha·I in the order leaves to roots.

    Parameters
    ----------
    forest : Forest
        The nodes and their ranks.
    sums : sequence of NodeSums
        One per node. ``sums[node]`` is read exactly once, from the last level up, with siblings in parallel
        on the engine's threads. A sequence that computes its items on demand therefore never has more than a
        few of them in memory. Nothing is written to them.
    alpha : float
        Ridge penalty, > 0.
    engine : Engine, optional
        Threads for the nodes of one level; serial by default.

    ``jitter`` is the amount that the factorisation had to add to a diagonal (usually 0.0), ``blocks`` are the
    factor's, with log det(FᵀF + alpha·I).

    Cost: time O(Σ r_b (r_b + p_b)²) with p_b the columns above node b. Memory: the factor, the accumulated
    update of every inner node whose children are not all done, and for each running task one copy of a Gram
    matrix and one p_b × p_b update.

    Examples
    --------
    >>> import numpy as np
    >>> forest = Forest.from_levels([[1], [1, 1]], [[0, 0]])
    >>> one = NodeSums(np.array([[1.0]]), np.array([[1.0]]), np.zeros((1, 0)))
    >>> root = NodeSums(np.array([[2.0]]), np.zeros((1, 0)), np.zeros((1, 0)))
    >>> factor = ArrowheadFactor(forest, [root, one, one], alpha=1.0)
    >>> round(float(np.exp(factor.blocks.logdet)), 6)  # of [[3, 1, 1], [1, 2, 0], [1, 0, 2]]
    8.0
    """

    def __init__(
        self, forest: Forest, sums: Sequence[NodeSums], alpha: float, engine: Engine | None = None
    ) -> None:
        if len(sums) != len(forest.ranks):
            raise InputError(
                f"sums has {len(sums)} nodes, but the forest has {len(forest.ranks)}. Pass one "
                "NodeSums per node, in the forest's order."
            )
        self._engine = engine or Engine(1)
        self.alpha = positive_alpha(alpha)
        self.jitter = 0.0
        nodes: dict[int, Pair] = {}
        updates: dict[int, Pair] = {}
        for level in reversed(forest.levels):
            groups = _sibling_groups(forest, level)

            def eliminate(group: range) -> tuple[list[Pair], float, Float64Array | None]:
                return _eliminate_siblings(forest, group, sums, updates, self.alpha)

            with self._engine.results(eliminate, groups) as results:
                for group, (done, jitter, update) in zip(groups, results, strict=True):
                    nodes.update(zip(group, done, strict=True))
                    self.jitter = max(self.jitter, jitter)
                    if update is not None:
                        _accumulate(forest, group.start, update, updates)
        ordered = [nodes[node] for node in range(len(sums))]
        self.blocks = PathFactor(
            forest, tuple(each[0] for each in ordered), tuple(each[1] for each in ordered)
        )

    def solve(self, rhs: Sequence[Float64Array]) -> list[Float64Array]:
        """Solve (FᵀF + alpha·I) β = rhs, both as one (r_b, outputs) array per node."""
        forest, lower, cross = self.blocks.forest, self.blocks.lower, self.blocks.cross
        right = [np.array(r, np.float64) for r in rhs]

        def forward(node: int) -> Float64Array | None:
            right[node] = solve_triangular(lower[node], right[node])
            return cross[node].T @ right[node] if cross[node].size else None

        def backward(node: int) -> None:
            if cross[node].size:
                above = np.concatenate([right[a] for a in forest.path(node)])
                right[node] -= cross[node] @ above
            right[node] = solve_triangular(lower[node], right[node], transposed=True)

        for level in reversed(forest.levels):
            nodes = range(level.start, level.stop)
            with self._engine.results(forward, nodes) as updates:
                for node, update in zip(nodes, updates, strict=True):
                    if update is not None:
                        for ancestor in forest.path(node):
                            right[ancestor] -= update[forest.columns(ancestor)]
        for level in forest.levels:
            self._engine.run(backward, range(level.start, level.stop))
        return right


def _sibling_groups(forest: Forest, level: slice) -> list[range]:
    """Cut a level into runs of siblings that are eliminated as one task.

    One stacked update per group, with about as many rows as the path has columns, costs a third less than one
    update per node. A group has at most a sixteenth of the level, so that all threads have work. The cut
    depends on the forest only. Both numbers were found by hand.
    """
    most = max(1, (level.stop - level.start) // 16)
    groups: list[range] = []
    start, columns = level.start, 0
    for node in range(level.start, level.stop):
        new_parent = forest.parent[node] != forest.parent[start]
        if node > start and (new_parent or node - start >= most or columns >= forest.path_rank(node)):
            groups.append(range(start, node))
            start, columns = node, 0
        columns += forest.ranks[node]
    if level.stop > start:
        groups.append(range(start, level.stop))
    return groups


def _eliminate_siblings(
    forest: Forest, group: range, sums: Sequence[NodeSums], updates: dict[int, Pair], alpha: float
) -> tuple[list[Pair], float, Float64Array | None]:
    """Factor the nodes of one parent; return also the jitter and Σ Y_bᵀY_b for their ancestors."""
    width = forest.path_rank(group.start)
    stacked = np.empty((sum(forest.ranks[b] for b in group), width))
    done: list[Pair] = []
    start, worst = 0, 0.0
    for node in group:
        # No sibling is an ancestor of another, so each task pops only its own entries.
        own, update = sums[node], updates.pop(node, None)
        solved = stacked[start : start + forest.ranks[node]]
        start += forest.ranks[node]
        if update is None:
            shifted, solved[:] = own.gram.copy(), own.cross
        else:
            shifted = np.subtract(own.gram, update[0], out=update[0])
            np.subtract(own.cross, update[1], out=solved)
        lower = shifted
        if len(shifted):
            shifted.flat[:: len(shifted) + 1] += alpha
            lower, jitter = cholesky_lower(shifted, "the system FᵀF + alpha·I")
            worst = max(worst, jitter)
            if width:
                solve_triangular(lower, solved, overwrite=True)
        done.append((lower, solved))
    # NumPy computes AᵀA by BLAS syrk, at half the cost of a general product.
    return done, worst, stacked.T @ stacked if stacked.size else None


def _accumulate(forest: Forest, node: int, update: Float64Array, updates: dict[int, Pair]) -> None:
    """Add a group's update to the updates of its ancestors; ``node`` is any node of the group."""
    # The rows of ancestor a hold the update of its gram and of its cross with its own path.
    for ancestor in forest.path(node):
        own = forest.columns(ancestor)
        gram, cross = update[own, own], update[own, : own.start]
        if ancestor in updates:
            for sums, new in zip(updates[ancestor], (gram, cross), strict=True):
                sums += new
        else:
            updates[ancestor] = gram.copy(), cross.copy()


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
            for ancestor in path:
                out[ancestor] += s.cross[:, forest.columns(ancestor)].T @ beta[node]
    return out
