"""Pseudo-landmarks against their definitions: equations (4) to (7) and Lemma 1 of DC-Pred++."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

import gramian as gm
from gramian._numerics import design_cutoff
from gramian.exceptions import InputError, NumericalWarning
from gramian.fast.dcpred.pseudo_landmarks import PSEUDO, MonomialColumns, TriangleColumns, expand, fit_core
from gramian.kernels import Cauchy
from gramian.landmarks.rules import lloyd

RNG = np.random.default_rng(5)
X = RNG.random((180, 3)) * [1.0, 2.0, 0.5] + 4.0
SCALES = (0.4, 0.9, 0.3)
#: A kernel, and κ of its distance r.
KERNELS = {
    "gaussian": (gm.Gaussian(SCALES), lambda r: np.exp(-0.5 * r**2)),
    "exponential": (gm.Exponential(SCALES), lambda r: np.exp(-r)),
    "matern": (gm.Matern(0.6, nu=1.5), lambda r: (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r)),
    "rational": (gm.RationalQuadratic(0.6, shape=2.0), lambda r: (1 + r**2 / 4) ** -2.0),
    "cauchy": (Cauchy(0.6), lambda r: 1 / (1 + r**2)),
    "laplacian": (gm.Laplacian(SCALES), lambda r: np.exp(-r)),
    "scaled": (2.5 * (0.5 * gm.Gaussian(0.6)), lambda r: 1.25 * np.exp(-0.5 * r**2)),
}


def distances(kernel, A, B):
    """The kernel's own distance, one pair after another."""
    while hasattr(kernel, "factor"):
        kernel = kernel.kernel
    scale = np.broadcast_to(kernel.lengthscale, 3)
    return cdist(A / scale, B / scale, "cityblock" if isinstance(kernel, gm.Laplacian) else "euclidean")


def fitted_core(sub, gram):
    """W̄ of the extended Nyström approximation."""
    factor = fit_core(sub, gram)
    return factor @ factor.T


def relative_error(kernel, columns, rows=X):
    gram = kernel(rows)
    C = columns(rows)
    return np.linalg.norm(gram - C @ fitted_core(C, gram) @ C.T) / np.linalg.norm(gram)


def generator():
    return np.random.default_rng(11)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("name", KERNELS)
