r"""Held-out errors for every alpha of a path, from one pass over the rows.

Leave-one-out: e_i = (y_i − ŷ_i)/(1 − h_i) is the residual of row i under the fit to all other rows, on the
same features; generalised cross-validation puts the mean of h in place of h_i. Source: Allen 1974; Golub,
Heath and Wahba 1979.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from gramian._numerics import size_of, unit_roundoff
from gramian._phases import Progress, uncounted
from gramian._typing import Array, Float64Array, IntArray, Rows
from gramian.compression.features import FeatureMap
from gramian.compression.grouping import Unit, units_by_leaf
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.exceptions import AccuracyWarning, user_level
from gramian.ridge.path import AlphaPath

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
    progress: Progress = uncounted,
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
        progress(rows.shape[0])
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
