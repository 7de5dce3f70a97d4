"""Newton's method in streaming passes, against dense optimisation with the same K̃."""

from __future__ import annotations

import tracemalloc
from copy import deepcopy

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, SVR

import gramian as gm
from gramian.data.source import as_source
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.solvers.arrowhead import Forest, NodeSums
from gramian.solvers.losses import (
    Hinge,
    Logistic,
    Softmax,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    platt_sigmoid,
)
from gramian.solvers.newton_system import ActiveRows, Curvature, factored_by
from gramian.svm.classifier import KernelSVC
from gramian.svm.logistic import KernelLogisticRegression
from gramian.svm.newton import NewtonParameters
from gramian.svm.newton_training import NewtonTraining
from gramian.svm.regressor import KernelSVR

GAMMA, C = 8.0, 3.0
HINGE = Hinge()
APPROXIMATIONS = {
    "global": gm.Nystrom(rank=25),
    "explicit": gm.RandomFourier(rank=40),
    "two levels": gm.MultiResolution(root_rank=20, rank=8, n_blocks=6),
    "three levels": gm.MultiResolution(root_rank=10, rank=6, n_blocks=9, n_levels=3),
    "coupled": gm.MEKA(rank=10, n_blocks=4),
    "recompressed": gm.BlockBasis(rank=10, n_blocks=4),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    X = rng.random((300, 3))
    score = np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(300)
    return X, score, rng.random(300) + 0.2


def dense(approximation, X):
    """K̃ on the rows and a square root of it, as the same random state builds them."""
    fitted = type(approximation)(**{**approximation.get_params(), "gamma": GAMMA, "random_state": 0}).fit(X)
    K = fitted.operator_.to_dense()
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    keep = values > 1e-12 * values[-1]
    return K, vectors[:, keep] * np.sqrt(values[keep])


def minimum(loss, y, w, F):
    """Decision values at the minimum of C Σ w ℓ + ½‖β‖² over β and b."""
    A = np.hstack([F, np.ones((len(F), 1))])
    k = y.shape[1]

    def cost(theta):
        beta = theta.reshape(-1, k)
        terms = loss.terms(y, A @ beta)
        gradient = C * A.T @ (w[:, None] * terms.slope)
        gradient[:-1] += beta[:-1]
        return C * (w @ terms.value).sum() + 0.5 * (beta[:-1] ** 2).sum(), gradient.ravel()

    found = scipy.optimize.minimize(
        cost,
        np.zeros(A.shape[1] * k),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-16, "gtol": 1e-9, "maxcor": 50},
    )
    return A @ found.x.reshape(-1, k)


def common(approximation):
    return {"gamma": GAMMA, "random_state": 0, "approximation": approximation}


#: Three times what was taken where this was written; methods without curvature take hundreds.
NEWTON_STEPS = 25


@pytest.fixture(params=APPROXIMATIONS.values(), ids=APPROXIMATIONS.keys())
def approximation(request):
    return request.param


def test_squared_hinge(data, approximation):
    X, score, w = data
    y = np.where(score > 0.6, 1.0, -1.0)
    model = KernelSVC(C, tol=1e-10, **common(approximation)).fit(X, y, w)
    expected = minimum(SquaredHinge(), y[:, None], w, dense(approximation, X)[1])
    np.testing.assert_allclose(model.decision_function(X), expected[:, 0], atol=1e-4)
    assert model.n_iter_ < NEWTON_STEPS


def test_hinge_as_libsvm_on_the_same_matrix(data, approximation):
    X, score, w = data
    y = np.where(score > 0.6, "high", "low")
    model = KernelSVC(C, loss="hinge", **common(approximation)).fit(X, y, w)
    K = dense(approximation, X)[0]
    libsvm = SVC(C=C, kernel="precomputed", tol=1e-6).fit(K, y, w)
    np.testing.assert_allclose(model.decision_function(X), libsvm.decision_function(K), atol=5e-4)


def test_hinge_of_rows_that_are_all_at_their_bound(data, approximation):
    """Every dual is C, which the rows' own gaps do not tell from a rough start: those are 0 for both."""
    X, score, w = data
    y = np.digitize(score, [0.3, 0.6, 0.9, 1.2])
    model = KernelSVC(1e-3, loss="hinge", fit_intercept=False, **common(approximation)).fit(X, y, w)
    signs = np.where(y[:, None] == np.arange(5), 1.0, -1.0)
    values, vectors = np.linalg.eigh(dense(approximation, X)[0])
    expected = 1e-3 * (vectors * np.maximum(values, 0.0)) @ vectors.T @ (w[:, None] * signs)
    assert np.abs(expected).max() < 1
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-6)
    assert model.solution_.residual < 1e-12