def test_triangles_are_the_bounds_of_equation_6(name, upper):
    kernel, profile = KERNELS[name]
    pseudo = "triangle-upper" if upper else "triangle-lower"
    columns = expand(kernel, X[:5], X[20:120], 7, pseudo, generator())
    assert isinstance(columns, TriangleColumns)
    near, between = distances(kernel, X, X[:5]), distances(kernel, columns.points, X[:5])
    if upper:
        bound = (near[:, None, :] + between).min(axis=2)
    else:
        bound = np.abs(near[:, None, :] - between).max(axis=2)
    np.testing.assert_allclose(columns(X), np.hstack([profile(near), profile(bound)]), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(columns(X)[:, :5], kernel(X, X[:5]), rtol=1e-6, atol=1e-9)
    truth = kernel(X, columns.points)
    assert ((columns(X)[:, 5:] <= truth + 1e-9) if upper else (columns(X)[:, 5:] >= truth - 1e-9)).all()


def test_monomials_are_products_of_two_kernel_values():
    kernel = gm.Polynomial(0.8, degree=2)
    columns = expand(kernel, X[:4], X, 6, "monomials", generator())
    assert isinstance(columns, MonomialColumns)
    c = kernel(X, X[:4])
    pairs = list(zip(columns.left, columns.right, strict=True))
    assert len(set(pairs)) == 6
    assert all(i <= j for i, j in pairs)
    oracle = np.column_stack([c, *(c[:, i] * c[:, j] for i, j in pairs)])
    np.testing.assert_allclose(columns(X), oracle, rtol=1e-12)


@pytest.mark.parametrize(("degree", "count"), [(3, 8), (3, 14), (4, 9), (4, 1000)])
def test_monomials_of_higher_degree_are_distinct_products_of_kernel_values(degree, count):
    m, kernel = 3, gm.Gaussian(0.5)
    columns = expand(kernel, X[:m], X, count, "monomials", generator(), degree=degree)
    powers = [np.eye(m, dtype=int)[j] for j in range(m)]
    for i, j in zip(columns.left, columns.right, strict=True):
        powers.append(powers[i] + powers[j])
    drawn = np.array(powers[m:])
    assert len(np.unique(drawn, axis=0)) == len(drawn)
    degrees = np.bincount(drawn.sum(axis=1), minlength=degree + 1)
    if count == 1000:  # every monomial: 6 of degree 2, 10 of degree 3, 15 of degree 4
        assert degrees.tolist() == [0, 0, 6, 10, 15]
    else:  # as even as there are monomials
        assert degrees.sum() == count
        assert degrees[2] == min(6, -(-count // (degree - 1)))
    oracle = np.prod(kernel(X, X[:m])[:, None, :] ** drawn, axis=2)
    np.testing.assert_allclose(columns(X)[:, m:], oracle, rtol=1e-9)
    assert not columns.quadratic


def test_all_monomials_of_a_higher_degree_are_never_worse():
    kernel = gm.Gaussian(0.5)
    errors = [
        relative_error(kernel, expand(kernel, X[:4], X, 1000, "monomials", generator(), degree=degree))
        for degree in (2, 3, 4)
    ]
    assert errors[0] > errors[1] > errors[2]


def test_counts_end_where_there_are_no_more():
    kernel = gm.Gaussian(0.5)
    assert expand(kernel, X[:3], X, 100, "monomials", generator()).n_columns == 3 + 6
    assert expand(kernel, X[:3], X[:8], 100, "triangle-upper", generator()).n_columns == 3 + 8
    for pseudo, count in ((None, 100), ("monomials", 0), ("triangle-lower", 0)):
        columns = expand(kernel, X[:3], X, count, pseudo, generator())
        np.testing.assert_array_equal(columns(X), kernel.against(X[:3], np.float64)(X))


@pytest.mark.parametrize("pseudo", PSEUDO)
def test_float32_and_sparse_rows_give_what_dense_float64_rows_give(pseudo):
    kernel = gm.Gaussian(0.5)
    wide = expand(kernel, X[:5], X, 9, pseudo, generator())(X)
    single = expand(kernel, X[:5], X, 9, pseudo, generator(), np.float32)(X[5:].astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, wide[5:], atol=1e-4)
    thin = sp.csr_array(X)
    np.testing.assert_allclose(expand(kernel, thin[:5], thin, 9, pseudo, generator())(thin), wide, atol=1e-7)


@pytest.mark.parametrize("pseudo", PSEUDO)
def test_distances_beyond_the_range_of_the_type_are_kernel_values_of_zero(pseudo):
    far = np.array([[0.0, 0, 0], [1e30, 0, 0], [-1e30, 1, 0]], np.float32)
    values = expand(gm.Gaussian(1e-6), far[:2], far, 3, pseudo, generator(), np.float32)(far)
    assert np.isfinite(values).all()
    np.testing.assert_array_equal(values[2, :2], 0.0)


def test_core_is_equation_5():
    kernel = gm.Gaussian(0.5)
    gram = kernel(X)
    for pseudo in (None, *PSEUDO):
        C = expand(kernel, X[:5], X, 9, pseudo, generator())(X)
        for rows in (slice(None), slice(0, 60)):
            inverse = np.linalg.pinv(C[rows], rcond=design_cutoff(np.float64))
            core = fitted_core(C[rows], gram[rows, rows])
            approximation = C[rows] @ core @ C[rows].T
            np.testing.assert_allclose(
                approximation, C[rows] @ inverse @ gram[rows, rows] @ (C[rows] @ inverse).T, atol=1e-9
            )
            np.testing.assert_allclose(core, inverse @ gram[rows, rows] @ inverse.T, rtol=1e-4, atol=1e-6)


def test_core_of_the_landmarks_alone_is_never_worse_than_nystrom():
    kernel = gm.Gaussian(0.5)
    gram, C = kernel(X), kernel(X, X[:6])
    nystrom = C @ np.linalg.pinv(kernel(X[:6])) @ C.T
    best = C @ fitted_core(C, gram) @ C.T
    assert np.linalg.norm(gram - best) <= np.linalg.norm(gram - nystrom)


def test_lemma_1_all_monomials_are_never_worse_than_fitted_quadratic_functions():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows = rng.random((150, 3))
        kernel = gm.Gaussian(0.6)
        landmarks, points = rows[:4], rows[rng.choice(150, 8, replace=False)]
        every = expand(kernel, landmarks, rows, 10, "monomials", rng)
        C, quadratic = every(rows)[:, :4], every(rows)[:, 4:]
        gram = kernel(rows)
        # f_t: least squares of k(x, v_t) on all monomials of degree 2.
        fitted = quadratic @ np.linalg.lstsq(quadratic, kernel(rows, points), rcond=None)[0]
        two_steps = np.hstack([C, fitted])
        first = np.linalg.norm(gram - two_steps @ fitted_core(two_steps, gram) @ two_steps.T)
        hat = every(rows)
        assert np.linalg.norm(gram - hat @ fitted_core(hat, gram) @ hat.T) <= first * (1 + 1e-9)


@pytest.mark.parametrize("pseudo", PSEUDO)
def test_error_falls_with_pseudo_landmarks_of_the_same_landmarks(pseudo):
    rows = np.random.default_rng(0).random((400, 3))
    kernel = gm.Gaussian(0.5)
    landmarks = lloyd(rows, 6, 10, generator())
    errors = [
        relative_error(kernel, expand(kernel, landmarks, rows, p, pseudo, generator()), rows)
        for p in (0, 5, 20)
    ]
    assert errors[1] < 0.95 * errors[0]
    assert errors[2] < 0.8 * errors[0]


def test_repeated_landmarks_are_dropped_as_rounding():
    kernel = gm.Gaussian(0.5)
    landmarks = np.vstack([X[:3], X[:3]])
    C = kernel(X, landmarks)
    assert fit_core(C, kernel(X)).shape == (6, 3)
    core = fitted_core(C, kernel(X))
    np.testing.assert_allclose(
        C @ core @ C.T, C[:, :3] @ fitted_core(C[:, :3], kernel(X)) @ C[:, :3].T, atol=1e-9
    )


def test_core_of_zeros_has_no_directions():
    assert fit_core(np.zeros((4, 2)), np.zeros((4, 4))).shape == (2, 0)


def test_indefinite_matrix_is_clipped_with_a_warning():
    with pytest.warns(NumericalWarning, match=r"sampled kernel matrix of a leaf is indefinite.*clipped"):
        core = fitted_core(np.eye(3), np.diag([1.0, 2.0, -1.0]))
    np.testing.assert_allclose(core, np.diag([1.0, 2.0, 0.0]), atol=1e-12)


@pytest.mark.parametrize("kernel", [gm.Linear(), gm.Gaussian() + gm.Gaussian(2.0), gm.Polynomial()])
def test_triangles_need_one_distance(kernel):
    with pytest.raises(InputError, match=r"not a function of one distance\. Take pseudo='monomials'"):
        expand(kernel, X[:3], X, 4, "triangle-upper", generator())


@pytest.mark.parametrize("pseudo", ["monomial", 3, True])
def test_unknown_kind(pseudo):
    with pytest.raises(InputError, match=r"pseudo=.* is unknown\. Choose one of triangle-upper"):
        expand(gm.Gaussian(), X[:3], X, 4, pseudo, generator())
