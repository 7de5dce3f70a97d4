"""What every estimator shares: its kernel parameters, its row input, its plan."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from gramian._numerics import unit_roundoff
from gramian._typing import Array
from gramian.approximation.plan import Workload
from gramian.approximation.training import choose_dtype
from gramian.data.source import ArraySource, RowSource, as_source
from gramian.engine import Engine
from gramian.exceptions import InputError, did_you_mean
from gramian.kernels import Kernel
from gramian.kernels.lookup import resolve_kernel

TILE_DTYPES = ("auto", "float32", "float64")
#: Dtypes that are read as they are; anything else is converted at the door.
_KEPT = [np.float64, np.float32, np.uint8, np.int8, np.uint16, np.int16, np.int32, np.int64]


class KernelEstimator(BaseEstimator):
    """Base of the estimators that take a kernel: how parameters and rows come in."""

    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    kernel_params: Any
    tile_dtype: str
    n_jobs: int | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @contextmanager
    def _all_or_nothing(self, *, keep: bool = True) -> Iterator[None]:
        """Put every attribute back if the body fails, or in any case where ``keep`` is false.

        Fits only ever rebind attributes, so that the names and references are all there is to restore.
        """
        before = dict(self.__dict__)
        done = False
        try:
            yield
            done = keep
        finally:
            if not done:
                self.__dict__.clear()
                self.__dict__.update(before)

    def _resolved_kernel(self, n_features: int) -> Kernel:
        return resolve_kernel(
            self.kernel,
            n_features=n_features,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.kernel_params,
        )

    def _engine(self) -> Engine:
        return Engine(self.n_jobs)

    def _rows(self, X: Any, *, reset: bool, y: Any = None, ensure_min_samples: int = 1) -> Any:
        """Check X and return a row source; a memmap is neither copied nor read here."""
        if isinstance(X, RowSource) and not isinstance(X, np.ndarray) and not sp.issparse(X):
            source: RowSource = X
            self._check_width(source, reset)
            return source
        memmap = isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in "fiu"
        checked = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            # A dtype of its own would be converted whole; blocks of a memmap are, as they are read.
            dtype=None if memmap else _KEPT,
            ensure_all_finite=not memmap,
            ensure_min_samples=ensure_min_samples,
        )
        return ArraySource(X) if memmap else as_source(checked)

    def _check_width(self, source: RowSource, reset: bool) -> None:
        width = source.shape[1]
        if reset:
            self.n_features_in_ = width
            self.__dict__.pop("feature_names_in_", None)  # of an earlier table; a source has no names
        elif width != self.n_features_in_:
            raise InputError(
                f"X has {width} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )

    @staticmethod
    def _workload(source: RowSource, n_outputs: int) -> Workload:
        n, d = source.shape
        first = source.rows(slice(0, min(1024, n)))
        item = source.dtype.itemsize
        if sp.issparse(first):
            # An index is as large as a number, or half of it.
            stored = -(-2 * first.nnz // first.shape[0])
            return Workload(n, d, n_outputs, item, row_bytes=stored * item, row_numbers=stored)
        in_place = isinstance(source, ArraySource)
        # Rows of a memmap are looked at for NaN as they are read: a byte for each number.
        looked_at = d if isinstance(first.base, np.memmap) else 0
        return Workload(n, d, n_outputs, item, row_bytes=looked_at if in_place else 2 * d * item)

    def _tiles(self, source: RowSource, kernel: Kernel, alpha: float | None) -> Any:
        if self.tile_dtype not in TILE_DTYPES:
            raise InputError(
                f"tile_dtype={self.tile_dtype!r} is unknown. Choose one of {', '.join(TILE_DTYPES)}."
                + did_you_mean(self.tile_dtype, TILE_DTYPES)
            )
        first = source.rows(slice(0, min(1024, source.shape[0])))
        diagonal = float(np.mean(kernel.diagonal(first)))
        return choose_dtype(self.tile_dtype, source.shape[0], alpha, diagonal, unit_roundoff(np.float32))


def positive_number(name: str, value: Any) -> float:
    """Return a positive finite float or raise with the parameter's name."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < float("inf"):
        raise InputError(f"{name}={value!r} must be a positive, finite number.")
    return float(value)


def whole_number(name: str, value: Any, least: int) -> int:
    """Return an integer of at least ``least`` or raise with the parameter's name."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < least:
        raise InputError(f"{name}={value!r} must be a whole number of at least {least}.")
    return int(value)


def checked_weights(sample_weight: Any, n_rows: int) -> Array | None:
    """Return sample weights as float64 of shape (n,), or None; all must be finite, none negative."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, numbers.Real):
        weights = np.full(n_rows, float(sample_weight))
    else:
        try:
            weights = np.asarray(sample_weight, np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"sample_weight has type {type(sample_weight).__name__} and cannot be read as numbers "
                f"({error}). Give one weight for each row."
            ) from None
    if weights.shape != (n_rows,):
        raise InputError(
            f"sample_weight has shape {weights.shape}; expected ({n_rows},), one weight for each row."
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError("sample_weight holds negative, infinite or NaN entries; give weights >= 0.")
    if not (weights > 0).any():
        raise InputError("sample_weight is zero everywhere; at least one row must count.")
    return weights
