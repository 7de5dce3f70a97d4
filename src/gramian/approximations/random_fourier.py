"""Random Fourier features as a transformer."""

from __future__ import annotations

from typing import Any

from gramian.approximations.approximation import one_of
from gramian.approximations.explicit_transformer import ExplicitMap
from gramian.approximations.random_fourier_map import FORMS, RandomFourierBuilder, draws_of
from gramian.estimator.base import whole_number
from gramian.kernels.spectral import DRAWS


class RandomFourier(ExplicitMap):
    r"""Random Fourier features: φ(x) = √(2/r)·(sin w_j·x, cos w_j·x), w_j drawn from the kernel's spectrum.

    E φ(x)·φ(z) = k(x, z), and φ(x)·φ(x) = k(x, x). The map is drawn before any row is seen: training is one
    pass, and rows may stream. The error falls as 1/√rank, slower than Nyström's where the spectrum falls
    fast.

    Parameters
    ----------
    kernel : "rbf", "laplacian", "exponential", "matern32", "matern52", "rational_quadratic", "cauchy", such a
        :class:`Kernel`, or sums, products and positive multiples of these
    rank : int
        Features; even for pairs.
    draws : {"orthogonal", "iid", "qmc"}
        Directions orthogonal by groups of d; independent; a scrambled Sobol sequence, whose error falls
        faster than 1/√rank: at rank 2,000 a third of the others' on tables of 8 to 12 features.
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

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        rank: int = 1000,
        draws: str = "orthogonal",
        form: str = "pairs",
        memory_budget: int | str = "2GB",
        tile_dtype: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.rank = rank
        self.draws = draws
        self.form = form
        self.memory_budget = memory_budget
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _builder(self) -> RandomFourierBuilder:
        one_of("draws", self.draws, DRAWS)
        one_of("form", self.form, FORMS)
        rank = whole_number("rank", self.rank, 1)
        draws_of(rank, self.form)
        return RandomFourierBuilder(rank=rank, form=self.form, draws=self.draws)
