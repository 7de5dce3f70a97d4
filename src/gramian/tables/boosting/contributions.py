"""Held-out losses of a table model's parts: of its kernel models, of boosting, and of both."""

from __future__ import annotations

from dataclasses import dataclass

#: Least share by which logistic models, and kernel models beside boosting, must lower the held-out loss to be
#: used: each makes predictions several times slower. Chosen by hand.
LEAST_GAIN = 0.002


@dataclass(frozen=True)
class Contributions:
    """Losses on rows that no part has seen: of classes the log-loss, of numbers the squared error over
    the variance, or what ``scoring`` names.

    kernel : of the kernel models alone.
    boosting : of boosting alone.
    both : of their mix.
    error : standard error of kernel − both.
    kept : whether boosting is in the model: of classes if the difference is larger than its error, of numbers
        if its share in the mean is a tenth or more.
    looks : by how much small kernel models, one after the other, lowered the loss of boosting before a large
        one was fitted, the standard error of that, and whether it was 0.2 % or more: a large one was fitted
        then. Of classes these are squared errors of 2 P − 1.
    """

    kernel: float
    boosting: float
    both: float
    error: float
    kept: bool
    looks: tuple[tuple[float, float, bool], ...] = ()

    @property
    def boosting_alone(self) -> bool:
        """Whether the kernel models are not asked: ``both`` is less than 0.2 % below ``boosting``.

        Predictions are several times faster without them.
        """
        return self.kept and self.both > (1.0 - LEAST_GAIN) * self.boosting
