"""Builder that returns an existing feature map, for code that expects a builder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from gramian._typing import Rows
from gramian.compression.builder import Builder, BuildSettings
from gramian.compression.features import FeatureMap
from gramian.data.source import RowSource
from gramian.landmarks.partition import Partition


@dataclass(frozen=True)
class PrebuiltBuilder(Builder):
    """Builder that returns the features of a map that was fitted before, on any rows.

    ``sizes`` is the builder that made them; plans and model files read the sizes from it.
    """

    method: ClassVar[str] = "given"
    features: FeatureMap = field(repr=False)
    sizes: Builder

    def assemble(self, sample: Rows, partition: Partition, settings: BuildSettings) -> FeatureMap:
        """Return the given features."""
        return self.features

    def build(self, source: RowSource, settings: BuildSettings) -> FeatureMap:
        """Return the given features without reading a row."""
        return self.features


def sizes_of(builder: Builder) -> Builder:
    """Return the builder that defines a model's sizes: for a given map, the builder that made it."""
    return builder.sizes if isinstance(builder, PrebuiltBuilder) else builder
