"""Default teacher of a fast model: kernel ridge with gamma and alpha chosen on held-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array
from gramian.fast.metric import feature_spread
from gramian.kernels import Gaussian
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier

#: Bandwidths over the median squared distance, and penalties, that the default teacher is chosen among, and
#: rows that they are compared on.
TEACHER_GAMMAS, TEACHER_ALPHAS, TEACHER_ROWS = (0.3, 1.0, 3.0, 10.0), (1e-3, 0.1), 4_000


def default_teacher(
    kind: type[KernelRidge] | type[KernelRidgeClassifier],
    rows: Float64Array,
    targets: Array,
    weights: Array,
    random_state: Any,
) -> Any:
    """Return a kernel ridge model on scaled features, gamma and alpha by held-out score."""
    spread = feature_spread(rows)
    scale = np.where(spread > 0, spread, 1.0)
    rng = np.random.default_rng(0)
    some = rng.permutation(len(rows))[: 2 * TEACHER_ROWS]
    pairs = rng.integers(len(rows), size=(2, 2000))
    squares = np.square((rows[pairs[0]] - rows[pairs[1]]) / scale).sum(axis=1)
    middle = max(float(np.median(squares)), np.finfo(np.float64).tiny)
    lengths = {g: scale * np.sqrt(middle / (2.0 * g)) for g in TEACHER_GAMMAS}
    half = max(1, len(some) // 2)
    first, second = some[:half], some[half:] if len(some) > half else some

    def model(gamma: float, alpha: float) -> Any:
        return kind(alpha=alpha, kernel=Gaussian(lengths[gamma]), random_state=random_state)

    best, choice = -np.inf, (TEACHER_GAMMAS[1], TEACHER_ALPHAS[0])
    for gamma in TEACHER_GAMMAS:
        for alpha in TEACHER_ALPHAS:
            if not np.any(targets[first] != targets[first[0]]):
                break
            fitted = model(gamma, alpha).fit(rows[first], targets[first], sample_weight=weights[first])
            score = float(fitted.score(rows[second], targets[second], sample_weight=weights[second]))
            if score > best:
                best, choice = score, (gamma, alpha)
    return model(*choice).fit(rows, targets, sample_weight=weights)
