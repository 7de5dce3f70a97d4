"""Random features of dot-product kernels, as transformers: Maclaurin features and TensorSketch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.fft as fft
import scipy.sparse as sp
from numpy.typing import DTypeLike

from gramian._typing import Float64Array, FloatArray, IntArray, Rows
from gramian.approximations.approximation import Approximation, approximation
from gramian.approximations.explicit import ExplicitBuilder, ExplicitColumns, fitted_map
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel, Scaled, lengthscale_array
from gramian.kernels.columns import dense, is_thin
from gramian.kernels.dot_products import DotKernel, Series, maclaurin_series
from gramian.kernels.spectral import share_out


@dataclass(frozen=True, eq=False)
class MaclaurinColumns(ExplicitColumns):
    """φ_i(x) = amplitude_i · Π_{j ≤ N_i} (ω_ij·x), plus the exact terms √a_0 and √a_1·x/ℓ if requested.

    signs : (features, ΣN_i): the ω_ij divided by the lengthscales, ordered by factor: the first factors of
        all products, then the second factors of those that have at least two, and so on.
    counts : (largest N,): the number of products that have a j-th factor; N_i falls with i.
    amplitudes : (products,).
    low : (1 + features,): √a_0 and √a_1/ℓ for the exact features; or empty.

    Time O(n d ΣN_i).
    """

    signs: FloatArray
    counts: IntArray
    amplitudes: FloatArray
    low: FloatArray

    def __post_init__(self) -> None:
        self._sized(len(self.low) + len(self.amplitudes), len(self.signs), self.signs.dtype)

    def write(self, X: Rows, out: FloatArray) -> None:
        first, bounds = len(self.low), np.concatenate([[0], np.cumsum(self.counts)])
        for part, tile in self._tiles(X, out, max(self.n_columns, self.n_features)):
            if first:
                tile[:, 0] = self.low[0]
                np.multiply(dense(part, self.dtype), self.low[1:], out=tile[:, 1:first])
            products = tile[:, first:]
            products[...] = self.amplitudes
            rows = part if is_thin(part) else dense(part, self.dtype)
            for count, start, stop in zip(self.counts, bounds, bounds[1:]):
                products[:, :count] *= rows @ self.signs[:, start:stop]


@dataclass(frozen=True)
class RandomMaclaurinBuilder(ExplicitBuilder):
    r"""k(x, z) = Σ a_n (x·z)ⁿ with E Π_{j ≤ n} (ω_j·x)(ω_j·z) = (x·z)ⁿ for random signs ω_j.

    powers : ``"shared"``: each power with a_n > 0 gets a share ∝ a_n √(3ⁿ − 1) of the features, at least one,
        which minimises the variance for rows of norm ℓ. ``"drawn"``: N = n with a probability ∝ 2^{−n−1},
        as in the paper, over the powers with a_n > 0.
    exact_low : exact powers 0 and 1 as √a_0 and √a_1·x, with 1 + d of the features (the paper's H0/1).

    The variance grows as 3ⁿ‖x‖²ⁿ‖z‖²ⁿ: scale rows to a norm of about ℓ. Source: Kar and Karnick 2012,
    algorithm 1 and section 6.
    """

    method: ClassVar[str] = "randommaclaurin"
    powers: str = "shared"
    exact_low: bool = False

    def map_bytes(self, n_features: int, itemsize: int) -> int:
        """Return the bytes of the signs of two factors a product, as the powers depend on the kernel."""
        return 2 * self.rank * n_features * (itemsize + 8)

    def columns(
        self, kernel: Kernel, n_features: int, *, dtype: DTypeLike, rng: np.random.Generator
    ) -> MaclaurinColumns:
        """Draw powers and signs."""
        series = maclaurin_series(kernel)
        inverse = np.broadcast_to(1.0 / lengthscale_array(series.lengthscale, n_features), (n_features,))
        a = series.coefficients.copy()
        low = np.zeros(0)
        if self.exact_low:
            low = np.sqrt(np.concatenate([a[:1], np.full(n_features, a[1] if len(a) > 1 else 0.0)]))
            low[1:] *= inverse
            a[:2] = 0.0
        powers, squares = self._powers(Series(a, series.lengthscale), self.rank - len(low), rng)
        counts = (powers[:, None] > np.arange(powers.max(initial=0))).sum(axis=0)
        signs = rng.choice([-1.0, 1.0], (n_features, int(counts.sum()))) * inverse[:, None]
        return MaclaurinColumns(
            np.ascontiguousarray(signs, dtype), counts, np.sqrt(squares).astype(dtype), low.astype(dtype)
        )

    def _powers(self, series: Series, count: int, rng: np.random.Generator) -> tuple[IntArray, Float64Array]:
        """Return the powers of the products in descending order, and the squares of their amplitudes."""
        a = series.coefficients
        present = np.flatnonzero(a > 0)
        if len(present) == 0 and count >= 0:
            return np.zeros(0, np.intp), np.zeros(0)
        if count < len(present):
            raise InputError(
                f"rank={self.rank} leaves {count} features for the {len(present)} powers of x·z in the kernel"
                f"{' beside the exact terms' if self.exact_low else ''}; each needs one. Raise rank"
                f"{', or pass exact_low=False' if self.exact_low else ''}."
            )
        if self.powers == "drawn":
            chance = 0.5 ** (present + 1.0)
            chance /= chance.sum()
            drawn = np.sort(rng.choice(len(present), count, p=chance))[::-1]
            return present[drawn], a[present[drawn]] / (count * chance[drawn])
        # Standard deviation for (x·z)ⁿ at z = x with ‖x‖ = ℓ; the best shares are proportional to it.
        deviations = np.sqrt(3.0**present - 1.0)
        shares = share_out(count, a[present] * deviations if deviations.any() else a[present])
        return np.repeat(present, shares)[::-1].copy(), np.repeat(a[present] / shares, shares)[::-1].copy()


@approximation
class RandomMaclaurin(Approximation):
    r"""Random Maclaurin features of a dot-product kernel k(x, z) = Σ a_n (x·z/ℓ²)ⁿ with a_n ≥ 0.

    φ_i(x) = √c_i · Π_{j ≤ n} (ω_ij·x/ℓ) with random signs ω_ij, where n is the power assigned to feature i.

    Parameters
    ----------
    kernel : "polynomial", "linear", a :class:`Kernel` of one of these kinds, or sums, products and positive
        multiples of them: any polynomial in x·z with coefficients ≥ 0
    rank : int
        Number of features.
    powers : {"shared", "drawn"}
        "shared" gives each power its best share of the features; "drawn" a random share, as in the paper,
        with 1.5 to 3 times the error.
    exact_low : bool
        Represent the powers 0 and 1 exactly, with 1 + d of the features.
    Other parameters and attributes as for :class:`MEKA`.

    The variance of a power grows as ‖x/ℓ‖²ⁿ, so the method suits rows of norm about ℓ. Time O(n d rank
    degree); the map holds the signs, at most rank·degree·d numbers.

    Source: Kar and Karnick 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.approximations.polynomial_maps import RandomMaclaurin
    >>> X = np.random.default_rng(0).random((300, 5))
    >>> a = RandomMaclaurin(degree=2, rank=2000, exact_low=True, random_state=0).fit(X)
    >>> a.rank_, bool(a.relative_error(X) < 0.05)
    (2000, True)
    """

    builders = (RandomMaclaurinBuilder,)

    map_ = property(fitted_map)

    kernel: Any = field(default="polynomial", kw_only=False)
    rank: int = 1000
    powers: str = "shared"
    exact_low: bool = False


@dataclass(frozen=True, eq=False)
class TensorSketchColumns(ExplicitColumns):
    """φ(x) = FFT⁻¹(Π_j FFT(C_j y)) with y = (x/ℓ, √offset) and C_j the CountSketch of hash j.

    buckets : (degree, features + 1): the bucket to which each number of y is added.
    values : the same shape: the sign of each number, divided by its lengthscale; the last is the sign of
        √offset times √offset.
    rank : number of buckets.

    Time O(n degree (d + rank log rank)), with the stored entries in place of d for sparse rows.
    """

    buckets: IntArray
    values: FloatArray
    rank: int

    def __post_init__(self) -> None:
        self._sized(self.rank, self.buckets.shape[1] - 1, self.values.dtype)

    def write(self, X: Rows, out: FloatArray) -> None:
        d = self.n_features
        # C_jᵀ restricted to the features, one CSR row per bucket: a product then adds whole columns of rows.
        sketches = [
            sp.csr_array((v[:d], (b[:d], np.arange(d))), shape=(self.rank, d))
            for b, v in zip(self.buckets, self.values, strict=True)
        ]
        for part, tile in self._tiles(X, out, 4 * max(self.rank, d)):
            columns: Any = part.T.tocsr() if sp.issparse(part) else np.ascontiguousarray(dense(part).T)
            columns = columns.astype(self.dtype, copy=False)
            total: Any = None
            for sketch, bucket, value in zip(sketches, self.buckets[:, d], self.values[:, d], strict=True):
                counted = dense(sketch @ columns).T.copy()
                counted[:, bucket] += value
                factor = fft.rfft(counted, axis=1, overwrite_x=True, workers=1)
                total = factor if total is None else np.multiply(total, factor, out=total)
            tile[...] = fft.irfft(total, self.rank, axis=1, overwrite_x=True, workers=1)


@dataclass(frozen=True)
class TensorSketchBuilder(ExplicitBuilder):
    r"""E φ(x)·φ(z) = (x·z/ℓ² + offset)^degree.

    The variance is at most (2 + 3^degree)·(‖y‖‖y'‖)^{2·degree}/rank with y = (x/ℓ, √offset), for any number
    of monomials. A rank without large prime factors makes the FFT fast.

    Source: Pham and Pagh 2013, algorithm 1; Avron, Nguyen and Woodruff 2014 (the variance).
    """

    method: ClassVar[str] = "tensorsketch"

    def map_bytes(self, n_features: int, itemsize: int) -> int:
        """Return the bytes of hashes and signs, assuming degree four."""
        return 4 * n_features * (8 + 2 * itemsize)

    def columns(
        self, kernel: Kernel, n_features: int, *, dtype: DTypeLike, rng: np.random.Generator
    ) -> TensorSketchColumns:
        """Draw the hashes."""
        factor, inner = 1.0, kernel
        while isinstance(inner, Scaled):
            factor, inner = factor * inner.factor, inner.kernel
        if not isinstance(inner, DotKernel):
            raise InputError(
                f"TensorSketch cannot take {kernel!r}: it sketches (x·z/ℓ² + offset)^degree. Give Linear or "
                "Polynomial; take RandomMaclaurin for sums and products of these, RandomFourier for a kernel "
                "of x − z, Nystrom for any other."
            )
        shape = (inner.degree, n_features + 1)
        buckets = rng.integers(0, self.rank, shape)
        inverse = np.broadcast_to(1.0 / lengthscale_array(inner.lengthscale, n_features), (n_features,))
        numbers: Float64Array = np.append(inverse, np.sqrt(inner.offset))
        # The kernel's factor is divided evenly over the sketches.
        values = rng.choice([-1.0, 1.0], shape) * numbers * factor ** (0.5 / inner.degree)
        return TensorSketchColumns(buckets, values.astype(dtype), self.rank)


@approximation
class TensorSketch(Approximation):
    r"""TensorSketch: the polynomial kernel (x·z/ℓ² + offset)^degree by hashed features.

    φ(x) = FFT⁻¹(Π_j FFT(C_j y)) with y = (x/ℓ, √offset) is a CountSketch of the d^degree monomials, without
    computing any of them.

    Parameters
    ----------
    kernel : "polynomial", "linear", a :class:`Kernel` of one of these kinds, or a positive multiple of one
    rank : int
        Number of features (buckets of the hashes); a number without large prime factors makes the FFT fast.
    Other parameters and attributes as for :class:`MEKA`.

    Time O(n degree (d + rank log rank)), for sparse rows with stored entries in place of d; memory
    O(degree·d) for the map.

    Source: Pham and Pagh 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.approximations.polynomial_maps import TensorSketch
    >>> X = np.random.default_rng(0).random((300, 5))
    >>> a = TensorSketch(degree=2, rank=2000, random_state=0).fit(X)
    >>> a.rank_, bool(a.relative_error(X) < 0.05)
    (2000, True)
    """

    builders = (TensorSketchBuilder,)

    map_ = property(fitted_map)

    kernel: Any = field(default="polynomial", kw_only=False)
    rank: int = 1000
