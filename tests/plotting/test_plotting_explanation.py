"""The display of an explanation: what it draws are the numbers of the value."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import gramian as gm

pytest.importorskip("matplotlib")

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from gramian.plotting import ExplanationDisplay

X = np.random.default_rng(0).random((60, 3))
MODEL = gm.KernelRidge(0.1, gamma=4.0, approximation="exact", fit_intercept=True).fit(X, X[:, 0] - X[:, 1])


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_a_waterfall_goes_from_the_base_to_the_prediction() -> None:
    display = ExplanationDisplay.from_estimator(MODEL, X[:3], row=1, n_columns=2)
    own = MODEL.explain(X[:3])[1]
    assert display.names[0].startswith("feature ")
    assert display.names[-1] == "all other columns"
    bars = display.ax_.patches
    np.testing.assert_allclose([bar.get_width() for bar in bars], display.values)
    first, last = bars[-1], bars[0]  # the smallest is at the bottom
    np.testing.assert_allclose(first.get_x(), own.base[0])
    np.testing.assert_allclose(last.get_x() + last.get_width(), own.prediction[0])
    for above, below in itertools.pairwise(bars):
        np.testing.assert_allclose(above.get_x(), below.get_x() + below.get_width())


def test_bars_are_mean_absolute_values() -> None:
    found = MODEL.explain(X)
    display = ExplanationDisplay(found, kind="bar").plot()
    np.testing.assert_allclose(display.values, np.sort(np.abs(found.values).mean(axis=0))[::-1])
    assert [bar.get_width() for bar in display.ax_.patches] == display.values.tolist()


def test_a_beeswarm_has_a_point_for_each_row_and_column() -> None:
    found = MODEL.explain(X)
    display = ExplanationDisplay(found, kind="beeswarm", n_columns=2).plot()
    clouds = [each.get_offsets() for each in display.ax_.collections]
    assert len(clouds) == 2
    np.testing.assert_allclose(clouds[0][:, 0], display.values[:, 0])
    assert (np.abs(clouds[0][:, 1]) <= 0.4).all()
    one = ExplanationDisplay(found[3], kind="beeswarm").plot()
    assert one.ax_.collections[0].get_offsets()[0, 1] == 0.0


def test_a_dependence_is_drawn_against_the_column() -> None:
    found = MODEL.explain(X)
    display = ExplanationDisplay(found, kind="dependence", column="feature 1").plot()
    np.testing.assert_allclose(display.ax_.collections[0].get_offsets(), np.c_[X[:, 1], found.values[:, 1]])
    assert ExplanationDisplay(found, kind="dependence").column in (0, 1)
    with pytest.raises(gm.InputError, match="column='town' is none of the 3 columns"):
        ExplanationDisplay(found, kind="dependence", column="town")


def test_text_and_dates_of_a_frame_have_places() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "area": X[:, 0],
            "town": np.where(X[:, 1] > 0.5, "Bath", "Hull"),
            "day": np.random.default_rng(1).permutation(pd.date_range("2020-01-01", periods=60)),
        }
    )
    frame.loc[3, "area"] = np.nan
    model = gm.TabularRegressor(random_state=0, effort="instant").fit(frame, X[:, 0] + (X[:, 1] > 0.5))
    found = model.explain(frame, X_train=frame, n_draws=16)
    assert found.data.shape == (60, 3)
    for column in frame:
        display = ExplanationDisplay(found, kind="dependence", column=column).plot()
        assert len(display.ax_.collections[0].get_offsets()) == 60
    display = ExplanationDisplay(found, kind="dependence", column="town").plot()
    assert [each.get_text() for each in display.ax_.get_xticklabels()] == ["Bath", "Hull"]
    assert ExplanationDisplay(found, kind="beeswarm").plot().ax_.collections
    names = ExplanationDisplay(found, row=0).names
    assert any(name.startswith("town = ") for name in names)


def test_what_cannot_be_drawn_says_so() -> None:
    found = MODEL.explain(X[:2], columns=False)
    with pytest.raises(gm.InputError, match="no values of columns"):
        ExplanationDisplay(found)
    with pytest.raises(gm.InputError, match=r"what model.explain\(X\) returns"):
        ExplanationDisplay(3)
    with pytest.raises(gm.InputError, match="kind='pie'"):
        ExplanationDisplay(MODEL.explain(X[:2]), kind="pie")
    stored = MODEL.explain(sp.csr_array(X[:5]))
    assert stored.data is None
    with pytest.raises(gm.InputError, match="Explain rows that are given as an array or a frame"):
        ExplanationDisplay(stored, kind="dependence")
    ExplanationDisplay(stored, kind="beeswarm").plot()


def test_classes_are_named() -> None:
    labels = np.where(X[:, 0] > 0.5, "up", "down")
    model = gm.KernelRidgeClassifier(gamma=4.0, approximation="exact").fit(X, labels)
    display = ExplanationDisplay.from_estimator(model, X[:1], output="down")
    assert "for down" in display.ax_.get_title(loc="left")
