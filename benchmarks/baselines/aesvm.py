"""Support vector machine on approximate extreme points: fewer rows, weighted by the rows they represent.

Source: Nandan, Khargonekar and Talathi 2014.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from baselines.base import BaselineClassifier, WeightedRows
from baselines.expansion import Expansion
from baselines.extreme_points import derive_representatives
from baselines.support import support_vectors
from gramian._checks import not_negative, whole_number
from gramian._random import as_generator
from gramian.engine import Engine


@dataclass(eq=False, repr=False)
class AESVMClassifier(BaselineClassifier):
    r"""Approximate extreme points SVM: libsvm on few representative rows, weighted by β.

    Every row of a class lies within ε of the convex hull of its representatives in the feature space:
    ‖φ(x_i) − Σ_t μ_it φ(x_t)‖² ≤ ε with μ_it ≥ 0, Σ_t μ_it = 1. With β_t = Σ_i weight_i μ_it,

    min ½‖w‖² + C Σ_t β_t max(0, 1 − y_t f(x_t))

    is solved, and f(x) = Σ_t exp(−γ‖x − x_t‖²) α_t y_t + b over its support vectors. With more than two
    classes, each class has its own representatives and a machine against the rest.

    Parameters
    ----------
    epsilon : float
        ε ≥ 0. With 0 every row is a representative, which gives the exact SVM.
    P, V : int
        The rows of a class are divided into parts of at most P rows, and these into subsets of at most V,
        each with its own representatives. Larger values find fewer representatives in more time.
    gamma : float, default 1/n_features
        γ of the kernel exp(−γ‖x − z‖²).
    C, tol : parameters of the SVM (libsvm).
    random_state, n_jobs : as in scikit-learn; rows are drawn to divide a class with more than V rows.

    Attributes
    ----------
    model_ : Expansion
        Support vectors, coefficients and b in float32.
    n_representatives_, n_support_ : int
        Number of rows that the SVM was trained on, and number of support vectors.
    classes_, nbytes_, n_features_in_ : as named.

    Time O(n V²) at most for the m representatives, then libsvm's O(m² d) to O(m³); memory O(V² + m d). Raises
    ``InputError`` for unusable input. A prediction takes O(support vectors · d), so the method speeds up
    training more than prediction. It saves nothing if the kernel is so narrow that no row lies near the hull
    of others.

    Source: Nandan, Khargonekar and Talathi 2014. The halving and the farthest-first choice follow the
    authors' published code. Subsets of nearest rows, and the test for rows that others cannot represent, are
    new here.

    Examples
    --------
    >>> import numpy as np
    >>> from baselines.aesvm import AESVMClassifier
    >>> X = np.random.default_rng(0).random((1000, 2))
    >>> y = np.hypot(X[:, 0] - 0.5, X[:, 1] - 0.5) < 0.35
    >>> m = AESVMClassifier(epsilon=1e-2, gamma=5.0, C=10.0).fit(X, y)
    >>> bool(m.score(X, y) > 0.95), m.n_representatives_ < 200
    (True, True)
    """

    model_: Expansion = field(init=False)

    epsilon: float = 1e-2
    _: KW_ONLY
    P: int = 100_000
    V: int = 1000
    gamma: float | str | None = None
    C: float = 1.0
    tol: float = 1e-3
    random_state: Any = None
    n_jobs: int | None = None

    def _train(self, rows: WeightedRows) -> Expansion:
        gamma = self._checked_gamma(rows.rows)
        epsilon = not_negative("epsilon", self.epsilon)
        P, V = whole_number("P", self.P, 1), whole_number("V", self.V, 1)
        engine = Engine(self.n_jobs)
        counted = rows
        if epsilon > 0:
            targets = rows.targets
            labels = targets[:, 0] > 0 if targets.shape[1] == 1 else targets.argmax(axis=1)
            found = derive_representatives(
                rows.rows,
                rows.weights,
                labels.astype(np.intp),
                gamma,
                epsilon=epsilon,
                P=P,
                V=V,
                rng=as_generator(self.random_state),
                engine=engine,
            )
            counted = WeightedRows(rows.rows[found.rows], targets[found.rows], found.weights)
        exact = support_vectors(counted, C=self.C, gamma=gamma, tol=self.tol, engine=engine)
        self.n_representatives_ = counted.rows.shape[0]
        self.n_support_ = len(exact.rows)
        return Expansion.of(exact.rows, exact.coefficients, exact.intercept, gamma)
