r"""Pseudo-landmarks: cheap features computed from the kernel values of a few landmarks.

For landmarks u_j, c(x) = [k(x, u_1) … k(x, u_m)] costs m d products. The longer c̄(x) = [c(x), f_1(c(x)) …
f_p(c(x))] costs little more. With C̄ the matrix of all c̄(x_i), the approximation K ≈ C̄ W̄ C̄ᵀ with
W̄ = C̄⁺ K C̄⁺ᵀ (:func:`fit_core`) has rank m + p instead of m.
Source: Hsieh, Si and Dhillon 2014 (DC-Pred++), section 4 and Algorithm 1.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg as la
from numpy.typing import DTypeLike

from gramian._numerics import clip_negative, design_cutoff, rank_cutoff
from gramian._tiles import row_slices, tile_rows
from gramian._typing import Float64Array, FloatArray, IntArray, Rows
from gramian.exceptions import InputError, did_you_mean
from gramian.kernels import Kernel, Laplacian
from gramian.kernels.base import Scaled, lengthscale_array
from gramian.kernels.cityblock import CityblockColumns
from gramian.kernels.columns import Columns, leave
from gramian.kernels.compiled import exp_in_place
from gramian.kernels.euclidean import EuclideanColumns
from gramian.kernels.families import EuclideanKernel

#: Kinds of pseudo-landmarks f_t.
PSEUDO = ("triangle-upper", "triangle-lower", "monomials")


def check_pseudo(pseudo: object, kernel: Kernel) -> None:
    """Raise ``InputError`` if the kind of pseudo-landmark is unknown or does not fit the kernel."""
    if pseudo is None:
        return
    if not isinstance(pseudo, str) or pseudo not in PSEUDO:
        raise InputError(
            f"pseudo={pseudo!r} is unknown. Choose one of {', '.join(PSEUDO)}, or None."
            + did_you_mean(pseudo, PSEUDO)
        )
    if pseudo != "monomials" and not isinstance(split_factor(kernel)[1], EuclideanKernel | Laplacian):
        raise InputError(
            f"pseudo={pseudo!r} bounds a distance by the triangle inequality, but {kernel!r} is not a "
            "function of one distance. Take pseudo='monomials', or a kernel such as 'rbf'."
        )


def expand(
    kernel: Kernel,
    landmarks: Rows,
    rows: Rows,
    count: int,
    pseudo: str | None,
    rng: np.random.Generator,
    dtype: DTypeLike | None = np.float64,
    *,
    degree: int = 2,
) -> Columns:
    """Return the evaluator of c̄(x) = [c(x), f(c(x))] with ``count`` pseudo-landmarks.

    landmarks : (m, d), the u_j; rows : (n, d). For the triangle inequality, points v_t are drawn from the
        rows without replacement.
    count : p, at most n for the triangle inequality and m(m + 1)/2 for monomials of degree 2.
    pseudo : ``"triangle-upper"``, ``"triangle-lower"``, ``"monomials"``, or None for c alone.
    degree : highest degree D of the monomials (:func:`draw_monomials`).

    >>> import gramian as gm
    >>> rows = np.random.default_rng(0).random((50, 3))
    >>> expand(gm.Gaussian(), rows[:4], rows, 6, "monomials", np.random.default_rng(0)).n_columns
    10
    """
    check_pseudo(pseudo, kernel)
    m = landmarks.shape[0]
    if pseudo is None or count == 0:
        return kernel.against(landmarks, dtype)
    if pseudo == "monomials":
        return MonomialColumns(kernel, landmarks, *draw_monomials(m, count, degree, rng), dtype)
    drawn = np.sort(rng.choice(rows.shape[0], min(count, rows.shape[0]), replace=False))
    return TriangleColumns(kernel, landmarks, rows[drawn], dtype, upper=pseudo == "triangle-upper")


def draw_monomials(m: int, count: int, degree: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Draw ``count`` monomials of degree 2 to ``degree`` in m numbers; return the two factors of each.

    The degrees share the count evenly; what a degree has too few monomials for goes to the higher ones. A
    monomial of degree q is one of the drawn monomials of degree q − 1 times one of the numbers, so each costs
    one product. Factors are columns of c̄: below m the numbers themselves, then the monomials in their order.

    >>> draw_monomials(1, 3, 4, np.random.default_rng(0))
    (array([0, 1, 2]), array([0, 0, 0]))
    """
    lefts, rights = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
    # The monomials of the degree below, and the last (largest) number of each.
    below, last, left_over = np.arange(m), np.arange(m), count
    for q in range(2, degree + 1):
        counts = m - last
        firsts = np.cumsum(counts) - counts
        factor = np.repeat(np.arange(len(below)), counts)
        number = last[factor] + np.arange(len(factor)) - firsts[factor]
        share = min(-(-left_over // (degree + 1 - q)), len(factor))
        drawn = np.sort(rng.choice(len(factor), share, replace=False))
        lefts.append(below[factor[drawn]])
        rights.append(number[drawn])
        below, last = m + count - left_over + np.arange(share), number[drawn]
        left_over -= share
    return np.concatenate(lefts), np.concatenate(rights)


class MonomialColumns(Columns):
    """Evaluator of c̄(x) with monomials f_q(c) of degree 2, c_i c_j, or more.

    With all m(m + 1)/2 monomials of degree 2 the error ‖K − C̄ W̄ C̄ᵀ‖ is at most that of any other quadratic
    forms f_t of c, however they were fitted (Lemma 1). Time O(m d + p) a row.
    Source: DC-Pred++, equation (7).

    left, right : (p,), the two columns of c̄ whose product a monomial is; both come before its own column.
    """

    def __init__(
        self, kernel: Kernel, landmarks: Rows, left: IntArray, right: IntArray, dtype: DTypeLike | None
    ) -> None:
        factors, own = np.stack([left, right]), landmarks.shape[0] + np.arange(len(left))
        if factors.size and (factors.min() < 0 or (factors >= own).any()):
            raise InputError("a monomial has a factor that is no column before its own.")
        self.landmarks, self.left, self.right = landmarks, left, right
        self._base = kernel.against(landmarks, dtype)
        super().__init__(landmarks.shape[0] + len(left), dtype)
        self._steps = _steps(landmarks.shape[0], np.maximum(left, right))

    @property
    def quadratic(self) -> bool:
        """Whether every monomial has degree 2."""
        return len(self._steps) <= 1

    def write(self, X: Rows, out: FloatArray) -> None:
        m = self._base.n_columns
        for rows in row_slices(X.shape[0], tile_rows(self.n_columns, self.dtype.itemsize)):
            tile = out[rows]
            tile[:, :m] = self._base(X[rows])
            for step in self._steps:
                own = slice(m + step.start, m + step.stop)
                np.multiply(tile[:, self.left[step]], tile[:, self.right[step]], out=tile[:, own])


def _steps(m: int, factors: IntArray) -> tuple[slice, ...]:
    """Cut monomials into runs whose factors, column numbers of c̄, all come before the run."""
    steps, first = [], 0
    while first < len(factors):
        beyond = np.flatnonzero(factors[first:] >= m + first)
        stop = first + int(beyond[0]) if beyond.size else len(factors)
        steps.append(slice(first, stop))
        first = stop
    return tuple(steps)


class TriangleColumns(Columns):
    r"""Evaluator of c̄(x) with f_t(c) = κ(r̂_t), where r̂_t bounds the distance from x to a point v_t.

    max_j |‖x − u_j‖ − ‖v_t − u_j‖| ≤ ‖x − v_t‖ ≤ min_j (‖x − u_j‖ + ‖v_t − u_j‖)

    Distances are the kernel's own, in units of ℓ (for the Laplacian kernel the 1-norm). ‖x − u_j‖ is known
    from k(x, u_j), and ‖v_t − u_j‖ is stored. Time O(m d + m p) a row, worthwhile for m ≪ d.
    Source: DC-Pred++, equation (6).

    points : (p, d), the v_t; upper : which of the two bounds; between : (m, p), ‖u_j − v_t‖.

    In float32 the distance to a landmark that equals x errs by up to 6e-3 ℓ. This changes k(x, u_j) by no
    more than its own tolerance, 2e-5.
    """

    def __init__(
        self, kernel: Kernel, landmarks: Rows, points: Rows, dtype: DTypeLike | None, *, upper: bool
    ) -> None:
        self.landmarks, self.points, self.upper = landmarks, points, upper
        self._factor, self._kernel = split_factor(kernel)
        self._distances = _distances(self._kernel, landmarks, dtype)
        between = _distances(self._kernel, landmarks, np.dtype(np.float64))(points)
        self.between = np.ascontiguousarray(_rooted(self._kernel, between).T, dtype)
        super().__init__(landmarks.shape[0] + points.shape[0], dtype)

    def write(self, X: Rows, out: FloatArray) -> None:
        m = self._distances.n_columns
        for rows in row_slices(X.shape[0], tile_rows(self.n_columns, self.dtype.itemsize)):
            tile = out[rows]
            near = _rooted(self._kernel, self._distances(X[rows]))
            tile[:, :m] = near
            self._bound(near, tile[:, m:])
            _profile(self._kernel, tile)
            if self._factor != 1.0:
                tile *= self._factor

    def _bound(self, near: FloatArray, bound: FloatArray) -> None:
        """Write the bounds r̂ (rows, p) for distances r (rows, m); loop over landmarks, never over rows."""
        bound[...] = np.inf if self.upper else 0.0
        # The difference of two infinite distances is NaN; fmax ignores it.
        with np.errstate(invalid="ignore"):
            for j, between in enumerate(self.between):
                if self.upper:
                    np.minimum(bound, near[:, j : j + 1] + between, out=bound)
                else:
                    np.fmax(bound, np.abs(near[:, j : j + 1] - between), out=bound)


def split_factor(kernel: Kernel) -> tuple[float, Kernel]:
    """Split a kernel into a constant factor and a kernel that is not itself scaled."""
    factor = 1.0
    while isinstance(kernel, Scaled):
        factor, kernel = factor * kernel.factor, kernel.kernel
    return factor, kernel


def _distances(kernel: Kernel, Z: Rows, dtype: DTypeLike | None) -> Columns:
    """Return the evaluator of ‖(x − z)/ℓ‖₂², or of ‖(x − z)/ℓ‖₁ for the Laplacian kernel."""
    assert isinstance(kernel, EuclideanKernel | Laplacian)
    scales = lengthscale_array(kernel.lengthscale, Z.shape[1])
    if isinstance(kernel, Laplacian):
        return CityblockColumns(Z, dtype, scales, leave)
    return EuclideanColumns(Z, dtype, scales, 1.0, leave, slope=kernel.slope)


def _rooted(kernel: Kernel, t: FloatArray) -> FloatArray:
    """Turn values of :func:`_distances` into distances, in place."""
    return t if isinstance(kernel, Laplacian) else np.sqrt(t, out=t)


def _profile(kernel: Kernel, t: FloatArray) -> None:
    """Turn distances r into kernel values κ(r), in place."""
    if isinstance(kernel, Laplacian):
        np.negative(t, out=t)
        exp_in_place(t)
        return
    assert isinstance(kernel, EuclideanKernel)
    with np.errstate(over="ignore"):  # an infinite distance, whose kernel value is zero
        np.multiply(t, t, out=t)
        t *= kernel.distance_factor
    kernel.map_tile(t)


def fit_core(sub: FloatArray, gram: FloatArray, dtype: DTypeLike = np.float64) -> Float64Array:
    r"""Return L (m + p, r) of the core W̄ = L Lᵀ = C̄_I⁺ K_II C̄_I⁺ᵀ on sampled rows I: Φ = C̄ L are features.

    W̄ is the least-squares solution of C̄_I W̄ C̄_Iᵀ ≈ K_II, so that K ≈ Φ Φᵀ.

    sub : C̄_I, (s, m + p); gram : K_II, (s, s); dtype : type in which c̄ will be evaluated. Singular values of
    C̄_I up to ``design_cutoff`` times the largest are left out. With C̄_I = U Σ Vᵀ and UᵀK_II U = Q Λ Qᵀ,
    L = V Σ⁻¹ Q Λ^(1/2). Negative Λ, from a kernel that is not positive semi-definite, are clipped with a
    warning.

    Time O(s² (m + p) + s (m + p)²), memory O(s²). Source: DC-Pred++, equation (5) on a submatrix.

    >>> C = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> L = fit_core(C, np.diag([4.0, 4.0, 1.0]))
    >>> L @ L.T
    array([[4., 0.],
           [0., 1.]])
    """
    U, sigma, Vt = la.svd(np.asarray(sub, np.float64), full_matrices=False, check_finite=False)
    keep = sigma > design_cutoff(dtype) * sigma.max(initial=0.0)
    U, sigma, Vt = U[:, keep], sigma[keep], Vt[keep]
    inner = U.T @ np.asarray(gram, np.float64) @ U
    values, vectors = la.eigh(0.5 * (inner + inner.T), check_finite=False)
    values, _ = clip_negative(values, "The sampled kernel matrix of a leaf")
    kept = values > rank_cutoff(np.float64) * values.max(initial=0.0)
    return (Vt.T / sigma) @ (vectors[:, kept] * np.sqrt(values[kept]))
