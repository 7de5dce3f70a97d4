r"""Reduced sets: approximation of an expansion over many support vectors by a few constructed units.

Source: Schölkopf, Mika, Burges, Knirsch, Müller, Rätsch and Smola 1999; greedy as in STPRtool.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field

import numpy as np
import scipy.linalg as la

from baselines.base import BaselineClassifier, WeightedRows
from baselines.expansion import Expansion, gaussian
from baselines.support import support_vectors
from gramian._checks import positive_number, whole_number
from gramian._numerics import rank_cutoff
from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, Float64Array, IntArray
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.kernels.base import as_rows
from gramian.kernels.columns import Columns, dense

#: Most support vectors among which starting points are chosen. Chosen by hand, as are the next constants.
POOL_ROWS = 2000
#: A step that does not raise the objective is multiplied by this.
CUT = 0.25
#: Iteration stops when a step is below this fraction of the kernel's width, 1/√γ.
REST = 1e-4


@dataclass(frozen=True, eq=False)
class ReducedSet:
    """Approximation Σ_j β_j φ(z_j) of ψ = Σ_i α_i φ(x_i).

    units : (m, d), z; coefficients : (m, outputs), β.
    distances : (m + 1,), ‖ψ − Σ_j≤t β_j φ(z_j)‖/‖ψ‖ with the first t units, t = 0 … m.
    """

    units: Float64Array
    coefficients: Float64Array
    distances: Float64Array


def reduced_set(
    support: Array, coefficients: Array, gamma: float, n_units: int, *, n_starts: int = 4, n_steps: int = 20
) -> ReducedSet:
    r"""Approximate ψ = Σ_i α_i φ(x_i) by ``n_units`` units, one after the other, for k = exp(−γ‖x − z‖²).

    The next unit maximises g(z)², g the residual's value Σ_i α_i k(x_i, z) − Σ_j β_j k(z_j, z), by the
    fixed point z ← Σ_i α_i k(x_i, z) x_i / Σ_i α_i k(x_i, z) over the residual's points; then all β are
    solved for anew, β = K(Z, Z)⁻¹ K(Z, X) α, which is the least distance in the feature space.

    Parameters
    ----------
    support : (n, d)
        x_i.
    coefficients : (n,) or (n, outputs)
        α_i. Several outputs share their units: z maximises Σ_c g_c(z)², with Σ_c g_c(z) α_ic in place of
        α_i.
    gamma : float
        γ of the kernel.
    n_units : int
        m; if it is n or more, the support vectors themselves are returned.
    n_starts, n_steps : int
        Support vectors from which the fixed point is started at once, the best kept, and steps at most. A
        step that does not climb is cut short: with coefficients of both signs the plain one may run away.

    Returns
    -------
    ReducedSet : units, coefficients (n_units, outputs) and the distance after each unit. Fewer units where
        none is left that adds a direction.

    Time O(n² d + units · steps · starts · n d), memory O(n d + units · 2,000). Raises ``InputError`` for
    input that cannot be used. It fails slowly where many classes share few units: look at ``distances``.

    Source: Schölkopf et al. 1999; Franc and Hlaváč 2004 (STPRtool, ``rsrbf``).

    Examples
    --------
    >>> import numpy as np
    >>> from baselines.reduced_set import reduced_set
    >>> rng = np.random.default_rng(0)
    >>> X, alpha = rng.random((200, 2)), rng.standard_normal(200)
    >>> small = reduced_set(X, alpha, gamma=2.0, n_units=15)
    >>> bool(small.distances[-1] < 0.05), small.units.shape
    (True, (15, 2))
    """
    points = np.asarray(dense(as_rows(support, "support")), np.float64)
    alpha = np.asarray(coefficients, np.float64)
    if alpha.ndim == 1:
        alpha = alpha[:, None]
    if alpha.ndim != 2 or len(alpha) != len(points):
        raise InputError(
            f"coefficients has shape {np.shape(coefficients)}, but support has {len(points)} rows. Pass one "
            "coefficient for each support vector, or one row of them."
        )
    if not (np.isfinite(points).all() and np.isfinite(alpha).all()):
        raise InputError("support or coefficients holds NaN or infinity. Fit the model again without them.")
    gamma = positive_number("gamma", gamma)
    n_units = whole_number("n_units", n_units, 1)
    n_starts, n_steps = whole_number("n_starts", n_starts, 1), whole_number("n_steps", n_steps, 0)
    if n_units >= len(points):
        distances = np.append(np.ones(len(points)), 0.0)
        return ReducedSet(points, alpha, distances)
    return _Greedy(points, alpha, gamma, n_units).run(n_starts, n_steps)


class _Greedy:
    """Units found so far, with the Cholesky factor of their Gram matrix and the residual on the pool."""

    def __init__(self, points: Float64Array, alpha: Float64Array, gamma: float, n_units: int) -> None:
        self._kernel, self._gamma = gaussian(gamma), gamma
        self._points, self._alpha = points, alpha
        self._columns: Columns = self._kernel.against(points, np.float64)
        values = np.asarray(self._kernel.matvec(points, None, alpha, n_jobs=1))
        self._square = float(np.einsum("ij,ij->", alpha, values))
        pool: IntArray = np.arange(len(points))[:: -(-len(points) // POOL_ROWS)]
        self._pool, self._pool_values = points[pool], values[pool]
        self._pool_units = np.empty((len(pool), n_units))
        self._factor = np.zeros((n_units, n_units))
        self._right = np.empty((n_units, alpha.shape[1]))
        self._units = np.empty((n_units, points.shape[1]))
        self._beta = np.zeros((0, alpha.shape[1]))

    def run(self, n_starts: int, n_steps: int) -> ReducedSet:
        distances = [1.0]
        for _ in range(len(self._units)):
            if not self._square > 0 or not self._add(self._climb(self._starts(n_starts), n_steps)):
                break
            count = len(self._beta)
            explained = float(np.einsum("ij,ij->", self._right[:count], self._beta))
            distances.append(float(np.sqrt(max(0.0, 1.0 - explained / self._square))))
        count = len(self._beta)
        return ReducedSet(self._units[:count].copy(), self._beta, np.array(distances))

    def _starts(self, count: int) -> Float64Array:
        """Return support vectors with large residuals that are far apart in feature space."""
        residual = self._pool_values - self._pool_units[:, : len(self._beta)] @ self._beta
        gain = np.einsum("ij,ij->i", residual, residual)
        picked: list[int] = []
        for _ in range(min(count, len(gain))):
            best = int(gain.argmax())
            if not gain[best] > 0:
                break
            picked.append(best)
            near = self._kernel(self._pool, self._pool[best][None, :], dtype=np.float64, n_jobs=1)[:, 0]
            gain *= 1.0 - near * near
            gain[best] = 0.0
        return self._pool[picked]

    def _residual(self, z: Float64Array) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Return g(z), shape (starts, outputs), Σ_c g_c², and the fixed point's next points."""
        units = self._units[: len(self._beta)]
        values, next_points = np.zeros((len(z), self._alpha.shape[1])), np.zeros_like(z)
        for rows in row_slices(len(z), tile_rows(len(self._points), 8)):
            near = self._columns(z[rows])
            own = np.asarray(self._kernel(z[rows], units, dtype=np.float64, n_jobs=1))
            g = near @ self._alpha - own @ self._beta
            near *= g @ self._alpha.T
            own *= g @ self._beta.T
            # The shares of the points sum to Σ_c g_c².
            total = np.einsum("ij,ij->i", g, g)
            safe = np.where(total > 0, total, 1.0)[:, None]
            values[rows], next_points[rows] = g, (near @ self._points - own @ units) / safe
        return values, np.einsum("ij,ij->i", values, values), next_points

    def _climb(self, z: Float64Array, n_steps: int) -> Float64Array:
        """Iterate the fixed point from all starts at once, shortening each step until it climbs."""
        if not len(z):
            return z
        z = z.copy()
        _, height, target = self._residual(z)
        step = np.ones(len(z))
        for _ in range(n_steps):
            move = step[:, None] * (target - z)
            active = np.flatnonzero(self._gamma * np.einsum("ij,ij->i", move, move) > REST**2)
            if not active.size:
                break
            tried = z[active] + move[active]
            _, found, onward = self._residual(tried)
            climbed = found > height[active]
            up = active[climbed]
            z[up], height[up], target[up] = tried[climbed], found[climbed], onward[climbed]
            step[up] = np.minimum(1.0, 2.0 * step[up])
            step[active[~climbed]] *= CUT
        return z

    def _add(self, z: Float64Array) -> bool:
        """Add the unit that reduces the distance most, and solve for all coefficients."""
        count = len(self._beta)
        if not len(z):
            return False
        values, height, _ = self._residual(z)
        own = np.asarray(self._kernel(self._units[:count], z, dtype=np.float64, n_jobs=1))
        lower = self._factor[:count, :count]
        rows = la.solve_triangular(lower, own, lower=True, check_finite=False) if count else own
        pivots = 1.0 - np.einsum("ij,ij->j", rows, rows)
        # The square of the distance falls by exactly g²/pivot; float32 weights bear no smaller pivot.
        least = rank_cutoff(np.float32, residual=True)
        gain = np.where(pivots > least, height / np.maximum(pivots, least), 0.0)
        best = int(gain.argmax())
        if not gain[best] > 0:
            return False
        self._units[count] = z[best]
        self._factor[count, :count] = rows[:, best]
        self._factor[count, count] = np.sqrt(pivots[best])
        self._right[count] = values[best] + own[:, best] @ self._beta
        self._pool_units[:, count] = np.asarray(
            self._kernel(self._pool, z[best][None, :], dtype=np.float64, n_jobs=1)
        )[:, 0]
        count += 1
        factor = self._factor[:count, :count]
        self._beta = la.cho_solve((factor, True), self._right[:count], check_finite=False)
        return True


