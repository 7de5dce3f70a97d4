"""Base class of builders: sizes in, a :class:`FeatureMap` out, made from one sample of the rows."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from gramian._numerics import STORED_TOLERANCE
from gramian._phases import Progress, uncounted
from gramian._typing import Array, IntArray, Rows
from gramian.compression.basis import Basis, build_basis
from gramian.compression.features import FeatureMap
from gramian.data.floats import as_float
from gramian.data.source import RowSource, sample_rows
from gramian.engine import Engine
from gramian.exceptions import NumericalWarning, user_level
from gramian.kernels.base import Kernel, negative_part
from gramian.landmarks.partition import SAMPLE_ROWS, Partition, fit_partition
from gramian.landmarks.rules import ROWS_PER_LANDMARK

#: Rows that a pass reads at once if no plan sets it. Chosen by hand.
CHUNK_ROWS = 65_536


@dataclass(frozen=True)
class BuildSettings:
    """What bases are built with: kernel, precision, generator, threads, and the rows of a pass at a time."""

    kernel: Kernel
    dtype: np.dtype[Any]
    rng: np.random.Generator
    engine: Engine
    chunk_rows: int = CHUNK_ROWS
    progress: Progress = uncounted  #: is told of the rows of each of a builder's ``passes``
    sample_rows: int | None = None  #: rows to draw for partition and landmarks; None: by the builder's rule
    weights: Array | None = None  #: of all rows; those of weight 0 are not drawn

    def floats(self, rows: Rows) -> Rows:
        """Return the rows in the precision of the bases: see :func:`as_float`."""
        return as_float(rows, self.dtype, self.kernel)

    def basis(self, points: Rows, rank: int, *above: Basis, **whitening: bool) -> Basis:
        """Return the basis of at most ``rank`` columns on these landmarks: see :func:`build_basis`."""
        return build_basis(self.kernel, self.dtype, points, rank, above, **whitening)


@dataclass(frozen=True)
class Bounds:
    """Bounds on the size of what a builder makes, which its plan counts with; by default there is nothing."""

    root_landmarks: int = 0  #: landmarks of the global basis
    root_rank: int = 0  #: bound on the rank of the global basis
    n_blocks: int = 1  #: leaf blocks requested
    n_levels: int = 1  #: levels of the partition
    landmarks: int = 0  #: landmarks requested for each block, which may have fewer rows
    rank: int = 0  #: bound on the rank of a block
    map_columns: int = 0  #: features that an explicit feature map computes for a row
    passes: int = 0  #: how often a build goes over all rows and counts them; 0 if it reads only a sample
    definite: bool = True  #: whether the core is positive semi-definite by construction


class Builder(ABC):
    """An approximation method with its sizes: a frozen dataclass, whose ``bounds`` follow from its fields.

    ``method`` is the name that ``approximation=`` takes and ``partition`` is the clustering rule.
    """

    method: ClassVar[str]
    #: Whether a sample of narrow integers keeps its stored dtype until a block's landmarks are chosen.
    stored_sample: ClassVar[bool] = False
    #: Whether a core couples the blocks.
    coupled: ClassVar[bool] = False
    #: What makes the model smaller, which an error about a too small budget advises.
    remedy: ClassVar[str] = "lower rank, root_rank or n_blocks"
    partition: str = "kmeans"

    @property
    def bounds(self) -> Bounds:
        """Bounds on the size of the result."""
        return Bounds()

    def working_bytes(self, n_rows: int, n_features: int, itemsize: int) -> int:
        """Return the bytes of temporary arrays, such as sketches and factors, that building needs."""
        return 0

    def map_bytes(self, n_features: int, itemsize: int) -> int:
        """Return the bytes needed to draw and store an explicit feature map."""
        return 0

    @abstractmethod
    def assemble(self, sample: Rows, partition: Partition, settings: BuildSettings) -> FeatureMap:
        """Build the bases (and the core) on a partition that has been fitted."""

    def settle(self, source: RowSource, settings: BuildSettings) -> Self:
        """Return the builder with every open size chosen; unchanged if no size is open."""
        return self

    def sample_size(self, n_rows: int) -> int:
        """Return how many rows to sample for partition and landmarks: ten per landmark, at least 20,000."""
        most = self.bounds
        wanted = ROWS_PER_LANDMARK * max(most.root_landmarks, most.landmarks * most.n_blocks)
        return min(n_rows, max(SAMPLE_ROWS, wanted))

    def build(self, source: RowSource, settings: BuildSettings) -> FeatureMap:
        """Draw the sample, fit the partition, assemble and finish. Reads the sampled rows once.

        Rows of weight 0 are never drawn, because they do not influence the model.
        """
        size, weights, rng = settings.sample_rows, settings.weights, settings.rng
        size = self.sample_size(source.shape[0]) if size is None else size
        if weights is None or (weights > 0).all():
            sample = sample_rows(source, size, rng)[0]
        else:
            usable = np.flatnonzero(weights > 0)
            if size < len(usable):
                usable = np.sort(rng.choice(usable, size, replace=False))
            sample = source.take(usable)
        if not self.stored_sample or sample.dtype.itemsize >= settings.dtype.itemsize:
            sample = settings.floats(sample)
        partition = fit_partition(
            sample,
            self.bounds.n_blocks,
            method=self.partition,
            n_levels=self.bounds.n_levels,
            rng=rng,
            kernel=settings.kernel,
        )
        features = self.assemble(sample, partition, settings)
        if not settings.kernel.definite and not any(basis.negative for basis in features.nodes):
            _warn_if_indefinite(settings.kernel, sample)
        return self.finish(features, source, settings)

    def finish(self, features: FeatureMap, source: RowSource, settings: BuildSettings) -> FeatureMap:
        """Return the features improved by further passes over the rows; by default, return them unchanged."""
        return features


def _warn_if_indefinite(kernel: Kernel, sample: Rows) -> None:
    """Warn if the kernel matrix of some rows has negative eigenvalues, which landmarks may not show."""
    negative, total, count = negative_part(kernel, sample)
    if negative > STORED_TOLERANCE * total:
        warnings.warn(
            f"the kernel is indefinite: on {count} rows its negative eigenvalues have the sum "
            f"{-negative:.3g} (of magnitudes with sum {total:.3g}), though the landmarks show none. "
            "Predictions can be far off. Use a positive semi-definite kernel.",
            NumericalWarning,
            stacklevel=user_level(),
        )


def block_members(labels: IntArray, n_blocks: int) -> list[IntArray]:
    """Return the row numbers of each block in ascending order."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.searchsorted(labels[order], np.arange(1, n_blocks)))


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
