"""Builder that returns an existing feature map, for plans that expect a builder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from gramian._typing import Array, Rows
from gramian.compression.builder import CHUNK_ROWS, Builder
from gramian.compression.features import FeatureMap
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.landmarks.partition import Partition


@dataclass(frozen=True)
class GivenBuilder(Builder):
    """Builds nothing: the features are those of a map that was fitted before, on whatever rows.

    ``sizes`` is the builder that made them: what a plan and a model file go by.
    """

    method: ClassVar[str] = "given"
    features: FeatureMap = field(repr=False)
    sizes: Builder

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
        """Return the features."""
        return self.features

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
        """Return the features; no row is read."""
        return self.features


def sizes_of(builder: Builder) -> Builder:
    """Return the builder whose sizes a model has: of a given map, the one that made it."""
    return builder.sizes if isinstance(builder, GivenBuilder) else builder
