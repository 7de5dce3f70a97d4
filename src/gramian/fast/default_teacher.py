"""Default teacher of a fast model: kernel ridge whose kernel, gamma and alpha a search chooses."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array, RandomState
from gramian.data.source import as_source
from gramian.engine import Engine
from gramian.estimator.repeats import repeats_together
from gramian.exact.exact import Exact
from gramian.exact.penalties import PenaltyTrials
from gramian.exact.system import keeps_tiles
from gramian.fast.learning.metric import center_and_spread
from gramian.kernels import Gaussian, Kernel, Laplacian
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier
from gramian.search import Limits, Split, search

#: Candidates for gamma, in units of 1 / (median squared distance) for the Gaussian and 1 / (median distance)
#: for the Laplacian kernel, and for alpha. Chosen by hand.
GAMMAS = {"gaussian": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0), "laplacian": (0.3, 1.0, 3.0, 10.0)}
ALPHAS = (1e-3, 1e-2, 0.1, 1.0)
#: Most features with which the Laplacian kernel is tried: its distances are no matrix product, and with 256
#: features a fit takes five times as long. Chosen by hand.
LAPLACIAN_FEATURES = 64
#: Factor on the error of a Laplacian kernel: its predictions are several times slower, so it must lower the
#: error by 5 %. On cadata its error is 9 % below that of the Gaussian kernel, on letter 2 %. Chosen by hand.
LAPLACIAN_FACTOR = 1.05
#: Rows of each round of the search, half of them held out, and the number of kernels that go on to the next.
#: Chosen by hand.
ROUNDS = ((2_000, 3), (5_000, 1))
#: Up to this many rows "auto" keeps all of them. With more, the model is exact if this memory holds the tiles
#: of K, with a relative residual of ``EXACT_TOL``: on 12,000 letters of 26 classes an exact model errs in
#: 3 %, that of "auto" in 5 %; on cadata its error is 5 % smaller. Chosen by hand.
FEW_ROWS, EXACT_TOL, MEMORY = 2_500, 1e-2, 1_000_000_000
#: Least time limit of an exact model, in seconds.
LEAST_SECONDS = 1e-3


def default_teacher(
    kind: type[KernelRidge] | type[KernelRidgeClassifier],
    rows: Float64Array,
    targets: Array,
    weights: Array,
    random_state: RandomState,
    deadline: float = math.inf,
) -> Any:
    """Train kernel ridge with the kernel and penalty that have the least error on held-out rows.

    Successive halving on at most 5,000 rows: every kernel with every alpha on the first 2,000, then the best
    three with the alphas near their best on all of them. The error is the mean squared one, of targets ±1 for
    classes. The last model is fitted to all rows.

    deadline : on the clock of ``time.perf_counter``. After it no candidate is begun, and the last model is
    fitted to about ``FEW_ROWS`` rows, with one of each class.
    """
    rng = np.random.default_rng(0)
    kernels = _kernels(rows, weights, rng)
    numbers = _numbers(kind, targets)
    order = rng.permutation(np.flatnonzero(weights > 0))
    order, _ = repeats_together(order, as_source(rows), numbers, warn=False)
    alive: list[tuple[Kernel, tuple[float, ...]]] = [(kernel, ALPHAS) for kernel in kernels]
    alpha, engine = ALPHAS[0], Engine(None)

    def error(split: Split, candidate: tuple[Kernel, tuple[float, ...]]) -> tuple[float, float]:
        """Return the least error of a kernel with several alphas, and the alpha that has it."""
        (kernel, alphas), train, held = candidate, split.train, split.held_out
        trials = PenaltyTrials(kernel, rows[train], rows[held], numbers[train], weights[train], engine)
        wanted, w = numbers[held], weights[held]
        left = [float(w @ np.square(trials.values(alpha) - wanted).sum(axis=1)) for alpha in alphas]
        factor = LAPLACIAN_FACTOR if isinstance(kernel, Laplacian) else 1.0
        return factor * min(left), alphas[int(np.argmin(left))]

    constant = not np.any(numbers[order] != numbers[order[0]])
    for count, kept in [] if constant else ROUNDS:
        some = order[:count]
        half = max(1, len(some) // 2)
        split = Split(some[:half], some[half:] if len(some) > half else some)
        ranked = search(split, ([one] for one in alive), error, Limits(deadline=deadline, at_least=1)).ranked
        if not np.isfinite(ranked[0].error):
            break
        alpha = ranked[0].evidence
        places = [ALPHAS.index(trial.evidence) for trial in ranked[:kept]]
        # Go on with the best alpha of each kernel and its neighbours.
        alive = [(trial.candidate[0], ALPHAS[max(at - 1, 0) : at + 2]) for trial, at in zip(ranked, places)]
        if count >= len(order) or time.perf_counter() >= deadline:
            break
    best = kernels[GAMMAS["gaussian"].index(1.0)] if constant else alive[0][0]
    over = time.perf_counter() >= deadline
    if over and len(order) > FEW_ROWS:
        some = order[:FEW_ROWS]
        if kind is KernelRidgeClassifier:
            some = np.union1d(some, order[np.unique(targets[order], return_index=True)[1]])
        rows, targets, weights = rows[some], targets[some], weights[some]
    exact = not over and len(rows) > FEW_ROWS and keeps_tiles(len(rows), "float32", MEMORY)
    seconds = None if math.isinf(deadline) else max(deadline - time.perf_counter(), LEAST_SECONDS)
    approximation = Exact(solver="cg", tol=EXACT_TOL, time_limit=seconds) if exact else "auto"
    model = kind(
        alpha, kernel=best, approximation=approximation, fit_intercept=True, random_state=random_state
    )
    return model.fit(rows, targets, sample_weight=weights)


def _numbers(kind: type[Any], targets: Array) -> Float64Array:
    """Return targets as numbers (n, outputs): ±1 for each class of a classification."""
    if kind is KernelRidgeClassifier:
        classes = np.unique(targets)
        return np.where(targets[:, None] == classes[1 if len(classes) == 2 else 0 :], 1.0, -1.0)
    return np.asarray(targets, np.float64).reshape(len(targets), -1)


def _kernels(rows: Float64Array, weights: Array, rng: np.random.Generator) -> list[Kernel]:
    """Return the candidate kernels: Gaussian ones, and for few features Laplacian ones.

    Lengths are in units of the columns' spread times the median distance of two rows, which is Euclidean for
    the Gaussian and Manhattan for the Laplacian kernel.
    """
    spread = center_and_spread(rows, weights)[1]
    scale = np.where(spread > 0, spread, 1.0)
    pairs = rng.integers(len(rows), size=(2, 2000))
    apart = np.abs(rows[pairs[0]] / scale - rows[pairs[1]] / scale)
    least = float(np.sqrt(np.finfo(np.float64).tiny))
    euclidean = max(float(np.sqrt(np.median(np.square(apart).sum(axis=1)))), least)
    kernels: list[Kernel] = [
        Gaussian(scale * (euclidean / np.sqrt(2.0 * gamma))) for gamma in GAMMAS["gaussian"]
    ]
    if rows.shape[1] <= LAPLACIAN_FEATURES:
        manhattan = max(float(np.median(apart.sum(axis=1))), least)
        kernels += [Laplacian(tuple((scale * (manhattan / gamma)).tolist())) for gamma in GAMMAS["laplacian"]]
    return kernels
