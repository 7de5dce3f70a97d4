"""Principal components of the exact kernel matrix K: by products without storing K, or of a small dense K."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from gramian._budget import format_bytes
from gramian._numerics import descending_eigh, warn_negative
from gramian._phases import Progress
from gramian._typing import Float64Array, Rows
from gramian.engine import Engine
from gramian.exact.predictor import ExactPredictor
from gramian.exact.solve import DIRECT_ROWS
from gramian.exceptions import BudgetError
from gramian.kernels.base import Kernel, negative_part
from gramian.operators.kernel import KernelOperator
from gramian.solvers.solution import Solution, Status
from gramian.spectra.feature_components import fix_signs, significant
from gramian.spectra.functions import eigenpairs_bytes, kernel_eigenpairs

#: Number of n × n matrices in memory during a dense eigendecomposition.
SQUARES = 3
#: Most products with K in the iterations. Chosen by hand.
MAX_PRODUCTS = 200


@dataclass(frozen=True)
class ExactComponents:
    """Principal components; scores are the predictor's values minus the offset."""

    values: Float64Array  #: eigenvalues of J K J, descending, (k,); 0 for components that do not exist
    predictor: ExactPredictor
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
) -> ExactComponents:
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
    found = n if count is None else min(count, n)
    if not dense and eigenpairs_bytes(n, found) > memory_bytes:
        least = eigenpairs_bytes(n, found)
        raise BudgetError(
            f"memory_budget={format_bytes(memory_bytes)} is too small for {found} components of {n} rows of "
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
        values, vectors = descending_eigh(0.5 * (K + K.T), found if kernel.definite else n)
        if not kernel.definite:
            negative = float(-values[values < 0.0].sum())
            warn_negative(negative, float(np.abs(values).sum()), f"The centred matrix of {n} rows")
            values, vectors = values[:found], vectors[:, :found]
        solution = Solution(np.empty(0), Status.DIRECT, 0, 0.0, evaluations=n * n, bytes=need)
    else:
        if not kernel.definite:
            negative, total, some = negative_part(kernel, rows)
            warn_negative(negative, total, f"The matrix of {some} of the {n} rows")
        operator = KernelOperator(kernel, rows, dtype=dtype, n_jobs=engine.n_jobs)
        pairs = kernel_eigenpairs(
            operator, found, tol=tol, rng=rng, max_products=MAX_PRODUCTS, centred=True, progress=progress
        )
        precise = operator.with_dtype(np.float64)
        means = precise @ np.full(n, 1.0 / n)
        values, vectors = pairs.values, pairs.vectors
        solution = Solution(
            np.empty(0),
            Status.CONVERGED if pairs.relative_residual <= tol else Status.STAGNATED,
            pairs.products,
            pairs.relative_residual,
            evaluations=operator.evaluations + precise.evaluations,
            bytes=eigenpairs_bytes(n, found),
        )
    keep = significant(values, n, np.dtype(np.float64))
    vectors = fix_signs(vectors[:, :keep])
    vectors = (vectors - vectors.mean(axis=0)) / np.sqrt(values[:keep])
    width = keep if count is None else count
    coefficients, kept = np.zeros((n, width)), np.zeros(width)
    coefficients[:, :keep], kept[:keep] = vectors, values[:keep]
    tiles = np.dtype(np.float64) if dense else np.dtype(dtype)
    predictor = ExactPredictor(kernel, rows, coefficients, tiles)
    return ExactComponents(kept, predictor, means @ coefficients, solution)
