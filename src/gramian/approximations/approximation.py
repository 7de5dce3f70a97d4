"""Base class of all approximations as transformers: compressed matrix, features, error, memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import partial
from inspect import Signature, signature
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gramian._checks import one_of, positive_number, refuse_masked, whole_number
from gramian._random import as_generator
from gramian._typing import Array, RandomState, RowsLike
from gramian.compression.builder import Builder, BuildSettings
from gramian.compression.costs import Workload
from gramian.compression.features import CLIPPED, FeatureMap
from gramian.compression.plan import Plan, make_plan
from gramian.compression.quality import (
    ErrorEstimate,
    SpectralError,
    block_intervals,
    measure,
    spectral_error,
    trace_error,
)
from gramian.compression.report import Report, report_sizes
from gramian.compression.residual import Residual
from gramian.compression.storage import dense_features, operator_of, stored_levels
from gramian.data.source import RowSource
from gramian.engine import Engine, Run
from gramian.estimator.answers import finite_values, overflowing, rows_at
from gramian.estimator.base import KernelEstimator, read_paired_rows
from gramian.estimator.constraints import CONSTRAINTS, Check
from gramian.estimator.fitting import all_or_nothing, shown_phases
from gramian.estimator.input import SCALE_FIRST, warn_of_scales
from gramian.estimator.parameters import KernelParameters, settled_run
from gramian.estimator.summaries import FitFacts
from gramian.exceptions import InputError, quoted
from gramian.kernels.precomputed import bound, released
from gramian.kernels.spectral import DRAWS
from gramian.landmarks.partition import METHODS as PARTITIONS
from gramian.landmarks.rules import METHODS as LANDMARKS
from gramian.landmarks.rules import PICKED
from gramian.operators import BlockOperator, CrossOperator, DiagonalPlus

Made = TypeVar("Made")
#: Learned attributes of every approximation.
LEARNED: tuple[str, ...] = ("features_", "plan_")
#: The shared parameters that stand after those of a method.
LAST = ("memory_budget", "tile_dtype", "random_state", "n_jobs", "verbose")


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def approximation(kind: type[Made]) -> type[Made]:
    """Make a transformer of a class that declares its own parameters: they stand between the shared ones."""
    made = dataclass(eq=False, repr=False, kw_only=True)(kind)
    init: Any = made.__init__
    init.__signature__ = Signature(
        sorted(signature(init).parameters.values(), key=lambda each: each.name in LAST),
        return_annotation=None,
    )
    return made


@dataclass(init=False, eq=False, repr=False)
class Approximation(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    """Base of the approximations, with the parameters of all; ``fit`` builds bases, core and operator."""

    kernel: Any = "rbf"
    _: KW_ONLY
    gamma: float | str | None = None
    degree: int = 3
    coef0: float = 1.0
    kernel_params: dict[str, Any] | None = None
    memory_budget: int | str = "1GB"
    tile_dtype: str = "auto"
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    #: What builds the method, the first by default. The table of methods and model files take them from here.
    builders: ClassVar[tuple[type[Builder], ...]]
    #: Whether n floats of diagonal are stored beside the bases; some methods have it as a parameter.
    diagonal = False
    _learns = LEARNED

    def _restore(self, state: dict[str, Any]) -> None:
        """Set the learned attributes; there is no operator without the training rows."""
        super()._restore(state)
        self.kernel_ = self.features_.kernel
        self.rank_ = self._n_features_out = self.features_.rank

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.tile_dtype != "float64":
            # Features have the tiles' dtype: float32 if requested, and by default above 3,000 rows.
            tags.transformer_tags.preserves_dtype = []
        return tags

    def builder(self) -> Builder:
        """Return the builder with this estimator's sizes, all checked."""
        return self._sizes(self.builders[0])

    def _sizes(self, kind: Callable[..., Made], **others: object) -> Made:
        """Return a builder whose fields are this estimator's parameters, each checked, but for ``others``."""
        names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
        names &= set(self._get_param_names()) - set(others)
        return kind(**{name: checked(name, getattr(self, name)) for name in names}, **others)

    def fit(self, X: RowsLike, y: ArrayLike | None = None) -> Self:
        """Compress the Gram matrix of the rows of X. ``y`` is ignored.

        Time and memory are those of :meth:`plan`; the operator also stores n·rank numbers of bases.
        """
        with all_or_nothing(self), shown_phases(self.verbose) as phases:
            source = self._rows(X, reset=True)
            rng = as_generator(self.random_state)
            phases("sizes")
            plan, kernel, run = self._planned(source, rng)
            run = replace(run, phases=phases)
            warn_of_scales(source, kernel, cure=SCALE_FIRST)
            began = time.perf_counter()
            features = plan.build(source, kernel, run)
            built = time.perf_counter()
            self.operator_: BlockOperator | DiagonalPlus = operator_of(
                features,
                source,
                chunk_rows=plan.chunk_rows,
                engine=run.engine,
                stored_diagonal=self.diagonal,
                progress=phases("operator", source.shape[0]),
            )
            stored = time.perf_counter()
            negative = sum(basis.negative for basis in features.nodes)
            if negative:
                features.notes[CLIPPED] = negative
            self.features_: FeatureMap
            self.features_, self.kernel_ = released(features, kernel)
            sizes = {"bases": self.features_.nbytes, "operator": self.operator_.nbytes}
            self.plan_ = plan.used(sizes, {"bases": built - began, "operator": stored - built})
            self.rank_ = self.features_.rank
            self._n_features_out = self.rank_
        return self

    @property
    def nbytes_(self) -> int:
        """Bytes of the compressed matrix: bases of the training rows and core."""
        check_is_fitted(self, "operator_")
        return self.operator_.nbytes

    def plan(self, X: RowsLike) -> Plan:
        """Predict rank, blocks and bytes per phase of a fit to X, without fitting."""
        with all_or_nothing(self, keep=False):
            rng = as_generator(deepcopy(self.random_state))
            return self._planned(self._rows(X, reset=True), rng)[0]

    def _planned(self, source: RowSource, rng: np.random.Generator) -> tuple[Plan, Any, Any]:
        builder, engine = self.builder(), Engine(self.n_jobs)
        kernel = KernelParameters.given(self).resolve_for(source)
        run = settled_run(Run.of(self), source, kernel, None)
        plan = make_plan(
            builder.settle(source, BuildSettings(kernel, run.dtype, rng, engine)),
            Workload.of(source, 1),
            run,
            training=False,
        )
        return plan, kernel, replace(run, engine=Engine(plan.n_threads), random_state=rng)

    def transform(self, X: RowsLike) -> Any:
        """Return features F of shape ``(n, rank_)`` with F Fᵀ ≈ k(X, X). Time O(n m (d + r))."""
        check_is_fitted(self, "features_")
        source = self._rows(X, reset=False)
        with overflowing():
            F: Any = self._features(source)
            thin = sp.issparse(F)
            # A row with a finite sum has finite features.
            sums = np.asarray(F.sum(axis=1)).reshape(-1, 1) if thin else F
        finite_values(sums, partial(rows_at, source), what="its features overflow")
        return F

    def _features(self, source: RowSource) -> Any:
        features = bound(self.features_, source)
        return dense_features(features, source, chunk_rows=self.plan_.chunk_rows, engine=Engine(self.n_jobs))

    def cross(self, X_new: RowsLike) -> CrossOperator:
        """Return K̃(X_new, X) for the training rows X, without a stored diagonal.

        ``cross(X_new) @ a`` predicts from dual coefficients ``a = operator_.solve(y, alpha)``. Memory:
        n_new·(ranks of a row's path) numbers in addition to the operator's own bases.
        """
        check_is_fitted(self, "operator_")
        source = self._rows(X_new, reset=False)
        features = bound(self.features_, source)
        left = stored_levels(features, source, chunk_rows=self.plan_.chunk_rows, engine=Engine(self.n_jobs))
        operator = self._blocks
        return CrossOperator(left, operator.levels, operator.core, n_jobs=self.n_jobs)

    @property
    def _blocks(self) -> BlockOperator:
        """The operator without a stored diagonal."""
        return self.operator_.operator if isinstance(self.operator_, DiagonalPlus) else self.operator_

    def relative_error(
        self, X: RowsLike, *, n_rows: int = 2000, random_state: RandomState = None
    ) -> ErrorEstimate:
        """Estimate ‖K − K̃‖_F/‖K‖_F over the rows of X from a new sample of ``n_rows`` of them.

        Returns a float with ``standard_error`` and the 95 % interval ``low, high``. Rows with large errors
        are sampled more often: see :func:`gramian.compression.quality.measure`. Time
        O(n_rows · n · (d + r)); K is never stored.
        """
        n_rows, rng = whole_number("n_rows", n_rows, 1), as_generator(random_state)
        return measure(self._residual(X), n_rows=n_rows, rng=rng).relative

    def trace_error(self, X: RowsLike) -> ErrorEstimate:
        """Return tr(K − K̃)/tr(K) over the rows of X: exact, in one pass of time O(n (m d + r))."""
        return trace_error(self._residual(X))

    def spectral_error(
        self, X: RowsLike, *, n_rows: int | None = 10_000, tol: float = 0.1, random_state: RandomState = None
    ) -> SpectralError:
        """Return ‖K − K̃‖₂ over the rows of X with bounds: see :class:`SpectralError`.

        If X has more than ``n_rows`` rows, a sample gives an estimate and a lower bound; None takes all rows.
        ``high/low`` is at most 1 + ``tol``. Time O(n_rows² d log(n)/√tol); K is never stored.
        """
        return spectral_error(
            self._residual(X),
            n_rows=None if n_rows is None else whole_number("n_rows", n_rows, 1),
            tol=positive_number("tol", tol),
            rng=as_generator(random_state),
        )

    def block_errors(self, X: RowsLike, *, n_rows: int = 500, return_interval: bool = False) -> Array:
        """Return ‖K_ss − K̃_ss‖_F/‖K_ss‖_F of each diagonal block, shape (blocks,), for the training rows X.

        Errors of larger blocks are estimated from ``n_rows`` of their rows. With ``return_interval`` the
        shape is (3, blocks): errors, and ends of their 95 % intervals. Time O(blocks · n_rows² · (d + r)).
        """
        check_is_fitted(self, "operator_")
        source = read_paired_rows(self, X)
        if source.shape[0] != self.operator_.shape[0]:
            raise InputError(
                f"X has {source.shape[0]} rows, but {type(self).__name__} was fitted with "
                f"{self.operator_.shape[0]}. Pass the training rows; for others use relative_error."
            )

        kernel = bound(self.features_, source).kernel

        def entries(rows: Array, cols: Array) -> Array:
            return kernel(source.take(rows), source.take(cols), dtype=np.float64)

        errors = block_intervals(self.operator_, entries, n_rows=whole_number("n_rows", n_rows, 1))
        return errors if return_interval else errors[0]

    def report(
        self, X: RowsLike | None = None, *, n_rows: int = 1000, random_state: RandomState = None
    ) -> Report:
        """Return a table and a verdict on how large the model is, how large its error is, and where it lies.

        Errors are estimated over the rows of X from ``n_rows`` of them; without X the report has only sizes.
        """
        check_is_fitted(self, "features_")
        sizes = report_sizes(type(self).__name__, self.features_, self.operator_)
        if X is None:
            return sizes
        return sizes.with_errors(
            self._residual(X), n_rows=whole_number("n_rows", n_rows, 1), rng=as_generator(random_state)
        )

    def _evidence(self) -> FitFacts:
        plan, features = self.plan_, self.features_
        facts = replace(FitFacts.of_map(features), n_rows=plan.n_rows, plan=plan)
        if not hasattr(self, "operator_"):  # model files leave it out
            return facts
        sizes = self.report()
        return replace(
            facts,
            report=sizes,
            block_rows=[block.shape[0] for block in self._blocks.levels[-1].blocks],
            warnings=(*sizes.warnings, *features.warnings),
        )

    def _residual(self, X: RowsLike) -> Residual:
        check_is_fitted(self, "features_")
        source = read_paired_rows(self, X)
        return Residual(
            bound(self.features_, source),
            source,
            Engine(self.n_jobs),
            self.plan_.chunk_rows,
            stored_diagonal=self.diagonal,
        )


