"""Gaussian process regression on nested bases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gramian._checks import whole_number
from gramian._random import as_generator
from gramian._typing import Float64Array
from gramian.approximations.setup import FitSetup
from gramian.compression.plan import Plan
from gramian.data.source import RowSource
from gramian.estimator.answers import PREDICT_ROWS, in_blocks, predicted_numbers
from gramian.estimator.base import KernelEstimator, own_target, required_target
from gramian.estimator.conformal import share
from gramian.estimator.finite import finite_values, quietly, rows_at
from gramian.estimator.fitting import all_or_nothing
from gramian.estimator.kinds import Regressor
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.opening import plan_fit
from gramian.estimator.parameters import KernelParameters
from gramian.estimator.progress import shown_phases
from gramian.estimator.sklearn_kernels import without_noise
from gramian.estimator.summaries import Evidence
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import InputError
from gramian.gp.objective import Objective
from gramian.gp.training import DEFAULT_NOISE, mean_of, plan_process, process_round, train
from gramian.metric.input import INPUT, Input, InputParameters, feature_importances_, learned_input
from gramian.metric.summary import with_metric


class GaussianProcessRegressor(Regressor, KernelEstimator):
    r"""Gaussian process regression for 10² to 10⁶ rows, whose bands are checked on rows it had not seen.

    The model is y = f(x) + ε with f ~ GP(0, k) and ε ~ N(0, noise).

    - Up to 2,000 rows everything is exact.
    - As long as the memory budget holds the tiles of the kernel matrix K (19,000 rows in 1 GB), the mean is
      k(x, X) (K + noise·I)⁻¹ y, solved for by conjugate gradients. Deviations come from the approximation
      below, which makes them a few percent larger.
    - Beyond, the prior covariance is K̃ + D: the multi-resolution approximation K̃ = F Fᵀ (features on each
      row's path) plus the diagonal D = diag(K − K̃). Every row has its exact prior variance, and no variance
      collapses away from landmarks (FITC, or PIC as the blocks' ranks grow).

    Hyperparameters are those with the largest likelihood of a random sample of the rows and of blocks of
    neighbouring rows, which have the density of all rows.

    Parameters
    ----------
    kernel : str or Kernel, default="matern32"
        A name stands for 1.0 times that kernel; the factor is the signal variance. An instance is learned as
        written: ``1.0 * gm.Matern(2.0, nu=2.5) + gm.Linear(5.0)`` has one factor and two lengthscales.
        Hyperparameters are learned of Gaussian, Exponential, Matern, RationalQuadratic, Cauchy, Laplacian,
        Linear and Polynomial kernels and of their sums, products and multiples. For other kernels only the
        noise is learned. scikit-learn's kernels are translated, but for their bounds, or refused; a
        WhiteKernel term replaces ``noise``.
    gamma, degree, coef0, kernel_params
        Of a named kernel. With ``gamma=None`` learning starts at the lengthscale √(Σ variances of the
        features); if nothing is learned, gamma is 1/n_features.
    standardize : bool, default=False
        Scale the columns to mean 0 and deviation 1, as for :class:`KernelRidge`. Lengthscales for each
        feature need no scaling.
    metric : None, "diagonal", "full", LearnedMetric or Metric, default=None
        As for :class:`KernelRidge`: finds by gradients what ``ard`` finds by the likelihood. Each round
        learns kernel and noise from 1,000 rows, starting from the round before; the final fit learns them
        again.
    ard : bool or "auto", default="auto"
        One lengthscale for each feature (named kernels; they start at √d times each feature's deviation, with
        a weak prior about that). "auto": for 2 to 100 dense features.
    noise : float, default=0.1
        Variance of ε in the units of the modelled targets (``normalize_y`` divides them by their deviation).
        Learning starts from it.
    learn_noise : bool, default=True
    optimizer : "lbfgs", callable or None, default="lbfgs"
        How to maximise the log likelihood; None keeps kernel and noise. A callable has scikit-learn's
        signature: ``optimizer(obj_func, initial_theta, bounds)`` returns θ and the loss. It is called once
        for each stage.
    n_restarts_optimizer : int, default=2
        Number of further starts on the first 500 rows: lengthscales each time a quarter as long, or, of a
        kernel instance, log-normal around the first. The best goes on.
    bounds : (float, float), default=(1e-5, 1e5)
        Each parameter stays within these multiples of its starting value.
    learning_rows : int or None, default=5_000
        Rows that hyperparameters are learned from. Up to 2,000: random ones. More: a fifth random (2,000 at
        most), the rest blocks of 250 neighbours. None adds a last stage on all rows, by the multi-resolution
        likelihood, where each step takes two passes.
    max_iter : int, default=100
        Most iterations of L-BFGS in a stage; a last stage that needs more warns ``AccuracyWarning``.
    normalize_y : bool, default=True
        Model (y − mean)/deviation, for each output.
    approximation : str or unfitted approximation, default="auto"
        "auto" is as described above, with a root of rank 500 and rank 200 in blocks of about 400 rows; fewer
        blocks if the budget requires it. Others are "exact", "multiresolution", "lowrankplusblocks",
        "blockdiagonal", or an instance such as ``gm.MultiResolution(root_rank=300, rank=50, n_blocks=80)``,
        which gets as many landmarks as its rank and gives the mean too. Blocks of "auto" are formed in units
        of the lengthscales, those of the others by plain distances, for which features should have similar
        scales.
    memory_budget, random_state, n_jobs, verbose
        As for :class:`KernelRidge`; the bar counts evaluations of the likelihood.

    Attributes
    ----------
    kernel_, noise_ : Kernel, float
        The learned kernel, and the noise variance of normalised targets.
    theta_ : ndarray
        Logarithms of the kernel's parameters and, if it is learned, of the noise.
    log_marginal_likelihood_value_ : float
        For all rows at ``theta_``, by K̃ + D; of normalised targets, summed over outputs.
    n_iter_ : int
        Iterations of L-BFGS in all stages, at least 1.
    learning_ : Learned or None
        ``stages`` with their rows, θ and likelihood; evaluations, whether learning converged, hyperparameters
        at a bound.
    calibration_ : BandCheck
        Errors and deviations on rows that the mean had not seen: ``coverage(0.9)`` of the Gaussian band,
        ``nlpd``, ``rmse`` and ``pit``. If the mean is solved from all rows, a tenth of them (2,000 at most)
        was held out of learning and of a first fit; otherwise each of up to 2,000 rows was left out of all
        the others, by hyperparameters that had seen it.
    posterior_, plan_, rank_, scaler_, metric_, metric_rounds_, feature_importances_ : of :class:`KernelRidge`

    Time: about 100 evaluations of O(Σ b³) for blocks of b learning rows; n² for each iteration of the exact
    mean, which is solved twice; O(n (m d + m r + path²)) for the deviations. Memory as ``plan_`` says. The
    model keeps a reference to the rows, not a copy, for :meth:`log_marginal_likelihood` with a θ; pickles
    and model files leave them out, but for the rows of an exact mean. Ctrl-C during learning keeps the best
    hyperparameters so far, with a warning.

    Source: Snelson and Ghahramani 2006 (FITC), 2007 (PIC); Katzfuss 2017; Rasmussen and Williams 2006.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (1000, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(1000)
    >>> m = gm.GaussianProcessRegressor(random_state=0).fit(X, y)
    >>> mean, std = m.predict([[5.0], [30.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(5.0)) < 0.05), bool(std[0] < 0.05), bool(std[1] > 0.3)
    (True, True, True)
    """

    #: A likelihood is a difference of large numbers and needs float64.
    tile_dtype = "float64"

    _left_out = ("_training",)
    _learns: tuple[str, ...] = (
        *INPUT,
        "learning_",
        "n_iter_",
        "kernel_",
        "noise_",
        "theta_",
        "posterior_",
        "log_marginal_likelihood_value_",
        "calibration_",
        "plan_",
        "rank_",
        "_y_mean",
        "_y_std",
    )

    def __init__(
        self,
        kernel: Any = "matern32",
        *,
        gamma: float | str | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        standardize: bool = False,
        metric: Any = None,
        ard: bool | str = "auto",
        noise: float = DEFAULT_NOISE,
        learn_noise: bool = True,
        optimizer: Any = "lbfgs",
        n_restarts_optimizer: int = 2,
        bounds: tuple[float, float] = (1e-5, 1e5),
        learning_rows: int | None = 5_000,
        max_iter: int = 100,
        normalize_y: bool = True,
        approximation: Any = "auto",
        memory_budget: int | str = "1GB",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.standardize = standardize
        self.metric = metric
        self.ard = ard
        self.noise = noise
        self.learn_noise = learn_noise
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.bounds = bounds
        self.learning_rows = learning_rows
        self.max_iter = max_iter
        self.normalize_y = normalize_y
        self.approximation = approximation
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to rows X (n, d) and targets y (n,) or (n, outputs); a row source X may hold the targets."""
        with all_or_nothing(self), shown_phases(self.verbose) as phases:
            y = own_target(X, y)
            required_target(self, y)
            source = self._rows(X, reset=True)
            targets = NumberTargets(y, source.shape[0])
            targets.refuse_tiny()
            self._flat = targets.flat
            known = self._normalised(targets[slice(0, None)])
            normalised = NumberTargets(known.ravel() if self._flat else known, len(known))
            rows = LabelledRows(source, normalised)
            setup = FitSetup.of(self, phases)
            asked = InputParameters.of(setup, standardize=self.standardize, metric=self.metric)
            models = partial(process_round, self)
            found = learned_input(asked, setup, rows, models, own_bandwidth=True)
            found.keep_in(self)
            train(self, found.prepared(rows), phases).keep_in(self)
            return self

    @property
    def _kernel_parameters(self) -> KernelParameters:
        return replace(super()._kernel_parameters, kernel=without_noise(self.kernel)[0])

    def plan(self, X: Any, y: Any = None) -> Plan:
        """Return the planned sizes and bytes of one pass, without fitting (``y`` gives the outputs)."""
        return plan_fit(self, X, y, partial(plan_process, self))

    feature_importances_ = feature_importances_

    def _evidence(self) -> Evidence:
        plan: Plan = self.plan_
        found = Evidence.of_map(self.posterior_.features)
        learning = () if self.learning_ is None else self.learning_.warnings
        stated = replace(
            found,
            n_rows=plan.n_rows,
            kernel=self.kernel_,
            penalty={"noise variance": self.noise_},
            plan=plan,
            nbytes=self.posterior_.nbytes,
            scores={"log marginal likelihood": self.log_marginal_likelihood_value_},
            solver=(("iterations", f"{self.n_iter_:,}"),),
            warnings=(*found.warnings, *learning),
        )
        return with_metric(stated, self)

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, *, include_noise: bool = False
    ) -> Any:
        """Return the mean of f at the rows, or with ``return_std`` or ``return_cov`` a pair.

        Shapes: mean and deviation (n,) or (n, outputs), covariance (n, n) or (n, n, outputs). Deviation and
        covariance are those of f, as in scikit-learn; ``include_noise=True`` gives those of new observations.
        Time O(n m d) for the mean and O(n path²) for deviations, in chunks; the covariance takes O(n²)
        memory.
        """
        check_is_fitted(self, "posterior_")
        if return_std and return_cov:
            raise InputError("return_std and return_cov are both true. Ask for one of them at a time.")
        source = self._prepared(X)
        mean = self._scaled(mean_of(self.posterior_, source, self._engine()))
        noise = self.noise_ if include_noise else 0.0
        if return_cov:
            self._variance(source)  # raises if not finite; finite variances imply finite covariances
            covariance = self.posterior_.covariance(_all_rows(source), self._engine())
            covariance.flat[:: len(covariance) + 1] += noise
            full = covariance[:, :, None] * np.square(self._y_std)
            return mean, full[:, :, 0] if self._flat else full
        if not return_std:
            return mean
        std = np.sqrt(self._variance(source) + noise)[:, None] * self._y_std
        return mean, predicted_numbers(std, flat=self._flat)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Float64Array:
        """Return the ends of an interval for a new observation at each row, (n, 2) or (n, outputs, 2).

        mean ± q·deviation, with noise, where q is the ⌈coverage·(m + 1)⌉-th smallest of the m absolute scores
        in ``calibration_``; one rank higher for each three hyperparameters that these rows chose. On average
        over new rows it covers as often as you asked, also where the errors are not normal or the kernel is
        wrong; ``predict(return_std=True)`` promises that only of a model that is right.

        Raises ``InputError`` if coverage is not between 0 and 1, or m rows are too few for it: 9 suffice for
        0.9. Source: Papadopoulos et al. 2002; Lei et al. 2018.
        """
        check_is_fitted(self, "posterior_")
        factor = self.calibration_.half_width(share("coverage", coverage), len(self.theta_))
        source = self._prepared(X)
        mean = mean_of(self.posterior_, source, self._engine())
        half = factor * np.sqrt(self._variance(source) + self.noise_)[:, None]
        ends = np.stack([mean - half, mean + half], axis=-1)
        ends = ends * self._y_std[:, None] + self._y_mean[:, None]
        return ends[:, 0] if self._flat else ends

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Float64Array:
        """Return joint draws of f at a few rows, shape (n, n_samples) or (n, outputs, n_samples).

        Uses the covariance of ``predict(return_cov=True)``. Time O(n³), memory O(n²).
        """
        check_is_fitted(self, "posterior_")
        draws = whole_number("n_samples", n_samples, 1)
        source = self._prepared(X)
        rng = as_generator(random_state)
        self._variance(source)  # raises if not finite; finite variances imply finite draws
        engine = self._engine()
        mean = mean_of(self.posterior_, source, engine)
        found = self.posterior_.draws(_all_rows(source), mean, draws, rng, engine)
        found = found * self._y_std[:, None] + self._y_mean[:, None]
        return predicted_numbers(found, flat=self._flat)

    def sample_paths(self, n_samples: int = 1, random_state: Any = None) -> Callable[[Any], Float64Array]:
        """Return functions drawn from the posterior: X ↦ (n, n_samples), or (n, outputs, n_samples).

        They can be evaluated at any rows and as often as you like, and always agree with themselves:
        f(x) = φ(x)ᵀw with w drawn from its posterior N(β, S⁻¹). This is what Matheron's rule gives, without a
        pass over the data. The residual process is left out, so their variance at x is smaller than that of
        :meth:`predict` by D(x) = k(x, x) − ‖φ(x)‖², which is 0 at landmarks and small near them.
        :meth:`sample_y` includes it. Time O(R) a draw for total rank R, then as for ``n_samples`` outputs.
        """
        check_is_fitted(self, "posterior_")
        draws = whole_number("n_samples", n_samples, 1)
        paths = self.posterior_.paths(draws, as_generator(random_state))

        def evaluate(X: Any) -> Float64Array:
            source = self._prepared(X)
            out = np.empty((source.shape[0], paths.n_outputs, paths.n_draws))
            for where, values in paths.blocks(source, chunk_rows=PREDICT_ROWS, engine=self._engine()):
                out[where] = values * self._y_std[:, None] + self._y_mean[:, None]
            return predicted_numbers(out, flat=self._flat)

        return evaluate

    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False) -> Any:
        """Return log p(y) of all training rows for θ (None: ``theta_``), with its gradient if asked for.

        θ has the order of ``theta_``; landmarks and blocks are those of the fit. Targets are normalised as in
        the fit, and outputs are summed.
        """
        check_is_fitted(self, "posterior_")
        if theta is None and not eval_gradient:
            return self.log_marginal_likelihood_value_
        if getattr(self, "_training", None) is None:
            raise InputError(
                "The training rows are not in pickles and model files, so that the likelihood at another "
                "theta is not known here. Fit again, or ask with theta=None, eval_gradient=False."
            )
        objective: Objective = self._training
        values = np.asarray(self.theta_ if theta is None else theta, np.float64)
        size = len(self.theta_)
        if values.shape != (size,) or not np.isfinite(values).all():
            raise InputError(
                f"theta={theta!r} has shape {values.shape}; expected {size} finite numbers: the "
                f"logarithms of the parameters of {self.kernel_!r}"
                + (" and of the noise." if self.learn_noise else ".")
            )
        return objective.value(values) if eval_gradient else objective.moved(values).found().value

    def _prepared(self, X: Any) -> RowSource:
        """Return checked rows, transformed as the kernel expects."""
        return Input.of(self).over(self._rows(X, reset=False))

    def _normalised(self, targets: Float64Array) -> Float64Array:
        p = targets.shape[1]
        self._y_mean, self._y_std = np.zeros(p), np.ones(p)
        if not self.normalize_y:
            return targets
        self._y_mean = targets.mean(axis=0)
        spread = targets.std(axis=0)
        # The deviation of a constant target is only rounding; it must not become a scale.
        rounding = 10.0 * np.finfo(np.float64).eps * np.abs(self._y_mean)
        self._y_std = np.where(spread > rounding, spread, 1.0)
        return (targets - self._y_mean) / self._y_std

    # ---- answers --------------------------------------------------------------------------------

    def _variance(self, source: RowSource) -> Float64Array:
        blocks = self.posterior_.variances(source, chunk_rows=PREDICT_ROWS, engine=self._engine())
        out = in_blocks(quietly(blocks), source.shape[:1])
        return finite_values(out[:, None], partial(rows_at, source))[:, 0]

    def _scaled(self, mean: Float64Array) -> Float64Array:
        return predicted_numbers(mean * self._y_std + self._y_mean, flat=self._flat)


def _all_rows(source: RowSource) -> Any:
    return source.rows(slice(0, source.shape[0]))
