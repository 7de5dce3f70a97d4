r"""Leaves of DC-Pred++: the model of one leaf, and all leaves in a batch, two products for each leaf.

With T = [κ(x, u_1) … κ(x, u_m), 1] and u_j the landmarks, a leaf without pseudo-landmarks is T times a
matrix. A leaf with monomials is the quadratic form Tᵀ B T, so the products c_i c_j are never written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from gramian._numerics import distance_error, entry_tolerance
from gramian._typing import Array, Float64Array, FloatArray, IntArray, Rows
from gramian.fast.dcpred.pseudo_landmarks import MonomialColumns, TriangleColumns, split_factor
from gramian.kernels import Kernel
from gramian.kernels.base import lengthscale_array
from gramian.kernels.columns import Columns, dense, squared_norms
from gramian.kernels.families import EuclideanKernel

#: A quadratic form costs outputs·(m + 1)² products a row; p written-out monomials cost p·(outputs + 1) and a
#: gather. The form is used unless it needs more than this many times as many products. Chosen by hand.
FORM_GAIN = 8


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


class BatchedLeaves:
    r"""Evaluator of all leaves for rows sorted by leaf, kernels κ(‖(x − z)/ℓ‖₂) and dense rows.

    A row x is centred at its leaf's centre o and scaled by s: a = s(x − o). The product of [‖a‖², a, 1] with
    the column ±[1; −2b; ‖b‖²] of a landmark, b its centred and scaled position, is the number to which the
    kernel's function κ is applied. A last column of zeros gives κ(0) = 1. Leaves with fewer landmarks than
    others are padded with zero columns.

    factors : (leaves, d + 2, m + 1); forms : (leaves, m + 1, outputs·(m + 1)) or (leaves, m + 1, outputs).
    """

    def __init__(
        self,
        kernel: Any,
        centres: FloatArray,
        scale: FloatArray,
        factors: FloatArray,
        forms: FloatArray,
        outputs: int,
    ) -> None:
        self._kernel, self._centres, self._scale = kernel, centres, scale
        self._factors, self._forms, self._outputs = factors, forms, outputs

    def __call__(self, X: Array, labels: IntArray, bounds: IntArray) -> FloatArray | None:
        """Return f (rows, outputs) of rows with sorted leaf numbers ``labels``; None if a norm overflows.

        bounds : (leaves + 1,), the position at which each leaf's rows begin.
        """
        n, d = X.shape
        dtype, width = self._factors.dtype, self._factors.shape[2]
        rows = np.empty((n, d + 2), dtype)
        body = rows[:, 1:-1]
        with np.errstate(over="ignore", invalid="ignore"):
            # Subtract in the wider of the two types, then round.
            np.subtract(X, self._centres[labels], out=body, casting="unsafe")
            body *= self._scale
            np.einsum("ij,ij->i", body, body, out=rows[:, 0])
        if not np.isfinite(rows[:, 0]).all():
            return None
        rows[:, -1] = 1.0
        tile, leaves = np.empty((n, width), dtype), np.flatnonzero(np.diff(bounds))
        for leaf in leaves:
            part = slice(bounds[leaf], bounds[leaf + 1])
            np.matmul(rows[part], self._factors[leaf], out=tile[part])
        (np.minimum if self._kernel.distance_factor < 0 else np.maximum)(tile, 0.0, out=tile)
        self._kernel.map_tile(tile)
        products = np.empty((n, self._forms.shape[2]), dtype)
        for leaf in leaves:
            part = slice(bounds[leaf], bounds[leaf + 1])
            np.matmul(tile[part], self._forms[leaf], out=products[part])
        if self._forms.shape[2] == self._outputs:
            return products
        if self._outputs == 1:
            return np.einsum("ni,ni->n", tile, products)[:, None]
        return np.einsum("ni,nqi->nq", tile, products.reshape(n, self._outputs, width))


def batch_leaves(
    kernel: Kernel, leaves: Sequence[Leaf], n_features: int, dtype: DTypeLike
) -> BatchedLeaves | None:
    """Return the leaves as one batch, or None if they must be evaluated one by one.

    They must if the kernel is no function of a Euclidean distance, for pseudo-landmarks by triangle
    inequalities, for monomials of degree above 2 or with very many outputs, and if a leaf is so wide that
    products in ``dtype`` would lose digits of the distance.
    """
    factor, plain = split_factor(kernel)
    if not isinstance(plain, EuclideanKernel):
        return None
    used: list[Any] = [leaf for leaf in leaves if leaf.columns is not None]
    if not used or not all(
        _quadratic(leaf.columns) or leaf.columns.n_columns == leaf.landmarks.shape[0] for leaf in used
    ):
        return None
    outputs = len(leaves[0].bias)
    width = 1 + max(leaf.landmarks.shape[0] for leaf in used)
    quadratic = any(_quadratic(leaf.columns) for leaf in used)
    most = max(leaf.columns.n_columns for leaf in used) - width + 1
    if quadratic and outputs * width**2 > FORM_GAIN * most * (outputs + 1):
        return None
    scale = np.broadcast_to(
        np.sqrt(abs(plain.distance_factor)) / lengthscale_array(plain.lengthscale, n_features), (n_features,)
    )
    centres = np.zeros((len(leaves), n_features), dtype)
    factors = np.zeros((len(leaves), n_features + 2, width), dtype)
    forms = np.zeros((len(leaves), width, outputs * (width if quadratic else 1)), dtype)
    for number, leaf in enumerate(leaves):
        if leaf.landmarks is not None:
            points = np.asarray(dense(leaf.landmarks), np.float64)
            centres[number] = points.mean(axis=0)
            # Round the landmarks as the product will see them.
            b = ((points - centres[number].astype(np.float64)) * scale).astype(dtype).astype(np.float64)
            norms = squared_norms(b)
            error = plain.slope * distance_error(norms / abs(plain.distance_factor), n_features, dtype)
            if not (error <= entry_tolerance(dtype)).all():
                return None
            sign = np.sign(plain.distance_factor)
            factors[number, :, : len(b)] = sign * np.vstack([np.ones(len(b)), -2.0 * b.T, norms])
        forms[number] = _form(leaf, factor, width, quadratic).reshape(width, -1)
    return BatchedLeaves(plain, centres, scale.astype(dtype), factors, forms, outputs)


def _quadratic(columns: Columns) -> bool:
    return isinstance(columns, MonomialColumns) and columns.quadratic


def _form(leaf: Leaf, factor: float, width: int, quadratic: bool) -> Float64Array:
    """Return B of Tᵀ B T for each output, (m + 1, outputs, m + 1), or the matrix of T, (m + 1, outputs)."""
    q = len(leaf.bias)
    m = 0 if leaf.landmarks is None else leaf.landmarks.shape[0]
    linear = np.zeros((width, q))
    linear[:m] = factor * leaf.beta[:m]
    # The last column of T is always 1 and carries the bias; padding columns, also 1, get weight 0.
    linear[-1] = leaf.bias
    if not quadratic:
        return linear
    form = np.zeros((width, q, width))
    form[:, :, -1] = linear
    if isinstance(leaf.columns, MonomialColumns):
        # The form's value is the sum of β c_i c_j over the pairs, each counted once.
        form[leaf.columns.left, :, leaf.columns.right] += factor**2 * leaf.beta[m:]
    return form
