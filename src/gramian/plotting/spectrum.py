"""Display of the eigenvalues of a kernel matrix and of its compressed form."""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.linalg as la
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gramian._checks import positive_number, whole_number
from gramian._random import as_generator
from gramian._typing import Float64Array, RandomState, RowsLike
from gramian.approximations.approximation import Approximation
from gramian.compression.features import FeatureMap
from gramian.compression.storage import operator_of
from gramian.data.source import ArraySource, RowSource, sample_rows
from gramian.engine import Engine, Run
from gramian.estimator.base import read_paired_rows, read_rows
from gramian.estimator.input import Input
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import InputError
from gramian.gp.regressor import GaussianProcessRegressor
from gramian.kernels import Kernel
from gramian.kernels.precomputed import Precomputed, StoredRows, bound
from gramian.plotting.canvas import (
    BLUE,
    NOTE_SIZE,
    ORANGE,
    QUIET,
    Axes,
    Display,
    caption,
    name_lines,
    padded,
    pyplot,
    scale_axis,
    text_of,
)
from gramian.ridge.cross_validation import KernelRidgeCV
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier

#: Colour of the line of K, wide and pale under the line of K̃.
PALE = "#bdbdbd"
#: Eigenvalues below this fraction of the largest, times the number of rows, are rounding and are not drawn.
ROUNDING = float(np.finfo(np.float64).eps)
RIDGES = (KernelRidge, KernelRidgeClassifier, KernelRidgeCV)


