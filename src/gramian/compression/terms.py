"""The terms k(x, z_j) c_j of a predictor's sum, for groups of rows that share their points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from gramian._typing import FloatArray, IntArray, Rows
from gramian.engine import Engine


@dataclass(frozen=True)
class KernelTerms:
    """Kernel values and weights of some rows, all of which have the same points z_j.

    rows : (b,) numbers of the rows; points : (m,) numbers of the points among all points of the predictor;
    values : (b, m), k(x_i, z_j); weights : (m, outputs), c_j. Their product is the prediction of the rows.
    """

    rows: IntArray
    points: IntArray
    values: FloatArray
    weights: FloatArray


class HasTerms(Protocol):
    """A predictor that can give its sum term by term."""

    @property
    def n_points(self) -> int:
        """Number of points of all groups together."""

    def point(self, number: int) -> Rows:
        """Return a point as the kernel takes it, shape (1, d)."""

    def terms(self, rows: Rows, engine: Engine) -> Iterator[KernelTerms]:
        """Yield the terms of rows in memory; each row is in one group."""
