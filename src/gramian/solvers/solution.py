"""Result of a linear solve: the answer, its status, and its true residual."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from gramian._numerics import ridge_tolerance, size_of
from gramian._typing import Float64Array


class Status(StrEnum):
    """How a solver ended; for a failure the text gives advice."""

    DIRECT = "solved by a factorisation"
    CONVERGED = "converged"
    STAGNATED = (
        "the residual stopped falling at the rounding level of float64: accept it with a larger tol, "
        "or raise alpha"
    )
    LIMIT = (
        "stopped at the iteration limit: raise max_iterations or alpha, or raise direct_limit to "
        "solve by a factorisation"
    )
    TIME = "stopped at the time limit: raise time_limit or alpha, or go on from the checkpoint"
    #: Found in older model files only: an interrupt now raises KeyboardInterrupt.
    INTERRUPTED = "interrupted by the user: go on from the checkpoint, or fit again"
    PAUSED = "paused by its caller: go on from the value"
    NOT_FINITE = (
        "met numbers that are not finite: scale the targets, or look for rows on which the kernel overflows"
    )
    INDEFINITE = (
        "met a direction of negative curvature, so the matrix is not positive definite: raise "
        "alpha, or raise direct_limit so that negative eigenvalues can be clipped"
    )


#: The worst status first: a solution has the status of its worst column.
GRAVEST_FIRST = (
    Status.NOT_FINITE,
    Status.INDEFINITE,
    Status.INTERRUPTED,
    Status.PAUSED,
    Status.TIME,
    Status.LIMIT,
    Status.STAGNATED,
    Status.CONVERGED,
)
#: Statuses of a solver that did what it should.
GOOD = (Status.DIRECT, Status.CONVERGED)


@dataclass(frozen=True, slots=True)
class Solution:
    """Value of a linear solve, with the evidence for its accuracy."""

    value: Float64Array = field(repr=False)  #: same shape as the right-hand side
    status: Status  #: how the solver ended
    iterations: int  #: 0 for a direct solve
    residual: float  #: largest ‖b − A x‖/‖b‖ over the columns, recomputed at the end
    clipped: float = 0.0  #: sum of the magnitudes of negative eigenvalues that were set to 0
    jitter: float = 0.0  #: amount that a factorisation had to add to the diagonal
    evaluations: int = 0  #: kernel values computed
    bytes: int = 0  #: peak bytes of the largest arrays: a factor, or preconditioner and directions

    def as_fact(self, left: str = "relative residual") -> tuple[str, str]:
        """Return the evidence as a fact of a summary; ``left`` says what ``residual`` is."""
        steps = f", {self.iterations:,} iterations" if self.iterations else ""
        return "solver", f"{self.status.value}{steps}, {left} {self.residual:.2g}"

    def warnings(self) -> Iterator[str]:
        """Yield what one should know before trusting the value."""
        if self.status not in GOOD:
            yield f"The solver ended with relative residual {self.residual:.2g}: {self.status.value}."
        elif self.status is Status.DIRECT and self.residual > ridge_tolerance(np.float64):
            yield (
                f"The system was solved to a relative residual of {self.residual:.2g} only. Raise alpha, or "
                "lower the rank."
            )
        if self.jitter:
            yield (
                f"{self.jitter:.3g} was added to the diagonal of a matrix that was not positive definite in "
                "floating point. A larger alpha, or tile_dtype='float64', avoids this."
            )
        if self.clipped:
            yield f"Negative eigenvalues with sum {-self.clipped:.3g} were clipped to zero."


def relative_residual(residual: Float64Array, right: Float64Array) -> float:
    """Return the largest column norm of ``residual`` over that of ``right``, if that is not 0."""
    if right.size == 0:
        return 0.0
    unit = np.array([size_of(column) for column in np.atleast_2d(right.T)])
    missed = np.linalg.norm(residual.reshape(-1, len(unit)) / unit, axis=0)
    scale = np.linalg.norm(right.reshape(-1, len(unit)) / unit, axis=0)
    return float(np.divide(missed, scale, out=missed.copy(), where=scale > 0).max(initial=0.0))
