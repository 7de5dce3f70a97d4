"""Checkpoint of a long solve: its coefficients in a file, valid only for the same problem."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import numpy as np

from gramian._checkpoint import read_state, write_state
from gramian._tiles import row_slices
from gramian._typing import Float64Array
from gramian.data.fingerprint import add_bytes
from gramian.exact.system import ExactSystem
from gramian.solvers.krylov import Progress
from gramian.solvers.solution import Solution, Status

#: Seconds between two saves. Chosen by hand.
SAVE_EVERY = 60.0
#: Rows hashed at a time. Chosen by hand.
HASHED_ROWS = 65_536


class Checkpoint:
    """Checkpoint file of one solve: read at the start, updated, and removed once the solve has converged.

    It holds x (n, p) and a fingerprint of kernel, rows, D and right-hand sides, so that no other problem can
    start from it. The file is either complete or absent, even if the process dies while writing.
    """

    def __init__(
        self, path: Path, system: ExactSystem, right: Float64Array, seconds: float = SAVE_EVERY
    ) -> None:
        self.path, self._seconds = path, seconds
        self._fingerprint = fingerprint(system, right)
        self._saved = time.monotonic()
        self._reached: Float64Array | None = None

    def start(self) -> Float64Array | None:
        """Return x from the file, or None if there is no file."""
        stored = read_state(self.path, self._fingerprint)
        return None if stored is None else np.asarray(stored["value"], np.float64)

    def watch(self, state: Progress) -> None:
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
        write_state(self.path, self._fingerprint, {"value": value})
        self._saved = time.monotonic()

    def finish(self, solution: Solution) -> None:
        """Remove the file if the solve has converged; otherwise save the solution reached."""
        if solution.status in (Status.CONVERGED, Status.DIRECT):
            self.path.unlink(missing_ok=True)
        else:
            self.save(solution.value)


def fingerprint(system: ExactSystem, right: Float64Array) -> str:
    """Return a hash of kernel, rows, D and right-hand sides. Time O(n d)."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((system.kernel, system.rows.shape, str(system.rows.dtype), right.shape)).encode())
    for where in row_slices(len(system), HASHED_ROWS):
        add_bytes(digest, system.rows[where])
    digest.update(system.shift.tobytes())
    digest.update(right.tobytes())
    return digest.hexdigest()
