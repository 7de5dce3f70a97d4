r"""Kernel logistic regression on the exact K, of all rows and without parts of them, by products with K.

Minimises Σ_i w_i ℓ_i(f(x_i)) + (penalty/2) Σ_k ‖f_k‖² for the logistic loss of one output or the softmax loss
of several. With f = K c + intercepts the gradient in the kernel's space is K r for r = penalty·c + W(P − Y).
Newton's equation (penalty + H K) δ = −r is solved by conjugate gradients in the inner product uᵀK v: one
product with K a step, which all problems share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_softmax, softmax

from gramian._typing import Array, Float64Array, IntArray

#: Relative decrease of the objective below which Newton's method ends, share of a step's decrease below which
#: conjugate gradients end it, and the largest number of products and of halvings of a step. Chosen by hand.
TOL, GAIN, MOST_PRODUCTS, HALVINGS = 1e-3, 0.05, 300, 10
#: Variance of the intercepts about the log odds of the classes, in units of the kernel. Chosen by hand: it
#: keeps intercepts free without a second kind of unknown.
SPREAD = 1.0
#: Least share of a class about whose log odds its intercept is kept: rows of a class may all have weight 0.
LEAST_SHARE = 1e-9


class RowLoss(NamedTuple):
    """A convex loss of rows with outputs on the last axis.

    loss(f, y), one number a row; slope(f, y), its derivative and what ``curved`` needs of it; curved(that,
    v), the second derivative times v; start(mean of y), the constant f that suits this mean.
    """

    loss: Callable[[Float64Array, Float64Array], Float64Array]
    slope: Callable[[Float64Array, Float64Array], tuple[Float64Array, Any]]
    curved: Callable[[Any, Float64Array], Float64Array]
    start: Callable[[Float64Array], Float64Array]


@dataclass
class FoldModels:
    """Models of one kernel and loss for several penalties, each of the rows outside one of the folds.

    product : function from V (n, columns) to K V; targets : (n, outputs), for :data:`LOGISTIC` 1 for a row's
    class and 0 for the others, one column, that of the second, for two classes; weights : (n,), all > 0, or
    None; folds : for each model the numbers of the rows left out.

    Time: of a product with K, with as many columns as all models have outputs, per step; some tens of steps.
    Memory: ten arrays of (n, models, outputs).
    Source: Zhu and Hastie 2005 (kernel logistic regression); Chapelle 2007 (Newton steps in the kernel's
    space).
    """

    product: Callable[[Float64Array], Float64Array]
    loss: RowLoss
    targets: Float64Array
    weights: Array | None
    folds: Sequence[IntArray]
    #: Coefficients of the last fit, (n, models, outputs), from which the next one starts.
    coefficients: Float64Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        n = len(self.targets)
        weights = np.ones(n) if self.weights is None else np.asarray(self.weights, np.float64)
        self._weights = np.repeat(weights[:, None], len(self.folds), axis=1)
        for j, fold in enumerate(self.folds):
            self._weights[fold, j] = 0.0
        self._start = self.loss.start(np.average(self.targets, axis=0, weights=weights))

    @property
    def offsets(self) -> Float64Array:
        """The intercepts of the last fit, (models, outputs)."""
        assert self.coefficients is not None, "fit first"
        return np.asarray(self._start + SPREAD * self.coefficients.sum(axis=0))

    def fit(self, penalty: float) -> Float64Array:
        """Minimise for this penalty; return the values f of all rows by each model, (n, models, outputs)."""
        n, outputs = self.targets.shape
        c = self.coefficients
        c = np.zeros((n, len(self.folds), outputs)) if c is None else c
        image = self._times(c) if c.any() else np.zeros_like(c)
        values = self._objective(c, image, penalty)
        products, busy = 0, np.ones(len(self.folds), bool)
        while busy.any() and products < MOST_PRODUCTS:
            step, moved, gain, used = self._newton_step(c, image, penalty, busy, MOST_PRODUCTS - products)
            products += used
            length = busy.astype(np.float64)
            for _ in range(HALVINGS):
                trial = self._objective(_add(c, length, step), _add(image, length, moved), penalty)
                short = trial > values - 1e-4 * length * gain
                if not (short & busy).any():
                    break
                length[short] /= 2.0
            length[short & busy], trial = 0.0, np.where(short, values, trial)
            c, image = _add(c, length, step), _add(image, length, moved)
            busy &= values - trial >= TOL * np.abs(trial)
            values = trial
        self.coefficients = c
        return image + self._start

    def _newton_step(
        self, c: Float64Array, image: Float64Array, penalty: float, busy: Array, most: int
    ) -> tuple[Float64Array, Float64Array, Float64Array, int]:
        """Return δ, its image under the kernel, the decrease it promises, and how many products it took."""
        slope, bends = self.loss.slope(image + self._start, self.targets[:, None, :])
        residual = -(penalty * c + self._weights[:, :, None] * slope)
        residual *= busy[:, None]
        mapped = self._times(residual)
        direction, along = residual, mapped
        step, moved = np.zeros_like(c), np.zeros_like(c)
        square, gain, used = _inner(residual, mapped), np.zeros(len(busy)), 1
        while True:
            turned = penalty * direction + self._weights[:, :, None] * self.loss.curved(bends, along)
            bend = _inner(turned, along)
            length = np.divide(square, bend, out=np.zeros_like(square), where=bend > 0)
            step, moved = _add(step, length, direction), _add(moved, length, along)
            more = 0.5 * length * square
            gain += more
            if used >= most or not (more > GAIN * gain).any():
                return step, moved, gain, used
            residual = _add(residual, -length, turned)
            mapped = self._times(residual)
            used += 1
            before, square = square, _inner(residual, mapped)
            ratio = np.divide(square, before, out=np.zeros_like(square), where=before > 0)
            direction, along = _add(residual, ratio, direction), _add(mapped, ratio, along)

    def _times(self, c: Float64Array) -> Float64Array:
        """Return (K + SPREAD·11ᵀ) c, (n, models, outputs)."""
        return np.asarray(self.product(c.reshape(len(c), -1)).reshape(c.shape) + SPREAD * c.sum(axis=0))

    def _objective(self, c: Float64Array, image: Float64Array, penalty: float) -> Float64Array:
        losses = self.loss.loss(image + self._start, self.targets[:, None, :])
        return np.asarray((self._weights * losses).sum(axis=0) + 0.5 * penalty * _inner(c, image))


def left_out(values: Float64Array, folds: Sequence[IntArray]) -> Float64Array:
    """Return the values of each fold's rows by the model without them, rows ascending."""
    out = np.concatenate([values[fold, j] for j, fold in enumerate(folds)])
    return np.asarray(out[np.argsort(np.concatenate(folds))])


