"""The display of an explanation: its bars are the numbers of the value."""

from __future__ import annotations

import numpy as np
import pytest

import gramian as gm

pytest.importorskip("matplotlib")

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from gramian.plotting import ExplanationDisplay

X = np.random.default_rng(0).random((60, 2))
MODEL = gm.KernelRidge(0.1, gamma=4.0, approximation="exact", fit_intercept=True).fit(X, X[:, 0])


def test_bars_add_up() -> None:
    display = ExplanationDisplay.from_estimator(MODEL, X[:3], row=1, n_points=4)
    assert len(display.axes_) == 2
    np.testing.assert_allclose(sum(display.values), MODEL.predict(X[1:2])[0], rtol=1e-6)
    widths = [bar.get_width() for bar in display.axes_[0].patches]
    np.testing.assert_allclose(widths, display.values)
    assert display.names[-2:] == ["all other training rows", "base"]
    assert [t.get_text() for t in display.axes_[1].get_yticklabels()] == display.column_names
    plt.close("all")


def test_axes_are_the_callers() -> None:
    found = MODEL.explain(X[:1], columns=False)
    figure, ax = plt.subplots()
    display = ExplanationDisplay(found).plot(ax)
    assert display.figure_ is figure
    with pytest.raises(gm.InputError, match="ax has 2 axes, but the display has 1 panels"):
        ExplanationDisplay(found).plot(plt.subplots(1, 2)[1])
    with pytest.raises(gm.InputError, match=r"what model.explain\(X\) returns"):
        ExplanationDisplay(3)
    plt.close("all")


def test_classes_are_named() -> None:
    model = gm.KernelRidgeClassifier(gamma=4.0, approximation="exact").fit(
        X, np.where(X[:, 0] > 0.5, "up", "down")
    )
    display = ExplanationDisplay.from_estimator(model, X[:1], output="down")
    assert "for down" in display.axes_[0].texts[0].get_text() or any(
        "for down" in t.get_text() for t in display.axes_[0].texts
    )
    plt.close("all")
