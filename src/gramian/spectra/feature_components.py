r"""Principal components of an approximation's features F, from FᵀF and the column sums of F alone.

With K̃ = F Fᵀ (F = W C^(1/2) for a core C), s = Fᵀ1 and J = I − 11ᵀ/n, the centred matrix J K̃ J has the same
nonzero eigenvalues as FᵀF − s sᵀ/n. A unit eigenvector u of FᵀF − s sᵀ/n gives the scores (f(x) − s/n)ᵀu,
whose sum of squares over the rows is the eigenvalue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gramian._numerics import descending_eigh, rank_cutoff
from gramian._typing import Float64Array
from gramian.compression.features import FeatureMap
from gramian.compression.predictor import Predictor, fold
from gramian.compression.storage import core_root
from gramian.solvers.arrowhead import NodeSums, multiply
from gramian.solvers.lanczos import leading_eigenpairs
from gramian.solvers.solution import Solution, Status
from gramian.solvers.threads import blas_for

#: Up to this many features the matrix is formed and all of its eigenvectors are computed. Chosen by hand.
DENSE_FEATURES = 2000


@dataclass(frozen=True)
class Components:
    """Principal components; scores are the predictor's values minus the offset."""

    values: Float64Array  #: eigenvalues, descending, (k,); 0 for components that do not exist
    predictor: Predictor
    offset: Float64Array  #: (k,)
    solution: Solution  #: evidence: products and residual


def feature_components(
    features: FeatureMap,
    sums: Sequence[NodeSums],
    n_rows: int,
    count: int | None,
    *,
    tol: float,
    rng: np.random.Generator,
) -> Components:
    """Return ``count`` components (None: all above rounding) from FᵀF and Fᵀ1 of n rows.

    ``sums`` come from :func:`gramian.compression.sums.accumulate` with a column of ones. Time O(R³) up to
    R = 2,000 features or for all components; else block Lanczos, O(R_path R) a product for nested bases.
    """
    forest, rank = features.forest, features.rank
    ones = np.concatenate([s.rhs[:, -1] for s in sums])
    cuts = list(features.offsets[1:])
    root = None if features.core is None else core_root(features.core)

    def nested(values: Float64Array) -> Float64Array:
        whole = np.concatenate(multiply(forest, sums, np.split(values, cuts), 0.0))
        return whole - np.outer(ones, ones @ values / n_rows)

    def coupled(values: Float64Array) -> Float64Array:
        assert root is not None
        return root @ nested(root @ values)

    product: Callable[[Float64Array], Float64Array] = nested if root is None else coupled
    whole = count is None or rank <= DENSE_FEATURES
    found = rank if count is None else min(count, rank)
    with blas_for(rank):
        if not rank:
            values, vectors, solution = np.zeros(0), np.zeros((0, 0)), _evidence(0, 0.0, tol)
        elif whole:
            matrix = product(np.eye(rank))
            values, vectors = descending_eigh(0.5 * (matrix + matrix.T), found)
            solution = _evidence(0, 0.0, tol)
        else:
            pairs = leading_eigenpairs(product, rank, found, tol=tol, rng=rng)
            values, vectors = pairs.values, pairs.vectors
            solution = _evidence(pairs.products, pairs.relative_residual, tol)
    keep = significant(values, n_rows, features.dtype)
    vectors = fix_signs(vectors[:, :keep])
    beta = vectors if root is None else root @ vectors
    width = keep if count is None else count
    padded = np.zeros((rank, width))
    padded[:, :keep] = beta
    kept = np.zeros(width)
    kept[:keep] = values[:keep]
    predictor = fold(features, np.split(padded, cuts))
    return Components(kept, predictor, ones @ padded / n_rows, solution)


def significant(values: Float64Array, n_rows: int, dtype: np.dtype[np.floating]) -> int:
    """Return the number of leading eigenvalues above rounding of a centred matrix of n rows."""
    largest = float(values.max(initial=0.0))
    above = values[: max(n_rows - 1, 0)] > rank_cutoff(dtype) * largest
    return int(above.sum()) if largest > 0 else 0


def fix_signs(vectors: Float64Array) -> Float64Array:
    """Flip vectors so that their largest entries are positive, which makes fits reproducible."""
    if not vectors.size:
        return vectors
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return vectors * np.where(largest < 0, -1.0, 1.0)


def _evidence(products: int, residual: float, tol: float) -> Solution:
    reached = Status.CONVERGED if residual <= tol else Status.STAGNATED
    return Solution(np.empty(0), reached if products else Status.DIRECT, products, residual)
