"""Standardised targets (mean 0, deviation 1), transformed first if they are skewed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import ndtr, ndtri

from gramian._checks import numbers_of
from gramian._numerics import LEAST_DIVISOR
from gramian._typing import Array, Float64Array
from gramian.estimator.labels import effective_rows
from gramian.exceptions import InputError, did_you_mean
from gramian.tables.empirical import deviation, distribution, mean, quantiles, variance

NONE, LOG, YEO_JOHNSON, QUANTILE, AUTO = "none", "log", "yeo-johnson", "quantile", "auto"
HOWS = (AUTO, NONE, LOG, YEO_JOHNSON, QUANTILE)
#: A target of at most this skewness is not transformed; a transformation must at least multiply the skewness
#: by the second number. Chosen by hand.
MOST_SKEWNESS, GAIN = 1.0, 0.5
#: How far a prediction may exceed the training targets after a transformation, in deviations of the
#: transformed target. Chosen by hand.
MARGIN = 0.5
#: Largest number of values from which a transformation's parameter is learned. Chosen by hand.
SAMPLE_VALUES = 5_000
#: Smallest unit of a power map, relative to the largest target, so that powers do not overflow.
#: Chosen by hand.
LEAST_UNIT = 1e-6
#: Smearing: knots of the means, groups that stand for the residuals, most parts of the rows by their
#: predictions, rows of a part; mean size of residuals, in deviations of the transformed target, below which
#: it changes less than one part in a thousand. Chosen by hand.
MEAN_KNOTS, REPRESENTATIVES, MEAN_PARTS, PART_ROWS, LEAST_SIZE = 513, 48, 5, 100, 0.02


@dataclass(frozen=True)
class OutputMap:
    """The transformation of one output: g = (h(u) − mean)/scale with u = y/unit, where ``how`` names h.

    none: h(u) = u. log: ln u. yeo-johnson: ((1 + u)^λ − 1)/λ for u ≥ 0,
    −((1 − u)^(2−λ) − 1)/(2 − λ) for u < 0, logarithms if the exponent is 0; for 0 ≤ λ ≤ 2 it has an
    inverse everywhere. quantile: the normal score Φ⁻¹(F(u)), linear between at most 1,000 knots.
    ``low`` and ``high`` are the smallest and the largest transformed training value.
    """

    how: str
    origin: float  #: the value if all training targets are equal, else 0
    unit: float
    mean: float
    scale: float  #: 0 if all training targets are equal
    low: float
    high: float
    power: float = 1.0
    knots: Float64Array | None = None
    scores: Float64Array | None = None
    means: Float64Array | None = None  #: predictions (knots,) of g and the mean target at each, (2, knots)

    def forward(self, y: Float64Array) -> Float64Array:
        """Return transformed targets; 0 if all training targets were equal."""
        if self.scale == 0:
            return np.zeros_like(y)
        return (self._h(y / self.unit) - self.mean) / self.scale

    def backward(self, z: Float64Array) -> Float64Array:
        """Return targets from transformed ones, cut half a deviation beyond the training targets."""
        if self.scale == 0:
            return np.full_like(z, self.origin)
        if self.how != NONE:
            z = np.clip(z, self.low - MARGIN, self.high + MARGIN)
        h = z * self.scale + self.mean
        return self._inverse(h) * self.unit

    def expected(self, z: Float64Array) -> Float64Array:
        """Return the means of targets whose transformation was predicted; without ``means`` g⁻¹ of it."""
        return self.backward(z) if self.means is None else np.interp(z, *self.means)

    def smeared(self, z: Float64Array, residuals: Float64Array, weights: Float64Array | None) -> OutputMap:
        """Return this map with the means that the residuals of predictions z ask for."""
        if self.how == NONE:
            return self
        at = np.linspace(self.low - MARGIN, self.high + MARGIN, MEAN_KNOTS)
        rise = smearing(self.expected, at, z, residuals, weights)
        means = np.maximum.accumulate(self.expected(at) + rise)
        return replace(self, means=np.stack([at, means])) if np.abs(rise).max() > 0 else self

    @property
    def _quantiles(self) -> tuple[Float64Array, Float64Array]:
        assert self.knots is not None
        assert self.scores is not None
        return self.knots, self.scores

    def _h(self, u: Float64Array) -> Float64Array:
        if self.how == LOG:
            # Held-out targets may be below the training targets, and 0 has no logarithm.
            return np.log(np.maximum(u, np.exp(self.low * self.scale + self.mean - MARGIN * self.scale)))
        if self.how == YEO_JOHNSON:
            return yeo_johnson(u, self.power)
        if self.how == QUANTILE:
            return np.interp(_flushed(u), *self._quantiles)
        return u

    def _inverse(self, h: Float64Array) -> Float64Array:
        if self.how == LOG:
            return np.exp(h)
        if self.how == YEO_JOHNSON:
            return yeo_johnson_inverse(h, self.power)
        if self.how == QUANTILE:
            return np.interp(h, *self._quantiles[::-1])
        return h


@dataclass(frozen=True)
class TargetTransform:
    """Monotone transformations of a target's outputs to mean 0 and deviation 1, and back.

    ``auto`` leaves an output whose skewness is at most 1. A more skewed output is transformed by the
    logarithm if it is positive, else by Yeo and Johnson's power, if that at least halves the skewness. The
    mean of a transformed target does not transform back to the mean of the target: after a logarithm,
    :meth:`backward` gives medians, whose sum is far below that of the targets. :meth:`smeared` learns from
    the residuals of held-out rows how to get means, which :meth:`expected` then gives. Compare with
    ``how="none"`` on held-out rows (:meth:`candidates`).

    >>> y = np.array([1.0, 10.0, 100.0])
    >>> transform = TargetTransform.learn(y, how="log")
    >>> transform.forward(y).round(3)
    array([-1.225,  0.   ,  1.225])
    >>> transform.backward(np.array([0.0, 9.0])).round(2)
    array([ 10., 256.])
    """

    outputs: tuple[OutputMap, ...]
    many: bool  #: whether targets have shape (n, outputs)

    @classmethod
    def learn(
        cls, y: ArrayLike, how: str = AUTO, *, sample_weight: Float64Array | None = None
    ) -> TargetTransform:
        """Learn the transformations of a target, shape (n,) or (n, outputs).

        ``sample_weight`` (n,), at least 0: a row of weight 2 counts as two, a row of weight 0 not at all.
        Raises ``InputError`` for values that are not finite numbers (naming the row), for no rows, and for
        ``how="log"`` if a value is not positive. Time O(n log n), memory O(n).
        Source: Yeo and Johnson 2000; unit and λ maximise the normal likelihood.
        """
        if how not in HOWS:
            raise InputError(
                f"Target how={how!r} is unknown. Choose one of {', '.join(HOWS)}.{did_you_mean(how, HOWS)}"
            )
        weights = sample_weight
        if weights is not None:
            counted = np.flatnonzero(weights > 0)
            y, weights = np.asarray(y)[counted], np.asarray(weights, np.float64)[counted]
        y = checked_target(y)
        columns = y.reshape(len(y), -1).T
        maps = tuple(_learn_output(np.ascontiguousarray(column), how, weights) for column in columns)
        return cls(maps, y.ndim == 2)

    @classmethod
    def candidates(cls, y: ArrayLike, *, sample_weight: Float64Array | None = None) -> tuple[str, ...]:
        """Return the values of ``how`` worth comparing on held-out rows: "none", and the choice of "auto".

        That choice is "auto" itself for outputs that it transforms differently: a logarithm that suits one
        output may not exist for another.

        >>> TargetTransform.candidates(np.exp(np.linspace(0.0, 9.0, 50)))
        ('none', 'log')
        """
        hows = {output.how for output in cls.learn(y, sample_weight=sample_weight).outputs}
        return (NONE, *(hows - {NONE} if len(hows) == 1 else {AUTO}))

    def forward(self, y: ArrayLike) -> Float64Array:
        """Return transformed targets, in the shape of ``y``; a single output may have shape (n, 1) too."""
        return self._each("forward", checked_target(y))

    def backward(self, z: Array) -> Float64Array:
        """Return targets from transformed ones, increasing in each output; finite input gives finite output.

        A transformed target is cut half a deviation beyond the training targets, because a power or an
        exponential would turn a small error there into a large one.
        """
        return self._each("backward", np.asarray(z, np.float64))

    def expected(self, z: Array) -> Float64Array:
        """Return the means of targets whose transformation was predicted as z; medians before a smearing."""
        return self._each("expected", np.asarray(z, np.float64))

    def smeared(
        self, z: Array, residuals: Array, *, sample_weight: Float64Array | None = None
    ) -> TargetTransform:
        """Return this transformation with the means that the residuals of held-out rows ask for.

        z : predictions of the transformed target of m rows that the model has not seen; residuals :
        transformed targets less z; both (m,) or (m, outputs). The mean at z is that of g⁻¹(z + r) over the
        residuals r of the rows, of those with predictions near z if rows are many; a few far ones are cut.
        Time O(m log m). Source: Duan 1983 (smearing).

        >>> rng = np.random.default_rng(0)
        >>> y = np.exp(rng.standard_normal(4000))
        >>> plain = TargetTransform.learn(y, how="log")
        >>> smeared = plain.smeared(np.zeros(4000), plain.forward(y))
        >>> median, mean = plain.expected(np.zeros(1))[0], smeared.expected(np.zeros(1))[0]
        >>> bool(abs(median - 1.0) < 0.05), bool(abs(mean / y.mean() - 1.0) < 0.05)
        (True, True)
        """
        columns = zip(np.reshape(z, (len(z), -1)).T, np.reshape(residuals, (len(z), -1)).T, strict=True)
        maps = zip(self.outputs, columns, strict=True)
        return replace(self, outputs=tuple(one.smeared(*each, sample_weight) for one, each in maps))

    def _each(self, way: str, values: Float64Array) -> Float64Array:
        expected = (len(self.outputs),) if self.many else ()
        if values.shape[1:] not in (expected, (len(self.outputs),)):
            raise InputError(f"The target has shape {values.shape}; expected {('n', *expected)}.")
        table = values.reshape(len(values), len(self.outputs))
        out = np.empty_like(table)
        for j, output in enumerate(self.outputs):
            out[:, j] = getattr(output, way)(table[:, j])
        return out.reshape(values.shape)


def smearing(
    back: Callable[[Float64Array], Float64Array],
    at: Float64Array,
    z: Float64Array,
    residuals: Float64Array,
    weights: Float64Array | None,
) -> Float64Array:
    """Return by how much the mean of back(at + r) exceeds back(at), over the residuals r of predictions z.

    Residuals of all rows, and of the parts of the rows with low to high predictions: each part counts as its
    rows, all as PART_ROWS further ones, so that few rows decide little. Between the parts' means the result
    is linear. What lies beyond the outer .5 % of the residuals is cut to that, or to five times their mean
    size if that is more. 0 where residuals are tiny.
    """
    w = np.ones(len(z)) if weights is None else weights
    low, middle, high = quantiles(residuals, [0.005, 0.5, 0.995], weights)
    size = mean(np.abs(residuals - middle), weights)
    if not size > LEAST_SIZE:
        return np.zeros(len(at))
    residuals = np.clip(residuals, min(low, middle - 5.0 * size), max(high, middle + 5.0 * size))
    order = np.argsort(z, kind="stable")
    parts = np.array_split(order, min(MEAN_PARTS, max(1, len(z) // PART_ROWS)))
    rises = []
    for rows in (order, *parts):
        points, shares = _representatives(residuals[rows], w[rows])
        rises.append(back(at[:, None] + points) @ shares)
    whole, *own = rises
    counts = np.array([effective_rows(w[rows]) for rows in parts])[:, None]
    own = (counts * np.array(own) + PART_ROWS * whole) / (counts + PART_ROWS)
    centres = [float(np.average(z[rows], weights=w[rows])) for rows in parts]
    near = np.array([np.interp(at, centres, each) for each in np.eye(len(parts))])
    return np.asarray((near * own).sum(axis=0) - back(at))


def _representatives(x: Float64Array, weights: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return some numbers and their shares that stand for many: means of groups, finer towards both ends."""
    order = np.argsort(x, kind="stable")
    w = weights[order]
    below = (np.cumsum(w) - 0.5 * w) / w.sum()
    group = np.searchsorted(ndtr(np.linspace(-3.0, 3.0, REPRESENTATIVES - 1)), below)
    shares = np.bincount(group, w, REPRESENTATIVES)
    some = shares > 0
    return np.bincount(group, w * x[order], REPRESENTATIVES)[some] / shares[some], shares[some] / w.sum()


