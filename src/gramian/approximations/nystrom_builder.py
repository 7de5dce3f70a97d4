"""Nyström approximation: one global basis on landmarks of any rule, cut to its rank by what all rows say.

Source: Williams and Seeger 2001; recompression as in docs/how-it-works.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from gramian._numerics import descending_eigh, rank_cutoff
from gramian._random import children
from gramian._typing import Array, Rows
from gramian.compression.basis import Basis, BasisBuilder
from gramian.compression.builder import Builder, choose_landmarks
from gramian.compression.features import FeatureMap
from gramian.compression.randomized_svd import randomized_eigh
from gramian.compression.recompression import Leading, recompress_root
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.kernels.columns import dense
from gramian.landmarks.partition import Partition
from gramian.landmarks.rules import Landmarks


@dataclass(frozen=True)
class NystromBuilder(Builder):
    r"""φ(x) = Vᵀ k(Z, x) on m landmarks, K̃ = ΦΦᵀ of rank r ≤ m.

    rank, oversampling : r, and m/r where landmarks are chosen.
    recompress : V whitens K(Z, Z) on all landmarks, and one pass over the rows cuts ΦΦᵀ to its r leading
        eigenvectors: the best of rank r in that span. Otherwise V whitens the r leading eigenvectors of
        K(Z, Z), which know the landmarks alone.
    svd : ``"exact"``, or ``"randomized"`` with ``n_power`` and ``n_extra``, of the m × m matrix that is cut.
    tol : the Cholesky rules stop where they leave this part of the trace of the sample.
    kept : landmarks of an earlier fit; m − len(kept) are added to them.

    Time O(m³) and, with recompression, O(n m (d + m)); memory O(m d + m²).
    """

    method: ClassVar[str] = "nystrom"
    rank: int = 100
    landmarks: Landmarks = "rpcholesky"
    oversampling: float = 5.0
    recompress: bool = True
    svd: str = "exact"
    n_power: int = 1
    n_extra: int = 10
    tol: float = 0.0
    kept: Array | None = None

    @property
    def root_landmarks(self) -> int:
        """Landmarks of the basis at most."""
        chosen = (
            round(self.oversampling * self.rank) if isinstance(self.landmarks, str) else len(self.landmarks)
        )
        return max(chosen, self.rank, 0 if self.kept is None else len(self.kept))

    @property
    def root_columns(self) -> int:
        """Bound on the rank."""
        return min(self.rank, self.root_landmarks)

    def working_bytes(self, n_rows: int, n_features: int, itemsize: int) -> int:
        """Bytes of the sums and eigenvectors of the recompression."""
        return 6 * 8 * min(self.root_landmarks, n_rows) ** 2 if self.recompress else 0

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
        """Choose landmarks and whiten the kernel on them."""
        choosing, cutting = children(rng, 2)
        points = self._points(sample, kernel, choosing, engine)
        if self.recompress:
            root = BasisBuilder(kernel, dtype, ()).build(points, points.shape[0])
        elif self.svd == "exact":
            root = BasisBuilder(kernel, dtype, ()).build(points, self.rank)
        else:
            root = self._cut(points, kernel, dtype, cutting)
        return FeatureMap.lone(root, partition, kernel)

    def finish(
        self,
        features: FeatureMap,
        source: RowSource,
        *,
        rng: np.random.Generator,
        engine: Engine,
        chunk_rows: int,
    ) -> FeatureMap:
        """Recompress to the rank, where there is something to cut."""
        if not self.recompress or features.rank <= self.rank:
            return features
        return recompress_root(
            features, self.rank, source, chunk_rows=chunk_rows, engine=engine, leading=self._leading(rng)
        )

    def _points(self, sample: Rows, kernel: Kernel, rng: np.random.Generator, engine: Engine) -> Rows:
        count = self.root_landmarks
        if self.kept is None:
            return choose_landmarks(sample, count, self.landmarks, rng, engine, kernel=kernel, tol=self.tol)
        old = dense(choose_landmarks(sample, 0, self.kept, rng))
        wanted = min(count, sample.shape[0]) - len(old)
        if wanted < 1:
            return old
        new = choose_landmarks(
            sample, wanted, self.landmarks, rng, engine, kernel=kernel, tol=self.tol, given=old
        )
        return np.concatenate([old, dense(new)])

    def _leading(self, rng: np.random.Generator) -> Leading:
        if self.svd == "exact":
            return descending_eigh
        return partial(randomized_eigh, n_power=self.n_power, n_extra=self.n_extra, rng=rng)

    def _cut(self, points: Rows, kernel: Kernel, dtype: Any, rng: np.random.Generator) -> Basis:
        points = points.astype(points.dtype if points.dtype.kind == "f" else np.float64)
        gram = np.asarray(kernel(points, dtype=np.float64, n_jobs=1), np.float64)
        values, vectors = self._leading(rng)(gram, min(self.rank, len(gram)))
        keep = values > rank_cutoff(dtype) * values.max(initial=0.0)
        root = Basis.of_columns(points, vectors[:, keep] / np.sqrt(values[keep]), kernel, dtype, values[keep])
        return root
