"""Importances of the columns of tables: permutation losses on rows that the models have not seen."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any

import numpy as np
import pytest

import gramian as gm
from gramian.data.source import ArraySource
from gramian.engine import Engine
from gramian.kernels.powered import PoweredExponential
from gramian.metric.metric import Metric
from gramian.tables import TableColumns
from gramian.tables.importance import permutation
from gramian.tables.importance.permutation import (
    HeldOutModel,
    column_places,
    column_shares,
    permutation_importances,
)
from gramian.tables.importance.unseen import Change, ExactUnseen, FoldsUnseen, fold_of
from gramian.tables.training import fit as tabular_fit

QUICK: dict[str, Any] = {"kernel": "laplacian", "metric": "diagonal", "scaling": "standard"}
QUICK |= {"random_state": 0, "include": (), "n_jobs": 1}
RNG = np.random.default_rng(0)


def rows_and_target(n: int = 400, d: int = 4) -> tuple[Any, Any]:
    """Rows of which the first column tells most of the target and the second one some."""
    rng = np.random.default_rng(1)
    X = rng.random((n, d))
    return X, np.sin(5 * X[:, 0]) + 0.4 * X[:, 1] + 0.05 * rng.standard_normal(n)


# ---- models that have not seen the rows --------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "q", "full"),
    [(1.0, 1.0, False), (2.0, 1.0, False), (2.0, 2.0, False), (2.0, 1.0, True), (2.0, 2.0, True)],
)
def test_values_of_changed_rows_are_those_of_the_dense_formula(
    p: float, q: float, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gramian.tables.importance.unseen.TILE_NUMBERS", 40)
    rng = np.random.default_rng(0)
    X, points = rng.standard_normal((30, 5)), np.arange(2, 27)
    metric = Metric(matrix=rng.standard_normal((5, 3))) if full else Metric(scales=rng.random(5))
    folds = (np.arange(0, 15), np.arange(15, 30))
    coefficients, offsets = rng.standard_normal((25, 2, 3)), rng.standard_normal((2, 3))
    kernel = PoweredExponential(1.7, p=p, q=q)
    unseen = ExactUnseen(kernel, metric, ArraySource(X), points, folds, coefficients, offsets, Engine(1))
    numbers = np.array([1, 4, 16, 20, 29])
    changes = [
        Change(np.array([3]), np.array([1, 2, 3, 4, 0])),
        Change(np.array([0, 4]), np.array([4, 3, 1, 0, 2])),
    ]
    found = unseen.changed(X[numbers], numbers, changes)
    T = np.diag(metric.scales) if metric.scales is not None else metric.matrix
    for j, change in enumerate([None, *changes]):
        for i, number in enumerate(numbers):
            row = X[number].copy()
            if change is not None:
                row[change.places] = X[numbers[change.order[i]], change.places]
            fold = 0 if number < 15 else 1
            wanted = offsets[fold].copy()
            for k, point in enumerate(points):
                distance = np.linalg.norm((row - X[point]) @ T, ord=p)
                wanted += math.exp(-((distance / 1.7) ** q)) * coefficients[k, fold]
            np.testing.assert_allclose(found[j, i], wanted, atol=2e-3 if q == 1.0 and p == 2.0 else 1e-5)
    again = ExactUnseen(kernel, metric, ArraySource(X), points, folds, coefficients, offsets, Engine(2))
    np.testing.assert_array_equal(again.changed(X[numbers], numbers, changes), found)


def test_a_row_that_every_model_has_seen_is_refused() -> None:
    assert fold_of([np.array([5, 1]), np.array([3])], np.array([3, 1])).tolist() == [1, 0]
    with pytest.raises(ValueError, match="a row is in no fold, so that every model has seen it"):
        fold_of([np.array([1])], np.array([1, 2]))


def test_boosting_answers_each_row_by_the_model_without_it() -> None:
    class Scaled:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def of(self, rows: Any) -> Any:
            return self.factor * rows[:, :1]

    X = RNG.random((6, 2))
    models: Any = (Scaled(1.0).of, Scaled(-1.0).of)
    unseen = FoldsUnseen((np.array([0, 2, 4]), np.array([1, 3, 5])), models)
    numbers = np.array([5, 0, 3, 4])
    change = Change(np.array([0]), np.array([1, 2, 3, 0]))
    found = unseen.changed(X[numbers], numbers, [change])
    signs = np.array([-1.0, 1.0, -1.0, 1.0])
    np.testing.assert_array_equal(found[0, :, 0], signs * X[numbers, 0])
    np.testing.assert_array_equal(found[1, :, 0], signs * X[numbers[change.order], 0])


def watched(monkeypatch: pytest.MonkeyPatch) -> list[HeldOutModel]:
    """Return a list that is filled with the models that fits judge columns by."""
    found: list[HeldOutModel] = []
    real = tabular_fit.LastFit.judged

    def judged(self: Any, *args: Any) -> HeldOutModel:
        found.append(real(self, *args))
        return found[-1]

    monkeypatch.setattr(tabular_fit.LastFit, "judged", judged)
    return found


@pytest.mark.parametrize(
    ("classes", "options"),
    [
        (0, {}),
        (0, {"kernel": ("laplacian", "gaussian")}),
        (2, {"include": ("boosting",)}),
        (3, {}),
        (0, {"memory_budget": "20MB", "effort": "fast"}),
        (2, {"memory_budget": "20MB", "effort": "fast"}),
    ],
)
def test_the_models_are_those_of_the_out_of_fold_predictions(
    classes: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unchanged rows have the values that ``oof_predictions_`` comes from, whatever the model is made of."""
    judged = watched(monkeypatch)
    X, y = rows_and_target(3_000 if "memory_budget" in options else 400)
    if classes:
        kind: Any = gm.TabularClassifier
        y = np.digitize(y, np.quantile(y, np.linspace(0.0, 1.0, classes + 1)[1:-1]))
    else:
        kind = gm.TabularRegressor
    model = kind(**{**QUICK, **options}).fit(X, y)
    (found,) = judged
    rows, numbers = np.asarray(found.source.take(found.numbers)), found.numbers
    np.testing.assert_array_equal(numbers, model.oof_rows_)
    parts = [each.changed(rows, numbers, [])[0] for each in found.members if each is not None]
    assert len(parts) == len(found.members) == len(getattr(model.model_, "members_", [0]))
    mean = sum(weight * part for weight, part in zip(found.weights, parts, strict=True))
    trees = None if found.boosted is None else found.boosted.changed(rows, numbers, [])[0]
    assert (trees is None) == (not hasattr(model.model_, "boosted_"))
    answers = found.answer(np.asarray(mean), trees)
    own = np.exp(answers) if classes else model._back(answers)
    np.testing.assert_allclose(own, model.oof_predictions_, atol=2e-3)


