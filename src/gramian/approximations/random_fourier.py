"""Random Fourier features as a transformer."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from gramian._numerics import phase_limit
from gramian._typing import Float64Array, FloatArray, Rows
from gramian.approximations.approximation import Approximation, approximation
from gramian.approximations.explicit import ExplicitBuilder, ExplicitColumns, fitted_map
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel
from gramian.kernels.columns import dense, is_thin
from gramian.kernels.spectral import spectral_draws


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

    map_ = property(fitted_map)

    rank: int = 1000
    draws: str = "orthogonal"
    form: str = "pairs"

    def builder(self) -> RandomFourierBuilder:
        made = self._sizes(RandomFourierBuilder)
        draws_of(made.rank, made.form)
        return made


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

    def into(self, X: Rows, out: FloatArray) -> None:
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
        drawn = spectral_draws(kernel, self._n_draws, n_features, rng, self.draws)
        frequencies = np.ascontiguousarray(drawn.frequencies.T, dtype)
        return FourierColumns(frequencies, *wave_factors(drawn.weights, self.form, dtype, rng))


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
