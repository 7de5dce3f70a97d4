"""The exact SVM by divide and conquer: its parts against dense oracles, the whole against libsvm."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

import gramian as gm
from gramian.engine import Engine, Run
from gramian.landmarks.partition import CenterPartition
from gramian.svm.dcsvc_training import climb
from gramian.svm.divide import decomposition
from gramian.svm.divide.active_set_cg import TwoLevel, solve_faces
from gramian.svm.divide.decomposition import refine
from gramian.svm.divide.dual import Dual
from gramian.svm.divide.gram import SIDE, Gram, SymmetricTiles
from gramian.svm.divide.hierarchy import Hierarchy, cluster_rows
from gramian.svm.divide.subproblem import interior_point, solve_box


def run_of(threads, memory=10**8):
    return Run(memory, Engine(threads), "float64", np.random.default_rng(0))


def rings(n, seed=0, noise=0.1):
    """Two classes by the distance from the centre, some rows on the wrong side."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    y = np.where(np.sin(4 * X[:, 0]) + X[:, 1] ** 2 > 0.3 + noise * rng.standard_normal(n), 1.0, -1.0)
    return X, y


def violation(gram, linear, lower, upper, u, equality):
    """m(α) − M(α), from the dense gradient."""
    gradient = gram @ u + linear
    down, up = gradient[u > lower].max(initial=-np.inf), gradient[u < upper].min(initial=np.inf)
    return max(down - up, 0.0) if equality else max(down, -up, 0.0)


def box(y, most):
    return np.minimum(0.0, y * most), np.maximum(0.0, y * most)


def into_box(x, lower, upper, total):
    return Dual(x, x, lower, upper, total).into_box(x)


def solved_box(gram, linear, lower, upper, start, *, equality, tol):
    """Return u and b of the solution from a start, whose gradient is not asked for."""
    total = float(start.sum()) if equality else None
    return solve_box(gram, linear, Dual(start, np.full(len(start), np.nan), lower, upper, total), tol)


