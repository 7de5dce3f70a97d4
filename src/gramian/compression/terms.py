"""The terms k(x, z_j) c_j of a predictor's sum, for groups of rows that share their points."""

from __future__ import annotations

from dataclasses import dataclass

from gramian._typing import FloatArray, IntArray


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