@pytest.mark.parametrize("tile_dtype", ["float64", "float32"])
@pytest.mark.parametrize("ends", [(1e6, 1e6), (1e6, -1e6)])
def test_regression_of_targets_far_from_zero_without_intercept(tile_dtype, ends):
    X = np.random.default_rng(0).standard_normal((16, 4))
    y = np.where(np.arange(16) % 3, *ends) + np.sin(X[:, 0])
    fixed = {"epsilon": 0.0, "gamma": 0.25, "fit_intercept": False, "tile_dtype": tile_dtype}
    model = KernelSVR(10.0, **fixed).fit(X, y)
    K = np.exp(-0.25 * ((X[:, None] - X) ** 2).sum(-1))
    # No row can be reached: each pulls with all its weight.
    np.testing.assert_allclose(model.predict(X), K @ (10.0 * np.sign(y)), rtol=1e-6, atol=1e-4)


def test_logistic(data, approximation):
    X, score, w = data
    y = np.where(score > 0.6, "b", "a")
    F = dense(approximation, X)[1]
    peer = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(F, y, w)
    model = KernelLogisticRegression(C, **common(approximation)).fit(X, y, w)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(F), atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(F), atol=1e-4)
    assert model.n_iter_ < NEWTON_STEPS


def test_softmax(data, approximation):
    X, score, w = data
    y = np.digitize(score, [0.3, 0.9, 1.2])
    F = dense(approximation, X)[1]
    model = KernelLogisticRegression(C, tol=1e-11, **common(approximation)).fit(X, y, w)
    signs = np.where(y[:, None] == np.arange(4), 1.0, -1.0)
    f = minimum(Softmax(), signs, w, F)
    found = model.decision_function(X)
    # The mean over the classes of an unpenalised intercept is free.
    np.testing.assert_allclose(
        found - found.mean(axis=1, keepdims=True), f - f.mean(axis=1, keepdims=True), atol=2e-3
    )
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(model.predict_proba(X)), atol=1e-9)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_regression(data, approximation, loss):
    X, score, w = data
    y = 5.0 * score + 30.0
    K, F = dense(approximation, X)
    model = KernelSVR(C, epsilon=0.5, loss=loss, tol=1e-7, **common(approximation)).fit(X, y, w)
    if loss == "epsilon_insensitive":
        expected = SVR(C=C, epsilon=0.5, kernel="precomputed", tol=1e-6).fit(K, y, w).predict(K)
    else:
        expected = 30 + minimum(SquaredEpsilonInsensitive(0.5), y[:, None] - 30, w, F)[:, 0]
    np.testing.assert_allclose(model.predict(X), expected, atol=2e-3)


def test_an_indefinite_core_is_clipped_once_for_all_passes(data):
    X, score, _ = data
    sampled = gm.MEKA(rank=10, n_blocks=4, core="sampled")
    K = dense(sampled, X)[0]
    values, vectors = np.linalg.eigh(K)
    y = np.where(score > 0.6, 1.0, -1.0)
    model = KernelSVC(C, tol=1e-10, **common(sampled))
    if values[0] < -1e-6 * values[-1]:
        with pytest.warns(gm.NumericalWarning, match="indefinite: negative eigenvalues with sum"):
            model.fit(X, y)
    else:
        model.fit(X, y)
    F = vectors * np.sqrt(np.maximum(values, 0))
    expected = minimum(SquaredHinge(), y[:, None], np.ones(300), F[:, values > 0])
    np.testing.assert_allclose(model.decision_function(X), expected[:, 0], atol=2e-3)


def training(X, signs=None, loss=HINGE, budget=10**9, threads=2):
    signs = -np.ones((len(X), 4)) if signs is None else signs
    model = KernelSVC(
        2.0,
        kernel=gm.Gaussian(lengthscale=0.25),
        approximation=APPROXIMATIONS["two levels"],
        tol=1e-7,
        max_iter=200,
        tile_dtype="float64",
        memory_budget=budget,
        n_jobs=threads,
        random_state=0,
    )
    return NewtonTraining(NewtonParameters.of(model, loss), LabelledRows(as_source(X), signs), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [SquaredHinge(), Hinge(), Softmax()], ids=repr)
def test_kept_features_and_groups_of_classes_change_nothing(data, loss):
    X, score, _ = data
    signs = np.where(np.digitize(score, [0.3, 0.9, 1.2])[:, None] == np.arange(4), 1.0, -1.0)
    rich = training(X, signs, loss)
    assert rich._tiles.kept_bytes > 0
    assert rich._group == 4
    found = rich.minimise(None, 0.5)
    poor = training(X, signs, loss, threads=1)
    poor._tiles.room = 0
    poor._group = 3
    again = poor.minimise(None, 0.5)
    np.testing.assert_allclose(found.point.offset, again.point.offset, atol=2e-3)
    np.testing.assert_allclose(rich.values(found.point), poor.values(again.point), atol=2e-3)


