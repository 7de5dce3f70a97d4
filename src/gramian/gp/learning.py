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
from gramian.exceptions import AccuracyWarning, InputError
from gramian.gp.dense import dense_likelihood
from gramian.gp.gradient import gradient
from gramian.gp.likelihood import Evidence, Observations, evidence
from gramian.gp.prior import with_kernel
from gramian.kernels.base import Kernel
from gramian.kernels.gradient import log_parameters, with_log_parameters

#: (objective of θ that gives value and gradient, first θ, bounds) → (θ, value), as scikit-learn's optimizers.
Optimizer = Callable[[Callable[..., Any], Float64Array, Float64Array], tuple[Float64Array, float]]
#: −log p(y) where a covariance could not be factorised: worse than any other.
FAILED = 1e25
#: Slope of log p(y) by a log parameter at or under which a run has converged: a factor of e in the parameter
#: changes the likelihood by a hundredth then, which no data can tell.
LEAST_SLOPE = 1e-2
#: Standard deviation of the logarithms at which further runs start, about the first start.
SPREAD = 1.5


@dataclass(frozen=True)
class Learned:
    """What learning found, and how."""

    theta: Float64Array  #: logarithms of the kernel's parameters and, where it is learned, of the noise
    value: float  #: log marginal likelihood of the rows learned from
    iterations: int  #: of L-BFGS, in all runs; 0 with another optimizer
    evaluations: int  #: of likelihood and gradient
    converged: bool
    at_bounds: tuple[int, ...]  #: which of θ ended at a bound
    n_rows: int  #: rows learned from
    restarts: tuple[float, ...]  #: the likelihood that each start reached


@dataclass
class Objective:
    """The log marginal likelihood as a function of θ, landmarks and blocks held fixed."""

    features: FeatureMap
    kernel: Kernel
    noise: float
    learn_noise: bool
    data: Observations
    #: Every row is a landmark of the root: K itself, whose likelihood is cheaper by dense algebra.
    exact: bool = False
    evaluations: int = 0

    @cached_property
    def _own(self) -> Float64Array:
        """The kernel's log parameters; none where their gradient is not known."""
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
        """θ of its own kernel and noise."""
        return np.append(self._own, np.log(self.noise)) if self.learn_noise else self._own

    def moved(self, theta: Array) -> Objective:
        """Return the objective with the kernel and the noise of θ as its own."""
        kernel, noise = self.parts(theta)
        return replace(self, kernel=kernel, noise=noise, evaluations=0)

    def found(self) -> Evidence:
        """Return the evidence for its own kernel and noise."""
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
        """Return −log p(y) and its gradient; a very large value where a factorisation fails."""
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
) -> Learned:
    """Maximise the log marginal likelihood from the objective's θ and from ``n_restarts`` points about it.

    Those are log-normal, with a standard deviation of 1.5 (a factor of 4.5), within the bounds, which lie
    the two ``log_factors`` from θ. ``optimizer`` is a function of scikit-learn's kind; None is L-BFGS-B.
    Where the best run stopped at its iteration limit, :class:`AccuracyWarning` says how steep it was.
    """
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
            theta, value = optimizer(_callback(objective), first, bounds)
            reached.append((np.asarray(theta, np.float64), -float(value), True))
            continue
        done = so.minimize(
            objective.loss,
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


def _callback(objective: Objective) -> Callable[..., Any]:
    def loss(theta: Array, eval_gradient: bool = True) -> Any:
        value, slope = objective.loss(theta)
        return (value, slope) if eval_gradient else value

    return loss
