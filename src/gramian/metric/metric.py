"""Metric as a value: distances between rows with a weight per feature or per direction."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from numpy.typing import ArrayLike

from gramian._checks import numbers_of
from gramian._typing import Float64Array, Rows
from gramian.data.mapped import mapped_type
from gramian.exceptions import InputError

#: Least squared scale, as a fraction of the largest: scales differ by a factor of 100 at most.
FLOOR = 1e-4


@dataclass(frozen=True, eq=False, repr=False)
class Metric:
    r"""The distance ‖T(x − z)‖ that a kernel takes in place of ‖x − z‖: rows are mapped by T before it.

    T(x) = x ∘ s with ``scales`` s of shape (d,) (a diagonal metric: a lengthscale for each feature), or
    T(x) = x A with ``matrix`` A of shape (d, r) (a full one mixes features; r < d leaves directions out).

    Parameters
    ----------
    scales : array of shape (d,), optional
        Finite, not negative, not all 0. One of ``scales`` and ``matrix`` is given.
    matrix : array of shape (d, r), optional
    spreads : array of shape (d,), optional
        Standard deviations of the features of the rows that it was learned from, by which
        :attr:`importances` are weighted; 1 where left out.

    Arrays are copied and read-only. Applying costs O(n d) time for ``scales``, which keep sparse rows sparse,
    O(n d r) for a ``matrix``, which makes them dense. Raises ``InputError`` for arrays that are no metric.

    Examples
    --------
    >>> metric = Metric(scales=[2.0, 0.5])
    >>> metric.apply(np.array([[1.0, 1.0]]))
    array([[2. , 0.5]])
    >>> metric.lengthscales, metric.importances.round(3)
    (array([0.5, 2. ]), array([0.941, 0.059]))
    >>> metric == Metric(scales=[2.0, 0.5]), metric == Metric(matrix=np.diag([2.0, 0.5]))
    (True, False)
    """

    scales: Float64Array | None = None
    matrix: Float64Array | None = None
    spreads: Float64Array | None = None

    def __init__(
        self,
        scales: ArrayLike | None = None,
        matrix: ArrayLike | None = None,
        spreads: ArrayLike | None = None,
    ) -> None:
        if (scales is None) == (matrix is None):
            raise InputError("a Metric takes either scales of shape (d,) or a matrix of shape (d, r).")
        kept = {
            "scales": None if scales is None else _numbers("scales", scales, 1),
            "matrix": None if matrix is None else _numbers("matrix", matrix, 2),
            "spreads": None if spreads is None else _numbers("spreads", spreads, 1),
        }
        for name, value in kept.items():
            object.__setattr__(self, name, value)
        for name in ("scales", "spreads"):
            value = kept[name]
            if value is not None and (value < 0).any():
                raise InputError(f"{name} holds {value.min():g}; give numbers of at least 0, one a feature.")
        if self.spreads is not None and len(self.spreads) != self.n_features:
            raise InputError(
                f"spreads has length {len(self.spreads)}, but the metric is of {self.n_features} features. "
                "Give one deviation for each feature."
            )
        whole = self.scales if self.scales is not None else self.matrix
        assert whole is not None
        if not whole.any():
            raise InputError("the metric is 0 everywhere: all rows would be the same. Give a positive scale.")

    @classmethod
    def identity_of(cls, n_features: int) -> Self:
        """Return the metric that leaves rows as they are."""
        return cls(scales=np.ones(n_features))

    # ---- what it is ---------------------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """Features of the rows that it is applied to, d."""
        whole = self.scales if self.matrix is None else self.matrix
        assert whole is not None
        return int(whole.shape[0])

    @property
    def n_columns(self) -> int:
        """Columns of mapped rows: d, or r of a matrix."""
        return self.n_features if self.matrix is None else int(self.matrix.shape[1])

    @property
    def squared(self) -> Float64Array:
        """The diagonal of T Tᵀ, shape (d,): the squared distance that one unit of a feature makes."""
        if self.matrix is None:
            assert self.scales is not None
            return self.scales**2
        return np.einsum("ij,ij->i", self.matrix, self.matrix)

    @property
    def importances(self) -> Float64Array:
        """Each feature's share of the mean squared distance of two rows, shape (d,), of sum 1.

        squared_j·spread_j², normalised; of a full metric without what features that go together add.
        """
        parts = self.squared * (1.0 if self.spreads is None else self.spreads**2)
        total = float(parts.sum())
        # Where the features that count do not vary: by the metric alone.
        return parts / total if total > 0 else self.squared / self.squared.sum()

    @property
    def lengthscales(self) -> Float64Array:
        """1/√squared, shape (d,): how far a feature must change for a distance of 1; infinite where never."""
        root = np.sqrt(self.squared)
        return np.divide(1.0, root, out=np.full(len(root), np.inf), where=root > 0)

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers."""
        return sum(array.nbytes for array in (self.scales, self.matrix, self.spreads) if array is not None)

    # ---- what it does -------------------------------------------------------------------------------

    def apply(self, rows: Rows) -> Rows:
        """Return the mapped rows: float32 of float32 and of integers of up to 16 bits, else float64."""
        if rows.shape[1] != self.n_features:
            raise InputError(
                f"the rows have {rows.shape[1]} features, but the metric is of {self.n_features}. Pass rows "
                f"of shape (n, {self.n_features})."
            )
        dtype = mapped_type(rows.dtype)
        if self.matrix is None:
            assert self.scales is not None
            if sp.issparse(rows):
                return sp.csr_array(rows.multiply(self.scales)).astype(dtype)
            return np.multiply(rows, self.scales, dtype=np.float64).astype(dtype, copy=False)
        if sp.issparse(rows):
            return np.asarray(rows.astype(dtype) @ self.matrix.astype(dtype))
        return np.asarray(rows.astype(dtype, copy=False) @ self.matrix.astype(dtype, copy=False))

    def times(self, factor: float) -> Metric:
        """Return the metric with all distances multiplied: a bandwidth divided by ``factor``."""
        scales = None if self.scales is None else factor * self.scales
        matrix = None if self.matrix is None else factor * self.matrix
        return Metric(scales, matrix, self.spreads)

    # ---- what values have ---------------------------------------------------------------------------

    @property
    def identity(self) -> tuple[Any, ...]:
        """What tells this metric from others: a digest of its numbers."""
        digest = hashlib.sha256()
        for array in (self.scales, self.matrix):
            digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
        return "metric", self.n_features, self.n_columns, digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Metric):
            return NotImplemented
        mine, others = ((one.scales, one.matrix, one.spreads) for one in (self, other))
        pairs = zip(mine, others, strict=True)
        return all(
            (a is None) == (b is None) and (a is None or b is None or np.array_equal(a, b)) for a, b in pairs
        )

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        kind = "diagonal" if self.matrix is None else f"full, rank at most {min(self.matrix.shape)}"
        most = np.argsort(-self.importances, kind="stable")[:3]
        shares = ", ".join(f"{j}: {self.importances[j]:.0%}" for j in most)
        return f"<Metric of {self.n_features} features, {kind}; importances {shares}>"


