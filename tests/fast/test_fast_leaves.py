"""Leaves learned on their own, and the copies of rows that they learn from."""

from dataclasses import replace

import numpy as np
import pytest
from fast_models import units_at, values_at

import gramian.fast.learning.loss as loss_module
from gramian.fast.learning.distill import Shape, StageLimits, begin, learn_alone, learn_together
from gramian.fast.learning.leaves import Limit, first_units, learn_units, scale_limits
from gramian.fast.learning.loss import LeafRows, gradients, settle
from gramian.fast.learning.training_set import (
    BLOCK_ROWS,
    COPY_WEIGHT,
    MIXED,
    Pool,
    TrainingSet,
    between,
    two_valued,
)


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(700, 3))


def teacher(X):
    return np.sin(3.0 * X[:, :1]) * np.cos(2.0 * X[:, 1:2])


def test_copies_lie_between_two_rows_and_keep_categories_whole():
    rng = np.random.default_rng(1)
    one_hot = np.eye(4)[rng.integers(4, size=60)]
    rows = np.column_stack([rng.normal(size=(60, 2)), one_hot])
    two = two_valued(rows)
    np.testing.assert_array_equal(two, [False, False, True, True, True, True])
    members = [np.arange(40), np.arange(40, 60)]
    copies, first = between(rows, members, [100, 50], np.zeros((2, 6)), two, rng)
    np.testing.assert_array_equal(first < 40, np.arange(150) < 100)
    for copy, a in zip(copies, rows[first], strict=True):
        # Some row b and one t with copy = a + t (b - a); the category is that of a or of b.
        steps = rows[:, :2] - a[:2]
        lengths = np.maximum(np.square(steps).sum(axis=1), 1e-300)
        t = steps @ (copy[:2] - a[:2]) / lengths
        fits = np.abs(a[:2] + t[:, None] * steps - copy[:2]).max(axis=1) < 1e-10
        fits &= (t >= -1e-12) & (t <= MIXED + 1e-12)
        assert (fits & ((copy[2:] == a[2:]).all() | (copy[2:] == rows[:, 2:]).all(axis=1))).any()
    noisy, first = between(rows, members, [4000, 0], np.array([[1.0, *[0.0] * 5]] * 2), two, rng)
    assert noisy[:, 0].std() > rows[first, 0].std() / 2**0.5
    np.testing.assert_array_equal(noisy[:, 2:].sum(axis=1), 1.0)


def pool(training_set, seed=0):
    d = training_set.rows.shape[1]
    return Pool(training_set, np.zeros(d), np.ones(d), np.eye(d), np.random.default_rng(seed))


