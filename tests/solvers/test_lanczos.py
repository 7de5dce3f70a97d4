"""Largest eigenpairs by block Lanczos, against dense eigendecompositions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gramian as gm
from gramian.operators import KernelOperator
from gramian.solvers.lanczos import leading_eigenpairs
from gramian.spectra import top_eigenpairs

N = 500


def points(n=N, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def rotated(values, seed=1):
    q = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))[0]
    return (q * values) @ q.T


SPECTRA = {
    "smooth": lambda: gm.Gaussian(3.0)(points()),
    "middle": lambda: gm.Gaussian(0.7)(points()),
    "local": lambda: gm.Gaussian(0.1)(points()),
    "low rank": lambda: points() @ points().T,
    "repeated": lambda: rotated(np.repeat([5.0, 3.0, 1.0], [4, 6, N - 10])),
    "identity": lambda: np.eye(N),
    "zero": lambda: np.zeros((N, N)),
    "indefinite": lambda: rotated(np.linspace(-3.0, 3.0, N) ** 3),
}


class Counted:
    """Products with a matrix, and how many there were."""

    def __init__(self, matrix, rounding=0.0):
        self.matrix, self.rounding, self.calls, self.columns = matrix, rounding, 0, 0

    def __call__(self, values):
        self.calls += 1
        self.columns += values.shape[1]
        out = self.matrix @ values
        return out * (1.0 + self.rounding * np.sin(1e6 * out)) if self.rounding else out


def found_by(matrix, count, *, tol=1e-10, seed=0, **options):
    counted = Counted(matrix)
    found = leading_eigenpairs(
        counted, len(matrix), count, tol=tol, rng=np.random.default_rng(seed), **options
    )
    assert (found.products, found.columns) == (counted.calls, counted.columns)
    return found


@pytest.mark.parametrize("count", [1, 6, 25])
@pytest.mark.parametrize("name", SPECTRA)
def test_eigenpairs_equal_the_dense_ones(name, count):
    matrix = SPECTRA[name]()
    found = found_by(matrix, count)
    want = np.linalg.eigvalsh(matrix)[::-1]
    scale = max(np.abs(want).max(), 1.0)
    np.testing.assert_allclose(found.values, want[:count], atol=1e-9 * scale)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(count), atol=1e-12)
    gaps = np.linalg.norm(matrix @ found.vectors - found.vectors * found.values, axis=0)
    assert gaps.max() <= 1.01e-10 * scale
    np.testing.assert_allclose(gaps, found.residuals, atol=1e-12 * scale)


def test_all_eigenpairs_of_a_small_matrix_take_one_product():
    matrix = gm.Gaussian(0.5)(points(40))
    found = found_by(matrix, 40)
    assert found.products == 1
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(matrix)[::-1], atol=1e-12)


def test_a_start_saves_products():
    matrix = SPECTRA["local"]()
    vectors = np.linalg.eigh(matrix)[1][:, ::-1][:, :20]
    near = vectors + 1e-4 * np.random.default_rng(0).standard_normal(vectors.shape)
    assert found_by(matrix, 20, start=near).products < 0.6 * found_by(matrix, 20).products


def test_a_start_without_rank_does_no_harm():
    matrix = SPECTRA["middle"]()
    found = found_by(matrix, 5, start=np.zeros((N, 12)))
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(matrix)[::-1][:5], atol=1e-9)


def test_wider_blocks_need_fewer_products():
    matrix = SPECTRA["local"]()
    assert found_by(matrix, 10, block=32).products < 0.7 * found_by(matrix, 10, block=8).products


def test_a_missed_tolerance_warns_with_its_amount():
    matrix = SPECTRA["local"]()
    with pytest.warns(gm.AccuracyWarning, match=r"residual .* above the target 1e-10, after 4 products"):
        found = found_by(matrix, 5, max_products=3)
    assert found.relative_residual > 1e-10
    with pytest.warns(gm.AccuracyWarning, match="float64 tiles"):
        leading_eigenpairs(
            Counted(matrix, 1e-6), N, 5, tol=1e-10, rng=np.random.default_rng(0), max_products=200
        )


def test_a_rounded_product_ends_soon_after_it_stops_helping():
    counted = Counted(SPECTRA["middle"](), 1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.AccuracyWarning)
        found = leading_eigenpairs(counted, N, 5, tol=1e-10, rng=np.random.default_rng(0))
    assert counted.calls < 60
    assert found.relative_residual < 1e-5


@pytest.mark.parametrize(
    ("count", "tol", "text"), [(0, 1e-8, "1 to 9"), (10, 1e-8, "1 to 9"), (2, 0, "tol=0")]
)
def test_bad_input(count, tol, text):
    with pytest.raises(gm.InputError, match=text):
        leading_eigenpairs(lambda v: v, 9, count, tol=tol, rng=np.random.default_rng(0))


class TestOperators:
    @pytest.mark.parametrize("lengthscale", [0.15, 0.7, 3.0])
    def test_exact_kernel(self, lengthscale):
        X = points(900)
        K = KernelOperator(gm.Gaussian(lengthscale), X, n_jobs=1)
        found = top_eigenpairs(K, 12, tol=1e-9, random_state=0)
        want = np.linalg.eigvalsh(gm.Gaussian(lengthscale)(X))[::-1][:12]
        np.testing.assert_allclose(found.values, want, rtol=1e-8)
        # A product is half of the matrix (and the parts on its diagonal); the start is a tenth of it.
        assert K.evaluations <= (found.products + 1) * 900**2

    def test_float32_rows_reach_what_float64_products_can(self):
        X = points(700).astype(np.float32)
        K = KernelOperator(gm.Gaussian(0.5), X)
        found = top_eigenpairs(K, 5, tol=1e-10, random_state=0)
        want = np.linalg.eigvalsh(gm.Gaussian(0.5)(X.astype(np.float64)))[::-1][:5]
        np.testing.assert_allclose(found.values, want, rtol=1e-8)
        assert found.relative_residual <= 1e-10

    def test_approximations(self):
        operator = gm.MEKA(rank=10, n_blocks=3, gamma=0.5, random_state=0).fit(points()).operator_
        found = top_eigenpairs(operator, 4, tol=1e-10, random_state=0)
        np.testing.assert_allclose(found.values, operator.eigvalsh()[:4], rtol=1e-8)

    def test_threads_and_seeds(self):
        K = {jobs: KernelOperator(gm.Gaussian(0.5), points(), n_jobs=jobs) for jobs in (1, 3)}
        one, three, again = (top_eigenpairs(K[j], 3, random_state=5) for j in (1, 3, 1))
        np.testing.assert_array_equal(one.vectors, three.vectors)
        np.testing.assert_array_equal(one.vectors, again.vectors)

    def test_bad_input(self):
        X = points(50)
        with pytest.raises(gm.InputError, match="Leave columns out"):
            top_eigenpairs(KernelOperator(gm.Gaussian(1.0), X, X[:9]), 2)
        with pytest.raises(gm.InputError, match="expected a KernelOperator"):
            top_eigenpairs(X @ X.T, 2)
        with pytest.raises(gm.InputError, match=r"start has shape \(3,\)"):
            top_eigenpairs(KernelOperator(gm.Gaussian(1.0), X), 2, start=np.ones(3))
