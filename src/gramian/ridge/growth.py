"""Growth of a stream's feature map: new blocks for rows that it does not represent."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._random import children
from gramian._typing import Array, Float64Array, IntArray, Rows
from gramian.approximations.multiresolution import MultiResolutionBuilder
from gramian.compression.basis import Basis
from gramian.compression.builder import Builder, BuildSettings, PrebuiltBuilder, block_members, sizes_of
from gramian.compression.features import FeatureMap
from gramian.compression.plan import Plan
from gramian.compression.residual import Residual
from gramian.data.floats import as_float
from gramian.data.source import RowSource, as_source, row_blocks, sample_rows
from gramian.engine import Engine, Run
from gramian.exceptions import InputError
from gramian.kernels.precomputed import Precomputed
from gramian.landmarks.partition import SAMPLE_ROWS, CenterPartition, fit_partition
from gramian.solvers.arrowhead import Forest

#: Fraction of the first rows that the map must represent better than the threshold.
KNOWN_SHARE = 0.95
#: Number of first rows that the threshold is set from.
LOOKED_AT = 2_000
#: Residual share below which a row never counts as new territory. At 1 % a Gaussian process with this kernel
#: leaves a tenth of the target's standard deviation unexplained.
LEAST_THRESHOLD = 0.01
#: Rows of new territory that a new block needs, per rank of a block.
ROWS_PER_RANK = 2
#: Fraction of the memory budget that rows of new territory may take.
WAITING_PART = 1 / 16


@dataclass(frozen=True)
class MapCoverage:
    """Rows that a map represents badly, kept until there are enough for new blocks.

    At most ``most_rows`` are kept, as a uniform sample: those with the smallest random keys.
    """

    threshold: float  #: residual share (k(x, x) − ‖f(x)‖²)/k(x, x) above which a row is badly represented
    rows_per_leaf: int  #: rows of a block, as of the first rows
    most_rows: int
    rng: np.random.Generator
    rows: Rows | None = None
    keys: Float64Array | None = None
    n_new: int = 0  #: badly represented rows since the last growth, kept or not
    ended_at: int = 0  #: the memory budget that held no further block; 0 before

    @classmethod
    def of_map(cls, features: FeatureMap, plan: Plan, source: RowSource, run: Run) -> MapCoverage:
        """Return the coverage of a map by the rows that its plan was made from, the first of a stream.

        The threshold is twice the residual share q that 95 % of the first rows do not exceed, but at least
        1 % and at most halfway from q to 1. It is 1 % for a map that was not built from these rows.
        """
        rng, known = deepcopy(run.rng), 0.0
        if not isinstance(plan.builder, PrebuiltBuilder):
            rows, _ = sample_rows(source, LOOKED_AT, rng)
            known = float(np.quantile(residual_shares(features, rows, run.engine), KNOWN_SHARE))
        needed = ROWS_PER_RANK * growing_sizes(features, sizes_of(plan.builder)).rank
        n, d = source.shape
        most = int(plan.memory_budget * WAITING_PART) // (d * source.dtype.itemsize)
        return cls(
            threshold=max(LEAST_THRESHOLD, min(2.0 * known, (1.0 + known) / 2.0)),
            rows_per_leaf=max(needed, n // features.partition.n_blocks),
            most_rows=int(np.clip(most, needed, max(needed, SAMPLE_ROWS))),
            rng=rng,
        )

    @property
    def n_rows(self) -> int:
        """Rows that are kept."""
        return 0 if self.rows is None else int(self.rows.shape[0])

    def with_badly_represented(
        self, features: FeatureMap, source: RowSource, weights: Array | None, chunk_rows: int, engine: Engine
    ) -> MapCoverage:
        """Return the coverage with the rows that the map represents badly and whose weight is not 0.

        One pass; time O(n (m d + m r + r²)).
        """
        coverage = replace(self, rng=deepcopy(self.rng))
        for where, rows in row_blocks(source, chunk_rows):
            new = residual_shares(features, rows, engine) > self.threshold
            if weights is not None:
                new &= weights[where] > 0
            if new.any():
                picked = rows[np.flatnonzero(new)]
                count = int(picked.shape[0])
                coverage = coverage.with_rows(picked, coverage.rng.random((count,)), count)
        return coverage

    def joined(self, other: MapCoverage) -> MapCoverage:
        """Return the coverage with the rows that another one keeps."""
        if other.rows is None or other.keys is None:
            return self
        return self.with_rows(other.rows, other.keys, other.n_new)

    def cleared(self) -> MapCoverage:
        """Return the coverage without rows, once blocks were made from them."""
        return replace(self, rows=None, keys=None, n_new=0)

    def leaves(self, sizes: MultiResolutionBuilder) -> tuple[int, int]:
        """Return how many blocks to try, as dense as the first ones, and the most that the rows allow.

        Both are 0 if the rows should wait for more.
        """
        most = self.n_rows // (ROWS_PER_RANK * sizes.rank)
        return min(most, max(1, self.n_new // self.rows_per_leaf)), most

    def settled(self, features: FeatureMap, engine: Engine) -> bool:
        """Return whether a map represents nearly all of the rows."""
        assert self.rows is not None
        return float(np.mean(residual_shares(features, self.rows, engine) <= self.threshold)) >= KNOWN_SHARE

    def with_rows(self, rows: Rows, keys: Float64Array, count: int) -> MapCoverage:
        """Return the coverage with more rows of these keys, ``count`` of them since the last growth."""
        if self.rows is not None and self.keys is not None:
            stack: Any = sp.vstack if sp.issparse(rows) else np.concatenate
            rows, keys = stack([self.rows, rows]), np.concatenate([self.keys, keys])
            rows = rows.tocsr() if sp.issparse(rows) else rows
        if len(keys) > self.most_rows:
            kept = np.sort(np.argpartition(keys, self.most_rows)[: self.most_rows])
            rows, keys = rows[kept], keys[kept]
        return replace(self, rows=rows, keys=keys, n_new=self.n_new + count)


def growable(features: FeatureMap, sizes: Builder) -> bool:
    """Return whether blocks can be added: the map has a root and one level of blocks, by nearest centre."""
    return (
        isinstance(sizes, MultiResolutionBuilder)
        and sizes.n_levels == 2
        and len(features.forest.levels) == 2
        and isinstance(features.partition, CenterPartition)
        and not isinstance(features.kernel, Precomputed)
    )


def growing_sizes(features: FeatureMap, sizes: Builder) -> MultiResolutionBuilder:
    """Return the builder that makes further blocks; raise if the map cannot grow."""
    if not growable(features, sizes) or not isinstance(sizes, MultiResolutionBuilder):
        raise InputError(
            f"grow_landmarks=True adds blocks below a root, but this map is of method {sizes.method!r} with "
            f"{len(features.forest.levels)} level(s) and a {type(features.partition).__name__}. Start the "
            "stream with approximation=gramian.MultiResolution() ('auto' takes the root alone for few first "
            "rows, or a smooth kernel)."
        )
    return sizes


def residual_shares(features: FeatureMap, rows: Rows, engine: Engine) -> Float64Array:
    """Return (k(x, x) − ‖f(x)‖²)/k(x, x) of each row, 0 where k(x, x) is 0."""
    left = Residual(features, as_source(rows), engine, rows.shape[0]).leftover()
    positive = left.kernel > 0
    shares: Float64Array = np.where(positive, left.final, 0.0) / np.where(positive, left.kernel, 1.0)
    return shares


def settled_map(
    features: FeatureMap,
    sizes: MultiResolutionBuilder,
    coverage: MapCoverage,
    first: int,
    most: int,
    engine: Engine,
) -> tuple[FeatureMap, bool]:
    """Return the map with so many further blocks that nearly all kept rows are represented.

    ``first`` blocks, doubled until 95 % of the rows are under the threshold, at most ``most``; and whether
    they are.
    """
    assert coverage.rows is not None
    count = first
    while True:
        grown = with_blocks(features, sizes, coverage.rows, count, coverage.rng, engine)
        settled = coverage.settled(grown, engine)
        if settled or count >= most:
            return grown, settled
        count = min(2 * count, most)


def with_blocks(
    features: FeatureMap,
    sizes: MultiResolutionBuilder,
    rows: Rows,
    n_leaves: int,
    rng: np.random.Generator,
    engine: Engine,
) -> FeatureMap:
    """Return the map with about ``n_leaves`` further blocks, on these rows.

    Their centres are added to the existing ones; their bases are Nyström bases of the kernel's residual after
    the root. Existing nodes do not change and keep their numbers. Time O(Σ (m³ + m r R_path)).
    """
    partition, root = features.partition, features.nodes[0]
    assert isinstance(partition, CenterPartition)
    known = partition.n_blocks
    sample = as_float(rows, features.dtype, features.kernel)
    new = fit_partition(sample, n_leaves, method=sizes.partition, rng=rng, kernel=features.kernel)
    assert isinstance(new, CenterPartition)
    joined, labels = _joined(partition, new, sample, engine)
    members = block_members(labels, joined.n_blocks)[known:]
    tasks = list(zip(members, children(rng, len(members)), strict=True))

    def build(task: tuple[IntArray, np.random.Generator]) -> Basis:
        chosen, stream = task
        settings = BuildSettings(features.kernel, features.dtype, stream, engine)
        return sizes.block_basis(sample[chosen], settings, root)

    bases = tuple(engine.map(build, tasks))
    above, leaves = features.forest.levels
    forest = Forest(
        (*features.forest.parent, *(0 for _ in bases)),
        (*features.forest.ranks, *(basis.rank for basis in bases)),
        (above, slice(leaves.start, leaves.stop + len(bases))),
    )
    return FeatureMap(
        features.kernel, joined, forest, (*features.nodes, *bases), None, features.dtype, features.notes
    )


def _joined(
    old: CenterPartition, new: CenterPartition, rows: Rows, engine: Engine
) -> tuple[CenterPartition, IntArray]:
    """Return a partition with the old centres and those new ones that rows are nearest to, and the blocks."""
    centers = new.centers.astype(old.centers.dtype)
    while True:
        both = CenterPartition(np.concatenate([old.centers, centers]))
        labels = both.route(rows, engine)
        met = np.bincount(labels, minlength=both.n_blocks)[old.n_blocks :] > 0
        if met.all():
            return both, labels
        centers = centers[met]
