"""KALS as a transformer."""

from __future__ import annotations

from typing import Any

from gramian.approximations.approximation import Approximation, given_or_one_of, one_of
from gramian.approximations.kals_builder import KALSBuilder
from gramian.estimator.base import whole_number
from gramian.landmarks.rules import METHODS as LANDMARKS
from gramian.landmarks.rules import PICKED


class KALS(Approximation):
    r"""Kernel approximation by alternating least squares: K ≈ U Uᵀ fitted to sampled entries of K.

    Rounds of V = argmin_V Σ_{(i,j) ∈ Ω} (K_ij − v_iᵀu_j)² and U ← (U + V)/2 from a Nyström start. Features of
    any row, those of the training rows among them, come from the last half-step,
    u(x) = (U_JᵀU_J + μ I)⁻¹ U_Jᵀ k(X_J, x) on the columns J that all rows share.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params : as for :class:`MEKA`.
    rank : int
        r, columns of U.
    n_iter : int
        Rounds. The paper found 4 enough; where the spectrum falls fast some more help.
    n_entries : int, optional
        \|Ω\|; None is n·r·log n. A row has \|Ω\|/n of them, half in columns that all rows share.
    landmarks : str or array (m, d)
        Rule of the Nyström start (:func:`gramian.landmarks.rules.select_landmarks`), or its points.
    columns : str
        Rule that picks the shared columns. "rpcholesky" covers outlying rows, where with "uniform" the
        iteration may run away from the start.
    memory_budget, tile_dtype, random_state, n_jobs : as for :class:`MEKA`.

    Raises ``InputError`` for unusable input, fewer entries a row than the rank among it, and ``BudgetError``
    for a budget that is too small: U and V take 16·n·r bytes.

    Time O(n_iter · \|Ω\| (r²/64 + d + r)); a new row costs \|Ω\|/n kernel values. For the same rank
    :class:`Nystrom` with its defaults is faster on every table that was tried, and as accurate or more but
    for sampled error at rank 200 on ijcnn1 (docs/which-approximation.md); this is the field's method, for
    comparison.

    Source: "Kernel approximation via alternating least squares", ESANN 2016, Algorithm 1. Shared columns of
    tiles and the half-step for new rows are gramian's.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((500, 3))
    >>> gm.KALS(gamma=2.0, rank=20, random_state=0).fit(X).relative_error(X) < 0.01
    True
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
        n_iter: int = 6,
        n_entries: int | None = None,
        landmarks: Any = "kmeans",
        columns: str = "rpcholesky",
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
        self.n_iter = n_iter
        self.n_entries = n_entries
        self.landmarks = landmarks
        self.columns = columns
        self.memory_budget = memory_budget
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _builder(self) -> KALSBuilder:
        given_or_one_of("landmarks", self.landmarks, LANDMARKS)
        one_of("columns", self.columns, PICKED)
        return KALSBuilder(
            rank=whole_number("rank", self.rank, 1),
            n_iter=whole_number("n_iter", self.n_iter, 0),
            n_entries=None if self.n_entries is None else whole_number("n_entries", self.n_entries, 1),
            landmarks=self.landmarks,
            columns=self.columns,
        )
