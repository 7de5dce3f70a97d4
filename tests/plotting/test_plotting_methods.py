"""FrontierDisplay and ErrorMemoryDisplay: the numbers that they draw, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import NotFittedError

import gramian as gm
from gramian.exceptions import InputError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from gramian.plotting import ErrorMemoryDisplay, FrontierDisplay
from gramian.plotting.curves import pareto_front

NAMES = {"cost_name": "Time to fit", "error_name": "Error"}


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).random((300, 3))


def test_front_is_what_no_other_point_beats():
    rng = np.random.default_rng(0)
    for count in (1, 2, 40):
        # Few values, so that there are ties.
        cost, error = rng.integers(1, 8, count).astype(float), rng.integers(1, 8, count).astype(float)
        front = pareto_front(cost, error)
        points = list(zip(cost, error, strict=True))
        expected = {p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}
        assert {points[k] for k in front} == expected
        assert len(front) == len(expected)
        assert (np.diff(cost[front]) > 0).all()


def test_frontier_draws_a_line_for_each_method_in_its_order():
    display = FrontierDisplay(
        ["b", "a", "b", "a"], [3.0, 1.0, 2.0, np.nan], [0.1, 0.5, 0.3, 0.2], cost_unit="s", **NAMES
    ).plot()
    assert [line.get_label() for line in display.lines_] == ["b", "a"]
    np.testing.assert_array_equal(display.lines_[0].get_xydata(), [[3.0, 0.1], [2.0, 0.3]])
    np.testing.assert_array_equal(display.lines_[1].get_xydata(), [[1.0, 0.5]])
    assert display.left_out == 1
    assert any("1 without a value left out" in text.get_text() for text in display.ax_.texts)
    assert {"a", "b"} == {text.get_text() for text in display.ax_.get_legend().get_texts()}
    assert (display.ax_.get_xscale(), display.ax_.get_yscale()) == ("log", "log")
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("Time to fit", "Error")
    # The steps turn at each point of the front.
    steps = display.front_.get_xydata()
    np.testing.assert_array_equal(steps[1:-1:2], [[1.0, 0.5], [2.0, 0.3], [3.0, 0.1]])
    assert len({line.get_marker() for line in display.lines_}) == 2
    assert len({line.get_color() for line in display.lines_}) == 2


def test_frontier_axes_are_linear_where_there_is_no_logarithm():
    display = FrontierDisplay(["a", "b"], [[1.0, 2.0], [2.0, 3.0]], [[0.1, 0.0], [0.2, 0.1]], **NAMES)
    assert display.names == ["a", "a", "b", "b"]
    display.plot()
    assert (display.ax_.get_xscale(), display.ax_.get_yscale()) == ("log", "linear")
    assert display.plot(log=False).ax_.get_xscale() == "linear"


def test_frontier_of_records():
    records = [
        {"method": "a", "fit_seconds": 1.0, "peak_bytes": 1e6, "error": 0.2},
        {"method": "a", "fit_seconds": 2.0, "peak_bytes": 2e6, "error": 0.1},
        {"method": "b", "fit_seconds": None, "peak_bytes": 5e6, "error": 0.3},
    ]
    display = FrontierDisplay.from_results(records)
    assert (display.names, display.left_out, display.cost_name) == (["a", "a"], 1, "Time to fit")
    memory = FrontierDisplay.from_results(records, cost="peak_bytes", units={"error": "%"})
    assert (memory.cost_unit, memory.cost_name) == ("B", "Peak memory of the fit")
    assert memory.error_unit == "%"
    with pytest.raises(InputError, match=r"units has 'eror', but the fields drawn are 'fit_seconds' and 'e"):
        FrontierDisplay.from_results(records, units={"eror": "%"})
    with pytest.raises(InputError, match=r"result 0 has no field 'eror'.* Did you mean 'error'\? Name the"):
        FrontierDisplay.from_results(records, error="eror")
    with pytest.raises(InputError, match=r"results is empty. Pass at least one record"):
        FrontierDisplay.from_results([])
    with pytest.raises(InputError, match="result 0 has type int; expected a mapping"):
        FrontierDisplay.from_results([1])
    with pytest.raises(InputError, match="results has type dict; expected a list of records"):
        FrontierDisplay.from_results(records[0])


def test_frontier_of_predictions():
    y = np.array([0, 1, 1, 0])
    display = FrontierDisplay.from_predictions(
        y, {"a": [np.array([0, 1, 1, 1]), y], "b": 1 - y}, {"a": [1.0, 2.0], "b": 3.0}
    )
    np.testing.assert_allclose(display.error, [0.25, 0.0, 1.0])
    np.testing.assert_array_equal(display.cost, [1.0, 2.0, 3.0])
    numbers = np.array([1.0, 2.0, 3.0])
    display = FrontierDisplay.from_predictions(numbers, {"a": numbers + 1.0}, {"a": 1.0})
    np.testing.assert_allclose(display.error, [3.0 / 2.0])  # Σ(y − ŷ)²/Σ(y − ȳ)²
    with pytest.raises(InputError, match=r"predictions of 'a' have shape \(2,\), but y has shape \(3,\)"):
        FrontierDisplay.from_predictions(numbers, {"a": numbers[:2]}, {"a": 1.0})
    with pytest.raises(InputError, match=r"cost\['a'\] has 2 numbers, but there are 1 predictions"):
        FrontierDisplay.from_predictions(numbers, {"a": numbers}, {"a": [1.0, 2.0]})
    with pytest.raises(InputError, match=r"cost has no 'a'. Give each method"):
        FrontierDisplay.from_predictions(numbers, {"a": numbers}, {})
    with pytest.raises(InputError, match="predictions has type ndarray; expected a mapping from names"):
        FrontierDisplay.from_predictions(numbers, numbers, {})


@pytest.mark.slow
def test_frontier_of_estimators(X):
    y = X[:, 0] > 0.5
    model = gm.KernelRidgeClassifier(0.1, gamma=1.0, random_state=0).fit(X, y)
    guess = DummyClassifier(strategy="most_frequent").fit(X, y)
    display = FrontierDisplay.from_estimators({"ridge": [model], "guess": guess}, X, y, n_repeats=1)
    np.testing.assert_allclose(display.error, [1 - model.score(X, y), 1 - guess.score(X, y)])
    assert (display.cost > 0).all()
    assert display.names == ["ridge", "guess"]
    mean = DummyRegressor().fit(X, X[:, 0])
    np.testing.assert_allclose(FrontierDisplay.from_estimators({"mean": mean}, X, X[:, 0]).error, [1.0])
    with pytest.raises(InputError, match=r"classifiers and regressors, whose errors differ in kind. Pass"):
        FrontierDisplay.from_estimators({"a": guess, "b": mean}, X, y)
    with pytest.raises(InputError, match=r"estimators holds no model. Pass fitted models"):
        FrontierDisplay.from_estimators({}, X, y)
    with pytest.raises(InputError, match=r"estimators\['a'\] has type int, which does not predict"):
        FrontierDisplay.from_estimators({"a": 1}, X, y)
    with pytest.raises(NotFittedError):
        FrontierDisplay.from_estimators({"a": gm.KernelRidge()}, X, y)


def test_frontier_refuses():
    with pytest.raises(InputError, match=r"cost has shape \(3,\), but there are 2 methods; expected \(2,\)"):
        FrontierDisplay(["a", "b"], [1, 2, 3], [1, 2, 3], **NAMES)
    with pytest.raises(
        InputError, match=r"error has shape \(2, 1\), but there are 2 methods; expected \(2,\)"
    ):
        FrontierDisplay(["a", "b"], [1, 2], [[1], [2]], **NAMES)
    with pytest.raises(InputError, match="cost cannot be read as numbers"):
        FrontierDisplay(["a"], ["fast"], [1], **NAMES)
    with pytest.raises(InputError, match="no point has both a finite cost and a finite error"):
        FrontierDisplay(["a"], [np.nan], [1], **NAMES)
    with pytest.raises(InputError, match="methods='a' is no list"):
        FrontierDisplay("a", [1], [1], **NAMES)
    with pytest.raises(InputError, match="methods is empty"):
        FrontierDisplay([], [], [], **NAMES)
    with pytest.raises(InputError, match="error_unit='percent' is unknown"):
        FrontierDisplay(["a"], [1], [1], error_unit="percent", **NAMES)


def test_error_memory_measures_copies_and_fitted_ones(X):
    small, large = (gm.Nystrom(gamma=2.0, rank=r, random_state=0) for r in (5, 20))
    meka = gm.MEKA(gamma=2.0, rank=5, n_blocks=3, random_state=0).fit(X)
    display = ErrorMemoryDisplay.from_approximations([large, meka, small], X, n_rows=100)
    assert not hasattr(small, "operator_")  # what is given stays as it is
    assert display.names == ["Nystrom", "Nystrom", "MEKA"]
    for k, one in enumerate((small, large, meka)):
        fitted = one if one is meka else one.fit(X)
        error = fitted.relative_error(X, n_rows=100, random_state=0)
        assert display.nbytes[k] == fitted.nbytes_
        assert (display.errors[k], display.low[k], display.high[k]) == (error, error.low, error.high)
    line, other = display.lines_
    np.testing.assert_array_equal(line.get_xydata(), np.column_stack([display.nbytes, display.errors])[:2])
    assert other.get_label() == "MEKA"
    bars = display.ax_.collections
    np.testing.assert_allclose(bars[0].get_segments()[0][:, 1], [display.low[0], display.high[0]])
    assert any("300 rows, whose matrix takes 720 kB" in text.get_text() for text in display.ax_.texts)
    named = ErrorMemoryDisplay.from_approximations({"one": small, "two": [large]}, X, n_rows=50)
    assert named.names == ["one", "two"]


def test_error_memory_without_intervals_and_without_error():
    # Fewer than 8 rows have no interval; an exact matrix has no error.
    display = ErrorMemoryDisplay(["a", "a"], [10, 20], [0.1, 0.0], low=[0.0, 0.0], high=[np.inf, 0.0]).plot()
    assert (display.ax_.get_xscale(), display.ax_.get_yscale()) == ("log", "linear")
    assert len(display.ax_.collections[0].get_segments()) == 1
    stored = ErrorMemoryDisplay.from_results(
        [{"method": "a", "model_bytes": 3, "error": 0.5}, {"method": "a", "model_bytes": 2, "error": 0.7}]
    )
    np.testing.assert_array_equal(stored.nbytes, [2, 3])
    assert stored.low is None
    assert not stored.ax_.collections


def test_error_memory_refuses(X):
    with pytest.raises(InputError, match="'KernelRidge' has type KernelRidge; expected an approximation"):
        ErrorMemoryDisplay.from_approximations([gm.KernelRidge()], X)
    with pytest.raises(InputError, match="'int' has type int; expected an approximation"):
        ErrorMemoryDisplay.from_approximations(3, X)
    with pytest.raises(InputError, match="approximations is empty"):
        ErrorMemoryDisplay.from_approximations([], X)
    few = gm.Nystrom(gamma=2.0, rank=5, random_state=0).fit(X[:100])
    with pytest.raises(InputError, match="were fitted to 100, 300 rows, so that their bytes do not compare"):
        ErrorMemoryDisplay.from_approximations([few, gm.Nystrom(gamma=2.0, rank=5)], X)
    with pytest.raises(InputError, match="an interval has two ends"):
        ErrorMemoryDisplay(["a"], [1], [1], low=[0])
    with pytest.raises(InputError, match="errors holds NaN or infinity"):
        ErrorMemoryDisplay(["a"], [1], [np.nan])
    with pytest.raises(InputError, match="nbytes holds a number that is not positive"):
        ErrorMemoryDisplay(["a"], [0], [1])
