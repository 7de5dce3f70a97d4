"""Shallow tree of k-means clusters, which routes a row to one of c leaves with few distances.

Routing computes about levels · c^(1/levels) distances instead of c.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gramian._typing import IntArray, Rows
from gramian.landmarks.partition import fit_partition
from gramian.landmarks.routing import Partition

#: Clustering methods of :func:`gramian.landmarks.partition.fit_partition` that a tree can use.
METHODS = ("kmeans", "minibatch", "kcenters", "tree")


@dataclass(frozen=True, eq=False)
class CenterTree(Partition):
    """Partition in which a row goes to the nearest centre of the root, then on by that child's partition.

    root : partition into g blocks; children : a partition of each block, again a tree or a set of centres.
    Leaves are numbered child by child.
    """

    root: Partition
    children: tuple[Partition, ...]
    _starts: IntArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        sizes = [child.n_blocks for child in self.children]
        object.__setattr__(self, "_starts", np.cumsum([0, *sizes]))

    @property
    def ancestors(self) -> tuple[IntArray, ...]:  # type: ignore[override]
        """Number of the root's child that contains each leaf."""
        return (np.repeat(np.arange(len(self.children)), np.diff(self._starts)),)

    @property
    def n_blocks(self) -> int:
        """Number of leaves."""
        return int(self._starts[-1])

    def row_numbers(self, n_features: int) -> int:
        return max(part.row_numbers(n_features) for part in (self.root, *self.children))

    def route_tile(self, X: Rows) -> IntArray:
        at = self.root.route_tile(X)
        leaf = self._starts[at]
        order = np.argsort(at, kind="stable")
        cuts = np.searchsorted(at[order], np.arange(len(self.children) + 1))
        for child, first, last in zip(self.children, cuts[:-1], cuts[1:], strict=True):
            if child.n_blocks > 1 and last > first:
                rows = order[first:last]
                leaf[rows] += child.route_tile(X[rows])
        return leaf


def fit_tree(rows: Rows, n_leaves: int, *, n_levels: int, method: str, rng: np.random.Generator) -> Partition:
    """Fit a tree of about ``n_leaves`` leaves on rows (n, d), clustered level by level.

    A node that needs k leaves with l levels left is cut into ⌈k^(1/l)⌉ clusters. These share the k leaves in
    proportion to their rows. ``method="tree"`` and ``n_levels=1`` return a partition of
    :func:`gramian.landmarks.partition.fit_partition` as it is. Repeated rows give fewer leaves.
    Time O(n d k^(1/l)) a round of k-means and level. Source: DC-Pred++, Algorithm 2, line 1.

    >>> rows = np.random.default_rng(0).random((300, 2))
    >>> tree = fit_tree(rows, 9, n_levels=2, method="kmeans", rng=np.random.default_rng(0))
    >>> tree.n_blocks, len(tree.root.centers)
    (9, 3)
    """
    if n_levels <= 1 or method == "tree" or n_leaves < 4:
        return fit_partition(rows, n_leaves, method=method, rng=rng)
    branches = int(np.ceil(round(n_leaves ** (1.0 / n_levels), 6)))
    root = fit_partition(rows, branches, method=method, rng=rng)
    at = root.route(rows)
    shares = _shares(np.bincount(at, minlength=root.n_blocks), n_leaves)
    children = tuple(
        fit_tree(rows[np.flatnonzero(at == g)], int(k), n_levels=n_levels - 1, method=method, rng=rng)
        for g, k in enumerate(shares)
    )
    return CenterTree(root, children)


def _shares(sizes: IntArray, target: int) -> IntArray:
    """Divide ``target`` leaves in proportion to the sizes, at least one each, by largest remainders."""
    ideal = sizes * (target / sizes.sum())
    parts = np.maximum(np.floor(ideal).astype(np.intp), 1)
    missing = target - int(parts.sum())
    if missing > 0:
        parts[np.argsort(parts - ideal, kind="stable")[:missing]] += 1
    return np.minimum(parts, np.maximum(sizes, 1))


def router_bytes(partition: Partition) -> int:
    """Return the bytes of the arrays of a partition and of those inside it."""
    size = 0
    for value in vars(partition).values():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Partition):
                size += router_bytes(part)
            elif isinstance(part, np.ndarray):
                size += part.nbytes
    return size