def checked_target(y: ArrayLike) -> Float64Array:
    """Return a target as float64; raise for the first row that is not a finite number."""
    target = numbers_of("The target", y, "Pass one number for a row.")
    if target.ndim not in (1, 2) or target.shape[0] == 0:
        raise InputError(f"The target has shape {target.shape}; expected (n,) or (n, outputs), n at least 1.")
    good = np.isfinite(target.reshape(len(target), -1)).all(axis=1)
    if not good.all():
        row = int(good.argmin())
        raise InputError(
            f"The target holds {np.ravel(target[row])} in row {row} (from 0). Drop rows without a target."
        )
    return target


def yeo_johnson(u: Float64Array, power: float) -> Float64Array:
    """Return Yeo and Johnson's map of u, 0 ≤ power ≤ 2."""
    up, down = np.maximum(u, 0.0), np.maximum(-u, 0.0)
    return _box(up, power) - _box(down, 2.0 - power)


def yeo_johnson_inverse(h: Float64Array, power: float) -> Float64Array:
    """Return u from Yeo and Johnson's map of u."""
    up, down = np.maximum(h, 0.0), np.maximum(-h, 0.0)
    return _unbox(up, power) - _unbox(down, 2.0 - power)


def _box(u: Float64Array, power: float) -> Float64Array:
    return np.expm1(power * np.log1p(u)) / power if power > 0 else np.log1p(u)


