"""Limits of fast models: few rows, budgets at a linear model's cost, and rows that overflow."""

from __future__ import annotations

import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

import gramian as gm
import gramian.fast.base as fast_base
import gramian.fast.cost as fast_cost
import gramian.fast.fit as fast_fit
from gramian.exceptions import AccuracyWarning, BudgetError, InputError
from gramian.fast.cost import Cost, dummy, warn_if_missed
from gramian.fast.fidelity import Fidelity, warn_if_low
from gramian.fast.fit import split_held_out
from gramian.fast.learning.distill import Shape
from gramian.fast.learning.metric import center_and_spread
from gramian.fast.serving.predictor import WIDE_ROWS

SIZES = {"n_levels": 1, "n_units": 4, "n_directions": 2, "random_state": 0}


def timings(monkeypatch: pytest.MonkeyPatch, linear: float, shape: float) -> None:
    """Let a product X @ w take ``linear`` nanoseconds, a linear predictor ``shape``, and others far more."""
    monkeypatch.setattr(fast_fit, "product_nanoseconds", lambda d, K, n: linear)

    def nanoseconds(model: object, d: int, K: int, centers: bool, one: Shape) -> float:
        return shape if one.n_units == one.n_levels == 0 else np.inf

    monkeypatch.setattr(fast_base.FastKernelModel, "_nanoseconds", nanoseconds)


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 4, 7])
def test_few_rows_are_fitted_whatever_the_timings_say(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    X = np.random.default_rng(0).random((n, 2))
    for linear, shape in ((0.25, 4.9), (0.25, 5.1), (0.25, 1e6)):
        timings(monkeypatch, linear, shape)
        assert np.isfinite(gm.FastKernelRegressor(random_state=0).fit(X, X.sum(axis=1)).predict(X)).all()
        gm.FastKernelClassifier(cost="1x", random_state=0).fit(X, np.arange(n) % 2).predict(X)


def test_a_cost_that_the_error_names_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).random((60, 2))
    timings(monkeypatch, 0.25, 7.45)
    model = gm.FastKernelRegressor(cost="7ns", random_state=0)
    with pytest.raises(BudgetError, match=r"takes 7\.45 ns here .* Raise cost to at least 8 ns") as caught:
        model.fit(X, X.sum(axis=1))
    named = re.search(r"at least (\d+) ns", str(caught.value))
    assert named is not None
    model.set_params(cost=f"{named[1]}ns").fit(X, X.sum(axis=1))
    with pytest.raises(BudgetError, match="below a linear model's"):
        model.set_params(cost="0.5x").fit(X, X.sum(axis=1))


def test_a_cost_that_is_missed_is_told() -> None:
    cost = Cost(100, 1_000, 90.0, 2.0, (60.0, 120.0), 4_096)
    with pytest.warns(AccuracyWarning, match=r"cost='20x' is missed: a row takes 30x.*Ask for cost='13x'"):
        warn_if_missed(cost, (20.0, "x"), "20x")
    with pytest.warns(AccuracyWarning, match=r"cost=40 is missed: a row takes 60ns"):
        warn_if_missed(cost, (40.0, "ns"), 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_missed(cost, (50.0, "ns"), "50ns")
        warn_if_missed(cost, (25.0, "x"), "25x")


def test_a_fit_measures_the_model_that_it_made(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).random((400, 2))
    slow = Cost(100, 1_000, 9_000.0, 2.0, (8_000.0, 9_900.0), 4_096)
    monkeypatch.setattr(fast_base, "measure", lambda *_: slow)
    model = gm.FastKernelRegressor(cost="2us", learn="labels", random_state=0)
    with pytest.warns(AccuracyWarning, match="cost='2us' is missed"):
        model.fit(X, np.sin(9.0 * X[:, 0]))


def test_equal_fits_give_equal_models_however_busy_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).random((400, 2))
    y = np.sin(9.0 * X[:, 0])
    runs, late = [0], [1.0]

    def seconds(predict: object, rows: np.ndarray) -> list[float]:
        runs[0] += 1
        return [late[0] * 1e-3, 40.0 * late[0] * 1e-3, 3.0 * late[0] * 1e-3]

    monkeypatch.setattr(fast_cost, "run_seconds", seconds)
    monkeypatch.setattr(fast_base, "_TIMED", {})
    monkeypatch.setattr(fast_fit, "product_nanoseconds", lambda d, K, n: 1.0)
    first = gm.FastKernelRegressor(cost="2us", learn="labels", random_state=0).fit(X, y)
    timed, late[0] = runs[0], 1e6
    second = gm.FastKernelRegressor(cost="2us", learn="labels", random_state=0).fit(X, y)
    assert runs[0] == timed + 2  # the model and X @ w, to see that the budget is met
    assert first.shape_ == second.shape_
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    assert set(fast_base._TIMED.values()) == {1e9 * 1e-3 / fast_cost.batch_rows(2)}  # the fastest run