def _log_losses(values: Float64Array, targets: Float64Array) -> Float64Array:
    if values.shape[-1] == 1:
        f, y = values[..., 0], targets[..., 0]
        return np.asarray(np.logaddexp(0.0, f) - y * f)
    return np.asarray(-(targets * log_softmax(values, axis=-1)).sum(axis=-1))


def _log_slope(values: Float64Array, targets: Float64Array) -> tuple[Float64Array, Float64Array]:
    chances = np.asarray(expit(values) if values.shape[-1] == 1 else softmax(values, axis=-1))
    return chances - targets, chances


def _apply_curvature(chances: Float64Array, values: Float64Array) -> Float64Array:
    if values.shape[-1] == 1:
        return chances * (1.0 - chances) * values
    return np.asarray(chances * (values - (chances * values).sum(axis=-1, keepdims=True)))


def _log_odds(mean: Float64Array) -> Float64Array:
    mean = np.clip(mean, LEAST_SHARE, 1.0 - LEAST_SHARE)
    return np.asarray(np.log(mean) - (np.log1p(-mean) if len(mean) == 1 else 0.0))


def _spread_slope(values: Float64Array, targets: Float64Array) -> tuple[Float64Array, Float64Array]:
    share = targets * np.exp(-values)
    return 1.0 - share, share


#: −ln P of a row's class, for one output of two classes or one of each class.
LOGISTIC = RowLoss(_log_losses, _log_slope, _apply_curvature, _log_odds)
#: Half the squared distance of values and targets.
SQUARED = RowLoss(
    lambda values, targets: 0.5 * np.square(values - targets).sum(axis=-1),
    lambda values, targets: (values - targets, None),
    lambda _, v: v,
    lambda mean: mean,
)
#: −ln of the density of errors of size y, up to a constant, if they are Laplacian with mean size exp(f).
LAPLACE = RowLoss(
    lambda values, targets: (targets * np.exp(-values) + values).sum(axis=-1),
    _spread_slope,
    lambda share, v: share * v,
    lambda mean: np.log(mean),
)


def _inner(a: Float64Array, b: Float64Array) -> Float64Array:
    """Return Σ a·b of each model: uᵀK v, if one of the two is an image under the kernel."""
    return np.asarray(np.einsum("imo,imo->m", a, b))


def _add(a: Float64Array, factor: Float64Array, b: Float64Array) -> Float64Array:
    return a + factor[:, None] * b
