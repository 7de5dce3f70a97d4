"""Default teacher of a fast model: kernel ridge with gamma and alpha chosen on held-out rows."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array
from gramian.fast.learning.metric import center_and_spread
from gramian.kernels import Gaussian
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier
from gramian.search import Split, search

#: Candidates for the default teacher: gamma in units of 1 / (median squared distance), and alpha; and the
#: number of training and of held-out rows that they are compared on. Chosen by hand.
TEACHER_GAMMAS, TEACHER_ALPHAS, TEACHER_ROWS = (0.3, 1.0, 3.0, 10.0), (1e-3, 0.1), 4_000


def default_teacher(
    kind: type[KernelRidge] | type[KernelRidgeClassifier],
    rows: Float64Array,
    targets: Array,
    weights: Array,
    random_state: Any,
) -> Any:
    """Train kernel ridge on scaled features, with gamma and alpha chosen by their held-out score."""
    spread = center_and_spread(rows, weights)[1]
    scale = np.where(spread > 0, spread, 1.0)
    rng = np.random.default_rng(0)
    some = rng.permutation(len(rows))[: 2 * TEACHER_ROWS]
    pairs = rng.integers(len(rows), size=(2, 2000))
    squares = np.square((rows[pairs[0]] - rows[pairs[1]]) / scale).sum(axis=1)
    middle = max(float(np.median(squares)), np.finfo(np.float64).tiny)
    lengths = {g: scale * np.sqrt(middle / (2.0 * g)) for g in TEACHER_GAMMAS}
    half = max(1, len(some) // 2)
    split = Split(some[:half], some[half:] if len(some) > half else some)

    def model(gamma: float, alpha: float) -> Any:
        return kind(alpha=alpha, kernel=Gaussian(lengths[gamma]), random_state=random_state)

    def error(split: Split, pair: tuple[float, float]) -> tuple[float, None]:
        train, held = split.train, split.held_out
        fitted = model(*pair).fit(rows[train], targets[train], sample_weight=weights[train])
        return -float(fitted.score(rows[held], targets[held], sample_weight=weights[held])), None

    constant = not np.any(targets[split.train] != targets[split.train[0]])
    grid = [] if constant else list(product(TEACHER_GAMMAS, TEACHER_ALPHAS))
    best = search(split, [grid], error).best
    choice = (TEACHER_GAMMAS[1], TEACHER_ALPHAS[0]) if best is None else best.candidate
    return model(*choice).fit(rows, targets, sample_weight=weights)
