"""Gaussian process regression on nested bases."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from gramian._checks import several, whole_number
from gramian._random import as_generator
from gramian._typing import Float64Array, RandomState, RowsLike
from gramian.compression.plan import Plan
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.estimator.answers import predicted_numbers
from gramian.estimator.base import KernelEstimator, required_target
from gramian.estimator.conformal import share
from gramian.estimator.fitting import all_or_nothing, shown_phases
from gramian.estimator.input import INPUT, Input, feature_importances_
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.labels import checked_weights
from gramian.estimator.mixins import Regressor
from gramian.estimator.summaries import FitFacts
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import InputError
from gramian.gp.likelihood import LikelihoodObjective
from gramian.gp.parameters import DEFAULT_NOISE, ProcessParameters
from gramian.gp.posterior import drawn_paths, joint_draws
from gramian.gp.training import fit_process, mean_of, moments_of, plan_process, prior_covariance
from gramian.metric.input import with_metric


@dataclass(eq=False, repr=False)
class GaussianProcessRegressor(Regressor, KernelEstimator):
    r"""Gaussian process regression for 10² to 10⁶ rows, whose bands are checked on rows it had not seen.

    The model is y = f(x) + ε with f ~ GP(0, k) and ε ~ N(0, noise).

    Up to 2,000 rows everything is exact. Beyond, three posteriors predict held-out rows, and the fastest of
    those within 0.01 of the least loss (the mean of NLPD and log RMSE) is taken; ``plan_`` states the losses:

    - neighbours: mean and deviation at x from its m = 64 to 512 nearest rows in units of the lengthscales.
      They jump a little where the neighbours change.
    - exact mean: k(x, X) (K + noise·I)⁻¹ y by conjugate gradients, while the memory budget holds the tiles
      of K (19,000 rows in 1 GB); deviations from the neighbours or from the next.
    - multi-resolution: the prior covariance K̃ + D with K̃ = F Fᵀ (features on each row's path) and the
      diagonal D = diag(K − K̃), so that no variance collapses away from landmarks (FITC, PIC).

    Hyperparameters have the largest likelihood of a random sample of the rows and of blocks of neighbouring
    rows, from several starts; beyond 2,000 rows the start and stage that predict left-out rows best are kept.

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
        Scale the columns to mean 0 and deviation 1; lengthscales for each feature need no scaling.
    metric : None, "diagonal", "full", LearnedMetric or Metric, default=None
        As for :class:`KernelRidge`: finds by gradients what ``ard`` finds by the likelihood. Each round
        learns kernel and noise from 1,000 rows, starting from the round before; the final fit learns again.
    ard : bool or "auto", default="auto"
        One lengthscale for each feature (named kernels; they start at √d times each feature's deviation, with
        a weak prior about that). "auto": for 2 to 100 dense features.
    noise : float or array of shape (n,), default=0.1
        Variance of ε in the units of the modelled targets (``normalize_y`` divides them by their deviation).
        Learning starts from it. An array gives each row its own, as scikit-learn's ``alpha``; learned is one
        factor of them, ``learn_noise=False`` takes them as they are. New observations have their mean.
    learn_noise : bool, default=True
    optimizer : "lbfgs", callable or None, default="lbfgs"
        How to maximise the log likelihood; None keeps kernel and noise. A callable has scikit-learn's
        signature: ``optimizer(obj_func, initial_theta, bounds)`` returns θ and the loss.
    n_restarts_optimizer : int, default=2
        Further starts on the first 500 rows: lengthscales each time a quarter as long, or, of a kernel
        instance, log-normal around the first. The best goes on.
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
        blocks if the budget requires it. "neighbours" has as many of them as held-out rows show to matter.
        Others are "exact", "multiresolution", "lowrankplusblocks", "blockdiagonal", or an instance such as
        ``gm.MultiResolution(root_rank=300, rank=50, n_blocks=80)``, which gets as many landmarks as its rank
        and gives the mean too. Blocks of "auto" are formed in units of the lengthscales, those of the others
        by plain distances, for which features should have similar scales.
    calibration : "loo" or None, default="loo"
        "loo" multiplies deviations of new observations by the factor that errors of left-out rows ask for:
        one for all rows, or of 100 such rows and where that predicts their errors better, one for each row,
        exp(w₀ + w₁ log deviation + w₂ mean + w₃ mean²), standardised.
    memory_budget, random_state, n_jobs, verbose : as for :class:`KernelRidge`

    Attributes
    ----------
    kernel_, noise_, theta_ : Kernel, float, ndarray
        The learned kernel, the noise variance of normalised targets, and the logarithms of the kernel's
        parameters and, if it is learned, of the noise.
    log_marginal_likelihood_value_ : float
        For all rows at ``theta_``, by K̃ + D; of normalised targets, summed over outputs.
    n_iter_ : int
        Iterations of L-BFGS in all stages, at least 1.
    y_mean_, y_std_ : ndarray of shape (outputs,)
        What normalised targets are shifted by and multiplied by; 0 and 1 with ``normalize_y=False``.
    learning_, optimizer_report_ : Learned or None
        Every start and stage with rows, θ, likelihood and loss on left-out rows; convergence, bounds. Drawn
        by :class:`gramian.plotting.LearningDisplay`.
    calibration_ : BandCheck
        Errors and deviations on rows that the mean had not seen: ``coverage(0.9)`` of the Gaussian band,
        ``nlpd``, ``rmse``, ``pit``, ``spread`` and ``scale``, the factor of ``calibration``. Beyond 2,000
        rows a tenth of them (2,000 at most) is held out of learning; up to there each was left out of all the
        others, by hyperparameters that had seen it.
    posterior_, plan_, rank_, scaler_, metric_, metric_rounds_, feature_importances_ : of :class:`KernelRidge`

    Time: about 100 evaluations of O(Σ b³) for blocks of b learning rows; n² for each iteration of the exact
    mean, which is solved twice; O(n (m d + m r + path²)) for the bases. Memory as ``plan_`` says. The
    model keeps a reference to the rows for :meth:`log_marginal_likelihood` with a θ; pickles and model files
    leave them out, but for those of an exact mean or neighbours. Ctrl-C during learning keeps the best
    hyperparameters so far, with a warning.

    Source: Vecchia 1988; Snelson and Ghahramani 2006 (FITC), 2007 (PIC); Rasmussen and Williams 2006.

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
    _learns = (
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
        "y_mean_",
        "y_std_",
    )

    kernel: Any = "matern32"
    _: KW_ONLY
    gamma: float | str | None = None
    degree: int = 3
    coef0: float = 1.0
    kernel_params: dict[str, Any] | None = None
    standardize: bool = False
    metric: Any = None
    ard: bool | str = "auto"
    noise: float | ArrayLike = DEFAULT_NOISE
    learn_noise: bool = True
    optimizer: Any = "lbfgs"
    n_restarts_optimizer: int = 2
    bounds: tuple[float, float] = (1e-5, 1e5)
    learning_rows: int | None = 5_000
    max_iter: int = 100
    normalize_y: bool = True
    approximation: Any = "auto"
    calibration: str | None = "loo"
    memory_budget: int | str = "1GB"
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(
        self, X: RowsLike | None, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit to rows X (n, d) and targets y (n,) or (n, outputs); a row source X may hold the targets.

        ``sample_weight`` : a row of weight w is the mean of w observations at x, with noise/w; bands and
        choices count it w times, and weight 0 leaves it out. Where the noise is learned, weights are divided
        by their mean, and copies of a row (X and y) are one row.
        """
        with all_or_nothing(self), shown_phases(self.verbose) as phases:
            y = required_target(self, X, y)
            source = self._rows(X, reset=True)
            targets = NumberTargets(y, source.shape[0])
            targets.refuse_tiny()
            rows = LabelledRows(source, targets, checked_weights(sample_weight, source.shape[0]))
            self._keep(fit_process(rows, ProcessParameters.of(self, phases)))
            self._flat = targets.flat
            return self

    def plan(self, X: RowsLike, y: ArrayLike | None = None) -> Plan:
        """Return the planned sizes and bytes of one pass, without fitting (``y`` gives the outputs)."""
        return self._plan_fit(X, y, partial(plan_process, ProcessParameters.of(self)))

    feature_importances_ = feature_importances_
    optimizer_report_ = property(attrgetter("learning_"))

    def _evidence(self) -> FitFacts:
        plan: Plan = self.plan_
        facts = FitFacts.of_map(self.posterior_.features)
        learning = () if self.learning_ is None else self.learning_.warnings
        stated = replace(
            facts,
            n_rows=plan.n_rows,
            kernel=self.kernel_,
            penalty={"noise variance": self.noise_},
            plan=plan,
            nbytes=self.posterior_.nbytes,
            scores={"log marginal likelihood": self.log_marginal_likelihood_value_},
            solver=(("iterations", f"{self.n_iter_:,}"),),
            warnings=(*facts.warnings, *learning),
        )
        return with_metric(stated, Input.of(self), getattr(self, "feature_names_in_", None))

    def predict(
        self, X: RowsLike, return_std: bool = False, return_cov: bool = False, *, include_noise: bool = False
    ) -> Any:
        """Return the mean of f at the rows, or with ``return_std`` or ``return_cov`` a pair.

        Shapes: mean and deviation (n,) or (n, outputs), covariance (n, n) or (n, n, outputs). Deviation and
        covariance are those of f, as in scikit-learn; ``include_noise=True`` gives those of new observations,
        calibrated. With neighbours, covariances have the correlations of the multi-resolution approximation.
        Before ``fit`` they are those of the prior: mean 0 and the kernel as given. Time O(n m³) by m
        neighbours, else O(n m d) and O(n path²); the covariance takes O(n²) memory.
        """
        if return_std and return_cov:
            raise InputError("return_std and return_cov are both true. Ask for one of them at a time.")
        if not hasattr(self, "posterior_"):
            prior = self._prior(X)
            prior.flat[:: len(prior) + 1] += include_noise * ProcessParameters.of(self).noise
            spread, zero = prior if return_cov else np.sqrt(np.diag(prior)), np.zeros(len(prior))
            return (zero, spread) if return_cov or return_std else zero
        source = self._prepared(X)
        if not (return_std or return_cov):
            return self._scaled(mean_of(self.posterior_, source, Engine(self.n_jobs)))
        # Variances that are not finite raise; finite ones imply finite covariances.
        values, variance = moments_of(self.posterior_, source, Engine(self.n_jobs))
        mean, noise = self._scaled(values), self.noise_ if include_noise else 0.0
        deviations, unit = np.sqrt(variance + noise), np.broadcast_to(self.y_std_, values.shape)
        if include_noise:
            unit = unit * self.calibration_.factor(values, deviations)
        if return_cov:
            covariance = self.posterior_.covariance(
                source.rows(slice(0, source.shape[0])), Engine(self.n_jobs)
            )
            covariance.flat[:: len(covariance) + 1] += noise
            full = covariance[:, :, None] * unit[:, None] * unit
            return mean, full[:, :, 0] if self._flat else full
        return mean, predicted_numbers(deviations[:, None] * unit, flat=self._flat)

    def predict_interval(self, X: RowsLike, coverage: float = 0.9) -> Float64Array:
        """Return the ends of an interval for a new observation at each row, (n, 2) or (n, outputs, 2).

        mean ± q·deviation, with noise and ``calibration``, where q is the ⌈coverage·(m + 1)⌉-th smallest of
        the m absolute scores in ``calibration_``; one rank higher for each three numbers that these rows
        chose. On average over new rows it covers as often as you asked, also if errors are not normal or the
        kernel is wrong. Raises ``InputError`` if coverage is not between 0 and 1, or m rows are too few for
        it: 9 suffice for 0.9. Source: Papadopoulos et al. 2002; Lei et al. 2018.
        """
        check_is_fitted(self, "posterior_")
        factor = self.calibration_.half_width(share("coverage", coverage), len(self.theta_))
        mean, unit = self._mean_and_unit(X)
        ends = np.stack([mean - factor * unit, mean + factor * unit], axis=-1)
        ends = ends * self.y_std_[:, None] + self.y_mean_[:, None]
        return np.asarray(ends[:, 0] if self._flat else ends)

    def predict_quantiles(
        self, X: RowsLike, quantiles: float | Sequence[float] = (0.1, 0.5, 0.9)
    ) -> Float64Array:
        """Return quantiles of a new observation at each row, (n, quantiles) or (n, outputs, quantiles).

        A single number gives (n,) or (n, outputs). mean + s·deviation, with noise, where s is that quantile
        of the signed scores in ``calibration_``; quantiles never cross. Raises as :meth:`predict_interval`.
        """
        check_is_fitted(self, "posterior_")
        single = isinstance(quantiles, numbers.Real)
        wanted = [share("quantiles", q) for q in several("quantiles", [quantiles] if single else quantiles)]
        if not wanted:
            raise InputError("quantiles is empty: pass at least one number between 0 and 1, such as 0.5.")
        factors = np.array([self.calibration_.quantile(q, len(self.theta_)) for q in wanted])
        mean, unit = self._mean_and_unit(X)
        values = (mean[:, :, None] + unit[:, :, None] * factors.T) * self.y_std_[:, None]
        values += self.y_mean_[:, None]
        values = values[:, 0] if self._flat else values
        return np.asarray(values[..., 0] if single else values)

    def sample_y(self, X: RowsLike, n_samples: int = 1, random_state: RandomState = 0) -> Float64Array:
        """Return joint draws of f at a few rows, shape (n, n_samples) or (n, outputs, n_samples).

        Uses ``predict(return_cov=True)``; before ``fit`` they are drawn from the prior. Time O(n³), memory
        O(n²).
        """
        draws = whole_number("n_samples", n_samples, 1)
        if not hasattr(self, "posterior_"):
            return joint_draws(self._prior(X), draws, as_generator(random_state))
        source = self._prepared(X)
        rng = as_generator(random_state)
        engine = Engine(self.n_jobs)
        mean, _ = moments_of(self.posterior_, source, engine)  # raises unless variances are finite
        values = self.posterior_.draws(source.rows(slice(0, source.shape[0])), mean, draws, rng, engine)
        values = values * self.y_std_[:, None] + self.y_mean_[:, None]
        return predicted_numbers(values, flat=self._flat)

    def sample_paths(
        self, n_samples: int = 1, random_state: RandomState = None
    ) -> Callable[[Any], Float64Array]:
        """Return functions drawn from the posterior: X ↦ (n, n_samples), or (n, outputs, n_samples).

        They can be evaluated at any rows, always agree with themselves, and have the mean and deviation of
        :meth:`predict` (up to 3 %): f(x) = φ(x)ᵀw + e(x) with w drawn from N(β, S⁻¹), and e(x) what the
        features leave of a function drawn from the prior by 2,048 random features (Matheron's rule). Raises
        ``InputError`` for kernels without random features. Time O(R landmarks) a draw, of 512 at least, for
        total rank R, then O(n (m + 2,048) (d + draws)). Source: Wilson et al. 2020.
        """
        check_is_fitted(self, "posterior_")
        draws = whole_number("n_samples", n_samples, 1)
        paths = drawn_paths(self.posterior_, draws, as_generator(random_state))

        def evaluate(X: RowsLike) -> Float64Array:
            source = self._prepared(X)
            out = np.empty((source.shape[0], len(self.y_std_), draws))
            for where, values in paths(source, Engine(self.n_jobs)):
                out[where] = values * self.y_std_[:, None] + self.y_mean_[:, None]
            return predicted_numbers(out, flat=self._flat)

        return evaluate

    def log_marginal_likelihood(self, theta: ArrayLike | None = None, eval_gradient: bool = False) -> Any:
        """Return log p(y) of all training rows for θ (None: ``theta_``), with its gradient if asked for.

        θ has the order of ``theta_``. Landmarks, blocks and normalisation are the fit's; outputs are summed.
        Raises ``InputError`` if the rows that ``fit`` was given have been written over since.
        """
        check_is_fitted(self, "posterior_")
        if theta is None and not eval_gradient:
            return self.log_marginal_likelihood_value_
        if getattr(self, "_training", None) is None:
            raise InputError(
                "The training rows are not in pickles and model files, so that the likelihood at another "
                "theta is not known here. Fit again, or ask with theta=None, eval_gradient=False."
            )
        objective: LikelihoodObjective = self._training
        values = objective.checked(self.theta_ if theta is None else theta)
        return objective.value(values) if eval_gradient else objective.moved(values).likelihood().value

    def _prior(self, X: RowsLike) -> Float64Array:
        """Return the prior covariance of f at the rows, without keeping anything of them."""
        with all_or_nothing(self, keep=False):
            return prior_covariance(ProcessParameters.of(self), self._rows(X, reset=True))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False  # the prior answers
        return tags

    def _mean_and_unit(self, X: RowsLike) -> tuple[Float64Array, Float64Array]:
        """Return mean and scaled deviation of new observations, (n, outputs), of normalised targets."""
        mean, variance = moments_of(self.posterior_, self._prepared(X), Engine(self.n_jobs))
        deviations = np.sqrt(variance + self.noise_)
        return mean, deviations[:, None] * self.calibration_.factor(mean, deviations)

    def _prepared(self, X: RowsLike) -> RowSource:
        """Return checked rows, transformed as the kernel expects."""
        return Input.of(self).over(self._rows(X, reset=False))

    def _scaled(self, mean: Float64Array) -> Float64Array:
        return predicted_numbers(mean * self.y_std_ + self.y_mean_, flat=self._flat)
