"""Parameters of an estimator's kernel as a value that a fit passes on, and the precision of its tiles."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from gramian._checks import one_of
from gramian._numerics import unit_roundoff
from gramian._typing import Array
from gramian.data.scaled import moments
from gramian.data.source import RowSource, SubsetRows
from gramian.engine import Run
from gramian.estimator.sklearn_kernels import is_sklearn_kernel, translated
from gramian.kernels.base import Kernel, refuse_large_values
from gramian.kernels.precomputed import Precomputed, StoredRows
from gramian.kernels.resolve import PRECOMPUTED, SCALE, resolve_kernel

#: Up to this many rows float64 tiles are chosen, because they cost no noticeable time. Chosen by hand.
SMALL_ROWS = 3_000
#: Values of the parameter ``tile_dtype``.
TILE_DTYPES = ("auto", "float32", "float64")


@dataclass(frozen=True, eq=False)
class KernelParameters:
    """Parameters that define a kernel, as the user gave them.

    :func:`~gramian.kernels.resolve.resolve_kernel` says what they mean; kernels of scikit-learn's Gaussian
    processes are translated (:mod:`gramian.estimator.sklearn_kernels`).
    """

    kernel: Any = "rbf"
    gamma: Any = None
    degree: Any = 3
    coef0: Any = 1.0
    kernel_params: Any = None

    @classmethod
    def given(cls, estimator: BaseEstimator) -> Self:
        """Return the parameters that an estimator was given."""
        return cls(*(getattr(estimator, field.name) for field in fields(cls)))

    @property
    def precomputed(self) -> bool:
        """Whether X is a matrix of kernel values instead of rows."""
        return isinstance(self.kernel, str) and self.kernel == PRECOMPUTED

    @property
    def untouched(self) -> bool:
        """Whether all are as by default."""
        for field in fields(self):
            value = getattr(self, field.name)
            plain = isinstance(value, str | int | float) and value == field.default
            if value is not field.default and not plain:
                return False
        return True

    def settled(self, source: RowSource, weights: Array | None = None) -> KernelParameters:
        """Return the parameters with a number in place of ``gamma="scale"``: 1/(n_features · X.var()).

        As in scikit-learn, the variance is that of all numbers of the rows, and gamma is 1 where it is 0. It
        is weighted by ``weights``, so that a row of weight 0 counts as none and one of weight 2 as two.
        """
        if not self.by_rows or self.precomputed or not isinstance(self.kernel, str):
            return self
        total = source.shape[1] * moments(source, weights).variance
        return replace(self, gamma=1.0 / total if total > 0.0 else 1.0)

    @property
    def by_rows(self) -> bool:
        """Whether gamma is "scale", which the rows decide."""
        return isinstance(self.gamma, str) and self.gamma == SCALE

    def resolve(self, n_features: int) -> Kernel:
        """Return the kernel for rows with this many features; raise for parameters that define none.

        Without the rows, "scale" stands for 1/n_features.
        """
        return resolve_kernel(
            translated(self.kernel, n_features) if is_sklearn_kernel(self.kernel) else self.kernel,
            n_features=n_features,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.kernel_params,
        )

    def resolve_for(self, source: RowSource, weights: Array | None = None) -> Kernel:
        """Return the kernel for the rows of a source; a precomputed one with the source's values."""
        kernel = self.settled(source, weights).resolve(source.shape[1])
        # Rows of a stored matrix are numbers, whichever of them are taken.
        stored = source.source if isinstance(source, SubsetRows) else source
        return Precomputed(stored.matrix) if isinstance(stored, StoredRows) else kernel


def settled_run(run: Run, source: RowSource, kernel: Kernel, alpha: float | None) -> Run:
    """Return the run of a fit to these rows, with the precision that they call for."""
    return replace(run, tile_dtype=choose_dtype(run.tile_dtype, source, kernel, alpha).name)


def float32_alpha(n_rows: int, mean_diagonal: float, roundoff: float) -> float:
    """Return the smallest alpha for which float32 tiles are accurate enough.

    Let u be the unit roundoff and k̄ the mean diagonal of K. A float32 product over 1,024 rows has an error
    of about 1024·u·k̄, and the n/1024 products of a pass err independently. The sums then carry noise of
    32·u·√n·k̄; alpha should be at least four times that.
    """
    return 128.0 * roundoff * float(np.sqrt(n_rows)) * mean_diagonal


def choose_dtype(
    tile_dtype: str, source: RowSource, kernel: Kernel, alpha: float | None, n_rows: int | None = None
) -> np.dtype[Any]:
    """Return the dtype of the tiles: the requested one, or for ``"auto"`` the one that this rule gives.

    float64 for up to 3,000 rows (where it costs nothing noticeable), for alpha below :func:`float32_alpha`,
    and for kernel values beyond the range of float32; float32 otherwise. ``n_rows`` is the number of rows to
    decide for, if not that of the source. Raises ``InputError`` for kernel values that the dtype cannot hold.
    """
    one_of("tile_dtype", tile_dtype, TILE_DTYPES)
    with np.errstate(over="ignore", invalid="ignore"):
        diagonal = kernel.diagonal(source.rows(slice(0, min(1024, source.shape[0]))))
    n = source.shape[0] if n_rows is None else n_rows
    largest = float(np.abs(diagonal).max())  # no |k(x, z)| is larger
    if tile_dtype == "auto":
        mean = float(np.mean(diagonal))
        fine = alpha is not None and alpha < float32_alpha(n, mean, unit_roundoff(np.float32))
        # Bases divide by roots of kernel values, which tiny ones would make overflow.
        wide = largest > float(np.finfo(np.float32).max) or 0.0 < largest < float(np.finfo(np.float32).tiny)
        tile_dtype = "float64" if n <= SMALL_ROWS or fine or wide else "float32"
    dtype: np.dtype[Any] = np.dtype(tile_dtype)
    refuse_large_values(kernel, largest, dtype)
    return dtype
