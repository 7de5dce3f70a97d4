"""Shared parts of the explicit feature maps: φ(x) as columns, and a builder that reads no rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, FloatArray, Rows
from gramian.approximations.approximation import Approximation
from gramian.compression.basis import Basis
from gramian.compression.builder import CHUNK_ROWS, Builder
from gramian.compression.features import FeatureMap
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.kernels.columns import Columns
from gramian.landmarks.partition import CenterPartition, Partition


class ExplicitColumns(Columns):
    """φ(x) with φ(x)·φ(z) ≈ k(x, z), by tiles.

    Subclasses are frozen dataclasses whose fields are arrays, numbers and names: what a model file holds of
    them. They call :meth:`_sized` when they are made.
    """

    n_features: int

    def _sized(self, n_columns: int, n_features: int, dtype: Any) -> None:
        for name, value in (("n_columns", n_columns), ("n_features", n_features), ("dtype", np.dtype(dtype))):
            object.__setattr__(self, name, value)

    def _tiles(self, X: Rows, out: FloatArray, width: int) -> Iterator[tuple[Rows, FloatArray]]:
        """Yield rows and the part of ``out`` that is theirs, ``width`` numbers a row in one tile."""
        for rows in row_slices(X.shape[0], tile_rows(width, self.dtype.itemsize)):
            yield X[rows], out[rows]


@dataclass(frozen=True)
class ExplicitBuilder(Builder):
    """A map of ``rank`` features that is drawn from the kernel and the number of the data's features alone.

    The fit reads no rows; training is one pass over them.
    """

    rank: int = 1000

    @abstractmethod
    def columns(
        self, kernel: Kernel, n_features: int, *, dtype: Any, rng: np.random.Generator
    ) -> ExplicitColumns:
        """Draw the map; refuse a kernel that the method cannot take."""

    @property
    def root_columns(self) -> int:
        """Features of the map."""
        return self.rank

    @property
    def map_columns(self) -> int:
        """Numbers that are computed for a row."""
        return self.rank

    def sample_size(self, n_rows: int) -> int:
        """No row is looked at."""
        return 0

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
        """Draw the map as the lone node of a partition."""
        columns = self.columns(kernel, sample.shape[1], dtype=dtype, rng=rng)
        return lone_map(columns, kernel, partition)

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
        """Draw the map for rows as wide as the source's."""
        nothing = np.zeros((0, source.shape[1]), dtype)
        return self.assemble(nothing, one_block(source.shape[1]), kernel, dtype=dtype, rng=rng, engine=engine)


def one_block(n_features: int) -> CenterPartition:
    """Return the partition of one block, about the origin."""
    return CenterPartition(np.zeros((1, n_features)))


def lone_map(columns: ExplicitColumns, kernel: Kernel, partition: Partition) -> FeatureMap:
    """Return the feature map whose only node is an explicit map on all rows."""
    return FeatureMap.lone(Basis.explicit(columns, columns.n_features), partition, kernel)


def fitted_map(model: Approximation) -> ExplicitColumns:
    """Return the fitted map φ of an explicit method: its frequencies, signs or hashes."""
    check_is_fitted(model, "features_")
    return cast(ExplicitColumns, model.features_.nodes[0].columns)


def set_map(model: Approximation, columns: ExplicitColumns, kernel: Kernel) -> None:
    """Make the model one with this map: fitted, but without an operator, for there are no training rows."""
    model.features_ = lone_map(columns, kernel, one_block(columns.n_features))
    model.kernel_ = kernel
    model.rank_ = model._n_features_out = columns.n_columns
    model.n_features_in_ = columns.n_features
