"""How good is it: the relative Frobenius error on sampled rows, with its standard error."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from gramian._typing import Array, Float64Array, Rows
from gramian.approximation.features import FeatureMap
from gramian.approximation.sums import leaf_blocks
from gramian.data.source import RowSource, as_source, sample_rows
from gramian.engine import Engine


class ErrorEstimate(float):
    """‖K − K̃‖_F/‖K‖_F as a number, with ``standard_error`` and ``n_rows``."""

    standard_error: float
    n_rows: int

    def __new__(cls, value: float, standard_error: float, n_rows: int) -> ErrorEstimate:
        """Make the number and attach its evidence."""
        self = super().__new__(cls, value)
        self.standard_error = standard_error
        self.n_rows = n_rows
        return self

    def __repr__(self) -> str:
        return f"{float(self):.4g} ± {self.standard_error:.2g} ({self.n_rows} rows)"

    def __reduce__(self) -> tuple[type[ErrorEstimate], tuple[float, float, int]]:
        return ErrorEstimate, (float(self), self.standard_error, self.n_rows)


def relative_error(
    features: FeatureMap,
    source: RowSource,
    *,
    n_rows: int,
    rng: np.random.Generator,
    engine: Engine,
    chunk_rows: int,
) -> ErrorEstimate:
    r"""Estimate ‖K − K̃‖_F/‖K‖_F on ``n_rows`` rows of the source drawn without replacement.

    The estimate is sqrt(Σ e_i/Σ k_i) over sampled rows i, e_i = Σ_j (K_ij − K̃_ij)², k_i = Σ_j K_ij²; its
    standard error is that of a ratio of means (delta method, with the finite-population factor
    1 − n_rows/n). The draw is its own, independent of the sample that the approximation was built on. With
    all rows it is exact. Time O(n_rows · n · (d + r)), memory O(n_rows · (d + R)) and tiles.
    """
    n = source.shape[0]
    picked, indices = sample_rows(source, n_rows, rng)
    m = len(indices)
    columns = features.kernel.against(picked, np.float64)
    left = _left_factors(features, picked, engine)
    wrong, total = np.zeros(m), np.zeros(m)
    forest = features.forest
    for numbers, unit, F in leaf_blocks(features, source, chunk_rows=chunk_rows, engine=engine):
        exact = columns(source.take(numbers))
        total += np.einsum("ij,ij->j", exact, exact)
        for segments in unit.levels:
            for segment in segments:
                if segment.node not in left:
                    continue
                rows, factor = left[segment.node]
                start = forest.path_rank(segment.node)
                W = F[segment.rows, start : start + forest.ranks[segment.node]].astype(np.float64)
                exact[segment.rows, rows] -= W @ factor
        wrong += np.einsum("ij,ij->j", exact, exact)
    ratio = wrong.sum() / total.sum() if total.sum() > 0 else 0.0
    value = float(np.sqrt(ratio))
    error = 0.0
    if 1 < m < n and value > 0:
        gaps = wrong - ratio * total
        variance = (1.0 - m / n) * gaps.var(ddof=1) / m
        error = float(np.sqrt(variance) / total.mean() / (2.0 * value))
    return ErrorEstimate(value, error, m)


def _left_factors(
    features: FeatureMap, picked: Rows, engine: Engine
) -> dict[int, tuple[Array, Float64Array]]:
    """For each node, which sampled rows meet it and their factor (ranks × rows)."""
    forest = features.forest
    found: dict[int, list[tuple[Array, Float64Array]]] = defaultdict(list)
    blocks = leaf_blocks(features, as_source(picked), chunk_rows=picked.shape[0], engine=engine)
    for numbers, unit, F in blocks:
        for segments in unit.levels:
            for segment in segments:
                start = forest.path_rank(segment.node)
                W = F[segment.rows, start : start + forest.ranks[segment.node]].astype(np.float64)
                rows = numbers[segment.rows]
                if features.core is None:
                    found[segment.node].append((rows, W.T))
                else:
                    coupled = W @ features.core.row_strip(segment.node)
                    for t, part in enumerate(features.core.split_columns(coupled)):
                        found[t].append((rows, part.T))
    return {
        node: (np.concatenate([rows for rows, _ in parts]), np.concatenate([f for _, f in parts], axis=1))
        for node, parts in found.items()
    }
