"""Parameters of a Gaussian process, and the kernel, targets and weights that its fit begins with."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from gramian._checks import numbers_of, positive_number, whole_number
from gramian._phases import Phases, silent
from gramian._typing import Array, Float64Array, Rows
from gramian.approximations.setup import FitSetup
from gramian.data.source import RowSource, sample_rows
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.parameters import KernelParameters
from gramian.estimator.repeats import without_copies
from gramian.estimator.sklearn_kernels import refuse_fixed, without_noise
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import InputError, did_you_mean, quoted
from gramian.gp.prior import Hyperparameters
from gramian.kernels import Kernel
from gramian.kernels.base import Scaled
from gramian.kernels.precomputed import Precomputed

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

#: Default of the parameter ``noise``.
DEFAULT_NOISE = 0.1
#: Rows that hyperparameters are learned from where the user names no number. Chosen by hand.
LEARNING_ROWS = 5_000
#: Rows from which a round of metric learning learns kernel and noise. Chosen by hand.
ROUND_ROWS = 1_000
#: Optimizer with scikit-learn's signature: takes an objective (value and gradient of θ), the first θ and the
#: bounds; returns the best θ and its value.
Optimizer = Callable[[Callable[..., Any], Float64Array, Float64Array], tuple[Float64Array, float]]
#: Names for L-BFGS-B: ours and scikit-learn's.
OPTIMIZERS = ("lbfgs", "fmin_l_bfgs_b")
#: Most features that get a lengthscale each where the user leaves that open: a step's time grows with them,
#: and what few rows say about each shrinks. Chosen by hand.
ARD_FEATURES = 100
#: Rows sampled to estimate the features' deviations. Chosen by hand.
SPREAD_ROWS = 2_000


@dataclass(frozen=True, eq=False)
class ProcessParameters:
    """The process to learn: kernel and noise to start from, and how both are learned and checked.

    ``learning_rows`` is None where a last stage learns from all rows.
    """

    setup: FitSetup
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
    def of(cls, model: BaseEstimator, phases: Phases = silent) -> Self:
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

    def of_round(self, setup: FitSetup, before: object, quick: bool) -> Self:
        """Return the parameters of a round of learning a metric: a small fit, from the last one's kernel."""
        most = self.learning_rows
        made = replace(
            self,
            setup=setup,
            row_noise=None,  # it is in the rows' weights
            learning_rows=ROUND_ROWS if most is None else min(most, ROUND_ROWS),
            restarts=0,
            optimizer=None if quick else self.optimizer,
        )
        if not isinstance(before, Hyperparameters):
            return made
        setup = replace(setup, kernel=KernelParameters(before.kernel))
        return replace(made, setup=setup, noise=before.noise, ard=False)

    def rows_of(self, n_rows: int) -> int:
        """Return how many of the rows are used for learning by blocks."""
        return min(n_rows, LEARNING_ROWS if self.learning_rows is None else self.learning_rows)


def start_kernel(parameters: ProcessParameters, source: RowSource, rng: np.random.Generator) -> Kernel:
    """Return the kernel at which learning starts: an instance as it is, a named kernel times 1.0.

    If ``gamma`` is not given and something is learned, a named kernel starts at lengthscales from the
    features' deviations σ_f: √(Σ σ_f²), or with ``ard`` √d σ_f for each feature. ``ard="auto"`` means a
    lengthscale for each of up to 100 dense features.
    """
    own, ard, learned = parameters.setup.kernel, parameters.ard, parameters.optimizer is not None
    kernel: Any = own.resolve_for(source)
    if isinstance(kernel, Precomputed):
        raise InputError(
            "kernel='precomputed' has no parameters and no new landmarks; a Gaussian process needs rows. "
            "Pass a kernel's name or instance."
        )
    if not isinstance(ard, bool | np.bool_) and ard != "auto":
        raise InputError(f"ard={ard!r} must be True, False or 'auto'.")
    if not parameters.named:
        if ard != "auto" and ard:
            raise InputError(
                "ard=True goes with a kernel's name. Give an instance its lengthscales, one for each "
                "feature: 1.0 * gm.Gaussian((1.0, 2.0))."
            )
        given: Kernel = kernel
        return given
    d = source.shape[1]
    if not hasattr(kernel, "lengthscale"):
        return Scaled(1.0, kernel)
    if ard == "auto":
        ard = 1 < d <= ARD_FEATURES and not sp.issparse(source.rows(slice(0, 1))) and learned
    if learned and own.gamma is None:
        variance = _variances(sample_rows(source, min(SPREAD_ROWS, source.shape[0]), rng)[0])
        total = float(variance.sum()) or 1.0
        each = np.sqrt(d * np.where(variance > 0, variance, total / d))
        return Scaled(
            1.0, replace(kernel, lengthscale=tuple(each.tolist()) if ard else float(np.sqrt(total)))
        )
    return Scaled(1.0, replace(kernel, lengthscale=(kernel.lengthscale,) * d) if ard else kernel)


