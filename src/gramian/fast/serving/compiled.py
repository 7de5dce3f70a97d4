"""Prediction of a single row, compiled if numba is installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from gramian._typing import FloatArray, IntArray
from gramian.exceptions import InputError, MissingPackageError
from gramian.fast.serving.flat import FlatPredictor, flatten
from gramian.fast.serving.predictor import FastPredictor, centered
from gramian.kernels.compiled import available

#: Type of a row before it is centred.
WIDE = np.dtype(np.float64)


class SingleRow:
    """Compiled prediction f(x) of one row by a :class:`FlatPredictor`, in its float type.

    predictor : its arrays are copied into one, since passing each array costs 0.1 microseconds a call.

    Time a call: d·r + r·levels + 2r(u + outputs) + u·outputs products, u divisions, and half a
    microsecond. The first call in a process imports numba and loads or compiles the loops (a second or two;
    numba caches them on disk). Several threads may call it at once.

    Raises ``MissingPackageError`` without numba.
    """

    def __init__(self, predictor: FlatPredictor) -> None:
        f = predictor
        parts = (f.projection, f.offset, f.planes, f.forms, f.weights)
        self._numbers = np.concatenate([part.ravel() for part in parts])
        self._sizes = np.array([f.n_features, f.n_directions, f.levels, f.n_units, f.n_outputs])
        self._n_features, self._n_outputs, self._dtype = f.n_features, f.n_outputs, f.dtype
        self._shape, self._center = (f.n_features,), f.center
        self._loops = compiled_loops()

    def __call__(self, x: object) -> FloatArray:
        """Return f(x), shape (outputs,), for a row x of d numbers."""
        if self._center is not None:
            row = centered(one_row(x, self._n_features, WIDE), self._center, self._dtype)
        elif type(x) is np.ndarray and x.shape == self._shape:
            # Of two ways to the same array each is twice as fast as the other, by whether the type changes.
            row = np.ascontiguousarray(x) if x.dtype == self._dtype else x.astype(self._dtype)
        else:
            row = one_row(x, self._n_features, self._dtype)
        out = np.empty(self._n_outputs, self._dtype)
        self._loops(row, self._numbers, self._sizes, out)
        return out


def one_row(x: object, n_features: int, dtype: np.dtype[np.floating]) -> FloatArray:
    """Return x as a contiguous array of shape (d,); raise ``InputError`` for another number of entries."""
    row = np.ascontiguousarray(x, dtype)
    if row.shape == (n_features,):
        return row
    if row.size != n_features:
        raise InputError(
            f"x has {row.size} numbers (shape {row.shape}), but the model was fitted with {n_features} "
            f"features. Pass one row, of shape ({n_features},)."
        )
    return row.reshape(-1)


class UncompiledRow:
    """Prediction f(x) of one row by a predictor's own arrays and NumPy."""

    def __init__(self, predictor: FastPredictor) -> None:
        self._predictor = predictor.working()
        P = predictor.projection
        self._n_features = len(predictor.offset) if P is None else len(P)
        # A row that is to be centred must keep its digits until then.
        self._dtype = self._predictor.dtype if predictor.center is None else WIDE

    def __call__(self, x: object) -> FloatArray:
        """Return f(x), shape (outputs,), for a row x of d numbers."""
        return self._predictor.one(one_row(x, self._n_features, self._dtype))


def single_row(predictor: FastPredictor) -> SingleRow | UncompiledRow:
    """Return the function of single rows of a predictor; create it at the first request and keep it."""
    kept: SingleRow | UncompiledRow | None = predictor.kept.get("row")
    if kept is None:
        kept = SingleRow(flatten(predictor)) if available() else UncompiledRow(predictor)
        predictor.kept["row"] = kept
    return kept


@cache
def compiled_loops() -> Callable[[FloatArray, FloatArray, IntArray, FloatArray], None]:
    """Return :func:`loops`, compiled at the first call for each float type."""
    try:
        from gramian._loops import compiled
    except ImportError as error:
        raise MissingPackageError(
            "Compiled predictions of single rows need the package numba, which is not installed. "
            "Run: pip install 'gramian[jit]'"
        ) from error
    return compiled(loops, nogil=False)  # a row takes less time than a lock


def loops(x: FloatArray, numbers: FloatArray, sizes: IntArray, out: FloatArray) -> None:
    """Write f(x) into ``out``, in plain Python that numba compiles.

    No sum runs over units or outputs, so the loops over them can be vectorised.

    numbers : projection, offset, planes, forms and weights of a :class:`FlatPredictor`, one after another.
    sizes : d, r, levels, u, outputs; an array is passed faster than a tuple.
    """
    d, r, levels, u, n_outputs = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]
    n_leaves = 1 << levels
    width = u + n_outputs
    scratch = np.empty(r + width, numbers.dtype)
    z, form = scratch[:r], scratch[r:]

    offset = numbers[d * r :]
    for j in range(r):
        z[j] = -offset[j]
    # With four features at a time, z is read and written a quarter as often.
    at, fours = 0, d - d % 4
    for i in range(0, fours, 4):
        a, b, c, e = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(r):
            ab = a * numbers[at + j] + b * numbers[at + r + j]
            ce = c * numbers[at + 2 * r + j] + e * numbers[at + 3 * r + j]
            z[j] += ab + ce
        at += 4 * r
    for i in range(fours, d):
        for j in range(r):
            z[j] += x[i] * numbers[at + j]
        at += r

    planes = numbers[d * r + r :]
    node = 0
    for _ in range(levels):
        at = node * (r + 1)
        side = planes[at + r]
        for j in range(r):
            side += planes[at + j] * z[j]
        node = 2 * node + 1
        if side > 0:
            node += 1
    leaf = node - (n_leaves - 1)

    leaves = planes[(n_leaves - 1) * (r + 1) :]
    forms = leaves[leaf * (2 * r + 1) * width :]
    at, squares = r * width, (r + 1) * width
    for j in range(width):
        form[j] = forms[at + j]
    at = 0
    for i in range(r):
        for j in range(width):
            form[j] += z[i] * (forms[at + j] + z[i] * forms[squares + at + j])
        at += width

    weights = leaves[n_leaves * (2 * r + 1) * width + leaf * u * n_outputs :]
    for k in range(n_outputs):
        out[k] = form[u + k]
    one = numbers.dtype.type(1)
    for j in range(u):
        form[j] = one if form[j] < one else one / form[j]  # NaN stays
    at = 0
    for j in range(u):
        unit = form[j]
        for k in range(n_outputs):
            out[k] += unit * weights[at + k]
        at += n_outputs
