"""Checks that all solvers share."""

from __future__ import annotations

from gramian.exceptions import InputError


def positive_alpha(alpha: float) -> float:
    """Return alpha as a float, or raise for what is not positive and finite."""
    try:
        value = float(alpha)
    except (TypeError, ValueError):
        value = float("nan")
    if not 0.0 < value < float("inf"):
        raise InputError(
            f"alpha={alpha!r} must be a positive, finite number: K̃ + alpha·I is singular without it."
        )
    return value