def checked(name: str, value: object) -> object:
    """Return the value of a size as a builder takes it, or raise; None stays, for a size that is chosen."""
    if name in CHOICES:
        return one_of(name, value, CHOICES[name])
    if name == "landmarks":
        return points_or_rule(value)
    check = AT_LEAST_ONE.get(name) or (CONSTRAINTS[name].check if name in CONSTRAINTS else None)
    return value if value is None or check is None else check(name, value)


def points_or_rule(value: object) -> object:
    """Return landmarks, or raise unless they are the name of a rule or an array of points."""
    refuse_masked("landmarks", value)
    if isinstance(value, str):
        return one_of("landmarks", value, LANDMARKS)
    rules = f"one of {', '.join(LANDMARKS)}"
    if not isinstance(value, np.ndarray | list | tuple):
        raise InputError(
            f"landmarks={quoted(value)} has type {type(value).__name__}. Choose {rules}, or give an array of "
            "points."
        )
    if not isinstance(value, np.ndarray) and not all(map(_numbers, value)):
        raise InputError(
            f"landmarks={quoted(value)} is a list of values that are no points. Give an array (m, d), one "
            f"point a row, or choose {rules}."
        )
    return value


def _numbers(point: Any) -> bool:
    """Tell whether a value can be read as several numbers."""
    try:
        return np.asarray(point, np.float64).ndim > 0
    except (TypeError, ValueError):
        return False


def at_least_one(name: str, value: object) -> float:
    """Return a number after checking that it is at least 1."""
    number = positive_number(name, value)
    if number < 1.0:
        raise InputError(f"{name}={quoted(value)} must be at least 1: a basis needs a landmark per rank.")
    return number


#: Checks of sizes that are narrower in an approximation than elsewhere.
AT_LEAST_ONE: dict[str, Check] = {
    "rank": partial(whole_number, least=1),
    "n_levels": partial(whole_number, least=1),
    "oversampling": at_least_one,
}
#: The names that a parameter takes, in every method that has it.
CHOICES: dict[str, tuple[str, ...]] = {
    "columns": PICKED,
    "draws": DRAWS,
    "form": ("pairs", "phase"),
    "partition": PARTITIONS,
    "powers": ("shared", "drawn"),
    "rank_rule": ("equal", "singular"),
    "sampling": ("full", "important"),
    "svd": ("exact", "randomized"),
    "weights": ("uniform", "ridge"),
}
