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

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

LOSSES = ("hinge", "squared_hinge", "logistic", "ridge")
DTYPES = ("auto", "float32", "float64")
#: Rules that choose the landmarks of a leaf.
LANDMARKS = ("weighted-kmeans", "kmeans", "uniform", "rpcholesky")


@dataclass(frozen=True, eq=False)
class DCPredParameters:
    """Settings of a fit, as in :class:`gramian.fast.dcpred.estimators.DCPredClassifier`."""

    kernel: KernelParameters
    standardize: bool
    n_leaves: int  #: 0: as many as the rows ask for
    n_levels: int
    partition: str
    n_landmarks: int
    landmarks: str
    n_pseudo: int
    pseudo: str | None
    pseudo_degree: int
    loss: str
    cost: float  #: C
    intercept: bool
    exact_rows: int
    dtype: np.dtype[Any] | None  #: None: by the rows
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
        leaves = model.n_leaves
        if isinstance(leaves, str) and leaves != "auto":
            raise InputError(f"n_leaves={leaves!r} is unknown. Give a whole number of at least 1, or 'auto'.")
        return cls(
            kernel=kernel,
            standardize=model.standardize,
            n_leaves=0 if isinstance(leaves, str) else whole_number("n_leaves", leaves, 1),
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
            random_state=model.random_state,
            engine=Engine(model.n_jobs),
            phases=phases,
        )
