"""Boosting beside the kernel models of tables: what it sees, how it is weighted, and when it is left out."""

from __future__ import annotations

import pickle
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from clock import Clock
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

import gramian as gm
from gramian.data.source import ArraySource
from gramian.engine import Engine, Run
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import ClassTargets, NumberTargets
from gramian.exceptions import AccuracyWarning, InputError
from gramian.fast.probabilities import Calibration
from gramian.tables.boosting.boosted import UNSEEN, count_categories, join_groups
from gramian.tables.effort import EFFORTS
from gramian.tables.holdout import HoldOut
from gramian.tables.ridge_mean import RidgeMean
from gramian.tables.training import boosting
from gramian.tables.training.boosting import COMMON, RATE, SETTINGS, TreeSetting, bin_edges, with_boosting
from gramian.tables.training.fit import LastFit
from gramian.tables.training.gain import look, mean_of
from gramian.tables.training.model_factory import ModelFactory

QUICK = {"kernel": "laplacian", "metric": None, "scaling": "standard", "random_state": 0, "n_jobs": 1}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Few rounds on one thread: threads of several tests that wait for each other are slow."""
    monkeypatch.setattr(boosting, "MOST", 120)
    with threadpool_limits(1):
        yield


@pytest.fixture
def usual(monkeypatch):
    """Only the usual setting in few rounds, and scikit-learn's parameters for it."""
    monkeypatch.setattr(boosting, "_choose_setting", lambda settings, *_: settings[0])
    monkeypatch.setattr(boosting, "FEW", 50)
    own = {"max_leaf_nodes": SETTINGS[0].leaves, "min_samples_leaf": SETTINGS[0].leaf_rows}
    own |= {"categorical_features": [0]}
    return COMMON | own | {"learning_rate": RATE, "warm_start": False}


