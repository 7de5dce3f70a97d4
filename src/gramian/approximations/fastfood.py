"""Fastfood as a transformer."""

from __future__ import annotations

from typing import Any

from gramian.approximations.approximation import one_of
from gramian.approximations.explicit_transformer import ExplicitMap
from gramian.approximations.fastfood_map import FastfoodBuilder
from gramian.approximations.random_fourier_map import FORMS, draws_of
from gramian.estimator.base import whole_number


class Fastfood(ExplicitMap):
    r"""Fastfood: random Fourier features in time O(rank·log d) a row, by Hadamard transforms.

    The frequencies are rows of S H G Π H B/ℓ: signs B, permutation Π, normal diagonal G, lengths S of the
    kernel's law, the Hadamard matrix H. Each has the law of a random Fourier frequency; those of a block
    depend on each other, so that the error is about that of independent draws.

    Parameters
    ----------
    kernel : "rbf", "exponential", "matern32", "matern52", "rational_quadratic", "cauchy", such a
        :class:`Kernel`, or a positive multiple of one: functions of ‖(x − z)/ℓ‖₂
    rank : int
        Features; even for pairs.
    form : {"pairs", "phase"}
        As for :class:`RandomFourier`.
    Other parameters and attributes as for :class:`MEKA`.

    Time O(n rank log d), memory O(rank + d) for the map. Faster than :class:`RandomFourier` from about 200
    features on; sparse rows are made dense by tiles.

    Source: Le, Sarlós and Smola 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.approximations.fastfood import Fastfood
    >>> X = np.random.default_rng(0).random((300, 40))
    >>> a = Fastfood(gamma=0.1, rank=1000, random_state=0).fit(X)
    >>> a.features_.nbytes < 20_000, bool(a.relative_error(X) < 0.1)
    (True, True)
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
        self.form = form
        self.memory_budget = memory_budget
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _builder(self) -> FastfoodBuilder:
        one_of("form", self.form, FORMS)
        rank = whole_number("rank", self.rank, 1)
        draws_of(rank, self.form)
        return FastfoodBuilder(rank=rank, form=self.form)
