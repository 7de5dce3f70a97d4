"""Block pivoting and the components it works on, against dense oracles; the memory of the whole."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

import gramian as gm
from gramian.engine import Engine, Run
from gramian.kernels import Cauchy
from gramian.svm import dcsvc_training
from gramian.svm.dcsvc import DCSVC
from gramian.svm.dcsvc_training import climb
from gramian.svm.divide import pivots
from gramian.svm.divide.components import separate
from gramian.svm.divide.dual import Dual
from gramian.svm.divide.gram import Gram
from gramian.svm.divide.pivots import solve_pivots
from gramian.svm.divide.subproblem import solve_box

LEAST = 1e-9


def islands(n, n_islands=4, seed=0, d=3):
    """Rows of some categories, one-hot, so that a short kernel does not reach from one to the next."""
    rng = np.random.default_rng(seed)
    group = np.sort(rng.integers(0, n_islands, n))
    inner = rng.uniform(-1, 1, (n, d))
    y = np.where(np.sin(4 * inner[:, 0] + group) + inner[:, 1] > 0.3 * rng.standard_normal(n), 1.0, -1.0)
    return np.hstack([inner, 3.0 * np.eye(n_islands)[group]]), y, group


def violation(gram, y, lower, upper, u, equality):
    gradient = gram @ u - y
    down, up = gradient[u > lower].max(initial=-np.inf), gradient[u < upper].min(initial=np.inf)
    return max(down - up, 0.0) if equality else max(down, -up, 0.0)


class TestComponents:
    @pytest.mark.parametrize(
        "kernel",
        [
            gm.Gaussian(0.25),
            gm.Gaussian((0.25, 0.3, 0.2, 0.25, 0.25, 0.25, 0.25)),
            gm.Matern(0.1, nu=1.5),
            gm.Laplacian(0.1),
        ],
    )
    @pytest.mark.parametrize("n_clusters", [1, 7])
    def test_no_value_between_components_exceeds_the_least(self, kernel, n_clusters):
        X, _, group = islands(500)
        found = separate(X + 100.0, kernel, np.linspace(0, 500, n_clusters + 1).astype(int), LEAST)
        values = kernel(X)
        assert values[found[:, None] != found].max() <= LEAST
        assert len(np.unique(found)) == 4
        assert (np.diff(found[np.argsort(group, kind="stable")]) != 0).sum() == 3

    def test_scattered_rows_are_as_fine_as_the_graph(self):
        X = 4.0 * np.random.default_rng(0).random((300, 2))
        kernel = gm.Gaussian(0.02)
        found = separate(X, kernel, np.array([0, 100, 200, 300]), LEAST)
        count, oracle = connected_components(sp.csr_array(kernel(X) > LEAST))
        assert count > 20
        pairs = np.unique(np.column_stack([found, oracle]), axis=0)
        assert len(pairs) == count == len(np.unique(found))

    def test_few_pieces_make_coarser_components(self, monkeypatch):
        monkeypatch.setattr("gramian.svm.divide.components.MOST_PIECES", 6)
        X = 4.0 * np.random.default_rng(0).random((300, 2))
        kernel = gm.Gaussian(0.02)
        found = separate(X, kernel, np.array([0, 100, 200, 300]), LEAST)
        assert found.max() <= 5
        assert kernel(X)[found[:, None] != found].max(initial=0.0) <= LEAST

    @pytest.mark.parametrize("kernel", [gm.Linear(), gm.Gaussian(50.0), Cauchy(1.0)])
    def test_kernels_of_long_range_have_one_component(self, kernel):
        X, _, _ = islands(60)
        assert not separate(X, kernel, np.array([0, 60]), LEAST).any()

    def test_sparse_rows_have_one_component(self):
        X, _, _ = islands(60)
        assert not separate(sp.csr_array(X), gm.Gaussian(0.1), np.array([0, 60]), LEAST).any()


def pivoted(X, y, kernel, component, penalty, *, equality=True, start=None, tol=1e-4, memory=10**8):
    lower, upper = np.minimum(0.0, penalty * y), np.maximum(0.0, penalty * y)
    gram = Gram(X, kernel, Run(memory, Engine(2), "float64"))
    u = np.zeros(len(y)) if start is None else start.copy()
    dual = Dual(u, -y, lower, upper, float(u.sum()) if equality else None)
    settled = solve_pivots(gram, dual, -y, component, tol, 100)
    found = SimpleNamespace(u=dual.u, gradient=dual.gradient, settled=settled, steps=dual.steps)
    found.entries = gram.entries
    return found, lower, upper


class TestPivots:
    @pytest.mark.parametrize("equality", [True, False])
    @pytest.mark.parametrize("penalty", [0.5, 5.0, 1000.0])
    def test_the_optimum_of_the_whole(self, equality, penalty):
        X, y, group = islands(400)
        kernel = gm.Gaussian(0.25)
        found, lower, upper = pivoted(X, y, kernel, group, penalty, equality=equality)
        gram = kernel(X)
        assert found.settled
        assert violation(gram, y, lower, upper, found.u, equality) <= 1e-4
        np.testing.assert_allclose(found.gradient, gram @ found.u - y, atol=1e-6)
        exact, _ = solve_box(gram, -y, Dual(0 * y, -y, lower, upper, 0.0 if equality else None), 1e-8)
        np.testing.assert_allclose(gram @ found.u, gram @ exact, atol=1e-3)
        if equality:
            assert abs(found.u.sum()) < 1e-8 * penalty

    @pytest.mark.parametrize("equality", [True, False])
    @pytest.mark.parametrize("penalty", [2.0, 50.0])
    def test_guarded_rows_give_the_same_optimum(self, monkeypatch, equality, penalty):
        monkeypatch.setattr(pivots, "PATIENCE", 0)
        X, y, group = islands(300)
        kernel = gm.Gaussian(0.4)
        found, lower, upper = pivoted(X, y, kernel, group, penalty, equality=equality)
        assert found.settled
        assert violation(kernel(X), y, lower, upper, found.u, equality) <= 1e-4

    def test_everything_guarded(self, monkeypatch):
        monkeypatch.setattr(pivots, "PATIENCE", -1)
        X, y, _ = islands(80)
        kernel = gm.Gaussian(0.4)
        found, lower, upper = pivoted(X, y, kernel, np.zeros(80, int), 0.05)
        assert found.settled
        assert violation(kernel(X), y, lower, upper, found.u, True) <= 1e-4

    def test_a_sum_other_than_zero_is_kept(self):
        X, y, group = islands(200)
        start = Dual(0 * y, -y, np.minimum(0.0, 3 * y), np.maximum(0.0, 3 * y), 4.0).into_box(np.zeros(200))
        found, lower, upper = pivoted(X, y, gm.Gaussian(0.3), group, 3.0, start=start)
        assert found.settled
        assert found.u.sum() == pytest.approx(4.0)
        assert violation(gm.Gaussian(0.3)(X), y, lower, upper, found.u, True) <= 1e-4

    def test_repeated_rows(self):
        X, y, _ = islands(120)
        X, y = np.vstack([X, X]), np.concatenate([y, np.where(np.arange(120) < 5, -y, y)])
        found, lower, upper = pivoted(X, y, gm.Gaussian(0.3), np.zeros(240, int), 4.0, tol=1e-3)
        assert found.settled
        assert violation(gm.Gaussian(0.3)(X), y, lower, upper, found.u, True) <= 1e-3
        assert (found.u >= lower).all()
        assert (found.u <= upper).all()

    def test_a_square_beyond_the_memory_is_not_tried(self):
        X, y, group = islands(400)
        found, _, _ = pivoted(X, y, gm.Gaussian(0.25), group, 5.0, memory=10_000)
        assert not found.settled
        assert found.entries == 0

    def test_components_that_stand_still_cost_nothing(self):
        X, y, group = islands(400)
        kernel = gm.Gaussian(0.25)
        first, _, _ = pivoted(X, y, kernel, group, 5.0)
        again, _, _ = pivoted(X, y, kernel, group, 5.0, start=first.u)
        assert again.steps == 1
        np.testing.assert_allclose(again.u, first.u, atol=1e-8)
        assert again.entries < first.entries / 3

    def test_small_components_are_solved_together(self, monkeypatch):
        """A kernel so narrow that K is the identity: a component a row, of which a few steps can do many."""
        sizes, solve = [], pivots._PivotPart.solve

        def counted(self, *sets):
            sizes.append(len(self.index))
            return solve(self, *sets)

        monkeypatch.setattr(pivots._PivotPart, "solve", counted)
        X, y, _ = islands(300)
        numbers = np.append(np.arange(200), np.full(100, 1000))  # of a cluster's rows, with others left out
        found, lower, upper = pivoted(X, y, gm.Gaussian(1e-6), numbers, 5.0)
        assert found.settled
        assert violation(np.eye(300), y, lower, upper, found.u, True) <= 1e-4
        assert sizes == found.steps * [64, 64, 64, 8, 100]


class TestWhole:
    @pytest.mark.parametrize("equality", [True, False])
    def test_levels_state_what_they_neglect(self, equality):
        X, y, _ = islands(500)
        kernel = gm.Gaussian(0.25)
        gram = Gram(X, kernel, Run(10**8, Engine(1), "float64", np.random.default_rng(0)))
        dual = Dual.of(y, np.full(500, 10.0), equality)
        levels = [np.linspace(0, 500, 6).astype(int), np.array([0, 500])]
        _, stated = climb(gram, dual, levels, 1e-3, 200, lambda _: None)
        lower, upper = np.minimum(0.0, 10 * y), np.maximum(0.0, 10 * y)
        worst = violation(kernel(X), y, lower, upper, dual.u, equality)
        assert worst <= stated + 1e-9
        assert stated <= 1e-3
        assert dcsvc_training.NEGLECTED_SHARE <= 0.05

    def test_without_pivots_the_working_sets_find_the_same(self, monkeypatch):
        X, y, _ = islands(600)
        options = {"C": 10.0, "gamma": 8.0, "leaf_size": 100, "tol": 1e-4, "random_state": 0}
        first = DCSVC(**options).fit(X, y)
        monkeypatch.setattr(pivots, "MOST_STEPS", 0)
        second = DCSVC(**options).fit(X, y)
        np.testing.assert_allclose(first.decision_function(X), second.decision_function(X), atol=5e-4)

    @pytest.mark.slow
    @pytest.mark.parametrize("kernel", [gm.Gaussian(0.25), gm.Gaussian(1.0)])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_peak_is_within_the_budget(self, kernel, seed):
        X, y, _ = islands(4000, d=5, seed=seed)
        options = {"leaf_size": 500, "memory_budget": "70MB", "tol": 0.01, "n_jobs": 1, "random_state": seed}
        model = DCSVC(C=1.0, kernel=kernel, **options)
        tracemalloc.start()
        model.fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert 5_000_000 < peak <= 70_000_000
