"""Shared parts of the explicit feature maps: φ(x) as columns, and a builder that reads no rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import DTypeLike
from sklearn.utils.validation import check_is_fitted

from gramian._tiles import row_slices, tile_rows
from gramian._typing import FloatArray, Rows
from gramian.approximations.approximation import Approximation
from gramian.compression.basis import Basis
from gramian.compression.builder import Bounds, Builder, BuildSettings
from gramian.compression.features import FeatureMap
from gramian.data.source import RowSource
from gramian.kernels.base import Kernel
from gramian.kernels.columns import Columns
from gramian.landmarks.partition import CenterPartition, Partition


class ExplicitColumns(Columns):
    """Explicit feature map φ(x) with φ(x)·φ(z) ≈ k(x, z), evaluated by tiles.

    Subclasses are frozen dataclasses with arrays, numbers and names as fields, which model files can store.
    They call :meth:`_sized` when they are created.
    """

    n_features: int

    def _sized(self, n_columns: int, n_features: int, dtype: DTypeLike) -> None:
        for name, value in (("n_columns", n_columns), ("n_features", n_features), ("dtype", np.dtype(dtype))):
            object.__setattr__(self, name, value)

    def _tiles(self, X: Rows, out: FloatArray, width: int) -> Iterator[tuple[Rows, FloatArray]]:
        """Yield tiles of rows with their part of ``out``; a tile needs ``width`` numbers a row."""
        for rows in row_slices(X.shape[0], tile_rows(width, self.dtype.itemsize)):
            yield X[rows], out[rows]


@dataclass(frozen=True)
class ExplicitBuilder(Builder):
    """Builder of a map of ``rank`` features that is drawn from the kernel and the number of features alone.

    The fit reads no rows; training is one pass over them.
    """

    rank: int = 1000

    @abstractmethod
    def columns(
        self, kernel: Kernel, n_features: int, *, dtype: DTypeLike, rng: np.random.Generator
    ) -> ExplicitColumns:
        """Draw the map, or raise if the method cannot take this kernel."""

    @property
    def bounds(self) -> Bounds:
        return Bounds(root_rank=self.rank, map_columns=self.rank)

    def sample_size(self, n_rows: int) -> int:
        """Return 0: the map is drawn without looking at rows."""
        return 0

    def assemble(self, sample: Rows, partition: Partition, settings: BuildSettings) -> FeatureMap:
        """Draw the map as the only node of a partition."""
        columns = self.columns(settings.kernel, sample.shape[1], dtype=settings.dtype, rng=settings.rng)
        root = Basis.explicit(columns, columns.n_features)
        return FeatureMap.lone(root, partition, settings.kernel)

    def build(self, source: RowSource, settings: BuildSettings) -> FeatureMap:
        """Draw the map for rows with the source's number of features."""
        d = source.shape[1]
        whole = CenterPartition(np.zeros((1, d)))
        return self.assemble(np.zeros((0, d), settings.dtype), whole, settings)


def fitted_map(model: Approximation) -> ExplicitColumns:
    """Return the fitted map φ of an explicit method: its frequencies, signs or hashes."""
    check_is_fitted(model, "features_")
    return cast(ExplicitColumns, model.features_.nodes[0].columns)