def objective(points, targets, centers, log_scales):
    """The loss with the best weights for these units, by dense least squares."""
    n = len(points)
    squares = np.square((points[:, None, :] - centers) * np.exp(log_scales)).sum(axis=2)
    design = np.column_stack([1.0 / (1.0 + squares), points, np.ones(n)])
    weights = targets.weights[:, None]
    gram = design.T @ (weights * design)
    linear = loss_module.LINEAR_ROUNDING * np.finfo(np.float64).eps
    ridge = max(loss_module.LINEAR_RIDGE, linear) * gram.diagonal()
    ridge[: len(centers)] = loss_module.WEIGHT_RIDGE * targets.weights.sum()
    solution = np.linalg.solve(gram + np.diag(ridge), design.T @ (weights * targets.values))
    left = targets.values - design @ solution
    return (weights * left**2).sum() + (ridge @ solution**2).sum()


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("tile", [4096, 300])
def test_the_loss_and_its_gradient_are_those_of_dense_least_squares(rows, outputs, even, tile, monkeypatch):
    monkeypatch.setattr(loss_module, "TILE_ROWS", tile)
    rng = np.random.default_rng(2)
    weights = np.full(700, 0.7) if even else rng.random(700)
    targets = TrainingSet(rows, rng.normal(size=(700, outputs)), weights)
    own = np.column_stack([rng.normal(size=(4, 3)), 0.1 * rng.normal(size=(4, 3))])
    leaf = LeafRows.of(targets)
    assert len(leaf.tiles) == -(-700 // tile)
    state = settle(leaf, own[:, :3], own[:, 3:])
    assert state.units.objective == pytest.approx(objective(rows, targets, own[:, :3], own[:, 3:]), rel=1e-10)
    gradient, none = gradients(state)
    assert none is None
    for index in np.ndindex(own.shape):
        step = np.zeros_like(own)
        step[index] = 1e-5
        ends = [objective(rows, targets, (own + h * step)[:, :3], (own + h * step)[:, 3:]) for h in (1, -1)]
        slope = (ends[0] - ends[1]) / 2e-5
        assert slope == pytest.approx(gradient[index], rel=1e-4, abs=1e-5 * np.abs(gradient).max())


def test_targets_are_not_written_to(rows):
    values = teacher(rows)
    leaf = LeafRows.of(TrainingSet(rows, values, np.ones(700)))
    state = settle(leaf, rows[:3], np.zeros((3, 3)))
    gradients(state, directions=True)
    np.testing.assert_array_equal(np.concatenate([one.values for one in leaf.tiles], axis=1).T, values)


def test_a_leaf_finds_the_units_that_made_its_values(rows):
    rng = np.random.default_rng(1)
    centers, scales = rng.normal(size=(3, 3)), np.log([[0.8, 1.0, 1.2], [1.0] * 3, [0.9] * 3])
    values = units_at(rows, centers, scales) @ rng.normal(size=(3, 4)) + rows @ rng.normal(size=(3, 4))
    targets = TrainingSet(rows, values, np.ones(700))
    start = first_units(targets, 3, np.random.default_rng(0))
    _, (found,) = learn_units([start], [LeafRows.of(targets)], Limit(300))
    assert np.abs(values_at(rows, found) - values).max() < 1e-2
    none = first_units(targets, 0, np.random.default_rng(0))
    _, (same,) = learn_units([none], [LeafRows.of(targets)], Limit(10))
    np.testing.assert_allclose(same.linear, none.linear, atol=1e-12)


def test_a_unit_that_is_flat_stays_one(rows):
    # Beside a far outlier log s went to −6,100, and the unit of length 1/s = inf gave 0/0.
    targets = TrainingSet(rows, np.sign(rows[:, :1]), np.ones(700))
    leaf = LeafRows.of(targets)
    start = first_units(targets, 3, np.random.default_rng(0))
    start = replace(start, log_scales=np.vstack([[-6100.0] * 3, start.log_scales[1:]]))
    _, (found,) = learn_units([start], [leaf], Limit(20))
    assert np.isfinite(values_at(rows, found)).all()
    assert found.log_scales.min() >= scale_limits(leaf)[0] > -30


def test_stages_go_on_from_one_another(rows):
    training_set = TrainingSet(rows, teacher(rows), np.ones(700), teacher)
    some = pool(training_set).rows(4_000)
    first = begin(some, Shape(2, 6, 3), np.eye(3), (np.zeros(3), np.ones(3)), np.random.default_rng(0))
    second = learn_together(first, some, Limit(30))
    third = learn_alone(second, some, Limit(60))
    fresh = np.random.default_rng(5).normal(size=(3000, 3))
    errors = [
        np.sqrt(np.mean((stage.predictor()(fresh) - teacher(fresh)) ** 2)) for stage in (first, second, third)
    ]
    assert errors[2] < 0.9 * errors[1] < 0.9 * errors[0]
    np.testing.assert_array_equal(third.Q, second.Q)
    assert np.abs(second.Q - first.Q).max() > 0.01


def test_the_teacher_answers_once_for_each_row(rows):
    asked = []

    def counted(X):
        asked.append(len(X))
        return teacher(X)

    training_set = TrainingSet(rows, teacher(rows), np.ones(700), counted)
    one = pool(training_set)
    assert len(one.rows(500).rows) == 500
    assert not asked
    first = one.rows(5_000)
    assert len(asked) == 1
    assert BLOCK_ROWS <= asked[0] <= BLOCK_ROWS + 64
    more = one.rows(9_000)
    np.testing.assert_array_equal(more.rows[:5_000], first.rows)
    assert len(asked) == (1 if 700 + asked[0] >= 9_000 else 2)
    np.testing.assert_allclose(more.values, teacher(np.float64(more.rows)), atol=1e-5)
    other = TrainingSet(rows[:40] + 0.5, teacher(rows[:40] + 0.5), np.ones(40), counted)
    count = len(asked)
    joined = one.joined(other).rows(9_000)
    np.testing.assert_array_equal(joined.rows[40:], more.rows[:-40])
    assert len(asked) == count
    assert len(one.own.rows) == 700
    np.testing.assert_allclose(more.weights[700:], COPY_WEIGHT * training_set.weights[0])
    labels = pool(replace(training_set, teacher=None))
    assert len(labels.rows(9_000).rows) == 700


def test_a_shape_wants_rows_by_its_numbers():
    effort, shape = StageLimits(5, 12.0, 4_000, 1e12), Shape(2, 6, 3)
    numbers = 4 * (6 * 7 + 4) + 9
    assert effort.rows(shape, 3, 1) == 12 * numbers
    assert StageLimits(5, 12.0, 900, 1e12).rows(shape, 3, 1) == 900
    assert StageLimits(5, 12.0, 900, 1.0).rows(shape, 3, 1) == 800  # never fewer than 200 a leaf
