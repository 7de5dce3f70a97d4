"""GaussianProcessRegressor beside scikit-learn's, beside dense algebra, and on bad input."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg as la
from sklearn.gaussian_process import GaussianProcessRegressor as Dense
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import gramian as gm
from gramian.compression.storage import operator_of
from gramian.data.source import as_source
from gramian.engine import Engine
from gramian.kernels import Cosine, OnFeatures

RNG = np.random.default_rng(0)
X = RNG.random((250, 3))
Y = np.c_[np.sin(5 * X[:, 0]) + X[:, 1], 30.0 + 7.0 * X[:, 2] ** 2] + 0.1 * RNG.standard_normal((250, 2))
NEW = RNG.random((40, 3)) * 1.3
LENGTHS = (0.5, 0.8, 1.0)
TREE = gm.MultiResolution(root_rank=30, rank=10, n_blocks=5)
FIXED = {"optimizer": None, "random_state": 0, "n_jobs": 1}


def kernel():
    return 1.7 * gm.Gaussian(LENGTHS)


@pytest.fixture(scope="module")
def small():
    """A compressed model of two outputs, its parameters fixed."""
    return gm.GaussianProcessRegressor(kernel(), noise=0.02, approximation=TREE, **FIXED).fit(X, Y)


@pytest.mark.parametrize("y", [Y[:, 1], Y], ids=["one output", "two outputs"])
@pytest.mark.parametrize("normalize", [True, False])
def test_at_full_rank_it_is_scikit_learn_s(y, normalize):
    model = gm.GaussianProcessRegressor(kernel(), noise=0.02, normalize_y=normalize, **FIXED).fit(X, y)
    dense = Dense(ConstantKernel(1.7) * RBF(LENGTHS), alpha=0.02, optimizer=None, normalize_y=normalize)
    dense.fit(X, y)
    for asked in ("return_std", "return_cov"):
        mean, spread = model.predict(NEW, **{asked: True})
        expected_mean, expected = dense.predict(NEW, **{asked: True})
        np.testing.assert_allclose(mean, expected_mean, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(spread, expected, rtol=1e-6, atol=1e-6)
    assert model.sample_y(NEW, 3).shape == dense.sample_y(NEW, 3).shape
    assert model.log_marginal_likelihood() == pytest.approx(dense.log_marginal_likelihood_value_, rel=1e-6)
    # scikit-learn's noise as a kernel has a gradient too.
    noisy = Dense(ConstantKernel(1.7) * RBF(LENGTHS) + WhiteKernel(0.02), alpha=1e-12, optimizer=None)
    noisy.set_params(normalize_y=normalize).fit(X, y)
    expected_value, slope = noisy.log_marginal_likelihood(noisy.kernel_.theta, eval_gradient=True)
    value, found = model.log_marginal_likelihood(eval_gradient=True)
    assert value == pytest.approx(expected_value, rel=1e-6)
    np.testing.assert_allclose(found, slope, atol=1e-6 * np.abs(slope).max())


def test_dense_algebra_and_a_root_of_every_row_agree():
    model = gm.GaussianProcessRegressor(kernel(), noise=0.02, **FIXED).fit(X, Y)
    objective = model._training
    assert objective.exact
    value, slope = objective.value(model.theta_)
    again, found = replace(objective, exact=False).value(model.theta_)
    assert value == pytest.approx(again, rel=1e-9)
    np.testing.assert_allclose(slope, found, atol=1e-6 * np.abs(slope).max())


def test_it_learns_what_scikit_learn_learns():
    start = 1.0 * gm.Gaussian((1.0, 1.0, 1.0))
    model = gm.GaussianProcessRegressor(start, noise=0.1, random_state=0).fit(X, Y[:, 0])
    dense = Dense(ConstantKernel() * RBF([1.0, 1.0, 1.0]) + WhiteKernel(0.1), alpha=1e-12, normalize_y=True)
    dense.fit(X, Y[:, 0])
    assert model.log_marginal_likelihood() == pytest.approx(dense.log_marginal_likelihood_value_, abs=1e-2)
    np.testing.assert_allclose(model.theta_[:3], dense.kernel_.theta[:3], atol=0.05)
    assert model.learning_.converged
    assert model.learning_.evaluations > 5
    assert model.optimizer_report_ is model.learning_
    np.testing.assert_allclose(model.predict(NEW), dense.predict(NEW), atol=1e-2)


def test_compressed_answers_are_those_of_dense_algebra(small):
    features = small.posterior_.features
    both = operator_of(features, as_source(np.r_[X, NEW]), chunk_rows=500, engine=Engine(1)).to_dense()
    n = len(X)
    exact = 1.7
    prior = both.copy()
    np.fill_diagonal(prior, exact)  # K̃ + D
    K, cross = prior[:n, :n] + 0.02 * np.eye(n), both[n:, :n]
    y = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    mean = cross @ la.solve(K, y) * Y.std(axis=0) + Y.mean(axis=0)
    gain = cross @ la.solve(K, cross.T)
    found, std = small.predict(NEW, return_std=True)
    np.testing.assert_allclose(found, mean, atol=1e-8)
    np.testing.assert_allclose(std, np.sqrt(exact - np.diag(gain))[:, None] * Y.std(axis=0), atol=1e-8)
    noisy = small.predict(NEW, return_std=True, include_noise=True)[1]
    own = (found - Y.mean(axis=0)) / Y.std(axis=0), np.sqrt((std[:, 0] / Y[:, 0].std()) ** 2 + 0.02)
    factor = small.calibration_.factor(*own)
    np.testing.assert_allclose(noisy**2, (std**2 + 0.02 * Y.var(axis=0)) * factor**2, rtol=1e-8)

    # Between rows of a leaf the covariance that is left over is the kernel's, between leaves there is none.
    labels = features.partition.route(NEW, Engine(1))
    same = labels[:, None] == labels
    expected = np.where(same, np.asarray(kernel()(NEW)), both[n:, n:]) - gain
    covariance = small.predict(NEW, return_cov=True)[1]
    np.testing.assert_allclose(covariance[:, :, 0], expected * Y[:, 0].var(), atol=1e-7)
    assert la.eigvalsh(covariance[:, :, 1]).min() > -1e-8
    np.testing.assert_allclose(np.sqrt(np.diag(covariance[:, :, 1])), std[:, 1], rtol=1e-6)
    assert small.log_marginal_likelihood() == pytest.approx(
        -0.5 * np.vdot(y, la.solve(K, y)) - np.linalg.slogdet(K)[1] - n * np.log(2 * np.pi), rel=1e-9
    )


def test_before_a_fit_the_prior_answers_as_scikit_learn_s():
    model, theirs = (
        gm.GaussianProcessRegressor(kernel(), noise=0.2),
        Dense(ConstantKernel(1.7) * RBF(LENGTHS)),
    )
    for asked in ("return_std", "return_cov"):
        for found, expected in zip(model.predict(NEW, **{asked: True}), theirs.predict(NEW, **{asked: True})):
            np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_array_equal(model.predict(NEW), np.zeros(len(NEW)))
    noisy = model.predict(NEW, return_std=True, include_noise=True)[1]
    np.testing.assert_allclose(noisy, np.sqrt(1.9))
    draws = model.sample_y(NEW[:4], 5_000, random_state=1)
    np.testing.assert_allclose(np.cov(draws), np.asarray(kernel()(NEW[:4])), atol=0.2)
    np.testing.assert_allclose(gm.GaussianProcessRegressor().predict(NEW, return_std=True)[1], 1.0)
    assert not hasattr(model, "n_features_in_")


def test_far_from_everything_the_prior_is_back(small):
    mean, std = small.predict(np.full((1, 3), 50.0), return_std=True)
    np.testing.assert_allclose(mean[0], Y.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(std[0], np.sqrt(1.7) * Y.std(axis=0), rtol=1e-6)


def test_samples_have_the_moments_of_the_posterior(small):
    draws = small.sample_y(NEW[:6], 20_000, random_state=1)
    assert draws.shape == (6, 2, 20_000)
    mean, covariance = small.predict(NEW[:6], return_cov=True)
    scale = np.sqrt(covariance[0, 0])
    np.testing.assert_allclose(draws.mean(axis=2), mean, atol=0.05 * scale.max())
    np.testing.assert_allclose(np.cov(draws[:, 1]), covariance[:, :, 1], atol=0.05 * scale[1] ** 2)
    np.testing.assert_array_equal(draws, small.sample_y(NEW[:6], 20_000, random_state=1))


def test_paths_are_functions_with_the_moments_of_predictions(small):
    paths = small.sample_paths(3_000, random_state=2)
    far = np.r_[NEW[:6], [[50.0, 0.0, 0.0]]]
    values = paths(far)
    assert values.shape == (7, 2, 3_000)
    np.testing.assert_allclose(paths(NEW[3:5]), values[3:5], rtol=1e-9)
    mean, std = small.predict(far, return_std=True)
    np.testing.assert_allclose(values.mean(axis=2), mean, atol=0.08 * std.max())
    np.testing.assert_allclose(values.std(axis=2), std, rtol=0.1)
    flat = gm.GaussianProcessRegressor(**FIXED).fit(X, Y[:, 0]).sample_paths(4, random_state=0)
    assert flat(NEW).shape == (len(NEW), 4)


@pytest.mark.parametrize(
    "chosen",
    [
        1.5 * gm.Matern(0.3) + gm.Linear((1.0, 2.0, 3.0)),
        gm.Exponential(0.5) + gm.Polynomial(2.0, degree=2),
        OnFeatures(gm.Gaussian(0.2), (0,)) + OnFeatures(gm.RationalQuadratic(0.2), (1, 2)),
    ],
    ids=repr,
)
def test_paths_have_all_of_the_deviation_where_rows_are_sparse(chosen):
    model = gm.GaussianProcessRegressor(chosen, noise=1e-3, **FIXED).fit(X[:60], Y[:60, 0])
    rows = np.r_[NEW[:5], X[:2], [[3.0, 3.0, 3.0]]]
    paths = model.sample_paths(3_000, random_state=1)
    std = model.predict(rows, return_std=True)[1]
    np.testing.assert_allclose(paths(rows).std(axis=1), std, rtol=0.1)  # 3,000 draws: 4 deviations are 0.05
    close = paths(np.array([[0.5, 0.5, 0.5], [0.5 + 1e-6, 0.5, 0.5]]))
    assert np.abs(np.diff(close, axis=0)).max() < 0.05 * close.std()


def test_paths_of_a_kernel_without_random_features_are_refused():
    rows = np.abs(X[:30])
    model = gm.GaussianProcessRegressor(Cosine(), noise=0.1, **FIXED).fit(rows, Y[:30, 0])
    with pytest.raises(gm.InputError, match=r"random features, and none are known of Cosine.*Use sample_y"):
        model.sample_paths()


@pytest.mark.slow
def test_learning_on_some_rows_and_from_several_starts():
    model = gm.GaussianProcessRegressor(
        approximation=TREE, learning_rows=100, n_restarts_optimizer=2, max_iter=200, random_state=0, n_jobs=1
    ).fit(X, Y[:, 0])
    assert model.learning_.n_rows == 100
    reached = [start.value for start in model.learning_.starts]
    assert len(reached) == 3
    assert max(reached) == model.learning_.value
    assert model.score(X, Y[:, 0]) > 0.9
    given = gm.GaussianProcessRegressor(
        approximation=gm.MultiResolution(root_rank=9, rank=5, n_blocks=3, landmarks=X[:9]),
        learning_rows=None,
        random_state=0,
        n_jobs=1,
    ).fit(X, Y[:, 0])
    np.testing.assert_array_equal(given.posterior_.features.nodes[0].landmarks, X[:9])
    pivots = gm.GaussianProcessRegressor(
        approximation=gm.MultiResolution(root_rank=9, rank=5, n_blocks=3, landmarks="rpcholesky"),
        random_state=0,
        n_jobs=1,
    ).fit(X, Y[:, 0])
    assert pivots.score(X, Y[:, 0]) > 0.9
    here = model.log_marginal_likelihood(model.theta_)
    assert here == pytest.approx(model.log_marginal_likelihood_value_, rel=1e-9)
    every = gm.GaussianProcessRegressor(
        approximation=TREE, learning_rows=None, random_state=0, n_jobs=1, learn_noise=False, noise=0.03
    ).fit(X, Y[:, 0])
    assert every.learning_.n_rows == 250
    assert every.noise_ == 0.03
    assert len(every.theta_) == 4  # the factor and three lengthscales


def test_an_iteration_limit_is_told():
    with pytest.warns(gm.AccuracyWarning, match="learning stopped at max_iter=1 iterations with a gradient"):
        model = gm.GaussianProcessRegressor(max_iter=1, n_jobs=1).fit(X, Y[:, 0])
    assert not model.learning_.converged


def test_a_user_s_optimizer_is_called_as_scikit_learn_s():
    seen = {}

    def stay(objective, start, bounds):
        value, slope = objective(start)
        seen.update(slope=slope, bounds=bounds, alone=objective(start, eval_gradient=False) - value)
        return start, value

    model = gm.GaussianProcessRegressor(optimizer=stay, gamma=2.0, ard=True, n_jobs=1).fit(X, Y[:, 0])
    np.testing.assert_allclose(model.theta_, np.log([1.0, 0.5, 0.5, 0.5, 0.1]))
    assert seen["slope"].shape == (5,)
    assert seen["bounds"].shape == (5, 2)
    assert seen["alone"] == 0


def test_a_kernel_without_a_known_gradient_leaves_the_noise_to_learn():
    model = gm.GaussianProcessRegressor(lambda A, B: np.exp(-np.abs(A[:, :1] - B[:, 0])), n_jobs=1)
    model.fit(X, Y[:, 0])
    assert len(model.theta_) == 1
    assert model.noise_ != 0.1
    assert abs(model.log_marginal_likelihood(eval_gradient=True)[1][0]) < 0.02


@pytest.mark.parametrize("approximation", ["exact", "lowrankplusblocks", "multiresolution", "blockdiagonal"])
def test_other_approximations(approximation):
    model = gm.GaussianProcessRegressor(kernel(), noise=0.02, approximation=approximation, **FIXED).fit(X, Y)
    assert model.plan_.method in ("multiresolution", approximation)
    assert model.score(X, Y) > 0.9


def test_auto_takes_fewer_blocks_where_the_budget_is_small():
    rows = RNG.random((40_000, 3))
    target = rows[:, 0]
    plans = [
        gm.GaussianProcessRegressor(memory_budget=budget, n_jobs=1).plan(rows, target)
        for budget in ("1GB", "160MB")
    ]
    assert plans[0].n_blocks == 100
    assert plans[0].seconds["learning"] > plans[0].seconds["sums"]
    assert 2 <= plans[1].n_blocks < 50
    least = r"is too small for a Gaussian process of \d+ rows.*fit to fewer rows"
    with pytest.raises(gm.BudgetError, match=least):
        gm.GaussianProcessRegressor(memory_budget="1MB", n_jobs=1).fit(rows, target)
    exact = r"too small for approximation='exact' of 4000 rows: at least 9.* MB.*approximation='auto'"
    gm.GaussianProcessRegressor(approximation="exact", memory_budget="1GB").plan(rows[:4_000])
    asked = r"too small for a process of root_rank=300 and 4 blocks.*lower"
    tree = gm.MultiResolution(root_rank=300, rank=20, n_blocks=4)
    for told, chosen, budget in ((exact, "exact", "900MB"), (asked, tree, "5MB")):
        with pytest.raises(gm.BudgetError, match=told):
            gm.GaussianProcessRegressor(approximation=chosen, memory_budget=budget, n_jobs=1).plan(
                rows[:4_000]
            )


def test_a_plan_says_what_is_learned_tried_and_checked():
    rows = RNG.random((4_000, 3))

    def told(n, **options):
        return str(gm.GaussianProcessRegressor(n_jobs=1, **options).plan(rows[:n]))

    few = told(300)
    assert "auto: every one of 300 rows; kernel and noise learned from 300 rows" in few
    assert "deviations checked by leaving each row out" in few
    many = told(4_000)
    assert "blocks of about 400 rows; kernel and noise learned from 3,800 rows" in many
    assert "posterior by multi-resolution or exact mean or neighbours, judged on 400 held-out rows" in many
    assert "solve" in many
    near = told(4_000, approximation="neighbours", optimizer=None)
    assert "kernel and noise as given; posterior by neighbours, judged on 400 held-out rows" in near
    assert "learning" not in near


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{"root_rank": 100, "rank": 30, "n_blocks": 40}, {"n_levels": 1}])
def test_learning_and_predicting_stay_within_the_plan(sizes):
    rows = RNG.random((8_000, 5))
    target = np.sin(5 * rows[:, 0]) + rows[:, 1]
    model = gm.GaussianProcessRegressor(
        ard=True,
        approximation=gm.MultiResolution(**sizes),
        optimizer=lambda objective, start, bounds: (start, objective(start)[0]),
        learning_rows=None,
        n_jobs=1,
        random_state=0,
    )
    tracemalloc.start()
    try:
        model.fit(rows, target)
        assert tracemalloc.get_traced_memory()[1] < model.plan_.peak_bytes + 8 * target.nbytes
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        model.predict(np.tile(rows, (12, 1))[:80_000], return_std=True)
        assert tracemalloc.get_traced_memory()[1] - held < model.plan_.peak_bytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_exact_process_stays_within_the_plan(n_jobs):
    rows = RNG.random((900, 2))
    model = gm.GaussianProcessRegressor(
        ard=True,
        approximation="exact",
        optimizer=lambda objective, start, bounds: (start, objective(start)[0]),
        n_jobs=n_jobs,
        random_state=0,
    )
    tracemalloc.start()
    try:
        model.fit(rows, np.sin(5 * rows[:, 0]))
        assert tracemalloc.get_traced_memory()[1] < model.plan_.peak_bytes
    finally:
        tracemalloc.stop()


def test_constant_targets_and_single_rows_have_an_answer():
    model = gm.GaussianProcessRegressor(n_jobs=1).fit(X, np.full(len(X), 3.0))
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, 3.0)
    assert (std < 0.5).all()
    mixed = gm.GaussianProcessRegressor(n_jobs=1).fit(X, np.c_[Y[:, 0], np.full(len(X), 3.0)])
    np.testing.assert_allclose(mixed.predict(NEW)[:, 1], 3.0)
    one = gm.GaussianProcessRegressor(n_jobs=1, optimizer=None).fit(X[:1], Y[:1, 0])
    assert one.predict(X[:1]) == pytest.approx(Y[0, 0])


def test_repeated_rows_are_averaged():
    rows, target = np.repeat(X[:40], 5, axis=0), np.repeat(Y[:40, 0], 5)
    model = gm.GaussianProcessRegressor(kernel(), noise=0.5, **FIXED).fit(rows, target)
    once = gm.GaussianProcessRegressor(kernel(), noise=0.1, **FIXED).fit(X[:40], Y[:40, 0])
    np.testing.assert_allclose(model.predict(NEW), once.predict(NEW), atol=1e-7)


def test_repeated_rows_with_different_targets_have_their_mean_however_small_the_noise():
    rows, target = np.repeat(X[:40], 3, axis=0), np.random.default_rng(3).standard_normal(120)
    model = gm.GaussianProcessRegressor(kernel(), noise=1e-10, **FIXED).fit(rows, target)
    mean, std = model.predict(rows, return_std=True)
    np.testing.assert_allclose(mean, np.repeat(target.reshape(40, 3).mean(axis=1), 3), atol=1e-3)
    assert np.isfinite(std).all()
    assert (std < 0.1).all()


def test_pickles_leave_the_rows_out(small):
    kept = pickle.loads(pickle.dumps(small))
    np.testing.assert_array_equal(kept.predict(NEW), small.predict(NEW))
    assert kept.log_marginal_likelihood() == small.log_marginal_likelihood()
    with pytest.raises(gm.InputError, match="The training rows are not in pickles"):
        kept.log_marginal_likelihood(small.theta_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"noise": 0.0}, "noise=0.0 must be a positive, finite number"),
        ({"noise": -1.0}, "noise=-1.0 must be a positive, finite number"),
        ({"optimizer": "lbgfs"}, "optimizer='lbgfs' is unknown.*Did you mean 'lbfgs'"),
        ({"bounds": (0.0, 1.0)}, "bounds=.* must be two finite factors"),
        ({"bounds": 3.0}, "bounds=3.0 must be two finite factors"),
        ({"bounds": (2.0, 3.0)}, "0 < lower <= 1 <= upper"),
        ({"n_restarts_optimizer": -1}, "n_restarts_optimizer=-1 must be a whole number"),
        ({"learning_rows": 1}, "learning_rows=1 must be a whole number of at least 2"),
        ({"max_iter": 0}, "max_iter=0 must be a whole number"),
        ({"approximation": "meka"}, "approximation='meka' is not one that a Gaussian process takes"),
        ({"approximation": gm.Nystrom()}, "its bases must be nested"),
        ({"kernel": gm.Gaussian(1.0), "ard": True}, "ard=True goes with a kernel's name"),
        ({"kernel": "precomputed"}, "kernel='precomputed' has no parameters"),
    ],
)
def test_parameters_are_checked(parameters, message):
    rows = np.eye(5) if parameters.get("kernel") == "precomputed" else X
    with pytest.raises(gm.InputError, match=message):
        gm.GaussianProcessRegressor(**parameters).fit(rows, Y[: len(rows), 0])


def test_questions_are_checked(small):
    with pytest.raises(gm.InputError, match="return_std and return_cov are both true"):
        small.predict(NEW, return_std=True, return_cov=True)
    with pytest.raises(gm.InputError, match=r"theta=.* has shape \(2,\); expected 5 numbers"):
        small.log_marginal_likelihood([0.0, 0.0])
    with pytest.raises(gm.InputError, match="expected 5 numbers"):
        small.log_marginal_likelihood(np.full(5, np.nan))
    with pytest.raises(gm.InputError, match="n_samples=0 must be a whole number"):
        small.sample_y(NEW, 0)
    with pytest.raises(ValueError, match="NaN"):
        gm.GaussianProcessRegressor().fit(X, np.where(X[:, 0] > 0.5, np.nan, 1.0))
