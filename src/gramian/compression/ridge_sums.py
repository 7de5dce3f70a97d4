"""Sums of a ridge fit over the rows seen so far; sums of chunks, machines or days can be added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike

from gramian._numerics import unit_roundoff
from gramian._phases import Progress, uncounted
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, Rows
from gramian.compression.features import FeatureMap
from gramian.compression.sums import add_rows
from gramian.data.distributed import Partitioned
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.solvers.arrowhead import NodeSums


class SlicedTargets(Protocol):
    """Targets of shape (n, outputs), read by slices of rows."""

    shape: tuple[int, int]

    def __getitem__(self, where: slice) -> Float64Array: ...


class Labelled(Protocol):
    """Rows with targets and weights; weights are None if every row has weight 1."""

    @property
    def source(self) -> RowSource:
        """The rows."""

    @property
    def targets(self) -> SlicedTargets:
        """Targets of the rows."""

    @property
    def weights(self) -> Array | None:
        """Weights of the rows, shape (n,)."""


@runtime_checkable
class SentTargets(Protocol):
    """Targets that can also be encoded on another machine, where the values lie."""

    @property
    def values(self) -> Any:
        """Values from which the targets are encoded."""

    def encoder(self) -> Callable[[Array], Float64Array]:
        """Return a function that encodes the values of any rows as target numbers."""


@dataclass
class RidgeSums:
    r"""FᵀΩF, FᵀΩ(y − c), FᵀΩ1, Σw and Σw(y − c) over rows with features F, weights Ω and targets y.

    c is a constant near the targets' mean, chosen before the first row. A constant far from the mean still
    gives a correct result, but loses digits. All sums are float64. Memory: see ``nbytes``; it does not depend
    on the number of rows.
    """

    nodes: Sequence[NodeSums]  #: with an intercept, the last column of each right-hand side is FᵀΩ1
    shift: Float64Array  #: c, shape (outputs,)
    intercept: bool
    mass: float  #: Σw
    right: Float64Array  #: Σw(y − c), shape (outputs,)
    n_rows: int

    @classmethod
    def zeros(cls, features: FeatureMap, shift: Float64Array, *, intercept: bool) -> Self:
        """Return the sums over no rows."""
        p = len(shift)
        nodes = NodeSums.zeros_of(features.forest, p + intercept)
        return cls(nodes, shift.copy(), intercept, 0.0, np.zeros(p), 0)

    @property
    def nbytes(self) -> int:
        """Bytes of the sums."""
        return sum(node.nbytes for node in self.nodes)

    def __sizeof__(self) -> int:
        """Return the number of bytes, which a cluster's scheduler reads."""
        return self.nbytes

    def add_rows(
        self,
        features: FeatureMap,
        rows: Rows,
        targets: Float64Array,
        weights: Array | None,
        engine: Engine,
        progress: Progress = uncounted,
    ) -> None:
        """Add rows with targets y (n, outputs), in place. Time O(n (m d + m r + R_path²))."""
        n, p = targets.shape
        y = np.ones((n, p + self.intercept))  # at most two copies of a chunk's targets exist at a time
        centred = np.subtract(targets, self.shift, out=y[:, :p])
        right = centred.sum(axis=0) if weights is None else weights @ centred
        mass = float(n if weights is None else weights.sum())
        add_rows(self.nodes, features, rows, y, weights, engine, progress)
        self.mass += mass
        self.right += right
        self.n_rows += len(y)

    def add(self, other: RidgeSums) -> None:
        """Add the sums over other rows with the same features, in place."""
        if self.intercept:
            other = other.shifted(self.shift)
        for own, new in zip(self.nodes, other.nodes, strict=True):
            own.add(new)
        self.mass += other.mass
        self.right += other.right
        self.n_rows += other.n_rows

    @staticmethod
    def total(parts: Sequence[RidgeSums]) -> RidgeSums:
        """Add all other parts to the first one, in order, and return it."""
        first, *rest = parts
        for part in rest:
            first.add(part)
        return first

    def shifted(self, shift: Float64Array) -> RidgeSums:
        """Return the same sums about another constant. Needs FᵀΩ1, so the fit must have an intercept."""
        step = self.shift - shift
        if not step.any():
            return self
        nodes = [
            NodeSums(
                s.gram, s.cross, np.column_stack([s.rhs[:, :-1] + np.outer(s.rhs[:, -1], step), s.rhs[:, -1]])
            )
            for s in self.nodes
        ]
        return RidgeSums(nodes, shift.copy(), True, self.mass, self.right + self.mass * step, self.n_rows)

    def scale(self, factor: float) -> None:
        """Multiply the weight of all rows so far by ``factor``, in place."""
        for node in self.nodes:
            for array in node.arrays:
                array *= factor
        self.mass *= factor
        self.right *= factor


