"""Learning of Gaussian process hyperparameters by maximising the log marginal likelihood."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.optimize as so

from gramian._typing import Array, Float64Array
from gramian.compression.features import FeatureMap
from gramian.compression.sums import Progress
from gramian.exceptions import AccuracyWarning, InputError
from gramian.gp.dense import dense_likelihood
from gramian.gp.gradient import gradient
from gramian.gp.likelihood import Evidence, Observations, evidence
from gramian.gp.prior import with_kernel
from gramian.kernels.base import Kernel
from gramian.kernels.gradient import log_parameters, with_log_parameters

#: Optimizer with scikit-learn's signature: takes an objective (value and gradient of θ), the first θ and the
#: bounds; returns the best θ and its value.
Optimizer = Callable[[Callable[..., Any], Float64Array, Float64Array], tuple[Float64Array, float]]
#: Value of −log p(y) if the covariance cannot be factorised: worse than any real value.
FAILED = 1e25
#: A run has converged if no log parameter changes log p(y) by more than this slope. A factor of e in the
#: parameter then changes the likelihood by a hundredth, too little to matter. Chosen by hand.
LEAST_SLOPE = 1e-2
#: Standard deviation, in log parameters, of the random starts about the first start. Chosen by hand.
SPREAD = 1.5


@dataclass(frozen=True)
class Learned:
    """Result of learning, with the work it took."""

    theta: Float64Array  #: logarithms of the kernel's parameters and, if it is learned, of the noise
    value: float  #: log marginal likelihood of the rows used for learning
    iterations: int  #: L-BFGS iterations of all runs; 0 with another optimizer
    evaluations: int  #: evaluations of likelihood and gradient
    converged: bool
    at_bounds: tuple[int, ...]  #: indices of the entries of θ that ended at a bound
    n_rows: int  #: rows used for learning
    restarts: tuple[float, ...]  #: the likelihood that each start reached


@dataclass
class Objective:
    """Log marginal likelihood as a function of θ, for fixed landmarks and blocks."""

    features: FeatureMap
    kernel: Kernel
    noise: float
    learn_noise: bool
    data: Observations
    #: Whether every row is a landmark of the root. The model is then exact, and dense algebra is cheaper.
    exact: bool = False
    evaluations: int = 0

    @cached_property
    def _own(self) -> Float64Array:
        """The kernel's log parameters; empty if their gradient is not known."""
        try:
            return log_parameters(self.kernel)
        except InputError:
            return np.zeros(0)

    def parts(self, theta: Array) -> tuple[Kernel, float]:
        """Return the kernel and the noise of θ."""
        theta = np.asarray(theta, np.float64)
        own = theta[: len(self._own)]
        kernel = with_log_parameters(self.kernel, own) if len(own) else self.kernel
        return kernel, float(np.exp(theta[-1])) if self.learn_noise else self.noise

    @property
    def theta(self) -> Float64Array:
        """The θ of the objective's own kernel and noise."""
        return np.append(self._own, np.log(self.noise)) if self.learn_noise else self._own

    def moved(self, theta: Array) -> Objective:
        """Return a copy of the objective whose own kernel and noise are those of θ."""
        kernel, noise = self.parts(theta)
        return replace(self, kernel=kernel, noise=noise, evaluations=0)

    def found(self) -> Evidence:
        """Return the evidence for the objective's own kernel and noise."""
        return evidence(with_kernel(self.features, self.kernel, self.data.engine), self.noise, self.data)

    def value(self, theta: Array) -> tuple[float, Float64Array]:
        """Return log p(y) for θ, and its gradient."""
        self.evaluations += 1
        by_kernel = bool(len(self._own))
        if self.exact:
            kernel, noise = self.parts(theta)
            n = self.data.source.shape[0]
            rows, targets = self.data.source.rows(slice(0, n)), self.data.targets[:n]
            value, full = dense_likelihood(kernel, noise, rows, targets, by_kernel=by_kernel)
        else:
            found = self.moved(theta).found()
            value, full = found.value, gradient(found, self.data, by_kernel=by_kernel)
        return value, full if self.learn_noise else full[:-1]

    def loss(self, theta: Array) -> tuple[float, Float64Array]:
        """Return −log p(y) and its gradient; a very large value if a factorisation fails."""
        try:
            value, slope = self.value(theta)
        except la.LinAlgError:
            return FAILED, np.zeros(len(theta))
        return (-value, -slope) if np.isfinite(value) else (FAILED, np.zeros(len(theta)))


def learn(
    objective: Objective,
    log_factors: Float64Array,
    *,
    n_restarts: int,
    max_iterations: int,
    optimizer: Optimizer | None,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Learned:
    """Maximise the log marginal likelihood from the objective's θ and from ``n_restarts`` points about it.

    Restarts are log-normal about θ with a standard deviation of 1.5 (a factor of 4.5), clipped to the bounds.
    The bounds are θ plus the two ``log_factors``. ``optimizer`` has scikit-learn's signature; None means
    L-BFGS-B. ``progress`` is called with 1 for each evaluation. If the best run hit the iteration limit,
    :class:`AccuracyWarning` reports its gradient.
    """

    def loss(theta: Array) -> tuple[float, Float64Array]:
        if progress is not None:
            progress(1)
        return objective.loss(theta)

    start = objective.theta
    bounds = start[:, None] + log_factors
    lower, upper = bounds[:, 0], bounds[:, 1]
    starts = [start]
    for _ in range(n_restarts):
        starts.append(np.clip(start + SPREAD * rng.standard_normal(len(start)), lower, upper))
    reached: list[tuple[Float64Array, float, bool]] = []
    iterations = 0
    for first in starts:
        if optimizer is not None:
            theta, value = optimizer(_callback(loss), first, bounds)
            reached.append((np.asarray(theta, np.float64), -float(value), True))
            continue
        done = so.minimize(
            loss,
            first,
            jac=True,
            method="L-BFGS-B",
            bounds=so.Bounds(lower, upper),
            options={"maxiter": max_iterations, "gtol": LEAST_SLOPE},
        )
        iterations += int(done.nit)
        reached.append((done.x, -float(done.fun), done.nit < max_iterations))
    theta, value, converged = max(reached, key=lambda run: run[1])
    if not converged:
        steep = float(np.abs(objective.value(theta)[1]).max())
        warnings.warn(
            f"learning stopped at max_iter={max_iterations} iterations with a gradient of {steep:.2g} by log "
            "parameters. Raise max_iter, or scale the features.",
            AccuracyWarning,
            stacklevel=4,
        )
    near = np.minimum(theta - lower, upper - theta) < 1e-6
    return Learned(
        theta,
        value,
        iterations,
        objective.evaluations,
        converged,
        tuple(np.flatnonzero(near).tolist()),
        objective.data.source.shape[0],
        tuple(run[1] for run in reached),
    )


def _callback(loss: Callable[[Array], tuple[float, Float64Array]]) -> Callable[..., Any]:
    def called(theta: Array, eval_gradient: bool = True) -> Any:
        value, slope = loss(theta)
        return (value, slope) if eval_gradient else value

    return called
