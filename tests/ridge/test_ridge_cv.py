"""KernelRidgeCV: its choices against refits, grid searches and scikit-learn, its search, its errors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_friedman1
from sklearn.linear_model import RidgeCV
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold

import gramian as gm
from gramian.exact.loo import Refined
from gramian.exceptions import BudgetError, InputError
from gramian.ridge import kernel_search
from gramian.ridge.kernel_search import scaled, scaled_plan
from gramian.ridge.kernel_sums import KernelSums

ALPHAS = (1e-3, 0.03, 0.5, 10.0)


def table(n=150, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    Y = np.column_stack([np.sin(6 * X[:, 0]) * X[:, 1], np.cos(4 * X[:, 2])])
    return X, Y + [0.1, 1.0] * rng.standard_normal((n, 2)), rng.uniform(0.2, 2.0, n)


def refits(X, Y, weights, **parameters):
    """y − ŷ of every row under a fit to the other rows, one fit each."""
    out = np.empty_like(Y)
    for i in range(len(X)):
        on = np.delete(np.arange(len(X)), i)
        w = None if weights is None else weights[on]
        out[i] = Y[i] - gm.KernelRidge(**parameters).fit(X[on], Y[on], sample_weight=w).predict(X[[i]])[0]
    return out


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [pytest.param(False, marks=pytest.mark.slow), True])
def test_scores_and_residuals_are_those_of_n_refits(weighted, intercept):
    X, Y, w = table(25)
    weights = w if weighted else None
    common = {"gamma": 2.0, "fit_intercept": intercept, "tile_dtype": "float64", "n_jobs": 1}
    model = gm.KernelRidgeCV(ALPHAS, store_cv_results=True, **common).fit(X, Y, sample_weight=weights)
    losses = []
    for alpha in ALPHAS:
        gap = refits(X, Y, weights, alpha=alpha, **common)
        losses.append(np.average((gap**2).mean(axis=1), weights=weights))
        if alpha == model.alpha_:
            np.testing.assert_allclose(model.loo_residuals_, gap, atol=1e-7)
    np.testing.assert_allclose(model.cv_results_["scores"][:, 0], -np.asarray(losses), rtol=1e-7)
    assert model.alpha_ == ALPHAS[int(np.argmin(losses))]
    assert model.best_score_ == pytest.approx(-min(losses), rel=1e-7)
    plain = gm.KernelRidge(model.alpha_, **common).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-9)
    assert model.score(X, Y) == pytest.approx(plain.score(X, Y))


@pytest.mark.parametrize("per_target", [False, True])
@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error", "r2"])
def test_it_chooses_as_ridge_cv_does_on_the_same_features(scoring, per_target):
    X, Y, _ = table()
    model = gm.KernelRidgeCV(
        ALPHAS,
        kernel="linear",
        approximation="exact",
        scoring=scoring,
        alpha_per_target=per_target,
        fit_intercept=True,
    ).fit(X, Y)
    peer = RidgeCV(ALPHAS, scoring=scoring, alpha_per_target=per_target).fit(X, Y)
    np.testing.assert_allclose(model.alpha_, peer.alpha_)
    np.testing.assert_allclose(model.best_score_, peer.best_score_, rtol=1e-8)
    np.testing.assert_allclose(model.predict(X), peer.predict(X), atol=1e-8)


def test_each_output_may_have_its_alpha():
    X, Y, _ = table()
    common = {"gamma": 3.0, "approximation": "meka", "random_state": 0}
    model = gm.KernelRidgeCV(ALPHAS, alpha_per_target=True, store_cv_results=True, **common).fit(X, Y)
    assert model.alpha_.shape == model.best_score_.shape == (2,)
    assert model.alpha_[0] < model.alpha_[1]  # the second is mostly noise
    assert model.cv_results_["scores"].shape == (4, 1, 2)
    for j in range(2):
        one = gm.KernelRidgeCV(ALPHAS, store_cv_results=True, **common).fit(X, Y[:, j])
        assert one.alpha_ == model.alpha_[j]
        assert one.set_params(alpha_per_target=True).fit(X, Y[:, j]).alpha_ == model.alpha_[j]
        np.testing.assert_allclose(model.predict(X)[:, j], one.predict(X), atol=1e-10)
        np.testing.assert_allclose(model.loo_residuals_[:, j], one.loo_residuals_, atol=1e-10)


@pytest.mark.parametrize("cv", [4, KFold(4, shuffle=True, random_state=1), list(KFold(3).split(range(150)))])
@pytest.mark.parametrize("scoring", [None, "r2"])
def test_folds_are_those_of_a_grid_search(cv, scoring):
    X, Y, _ = table()
    common = {"approximation": "exact", "fit_intercept": True, "tile_dtype": "float64"}
    model = gm.KernelRidgeCV(ALPHAS, gammas=(0.3, 3.0), cv=cv, scoring=scoring, **common).fit(X, Y)
    search = GridSearchCV(
        gm.KernelRidge(**common),
        {"alpha": ALPHAS, "gamma": (0.3, 3.0)},
        cv=cv,
        scoring=scoring or "neg_mean_squared_error",
    ).fit(X, Y)
    expected = search.cv_results_["mean_test_score"].reshape(4, 2)
    np.testing.assert_allclose(model.cv_results_["scores"], expected, atol=1e-7)
    assert search.best_params_ == {"alpha": model.alpha_, "gamma": model.gamma_}
    np.testing.assert_allclose(model.predict(X), search.predict(X), atol=1e-6)


def test_gcv_is_the_error_over_the_share_of_freedom_left():
    X, Y, _ = table()
    model = gm.KernelRidgeCV(ALPHAS, gamma=2.0, cv="gcv", approximation="exact").fit(X, Y)
    K = np.exp(-2.0 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    for k, alpha in enumerate(ALPHAS):
        hat = K @ np.linalg.inv(K + alpha * np.eye(150))
        expected = ((Y - hat @ Y) ** 2).mean() / (1 - np.trace(hat) / 150) ** 2
        assert -model.cv_results_["scores"][k, 0] == pytest.approx(expected, rel=1e-7)


def test_a_stored_matrix_gives_what_its_rows_give():
    X, Y, w = table()
    K = np.exp(-2.0 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    for cv in (None, 3):
        common = {"approximation": "exact", "cv": cv, "fit_intercept": True}
        stored = gm.KernelRidgeCV(ALPHAS, kernel="precomputed", **common).fit(K, Y, sample_weight=w)
        rows = gm.KernelRidgeCV(ALPHAS, gamma=2.0, **common).fit(X, Y, sample_weight=w)
        np.testing.assert_allclose(stored.cv_results_["scores"], rows.cv_results_["scores"], rtol=1e-6)
        np.testing.assert_allclose(stored.predict(K), rows.predict(X), atol=1e-6)
        assert stored.gamma_ is None


@pytest.mark.slow
def test_gammas_are_compared_on_parts_of_the_rows_first(monkeypatch):
    monkeypatch.setattr(kernel_search, "LEAST_ROWS", 100)
    X, y = make_friedman1(1000, noise=0.5, random_state=0)
    seen = []
    before = KernelSums.__init__

    def spy(self, planned, sample, **options):
        seen.append((sample.n, planned[0].root_rank, round(planned[1].lengthscale ** -2 / 2, 4)))
        before(self, planned, sample, **options)

    monkeypatch.setattr(KernelSums, "__init__", spy)
    gammas = (1e-3, 0.01, 0.1, 1.0, 100.0)
    model = gm.KernelRidgeCV(
        gammas=gammas, approximation=gm.Nystrom(rank=90), fit_intercept=True, random_state=0
    ).fit(X, y)
    counts = {n: sum(size == n for size, *_ in seen) for n in (111, 333, 1000)}
    assert counts == {111: 5, 333: 3, 1000: 4}
    # On all rows the best gamma and both its neighbours have been tried.
    at = gammas.index(model.gamma_)
    assert (model.cv_results_["n_rows"][at - 1 : at + 2] == 1000).all()
    # Ranks shrink with the root of the rows.
    assert {n: rank for n, rank, _ in seen} == {111: 30, 333: 52, 1000: 90}
    scores = [
        gm.KernelRidgeCV(gamma=g, approximation=gm.Nystrom(rank=90), fit_intercept=True, random_state=0)
        .fit(X, y)
        .best_score_
        for g in gammas
    ]
    assert model.gamma_ == gammas[int(np.argmax(scores))]
    assert model.best_score_ == pytest.approx(max(scores), rel=1e-9)


@pytest.mark.slow
def test_from_a_wrong_start_the_search_climbs_to_the_best_gamma(monkeypatch):
    monkeypatch.setattr(kernel_search, "LEAST_ROWS", 10)
    rng = np.random.default_rng(0)
    X = rng.random((900, 2))
    y = np.sin(25 * X[:, 0]) * np.sin(25 * X[:, 1])
    gammas = (300.0, 0.1, 1.0, 10.0, 30.0, 100.0)  # in any order
    common = {"approximation": "exact", "random_state": 0}
    model = gm.KernelRidgeCV(gammas=gammas, **common).fit(X, y)
    scores = [gm.KernelRidgeCV(gamma=g, **common).fit(X, y).best_score_ for g in gammas]
    assert model.gamma_ == gammas[int(np.argmax(scores))]
    # A hundred rows cannot tell the wave from noise and take it for a wide kernel.
    few = gm.KernelRidgeCV(gammas=gammas, **common).fit(X[:100], y[:100])
    assert few.gamma_ != model.gamma_


def test_zero_weights_are_rows_that_are_not_there(monkeypatch):
    monkeypatch.setattr(kernel_search, "LEAST_ROWS", 30)
    X, Y, w = table(300)
    w[::3] = 0.0
    common = {"gammas": (0.1, 1.0, 10.0), "approximation": "exact", "fit_intercept": True, "random_state": 0}
    for cv in (None, "gcv"):
        weighted = gm.KernelRidgeCV(ALPHAS, cv=cv, **common).fit(X, Y, sample_weight=w)
        removed = gm.KernelRidgeCV(ALPHAS, cv=cv, **common).fit(X[w > 0], Y[w > 0], sample_weight=w[w > 0])
        assert (weighted.alpha_, weighted.gamma_) == (removed.alpha_, removed.gamma_)
        assert weighted.best_score_ == pytest.approx(removed.best_score_, rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["lengthscale", "lengthscales"])
def test_refinement_is_kept_where_it_is_better(how):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(400)
    plain = gm.KernelRidgeCV(gamma=0.3, random_state=0).fit(X, y)
    model = gm.KernelRidgeCV(gamma=0.3, refine=how, random_state=0).fit(X, y)
    found = model.refinement_
    assert found.kept
    assert found.after < found.before
    assert model.best_score_ == found.scores.max() > plain.best_score_
    assert model.kernel_ == found.kernel
    assert model.gamma_ is None
    assert model.alpha_ in found.alphas
    if how == "lengthscales":
        scale = np.asarray(model.kernel_.lengthscale)
        assert (scale[1:] > 3 * scale[0]).all()
        assert -model.best_score_ < 0.2 * -plain.best_score_


def test_refinement_that_does_not_help_is_not_kept(monkeypatch):
    X, Y, _ = table()
    worse = gm.Gaussian(1e-3)

    def spoiled(kernel, X, Y, alpha, **options):
        return Refined(worse, alpha, 1.0, 0.5, 3, 150)

    monkeypatch.setattr(kernel_search, "refine_kernel", spoiled)
    model = gm.KernelRidgeCV(gamma=2.0, refine="lengthscale").fit(X, Y)
    assert not model.refinement_.kept
    assert model.kernel_ != worse
    assert model.gamma_ == 2.0


@pytest.mark.slow
def test_a_small_budget_takes_the_alphas_in_groups_and_gives_the_same(monkeypatch):
    X, Y, _ = table(4000, 4)
    Y = Y[:, 0]
    sizes = []
    before = KernelSums._errors

    def spy(self, path, *rest, **options):
        sizes.append(len(path.alphas))
        return before(self, path, *rest, **options)

    monkeypatch.setattr(KernelSums, "_errors", spy)
    tree = gm.MultiResolution(root_rank=80, rank=60, n_blocks=20, oversampling=1.0)
    common = {"gamma": 20.0, "approximation": tree, "random_state": 0, "n_jobs": 1, "tile_dtype": "float64"}
    alphas = np.geomspace(0.01, 1, 20)
    wide = gm.KernelRidgeCV(alphas, **common).fit(X, Y)
    assert sizes == [20]
    sizes.clear()
    narrow = gm.KernelRidgeCV(alphas, memory_budget="14MB", **common).fit(X, Y)
    assert max(sizes) < 20
    assert sum(sizes) == 20
    np.testing.assert_allclose(narrow.cv_results_["scores"], wide.cv_results_["scores"], rtol=1e-9)
    assert narrow.alpha_ == wide.alpha_


def test_coupled_features_say_what_their_eigenvectors_need():
    X, Y, _ = table(2000, 6)
    model = gm.KernelRidgeCV(gamma=5.0, approximation=gm.MEKA(rank=64, n_blocks=25), memory_budget="60MB")
    with pytest.raises(BudgetError, match="is too small for"):
        model.fit(X, Y)


def test_a_scorer_of_any_kind_is_heard():
    X, Y, w = table()
    y = Y[:, 0]
    common = {"gamma": 2.0, "approximation": "exact"}
    named = gm.KernelRidgeCV(ALPHAS, scoring="neg_mean_absolute_error", **common).fit(X, y, sample_weight=w)
    made = make_scorer(mean_absolute_error, greater_is_better=False)
    same = gm.KernelRidgeCV(ALPHAS, scoring=made, **common).fit(X, y, sample_weight=w)
    np.testing.assert_array_equal(named.cv_results_["scores"], same.cv_results_["scores"])
    assert np.isnan(named.cv_results_["standard_errors"]).all()
    kept = gm.KernelRidgeCV([named.alpha_], store_cv_results=True, **common).fit(X, y, sample_weight=w)
    assert named.best_score_ == pytest.approx(-np.average(np.abs(kept.loo_residuals_), weights=w), rel=1e-9)

    def steep(estimator, X, y):
        return -float(np.max(np.abs(y - estimator.predict(X))))

    with pytest.warns(UserWarning, match="scoring='steep' takes no sample_weight, so it counts all 150 rows"):
        own = gm.KernelRidgeCV([named.alpha_], scoring=steep, **common).fit(X, y, sample_weight=w)
    assert own.best_score_ == pytest.approx(-np.abs(kept.loo_residuals_).max(), rel=1e-9)


def weighted_error(estimator, X, y, sample_weight=None):
    return -np.average((estimator.predict(X) - y) ** 2, weights=sample_weight)


@pytest.mark.parametrize("cv", [None, "gcv", 3])
@pytest.mark.parametrize("scoring", ["neg_max_error", weighted_error, "r2", None])
def test_rows_of_weight_0_judge_nothing(scoring, cv):
    X, Y, w = table(60)
    off = np.arange(60) % 7 == 2
    Y[off] += 100.0
    w = np.where(off, 0.0, 1.0 if scoring == "neg_max_error" else w)
    model = gm.KernelRidgeCV(ALPHAS, gamma=2.0, scoring=scoring, cv=cv, approximation="exact", random_state=0)
    with_them = model.fit(X, Y[:, 0], sample_weight=w).cv_results_["scores"]
    without = model.fit(X[~off], Y[~off, 0], sample_weight=w[~off]).cv_results_["scores"]
    np.testing.assert_allclose(with_them, without, rtol=1e-6)


def test_sparse_rows_give_what_dense_rows_give():
    X, Y, _ = table()
    X = X * (X > 0.3)
    for refine in (False, "lengthscales"):
        common = {"gammas": (0.5, 5.0), "refine": refine, "random_state": 0, "approximation": "exact"}
        dense = gm.KernelRidgeCV(ALPHAS, **common).fit(X, Y)
        thin = gm.KernelRidgeCV(ALPHAS, **common).fit(sp.csr_array(X), Y)
        assert thin.best_score_ == pytest.approx(dense.best_score_, rel=1e-3)


def test_a_second_fit_forgets_the_first():
    X, Y, _ = table()
    model = gm.KernelRidgeCV(gamma=2.0, refine="lengthscale", store_cv_results=True).fit(X, Y)
    model.set_params(refine=False, store_cv_results=False).fit(X, Y)
    assert not hasattr(model, "refinement_")
    assert not hasattr(model, "loo_residuals_")
    assert model.plan(X, Y).peak_bytes > 0


def test_sizes_shrink_with_the_root_of_the_share():
    assert scaled("auto", 1 / 9) == "auto"
    assert scaled(gm.MEKA(rank=90, n_blocks=30), 1 / 9).get_params()["rank"] == 30
    small = scaled("multiresolution", 1 / 9)
    assert (small.root_rank, small.rank, small.n_blocks) == (167, 33, 17)
    assert scaled(gm.MEKA(rank=2), 1 / 9).rank == 2
    X, Y, _ = table(2000)
    plan = gm.KernelRidge(1e-3, gamma=500.0).plan(X, Y)
    small = scaled_plan(plan, 1 / 9).builder
    assert (small.root_rank, small.rank, small.n_blocks) == (200, 127, plan.n_blocks)
    plan = gm.KernelRidge(gamma=100.0).plan(X[:900], Y[:900])
    assert scaled_plan(plan, 1 / 9) is plan  # every row of so few is a landmark


BAD = {
    "alphas": [
        ({"alphas": ()}, r"alphas=\(\) is empty"),
        ({"alphas": (1.0, -0.1)}, r"alphas\[1\]=-0.1 must be a positive"),
        ({"alphas": (float("nan"),)}, r"alphas\[0\]=nan must be a positive"),
        ({"alphas": 1.0}, "alphas=1.0 is not a sequence"),
        ({"alphas": ("a",)}, r"alphas\[0\]='a' must be"),
    ],
    "gammas": [
        ({"gammas": (0.0,)}, r"gammas\[0\]=0.0 must be a positive"),
        ({"gammas": (1.0,), "gamma": 2.0}, "gamma=2.0 and gammas were both given"),
        ({"gammas": (1.0,), "kernel": "precomputed"}, "kernel='precomputed', which has no gamma"),
        ({"gammas": (1.0,), "kernel": "linear"}, "kernel='linear', which has no gamma"),
        ({"gammas": (1.0,), "kernel": gm.Gaussian(1.0)}, "has no gamma to choose"),
    ],
    "masked folds": [
        (
            {"cv": [(np.arange(5, 150), np.ma.array(np.arange(5), mask=[1, 0, 0, 0, 0]))]},
            "cv is a masked array, and 1 of its values is masked",
        )
    ],
    "scoring": [
        ({"scoring": "neg_mean_squared"}, "scoring='neg_mean_squared' is not a scorer. Did you mean"),
        ({"scoring": 3}, "scoring=3 is not a scorer"),
        ({"scoring": lambda e, X, y: float("nan")}, "the scorer gave NaN"),
    ],
    "cv": [
        ({"cv": 1}, "cv=1 is no number of folds: at least 2"),
        ({"cv": True}, "cv=True is no number"),
        ({"cv": 2.5}, "cv=2.5 is no number"),
        ({"cv": "GCV"}, "cv='GCV' is unknown. Did you mean 'gcv'"),
        ({"cv": object()}, "has type object"),
        ({"cv": []}, "gives no folds"),
        ({"cv": 200}, "cv=200 folds need as many rows, but X has 150"),
        ({"cv": 3, "store_cv_results": True}, "store_cv_results=True keeps leave-one-out residuals"),
    ],
    "refine": [
        ({"refine": "lengthscals"}, "refine='lengthscals' is unknown"),
        ({"refine": True}, "refine=True is unknown"),
        ({"refine": "lengthscale", "kernel": "cosine"}, "no known gradient with respect to its parameters"),
        ({"refine": "lengthscale", "kernel": "precomputed"}, "has none. Pass rows"),
    ],
    "approximation": [
        ({"approximation": gm.Exact()}, "KernelRidgeCV has none"),
        ({"approximation": gm.MEKA(gamma=3.0)}, r"Write KernelRidgeCV\(gamma=3.0"),
    ],
}


@pytest.mark.parametrize(("parameters", "message"), [case for cases in BAD.values() for case in cases])
def test_bad_parameters_are_explained_and_leave_nothing_behind(parameters, message):
    X, Y, _ = table()
    X = X @ X.T if parameters.get("kernel") == "precomputed" else X
    model = gm.KernelRidgeCV(**parameters)
    with pytest.raises(InputError, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "n_features_in_")


def test_folds_without_weight_and_lone_samples_are_explained():
    X, Y, _ = table()
    weights = np.ones(150)
    weights[:75] = 0.0
    with pytest.raises(InputError, match="fold 0 of cv has no row with a weight to test on"):
        gm.KernelRidgeCV(cv=[(np.arange(75, 150), np.arange(75))]).fit(X, Y, sample_weight=weights)
    weights[1:] = 0.0
    weights[0] = 1.0
    with pytest.raises(InputError, match="at least 2 samples with a weight; got 1 sample"):
        gm.KernelRidgeCV().fit(X, Y, sample_weight=weights)


@pytest.mark.filterwarnings("ignore:.* rows repeat one of")
def test_a_constant_output_and_repeated_rows_are_no_trouble():
    X, _, _ = table(40)
    X = np.repeat(X, 3, axis=0)
    model = gm.KernelRidgeCV(gamma=1.0, fit_intercept=True).fit(X, np.full(120, 7.0))
    np.testing.assert_allclose(model.predict(X), 7.0)
    assert model.best_score_ == pytest.approx(0.0, abs=1e-20)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("cv", [None, "gcv", 3])
def test_degrees_of_freedom_are_the_trace_of_the_hat(cv, intercept):
    X, Y, w = table()
    common = {"approximation": "exact", "fit_intercept": intercept, "tile_dtype": "float64"}
    model = gm.KernelRidgeCV(ALPHAS, gammas=(0.5, 2.0), cv=cv, **common).fit(X, Y, sample_weight=w)
    found = model.cv_results_["degrees_of_freedom"]
    if cv == 3:
        assert found is None
        return
    assert found.shape == (4, 2)
    for j, gamma in enumerate((0.5, 2.0)):
        K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))
        for i, alpha in enumerate(ALPHAS):
            # Predictions of the unit vectors are the columns of the hat matrix.
            plain = gm.KernelRidge(alpha, gamma=gamma, **common).fit(X, np.eye(150), sample_weight=w)
            assert found[i, j] == pytest.approx(np.trace(plain.predict(X)), rel=1e-6)
    if not intercept:
        root = np.sqrt(w)[:, None]
        weighted = root * K * root.T
        expected = np.trace(weighted @ np.linalg.inv(weighted + ALPHAS[-1] * np.eye(150)))
        assert found[-1, -1] == pytest.approx(expected, rel=1e-7)


def test_folds_may_be_masks():
    X = np.random.default_rng(0).random((60, 2))
    y, early = np.sin(5.0 * X[:, 0]), np.arange(60) < 40
    models = [
        gm.KernelRidgeCV("auto", kernel="rbf", cv=[fold], random_state=0).fit(X, y)
        for fold in ((early, ~early), (np.flatnonzero(early), np.flatnonzero(~early)))
    ]
    assert models[0].best_score_ == models[1].best_score_
    assert models[0].alpha_ == models[1].alpha_


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"cv": [(np.arange(9), np.arange(9, 99))]}, r"row numbers from 0 to 29, or a mask of shape \(30,\)"),
        ({"cv": [([0.5, 1.5], [2.5])]}, "expected row numbers from 0 to 29"),
        ({"cv": GroupKFold(3)}, r"gives no folds.*groups.*cv=list\(splitter.split\(X, y, groups\)\)"),
        ({"scoring": "accuracy"}, "the scorer failed.*Use a scoring for numbers, such as 'r2'"),
        ({"scoring": "roc_auc"}, "the scorer failed.*Use a scoring for numbers"),
        ({"scoring": lambda model, X, y: "good"}, "the scorer failed.*ValueError.*'good'"),
    ],
)
def test_what_gives_no_folds_or_scores(options, text):
    X = np.random.default_rng(0).random((30, 2))
    with pytest.raises(gm.InputError, match=text):
        gm.KernelRidgeCV((0.1, 1.0), kernel="rbf", **options).fit(X, X[:, 0])
