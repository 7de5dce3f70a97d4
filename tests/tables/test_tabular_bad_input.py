"""Tables that are not as they should be: each has a defined answer, or an error that names the column."""

from __future__ import annotations

import datetime
import warnings
from typing import Any

import numpy as np
import pytest

import gramian as gm
from gramian.exceptions import AccuracyWarning, BudgetError, InputError
from gramian.tables.training.model_factory import ModelFactory

QUICK: dict[str, Any] = {
    "kernel": "laplacian",
    "metric": "diagonal",
    "scaling": "standard",
    "random_state": 0,
}
RNG = np.random.default_rng(0)
N = 60
GOOD = RNG.random(N)


def table_with(cells: Any) -> Any:
    """A table of a good column and another one."""
    table = np.empty((N, 2), object)
    table[:, 0] = GOOD
    table[:, 1] = cells
    return table


def regressor(**parameters: Any) -> Any:
    return gm.TabularRegressor(**{**QUICK, **parameters})


def classifier(**parameters: Any) -> Any:
    return gm.TabularClassifier(**{**QUICK, **parameters})


# ---- columns -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        ([None] * N, "Column '1' has no values and is not used."),
        ([3.5] * N, "Column '1' is constant and is not used."),
        ([f"id{i}" for i in range(N)], "Column '1' has values that hardly repeat and is not used."),
    ],
)
@pytest.mark.filterwarnings("ignore:These columns are not used, because")
def test_a_column_without_a_meaning_is_left_out_and_named(cells: Any, note: str) -> None:
    model = regressor().fit(table_with(cells), GOOD)
    assert model.columns_.notes == (note,)
    assert model.feature_importances_.tolist() == [1.0, 0.0]
    assert model.score(table_with(cells), GOOD) > 0.98


@pytest.mark.parametrize("make", [regressor, classifier])
def test_infinity_names_the_column_and_the_row(make: Any) -> None:
    X = np.stack([GOOD, GOOD], axis=1)
    X[7, 1] = np.inf
    with pytest.raises(InputError, match="Column '1' holds infinity in row 7"):
        make().fit(X, np.arange(N) % 2)
    model = make().fit(np.delete(X, 7, axis=0), np.delete(np.arange(N) % 2, 7))
    with pytest.raises(InputError, match="Column '1' holds infinity in row 7"):
        model.predict(X)


def test_dates_are_numbers_seasons_and_days() -> None:
    days = [datetime.datetime(2023, 1, 1) + datetime.timedelta(days=9 * i) for i in range(N)]
    y = np.array([float(day.month in (6, 7, 8)) for day in days])
    with pytest.warns(AccuracyWarning, match=r"pass time=X\[:, 1\] to fit"):
        model = regressor(scaling="auto").fit(table_with(days), y)
    assert model.feature_importances_[1] > 0.8
    assert model.score(table_with(days), y) > 0.8


