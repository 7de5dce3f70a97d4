"""Training of the divided SVM: rows are clustered, and the clusters of each level start those of the next."""

from __future__ import annotations

import math
import numbers
import warnings
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from gramian._budget import UNSEEN_BYTES, format_bytes, parse_bytes
from gramian._checks import one_of, positive_number, whole_number
from gramian._numerics import stored_tolerance
from gramian._phases import Progress
from gramian._random import as_generator
from gramian._typing import Array, Float64Array, RandomState, Rows
from gramian.compression.expansion import MOST_PAIRS, PairwisePredictor
from gramian.compression.plan import NOMINAL_THREADS
from gramian.compression.training import TILE_DTYPES
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.parameters import KernelParameters
from gramian.estimator.targets import ClassTargets
from gramian.exceptions import AccuracyWarning, BudgetError, InputError, NumericalWarning, user_level
from gramian.kernels import Kernel
from gramian.kernels.base import finite_diagonal, negative_part
from gramian.kernels.precomputed import Precomputed
from gramian.metric.input import Input, InputParameters, scaled_input
from gramian.svm.divide.gram import Gram
from gramian.svm.divide.levels import DualSettings, cluster_rows
from gramian.svm.divide.one_vs_one import OneVsOne, solve_pairs

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


class AsksForDCSVC(Protocol):
    """The parameters of a divided SVM beside those of its kernel, as users give them."""

    C: object
    standardize: bool
    fit_intercept: bool
    leaf_size: object
    branching: object
    early: object
    tol: object
    max_iter: object
    tile_dtype: object
    memory_budget: int | str
    n_jobs: int | None
    random_state: RandomState


