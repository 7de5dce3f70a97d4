"""One-vs-one problems of all pairs of classes, solved by levels and arranged as SVC stores them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from gramian._random import children
from gramian._typing import Array, Float64Array, IntArray, Rows
from gramian.compression.expansion import PairwisePredictor, class_pairs
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.svm.divide.gram import Gram
from gramian.svm.divide.levels import Climb, DualSettings, Hierarchy, climb


@dataclass(frozen=True, slots=True)
class OneVsOne:
    """Solutions of all pairs, in the layout of libsvm."""

    support: IntArray  #: row numbers, by class, then ascending
    coefficients: Float64Array  #: (classes − 1, support vectors)
    offsets: Float64Array  #: (clusters, pairs)
    iterations: IntArray  #: working sets of each pair, libsvm's leaves included
    violations: Float64Array  #: m(α) − M(α) of each pair
    entries: int  #: kernel values computed

    def predictor(
        self, rows: Rows, codes: IntArray, hierarchy: Hierarchy, n_merged: int | None, kernel: Kernel
    ) -> PairwisePredictor:
        """Return the predictor on these solutions."""
        owner = codes[self.support]
        level = np.zeros(len(codes), np.intp)
        partition = None
        if n_merged is not None:
            level = hierarchy.above[n_merged][hierarchy.labels]
            partition = hierarchy.partition
        cluster = level[self.support]
        order = np.lexsort((self.support, owner, cluster))
        return PairwisePredictor(
            rows[self.support[order]],
            owner[order],
            cluster[order],
            np.ascontiguousarray(self.coefficients[:, order]),
            self.offsets,
            kernel,
            partition,
            None if n_merged is None else hierarchy.above[n_merged],
        )


def solve_pairs(
    gram: Gram,
    codes: IntArray,
    most: Float64Array,
    n_classes: int,
    hierarchy: Hierarchy,
    settings: DualSettings,
    *,
    leaf_rows: int,
    n_merged: int | None,
    rng: np.random.Generator,
) -> OneVsOne:
    """Solve every pair of classes ``codes`` (n,) of the rows of ``gram``, with bounds C_i = ``most`` (n,).

    Rows with C_i = 0 are left out. Small pairs are solved in parallel, large ones one after the other with
    all threads. Time: that of :func:`climb` for each pair. Memory: classes · n numbers, and the bytes that
    ``settings`` allow.
    """
    pairs, engine = class_pairs(n_classes), gram.engine
    order = hierarchy.order[most[hierarchy.order] > 0]
    own = codes[order]
    largest = int(np.sort(np.bincount(own, minlength=n_classes))[-2:].sum())
    parallel = len(pairs) >= 2 * engine.n_threads and largest <= 2 * leaf_rows
    inner = Engine(1) if parallel else engine
    share = engine.n_threads if parallel else 1
    own_settings = replace(settings, memory_bytes=settings.memory_bytes // share)

    def solve(task: tuple[tuple[int, int], np.random.Generator]) -> tuple[IntArray, Climb]:
        (first, second), stream = task
        index = order[(own == first) | (own == second)]
        answer = climb(
            Gram(gram.rows[index], gram.kernel, gram.dtype, inner),
            np.where(codes[index] == first, 1.0, -1.0),
            most[index],
            hierarchy.edges(index, leaf_rows, n_merged),
            own_settings,
            stream,
        )
        return index, answer

    tasks = list(zip(pairs, children(rng, len(pairs))))
    coefficients: Array = np.zeros((n_classes - 1, len(codes)))
    offsets, iterations, violations, entries = [], [], [], 0
    running = engine.results(solve, tasks) if parallel else nullcontext(map(solve, tasks))
    with running as answers:
        for (first, second), (index, answer) in zip(pairs, answers):
            of_first = codes[index] == first
            coefficients[second - 1, index[of_first]] = answer.u[of_first]
            coefficients[first, index[~of_first]] = answer.u[~of_first]
            offsets.append(answer.offsets)
            iterations.append(answer.effort.iterations)
            violations.append(answer.effort.violation)
            entries += answer.effort.entries
    found = np.flatnonzero((coefficients != 0).any(axis=0))
    support = found[np.lexsort((found, codes[found]))]
    return OneVsOne(
        support,
        coefficients[:, support],
        np.column_stack(offsets),
        np.maximum(iterations, 1),
        np.asarray(violations),
        entries,
    )
