"""Kernel principal component analysis on a memory budget."""

from __future__ import annotations

import time
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gramian._checks import positive_number, whole_number
from gramian._typing import Float64Array, RowsLike
from gramian.approximations.approximation import Approximation
from gramian.approximations.nystrom import Nystrom
from gramian.approximations.setup import FitSetup
from gramian.compression.builder import BuildSettings
from gramian.compression.costs import Workload
from gramian.compression.plan import AS_ASKED, EXACT, Plan, at_most_rows, make_plan
from gramian.compression.sums import accumulate
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.estimator.base import KernelEstimator
from gramian.estimator.fitting import all_or_nothing, shown_phases
from gramian.estimator.input import Input, scaled_input
from gramian.estimator.parameters import settled_run
from gramian.estimator.rows import names_known
from gramian.estimator.summaries import FitFacts
from gramian.exact.exact import Exact, exact_plan
from gramian.exact.solve import DIRECT_ROWS
from gramian.exceptions import InputError
from gramian.kernels import Kernel
from gramian.ridge.model import TRAINED, KernelModel
from gramian.ridge.planning import method_of
from gramian.ridge.ridge import KernelRidge
from gramian.spectra.components import exact_components, feature_components

#: Rank of the approximation that "auto" uses for many rows: a minimum, and a multiple of the number of
#: components. Chosen by hand.
AUTO_RANK, RANK_PER_COMPONENT = 500, 4


