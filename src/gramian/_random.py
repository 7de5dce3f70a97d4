"""Random generators: one per fit, and one independent child stream per block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gramian._typing import RandomState
from gramian.exceptions import InputError, quoted, shortened


def as_generator(random_state: RandomState) -> np.random.Generator:
    """Turn scikit-learn's ``random_state`` into a NumPy generator.

    ``None`` takes fresh entropy, an integer is the seed, a ``RandomState`` gives one draw (so that it
    advances as users expect), and a ``Generator`` is used as it is.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"random_state={quoted(random_state)} cannot seed a generator ({shortened(str(error))}). Give "
            "None, an integer of at least 0, a numpy Generator or a RandomState."
        ) from None


def children(rng: np.random.Generator, count: int) -> Sequence[np.random.Generator]:
    """Return independent generators, one per block, so that results do not depend on the threads."""
    seeds = rng.integers(0, 2**63 - 1, size=count)
    return [np.random.default_rng(seed) for seed in seeds]


def seed_for_sklearn(rng: np.random.Generator) -> int:
    """Draw an integer seed for a scikit-learn estimator."""
    return int(rng.integers(0, 2**31 - 1))
