"""Setup of a fit, read from its estimator once, and the map of a fitted approximation that it may reuse."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from gramian._phases import Phases, named, silent
from gramian._typing import Float64Array
from gramian.approximations.approximation import Approximation
from gramian.compression.builder import PrebuiltBuilder, sizes_of
from gramian.engine import Run
from gramian.estimator.parameters import KernelParameters
from gramian.exceptions import InputError
from gramian.kernels import Kernel
from gramian.kernels.precomputed import Precomputed

#: Parameters of an approximation's instance that the estimator which it is given to decides.
OUTER = ("kernel", "gamma", "degree", "coef0", "kernel_params", "memory_budget", "tile_dtype")


@dataclass(frozen=True, eq=False)
class FitSetup:
    """What planning and training are told by an estimator.

    ``approximation`` is what the user gave: a name, an unfitted instance, ``Exact(...)`` or a frozen one.
    ``estimator`` is the name of the estimator's class, for errors. ``standardize``, ``metric`` and
    ``checkpoint`` are the parameters of these names. A ridge fit minimises
    Σ w_i (y_i − f(x_i) − b)² + alpha ‖f‖², where b is 0 without ``intercept``.
    """

    kernel: KernelParameters
    approximation: Any
    run: Run
    estimator: str
    standardize: bool = False
    metric: Any = None
    checkpoint: str | PathLike[str] | None = None  #: folder for unfinished work
    intercept: bool = False
    alpha: float | Float64Array = 1.0  #: one penalty, or one for each output
    auto_names: tuple[str, ...] = ()  #: names of the parameters that are "auto", which have usual values here

    @classmethod
    def of(cls, model: BaseEstimator, phases: Phases = silent) -> Self:
        """Return the setup of an estimator; ``phases`` is told of the phases of its fit.

        Raises ``InputError`` where an instance of an approximation sets what only the estimator decides, or
        rows would be scaled anew for landmarks that are fixed.
        """
        chosen, name = model.approximation, type(model).__name__
        if isinstance(chosen, Approximation):
            _refuse_ignored(name, {name: getattr(model, name) for name in OUTER}, chosen)
        if model.standardize and isinstance(chosen, FrozenEstimator):
            raise InputError(
                "standardize=True would scale the rows anew for landmarks that are fixed by "
                "FrozenEstimator. Scale the rows first, for both."
            )
        kernel, run = KernelParameters.given(model), Run.of(model, phases)
        metric, checkpoint = getattr(model, "metric", None), getattr(model, "checkpoint", None)
        intercept = bool(getattr(model, "fit_intercept", False))
        return cls(kernel, chosen, run, name, model.standardize, metric, checkpoint, intercept)

    @property
    def least(self) -> float:
        """The least penalty, which sizes and precision are planned for."""
        return float(np.min(self.alpha))

    @property
    def automatic(self) -> bool:
        """Whether the approximation is left to the plan."""
        return isinstance(self.approximation, str) and self.approximation == "auto"

    @property
    def learns_metric(self) -> bool:
        """Whether a metric is to be learned."""
        return self.metric is not None and not hasattr(self.metric, "n_features")

    @property
    def frozen(self) -> bool:
        """Whether the landmarks are those of a fitted approximation."""
        return isinstance(self.approximation, FrozenEstimator)

    def with_kernel(self, kernel: Kernel) -> Self:
        """Return the setup with a kernel in place of its parameters."""
        return replace(self, kernel=KernelParameters(kernel))

    def part(self, name: str) -> Self:
        """Return the setup of a part of the fit, whose phases are shown with the part's name."""
        return replace(self, run=replace(self.run, phases=named(self.run.phases, name)))

    def with_memory(self, memory_bytes: int) -> Self:
        """Return the setup with another memory budget."""
        return replace(self, run=replace(self.run, memory_bytes=memory_bytes))

    def planning(self) -> Self:
        """Return the setup for a plan alone: a generator that was passed stays as it is."""
        return replace(self, run=replace(self.run, random_state=deepcopy(self.run.random_state)))


def _refuse_ignored(estimator: str, outer: dict[str, Any], chosen: Approximation) -> None:
    """Raise where the instance sets what only the outer estimator, with these parameters, decides."""
    given, plain = chosen.get_params(deep=False), type(chosen)().get_params(deep=False)
    for name in OUTER:
        inner = given[name]
        if inner is not outer[name] and inner != plain[name] and inner != outer[name]:
            kind = type(chosen).__name__
            raise InputError(
                f"approximation={kind}({name}={inner!r}) would have no effect: {name} is taken from "
                f"{estimator}. Write {estimator}({name}={inner!r}, approximation={kind}(...))."
            )


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
    _check_tiles(setup.run.tile_dtype, inner.features_.dtype)
    return PrebuiltBuilder(inner.features_, sizes_of(inner.plan_.builder))


def _check_kernel(own: KernelParameters, kernel: Kernel, n_features: int) -> None:
    if own.untouched:
        return  # the estimator uses the map's kernel
    given = own.resolve(n_features)
    if given != kernel:
        names = ", ".join(field.name for field in fields(own))
        raise InputError(
            f"the kernel is {given}, but that of the frozen approximation is {kernel}. Leave {names} as they "
            "are by default: the kernel is then the approximation's."
        )


def _check_tiles(tile_dtype: str, dtype: np.dtype[Any]) -> None:
    if tile_dtype not in ("auto", dtype.name):
        raise InputError(
            f"tile_dtype={tile_dtype!r}, but the frozen approximation has {dtype.name} tiles. "
            f"Leave tile_dtype='auto', or fit the approximation with tile_dtype={tile_dtype!r}."
        )
