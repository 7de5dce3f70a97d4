"""Law: what a fit chooses from rows that are there five times is that of each row once, of weight 5."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold

import gramian as gm
from gramian.data.source import as_source
from gramian.estimator.labelled import labelled_numbers
from gramian.estimator.repeats import find_repeats, without_copies

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.5 * RNG.normal(size=60)
FIVE = RNG.permutation(np.repeat(np.arange(60), 5))
TOLD = "240 of 300 rows repeat one of the 60 others"
MODELS = {
    "alpha": gm.KernelRidge("auto", random_state=0),
    "kernel": gm.KernelRidge(0.1, kernel="auto", random_state=0),
    "metric": gm.KernelRidge("auto", metric="diagonal", random_state=0),
    "classifier": gm.KernelRidgeClassifier("auto", random_state=0),
    "leave-one-out": gm.KernelRidgeCV(random_state=0),
    "scorer": gm.KernelRidgeCV(scoring="r2", kernel="rbf", random_state=0),
    "folds": gm.KernelRidgeCV([0.1, 1.0], gammas=[0.03, 0.3, 3.0], cv=3, random_state=0),
    "scorer of folds": gm.KernelRidgeCV([0.1, 1.0], gamma=0.3, scoring="r2", cv=3, random_state=0),
    "gcv": gm.KernelRidgeCV([0.03, 0.3, 3.0], gamma=0.3, cv="gcv", random_state=0),
    "logistic": gm.KernelLogisticRegression("auto", random_state=0),
    "SVC": gm.KernelSVC("auto", random_state=0),
    "SVC probability": gm.KernelSVC(probability=True, random_state=0),
    "SVR": gm.KernelSVR("auto", random_state=0),
    "process": gm.GaussianProcessRegressor(random_state=0),
}


def told(model, *args, **kwargs):
    with pytest.warns(gm.exceptions.AccuracyWarning, match=TOLD):
        return clone(model).fit(*args, **kwargs)


@pytest.mark.filterwarnings("ignore:the best alpha")
@pytest.mark.parametrize("name", MODELS)
def test_copies_choose_what_rows_of_their_weight_choose(name):
    # In the same order as the first of the copies, in which rows are drawn to be held out.
    once = FIVE[np.sort(np.unique(FIVE, return_index=True)[1])]
    model = MODELS[name]
    y = Y > 0 if is_classifier(model) else Y
    found = told(model, X[FIVE], y[FIVE])
    want = clone(model).fit(X[once], y[once], sample_weight=np.full(60, 5.0))
    for answer in ("decision_function", "predict_proba", "predict"):
        if hasattr(want, answer):
            np.testing.assert_allclose(getattr(found, answer)(X), getattr(want, answer)(X), atol=1e-6)
    for chosen in ("alpha_", "C_", "best_score_", "noise_"):
        if hasattr(want, chosen):
            assert getattr(found, chosen) == pytest.approx(getattr(want, chosen), rel=1e-6)
    if name == "process":
        assert (np.diff(found.predict_interval(X)) > 0.1).all()


def test_a_given_alpha_takes_rows_as_they_are():
    twice = gm.KernelRidge(0.1).fit(X[FIVE], Y[FIVE])  # says nothing: nothing is held out
    np.testing.assert_allclose(twice.predict(X), gm.KernelRidge(0.02).fit(X, Y).predict(X), atol=1e-6)
    folds = list(KFold(5).split(X[FIVE]))
    model = gm.KernelRidgeCV([0.1], gamma=0.3, cv=folds, random_state=0).fit(
        X[FIVE], Y[FIVE]
    )  # rule themselves
    assert model.cv_results_["scores"].shape == (1, 1)


def test_repeated_measurements_are_left_out_together():
    # Five measurements of each row. The score is that of one new measurement at a new row.
    many = Y[FIVE] + 0.3 * RNG.normal(size=300)
    asked = gm.KernelRidgeCV([0.1, 1.0], gamma=0.3, store_cv_results=True, random_state=0)
    model = told(asked, X[FIVE], many)
    residuals, K = np.empty(300), rbf_kernel(X, gamma=0.3)[np.ix_(FIVE, FIVE)]
    for row in range(60):
        out, known = np.flatnonzero(row == FIVE), np.flatnonzero(row != FIVE)
        left = np.linalg.solve(K[np.ix_(known, known)] + model.alpha_ * np.eye(295), many[known])
        residuals[out] = many[out] - K[np.ix_(out, known)] @ left
    np.testing.assert_allclose(model.loo_residuals_, residuals, rtol=1e-5, atol=1e-5)
    assert -model.best_score_ == pytest.approx(np.mean(np.square(residuals)), rel=1e-5)


def test_copies_of_wide_sparse_rows_are_found():
    words = sp.random_array((60, 9_000), density=5e-3, rng=np.random.default_rng(1), format="csr")
    asked = gm.KernelRidge("auto", kernel="linear", random_state=0)
    found = told(asked, words[FIVE], Y[FIVE])
    once = FIVE[np.sort(np.unique(FIVE, return_index=True)[1])]
    want = clone(asked).fit(words[once], Y[once])
    assert found.alpha_ == pytest.approx(want.alpha_)


def test_rows_that_no_budget_holds_are_not_looked_at():
    rows = labelled_numbers(as_source(X[FIVE]), Y[FIVE])
    assert without_copies(rows, 64 * 300 - 1) == (rows, None)
    with pytest.warns(gm.exceptions.AccuracyWarning, match=TOLD):
        assert without_copies(rows, 64 * 300)[0].n == 60


# ---- copies are told from rows of few values --------------------------------------------------------

DRAW = np.random.default_rng(0)
FREE = DRAW.normal(size=(300, 3))
LEVELS = DRAW.integers(1, 11, (300, 1)).astype(float)
GRID = np.tile(np.stack(np.meshgrid(*[range(3)] * 4), -1).reshape(-1, 4), (4, 1)).astype(float)
TWICE = DRAW.permutation(np.tile(np.arange(300), 2))
PEOPLE = np.c_[DRAW.integers(0, 2, 900), DRAW.integers(1, 80, 900), DRAW.poisson(0.5, (900, 2))].astype(float)


def n_groups(X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = find_repeats(as_source(X), np.asarray(y))
    return None if found is None else (found.groups.max() + 1, found.copies.max() + 1)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (FREE, FREE[:, 0]),
        (np.round(FREE, 1), FREE[:, 0] > 0),
        (LEVELS, DRAW.normal(size=300)),
        (LEVELS, DRAW.random(300) < 0.3),
        (LEVELS, LEVELS > 5),
        (GRID, DRAW.normal(size=len(GRID))),
        (GRID, GRID.sum(axis=1) > 4),
        (PEOPLE, DRAW.random(900) < 0.4),
        (PEOPLE[:, 1:2], DRAW.random(900) < 0.05),
        ((DRAW.random((500, 100)) < 0.01).astype(float), DRAW.random(500) < 0.5),
        (np.zeros((40, 2)), np.zeros(40)),
    ],
)
def test_rows_of_few_values_are_measurements_of_their_own(X, y):
    assert n_groups(X, y) is None


def test_a_target_is_no_feature():
    a, b = DRAW.normal(size=(2, 200))
    X, y = np.tile(np.r_[a, b], 2)[:, None], np.tile(np.r_[b, a], 2)
    assert n_groups(X, y) == (400, 400)  # (a, b) is another row than (b, a)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (FREE, FREE[:, 0]),
        (FREE, FREE[:, 0] > 0),
        (FREE[:, :1], FREE[:, 0] > 0),
        (np.round(FREE, 1), FREE[:, 0] > 0.2),
        (LEVELS, DRAW.normal(size=300)),
        (np.c_[FREE, np.full(300, np.nan)], FREE[:, 0]),
    ],
)
def test_copies_are_found(X, y):
    assert n_groups(X[TWICE], y[TWICE]) == (300, 300)


def test_it_makes_no_difference_what_holds_the_rows():
    X = (FREE * (DRAW.random(FREE.shape) < 0.7))[TWICE]
    y = np.c_[FREE[:, 0], FREE[:, 1]][TWICE]
    with pytest.warns(UserWarning, match="300 of 600 rows repeat one of the 300 others"):
        dense = find_repeats(as_source(X), y)
    with pytest.warns(UserWarning, match="300 of 600 rows"):
        thin = find_repeats(as_source(sp.csr_array(X)), y)
    assert dense is not None
    assert thin is not None
    np.testing.assert_array_equal(dense.copies, thin.copies)
    first, weights = dense.merged(None)
    assert first.tolist() == sorted(np.unique(TWICE, return_index=True)[1].tolist())
    assert (weights == 2).all()
