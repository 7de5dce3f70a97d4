"""Divide and conquer over levels of clusters: solutions of small clusters start those of larger ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from gramian._budget import LARGE_BYTES, give_back
from gramian._random import children
from gramian._typing import Float64Array, IntArray, Rows
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.kernels.precomputed import Precomputed
from gramian.landmarks.partition import Partition, fit_partition
from gramian.svm.divide.components import separate
from gramian.svm.divide.decomposition import Dual, SolutionWork, refine
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
#: Bytes that the leaf solver takes for each entry of a leaf's kernel matrix: the float64 matrix, and libsvm's
#: cache of its rows in float32.
LEAF_ENTRY = 8 + 4
#: Tolerance of the leaf solver as a fraction of ``tol``, so that its answer also passes with our gradient.
LEAF_SHARE = 0.5
#: Allowed change of the gradient by neglecting kernel values between components, as a fraction of ``tol``.
NEGLECTED_SHARE = 0.05

#: Function from K (m, m), y = ±1, bounds C_i and a tolerance to α (m,).
LeafSolver = Callable[[Float64Array, Float64Array, Float64Array, float], Float64Array]


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
        cut = _evenly(found[0], LARGE_LEAF * leaf_rows)
        if len(cut) == len(found[0]):
            return found
        return [cut, *(found[1:] if len(found) > 1 else found)]


def _evenly(edges: IntArray, most: int) -> IntArray:
    """Cut clusters evenly into parts of at most ``most`` rows; return the edges."""
    cuts = [
        np.linspace(a, b, max(1, -(-int(b - a) // most)), endpoint=False).astype(np.intp)
        for a, b in pairwise(edges)
    ]
    return np.concatenate([*cuts, edges[-1:]])


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
    """Coefficients of the last level, in the order of the rows, with an offset for each of its clusters."""

    u: Float64Array
    offsets: Float64Array
    effort: SolutionWork


@dataclass(frozen=True, slots=True)
class DualSettings:
    """Settings of the dual problems: equality constraint, tolerance and limits."""

    equality: bool
    tol: float
    max_iter: int
    memory_bytes: int
    leaf_solver: LeafSolver | None = None


def climb(
    gram: Gram,
    y: Float64Array,
    most: Float64Array,
    levels: Sequence[IntArray],
    settings: DualSettings,
    rng: np.random.Generator,
) -> Climb:
    """Solve the dual of labels y = ±1 and bounds C_i = ``most`` level by level, the last to ``tol``.

    levels : edges of the clusters (consecutive rows), finest level first. Clusters of the first level start
    from α = 0 and use ``leaf_solver`` if it is given and the equality holds. Clusters of later levels start
    from the solutions of their parts. They are solved by block pivoting over the components of the rows
    (:func:`solve_pivots`); if that does not settle, by working sets, first of the support vectors alone, then
    of all rows.

    Kernel values between components are at most ε = ``NEGLECTED_SHARE`` · tol / ΣC_i, so neglecting them
    changes the gradient by at most ε Σα_i. The returned violation includes twice this bound.

    Source: Hsieh, Si and Dhillon 2014, algorithm 1.
    """
    u = np.zeros(len(y))
    total, offsets = SolutionWork(), np.zeros(0)
    least = NEGLECTED_SHARE * settings.tol / (float(most.sum()) or 1.0)  # 0 without rows: nothing to neglect
    component = np.zeros(len(y), np.intp)
    if len(levels) > 1:
        component = separate(gram.rows, gram.kernel, levels[0], least)
    for number, edges in enumerate(levels):
        last = number == len(levels) - 1
        places = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        threads = gram.engine.n_threads
        parallel = len(places) >= 2 * threads
        own = replace(
            settings,
            tol=settings.tol if last else max(settings.tol, LEVEL_TOL),
            memory_bytes=settings.memory_bytes // (threads if parallel else 1),
            leaf_solver=settings.leaf_solver if number == 0 and settings.equality else None,
        )
        engine = Engine(1) if parallel else gram.engine
        level = _Level(gram, y, most, u, component, own, engine, last=last, least=least)
        tasks = list(zip(places, children(rng, len(places))))
        found = list(gram.engine.map(level.cluster, tasks) if parallel else map(level.cluster, tasks))
        u = np.concatenate([dual.u for dual, _ in found])
        if last:
            signs = [_sign(y[place]) if settings.equality else 0.0 for place in places]
            offsets = np.array([s or dual.offset() for s, (dual, _) in zip(signs, found)])
            total.violation = max((effort.violation for _, effort in found), default=0.0)
        total.iterations += sum(effort.iterations for _, effort in found)
        total.entries += sum(effort.entries for _, effort in found)
    return Climb(u, offsets, total)


@dataclass(frozen=True, slots=True)
class _Level:
    gram: Gram
    y: Float64Array
    most: Float64Array
    u: Float64Array
    component: IntArray
    settings: DualSettings
    engine: Engine
    last: bool
    least: float  #: largest kernel value between components

    def cluster(self, task: tuple[slice, np.random.Generator]) -> tuple[Dual, SolutionWork]:
        """Solve one cluster from the coefficients of its parts."""
        place, rng = task
        found = self._solved(place, rng)
        if 8 * len(found[0].u) ** 2 > LARGE_BYTES:
            give_back()  # libsvm's cache and small tiles, which malloc would keep
        return found

    def _solved(self, place: slice, rng: np.random.Generator) -> tuple[Dual, SolutionWork]:
        gram = Gram(self.gram.rows[place], self.gram.kernel, self.gram.dtype, self.engine)
        y, most, start = self.y[place], self.most[place], self.u[place]
        dual = Dual.at_zero(y, most, self.settings.equality)
        if not len(gram) or (self.settings.equality and _sign(y)):
            return dual, SolutionWork()  # with a single class no coefficient can move
        effort = SolutionWork()
        if (
            self.settings.leaf_solver is not None
            and LEAF_ENTRY * len(gram) ** 2 <= self.settings.memory_bytes
        ):
            square = gram.square(slice(None))
            alpha = self.settings.leaf_solver(square, y, most, LEAF_SHARE * self.settings.tol)
            dual.u[:] = np.clip(y * alpha, dual.lower, dual.upper)
            effort.iterations = 1
            if not self.last:
                return dual, SolutionWork(1, gram.entries)  # a start needs no proof
            dual.gradient += square @ dual.u
            del square
            if dual.violation() > self.settings.tol:  # the leaf solver stopped early
                self._pivot(gram, dual, y, self.component[place], effort)
        else:
            dual.u[:] = np.clip(start, dual.lower, dual.upper)
            if not self._pivot(gram, dual, y, self.component[place], effort):
                support = np.flatnonzero(dual.u)
                if support.size:
                    effort.add(self._on_support(gram, dual, support, rng))
        whole = self._refine(gram, dual, self.settings.tol - effort.violation, rng)
        whole.add(effort)
        return dual, whole

    def _pivot(
        self, gram: Gram, dual: Dual, y: Float64Array, component: IntArray, effort: SolutionWork
    ) -> bool:
        """Replace the start by the solution of block pivoting; return whether that settled."""
        found = solve_pivots(
            gram,
            component,
            -y,
            dual.lower,
            dual.upper,
            dual.u,
            equality=self.settings.equality,
            tol=self.settings.tol,
            max_iter=self.settings.max_iter,
            memory_bytes=self.settings.memory_bytes,
        )
        effort.iterations += found.steps
        effort.entries += found.entries
        if found.settled:
            dual.u[:], dual.gradient[:] = found.u, found.gradient
            if component.min() < component.max():
                effort.violation = 2.0 * self.least * float(np.abs(found.u).sum())
        return found.settled

    def _refine(self, gram: Gram, dual: Dual, tol: float, rng: np.random.Generator) -> SolutionWork:
        return refine(
            gram,
            dual,
            tol=tol,
            max_iter=self.settings.max_iter,
            memory_bytes=self.settings.memory_bytes,
            rng=rng,
        )

    def _on_support(
        self, gram: Gram, dual: Dual, support: IntArray, rng: np.random.Generator
    ) -> SolutionWork:
        """Solve roughly for the start's support vectors alone, then update the gradient of every row."""
        few, local = gram.part(support), dual.part(support)
        few.add(local.gradient, few.rows, local.u)
        effort = self._refine(few, local, max(self.settings.tol, LEVEL_TOL), rng)
        effort.violation = 0.0  # it concerns these rows alone, and the next solve checks them again
        dual.u[support], dual.gradient[support] = local.u, local.gradient
        others = np.ones(len(gram), bool)
        others[support] = False
        rest, kept = np.flatnonzero(others), np.flatnonzero(local.u)
        if rest.size:
            outside, gradient = gram.part(rest), dual.gradient[rest]
            outside.add(gradient, few.rows[kept], local.u[kept])
            dual.gradient[rest] = gradient
            gram.entries += outside.entries
        return effort


def _sign(y: Float64Array) -> float:
    """Return the label ±1 that all rows share, or 0 if there are two classes."""
    return float(y[0]) if len(y) and abs(float(y.sum())) == len(y) else 0.0
