"""Hold-outs of table models: whole groups, the latest rows, and what cannot be held out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gramian as gm
from gramian.data.tables import as_table
from gramian.exceptions import InputError
from gramian.tables.holdout import HoldOut
from gramian.tables.training import fit as tabular_fit

pd = pytest.importorskip("pandas")

QUICK: dict[str, Any] = {
    "kernel": "laplacian",
    "metric": None,
    "scaling": "standard",
    "random_state": 0,
    "include": (),
}


def grouped(n: int = 400, count: int = 20, seed: int = 0) -> tuple[Any, Any]:
    """Rows whose target has a part that belongs to the group, which a column gives away."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, count, n)
    trait, level = rng.standard_normal(count), rng.standard_normal(count)
    x = rng.random(n)
    frame = pd.DataFrame({"x": x, "trait": trait[group], "group": [f"g{k:02d}" for k in group]})
    return frame, np.sin(6 * x) + level[group] + 0.1 * rng.standard_normal(n)


def test_whole_groups_are_held_out() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 30, 40)
    groups = rng.permutation(np.repeat(np.arange(40), sizes))
    holdout, numbers = HoldOut(groups=groups), np.arange(len(groups))
    held = holdout.held(numbers, len(groups) // 5, rng)
    assert len(groups) // 10 < len(held) <= len(groups) // 5
    assert not np.isin(groups[held], groups[np.setdiff1d(numbers, held)]).any()
    folds = holdout.folds(numbers, 5, rng)
    assert folds is not None
    assert np.array_equal(np.sort(np.concatenate(folds)), numbers)
    assert max(map(len, folds)) <= 1.3 * min(map(len, folds))
    assert all(len(np.intersect1d(groups[a], groups[b])) == 0 for a in folds for b in folds if a is not b)


def test_a_group_larger_than_asked_is_held_out_if_there_is_no_smaller_one() -> None:
    holdout = HoldOut(groups=np.repeat([0, 1], [70, 30]))
    held = holdout.held(np.arange(100), 20, np.random.default_rng(0))
    np.testing.assert_array_equal(held, np.arange(70, 100))


def test_the_latest_rows_are_held_out_and_equal_times_stay_together() -> None:
    times = np.array([5.0, 1.0, 3.0, 3.0, 2.0, 4.0, 3.0, 0.0])
    holdout = HoldOut(times=times)
    np.testing.assert_array_equal(holdout.held(np.arange(8), 3, np.random.default_rng(0)), [0, 2, 3, 5, 6])
    assert holdout.folds(np.arange(8), 2, np.random.default_rng(0)) is None


def test_groups_are_the_same_whatever_names_them() -> None:
    numbers = np.random.default_rng(0).integers(0, 30, 300)
    table = as_table(np.zeros((300, 1)))
    names = {"text": numbers.astype(str), "others": (7 - 3 * numbers).tolist(), "objects": numbers * 0.5}
    drawn = []
    for groups in (numbers, *names.values()):
        holdout = HoldOut.of(table, groups, None)
        held = holdout.held(np.arange(300), 60, np.random.default_rng(1))
        drawn.append([held, *(holdout.folds(np.arange(300), 4, np.random.default_rng(1)) or ())])
    for other in drawn[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(drawn[0], other, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [gm.TabularRegressor, gm.TabularClassifier])
@pytest.mark.parametrize("by", ["name", "array"])
def test_a_fit_respects_groups(estimator: Any, by: str, monkeypatch: Any) -> None:
    X, y = grouped()
    y = y if estimator is gm.TabularRegressor else y > 0
    parts, kept = tabular_fit._average, []

    def spied(members: Any, held: Any, loss: Any) -> Any:
        kept.append((members, held))
        return parts(members, held, loss)

    monkeypatch.setattr(tabular_fit, "_average", spied)
    groups: Any = "group" if by == "name" else X.pop("group")
    model = estimator(**QUICK).fit(X, y, groups=groups)
    codes = pd.factorize(grouped()[0]["group"])[0]
    held = kept[0][1]
    rest = np.setdiff1d(np.arange(len(X)), held)
    assert 0 < len(held) < len(X)
    assert not np.isin(codes[held], codes[rest]).any()
    if by == "name":
        assert any("tells which rows belong together" in note for note in model.columns_.notes)
        assert model.predict(X.drop(columns="group")).shape == (len(X),)
    assert len(model.predict(X)) == len(X)


def test_intervals_of_new_groups_cover_if_groups_are_held_out() -> None:
    X, y = grouped(600, 60)
    new, wanted = grouped(600, 60, seed=1)
    names = X.pop("group")
    new = new.drop(columns="group")

    def coverage(**options: Any) -> float:
        low, high = gm.TabularRegressor(**QUICK).fit(X, y, **options).predict_interval(new).T
        return float(np.mean((low <= wanted) & (wanted <= high)))

    assert coverage(groups=names) > 0.8
    assert coverage(groups=names) > coverage() + 0.2


@pytest.mark.parametrize("by", ["numbers", "dates"])
def test_a_fit_respects_time(by: str, monkeypatch: Any) -> None:
    rng = np.random.default_rng(0)
    day = rng.permutation(300)
    X = pd.DataFrame({"x": rng.random(300), "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(day, "D")})
    kept = []
    real = tabular_fit._average
    monkeypatch.setattr(
        tabular_fit, "_average", lambda members, held, loss: kept.append(held) or real(members, held, loss)
    )
    time: Any = "day" if by == "dates" else day
    model = gm.TabularRegressor(**QUICK).fit(X, X["x"] + 0.01 * day, time=time)
    np.testing.assert_array_equal(np.sort(day[kept[0]]), np.arange(240, 300))
    assert len(model.residuals_) == 60
    assert any(column.name == "day" and not column.dropped for column in model.columns_.columns)


def test_rows_of_weight_0_and_groups_go_together() -> None:
    X, y = grouped()
    weights = (np.arange(len(X)) % 4 > 0).astype(float)
    kept = weights > 0
    one = gm.TabularRegressor(**QUICK).fit(X, y, weights, groups="group")
    two = gm.TabularRegressor(**QUICK).fit(X[kept], y[kept], np.ones(kept.sum()), groups="group")
    np.testing.assert_allclose(one.predict(X), two.predict(X))


DAYS = np.arange("2020-01-01", "2021-02-04", dtype="datetime64[D]")


@pytest.mark.parametrize(
    "texts",
    [
        [f"{day}T00:00Z" for day in DAYS],
        [f"{day}T02:00+02:00" for day in DAYS],
        [day.strftime("%d/%m/%Y") for day in DAYS.tolist()],
        [day.strftime("%B %d, %Y") for day in DAYS.tolist()],
        [day.strftime("%d/%m/%Y 02:00+02:00") for day in DAYS.tolist()],
        [day.strftime("%m/%d/%Y 00:00Z") for day in DAYS.tolist()],
        [day.strftime("%Y/%m/%d 00:00 UTC") for day in DAYS.tolist()],
    ],
)
def test_times_may_be_dates_as_text(texts: list[str]) -> None:
    X, _ = grouped()
    order = np.random.default_rng(0).permutation(400)
    texts = [texts[i] for i in order]
    want = HoldOut.of(as_table(X), None, DAYS[order]).times
    np.testing.assert_array_equal(HoldOut.of(as_table(X), None, texts).times, want)
    np.testing.assert_array_equal(HoldOut.of(as_table(X.assign(day=texts)), None, "day").times, want)


@pytest.mark.parametrize(
    ("texts", "match"),
    [
        (["01/02/2020", "03/02/2020"] * 200, "'01/02/2020', may have the day or the month first"),
        (
            [*map(str, DAYS[:399]), "soon"],
            r"'2020-01-01' is a date with the year first, 'soon' is none\. Pass",
        ),
        (["2020-01-31"] * 399 + [" "], r"time has no value in row 399"),
        (["5"] * 400, r"time holds text \('5'\), which cannot be read as dates\. Pass numbers or dates"),
    ],
)
def test_text_that_is_no_time_is_explained(texts: list[str], match: str) -> None:
    X, _ = grouped()
    with pytest.raises(InputError, match=match):
        HoldOut.of(as_table(X), None, texts)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"groups": np.zeros(400)}, "groups has a single group"),
        ({"groups": "grup"}, r"groups='grup' is not a column of X.*Did you mean 'group'"),
        ({"groups": np.zeros(3)}, r"groups has shape \(3,\); expected \(400,\)"),
        ({"groups": np.r_[np.nan, np.arange(399.0)]}, r"groups has no value in row 0"),
        ({"time": np.r_[np.arange(399.0), np.nan]}, r"time has no value in row 399"),
        ({"time": np.r_[np.arange(399.0), np.inf]}, r"time has infinity in row 399"),
        ({"time": np.ones(400)}, "time is the same in all rows"),
        (
            {"groups": np.ma.array(np.arange(400), mask=np.arange(400) < 3)},
            "groups is a masked array, and 3 of",
        ),
        ({"time": np.ma.array(np.arange(400), mask=np.arange(400) < 1)}, "time is a masked array, and 1 of"),
        ({"time": "group"}, r"time holds text \('g\d\d'\), which cannot be read as dates\. Pass"),
        ({"time": np.arange(400), "groups": "group"}, "groups and time are both given"),
    ],
)
def test_what_cannot_be_held_out(options: Any, match: str) -> None:
    X, y = grouped()
    model = gm.TabularRegressor(**QUICK)
    with pytest.raises(InputError, match=match):
        model.fit(X, y, **options)
    assert not hasattr(model, "columns_")


