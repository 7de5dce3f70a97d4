r"""Spectral measures of stationary kernels, and random draws from them.

By Bochner's theorem k(x, z) = κ(x − z) = κ(0) E cos(w·(x − z)) for w drawn from a probability measure. Every
radial family here is a scale mixture of Gaussians: w = √s·g/ℓ with g standard normal and s > 0 drawn from the
family's mixing distribution, which its class knows. The Laplacian, a product over the features, has
a mixing variable per feature. The measures follow the algebra of kernels: a factor scales, a sum joins the
draws, and a product adds their frequencies.
"""

from __future__ import annotations

import numpy as np
import scipy.special as special
from scipy.stats import qmc

from gramian._random import children
from gramian._typing import Float64Array, IntArray
from gramian.exceptions import InputError, did_you_mean
from gramian.kernels.base import Kernel, Product, Scaled, Sum, lengthscale_array
from gramian.kernels.families import Laplacian, Stationary
from gramian.kernels.resolve import FAMILIES

#: Ways to draw: independently; orthogonal in groups of d; by a scrambled Sobol sequence.
DRAWS = ("iid", "orthogonal", "qmc")
#: Bits of a coordinate of the Sobol sequence.
SOBOL_BITS = 30


def spectral_draws(
    kernel: Kernel, n_draws: int, n_features: int, rng: np.random.Generator, kind: str = "iid"
) -> tuple[Float64Array, Float64Array]:
    r"""Draw frequencies w_j from a kernel's spectral measure; return them and weights a_j.

    Σ_j a_j cos(w_j·(x − z)) ≈ k(x, z) for w_j in the rows of an array (draws, features). The sum of the
    weights is k(x, x). They are all equal, except for sums of kernels.

    kernel : Gaussian, Laplacian, Exponential, Matern, RationalQuadratic or Cauchy, or sums, products and
        positive multiples of these.
    kind : ``"iid"`` (Rahimi and Recht 2007); ``"orthogonal"``, where g runs through the rows of random
        orthogonal matrices times independent lengths with distribution χ_d (Yu et al. 2016), and the mixing
        variable is stratified: one draw in each of n_draws equally likely intervals; ``"qmc"``, a scrambled
        Sobol sequence mapped by the inverse distribution functions (Avron et al. 2016). In each of them every
        w_j has the distribution of the measure, so that the sum above is unbiased.

    A sum of kernels divides the draws among its terms in proportion to their k(x, x), at least one each; a
    product adds the draws of its factors, paired at random. Time O(n_draws·d), for orthogonal draws times
    min(n_draws, d).

    Raises :class:`InputError` for other kernels, whose measure is not known here, for more terms than draws,
    and for a Sobol sequence of more than 21,201 coordinates.

    >>> from gramian.kernels import Gaussian
    >>> frequencies, weights = spectral_draws(Gaussian(2.0), 1000, 3, np.random.default_rng(0), "orthogonal")
    >>> frequencies.shape, bool(abs(frequencies.std() - 0.5) < 0.02)
    ((1000, 3), True)
    """
    if kind not in DRAWS:
        raise InputError(
            f"draws={kind!r} is unknown. Choose one of {', '.join(DRAWS)}." + did_you_mean(kind, DRAWS)
        )
    terms = spectral_terms(kernel)
    if len(terms) > n_draws:
        raise InputError(
            f"{n_draws} frequencies cannot be divided among the {len(terms)} terms of {kernel!r}. Raise "
            "rank, so that each term has one."
        )
    factors = np.array([factor for factor, _ in terms])
    counts = share_out(n_draws, factors)
    frequencies = np.zeros((n_draws, n_features))
    ends = np.cumsum(counts)
    for (_, families), start, stop in zip(terms, ends - counts, ends, strict=True):
        rows = frequencies[start:stop]
        for family in families:
            # Pair at random, because the draws of a family may be ordered.
            pair = rng.permutation(len(rows)) if len(families) > 1 else slice(None)
            rows += _frequencies(family, len(rows), n_features, rng, kind)[pair]
    return frequencies, np.repeat(factors / counts, counts)


