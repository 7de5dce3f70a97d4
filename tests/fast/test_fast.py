"""Fast models: the batched predictor against loops, the fit against finite differences, the budget."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from fast_models import units_at, values_at
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR, NuSVC, NuSVR
from sklearn.utils.estimator_checks import parametrize_with_checks

import gramian as gm
import gramian.fast.fit as fast_fit
from gramian.engine import Engine
from gramian.exceptions import BudgetError, InputError
from gramian.fast.base import FastKernelModel
from gramian.fast.cost import dummy, parse_cost
from gramian.fast.learning.distill import Shape
from gramian.fast.learning.leaves import Limit, first_units, learn_units, scale_limits
from gramian.fast.learning.loss import LeafRows, Tile, gradients, settle
from gramian.fast.learning.metric import gradient_outer_product, metric_directions
from gramian.fast.learning.training_set import Pool, TrainingSet
from gramian.fast.search import ShapeTrainer, linear_student, search_shapes, worth_trying
from gramian.fast.serving.router import LeafTiles, fit_router
from gramian.fast.teachers import libsvm_values
from gramian.search import search

SMALL = {"n_levels": 1, "n_units": 4, "n_directions": 2, "random_state": 0}


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(700, 3))


def test_tiles_hold_each_row_once_beside_rows_of_its_leaf():
    labels = np.random.default_rng(1).integers(7, size=500)
    labels[labels == 3] = 2  # an empty leaf
    tiles = LeafTiles.of(labels, 7)
    values = np.arange(500.0)[:, None]
    spread = tiles.spread(values.T)
    assert spread.shape == (1, len(tiles.leaves), tiles.height)
    np.testing.assert_array_equal(tiles.gather(spread.reshape(-1, 1)), values)
    np.testing.assert_array_equal(labels[tiles.rows[tiles.places]], labels)
    np.testing.assert_array_equal(np.repeat(tiles.leaves, tiles.height)[tiles.places], labels)


@pytest.mark.parametrize("levels", [0, 1, 3, 4, 6])
def test_router_walks_the_tree_and_halves_the_rows(rows, levels):
    router = fit_router(rows, levels, np.random.default_rng(2))
    points = np.column_stack([rows, np.ones(len(rows))])
    found = router.route(points)
    for i in range(0, len(rows), 37):
        leaf = 0
        assert router.leaf(points[i]) == found[i]
        for planes, depth in zip(router.stages, router.levels):
            node = 0
            for _ in range(depth):
                node = 2 * node + 1 + (points[i] @ planes[leaf, node] > 0)
            leaf = leaf * 2**depth + node - (2**depth - 1)
        assert found[i] == leaf
    counts = np.bincount(found, minlength=2**levels)
    assert counts.max() - counts.min() <= levels + 1
    in_float32 = router.astype(np.dtype(np.float32)).route(points.astype(np.float32))
    np.testing.assert_array_equal(in_float32, found)


def test_router_of_equal_rows_sends_them_one_way():
    router = fit_router(np.ones((50, 2)), 3, np.random.default_rng(0))
    assert len(np.unique(router.route(np.ones((50, 3))))) == 1


@pytest.mark.parametrize(
    "shape", [Shape(0, 5, 3), Shape(2, 4, 2), Shape(5, 3, 2), Shape(3, 0, 2), Shape(0, 0, 3)]
)
@pytest.mark.parametrize("outputs", [1, 3])
def test_predictor_equals_its_formula(rows, shape, outputs):
    rng = np.random.default_rng(3)
    p = dummy(shape, 3, outputs, rng).astype(np.dtype(np.float64))
    z = rows @ p.projection - p.offset
    labels = p.router.route(np.column_stack([z, np.ones(len(z))]))
    expected = np.empty((len(rows), outputs))
    for i, leaf in enumerate(labels):
        point = np.concatenate([z[i], [1.0], z[i] ** 2])
        expected[i] = p.weights[leaf] @ (1.0 / np.maximum(1.0, p.denominators[leaf] @ point))
        expected[i] += p.linear[leaf] @ point
    np.testing.assert_allclose(p(rows), expected, atol=1e-10)
    np.testing.assert_allclose(np.concatenate([p(row[None]) for row in rows[:50]]), expected[:50], atol=1e-10)
    np.testing.assert_allclose(p.astype(np.dtype(np.float32))(rows, Engine(2)), expected, atol=1e-3)
    assert p.astype(np.dtype(np.float16)).nbytes < 0.3 * p.nbytes


def test_units_find_the_units_that_made_the_values(rows):
    rng = np.random.default_rng(1)
    centers, scales = rng.normal(size=(3, 3)), np.log([[0.8, 1.0, 1.2], [1.0] * 3, [0.9] * 3])
    values = units_at(rows, centers, scales) @ rng.normal(size=(3, 4)) + rows @ rng.normal(size=(3, 4))
    own = TrainingSet(rows, values, np.ones(700))
    leaf = LeafRows.of(own)
    start = first_units(own, 3, np.random.default_rng(0))
    Q, (found,) = learn_units([start], [leaf], Limit(300), np.eye(3))
    z = rows @ Q
    assert np.abs(values_at(z, found) - values).max() < 1e-2
    points = np.column_stack([z, np.ones(700), np.square(z)])
    np.testing.assert_allclose(
        1.0 / (points @ found.denominators.T), units_at(z, found.centers, found.log_scales), atol=1e-12
    )


def test_clipped_targets_are_met_from_beyond():
    values = np.array([[1.0], [-1.0], [0.5]])
    tile = Tile(np.zeros((1, 3)), values.T, np.ones(3), -1.0, 1.0)
    np.testing.assert_array_equal(tile.targets(np.array([[3.0, -2.0, 3.0]])), [[3.0, -2.0, 0.5]])
    np.testing.assert_array_equal(tile.targets(np.zeros((1, 3))), values.T)


def test_metric_sees_the_directions_of_the_teacher(rows):
    a = np.array([1.0, -2.0, 0.0])
    M = gradient_outer_product(lambda X: np.sin(X @ a)[:, None], rows, np.ones(3), np.random.default_rng(0))
    P = metric_directions(M, np.ones(3), 3)
    assert P.shape == (3, 1)
    np.testing.assert_allclose(np.abs(P[:, 0]), np.abs(a) / np.linalg.norm(a), atol=5e-3)
    constant = metric_directions(np.zeros((3, 3)), np.ones(3), 2)
    assert constant.shape == (3, 2)


def trainer_of(training_set, held, M):
    d = training_set.rows.shape[1]
    pool = Pool(training_set, np.zeros(d), np.ones(d), np.eye(d), np.random.default_rng(0))
    return ShapeTrainer(M, {"teacher": pool}, {"teacher": held}, held, 0)


@pytest.mark.slow
def test_copies_are_labelled_by_the_teacher(rows):
    def teacher(X):
        return np.sin(2 * X[:, :1]) * X[:, 1:2]

    errors = []
    for at in (0, 80, 160):
        some, fresh = rows[at : at + 80], rows[240:]
        held = TrainingSet(fresh, teacher(fresh), np.ones(len(fresh)))
        training_set = TrainingSet(some, teacher(some), np.ones(80), teacher)
        trainers = [
            trainer_of(one, held, np.eye(3)) for one in (training_set, replace(training_set, teacher=None))
        ]
        errors.append([trainer.fit(Shape(0, 8, 3)).loss for trainer in trainers])
    taught, alone = np.sum(errors, axis=0)
    assert taught < 0.8 * alone


@pytest.mark.slow
def test_many_classes_and_a_budget(rows, monkeypatch):
    # Ten operations a nanosecond, whatever the machine and its load.
    monkeypatch.setattr(
        FastKernelModel, "_nanoseconds", lambda model, d, K, centers, shape: 0.1 * shape.operations(d, K)
    )
    monkeypatch.setattr(fast_fit, "product_nanoseconds", lambda d, K, n: 0.2 * d * K)
    sums = rows[:, 0] + np.sin(2.0 * rows[:, 1])
    y = np.digitize(sums, [-1.0, 0.0, 1.0])
    svc = SVC(gamma=0.5, C=10).fit(rows[:500], y[:500])
    fast = gm.compress(svc, rows[:500], y[:500], cost="60ns", random_state=0)
    assert fast.score(rows[500:], y[500:]) > svc.score(rows[500:], y[500:]) - 0.05
    assert (fast.predict(rows[:500]) == svc.predict(rows[:500])).mean() > 0.93
    assert fast.cost_.operations > 0
    assert fast.predict_one(rows[0]) == fast.predict(rows[:1])[0]
    with pytest.raises(BudgetError, match="below a linear model's"):
        clone(fast).set_params(cost="0.001ns").fit(rows, y)


def test_compress_without_rows_takes_those_of_the_model(rows):
    y = np.sin(rows[:, 0]) + rows[:, 1]
    teacher = KernelRidge(kernel="rbf", gamma=0.3, alpha=1e-3).fit(rows, y)
    fast = gm.compress(teacher, n_levels=1, n_units=6, n_directions=3, random_state=0)
    assert isinstance(fast, gm.FastKernelRegressor)
    assert fast.score(rows, teacher.predict(rows)) > 0.98
    with pytest.raises(InputError, match="keeps no rows"):
        gm.compress(lambda X: X[:, 0])


@pytest.mark.slow
def test_labels_teachers_and_bounds(rows):
    names = np.where(rows[:, 0] > 0.3 * rows[:, 1] ** 2, "yes", "no")
    m = gm.FastKernelClassifier(SVC(gamma=0.5), **SMALL).fit(rows, names)
    assert m.score(rows, names) > 0.95
    assert m.learned_ in ("teacher", "labels")
    assert m.decision_function(rows).shape == (700,)
    reversed_ = SVC(gamma=0.5).fit(rows, names)
    reversed_.classes_ = reversed_.classes_.copy()
    # The same teacher, asked by scikit-learn and by tiles: its values differ by rounding.
    asked = gm.FastKernelClassifier(reversed_.decision_function, **SMALL).fit(rows, names).predict(rows)
    tiled = gm.FastKernelClassifier(reversed_, **SMALL).fit(rows, names).predict(rows)
    assert (asked == tiled).mean() > 0.98


@pytest.mark.parametrize(
    ("teacher", "words"),
    [
        (lambda X: np.full(len(X), np.nan), "NaN or infinity"),
        (lambda X: np.zeros((len(X), 5)), "gave values of shape"),
        (3.0, "cannot be called"),
    ],
)
def test_teachers_that_cannot_teach(rows, teacher, words):
    with pytest.raises(InputError, match=words):
        gm.FastKernelClassifier(teacher, **SMALL).fit(rows, rows[:, 0] > 0)


@pytest.mark.parametrize("cost", ["fast", "-3ns", "0x", "12 lightyears", float("nan")])
def test_costs_that_are_none(cost):
    with pytest.raises(InputError, match="cost="):
        parse_cost(cost)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [({"n_units": 3}, "give all three"), ({"learn": "both"}, "learn="), ({"dtype": "int8"}, "dtype=")],
)
def test_parameters_that_are_none(rows, parameters, words):
    with pytest.raises(InputError, match=words):
        gm.FastKernelRegressor(**parameters).fit(rows, rows[:, 0])


@pytest.mark.slow
def test_a_constant_feature_and_one_class_in_a_leaf():
    rng = np.random.default_rng(1)
    X = np.column_stack([np.concatenate([rng.normal(-5, 0.1, 200), rng.normal(5, 0.1, 200)]), np.ones(400)])
    y = (X[:, 0] > 0) * 1
    m = gm.FastKernelClassifier(**{**SMALL, "n_levels": 3}).fit(X, y)
    assert m.score(X, y) == 1.0


DRAWN = "held-out rows are drawn, so that a weight of 2 is not a row twice"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": DRAWN,
    "check_sample_weight_equivalence_on_sparse_data": DRAWN,
}


@pytest.mark.slow
@parametrize_with_checks(
    [
        gm.FastKernelClassifier(n_levels=0, n_units=3, n_directions=2, dtype="float64", random_state=0),
        gm.FastKernelRegressor(n_levels=0, n_units=3, n_directions=2, dtype="float64", random_state=0),
    ],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("bounded", [True, False])
def test_gradients_of_directions_and_units_are_those_of_finite_differences(rows, outputs, bounded):
    rng = np.random.default_rng(6)
    values, ends = rng.normal(size=(700, outputs)), (-1.0, 1.0) if bounded else (None, None)
    values = np.clip(values, *ends) if bounded else values
    leaf = LeafRows.of(TrainingSet(rows, values, rng.random(700), None, *ends))
    Q, own = rng.normal(size=(3, 2)), rng.normal(size=(4, 4)) * [1.0, 1.0, 0.1, 0.1]

    def value(Q, own):  # with bounds the weights are the best ones only after many updates of the targets
        return settle(leaf, own[:, :2], own[:, 2:], Q, rounds=300).units.objective

    of_own, of_Q = gradients(settle(leaf, own[:, :2], own[:, 2:], Q, rounds=300), directions=True)
    for point, gradient, at in ((Q, of_Q, 0), (own, of_own, 1)):
        for index in np.ndindex(point.shape):
            step = np.zeros_like(point)
            step[index] = 1e-5
            ends = [value(*((Q + h * step, own) if at == 0 else (Q, own + h * step))) for h in (1, -1)]
            assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(
                gradient[index], rel=1e-3, abs=1e-4 * np.abs(gradient).max()
            )


def test_learning_together_finds_directions_that_the_metric_missed(rows):
    truth = np.array([[1.0], [0.5], [0.0]])
    values = np.sin(3.0 * rows @ truth)
    own = TrainingSet(rows.astype(np.float32), values, np.ones(700))
    leaf = LeafRows.of(own)
    wrong = np.array([[0.6], [0.7], [0.4]])
    start = first_units(replace(own, rows=rows @ wrong), 6, np.random.default_rng(0))
    Q, (found,) = learn_units([start], [leaf], Limit(200), wrong)
    assert found.objective < 0.05 * start.objective
    np.testing.assert_allclose(
        np.abs(Q[:, 0]) / np.linalg.norm(Q), truth[:, 0] / np.linalg.norm(truth), atol=0.03
    )


def test_units_are_no_sharper_than_float32_predicts(rows):
    spikes = np.where(np.arange(700) % 50 == 0, 1.0, 0.0)[:, None]
    own = TrainingSet(rows, spikes, np.ones(700))
    leaf = LeafRows.of(own)
    start = first_units(own, 8, np.random.default_rng(0))
    _, (found,) = learn_units([start], [leaf], Limit(100), np.eye(3))
    assert found.log_scales.max() > start.log_scales.max() + 0.5
    assert found.log_scales.max() <= scale_limits(leaf)[1] + 1e-6


@pytest.mark.parametrize(
    "model", [SVC(gamma=0.5), SVC(gamma="scale"), NuSVC(nu=0.2), SVR(C=10.0), NuSVR(gamma=1.0)]
)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_libsvm_models_are_asked_by_tiles(rows, model, n_classes):
    sums = rows.sum(axis=1)
    y = np.digitize(sums, np.quantile(sums, np.arange(1, n_classes) / n_classes))
    fitted = clone(model).fit(rows, y)
    theirs = fitted.decision_function if hasattr(fitted, "decision_function") else fitted.predict
    ours = libsvm_values(fitted, Engine(1))
    assert ours is not None
    if n_classes == 2 or not hasattr(fitted, "decision_function"):
        np.testing.assert_allclose(ours(rows), theirs(rows), atol=1e-8)
        return
    pairs = fitted.set_params(decision_function_shape="ovo").decision_function(rows)
    beaten = np.full((700, n_classes, n_classes), np.inf)
    for f, (i, j) in zip(pairs.T, combinations(range(n_classes), 2), strict=True):
        beaten[:, i, j], beaten[:, j, i] = f, -f
    np.testing.assert_allclose(ours(rows), 0.5 * beaten.min(axis=2), atol=1e-8)
    wins = (beaten > 0).all(axis=2).any(axis=1)
    assert wins.mean() > 0.9
    np.testing.assert_array_equal(ours(rows).argmax(axis=1)[wins], fitted.predict(rows)[wins])


def test_held_out_rows_are_learned_from_in_the_end(rows):
    taught = []

    class Told(SVC):
        def fit(self, X, y):
            taught.append(len(X))
            return super().fit(X, y)

    y = rows[:, 0] > 0.3 * rows[:, 1] ** 2
    m = gm.FastKernelClassifier(Told(gamma=0.5), learn="teacher", **SMALL).fit(rows, y)
    assert taught == [595, 700]
    svc = SVC(gamma=0.5).fit(rows, y)
    assert (m.predict(rows) == svc.predict(rows)).mean() > 0.95


def test_labels_are_learned_after_a_teacher_who_is_wrong(rows):
    y = np.sin(2.0 * rows[:, 0]) + rows[:, 1]

    def biased(X):
        return 0.5 * np.sin(2.0 * X[:, 0]) + X[:, 1]

    sizes = {"n_levels": 0, "n_units": 12, "n_directions": 3, "random_state": 0}
    both = gm.FastKernelRegressor(biased, **sizes).fit(rows, y)
    taught = gm.FastKernelRegressor(biased, learn="teacher", **sizes).fit(rows, y)
    assert (both.learned_, taught.learned_) == ("labels", "teacher")
    assert 1.0 - both.score(rows, y) < 0.1 * (1.0 - taught.score(rows, y))
    right = gm.FastKernelRegressor(lambda X: np.sin(2.0 * X[:, 0]) + X[:, 1], **sizes).fit(rows, y)
    assert right.learned_ == "teacher"


def test_stages_and_shapes_are_told_apart_by_what_they_learn(rows):
    def teacher(X):
        return np.clip(3.0 * np.sin(2 * X[:, :1]) + X[:, 1:2], -1.0, 1.0)

    training_set = TrainingSet(rows, teacher(rows), np.ones(700), teacher, -1.0, 1.0)
    learned, held = training_set.some(np.arange(500)), training_set.some(np.arange(500, 700))
    trainer = trainer_of(learned, held, np.eye(3))
    _, trial = trainer.judge("teacher", Shape(0, 6, 3))
    linear = trainer.validate(linear_student(trainer.pools["teacher"]), "teacher")
    found = trainer.fit(Shape(0, 6, 3))
    left = held.values - np.clip(found.student.predictor()(held.rows), -1.0, 1.0)
    assert found.loss == pytest.approx(np.mean(left**2))
    assert found.loss <= trial.loss < 0.5 * linear.loss
    more = trainer.refit(found, trainer.pools["teacher"].joined(held)).predictor()
    assert np.abs(more(held.rows) - found.student.predictor()(held.rows)).max() > 0


def test_trials_go_no_deeper_than_a_level_that_is_clearly_worse():
    losses = {(1, 0): 1.0, (1, 2): 1.2, (1, 4): 1.3, (1, 6): 0.1, (2, 0): 1.0, (2, 2): 0.5}

    def clock(shape):  # three units are within the budget, and for two directions no more than two levels
        return np.inf if shape.n_directions == 2 and shape.n_levels > 2 else shape.n_units

    found = search(
        None,
        lambda trials: worth_trying(trials, 3.0, clock, 10**6, (1, 2)),
        lambda _, shape: (losses[shape.n_directions, shape.n_levels], shape),
    )
    tried = [(trial.candidate.n_directions, trial.candidate.n_levels) for trial in found.made]
    assert tried == [(1, 0), (1, 2), (1, 4), (2, 0), (2, 2)]
    assert {trial.candidate.n_units for trial in found.made} == {2}


def test_a_search_goes_on_with_the_nearest_shapes(rows, monkeypatch):
    def teacher(X):
        return np.sin(2 * X[:, :1]) * X[:, 1:2]

    # Times made up, so that every machine has the same shapes.
    def clock(shape):
        return shape.operations(3, 1)

    training_set = TrainingSet(rows, teacher(rows), np.ones(700), teacher)
    learned, held = training_set.some(np.arange(500)), training_set.some(np.arange(500, 700))
    ended = []

    def score(held, found):
        ended.append(float(np.mean((found - held.values) ** 2)))
        return -ended[-1]

    monkeypatch.setattr(TrainingSet, "score", score)
    trainer = trainer_of(learned, held, np.diag([1.0, 1.0, 0.0]))
    best = search_shapes(200.0, clock, trainer)
    assert best.shape.operations(3, 1) <= 200
    assert -best.score < 2.0 * min(ended)
    assert -best.score < 0.2 * np.var(held.values)
    assert search_shapes(12.0, clock, trainer).shape.linear


def test_other_models_are_asked_themselves(rows):
    y = rows[:, 0] > 0
    assert libsvm_values(SVC(kernel="linear").fit(rows, y), Engine(1)) is None
    assert libsvm_values(SVC(), Engine(1)) is None
    assert libsvm_values(SVC().fit(csr_array(rows), y), Engine(1)) is None
