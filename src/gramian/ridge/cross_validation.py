"""Kernel ridge regression that chooses alpha and the kernel by held-out errors."""

from __future__ import annotations

import time
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from gramian._checks import positive_numbers
from gramian._phases import Phases, silent
from gramian._random import as_generator
from gramian._typing import Float64Array, IntArray, RowsLike
from gramian.approximations.setup import FitSetup
from gramian.compression.plan import Plan
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.estimator.answers import predicted_numbers
from gramian.estimator.base import KernelEstimator, required_target
from gramian.estimator.fitting import all_or_nothing, shown_phases
from gramian.estimator.input import scaled_input
from gramian.estimator.labelled import labelled_numbers
from gramian.estimator.mixins import Regressor
from gramian.estimator.parameters import KernelParameters
from gramian.estimator.repeats import without_copies
from gramian.estimator.summaries import FitFacts
from gramian.exceptions import InputError, did_you_mean
from gramian.kernels.gradient import log_parameters
from gramian.kernels.resolve import KERNEL_NAMES, WITHOUT_GAMMA
from gramian.metric.input import planned_source
from gramian.ridge.choosing import warn_of_far_targets
from gramian.ridge.held_out import folds_of
from gramian.ridge.kernel_search import BestKernel, Objective, Refinement, refine, search_gammas
from gramian.ridge.kernel_sums import NumberRows
from gramian.ridge.model import TRAINED, KernelModel
from gramian.ridge.planning import plan_sums
from gramian.ridge.scoring import Scorer, Scores, warn_at_edge, warn_of_unused_weights
from gramian.selection.automatic import (
    AUTO,
    USUAL_ALPHAS,
    chosen_kernel,
    is_auto,
    mean_diagonal,
    penalty_grid,
    refuse_far_rows,
    usual_setup,
)

REFINE = ("lengthscale", "lengthscales")