class SpectrumDisplay(Display):
    """Eigenvalues of K and of K̃ over the same rows, each divided by the number of rows.

    After this division, eigenvalues of a sample estimate those of all rows, and a fit's penalty is at
    alpha/n: eigenvalues far below it hardly influence the fit. The effective dimension is d = Σ λ/(λ +
    alpha).

    Build it with :meth:`from_estimator`; the constructor stores given numbers.

    Parameters
    ----------
    exact : (m,) eigenvalues of K over m rows, divided by m.
    approximate : the eigenvalues of K̃ up to its rank, at most m; None without K̃.
    alpha : the penalty divided by the rows of the fit, optional; several if each output has its own.
    rank : rank of K̃, optional.
    n_all : number of rows from which the ``n_rows`` rows were sampled, optional.
    name : name of the approximation.

    Attributes
    ----------
    effective_dimension : (exact, approximate), each an array with an entry for each alpha, or None.
    figure_, ax_ : set by :meth:`plot`; ``lines_`` those of K and of K̃, ``alpha_lines_``, ``rank_line_``.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((400, 2))
    >>> a = gm.Nystrom(gamma=2.0, rank=30, random_state=0).fit(X)
    >>> display = SpectrumDisplay.from_estimator(a, X, alpha=0.1)
    >>> len(display.exact), len(display.approximate)
    (400, 30)
    >>> from gramian.operators import KernelOperator
    >>> from gramian.spectra import effective_dimension
    >>> exact = effective_dimension(KernelOperator(gm.Gaussian(0.5), X), 0.1)
    >>> bool(np.isclose(display.effective_dimension[0][0], exact))
    True
    """

    def __init__(
        self,
        exact: ArrayLike,
        approximate: ArrayLike | None = None,
        *,
        alpha: ArrayLike | None = None,
        rank: int | None = None,
        n_all: int | None = None,
        name: str = "approximation",
    ) -> None:
        self.exact = _descending(exact)
        self.approximate = None if approximate is None else _descending(approximate)
        self.alpha = None if alpha is None else np.unique(np.atleast_1d(np.asarray(alpha, np.float64)))
        self.rank, self.name = rank, name
        self.n_rows = len(self.exact)
        self.n_all = self.n_rows if n_all is None else n_all
        self.effective_dimension: tuple[Float64Array, Float64Array | None] | None = None
        if self.alpha is not None:
            close = None if self.approximate is None else _dimension(self.approximate, self.alpha)
            self.effective_dimension = (_dimension(self.exact, self.alpha), close)

    @classmethod
    def from_estimator(
        cls,
        model: BaseEstimator,
        X: RowsLike,
        *,
        alpha: float | None = None,
        n_rows: int = 1000,
        random_state: RandomState = 0,
        ax: Axes | None = None,
    ) -> Self:
        """Compute both spectra over rows of X and draw them.

        Parameters
        ----------
        model : a fitted approximation, ridge model (:class:`gramian.KernelRidge`, its classifier and
            :class:`gramian.KernelRidgeCV`) or :class:`gramian.GaussianProcessRegressor`. A ridge model keeps
            no bases, so they are built again on X by its plan, with landmarks drawn by ``random_state``. For
            a model fitted with the exact K only the spectrum of K is drawn.
        X : (n, d) training rows.
        alpha : a penalty to mark; by default the model's, which for a Gaussian process is its noise.
        n_rows : rows to sample; all if X has fewer, and the eigenvalues are then exact.
        random_state : seed of the sample.
        ax : as for :meth:`plot`.

        Time O(n_rows³), memory 16·n_rows² bytes.

        Errors: ``InputError`` for other models, ``NotFittedError``, ``MissingPackageError`` without
        matplotlib.
        """
        pyplot(cls.__name__)
        n_rows = whole_number("n_rows", n_rows, 2)
        rng = as_generator(random_state)
        source, kernel, features = _opened(model, X, rng)
        n_all = source.shape[0]
        rows = sample_rows(source, n_rows, rng)[0]
        exact = kernel(rows, dtype=np.float64)
        m = rows.shape[0]
        approximate, rank = None, None
        if features is not None:
            operator = operator_of(
                features,
                ArraySource(rows),
                chunk_rows=model.plan_.chunk_rows,
                engine=Engine(1),
                stored_diagonal=isinstance(model, GaussianProcessRegressor)
                or bool(getattr(model, "diagonal", False)),
            )
            approximate, rank = operator.eigvalsh() / m, features.rank
        penalty = next(iter(model._evidence().penalty.values()), None)
        if alpha is not None:
            penalty = positive_number("alpha", alpha)
        return cls(
            la.eigvalsh(exact, overwrite_a=True, check_finite=False) / m,
            approximate,
            alpha=None if penalty is None else np.asarray(penalty, np.float64) / n_all,
            rank=rank,
            n_all=n_all,
            name=type(model).__name__,
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw both spectra on ``ax``; None for a new figure."""
        axes = self._open(ax, (6.8, 4.4))
        spectra = [("K", self.exact, PALE, 4.5)]
        if self.approximate is not None:
            spectra.append((f"K̃, {self.name}", self.approximate, ORANGE, 1.6))
        self.lines_, drawn = [], [] if self.alpha is None else list(self.alpha)
        for name, values, colour, width in spectra:
            shown = values[values > ROUNDING * self.n_rows * self.exact[0]]
            drawn.extend(shown)
            self.lines_ += axes.plot(
                np.arange(1.0, len(shown) + 1.0), shown, color=colour, linewidth=width, label=name, zorder=3
            )
        most = max(len(line.get_xdata()) for line in self.lines_)
        numbers = padded(np.array([1.0, most]), log=True, share=0.03)
        scale_axis(axes, "x", numbers, "Number of the eigenvalue", log=True)
        scale_axis(axes, "y", padded(np.array(drawn), log=True), "Eigenvalue / rows", log=True)
        self.alpha_lines_ = []
        for value in [] if self.alpha is None else self.alpha:
            self.alpha_lines_.append(axes.axhline(value, color=BLUE, linewidth=1.0, linestyle=(0, (4, 3))))
            axes.annotate(
                f"alpha/n = {text_of(value)}",
                (0.01, value),
                (0, 3),
                xycoords=axes.get_yaxis_transform(),
                textcoords="offset points",
                fontsize=NOTE_SIZE,
                color=BLUE,
            )
        self.rank_line_ = None
        if self.rank is not None and self.rank <= self.n_rows:
            self.rank_line_ = axes.axvline(self.rank, color=QUIET, linewidth=1.0, linestyle=(0, (1, 2)))
            axes.annotate(
                f"rank {self.rank:,}",
                (self.rank, 0.02),
                (-4, 0),
                xycoords=axes.get_xaxis_transform(),
                textcoords="offset points",
                ha="right",
                fontsize=NOTE_SIZE,
                color=QUIET,
            )
        name_lines(axes, self.lines_, [name for name, *_ in spectra], NOTE_SIZE + 1)
        some = "" if self.n_rows == self.n_all else f" sampled from {self.n_all:,}"
        caption(axes, self._title(), f"{self.n_rows:,} rows{some}")
        return self

    def _title(self) -> str:
        if self.effective_dimension is None:
            return "Spectrum of the kernel matrix"
        exact, close = self.effective_dimension
        text = f"Effective dimension {_range(exact)}"
        return text if close is None else f"{text} of K, {_range(close)} of K̃"


def _opened(
    model: BaseEstimator, X: RowsLike, rng: np.random.Generator
) -> tuple[RowSource, Kernel, FeatureMap | None]:
    """Return the rows as the model sees them, its kernel, and the bases of its K̃."""
    if isinstance(model, GaussianProcessRegressor):
        check_is_fitted(model, "posterior_")
        return Input.of(model).over(read_rows(model, X)), model.kernel_, model.posterior_.features
    if not isinstance(model, (Approximation, *RIDGES)):
        raise InputError(
            f"model has type {type(model).__name__}; expected a fitted approximation, ridge model or "
            "Gaussian process. Pass for example gramian.MEKA().fit(X) or gramian.KernelRidge().fit(X, y)."
        )
    check_is_fitted(model, "features_" if isinstance(model, Approximation) else "predictor_")
    source = read_paired_rows(model, X)
    if isinstance(model, Approximation):
        features = bound(model.features_, source)
        return source, features.kernel, features
    source = Input.of(model).over(source)
    kernel = Precomputed(source.matrix) if isinstance(source, StoredRows) else model.kernel_
    if isinstance(model.predictor_, ExactPredictor):
        return source, kernel, None
    run = Run(model.plan_.memory_budget, Engine(1), random_state=rng)
    return source, kernel, model.plan_.build(source, kernel, run)


def _descending(values: ArrayLike) -> Float64Array:
    found = np.sort(np.asarray(values, np.float64).ravel())[::-1].copy()
    if not len(found) or not np.isfinite(found).all() or found[0] <= 0.0:
        raise InputError(
            "eigenvalues must be finite numbers of which one is positive. Pass those of a kernel matrix."
        )
    return found


def _dimension(values: Float64Array, alpha: Float64Array) -> Float64Array:
    positive = np.maximum(values, 0.0)
    return np.asarray((positive / (positive + alpha[:, None])).sum(axis=1), np.float64)


def _range(values: Float64Array) -> str:
    low, high = float(values.min()), float(values.max())
    return text_of(low) if len(values) == 1 else f"{text_of(low)} to {text_of(high)}"