def hot(n=300, seed=0):
    """Encoded rows: a number, one-hot categories in the middle, a number; and their categories."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, n)  # 3: none
    X = np.zeros((n, 5))
    X[:, [0, 4]] = rng.standard_normal((n, 2))
    seen = codes < 3
    X[np.flatnonzero(seen), 1 + codes[seen]] = 1.0
    return X, codes


GROUPS = ((1, 2, 3),)


def whole(n):
    """Held-out rows of a task: none of them matter where each row is in a fold."""
    return np.arange(n // 5)


def as_trees_see(X, codes, means):
    X = X.copy()
    for column, edges in bin_edges(X).items():  # more values are in 255 bins
        assert len(edges) == 254
        X[:, column] = (X[:, [column]] > edges).sum(axis=1)
    return np.column_stack([(codes + 1) % 4, X[:, [0, 4]], np.append(means, 0.0)[codes]])


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_numbers_are_those_of_boosting_on_joined_groups(weighted, usual):
    X, codes = hot()
    y = X[:, [0]] * (codes == 1)[:, None] + X[:, [4, 0]]
    weights = np.random.default_rng(2).uniform(0.5, 2.0, 300) if weighted else None
    found, _ = learned(given(X, y, weights), False, whole(300))
    rounds = len(found.trees.lengths) // 2
    for j in range(2):
        options = usual | {"max_iter": rounds}
        seed = int(np.random.default_rng(0).integers(2**31))
        alone = HistGradientBoostingRegressor(**options, random_state=seed)
        rows = as_trees_see(X, codes, found.means)
        np.testing.assert_allclose(
            found.predict(X)[:, j], alone.fit(rows, y[:, j], weights).predict(rows), atol=1e-9
        )
    numbers = np.array([5, 2, 250])
    np.testing.assert_allclose(found.predict(ArraySource(X), numbers), found.predict(X)[numbers], atol=1e-12)
    np.testing.assert_array_equal(found.predict(ArraySource(X)), found.predict(X))


def test_bins_are_found_on_no_more_rows_than_memory_holds():
    X, _ = hot(600)
    read = []

    class Source(ArraySource):
        def take(self, numbers):
            read.append(len(numbers))
            return super().take(numbers)

    rows = LabelledRows(Source(X), X[:, :1], None)
    task = boosting._Task.of(rows, GROUPS, False, 0, 300)
    assert read == [300]
    assert sorted(task.edges) == [0, 4]


def test_trees_split_sets_of_categories(usual):
    X, codes = hot(600)
    y = X[:, 0] * (codes == 1) + (codes == 2)
    found, _ = learned(given(X, y), False, whole(600))
    rows, rounds = as_trees_see(X, codes, found.means), len(found.trees.lengths)
    seed = int(np.random.default_rng(0).integers(2**31))
    alone = HistGradientBoostingRegressor(**usual, max_iter=rounds, random_state=seed)
    np.testing.assert_array_equal(found.predict(X)[:, 0], alone.fit(rows, y).predict(rows))
    assert len(found.trees.lefts) > 0
    two = replace(found, groups=((1, 2),), means=np.zeros(2))
    assert count_categories(found.groups) == 1
    assert count_categories(two.groups) == 0
    assert join_groups(X, two.groups, two.means).shape == (600, 4)


@pytest.mark.parametrize("better", [False, True])
def test_another_setting_must_be_clearly_better(better):
    X, _ = hot()
    y = X[:, 0] * X[:, 4] if better else np.random.default_rng(1).standard_normal(300)
    few, many = TreeSetting(leaves=2), TreeSetting(leaves=16)
    task = boosting._Task.of(given(X, y), GROUPS, False, 0, 300)

    losses = [
        boosting._loss(task.learner(np.arange(200), setting, 0.1), np.arange(200, 300), 100)
        for setting in (few, many)
    ]
    assert boosting._choose_setting((few, many), losses, None) == (many if better else few)


@pytest.mark.slow
def test_the_code_of_a_category_is_its_mean(usual):
    X, codes = hot(600)
    y = np.array([3.0, -1.0, 1.0, 0.0])[codes]
    found, _ = learned(given(X, y), False, whole(600))
    order = np.argsort(found.means)
    assert order.tolist() in ([1, 2, 0], [0, 2, 1])
    assert join_groups(np.zeros((1, 5)), GROUPS, found.means)[0].tolist() == [0.0] * 4


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_have_log_odds_and_unseen_ones_little(n_classes, usual):
    X, codes = hot()
    y = (X[:, 0] + (codes == 1) > 0).astype(int)
    found = replace(learned(given(X, y), True, whole(300))[0], n_classes=n_classes)
    options = usual | {"max_iter": len(found.trees.lengths)}
    seed = int(np.random.default_rng(0).integers(2**31))
    rows = as_trees_see(X, codes, found.means)
    alone = HistGradientBoostingClassifier(**options, random_state=seed).fit(rows, y)
    p = np.clip(alone.predict_proba(rows), UNSEEN, 1.0 - UNSEEN)
    if n_classes == 2:
        np.testing.assert_allclose(found.predict(X)[:, 0], np.log(p[:, 1]) - np.log(p[:, 0]), atol=1e-9)
    else:
        np.testing.assert_allclose(
            found.predict(X), np.log(np.column_stack([p, np.full(300, UNSEEN)])), atol=1e-9
        )


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param("one row each", marks=pytest.mark.slow),
        pytest.param("two rows each", marks=pytest.mark.slow),
        "one class",
    ],
)
def test_rare_classes(labels):
    X, _ = hot(60)
    y = (X[:, 0] > 0).astype(int)
    if labels == "one row each":
        y[:3] = 2, 3, 4
    elif labels == "two rows each":
        y = np.repeat(np.arange(30), 2)
    else:
        y[:] = 0
    found, values = learned(given(X, y), True, whole(60))
    n_classes = len(np.unique(y))
    assert found.predict(X).shape == values.shape == (60, 1 if n_classes == 2 else n_classes)
    assert np.isfinite(found.predict(X)).all()
    assert np.isfinite(values).all()


@pytest.mark.slow
def test_rounds_are_as_many_as_held_out_rows_like():
    X, _ = hot()
    rng = np.random.default_rng(3)
    noise, smooth = rng.standard_normal(300), np.sin(3.0 * X[:, 0]) + X[:, 4]
    few, _ = learned(given(X, noise), False, whole(300))
    many, _ = learned(given(X, smooth), False, whole(300))
    assert len(few.trees.lengths) < 20 < len(many.trees.lengths)


def test_a_classifier_of_rare_classes_may_include_it():
    X, y = steps(120)
    labels = np.where(y > 0.5, "above", "below").astype(object)
    labels[:3] = "first", "second", "second"
    model = gm.TabularClassifier(include=("boosting",), **QUICK).fit(X, labels)
    assert model.predict_proba(X[:5]).shape == (5, 4)


def given(X, y, weights=None):
    return LabelledRows(ArraySource(X), y, weights)


def boosted_fit(rows, groups, classes, held, holdout, resources, deadline, rng):
    if classes:  # one more, as a single one is refused
        names, codes = np.unique(rows.targets, return_inverse=True)
        targets = ClassTargets(codes, rows.n, np.arange(len(names) + 1))
    else:
        targets = NumberTargets(rows.targets, rows.n)
    factory = ModelFactory(replace(rows, targets=targets), None, resources, 0, holdout)
    return with_boosting(factory, groups, held, deadline, rng)


def learned(rows, classes, held, holdout=None, deadline=np.inf, memory=10**9):
    rng = np.random.default_rng(0)
    resources = Run(memory, Engine(1))
    found = boosted_fit(rows, GROUPS, classes, held, holdout or HoldOut(), resources, deadline, rng)
    return None if found is None else found[:2]


def test_values_are_of_models_without_the_row():
    X, _ = hot()
    y = np.random.default_rng(1).standard_normal(300)  # nothing to learn
    boosted, values = learned(given(X, y), False, np.arange(60))
    assert np.isfinite(values).all()
    assert np.mean((boosted.predict(X)[:, 0] - y) ** 2) < np.mean((values[:, 0] - y) ** 2)
    assert np.mean((values[:, 0] - y) ** 2) > 0.9 * y.var()


@pytest.mark.slow
def test_times_and_weights_and_too_little_time_or_memory():
    X, _ = hot()
    y = np.where(X[:, 0] > 0, "b", "a")
    holdout = HoldOut(times=np.arange(300.0))
    _, values = learned(given(X, y), True, np.arange(240, 300), holdout)
    np.testing.assert_array_equal(np.isnan(values[:, 0]), np.arange(300) < 240)
    weights = np.ones(300)
    weights[::3] = 0.0
    _, values = learned(given(X, y, weights), True, np.arange(1, 60, 3))
    np.testing.assert_array_equal(np.isnan(values[:, 0]), weights == 0)
    assert learned(given(X, y), True, np.arange(60), deadline=0.0) is None
    few, _ = learned(given(X, X[:, 0]), False, np.arange(60), memory=32 * 5 * 50)
    assert np.isfinite(few.predict(X)).all()


def last(values, boosted_values):
    held = np.arange(len(values))
    return LastFit((), (), held, values, "", (None, boosted_values, None))


def least_squares_share(a, b):
    """The share s of least mean of ((1 − s) a + s b)², within 0 and 1."""
    return np.clip(np.mean(a * (a - b)) / np.mean((a - b) ** 2), 0.0, 1.0)


def test_the_share_of_numbers_is_the_best_on_held_out_rows_shrunk_to_a_half():
    rng = np.random.default_rng(0)
    y, ours, trees = (rng.standard_normal((500, 1)) for _ in range(3))

    def loss(values, held):
        return float(np.mean((values - y[held]) ** 2))

    fit = LastFit((), (), np.arange(500), y + ours, "")
    found = replace(fit, boosting=("trees", y + 2.0 * trees, None)).mixed(loss)
    a, b = ours[:, 0], 2.0 * trees[:, 0]
    parts = np.array_split(np.arange(500), 20)
    left = [least_squares_share(np.delete(a, part), np.delete(b, part)) for part in parts]
    error = np.sqrt(19 * np.var(left))
    trust = 1.0 / error**2 / (1.0 / error**2 + 1.0 / 0.25**2)
    best = least_squares_share(a, b)
    assert found.share == pytest.approx(trust * best + (1.0 - trust) * 0.5, abs=1e-3)
    np.testing.assert_allclose(found.values, y + (1 - found.share) * ours + found.share * 2.0 * trees)
    parts = found.contributions
    assert parts.kernel == pytest.approx(np.mean(a**2))
    assert parts.boosting == pytest.approx(np.mean(b**2))
    assert parts.both == pytest.approx(np.mean(((1 - found.share) * a + found.share * b) ** 2))
    assert parts.kept
    other = replace(fit, boosting=("trees", 100.0 * trees, None)).mixed(loss)
    assert other.boosting is None
    assert not other.contributions.kept
    np.testing.assert_array_equal(other.values, fit.values)


def test_models_that_few_rows_do_not_tell_apart_have_near_equal_shares():
    rng = np.random.default_rng(1)
    y = rng.standard_normal((20, 1))
    # The second is right on one row with a great target, and worse on the others.
    y[0], ours, trees = 30.0, y + 1.0, y + 1.5
    ours[0], trees[0] = 20.0, 30.0

    def loss(values, held):
        return float(np.mean((values - y[held]) ** 2))

    assert least_squares_share((ours - y)[:, 0], (trees - y)[:, 0]) > 0.8
    assert 0.4 < mean_of(ours, trees, np.arange(20), loss)[0] < 0.65
    many, number = np.arange(20_000) % 20, np.arange(20_000)

    def loss_of_many(values, held):
        return float(np.mean((values - y[many][held]) ** 2))

    assert mean_of(ours[many], trees[many], number, loss_of_many)[0] > 0.8
    assert mean_of(ours[:1], trees[:1], np.arange(1), loss)[0] == 0.5


def test_kernel_models_that_hardly_lower_the_loss_are_not_asked():
    rng = np.random.default_rng(0)
    y, trees, ours = (rng.standard_normal((500, 1)) for _ in range(3))

    def loss(values, held):
        return float(np.mean((values - y[held]) ** 2))

    fit = LastFit((), (), np.arange(500), y + trees + 30.0 * ours, "")
    found = replace(fit, boosting=("trees", y + trees, None)).mixed(loss)
    assert found.share == 1.0
    assert found.contributions.kept
    assert found.contributions.boosting_alone
    np.testing.assert_array_equal(found.values, y + trees)
    assert found.judged(None, loss, True).members == []

    class Refusing:
        n_features_in_, n_jobs = 2, 1

        def _decision(self, X):
            raise AssertionError

    class Trees:
        def predict(self, X, engine):
            return X[:, :1]

    X = rng.standard_normal((5, 2))
    np.testing.assert_array_equal(
        RidgeMean.of([Refusing()], [1.0], boosted=Trees(), share=1.0).predict(X), X[:, 0]
    )
    calibration = Calibration(0.0, boosting=1.0)
    mean = RidgeMean.of([Refusing()], [1.0], np.array(["a", "b"]), calibration, Trees())
    np.testing.assert_array_equal(mean.decision_function(X), X[:, 0])
    assert calibration.boosting_alone
    assert not Calibration().boosting_alone


def test_a_term_of_boosting_in_the_log_odds():
    rng = np.random.default_rng(0)
    h, v = rng.standard_normal((2, 4000, 1))
    codes = (rng.random(4000) < 1 / (1 + np.exp(-(2.0 * v + 0.7 * h)[:, 0]))).astype(int)
    found = Calibration.of_labels(v, codes, None, None, h)
    assert found.logistic == 0.0
    assert found.boosting == pytest.approx(0.7, abs=0.1)
    expected = found.slope * v + found.boosting * h
    expected += found.bend * (found.log_odds(v) - found.slope * v) / (found.bend or 1.0)
    np.testing.assert_allclose(found.log_odds(v, None, h), expected, atol=1e-9)


def steps(n=600, seed=0):
    """A target with steps in an interaction of columns, which trees find."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 6))
    town = rng.choice(["Bath", "Hull"], n)
    y = np.where((X[:, 0] > 0.37) & (X[:, 1] > 0.61), 2.0, 0.0) + np.where(town == "Hull", X[:, 2] > 0.45, 0)
    table = np.empty((n, 7), object)
    table[:, :6], table[:, 6] = X, town
    return table, y + 0.1 * rng.standard_normal(n)


