"""Random Maclaurin features as a transformer."""

from __future__ import annotations

from typing import Any

from gramian.approximations.approximation import one_of
from gramian.approximations.explicit_transformer import ExplicitMap
from gramian.approximations.random_maclaurin_map import POWERS, RandomMaclaurinBuilder
from gramian.estimator.base import whole_number


class RandomMaclaurin(ExplicitMap):
    r"""Random Maclaurin features of a dot-product kernel k(x, z) = Σ a_n (x·z/ℓ²)ⁿ with a_n ≥ 0.

    φ_i(x) = √c_i · Π_{j ≤ n} (ω_ij·x/ℓ) with random signs ω_ij, n the power that feature i is given to.

    Parameters
    ----------
    kernel : "polynomial", "linear", such a :class:`Kernel`, or sums, products and positive multiples of
        these: any polynomial in x·z with coefficients ≥ 0
    rank : int
        Features.
    powers : {"shared", "drawn"}
        Each power has its best share of the features, or a random one as in the paper (1.5 to 3 times the
        error).
    exact_low : bool
        The powers 0 and 1 exactly, with 1 + d of the features.
    Other parameters and attributes as for :class:`MEKA`.

    The variance of a power grows as ‖x/ℓ‖²ⁿ: rows of norm about ℓ are what it is made for. Time O(n d rank
    degree); the map holds the signs, rank·degree·d numbers at most.

    Source: Kar and Karnick 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.approximations.random_maclaurin import RandomMaclaurin
    >>> X = np.random.default_rng(0).random((300, 5))
    >>> a = RandomMaclaurin(degree=2, rank=2000, exact_low=True, random_state=0).fit(X)
    >>> a.rank_, bool(a.relative_error(X) < 0.05)
    (2000, True)
    """

    def __init__(
        self,
        kernel: Any = "polynomial",
        *,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        rank: int = 1000,
        powers: str = "shared",
        exact_low: bool = False,
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
        self.powers = powers
        self.exact_low = exact_low
        self.memory_budget = memory_budget
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _builder(self) -> RandomMaclaurinBuilder:
        one_of("powers", self.powers, POWERS)
        return RandomMaclaurinBuilder(
            rank=whole_number("rank", self.rank, 1), powers=self.powers, exact_low=bool(self.exact_low)
        )
