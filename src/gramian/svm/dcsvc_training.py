"""Training of the divided SVM: rows are clustered, and the clusters of each level start those of the next."""

from __future__ import annotations

import math
import numbers
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from gramian._budget import UNSEEN_BYTES, format_bytes, parse_bytes
from gramian._checks import one_of, positive_number, whole_number
from gramian._numerics import STORED_TOLERANCE
from gramian._phases import Progress
from gramian._random import as_generator, children
from gramian._typing import Float64Array, IntArray, Rows
from gramian.compression.expansion import MOST_PAIRS, PairwisePredictor, class_pairs
from gramian.compression.plan import NOMINAL_THREADS
from gramian.engine import Engine
from gramian.estimator.input import scaled_input
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.parameters import TILE_DTYPES, KernelParameters
from gramian.estimator.targets import ClassTargets
from gramian.exceptions import AccuracyWarning, BudgetError, InputError, NumericalWarning, user_level
from gramian.kernels import Kernel
from gramian.kernels.base import finite_diagonal, negative_part
from gramian.kernels.precomputed import Precomputed
from gramian.svm.divide.decomposition import DualLimits
from gramian.svm.divide.gram import Gram
from gramian.svm.divide.levels import Climb, climb, cluster_rows

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Bytes without which no working set of a thousand rows can be solved.
LEAST_BYTES = 64 << 20
#: Rows of a panel: to factor a matrix, OpenBLAS copies that many of its rows to a buffer for each thread, and
#: never frees it. 384 is its number for float64 on processors with AVX-512; a factor of 3,000 rows was seen
#: to leave 9 MB.
PANEL_ROWS = 384
#: Part of the budget that more threads than ``NOMINAL_THREADS`` may take for what BLAS and malloc keep.
THREADS_SHARE = 0.25
#: Steps of libsvm a row, at most: on 1,500 rows some seconds. Kernels of values up to 1 took up to 800 a row
#: (C = 10,000); products of features of very different scales have no end.
LEAF_STEPS = 1000


def libsvm_leaf(square: Float64Array, y: Float64Array, most: Float64Array, tol: float) -> Float64Array:
    """Return α of a dense problem by libsvm, which is fast on some thousand rows.

    Warns ``ConvergenceWarning`` where it stops at :data:`LEAF_STEPS`, with an α that is feasible.
    """
    model = SVC(C=1.0, kernel="precomputed", tol=tol, max_iter=LEAF_STEPS * len(y))
    model.fit(square, y, sample_weight=most)
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    return alpha


