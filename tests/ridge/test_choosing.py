"""Ridge estimators whose kernel, gamma or alpha is "auto"."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_ridge import KernelRidge
from sklearn.utils.estimator_checks import parametrize_with_checks

import gramian as gm
from gramian.exact.loo import leave_one_out
from gramian.exceptions import InputError
from gramian.kernels import Laplacian
from gramian.ridge import choosing


def waves(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) * [1.0, 10.0, 1.0]
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * X[:, 1] + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("intercept", [False, True])
def test_alpha_has_the_least_dense_leave_one_out_error(intercept):
    X, y = waves()
    m = gm.KernelRidge("auto", gamma=0.1, fit_intercept=intercept, tile_dtype="float64", random_state=0).fit(
        X, y
    )
    Y = (y - y.mean() if intercept else y)[:, None]
    grid = np.logspace(-6.5, 2.5, 19)  # half decades: those that are compared are among them
    losses = [leave_one_out(m.kernel_, X, Y, alpha, intercept=intercept).loss for alpha in grid]
    assert m.alpha_ == pytest.approx(grid[np.argmin(losses)])


@pytest.mark.slow
def test_the_model_is_that_of_a_fit_with_what_was_chosen():
    X, y = waves()
    m = gm.KernelRidge("auto", kernel="auto", random_state=0).fit(X, y)
    same = gm.KernelRidge(m.alpha_, kernel=m.kernel_, random_state=0).fit(X, y)
    np.testing.assert_allclose(m.predict(X), same.predict(X), atol=1e-3)
    assert m.choice_.kernel == m.kernel_
    assert m.plan_.used_seconds["choice"] > 0


@pytest.mark.slow
def test_finalists_are_judged_on_all_rows(monkeypatch):
    X, y = waves()
    tried, fit_by_alpha = [], choosing.fit_by_alpha

    def worse_first(setup, rows, start):
        loss, *rest = fit_by_alpha(setup, rows, start)
        tried.append(setup.kernel.kernel)
        return (loss if len(tried) == 2 else 1e3, *rest)

    monkeypatch.setattr(choosing, "fit_by_alpha", worse_first)
    m = gm.KernelRidge("auto", kernel="auto", random_state=0).fit(X, y)
    assert len(tried) == 2
    assert np.ndim(tried[0].lengthscale) != np.ndim(tried[1].lengthscale)
    assert m.kernel_ == m.choice_.kernel == tried[1]


@pytest.mark.slow
def test_the_choice_is_much_better_than_the_defaults():
    X, y = waves()
    new, truth = waves(seed=1)
    errors = [
        np.std(truth - m.fit(X, y).predict(new))
        for m in (gm.KernelRidge("auto", kernel="auto", random_state=0), gm.KernelRidge(random_state=0))
    ]
    assert errors[0] < 0.2 < errors[1]  # the noise is 0.1


def test_gamma_alone_keeps_the_family_and_alpha():
    X, y = waves()
    m = gm.KernelRidge(0.01, kernel="laplacian", gamma="auto", random_state=0).fit(X, y)
    assert isinstance(m.kernel_, Laplacian)
    assert np.ndim(m.kernel_.lengthscale) == 0
    assert not hasattr(m, "alpha_")


def test_a_later_fit_without_auto_forgets_the_choice():
    X, y = waves(100)
    m = gm.KernelRidge("auto", kernel="auto", random_state=0).fit(X, y)
    m.set_params(alpha=1.0, kernel="rbf").fit(X, y)
    assert not hasattr(m, "choice_")
    assert not hasattr(m, "alpha_")


@pytest.mark.slow
def test_classes_weights_and_outputs():
    X, y = waves(240)
    labels = np.digitize(y, [-0.5, 0.5])
    m = gm.KernelRidgeClassifier("auto", kernel="auto", class_weight="balanced", random_state=0).fit(
        X, labels
    )
    assert m.score(X, labels) > 0.8
    both = gm.KernelRidge("auto", kernel="auto", random_state=0).fit(X, np.column_stack([y, 2 * y]))
    assert both.predict(X).shape == (240, 2)
    weights = np.where(np.arange(240) < 200, 1.0, 0.0)
    spoiled = np.where(weights > 0, y, 1e4)
    kept = [gm.KernelRidge("auto", kernel="auto", random_state=0).fit(X, v, weights) for v in (y, spoiled)]
    assert kept[0].kernel_ == kept[1].kernel_
    assert kept[0].alpha_ == kept[1].alpha_


def test_sparse_rows_and_the_exact_system():
    X, y = waves(150)
    dense = gm.KernelRidge("auto", gamma="auto", approximation="exact", random_state=0).fit(X, y)
    sparse = gm.KernelRidge("auto", gamma="auto", approximation="exact", random_state=0)
    sparse.fit(sp.csr_matrix(X), y)
    assert sparse.alpha_ == dense.alpha_
    np.testing.assert_allclose(sparse.predict(X), dense.predict(X), atol=1e-3)
    assert dense.stages_


def test_alpha_of_a_precomputed_matrix():
    X, y = waves(150)
    K = gm.Gaussian(2.0)(X)
    given = gm.KernelRidge("auto", kernel="precomputed", random_state=0).fit(K, y)
    named = gm.KernelRidge("auto", kernel=gm.Gaussian(2.0), random_state=0).fit(X, y)
    assert given.alpha_ == pytest.approx(named.alpha_)


def test_few_rows_get_the_usual_values():
    X, y = waves(30)
    m = gm.KernelRidge("auto", kernel="auto", gamma="auto", random_state=0).fit(X, y)
    usual = gm.KernelRidge(30 / 40, random_state=0).fit(X, y)
    np.testing.assert_allclose(m.predict(X), usual.predict(X))
    assert m.alpha_ == 30 / 40
    assert not hasattr(m, "choice_")
    # Neither the unit of the weights nor writing rows twice matters.
    m.fit(X, y, np.full(30, 1e-3))
    np.testing.assert_allclose(m.predict(X), usual.predict(X))
    twice = gm.KernelRidge("auto", kernel="auto", gamma="auto", random_state=0)
    twice.fit(np.repeat(X[:19], 2, axis=0), np.repeat(y[:19], 2))
    m.fit(X[:19], y[:19])
    np.testing.assert_allclose(m.predict(X), twice.predict(X))


@pytest.mark.slow
def test_clone_pickle_file_and_plan(tmp_path):
    X, y = waves(120)
    m = gm.KernelRidge("auto", kernel="auto", random_state=0)
    assert m.plan(X, y).peak_bytes > 0
    m.fit(X, y)
    again = clone(m).fit(X, y)
    assert again.kernel_ == m.kernel_
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(m)).predict(X), m.predict(X))
    gm.save(m, tmp_path / "model")
    loaded = gm.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), m.predict(X))
    assert loaded.choice_.kernel == m.choice_.kernel
    assert loaded.alpha_ == m.alpha_


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kernel": "auto", "metric": "diagonal"}, "both would learn the distance"),
        ({"kernel": "auto", "gamma": 1.0}, "lengthscales of its own"),
        ({"kernel": "auto", "checkpoint": "folder"}, "cannot be continued"),
        ({"gamma": "auto", "kernel": "linear"}, "no gamma to choose"),
        ({"gamma": "auto", "kernel": gm.Gaussian(1.0)}, "no gamma to choose"),
        ({"gamma": "auto", "kernel": "precomputed"}, "no gamma to choose"),
        ({"alpha": "best"}, "positive, finite number"),
        ({"gamma": "best"}, "gamma='best'"),
    ],
)
def test_what_does_not_go_together_is_refused(params, message):
    X, y = waves(60)
    m = gm.KernelRidge(**params)
    with pytest.raises(InputError, match=message):
        m.fit(X[:, :3] if params.get("kernel") != "precomputed" else gm.Gaussian(1.0)(X), y)
    assert not hasattr(m, "predictor_")


@pytest.mark.slow
def test_cross_validation_without_arguments_chooses_kernel_and_alpha():
    X, y = waves()
    new, truth = waves(seed=1)
    m = gm.KernelRidgeCV(random_state=0)
    assert m.plan(X, y).peak_bytes > 0
    m.fit(X, y)
    assert np.std(truth - m.predict(new)) < 0.2  # the noise is 0.1
    assert m.kernel_ == m.choice_.kernel
    assert m.gamma_ is None
    assert m.cv_results_["scores"].shape == (5, 1)
    assert m.alpha_ in m.cv_results_["alphas"]
    one = gm.KernelRidge(m.alpha_, kernel=m.kernel_, random_state=0).fit(X, y)
    np.testing.assert_allclose(m.predict(X), one.predict(X), atol=1e-3)
    m.set_params(kernel="rbf").fit(X, y)
    assert not hasattr(m, "choice_")
    np.testing.assert_allclose(m.cv_results_["alphas"], [1e-3, 1e-2, 0.1, 1.0, 10.0])


def test_cross_validation_takes_gamma_auto_and_gammas_of_the_gaussian_kernel():
    X, y = waves(120)
    m = gm.KernelRidgeCV((0.01, 0.1), kernel="laplacian", gamma="auto", random_state=0).fit(X, y)
    assert isinstance(m.kernel_, Laplacian)
    assert m.choice_.kernel == m.kernel_
    both = gm.KernelRidgeCV(gammas=(0.1, 1.0), random_state=0).fit(X, y)
    assert both.gamma_ in (0.1, 1.0)
    assert isinstance(both.kernel_, gm.Gaussian)
    with pytest.raises(InputError, match="alphas='best' must be positive numbers, or 'auto'"):
        gm.KernelRidgeCV("best").fit(X, y)


def test_frozen_landmarks_have_their_kernel():
    X, y = waves(80)
    frozen = FrozenEstimator(gm.MultiResolution(random_state=0).fit(X))
    with pytest.raises(InputError, match="kernel is fixed"):
        gm.KernelRidge(kernel="auto", approximation=frozen).fit(X, y)


def test_streams_need_numbers():
    assert not hasattr(gm.KernelRidge("auto"), "partial_fit")
    with pytest.raises(AttributeError, match="alpha='auto' chooses by all rows"):
        gm.KernelRidge("auto").partial_fit(*waves(80))


@parametrize_with_checks(
    [kind("auto", kernel="auto", random_state=0) for kind in (gm.KernelRidge, gm.KernelRidgeClassifier)]
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# ---- one penalty for each output --------------------------------------------------------------------

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1], X[:, 0] * X[:, 1]]) + 0.1 * RNG.normal(size=(120, 3))
ALPHAS = np.array([0.5, 0.01, 0.5])
WEIGHTS = RNG.random(120) + 0.5


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "approximation",
    ["exact", gm.Exact(solver="cg", tol=1e-10), "nystrom", gm.MEKA(rank=10, n_blocks=2), "multiresolution"],
)
def test_it_is_a_fit_for_each_output(approximation, intercept):
    model = gm.KernelRidge(
        ALPHAS, gamma=0.3, approximation=approximation, fit_intercept=intercept, random_state=0
    ).fit(X, Y, WEIGHTS)
    for j, alpha in enumerate(ALPHAS):
        one = clone(model).set_params(alpha=alpha).fit(X, Y[:, j], WEIGHTS)
        np.testing.assert_allclose(model.predict(X)[:, j], one.predict(X), rtol=1e-6, atol=1e-8)
    assert model.intercept_.shape == (3,)
    assert model.solution_.residual < 1e-6


def test_alphas_that_were_chosen_can_be_given_back():
    found = gm.KernelRidgeCV((0.01, 0.1, 1.0), gamma=0.3, alpha_per_target=True, random_state=0).fit(X, Y)
    model = gm.KernelRidge(found.alpha_, gamma=0.3, random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), found.predict(X), rtol=1e-6, atol=1e-8)
    theirs = KernelRidge(alpha=found.alpha_, kernel="rbf", gamma=0.3).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), atol=1e-6)
    assert model.alpha is found.alpha_


@pytest.mark.parametrize("waits", [True, False])
def test_streams(waits):
    rows, targets = (X, Y) if waits else (np.tile(X, (18, 1)), np.tile(Y, (18, 1)))
    model = gm.KernelRidge(ALPHAS.tolist(), gamma=0.3, random_state=0).partial_fit(rows, targets)
    one = gm.KernelRidge(0.01, gamma=0.3, random_state=0).partial_fit(rows, targets)
    np.testing.assert_allclose(model.predict(X)[:, 1], one.predict(X)[:, 1], rtol=1e-6, atol=1e-8)
    model.set_params(alpha=ALPHAS[:2])
    with pytest.raises(gm.InputError, match="alpha holds 2 penalties, but y has 3 outputs"):
        model.partial_fit(rows, targets)


def test_files_summaries_plans_and_checkpoints(tmp_path):
    model = gm.KernelRidge(ALPHAS, gamma=0.3, checkpoint=tmp_path, random_state=0).fit(X, Y)
    gm.save(model, tmp_path / "model.gramian")
    loaded = gm.load(tmp_path / "model.gramian")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.alpha, ALPHAS)
    assert "alpha" in str(model.summary())
    assert "alpha" in model._repr_html_()
    assert model.plan(X, Y).rank == model.plan_.rank
    assert gm.KernelRidge(ALPHAS, metric="diagonal", random_state=0).fit(X, Y).predict(X).shape == (120, 3)


def test_other_numbers_of_penalties_are_refused():
    with pytest.raises(gm.InputError, match="alpha holds 3 penalties, but y has 1 outputs"):
        gm.KernelRidge(ALPHAS).fit(X, Y[:, 0])
    with pytest.raises(gm.InputError, match=r"alpha\[1\]=-1.0 must be a positive, finite number"):
        gm.KernelRidge([1.0, -1.0, 1.0]).fit(X, Y)
    with pytest.raises(gm.InputError, match=r"alpha=array.* must be a positive, finite number"):
        gm.KernelRidgeClassifier(ALPHAS).fit(X, (X[:, 0] > 0).astype(int))
    with pytest.raises(gm.InputError, match=r"alpha=.* must be a positive, finite number"):
        gm.KernelRidge(ALPHAS[None]).fit(X, Y)
    assert gm.KernelRidge([0.5]).fit(X, Y[:, 0]).predict(X).shape == (120,)


# ---- kernelRidgeCV warns where its best alpha is the smallest or largest of a list ------------------

DRAW = np.random.default_rng(0)
ROWS = DRAW.random((120, 1))
NOISY = np.sin(9 * ROWS[:, 0]) + 0.3 * DRAW.standard_normal(120)
SETTINGS = {"kernel": "rbf", "gamma": 10.0, "random_state": 0}


@pytest.mark.parametrize(
    ("alphas", "text"),
    [
        (
            (1.0, 1e2, 1e4),
            r"best alpha, 1, is the smallest of alphas \(1 to 1e\+04\): a smaller one.*as 0\.1",
        ),
        ((1e-8, 1e-6), r"best alpha, 1e-06, is the largest of alphas .*: a larger one may.*such as 1e-05"),
    ],
)
def test_an_alpha_at_an_edge_of_the_list_is_told(alphas, text):
    with pytest.warns(UserWarning, match=text):
        gm.KernelRidgeCV(alphas, **SETTINGS).fit(ROWS, NOISY)


def test_outputs_at_an_edge_are_counted():
    both = np.column_stack([NOISY, DRAW.standard_normal(120)])
    with pytest.warns(UserWarning, match=r"100, of 1 of 2 outputs, is the largest"):
        gm.KernelRidgeCV((1e-2, 1.0, 1e2), alpha_per_target=True, **SETTINGS).fit(ROWS, both)


@pytest.mark.parametrize("alphas", ["auto", (1e-6, 1e-2, 0.1, 1.0, 10.0, 1e6), (0.5,)])
def test_nothing_is_said_within_the_list_of_one_alpha_or_of_auto(alphas):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gm.KernelRidgeCV(alphas, **SETTINGS).fit(ROWS, NOISY)
