r"""DC-Pred++ training: a k-means tree with a model on few landmarks and many pseudo-landmarks in each leaf.

Source: Hsieh, Si and Dhillon 2014, "Fast prediction for large-scale kernel machines", Algorithm 2.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

import numpy as np
import scipy.linalg as la

from gramian._checks import one_of, whole_number
from gramian._phases import Phases, silent
from gramian._random import as_generator, children
from gramian._tiles import row_slices
from gramian._typing import Float64Array, IntArray, Rows
from gramian.data.source import RowSource, SubsetRows
from gramian.engine import Engine
from gramian.estimator.input import scaled_input
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.parameters import KernelParameters
from gramian.exceptions import AccuracyWarning, InputError, user_level
from gramian.fast.dcpred.center_tree import METHODS, fit_tree
from gramian.fast.dcpred.leaves import Leaf, LeafReport
from gramian.fast.dcpred.local_models import LinearFit, Tiles, exact_duals, exact_work, fit_linear
from gramian.fast.dcpred.model import TILE_ROWS, DCPred, DCPredModel
from gramian.fast.dcpred.pseudo_landmarks import check_pseudo, expand, fit_core
from gramian.kernels import Kernel
from gramian.kernels.columns import Columns
from gramian.landmarks.partition import SAMPLE_ROWS
from gramian.landmarks.rules import lloyd, select_landmarks

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Iterations of k-means in a leaf. Chosen by hand, as are the next constants.
ROUNDS = 15
#: Rows of a leaf on which W̄ is fitted.
CORE_ROWS = 1000
#: Rows whose training features are computed at a time.
FIT_ROWS = 2048
#: Most bytes of features kept in memory to train a leaf; a larger leaf computes them again at each pass.
FEATURE_BYTES = 1 << 26

#: Limit on :func:`gramian.fast.dcpred.local_models.exact_work` of a fit, 15 to 60 minutes on one core. Two
#: classes stay far below it, and so do ten classes in 64 leaves of 2,000 rows.
MOST_EXACT_WORK = 1e13

#: Training rows for each leaf where their number is left to the rows, and the most leaves. Chosen by hand.
ROWS_PER_LEAF, MOST_LEAVES = 500, 64
#: Up to this many rows the model stays float64 where that is left to the rows, as in the other estimators.
FLOAT64_ROWS = 3_000

LOSSES = ("hinge", "squared_hinge", "logistic", "ridge")
DTYPES = ("auto", "float32", "float64")
#: Rules that choose the landmarks of a leaf.
LANDMARKS = ("weighted-kmeans", "kmeans", "uniform", "rpcholesky")

#: Function from row numbers to targets (rows, outputs).
TargetsOf: TypeAlias = Callable[[IntArray], Float64Array]


@dataclass(frozen=True, eq=False)
class DCPredParameters:
    """Settings of a fit, as in :class:`gramian.fast.dcpred.estimators.DCPredClassifier`."""

    kernel: KernelParameters
    standardize: bool
    n_leaves: int  #: 0: as many as the rows ask for
    n_levels: int
    partition: str
    n_landmarks: int
    landmarks: str
    n_pseudo: int
    pseudo: str | None
    pseudo_degree: int
    loss: str
    cost: float  #: C
    intercept: bool
    exact_rows: int
    dtype: np.dtype[Any] | None  #: None: by the rows
    random_state: Any
    engine: Engine
    phases: Phases = silent

    @classmethod
    def of(
        cls, model: BaseEstimator, cost: float, losses: tuple[str, ...] = LOSSES, phases: Phases = silent
    ) -> Self:
        """Return the parameters of an estimator; ``cost`` is C, and ``losses`` are those that it may have."""
        kernel = KernelParameters.given(model)
        if kernel.precomputed:
            raise InputError(
                "kernel='precomputed' has no points, which the leaves are found by. Pass the rows and a "
                "kernel's name, such as 'rbf'."
            )
        dtype = one_of("dtype", model.dtype, DTYPES)
        leaves = model.n_leaves
        if isinstance(leaves, str) and leaves != "auto":
            raise InputError(f"n_leaves={leaves!r} is unknown. Give a whole number of at least 1, or 'auto'.")
        return cls(
            kernel=kernel,
            standardize=model.standardize,
            n_leaves=0 if isinstance(leaves, str) else whole_number("n_leaves", leaves, 1),
            n_levels=whole_number("n_levels", model.n_levels, 1),
            partition=one_of("partition", model.partition, METHODS),
            n_landmarks=whole_number("n_landmarks", model.n_landmarks, 1),
            landmarks=one_of("landmarks", model.landmarks, LANDMARKS),
            n_pseudo=whole_number("n_pseudo", model.n_pseudo, 0),
            pseudo=model.pseudo,
            pseudo_degree=whole_number("pseudo_degree", model.pseudo_degree, 2),
            loss=one_of("loss", model.loss, losses),
            cost=cost,
            intercept=bool(model.fit_intercept),
            exact_rows=whole_number("exact_rows", model.exact_rows, 2),
            dtype=None if dtype == "auto" else np.dtype(dtype),
            random_state=model.random_state,
            engine=Engine(model.n_jobs),
            phases=phases,
        )


def fit_dcpred(
    rows: LabelledRows[Any], targets: TargetsOf, parameters: DCPredParameters, *, wide: bool = False
) -> DCPredModel:
    """Train a tree of local models.

    targets : function from row numbers to target values (rows, outputs); wide : whether float32 does not hold
    them.
    """
    scaled = scaled_input(parameters.kernel, parameters.standardize, rows.source, rows.weights)
    source = scaled.over(rows.source)
    kernel = parameters.kernel.resolve_for(source, rows.weights)
    check_pseudo(parameters.pseudo, kernel)
    parameters = for_rows(parameters, source, len(rows.counted), wide=wide)
    tree = train_dcpred(source, rows, targets, kernel, parameters)
    model = DCPredModel(tree, kernel, scaled)
    if missed := model.missed():
        worst = max(leaf.gradient for leaf in model.leaves)
        warnings.warn(
            f"{missed}: the gradient is down to {worst:.2g} of its start, where 1e-4 was the target. Scale "
            "the features, or lower C.",
            AccuracyWarning,
            stacklevel=user_level(),
        )
    return model


def for_rows(parameters: DCPredParameters, source: RowSource, n_used: int, *, wide: bool) -> DCPredParameters:
    """Return the parameters with what was left to the rows, of which ``n_used`` count.

    wide : whether float32 does not hold the targets.
    """
    small = source.dtype.itemsize == 1 or source.dtype == np.float32
    narrow = np.dtype(np.float32 if small or source.shape[0] > FLOAT64_ROWS else np.float64)
    leaves = int(np.clip(n_used // ROWS_PER_LEAF, 1, MOST_LEAVES))
    dtype = np.dtype(np.float64) if wide else parameters.dtype or narrow
    return replace(parameters, n_leaves=parameters.n_leaves or leaves, dtype=dtype)


def train_dcpred(
    source: RowSource,
    rows: LabelledRows[Any],
    targets: TargetsOf,
    kernel: Kernel,
    parameters: DCPredParameters,
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
    phases, engine, rng = parameters.phases, parameters.engine, as_generator(parameters.random_state)
    phases("partition")
    used, weights = rows.counted, rows.weights
    sample = source.take(used[_draw(len(used), SAMPLE_ROWS, rng)])
    partition = fit_tree(
        sample, parameters.n_leaves, n_levels=parameters.n_levels, method=parameters.partition, rng=rng
    )
    labels = np.empty(len(used), np.intp)
    for part in row_slices(len(used), 8 * TILE_ROWS):
        labels[part] = partition.route(source.take(used[part]), engine)
    order = np.argsort(labels, kind="stable")
    members = np.split(used[order], np.searchsorted(labels[order], np.arange(1, partition.n_blocks)))
    _check_work(members, targets, parameters)

    def fit(task: tuple[IntArray, np.random.Generator]) -> Leaf:
        own, generator = task
        costs = np.full(len(own), parameters.cost) if weights is None else parameters.cost * weights[own]
        return fit_leaf(SubsetRows(source, own), targets(own), costs, kernel, parameters, generator)

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
