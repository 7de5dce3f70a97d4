"""Parameters of a Gaussian process, read from its estimator and checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from gramian._checks import numbers_of, positive_number, whole_number
from gramian._phases import Phases, silent
from gramian._typing import Float64Array
from gramian.approximations.setup import FitSetup
from gramian.estimator.parameters import KernelParameters
from gramian.estimator.sklearn_kernels import refuse_fixed, without_noise
from gramian.exceptions import InputError, quoted
from gramian.gp.hyperparameters import Hyperparameters
from gramian.gp.start import GPLearningSettings, Optimizer, checked_optimizer, log_bounds
from gramian.metric.input import InputParameters
from gramian.metric.rounds import RoundSetup

#: Default of the parameter ``noise``.
DEFAULT_NOISE = 0.1
#: Rows that hyperparameters are learned from where the user names no number. Chosen by hand.
LEARNING_ROWS = 5_000
#: Rows from which a round of metric learning learns kernel and noise. Chosen by hand.
ROUND_ROWS = 1_000


class AsksForProcess(Protocol):
    """The parameters of a Gaussian process beside those of its approximation, as users give them."""

    kernel: object
    metric: object
    standardize: bool
    noise: ArrayLike
    learn_noise: bool
    ard: bool | str
    optimizer: object
    n_restarts_optimizer: object
    bounds: Sequence[float]
    learning_rows: object
    max_iter: object
    normalize_y: bool
    calibration: object


@dataclass(frozen=True, eq=False)
class ProcessParameters:
    """The process to learn: kernel and noise to start from, and how both are learned and checked.

    ``learning_rows`` is None where a last stage learns from all rows.
    """

    setup: FitSetup
    input: InputParameters
    noise: float
    learn_noise: bool
    ard: bool | str
    optimizer: str | Optimizer | None  #: None where kernel and noise stay as they are
    restarts: int
    log_factors: Float64Array  #: logarithms of the bounds, as factors on the start
    learning_rows: int | None
    max_iter: int
    normalize: bool
    calibrated: bool  #: whether deviations of new observations are scaled to errors of rows left out
    row_noise: Float64Array | None = None  #: of each row, where the user gave that; ``noise`` is its mean

    @classmethod
    def of(cls, model: AsksForProcess, phases: Phases = silent) -> Self:
        """Return the checked parameters of an estimator; ``phases`` is told of the phases of its fit."""
        setup = FitSetup.of(model, phases)
        setup = replace(setup, kernel=replace(setup.kernel, kernel=without_noise(model.kernel)[0]))
        if model.calibration not in ("loo", None):
            raise InputError(
                f"calibration={model.calibration!r} is unknown. Give 'loo', which scales deviations of new "
                "observations to the errors of rows left out, or None."
            )
        if model.optimizer is not None:
            refuse_fixed(model.kernel)
        rows = model.learning_rows
        row_noise = None if np.ndim(model.noise) == 0 else _row_noise(model.noise)
        return cls(
            setup,
            InputParameters.of(setup, standardize=model.standardize, metric=model.metric),
            _start_noise(model.kernel, model.noise if row_noise is None else float(row_noise.mean())),
            bool(model.learn_noise),
            model.ard,
            checked_optimizer(model.optimizer),
            whole_number("n_restarts_optimizer", model.n_restarts_optimizer, 0),
            log_bounds(model.bounds),
            None if rows is None else whole_number("learning_rows", rows, 2),
            whole_number("max_iter", model.max_iter, 1),
            bool(model.normalize_y),
            model.calibration == "loo",
            row_noise,
        )

    @property
    def named(self) -> bool:
        """Whether the kernel is given by its name, so that what it starts from is open."""
        return isinstance(self.setup.kernel.kernel, str)

    def planning(self) -> Self:
        """Return the parameters for a plan alone: a generator that was passed stays as it is."""
        return replace(self, setup=self.setup.planning())

    def of_round(self, asked: RoundSetup) -> Self:
        """Return the parameters of a round of learning a metric: a small fit, from the last one's kernel."""
        most, known = self.learning_rows, asked.before
        made = replace(
            self,
            setup=asked.applied(self.setup),
            input=InputParameters(self.setup.kernel),
            row_noise=None,  # it is in the rows' weights
            learning_rows=ROUND_ROWS if most is None else min(most, ROUND_ROWS),
            restarts=0,
            optimizer=None if asked.quick else self.optimizer,
        )
        if not isinstance(known, Hyperparameters):
            return made
        setup = replace(made.setup, kernel=KernelParameters(known.kernel))
        return replace(made, setup=setup, noise=known.noise, ard=False)

    def rows_of(self, n_rows: int) -> int:
        """Return how many of the rows are used for learning by blocks."""
        return min(n_rows, LEARNING_ROWS if self.learning_rows is None else self.learning_rows)

    def learning(self, n_rows: int) -> GPLearningSettings:
        """Return the settings for learning from ``n_rows`` rows."""
        return GPLearningSettings(
            self.rows_of(n_rows),
            self.log_factors,
            self.restarts,
            self.max_iter,
            self.optimizer if callable(self.optimizer) else None,
            weak_prior=self.named,
        )


def _row_noise(given: ArrayLike) -> Float64Array:
    """Return the noise of each row as the user gave it; raise unless it is positive numbers."""
    values = numbers_of("noise", given, "Give one number, or one variance for each row.")
    if values.ndim != 1 or not np.isfinite(values).all() or not (values > 0.0).all():
        raise InputError(
            f"noise={quoted(given)} has shape {values.shape}; expected one number, or (n,) finite variances "
            "above 0, one for each row. Leave out rows without a variance."
        )
    return values


def _start_noise(kernel: object, noise: object) -> float:
    """Return the noise that learning starts from: that of the kernel's WhiteKernel, if it has one."""
    start = positive_number("noise", noise)
    level = without_noise(kernel)[1]
    if level is None:
        return start
    if start not in (DEFAULT_NOISE, level):
        raise InputError(
            f"noise={start!r} was given beside a WhiteKernel of {level:.6g}, which is the noise too. "
            "Leave one of them out."
        )
    return positive_number("the level of WhiteKernel", level)
