"""Random Fourier features, of drawn frequencies and of Hadamard transforms (Fastfood), as transformers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import scipy.linalg as la
from numpy.typing import DTypeLike

from gramian._numerics import phase_limit
from gramian._typing import Float64Array, FloatArray, IntArray, Rows
from gramian.approximations.approximation import Approximation, approximation
from gramian.approximations.explicit import ExplicitBuilder, ExplicitColumns, fitted_map
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel, lengthscale_array
from gramian.kernels.columns import dense, is_thin
from gramian.kernels.families import EuclideanKernel
from gramian.kernels.spectral import spectral_draws, spectral_terms, stratified


class Waves(ExplicitColumns):
    """√a_j·(sin t_j(x), cos t_j(x)) for linear t, or √(2a_j)·cos(t_j(x) + b_j) with phases b.

    ``amplitudes`` holds √a_j or √(2a_j), as one number if all are equal. If the phases of a float32 tile are
    so large that their rounding would show, the tile is computed in float64 and reduced by 2π. Data far from
    the origin thus keep their digits.
    """

    amplitudes: FloatArray
    phases: FloatArray | None

    @abstractmethod
    def _linear(self, part: Rows, out: FloatArray) -> None:
        """Compute t for a tile's rows in the dtype of ``out``, and write it there."""

    @property
    def _row_numbers(self) -> int:
        """Numbers that a row needs in the work space of a tile."""
        return max(self.n_columns, self.n_features)

    def write(self, X: Rows, out: FloatArray) -> None:
        for part, tile in self._tiles(X, out, self._row_numbers):
            t = tile[:, : self.n_draws]
            with np.errstate(over="ignore", invalid="ignore"):
                self._linear(part, t)
                small = np.einsum("ij,ij->", t, t) <= phase_limit(self.dtype) ** 2 * t.size
            if self.dtype == np.float32 and not small:
                wide = np.empty(t.shape)
                self._linear(part, wide)
                t[...] = np.remainder(wide, 2.0 * np.pi)
            self._wave(tile)

    @property
    def n_draws(self) -> int:
        """Number of frequencies."""
        return self.n_columns if self.phases is not None else self.n_columns // 2

    def _wave(self, tile: FloatArray) -> None:
        """Turn the first columns of a tile, which hold t, into the features: sines, then cosines.

        With h = tan(t/2) and s = 2/(1 + h²): sin t = h·s, cos t = s − 1. One vectorised tangent costs less
        than a sine and a cosine, especially in float64.
        """
        h = tile[:, : self.n_draws]
        if self.phases is not None:
            h += self.phases
        h *= 0.5
        np.tan(h, out=h)
        s = h if self.phases is not None else tile[:, self.n_draws :]
        np.multiply(h, h, out=s)
        s += 1.0
        np.divide(2.0, s, out=s)
        if self.phases is None:
            h *= s
        s -= 1.0
        if len(self.amplitudes) == 1:
            tile *= self.amplitudes[0]
        else:
            tile.reshape(len(tile), -1, self.n_draws)[...] *= self.amplitudes


@dataclass(frozen=True, eq=False)
class FourierColumns(Waves):
    """t_j(x) = w_j·x.

    frequencies : (features, draws), in the tiles' dtype.

    Time O(n d draws), by one product and one tangent a tile.
    """

    frequencies: FloatArray
    amplitudes: FloatArray
    phases: FloatArray | None

    def __post_init__(self) -> None:
        features, draws = self.frequencies.shape
        self._sized(draws if self.phases is not None else 2 * draws, features, self.frequencies.dtype)

    def _linear(self, part: Rows, out: FloatArray) -> None:
        factor = self.frequencies.astype(out.dtype, copy=False)
        if is_thin(part):
            out[...] = part @ factor
        else:
            np.matmul(dense(part, out.dtype), factor, out=out)