def spectral_terms(kernel: Kernel) -> list[tuple[float, tuple[Stationary, ...]]]:
    """Write a kernel as Σ factor · (product of families) by expanding brackets; raise for other kernels."""
    if isinstance(kernel, Scaled):
        return [(kernel.factor * factor, own) for factor, own in spectral_terms(kernel.kernel)]
    if isinstance(kernel, Sum):
        return spectral_terms(kernel.left) + spectral_terms(kernel.right)
    if isinstance(kernel, Product):
        left, right = spectral_terms(kernel.left), spectral_terms(kernel.right)
        return [(f * g, (*own, *other)) for f, own in left for g, other in right]
    if isinstance(kernel, Stationary) and kernel.has_measure:
        return [(1.0, (kernel,))]
    names = ", ".join(f.__name__ for f in FAMILIES if issubclass(f, Stationary) and f.has_measure)
    raise InputError(
        f"{kernel!r} has no known spectral measure, which random Fourier features need. Give one of "
        f"{names}, or sums, products and positive multiples of these; take TensorSketch or "
        "RandomMaclaurin for a polynomial kernel, Nystrom for any other."
    )


def _frequencies(kernel: Stationary, n: int, d: int, rng: np.random.Generator, kind: str) -> Float64Array:
    quantile, separable = kernel.mixing, isinstance(kernel, Laplacian)
    if separable and kind != "orthogonal":
        # Drawing from the Cauchy distribution directly needs half the coordinates of the Sobol sequence.
        uniforms = _sobol(n, d, rng) if kind == "qmc" else rng.random((n, d))
        rows = np.tan(np.pi * (uniforms - 0.5))
    else:
        own = 0 if quantile is None else d if separable else 1
        rows, uniforms = _standard(n, d, own, rng, kind)
        if quantile is not None:
            rows *= np.sqrt(quantile(uniforms))
    rows /= lengthscale_array(kernel.lengthscale, d)
    return rows


def _standard(
    n: int, d: int, own: int, rng: np.random.Generator, kind: str
) -> tuple[Float64Array, Float64Array]:
    """Return normal rows (n, d), and ``own`` uniform numbers in (0, 1) for the mixing of each draw."""
    if kind == "qmc":
        points = _sobol(n, d + own, rng)
        return special.ndtri(points[:, :d]), points[:, d:]
    if kind == "iid":
        return rng.standard_normal((n, d)), 1.0 - rng.random((n, own))
    return orthogonal_normals(n, d, rng), stratified(n, own, rng)


def stratified(n: int, columns: int, rng: np.random.Generator) -> Float64Array:
    """Return stratified uniform numbers in (0, 1]: per column one in each of n equal parts, shuffled."""
    cells = rng.permuted(np.tile(np.arange(n)[:, None], (1, columns)), axis=0)
    return (cells + 1.0 - rng.random((n, columns))) / n


def orthogonal_normals(n: int, d: int, rng: np.random.Generator) -> Float64Array:
    """Return n standard normal rows, orthogonal within each group of d consecutive ones.

    Rows of Haar-distributed orthogonal matrices, times independent lengths with distribution χ_d. Source: Yu
    et al. 2016.
    """
    starts = range(0, n, d)
    rows = np.empty((n, d))
    for start, stream in zip(starts, children(rng, len(starts)), strict=True):
        count = min(d, n - start)
        q, r = np.linalg.qr(stream.standard_normal((d, count)))
        # The signs of R's diagonal make Q Haar-distributed.
        rows[start : start + count] = (q * np.copysign(1.0, r.diagonal())).T
    return rows * np.sqrt(rng.chisquare(d, (n, 1)))


def _sobol(n: int, coordinates: int, rng: np.random.Generator) -> Float64Array:
    if coordinates > qmc.Sobol.MAXDIM:
        raise InputError(
            f"draws='qmc' needs {coordinates} coordinates, but the Sobol sequence has {qmc.Sobol.MAXDIM}. "
            "Use draws='orthogonal'."
        )
    sequence = qmc.Sobol(coordinates, bits=SOBOL_BITS, seed=rng)
    points = sequence.random_base2(int(n - 1).bit_length())[:n]
    # Move points from the edge of their cell to its middle, so that 0 does not give an infinite frequency.
    return points + 0.5**SOBOL_BITS / 2


def share_out(total: int, weights: Float64Array) -> IntArray:
    """Divide ``total`` into whole numbers of at least 1, as close as possible to the weights' shares."""
    shares = (total - len(weights)) * weights / weights.sum()
    counts = np.floor(shares).astype(np.intp)
    counts[np.argsort(counts - shares, kind="stable")[: total - len(weights) - counts.sum()]] += 1
    return np.asarray(counts + 1)
