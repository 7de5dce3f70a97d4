r"""Linear models on k-means Nyström features, folded into one weight for each landmark.

Source: Zhang, Tsang and Kwok 2008; Fan et al. 2008 (liblinear).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from baselines.base import WeightedRows
from baselines.expansion import Expansion, gaussian
from baselines.linear import LinearBaseline, LinearClassifier, LinearRegressor
from gramian._checks import whole_number
from gramian._numerics import narrowed, rank_cutoff, whiten
from gramian._typing import Float64Array, Rows
from gramian.engine import Engine
from gramian.kernels.columns import dense
from gramian.landmarks.rules import select_landmarks


class _Features:
    r"""Features φ(x) = Vᵀ k(Z, x) with V = E Λ^(−1/2), E and Λ the eigenpairs of W = K(Z, Z): V Vᵀ = W⁺."""

    def __init__(
        self, rows: Rows, n_landmarks: int, gamma: float, rng: np.random.Generator, engine: Engine
    ) -> None:
        points = dense(select_landmarks(rows, n_landmarks, "kmeans", rng, engine))
        # Round the landmarks as they will be stored, so that the weights fit the units that predict.
        self.units = Expansion.of(points, np.zeros((len(points), 1)), np.zeros(1), gamma)
        self.landmarks = self.units.units.astype(np.float64) + self.units.centre
        gram = gaussian(gamma)(self.landmarks, dtype=np.float64, n_jobs=1)
        self.whitening = whiten(np.asarray(gram, np.float64), len(gram), rank_cutoff(np.float32)).vectors
        self._columns = gaussian(gamma).against(self.landmarks, np.float32)

    @property
    def rank(self) -> int:
        """Number of features: landmarks minus the directions that float32 cannot tell from zero."""
        return self.whitening.shape[1]

    def __call__(self, rows: Rows) -> Float64Array:
        return self._columns(rows) @ self.whitening

    def folded(self, weights: Float64Array, intercept: Float64Array) -> Expansion:
        r"""Return k(x, Z) β + b with β = V w, the same function as φ(x)·w + b."""
        own = self.units
        coefficients = narrowed(self.whitening @ weights, np.float32)
        return Expansion(
            own.units, coefficients, narrowed(intercept[None], np.float32)[0], own.gamma, own.centre
        )


class _NystromLinear(LinearBaseline):
    n_landmarks: Any

    def _features(self, rows: WeightedRows, rng: np.random.Generator) -> _Features:
        count = whole_number("n_landmarks", self.n_landmarks, 1)
        gamma = self._checked_gamma(rows.rows)
        return _Features(rows.rows, count, gamma, rng, Engine(self.n_jobs))


@dataclass(eq=False, repr=False)
class NystromLinearClassifier(_NystromLinear, LinearClassifier):
    r"""k-means Nyström and liblinear: a linear SVM on φ(x) = Vᵀ k(Z, x), V Vᵀ = K(Z, Z)⁺.

    Z are k-means centres of the rows. The weights w are folded, β = V w, so that a prediction is
    f(x) = Σ_j exp(−γ‖x − z_j‖²) β_j + b: one kernel row of ``n_landmarks`` values.

    Parameters
    ----------
    n_landmarks : int
        Number of landmarks m; at most the number of rows.
    gamma : float, default 1/n_features
        γ of the kernel exp(−γ‖x − z‖²).
    C : float
        Weight of the loss, as in liblinear.
    loss : {"squared_hinge", "hinge"}
    tol, max_iter : parameters of liblinear.
    random_state, n_jobs : as in scikit-learn; n_jobs applies to the features, liblinear uses one thread.

    Attributes
    ----------
    model_ : Expansion
        Landmarks, β and b in float32.
    classes_, nbytes_, n_iter_, n_features_in_ : as named; n_iter_ counts liblinear's iterations.

    Time O(n m (d + m)) and liblinear's; memory O(n m) for a float64 table of features. A prediction takes
    O(m d) a row. Raises ``InputError`` for unusable input; warns ``AccuracyWarning`` if liblinear stops
    early. Accuracy is poor for a narrow kernel, since no moderate number of landmarks then covers the rows.

    Source: Zhang, Tsang and Kwok 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from baselines.nystrom_linear import NystromLinearClassifier
    >>> X = np.random.default_rng(0).random((1000, 2))
    >>> y = np.hypot(X[:, 0] - 0.5, X[:, 1] - 0.5) < 0.35
    >>> m = NystromLinearClassifier(20, gamma=5.0, random_state=0).fit(X, y)
    >>> bool(m.score(X, y) > 0.97), m.nbytes_
    (True, 252)
    """

    model_: Expansion = field(init=False)

    n_landmarks: int = 100
    _: KW_ONLY
    gamma: float | str | None = None
    C: float = 1.0
    loss: str = "squared_hinge"
    tol: float = 1e-4
    max_iter: int = 1000
    random_state: Any = None
    n_jobs: int | None = None


@dataclass(eq=False, repr=False)
class NystromLinearRegressor(_NystromLinear, LinearRegressor):
    r"""k-means Nyström and ridge regression, with the features of :class:`NystromLinearClassifier`.

    Minimises Σ_i weight_i (y_i − w·φ(x_i) − b)² + alpha ‖w‖², from sums over the rows.

    Parameters
    ----------
    n_landmarks, gamma, random_state, n_jobs : as for :class:`NystromLinearClassifier`.
    alpha : float
        Ridge penalty.

    Time O(n m (d + m) + m³), memory O(m (m + d)).

    Source: Zhang, Tsang and Kwok 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from baselines.nystrom_linear import NystromLinearRegressor
    >>> X = np.random.default_rng(0).random((1000, 2))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 1]
    >>> m = NystromLinearRegressor(30, gamma=3.0, alpha=1e-3, random_state=0).fit(X, y)
    >>> bool(m.score(X, y) > 0.99)
    True
    """

    model_: Expansion = field(init=False)

    n_landmarks: int = 100
    _: KW_ONLY
    gamma: float | str | None = None
    alpha: float = 1.0
    random_state: Any = None
    n_jobs: int | None = None
