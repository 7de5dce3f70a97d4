"""Model of one leaf: a function of a few kernel values that stays near what the leaf's training rows had."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramian._typing import FloatArray, Rows
from gramian.fast.dcpred.pseudo_landmarks import MonomialColumns, TriangleColumns
from gramian.kernels.columns import Columns


@dataclass(frozen=True, slots=True)
class LeafReport:
    """Sizes and convergence of one leaf's training."""

    n_rows: int  #: training rows
    n_landmarks: int = 0  #: 0 if the targets are constant
    n_pseudo: int = 0
    rank: int = 0  #: of Ḡ on the sampled rows
    exact_rows: int = 0  #: rows of the exact model whose α weights rows for k-means; 0 without such a model
    exact_sampled: bool = False  #: whether these are a sample of the leaf's rows
    steps: int = 0  #: Newton steps
    gradient: float = 0.0  #: final norm of the gradient, relative to its norm at zero
    converged: bool = True


@dataclass(frozen=True)
class Leaf:
    """Model of a leaf: f(x) = c̄(x)ᵀβ + b within ``limits``, or b if its targets are constant."""

    landmarks: Rows | None  #: u_j, (m, d)
    columns: Columns | None  #: c̄, m + p numbers; None if the targets are constant
    beta: FloatArray  #: β, (m + p, outputs)
    bias: FloatArray  #: b, (outputs,)
    limits: FloatArray  #: (2, outputs): least and largest answer, ±the largest float without pseudo-landmarks
    report: LeafReport

    def __call__(self, X: Rows) -> FloatArray:
        """Return f of each row, shape (rows, outputs)."""
        if self.columns is None:
            return np.broadcast_to(self.bias, (X.shape[0], len(self.bias)))
        return bounded_values(self.columns(X) @ self.beta + self.bias, self.bias, *self.limits)

    @property
    def nbytes(self) -> int:
        """Bytes that a prediction reads, in the leaf's type."""
        size = self.beta.nbytes + self.bias.nbytes + self.limits.nbytes
        if self.landmarks is not None:
            size += int(np.prod(self.landmarks.shape)) * self.bias.itemsize
        if isinstance(self.columns, MonomialColumns):
            size += self.columns.left.nbytes + self.columns.right.nbytes
        if isinstance(self.columns, TriangleColumns):
            size += self.columns.between.nbytes
        return size


def bounded_values(values: FloatArray, bias: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return f within its limits, each (rows, outputs).

    A value beyond a limit by less than the range high − low becomes the limit moved towards the bias by that
    share of the way, a value further beyond it the bias.
    """
    near = np.clip(values, low, high)
    if np.array_equal(near, values):
        return values
    excess = np.abs(values - near)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nan_to_num(np.minimum(excess / (high - low), 1.0), nan=0.0)
    return near + share * (np.clip(bias, low, high) - near)
