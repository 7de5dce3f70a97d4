"""Starting point, bounds and settings of hyperparameter learning in a Gaussian process."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array, Float64Array, Rows
from gramian.data.source import RowSource, sample_rows
from gramian.exceptions import InputError, did_you_mean
from gramian.kernels import Kernel
from gramian.kernels.base import Scaled
from gramian.kernels.precomputed import Precomputed

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


@dataclass(frozen=True)
class GPLearningSettings:
    """How hyperparameters are learned; bounds are logarithms of factors on the start."""

    n_rows: int
    log_factors: Float64Array
    n_restarts: int
    max_iterations: int
    optimizer: Optimizer | None  #: None for L-BFGS-B
    weak_prior: bool  #: whether lengthscales have a prior about their start


def start_kernel(
    kernel: Any,
    source: RowSource,
    rng: np.random.Generator,
    *,
    named: bool,
    ard: bool | str,
    gamma_given: bool,
    learned: bool,
) -> Kernel:
    """Return the kernel at which learning starts: an instance as it is, a named kernel times 1.0.

    If ``gamma`` is not given and something is learned, a named kernel starts at lengthscales from the
    features' deviations σ_f: √(Σ σ_f²), or with ``ard`` √d σ_f for each feature. ``ard="auto"`` means a
    lengthscale for each of up to 100 dense features.
    """
    if isinstance(kernel, Precomputed):
        raise InputError(
            "kernel='precomputed' has no parameters and no new landmarks; a Gaussian process needs rows. "
            "Pass a kernel's name or instance."
        )
    if not isinstance(ard, bool | np.bool_) and ard != "auto":
        raise InputError(f"ard={ard!r} must be True, False or 'auto'.")
    if not named:
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
    if learned and not gamma_given:
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