def test_a_missed_tolerance_warns_with_amount_and_remedy(data):
    X, score, _ = data
    for model in (
        KernelLogisticRegression(1e4, max_iter=2, gamma=GAMMA),
        KernelSVC(1e4, max_iter=1, gamma=GAMMA),
    ):
        with pytest.warns(
            gm.AccuracyWarning, match=r"ended a predicted .* above its minimum.*Raise max_iter"
        ):
            model.fit(X, score > 0.6)
        assert "limit" in model.solution_.status.value
        assert model.solution_.residual > model.tol


@pytest.mark.parametrize("seed", range(5))
def test_the_gap_of_a_squared_hinge_bounds_the_distance_to_the_minimum(seed):
    # Groups of close rows: those that just count at a point hide how far the minimum is.
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (4, 3))[rng.integers(0, 4, 120)] + 0.05 * rng.standard_normal((120, 3))
    y = np.where(rng.random(120) < 0.3, 1, -1)
    model = KernelSVC(C=1e3, gamma=4e-3, tile_dtype="float64", tol=1e-4, random_state=0).fit(X, y)
    best = KernelSVC(C=1e3, gamma=4e-3, tile_dtype="float64", tol=1e-12, random_state=0).fit(X, y)
    values = [
        1e3 * np.square(np.maximum(0.0, 1.0 - y * m.decision_function(X))).sum()
        + 0.5 * np.square(m.solution_.value).sum()
        for m in (model, best)
    ]
    assert values[0] - values[1] <= model.solution_.residual * values[0] + 1e-9 * values[1]


@pytest.mark.parametrize("weighted", [False, True])
def test_platt_sigmoid_is_the_maximum_of_its_likelihood(weighted):
    rng = np.random.default_rng(0)
    f = rng.normal(3, 20, 400)
    positive = rng.random(400) < 1 / (1 + np.exp(-0.1 * f + 0.5))
    w = rng.integers(0, 4, 400).astype(float) if weighted else np.ones(400)
    a, b = platt_sigmoid(f, positive, w)
    up, down = w[positive].sum(), w[~positive].sum()
    t = np.where(positive, (up + 1) / (up + 2), 1 / (down + 2))

    def cost(theta):
        s = theta[0] * f + theta[1]
        return w @ (np.logaddexp(0, s) - t * s)

    best = scipy.optimize.minimize(
        cost, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}
    )
    assert (a, b) == pytest.approx(tuple(best.x), abs=1e-4)
    if weighted:
        n = w.astype(int)
        assert platt_sigmoid(np.repeat(f, n), np.repeat(positive, n)) == pytest.approx((a, b), abs=1e-8)
    assert np.isfinite(platt_sigmoid(np.ones(5), np.array([True, False, True, True, False]))).all()


def test_platt_sigmoid_never_turns_the_order_of_values_round():
    positive = np.array([True, True, True, False, True, False])
    a, b = platt_sigmoid(np.arange(6.0), positive)
    assert 0.0 < a < 1e-5
    assert expit(a * np.arange(6.0) + b) == pytest.approx(np.full(6, (4 * 5 / 6 + 2 / 4) / 6), abs=1e-5)


def test_sparse_rows(data):
    X, score, _ = data
    X = np.round(X, 2)
    y = np.digitize(score, [0.3, 0.9])
    for model in (KernelSVC(gamma=GAMMA), KernelLogisticRegression(gamma=GAMMA)):
        expected = model.fit(X, y).decision_function(X)
        found = model.fit(sp.csr_array(X), y).decision_function(sp.csr_array(X))
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_logistic_loss_of_two_classes_is_softmax_of_half(data):
    f = np.linspace(-3, 3, 7)[:, None]
    y = np.ones_like(f)
    pair = Softmax().terms(np.hstack([y, -y]), np.hstack([f / 2, -f / 2])).value
    np.testing.assert_allclose(Logistic().terms(y, f).value, pair)


def test_a_small_budget_trains_few_classes_at_a_time_on_few_threads(data):
    poor = training(data[0], budget=training(data[0]).plan.peak_bytes + 300_000, threads=8)
    assert poor._tiles.kept_bytes == 0
    assert poor._group < 4
    assert training(data[0], threads=8)._engine.n_threads == 8


