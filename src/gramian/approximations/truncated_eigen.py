"""Truncated eigendecomposition as a transformer: the best approximation of K for a given rank."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self, TypeAlias

import numpy as np
import scipy.linalg as la
from numpy.typing import ArrayLike

from gramian._checks import positive_number
from gramian._numerics import rank_cutoff
from gramian._typing import Float64Array, FloatArray, Rows, RowsLike
from gramian.approximations.approximation import Approximation, approximation
from gramian.compression.basis import Basis
from gramian.compression.builder import Bounds, Builder, BuildSettings
from gramian.compression.features import FeatureMap
from gramian.data.source import RowSource
from gramian.estimator.summaries import FitFacts
from gramian.exceptions import AccuracyWarning, user_level
from gramian.landmarks.partition import Partition, fit_partition

#: Function V → K V.
Product: TypeAlias = Callable[[Float64Array], Float64Array]

#: Columns of each block beyond the rank. Chosen by hand.
EXTRA = 10


@dataclass(frozen=True)
class TruncatedEigenBuilder(Builder):
    r"""K̃ = U Λ Uᵀ of the r leading eigenpairs of K on all rows; features Λ^(−1/2) Uᵀ k(X, x).

    Time O(passes · n² (d + r)) and memory O(n r · passes): for tables of some ten thousand rows, as the
    reference for other methods. K is never stored. New rows cost n kernel values.
    """

    method: ClassVar[str] = "truncatedeigen"
    rank: int = 100
    tol: float = 1e-6
    max_iter: int = 20

    @property
    def bounds(self) -> Bounds:
        # One pass a product with K; the iteration may need fewer.
        return Bounds(root_rank=self.rank, passes=self.max_iter + 1)

    def working_bytes(self, n_rows: int, n_features: int, itemsize: int) -> int:
        """Return the bytes of the points, their vectors and the Krylov basis with its products."""
        width = min(n_rows, _width(self.rank))
        basis = min(n_rows, width * (self.max_iter + 1))
        return n_rows * (8 * (2 * basis + 2 * width + 2 * self.rank) + n_features * (8 + itemsize))

    def assemble(self, sample: Rows, partition: Partition, settings: BuildSettings) -> FeatureMap:
        """Return the eigenvectors of K on the given rows as features."""
        points = sample.astype(sample.dtype if sample.dtype.kind == "f" else np.float64)
        wide, kernel = points.astype(np.float64), settings.kernel

        def product(V: Float64Array) -> Float64Array:
            image = kernel.matvec(wide, None, V, n_jobs=settings.engine.n_jobs)
            settings.progress(n)
            return np.asarray(image, np.float64)

        n = points.shape[0]
        pairs = leading_eigenpairs(product, n, min(self.rank, n), self.tol, self.max_iter, settings.rng)
        keep = pairs.values > rank_cutoff(settings.dtype) * pairs.values.max(initial=0.0)
        vectors = pairs.vectors[:, keep] / np.sqrt(pairs.values[keep])
        root = Basis.of_columns(points, vectors, settings.kernel, settings.dtype, pairs.values[keep])
        notes = {"largest residual": pairs.residual, "passes over K": pairs.passes}
        return FeatureMap.lone(root, partition, settings.kernel, notes)

    def build(self, source: RowSource, settings: BuildSettings) -> FeatureMap:
        """Build the features from all rows of the source, without sampling."""
        rows = source.take(np.arange(source.shape[0]))
        return self.assemble(rows, fit_partition(rows[:1], 1, rng=settings.rng), settings)


@approximation
class TruncatedEigen(Approximation):
    r"""The leading eigenvectors of K on all rows, the best approximation of K of that rank.

    A reference for the other methods, for up to some ten thousand rows. K is never stored: a block Krylov
    method computes about ten products with it, by tiles.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params : as for :class:`MEKA`.
    rank : int
    tol : float
        The iteration stops once all residuals ‖K u − λ u‖ are at most tol·λ.
    max_iter : int
        Largest number of products with K; a warning states the residual if they do not suffice.
    memory_budget, tile_dtype, random_state, n_jobs, verbose : as for :class:`MEKA`.

    Attributes
    ----------
    n_iter_ : number of products with K. Others as for :class:`MEKA`; ``features_.notes`` has the largest
        residual, recomputed at the end.

    Raises ``InputError`` for unusable input and ``BudgetError`` for a budget that is too small.

    Time O(max_iter · n² (d + rank)), memory O(max_iter · n · rank): quadratic in n. A new row costs n kernel
    values.

    Source: Golub and Underwood 1977; Musco and Musco 2015.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((300, 3))
    >>> a = gm.TruncatedEigen(gamma=2.0, rank=20, random_state=0).fit(X)
    >>> K = gm.Gaussian(lengthscale=0.5)(X)
    >>> bool(np.isclose(np.linalg.norm(K - a.operator_.to_dense(), 2), np.linalg.eigvalsh(K)[-21]))
    True
    """

    builders = (TruncatedEigenBuilder,)

    _learns = ("n_iter_",)

    rank: int = 100
    tol: float = 1e-6
    max_iter: int = 20

    def fit(self, X: RowsLike, y: ArrayLike | None = None) -> Self:
        """Find the leading eigenvectors of the Gram matrix of the rows of X. ``y`` is ignored."""
        super().fit(X, y)
        self.n_iter_ = int(self.features_.notes["passes over K"])
        return self

    def _evidence(self) -> FitFacts:
        return replace(super()._evidence(), solver=(("iterations", f"{self.n_iter_:,}"),))

    def builder(self) -> TruncatedEigenBuilder:
        return self._sizes(TruncatedEigenBuilder, tol=positive_number("tol", self.tol))


@dataclass(frozen=True)
class KernelEigenpairs:
    """Leading eigenpairs and their residual."""

    values: Float64Array  #: in descending order
    vectors: Float64Array  #: (n, r), orthonormal
    residual: float  #: max ‖K u − λ u‖, recomputed by a last pass
    passes: int


def leading_eigenpairs(
    product: Product, n: int, rank: int, tol: float, max_iter: int, rng: np.random.Generator
) -> KernelEigenpairs:
    r"""Return the ``rank`` leading eigenpairs of a symmetric n × n matrix given by its products.

    Block Lanczos with full orthogonalisation. The basis Q grows by K times its last block; a Rayleigh-Ritz
    step on H = QᵀKQ gives the pairs, and the coupling of the last block their residuals. The iteration has
    converged if all residuals are within ``tol`` · λ (or rounding), or if the basis spans the whole space. If
    ``max_iter`` steps do not suffice, a warning states the residual. Errors of the eigenvalues are of second
    order in the residual.

    Time O(steps · (product + n (steps · b)²)) for blocks of b = r + 10 columns, memory O(n · steps · b).
    Source: Golub and Underwood 1977; Musco and Musco 2015.
    """
    width = min(n, _width(rank))
    block: FloatArray = la.qr(rng.standard_normal((n, width)), mode="economic", check_finite=False)[0]
    Q, H = np.zeros((n, 0)), np.zeros((0, 0))
    largest = 0.0
    values, coefficients = np.zeros(0), np.zeros((0, 0))
    passes = 0
    while block.shape[1] and passes < max_iter:
        W = product(np.asarray(block, np.float64))
        passes += 1
        Q = np.concatenate([Q, block], axis=1)
        cross = Q.T @ W
        size = Q.shape[1]
        grown = np.zeros((size, size))
        grown[: len(H), : len(H)] = H
        grown[:, len(H) :] = cross
        grown[len(H) :, :] = cross.T
        H = 0.5 * (grown + grown.T)
        W = W - Q @ cross
        W -= Q @ (Q.T @ W)
        values, coefficients = la.eigh(H, driver="evd", check_finite=False)
        values, coefficients = values[::-1][:rank], coefficients[:, ::-1][:, :rank]
        largest = float(np.abs(values).max(initial=0.0))
        block, R, order = la.qr(W, mode="economic", pivoting=True, check_finite=False)
        coupling = R[:, np.argsort(order)] @ coefficients[-block.shape[1] :]
        if size >= rank and _over(coupling, values, tol) <= 1.0:
            break
        useful = np.abs(R.diagonal()) > rank_cutoff(np.float64) * max(largest, np.finfo(float).tiny)
        block = block[:, : min(int(np.count_nonzero(useful)), n - size)]
        # Normalising small columns of W also enlarged their components in Q: remove these again.
        block = la.qr(block - Q @ (Q.T @ block), mode="economic", check_finite=False)[0]
    vectors = Q @ coefficients
    left = product(vectors) - vectors * values
    over = _over(left, values, tol)
    residual = float(np.sqrt(np.square(left).sum(axis=0)).max(initial=0.0))
    if over > 2.0:
        warnings.warn(
            f"The eigenvectors have residuals up to {over:.2g} times tol={tol:g} of their eigenvalues after "
            f"{passes} passes. Raise max_iter or tol.",
            AccuracyWarning,
            stacklevel=user_level(),
        )
    return KernelEigenpairs(np.asarray(values, np.float64), vectors, residual, passes)


def _over(residuals: Float64Array, values: Float64Array, tol: float) -> float:
    """Return the largest ratio of a column norm to its limit: tol·λ, or rounding relative to λ_1."""
    largest = float(np.abs(values).max(initial=0.0))
    allowed = np.maximum(
        tol * np.abs(values), max(rank_cutoff(np.float64) * largest, np.finfo(np.float64).tiny)
    )
    return float((np.sqrt(np.square(residuals).sum(axis=0)) / allowed).max(initial=0.0))


def _width(rank: int) -> int:
    # At least the rank: a narrower block would miss eigenvectors of an eigenvalue of that multiplicity.
    return rank + EXTRA