# ---- the formula -------------------------------------------------------------------------------


class Linear:
    """A model of rows: their product with coefficients."""

    def __init__(self, coefficients: Any) -> None:
        self.coefficients, self.asked = np.asarray(coefficients, float), list[Any]()

    def changed(self, rows: Any, numbers: Any, changes: Any) -> Any:
        self.asked.append((numbers, changes))
        return np.stack(
            [(rows if c is None else c.apply(rows)) @ self.coefficients for c in (None, *changes)]
        )[..., None]


def linear(X: Any, coefficients: Any, numbers: Any) -> tuple[HeldOutModel, Linear]:
    """Return a model that is judged by squared errors of the same coefficients, with noise, and its part."""
    y = X @ np.asarray(coefficients, float) + 0.1 * np.random.default_rng(9).standard_normal(len(X))
    part = Linear(coefficients)

    def loss(values: Any, numbers: Any) -> float:
        return float(np.mean((values[:, 0] - y[numbers]) ** 2))

    return HeldOutModel(ArraySource(X), numbers, [part], [1.0], None, lambda v, _: v, loss), part


def test_shares_and_errors_are_those_of_a_loop_over_columns_and_parts() -> None:
    X = RNG.standard_normal((300, 3))
    columns, metric = TableColumns.learn(X), np.array([0.2, 0.3, 0.5])
    numbers = np.arange(100, 300)
    model, part = linear(X, [2.0, 0.0, 1.0], numbers)
    found = permutation_importances(model, columns, metric, np.random.default_rng(3))
    ((asked, changes),) = part.asked
    np.testing.assert_array_equal(asked, numbers)
    assert len(changes) == 9  # three permutations of each column
    rises, errors = np.zeros(3), np.zeros(3)
    rows = X[numbers]
    for j in range(3):
        own = [change for change in changes if change.places.tolist() == [j]]

        def rise(some: Any, own: Any = own) -> float:
            after = [
                model.loss(change.apply(rows)[some] @ part.coefficients[:, None], numbers[some])
                for change in own
            ]
            return float(np.mean(after) - model.loss(rows[some] @ part.coefficients[:, None], numbers[some]))

        rises[j] = rise(np.arange(200))
        parts = [rise(np.delete(np.arange(200), block)) for block in np.arange(200).reshape(20, 10)]
        errors[j] = math.sqrt(19 / 20 * sum((each - np.mean(parts)) ** 2 for each in parts))
    total = np.maximum(rises, 0.0).sum()
    np.testing.assert_allclose(found.shares, np.maximum(rises, 0.0) / total)
    assert found.errors is not None
    np.testing.assert_allclose(found.errors, errors / total)
    assert (found.shares.sum(), found.reason) == (pytest.approx(1.0), "")
    # A column of variance 1 raises a squared error by twice its squared coefficient: 8 and 2.
    np.testing.assert_allclose(found.shares, [0.8, 0.0, 0.2], atol=4 * found.errors.max())


