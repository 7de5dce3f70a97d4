"""Teachers of fast models: what they are asked by, what goes wrong, how well they are imitated."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import gramian as gm
from gramian.estimator.answers import probabilities
from gramian.exceptions import AccuracyWarning, InputError
from gramian.fast.compress import KnownRows
from gramian.fast.fidelity import explained_variance, same_class
from gramian.fast.probabilities import Calibration, smooth_labels

SMALL = {"n_levels": 1, "n_units": 6, "n_directions": 2, "random_state": 0}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(900, 3))
SUMS = X[:, 0] + np.sin(2.0 * X[:, 1])
TWO = np.where(SUMS > 0, "up", "down")
THREE = np.digitize(SUMS, [-0.7, 0.7]) + 10
FOREST = {"n_estimators": 15, "min_samples_leaf": 5, "random_state": 0}


class Boosted:
    """A classifier with the interface of CatBoost's: no tags, predictions of shape (n, 1)."""

    def __init__(self, y):
        self._model = LogisticRegression().fit(X, y)
        self.classes_ = self._model.classes_

    def predict(self, rows):
        return self._model.predict(rows)[:, None]

    def predict_proba(self, rows):
        return self._model.predict_proba(rows)


class Booster:
    """A model with the interface of a booster of LightGBM or XGBoost: one method, and no word on its kind."""

    def __init__(self, function, name="predict"):
        setattr(self, name, function)


CLASSIFIERS = {
    "decision values": SVC(gamma=0.5).fit(X, THREE),
    "probabilities": RandomForestClassifier(**FOREST).fit(X, TWO),
    "many probabilities": HistGradientBoostingClassifier(max_iter=10).fit(X, THREE),
    "labels alone": VotingClassifier([("tree", DecisionTreeClassifier(max_depth=5))]).fit(X, TWO),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()).fit(X, THREE),
    "CatBoost's interface": Boosted(THREE),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_are_asked_by_what_they_have(name):
    teacher = CLASSIFIERS[name]
    fast = gm.compress(teacher, X, **SMALL)
    assert isinstance(fast, gm.FastKernelClassifier)
    np.testing.assert_array_equal(fast.classes_, teacher.classes_)
    told = np.ravel(teacher.predict(X))
    assert (fast.predict(X) == told).mean() > 0.85
    assert hasattr(fast, "predict_proba") == hasattr(teacher, "predict_proba")
    if hasattr(teacher, "predict_proba"):
        found, wanted = fast.predict_proba(X), teacher.predict_proba(X)
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        np.testing.assert_array_equal(fast.classes_[found.argmax(axis=1)], fast.predict(X))
        assert np.sqrt(np.mean((found - wanted) ** 2)) < 0.15
    else:
        with pytest.raises(AttributeError, match="predict_proba") as caught:
            fast.predict_proba(X)
        assert "Pass y, or a teacher with predict_proba" in str(caught.value.__cause__)


def smooth(rows):
    return rows[:, 0] + np.sin(2.0 * rows[:, 1])


def quantiles(rows):
    return smooth(rows)[:, None] + np.array([-0.5, 0.0, 0.5]) * (1.0 + rows[:, :1] ** 2)


