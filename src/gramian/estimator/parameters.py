"""Parameters of an estimator as values that a fit passes on: of its kernel, and of what it may use."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

from sklearn.base import BaseEstimator

from gramian._budget import parse_bytes
from gramian._typing import Array
from gramian.compression.costs import Resources
from gramian.compression.training import choose_dtype
from gramian.data.scaled import moments
from gramian.data.source import RowSource
from gramian.data.subset import SubsetRows
from gramian.engine import Engine
from gramian.estimator.sklearn_kernels import is_sklearn_kernel, translated
from gramian.kernels import Kernel
from gramian.kernels.precomputed import Precomputed, StoredRows
from gramian.kernels.resolve import PRECOMPUTED, SCALE, resolve_kernel


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

    def of(self, source: RowSource, weights: Array | None = None) -> Kernel:
        """Return the kernel for the rows of a source; a precomputed one with the source's values."""
        kernel = self.settled(source, weights).resolve(source.shape[1])
        # Rows of a stored matrix are numbers, whichever of them are taken.
        stored = source.source if isinstance(source, SubsetRows) else source
        return Precomputed(stored.matrix) if isinstance(stored, StoredRows) else kernel


@dataclass(frozen=True)
class ResourceParameters:
    """What a fit may use: bytes of working memory, threads, and a precision of the kernel tiles.

    With ``tile_dtype="auto"`` the rows decide on the precision.
    """

    memory_bytes: int
    engine: Engine
    tile_dtype: str = "auto"

    @classmethod
    def given(cls, estimator: BaseEstimator) -> Self:
        """Return the parameters that an estimator was given."""
        return cls(parse_bytes(estimator.memory_budget), Engine(estimator.n_jobs), estimator.tile_dtype)

    def settled(self, source: RowSource, kernel: Kernel, alpha: float | None) -> Resources:
        """Return the resources of a fit to these rows, with the precision that they call for."""
        dtype = choose_dtype(self.tile_dtype, source, kernel, alpha)
        return Resources(dtype, self.engine.n_threads, self.memory_bytes)