@dataclass(frozen=True)
class RandomFourierBuilder(ExplicitBuilder):
    r"""k(x, z) = E a cos(w·(x − z)) as an average over drawn frequencies.

    With pairs k̃(x, x) = k(x, x). A random phase doubles the number of frequencies, but adds the noise of
    cos(w·(x + z) + 2b). Source: Rahimi and Recht 2007; Sutherland and Schneider 2015 (comparison of the two
    forms).
    """

    method: ClassVar[str] = "randomfourier"
    form: str = "pairs"
    draws: str = "orthogonal"

    def map_bytes(self, n_features: int, itemsize: int) -> int:
        """Return the bytes of the frequencies in the tiles' dtype, and of drawing them in float64."""
        return self._n_draws * n_features * (itemsize + 8 * 4)

    @property
    def _n_draws(self) -> int:
        return draws_of(self.rank, self.form)

    def columns(
        self, kernel: Kernel, n_features: int, *, dtype: DTypeLike, rng: np.random.Generator
    ) -> FourierColumns:
        """Draw the frequencies."""
        frequencies, weights = spectral_draws(kernel, self._n_draws, n_features, rng, self.draws)
        waves = np.ascontiguousarray(frequencies.T, dtype)
        return FourierColumns(waves, *wave_factors(weights, self.form, dtype, rng))


@approximation
class RandomFourier(Approximation):
    r"""Random Fourier features: φ(x) = √(2/r)·(sin w_j·x, cos w_j·x), w_j drawn from the kernel's spectrum.

    E φ(x)·φ(z) = k(x, z), and φ(x)·φ(x) = k(x, x). The map is drawn before any row is seen, so training is
    one pass and rows may be streamed. The error falls as 1/√rank, more slowly than Nyström's if the spectrum
    falls fast.

    Parameters
    ----------
    kernel : "rbf", "laplacian", "exponential", "matern32", "matern52", "rational_quadratic", "cauchy", a
        :class:`Kernel` of one of these kinds, or sums, products and positive multiples of them
    rank : int
        Number of features; even for pairs.
    draws : {"orthogonal", "iid", "qmc"}
        "orthogonal" directions in groups of d; independent ones; or a scrambled Sobol sequence, whose error
        falls faster than 1/√rank: at rank 2,000 it has a third of the others' error on tables of 8 to 12
        features.
    form : {"pairs", "phase"}
        Sine and cosine of rank/2 frequencies, or √2 cos(w·x + b) of rank frequencies with random phases b.
    Other parameters and attributes as for :class:`MEKA`.

    Time O(n d rank), memory O(d rank) for the map and n·rank numbers for the operator.

    Source: Rahimi and Recht 2007; Yu et al. 2016 (orthogonal); Avron et al. 2016 (quasi-Monte Carlo).

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.approximations.random_fourier import RandomFourier
    >>> X = np.random.default_rng(0).random((500, 3))
    >>> a = RandomFourier(gamma=2.0, rank=800, random_state=0).fit(X)
    >>> a.transform(X[:2]).shape, bool(a.relative_error(X) < 0.05)
    ((2, 800), True)
    """

    builders = (RandomFourierBuilder,)

    map_ = property(fitted_map)

    rank: int = 1000
    draws: str = "orthogonal"
    form: str = "pairs"


def draws_of(rank: int, form: str) -> int:
    """Return the number of frequencies that give ``rank`` features."""
    if form == "pairs" and rank % 2:
        raise InputError(
            f"rank={rank} is odd, but form='pairs' gives each frequency a cosine and a sine. Pass an even "
            "rank, or form='phase'."
        )
    return rank // 2 if form == "pairs" else rank


def wave_factors(
    weights: Float64Array, form: str, dtype: DTypeLike, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray | None]:
    """Return amplitudes and phases (None for pairs) of frequencies with these weights."""
    squares = weights if form == "pairs" else 2.0 * weights
    if (weights == weights[0]).all():
        squares = squares[:1]
    phases = None if form == "pairs" else rng.uniform(0.0, 2.0 * np.pi, len(weights)).astype(dtype)
    return np.sqrt(squares).astype(dtype), phases


