"""Checkpoint of a long solve: its coefficients in a file, valid only for the same problem."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import numpy as np

from gramian._files import read_state, write_state
from gramian._typing import Float64Array
from gramian.data.fingerprint import content
from gramian.exact.system import ExactSystem
from gramian.solvers.solution import Solution, Status

#: Seconds between two saves. Chosen by hand.
SAVE_EVERY = 60.0


class Checkpoint:
    """Checkpoint file of one solve: read at the start, updated, and removed once the solve has converged.

    It holds x (n, p) and hashes of kernel, rows, D and right-hand sides, so that no other problem can start
    from it. The file is either complete or absent, even if the process dies while writing.
    """

    def __init__(
        self, path: Path, system: ExactSystem, right: Float64Array, seconds: float = SAVE_EVERY
    ) -> None:
        self.path, self._seconds = path, seconds
        self._identity = identity_of(system, right)
        self._saved = time.monotonic()
        self._reached: Float64Array | None = None

    def start(self) -> Float64Array | None:
        """Return x from the file, or None if there is no file."""
        stored = read_state(self.path, self._identity)
        return None if stored is None else np.asarray(stored["value"], np.float64)

    def watch(self, state: Solution) -> None:
        """Keep the state, and save it if the last save is some time ago."""
        if not np.isfinite(state.value).all():
            return
        self._reached = state.value
        if time.monotonic() - self._saved >= self._seconds:
            self.keep()

    def keep(self) -> None:
        """Save the last state that was seen, if there is one."""
        if self._reached is not None:
            self.save(self._reached)

    def save(self, value: Float64Array) -> None:
        """Write x to the file."""
        write_state(self.path, self._identity, {"value": value})
        self._saved = time.monotonic()

    def finish(self, solution: Solution) -> None:
        """Remove the file if the solve has converged; otherwise save the solution reached."""
        if solution.status in (Status.CONVERGED, Status.DIRECT):
            self.path.unlink(missing_ok=True)
        else:
            self.save(solution.value)


def identity_of(system: ExactSystem, right: Float64Array) -> dict[str, str]:
    """Return hashes of kernel, rows, D and right-hand sides, by name. Time O(n d)."""
    return {
        "rows": content(system.rows),
        "targets": hashlib.sha256(repr(right.shape).encode() + right.tobytes()).hexdigest(),
        "alpha or weights": hashlib.sha256(system.shift.tobytes()).hexdigest(),
        "kernel": hashlib.sha256(repr(system.kernel).encode()).hexdigest(),
    }
