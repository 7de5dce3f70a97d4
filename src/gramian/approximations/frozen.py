"""Builder for ``approximation=FrozenEstimator(a)``: reuse the feature map of a fitted approximation."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gramian.approximations.approximation import Approximation
from gramian.approximations.setup import FitSetup
from gramian.compression.builder import PrebuiltBuilder, sizes_of
from gramian.estimator.parameters import KernelParameters
from gramian.exceptions import InputError
from gramian.kernels import Kernel
from gramian.kernels.precomputed import Precomputed


def frozen_map(setup: FitSetup, n_features: int) -> PrebuiltBuilder | None:
    """Return the map of a frozen ``approximation``, or None if the setup has no frozen one.

    Raises ``InputError`` if it is not an approximation of gramian, was fitted with another number of
    features, or if the estimator sets another kernel or tile dtype; ``NotFittedError`` if it is not fitted.
    """
    if not setup.frozen:
        return None
    inner = setup.approximation.estimator
    kind = type(inner).__name__
    if not isinstance(inner, Approximation):
        raise InputError(
            f"approximation=FrozenEstimator({kind}(...)) holds no feature map. Freeze a fitted "
            "approximation, such as gramian.MultiResolution(...).fit(X)."
        )
    check_is_fitted(inner, "features_")
    if isinstance(inner.features_.kernel, Precomputed):
        raise InputError(
            f"the frozen {kind} was fitted to a matrix of kernel values, and its landmarks are numbers of "
            "its rows. Fit it to rows, with a kernel that has a name."
        )
    if inner.n_features_in_ != n_features:
        raise InputError(
            f"X has {n_features} features, but the frozen {kind} was fitted with {inner.n_features_in_}. "
            f"Pass X of shape (n, {inner.n_features_in_})."
        )
    _check_kernel(setup.kernel, inner.features_.kernel, n_features)
    _check_tiles(setup.resources.tile_dtype, inner.features_.dtype)
    return PrebuiltBuilder(inner.features_, sizes_of(inner.plan_.builder))


def _check_kernel(own: KernelParameters, kernel: Kernel, n_features: int) -> None:
    if own.untouched:
        return  # the estimator uses the map's kernel
    asked = own.resolve(n_features)
    if asked != kernel:
        names = ", ".join(field.name for field in fields(own))
        raise InputError(
            f"the kernel is {asked}, but that of the frozen approximation is {kernel}. Leave {names} as they "
            "are by default: the kernel is then the approximation's."
        )


def _check_tiles(tile_dtype: str, dtype: np.dtype[Any]) -> None:
    if tile_dtype not in ("auto", dtype.name):
        raise InputError(
            f"tile_dtype={tile_dtype!r}, but the frozen approximation has {dtype.name} tiles. "
            f"Leave tile_dtype='auto', or fit the approximation with tile_dtype={tile_dtype!r}."
        )