REGRESSORS = {
    "forest": (RandomForestRegressor(**FOREST).fit(X, SUMS), 1),
    "function": (smooth, 1),
    "booster": (Booster(smooth), 1),
    "booster of XGBoost": (Booster(smooth, "inplace_predict"), 1),
    "quantiles of a function": (quantiles, 3),
    "quantiles of models": (
        [
            HistGradientBoostingRegressor(loss="quantile", quantile=q, max_iter=10).fit(X, SUMS)
            for q in (0.1, 0.5, 0.9)
        ],
        3,
    ),
    "a model and a function": ([smooth, Booster(lambda rows: rows[:, 2])], 2),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors_functions_and_lists_give_numbers(name):
    teacher, outputs = REGRESSORS[name]
    fast = gm.compress(teacher, X, **SMALL)
    assert isinstance(fast, gm.FastKernelRegressor)
    assert fast.predict(X).shape == ((900,) if outputs == 1 else (900, outputs))
    assert fast.fidelity_.value > 0.8
    if name == "quantiles of a function":
        assert (np.diff(fast.predict(X), axis=1) > 0).mean() > 0.95


@pytest.mark.slow
def test_answers_of_functions_say_their_kind():
    forest = CLASSIFIERS["probabilities"]
    by_chance = gm.compress(forest.predict_proba, X, **SMALL)
    np.testing.assert_array_equal(by_chance.classes_, [0, 1])
    named = gm.compress(forest.predict_proba, X, TWO, learn="teacher", **SMALL)
    np.testing.assert_array_equal(named.classes_, ["down", "up"])
    np.testing.assert_array_equal(named.predict_proba(X), by_chance.predict_proba(X))
    by_label = gm.compress(forest.predict, X, **SMALL)
    assert (by_label.predict(X) == forest.predict(X)).mean() > 0.9
    clusters = gm.compress(KMeans(3, n_init=1, random_state=0).fit(X), X, **SMALL)
    assert clusters.classes_.tolist() == [0, 1, 2]
    decisions = gm.compress(smooth, X, TWO, **SMALL)
    assert decisions.score(X, TWO) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["labels", "probabilities", "numbers", "many numbers"])
def test_stored_answers_stand_for_a_model(kind):
    rows, new = X[:600], X[600:]
    forest = CLASSIFIERS["many probabilities"]
    model = {
        "labels": forest.predict,
        "probabilities": forest.predict_proba,
        "numbers": smooth,
        "many numbers": quantiles,
    }[kind]
    fast = gm.compress(model(rows), rows, **SMALL)
    assert fast.teacher is None
    if kind == "labels":
        assert (fast.predict(new) == model(new)).mean() > 0.85
    elif kind == "probabilities":
        assert fast.classes_.tolist() == [0, 1, 2]
        assert np.sqrt(np.mean((fast.predict_proba(new) - model(new)) ** 2)) < 0.15
    else:
        assert fast.score(new, model(new)) > 0.95
    with pytest.raises(InputError, match=r"but X has 599 rows\. Pass one answer for each row"):
        gm.compress(model(rows), rows[:-1], **SMALL)


def test_rows_may_be_lists():
    fast = gm.compress(lambda rows: rows[:, 0] ** 2, X[:200].tolist(), **SMALL)
    assert fast.score(X[:200], X[:200, 0] ** 2) > 0.9


def test_known_rows_are_found_by_their_values():
    rows = np.array([[0.0, 1.0], [2.0, 3.0], [0.0, 1.0]])
    asked = np.array([[2.0, 3.0], [-0.0, 1.0], [5.0, 5.0]])
    np.testing.assert_array_equal(KnownRows(rows).numbers(asked), [1, 0, -1])


def test_unlabelled_rows_are_learned_from():
    def wavy(rows):
        return np.sin(2.0 * rows[:, 0])

    few = X[:60]
    sizes = SMALL | {"n_levels": 0}
    shifted = X[300:] + np.array([6.0, 0.0, 0.0])  # away from the labelled rows
    alone = gm.compress(wavy, few, wavy(few), learn="teacher", **sizes)
    more = gm.compress(wavy, few, wavy(few), unlabelled=shifted, learn="teacher", **sizes)
    assert more.score(shifted, wavy(shifted)) > 0.5 > alone.score(shifted, wavy(shifted))
    labelled = (
        SUMS[:200] > 0
    )  # of 60 rows the SVC that teaches knows little: 0.84, and its pupils 0.79 to 0.94
    fitted_first = gm.FastKernelClassifier(SVC(), **sizes).fit(X[:200], labelled, unlabelled=X[300:])
    assert fitted_first.score(X[300:], SUMS[300:] > 0) > 0.8
    with pytest.raises(InputError, match="no effect with learn='labels'"):
        gm.FastKernelRegressor(smooth, learn="labels", **sizes).fit(few, SUMS[:60], unlabelled=shifted)
    with pytest.raises(ValueError, match="2 features"):
        gm.compress(smooth, few, SUMS[:60], unlabelled=shifted[:, :2], **sizes)