def test_values_that_training_rows_had_not() -> None:
    model = regressor().fit(table_with(["a", "b", "c"] * (N // 3)), GOOD)
    new = table_with(["never seen"] * N)
    new[0, 0] = None
    new[1, 1] = None
    assert np.isfinite(model.predict(new)).all()
    with pytest.raises(InputError, match="Column '0' held numbers during fit and now holds text"):
        model.predict(table_with(["a"] * N)[:, ::-1])


def test_the_width_of_new_rows() -> None:
    model = regressor().fit(table_with(["a", "b"] * (N // 2)), GOOD)
    with pytest.raises(InputError, match="X has 1 features, but TabularRegressor is expecting 2 features"):
        model.predict(GOOD[:, None])
    with pytest.raises(InputError, match="Reshape your data"):
        model.predict(GOOD)
    with pytest.raises(InputError, match="0 sample"):
        model.predict(table_with(["a"] * N)[:0])


@pytest.mark.parametrize(
    ("X", "match"),
    [
        (np.ones((5, 0)), r"0 feature\(s\)"),
        (np.ones((0, 2)), r"0 sample\(s\)"),
        (np.ones(5), "Reshape your data"),
        (np.ones((5, 2), complex), "Complex data not supported"),
        ("table.csv", "expected a table"),
        (None, "expected a table"),
        ([[1.0, 2.0], [3.0]], "lists of one length"),
    ],
)
def test_what_is_no_table(X: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        regressor().fit(X, np.ones(5))


# ---- few rows ----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [regressor, classifier])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 10])
def test_few_rows(make: Any, n: int) -> None:
    X = RNG.random((n, 3))
    y = np.arange(n) % 2
    if n == 1:
        with pytest.raises(InputError, match=r"1 sample\(s\).*minimum of 2"):
            make().fit(X, y)
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = make().fit(X, y)
    assert [w.category for w in caught] == ([AccuracyWarning] if n < 6 else [])
    assert np.isfinite(model.predict(X)).all()
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_fewer_rows_than_columns() -> None:
    X = RNG.random((20, 200))
    assert np.isfinite(regressor().fit(X, X[:, 0]).predict(X)).all()


# ---- targets -----------------------------------------------------------------------------------


def test_a_target_of_one_value_is_that_value() -> None:
    X = RNG.random((N, 2))
    model = regressor().fit(X, np.full(N, 3.5))
    assert (model.predict(X) == 3.5).all()
    assert (model.predict_interval(X) == 3.5).all()
    assert model.feature_importances_.sum() == pytest.approx(1.0)


def test_kernels_have_the_names_of_other_estimators() -> None:
    X = np.random.default_rng(0).random((40, 2))
    for name, own in (("rbf", "gaussian"), (("matern12", "exponential", "rbf"), ("exponential", "gaussian"))):
        model, same = (regressor(kernel=kernel, effort="fast", random_state=0) for kernel in (name, own))
        assert model._kernels() == same._kernels()
        np.testing.assert_array_equal(model.fit(X, X[:, 0]).predict(X), same.fit(X, X[:, 0]).predict(X))
        assert model.kernel == name


def test_a_target_of_one_class() -> None:
    with pytest.raises(InputError, match="one class"):
        classifier().fit(RNG.random((N, 2)), ["only"] * N)


@pytest.mark.parametrize(
    ("make", "y", "match"),
    [
        (regressor, np.r_[GOOD[:3], np.nan, GOOD[4:]], r"NaN or infinity, first in row 3 \(from 0\)"),
        (regressor, [*map(str, GOOD[:5]), None, *map(str, GOOD[6:])], r"missing value, first in row 5 \(f"),
        (regressor, "price", r"y is the text 'price'; .* Pass the column: table\['price'\]"),
        (classifier, "town", "y is the text 'town'; expected one target for each row"),
        (classifier, np.eye(2)[np.arange(N) % 2], r"shape \(60, 2\): expected one label .*one-hot"),
        (regressor, np.r_[np.inf, GOOD[1:]], "infinity"),
        (regressor, ["a", "b"] * (N // 2), "cannot be read as numbers"),
        (regressor, GOOD[1:], "60 rows, but y has 59"),
        (regressor, None, "requires y to be passed"),
        (classifier, GOOD, "Unknown label type: continuous.* use TabularRegressor"),
        (classifier, np.r_[1.0, np.nan, np.ones(N - 2)], "NaN or infinity, first in row 1"),
        (classifier, None, "requires y to be passed"),
    ],
)
def test_targets_that_cannot_be_learned(make: Any, y: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        make().fit(RNG.random((N, 2)), y)


def test_targets_of_extreme_size() -> None:
    X = RNG.random((N, 2))
    for size in (1e-200, 1e200):
        model = regressor().fit(X, size * X[:, 0])
        assert np.corrcoef(model.predict(X) / size, X[:, 0])[0, 1] > 0.99


# ---- parameters --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"kernel": "lapacian"}, "kernel='lapacian' is unknown.*Did you mean 'laplacian'"),
        ({"kernel": 3}, "kernel=3 must be 'auto', or names from"),
        ({"kernel": ()}, "must be 'auto', or names from"),
        ({"kernel": ("gaussian", "x")}, "kernel='x' is unknown"),
        ({"metric": "ful"}, "metric='ful' is unknown"),
        ({"scaling": "minmax"}, "scaling='minmax' is unknown"),
        ({"target": "sqrt"}, "target='sqrt' is unknown"),
        ({"target": "log"}, "target='log' needs positive targets"),
        ({"categorical": ["town"]}, "categorical names 'town'"),
        ({"categorical": [True]}, "mask of length 1"),
        ({"categorical": "town"}, "is a string; give a list"),
        ({"time_limit": -1.0}, "time_limit=-1.0 must be a positive"),
        ({"time_limit": 0}, "time_limit=0 must be a positive"),
        ({"time_limit": np.inf}, "time_limit=inf must be a positive"),
        ({"time_limit": "1s"}, "time_limit='1s' must be a positive"),
        ({"memory_budget": "much"}, "memory_budget='much' is not a size"),
        ({"n_jobs": 0}, "n_jobs=0 is not a number of threads"),
        ({"random_state": "x"}, "random_state='x' cannot seed"),
    ],
)
def test_parameters_that_cannot_be(parameters: dict[str, Any], match: str) -> None:
    X = RNG.random((N, 2))
    model = regressor(**parameters)
    before = dict(vars(model))
    with pytest.raises(InputError, match=match):
        model.fit(X, X[:, 0] - 0.5)
    assert vars(model) == before  # nothing half fitted


def test_class_weights_that_cannot_be() -> None:
    X = RNG.random((N, 2))
    with pytest.raises(InputError, match="class_weight='balance' is unknown"):
        classifier(class_weight="balance").fit(X, X[:, 0] > 0.5)


@pytest.mark.parametrize("weights", [-np.ones(N), np.zeros(N), np.ones(N - 1), np.full(N, np.nan)])
def test_weights_that_cannot_be(weights: Any) -> None:
    with pytest.raises(InputError, match="sample_weight"):
        regressor().fit(RNG.random((N, 2)), GOOD, weights)


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.5, "0.9", True, np.nan])
def test_coverage_that_cannot_be(coverage: Any) -> None:
    X = RNG.random((N, 2))
    with pytest.raises(InputError, match="must be a number between 0 and 1"):
        regressor().fit(X, GOOD).predict_interval(X, coverage)


def test_coverage_that_the_held_out_rows_are_too_few_for() -> None:
    X = RNG.random((N, 2))
    model = regressor().fit(X, GOOD)
    assert len(model.residuals_) == N  # each row by a model without its fifth of the rows
    assert model.predict_interval(X, N / (N + 1)).shape == (N, 2)
    with pytest.raises(InputError, match=rf"coverage=0\.99 needs 99 held-out rows, but there were {N}"):
        model.predict_interval(X, 0.99)


def test_a_budget_below_the_smallest_model_is_told_before_larger_ones_are_planned(monkeypatch):
    plans, plan = [], ModelFactory.plan
    monkeypatch.setattr(ModelFactory, "plan", lambda *a, **k: plans.append(1) or plan(*a, **k))
    X = np.random.default_rng(0).standard_normal((700, 400))
    model = gm.TabularRegressor(
        time_limit=30, effort="fast", include=(), memory_budget="600kB", random_state=0
    )
    with pytest.raises(BudgetError, match="too small for the smallest model of 700 rows"):
        model.fit(X, X[:, 0])
    assert len(plans) <= 10  # 45, of which each looks at rows of all columns
