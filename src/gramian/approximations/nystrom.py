"""Nyström approximation and weighted sums of several, as transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg as la
from numpy.typing import ArrayLike, DTypeLike
from scipy.optimize import nnls

from gramian._checks import not_negative, one_of
from gramian._numerics import descending_eigh, rank_cutoff
from gramian._random import children
from gramian._typing import Array, Float64Array, Rows, RowsLike
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
from gramian.landmarks.rules import METHODS as LANDMARKS
from gramian.landmarks.rules import STOPPING, Landmarks, select_landmarks

#: Products with the matrix, and random vectors beyond the rank: q and p in Li, Kwok and Lu 2010. Method
#: "RNys" of benchmarks/papers/meka.py measures the errors.
N_POWER, N_EXTRA = 1, 10


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

    builders = (NystromBuilder,)

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


#: Number of sampled rows; the weights are fitted to the entries of K between them. Chosen by hand.
VALIDATION_ROWS = 600


@dataclass(frozen=True)
class EnsembleNystromBuilder(Builder):
    r"""K̃ = Σ_t μ_t K(·, Z_t) K(Z_t, Z_t)⁺ K(Z_t, ·), one basis [√μ_1 φ_1 | √μ_2 φ_2 | …].

    With ``weights`` "ridge" they are the non-negative least squares of Σ μ_t K̃_t against K, on the entries
    between at most 600 sampled rows.

    Time O(n_experts · rank² (rank + d)), memory O(n_experts² · rank²) for the block-diagonal vectors.
    """

    method: ClassVar[str] = "ensemblenystrom"
    rank: int = 100
    n_experts: int = 5
    landmarks: str = "uniform"
    weights: str = "uniform"

    @property
    def bounds(self) -> Bounds:
        count = self.rank * self.n_experts
        return Bounds(root_landmarks=count, root_rank=count)

    def assemble(self, sample: Rows, partition: Partition, settings: BuildSettings) -> FeatureMap:
        """Whiten the kernel on each expert's landmarks, compute the weights and join the experts."""
        *streams, judging = children(settings.rng, self.n_experts + 1)
        kernel, engine = settings.kernel, settings.engine
        experts = [
            settings.basis(
                select_landmarks(sample, self.rank, self.landmarks, stream, engine, kernel=kernel), self.rank
            )
            for stream in streams
        ]
        shares = np.full(self.n_experts, 1.0 / self.n_experts)
        if self.weights == "ridge":
            shares = _fitted_weights(kernel, experts, sample, judging)
        root = _join_bases(experts, shares, kernel, settings.dtype)
        notes = {f"weight of expert {t}": float(share) for t, share in enumerate(shares)}
        notes |= {f"landmarks of expert {t}": float(e.landmarks.shape[0]) for t, e in enumerate(experts)}
        return FeatureMap.lone(root, partition, kernel, notes)


@approximation
class EnsembleNystrom(Approximation):
    r"""A weighted sum of Nyström approximations, K̃ = Σ_t μ_t K(·, Z_t) K(Z_t, Z_t)⁺ K(Z_t, ·).

    The experts are built one by one on few landmarks each. This costs n_experts · rank³ instead of
    (n_experts · rank)³ for a single approximation on all of these landmarks, which is more accurate.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params : as for :class:`MEKA`.
    rank, n_experts : int
        Number of landmarks of an expert; number of experts.
    landmarks : str
        Rule by name (:func:`gramian.landmarks.rules.select_landmarks`).
    weights : {"uniform", "ridge"}
        1/n_experts each, or fitted to entries of K by non-negative least squares.
    memory_budget, tile_dtype, random_state, n_jobs, verbose : as for :class:`MEKA`.

    Attributes
    ----------
    expert_weights_ : array (n_experts,)
        The weights μ.
    expert_landmarks_ : list of arrays
        The landmarks of each expert. Others as for :class:`MEKA`.

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

    builders = (EnsembleNystromBuilder,)

    _learns = ("expert_weights_", "expert_landmarks_")

    rank: int = 100
    n_experts: int = 5
    landmarks: str = "uniform"
    weights: str = "uniform"

    def fit(self, X: RowsLike, y: ArrayLike | None = None) -> Self:
        """Compress the Gram matrix of the rows of X. ``y`` is ignored."""
        super().fit(X, y)
        notes, points = self.features_.notes, self.features_.nodes[0].landmarks
        experts = range(sum(name.startswith("weight of expert") for name in notes))
        self.expert_weights_ = np.asarray([notes[f"weight of expert {t}"] for t in experts])
        counts = [int(notes[f"landmarks of expert {t}"]) for t in experts]
        self.expert_landmarks_ = np.split(np.asarray(points), np.cumsum(counts)[:-1])
        return self

    def builder(self) -> EnsembleNystromBuilder:
        one_of("landmarks", self.landmarks, LANDMARKS)
        return self._sizes(EnsembleNystromBuilder)


def _fitted_weights(
    kernel: Kernel, experts: Sequence[Basis], sample: Rows, rng: np.random.Generator
) -> Float64Array:
    """Return μ ≥ 0 with the least ‖K − Σ μ_t K̃_t‖_F over sampled rows; equal weights if all are 0."""
    n = sample.shape[0]
    rows = sample[np.sort(rng.choice(n, min(n, VALIDATION_ROWS), replace=False))]
    K = kernel(rows, dtype=np.float64)
    # The normal equations need only inner products of the K̃_t, which are those of their features.
    features = [
        expert.columns(rows).astype(np.float64) @ expert.matrix.astype(np.float64) for expert in experts
    ]
    products = np.asarray([[np.square(F.T @ G).sum() for G in features] for F in features])
    target = np.asarray([np.einsum("ij,ij->", F, K @ F) for F in features])
    values, vectors = la.eigh(products)
    root = np.sqrt(np.maximum(values, np.finfo(np.float64).eps * values[-1]))
    shares, _ = nnls(root[:, None] * vectors.T, (vectors.T @ target) / root)
    return np.asarray(shares if shares.any() else np.full(len(experts), 1.0 / len(experts)), np.float64)


def _join_bases(experts: Sequence[Basis], shares: Float64Array, kernel: Kernel, dtype: DTypeLike) -> Basis:
    """Return the basis of all experts: stacked landmarks and block-diagonal vectors."""
    points = [expert.landmarks for expert in experts]
    joined = np.concatenate([dense(p) for p in points])
    vectors = la.block_diag(
        *[
            np.sqrt(share) * expert.matrix.astype(np.float64)[:, : expert.rank if share > 0 else 0]
            for share, expert in zip(shares, experts, strict=True)
        ]
    )
    values = np.concatenate(
        [share * expert.values for share, expert in zip(shares, experts, strict=True) if share > 0]
    )
    return Basis.of_columns(joined, vectors, kernel, dtype, values)
