"""TensorSketch as a transformer."""

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
from gramian.kernels.columns import dense
from gramian.kernels.dot_products import DotKernel


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
    >>> from gramian.approximations.tensor_sketch import TensorSketch
    >>> X = np.random.default_rng(0).random((300, 5))
    >>> a = TensorSketch(degree=2, rank=2000, random_state=0).fit(X)
    >>> a.rank_, bool(a.relative_error(X) < 0.05)
    (2000, True)
    """

    map_ = property(fitted_map)

    kernel: Any = field(default="polynomial", kw_only=False)
    rank: int = 1000

    def builder(self) -> TensorSketchBuilder:
        return self._sizes(TensorSketchBuilder)


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

    def into(self, X: Rows, out: FloatArray) -> None:
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
