"""Divide and conquer over levels of clusters: solutions of small clusters start those of larger ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
from sklearn.svm import SVC

from gramian._budget import LARGE_BYTES, give_back
from gramian._phases import Progress
from gramian._random import children
from gramian._typing import Float64Array, IntArray, Rows
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.kernels.precomputed import Precomputed
from gramian.landmarks.partition import Partition, fit_partition
from gramian.svm.divide.components import separate
from gramian.svm.divide.decomposition import DualLimits, refine
from gramian.svm.divide.dual import Dual
from gramian.svm.divide.gram import Gram
from gramian.svm.divide.pivots import solve_pivots

#: Tolerance of all levels but the last, which only need to find the support vectors. Chosen by hand, as are
#: the next constants.
LEVEL_TOL = 0.1
#: Levels whose clusters have on average fewer rows than this fraction of ``leaf_rows`` are left out.
LEAST_LEAF = 0.25
#: Clusters of the finest level with more than this many times ``leaf_rows`` are cut evenly: libsvm's time
#: grows faster than the rows, and the next level repairs the lost accuracy.
LARGE_LEAF = 2
#: Bytes that libsvm takes for each entry of a leaf's kernel matrix: the float64 matrix, and libsvm's
#: cache of its rows in float32.
LEAF_ENTRY = 8 + 4
#: Tolerance of libsvm as a fraction of ``tol``, so that its answer also passes with our gradient.
LEAF_SHARE = 0.5
#: Steps of libsvm a row, at most: on 1,500 rows some seconds. Kernels of values up to 1 took up to 800 a row
#: (C = 10,000); products of features of very different scales have no end.
LEAF_STEPS = 1000
#: Allowed change of the gradient by neglecting kernel values between components, as a fraction of ``tol``.
NEGLECTED_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Nested clusters of rows: the partition, each row's leaf, and the order by leaves."""

    partition: Partition
    labels: IntArray
    order: IntArray

    @property
    def above(self) -> list[IntArray]:
        """Cluster number of each leaf on every level, finest level first."""
        leaves = np.arange(self.partition.n_blocks)
        return [leaves, *reversed(self.partition.ancestors)]

    def edges(self, index: IntArray, leaf_rows: int, n_merged: int | None = None) -> list[IntArray]:
        """Return where clusters of rows ``index`` (in order) begin and end, level by level, finest first.

        Levels with small clusters are left out. The last level is all rows together, or the level
        ``n_merged`` merges above the leaves if that is given.
        """
        leaf = self.labels[index]
        levels = self.above if n_merged is None else self.above[: n_merged + 1]
        found = []
        for number, level in enumerate(levels):
            count = int(level.max()) + 1
            last = n_merged is not None and number == len(levels) - 1
            if last or (count > 1 and len(index) / count >= LEAST_LEAF * leaf_rows):
                found.append(np.searchsorted(level[leaf], np.arange(count + 1)))
        if n_merged is None:
            found.append(np.array([0, len(index)]))
        most = LARGE_LEAF * leaf_rows
        cuts = [
            np.linspace(a, b, max(1, -(-int(b - a) // most)), endpoint=False).astype(np.intp)
            for a, b in pairwise(found[0])
        ]
        cut = np.concatenate([*cuts, found[0][-1:]])
        if len(cut) == len(found[0]):
            return found
        return [cut, *(found[1:] if len(found) > 1 else found)]


def cluster_rows(
    rows: Rows, kernel: Kernel, leaf_rows: int, branching: int, rng: np.random.Generator, engine: Engine
) -> Hierarchy:
    """Cluster rows into leaves of about ``leaf_rows`` by nested k-means with ``branching`` parts a level.

    A precomputed kernel clusters kernel features instead. Time O(n d leaves).
    """
    n = int(rows.shape[0])
    n_leaves = max(1, math.ceil(n / leaf_rows))
    n_levels = max(1, round(math.log(n_leaves, branching)))
    partition = fit_partition(
        rows,
        n_leaves,
        method="kernel" if isinstance(kernel, Precomputed) else "kmeans",
        n_levels=n_levels,
        rng=rng,
        kernel=kernel,
    )
    labels = partition.route(rows, engine)
    return Hierarchy(partition, labels, np.argsort(labels, kind="stable"))


@dataclass(frozen=True, slots=True)
class Climb:
    """Coefficients of the last level, in the order of the rows, with the work that they took."""

    u: Float64Array
    offsets: Float64Array  #: b of each cluster of the last level
    violation: float
    iterations: int  #: working sets, pivoting steps, and leaves solved by libsvm
    entries: int  #: kernel values computed


def climb(
    gram: Gram,
    y: Float64Array,
    most: Float64Array,
    levels: Sequence[IntArray],
    equality: bool,
    limits: DualLimits,
    rng: np.random.Generator,
    progress: Progress,
) -> Climb:
    """Solve the dual of labels y = ±1 and bounds C_i = ``most`` level by level, the last to the tolerance.

    levels : edges of the clusters (consecutive rows), finest level first. Clusters of the first level start
    from α = 0; libsvm solves them if the equality holds, and ``progress`` is told of each. Clusters of later
    levels start from the solutions of their parts. They are solved by block pivoting over the components of
    the rows (:func:`solve_pivots`); if that does not settle, by working sets, first of the support vectors
    alone, then of all rows.

    Kernel values between components are at most ε = ``NEGLECTED_SHARE`` · tol / ΣC_i, so neglecting them
    changes the gradient by at most ε Σα_i. The returned violation includes twice this bound.

    Source: Hsieh, Si and Dhillon 2014, algorithm 1.
    """
    threads, iterations, entries = gram.engine.n_threads, 0, 0
    u, lower, upper = np.zeros(len(y)), np.minimum(0.0, y * most), np.maximum(0.0, y * most)
    least = NEGLECTED_SHARE * limits.tol / (float(most.sum()) or 1.0)  # 0 without rows: nothing to neglect
    component = np.zeros(len(y), np.intp)
    if len(levels) > 1:
        component = separate(gram.rows, gram.kernel, levels[0], least)
    for number, edges in enumerate(levels):
        last = number == len(levels) - 1
        places = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        parallel = len(places) >= 2 * threads
        own = DualLimits(
            limits.tol if last else max(limits.tol, LEVEL_TOL),
            limits.max_iter,
            limits.memory_bytes // (threads if parallel else 1),
        )
        level = Dual(u, -y, lower, upper, 0.0 if equality else None)
        duals = [level.part(place) for place in places]  # they write to u
        grams = [gram.alone(place, Engine(1) if parallel else gram.engine) for place in places]
        leaf = number == 0 and equality
        solve = partial(_solve, limits=own, least=least, leaf=leaf, last=last, progress=progress)
        streams = children(rng, len(places))
        tasks = list(zip(grams, duals, streams, [component[place] for place in places]))
        violations = gram.engine.map(solve, tasks) if parallel else [solve(task) for task in tasks]
        iterations += sum(dual.steps for dual in duals)
        entries += sum(each.entries for each in grams)
    signs = [_sign(y[place]) if equality else 0.0 for place in places]
    offsets = np.array([sign or dual.offset() for sign, dual in zip(signs, duals)])
    return Climb(u, offsets, max(violations, default=0.0), iterations, entries)


def _solve(
    task: tuple[Gram, Dual, np.random.Generator, IntArray],
    *,
    limits: DualLimits,
    least: float,
    leaf: bool,
    last: bool,
    progress: Progress,
) -> float:
    """Solve one cluster from the u of ``dual``, whose gradient is still that of u = 0; return the violation.

    least : largest kernel value between components, the last of the task.
    """
    gram, dual, rng, component = task
    y, neglected = -dual.gradient, 0.0
    if not len(gram) or (dual.total is not None and _sign(y)):
        return 0.0  # with a single class no coefficient can move
    leaf = leaf and LEAF_ENTRY * len(gram) ** 2 <= limits.memory_bytes
    if leaf:
        progress(1)
        square = gram.square()
        libsvm = SVC(kernel="precomputed", tol=LEAF_SHARE * limits.tol, max_iter=LEAF_STEPS * len(y))
        libsvm.fit(square, y, sample_weight=dual.upper - dual.lower)  # C = 1
        dual.u[libsvm.support_] = libsvm.dual_coef_[0]
        np.clip(dual.u, dual.lower, dual.upper, out=dual.u)
        dual.steps = 1
        if last:
            dual.gradient += square @ dual.u
        del square
    if not leaf or (last and dual.violation() > limits.tol):  # or the leaf solver stopped early
        settled = solve_pivots(gram, dual, -y, component, limits)
        if settled and component.min() < component.max():
            neglected = 2.0 * least * float(np.abs(dual.u).sum())
        if not settled and not leaf:
            _solve_support(gram, dual, limits, rng)
    if last or not leaf:  # a leaf that is a start needs no proof
        refine(gram, dual, replace(limits, tol=limits.tol - neglected), rng)
    if 8 * len(gram) ** 2 > LARGE_BYTES:
        give_back()  # libsvm's cache and small tiles, which malloc would keep
    return dual.violation() + neglected


def _solve_support(gram: Gram, dual: Dual, limits: DualLimits, rng: np.random.Generator) -> None:
    """Solve roughly for the start's support vectors alone, then update the gradient of every row."""
    support = np.flatnonzero(dual.u)
    if not support.size:
        return
    few, local = gram.part(support), dual.part(support)
    few.add(local.gradient, few.rows, local.u)
    refine(few, local, replace(limits, tol=max(limits.tol, LEVEL_TOL)), rng)
    dual.steps += local.steps
    dual.u[support], dual.gradient[support] = local.u, local.gradient
    rest, kept = np.setdiff1d(np.arange(len(gram)), support), np.flatnonzero(local.u)
    if rest.size:
        gram.add(dual.gradient, few.rows[kept], local.u[kept], rest)


def _sign(y: Float64Array) -> float:
    """Return the label ±1 that all rows share, or 0 if there are two classes."""
    return float(y[0]) if len(y) and abs(float(y.sum())) == len(y) else 0.0