def test_each_row_takes_the_values_of_another_row() -> None:
    for count in (2, 3, 100):
        order = permutation._changes(np.arange(1), count, 1, np.random.default_rng(count))[0].order
        assert sorted(order.tolist()) == list(range(count))
        assert (order != np.arange(count)).all()


def test_columns_move_as_a_whole() -> None:
    table = np.empty((60, 3), object)
    table[:, 0] = RNG.random(60)
    table[::7, 0] = None
    table[:, 1] = np.resize(["a", "b", "c"], 60)
    table[:, 2] = 4.0
    columns = TableColumns.learn(table)
    assert [places.tolist() for places in column_places(columns)] == [[0, 1], [2, 3, 4], []]
    np.testing.assert_allclose(column_shares(columns, [1.0, 2.0, 3.0, 0.0, 4.0]), [0.3, 0.7, 0.0])
    np.testing.assert_allclose(column_shares(columns, np.zeros(5)), np.full(3, 1 / 3))


def test_many_columns_beyond_the_leading_ones_share_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permutation, "MOST_COLUMNS", 4)
    X = RNG.standard_normal((500, 12))
    coefficients = [3.0, 2.0, 1.0, *np.full(9, 0.5)]
    model, part = linear(X, coefficients, np.arange(500))
    metric = np.array([0.3, 0.2, 0.1, *np.arange(9, 0, -1) / 45 * 0.4])
    found = permutation_importances(model, TableColumns.learn(X), metric, np.random.default_rng(0))
    ((_, changes),) = part.asked
    assert {len(change.places) for change in changes} == {1, 9}
    np.testing.assert_allclose(found.shares.sum(), 1.0)
    np.testing.assert_allclose(found.shares[3:] / found.shares[3:].sum(), metric[3:] / metric[3:].sum())
    np.testing.assert_allclose(found.shares[3:].sum(), 9 * 0.25 / (14.0 + 9 * 0.25), atol=0.03)


