r"""Linear models on Fastfood features.

Source: Le, Sarlós and Smola 2013; Fan et al. 2008 (liblinear).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from baselines.base import WeightedRows, moments
from baselines.expansion import gaussian
from baselines.linear import LinearBaseline, LinearClassifier, LinearRegressor
from gramian._checks import one_of, whole_number
from gramian._numerics import narrowed
from gramian._tiles import row_slices, tile_rows
from gramian._typing import Float64Array, FloatArray, Rows
from gramian.approximations.approximation import CHOICES
from gramian.approximations.random_fourier import FastfoodBuilder, FastfoodColumns, draws_of
from gramian.kernels.columns import dense
from gramian.landmarks.routing import shift_rows


@dataclass(frozen=True, eq=False)
class FeatureWeights:
    """Predictor f(x) = φ(x − c)·w + b, one column of w an output; centring keeps the phases of φ accurate."""

    columns: FastfoodColumns
    weights: FloatArray
    intercept: FloatArray
    centre: FloatArray

    @property
    def n_outputs(self) -> int:
        """Values for a row."""
        return len(self.intercept)

    @property
    def nbytes(self) -> int:
        """Bytes of the map's diagonals and permutation, of the weights, intercept and centre."""
        own = (self.weights, self.intercept, self.centre)
        return self.columns.nbytes + sum(array.nbytes for array in own)

    @property
    def rank(self) -> int:
        """Number of features."""
        return self.columns.n_columns

    def __call__(self, X: Rows) -> FloatArray:
        """Return φ(x − c), shape (n, rank)."""
        return self.columns(shift_rows(dense(X), self.centre))

    def decide(self, X: Rows) -> FloatArray:
        """Return f of each row, shape (n, outputs). Time O(n (rank log d + rank outputs))."""
        kind = np.result_type(self.weights, self.intercept)
        out = np.empty((X.shape[0], self.n_outputs), kind)
        for where in row_slices(len(out), tile_rows(self.rank, 4)):
            np.matmul(self(X[where]), self.weights, out=out[where])
        out += self.intercept
        return out

    def folded(self, weights: Float64Array, intercept: Float64Array) -> FeatureWeights:
        """Return the same map with other weights."""
        return FeatureWeights(
            self.columns,
            np.ascontiguousarray(narrowed(weights, np.float32)),
            narrowed(intercept[None], np.float32)[0],
            self.centre,
        )


class _FastfoodLinear(LinearBaseline):
    rank: Any
    form: Any

    def _features(self, rows: WeightedRows, rng: np.random.Generator) -> FeatureWeights:
        one_of("form", self.form, CHOICES["form"])
        rank, d = whole_number("rank", self.rank, 1), rows.rows.shape[1]
        draws_of(rank, self.form)
        kernel = gaussian(self._checked_gamma(rows.rows))
        columns = FastfoodBuilder(rank=rank, form=self.form).columns(kernel, d, dtype=np.float32, rng=rng)
        centre, _ = moments(rows.rows, rows.weights)
        return FeatureWeights(columns, np.zeros((rank, 0), np.float32), np.zeros(0, np.float32), centre)


@dataclass(eq=False, repr=False)
class FastfoodLinearClassifier(_FastfoodLinear, LinearClassifier):
    r"""Fastfood and liblinear: a linear SVM on random Fourier features made by Hadamard transforms.

    f(x) = w·φ(x) + b with E φ(x)·φ(z) = exp(−γ‖x − z‖²); a prediction takes O(rank log d) and rank sines.

    Parameters
    ----------
    rank : int
        Number of features; even for "pairs".
    form : {"pairs", "phase"}
        As for :class:`gramian.Fastfood`.
    gamma, C, loss, tol, max_iter, random_state, n_jobs : as for
        :class:`baselines.nystrom_linear.NystromLinearClassifier`.

    Attributes
    ----------
    model_ : FeatureWeights
        The map and w in float32.
    classes_, nbytes_, n_iter_, n_features_in_ : as named; n_iter_ counts liblinear's iterations.

    Time O(n rank log d) and liblinear's; memory O(n rank) for a float64 table of features. Raises
    ``InputError`` for unusable input; warns ``AccuracyWarning`` if liblinear stops early. The features do not
    adapt to the data, so several times as many features as landmarks are needed for the same accuracy.

    Source: Le, Sarlós and Smola 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from baselines.fastfood_linear import FastfoodLinearClassifier
    >>> X = np.random.default_rng(0).random((1000, 2))
    >>> y = np.hypot(X[:, 0] - 0.5, X[:, 1] - 0.5) < 0.35
    >>> m = FastfoodLinearClassifier(100, gamma=5.0, C=10.0, random_state=0).fit(X, y)
    >>> bool(m.score(X, y) > 0.95)
    True
    """

    model_: FeatureWeights = field(init=False)

    rank: int = 1000
    _: KW_ONLY
    form: str = "pairs"
    gamma: float | str | None = None
    C: float = 1.0
    loss: str = "squared_hinge"
    tol: float = 1e-4
    max_iter: int = 1000
    random_state: Any = None
    n_jobs: int | None = None


@dataclass(eq=False, repr=False)
class FastfoodLinearRegressor(_FastfoodLinear, LinearRegressor):
    r"""Fastfood and ridge regression, with the features of :class:`FastfoodLinearClassifier`.

    Minimises Σ_i weight_i (y_i − w·φ(x_i) − b)² + alpha ‖w‖², from sums over the rows.

    Parameters
    ----------
    rank, form, gamma, random_state, n_jobs : as for :class:`FastfoodLinearClassifier`.
    alpha : float
        Ridge penalty.

    Time O(n rank (log d + rank) + rank³), memory O(rank²).

    Source: Le, Sarlós and Smola 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from baselines.fastfood_linear import FastfoodLinearRegressor
    >>> X = np.random.default_rng(0).random((1000, 2))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 1]
    >>> m = FastfoodLinearRegressor(100, gamma=3.0, alpha=1e-2, random_state=0).fit(X, y)
    >>> bool(m.score(X, y) > 0.98)
    True
    """

    model_: FeatureWeights = field(init=False)

    rank: int = 1000
    _: KW_ONLY
    form: str = "pairs"
    gamma: float | str | None = None
    alpha: float = 1.0
    random_state: Any = None
    n_jobs: int | None = None
