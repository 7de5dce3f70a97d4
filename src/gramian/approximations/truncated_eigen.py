"""The best approximation of a rank as a transformer."""

from __future__ import annotations

from typing import Any, Self

from gramian.approximations.approximation import Approximation
from gramian.approximations.truncated_eigen_builder import TruncatedEigenBuilder
from gramian.estimator.base import positive_number, whole_number


class TruncatedEigen(Approximation):
    r"""The leading eigenvectors of K on all rows: no approximation of that rank is better.

    The yardstick of the others, for some ten thousand rows. K is never stored: a block Krylov method takes
    some ten products with it, by tiles.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params : as for :class:`MEKA`.
    rank : int
    tol : float
        The iteration ends where all residuals ‖K u − λ u‖ are at most tol·λ.
    max_iter : int
        Products with K at most; warns with the amount where they do not suffice.
    memory_budget, tile_dtype, random_state, n_jobs : as for :class:`MEKA`.

    Attributes
    ----------
    n_iter_ : products with K. Others as of :class:`MEKA`; ``features_.notes`` has the largest residual,
        recomputed at the end.

    Raises ``InputError`` for unusable input and ``BudgetError`` for a budget that is too small.

    Time O(max_iter · n² (d + rank)), memory O(max_iter · n · rank): quadratic in n. A new row costs n kernel
    values.

    Source: Golub and Underwood 1977; Musco and Musco 2015.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((300, 3))
    >>> a = gm.TruncatedEigen(gamma=2.0, rank=20, random_state=0).fit(X)
    >>> K = gm.Gaussian(lengthscale=0.5)(X)
    >>> bool(np.isclose(np.linalg.norm(K - a.operator_.to_dense(), 2), np.linalg.eigvalsh(K)[-21]))
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
        tol: float = 1e-6,
        max_iter: int = 20,
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
        self.tol = tol
        self.max_iter = max_iter
        self.memory_budget = memory_budget
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the leading eigenvectors of the Gram matrix of the rows of X. ``y`` is ignored."""
        super().fit(X, y)
        self.n_iter_ = int(self.features_.notes["passes over K"])
        return self

    def _builder(self) -> TruncatedEigenBuilder:
        return TruncatedEigenBuilder(
            rank=whole_number("rank", self.rank, 1),
            tol=positive_number("tol", self.tol),
            max_iter=whole_number("max_iter", self.max_iter, 1),
        )
