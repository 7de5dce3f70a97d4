"""Ensemble Nyström as a transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import scipy.linalg as la
from numpy.typing import ArrayLike, DTypeLike
from scipy.optimize import nnls

from gramian._checks import one_of
from gramian._random import children
from gramian._typing import Float64Array, Rows, RowsLike
from gramian.approximations.approximation import Approximation, approximation
from gramian.compression.basis import Basis
from gramian.compression.builder import Bounds, Builder, BuildSettings
from gramian.compression.features import FeatureMap
from gramian.kernels.base import Kernel
from gramian.kernels.columns import dense
from gramian.landmarks.partition import Partition
from gramian.landmarks.rules import METHODS as LANDMARKS
from gramian.landmarks.rules import select_landmarks


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