@dataclass(eq=False, repr=False)
class ReducedSetClassifier(BaselineClassifier):
    r"""The exact SVM, then a reduced set of ``n_units`` constructed vectors: see :func:`reduced_set`.

    f(x) = Σ_j exp(−γ‖x − z_j‖²) β_j + b, b of the exact SVM. Many classes: exact machines one against the
    rest, whose reduced set shares its units.

    Parameters
    ----------
    n_units : int
        Total number of units.
    gamma : float, default 1/n_features
        γ of the kernel exp(−γ‖x − z‖²).
    C, tol : parameters of the exact SVM (libsvm).
    n_starts, n_steps : int, parameters of :func:`reduced_set`.
    n_jobs : threads for the machines of many classes, and for predictions.

    Attributes
    ----------
    model_ : Expansion
        Units, β and b in float32.
    distances_ : (units + 1,)
        ‖w − w_reduced‖/‖w‖ in the feature space, with none, one, … all units.
    n_support_ : int
        Support vectors of the exact SVM.
    classes_, nbytes_, n_features_in_ : as named.

    Time O(n² d) to O(n³) for the exact SVM, then O(units · steps · starts · n_sv d); memory O(n d). Raises
    ``InputError`` for unusable input. It approximates the SVM's normal vector, not its decisions: with few
    units the sign may be wrong near the boundary, more so for a larger C.

    Source: Schölkopf et al. 1999; Franc and Hlaváč 2004 (STPRtool).

    Examples
    --------
    >>> import numpy as np
    >>> from baselines.reduced_set import ReducedSetClassifier
    >>> X = np.random.default_rng(0).random((500, 2))
    >>> y = np.hypot(X[:, 0] - 0.5, X[:, 1] - 0.5) < 0.35
    >>> m = ReducedSetClassifier(10, gamma=5.0).fit(X, y)
    >>> bool(m.score(X, y) > 0.95), m.n_support_ > 100, len(m.distances_)
    (True, True, 11)
    """

    model_: Expansion = field(init=False)

    n_units: int = 100
    _: KW_ONLY
    gamma: float | str | None = None
    C: float = 1.0
    tol: float = 1e-3
    n_starts: int = 4
    n_steps: int = 20
    n_jobs: int | None = None

    def _train(self, rows: WeightedRows) -> Expansion:
        gamma = self._checked_gamma(rows.rows)
        n_units = whole_number("n_units", self.n_units, 1)
        n_starts, n_steps = (
            whole_number("n_starts", self.n_starts, 1),
            whole_number("n_steps", self.n_steps, 0),
        )
        exact = support_vectors(rows, C=self.C, gamma=gamma, tol=self.tol, engine=Engine(self.n_jobs))
        found = reduced_set(
            exact.rows, exact.coefficients, gamma, n_units, n_starts=n_starts, n_steps=n_steps
        )
        self.distances_ = found.distances
        self.n_support_ = len(exact.rows)
        return Expansion.of(found.units, found.coefficients, exact.intercept, gamma)
