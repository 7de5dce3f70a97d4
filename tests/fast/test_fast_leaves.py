"""Leaves learned on their own, and the copies of rows that they learn from."""

from dataclasses import replace

import numpy as np
import pytest

import gramian.fast.learning.distill as distill_module
from gramian.engine import Engine
from gramian.fast.learning.copies import MIXED, between, two_valued
from gramian.fast.learning.distill import Effort, Shape, TrainingSet, distill
from gramian.fast.learning.leaves import learn_alone, reduced
from gramian.fast.learning.units import Targets, first_units, flattest, units_at


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
    copies, first = between(rows, members, [100, 50], np.zeros(6), two, rng)
    np.testing.assert_array_equal(first < 40, np.arange(150) < 100)
    for copy, a in zip(copies, rows[first], strict=True):
        # Some row b and one t with copy = a + t (b - a); the category is that of a or of b.
        steps = rows[:, :2] - a[:2]
        lengths = np.maximum(np.square(steps).sum(axis=1), 1e-300)
        t = steps @ (copy[:2] - a[:2]) / lengths
        fits = np.abs(a[:2] + t[:, None] * steps - copy[:2]).max(axis=1) < 1e-10
        fits &= (t >= -1e-12) & (t <= MIXED + 1e-12)
        assert (fits & ((copy[2:] == a[2:]).all() | (copy[2:] == rows[:, 2:]).all(axis=1))).any()
    noisy, first = between(rows, members, [4000, 0], np.array([0.5, *[0.0] * 5]), two, rng)
    assert noisy[:, 0].std() > rows[first, 0].std() / 2**0.5
    np.testing.assert_array_equal(noisy[:, 2:].sum(axis=1), 1.0)


@pytest.mark.parametrize("outputs", [1, 3])
def test_gradient_of_units_is_that_of_finite_differences(rows, outputs):
    rng = np.random.default_rng(2)
    targets = Targets(rng.normal(size=(700, outputs)), rng.random(700))
    own = np.column_stack([rng.normal(size=(4, 3)), 0.1 * rng.normal(size=4)])

    def value(own):
        return reduced(rows, targets, own[:, :3], own[:, 3], None)[0].objective

    _, gradient, _ = reduced(rows, targets, own[:, :3], own[:, 3], None)
    for index in np.ndindex(own.shape):
        step = np.zeros_like(own)
        step[index] = 1e-5
        slope = (value(own + step) - value(own - step)) / 2e-5
        assert slope == pytest.approx(gradient[index], rel=1e-4, abs=1e-5 * np.abs(gradient).max())


def test_a_leaf_finds_the_units_that_made_its_values(rows):
    rng = np.random.default_rng(1)
    centers, scales = rng.normal(size=(3, 3)), np.log([0.8, 1.0, 1.2])
    values = units_at(rows, centers, scales) @ rng.normal(size=(3, 4)) + rows @ rng.normal(size=(3, 4))
    targets = Targets(values, np.ones(700))
    start = first_units(rows, targets, 3, np.random.default_rng(0))
    found = learn_alone(rows, targets, start, 300)
    assert np.abs(found(rows) - values).max() < 1e-2
    none = first_units(rows, targets, 0, np.random.default_rng(0))
    np.testing.assert_allclose(learn_alone(rows, targets, none, 10).linear, none.linear, atol=1e-12)


def test_a_unit_that_is_flat_stays_one(rows):
    # Beside a far outlier log s went to −6,100, and the unit of length 1/s = inf gave 0/0.
    targets = Targets(np.sign(rows[:, :1]), np.ones(700))
    start = first_units(rows, targets, 3, np.random.default_rng(0))
    start = replace(start, log_scales=np.array([-6100.0, *start.log_scales[1:]]))
    found = learn_alone(rows, targets, start, 20)
    assert np.isfinite(found(rows)).all()
    assert found.log_scales.min() >= flattest(rows) > -30


def test_the_last_stage_learns_each_leaf_from_its_copies(rows):
    lesson = TrainingSet(rows, teacher(rows), np.ones(700), teacher)
    effort = Effort((10,), 12.0, 4_000, 1e12, 60)
    stages = list(distill(lesson, np.eye(3), Shape(2, 6, 3), np.random.default_rng(0), Engine(1), effort))
    assert len(stages) == 3
    fresh = np.random.default_rng(5).normal(size=(3000, 3))
    errors = [np.sqrt(np.mean((stage(fresh) - teacher(fresh)) ** 2)) for stage in stages]
    assert errors[2] < 0.8 * errors[1] < 0.8 * errors[0]
    np.testing.assert_array_equal(stages[2].projection, stages[1].projection)


def test_directions_that_leave_more_than_there_was_are_undone(rows, monkeypatch):
    def lost(Q, leaves, sets, rounds, engine):
        return -Q, leaves

    monkeypatch.setattr(distill_module, "learn_together", lost)
    lesson = TrainingSet(rows, teacher(rows), np.ones(700), teacher)
    effort = Effort((5, 5), 4.0, 2_000, 1e12, 5)
    stages = list(distill(lesson, np.eye(3), Shape(1, 6, 3), np.random.default_rng(0), Engine(1), effort))
    assert len(stages) == 3  # the start, the stage that is undone, and the leaves on their own
    np.testing.assert_allclose(stages[1].projection, -np.eye(3), atol=1e-12)
    np.testing.assert_array_equal(stages[2].projection, np.eye(3))
    assert (
        lesson.left(np.asarray(stages[2](lesson.rows), np.float64))
        < lesson.left(np.asarray(stages[0](lesson.rows), np.float64))
        < lesson.left(np.asarray(stages[1](lesson.rows), np.float64))
    )


@pytest.mark.parametrize("most", [900, 4_000])
def test_the_last_stage_asks_only_for_the_copies_that_are_missing(rows, most):
    asked = []

    def counted(X):
        asked.append(len(X))
        return teacher(X)

    lesson, shape = TrainingSet(rows, teacher(rows), np.ones(700), counted), Shape(2, 6, 3)
    effort = Effort((5,), 12.0, most, 1e12, 5)
    assert len(list(distill(lesson, np.eye(3), shape, np.random.default_rng(0), Engine(1), effort))) == 3
    numbers = 4 * (6 * 5 + 4)
    together = min(12 * (numbers + 9), most)
    wanted = max(together, 12 * numbers)
    # Leaves are filled up to equal numbers, and after the first stage some rows lie in others.
    assert len(asked) == (1 if together == wanted else 2)
    assert asked[0] == pytest.approx(together - 700, abs=4)
    assert wanted - 700 <= sum(asked) + 4 <= 1.3 * wanted
