r"""DC-Pred++ training: a k-means tree with a model on few landmarks and many pseudo-landmarks in each leaf.

To predict a row x, find its leaf, compute c̄(x) from m kernel values and p cheap functions of them, and
return c̄(x)ᵀβ + b, kept near the range that targets and fitted values of the leaf's training rows have.
Source: Hsieh, Si and Dhillon 2014, "Fast prediction for large-scale kernel machines", Algorithms 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp

from gramian._random import as_generator, children
from gramian._tiles import row_slices
from gramian._typing import Float64Array, FloatArray, IntArray, Rows
from gramian.data.source import RowSource, row_blocks
from gramian.data.subset import SubsetRows
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.exceptions import InputError
from gramian.fast.dcpred.batched_leaves import BatchedLeaves, batch_leaves
from gramian.fast.dcpred.center_tree import fit_tree, router_bytes
from gramian.fast.dcpred.leaf import Leaf, LeafReport, bounded_values
from gramian.fast.dcpred.local_models import LinearFit, Tiles, exact_duals, exact_work, fit_linear
from gramian.fast.dcpred.parameters import DCPredParameters
from gramian.fast.dcpred.pseudo_landmarks import expand, fit_core
from gramian.kernels import Kernel
from gramian.kernels.columns import Columns
from gramian.landmarks.partition import SAMPLE_ROWS
from gramian.landmarks.routing import Partition
from gramian.landmarks.rules import lloyd, select_landmarks

#: Iterations of k-means in a leaf. Chosen by hand, as are the next constants.
ROUNDS = 15
#: Rows of a leaf on which W̄ is fitted.
CORE_ROWS = 1000
#: Rows predicted at a time, over several leaves; and rows whose training features are computed at a time.
TILE_ROWS, FIT_ROWS = 8192, 2048
#: Most bytes of features kept in memory to train a leaf; a larger leaf computes them again at each pass.
FEATURE_BYTES = 1 << 26

#: Limit on :func:`gramian.fast.dcpred.local_models.exact_work` of a fit, 15 to 60 minutes on one core. Two
#: classes stay far below it, and so do ten classes in 64 leaves of 2,000 rows.
MOST_EXACT_WORK = 1e13

#: Training rows for each leaf where their number is left to the rows, and the most leaves. Chosen by hand.
ROWS_PER_LEAF, MOST_LEAVES = 500, 64
#: Up to this many rows the model stays float64 where that is left to the rows, as in the other estimators.
FLOAT64_ROWS = 3_000

#: Function from row numbers to targets (rows, outputs).
TargetsOf: TypeAlias = Callable[[IntArray], Float64Array]


@dataclass(frozen=True)
class DCPred:
    """A partition and a model of each of its leaves."""

    partition: Partition
    leaves: tuple[Leaf, ...]
    kernel: Kernel
    n_features: int
    _batch: BatchedLeaves | None = field(init=False, repr=False)
    _bias: FloatArray = field(init=False, repr=False)
    _limits: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_bias", np.stack([leaf.bias for leaf in self.leaves]))
        object.__setattr__(self, "_limits", np.stack([leaf.limits for leaf in self.leaves], axis=1))
        batch = batch_leaves(self.kernel, self.leaves, self.n_features, self.dtype)
        object.__setattr__(self, "_batch", batch)

    def __reduce__(self) -> tuple[Any, ...]:
        # The batch is derived from the rest and need not be stored.
        return DCPred, (self.partition, self.leaves, self.kernel, self.n_features)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored numbers and of the answers."""
        return self.leaves[0].bias.dtype

    @property
    def n_outputs(self) -> int:
        """Columns of an answer."""
        return len(self.leaves[0].bias)

    def __call__(self, X: Rows, engine: Engine | None = None) -> FloatArray:
        """Return f of each row, shape (rows, outputs). Time O(rows (route + m d + p + (m + p) outputs))."""
        engine = engine or Engine(1)
        labels = self.partition.route(X, engine)
        # NumPy sorts 16-bit integers by radix, in linear time.
        small = labels.astype(np.int16) if len(self.leaves) < np.iinfo(np.int16).max else labels
        order = np.argsort(small, kind="stable")
        labels = labels[order]
        out = np.empty((X.shape[0], self.n_outputs), self.dtype)

        def work(part: slice) -> None:
            rows = order[part]
            out[rows] = self._sorted(X[rows], labels[part])

        engine.run(work, row_slices(len(order), TILE_ROWS))
        return out

    def _sorted(self, X: Rows, labels: IntArray) -> FloatArray:
        """Return f of rows that are sorted by leaf."""
        bounds = np.searchsorted(labels, np.arange(len(self.leaves) + 1))
        if self._batch is not None and not sp.issparse(X):
            values = self._batch(np.asarray(X), labels, bounds)
            if values is not None:
                return bounded_values(values, self._bias[labels], *self._limits[:, labels])
        values = np.empty((len(labels), self.n_outputs), self.dtype)
        for leaf, first, last in zip(self.leaves, bounds[:-1], bounds[1:], strict=True):
            if last > first:
                values[first:last] = leaf(X[first:last])
        return values

    def blocks(
        self, source: RowSource, *, engine: Engine, chunk_rows: int
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Yield (rows, f) chunk by chunk."""
        for where, rows in row_blocks(source, chunk_rows):
            yield where, self(rows, engine)

    @property
    def nbytes(self) -> int:
        """Bytes that a prediction reads: centres, landmarks, indices of pseudo-landmarks, β and b."""
        return router_bytes(self.partition) + sum(leaf.nbytes for leaf in self.leaves)


def for_rows(asked: DCPredParameters, source: RowSource, n_used: int, *, wide: bool) -> DCPredParameters:
    """Return the parameters with what was left to the rows, of which ``n_used`` count.

    wide : whether float32 does not hold the targets.
    """
    small = source.dtype.itemsize == 1 or source.dtype == np.float32
    narrow = np.dtype(np.float32 if small or source.shape[0] > FLOAT64_ROWS else np.float64)
    leaves = int(np.clip(n_used // ROWS_PER_LEAF, 1, MOST_LEAVES))
    dtype = np.dtype(np.float64) if wide else asked.dtype or narrow
    return replace(asked, n_leaves=asked.n_leaves or leaves, dtype=dtype)


def train_dcpred(
    source: RowSource, rows: LabelledRows[Any], targets: TargetsOf, kernel: Kernel, asked: DCPredParameters
) -> DCPred:
    r"""Train DC-Pred++ on the rows of positive weight, whose inputs are those of ``source``.

    targets : function from row numbers to y (rows, outputs), ±1 for a classification loss.

    For each output, a leaf minimises ½‖f‖² + C Σ_i w_i ℓ(y_i, f(x_i) + b) in the kernel Ḡ = C̄ W̄ C̄ᵀ and stores
    β = W̄ C̄ᵀ ᾱ. Leaves are independent tasks, each with its own generator, so the result is the same for any
    number of threads. Time for a leaf of n rows: O(e³) for the exact model of e = ``exact_rows`` rows,
    O(s²(m + p)) for W̄ on s = ``CORE_ROWS`` rows, O(n (m d + (m + p)²)) a Newton step; memory O(e² + s²) and
    64 MB of features a thread.
    Source: DC-Pred++, Algorithm 2.
    """
    phases, engine, rng = asked.phases, asked.engine, as_generator(asked.random_state)
    phases("partition")
    used, weights = rows.counted, rows.weights
    sample = source.take(used[_draw(len(used), SAMPLE_ROWS, rng)])
    partition = fit_tree(sample, asked.n_leaves, n_levels=asked.n_levels, method=asked.partition, rng=rng)
    labels = np.empty(len(used), np.intp)
    for part in row_slices(len(used), 8 * TILE_ROWS):
        labels[part] = partition.route(source.take(used[part]), engine)
    order = np.argsort(labels, kind="stable")
    members = np.split(used[order], np.searchsorted(labels[order], np.arange(1, partition.n_blocks)))
    _check_work(members, targets, asked)

    def fit(task: tuple[IntArray, np.random.Generator]) -> Leaf:
        own, generator = task
        costs = np.full(len(own), asked.cost) if weights is None else asked.cost * weights[own]
        return fit_leaf(SubsetRows(source, own), targets(own), costs, kernel, asked, generator)

    leaves = []
    done = phases("leaves", partition.n_blocks, unit="leaves")
    tasks = list(zip(members, children(rng, partition.n_blocks), strict=True))
    with engine.results(fit, tasks) as trained:
        for leaf in trained:
            leaves.append(leaf)
            done(1)
    return DCPred(partition, tuple(leaves), kernel, source.shape[1])


def _check_work(members: list[IntArray], targets: TargetsOf, settings: DCPredParameters) -> None:
    """Raise if the exact models would take too long, and name a feasible number of rows."""
    if settings.landmarks != "weighted-kmeans":
        return
    work, outputs = 0.0, 0
    for own in members:
        if len(own) > settings.n_landmarks:  # a smaller leaf has no exact model
            y = targets(own)
            varying = int(np.count_nonzero((y != y[:1]).any(axis=0)))
            work += exact_work(min(len(own), settings.exact_rows), varying, settings.loss)
            outputs += varying
    if work > MOST_EXACT_WORK:
        fewer = int((MOST_EXACT_WORK / outputs) ** (1 / 3))
        raise InputError(
            f"landmarks='weighted-kmeans' fits an exact model to up to exact_rows={settings.exact_rows:,} "
            f"rows for each class of each leaf, {outputs:,} models, which would take hours. Give "
            f"exact_rows={fewer}, or landmarks='kmeans', which needs no exact model."
        )


def _draw(n: int, count: int, rng: np.random.Generator) -> IntArray:
    """Return at most ``count`` sorted numbers below n, drawn without replacement."""
    return np.arange(n) if count >= n else np.sort(rng.choice(n, count, replace=False))


def fit_leaf(
    rows: RowSource,
    y: Float64Array,
    costs: Float64Array,
    kernel: Kernel,
    settings: DCPredParameters,
    rng: np.random.Generator,
) -> Leaf:
    """Fit the model of one leaf. A constant column of y gives b alone; a leaf without rows gives b = 0."""
    n, q = y.shape
    dtype = cast("np.dtype[Any]", settings.dtype)  # chosen by the rows where it was None
    bias = y[0].copy() if n else np.zeros(q)
    varying = np.flatnonzero((y != y[:1]).any(axis=0))
    if not varying.size:
        only = bias.astype(dtype)
        return Leaf(None, None, np.zeros((0, q), dtype), only, np.stack([only, only]), LeafReport(n))
    limits = np.stack([y.min(axis=0), y.max(axis=0)])
    y = y[:, varying]
    landmarks, exact = choose_landmarks(rows, y, costs, kernel, settings, rng)
    pool = rows.take(_draw(n, SAMPLE_ROWS, rng))
    p, kind, degree = settings.n_pseudo, settings.pseudo, settings.pseudo_degree
    columns = expand(kernel, landmarks, pool, p, kind, rng, dtype, degree=degree)
    sampled = rows.take(_draw(n, max(CORE_ROWS, columns.n_columns), rng))
    factor = fit_core(columns(sampled), kernel(sampled, dtype=np.float64, n_jobs=1), dtype)
    fit = _linear(rows, columns, factor, y, costs, settings)
    beta = np.zeros((columns.n_columns, q), dtype)
    beta[:, varying] = factor @ fit.weights
    bias[varying] = fit.bias
    m = landmarks.shape[0]
    limits[0, varying] = np.minimum(limits[0, varying], fit.limits[0])
    limits[1, varying] = np.maximum(limits[1, varying], fit.limits[1])
    if columns.n_columns == m:  # kernel values alone are bounded
        limits[:] = np.finfo(dtype).max * np.array([[-1.0], [1.0]])
    report = LeafReport(
        n_rows=n,
        n_landmarks=m,
        n_pseudo=columns.n_columns - m,
        rank=factor.shape[1],
        exact_rows=exact,
        exact_sampled=0 < exact < n,
        steps=fit.steps,
        gradient=fit.gradient,
        converged=fit.converged,
    )
    return Leaf(landmarks, columns, beta, bias.astype(dtype), limits.astype(dtype), report)


def _linear(
    rows: RowSource,
    columns: Columns,
    factor: Float64Array,
    y: Float64Array,
    costs: Float64Array,
    settings: DCPredParameters,
) -> LinearFit:
    """Train the linear model on Φ = C̄ L; keep Φ in memory if it is small."""

    def computed() -> Iterator[tuple[slice, Float64Array]]:
        for part in row_slices(len(y), FIT_ROWS):
            yield part, columns(rows.rows(part)).astype(np.float64, copy=False) @ factor

    tiles: Tiles = computed
    if 8 * len(y) * factor.shape[1] <= FEATURE_BYTES:
        held = list(computed())
        tiles = lambda: iter(held)  # noqa: E731
    return fit_linear(tiles, factor.shape[1], y, costs, settings.loss, intercept=settings.intercept)


def choose_landmarks(
    rows: RowSource,
    y: Float64Array,
    costs: Float64Array,
    kernel: Kernel,
    settings: DCPredParameters,
    rng: np.random.Generator,
) -> tuple[Rows, int]:
    r"""Return the landmarks of a leaf, and how many rows the exact model was fitted on (0 without one).

    ``"weighted-kmeans"`` minimises Σ_i ω_i ‖x_i − u_π(i)‖², with u_π(i) the landmark of row i's cluster,
    ω_i = Σ_outputs α_i²/w_i, α from the exact model on at most ``exact_rows`` rows, and w_i the sample weight
    (a row of weight 2 counts as two). If all α are 0, as can happen when the sample misses a rare class, all
    rows get the same weight. A leaf with no more rows than landmarks uses all of them. Source: DC-Pred++,
    Theorem 3.
    """
    count, method = settings.n_landmarks, settings.landmarks
    n = rows.shape[0]
    if n <= count:
        return rows.rows(slice(0, n)), 0
    if method != "weighted-kmeans":
        looked = rows.take(_draw(n, SAMPLE_ROWS, rng))
        if method == "kmeans":
            return lloyd(looked, count, ROUNDS, rng), 0
        return select_landmarks(looked, count, method, rng, Engine(1), kernel=kernel), 0
    where = _draw(n, settings.exact_rows, rng)
    looked, y, costs = rows.take(where), y[where], costs[where]
    y = y[:, (y != y[:1]).any(axis=0)]
    weights = np.ones(len(where))
    if y.shape[1]:
        gram: Float64Array = kernel(looked, dtype=np.float64, n_jobs=1).astype(np.float64, copy=False)
        try:
            alpha = exact_duals(gram, y, costs, settings.loss)
        except la.LinAlgError:
            raise InputError(
                "The kernel matrix of a leaf is not positive semi-definite, so that the exact model which "
                "weighs landmarks does not exist. Take landmarks='kmeans', or another kernel."
            ) from None
        found = np.square(alpha).sum(axis=1) * (settings.cost / costs)
        if found.any():
            weights = found / found.max()
    count = min(count, looked.shape[0])
    return lloyd(looked, count, ROUNDS, rng, weights=weights), len(where)