@pytest.mark.slow
def test_frames_of_numbers_reach_the_teacher_as_frames():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    forest = RandomForestRegressor(**FOREST).fit(frame, SUMS)  # would warn about rows without names
    assert gm.compress(forest, frame, **SMALL).fidelity_.value > 0.85
    assert gm.compress(lambda rows: rows["a"] ** 2, frame, **SMALL).fidelity_.value > 0.9
    nameless = RandomForestRegressor(**FOREST).fit(X, SUMS)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X has feature names", UserWarning)  # of the frame given here
        assert gm.compress(nameless, frame, **SMALL).fidelity_.value > 0.85
    polars = pytest.importorskip("polars")
    by_name = gm.compress(lambda rows: rows["a"].to_numpy() ** 2, polars.from_pandas(frame), **SMALL)
    assert by_name.fidelity_.value > 0.9


# ---- how well --------------------------------------------------------------------------------------


def test_fidelity_is_the_agreement_on_held_out_rows():
    weights = RNG.random(400) + 0.5
    found, told = RNG.normal(size=(400, 3)), RNG.normal(size=(400, 3))
    near = told + 0.3 * found
    same = same_class(near, told, weights)
    assert same.value == pytest.approx(np.average(near.argmax(1) == told.argmax(1), weights=weights))
    assert same.n_rows == 400
    r2 = explained_variance(near, told, np.ones(400))
    left, whole = ((told - near) ** 2).sum(), ((told - told.mean(axis=0)) ** 2).sum()
    assert r2.value == pytest.approx(1 - left / whole)
    draws = [RNG.integers(400, size=400) for _ in range(400)]
    resampled = [explained_variance(near[i], told[i], np.ones(400)).value for i in draws]
    assert r2.standard_error == pytest.approx(np.std(resampled), rel=0.3)
    resampled = [same_class(near[i], told[i], np.ones(400)).value for i in draws]
    assert same_class(near, told, np.ones(400)).standard_error == pytest.approx(np.std(resampled), rel=0.3)
    assert explained_variance(np.ones((5, 1)), np.ones((5, 1)), np.ones(5)).value == 1.0
    assert same_class(told, told, np.ones(400)).standard_error > 0


@pytest.mark.slow
def test_fidelity_and_calibration_of_new_rows():
    svc = SVC(gamma=0.5).fit(X, THREE)
    fast = gm.FastKernelClassifier(svc, **SMALL).fit(X, THREE)
    assert fast.fidelity_.n_rows == 135
    assert fast.fidelity_.teacher_saw
    assert "on new rows may be lower" in str(fast.fidelity_)
    assert not gm.FastKernelClassifier(SVC(gamma=0.5), **SMALL).fit(X, THREE).fidelity_.teacher_saw
    new = RNG.normal(size=(2000, 3))
    agreement = (fast.predict(new) == svc.predict(new)).mean()
    assert abs(agreement - fast.fidelity_.value) < 5 * fast.fidelity_.standard_error
    labels = np.digitize(new[:, 0] + np.sin(2.0 * new[:, 1]), [-0.7, 0.7])
    loss = -fast.predict_log_proba(new)[np.arange(2000), labels].mean()
    assert loss < 0.35  # log(3) = 1.1 without knowledge