#: The transform is a product of matrices up to 2⁶ wide, which stay in the cache. Chosen by hand.
FACTOR_BITS = 6


def hadamard(rows: FloatArray, work: FloatArray) -> FloatArray:
    """Return H x for each row x of a contiguous (m, 2^q) array, in ``rows`` or ``work``; both are
    overwritten.

    H_{ab} = H_a ⊗ H_b gives one matrix product for each factor of at most 64, with entries ±1 in Sylvester's
    order. Time O(m 2^q Σ factors), for instance 32 + 32 for 2^q = 1,024.
    """
    width = rows.shape[1]
    source, target, inner = rows, work, 1
    for factor in _factors(width.bit_length() - 1):
        H = _sylvester(factor, rows.dtype)
        if inner == 1:
            np.matmul(source.reshape(-1, factor), H, out=target.reshape(-1, factor))
        else:
            shape = (-1, factor, inner)
            np.matmul(H, source.reshape(shape), out=target.reshape(shape))
        source, target, inner = target, source, inner * factor
    return source


def _factors(bits: int) -> list[int]:
    count = max(1, -(-bits // FACTOR_BITS))
    return [2 ** (bits * (k + 1) // count - bits * k // count) for k in range(count)]


@cache
def _sylvester(size: int, dtype: np.dtype[Any]) -> FloatArray:
    matrix: FloatArray = la.hadamard(size).astype(dtype)
    matrix.setflags(write=False)
    return matrix


@dataclass(frozen=True, eq=False)
class FastfoodColumns(Waves):
    """t(x) = S H G Π H B x in blocks of d̂ = 2^q ≥ d frequencies, with x padded by zeros.

    scales : (blocks, d): the signs B divided by the lengthscales.
    order : (blocks·d̂,): Π as positions among the numbers of all blocks.
    gauss : (blocks·d̂,): G.
    lengths : (draws,): S, the ratio of the frequencies' lengths to those of H G Π H B.

    Time O(n draws log d), memory O(draws).
    """

    scales: FloatArray
    order: IntArray
    gauss: FloatArray
    lengths: FloatArray
    amplitudes: FloatArray
    phases: FloatArray | None

    def __post_init__(self) -> None:
        draws = len(self.lengths)
        columns = draws if self.phases is not None else 2 * draws
        self._sized(columns, self.scales.shape[1], self.gauss.dtype)

    @property
    def _row_numbers(self) -> int:
        return max(self.n_columns, len(self.gauss))

    def _linear(self, part: Rows, out: FloatArray) -> None:
        (blocks, features), total, m = self.scales.shape, len(self.gauss), len(out)
        first = np.zeros((m, blocks, total // blocks), out.dtype)
        rows = dense(part)[:, None, :]
        np.multiply(rows, self.scales, out=first[:, :, :features], casting="same_kind")
        work = np.empty((m * blocks, total // blocks), out.dtype)
        mixed = hadamard(first.reshape(work.shape), work)
        second = np.take(mixed.reshape(m, total), self.order, axis=1)
        second *= self.gauss
        mixed = hadamard(second.reshape(work.shape), work).reshape(m, total)
        np.multiply(mixed[:, : self.n_draws], self.lengths, out=out)


@dataclass(frozen=True)
class FastfoodBuilder(ExplicitBuilder):
    r"""Frequencies W = S H G Π H B/ℓ in blocks of d̂ = 2^⌈log₂ d⌉: random signs B, a permutation Π, normal G.

    Every row of H G Π H B has length √d̂‖G‖; S rescales it to √s·χ_d̂, a random length from the kernel's
    spectral measure. A row h of the first H gives the normal vector G∘h, whose direction is uniform, and
    Π H B/√d̂ only rotates it. So each frequency has exactly the measure's distribution; frequencies of the
    same block depend on each other. Time O(rank·log d) a row and memory O(rank), where
    :class:`RandomFourierBuilder` takes O(rank·d): worthwhile from hundreds of features on.

    Source: Le, Sarlós and Smola 2013, equation 7.
    """

    method: ClassVar[str] = "fastfood"
    form: str = "pairs"

    def map_bytes(self, n_features: int, itemsize: int) -> int:
        """Return the bytes of diagonals, permutation and the numbers from which they are drawn."""
        total = draws_of(self.rank, self.form) + 2 * n_features
        return total * (3 * itemsize + 8 * 4)

    def columns(
        self, kernel: Kernel, n_features: int, *, dtype: DTypeLike, rng: np.random.Generator
    ) -> FastfoodColumns:
        """Draw the diagonals and the permutations."""
        terms = spectral_terms(kernel)
        family = terms[0][1][0]
        if len(terms) > 1 or len(terms[0][1]) > 1 or not isinstance(family, EuclideanKernel):
            raise InputError(
                f"Fastfood cannot take {kernel!r}: its frequencies have random lengths in all directions, "
                "which makes kernels of ‖(x − z)/ℓ‖₂. Give one of these, such as Gaussian or Matern, or take "
                "RandomFourier."
            )
        draws = draws_of(self.rank, self.form)
        width = 1 << max(0, n_features - 1).bit_length()
        blocks = -(-draws // width)
        signs = rng.choice([-1.0, 1.0], (blocks, n_features))
        own = np.argsort(rng.random((blocks, width)), axis=1)
        gauss = rng.standard_normal((blocks, width))
        squares = rng.chisquare(width, draws)
        quantile = family.mixing
        if quantile is not None:
            squares *= quantile(stratified(draws, 1, rng)[:, 0])
        norms = np.repeat(np.linalg.norm(gauss, axis=1), width)[:draws]
        weights = np.full(draws, terms[0][0] / draws)
        scales = signs / lengthscale_array(family.lengthscale, n_features)
        return FastfoodColumns(
            scales.astype(dtype),
            (own + width * np.arange(blocks)[:, None]).ravel(),
            gauss.ravel().astype(dtype),
            (np.sqrt(squares / width) / norms).astype(dtype),
            *wave_factors(weights, self.form, dtype, rng),
        )


@approximation
class Fastfood(Approximation):
    r"""Fastfood: random Fourier features in time O(rank·log d) a row, by Hadamard transforms.

    The frequencies are the rows of S H G Π H B/ℓ, with random signs B, a permutation Π, a normal diagonal G,
    the Hadamard matrix H, and lengths S from the kernel's spectral distribution. Each row is distributed like
    a random Fourier frequency. Rows of the same block depend on each other, but the error is about that of
    independent draws.

    Parameters
    ----------
    kernel : "rbf", "exponential", "matern32", "matern52", "rational_quadratic", "cauchy", a :class:`Kernel`
        of one of these kinds, or a positive multiple of one: functions of ‖(x − z)/ℓ‖₂
    rank : int
        Number of features; even for pairs.
    form : {"pairs", "phase"}
        As for :class:`RandomFourier`.
    Other parameters and attributes as for :class:`MEKA`.

    Time O(n rank log d), memory O(rank + d) for the map. Faster than :class:`RandomFourier` from about 200
    features on. Sparse rows are made dense, one tile at a time.

    Source: Le, Sarlós and Smola 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.approximations.random_fourier import Fastfood
    >>> X = np.random.default_rng(0).random((300, 40))
    >>> a = Fastfood(gamma=0.1, rank=1000, random_state=0).fit(X)
    >>> a.features_.nbytes < 20_000, bool(a.relative_error(X) < 0.1)
    (True, True)
    """

    builders = (FastfoodBuilder,)

    map_ = property(fitted_map)

    rank: int = 1000
    form: str = "pairs"
