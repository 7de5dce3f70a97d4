"""Smaller bases from larger ones: the sums ΦᵀΦ over all rows say which directions K̃ needs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gramian._numerics import descending_eigh, rank_cutoff
from gramian._typing import Float64Array
from gramian.approximation.features import FeatureMap
from gramian.approximation.sums import accumulate
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.solvers.arrowhead import Forest


def feature_grams(
    features: FeatureMap, source: RowSource, *, chunk_rows: int, engine: Engine
) -> list[Float64Array]:
    """Return ΦᵀΦ of each node over all rows, shape (r, r). One pass; time O(n (m d + m r + r²))."""
    nothing = np.zeros((source.shape[0], 0))
    sums = accumulate(features, source, nothing, None, chunk_rows=chunk_rows, engine=engine)
    return [s.gram for s in sums]


def recompress_root(
    features: FeatureMap, rank: int, source: RowSource, *, chunk_rows: int, engine: Engine
) -> FeatureMap:
    r"""Return the best approximation of rank ``rank`` of K̃ = ΦΦᵀ, for a global basis alone.

    With ΦᵀΦ = P Λ Pᵀ the leading eigenvectors of K̃ are Φ P_r Λ_r^(−1/2), so that the features Φ P_r give
    K̃ cut to its ``rank`` largest eigenvalues: the optimal one in spectral and Frobenius norm. One pass over
    the rows; time O(n (m d + m²) + m³), memory O(m²).
    """
    (root,) = features.nodes
    (gram,) = feature_grams(features, source, chunk_rows=chunk_rows, engine=engine)
    values, vectors = descending_eigh(gram)
    keep = int(np.count_nonzero(values[:rank] > rank_cutoff(np.float64) * max(values[0], 0.0)))
    smaller = root.times(vectors[:, :keep], values[:keep])
    return replace(
        features,
        nodes=(replace(smaller, dropped=root.dropped + float(values[keep:].sum())),),
        forest=Forest.from_levels([[keep]], []),
    )