def _unbox(h: Float64Array, power: float) -> Float64Array:
    return np.expm1(np.log1p(power * h) / power) if power > 0 else np.expm1(h)


def skewness(x: Float64Array, weights: Float64Array | None = None) -> float:
    """Return the third standardised moment; 0 for a constant."""
    spread = deviation(x, weights)
    return mean(((x - mean(x, weights)) / spread) ** 3, weights) if spread > 0 else 0.0


def _learn_output(y: Float64Array, how: str, weights: Float64Array | None) -> OutputMap:
    """Return the transformation of one output."""
    if how == LOG and y.min() <= 0:
        row = int(y.argmin())
        raise InputError(
            f"how='log' needs positive targets; row {row} (from 0) holds {y[row]:g}. Choose 'yeo-johnson'."
        )
    if y.min() == y.max():
        return OutputMap(NONE, float(y[0]), 1.0, 0.0, 0.0, 0.0, 0.0)
    if how != AUTO:
        return _mapped(y, how, weights)
    plain = _mapped(y, NONE, weights)
    before = abs(skewness(plain.forward(y), weights))
    if before <= MOST_SKEWNESS:
        return plain
    other = _mapped(y, LOG if y.min() > 0 else YEO_JOHNSON, weights)
    return other if abs(skewness(other.forward(y), weights)) <= GAIN * before else plain


