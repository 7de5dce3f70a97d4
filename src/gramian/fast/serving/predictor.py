"""Fast predictor: projects a row, routes it to a leaf, evaluates a few kernel units and a linear part."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from gramian._typing import Array, Float64Array, FloatArray, IntArray
from gramian.engine import Engine
from gramian.fast.serving.router import LeafTiles, TreeRouter

#: Most rows that are predicted together, and most numbers of their tiles, which stay in the second-level
#: cache. Up to FEW_ROWS threads are left alone: to limit them takes longer than to predict. Chosen by hand.
CHUNK_ROWS, CHUNK_NUMBERS, FEW_ROWS = 8192, 1 << 19, 64
#: Most rows of a batch that is computed in float64 whatever the type of the numbers. A product of BLAS in
#: float32 changes in its last digits with the number of rows. float64 takes 10 % longer for so few rows, and
#: twice as long for 8,192. Chosen by hand.
WIDE_ROWS = 256
#: Number of features from which rows are projected as they lie in memory and the short result is transposed:
#: with 256 features in 16 directions that takes half the time, with 16 features a third more. Chosen by hand.
MANY_FEATURES = 32
#: Most values for which the calls that are short themselves are faster than those that are fast for a value.
#: Chosen by hand.
FEW = 1_024
_ONES: dict[int, FloatArray] = {4: np.array(1.0, np.float32), 8: np.array(1.0, np.float64)}
#: Mean of a feature in its deviations from which rows are centred first: float32 then keeps a millionth of
#: the deviation. Chosen by hand: to centre float64 rows takes longer than to round them.
FAR = 16.0


@dataclass(frozen=True, eq=False)
class FastPredictor:
    r"""Predictor f_k(x) = Σ_j a_lkj/(1 + ‖s_lj (z − c_lj)‖²) + b_lkᵀ[z, 1], z = Pᵀ(x − o), l the leaf of z.

    projection : (d, r), P; None if z = x − o.
    offset : (r,), Pᵀo.
    router : finds the leaf of z.
    forms : (leaves, u + outputs, 2r + 1), coefficients of [z, 1, z²]: first 1 + Σ_i s_i² (z_i − c_i)² of
        each unit, then b and zeros for each output.
    weights : (leaves, outputs, u), a.
    center : (d,), in float64 in every predictor, subtracted from rows before they are rounded; the offset is
        then Pᵀ(o − center). None for features near 0 (:func:`far_center`).
    kept : the function of single rows and the predictor in float64 once they are made; pickles and copies
        leave them out.

    Time a row: d·r products for z, (2r + 1)(u + outputs) and u·outputs in the leaf, u divisions.
    Source: the local units of DC-Pred++ (Hsieh, Si and Dhillon 2014), with centres and widths learned.
    """

    projection: FloatArray | None
    offset: FloatArray
    router: TreeRouter
    forms: FloatArray
    weights: FloatArray
    center: Float64Array | None = None
    kept: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.projection, self.offset, self.router, self.forms, self.weights, self.center)
        return FastPredictor, parts

    @property
    def n_outputs(self) -> int:
        """Values a row."""
        return self.weights.shape[1]

    @property
    def n_units(self) -> int:
        """Kernel units of a leaf."""
        return self.weights.shape[2]

    @property
    def denominators(self) -> FloatArray:
        """The forms of the units, (leaves, u, 2r + 1)."""
        return self.forms[:, : self.n_units]

    @property
    def linear(self) -> FloatArray:
        """The forms of the linear parts, (leaves, outputs, 2r + 1)."""
        return self.forms[:, self.n_units :]

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Type of the stored numbers."""
        return self.weights.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the stored numbers."""
        kept = [self.projection, self.center, self.offset, self.forms, self.weights, *self.router.stages]
        return sum(a.nbytes for a in kept if a is not None)

    def __call__(self, X: Array, engine: Engine | None = None) -> FloatArray:
        """Return f (n, outputs) for rows X (n, d); infinite or NaN for rows that overflow the float type.

        Up to ``WIDE_ROWS`` rows are computed in float64 and then rounded, so that the answer for a row does
        not depend on the others. In larger batches its last digits in float32 do (about 1e-6 of the largest).
        Memory: the answer, and one chunk for each thread.
        """
        work = self.working()
        dtype = work.dtype
        if len(X) <= WIDE_ROWS:
            with np.errstate(over="ignore", invalid="ignore"):
                # A value that overflows in a larger batch overflows here too.
                X = centered(X, self.center, dtype)
            work = self.wide()
        out = np.empty((len(X), self.n_outputs), work.dtype)

        def fill(rows: slice) -> None:
            # Rows far from the training rows may overflow to infinity or NaN; the caller checks for that.
            with np.errstate(over="ignore", invalid="ignore"):
                work.write(X[rows], out[rows])

        if len(X) == 1:
            out[0] = work.one(np.asarray(X[0], work.dtype))
        elif len(X) <= FEW_ROWS:
            fill(slice(None))
        else:
            (engine or Engine(1)).run(fill, _chunks(len(X), self.forms.shape[1] + 3 * len(self.offset)))
        with np.errstate(over="ignore"):
            return out.astype(dtype, copy=False)

    def project(self, X: Array, out: FloatArray | None = None) -> FloatArray:
        """Return zᵀ, shape (r, n), in ``out`` if it is given: coordinate by coordinate, as it is used."""
        X = centered(X, self.center, self.dtype)
        z = np.empty((len(self.offset), len(X)), self.dtype) if out is None else out
        if self.projection is None:
            z[:] = X.T
        elif X.shape[1] < MANY_FEATURES:
            np.matmul(self.projection.T, X.T, out=z)
        else:
            z[:] = np.matmul(X, self.projection, out=_scratch.array("projected", z.T.shape, self.dtype)).T
        z -= self.offset[:, None]
        return z

    def working(self) -> FastPredictor:
        """Return the predictor in a type for arithmetic: float16, used for storage only, becomes float32."""
        return self.astype(np.dtype(np.float32)) if self.dtype == np.float16 else self

    def wide(self) -> FastPredictor:
        """Return the predictor of centred rows in float64, made once."""
        if self.dtype == np.float64 and self.center is None:
            return self
        if "wide" not in self.kept:
            self.kept["wide"] = replace(self.astype(np.dtype(np.float64)), center=None)
        wide: FastPredictor = self.kept["wide"]
        return wide

    def astype(self, dtype: np.dtype[np.floating]) -> FastPredictor:
        """Return the predictor with numbers of another float type."""
        P = self.projection
        return FastPredictor(
            None if P is None else P.astype(dtype),
            self.offset.astype(dtype),
            self.router.astype(dtype),
            self.forms.astype(dtype),
            self.weights.astype(dtype),
            self.center,
        )

    def write(self, X: Array, out: FloatArray) -> None:
        """Write the values (n, outputs) of a few rows into ``out``."""
        n, r, leaves = len(X), len(self.offset), self.router.n_leaves
        if leaves == 1 and not self.n_units:
            linear = self.forms[0, :, :r].T
            product = linear if self.projection is None else self.projection @ linear
            np.matmul(centered(X, self.center, self.dtype), product, out=out)
            out += self.forms[0, :, r] - self.offset @ linear
            return
        if leaves == 1:
            terms = _scratch.array("terms", (2 * r + 1, n), self.dtype)
            self.project(X, terms[:r])
            out[:] = self._leaf(_completed(terms), 0).T
            return
        points = _scratch.array("points", (r + 1, n), self.dtype)
        z, points[r] = self.project(X, points[:r]), 1.0
        tiles = LeafTiles.of(self.router.route(points.T), leaves)
        terms = _scratch.array("terms", (2 * r + 1, len(tiles.leaves), tiles.height), self.dtype)
        tiles.spread(z, terms[:r])
        values = self._leaf(_completed(terms).swapaxes(0, 1), tiles.leaves)
        out[:] = tiles.gather(values.swapaxes(1, 2).reshape(-1, self.n_outputs))

    def one(self, x: FloatArray) -> FloatArray:
        """Return f (outputs,) of one row (d,), by few and short calls.

        Both have the predictor's own type, but a row that is to be centred may have another one.
        """
        if self.center is not None:
            x = centered(x, self.center, self.dtype)
        terms, r, u = np.empty(self.forms.shape[2], x.dtype), len(self.offset), self.n_units
        with np.errstate(over="ignore", invalid="ignore"):
            # The method dot takes a third of the time of the operator @ here.
            np.subtract(x if self.projection is None else x.dot(self.projection), self.offset, out=terms[:r])
            _completed(terms)
            leaf = self.router.leaf(terms[: r + 1]) if self.router.levels else 0
            found = self.forms[leaf].dot(terms)
            if not u:
                return found
            units, values = found[:u], found[u:]
            bumps_in_place(units)
            values += self.weights[leaf].dot(units)
            return values

    def _leaf(self, terms: FloatArray, leaves: int | IntArray) -> FloatArray:
        """Return values (tiles, outputs, height) of terms (tiles, 2r + 1, height), or of a single tile."""
        forms, u = self.forms[leaves], self.n_units
        shape = (*forms.shape[:-1], terms.shape[-1])
        found = np.matmul(forms, terms, out=_scratch.array("forms", shape, self.dtype))
        units, values = found[..., :u, :], found[..., u:, :]
        if u:
            bumps_in_place(units)
            values += np.matmul(self.weights[leaves], units)
        return values


class _Scratch(threading.local):
    """Arrays that a thread uses again: page faults of fresh ones can take longer than the arithmetic."""

    def __init__(self) -> None:
        self.kept: dict[str, Array] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[np.floating]) -> FloatArray:
        """Return an array of a shape, with any content, which lives until the next call with this name."""
        count = math.prod(shape)
        if name not in self.kept or self.kept[name].nbytes < count * dtype.itemsize:
            self.kept[name] = np.empty(count * dtype.itemsize, np.uint8)
        return self.kept[name][: count * dtype.itemsize].view(dtype).reshape(shape)


_scratch = _Scratch()


def _completed(terms: FloatArray) -> FloatArray:
    """Return [z, 1, z²] in place of [z, …] (2r + 1, …)."""
    r = len(terms) // 2
    terms[r] = 1.0
    np.multiply(terms[:r], terms[:r], out=terms[r + 1 :])
    return terms


def _chunks(n: int, numbers: int) -> list[slice]:
    """Return slices of about equal size: a short last one would need padding in every leaf.

    numbers : that the tiles hold for a row.
    """
    count = max(1, -(-n // min(CHUNK_ROWS, CHUNK_NUMBERS // numbers + 1)))
    edges = [n * i // count for i in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def denominators(centers: Float64Array, log_scales: Float64Array) -> Float64Array:
    """Return E with 1 + Σ_k s_jk² (z_k − c_jk)² = E_j·[z, 1, z²], shape (u, 2r + 1).

    centers : (u, r), c; log_scales : (u, r), log s.
    """
    squares = np.exp(2.0 * log_scales)
    constant = 1.0 + np.einsum("ij,ij,ij->i", squares, centers, centers)
    return np.column_stack([-2.0 * squares * centers, constant, squares])


def bumps_in_place(t: FloatArray) -> None:
    """Replace denominators t = 1 + q, q ≥ 0, by 1/t; where rounding left t below 1, by 1.

    Infinity becomes 0, and NaN stays. The result is the rational quadratic kernel with α = 1: positive
    definite like the Gaussian exp(−q), with heavier tails, in half the time. No value of q ≤ 1e37 is
    subnormal in float32.
    """
    if t.size <= FEW:
        np.maximum(t, _ONES[t.dtype.itemsize], out=t)
        np.reciprocal(t, out=t)
    else:
        np.clip(t, 1.0, np.inf, out=t)
        np.divide(1.0, t, out=t)


def far_center(center: Float64Array, inverse: Float64Array) -> Float64Array | None:
    """Return ``center`` (d,) if the mean of a feature is at least ``FAR`` times its deviation, else None.

    inverse : (d,), 1/deviation, and 0 for features without effect.

    >>> far_center(np.array([3.0, 2_000.0]), np.array([1.0, 0.1])), far_center(np.ones(1), np.ones(1))
    (array([   3., 2000.]), None)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.abs(center * inverse)
    return center if (far >= FAR).any() else None


def centered(X: Array, center: Float64Array | None, dtype: DTypeLike) -> FloatArray:
    """Return X − center in a float type, subtracted in float64; X in that type if there is no centre."""
    if center is None:
        return np.asarray(X, dtype)
    out: FloatArray = np.empty(X.shape, dtype)
    return np.subtract(X, center, out=out, casting="unsafe")
