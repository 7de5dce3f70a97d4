"""LearningDisplay: what it draws is what the model learned, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import gramian as gm
from gramian.exceptions import InputError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from gramian.plotting import LearningDisplay


def fitted(columns=None, **options):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 5, (620, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(620)
    if columns is not None:
        X = pytest.importorskip("pandas").DataFrame(X, columns=columns)
    return gm.GaussianProcessRegressor(random_state=0, n_jobs=1, **options).fit(X, y)


def test_lines_and_marks_are_the_stages_and_starts_of_the_model():
    gp = fitted(["age", "income"])
    display = LearningDisplay.from_estimator(gp)
    learned = gp.optimizer_report_
    assert len(learned.stages) > 1
    for i, (line, marks) in enumerate(zip(display.lines_, display.starts_, strict=True)):
        np.testing.assert_allclose(line.get_ydata(), np.exp([stage.theta[i] for stage in learned.stages]))
        np.testing.assert_allclose(marks.get_ydata(), np.exp([start.theta[i] for start in learned.starts]))
    assert len(learned.starts) == 3
    assert display.names == ["signal variance", "lengthscale of age", "lengthscale of income", "noise"]
    assert display.mark_.get_xdata()[0] == display.chosen
    np.testing.assert_allclose(learned.stages[display.chosen].theta, gp.theta_, rtol=1e-9)
    # Of so few rows none are left out, so that there are no losses to tell.
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["500", "620"]
    assert display.ax_.get_title(loc="left") == f"Kept: stage {display.chosen + 1} of 2"


def test_losses_are_told():
    display = LearningDisplay(
        *([[1.0], [2.0]], [500, 3000], 1),
        losses=[0.5, -0.25],
        starts=[[1.0], [3.0]],
        start_losses=[0.5, 0.75],
    ).plot()
    ticks = [text.get_text() for text in display.ax_.get_xticklabels()]
    assert ticks == ["500\nloss 0.5", "3,000\nloss −0.25"]
    assert display.ax_.get_title(loc="left") == "Kept: stage 2 of 2; starts reached losses of 0.5, 0.75"


def test_a_model_of_one_stage_without_other_starts():
    gp = fitted(learning_rows=200, n_restarts_optimizer=0, ard=False, learn_noise=False)
    display = LearningDisplay.from_estimator(gp)
    assert display.names == ["signal variance", "lengthscale"]
    assert display.values.shape == (1, 2)
    assert display.ax_.get_title(loc="left") == "Kept: stage 1 of 1"


def test_many_parameters_are_grey_but_for_those_that_matter():
    names = [*(f"lengthscale[{i}]" for i in range(20)), "noise"]
    display = LearningDisplay([[*range(20, 0, -1), 0.1]], [500], 0, names=names).plot()
    assert display.named.tolist() == [13, 14, 15, 16, 17, 18, 19, 20]
    named = {text.get_text() for text in display.ax_.get_legend().get_texts()}
    assert named >= {"noise", "lengthscale[19]"}
    assert "lengthscale[0]" not in named
    assert "open marks: where each start ended; grey: 13 other parameters" in {
        text.get_text() for text in display.ax_.texts
    }


def test_refuses():
    with pytest.raises(InputError, match="model has type KernelRidge; expected a fitted GaussianProcessReg"):
        LearningDisplay.from_estimator(gm.KernelRidge())
    with pytest.raises(NotFittedError):
        LearningDisplay.from_estimator(gm.GaussianProcessRegressor())
    with pytest.raises(InputError, match="the model learned nothing, so there is nothing to draw"):
        LearningDisplay.from_estimator(fitted(optimizer=None))
    with pytest.raises(InputError, match=r"values has shape \(2,\); expected positive numbers, a row for e"):
        LearningDisplay([1.0, 2.0], [500, 600], 0)
    with pytest.raises(InputError, match=r"starts has shape \(3,\); expected \(2,\), as values \(1, 2\) has"):
        LearningDisplay([[1.0, 2.0]], [500], 0, starts=np.ones((2, 3)))
    with pytest.raises(InputError, match="chosen=1 is none of the 1 stages, which are numbered from 0"):
        LearningDisplay([[1.0, 2.0]], [500], 1)