@pytest.mark.slow
def test_it_helps_where_a_target_has_steps(tmp_path):
    X, y = steps()
    alone = gm.TabularRegressor(include=(), **QUICK).fit(X[:400], y[:400])
    both = gm.TabularRegressor(**QUICK).fit(X[:400], y[:400])
    assert both.score(X[400:], y[400:]) > alone.score(X[400:], y[400:]) + 0.02
    assert 0.3 < both.model_.share_ <= 1.0
    inside = both.predict_interval(X[400:], coverage=0.8)
    assert 0.7 < np.mean((inside[:, 0] <= y[400:]) & (y[400:] <= inside[:, 1])) < 0.9
    again = pickle.loads(pickle.dumps(both))
    np.testing.assert_array_equal(again.predict(X), both.predict(X))
    assert "boosting kept" in str(both.summary())
    assert both.contributions_.both < both.contributions_.kernel
    assert alone.contributions_ is None
    gm.save(both, tmp_path / "model.gramian")
    loaded = gm.load(tmp_path / "model.gramian")
    np.testing.assert_array_equal(loaded.predict(X), both.predict(X))
    np.testing.assert_array_equal(loaded.predict_interval(X), both.predict_interval(X))
    fast = both.compress(X, cost="50x", n_levels=1, n_units=4, n_directions=2)
    assert np.isfinite(fast.predict(X)).all()


