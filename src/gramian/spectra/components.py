r"""Principal components: of the exact kernel matrix K, and of an approximation's features F.

The exact ones come from products with K, which is not stored, or from a small dense K. Those of features
come from FᵀF and the column sums of F alone. With K̃ = F Fᵀ (F = W C^(1/2) for a core C), s = Fᵀ1 and
J = I − 11ᵀ/n, the centred matrix J K̃ J has the same nonzero eigenvalues as FᵀF − s sᵀ/n. A unit eigenvector
u of FᵀF − s sᵀ/n gives the scores (f(x) − s/n)ᵀu, whose sum of squares over the rows is the eigenvalue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from gramian._budget import format_bytes
from gramian._numerics import descending_eigh, rank_cutoff, warn_negative
from gramian._phases import Progress
from gramian._tiles import blas_for
from gramian._typing import Float64Array, Rows
from gramian.compression.features import FeatureMap
from gramian.compression.predictor import Predictor, fold
from gramian.compression.storage import core_root
from gramian.engine import Engine
from gramian.exact.predictor import ExactPredictor
from gramian.exact.solve import DIRECT_ROWS
from gramian.exceptions import BudgetError
from gramian.kernels.base import Kernel, negative_part
from gramian.operators.kernel import KernelOperator
from gramian.solvers.arrowhead import NodeSums, multiply
from gramian.solvers.lanczos import leading_eigenpairs
from gramian.solvers.solution import Solution, Status
from gramian.spectra.functions import eigenpairs_bytes, kernel_eigenpairs

#: Number of n × n matrices in memory during a dense eigendecomposition.
SQUARES = 3
#: Most products with K in the iterations. Chosen by hand.
MAX_PRODUCTS = 200
#: Up to this many features the matrix is formed and all of its eigenvectors are computed. Chosen by hand.
DENSE_FEATURES = 2000


@dataclass(frozen=True)
class Components:
    """Principal components; scores are the predictor's values minus the offset."""

    values: Float64Array  #: eigenvalues, descending, (k,); 0 for components that do not exist
    predictor: ExactPredictor | Predictor
    offset: Float64Array  #: (k,)
    solution: Solution  #: evidence: products, residual, kernel values


def exact_components(
    kernel: Kernel,
    rows: Rows,
    count: int | None,
    *,
    tol: float,
    dtype: DTypeLike,
    memory_bytes: int,
    engine: Engine,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Components:
    r"""Return ``count`` components (None: all above rounding) of J K J, J = I − 11ᵀ/n.

    With J K J v = λ v the scores are (k(x, X) − 1ᵀK/n) v/√λ; terms that depend on x alone cancel since
    1ᵀv = 0. Up to 2,000 rows, or for all components, the matrix is formed in float64 in time O(n³). Beyond,
    block Lanczos multiplies by K without storing it, and J costs two means a product: time and memory are
    those of :func:`kernel_eigenpairs`, and ``progress`` is told of each product.

    Raises :class:`BudgetError` if the memory cannot hold the vectors of the iterations or, if all components
    are asked for, three n × n matrices.
    """
    n = int(rows.shape[0])
    need = 8 * SQUARES * n * n
    if count is None and need > memory_bytes:
        raise BudgetError(
            f"n_components=None asks for all components of {n} rows, which takes {format_bytes(need)}, above "
            f"memory_budget={format_bytes(memory_bytes)}. Give n_components, or an approximation.",
            need,
        )
    dense = count is None or (n <= DIRECT_ROWS and need <= memory_bytes)
    n_kept = n if count is None else min(count, n)
    if not dense and eigenpairs_bytes(n, n_kept) > memory_bytes:
        least = eigenpairs_bytes(n, n_kept)
        raise BudgetError(
            f"memory_budget={format_bytes(memory_bytes)} is too small for {n_kept} components of {n} rows of "
            f"the exact matrix: {format_bytes(least)} is needed. Raise the budget, or take "
            "approximation='nystrom'.",
            least,
        )
    if dense:
        K = np.asarray(kernel(rows, dtype=np.float64, n_jobs=engine.n_jobs), np.float64)
        means = K.mean(axis=0)
        K -= means
        K -= means[:, None]
        K += means.mean()
        values, vectors = descending_eigh(0.5 * (K + K.T), n_kept if kernel.definite else n)
        if not kernel.definite:
            negative = float(-values[values < 0.0].sum())
            warn_negative(negative, float(np.abs(values).sum()), f"The centred matrix of {n} rows")
            values, vectors = values[:n_kept], vectors[:, :n_kept]
        solution = _evidence(0, 0.0, tol, evaluations=n * n, bytes=need)
    else:
        if not kernel.definite:
            negative, total, some = negative_part(kernel, rows)
            warn_negative(negative, total, f"The matrix of {some} of the {n} rows")
        operator = KernelOperator(kernel, rows, dtype=dtype, n_jobs=engine.n_jobs)
        pairs = kernel_eigenpairs(
            operator, n_kept, tol=tol, rng=rng, max_products=MAX_PRODUCTS, centred=True, progress=progress
        )
        precise = operator.with_dtype(np.float64)
        means = precise @ np.full(n, 1.0 / n)
        values, vectors = pairs.values, pairs.vectors
        solution = _evidence(
            pairs.products,
            pairs.relative_residual,
            tol,
            evaluations=operator.evaluations + precise.evaluations,
            bytes=eigenpairs_bytes(n, n_kept),
        )
    keep = significant(values, n, np.dtype(np.float64))
    vectors = fix_signs(vectors[:, :keep])
    vectors = (vectors - vectors.mean(axis=0)) / np.sqrt(values[:keep])
    coefficients, kept = _padded(vectors, values, keep if count is None else count)
    predictor = ExactPredictor(kernel, rows, coefficients, np.dtype(np.float64) if dense else np.dtype(dtype))
    return Components(kept, predictor, means @ coefficients, solution)


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
    n_kept = rank if count is None else min(count, rank)
    with blas_for(rank):
        if not rank:
            values, vectors, solution = np.zeros(0), np.zeros((0, 0)), _evidence(0, 0.0, tol)
        elif whole:
            matrix = product(np.eye(rank))
            values, vectors = descending_eigh(0.5 * (matrix + matrix.T), n_kept)
            solution = _evidence(0, 0.0, tol)
        else:
            pairs = leading_eigenpairs(product, rank, n_kept, tol=tol, rng=rng)
            values, vectors = pairs.values, pairs.vectors
            solution = _evidence(pairs.products, pairs.relative_residual, tol)
    keep = significant(values, n_rows, features.dtype)
    vectors = fix_signs(vectors[:, :keep])
    beta = vectors if root is None else root @ vectors
    padded, kept = _padded(beta, values, keep if count is None else count)
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


def _padded(vectors: Float64Array, values: Float64Array, width: int) -> tuple[Float64Array, Float64Array]:
    """Return vectors and their eigenvalues, followed by zeros for components that do not exist."""
    keep = vectors.shape[1]
    columns, kept = np.zeros((len(vectors), width)), np.zeros(width)
    columns[:, :keep], kept[:keep] = vectors, values[:keep]
    return columns, kept


def _evidence(products: int, residual: float, tol: float, **counts: int) -> Solution:
    reached = Status.CONVERGED if residual <= tol else Status.STAGNATED
    return Solution(np.empty(0), reached if products else Status.DIRECT, products, residual, **counts)
