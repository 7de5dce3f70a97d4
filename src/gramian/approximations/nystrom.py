"""Nyström approximation as a transformer."""

from __future__ import annotations

from typing import Any, Self

from gramian.approximations.approximation import (
    Approximation,
    at_least_one,
    given_or_one_of,
    not_negative,
    one_of,
)
from gramian.approximations.nystrom_builder import NystromBuilder
from gramian.estimator.base import whole_number
from gramian.exceptions import InputError
from gramian.kernels.columns import dense
from gramian.landmarks.rules import METHODS as LANDMARKS
from gramian.landmarks.rules import STOPPING

#: How the leading eigenvectors are found.
SVDS = ("exact", "randomized")


class Nystrom(Approximation):
    r"""Nyström approximation of rank r: K̃ = K(X, Z) M K(Z, X), the global low rank.

    With the defaults 5·r landmarks are pivots of a randomly pivoted Cholesky factorization, and K̃ on them
    is cut to its r leading eigenvectors: within a few per cent of the best approximation of rank r, K's own
    eigenvectors, where r landmarks alone err several times as much.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params : as for :class:`MEKA`.
    rank : int
        r, columns of the features.
    landmarks : str or array (m, d)
        Rule by name (:func:`gramian.landmarks.rules.select_landmarks`): "uniform", "kmeans",
        "weighted-kmeans", "leverage", "bless", "rpcholesky", "cholesky" (incomplete Cholesky),
        "pivoted-qr"; or the points.
    oversampling : float
        Landmarks per rank.
    recompress : bool
        Cut to the rank by one pass over all rows; otherwise by the eigenvectors of K(Z, Z), as in the
        classical method. No difference where there are as many landmarks as the rank.
    svd : {"exact", "randomized"}
        Eigenvectors of the m × m matrix by LAPACK, or by ``n_power`` products with ``n_extra`` random
        vectors more than the rank (Li, Kwok and Lu 2010, with q = 1 and p = 10).
    n_power, n_extra : int
        Of "randomized".
    tol : float
        "rpcholesky" and "cholesky" end at fewer landmarks where they leave this part of tr(K).
    warm_start : bool
        ``fit`` keeps the landmarks of the last fit and adds to them what a larger rank or oversampling asks
        for ("rpcholesky": among what they leave over). The m × m factorization and the pass over
        the rows are done anew.
    memory_budget, tile_dtype, random_state, n_jobs : as for :class:`MEKA`.

    Attributes
    ----------
    landmarks_ : array (m, d). Others as of :class:`MEKA`.

    Raises ``InputError`` for unusable input and ``BudgetError`` for a budget that is too small.

    Time O(n m (d + m) + m³) with recompression, O(n m (d + r) + m³) without; memory of the build
    O(m² + m d), of the result n·r numbers. One basis for all rows: where the kernel is narrow, blocks
    (:class:`BlockBasis`) are better for the same bytes.

    Source: Williams and Seeger 2001; Chen, Epperly, Tropp and Webber 2025 for the pivots.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((500, 3))
    >>> a = gm.Nystrom(gamma=2.0, rank=30, random_state=0).fit(X)
    >>> best = np.linalg.eigvalsh(gm.Gaussian(lengthscale=0.5)(X))[-31]
    >>> bool(a.spectral_error(X) < 1.05 * best)
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
        landmarks: Any = "rpcholesky",
        oversampling: float = 5.0,
        recompress: bool = True,
        svd: str = "exact",
        n_power: int = 1,
        n_extra: int = 10,
        tol: float = 0.0,
        warm_start: bool = False,
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
        self.landmarks = landmarks
        self.oversampling = oversampling
        self.recompress = recompress
        self.svd = svd
        self.n_power = n_power
        self.n_extra = n_extra
        self.tol = tol
        self.warm_start = warm_start
        self.memory_budget = memory_budget
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compress the Gram matrix of the rows of X. ``y`` is ignored."""
        super().fit(X, y)
        self.landmarks_ = self.features_.nodes[0].landmarks
        return self

    def _builder(self) -> NystromBuilder:
        given_or_one_of("landmarks", self.landmarks, LANDMARKS)
        one_of("svd", self.svd, SVDS)
        tol = not_negative("tol", self.tol)
        if tol and not (isinstance(self.landmarks, str) and self.landmarks in STOPPING):
            rule = self.landmarks if isinstance(self.landmarks, str) else "given points"
            raise InputError(
                f"tol={self.tol!r} has no effect on landmarks={rule!r}. Take landmarks='rpcholesky' or "
                "'cholesky', or tol=0."
            )
        kept = dense(self.landmarks_) if self.warm_start and hasattr(self, "landmarks_") else None
        return NystromBuilder(
            rank=whole_number("rank", self.rank, 1),
            landmarks=self.landmarks,
            oversampling=at_least_one("oversampling", self.oversampling),
            recompress=bool(self.recompress),
            svd=self.svd,
            n_power=whole_number("n_power", self.n_power, 0),
            n_extra=whole_number("n_extra", self.n_extra, 0),
            tol=tol,
            kept=kept,
        )
