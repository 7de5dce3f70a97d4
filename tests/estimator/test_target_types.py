"""Targets and labels of types that are no numbers or no labels, and labels that floats would round."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

import numpy as np
import pytest
from every_estimator import ESTIMATORS, HOSTS, LABELS, QUICK, RNG, X, Y, fit
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.estimator_checks import _NotAnArray

import gramian as gm
from gramian.estimator.targets import ClassTargets

N = len(X)
REGRESSORS = [name for name, kind in ESTIMATORS.items() if name not in HOSTS and is_regressor(kind())]

pytestmark = pytest.mark.filterwarnings("ignore")  # of fits to few rows in no time


def refused(model, *, match, **kwargs):
    """A fit raises, and leaves every attribute as it was."""
    before = dict(vars(model))
    with pytest.raises(gm.InputError, match=match):
        fit(model, **kwargs)
    assert vars(model) == before


#: Labels that are refused in an array of their own type, as objects and as a list.
NO_LABELS = {
    "dates": ([date(2020, 1, 1), date(2021, 1, 1)], r"type (date|datetime64) .*Make text of them: \[str"),
    "durations": ([timedelta(1), timedelta(2)], r"type timedelta.*Make text of them"),
    "missing dates": (np.array(["2020-01-01", "NaT"], "M8[D]"), "another missing label .*NaT"),
    "decimals": ([Decimal(1), Decimal(2)], r"type Decimal .*Make text of them"),
    "no number": ([Decimal(1), Decimal("sNaN")], "another missing label .*sNaN"),
    "bytes": ([b"a", b"b"], r"type bytes.*label\.decode\(\) for label in y"),
    "zero and true": ([0, True], "mixes labels of different types: .*booleans .such as True"),
    "one and true": ([0, 1, True], "mixes labels of different types"),
    "complex": ([1j, 2j], "Complex data not supported: y must hold labels|type complex"),
    "too large": ([2**70, 2**70 + 1], "numbers beyond 64 bits .*Make text of them"),
    "too far apart": ([-1, 2**63 + 1], "numbers beyond 64 bits"),
}


@pytest.mark.parametrize(("labels", "text"), NO_LABELS.values(), ids=NO_LABELS.keys())
def test_labels_of_types_that_labels_cannot_have(labels, text):
    repeated = (list(labels) * 60)[:N]
    objects = np.fromiter(repeated, object, N)
    given = [repeated, objects]
    given += [np.resize(labels, N)] if isinstance(labels, np.ndarray) else []
    given += [np.asarray(repeated, kind) for kind in ("S", "M8[D]", "m8[h]") if castable(repeated, kind)]
    for kind in (gm.KernelRidgeClassifier, gm.KernelSVC, gm.TabularClassifier):
        for y in given:
            refused(kind(), y=y, match=text)


CLASSIFIERS = [name for name, kind in ESTIMATORS.items() if is_classifier(kind())]


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_score_takes_what_fit_takes(name):
    kind = ESTIMATORS[name]
    model, labels = kind(**QUICK.get(name, {})), name in CLASSIFIERS
    y, weights = (LABELS if labels else Y), RNG.random(N)
    fit(model, y=y)
    wanted, plain = model.score(X, y, weights), model.score(X, y)
    texts = y.astype(object) if labels else np.array([Decimal(float(v)) for v in y], object)
    for same in (_NotAnArray(y), y.tolist(), texts, y[:, None], pytest.importorskip("pandas").Series(y)):
        assert model.score(X, same, weights.tolist()) == pytest.approx(wanted)
        assert model.score(X, same, 2.0) == pytest.approx(plain)


def castable(labels, kind):
    types = {"S": bytes, "M8[D]": date, "m8[h]": timedelta}
    return isinstance(labels[0], types[kind])


@pytest.mark.parametrize("kind", ["M8[D]", "m8[s]", "m8[ns]", "dates", "durations", "2 outputs", "some"])
@pytest.mark.parametrize("name", REGRESSORS)
def test_targets_that_are_dates_or_durations(name, kind):
    if kind[0] in "mM":
        y = np.arange(N).astype(kind)
        if name in ("KernelRidge", "TabularRegressor"):
            refused(
                ESTIMATORS[name](**QUICK.get(name, {})),
                y=np.where(np.arange(N) == 3, np.array("NaT", kind), y),
                match=r"\(NaT\)",
            )
    elif kind == "2 outputs":
        y = np.arange(2 * N).reshape(N, 2).astype("m8[s]")
    else:
        start = date(2020, 1, 1)
        y = np.fromiter(
            (start + timedelta(i) if kind == "dates" else timedelta(i) for i in range(N)), object, N
        )
        if kind == "some":
            y = np.where(np.arange(N) == 7, np.array(timedelta(7), object), np.arange(N).astype(object))
    refused(
        ESTIMATORS[name](**QUICK.get(name, {})),
        y=y,
        match="y holds (dates|durations) .*numbers are expected.*counts hours",
    )


def test_weights_that_are_durations():
    refused(gm.KernelRidge(), sample_weight=np.ones(N, "m8[s]"), match="sample_weight holds durations")


def test_missing_targets_of_objects_are_called_missing():
    y = Y.astype(object)
    for missing in (None, Decimal("sNaN"), float("nan")):
        y[5] = missing
        refused(gm.KernelRidge(), y=y, match="Input y contains NaN or another missing value")


def test_errors_name_the_counterpart_among_the_tables():
    refused(gm.TabularRegressor(), y=LABELS, match="For class labels use TabularClassifier")
    y = np.r_[np.zeros(65_536), np.full(4, 0.5), np.ones(4)]
    with pytest.raises(gm.InputError, match="for such targets use TabularRegressor"):
        ClassTargets(y, len(y), regressor="TabularRegressor")


def test_labels_of_64_bits_are_compared_exactly():
    codes = np.arange(N) % 2
    for base, kind in ((2**60, np.int64), (2**63 + 1, np.uint64)):
        labels = np.asarray(base + codes.astype(object), kind)
        for y in (labels, labels.tolist(), labels.astype(object)):
            targets = ClassTargets(y, N)
            assert targets.classes.tolist() == [base, base + 1]
            np.testing.assert_array_equal(targets.codes(slice(0, N)), codes)
    model = gm.KernelRidgeClassifier(random_state=0).partial_fit(X, 2**60 + codes, classes=[2**60, 2**60 + 1])
    model.partial_fit(X, (2**60 + codes).astype(np.uint64))
    with pytest.raises(gm.InputError, match="y holds 1152921504606846978, which is not one of the classes"):
        model.partial_fit(X, (2**60 + 1 + codes).astype(np.uint64))


@pytest.mark.parametrize("kind", [gm.KernelSVC, gm.KernelRidgeClassifier, gm.DCSVC])
@pytest.mark.parametrize("labels", [[0, 1], [False, True]])
def test_score_takes_the_labels_that_fit_takes(kind, labels):
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.array(labels, object)[(X[:, 0] > 0).astype(int)]
    model = kind().fit(X, y)
    assert model.score(X, y) == model.score(X, y[:, None]) == np.mean(model.predict(X) == y) > 0.9


@pytest.mark.parametrize("y", [np.zeros((N, 1, 1)), np.zeros((N, 0)), np.array(3.0), {0: 1}, {0, 1}])
def test_labels_of_another_shape_are_refused(y):
    refused(gm.KernelRidgeClassifier(), y=y, match="y should be a 1d array, got an array of shape")


@pytest.mark.parametrize(
    ("kind", "base"), [(np.float64, 2.0**60), (np.float64, 1e200), (np.float32, 2.0**26)]
)
def test_labels_that_floats_round_are_refused(kind, base):
    y = (base * (1 + np.arange(N) % 2)).astype(kind)
    refused(gm.KernelRidgeClassifier(), y=y, match=r"y holds the label .* as float.*Pass integers, or text")


def test_labels_may_be_text_of_numpy():
    y = np.where(np.arange(N) % 2 == 0, "a", "b").astype(np.dtypes.StringDType())
    model = gm.KernelRidgeClassifier().fit(X, y)
    assert model.classes_.tolist() == ["a", "b"]
    assert set(model.predict(X).tolist()) <= {"a", "b"}


def test_complex_weights_are_refused():
    refused(gm.KernelRidge(), sample_weight=np.ones(N) + 1j, match="not supported: sample_weight must hold")
