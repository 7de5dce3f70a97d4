"""Scales of encoded columns, learned from rows: numbers get deviation about 1, categories distance √2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, Float64Array, FloatArray, IntArray, Rows
from gramian.data.source import RowSource, SubsetRows, as_source, sample_rows
from gramian.exceptions import InputError, did_you_mean
from gramian.tables.columns import TableColumns
from gramian.tables.empirical import deviation, distribution, mean, quantiles, rise

STANDARD, ROBUST, QUANTILE, AUTO = "standard", "robust", "quantile", "auto"
HOWS = (AUTO, STANDARD, ROBUST, QUANTILE)
#: Treatment of places that are not numbers: two values become √2 apart; one-hot groups and cycles stay.
SWITCH, KEEP = "switch", "keep"
#: Largest number of rows from which scales are learned. Chosen by hand.
SAMPLE_ROWS = 20_000
#: Interquartile range of a normal distribution of deviation 1.
NORMAL_RANGE = 1.349
#: Bound of robust columns, in deviations, and the bound at which others are cut so that squares stay
#: finite. Chosen by hand.
SOFT, HARD = 3.0, 1e9
#: Larger numbers are cut to this, so that differences stay finite.
LARGEST = 1e300
#: "auto" standardises a column whose skewness and largest deviation from the mean (in standard deviations)
#: are at most these. Chosen by hand.
MOST_SKEWNESS, FURTHEST = 2.0, 8.0


@dataclass(frozen=True)
class Scaling:
    r"""Monotone maps of encoded columns, one for each column.

    ``standard``: t = (x − mean)/deviation. ``robust``: t = 1.349·(x − median)/(interquartile range), then
    t/√(1 + (t/3)²), so that outliers stay within ±3. ``quantile``: the empirical distribution function,
    linear between at most 1,000 knots (equal values share their middle rank), then mean 0 and deviation 1;
    values beyond those of training go on by at most half a deviation. ``auto``, column by column: standard
    if the skewness is at most 2 and no value is more than 8 deviations from the mean, else quantile.

    A column with two values becomes √2·(x − mean)/(high − low), and one-hot groups stay 0 and 1. Two
    different values are then √2 apart, which is also the root mean square distance of two rows in a
    standardised column, and of two points of a cycle, which stays as it is. Maps increase strictly up to
    rounding (standard columns are cut at 10⁹ deviations, all at 10³⁰⁰) and keep finite numbers finite.

    >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [1000.0]])
    >>> scaling = Scaling.learn(X, TableColumns.learn(X), how="robust")
    >>> scaling.apply(X).ravel().round(2)
    array([-1.23, -0.66,  0.  ,  0.66,  3.  ])
    """

    methods: tuple[str, ...]  #: for each place: standard, robust, quantile, switch or keep
    shift: Float64Array
    scale: Float64Array
    tables: tuple[Float64Array, ...]  #: for each quantile place, in order: values and their scaled values

    @classmethod
    def learn(
        cls,
        rows: RowSource | Array,
        columns: TableColumns,
        how: str = AUTO,
        *,
        sample_weight: Float64Array | None = None,
        rng: np.random.Generator | None = None,
    ) -> Scaling:
        """Learn the scales of encoded rows, shape (n, width), from at most 20,000 of them.

        ``sample_weight`` (n,), at least 0: a row of weight 2 counts as two in means, deviations, quantiles
        and distribution functions, a row of weight 0 not at all. ``rng`` draws the rows; by default it is
        seeded by 0. Time O(m·width·log m) for m rows, memory O(m·width).
        Source of the robust form: Holzmüller, Grinsztajn and Steinwart 2024 (RealMLP).
        """
        if how not in HOWS:
            raise InputError(
                f"Scaling how={how!r} is unknown. Choose one of {', '.join(HOWS)}.{did_you_mean(how, HOWS)}"
            )
        source = as_source(rows)
        width = columns.width
        if source.shape[1] != width:
            raise InputError(
                f"Rows have {source.shape[1]} columns, but {width} were encoded. Pass EncodedRows of these "
                "columns."
            )
        rng = np.random.default_rng(0) if rng is None else rng
        # Stored by columns in memory, because each column is examined on its own.
        rows_of, weights = weighted_sample(source, sample_weight, rng)
        sample = np.asfortranarray(rows_of, np.float64)
        sample = np.clip(sample, -LARGEST, LARGEST)
        low, high = (np.clip(ends, -LARGEST, LARGEST) for ends in columns.ranges)
        methods, shift, scale = [KEEP] * width, np.zeros(width), np.ones(width)
        for j in columns.two_valued:
            methods[j] = SWITCH
            scale[j] = (high[j] - low[j]) / np.sqrt(2.0) or 1.0
            shift[j] = mean(sample[:, j], weights)
        tables = []
        for j in columns.numeric:
            x = sample[:, j]
            methods[j] = _choice(x, weights) if how == AUTO else how
            shift[j], scale[j] = mean(x, weights), _deviation(x, weights, low[j], high[j])
            if methods[j] == ROBUST:
                first, shift[j], third = quantiles(x, [0.25, 0.5, 0.75], weights)
                # If half of the values are equal, the interquartile range is 0.
                scale[j] = (third - first) / NORMAL_RANGE or scale[j]
            elif methods[j] == QUANTILE:
                knots, values = distribution(x, weights)
                spread = deviation(np.interp(x, knots, values), weights) or 1.0
                centre = mean(np.interp(x, knots, values), weights)
                tables.append(np.stack([knots, (values - centre) / spread]))
        return cls(tuple(methods), shift, scale, tuple(tables))

    @property
    def n_columns(self) -> int:
        """Number of scaled columns, the same as of encoded columns."""
        return len(self.scale)

    @property
    def identity(self) -> tuple[Any, ...]:
        """Values that distinguish these maps from other maps of the same rows."""
        return "table scaling", *self.methods

    def apply(self, block: Rows) -> FloatArray:
        """Return scaled rows, float32 for float32 input, else float64; time O(n·width)."""
        if sp.issparse(block):
            raise InputError("Rows are sparse; encoded rows are dense. Pass EncodedRows of the table.")
        if block.ndim != 2 or block.shape[1] != len(self.scale):
            raise InputError(
                f"Rows have shape {block.shape}; expected (n, {len(self.scale)}), the encoded columns."
            )
        out = np.empty(block.shape, np.float32 if block.dtype == np.float32 else np.float64)
        soft, stepped = self._places(ROBUST), self._places(QUANTILE)
        for where in row_slices(len(block), tile_rows(block.shape[1], 8)):
            rows = np.clip(np.asarray(block[where], np.float64), -LARGEST, LARGEST)
            t = rows - self.shift
            with np.errstate(over="ignore"):
                t /= self.scale
            np.clip(t, -HARD, HARD, out=t)
            if len(soft):
                t[:, soft] /= np.sqrt(1.0 + (t[:, soft] / SOFT) ** 2)
            for j, table in zip(stepped, self.tables):
                t[:, j] = rise(rows[:, j], table[0], table[1], self.scale[j])
            out[where] = t
        return out

    def _places(self, method: str) -> IntArray:
        return np.array([j for j, own in enumerate(self.methods) if own == method], np.intp)


def weighted_sample(
    source: RowSource, weights: Float64Array | None, rng: np.random.Generator
) -> tuple[Rows, Float64Array | None]:
    """Return at most 20,000 rows of weight above 0, with their weights."""
    if weights is None:
        return sample_rows(source, SAMPLE_ROWS, rng)[0], None
    counted = np.flatnonzero(weights > 0)
    if len(counted) < source.shape[0]:
        source = SubsetRows(source, counted)
    rows, numbers = sample_rows(source, SAMPLE_ROWS, rng)
    return rows, np.asarray(weights, np.float64)[counted][numbers]


def _choice(x: Float64Array, weights: Float64Array | None) -> str:
    """Return the method that "auto" chooses for a column."""
    largest = float(np.abs(x).max()) or 1.0
    spread = deviation(x / largest, weights) * largest
    if not spread > 0:
        return STANDARD
    t = (x - mean(x, weights)) / spread
    calm = abs(mean(t**3, weights)) <= MOST_SKEWNESS and float(np.abs(t).max()) <= FURTHEST
    return STANDARD if calm else QUANTILE


def _deviation(x: Float64Array, weights: Float64Array | None, low: float, high: float) -> float:
    """Return a column's deviation, or a quarter of its range if it is constant in the sample."""
    largest = float(np.abs(x).max())
    spread = deviation(x / largest, weights) * largest if largest > 0 else 0.0
    rounding = 10.0 * np.finfo(np.float64).eps * largest
    return spread if spread > rounding else (high / 4.0 - low / 4.0) or 1.0