@dataclass(eq=False, repr=False)
class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    r"""Principal components in the kernel's feature space, as scikit-learn's ``KernelPCA``, for many rows.

    On the training rows the scores of component j are √λ_j v_j, where (λ_j, v_j) are the leading eigenpairs
    of the centred matrix J K J, J = I − 11ᵀ/n. For an approximation K̃ = F Fᵀ they follow from FᵀF and Fᵀ1,
    summed in one pass without storing F; for the exact K they follow from products with tiles of K. Above
    2,000 rows no n × n matrix is formed.

    Parameters
    ----------
    n_components : int, default=None
        None takes all components above rounding: up to n − 1 for the exact K (dense), up to the rank for an
        approximation. A number above the number of rows is reduced to it with a warning.
    kernel, gamma, degree, coef0, kernel_params : as for :class:`KernelRidge`.
    approximation : str or unfitted approximation, default="auto"
        "auto" is the exact K up to 2,000 rows, and a Nyström approximation of rank
        max(500, 4·n_components) above. "exact" uses block Lanczos on K above 2,000 rows. Other names and
        instances are as for :class:`KernelRidge`.
    fit_inverse_transform : bool, default=False
        Whether to learn the map from scores back to rows, by kernel ridge regression with the same kernel
        (Bakır, Weston and Schölkopf 2004).
    alpha : float, default=1.0
        Ridge penalty of the inverse transform.
    tol : float, default=1e-8
        Target of ‖J K J v − λ v‖/λ_1 when eigenpairs are found iteratively.
    standardize : bool, default=False
        Scale the columns to mean 0 and deviation 1, as for :class:`KernelRidge`. ``inverse_transform``
        returns rows in the units of X.
    memory_budget, tile_dtype, random_state, n_jobs, verbose : as for :class:`KernelRidge`.

    Attributes
    ----------
    eigenvalues_ : ndarray (n_components,)
        Descending; 0 for components that do not exist, whose scores are 0.
    solution_ : Solution
        Products and residual of the eigenpairs.
    inverse_ : KernelRidge
        The inverse map; only with ``fit_inverse_transform``.
    scaler_, kernel_, plan_, rank_, n_features_in_ : as for :class:`KernelRidge`.

    A component's sign is arbitrary, but the same for the same data and settings. Time for an approximation
    with m landmarks and rank r: O(n (m d + r²) + r³), memory independent of n. For the exact K: several tens
    of products of n²/2 kernel values. ``transform`` computes m kernel values a row, n for the exact K. Raises
    ``InputError`` and ``BudgetError``; warns ``AccuracyWarning`` with the residual if ``tol`` is missed.

    Source: Schölkopf, Smola and Müller 1998.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((5000, 3))
    >>> pca = gm.KernelPCA(2, gamma=1.0, random_state=0).fit(X)
    >>> scores = pca.transform(X)
    >>> scores.shape, bool(np.allclose((scores**2).sum(axis=0), pca.eigenvalues_, rtol=1e-3))
    ((5000, 2), True)
    """

    _learns = (*TRAINED, "scaler_", "eigenvalues_", "inverse_", "_flat")

    n_components: int | None = None
    _: KW_ONLY
    kernel: Any = "rbf"
    gamma: float | str | None = None
    degree: int = 3
    coef0: float = 1.0
    kernel_params: dict[str, Any] | None = None
    approximation: Any = "auto"
    fit_inverse_transform: bool = False
    alpha: float = 1.0
    tol: float = 1e-8
    standardize: bool = False
    memory_budget: int | str = "1GB"
    tile_dtype: str = "auto"
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.input_tags.sparse = not self.fit_inverse_transform  # the inverse learns dense rows
        tags.transformer_tags.preserves_dtype = []  # scores are float64
        return tags

    def _restore(self, state: dict[str, Any]) -> None:
        """Set the learned attributes; raise if the inverse does not go from scores to rows."""
        super()._restore(state)
        if hasattr(self, "inverse_"):
            widths = self.inverse_.n_features_in_, self.inverse_.predictor_.n_outputs
            if widths != (self.predictor_.n_outputs, self.n_features_in_):
                raise ValueError("the inverse does not go from scores to rows")

    def fit(self, X: RowsLike, y: ArrayLike | None = None) -> Self:
        """Find the components of the rows of X. ``y`` is ignored."""
        with all_or_nothing(self), shown_phases(self.verbose) as phases:
            source = self._rows(X, reset=True)
            count = self.n_components
            if count is not None:
                count = at_most_rows("n_components", whole_number("n_components", count, 1), source.shape[0])
            tol = positive_number("tol", self.tol)
            self._check_inverse(source)
            setup = FitSetup.of(self, phases)
            input_ = scaled_input(setup.kernel, self.standardize, source, quiet=setup.frozen)
            rows = input_.over(source)
            train = _exact_model if _wants_exact(setup, source.shape[0]) else _features_model
            values, model = train(setup, rows, count, tol)
            state = replace(model, input=input_).state()
            self._keep({**state, "eigenvalues_": values, "_flat": False})
            if self.fit_inverse_transform:
                self.inverse_ = self._inverse(setup, source, rows)
        return self

    def transform(self, X: RowsLike) -> Float64Array:
        """Return the scores of the rows of X, shape (n, n_components), float64."""
        check_is_fitted(self, "predictor_")
        return KernelModel.of(self).finite(self._rows(X, reset=False), Engine(self.n_jobs))

    def inverse_transform(self, X: RowsLike) -> Float64Array:
        """Return rows (n, d) whose scores are approximately X (n, n_components)."""
        check_is_fitted(self, "predictor_")
        if not hasattr(self, "inverse_"):
            raise InputError("fit_inverse_transform was False in fit. Set it to True and fit again.")
        scores = np.asarray(X)  # a frame that ``set_output`` made has names, which say nothing here
        if scores.ndim != 2 or scores.shape[1] != self._n_features_out:
            raise InputError(
                f"X has shape {scores.shape}; expected scores of shape (n, {self._n_features_out}), as "
                "transform gives them."
            )
        rows: Float64Array = self.inverse_.predict(scores)
        rows = rows.reshape(len(rows), -1)
        scaler = Input.of(self).scaler
        return rows if scaler is None else rows * scaler.scale + scaler.mean

    @property
    def _n_features_out(self) -> int:
        return int(self.predictor_.n_outputs)

    def _evidence(self) -> FitFacts:
        return KernelModel.of(self).facts(names_known(self), alpha=self.alpha)

    def _check_inverse(self, source: RowSource) -> None:
        if not self.fit_inverse_transform:
            return
        positive_number("alpha", self.alpha)
        if self._precomputed:
            raise InputError(
                "Cannot fit_inverse_transform with a precomputed kernel: there are no rows to go back to. "
                "Pass rows and a kernel, or fit_inverse_transform=False."
            )
        if sp.issparse(source.rows(slice(0, 1))):
            raise InputError(
                "fit_inverse_transform with sparse rows would make them dense. Pass X.toarray(), or "
                "fit_inverse_transform=False."
            )

    def _inverse(self, setup: FitSetup, source: RowSource, prepared: RowSource) -> KernelRidge:
        """Train kernel ridge regression from scores to prepared rows, with the fitted kernel."""
        n = source.shape[0]
        scores = KernelModel.of(self).values(source, Engine(self.n_jobs))
        exact = _wants_exact(setup, n)
        ridge = KernelRidge(
            alpha=self.alpha,
            kernel=self.kernel_,
            approximation="exact" if exact else self.approximation,
            memory_budget=self.memory_budget,
            tile_dtype=self.tile_dtype,
            random_state=self.random_state if isinstance(self.random_state, int) else None,
            n_jobs=self.n_jobs,
        )
        rows = np.asarray(prepared.rows(slice(0, n)), np.float64)
        return copy(ridge.fit(scores, rows))  # a copy has no reference to the rows


