"""Nyström approximation as a transformer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from gramian._checks import not_negative
from gramian._numerics import descending_eigh, rank_cutoff
from gramian._random import children
from gramian._typing import Array, Rows, RowsLike
from gramian.approximations.approximation import Approximation, approximation
from gramian.compression.basis import Basis
from gramian.compression.builder import Bounds, Builder, BuildSettings
from gramian.compression.features import FeatureMap
from gramian.compression.randomized_svd import randomized_eigh
from gramian.compression.recompression import Leading, recompress_root
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel
from gramian.kernels.columns import dense
from gramian.landmarks.partition import Partition
from gramian.landmarks.rules import STOPPING, Landmarks, select_landmarks

#: Products with the matrix, and random vectors beyond the rank: q and p in Li, Kwok and Lu 2010. Method
#: "RNys" of benchmarks/papers/meka.py measures the errors.
N_POWER, N_EXTRA = 1, 10


@approximation
class Nystrom(Approximation):
    r"""Nyström approximation of rank r: K̃ = K(X, Z) M K(Z, X), a global low rank.

    By default 5·r landmarks Z are pivots of a randomly pivoted Cholesky factorization, and K̃ on them is cut
    to its r leading eigenvectors. The error is then within a few per cent of the best approximation of rank r
    (K's own eigenvectors); with only r landmarks it is several times as large.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params : as for :class:`MEKA`.
    rank : int
        r, number of features.
    landmarks : str or array (m, d)
        Rule by name (:func:`gramian.landmarks.rules.select_landmarks`): "uniform", "kmeans",
        "weighted-kmeans", "leverage", "bless", "rpcholesky", "cholesky" (incomplete Cholesky),
        "pivoted-qr"; or the points.
    oversampling : float
        Landmarks per rank.
    recompress : bool
        Cut to the rank by one pass over all rows; otherwise by the eigenvectors of K(Z, Z), as in the
        classical method. Makes no difference if there are only as many landmarks as the rank.
    svd : {"exact", "randomized"}
        How to find eigenvectors of the m × m matrix: by LAPACK, or by products with random vectors (Li, Kwok
        and Lu 2010, with q = 1 and p = 10), which is faster for thousands of landmarks.
    tol : float
        "rpcholesky" and "cholesky" stop early once they leave at most this part of tr(K).
    warm_start : bool
        ``fit`` keeps the landmarks of the last fit and adds as many as a larger rank or oversampling needs
        ("rpcholesky": chosen by the residual that the kept ones leave). The m × m factorization and the pass
        over the rows are repeated in full.
    memory_budget, tile_dtype, random_state, n_jobs, verbose : as for :class:`MEKA`.

    Attributes
    ----------
    landmarks_ : array (m, d). Others as for :class:`MEKA`.

    Raises ``InputError`` for unusable input and ``BudgetError`` for a budget that is too small.

    Time O(n m (d + m) + m³) with recompression, O(n m (d + r) + m³) without; memory of the build
    O(m² + m d), of the result n·r numbers. One basis serves all rows: for a narrow kernel, a method with
    blocks (:class:`BlockBasis`) is more accurate for the same bytes.

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

    _learns = ("landmarks_",)

    rank: int = 100
    landmarks: Any = "rpcholesky"
    oversampling: float = 5.0
    recompress: bool = True
    svd: str = "exact"
    tol: float = 0.0
    warm_start: bool = False

    def fit(self, X: RowsLike, y: ArrayLike | None = None) -> Self:
        """Compress the Gram matrix of the rows of X. ``y`` is ignored."""
        super().fit(X, y)
        self.landmarks_ = self.features_.nodes[0].landmarks
        return self

    def builder(self) -> NystromBuilder:
        tol = not_negative("tol", self.tol)
        if tol and not (isinstance(self.landmarks, str) and self.landmarks in STOPPING):
            rule = self.landmarks if isinstance(self.landmarks, str) else "given points"
            raise InputError(
                f"tol={self.tol!r} has no effect on landmarks={rule!r}. Take landmarks='rpcholesky' or "
                "'cholesky', or tol=0."
            )
        kept = dense(self.landmarks_) if self.warm_start and hasattr(self, "landmarks_") else None
        return self._sizes(NystromBuilder, tol=tol, kept=kept)


@dataclass(frozen=True)
class NystromBuilder(Builder):
    r"""φ(x) = Vᵀ k(Z, x) on m landmarks, K̃ = ΦΦᵀ of rank r ≤ m.

    With ``recompress`` V whitens K(Z, Z) on all landmarks, and one pass over the rows cuts ΦΦᵀ to its r
    leading eigenvectors, the best of rank r in that span. Otherwise V whitens the r leading eigenvectors of
    K(Z, Z), which depend on the landmarks alone. ``kept`` are landmarks of an earlier fit, to which new ones
    are added.

    Time O(m³) and, with recompression, O(n m (d + m)); memory O(m d + m²).
    """

    method: ClassVar[str] = "nystrom"
    rank: int = 100
    landmarks: Landmarks = "rpcholesky"
    oversampling: float = 5.0
    recompress: bool = True
    svd: str = "exact"
    tol: float = 0.0
    kept: Array | None = None

    @property
    def bounds(self) -> Bounds:
        passes = int(self.recompress and self._n_points > self.rank)
        return Bounds(root_landmarks=self._n_points, root_rank=min(self.rank, self._n_points), passes=passes)

    @property
    def _n_points(self) -> int:
        by_rule = isinstance(self.landmarks, str)
        chosen = round(self.oversampling * self.rank) if by_rule else len(self.landmarks)
        return max(chosen, self.rank, 0 if self.kept is None else len(self.kept))

    def working_bytes(self, n_rows: int, n_features: int, itemsize: int) -> int:
        """Return the bytes of the sums and eigenvectors of the recompression."""
        return 6 * 8 * min(self._n_points, n_rows) ** 2 if self.recompress else 0

    def assemble(self, sample: Rows, partition: Partition, settings: BuildSettings) -> FeatureMap:
        """Choose landmarks and whiten the kernel on them."""
        choosing, cutting = children(settings.rng, 2)
        points = self._points(sample, settings.kernel, choosing, settings.engine)
        if self.recompress:
            root = settings.basis(points, points.shape[0])
        elif self.svd == "exact":
            root = settings.basis(points, self.rank)
        else:
            root = self._cut(points, settings.kernel, settings.dtype, cutting)
        return FeatureMap.lone(root, partition, settings.kernel)

    def finish(self, features: FeatureMap, source: RowSource, settings: BuildSettings) -> FeatureMap:
        """Recompress to the rank if the basis has more columns; otherwise return it unchanged."""
        if not self.recompress or features.rank <= self.rank:
            return features
        return recompress_root(features, self.rank, source, settings, self._leading(settings.rng))

    def _points(self, sample: Rows, kernel: Kernel, rng: np.random.Generator, engine: Engine) -> Rows:
        count = self._n_points
        if self.kept is None:
            return select_landmarks(sample, count, self.landmarks, rng, engine, kernel=kernel, tol=self.tol)
        old = dense(select_landmarks(sample, 0, self.kept, rng))
        wanted = min(count, sample.shape[0]) - len(old)
        if wanted < 1:
            return old
        new = select_landmarks(
            sample, wanted, self.landmarks, rng, engine, kernel=kernel, tol=self.tol, given=old
        )
        return np.concatenate([old, dense(new)])

    def _leading(self, rng: np.random.Generator) -> Leading:
        if self.svd == "exact":
            return descending_eigh
        return partial(randomized_eigh, n_power=N_POWER, n_extra=N_EXTRA, rng=rng)

    def _cut(self, points: Rows, kernel: Kernel, dtype: DTypeLike, rng: np.random.Generator) -> Basis:
        points = points.astype(points.dtype if points.dtype.kind == "f" else np.float64)
        gram = np.asarray(kernel(points, dtype=np.float64, n_jobs=1), np.float64)
        values, vectors = self._leading(rng)(gram, min(self.rank, len(gram)))
        keep = values > rank_cutoff(dtype) * values.max(initial=0.0)
        root = Basis.of_columns(points, vectors[:, keep] / np.sqrt(values[keep]), kernel, dtype, values[keep])
        return root