def peak_of(model, X, y):
    tracemalloc.start()
    try:
        model.fit(X, y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [KernelSVC(max_iter=2), KernelSVC(loss="hinge", tol=0.3), KernelLogisticRegression(max_iter=4)],
    ids=["squared", "hinge", "softmax"],
)
@pytest.mark.filterwarnings("ignore::gramian.AccuracyWarning")
def test_the_peak_stays_within_budget(model):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12_000, 10), dtype=np.float32)
    y = np.digitize(np.sin(X[:, 0]) + X[:, 1], [-1.0, 0.0, 1.0])
    sizes = gm.MultiResolution(root_rank=150, rank=40, n_blocks=30)
    model = clone(model).set_params(
        gamma=0.05, approximation=sizes, memory_budget="16MB", random_state=0, n_jobs=2, tile_dtype="float32"
    )
    assert peak_of(model, X, y) <= model.plan_.memory_budget


@pytest.mark.parametrize("approximation", ["exact", "nystrom"])
def test_a_stored_kernel_matrix_gives_what_its_kernel_gives(data, approximation):
    X, score, _ = data
    kernel, y = gm.Gaussian(lengthscale=0.25), score > 0.6
    given = {"approximation": approximation, "random_state": 0, "tol": 1e-9}
    plain = KernelSVC(C, gamma=GAMMA, **given).fit(X[:200], y[:200])
    stored = KernelSVC(C, kernel="precomputed", **given).fit(kernel(X[:200]), y[:200])
    expected = plain.decision_function(X[200:])
    found = stored.decision_function(kernel(X[200:], X[:200]))
    if approximation == "exact":
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert ((found > 0) == (expected > 0)).mean() > 0.9


def test_a_memmap_is_read_like_its_array(tmp_path, data):
    X, score, _ = data
    on_disk = np.memmap(tmp_path / "x.bin", np.float64, "w+", shape=X.shape)
    on_disk[:] = X
    y = np.digitize(score, [0.3, 0.9])
    sizes = APPROXIMATIONS["two levels"]
    for model in (KernelSVC(**common(sizes)), KernelLogisticRegression(**common(sizes))):
        expected = model.fit(X, y).decision_function(X)
        np.testing.assert_array_equal(model.fit(on_disk, y).decision_function(on_disk), expected)


def test_few_rows_stand_for_their_sums():
    forest = Forest.from_levels([[3], [2, 1, 2]], [[0, 0, 0]])
    rng = np.random.default_rng(0)
    nodes = np.array([[0] * 7, [1, 3, 1, 2, 3, 2, 1]])
    path, offsets = rng.normal(size=(7, 5)), [0, 3, 5, 6, 8]
    S = np.zeros((7, 8))
    for i, leaf in enumerate(nodes[1]):
        rank = forest.ranks[leaf]
        S[i, :3], S[i, offsets[leaf] : offsets[leaf] + rank] = path[i, :3], path[i, 3 : 3 + rank]
    root = rng.random(7)
    rows = ActiveRows(forest, path, nodes, root)
    np.testing.assert_allclose(rows.gram(), S @ S.T)
    np.testing.assert_allclose(rows.times(np.eye(8)), S)
    np.testing.assert_allclose(rows.transposed(np.eye(7)), S.T)
    sums = [NodeSums.zeros(forest, node, 1) for node in range(4)]
    rows.add_to(sums)
    right = rng.normal(size=(8, 2))
    expected = np.linalg.solve(S.T @ S + 0.3 * np.eye(8), right)
    for curvature in (Curvature(sums, 1.0), Curvature([], 1.0, rows)):
        np.testing.assert_allclose(curvature.border[:, 0], S.T @ root)
        solved, _ = factored_by(forest, None, 0.3, Engine(1))(deepcopy(curvature))(right)
        np.testing.assert_allclose(solved, expected)
        twice, _ = factored_by(forest, None, 0.3, Engine(1))(curvature.scaled(2.0))(right)
        np.testing.assert_allclose(twice, np.linalg.solve(2 * S.T @ S + 0.3 * np.eye(8), right))


def test_a_factor_takes_the_place_of_its_sums():
    forest = Forest.from_levels([[150], [120] * 12], [[0] * 12])

    def made():
        sums = NodeSums.zeros_of(forest, 1)
        for node in sums:
            np.fill_diagonal(node.gram, 1.0)
        return Curvature(sums, 1.0)

    tracemalloc.start()
    try:
        curvature = made()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        solve = factored_by(forest, None, 0.5, Engine(1))(curvature)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.4 * held  # 2 with the sums beside their factor
    assert not curvature.sums
    right = np.ones((forest.total_rank, 1))
    np.testing.assert_allclose(solve(right)[0], right / 1.5)
