"""Ensemble Nyström: a weighted sum of Nyström approximations on landmarks of their own.

Source: Kumar, Mohri and Talwalkar 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg as la
from scipy.optimize import nnls

from gramian._random import children
from gramian._typing import Float64Array, Rows
from gramian.compression.basis import Basis, BasisBuilder
from gramian.compression.builder import Builder, choose_landmarks
from gramian.compression.features import FeatureMap
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.kernels.columns import dense
from gramian.landmarks.partition import Partition

#: Rows whose mutual entries the weights are fitted to.
VALIDATION_ROWS = 600


@dataclass(frozen=True)
class EnsembleNystromBuilder(Builder):
    r"""K̃ = Σ_t μ_t K(·, Z_t) K(Z_t, Z_t)⁺ K(Z_t, ·), one basis [√μ_1 φ_1 | √μ_2 φ_2 | …].

    rank : landmarks of each expert; the basis has up to n_experts · rank columns.
    weights : ``"uniform"``, μ_t = 1/n_experts; ``"ridge"``, the non-negative least squares of
        Σ μ_t K̃_t against K on the entries between at most 600 sampled rows.

    Time O(n_experts · rank² (rank + d)), memory O(n_experts² · rank²) for the block-diagonal vectors.
    """

    method: ClassVar[str] = "ensemblenystrom"
    rank: int = 100
    n_experts: int = 5
    landmarks: str = "uniform"
    weights: str = "uniform"

    @property
    def root_landmarks(self) -> int:
        """Landmarks of all experts."""
        return self.rank * self.n_experts

    def assemble(
        self,
        sample: Rows,
        partition: Partition,
        kernel: Kernel,
        *,
        dtype: Any,
        rng: np.random.Generator,
        engine: Engine,
    ) -> FeatureMap:
        """Whiten the kernel on each expert's landmarks, weigh the experts and join them."""
        *streams, judging = children(rng, self.n_experts + 1)
        experts = [
            BasisBuilder(kernel, dtype, ()).build(
                choose_landmarks(sample, self.rank, self.landmarks, stream, engine, kernel=kernel), self.rank
            )
            for stream in streams
        ]
        shares = np.full(self.n_experts, 1.0 / self.n_experts)
        if self.weights == "ridge":
            shares = _fitted_weights(kernel, experts, sample, judging)
        root = _joined(experts, shares, kernel, dtype)
        notes = {f"weight of expert {t}": float(share) for t, share in enumerate(shares)}
        notes |= {f"landmarks of expert {t}": float(e.landmarks.shape[0]) for t, e in enumerate(experts)}
        return FeatureMap.lone(root, partition, kernel, notes)


def _fitted_weights(
    kernel: Kernel, experts: Sequence[Basis], sample: Rows, rng: np.random.Generator
) -> Float64Array:
    """Return μ ≥ 0 with the least ‖K − Σ μ_t K̃_t‖_F over sampled rows; equal ones where all are 0."""
    n = sample.shape[0]
    rows = sample[np.sort(rng.choice(n, min(n, VALIDATION_ROWS), replace=False))]
    K = kernel(rows, dtype=np.float64)
    # The normal equations need inner products of the K̃_t only, which are those of their features.
    features = [
        expert.columns(rows).astype(np.float64) @ expert.matrix.astype(np.float64) for expert in experts
    ]
    products = np.asarray([[np.square(F.T @ G).sum() for G in features] for F in features])
    target = np.asarray([np.einsum("ij,ij->", F, K @ F) for F in features])
    values, vectors = la.eigh(products)
    root = np.sqrt(np.maximum(values, np.finfo(np.float64).eps * values[-1]))
    shares, _ = nnls(root[:, None] * vectors.T, (vectors.T @ target) / root)
    return np.asarray(shares if shares.any() else np.full(len(experts), 1.0 / len(experts)), np.float64)


def _joined(experts: Sequence[Basis], shares: Float64Array, kernel: Kernel, dtype: Any) -> Basis:
    """Return the basis of all experts: landmarks beneath each other, vectors on the diagonal."""
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