@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_probabilities_with_boosting(n_classes, tmp_path):
    X, y = steps(900)
    labels = np.digitize(y, [0.5, 1.5] if n_classes == 3 else [0.5])
    alone = gm.TabularClassifier(include=[], **QUICK).fit(X[:500], labels[:500])
    both = gm.TabularClassifier(**QUICK).fit(X[:500], labels[:500])
    losses = [log_loss(labels[500:], model.predict_proba(X[500:])) for model in (alone, both)]
    assert losses[1] < 0.97 * losses[0]
    assert both.calibration_.boosting > 0.0
    parts = both.contributions_
    own = np.log(both.oof_predictions_[np.arange(500), labels[both.oof_rows_]])
    assert parts.both == pytest.approx(-own.mean())
    assert parts.kernel - parts.both > parts.error > 0.0
    assert "held-out log-loss: kernel models" in " ".join(str(both.summary()).split())
    assert len(both.scores_) == 500
    gm.save(both, tmp_path / "model.gramian")
    loaded = gm.load(tmp_path / "model.gramian")
    np.testing.assert_array_equal(loaded.predict_proba(X), both.predict_proba(X))
    assert loaded.contributions_ == parts


@pytest.mark.slow
def test_logistic_models_may_have_no_weight_beside_boosting():
    X, y = steps(300)
    model = gm.TabularClassifier(include=("boosting",), **QUICK).fit(X, y > 0.5).model_
    rows = np.zeros((3, model.n_features_in_))
    assert model.members_[0]._decision(rows).shape == (3, 2)  # log odds of the logistic model besides
    without = replace(model.calibration_, logistic=0.0)
    other = RidgeMean.of(model.members_, model.weights_, model.classes_, without, model.boosted_)
    one = float(model.members_[0]._decision(rows[:1])[0, 0])
    chances = np.clip(0.5 * (1.0 + one), 3e-3, 1.0 - 3e-3)
    found = other.calibration_
    expected = found.slope * one + found.bend * np.log(chances / (1.0 - chances))
    expected += found.boosting * model.boosted_.predict(rows)[0, 0]
    assert other.values(rows)[0, 0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_it_joins_unless_the_user_says_otherwise():
    X, y = steps(250)
    for effort in EFFORTS:
        model = gm.TabularRegressor(effort=effort, **QUICK).fit(X, y)
        assert hasattr(model.model_, "boosted_")
    model = gm.TabularRegressor(effort="best", include=(), **QUICK).fit(X, y)
    assert not hasattr(model.model_, "boosted_")
    few = gm.TabularRegressor(include=("boosting",), **QUICK).fit(X[:150], y[:150])
    assert not hasattr(few.model_, "boosted_")


def test_an_instant_fit_compares_no_kernels_scalings_and_trees(monkeypatch):
    X, y = steps(600)
    monkeypatch.setattr(boosting, "_choose_setting", None)  # not asked
    model = gm.TabularRegressor(effort="instant", random_state=0, n_jobs=1).fit(X[:400], y[:400])
    tried = {(each.setting.kernel, each.setting.scaling, each.metric) for each in model.search_.trials}
    assert tried == {("laplacian", "auto", None)}
    assert len(model.oof_rows_) == 80
    assert hasattr(model.model_, "boosted_")
    assert model.score(X[400:], y[400:]) > 0.75
    labels = (y > 0.5).astype(int)
    other = gm.TabularClassifier(
        effort="instant", kernel="gaussian", metric="diagonal", random_state=0, n_jobs=1
    )
    trials = other.fit(X[:400], labels[:400]).search_.trials
    assert {each.setting.kernel for each in trials} == {"gaussian"}  # what the user names is done
    assert other.score(X[400:], labels[400:]) > 0.85


def test_of_many_rows_only_the_held_out_ones_are_left_out(monkeypatch):
    monkeypatch.setattr("gramian.tables.training.boosting.MOST_FOLDED", 250)
    X, _ = hot()
    _, values = learned(given(X, X[:, 0]), False, np.arange(60))
    np.testing.assert_array_equal(np.isnan(values[:, 0]), np.arange(300) >= 60)


@pytest.mark.parametrize(("rows_a_thread", "threads"), [(1000, 1), (100, 3)])
def test_threads_suit_the_rows(monkeypatch, rows_a_thread, threads):
    asked = []
    monkeypatch.setattr(boosting, "THREAD_ROWS", rows_a_thread)
    monkeypatch.setattr(boosting, "threadpool_limits", lambda n, user_api: asked.append(n) or nullcontext())
    monkeypatch.setattr(boosting, "MOST", 2)
    X, _ = hot()
    resources = Run(10**9, Engine(4))
    rng = np.random.default_rng(0)
    boosted_fit(given(X, X[:, 0]), (), False, whole(300), HoldOut(), resources, np.inf, rng)
    assert asked == [threads]


def test_left_out_where_the_time_is_short(monkeypatch):
    X, y = steps(400)
    clock = Clock(monkeypatch)
    clock.moved_by(boosting._Learner, "grow", lambda *_: 0.1)
    with pytest.warns(AccuracyWarning, match="boosting was left out"):
        model = gm.TabularRegressor(include=("boosting",), time_limit=0.3, **QUICK).fit(X, y)
    assert not hasattr(model.model_, "boosted_")


def test_many_columns_are_timed_on_a_part_of_them(monkeypatch):
    rng, grown = np.random.default_rng(0), []
    X = rng.standard_normal((250, 400))
    clock = Clock(monkeypatch)

    def seconds(learner, rounds):
        grown.append((learner.X.shape[1], rounds))
        return 1e-4 * learner.X.shape[1] * rounds

    clock.moved_by(boosting._Learner, "grow", seconds)
    rows, fold = given(X, X[:, 0]), np.arange(50)
    resources = Run(10**9, Engine(1))
    # 100 rounds of all columns take 4 s in each of five folds and of all rows; a fifth of 20 s is less.
    assert boosted_fit(rows, (), False, fold, HoldOut(), resources, 20.0 + clock.now, rng) is None
    assert grown == [(100, 1), (100, 4)]


def test_boosting_is_late_only_if_the_rounds_that_are_left_take_too_long(monkeypatch):
    rng, grown = np.random.default_rng(0), {}
    X = rng.standard_normal((400, 3))
    clock = Clock(monkeypatch)

    def seconds(learner, rounds):
        model = learner.models[0]
        before = grown.get(model, 0)
        grown[model] = max(rounds, before)
        return 0.01 * (grown[model] - before)

    clock.moved_by(boosting._Learner, "grow", seconds)
    resources = Run(10**9, Engine(1))

    def tried(limit):
        ends = limit + clock.now
        rows = given(X, np.sin(3 * X[:, 0]) + X[:, 1])
        return boosted_fit(rows, (), False, np.arange(80), HoldOut(), resources, ends, rng)

    # 165 rounds of five folds and of all rows take 10 s, and settings 4 s: a fifth of 75 s holds them.
    assert tried(75.0) is not None
    assert tried(5.0) is None


@pytest.mark.parametrize("include", ["boosting", ("forest",), 3, ("boosting", "trees"), None])
def test_what_else_is_refused(include):
    X, y = steps(50)
    with pytest.raises(InputError, match=r"must be 'auto', \('boosting',\), or \(\) for kernel models alone"):
        gm.TabularRegressor(include=include).fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("n", [500, 3200])
def test_predictions_of_rows_by_models_without_them(n):
    X, y = steps(n)
    weights = np.ones(n)
    weights[:10] = 0.0
    model = gm.TabularRegressor(**QUICK).fit(X, y, weights)
    rows, found = model.oof_rows_, model.oof_predictions_
    assert found.shape == rows.shape
    assert set(rows) <= set(range(10, n))
    assert len(rows) == (490 if n == 500 else 638)
    # As far off as on new rows, and further than what the last model says of rows that it knows.
    new_X, new_y = steps(1000, seed=5)
    new = np.mean((model.predict(new_X) - new_y) ** 2)
    assert 0.6 * new < np.mean((found - y[rows]) ** 2) < 1.7 * new
    assert np.mean((model.predict(X[rows]) - y[rows]) ** 2) < np.mean((found - y[rows]) ** 2)
    labels = np.where(y > 0.5, "above", "below")
    classifier = gm.TabularClassifier(**QUICK).fit(X, labels, weights)
    chances, own = classifier.oof_predictions_, labels[classifier.oof_rows_] == classifier.classes_[1]
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_allclose(
        np.sort(1.0 - chances[np.arange(len(own)), own.astype(int)]), classifier.scores_
    )


def test_models_are_looked_at_by_what_they_add_to_those_before_them():
    rng = np.random.default_rng(0)
    y, held = rng.standard_normal(400), np.arange(400)

    def loss(values, rows):
        return float(np.mean((values[:, 0] - y[rows]) ** 2))

    good, noise = (y + 0.5 * rng.standard_normal(400))[:, None], rng.standard_normal((400, 1))
    others = 0.8 * (y + 0.5 * rng.standard_normal(400))[:, None]  # no multiple of it is better
    gains = look(others, [noise, good, good], held, loss)
    assert [helps for *_, helps in gains] == [False, True, False]
    share = np.linspace(0.0, 1.0, 10_001)
    least = min(loss((1.0 - s) * others + s * good, held) for s in share)
    assert gains[1][0] == pytest.approx(loss(others, held) - least, abs=1e-6)
