r"""From an average outer product of gradients to a metric: power, floor, normalisation.

With M (d × d, or its diagonal) the metric's squared scales are those of M to a power p,

    T Tᵀ ∝ Σ_j max((λ_j/λ_max)^p, floor) v_j v_jᵀ,       ∝ so that E ‖T(x − z)‖² = E ‖x − z‖².

**Power.** p = 0 leaves the distance unchanged. With p = 1, f changes equally fast in every direction (for a
linear f the metric projects on its gradient). p = 1/2 lies between the two, for an estimate M that is noisy.

**Floor.** f may vary along a direction even if the training rows show no change there: M is a mean over the
training rows, of a model whose metric may already have shrunk that direction. Without a floor the direction
vanishes, rows that differ only along it become one point, and the model fits their different targets by large
coefficients of opposite signs. These do not cancel in a new row that lies off the training rows in this
direction, even by a rounding error. The next M is made of those gradients, and the rounds diverge. With the
floor, a difference along any direction counts at least √floor times as much as along the strongest one.

**Normalisation.** The mean squared distance of two rows stays the same, so that a bandwidth keeps its
meaning: if one feature counts more, the others count less.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg as la

from gramian._typing import Float64Array
from gramian.exceptions import InputError
from gramian.metric.metric import Metric

#: Least squared scale, as a fraction of the largest: scales differ by a factor of 100 at most.
FLOOR = 1e-4


def metric_of(M: Float64Array, power: float, covariance: Float64Array, *, floor: float = FLOOR) -> Metric:
    r"""Return the metric of an average outer product of gradients.

    Parameters
    ----------
    M : (d,) for a diagonal metric, (d, d) for a full one
    power : p, not negative
    covariance : (d, d), or (d,) its diagonal, of the rows; of a full metric (d, d)
    floor : part of the largest eigenvalue of M^p that the others are raised to

    Returns
    -------
    Metric
        Of a full one the symmetric root T, the one nearest to leaving features as they are. The one that
        leaves rows as they are where M is 0: f is constant, and tells nothing.

    Time O(d), of a full one O(d³). Raises ``InputError`` where M is not finite.

    >>> metric_of(np.array([4.0, 0.0]), 1.0, np.ones(2)).scales.round(3)
    array([1.414, 0.014])
    """
    d = len(M)
    if not np.isfinite(M).all():
        raise InputError("the average outer product of gradients is not finite; scale the features first.")
    variances = covariance if covariance.ndim == 1 else np.diagonal(covariance)
    spreads = np.sqrt(np.maximum(variances, 0.0))
    if M.ndim == 1:
        squared = _powered(M, power, floor)
        scales = np.sqrt(squared * _factor(float(variances.sum()), float(squared @ variances)))
        return Metric(scales=scales, spreads=spreads)
    values, vectors = la.eigh((M + M.T) / 2)
    root = (vectors * np.sqrt(_powered(values, power, floor))) @ vectors.T
    matrix = root * np.sqrt(_factor(float(variances.sum()), float(np.sum((root @ covariance) * root))))
    assert matrix.shape == (d, d)
    return Metric(matrix=matrix, spreads=spreads)


def _powered(values: Float64Array, power: float, floor: float) -> Float64Array:
    """Return (λ/λ_max)^p, raised to the floor; ones where no λ is positive."""
    largest = float(values.max())
    if largest <= 0:
        return np.ones(len(values))
    return np.maximum(np.maximum(values / largest, 0.0) ** power, floor)


def _factor(before: float, after: float) -> float:
    """Return what squared distances are multiplied by; 1 where rows do not differ."""
    return before / after if before > 0 and after > 0 else 1.0
