"""Gaussian kernel expansion in float32, the predictor of every baseline with a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gramian._numerics import distance_error, entry_tolerance, narrowed
from gramian._tiles import row_slices, tile_rows
from gramian._typing import Float64Array, FloatArray, Rows
from gramian.kernels import Gaussian
from gramian.kernels.columns import Columns, dense, squared_norms
from gramian.kernels.compiled import exp_in_place


def gaussian(gamma: float) -> Gaussian:
    """Return the kernel exp(−gamma ‖x − z‖²)."""
    return Gaussian((2.0 * gamma) ** -0.5)


@dataclass(frozen=True, eq=False)
class Expansion:
    r"""Predictor f(x) = Σ_j exp(−γ‖x − z_j‖²) β_j + b, with one column of β for each output.

    units : (m, d), z_j − c; coefficients : (m, outputs), β; intercept : (outputs,), b; centre : (d,), c.

    One matrix product gives the exponents: [2γ(x − c), −γ‖x − c‖², 1] times [z − c; 1; −γ‖z − c‖²]. If this
    could make an error above 2e-5 in a kernel value (γ of millions, units far apart), the kernel's own
    evaluator, which can use float64, replaces it. Time O(n m (d + outputs)).
    """

    units: FloatArray
    coefficients: FloatArray
    intercept: FloatArray
    gamma: float
    centre: FloatArray
    _factor: FloatArray = field(init=False, repr=False)
    _careful: Columns | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        norms = squared_norms(self.units)
        error = distance_error(2.0 * self.gamma * norms, len(self.centre), np.float32)
        careful = bool((0.5 * error > entry_tolerance(np.float32)).any())
        # Signs and scales are part of this factor, so that rows need only be copied.
        factor = np.empty((len(self.centre) + 2, len(norms)), np.float32)
        with np.errstate(over="ignore"):
            factor[:-2] = 2.0 * self.gamma * self.units.T.astype(np.float64)
            factor[-2] = -self.gamma
            factor[-1] = -self.gamma * norms
        object.__setattr__(self, "_factor", factor)
        points = self.units.astype(np.float64) + self.centre
        columns = gaussian(self.gamma).against(points, np.float32) if careful else None
        object.__setattr__(self, "_careful", columns)

    def __reduce__(self) -> tuple[type[Expansion], tuple[object, ...]]:
        # __post_init__ derives the rest again.
        return Expansion, (self.units, self.coefficients, self.intercept, self.gamma, self.centre)

    @classmethod
    def of(cls, points: Rows, coefficients: Float64Array, intercept: Float64Array, gamma: float) -> Expansion:
        """Return the expansion of units given as rows, dense or CSR; centre them and round to float32."""
        wide = np.asarray(dense(points), np.float64)
        centre = wide.mean(axis=0).astype(np.float32) if len(wide) else np.zeros(wide.shape[1], np.float32)
        return cls(
            (wide - centre).astype(np.float32),
            np.ascontiguousarray(narrowed(coefficients, np.float32)),
            narrowed(np.asarray(intercept)[None], np.float32)[0],
            gamma,
            centre,
        )

    @property
    def n_outputs(self) -> int:
        """Values for a row."""
        return len(self.intercept)

    @property
    def nbytes(self) -> int:
        """Bytes of units, coefficients, intercept and centre."""
        return sum(a.nbytes for a in (self.units, self.coefficients, self.intercept, self.centre))

    def decide(self, X: Rows) -> FloatArray:
        """Return f of each row, shape (n, outputs)."""
        m, d = self.units.shape
        kind = np.result_type(self.coefficients, self.intercept)
        out = np.empty((X.shape[0], self.n_outputs), kind)
        rows = min(len(out), tile_rows(max(m, d + 2), 4))
        augmented, tile = np.empty((rows, d + 2), np.float32), np.empty((rows, m), np.float32)
        augmented[:, -1] = 1.0
        for where in row_slices(len(out), max(1, rows)):
            part = dense(X[where])
            values = tile[: len(part)]
            if self._careful is not None:
                self._careful.write(part, values)
            else:
                own = augmented[: len(part)]
                body = own[:, :-2]
                # Subtract in the wider of the two types, so that rows far from the origin keep their digits.
                np.subtract(part, self.centre, out=body, casting="unsafe")
                np.einsum("ij,ij->i", body, body, out=own[:, -2])
                np.matmul(own, self._factor, out=values)
                exp_in_place(values)
            np.matmul(values, self.coefficients, out=out[where])
        out += self.intercept
        return out
