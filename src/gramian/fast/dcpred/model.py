"""A trained DC-Pred++: a partition with a model for each leaf, and the input that makes its rows.

To predict a row x, find its leaf, compute c̄(x) from m kernel values and p cheap functions of them, and
return c̄(x)ᵀβ + b, kept near the range that targets and fitted values of the leaf's training rows have.
Source: Hsieh, Si and Dhillon 2014, "Fast prediction for large-scale kernel machines", Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from gramian._tiles import row_slices
from gramian._typing import Array, FloatArray, IntArray, Rows
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.estimator.answers import PREDICT_ROWS, finite_blocks, in_blocks, quietly
from gramian.estimator.base import KernelEstimator
from gramian.estimator.input import Input
from gramian.estimator.summaries import FitFacts
from gramian.fast.dcpred.center_tree import router_bytes
from gramian.fast.dcpred.leaves import BatchedLeaves, Leaf, LeafReport, batch_leaves, bounded_values
from gramian.kernels import Kernel
from gramian.landmarks.routing import Partition

#: Rows predicted at a time, over several leaves. Chosen by hand.
TILE_ROWS = 8192
#: Attributes of an estimator that hold its :class:`DCPredModel`, and what follows from it.
LEARNED = ("model_", "kernel_", "scaler_", "leaves_", "n_leaves_", "exact_from_sample_", "nbytes_")


@dataclass(frozen=True)
class DCPred:
    """A partition and a model of each of its leaves."""

    partition: Partition
    leaves: tuple[Leaf, ...]
    kernel: Kernel
    n_features: int
    _batch: BatchedLeaves | None = field(init=False, repr=False)
    _bias: FloatArray = field(init=False, repr=False)
    _limits: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_bias", np.stack([leaf.bias for leaf in self.leaves]))
        object.__setattr__(self, "_limits", np.stack([leaf.limits for leaf in self.leaves], axis=1))
        batch = batch_leaves(self.kernel, self.leaves, self.n_features, self.dtype)
        object.__setattr__(self, "_batch", batch)

    def __reduce__(self) -> tuple[Any, ...]:
        # The batch is derived from the rest and need not be stored.
        return DCPred, (self.partition, self.leaves, self.kernel, self.n_features)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored numbers and of the answers."""
        return self.leaves[0].bias.dtype

    @property
    def n_outputs(self) -> int:
        """Columns of an answer."""
        return len(self.leaves[0].bias)

    def __call__(self, X: Rows, engine: Engine | None = None) -> FloatArray:
        """Return f of each row, shape (rows, outputs). Time O(rows (route + m d + p + (m + p) outputs))."""
        engine = engine or Engine(1)
        labels = self.partition.route(X, engine)
        # NumPy sorts 16-bit integers by radix, in linear time.
        small = labels.astype(np.int16) if len(self.leaves) < np.iinfo(np.int16).max else labels
        order = np.argsort(small, kind="stable")
        labels = labels[order]
        out = np.empty((X.shape[0], self.n_outputs), self.dtype)

        def work(part: slice) -> None:
            rows = order[part]
            out[rows] = self._sorted(X[rows], labels[part])

        engine.run(work, row_slices(len(order), TILE_ROWS))
        return out

    def _sorted(self, X: Rows, labels: IntArray) -> FloatArray:
        """Return f of rows that are sorted by leaf."""
        bounds = np.searchsorted(labels, np.arange(len(self.leaves) + 1))
        if self._batch is not None and not sp.issparse(X):
            values = self._batch(np.asarray(X), labels, bounds)
            if values is not None:
                return bounded_values(values, self._bias[labels], *self._limits[:, labels])
        values = np.empty((len(labels), self.n_outputs), self.dtype)
        for leaf, first, last in zip(self.leaves, bounds[:-1], bounds[1:], strict=True):
            if last > first:
                values[first:last] = leaf(X[first:last])
        return values

    def blocks(
        self, source: RowSource, *, engine: Engine, chunk_rows: int
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Yield (rows, f) chunk by chunk."""
        for where, rows in row_blocks(source, chunk_rows):
            yield where, self(rows, engine)

    @property
    def nbytes(self) -> int:
        """Bytes that a prediction reads: centres, landmarks, indices of pseudo-landmarks, β and b."""
        return router_bytes(self.partition) + sum(leaf.nbytes for leaf in self.leaves)


@dataclass(frozen=True)
class DCPredModel:
    """A trained tree of local models, and the input that makes its rows."""

    tree: DCPred
    kernel: Kernel
    input: Input = field(default_factory=Input)

    @classmethod
    def of(cls, estimator: KernelEstimator) -> Self:
        """Return the model that a fitted estimator holds."""
        return cls(estimator.model_, estimator.kernel_, Input.of(estimator))

    @property
    def leaves(self) -> tuple[LeafReport, ...]:
        """What is stated of each leaf."""
        return tuple(leaf.report for leaf in self.tree.leaves)

    def state(self) -> dict[str, Any]:
        """Return the learned attributes of an estimator with this model, by name."""
        leaves = self.leaves
        return {
            "model_": self.tree,
            "kernel_": self.kernel,
            "leaves_": leaves,
            "n_leaves_": len(leaves),
            "exact_from_sample_": np.array([leaf.exact_sampled for leaf in leaves]),
            "nbytes_": self.tree.nbytes,
            **self.input.state(),
        }

    def values(
        self,
        source: RowSource,
        engine: Engine,
        answer: Callable[[FloatArray], Array] | None = None,
        *,
        dtype: DTypeLike = np.float64,
    ) -> Array:
        """Return the values (n, outputs) of rows from a user; raise for the first that overflows.

        ``answer`` turns the values of a block of rows into what is returned of them, (rows,) of ``dtype``.
        """
        rows = self.input.over(source)
        blocks = quietly(self.tree.blocks(rows, engine=engine, chunk_rows=PREDICT_ROWS))
        shape = source.shape[:1] if answer else (source.shape[0], self.tree.n_outputs)
        return in_blocks(finite_blocks(blocks, source.take), shape, answer, dtype=dtype)

    def missed(self) -> str:
        """Return how many local models missed their tolerance, as a sentence; empty where none did."""
        missed = sum(not leaf.converged for leaf in self.leaves)
        return f"{missed} of {len(self.leaves)} local models missed their tolerance" if missed else ""

    def facts(self, **penalty: float) -> FitFacts:
        """Return what a model states; ``penalty`` as for FitFacts."""
        leaves, missed = self.leaves, self.missed()
        return FitFacts(
            n_rows=sum(leaf.n_rows for leaf in leaves),
            kernel=self.kernel,
            penalty=penalty,
            blocks=[("rows", [leaf.n_rows for leaf in leaves]), ("rank", [leaf.rank for leaf in leaves])],
            nbytes=self.tree.nbytes,
            points=[leaf.landmarks for leaf in self.tree.leaves if leaf.landmarks is not None],
            warnings=(f"{missed}. Lower C.",) if missed else (),
        )