def _mapped(y: Float64Array, how: str, weights: Float64Array | None) -> OutputMap:
    # In units of the largest target, so that no square overflows.
    unit, power = float(np.abs(y).max()), 1.0
    knots = scores = None
    if how == YEO_JOHNSON:
        share, power = _best_power(y / unit, weights)
        unit *= share
    elif how == QUANTILE:
        knots, F = distribution(_flushed(y / unit), weights)
        scores = ndtri(F)
    draft = OutputMap(how, 0.0, unit, 0.0, 1.0, -np.inf, np.inf, power, knots, scores)
    # Without bounds in the draft, the floor of the logarithm lets all training targets pass.
    h = draft.forward(y)
    centre, scale = mean(h, weights), deviation(h, weights)
    if not scale > 0:  # the targets differ by less than rounding
        middle = float(np.median(y)) if weights is None else float(quantiles(y, [0.5], weights)[0])
        return OutputMap(NONE, middle, 1.0, 0.0, 0.0, 0.0, 0.0)
    low, high = (float(h.min()) - centre) / scale, (float(h.max()) - centre) / scale
    return OutputMap(how, 0.0, unit, centre, scale, low, high, power, knots, scores)


def _flushed(u: Float64Array) -> Float64Array:
    """Return u with numbers close to underflow set to 0, so that slopes between knots are finite."""
    return np.where(np.abs(u) < LEAST_DIVISOR, 0.0, u)


def _spread_out(y: Float64Array, weights: Float64Array | None) -> Float64Array:
    """Return at most 5,000 of the sorted values, at even steps of the weights."""
    step = -(-len(y) // SAMPLE_VALUES)
    order = np.argsort(y, kind="stable")
    if weights is None:
        return y[order][::step]
    total = np.cumsum(weights[order])
    at = np.arange(0, len(y), step) * (total[-1] / len(y))
    return y[order][np.minimum(np.searchsorted(total, at, "right"), len(y) - 1)]


def _best_power(y: Float64Array, weights: Float64Array | None) -> tuple[float, float]:
    """Return the unit and the λ in [0, 2] that maximise the normal likelihood of targets.

    With u = y/unit it is −(1/2) ln var h(u) + (λ − 1)·mean(sign(u) ln(1 + |u|)) − ln unit. The tried units
    are quantiles of |y|: a small unit makes the map nearly a signed logarithm, a large one nearly linear.
    Of more than 5,000 values, 5,000 are used, at even steps of the weights.
    """
    if weights is None or len(y) > SAMPLE_VALUES:
        y, weights = _spread_out(y, weights), None
    best = (np.inf, 1.0, 1.0)
    some = y != 0
    units = quantiles(
        np.abs(y[some]), [0.05, 0.25, 0.5, 0.75, 1.0], None if weights is None else weights[some]
    )
    for unit in np.unique(np.maximum(units, LEAST_UNIT * np.abs(y).max())):
        u = y / unit
        slope = mean(np.sign(u) * np.log1p(np.abs(u)), weights)

        def loss(
            power: float, u: Float64Array = u, rest: float = np.log(unit), slope: float = slope
        ) -> float:
            spread = variance(yeo_johnson(u, power), weights)
            return 0.5 * np.log(max(spread, np.finfo(np.float64).tiny)) - (power - 1.0) * slope + rest

        minimum = minimize_scalar(loss, bounds=(0.0, 2.0), method="bounded", options={"xatol": 1e-3})
        best = min(best, (float(minimum.fun), float(unit), float(minimum.x)))
    return best[1:]
