"""Reference to the rows, targets and weights that ``fit`` was given, so that ``partial_fit`` can go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from gramian._typing import RowsLike
from gramian.data.fingerprint import fingerprint
from gramian.exceptions import InputError


@dataclass(frozen=True)
class FitData:
    """Rows, targets and sample weights as the user passed them to ``fit``; nothing is copied.

    Rows that a caller writes over between two calls, as in a buffer that is filled again, would be counted
    twice. Arrays in memory are therefore recognised by a fingerprint; files, frames and lists are not.
    """

    X: Any
    y: Any
    sample_weight: Any
    fingerprints: tuple[str | None, ...]

    @classmethod
    def of(cls, X: RowsLike, y: ArrayLike | None, sample_weight: ArrayLike) -> Self:
        """Return these rows with their fingerprints. Time independent of n."""
        return cls(X, y, sample_weight, tuple(map(_fingerprint, (X, y, sample_weight))))

    def check_unchanged(self) -> None:
        """Raise where an array has been written to since the fit."""
        given = {"X": self.X, "y": self.y, "sample_weight": self.sample_weight}
        for (name, value), known in zip(given.items(), self.fingerprints, strict=True):
            if _fingerprint(value) != known:
                raise InputError(
                    f"the array {name} that fit was given has been changed since, so that its rows cannot be "
                    "added to the new ones. Pass a copy to fit, or train by partial_fit from the start."
                )


def _fingerprint(given: Any) -> str | None:
    """Return the fingerprint of an array in memory; None for anything else."""
    values = given.data if sp.issparse(given) and hasattr(given, "data") else given
    in_memory = isinstance(values, np.ndarray) and not isinstance(values, np.memmap) and values.ndim > 0
    return fingerprint(values) if in_memory else None
