"""Training of the divided SVM: rows are clustered, and the clusters of each level start those of the next."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from gramian._budget import LARGE_BYTES, UNSEEN_BYTES, format_bytes, give_back
from gramian._checks import one_of, positive_number, whole_number
from gramian._numerics import STORED_TOLERANCE
from gramian._phases import Progress
from gramian._random import children
from gramian._typing import Float64Array, IntArray, Rows
from gramian.compression.expansion import MOST_PAIRS, PairwisePredictor, class_pairs
from gramian.compression.plan import NOMINAL_THREADS
from gramian.engine import Engine, Run
from gramian.estimator.input import scaled_input
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.parameters import TILE_DTYPES, KernelParameters
from gramian.estimator.targets import ClassTargets
from gramian.exceptions import AccuracyWarning, BudgetError, InputError, NumericalWarning, user_level
from gramian.kernels.base import Kernel, finite_diagonal, negative_part
from gramian.kernels.precomputed import Precomputed
from gramian.svm.divide.components import separate
from gramian.svm.divide.decomposition import refine
from gramian.svm.divide.dual import Dual
from gramian.svm.divide.gram import Gram
from gramian.svm.divide.hierarchy import cluster_rows
from gramian.svm.divide.pivots import solve_pivots

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
#: Tolerance of all levels but the last, which only need to find the support vectors. Chosen by hand, as are
#: the next constants.
LEVEL_TOL = 0.1
#: Bytes that libsvm takes for each entry of a leaf's kernel matrix: the float64 matrix, and libsvm's
#: cache of its rows in float32.
LEAF_ENTRY = 8 + 4
#: Tolerance of libsvm as a fraction of ``tol``, so that its answer also passes with our gradient.
LEAF_SHARE = 0.5
#: Steps of libsvm a row, at most: on 1,500 rows some seconds. Kernels of values up to 1 took up to 800 a row
#: (C = 10,000); products of features of very different scales have no end.
LEAF_STEPS = 1000
#: By how much the neglected kernel values between components may change the gradient, in units of ``tol``.
NEGLECTED_SHARE = 0.05


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
    run: Run

    @classmethod
    def of(cls, model: BaseEstimator) -> Self:
        """Return the checked parameters of an estimator."""
        run = Run.of(model)
        if run.memory_bytes < LEAST_BYTES:
            raise BudgetError(
                f"memory_budget={model.memory_budget!r} is under {format_bytes(LEAST_BYTES)}, which the "
                f"tiles of a working set take. Give memory_budget={LEAST_BYTES} or more.",
                LEAST_BYTES,
            )
        one_of("tile_dtype", run.tile_dtype, TILE_DTYPES)
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
            run,
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

    def settled(self) -> Run:
        """Return the run with the threads that the budget holds and the bytes that are left for matrices."""
        budget = self.run.memory_bytes
        share = int(THREADS_SHARE * budget)

        def taken(threads: int) -> int:
            """Return the bytes of threads that each factor the largest matrix of their part."""
            largest = math.isqrt((budget - share) // (8 * threads))
            return threads * (UNSEEN_BYTES + 8 * PANEL_ROWS * largest)

        threads = self.run.engine.n_threads
        while threads > NOMINAL_THREADS and taken(threads) > share:
            threads -= 1
        return replace(
            self.run,
            engine=Engine(threads),
            memory_bytes=budget - UNSEEN_BYTES - max(share, taken(NOMINAL_THREADS)),
            tile_dtype="float32" if self.run.tile_dtype == "float32" else "float64",
            random_state=self.run.rng,
        )


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


def fit_dcsvc(rows: LabelledRows[ClassTargets], asked: DCSVCParameters, progress: Progress) -> dict[str, Any]:
    """Return the learned attributes of a fit to labelled rows, by name, as ``SVC`` arranges them.

    ``progress`` is told of each leaf that is solved.
    """
    n, classes = rows.n, rows.targets.classes
    _check_pairs(len(classes))
    most = np.full(n, asked.C) if rows.weights is None else asked.C * rows.weights
    codes = np.asarray(rows.targets.codes(slice(0, n)), np.intp)
    scaled = scaled_input(asked.kernel, asked.standardize, rows.source, rows.weights)
    source = scaled.over(rows.source)
    kernel, run = asked.kernel.resolve_for(source, rows.weights), asked.settled()
    values = source.rows(slice(0, n))
    finite_diagonal(kernel, values, run.dtype)
    if not kernel.definite:
        _warn_if_indefinite(kernel, values)
    hierarchy = cluster_rows(values, kernel, asked.leaf_rows, asked.branching, run)
    merges = asked.merges(len(hierarchy.above))

    order = hierarchy.order[most[hierarchy.order] > 0]  # rows of weight 0 are left out
    own, pairs = codes[order], class_pairs(len(classes))
    largest = int(np.sort(np.bincount(own, minlength=len(classes)))[-2:].sum())
    # Small pairs are solved in parallel, large ones one after the other with all threads.
    parallel = len(pairs) >= 2 * run.engine.n_threads and largest <= 2 * asked.leaf_rows
    gram = Gram(values, kernel, run)

    def solve(
        task: tuple[tuple[int, int], np.random.Generator],
    ) -> tuple[IntArray, Dual, Float64Array, float]:
        (first, second), stream = task
        index = order[(own == first) | (own == second)]
        dual = Dual.of(np.where(codes[index] == first, 1.0, -1.0), most[index], asked.intercept)
        edges = hierarchy.edges(index, asked.leaf_rows, merges)
        part = gram.part(index, _task_run(run, stream, parallel))
        return index, dual, *climb(part, dual, edges, asked.tol, asked.max_iter, progress)

    tasks = list(zip(pairs, children(run.rng, len(pairs))))
    whole, steps = np.zeros((len(classes) - 1, n)), np.zeros(len(pairs), np.intp)
    violations, columns = np.zeros(len(pairs)), []
    with warnings.catch_warnings():
        # What libsvm leaves open in a leaf is solved by other means, and the violation tells the rest.
        warnings.simplefilter("ignore", ConvergenceWarning)
        with run.engine.results(solve, tasks) if parallel else nullcontext(map(solve, tasks)) as answers:
            for number, (index, dual, column, violation) in enumerate(answers):
                first, second = pairs[number]
                of_first = codes[index] == first
                whole[second - 1, index[of_first]] = dual.u[of_first]
                whole[first, index[~of_first]] = dual.u[~of_first]
                columns.append(column)
                steps[number], violations[number] = max(dual.steps, 1), violation
    _warn_if_missed(float(violations.max()), asked)
    offsets = np.column_stack(columns)
    support = np.flatnonzero((whole != 0).any(axis=0))
    support = support[np.argsort(codes[support], kind="stable")]
    level, partition = None, None
    cluster = np.zeros(len(support), np.intp)
    if merges is not None:
        level, partition = hierarchy.above[merges], hierarchy.partition
        cluster = level[hierarchy.labels[support]]
    by_cluster = np.argsort(cluster, kind="stable")
    placed = support[by_cluster]
    predictor = PairwisePredictor(
        values[placed],
        codes[placed],
        cluster[by_cluster],
        np.ascontiguousarray(whole[:, placed]),
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
        "n_iter_": steps,
        "violation_": violations,
        "kernel_entries_": gram.entries,
        "kernel_": Precomputed() if precomputed else kernel,
        "predictor_": predictor.with_kernel(Precomputed()) if precomputed else predictor,
    }


def climb(
    gram: Gram, dual: Dual, levels: Sequence[IntArray], tol: float, max_iter: int, progress: Progress
) -> tuple[Float64Array, float]:
    """Solve the dual, which stands at α = 0, level by level, the last to the tolerance.

    levels : edges of the clusters (consecutive rows), finest level first. Clusters of the first level start
    from α = 0; libsvm solves them if the equality holds, and ``progress`` is told of each. Clusters of later
    levels start from the solutions of their parts. They are solved by block pivoting over the components of
    the rows (:func:`solve_pivots`); if that does not settle, by working sets, first of the support vectors
    alone, then of all rows.

    Kernel values between components are at most ε = ``NEGLECTED_SHARE`` · tol / ΣC_i, so neglecting them
    changes the gradient by at most ε Σα_i. The returned violation includes twice this bound.

    Returns b of each cluster of the last level, and the violation; u and steps of ``dual`` are updated.

    Source: Hsieh, Si and Dhillon 2014, algorithm 1.
    """
    most, rng = float((dual.upper - dual.lower).sum()), gram.run.rng
    least = NEGLECTED_SHARE * tol / (most or 1.0)  # 0 without rows: nothing to neglect
    component = np.zeros(len(gram), np.intp)
    if len(levels) > 1:
        component = separate(gram.rows, gram.kernel, levels[0], least)
    for number, edges in enumerate(levels):
        last = number == len(levels) - 1
        places = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        parallel = len(places) >= 2 * gram.run.engine.n_threads
        level = replace(dual, gradient=dual.gradient.copy(), steps=0)
        duals = [level.part(place) for place in places]  # they write to u
        runs = [_task_run(gram.run, stream, parallel) for stream in children(rng, len(places))]
        solve = partial(
            _solve,
            tol=tol if last else max(tol, LEVEL_TOL),
            max_iter=max_iter,
            least=least,
            leaf=number == 0 and dual.total is not None,
            last=last,
            progress=progress,
        )
        tasks = [
            (gram.part(place, run), part, component[place]) for place, run, part in zip(places, runs, duals)
        ]
        violations = gram.run.engine.map(solve, tasks) if parallel else [solve(task) for task in tasks]
        dual.steps += sum(part.steps for part in duals)
    return np.array([part.offset() for part in duals]), max(violations, default=0.0)


def _task_run(run: Run, stream: np.random.Generator, parallel: bool) -> Run:
    """Return the run of one of several tasks; those that run in parallel have a thread each."""
    if not parallel:
        return replace(run, random_state=stream)
    memory = run.memory_bytes // run.engine.n_threads
    return replace(run, random_state=stream, engine=Engine(1), memory_bytes=memory)


def _solve(
    task: tuple[Gram, Dual, IntArray],
    *,
    tol: float,
    max_iter: int,
    least: float,
    leaf: bool,
    last: bool,
    progress: Progress,
) -> float:
    """Solve one cluster from the u of ``dual``, whose gradient is still that of u = 0; return the violation.

    least : largest kernel value between components, the last of the task.
    """
    gram, dual, component = task
    y, neglected = -dual.gradient, 0.0
    if not len(y) or (dual.total is not None and (y == y[0]).all()):
        return 0.0  # with a single class no coefficient can move
    leaf = leaf and LEAF_ENTRY * len(y) ** 2 <= gram.run.memory_bytes
    if leaf:
        progress(1)
        square = gram.square()
        libsvm = SVC(kernel="precomputed", tol=LEAF_SHARE * tol, max_iter=LEAF_STEPS * len(y))
        libsvm.fit(square, y, sample_weight=dual.upper - dual.lower)  # C = 1
        dual.u[libsvm.support_] = libsvm.dual_coef_[0]
        np.clip(dual.u, dual.lower, dual.upper, out=dual.u)
        dual.steps = 1
        if last:
            dual.gradient += square @ dual.u
        del square
    if not leaf or (last and dual.violation() > tol):  # or the leaf solver stopped early
        settled = solve_pivots(gram, dual, -y, component, tol, max_iter)
        if settled and component.min() < component.max():
            neglected = 2.0 * least * float(np.abs(dual.u).sum())
        if not settled and not leaf:
            _solve_support(gram, dual, max(tol, LEVEL_TOL), max_iter)
    if last or not leaf:  # a leaf that is a start needs no proof
        refine(gram, dual, tol - neglected, max_iter)
    if 8 * len(y) ** 2 > LARGE_BYTES:
        give_back()  # libsvm's cache and small tiles, which malloc would keep
    return dual.violation() + neglected


def _solve_support(gram: Gram, dual: Dual, tol: float, max_iter: int) -> None:
    """Solve roughly for the start's support vectors alone, then update the gradient of every row."""
    support = np.flatnonzero(dual.u)
    if not support.size:
        return
    few, local = gram.part(support), dual.part(support)
    few.add(local.gradient, few.rows, local.u)
    refine(few, local, tol, max_iter)
    dual.steps += local.steps
    dual.u[support], dual.gradient[support] = local.u, local.gradient
    rest, kept = np.setdiff1d(np.arange(len(gram)), support), np.flatnonzero(local.u)
    if rest.size:
        gram.add(dual.gradient, few.rows[kept], local.u[kept], rest)


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
