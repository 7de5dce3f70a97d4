"""Decision values of one-vs-one models, where each row uses the model of its own cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from gramian._tiles import MIN_ROWS, row_slices
from gramian._typing import Float64Array, IntArray, Rows
from gramian.data.values import row_bytes
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.kernels.columns import Columns
from gramian.landmarks.partition import Partition

#: Size of one block of kernel values of new rows against support vectors. Chosen by hand.
BLOCK_BYTES = 1 << 23
#: Support vectors evaluated together. Chosen by hand.
COLUMNS = 2048

#: For the support vectors of one class: k(·, vectors), pairs that use them, columns of weights, weights.
_Run = tuple[Columns, IntArray, IntArray, Float64Array]


#: Largest number of class pairs, each solved on its own: those of 200 classes, because 1,000 classes took
#: minutes. Chosen by hand.
MOST_PAIRS = 19_900


def class_pairs(n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs of classes in libsvm's order: (0, 1), (0, 2), … (1, 2), …"""
    return list(combinations(range(n_classes), 2))


@dataclass(frozen=True, slots=True)
class PairwisePredictor:
    """f_ij(x) = Σ_s u_s k(x, x_s) + b_ij over the support vectors of classes i and j in x's cluster.

    support : (m, d) support vectors, sorted by cluster, then by class.
    cluster, owner : (m,) cluster and class of each support vector.
    coefficients : (classes − 1, m). Column s, for a vector of class c, has its weight u in the pair with
        class j in row j − 1 (j > c) or row j (j < c).
    offsets : (clusters, pairs) the constants b_ij.
    """

    support: Rows
    owner: IntArray
    cluster: IntArray
    coefficients: Float64Array
    offsets: Float64Array
    kernel: Kernel
    partition: Partition | None
    level: IntArray | None  #: cluster of each leaf of the partition

    @property
    def model_bytes(self) -> int:
        """Bytes of coefficients and support vectors."""
        return row_bytes(self.support) + self.coefficients.nbytes + self.offsets.nbytes

    def with_kernel(self, kernel: Kernel) -> PairwisePredictor:
        """Return the predictor with another kernel, which may hold the stored values of other rows."""
        routed = None if self.partition is None else self.partition.with_kernel(kernel)
        return replace(self, kernel=kernel, partition=routed)

    def __call__(self, rows: Rows, engine: Engine) -> Float64Array:
        """Return f of each pair, shape (n, pairs); a positive value means the first class of the pair.

        Time O(n m (d + classes)), where m is the number of support vectors in a row's cluster; memory 8 MB
        a thread.
        """
        n, count = int(rows.shape[0]), len(self.offsets)
        labels = np.zeros(n, np.intp)
        if self.partition is not None and self.level is not None:
            labels = self.level[self.partition.route(rows, engine)]
        out = self.offsets[labels]
        edges = np.searchsorted(self.cluster, np.arange(count + 1))
        tasks: list[tuple[int, IntArray]] = []
        height = max(MIN_ROWS, BLOCK_BYTES // (8 * COLUMNS))
        for block in range(count):
            if edges[block] < edges[block + 1]:
                members = np.flatnonzero(labels == block)
                tasks += [(block, members[part]) for part in row_slices(len(members), height)]
        evaluators = {block: self._evaluators(edges[block], edges[block + 1]) for block, _ in tasks}

        def fill(task: tuple[int, IntArray]) -> None:
            block, members = task
            points = rows[members]
            for columns, first, second, weights in evaluators[block]:
                values = columns(points) @ weights
                out[np.ix_(members, first)] += values[:, second]

        engine.run(fill, tasks)
        return out

    def _evaluators(self, start: int, stop: int) -> list[_Run]:
        """Return evaluator, pairs, rows of weights and weights for each class in a range of vectors."""
        n_classes = len(self.coefficients) + 1
        pairs = class_pairs(n_classes)
        out = []
        owners = self.owner[start:stop]
        for owner in np.unique(owners):
            members = np.flatnonzero(owners == owner) + start
            first = np.array([p for p, pair in enumerate(pairs) if owner in pair])
            other = [sum(pairs[p]) - owner for p in first]
            second = np.array([j - 1 if j > owner else j for j in other])
            for part in row_slices(len(members), COLUMNS):
                where = members[part]
                columns = self.kernel.against(self.support[where], np.float64)
                out.append((columns, first, second, self.coefficients[:, where].T))
        return out