@dataclass(frozen=True, eq=False)
class DCSVCParameters:
    """Minimise ½ αᵀQα − Σα_i over 0 ≤ α_i ≤ C·w_i, by levels of clusters, to the accuracy ``tol``."""

    kernel: KernelParameters
    standardize: bool
    C: float
    intercept: bool
    leaf_rows: int
    branching: int
    early: Any  #: False, True, or how many merges above the leaves prediction stops
    tol: float
    max_iter: int
    tile_dtype: str
    memory_bytes: int
    engine: Engine
    random_state: Any

    @classmethod
    def of(cls, model: BaseEstimator) -> Self:
        """Return the checked parameters of an estimator."""
        budget = parse_bytes(model.memory_budget)
        if budget < LEAST_BYTES:
            raise BudgetError(
                f"memory_budget={model.memory_budget!r} is under {format_bytes(LEAST_BYTES)}, which the "
                f"tiles of a working set take. Give memory_budget={LEAST_BYTES} or more.",
                LEAST_BYTES,
            )
        return cls(
            KernelParameters.given(model),
            model.standardize,
            positive_number("C", model.C),
            bool(model.fit_intercept),
            whole_number("leaf_size", model.leaf_size, 2),
            whole_number("branching", model.branching, 2),
            model.early,
            positive_number("tol", model.tol),
            whole_number("max_iter", model.max_iter, 1),
            one_of("tile_dtype", model.tile_dtype, TILE_DTYPES),
            budget,
            Engine(model.n_jobs),
            model.random_state,
        )

    def merges(self, n_levels: int) -> int | None:
        """Return how many merges above the leaves early prediction stops; None without it."""
        if isinstance(self.early, bool | np.bool_):
            return 0 if self.early else None
        if not isinstance(self.early, numbers.Integral) or not 0 <= int(self.early) < n_levels:
            raise InputError(
                f"early={self.early!r} is not a level of these rows, which have {n_levels} levels of "
                f"clusters. Give False, True, or merges above the leaves from 0 to {n_levels - 1}."
            )
        return int(self.early)

    def shared_out(self) -> tuple[Engine, int]:
        """Return the threads that the budget holds, and what it leaves for the matrices of problems."""
        budget = self.memory_bytes
        share = int(THREADS_SHARE * budget)

        def taken(threads: int) -> int:
            """Return the bytes of threads that each factor the largest matrix of their part."""
            largest = math.isqrt((budget - share) // (8 * threads))
            return threads * (UNSEEN_BYTES + 8 * PANEL_ROWS * largest)

        threads = self.engine.n_threads
        while threads > NOMINAL_THREADS and taken(threads) > share:
            threads -= 1
        return Engine(threads), budget - UNSEEN_BYTES - max(share, taken(NOMINAL_THREADS))


def _warn_if_indefinite(kernel: Kernel, rows: Rows) -> None:
    """Warn if kernel values of some rows, spread evenly over all, have negative eigenvalues."""
    negative, total, count = negative_part(kernel, rows)
    if negative > STORED_TOLERANCE * total:
        warnings.warn(
            f"the kernel is indefinite: on {count} rows its negative eigenvalues have the sum "
            f"{-negative:.3g} (of magnitudes with sum {total:.3g}). The dual then has several optima, and "
            "the model is one of them. Use a positive semi-definite kernel.",
            NumericalWarning,
            stacklevel=user_level(),
        )


def fit_dcsvc(
    rows: LabelledRows[ClassTargets], parameters: DCSVCParameters, progress: Progress
) -> dict[str, Any]:
    """Return the learned attributes of a fit to labelled rows, by name, as ``SVC`` arranges them.

    ``progress`` is told of each leaf that is solved.
    """

    def leaf_solver(*problem: Any) -> Float64Array:
        progress(1)
        return libsvm_leaf(*problem)

    n, asked, classes = rows.n, parameters, rows.targets.classes
    _check_pairs(len(classes))
    most = np.full(n, asked.C) if rows.weights is None else asked.C * rows.weights
    codes = np.asarray(rows.targets.codes(slice(0, n)), np.intp)
    scaled = scaled_input(asked.kernel, asked.standardize, rows.source, rows.weights)
    source = scaled.over(rows.source)
    kernel, rng = asked.kernel.resolve_for(source, rows.weights), as_generator(asked.random_state)
    engine, memory = asked.shared_out()
    values = source.rows(slice(0, n))
    dtype: np.dtype[Any] = np.dtype(np.float32 if asked.tile_dtype == "float32" else np.float64)
    finite_diagonal(kernel, values, dtype)
    if not kernel.definite:
        _warn_if_indefinite(kernel, values)
    hierarchy = cluster_rows(values, kernel, asked.leaf_rows, asked.branching, rng, engine)
    merges = asked.merges(len(hierarchy.above))

    order = hierarchy.order[most[hierarchy.order] > 0]  # rows of weight 0 are left out
    own, pairs = codes[order], class_pairs(len(classes))
    largest = int(np.sort(np.bincount(own, minlength=len(classes)))[-2:].sum())
    # Small pairs are solved in parallel, large ones one after the other with all threads.
    parallel = len(pairs) >= 2 * engine.n_threads and largest <= 2 * asked.leaf_rows
    limits = DualLimits(asked.tol, asked.max_iter, memory // (engine.n_threads if parallel else 1))
    gram = Gram(values, kernel, dtype, engine)

    def solve(task: tuple[tuple[int, int], np.random.Generator]) -> tuple[IntArray, Climb]:
        (first, second), stream = task
        index = order[(own == first) | (own == second)]
        part = gram.alone(index, Engine(1) if parallel else engine)
        y = np.where(codes[index] == first, 1.0, -1.0)
        edges = hierarchy.edges(index, asked.leaf_rows, merges)
        return index, climb(part, y, most[index], edges, asked.intercept, limits, stream, leaf_solver)

    tasks = list(zip(pairs, children(rng, len(pairs))))
    whole, solved = np.zeros((len(classes) - 1, n)), []
    with warnings.catch_warnings():
        # What libsvm leaves open in a leaf is solved by other means, and the violation tells the rest.
        warnings.simplefilter("ignore", ConvergenceWarning)
        with engine.results(solve, tasks) if parallel else nullcontext(map(solve, tasks)) as answers:
            for (first, second), (index, answer) in zip(pairs, answers):
                of_first = codes[index] == first
                whole[second - 1, index[of_first]] = answer.u[of_first]
                whole[first, index[~of_first]] = answer.u[~of_first]
                solved.append(answer)
    _warn_if_missed(max(answer.violation for answer in solved), asked)
    offsets = np.column_stack([answer.offsets for answer in solved])
    found = np.flatnonzero((whole != 0).any(axis=0))
    support = found[np.lexsort((found, codes[found]))]

    level, partition = None, None
    cluster = np.zeros(len(support), np.intp)
    if merges is not None:
        level, partition = hierarchy.above[merges], hierarchy.partition
        cluster = level[hierarchy.labels[support]]
    order = np.lexsort((support, codes[support], cluster))
    predictor = PairwisePredictor(
        values[support[order]],
        codes[support[order]],
        cluster[order],
        np.ascontiguousarray(whole[:, support[order]]),
        offsets,
        kernel,
        partition,
        level,
    )
    precomputed = asked.kernel.precomputed
    # As SVC: two classes have their sign turned, so that positive values speak for the second.
    sign = -1.0 if len(classes) == 2 else 1.0
    return {
        **scaled.state(),
        "classes_": classes,
        "support_": support.astype(np.int32),
        "support_vectors_": np.empty((0, 0)) if precomputed else rows.source.take(support),
        "dual_coef_": sign * whole[:, support],
        "intercept_": sign * (offsets[0] if merges is None else offsets),
        "n_support_": np.bincount(codes[support], minlength=len(classes)).astype(np.int32),
        "n_iter_": np.array([max(answer.iterations, 1) for answer in solved]),
        "violation_": np.array([answer.violation for answer in solved]),
        "kernel_entries_": sum(answer.entries for answer in solved),
        "kernel_": Precomputed() if precomputed else kernel,
        "predictor_": predictor.with_kernel(Precomputed()) if precomputed else predictor,
    }


def _check_pairs(n_classes: int) -> None:
    pairs = n_classes * (n_classes - 1) // 2
    if pairs > MOST_PAIRS:
        raise InputError(
            f"y has {n_classes:,} classes, so {pairs:,} pairs of classes, each a problem of its own; "
            f"DCSVC solves at most {MOST_PAIRS:,}. Use KernelRidgeClassifier or "
            "KernelLogisticRegression, which solve for all classes together, or drop rare classes."
        )


def _warn_if_missed(violation: float, asked: DCSVCParameters) -> None:
    if violation > asked.tol:
        warnings.warn(
            f"DCSVC stopped at a violation of {violation:.3g}, above tol={asked.tol:.3g}, after at "
            f"most max_iter={asked.max_iter} working sets. Raise max_iter or tol, or use "
            "tile_dtype='float64' and features of one scale.",
            AccuracyWarning,
            stacklevel=user_level(),
        )