@dataclass(frozen=True)
class PartSums:
    """Task sent to the machine that holds some rows: makes the sums over them, on one thread."""

    features: FeatureMap
    encode: Callable[[Array], Float64Array]  #: function from values to targets
    shift: Float64Array
    intercept: bool
    chunk_rows: int

    def __sizeof__(self) -> int:
        """Return the number of bytes, which a cluster's scheduler reads."""
        return self.features.nbytes

    def __call__(self, sums: RidgeSums | None, rows: Rows, values: Array, weights: Array | None) -> RidgeSums:
        """Add these rows to the sums in place and return them. Memory: the sums and one chunk."""
        engine = Engine(1)
        if sums is None:
            sums = RidgeSums.zeros(self.features, self.shift, intercept=self.intercept)
        for where in row_slices(rows.shape[0], self.chunk_rows):
            w = None if weights is None else weights[where]
            sums.add_rows(self.features, rows[where], self.encode(values[where]), w, engine)
        return sums


def sum_rows(
    sums: RidgeSums,
    features: FeatureMap,
    source: RowSource,
    targets: SlicedTargets,
    weights: Array | None,
    *,
    chunk_rows: int,
    engine: Engine,
    done: Progress = uncounted,
    progress: Progress = uncounted,
) -> None:
    """Add the rows of a source to the sums, in place and by chunks, starting at row ``sums.n_rows``.

    ``done`` is called with a number of rows once the sums include them; ``progress`` is called as soon as
    rows are summed anywhere. The order of the additions depends only on the rows and ``chunk_rows``, so a
    pass that is interrupted and resumed gives the same bits. Parts that lie on other machines are summed
    there, several at a time; the order then also depends on the parts and on the number of threads.
    """
    if isinstance(source, Partitioned) and isinstance(targets, SentTargets):
        work = PartSums(features, targets.encoder(), sums.shift, sums.intercept, chunk_rows)
        parts = source.rounds(
            work, RidgeSums.total, targets.values, weights, start=sums.n_rows, progress=progress
        )
        for n_rows, part in parts:
            sums.add(part)
            done(n_rows)
        return
    for where, rows in row_blocks(source, chunk_rows, sums.n_rows):
        w = None if weights is None else weights[where]
        sums.add_rows(features, rows, targets[where], w, engine, progress)
        done(rows.shape[0])


def split_intercept(
    beta: Sequence[Float64Array],
    sums: Sequence[NodeSums],
    mass: float,
    dtype: DTypeLike,
    right: Float64Array | float = 0.0,
) -> tuple[list[Float64Array], Float64Array]:
    r"""Return the coefficients and the offset b of the problem with an unpenalised intercept.

    With (β_y, β_1) the solutions for the right-hand sides FᵀΩy and FᵀΩ1 = s, the normal equation of b gives
    b = (Σwy − sᵀβ_y)/(Σw − sᵀβ_1) and β = β_y − b β_1; ``right`` is Σwy. The divisor is at least of the order
    of alpha; if it is lost in the tiles' rounding, b is 0.
    """
    ones = [s.rhs[:, -1] for s in sums]
    explained = sum(float(s @ b[:, -1]) for s, b in zip(ones, beta, strict=True))
    inner = np.sum([s @ b[:, :-1] for s, b in zip(ones, beta, strict=True)], axis=0)
    left = mass - explained
    offset = (right - inner) / left if left > unit_roundoff(dtype) * mass else np.zeros_like(inner)
    return [b[:, :-1] - np.outer(b[:, -1], offset) for b in beta], offset
