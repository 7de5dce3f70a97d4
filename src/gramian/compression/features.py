"""The feature map of every approximation: nested Nyström bases, and a core on the last level.

A node's basis is w(x) = Vᵀ k(Z, x) − Pᵀ f(x), where f(x) are the features of its ancestors and
P = f(Z)ᵀ V. These are the Nyström features of the residual kernel: the kernel minus the part that the
ancestors explain. K̃(x, y) is the inner product of the features on the nodes that x and y share, or
w_s(x)ᵀ C_st w_t(y) where a core couples the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from gramian._typing import Array, FloatArray, IntArray, Rows
from gramian.compression.basis import Basis
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.kernels.columns import Columns
from gramian.landmarks.partition import Partition
from gramian.solvers.arrowhead import Forest
from gramian.solvers.core import CoupledCore

#: Rows of one unit: enough for a fast matrix product, few enough to keep features in cache. Chosen by hand.
UNIT_ROWS = 1024


@dataclass(frozen=True)
class Segment:
    """Consecutive rows of a unit that share a node."""

    node: int
    rows: slice


@dataclass(frozen=True)
class Unit:
    """Some rows of a chunk sorted by leaf, and for each level the segments of its nodes."""

    rows: IntArray
    levels: tuple[tuple[Segment, ...], ...]

    @property
    def segments(self) -> Iterator[Segment]:
        """Segments of all levels, from the root down."""
        return chain.from_iterable(self.levels)

    @property
    def upwards(self) -> Iterator[Segment]:
        """Segments of all levels, from the leaves up."""
        return chain.from_iterable(reversed(self.levels))


def units_by_leaf(labels: IntArray, leaf_levels: Array, unit_rows: int = UNIT_ROWS) -> Iterator[Unit]:
    """Cut a chunk into units of at most ``unit_rows`` rows, sorted by leaf.

    ``leaf_levels[l, b]`` is the node of level l above (or at) leaf b. The cut depends only on the labels, not
    on the number of threads, so that sums over units are the same for any engine.
    """
    # NumPy sorts numbers of 8 and 16 bits in linear time.
    order = np.argsort(labels.astype(np.min_scalar_type(leaf_levels.shape[1])), kind="stable")
    for start in range(0, len(order), unit_rows):
        rows = order[start : start + unit_rows]
        leaves = labels[rows]
        yield Unit(rows, tuple(_segments(nodes[leaves]) for nodes in leaf_levels))


def _segments(nodes: IntArray) -> tuple[Segment, ...]:
    cuts = np.flatnonzero(np.diff(nodes)) + 1
    bounds = [0, *cuts.tolist(), len(nodes)]
    return tuple(Segment(int(nodes[a]), slice(a, b)) for a, b in pairwise(bounds))


Result = TypeVar("Result")
#: Of each level a name, and the sizes of its blocks.
BlockSizes = Sequence[tuple[str, Sequence[int]]]
#: The note about negative eigenvalues of the kernel matrix: their sum, without its sign.
CLIPPED = "negative eigenvalues clipped"


@dataclass(frozen=True)
class FeatureMap:
    """Fitted approximation: a partition that routes rows, and bases (and a core) for their features."""

    kernel: Kernel
    partition: Partition
    forest: Forest
    nodes: tuple[Basis, ...]
    core: CoupledCore | None
    dtype: np.dtype[Any]
    #: Facts about the build for the report, such as a negative part that was clipped.
    notes: dict[str, float] = field(default_factory=dict)

    @classmethod
    def lone(
        cls,
        root: Basis,
        partition: Partition,
        kernel: Kernel,
        notes: Mapping[str, float] = MappingProxyType({}),
    ) -> FeatureMap:
        """Return the feature map whose only node is a global basis."""
        forest = forest_of(partition, [[root.rank]], root=True, blocks=False)
        return cls(kernel, partition, forest, (root,), None, root.columns.dtype, dict(notes))

    @classmethod
    def of_blocks(
        cls,
        bases: Sequence[Basis],
        core: CoupledCore | None,
        partition: Partition,
        kernel: Kernel,
        dtype: DTypeLike,
        notes: Mapping[str, float] = MappingProxyType({}),
    ) -> FeatureMap:
        """Return the feature map of one basis for each block, coupled by a core if there is one."""
        forest = forest_of(partition, [[b.rank for b in bases]], root=False)
        return cls(kernel, partition, forest, tuple(bases), core, np.dtype(dtype), dict(notes))

    def with_kernel(self, kernel: Kernel) -> FeatureMap:
        """Return the map with every basis bound to this kernel by :meth:`Basis.on`."""
        return replace(
            self,
            kernel=kernel,
            partition=self.partition.with_kernel(kernel),
            nodes=tuple(b.with_kernel(kernel) for b in self.nodes),
        )

    @cached_property
    def leaf_levels(self) -> Array:
        """Node above (or at) each leaf, with one row per level from the root down."""
        leaves = self.forest.levels[-1]
        paths = [(*self.forest.path(b), b) for b in range(leaves.start, leaves.stop)]
        return np.asarray(paths, np.intp).T.copy()

    @cached_property
    def path_ranks(self) -> tuple[int, ...]:
        """Number of features of a row in each leaf, including those of the leaf's ancestors."""
        leaves = self.forest.levels[-1]
        ranks = self.forest.ranks
        return tuple(self.forest.path_rank(b) + ranks[b] for b in range(leaves.start, leaves.stop))

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """First column of each node among the R features of the whole map."""
        return tuple(np.concatenate([[0], np.cumsum(self.forest.ranks)])[:-1].tolist())

    @property
    def rank(self) -> int:
        """R, the total number of features."""
        return self.forest.total_rank

    @property
    def nbytes(self) -> int:
        """Bytes of landmarks, whitening vectors and core."""
        return sum(n.nbytes for n in self.nodes) + (self.core.nbytes if self.core is not None else 0)

    @property
    def block_sizes(self) -> BlockSizes:
        """Ranks of the blocks of each level."""
        forest = self.forest
        return [(f"rank, level {i}", forest.ranks[level]) for i, level in enumerate(forest.levels)]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What one should know before trusting the map."""
        negative = self.notes.get(CLIPPED, 0.0)
        text = f"Negative eigenvalues of the kernel matrix, with sum {-negative:.3g}, were clipped to zero."
        return (text,) if negative else ()

    def unit_features(self, X: Rows, unit: Unit) -> FloatArray:
        """Return the features of a unit's rows along their paths, shape (rows, widest path).

        Row i holds its ancestors' features from the root down, then those of its leaf. Columns beyond its
        own path are zero.
        """
        features = np.zeros((len(unit.rows), max(self.path_ranks)), self.dtype)
        for segment in unit.segments:
            rows, own = segment.rows, self.forest.columns(segment.node)
            self.nodes[segment.node].write(X[rows], features[rows, : own.start], features[rows, own])
        return features

    def map_units(
        self,
        rows: Rows,
        work: Callable[[Unit, Rows, FloatArray], Result],
        engine: Engine,
        unit_rows: int = UNIT_ROWS,
    ) -> AbstractContextManager[Iterator[tuple[Unit, Result]]]:
        """Map work on a unit, its rows and their features over a chunk of rows, in the order of the units."""
        labels = self.partition.route(rows, engine)

        def task(unit: Unit) -> tuple[Unit, Result]:
            X = rows[unit.rows]
            return unit, work(unit, X, self.unit_features(X, unit))

        return engine.results(task, units_by_leaf(labels, self.leaf_levels, unit_rows))

    def map_source(
        self,
        source: RowSource,
        work: Callable[[IntArray, Unit, Rows, FloatArray], Result],
        *,
        chunk_rows: int,
        engine: Engine,
    ) -> Generator[Result, None, None]:
        """Yield work on (row numbers, unit, rows, path features) of each unit over all rows, in order.

        Close it where the loop may end early: tasks are under way while it waits.
        """
        for where, rows in row_blocks(source, chunk_rows):

            def task(unit: Unit, start: int = where.start, rows: Rows = rows) -> Result:
                X = rows[unit.rows]
                return work(start + unit.rows, unit, X, self.unit_features(X, unit))

            labels = self.partition.route(rows, engine)
            with engine.results(task, units_by_leaf(labels, self.leaf_levels)) as results:
                yield from results

    def leaf_blocks(
        self, source: RowSource, *, chunk_rows: int, engine: Engine
    ) -> Generator[tuple[IntArray, Unit, FloatArray], None, None]:
        """Yield (row numbers, unit, path features) of each unit over all rows: see :meth:`map_source`."""
        return self.map_source(
            source, lambda numbers, unit, _, F: (numbers, unit, F), chunk_rows=chunk_rows, engine=engine
        )


def forest_of(
    partition: Partition, ranks: Sequence[Sequence[int]], *, root: bool, blocks: bool = True
) -> Forest:
    """Return the forest of a partition's levels (``blocks``), below a root where ``root`` is true.

    ``ranks`` has one list per level, from the root (if there is one) down to the leaves.
    """
    levels = [*partition.ancestors, np.arange(partition.n_blocks)] if blocks else []
    if root:
        levels = [np.zeros(partition.n_blocks, np.intp), *levels]
    parents = []
    for above, below in pairwise(levels):
        first = np.unique(below, return_index=True)[1]
        parents.append([int(above[leaf]) for leaf in first])
    return Forest.from_levels(ranks, parents)


def difference(left: FeatureMap, right: FeatureMap) -> str | None:
    """Return the name of the first difference of two maps ("kernels", "landmarks", …), or None if equal.

    Maps with the same numbers give every row the same features, so their sums can be added. Time
    O(bytes of the map).
    """
    if left is right:
        return None
    if left.kernel != right.kernel:
        return f"the kernels ({left.kernel} and {right.kernel})"
    if left.dtype != right.dtype:
        return f"the tiles' types ({left.dtype.name} and {right.dtype.name})"
    if left.forest != right.forest:
        return (
            f"the ranks or numbers of blocks ({left.partition.n_blocks} blocks of total rank {left.rank}, "
            f"and {right.partition.n_blocks} of {right.rank})"
        )
    if not same_values(left.partition, right.partition):
        return "the partitions"
    for mine, its in zip(left.nodes, right.nodes, strict=True):
        if not same_values(mine.landmarks, its.landmarks):
            return "the landmarks"
        if not (same_values(mine.vectors, its.vectors) and same_values(mine.projection, its.projection)):
            return "the whitening vectors"
        if not same_values(mine.columns, its.columns):
            return "the random features"
    return None if _same_core(left.core, right.core) else "the cores"


def _same_core(left: CoupledCore | None, right: CoupledCore | None) -> bool:
    if left is None or right is None:
        return left is right
    return all(np.array_equal(left.row_strip(s), right.row_strip(s)) for s in range(len(left.ranks)))


def same_values(left: Any, right: Any) -> bool:
    """Tell whether two values have the same type and are equal, field by field and number by number.

    Arrays may lie in memory or in a memory map, in any order of their axes and bytes.
    """
    if left is right:
        return True
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype.newbyteorder("=") == right.dtype.newbyteorder("=") and np.array_equal(left, right)
    if type(left) is not type(right):
        return False
    if sp.issparse(left):
        parts = ("shape", "data", "indices", "indptr")
        return all(same_values(getattr(left, part), getattr(right, part)) for part in parts)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same_values, left, right))
    if isinstance(left, Columns) and not is_dataclass(left):
        return True  # columns follow from kernel and landmarks, which are compared on their own
    if is_dataclass(left):
        return all(
            same_values(getattr(left, f.name), getattr(right, f.name)) for f in fields(left) if f.compare
        )
    return bool(left == right)
