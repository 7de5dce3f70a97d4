"""Held-out losses of a table model's parts: of its kernel models, of boosting, and of both."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Contributions:
    """Losses on rows that no part has seen: of classes the log-loss, of numbers the squared error over
    the variance, or what ``scoring`` names.

    kernel : of the kernel models alone.
    boosting : of boosting alone.
    both : of their mix with the best weights.
    error : standard error of kernel − both.
    kept : whether boosting is in the model, as the difference is larger than that.
    boosting_alone : whether the kernel models are not asked, as ``both`` is less than 0.2 % below
        ``boosting``: predictions are several times faster without them.
    """

    kernel: float
    boosting: float
    both: float
    error: float
    kept: bool
    boosting_alone: bool = False
