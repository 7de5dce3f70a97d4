"""Base class of builders: sizes in, a :class:`FeatureMap` out, made from one sample of the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from gramian._typing import Array, IntArray, Rows
from gramian.compression.features import FeatureMap
from gramian.data.floats import as_float
from gramian.data.source import RowSource, sample_rows
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel
from gramian.landmarks.partition import SAMPLE_ROWS, Partition, fit_partition
from gramian.landmarks.rules import ROWS_PER_LANDMARK, Landmarks, select_landmarks

#: Rows that a pass reads at once where no plan says so.
CHUNK_ROWS = 65_536


class Builder(ABC):
    """A method with its sizes. Subclasses are frozen dataclasses with these fields.

    ``method`` is the name that ``approximation=`` takes, ``partition`` the clustering rule; the properties
    say how large the result will be at most, which is what the plan needs. Their defaults are those of a
    method without blocks.
    """

    method: ClassVar[str]
    #: Whether a sample of narrow integers stays as it is stored until a block's landmarks are chosen.
    stored_sample: ClassVar[bool] = False
    partition: str = "kmeans"

    @property
    def n_leaves(self) -> int:
        """Leaf blocks that are asked for."""
        return 1

    @property
    def nested_levels(self) -> int:
        """Levels of the partition."""
        return 1

    @property
    def landmarks_per_block(self) -> int:
        """Landmarks of a block before its number of rows bounds them; 0 without blocks."""
        return 0

    @property
    def block_rank(self) -> int:
        """Bound on the rank of a block; 0 without blocks."""
        return 0

    @property
    def root_landmarks(self) -> int:
        """Landmarks of the global basis; 0 without one."""
        return 0

    @property
    def root_columns(self) -> int:
        """Bound on the rank of the global basis."""
        return self.root_landmarks

    @property
    def coupled(self) -> bool:
        """Whether a core couples the blocks."""
        return False

    @property
    def definite(self) -> bool:
        """Whether the core is positive semi-definite by construction."""
        return True

    @property
    def remedy(self) -> str:
        """What makes the model smaller, for the error of a budget that is too small."""
        return "lower rank, root_rank or n_blocks"

    def working_bytes(self, n_rows: int, n_features: int, itemsize: int) -> int:
        """Bytes that building takes beside sample, landmarks, vectors and core: sketches, factors."""
        return 0

    @property
    def map_columns(self) -> int:
        """Numbers that an explicit feature map computes for a row; 0 where bases have landmarks."""
        return 0

    def map_bytes(self, n_features: int, itemsize: int) -> int:
        """Bytes of an explicit feature map, and of drawing it."""
        return 0

    @abstractmethod
    def assemble(
        self,
        sample: Rows,
        partition: Partition,
        kernel: Kernel,
        *,
        dtype: Any,
        rng: np.random.Generator,
        engine: Engine,
    ) -> FeatureMap:
        """Build the bases (and the core) on a partition that has been fitted."""

    def settle(
        self, source: RowSource, kernel: Kernel, *, dtype: Any, rng: np.random.Generator, engine: Engine
    ) -> Self:
        """Return the builder with every size chosen; as it is where none was left open."""
        return self

    def sample_size(self, n_rows: int) -> int:
        """Rows that the partition and the landmarks want: ten per landmark, at least 20,000."""
        wanted = ROWS_PER_LANDMARK * max(self.root_landmarks, self.landmarks_per_block * self.n_leaves)
        return min(n_rows, max(SAMPLE_ROWS, wanted))

    def build(
        self,
        source: RowSource,
        kernel: Kernel,
        *,
        dtype: Any,
        rng: np.random.Generator,
        engine: Engine,
        sample_size: int | None = None,
        chunk_rows: int = CHUNK_ROWS,
        weights: Array | None = None,
    ) -> FeatureMap:
        """Draw the sample, fit the partition, assemble and finish. One random read of the sampled rows.

        Rows of weight 0 are not drawn: they have no part in the model.
        """
        size = self.sample_size(source.shape[0]) if sample_size is None else sample_size
        sample = _draw(source, size, rng, weights)
        if not self.stored_sample or sample.dtype.itemsize >= np.dtype(dtype).itemsize:
            sample = as_float(sample, dtype)
        partition = fit_partition(
            sample,
            self.n_leaves,
            method=self.partition,
            n_levels=self.nested_levels,
            rng=rng,
            kernel=kernel,
        )
        features = self.assemble(sample, partition, kernel, dtype=dtype, rng=rng, engine=engine)
        return self.finish(features, source, rng=rng, engine=engine, chunk_rows=chunk_rows)

    def finish(
        self,
        features: FeatureMap,
        source: RowSource,
        *,
        rng: np.random.Generator,
        engine: Engine,
        chunk_rows: int,
    ) -> FeatureMap:
        """Return the features improved by further passes over the rows; as they are where none is made."""
        return features


def _draw(source: RowSource, size: int, rng: np.random.Generator, weights: Array | None) -> Rows:
    if weights is None or (weights > 0).all():
        return sample_rows(source, size, rng)[0]
    usable = np.flatnonzero(weights > 0)
    if size < len(usable):
        usable = np.sort(rng.choice(usable, size, replace=False))
    return source.take(usable)


def block_members(labels: IntArray, n_blocks: int) -> list[IntArray]:
    """Return the row numbers of each block, ascending."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.searchsorted(labels[order], np.arange(1, n_blocks)))


def choose_landmarks(
    rows: Rows,
    count: int,
    landmarks: Landmarks,
    rng: np.random.Generator,
    engine: Engine | None = None,
    *,
    kernel: Kernel | None = None,
    tol: float = 0.0,
    tol_after: int = 0,
    given: Rows | None = None,
    dtype: Any = None,
) -> Rows:
    """Return given points after a check of their width, or choose ``count`` from the rows."""
    if isinstance(landmarks, str):
        return select_landmarks(
            rows,
            count,
            landmarks,
            rng,
            engine,
            kernel=kernel,
            tol=tol,
            tol_after=tol_after,
            given=given,
            dtype=dtype,
        )
    points = np.asarray(landmarks, np.float64)
    if points.ndim != 2 or points.shape[1] != rows.shape[1]:
        raise InputError(
            f"landmarks has shape {points.shape}; expected (m, {rows.shape[1]}), one point a row with "
            f"the data's {rows.shape[1]} features."
        )
    return points
