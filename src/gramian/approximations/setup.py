"""Setup of a fit: kernel, approximation, resources and random state, read from its estimator once."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from sklearn.frozen import FrozenEstimator

from gramian._phases import Phases, silent
from gramian._typing import RandomState
from gramian.approximations.approximation import Approximation
from gramian.estimator.parameters import KernelParameters, ResourceParameters
from gramian.exceptions import InputError

#: Parameters of an approximation's instance that the estimator which it is given to decides.
OUTER = ("kernel", "gamma", "degree", "coef0", "kernel_params", "memory_budget", "tile_dtype")


class AsksForFit(Protocol):
    """The parameters that a setup reads, beside those of :data:`OUTER`."""

    approximation: object
    random_state: RandomState
    standardize: bool


@dataclass(frozen=True, eq=False)
class FitSetup:
    """What planning and training are told by an estimator, whatever it minimises.

    ``approximation`` is what the user gave: a name, an unfitted instance, ``Exact(...)`` or a frozen one.
    ``estimator`` is the name of the estimator's class, for errors. ``phases`` is told of the phases of the
    fit. ``standardize`` and ``metric`` are the parameters of these names.
    """

    kernel: KernelParameters
    approximation: Any
    resources: ResourceParameters
    random_state: Any
    estimator: str
    phases: Phases = silent
    standardize: bool = False
    metric: Any = None

    @classmethod
    def of(cls, model: AsksForFit, phases: Phases = silent) -> Self:
        """Return the setup of an estimator that has these parameters.

        Raises ``InputError`` where an instance of an approximation sets what only the estimator decides, or
        rows would be scaled anew for landmarks that are fixed.
        """
        if isinstance(model.approximation, Approximation):
            outer = {name: getattr(model, name) for name in OUTER}
            _refuse_ignored(type(model).__name__, outer, model.approximation)
        if model.standardize and isinstance(model.approximation, FrozenEstimator):
            raise InputError(
                "standardize=True would scale the rows anew for landmarks that are fixed by "
                "FrozenEstimator. Scale the rows first, for both."
            )
        return cls(
            KernelParameters.given(model),
            model.approximation,
            ResourceParameters.given(model),
            model.random_state,
            type(model).__name__,
            phases,
            model.standardize,
            getattr(model, "metric", None),
        )

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

    def less(self, held: int) -> Self:
        """Return the setup with a memory budget that is smaller by the bytes that the caller holds."""
        return self.within(self.resources.memory_bytes - held)

    def within(self, memory_bytes: int) -> Self:
        """Return the setup with another memory budget."""
        return replace(self, resources=replace(self.resources, memory_bytes=memory_bytes))

    def planning(self) -> Self:
        """Return the setup for a plan alone: a generator that was passed stays as it is."""
        return replace(self, random_state=deepcopy(self.random_state))


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
