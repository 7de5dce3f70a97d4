"""Parameters of a fit of DC-Pred++, read from its estimator and checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from gramian._checks import one_of, whole_number
from gramian._phases import Phases, silent
from gramian._typing import RandomState
from gramian.engine import Engine
from gramian.estimator.parameters import KernelParameters
from gramian.exceptions import InputError
from gramian.fast.dcpred.center_tree import METHODS
from gramian.fast.dcpred.training import LANDMARKS, DCPredSettings
from gramian.metric.input import InputParameters

LOSSES = ("hinge", "squared_hinge", "logistic", "ridge")
DTYPES = ("auto", "float32", "float64")


class AsksForDCPred(Protocol):
    """The parameters of an estimator of DC-Pred++ beside those of its kernel and its cost."""

    n_leaves: object
    n_levels: object
    partition: object
    n_landmarks: object
    landmarks: object
    n_pseudo: object
    pseudo: str | None
    pseudo_degree: object
    loss: object
    standardize: bool
    fit_intercept: bool
    exact_rows: object
    dtype: object
    random_state: RandomState
    n_jobs: int | None


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
        cls, model: AsksForDCPred, cost: float, losses: tuple[str, ...] = LOSSES, phases: Phases = silent
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