def test_a_group_for_each_row_warns() -> None:
    X, _ = grouped()
    with pytest.warns(UserWarning, match="a group of its own for each row"):
        HoldOut.of(as_table(X), np.arange(400), None)


def test_an_array_without_names_takes_no_name() -> None:
    with pytest.raises(InputError, match="X has no column names: pass an array"):
        HoldOut.of(as_table(np.ones((4, 2))), "group", None)


def test_groups_of_one_class_each() -> None:
    X, _ = grouped()
    labels = np.where(np.arange(len(X)) < 200, "a", np.where(np.arange(len(X)) < 390, "b", "c"))
    groups = np.where(labels == "c", 2, np.where(labels == "b", 1, 0))
    model = gm.TabularClassifier(**QUICK).fit(X.drop(columns="group"), labels, groups=groups)
    chances = model.predict_proba(X.drop(columns="group"))
    assert chances.shape == (len(X), 3)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)


def test_an_index_that_repeats_changes_nothing() -> None:
    X, y = grouped()
    repeats = X.copy()
    repeats.index = np.zeros(len(X), int)
    one, two = (gm.TabularRegressor(**QUICK).fit(rows, y, groups="group") for rows in (X, repeats))
    np.testing.assert_array_equal(one.predict(X), two.predict(repeats))
