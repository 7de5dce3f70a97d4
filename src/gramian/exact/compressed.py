"""Preconditioner made from any approximation of the library: (K̃ + D)⁻¹ by its exact algebra."""

from __future__ import annotations

import numpy as np

from gramian._typing import Float64Array
from gramian.compression.builder import Builder, BuildSettings
from gramian.compression.storage import stored_operator
from gramian.data.source import as_source
from gramian.exact.system import ExactSystem
from gramian.operators.base import SymmetricOperator
from gramian.operators.diagonal import DiagonalPlus

#: Number of rows whose features are computed at once. Chosen by hand.
CHUNK_ROWS = 65_536


class Compressed:
    r"""Preconditioner M = K̃ + D on the system's rows, applied as its inverse.

    It takes the time and memory to build the approximation and store its bases (n times the ranks of a row's
    path). An application is one solve by the approximation's algebra (arrowhead or coupled core). Negative
    eigenvalues of an indefinite core are clipped, so that M is positive definite.
    """

    def __init__(self, builder: Builder, system: ExactSystem, rng: np.random.Generator) -> None:
        source = as_source(system.rows)
        settings = BuildSettings(system.kernel, np.dtype(system.dtype), rng, system.engine)
        features = builder.settle(source, settings).build(source, settings)
        stored = stored_operator(features, source, chunk_rows=CHUNK_ROWS, engine=system.engine)
        self._least = float(system.shift.min())
        above = system.shift - self._least
        self._operator: SymmetricOperator = DiagonalPlus(stored, above) if above.any() else stored
        self.rank = features.rank
        self.nbytes = self._operator.nbytes

    def __call__(self, values: Float64Array) -> Float64Array:
        """Return M⁻¹ v for ``values`` v of shape (n, p)."""
        return self._operator.solve_quietly(values, self._least).value
