"""Ranks of held-out errors for intervals of a given coverage (split conformal prediction)."""

from __future__ import annotations

import numpy as np

from gramian.exceptions import InputError


def share(name: str, value: float) -> float:
    """Return a parameter that must be a number between 0 and 1; raise if it is none."""
    numeric = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
    if not numeric or not 0 < value < 1:
        raise InputError(f"{name}={value!r} must be a number between 0 and 1, such as 0.9.")
    return float(value)


def rank_of(coverage: float, count: int) -> int:
    """Return the 1-based rank ⌈coverage·(count + 1)⌉, safe from rounding (0.9·10)."""
    return int(np.ceil(round(coverage * (count + 1), 9)))


def held_out_rank(coverage: float, count: int, chosen: int) -> int:
    """Return the rank of the held-out error that covers; raise if the held-out rows are too few for it.

    chosen : number of hyperparameters that the same rows chose. Errors on them are then smaller than on new
    rows, by √((count − chosen)/(count + chosen)) (Akaike's final prediction error). For normal errors and
    coverages of 0.5 to 0.9 that is a third to .4 of a rank for each, so one rank is added for three.
    """
    rank = rank_of(coverage, count)
    if rank > count:
        least = int(np.ceil(round(coverage / (1.0 - coverage), 6)))
        raise InputError(
            f"coverage={coverage} needs {least} held-out rows, but there were {count}. Lower coverage, or "
            "fit to more rows."
        )
    return min(count, rank + int(np.ceil(chosen / 3)))
