"""Parameters of a ridge fit, read from its estimator and checked once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from sklearn.base import is_classifier

from gramian._checks import positive_number, positive_numbers
from gramian._phases import Phases, silent
from gramian._typing import Float64Array
from gramian.approximations.setup import AsksForFit, FitSetup
from gramian.estimator.parameters import KernelParameters
from gramian.exact.exact import Exact
from gramian.exceptions import InputError
from gramian.kernels import Kernel
from gramian.selection.automatic import USUAL_PENALTY, automatic, usual_setup


class AsksForRidge(AsksForFit, Protocol):
    """The parameters of a ridge estimator, beside those of its kernel and approximation."""

    alpha: Any
    metric: object
    fit_intercept: bool
    checkpoint: str | Path | None


@dataclass(frozen=True, eq=False)
class RidgeParameters:
    """Minimise Σ w_i (y_i − f(x_i) − b)² + alpha ‖f‖². Without ``intercept`` b is 0."""

    setup: FitSetup
    alpha: float | Float64Array  #: one penalty, or one for each output
    intercept: bool
    checkpoint: Path | None = None  #: folder for unfinished work
    asked: tuple[str, ...] = ()  #: names of the parameters that are "auto", which have usual values here

    @classmethod
    def of(cls, model: AsksForRidge, phases: Phases = silent) -> Self:
        """Return the parameters of a ridge estimator; ``phases`` is told of the phases of its fit."""
        setup = FitSetup.of(model, phases)
        asked = automatic(setup.kernel, alpha=model.alpha)
        setup = usual_setup(setup, asked, metric=model.metric, checkpoint=model.checkpoint)
        return cls(
            setup,
            USUAL_PENALTY if "alpha" in asked else _penalty(model),
            bool(model.fit_intercept),
            None if model.checkpoint is None else Path(model.checkpoint),
            asked,
        )

    @property
    def least(self) -> float:
        """The least penalty, which sizes and precision are planned for."""
        return float(np.min(self.alpha))

    def check_outputs(self, n_outputs: int) -> None:
        """Raise where there are several penalties, but not one for each output."""
        if np.size(self.alpha) not in (1, n_outputs):
            raise InputError(
                f"alpha holds {np.size(self.alpha)} penalties, but y has {n_outputs} outputs. Give one "
                "number, or one for each output."
            )

    @property
    def exact(self) -> Exact | None:
        """How the exact system is to be solved, where that was asked for."""
        return exact_of(self.setup.approximation)

    def planning(self) -> Self:
        """Return the parameters for a plan or a trial: a generator that was passed stays as it is."""
        return replace(self, setup=self.setup.planning())

    def with_kernel(self, kernel: Kernel) -> Self:
        """Return the parameters with another kernel."""
        return replace(self, setup=replace(self.setup, kernel=KernelParameters(kernel)))


def _penalty(model: AsksForRidge) -> float | Float64Array:
    """Return the checked penalty of an estimator; a regressor may have one for each output."""
    if isinstance(model.alpha, str) or np.ndim(model.alpha) != 1 or is_classifier(model):
        return positive_number("alpha", model.alpha)
    found = positive_numbers("alpha", model.alpha)
    return found if len(found) > 1 else float(found[0])


def exact_of(approximation: object) -> Exact | None:
    """Return how the exact system is to be solved, where that was asked for."""
    if isinstance(approximation, Exact):
        return approximation
    return Exact() if isinstance(approximation, str) and approximation == "exact" else None