@pytest.mark.parametrize("d", [1, 10, 100, 1_000])
def test_work_is_bounded_for_any_number_of_columns(d: int) -> None:
    X = RNG.standard_normal((3_000, d))
    model, part = linear(X, np.ones(d), np.arange(3_000))
    found = permutation_importances(
        model, TableColumns.learn(X), np.full(d, 1.0 / d), np.random.default_rng(0)
    )
    for numbers, _ in part.asked:
        assert permutation.FEWEST_ROWS <= len(numbers) <= permutation.MOST_ROWS
    asked = sum(len(numbers) * len(changes) for numbers, changes in part.asked)
    assert asked <= 1.5 * permutation.ASKED
    assert [len(changes) for _, changes in part.asked][1:] == ([3] if d >= 10 else [])
    np.testing.assert_allclose(found.shares.sum(), 1.0)


def test_the_least_certain_columns_are_permuted_in_all_rows() -> None:
    X = RNG.standard_normal((2_500, 20))
    coefficients = np.r_[3.0, 2.0, 2.0, np.full(17, 0.01)]
    model, part = linear(X, coefficients, np.arange(2_500))
    found = permutation_importances(model, TableColumns.learn(X), np.full(20, 0.05), np.random.default_rng(0))
    (few, all_columns), (many, leading) = part.asked
    assert (len(few), len(all_columns), len(many)) == (300, 20, 2_000)
    assert np.isin(few, many).all()
    assert sorted(change.places.item() for change in leading) == [0, 1, 2]
    np.testing.assert_allclose(found.shares[:3], coefficients[:3] ** 2 / 17.0, atol=0.03)


def test_without_evidence_the_shares_are_those_of_the_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    X, metric = RNG.standard_normal((200, 2)), np.array([0.7, 0.3])
    columns, rng = TableColumns.learn(X), np.random.default_rng(0)
    dull, _ = linear(X, [0.0, 0.0], np.arange(200))
    none, _ = linear(X, [1.0, 1.0], np.arange(0))
    late, part = linear(X, [1.0, 1.0], np.arange(200))
    clock = iter([0.0, 10.0, 0.0, 0.1, 0.0, 2.0])  # a trial of 200 rows and one change begins and ends
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    for model, limit, until, reason in (
        (dull, None, math.inf, "no permuted column raises the held-out loss"),
        (none, None, math.inf, "no rows were held out"),
        (late, 30.0, 15.0, "time_limit left too little time to permute columns"),
    ):
        found = permutation_importances(model, columns, metric, rng, limit, until)
        assert (found.errors, found.reason) == (None, reason)
        np.testing.assert_array_equal(found.shares, metric)
    assert [len(numbers) for numbers, _ in part.asked] == [permutation.TRIAL_ROWS]
    # Enough time for all, and for a part of it: 1,000 rows in 5 s.
    for asked in (permutation.ASKED, 1_000):
        part.asked.clear()
        assert permutation_importances(late, columns, metric, rng, 30.0, 7.0).reason == ""
        done = sum(len(numbers) * len(changes) for numbers, changes in part.asked[1:])
        assert done <= asked
    assert done >= 400


# ---- estimators --------------------------------------------------------------------------------


def test_importances_are_those_of_rows_apart() -> None:
    """As scikit-learn's on rows that no fit has seen, within the errors of both."""
    from sklearn.inspection import permutation_importance

    X, y = rows_and_target(900)
    model = gm.TabularRegressor(**QUICK).fit(X[:400], y[:400])
    apart = permutation_importance(
        model, X[400:], y[400:], scoring="neg_mean_squared_error", n_repeats=5, random_state=0
    )
    wanted = np.maximum(apart.importances_mean, 0.0)
    shares, errors = model.feature_importances_, model.feature_importances_std_
    assert errors is not None
    np.testing.assert_allclose(shares, wanted / wanted.sum(), atol=0.06)
    assert shares.sum() == pytest.approx(1.0)
    assert (errors >= 0.0).all()
    assert errors.max() < 0.1
    np.testing.assert_allclose(model.metric_importances_.sum(), 1.0)
    assert model.importances_reason_ == ""
    assert f"± {100 * errors[0]:.1f} %" in str(model.summary())