def _numbers(name: str, value: ArrayLike, ndim: int) -> Float64Array:
    """Return finite numbers as a read-only array of their own."""
    array = np.array(numbers_of(name, value, "Give an array."))
    if array.ndim != ndim or 0 in array.shape:
        expected = "(d,)" if ndim == 1 else "(d, r)"
        raise InputError(f"{name} has shape {array.shape}; expected {expected}, one row a feature.")
    if not np.isfinite(array).all():
        raise InputError(f"{name} holds NaN or infinity; give finite numbers.")
    array.flags.writeable = False
    return array


def metric_of(M: Float64Array, power: float, covariance: Float64Array, *, floor: float = FLOOR) -> Metric:
    r"""Return the metric of an average outer product of gradients.

    With M (d × d, or its diagonal) the metric's squared scales are those of M to a power p,

        T Tᵀ ∝ Σ_j max((λ_j/λ_max)^p, floor) v_j v_jᵀ,       ∝ so that E ‖T(x − z)‖² = E ‖x − z‖².

    **Power.** p = 0 leaves the distance unchanged. With p = 1, f changes equally fast in every direction (for
    a linear f the metric projects on its gradient). p = 1/2 lies between the two, for an estimate M that is
    noisy.

    **Floor.** f may vary along a direction even if the training rows show no change there: M is a mean over
    the training rows, of a model whose metric may already have shrunk that direction. Without a floor the
    direction vanishes, rows that differ only along it become one point, and the model fits their different
    targets by large coefficients of opposite signs. These do not cancel in a new row that lies off the
    training rows in this direction, even by a rounding error. The next M is made of those gradients, and the
    rounds diverge. With the floor, a difference along any direction counts at least √floor times as much as
    along the strongest one.

    **Normalisation.** The mean squared distance of two rows stays the same, so that a bandwidth keeps its
    meaning: if one feature counts more, the others count less.

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
