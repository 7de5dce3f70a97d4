"""Parameters of a fit of DC-Pred++, read from its estimator and checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gramian._checks import one_of, whole_number
from gramian._phases import Phases, silent
from gramian.engine import Engine
from gramian.estimator.parameters import KernelParameters
from gramian.exceptions import InputError
from gramian.fast.dcpred.center_tree import METHODS
from gramian.fast.dcpred.training import LANDMARKS, DCPredSettings
from gramian.metric.input import InputParameters

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

LOSSES = ("hinge", "squared_hinge", "logistic", "ridge")
DTYPES = ("auto", "float32", "float64")


@dataclass(frozen=True, eq=False)
class DCPredParameters:
    """What :func:`gramian.fast.dcpred.fitting.fit_dcpred` is asked for."""

    input: InputParameters
    settings: DCPredSettings
    random_state: Any
    engine: Engine
    phases: Phases = silent

    @classmethod
    def of(
        cls, model: BaseEstimator, cost: float, losses: tuple[str, ...] = LOSSES, phases: Phases = silent
    ) -> Self:
        """Return the parameters of an estimator; ``cost`` is C, and ``losses`` are those that it may have."""
        kernel = KernelParameters.given(model)
        if kernel.precomputed:
            raise InputError(
                "kernel='precomputed' has no points, which the leaves are found by. Pass the rows and a "
                "kernel's name, such as 'rbf'."
            )
        dtype = one_of("dtype", model.dtype, DTYPES)
        settings = DCPredSettings(
            n_leaves=_leaves(model.n_leaves),
            n_levels=whole_number("n_levels", model.n_levels, 1),
            partition=one_of("partition", model.partition, METHODS),
            n_landmarks=whole_number("n_landmarks", model.n_landmarks, 1),
            landmarks=one_of("landmarks", model.landmarks, LANDMARKS),
            n_pseudo=whole_number("n_pseudo", model.n_pseudo, 0),
            pseudo=model.pseudo,
            pseudo_degree=whole_number("pseudo_degree", model.pseudo_degree, 2),
            loss=one_of("loss", model.loss, losses),
            cost=cost,
            intercept=bool(model.fit_intercept),
            exact_rows=whole_number("exact_rows", model.exact_rows, 2),
            dtype=None if dtype == "auto" else np.dtype(dtype),
        )
        return cls(
            InputParameters(kernel, model.standardize),
            settings,
            model.random_state,
            Engine(model.n_jobs),
            phases,
        )


def _leaves(asked: object) -> int:
    if isinstance(asked, str) and asked == "auto":
        return 0
    if isinstance(asked, str):
        raise InputError(f"n_leaves={asked!r} is unknown. Give a whole number of at least 1, or 'auto'.")
    return whole_number("n_leaves", asked, 1)