def _wants_exact(setup: FitSetup, n_rows: int) -> bool:
    """Return whether the components of so many rows are those of the exact K."""
    if isinstance(setup.approximation, Exact):
        raise InputError(
            "approximation=Exact(...) solves ridge systems; KernelPCA has none. Use approximation='exact'."
        )
    if setup.automatic:
        return n_rows <= DIRECT_ROWS
    return isinstance(setup.approximation, str) and setup.approximation == "exact"


def _exact_model(
    setup: FitSetup, source: RowSource, count: int | None, tol: float
) -> tuple[Float64Array, KernelModel]:
    """Return eigenvalues and components of the exact K."""
    n = source.shape[0]
    kernel = setup.kernel.resolve_for(source)
    run = settled_run(setup.run, source, kernel, None)
    plan = exact_plan(
        Workload.of(source, count or 1),
        Exact(solver="cg").settings(),
        run,
        reason="few rows" if setup.automatic else EXACT,
    )
    began = time.perf_counter()
    rows = source.rows(slice(0, n))
    parts = exact_components(
        kernel,
        rows.copy() if sp.issparse(rows) else np.array(rows),
        count,
        tol=tol,
        dtype=run.dtype,
        memory_bytes=run.memory_bytes,
        engine=run.engine,
        rng=run.rng,
        progress=run.phases("eigenpairs", unit="products"),
    )
    plan = plan.used({"solve": parts.solution.bytes}, {"solve": time.perf_counter() - began})
    return parts.values, KernelModel(parts.predictor, kernel, -parts.offset, parts.solution, plan, n)


def _features_model(
    setup: FitSetup, source: RowSource, count: int | None, tol: float
) -> tuple[Float64Array, KernelModel]:
    """Return eigenvalues and components of an approximation, from sums over its features."""
    n = source.shape[0]
    kernel, rng = setup.kernel.resolve_for(source), setup.run.rng
    plan = _features_plan(setup, source, kernel, count, rng)
    run = replace(setup.run, engine=Engine(plan.n_threads), random_state=rng)
    began = time.perf_counter()
    features = plan.build(source, kernel, run)
    built = time.perf_counter()
    sums = accumulate(
        features,
        source,
        np.zeros((n, 0)),
        None,
        chunk_rows=plan.chunk_rows,
        engine=run.engine,
        with_ones=True,
        progress=run.phases("sums", n),
    )
    summed = time.perf_counter()
    run.phases("solve")
    parts = feature_components(features, sums, n, count, tol=tol, rng=rng)
    held = features.nbytes + sum(s.nbytes for s in sums)
    seconds = {"bases": built - began, "sums": summed - built, "solve": time.perf_counter() - summed}
    plan = plan.used({"bases": features.nbytes, "sums": held, "solve": 2 * held}, seconds)
    return parts.values, KernelModel(
        parts.predictor, kernel, -parts.offset, parts.solution, plan, features.rank
    )


def _features_plan(
    setup: FitSetup, source: RowSource, kernel: Kernel, count: int | None, rng: np.random.Generator
) -> Plan:
    """Return the plan of the features that ``count`` components are found from."""
    run = settled_run(setup.run, source, kernel, None)
    method: Approximation
    if setup.automatic:
        method = Nystrom(rank=min(source.shape[0], max(AUTO_RANK, RANK_PER_COMPONENT * (count or 1))))
    else:
        method = method_of(setup)
    return make_plan(
        method.builder().settle(source, BuildSettings(kernel, run.dtype, rng, run.engine)),
        Workload.of(source, 1),
        run,
        reason="many rows: landmarks for the components" if setup.automatic else AS_ASKED,
    )
