r"""Held-out errors for every alpha of a path, from one pass over the rows.

Leave-one-out: e_i = (y_i − ŷ_i)/(1 − h_i) is the residual of row i under the fit to all other rows, on the
same features; generalised cross-validation puts the mean of h in place of h_i. Source: Allen 1974; Golub,
Heath and Wahba 1979.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import check_cv

from gramian._checks import refuse_masked
from gramian._numerics import size_of, unit_roundoff
from gramian._typing import Array, Float64Array, IntArray, Rows, RowsLike
from gramian.compression.features import FeatureMap, Unit, units_by_leaf
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.exceptions import AccuracyWarning, InputError, did_you_mean, quoted, shortened, user_level
from gramian.ridge.path import AlphaPath


def folds_of(cv: object, n: int, y: ArrayLike) -> Any:
    """Return None, "gcv", a number of folds, or the folds of n rows that a splitter gives."""
    if cv is None or isinstance(cv, str):
        if cv is None or cv == "gcv":
            return cv
        raise InputError(
            f"cv={cv!r} is unknown.{did_you_mean(cv, ('gcv',))} Give None for leave-one-out, "
            "'gcv', a number of folds, or a splitter."
        )
    if isinstance(cv, bool | numbers.Number):
        if isinstance(cv, bool) or not isinstance(cv, numbers.Integral) or int(cv) < 2:
            raise InputError(
                f"cv={cv!r} is no number of folds: at least 2 are needed. Give an int of 2 or more, "
                "or None for leave-one-out."
            )
        return int(cv)
    if not hasattr(cv, "split") and not isinstance(cv, Iterable):
        raise InputError(
            f"cv={cv!r} has type {type(cv).__name__}. Give None, 'gcv', an int of 2 or more, a "
            "splitter with a method split, or an iterable of (training rows, held-out rows)."
        )
    given = cv if hasattr(cv, "split") else list(cast("Iterable[Any]", cv))
    if isinstance(given, list) and not all(isinstance(pair, tuple | list) for pair in given):
        raise InputError(
            f"cv={quoted(given)} does not give pairs. Give an iterable of (training rows, held-out rows)."
        )
    try:
        splits = list(check_cv(given).split(np.empty((n, 1)), np.asarray(y)))
    except ValueError as error:  # such as groups that are missing
        raise InputError(
            f"cv={quoted(cv)} gives no folds of these rows ({shortened(str(error))}). Choose another "
            "splitter, or pass the folds: cv=list(splitter.split(X, y, groups))."
        ) from None
    if not splits:
        raise InputError(f"cv={cv!r} gives no folds. Give at least one pair of rows.")
    return [(_row_numbers(train, n), _row_numbers(test, n)) for train, test in splits]


def _row_numbers(rows: RowsLike, n: int) -> IntArray:
    """Return one side of a fold as row numbers; a mask of all rows says which of them it holds."""
    refuse_masked("cv", rows)
    array = np.asarray(rows)
    if array.dtype == bool and array.shape == (n,):
        return np.flatnonzero(array)
    whole = array.dtype.kind in "iu" or not array.size
    if array.ndim != 1 or not whole or (array.size and not 0 <= array.min() <= array.max() < n):
        raise InputError(
            f"cv gives {quoted(array)} for the rows of a fold; expected row numbers from 0 to {n - 1}, or a "
            f"mask of shape ({n},)."
        )
    return array.astype(np.intp)


#: How a row's own target is taken out of its prediction.
EXACT, MEAN, UNSEEN = "leave-one-out", "mean leverage", "unseen"
#: Rows of a unit: whitened in float64 with two copies, they take what a unit of a pass of sums does.
HELD_ROWS = 256


@dataclass(frozen=True)
class HeldOut:
    """Held-out errors per alpha and output.

    ``losses`` is Σw e²/Σw, ``errors`` its standard error (rows as independent draws), both of shape
    (alphas, outputs); ``residuals`` (n, alphas, outputs), where they were asked for, is y − ŷ. ``freedom``
    (alphas,) is Σh, the effective degrees of freedom of the fit; None for unseen rows.
    """

    losses: Float64Array
    errors: Float64Array
    residuals: Float64Array | None
    freedom: Float64Array | None = None


def held_out(
    path: AlphaPath,
    features: FeatureMap,
    source: RowSource,
    targets: Array,
    weights: Array | None,
    *,
    rule: str,
    chunk_rows: int,
    engine: Engine,
    keep: bool = False,
) -> HeldOut:
    """Return the errors of rows that are left out by ``rule``.

    ``EXACT`` and ``MEAN`` take the rows that the path's sums were made of, with their weights; ``UNSEEN``
    other rows. Time: the features of a pass, and for ``EXACT`` and ``MEAN`` the hat's diagonal. Memory: a
    chunk, and 8·n·alphas·outputs bytes where residuals are kept. Warns ``AccuracyWarning`` where rows have
    leverage 1 up to rounding.
    """
    n, p = targets.shape
    k = len(path.alphas)
    kept = np.empty((n, k, p)) if keep else None
    total = _Totals(k, p)
    for where, rows in row_blocks(source, chunk_rows):
        y = np.asarray(targets[where], np.float64)
        w = np.ones(len(y)) if weights is None else np.asarray(weights[where], np.float64)
        labels = features.partition.route(rows, engine)

        def work(
            unit: Unit, rows: Rows = rows, y: Float64Array = y, w: Float64Array = w
        ) -> tuple[IntArray, Float64Array, Float64Array | None]:
            F = features.unit_features(rows[unit.rows], unit)
            gap = y[unit.rows, None, :] - path.fitted(F, unit)
            if rule == UNSEEN:
                return unit.rows, gap, None
            return unit.rows, gap, path.leverages(F, unit) * w[unit.rows, None]

        with engine.results(work, units_by_leaf(labels, features.leaf_levels, HELD_ROWS)) as parts:
            for numbers, gap, leverage in parts:
                if leverage is not None:
                    total.see(leverage, w[numbers])
                    if rule == EXACT:
                        gap /= total.slack(leverage)[:, :, None]
                total.add(gap, w[numbers])
                if kept is not None:
                    kept[where.start + numbers] = gap
    if rule == EXACT:
        total.warn(path.alphas)
    scale = np.ones(k)
    if rule == MEAN:
        scale = 1.0 / total.slack((total.leverage / max(total.rows, 1))[None])[0]
        total.warn(path.alphas)
        if kept is not None:
            kept *= scale[:, None]
    losses, errors = total.result()
    squared = (scale**2)[:, None]
    freedom = None if rule == UNSEEN else total.leverage
    return HeldOut(losses * squared, errors * squared, kept, freedom)


class _Totals:
    """Running sums over rows: of w, w², w e², w² e², w² e⁴, and of leverages.

    Errors are in units of the first ones that are not 0, because e⁴ would overflow or underflow early.
    """

    def __init__(self, k: int, p: int) -> None:
        self._mass = self._mass2 = 0.0
        self._first, self._second, self._fourth = np.zeros((k, p)), np.zeros((k, p)), np.zeros((k, p))
        self.leverage, self.rows = np.zeros(k), 0
        self._full = np.zeros(k, np.intp)
        self._unit: float | None = None

    def see(self, leverage: Float64Array, weights: Float64Array) -> None:
        self.leverage += leverage.sum(axis=0)
        self.rows += int(np.count_nonzero(weights))

    def slack(self, leverage: Float64Array) -> Float64Array:
        """Return 1 − h, and count where rounding leaves nothing of it."""
        least = 4096.0 * unit_roundoff(np.float64)
        out = 1.0 - leverage
        self._full += (out < least).sum(axis=0)
        return np.maximum(out, least)

    def add(self, gap: Float64Array, weights: Float64Array) -> None:
        if self._unit is None and gap.any():
            self._unit = size_of(gap)
        square = np.square(gap / (self._unit or 1.0))
        p = square.shape[2]
        flat = square.reshape(len(square), -1)
        self._mass += float(weights.sum())
        self._mass2 += float(weights @ weights)
        self._first += (weights @ flat).reshape(-1, p)
        self._second += (weights**2 @ flat).reshape(-1, p)
        self._fourth += (weights**2 @ (flat * flat)).reshape(-1, p)

    def result(self) -> tuple[Float64Array, Float64Array]:
        mean = self._first / self._mass
        spread = self._fourth - 2.0 * mean * self._second + mean**2 * self._mass2
        square = (self._unit or 1.0) ** 2
        return mean * square, np.sqrt(np.maximum(spread, 0.0)) / self._mass * square

    def warn(self, alphas: Float64Array) -> None:
        for count, alpha in zip(self._full, alphas, strict=True):
            if count:
                warnings.warn(
                    f"with alpha={alpha:.3g} the leverage of {count} rows is 1 up to rounding, so that their "
                    "held-out errors are not known. Leave out so small an alpha, or use "
                    "tile_dtype='float64'.",
                    AccuracyWarning,
                    stacklevel=user_level(),
                )