def test_equal_columns_share_what_one_would_have() -> None:
    X, y = rows_and_target(300)
    shares = gm.TabularRegressor(**QUICK).fit(np.column_stack([X, X[:, 0]]), y).feature_importances_
    assert 0.5 < shares[0] + shares[4] < 1.0
    assert min(shares[0], shares[4]) > shares[2:4].max()


@pytest.mark.filterwarnings("ignore:These columns are not used")
def test_a_column_that_is_not_used_has_none_and_a_single_one_has_all() -> None:
    X, y = rows_and_target(200)
    table = np.empty((200, 3), object)
    table[:, 0], table[:, 1], table[:, 2] = X[:, 0], 1.0, [f"id{i}" for i in range(200)]
    model = gm.TabularRegressor(**QUICK).fit(table, y)
    assert model.feature_importances_.tolist() == [1.0, 0.0, 0.0]
    assert model.feature_importances_std_ is not None
    assert model.feature_importances_std_[1:].tolist() == [0.0, 0.0]


def test_several_outputs_missing_values_and_weights() -> None:
    X, y = rows_and_target(400)
    X[::5, 1] = np.nan
    several = np.column_stack([y, X[:, 2]])
    weights = np.where(np.arange(400) % 3 == 0, 0.0, 1.0)
    model = gm.TabularRegressor(**QUICK).fit(X, several, weights)
    assert model.feature_importances_[[0, 2]].sum() > 0.8
    kept = weights > 0
    again = gm.TabularRegressor(**QUICK).fit(X[kept], several[kept])
    np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)
    assert set(model.oof_rows_) <= set(np.flatnonzero(kept))


@pytest.mark.parametrize("how", ["groups", "time"])
def test_rows_are_the_held_out_ones_of_groups_and_times(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = watched(monkeypatch)
    X, y = rows_and_target(300)
    values = np.arange(300) // 10
    model = gm.TabularRegressor(**QUICK).fit(X, y, **{how: values})
    (found,) = judged
    np.testing.assert_array_equal(found.numbers, model.oof_rows_)
    folds = [fold for part in found.members for fold in part.folds]  # type: ignore[union-attr]
    for fold in folds:  # a group or a time is left out as a whole
        inside = np.isin(values, values[fold])
        np.testing.assert_array_equal(np.flatnonzero(inside), np.sort(fold))
    if how == "time":
        assert values[found.numbers].min() > np.delete(values, found.numbers).max()


def test_model_files_and_compressed_models_hold_the_numbers(tmp_path: Any) -> None:
    X, y = rows_and_target(200)
    model = gm.TabularClassifier(**QUICK).fit(X, y > np.median(y))
    again = gm.load(gm.save(model, tmp_path / "m.gramian") or tmp_path / "m.gramian")
    fast = model.compress(X, n_levels=0, n_units=4, n_directions=2)
    for name in ("feature_importances_", "feature_importances_std_", "importances_reason_"):
        for other in (again, fast):
            np.testing.assert_array_equal(getattr(other, name), getattr(model, name))
    np.testing.assert_array_equal(again.metric_importances_, model.metric_importances_)


def test_the_permutations_come_after_all_other_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictions are those of a fit without importances by permutation."""
    X, y = rows_and_target(150)
    make = partial(gm.TabularRegressor, **QUICK)
    found = make().fit(X, y)
    none = permutation.Importances(np.full(4, 0.25))
    monkeypatch.setattr("gramian.tables.base.permutation_importances", lambda *_: none)
    without = make().fit(X, y)
    np.testing.assert_array_equal(found.predict(X), without.predict(X))
    np.testing.assert_array_equal(found.residuals_, without.residuals_)
    assert without.feature_importances_std_ is None