def test_a_calibration_gives_back_what_made_the_values():
    chances = RNG.dirichlet(np.ones(4), 2000)
    ordered = np.sort(chances, axis=1)
    margins = chances - np.where(chances == ordered[:, 3:], ordered[:, 2:3], ordered[:, 3:])
    for values, most in ((margins, 0.08), (2 * chances - 1, 1e-3)):
        made = probabilities(Calibration.fit(values, chances, np.ones(2000)).log_odds(values))
        assert np.sqrt(np.mean((made - chances) ** 2)) < most
        np.testing.assert_array_equal(made.argmax(axis=1), chances.argmax(axis=1))
    two = np.array([[0.9, 0.1], [0.3, 0.7], [0.5, 0.5]])
    exact = Calibration.fit(2 * two[:, 1:] - 1, two, np.ones(3))
    np.testing.assert_allclose(probabilities(exact.log_odds(2 * two[:, 1:] - 1)), two, atol=1e-3)
    separated = Calibration.fit(
        np.array([[1.0], [-1.0]]), smooth_labels(np.array([1, 0]), 2, np.ones(2)), np.ones(2)
    )
    assert np.isfinite(separated.log_odds(np.array([[50.0]]))).all()


# ---- bad input -------------------------------------------------------------------------------------


def test_a_teacher_that_changes_its_answers_warns_with_the_amount():
    rng = np.random.default_rng(0)
    with pytest.warns(AccuracyWarning, match=r"asked twice about the same 32 rows, they differ by up to \d"):
        gm.compress(lambda rows: smooth(rows) + 0.1 * rng.normal(size=len(rows)), X, **SMALL)


def test_a_teacher_that_fails_is_named_with_its_error():
    def narrow(rows):
        if (np.abs(rows) > 10).any():
            raise ValueError("a row is outside the chart")
        return smooth(rows)

    far = 20.0 * X[:50]
    with pytest.raises(InputError, match=r"narrow failed on 50 rows with ValueError: a row is outside"):
        gm.compress(narrow, X, SUMS, unlabelled=far, **SMALL)


@pytest.mark.slow
def test_rows_without_a_class_of_the_teacher():
    some = THREE != 12
    teacher = SVC(gamma=0.5).fit(X, THREE)
    with pytest.warns(UserWarning, match=r"none of the teacher's class \[12\]"):
        fast = gm.FastKernelClassifier(teacher, **SMALL).fit(X[some], THREE[some])
    assert fast.classes_.tolist() == [10, 11, 12]
    assert fast.decision_function(X).shape == (900, 3)
    assert (fast.predict(X[some]) == THREE[some]).mean() > 0.8
    two = SVC(gamma=0.5).fit(X, TWO)
    with pytest.warns(UserWarning, match=r"none of the teacher's class \['up'\]"):
        one = gm.compress(two, X[two.predict(X) == "down"], **SMALL)
    assert one.classes_.tolist() == ["down", "up"]
    assert (one.predict(X) == two.predict(X)).mean() > 0.8  # by the values near the boundary
    with pytest.raises(InputError, match="The teacher knows the classes"):
        gm.FastKernelClassifier(teacher, **SMALL).fit(X, THREE + 1)


def test_a_cost_without_a_unit_says_what_is_expected():
    with pytest.raises(InputError, match=r"cost='20' is not a budget\. Give '20x'.*a number of nanosec"):
        gm.compress(smooth, X, cost="20")


def test_a_time_limit_and_a_bar_reach_the_fast_model(capfd):
    fast = gm.compress(smooth, X, time_limit=1e-6, verbose=1, **SMALL)
    assert (fast.time_limit, fast.verbose) == (1e-6, 1)
    assert fast.fidelity_.value > 0.3
    assert "shapes" in capfd.readouterr().err
    with pytest.raises(InputError, match="time_limit=-1"):
        gm.compress(smooth, X, time_limit=-1, **SMALL)


def test_models_that_are_none():
    with pytest.raises(
        InputError, match=r"has no predict and cannot be called\. Pass a fitted model, a list"
    ):
        gm.compress(3.0, X, **SMALL)
    with pytest.raises(InputError, match=r"hold NaN or infinity for 1 of 900 rows"):
        gm.compress(np.where(np.arange(900) == 5, np.nan, 1.0), X, **SMALL)
    with pytest.raises(InputError, match="labels have one column"):
        gm.compress(np.ones((900, 2), int), X, **SMALL)
