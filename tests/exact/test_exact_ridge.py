"""KernelRidge and KernelRidgeClassifier on the exact kernel matrix."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge as Peer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

import gramian as gm
from gramian.exceptions import AccuracyWarning, InputError
from gramian.operators.kernel import KernelOperator
from gramian.solvers.solution import Status

CG = gm.Exact(solver="cg", tol=1e-10)


def table(n=700, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    Y = np.column_stack([np.sin(6 * X[:, 0]) * X[:, 1], np.cos(4 * X[:, 2])]) + 0.1 * rng.standard_normal(
        (n, 2)
    )
    return X, Y


@pytest.mark.parametrize("approximation", ["exact", CG, gm.Exact(solver="minres", tol=1e-10)])
def test_predictions_are_those_of_the_dense_model(approximation):
    X, Y = table()
    new = table(200, seed=1)[0]
    model = gm.KernelRidge(0.01, gamma=2.0, approximation=approximation, random_state=0).fit(X, Y)
    peer = Peer(alpha=0.01, kernel="rbf", gamma=2.0).fit(X, Y)
    np.testing.assert_allclose(model.predict(new), peer.predict(new), rtol=0, atol=1e-6)
    one = clone(model).fit(X, Y[:, 0])
    np.testing.assert_allclose(one.predict(new), peer.predict(new)[:, 0], rtol=0, atol=1e-6)


@pytest.mark.repeat
@pytest.mark.slow
def test_many_rows_in_stages_agree_to_a_hundred_thousandth():
    X, Y = table(4000)
    X = X.astype(np.float32)
    new = table(500, seed=1)[0].astype(np.float32)
    model = gm.KernelRidge(
        0.1, gamma=20.0, approximation=gm.Exact(solver="cg"), memory_budget="80MB", random_state=0, n_jobs=2
    ).fit(X, Y)
    truth = Peer(alpha=0.1, kernel="rbf", gamma=20.0).fit(X.astype(np.float64), Y).predict(new)
    assert np.linalg.norm(model.predict(new) - truth) <= 1e-5 * np.linalg.norm(truth)
    assert model.plan_.dtype == "float32"
    assert model.solution_.residual <= 1e-6
    assert model.solution_.bytes <= 80_000_000
    assert sum(stage.iterations for stage in model.stages_) == model.solution_.iterations > 0


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "served"), [(0.01, np.float64), (10.0, np.float32)])
def test_predictions_are_served_in_the_type_that_their_rounding_allows(alpha, served):
    X, Y = table(3500)
    X = X.astype(np.float32)
    model = gm.KernelRidge(alpha, gamma=2.0, approximation=gm.Exact(solver="cg", tol=1e-8), random_state=0)
    model.fit(X, Y)
    assert model.plan_.dtype == "float32"
    assert model.predictor_.dtype == served
    new = table(300, seed=1)[0].astype(np.float32)
    truth = Peer(alpha=alpha, kernel="rbf", gamma=2.0).fit(X.astype(np.float64), Y).predict(new)
    assert np.linalg.norm(model.predict(new) - truth) <= 1e-5 * np.linalg.norm(truth)


@pytest.mark.parametrize("approximation", ["exact", CG])
def test_weights_and_an_intercept_are_those_of_ridge_on_the_kernels_root(approximation):
    X, Y = table(300)
    weights = np.random.default_rng(2).uniform(0.0, 2.0, 300)
    weights[::7] = 0.0
    values, vectors = np.linalg.eigh(gm.Gaussian(0.5)(X))
    root = vectors * np.sqrt(np.maximum(values, 0))
    peer = Ridge(alpha=0.05, solver="svd").fit(root, Y + 5.0, sample_weight=weights)
    model = gm.KernelRidge(
        0.05, gamma=2.0, approximation=approximation, fit_intercept=True, random_state=0
    ).fit(X, Y + 5.0, weights)
    np.testing.assert_allclose(model.predict(X), peer.predict(root), rtol=0, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, atol=1e-4)
    assert model.rank_ == np.count_nonzero(weights)
    without = gm.KernelRidge(0.05, gamma=2.0, approximation=approximation, fit_intercept=True, random_state=0)
    kept = weights > 0
    without.fit(X[kept], Y[kept] + 5.0, weights[kept])
    np.testing.assert_allclose(model.predict(X), without.predict(X), atol=1e-6)


def test_classifier_sparse_rows_and_precomputed_values():
    X, Y = table(500)
    label = np.where(Y[:, 0] > 0.3, "high", np.where(Y[:, 1] > 0, "mid", "low"))
    dense = gm.KernelRidgeClassifier(0.1, gamma=2.0, approximation=CG, random_state=0).fit(X, label)
    sparse = clone(dense).fit(sp.csr_array(X), label)
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-6)
    assert dense.score(X, label) > 0.85
    K = gm.Gaussian(0.5)(X)
    stored = clone(dense).set_params(kernel="precomputed", gamma=None).fit(K, label)
    np.testing.assert_allclose(stored.decision_function(K), dense.decision_function(X), atol=1e-6)


def test_memmap_copies_and_pickles(tmp_path):
    X, Y = table(400)
    stored = np.memmap(tmp_path / "X.dat", np.float64, "w+", shape=X.shape)
    stored[:] = X
    model = gm.KernelRidge(0.1, gamma=2.0, approximation="exact").fit(stored, Y)
    before = model.predict(X)
    stored[:] = 0.0  # the model has rows of its own
    np.testing.assert_array_equal(model.predict(X), before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), before)


def test_a_model_file_gives_the_same_bits(tmp_path):
    X, Y = table(400)
    model = gm.KernelRidge(0.1, gamma=2.0, approximation=CG, random_state=0).fit(X, Y)
    gm.save(model, tmp_path / "m.gramian")
    back = gm.load(tmp_path / "m.gramian")
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert back.stages_ == model.stages_
    assert back.approximation.get_params() == CG.get_params()
    assert back.solution_.evaluations == model.solution_.evaluations


def test_grid_search_over_how_to_solve():
    X, Y = table(300)
    search = GridSearchCV(
        gm.KernelRidge(0.1, gamma=2.0, approximation=gm.Exact(), random_state=0),
        {"approximation__solver": ["cg", "cholesky"], "alpha": [0.1, 1.0]},
        cv=3,
    ).fit(X, Y)
    assert search.best_params_["alpha"] == 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "preconditioner",
    [
        gm.Nystrom(rank=100),
        gm.MultiResolution(root_rank=50, rank=40, n_blocks=8),
        gm.MEKA(rank=40, n_blocks=6),
        gm.BlockDiagonal(n_blocks=5),
        gm.RandomFourier(rank=400),
    ],
    ids=lambda p: type(p).__name__,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_any_approximation_is_a_preconditioner(preconditioner, weighted):
    X, Y = table(900)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 900) if weighted else None
    options = {"gamma": 2.0, "random_state": 0, "n_jobs": 1}
    plain = gm.Exact(solver="cg", preconditioner="none", tol=1e-7, max_iter=5000)
    model = gm.KernelRidge(0.1, approximation=plain, **options).fit(X, Y, weights)
    exact = gm.Exact(solver="cg", preconditioner=preconditioner, tol=1e-7)
    helped = gm.KernelRidge(0.1, approximation=exact, **options).fit(X, Y, weights)
    if not isinstance(preconditioner, gm.BlockDiagonal):  # which knows nothing of a smooth kernel's whole
        assert helped.solution_.iterations < 0.7 * model.solution_.iterations
    assert helped.stages_[0].rank > 0
    np.testing.assert_allclose(helped.predict(X), model.predict(X), atol=1e-5)


def test_a_limit_leaves_a_usable_model_that_says_so():
    X, Y = table(2500)
    model = gm.KernelRidge(
        1e-4,
        gamma=5.0,
        approximation=gm.Exact(solver="cg", preconditioner="none", max_iter=5),
        random_state=0,
    )
    with pytest.warns(AccuracyWarning, match="stopped at the iteration limit"):
        model.fit(X, Y)
    assert model.solution_.status is Status.LIMIT
    assert np.isfinite(model.predict(X)).all()


def test_an_indefinite_kernel_is_said_to_be_one_and_minres_solves_it():
    X, Y = table(300)

    def indefinite(A, B):
        return np.cos(3.0 * cdist(A, B))

    model = gm.KernelRidge(0.3, kernel=indefinite, approximation=gm.Exact(solver="cg"), random_state=0)
    with pytest.warns(AccuracyWarning, match="not positive definite"):
        model.fit(X, Y)
    model.set_params(approximation=gm.Exact(solver="minres", max_iter=5000, tol=1e-9)).fit(X, Y)
    K = indefinite(X, X)
    np.testing.assert_allclose(model.predict(X), K @ np.linalg.solve(K + 0.3 * np.eye(300), Y), atol=1e-5)


def test_plan_says_what_it_takes():
    X, Y = table(1000)
    plan = gm.KernelRidge(approximation="exact", memory_budget="50MB").plan(X, Y)
    assert (plan.method, plan.root_rank, plan.peak_bytes) == ("exact", 1000, 8 * 1000**2 + 32_000)
    assert str(plan).startswith("exact: ")


@pytest.mark.parametrize(
    ("exact", "message"),
    [
        (gm.Exact(solver="chol"), r"solver='chol' is unknown.*cholesky"),
        (gm.Exact(preconditioner="ilu"), "preconditioner='ilu' is unknown"),
        (gm.Exact(rank=10), "have no effect with preconditioner='auto'"),
        (gm.Exact(preconditioner="jacobi", rank=10), "rank=10 has no effect"),
        (gm.Exact(preconditioner="nystrom", block=10), "block=10 has no effect"),
        (gm.Exact(tol=0.0), "tol=0.0 must be a positive"),
        (gm.Exact(max_iter=0), "max_iter=0 must be a whole number of at least 1"),
        (gm.Exact(time_limit=-1), "time_limit=-1 must be"),
    ],
)
def test_wrong_parameters(exact, message):
    X, Y = table(50)
    with pytest.raises(InputError, match=message):
        gm.KernelRidge(approximation=exact).fit(X, Y)


def test_other_models_have_no_ridge_system():
    X, Y = table(50)
    with pytest.raises(InputError, match=r"KernelSVR has none\. Use approximation='exact'"):
        gm.KernelSVR(approximation=gm.Exact()).fit(X, Y[:, 0])


@pytest.mark.slow
def test_wildly_scaled_constant_and_repeated_targets_each_meet_the_tolerance():
    X, Y = table(2500)
    X[::2] = X[1::2]  # every row twice
    Y = np.column_stack([1e12 * Y[:, 0], 1e-12 * Y[:, 1], np.full(2500, 7.0), Y[:, 0], np.zeros(2500)])
    options = {"gamma": 2.0, "fit_intercept": True, "random_state": 0}
    model = gm.KernelRidge(0.1, approximation=gm.Exact(solver="cg", tol=1e-9), **options).fit(X, Y)
    truth = gm.KernelRidge(0.1, approximation=gm.Exact(solver="cholesky"), **options).fit(X, Y)
    scale = np.abs(truth.predict(X)).max(axis=0)
    scale[4] = 1.0
    np.testing.assert_allclose(model.predict(X) / scale, truth.predict(X) / scale, atol=1e-5)
    np.testing.assert_allclose(model.predict(X)[:, 2], 7.0, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X)[:, 4], 0.0)


@pytest.mark.slow
def test_an_interrupted_fit_leaves_a_checkpoint_and_no_model(tmp_path, monkeypatch):
    X, Y = table(2500)
    path, seen = tmp_path / "solve.npz", []
    original = KernelOperator._product

    def product(self, values):
        seen.append(1)
        if len(seen) == 6:
            raise KeyboardInterrupt
        return original(self, values)

    exact = gm.Exact(solver="cg", preconditioner="none", checkpoint=tmp_path)
    model = gm.KernelRidge(0.1, gamma=2.0, approximation=exact, random_state=0)
    monkeypatch.setattr(KernelOperator, "_product", product)
    before = dict(model.__dict__)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.__dict__ == before
    assert path.exists()
    monkeypatch.setattr(KernelOperator, "_product", original)
    again = clone(model).fit(X, Y)
    assert again.solution_.status is Status.CONVERGED
    assert not path.exists()
    whole = gm.KernelRidge(0.1, gamma=2.0, approximation="exact").fit(X, Y)
    np.testing.assert_allclose(again.predict(X), whole.predict(X), atol=1e-4)


@pytest.mark.parametrize(("path", "message"), [(3, "is not a path"), ("missing/fit", "does not exist")])
def test_wrong_checkpoints(path, message):
    X, Y = table(50)
    with pytest.raises(InputError, match=message):
        gm.KernelRidge(approximation=gm.Exact(checkpoint=path)).fit(X, Y)
