"""Ensemble Nyström as a transformer."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gramian.approximations.approximation import Approximation, one_of
from gramian.approximations.ensemble_nystrom_builder import EnsembleNystromBuilder
from gramian.estimator.base import whole_number
from gramian.landmarks.rules import METHODS as LANDMARKS

#: How the experts are weighed.
WEIGHTS = ("uniform", "ridge")


class EnsembleNystrom(Approximation):
    r"""A weighted sum of Nyström approximations, K̃ = Σ_t μ_t K(·, Z_t) K(Z_t, Z_t)⁺ K(Z_t, ·).

    Its experts are built one by one on few landmarks each, at a cost of n_experts · rank³ instead of
    (n_experts · rank)³ for one approximation on all of these landmarks, which is more accurate.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params : as for :class:`MEKA`.
    rank, n_experts : int
        Landmarks of an expert; experts.
    landmarks : str
        Rule by name (:func:`gramian.landmarks.rules.select_landmarks`).
    weights : {"uniform", "ridge"}
        1/n_experts each, or fitted to entries of K by non-negative least squares.
    memory_budget, tile_dtype, random_state, n_jobs : as for :class:`MEKA`.

    Attributes
    ----------
    expert_weights_ : array (n_experts,)
        μ.
    expert_landmarks_ : list of arrays
        Those of each expert. Others as of :class:`MEKA`.

    Raises ``InputError`` for unusable input and ``BudgetError`` for a budget that is too small.

    Time O(n · n_experts · rank (d + n_experts · rank)), result n · n_experts · rank numbers.

    Source: Kumar, Mohri and Talwalkar 2009.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((500, 3))
    >>> a = gm.EnsembleNystrom(gamma=2.0, rank=20, n_experts=4, random_state=0).fit(X)
    >>> a.expert_weights_.tolist(), a.rank_
    ([0.25, 0.25, 0.25, 0.25], 80)
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        rank: int = 100,
        n_experts: int = 5,
        landmarks: str = "uniform",
        weights: str = "uniform",
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
        self.n_experts = n_experts
        self.landmarks = landmarks
        self.weights = weights
        self.memory_budget = memory_budget
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compress the Gram matrix of the rows of X. ``y`` is ignored."""
        super().fit(X, y)
        notes, points = self.features_.notes, self.features_.nodes[0].landmarks
        experts = range(sum(name.startswith("weight of expert") for name in notes))
        self.expert_weights_ = np.asarray([notes[f"weight of expert {t}"] for t in experts])
        counts = [int(notes[f"landmarks of expert {t}"]) for t in experts]
        self.expert_landmarks_ = np.split(np.asarray(points), np.cumsum(counts)[:-1])
        return self

    def _builder(self) -> EnsembleNystromBuilder:
        one_of("landmarks", self.landmarks, LANDMARKS)
        one_of("weights", self.weights, WEIGHTS)
        return EnsembleNystromBuilder(
            rank=whole_number("rank", self.rank, 1),
            n_experts=whole_number("n_experts", self.n_experts, 1),
            landmarks=self.landmarks,
            weights=self.weights,
        )