def test_the_time_of_a_shape_grows_with_its_units() -> None:
    seen = []

    def timed(shape: Shape) -> float:
        seen.append(shape.n_units)
        return {0: 1.0, 2: 4.0, 16: 3.0, 64: 12.0}[shape.n_units]  # 16 units were disturbed less than 2

    times = [fast_cost.interpolate_time(Shape(2, u, 3), timed) for u in (0, 2, 8, 16, 40, 64)]
    assert times == [1.0, 4.0, 4.0, 4.0, 8.0, 12.0]
    assert 256 not in seen


def test_low_agreement_beside_an_unused_budget_is_told() -> None:
    low = Fidelity("same class", 0.7, 0.01, 900, teacher_saw=True)
    with pytest.warns(AccuracyWarning, match=r"70\.0 % .* takes only 3 % of cost='2us'.*Give more rows"):
        warn_if_low(low, 0.03, "2us")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_low(low, 0.8, "2us")
        warn_if_low(replace(low, value=0.95), 0.03, "2us")


@pytest.mark.slow
def test_a_budget_holds_for_batches_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).random((300, 2))
    timed: list[int] = []

    def seconds(predict: object, rows: np.ndarray) -> float:
        timed.append(len(rows))
        return 1e-7

    monkeypatch.setattr(fast_base, "seconds_per_row", seconds)
    monkeypatch.setattr(fast_base, "_TIMED", {})
    model = gm.FastKernelRegressor(cost="20us", batch_rows=1, random_state=0).fit(X, X.sum(axis=1))
    assert set(timed) == {1}
    assert model.cost_.batch_rows == 1
    with pytest.raises(InputError, match="batch_rows"):
        model.set_params(batch_rows=0).fit(X, X.sum(axis=1))


@pytest.mark.slow
def test_a_fit_ends_in_time() -> None:
    X = np.random.default_rng(0).random((3_000, 4))
    y = np.sin(9.0 * X).sum(axis=1)
    short = gm.FastKernelRegressor(cost="2us", learn="labels", random_state=0, time_limit=1e-6).fit(X, y)
    assert (short.shape_.n_levels, short.shape_.n_units) == (0, 0)  # the linear model, which takes no time
    sizes = {"n_levels": 1, "n_units": 8, "n_directions": 4}
    some = gm.FastKernelRegressor(learn="labels", random_state=0, time_limit=1e-6, **sizes).fit(X, y)
    more = gm.FastKernelRegressor(learn="labels", random_state=0, **sizes).fit(X, y)
    assert some.validation_score_ < more.validation_score_
    with pytest.raises(InputError, match="time_limit"):
        gm.FastKernelRegressor(time_limit=-1.0).fit(X, y)


def overflowing() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).random((200, 3))
    far = X[:5].copy()
    far[2, 1] = -1e300
    return X, np.sin(5.0 * X[:, 0]), far


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_a_row_that_overflows_is_named(dtype: str) -> None:
    X, y, far = overflowing()
    model = gm.FastKernelRegressor(dtype=dtype, **SIZES).fit(X, y)
    with pytest.raises(InputError, match=r"the value -1e\+300 in row 2, feature 1: the prediction overflows"):
        model.predict(far)
    assert np.isfinite(model.predict(far[[0, 1, 3]])).all()
    classes = gm.FastKernelClassifier(**SIZES).fit(X, y > 0)
    for method in (classes.predict, classes.decision_function):
        with pytest.raises(InputError, match="in row 2, feature 1"):
            method(far)


