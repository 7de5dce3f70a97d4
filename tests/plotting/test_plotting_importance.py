"""ImportanceDisplay: its bars, whose importances it draws, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import gramian as gm
from gramian.exceptions import InputError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot as plt

from gramian.plotting import ImportanceDisplay


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5))
    return gm.KernelRidge(0.1, metric="diagonal", random_state=0).fit(X, np.sin(2 * X[:, 3]))


def labels(display):
    return [text.get_text() for text in display.ax_.get_yticklabels()]


def texts(display):
    return [text.get_text() for text in display.ax_.texts]


def test_bars_are_the_largest_shares_in_order():
    given = np.array([0.05, 0.5, 0.0, 0.25, 0.2])
    given.flags.writeable = False
    display = ImportanceDisplay(given, ["a", "b", "c", "d", "e"], n_features=3).plot()
    assert labels(display) == ["b", "d", "e"]
    assert [bar.get_width() for bar in display.bars_] == [0.5, 0.25, 0.2]
    assert {"50 %", "25 %", "20 %", "3 of 5 features; the others together 5 %"} <= set(texts(display))
    # The first is on top.
    bottom, top = display.ax_.get_ylim()
    assert bottom > 2 > 0 > top
    assert ImportanceDisplay([0.9, 0.1], n_features=1).plot().ax_.texts[-1].get_text() == (
        "1 of 2 features; the other 10 %"
    )


def test_equal_shares_keep_the_order_of_columns_and_long_names_are_cut():
    display = ImportanceDisplay(np.full(4, 0.25), ["n" * 40, 1, "c", "d"]).plot()
    assert labels(display) == ["n" * 31 + "…", "1", "c", "d"]
    assert "4 features" in texts(display)
    assert display.feature_names[0] == "n" * 40


def test_tiny_shares_are_not_written_with_digits():
    display = ImportanceDisplay([0.99895, 0.0004, 0.0, 0.00065], n_features=3).plot()
    assert texts(display)[:3] == ["99.9 %", "under 0.1 %", "under 0.1 %"]
    assert texts(display)[-1] == "3 of 4 features; the other 0 %"


def test_nothing_that_counts_is_drawn_as_that():
    display = ImportanceDisplay([0.0]).plot()
    assert labels(display) == ["feature 0"]
    assert display.ax_.get_xlim() == (0.0, 1.0)
    assert "1 feature" in texts(display)


def test_importances_of_a_model_with_a_metric(model):
    display = ImportanceDisplay.from_estimator(model, n_features=2, title="Mine")
    np.testing.assert_array_equal(display.importances, model.feature_importances_)
    assert labels(display)[0] == "feature 3"
    assert display.ax_.get_title(loc="left") == "Mine"
    _, ax = plt.subplots()
    named = ImportanceDisplay.from_estimator(model, feature_names=list("vwxyz"), ax=ax)
    assert (named.ax_, labels(named)[0]) == (ax, "y")


def test_names_of_a_table_are_those_of_its_columns():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"dull": rng.standard_normal(120), "telling": rng.standard_normal(120)})
    model = gm.TabularRegressor(random_state=0).fit(frame, np.sin(2 * frame["telling"]))
    assert labels(ImportanceDisplay.from_estimator(model)) == ["telling", "dull"]


def test_what_has_no_importances_says_how_to_get_them(model):
    X, y = np.zeros((20, 2)) + np.arange(20.0)[:, None], np.arange(20.0)
    for plain in (gm.KernelRidge(0.1, gamma=0.1).fit(X, y), LinearRegression().fit(X, y)):
        with pytest.raises(
            InputError, match=r"has no feature_importances_: .* Fit it with metric='diagonal'"
        ):
            ImportanceDisplay.from_estimator(plain)
    with pytest.raises(NotFittedError):
        ImportanceDisplay.from_estimator(gm.KernelRidge(metric="diagonal"))
    with pytest.raises(InputError, match="model has type ndarray; expected a fitted estimator"):
        ImportanceDisplay.from_estimator(X)
    with pytest.raises(InputError, match="feature_names has 2 names, but there are 5 features"):
        ImportanceDisplay.from_estimator(model, feature_names=["a", "b"])


@pytest.mark.parametrize(
    ("importances", "names", "options", "message"),
    [
        ([[0.5, 0.5]], None, {}, r"importances has shape \(1, 2\); expected \(d,\)"),
        ([], None, {}, r"importances has shape \(0,\)"),
        (["a"], None, {}, "importances cannot be read as numbers"),
        ([0.5, np.nan], None, {}, "negative, NaN or infinite"),
        ([0.5, -0.1], None, {}, "negative, NaN or infinite"),
        ([0.5, 0.5], "ab", {}, "feature_names='ab' is one text; pass a list of 2 names"),
        ([0.5], None, {"n_features": 0}, "n_features"),
    ],
)
def test_unusable_numbers_are_refused(importances, names, options, message):
    with pytest.raises(InputError, match=message):
        ImportanceDisplay(importances, names, **options)


def test_errors_are_lines_to_either_side_of_the_ends_of_the_bars():
    display = ImportanceDisplay([0.25, 0.75], errors=[0.0625, 0.125]).plot()
    (lines,) = display.ax_.collections
    ends = [segment[:, 0].tolist() for segment in lines.get_segments()]
    assert ends == [[0.625, 0.875], [0.1875, 0.3125]]
    assert not ImportanceDisplay([0.25, 0.75]).plot().ax_.collections
    with pytest.raises(InputError, match="errors has length 1, but there are 2 importances"):
        ImportanceDisplay([0.25, 0.75], errors=[0.1])
    with pytest.raises(InputError, match="errors holds a number that is negative, NaN or infinite"):
        ImportanceDisplay([0.25, 0.75], errors=[0.1, np.nan])
