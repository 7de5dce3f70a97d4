"""The exact kernel SVM by divide and conquer, with scikit-learn's interface."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted

from gramian._checks import one_of
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, RowsLike
from gramian.compression.expansion import class_pairs
from gramian.engine import Engine
from gramian.estimator.answers import (
    PREDICT_ROWS,
    decision_values,
    finite_values,
    in_blocks,
    quietly,
    rows_at,
)
from gramian.estimator.base import KernelEstimator, required_target
from gramian.estimator.fitting import all_or_nothing, shown_bar
from gramian.estimator.input import Input
from gramian.estimator.labelled import labelled_classes
from gramian.estimator.mixins import Classifier
from gramian.estimator.summaries import MOST_CLASSES, FitFacts
from gramian.exceptions import listed
from gramian.kernels.precomputed import bound
from gramian.summary import short
from gramian.svm.dcsvc_training import DCSVCParameters, fit_dcsvc

SHAPES = ("ovr", "ovo")


@dataclass(eq=False, repr=False)
class DCSVC(Classifier, KernelEstimator):
    r"""The exact kernel SVM (hinge loss), solved by divide and conquer.

    min ½ αᵀQα − Σα_i over 0 ≤ α_i ≤ C·w_i, yᵀα = 0, Q_ij = y_i y_j k(x_i, x_j): the dual of
    ½‖f‖² + C Σ w_i max(0, 1 − y_i (f(x_i) + b)), to the accuracy of scikit-learn's ``SVC``, whose decision
    values it reproduces. Rows are clustered in levels; the clusters of a level are solved on their own and
    start those of the next, which finds most support vectors already; the last level is all rows.
    Many classes are one against one, as in ``SVC``.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of the hinge loss; row i has C · sample_weight_i · class_weight.
    kernel, gamma, degree, coef0, kernel_params
        The kernel, as for :class:`gramian.KernelRidge`; ``gamma=None`` is 1/n_features. It must be positive
        semi-definite.
    fit_intercept : bool, default=True
        Whether there is an intercept b, not penalised (the equality of the dual).
    leaf_size : int, default=1500
        Rows of a cluster of the finest level, about. Libsvm solves them.
    branching : int, default=32
        Parts of a cluster: levels are log(n / leaf_size) to this base. Few levels: the solve of one between
        the leaves and all rows was seen to take long itself.
    early : bool or int, default=False
        Early prediction: stop at the finest level (``True``, or 0), or so many merges above it, and let each
        cluster's model answer for the rows that fall in the cluster. Much faster, not exact.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, as in ``SVC``.
    max_iter : int, default=1000
        Working sets of one problem at most.
    decision_function_shape : {"ovr", "ovo"}
        As in ``SVC``.
    class_weight : None, "balanced" or dict
    standardize : bool, default=False
        Scale the columns to mean 0 and deviation 1, as for :class:`gramian.KernelRidge`. ``support_vectors_``
        are rows of X as they were passed.
    memory_budget : int or str, default="1GB"
        Working memory: kernel matrices, tiles and preconditioners, and what BLAS and malloc keep for a thread
        (some 11 MB of a budget of 100 MB, 25 MB of 1 GB; threads that the budget does not hold are not used).
        Copies of the rows come on top, up to four.
    tile_dtype : {"auto", "float32", "float64"}
        Precision of the gradient's tiles; "auto" is float64.
    random_state, n_jobs
        As in scikit-learn; the solution depends on ``random_state`` within ``tol`` only.
    verbose : int, default=0
        1 shows a bar of the leaves that are solved; the levels above them come last and are not counted.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, intercept_, n_support_, classes_
        As in ``SVC``. With ``early``, ``intercept_`` has a row for each cluster.
    n_iter_, violation_ : (pairs,)
        Working sets, leaves included, and the violation that was reached, of each pair of classes.
    kernel_entries_ : int
        Kernel values that were computed by us (libsvm's are not counted).
    predictor_, kernel_, n_features_in_
    scaler_ : as for :class:`gramian.KernelRidge`

    The last level is solved by block pivoting: exactly on its free rows f, one Cholesky factor for each
    component of rows that the kernel does not join (values under 0.05 · tol / ΣC_i between components count
    as zero, and ``violation_`` includes what that may add), in some tens of steps. Time Σ f³/3 and
    rows · f · d a step over components, memory O(n d) and the budget, of which a factor takes 8 f² bytes.
    Where that does not fit or the free rows do not settle: large working sets, O(s² (d + steps)) for the
    support vectors s, and O(n s d) for the gradient. Raises ``InputError`` for unusable input,
    ``BudgetError`` for a budget under 64 MiB; warns ``AccuracyWarning`` where ``tol`` was not reached.
    It is slow where the kernel is so smooth and C so large that thousands of rows are nearly dependent:
    libsvm's small steps suit such problems, if they have few support vectors.

    Source: Hsieh, Si and Dhillon 2014; Júdice and Pires 1994 for the pivots.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> from gramian.svm.dcsvc import DCSVC
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> y = np.where(np.hypot(*(X.T - 0.5)) < 0.3, "in", "out")
    >>> model = DCSVC(C=10.0, gamma=5.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), bool(model.violation_.max() <= 1e-3)
    (True, True)
    """

    _learns = (
        "support_",
        "support_vectors_",
        "dual_coef_",
        "intercept_",
        "n_support_",
        "n_iter_",
        "violation_",
        "kernel_entries_",
        "kernel_",
        "scaler_",
        "predictor_",
    )

    C: float = 1.0
    _: KW_ONLY
    kernel: Any = "rbf"
    gamma: float | str | None = None
    degree: int = 3
    coef0: float = 1.0
    kernel_params: dict[str, Any] | None = None
    fit_intercept: bool = True
    leaf_size: int = 1500
    branching: int = 32
    early: bool | int = False
    tol: float = 1e-3
    max_iter: int = 1000
    decision_function_shape: str = "ovr"
    class_weight: Any = None
    standardize: bool = False
    memory_budget: int | str = "1GB"
    tile_dtype: str = "auto"
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def fit(self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X (n, d) and class labels y (n,), by default those of a row source."""
        with all_or_nothing(self), shown_bar(self.verbose, unit="leaves", desc="solve") as bar:
            y = required_target(self, X, y)
            rows = labelled_classes(self._rows(X, reset=True), y, sample_weight, self.class_weight)
            one_of("decision_function_shape", self.decision_function_shape, SHAPES)
            self._keep(fit_dcsvc(rows, DCSVCParameters.of(self), bar.update))
            return self

    def _evidence(self) -> FitFacts:
        counts, violation = self.n_support_, float(self.violation_.max())
        each = listed(counts.tolist(), MOST_CLASSES, show="{:,}".format)
        missed = f"The solver stopped at a violation of {violation:.3g}, above tol={self.tol:g}."
        return FitFacts(
            kernel=self.kernel_,
            penalty={"C": self.C},
            sizes=(("support vectors", short(f"{counts.sum():,} (by class: {each})")),),
            nbytes=self.predictor_.model_bytes,
            points=(self.predictor_.support,),
            solver=(("iterations", f"{self.n_iter_.max():,}"),),
            warnings=(missed,) if violation > self.tol else (),
        )

    def _pair_values(self, X: RowsLike) -> Float64Array:
        """Return f of each pair of classes, positive for the first of the two, shape (n, pairs)."""
        check_is_fitted(self, "predictor_")
        source = self._rows(X, reset=False)
        predictor = bound(self.predictor_, source)
        n, engine = source.shape[0], Engine(self.n_jobs)
        rows = Input.of(self).over(source).rows
        blocks = ((where, predictor(rows(where), engine)) for where in row_slices(n, PREDICT_ROWS))
        out = in_blocks(quietly(blocks), (n, len(class_pairs(len(self.classes_)))))
        return finite_values(out, partial(rows_at, source))

    def decision_function(self, X: RowsLike) -> Float64Array:
        """Return f(x): (n,) for two classes, else (n, pairs) for "ovo" or (n, classes) for "ovr"."""
        values = self._pair_values(X)
        if len(self.classes_) == 2:
            return -decision_values(values)
        if self.decision_function_shape == "ovr":
            out: Float64Array = _ovr_decision_function(values < 0, -values, len(self.classes_))
            return out
        return values

    def predict(self, X: RowsLike) -> Array:
        """Return the class with most votes of its pairs for each row, the first of equals."""
        values = self._pair_values(X)
        votes = np.zeros((len(values), len(self.classes_)), np.intp)
        for (first, second), column in zip(class_pairs(len(self.classes_)), values.T):
            votes[:, first] += column > 0
            votes[:, second] += column <= 0
        return np.asarray(self.classes_[votes.argmax(axis=1)])