@dataclass(frozen=True, eq=False)
class DCSVCParameters:
    """Minimise ½ αᵀQα − Σα_i over 0 ≤ α_i ≤ C·w_i, by levels of clusters, to the accuracy ``tol``."""

    input: InputParameters
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
    def of(cls, model: AsksForDCSVC) -> Self:
        """Return the checked parameters of an estimator."""
        budget = parse_bytes(model.memory_budget)
        if budget < LEAST_BYTES:
            raise BudgetError(
                f"memory_budget={model.memory_budget!r} is under {format_bytes(LEAST_BYTES)}, which the "
                f"tiles of a working set take. Give memory_budget={LEAST_BYTES} or more.",
                LEAST_BYTES,
            )
        return cls(
            InputParameters(KernelParameters.given(model), model.standardize),
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

    @property
    def kernel(self) -> KernelParameters:
        """Parameters of the kernel."""
        return self.input.kernel

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


@dataclass(frozen=True)
class DCSVCFit:
    """Solutions of all pairs of classes with their predictor, as ``SVC`` arranges them."""

    input: Input
    pairs: OneVsOne
    classes: Array
    counts: Array  #: support vectors of each class
    support_vectors: Rows  #: as they were given; none of a precomputed kernel
    early: bool  #: whether each cluster has its own offsets
    kernel: Kernel
    predictor: PairwisePredictor

    def state(self) -> dict[str, Any]:
        """Return the learned attributes of an estimator with this fit, by name."""
        found = self.pairs
        # As SVC: two classes have their sign turned, so that positive values speak for the second.
        sign = -1.0 if len(self.classes) == 2 else 1.0
        return {
            **self.input.state(),
            "classes_": self.classes,
            "support_": found.support.astype(np.int32),
            "support_vectors_": self.support_vectors,
            "dual_coef_": sign * found.coefficients,
            "intercept_": sign * (found.offsets if self.early else found.offsets[0]),
            "n_support_": self.counts.astype(np.int32),
            "n_iter_": found.iterations,
            "violation_": found.violations,
            "kernel_entries_": found.entries,
            "kernel_": self.kernel,
            "predictor_": self.predictor,
        }


def _warn_if_indefinite(kernel: Kernel, rows: Rows) -> None:
    """Warn if kernel values of some rows, spread evenly over all, have negative eigenvalues."""
    negative, total, count = negative_part(kernel, rows)
    if negative > stored_tolerance() * total:
        warnings.warn(
            f"the kernel is indefinite: on {count} rows its negative eigenvalues have the sum "
            f"{-negative:.3g} (of magnitudes with sum {total:.3g}). The dual then has several optima, and "
            "the model is one of them. Use a positive semi-definite kernel.",
            NumericalWarning,
            stacklevel=user_level(),
        )


def fit_dcsvc(rows: LabelledRows[ClassTargets], parameters: DCSVCParameters, progress: Progress) -> DCSVCFit:
    """Return the fit to labelled rows; ``progress`` is told of each leaf that is solved."""

    def leaf_solver(*problem: Any) -> Float64Array:
        progress(1)
        return libsvm_leaf(*problem)

    n, asked = rows.n, parameters
    _check_pairs(len(rows.targets.classes))
    most = np.full(n, asked.C) if rows.weights is None else asked.C * rows.weights
    codes = np.asarray(rows.targets.codes(slice(0, n)), np.intp)
    scaled = scaled_input(asked.input, rows.source, rows.weights)
    source = scaled.over(rows.source)
    kernel, rng = asked.kernel.of(source, rows.weights), as_generator(asked.random_state)
    engine, memory = asked.shared_out()
    values = source.rows(slice(0, n))
    dtype: np.dtype[Any] = np.dtype(np.float32 if asked.tile_dtype == "float32" else np.float64)
    finite_diagonal(kernel, values, dtype)
    if not kernel.definite:
        _warn_if_indefinite(kernel, values)
    hierarchy = cluster_rows(values, kernel, asked.leaf_rows, asked.branching, rng, engine)
    merges = asked.merges(len(hierarchy.above))
    settings = DualSettings(asked.intercept, asked.tol, asked.max_iter, memory, leaf_solver)
    with warnings.catch_warnings():
        # What libsvm leaves open in a leaf is solved by other means, and the violation tells the rest.
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = solve_pairs(
            Gram(values, kernel, dtype, engine),
            codes,
            most,
            len(rows.targets.classes),
            hierarchy,
            settings,
            leaf_rows=asked.leaf_rows,
            n_merged=merges,
            rng=rng,
        )
    _warn(float(found.violations.max()), settings)
    predictor = found.predictor(values, codes, hierarchy, merges, kernel)
    counts = np.bincount(codes[found.support], minlength=len(rows.targets.classes))
    vectors: Rows = np.empty((0, 0))
    if asked.kernel.precomputed:
        kernel = Precomputed()
        predictor = predictor.on(kernel)
    else:
        vectors = rows.source.take(found.support)
    return DCSVCFit(
        input=scaled,
        pairs=found,
        classes=rows.targets.classes,
        counts=counts,
        support_vectors=vectors,
        early=merges is not None,
        kernel=kernel,
        predictor=predictor,
    )


def _check_pairs(n_classes: int) -> None:
    pairs = n_classes * (n_classes - 1) // 2
    if pairs > MOST_PAIRS:
        raise InputError(
            f"y has {n_classes:,} classes, so {pairs:,} pairs of classes, each a problem of its own; "
            f"DCSVC solves at most {MOST_PAIRS:,}. Use KernelRidgeClassifier or "
            "KernelLogisticRegression, which solve for all classes together, or drop rare classes."
        )


def _warn(violation: float, settings: DualSettings) -> None:
    if violation > settings.tol:
        warnings.warn(
            f"DCSVC stopped at a violation of {violation:.3g}, above tol={settings.tol:.3g}, after at "
            f"most max_iter={settings.max_iter} working sets. Raise max_iter or tol, or use "
            "tile_dtype='float64' and features of one scale.",
            AccuracyWarning,
            stacklevel=user_level(),
        )