def test_kernels_that_grow_name_the_row_too_and_others_go_to_zero() -> None:
    X, y, far = overflowing()
    growing = gm.KernelRidge(kernel="poly", random_state=0).fit(X, y)
    with pytest.raises(InputError, match="in row 2, feature 1"):
        growing.predict(far)
    bounded = gm.KernelRidge(random_state=0).fit(X, y)
    assert np.isfinite(bounded.predict(far)).all()
    assert bounded.predict(far)[2] == 0.0


@pytest.mark.parametrize(
    "rows", [np.ones((40, 3)), np.full((40, 3), 0.1), np.full((40, 3), 1e-300), np.ones((1, 3))]
)
@pytest.mark.parametrize("n_levels", [0, 1])
def test_rows_that_do_not_differ_give_the_mean(rows: np.ndarray, n_levels: int) -> None:
    y = np.arange(float(len(rows)))
    model = gm.FastKernelRegressor(gm.KernelRidge(1e-9), **(SIZES | {"n_levels": n_levels})).fit(rows, y)
    assert model.predict(rows[:3]) == pytest.approx(y.mean(), abs=1e-4)
    assert model.predict(2.0 * rows[:3]) == pytest.approx(y.mean(), abs=1e-4)  # constant features say nothing


def test_one_row_that_counts_gives_its_target() -> None:
    X = np.random.default_rng(0).random((40, 3))
    weights = np.r_[1.0, np.zeros(39)]
    model = gm.FastKernelRegressor(gm.KernelRidge(), **SIZES).fit(X, X[:, 0], sample_weight=weights)
    assert model.predict(X) == pytest.approx(X[0, 0], abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_class_of_one_row_is_never_held_out(seed: int) -> None:
    # It used to be: the teacher then knew a class less than y, and the fit was refused.
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((20, 3)), np.array([*range(6), *rng.integers(6, 8, 14)])
    model = gm.FastKernelClassifier(n_levels=0, n_units=4, n_directions=2, random_state=seed).fit(X, y)
    assert set(model.predict(X)) <= set(range(8))
    held, kept = split_held_out(rng.permutation(20), y, np.arange(20))
    assert len(held) == 3
    assert sorted([*held, *kept]) == list(range(20))
    assert set(y[kept]) == set(y)


def test_held_out_rows_are_those_of_the_order_where_no_class_is_lost() -> None:
    order = np.random.default_rng(0).permutation(40)
    held, kept = split_held_out(order, np.zeros(40, int), order)
    np.testing.assert_array_equal(np.concatenate([held, kept]), order)


@pytest.mark.slow
def test_rows_of_weight_0_change_nothing() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((200, 3))
    weights = np.r_[np.zeros(40), rng.random(160) + 0.5]
    far = np.where(weights > 0, 1.0, 1_000.0)
    y = np.sin(5.0 * X[:, 0]) + X[:, 1]
    models = [
        gm.FastKernelRegressor(**SIZES).fit(f[:, None] * X, f * y, sample_weight=weights)
        for f in (np.ones(200), far)
    ]
    assert models[0].predict(X) == pytest.approx(models[1].predict(X), rel=1e-9)


def test_units_of_features_and_targets_are_weighted() -> None:
    rng = np.random.default_rng(0)
    rows, weights = rng.random((30, 2)), rng.integers(0, 4, 30).astype(float)
    found = center_and_spread(rows, weights)
    repeated = np.repeat(rows, weights.astype(int), axis=0)
    np.testing.assert_allclose(found, (repeated.mean(axis=0), repeated.std(axis=0)))


@pytest.mark.parametrize("n_levels", [0, 3])
@pytest.mark.parametrize("n_units", [0, 9])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_answer_for_a_row_does_not_depend_on_the_batch(
    n_levels: int, n_units: int, outputs: int, dtype: str
) -> None:
    rng = np.random.default_rng(0)
    predictor = dummy(Shape(n_levels, n_units, 10), 40, outputs, rng).astype(np.dtype(dtype))
    X = rng.standard_normal((WIDE_ROWS, 40))
    whole = predictor(X)
    assert whole.dtype == np.float32
    for size in (1, 3, 8, 65, 100):
        parts = [predictor(X[at : at + size]) for at in range(0, len(X), size)]
        # The float64 values differ by 1e-15, which rounds to the same float32 or its neighbour.
        np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1.2e-7, atol=1e-10)
    many = np.concatenate([predictor(X[: WIDE_ROWS // 2])] * 4)
    near = np.abs(predictor(np.concatenate([X[: WIDE_ROWS // 2]] * 4)) - many).max()
    assert near <= 1e-4 * np.abs(many).max()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("mean", [30.0, 1e3, 1e5, 1e9])
@pytest.mark.parametrize("n_units", [0, 4])
def test_features_far_from_zero_have_the_answers_of_near_ones(dtype: str, mean: float, n_units: int) -> None:
    # A row was projected before its origin was subtracted: answers for up to 256 rows, which are computed in
    # float64, differed from those for more by 3e-3 of the largest, and both from those of the teacher.
    near = np.round(np.random.default_rng(0).standard_normal((600, 2)), 4)
    y, sizes = np.sin(near[:, 0]) + near[:, 1], SIZES | {"n_units": n_units}
    model = gm.FastKernelRegressor(learn="labels", dtype=dtype, **sizes).fit(near + mean, y)
    whole = model.predict(near + mean)
    largest = np.abs(whole).max()
    parts = [model.predict(near[at : at + 100] + mean) for at in range(0, 600, 100)]
    assert np.abs(np.concatenate(parts) - whole).max() <= 4e-6 * largest
    rows = [model.predict_one(x + mean) for x in near[:50]]
    assert np.abs(np.array(rows) - whole[:50]).max() <= 4e-6 * largest
    same = gm.FastKernelRegressor(learn="labels", dtype=dtype, **sizes).fit(near, y)
    assert abs(same.score(near, y) - model.score(near + mean, y)) < 1e-3
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(near + mean), whole)


@pytest.mark.parametrize("scale", [1e7, 1e-7])
def test_features_that_float16_cannot_hold_are_told_and_counted(scale: float) -> None:
    X = np.random.default_rng(0).standard_normal((200, 2)) * [1.0, scale]
    model = gm.FastKernelRegressor(learn="labels", dtype="float16", **SIZES)
    if scale < 1:
        with pytest.raises(InputError, match=r"float16 overflow .* feature 1 .* from 1: it is 1\.\d+e-07\."):
            model.fit(X, X[:, 1])
        return
    with pytest.warns(AccuracyWarning, match=r"float16 change the values .* feature 1 .* dtype='float64'"):
        model.fit(X, X[:, 1])
    # The fidelity is that of the numbers that are stored, not of those that were learned.
    assert model.fidelity_.value < 0.99
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.set_params(dtype="float64").fit(X, X[:, 1]).score(X, X[:, 1]) > 0.99


@pytest.mark.parametrize("kind", [gm.FastKernelRegressor, gm.FastKernelClassifier])
def test_copies_of_held_out_rows_are_not_learned_from(kind):
    # A teacher learns noise by heart; 45 rows of which copies were learned gave R² .88 and 96 %.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    y, five = (y > 0 if kind is gm.FastKernelClassifier else y), rng.permutation(np.repeat(np.arange(60), 5))
    asked = kind(n_levels=1, n_units=4, n_directions=2, random_state=0)
    with pytest.warns(gm.exceptions.AccuracyWarning, match="240 of 300 rows repeat one of the 60"):
        model = asked.fit(X[five], y[five])
    assert model.validation_score_ < (0.75 if kind is gm.FastKernelClassifier else 0.3)
    tens = np.sort(five // 2)
    held, kept = split_held_out(np.arange(300), np.zeros(300, int), tens)
    assert len(held) == 40
    assert not set(tens[held]) & set(tens[kept])