class TestBox:
    @pytest.mark.parametrize("equality", [True, False])
    @pytest.mark.parametrize("kernel", [gm.Gaussian(0.2), gm.Gaussian(2.0), gm.Linear()])
    @pytest.mark.parametrize("penalty", [0.5, 200.0])
    def test_conditions_hold(self, kernel, penalty, equality):
        X, y = rings(300)
        gram = kernel(X)
        lower, upper = box(y, np.full(300, penalty))
        u, _ = solved_box(gram, -y, lower, upper, np.zeros(300), equality=equality, tol=1e-6)
        assert violation(gram, -y, lower, upper, u, equality) < 1e-4 * max(1.0, penalty / 100)
        assert (u >= lower).all()
        assert (u <= upper).all()
        if equality:
            assert abs(u.sum()) < 1e-9 * penalty

    # Older SciPy steps out of the box by a rounding error and says so.
    @pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")
    @pytest.mark.parametrize("equality", [True, False])
    def test_scipy_finds_the_same_least(self, equality):
        rng = np.random.default_rng(1)
        basis = rng.standard_normal((12, 12))
        gram, linear = basis @ basis.T, 3 * rng.standard_normal(12)
        lower, upper = -rng.random(12), rng.random(12)
        start = into_box(rng.standard_normal(12), lower, upper, 0.1)
        u, _ = solved_box(gram, linear, lower, upper, start, equality=equality, tol=1e-9)
        oracle = minimize(
            lambda v: 0.5 * v @ gram @ v + linear @ v,
            start,
            jac=lambda v: gram @ v + linear,
            bounds=np.column_stack([lower, upper]),
            constraints=[LinearConstraint(np.ones((1, 12)), 0.1, 0.1)] if equality else [],
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        np.testing.assert_allclose(u, oracle.x, atol=1e-6)

    def test_interior_point_alone_comes_as_near_as_it_says(self):
        X, y = rings(120)
        gram = gm.Gaussian(0.8)(X)
        lower, upper = box(y, np.full(120, 10.0))
        box_of = Dual(np.zeros(120), -y, lower, upper, 0.0)
        u, offset, _ = interior_point(gram, -y, box_of, 1e-6)
        exact, exact_offset = solved_box(gram, -y, lower, upper, np.zeros(120), equality=True, tol=1e-9)
        np.testing.assert_allclose(gram @ u, gram @ exact, atol=1e-4)
        assert offset == pytest.approx(exact_offset, abs=1e-4)

    def test_repeated_rows_make_a_singular_matrix(self):
        X, y = rings(60)
        X, y = np.vstack([X, X, X]), np.tile(y, 3)
        gram = gm.Gaussian(1.0)(X)
        lower, upper = box(y, np.full(180, 5.0))
        u, _ = solved_box(gram, -y, lower, upper, np.zeros(180), equality=True, tol=1e-5)
        assert violation(gram, -y, lower, upper, u, True) < 1e-4

    def test_into_box_keeps_the_sum(self):
        rng = np.random.default_rng(0)
        x, lower, upper = 3 * rng.standard_normal(50), -np.ones(50), np.ones(50)
        inside = into_box(x, lower, upper, 1.5)
        assert inside.sum() == pytest.approx(1.5)
        assert (np.abs(inside) <= 1).all()
        np.testing.assert_array_equal(into_box(x, lower, upper, None), np.clip(x, lower, upper))


class TestLargeSets:
    @pytest.mark.parametrize("cache", [0, 40_000_000])
    def test_tiles_multiply_like_the_matrix(self, cache):
        X, _ = rings(SIDE + 70)
        gram = Gram(X, gm.Gaussian(0.5), run_of(2))
        tiles = SymmetricTiles(gram, cache)
        v = np.random.default_rng(0).standard_normal(len(X))
        expected = gm.Gaussian(0.5)(X) @ v
        for _ in range(2):
            np.testing.assert_allclose(tiles.matvec(v), expected, atol=1e-8 if cache else 2e-3)
        assert tiles.dtype == (np.float64 if cache else np.float32)
        computed = SIDE**2 + 70 * SIDE + 70**2
        assert gram.entries == (computed if cache else 2 * computed)

    def test_tiles_of_a_local_kernel_are_kept_sparse(self):
        X = np.sort(np.random.default_rng(0).random((2 * SIDE, 1)), axis=0)
        kernel = gm.Gaussian(0.002)
        # Room for one dense tile in float32, which all of these take together when sparse.
        gram = Gram(X, kernel, run_of(2))
        tiles = SymmetricTiles(gram, 4 * SIDE**2)
        v = np.random.default_rng(1).standard_normal(2 * SIDE)
        first, second = tiles.matvec(v), tiles.matvec(v)
        np.testing.assert_array_equal(first, second)
        np.testing.assert_allclose(first, kernel(X) @ v, atol=1e-3)
        assert tiles.dtype == np.float32
        assert gram.entries == 3 * SIDE**2

    def test_preconditioner_inverts_a_positive_matrix_near_the_kernel(self):
        X, _ = rings(400)
        X = X[np.argsort(X[:, 0])]
        kernel = gm.Gaussian(0.4)
        level = TwoLevel(Gram(X, kernel, run_of(1)), 10**6)
        free = np.random.default_rng(1).random(400) < 0.8
        solve = level.on(free)
        inverse = np.column_stack([solve(row) for row in np.eye(int(free.sum()))])
        np.testing.assert_allclose(inverse, inverse.T, atol=1e-6 * np.abs(inverse).max())
        gram = kernel(X[free]) + 1e-3 * np.eye(int(free.sum()))
        spread = np.linalg.eigvals(inverse @ gram).real
        assert spread.min() > 0
        assert spread.max() / spread.min() < 0.1 * np.linalg.cond(gram)
        nearly = free.copy()
        nearly[np.flatnonzero(free)[:2]] = False
        nearly[np.flatnonzero(~free)[:1]] = True
        patched = level.on(nearly)
        inverse = np.column_stack([patched(row) for row in np.eye(int(nearly.sum()))])
        assert np.linalg.eigvalsh(0.5 * (inverse + inverse.T)).min() > 0

    @pytest.mark.slow
    @pytest.mark.parametrize("equality", [True, False])
    def test_faces_find_what_the_dense_solver_finds(self, equality):
        X, y = rings(450)
        X, y = X[(order := np.argsort(X[:, 0]))], y[order]
        kernel = gm.Gaussian(0.2)
        gram = kernel(X)
        lower, upper = box(y, np.full(450, 5.0))
        rows = Gram(X, kernel, run_of(1))
        tiles, level = SymmetricTiles(rows, 10**8), TwoLevel(rows, 10**8)
        u, total = np.zeros(450), 0.0 if equality else None
        for goal in (1e-1, 1e-2, 1e-3):
            gradient = gram @ u - y
            held = ((u <= lower) | (u >= upper)) & (goal < 0.1)
            u = solve_faces(tiles, level, Dual(u, gradient, lower, upper, total), held, goal)
        assert violation(gram, -y, lower, upper, u, equality) < 1e-2
        exact, _ = solved_box(gram, -y, lower, upper, np.zeros(450), equality=equality, tol=1e-8)
        np.testing.assert_allclose(gram @ u, gram @ exact, atol=2e-2)


def solved(X, y, most, kernel, *, equality=True, tol=1e-3, start=None, max_iter=200, memory=10**8):
    gram = Gram(X, kernel, run_of(2, memory))
    u = np.zeros(len(y)) if start is None else start.copy()
    dual = Dual(u, -y, *box(y, most), float(u.sum()) if equality else None)
    if start is not None:
        gram.add(dual.gradient, X, start)
    refine(gram, dual, tol, max_iter)
    return dual, gram.entries


@pytest.fixture
def small_sets(monkeypatch):
    """Working sets of more than 150 rows are large ones."""
    monkeypatch.setattr(decomposition, "DENSE_ROWS", 150)


@pytest.mark.usefixtures("small_sets")
class TestRefinement:
    @pytest.mark.parametrize("equality", [True, False])
    def test_gradient_and_conditions_from_zero(self, equality):
        X, y = rings(500)
        most = np.random.default_rng(2).uniform(1, 20, len(y))
        kernel = gm.Gaussian(0.3)
        dual, entries = solved(X, y, most, kernel, equality=equality, tol=1e-4)
        gram = kernel(X)
        np.testing.assert_allclose(dual.gradient, gram @ dual.u - y, atol=1e-8)
        assert violation(gram, -y, *box(y, most), dual.u, equality) <= 1.001e-4
        assert dual.violation() <= 1e-4
        assert dual.steps > 0
        assert entries > 0

    @pytest.mark.slow
    @pytest.mark.parametrize("equality", [True, False])
    def test_smooth_kernels_whose_faces_do_not_settle(self, equality):
        X, y = rings(450)
        kernel, most = gm.Gaussian(1.5), np.full(450, 500.0)
        dual, _ = solved(X, y, most, kernel, equality=equality, max_iter=1000)
        gram = kernel(X)
        assert violation(gram, -y, *box(y, most), dual.u, equality) <= 1.1e-3
        exact, _ = solved_box(gram, -y, *box(y, most), np.zeros(450), equality=equality, tol=1e-8)
        np.testing.assert_allclose(gram @ dual.u, gram @ exact, atol=2e-2)

    def test_a_good_start_takes_less(self):
        X, y = rings(400)
        kernel, most = gm.Gaussian(0.3), np.full(400, 10.0)
        cold, _ = solved(X, y, most, kernel)
        warm, _ = solved(X, y, most, kernel, start=cold.u)
        assert warm.steps == 0
        assert cold.steps > 0
        np.testing.assert_array_equal(warm.u, cold.u)

    def test_max_iter_ends_it(self):
        X, y = rings(500)
        dual, _ = solved(X, y, np.full(len(y), 10.0), gm.Gaussian(0.3), max_iter=1, tol=1e-6)
        assert dual.steps == 1
        assert dual.violation() > 1e-6
        assert abs(dual.u.sum()) < 1e-8


@pytest.mark.usefixtures("small_sets")
class TestLevels:
    def test_edges_cut_rows_into_nested_clusters(self):
        X, _ = rings(2000)
        found = cluster_rows(X, gm.Gaussian(1.0), 60, 4, run_of(1))
        index = found.order[::2]
        levels = found.edges(index, 30)
        assert [edges[-1] for edges in levels] == [1000] * len(levels)
        assert len(levels) > 2
        assert levels[-1].tolist() == [0, 1000]
        for fine, coarse in pairwise(levels):
            assert set(coarse) <= set(fine)
        assert found.edges(index, 30, 0)[-1].size == found.partition.n_blocks + 1
        assert len(found.edges(index, 10**6)) == 1
        assert found.edges(index, 30, 0)[-1].size == found.partition.n_blocks + 1

    def test_large_clusters_are_cut_evenly(self):
        whole = Hierarchy(CenterPartition(np.zeros((1, 2))), np.zeros(100, np.intp), np.arange(100))
        assert [level.tolist() for level in whole.edges(np.arange(100), 20)] == [[0, 33, 66, 100], [0, 100]]
        assert [level.tolist() for level in whole.edges(np.arange(100), 50)] == [[0, 100]]

    @pytest.mark.parametrize("equality", [True, False])
    def test_levels_reach_what_one_level_reaches(self, equality):
        X, y = rings(600)
        kernel, most = gm.Gaussian(0.3), np.full(600, 10.0)
        found = cluster_rows(X, kernel, 60, 3, run_of(1))
        X, y = X[found.order], y[found.order]
        gram, dense, values = Gram(X, kernel, run_of(2)), kernel(X), []
        for levels in (found.edges(found.order, 60), [np.array([0, 600])]):
            dual = Dual.of(y, most, equality)
            offsets, reached = climb(gram, dual, levels, 1e-5, 200, lambda _: None)
            values.append(dense @ dual.u + offsets[0])
            assert reached <= 1e-5
        np.testing.assert_allclose(values[0], values[1], atol=1e-4)

    def test_one_class_in_a_cluster_has_a_constant_model(self):
        X, y = rings(200)
        X, y = X[(order := np.argsort(y))], y[order]
        cut = int((y < 0).sum())
        gram = Gram(X, gm.Gaussian(0.5), run_of(1))
        dual = Dual.of(y, np.ones(200), True)
        offsets, _ = climb(gram, dual, [np.array([0, cut, 200, 200])], 1e-3, 10, lambda _: None)
        assert offsets.tolist() == [-1.0, 1.0, 0.0]
        assert not dual.u.any()