@dataclass(eq=False, repr=False)
class KernelRidgeCV(Regressor, KernelEstimator):
    r"""Kernel ridge regression with alpha, gamma and lengthscales chosen by held-out errors.

    The sums of one pass serve every alpha, and one more pass gives every row's exact leave-one-out residual
    e_i = (y_i − ŷ_i)/(1 − h_i) for each of them: that of a fit to the other rows on the same features. More
    than three gammas are compared on a ninth and a third of the rows first; from the best of them the search
    climbs on all rows until both neighbours of the best gamma have been tried. Without arguments the kernel
    is chosen on samples, as by ``KernelRidge(kernel="auto")``, and alpha among five values around its own.

    Parameters
    ----------
    alphas : "auto" or sequence of float, default="auto"
        Ridge penalties to choose from. "auto": 0.1 to 1,000 times the penalty of the kernel's choice, a
        decade apart; for a kernel that was given 0.001 to 10 times the mean of k(x, x). "auto" divides sample
        weights by their mean, so that only their ratios matter; a list is for the weights as they are.
    kernel : str, Kernel or callable, default="auto"
        As for :class:`gramian.KernelRidge`. "auto" with ``gamma`` or ``gammas`` is "rbf".
    gamma : float, "auto", "scale" or None, default=None
    degree, coef0, kernel_params
        As for :class:`gramian.KernelRidge`.
    gammas : sequence of float, optional
        Values to choose gamma from, for a kernel by name; ``gamma`` must be None then.
    approximation : str or unfitted approximation, default="auto"
        As for :class:`gramian.KernelRidge`; "exact" takes every row as a landmark, O(n³) time and O(n²)
        memory. Ranks and block numbers are the square root of a third or ninth on those parts of the rows.
    fit_intercept : bool, default=False
        Whether to add an intercept that is not penalised. Without it a warning names
        targets that lie 10 deviations from 0 or more: the penalty draws predictions towards 0.
    scoring : str or callable, optional
        What judges held-out predictions, as in scikit-learn's ``RidgeCV``; None is the negative mean squared
        error (weighted). Rows of weight 0 are not judged; a scorer or function that takes ``sample_weight``
        gets the others' weights, and a warning says where one takes none. A scorer takes n numbers for each
        output and alpha of a pass.
    cv : None, "gcv", int or splitter
        None: exact leave-one-out. "gcv": generalised cross-validation, e_i/(1 − mean h). An int or a splitter
        of scikit-learn's: folds, with bases, a pass and an elimination for each alpha in every one (a
        splitter's folds are of all rows, so that no gamma is dropped early). Copies of a row are held out
        together, except by a splitter.
    alpha_per_target : bool, default=False
        Whether each output has an alpha of its own.
    refine : False, "lengthscale" or "lengthscales"
        Minimise the dense leave-one-out error of at most 2,000 rows from the best kernel, by the gradient:
        over the kernel's parameters, or over a lengthscale for each feature, and alpha. The result is kept
        where the score on all rows is better.
    store_cv_results : bool, default=False
        Whether to keep the held-out residuals (cv None or "gcv").
    standardize : bool, default=False
        Scale the columns to mean 0 and deviation 1, as for :class:`gramian.KernelRidge`. The scales are those
        of all rows, also for folds.
    memory_budget, tile_dtype, random_state, n_jobs, verbose
        As for :class:`gramian.KernelRidge`.

    Attributes
    ----------
    alpha_ : float, or ndarray (outputs,) with ``alpha_per_target``
    gamma_ : float or None
        None where the kernel is no name, or was refined; ``kernel_`` says it in any case.
    kernel_ : Kernel
    choice_ : KernelChoice
        Where kernel or gamma are "auto": what was tried on the samples.
    best_score_ : float, or ndarray (outputs,) with ``alpha_per_target``
    cv_results_ : dict
        ``alphas`` (a,), ``gammas`` (g,) or None, ``scores`` and ``standard_errors`` (a, g), or
        (a, g, outputs) with ``alpha_per_target``, ``n_rows`` (g,): the rows that a gamma was last compared
        on, and ``degrees_of_freedom`` (a, g): the trace of the hat matrix there, or None with folds.
    refinement_ : Refinement
        With ``refine``: errors before and after, and whether it was kept.
    loo_residuals_ : ndarray of the shape of y
        With ``store_cv_results``: y less its held-out prediction, at the chosen alpha and kernel.
    scaler_, predictor_, plan_, solution_, rank_, intercept_, n_features_in_ : as for
        :class:`gramian.KernelRidge`.

    Cost: for each gamma two passes of O(n (m d + m r + r²)), the second with O(n r²) for each alpha (for a
    root alone and a coupled core once for all), and a solve for each alpha. Memory as ``plan_`` says, alphas
    in groups that fit the budget; independent of n but for what is kept. Raises ``InputError`` for unusable
    input, ``BudgetError`` for too small a budget; warns ``AccuracyWarning`` where a leverage is 1 up to
    rounding, and ``UserWarning`` where the best of a list of alphas is its smallest or largest.

    Source: Allen 1974 (leave-one-out); Golub, Heath and Wahba 1979; Jamieson and Talwalkar 2016 (halving).

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((1000, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(1000)
    >>> m = gm.KernelRidgeCV(gammas=[0.1, 1, 10, 1000], random_state=0).fit(X, y)
    >>> m.gamma_, bool(0.008 < -m.best_score_ < 0.013)  # the noise has variance 0.01
    (10.0, True)
    >>> m.cv_results_["scores"].shape
    (5, 4)
    """

    plan_: Plan = field(init=False)

    _learns = (
        *TRAINED,
        "scaler_",
        "choice_",
        "alpha_",
        "gamma_",
        "best_score_",
        "cv_results_",
        "refinement_",
        "loo_residuals_",
    )

    alphas: Any = AUTO
    _: KW_ONLY
    kernel: Any = AUTO
    gamma: float | str | None = None
    gammas: Any = None
    degree: int = 3
    coef0: float = 1.0
    kernel_params: dict[str, Any] | None = None
    approximation: Any = "auto"
    fit_intercept: bool = False
    scoring: Any = None
    cv: Any = None
    alpha_per_target: bool = False
    refine: Any = False
    store_cv_results: bool = False
    standardize: bool = False
    memory_budget: int | str = "1GB"
    tile_dtype: str = "auto"
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X (n, d) and targets y (n,) or (n, outputs), by default those of a row source."""
        began = time.perf_counter()
        with all_or_nothing(self), shown_phases(self.verbose) as phases:
            alphas, gammas, y = self._given_alphas(), self._given_gammas(), required_target(self, X, y)
            source = self._rows(X, reset=True)
            sample = labelled_numbers(source, y, sample_weight)
            self._flat = sample.targets.flat
            if not self.fit_intercept:
                warn_of_far_targets(sample.targets)
            objective, setup = self._objective(sample, y), self._setup(phases)
            refuse_far_rows(sample, setup.auto_names)
            given, place, within = sample, None, np.zeros(sample.n_outputs)
            if not isinstance(objective.cv, list):  # folds of a splitter's, which name rows
                means = self.scoring is None
                sample, place = without_copies(given, setup.run.memory_bytes, means=means)
            if place is not None:
                apart = given.numbers - sample.numbers[place]
                within = np.average(np.square(apart), axis=0, weights=given.weights)
            sample = sample.relative() if alphas is None else sample
            self._check_refine(setup.kernel, source)
            own = "kernel" in setup.auto_names or self.refine == REFINE[1]
            own = own or setup.frozen
            input_ = scaled_input(setup.kernel, self.standardize, sample.source, sample.weights, quiet=own)
            sample = input_.prepared(sample)
            setup = replace(setup, kernel=setup.kernel.settled(sample.source, sample.weights))
            rng = as_generator(self.random_state)
            # One seed for all kernels, so that they are compared on the same landmarks.
            seed = self.random_state if isinstance(self.random_state, Integral) else int(rng.integers(2**63))
            choice = chosen_kernel(setup, sample, rng)
            setup = replace(setup, run=replace(setup.run, random_state=seed))
            if choice is not None:
                setup = setup.with_kernel(choice.kernel)
            if alphas is None:
                level = mean_diagonal(setup.kernel.resolve_for(sample.source), sample)
                alphas = level * USUAL_ALPHAS if choice is None else penalty_grid(level, choice.alpha)
            kinds = [setup.kernel.gamma] if gammas is None else gammas.tolist()
            setups = [replace(setup, kernel=replace(setup.kernel, gamma=gamma)) for gamma in kinds]
            tried = np.zeros(1) if gammas is None else gammas
            best, table, n_rows = search_gammas(objective, setups, tried, sample, alphas, rng)
            refinement = None
            if self.refine:
                each = self.refine == "lengthscales"
                best, refinement = refine(objective, setup, best, sample, rng, each_feature=each)
            if not isinstance(self.alphas, str):
                warn_at_edge(alphas, best.alphas[best.scores.best])
            plan = best.model.plan.with_seconds(time.perf_counter() - began)
            model, held_out = replace(best.model, plan=plan, input=input_), best.residuals
            if held_out is not None:
                held_out = held_out if place is None else held_out[place] + apart
                held_out = predicted_numbers(held_out, flat=self._flat)
            chosen = {"choice_": choice, "refinement_": refinement, "loo_residuals_": held_out}
            self._keep(model.state() | {name: value for name, value in chosen.items() if value is not None})
            within = within if np.ndim(best.scores.top) else within.mean()
            self._learn(best, table, n_rows, alphas, setup.kernel.kernel, kinds, refinement, within)
        return self

    def predict(self, X: RowsLike) -> Float64Array:
        """Return f(x) per row, shape (n,) or (n, outputs). Time O(n (route + m d))."""
        check_is_fitted(self, "predictor_")
        values = KernelModel.of(self).finite(self._rows(X, reset=False), Engine(self.n_jobs))
        return predicted_numbers(values, flat=self._flat)

    def _evidence(self) -> FitFacts:
        facts = KernelModel.of(self).facts(alpha=self.alpha_)
        return replace(facts, scores={"best score": self.best_score_})

    def plan(self, X: RowsLike, y: ArrayLike | None = None) -> Plan:
        """Predict sizes and bytes of one fit to all rows, with the first gamma."""
        return self._plan_fit(X, y, self._planned)

    def _planned(self, source: RowSource, n_outputs: int) -> Plan:
        gammas, setup = self._given_gammas(), self._setup().planning()
        source = planned_source(setup, source)
        alphas = USUAL_ALPHAS if (given := self._given_alphas()) is None else given
        kernel = replace(setup.kernel, gamma=setup.kernel.gamma if gammas is None else gammas[0])
        return plan_sums(replace(setup, kernel=kernel, alpha=alphas), source, n_outputs)[0]

    @property
    def _named_kernel(self) -> Any:
        """The kernel, which is "rbf" if only gamma was given."""
        named = is_auto(self.kernel) and (self.gammas is not None or self.gamma not in (None, AUTO))
        return "rbf" if named else self.kernel

    def _setup(self, phases: Phases = silent) -> FitSetup:
        """Return the setup of a fit."""
        setup = FitSetup.of(self, phases)
        return usual_setup(replace(setup, kernel=replace(setup.kernel, kernel=self._named_kernel)))

    def _given_alphas(self) -> Float64Array | None:
        if is_auto(self.alphas):
            return None
        if isinstance(self.alphas, str):
            raise InputError(f"alphas={self.alphas!r} must be positive numbers, or 'auto'.")
        return positive_numbers("alphas", self.alphas)

    def _learn(
        self,
        best: BestKernel,
        table: list[Scores | None],
        n_rows: IntArray,
        alphas: Float64Array,
        kernel: object,
        gammas: list[Any],
        refinement: Refinement | None,
        within: Float64Array,
    ) -> None:
        """Keep what was chosen; ``within`` is the variance of targets of equal rows about their mean."""
        number = best.scores.best
        self.alpha_, self.best_score_ = _as_number(best.alphas[number]), _as_number(best.scores.top - within)
        named = isinstance(kernel, str) and kernel in KERNEL_NAMES and kernel not in WITHOUT_GAMMA
        kept = refinement is not None and refinement.kept
        values = [1.0 / self.n_features_in_ if g is None else float(g) for g in gammas]
        self.gamma_ = values[best.number] if named and not kept else None
        tried = [s for s in table if s is not None]
        freedoms = [s.freedom for s in tried if s.freedom is not None]
        self.cv_results_ = {
            "alphas": alphas,
            "gammas": np.asarray(values) if named else None,
            "scores": np.stack([s.values - within for s in tried], axis=1),
            "standard_errors": np.stack([s.errors for s in tried], axis=1),
            "n_rows": n_rows,
            "degrees_of_freedom": np.stack(freedoms, axis=1) if len(freedoms) == len(tried) else None,
        }

    def _given_gammas(self) -> Float64Array | None:
        if self.gammas is None:
            return None
        gammas, kernel = positive_numbers("gammas", self.gammas), self._named_kernel
        if not isinstance(kernel, str) or self._precomputed or kernel in WITHOUT_GAMMA:
            raise InputError(
                f"gammas was given with kernel={kernel!r}, which has no gamma to choose. Pass a name "
                "such as kernel='rbf', or gammas=None (refine='lengthscale' learns a Kernel's parameters)."
            )
        if self.gamma is not None:
            raise InputError(
                f"gamma={self.gamma!r} and gammas were both given. Pass gamma=None, or no gammas."
            )
        return gammas

    def _objective(self, sample: NumberRows, y: ArrayLike) -> Objective:
        cv = folds_of(self.cv, sample.n, y)
        count = len(sample.counted)
        if count < 2:
            raise InputError(
                f"held-out errors need at least 2 samples with a weight; got {count} sample(s). "
                "Pass more rows, or use KernelRidge with a given alpha."
            )
        if self.store_cv_results and not (cv is None or cv == "gcv"):
            raise InputError(
                "store_cv_results=True keeps leave-one-out residuals, which folds do not have. Use cv=None "
                "or cv='gcv', or store_cv_results=False."
            )
        warn_of_unused_weights(self.scoring, sample.weights)
        scorer = Scorer(self.scoring, per_target=bool(self.alpha_per_target) and sample.targets.shape[1] > 1)
        return Objective(scorer, cv, bool(self.store_cv_results))

    def _check_refine(self, kernel: KernelParameters, source: RowSource) -> None:
        if self.refine is False or self.refine is None:
            return
        if self.refine not in REFINE:
            raise InputError(
                f"refine={self.refine!r} is unknown. Choose False, {' or '.join(map(repr, REFINE))}."
                + did_you_mean(self.refine, REFINE)
            )
        if self._precomputed:
            raise InputError(
                f"refine={self.refine!r} learns a kernel's parameters, but kernel='precomputed' has none. "
                "Pass rows with a kernel's name, or refine=False."
            )
        # Whatever its parameters, a kernel has a gradient by them or has none.
        log_parameters(kernel.resolve(source.shape[1]))


def _as_number(value: float | Float64Array) -> Any:
    """Return a number of no dimension as Python's."""
    return float(value) if np.ndim(value) == 0 else np.asarray(value)