def _variances(rows: Rows) -> Float64Array:
    mean = np.asarray(rows.mean(axis=0, dtype=np.float64)).ravel()
    if hasattr(rows, "multiply"):
        square = np.asarray(rows.multiply(rows).mean(axis=0, dtype=np.float64)).ravel()
        return np.asarray(np.maximum(square - mean**2, 0.0))
    return np.asarray(np.square(rows - mean).mean(axis=0), np.float64)


def checked_optimizer(chosen: object) -> str | Optimizer | None:
    """Check the parameter ``optimizer``: a known name, a function, or None."""
    if chosen is None or callable(chosen) or (isinstance(chosen, str) and chosen in OPTIMIZERS):
        known: str | Optimizer | None = chosen
        return known
    raise InputError(
        f"optimizer={chosen!r} is unknown. Give 'lbfgs', a callable, or None to keep the parameters."
        + did_you_mean(chosen, OPTIMIZERS)
    )


def log_bounds(pair: Sequence[float] | Array) -> Float64Array:
    """Check the parameter ``bounds``, factors 0 < lower ≤ 1 ≤ upper, and return their logarithms."""
    usable = isinstance(pair, Sequence | np.ndarray) and not isinstance(pair, str) and len(pair) == 2
    if (
        not usable
        or not all(isinstance(v, numbers.Real) for v in pair)
        or not 0 < pair[0] <= 1 <= pair[1] < np.inf
    ):
        raise InputError(
            f"bounds={pair!r} must be two finite factors, 0 < lower <= 1 <= upper: how far each parameter "
            "may go from where it starts, such as (1e-5, 1e5)."
        )
    return np.log(np.asarray(pair, np.float64))


def counted_rows(
    rows: LabelledRows[NumberTargets], parameters: ProcessParameters
) -> tuple[LabelledRows[Any], ProcessParameters]:
    """Return rows without those of weight 0, and the parameters for them.

    Where the noise is learned, weights have mean 1: a factor of all of them is one of the noise. Copies of a
    row are then one row, because they say nothing about the noise.
    """
    noise = parameters.row_noise
    if noise is not None and len(noise) != rows.n:
        raise InputError(
            f"noise has {len(noise)} entries, but X has {rows.n} rows. Give one number, or one variance for "
            "each row."
        )
    learns = parameters.learn_noise and bool(parameters.optimizer)
    if learns and noise is None:
        rows = without_copies(rows, parameters.setup.run.memory_bytes)[0]
    if rows.weights is None:
        return rows, parameters
    counted = rows.counted
    if len(counted) < rows.n:
        rows = rows.taken(counted)
        parameters = replace(parameters, row_noise=None if noise is None else noise[counted])
    return rows.relative() if learns else rows, parameters


def normalise(
    targets: Float64Array, normalize: bool, weights: Float64Array | None = None
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return (targets − mean)/deviation with mean and deviation (outputs,), or the targets with 0 and 1."""
    outputs = targets.shape[1]
    if not normalize:
        return targets, np.zeros(outputs), np.ones(outputs)
    mean = np.average(targets, axis=0, weights=weights)
    spread = np.sqrt(np.average(np.square(targets - mean), axis=0, weights=weights))
    # The deviation of a constant target is only rounding; it must not become a scale.
    rounding = 10.0 * np.finfo(np.float64).eps * np.abs(mean)
    spread = np.where(spread > rounding, spread, 1.0)
    return (targets - mean) / spread, mean, spread


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
