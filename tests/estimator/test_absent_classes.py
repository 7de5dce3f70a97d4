"""Classes without weight, and class weights of classes that the rows lack, as in ensembles and folds."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from every_estimator import ESTIMATORS, LABELS, QUICK, X, fit
from sklearn.base import is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier
from sklearn.model_selection import TimeSeriesSplit, cross_val_score

import gramian as gm

CLASSIFIERS = [name for name, kind in ESTIMATORS.items() if is_classifier(kind())]
RNG = np.random.default_rng(1)
ROWS = RNG.normal(size=(90, 2))
THREE = np.digitize(ROWS[:, 0], [-0.5, 0.5])
NEW = RNG.normal(size=(60, 2))


def quick(name):
    arguments = {"effort": "fast"} if name.startswith("Tabular") else QUICK.get(name, {})
    return ESTIMATORS[name](random_state=0, **arguments)


@pytest.mark.parametrize("absent", [(0,), (1,), (2,), (0, 2)], ids=str)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_class_without_weight_is_kept_and_never_won(name, absent):
    weights = 1.0 - np.isin(THREE, absent)
    model = quick(name).fit(ROWS, THREE, weights)
    assert model.classes_.tolist() == [0, 1, 2]
    assert not np.isin(model.predict(NEW), absent).any()
    if len(absent) == 1:
        assert model.score(ROWS[weights > 0], THREE[weights > 0]) > 0.8
    if hasattr(model, "decision_function"):
        assert model.decision_function(NEW).shape == (len(NEW), 3)
    if hasattr(model, "predict_proba"):
        chances = model.predict_proba(NEW)
        assert chances[:, list(absent)].max() < 0.15  # the fast model has two units
        np.testing.assert_allclose(chances.sum(axis=1), 1.0)


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("left", ["a", "b"])
def test_one_class_of_two_is_left(name, left):
    model = fit(quick(name), sample_weight=(left == LABELS).astype(float))
    assert model.classes_.tolist() == ["a", "b"]
    assert (model.predict(X) == left).all()


def test_a_stream_whose_rows_of_a_class_have_no_weight():
    weights = (THREE != 1).astype(float)
    stream = gm.KernelRidgeClassifier(random_state=0)
    stream.partial_fit(ROWS[:40], THREE[:40], weights[:40], classes=[0, 1, 2])
    stream.partial_fit(ROWS[40:], THREE[40:], weights[40:])
    assert not (stream.predict(NEW) == 1).any()
    assert stream.score(ROWS[THREE != 1], THREE[THREE != 1]) > 0.8


def test_probabilities_of_an_svm_for_a_class_without_weight():
    model = gm.KernelSVC(probability=True, random_state=0).fit(ROWS, THREE, THREE != 1)
    assert model.predict_proba(NEW)[:, 1].max() < 0.05


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if not name.startswith(("Tabular", "Fast"))])
def test_ensembles_of_scikit_learn_fit_rare_classes(name):
    labels = np.where(LABELS == "a", 0, 1)
    labels[:2] = 2
    bagged = BaggingClassifier(quick(name), n_estimators=8, random_state=0).fit(X, labels)
    assert any((drawn >= 2).all() for drawn in bagged.estimators_samples_), "no draw lacks the class"
    assert bagged.score(X, labels) > 0.8


def test_boosted_and_calibrated():
    weak = gm.KernelSVC(C=300.0, random_state=0)  # boosting makes weights sum to 1
    boosted = AdaBoostClassifier(weak, n_estimators=2, random_state=0).fit(ROWS, THREE)
    assert boosted.score(ROWS, THREE) > 0.8
    weights = (THREE != 2).astype(float)
    machine = CalibratedClassifierCV(gm.KernelSVC(random_state=0), cv=2, ensemble=False)
    assert not (machine.fit(ROWS, THREE, sample_weight=weights).predict(NEW) == 2).any()


@pytest.mark.parametrize(
    "kind", [gm.KernelSVC, gm.KernelLogisticRegression, gm.KernelRidgeClassifier, gm.DCSVC]
)
def test_class_weight_may_name_classes_that_a_fold_lacks(kind):
    y = (ROWS[:, 0] > 0).astype(int)
    y[70:75] = 2  # the first folds lack it
    model = kind(class_weight={0: 1.0, 2: 5.0}, random_state=0)
    assert np.isfinite(cross_val_score(model, ROWS, y, cv=TimeSeriesSplit(3))).all()
    few = ROWS[:70], y[:70]
    same = kind(class_weight={0: 1.0}, random_state=0).fit(*few)
    np.testing.assert_array_equal(model.fit(*few).decision_function(NEW), same.decision_function(NEW))


@pytest.mark.parametrize(
    ("labels", "class_weight", "near"),
    [
        (("ham", "spam"), {"ham": 1.0, "sapm": 5.0}, "'spam'"),
        ((0, 1), {"1": 5.0}, "'1'"),
        (("No", "Yes"), {"yes": 2.0}, "'Yes'"),
        (("ham", "spam"), {"ham": 1.0, "spam": 2.0, "sapm": 5.0}, None),
        ((0, 1), {2: 5.0, 10: 1.0}, None),
        (("class 1", "class 2"), {"class 3": 2.0}, None),
    ],
)
def test_a_label_written_otherwise_is_told(labels, class_weight, near):
    y = np.asarray(labels)[(ROWS[:, 0] > 0).astype(int)]
    model = gm.KernelRidgeClassifier(class_weight=class_weight, random_state=0)
    if near is None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(ROWS, y)
    else:
        with pytest.warns(UserWarning, match=f"not a class of y .* has no effect. Did you mean {near}"):
            model.fit(ROWS, y)
