"""KernelSVC and KernelSVR: scikit-learn's contract, agreement with libsvm, calibration, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.svm import SVC, SVR
from sklearn.utils.estimator_checks import parametrize_with_checks
from suite.datasets import load_dataset

import gramian as gm
from gramian.svm.classifier import KernelSVC
from gramian.svm.regressor import KernelSVR

ESTIMATORS = [KernelSVC(), KernelSVR(loss="squared_epsilon_insensitive", approximation="nystrom")]
OTHERS = [*ESTIMATORS, KernelSVC(loss="hinge", class_weight="balanced"), KernelSVR(fit_intercept=False)]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(ESTIMATORS)
def test_sklearn_check(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.random((250, 3))
    score = np.sin(5 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(250)
    return X, score, rng.random((60, 3))


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_exact_hinge_agrees_with_libsvm(table, C):
    X, score, new = table
    y = score > 1.0
    model = KernelSVC(C, loss="hinge", gamma=4.0, approximation="exact").fit(X, y)
    peer = SVC(C=C, gamma=4.0, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(model.decision_function(new), peer.decision_function(new), atol=1e-3)
    assert model.solution_.residual <= 1e-6
    margins = np.where(y, 1.0, -1.0) * model.decision_function(X)
    # Support vectors are the rows on the margin or inside it.
    assert (
        set(np.flatnonzero(margins < 1 - 1e-3))
        <= set(peer.support_)
        <= set(np.flatnonzero(margins < 1 + 1e-3))
    )


def test_exact_regression_agrees_with_libsvm(table):
    X, score, new = table
    model = KernelSVR(10.0, epsilon=0.05, gamma=4.0, approximation="exact", tol=1e-7).fit(X, score)
    peer = SVR(C=10.0, epsilon=0.05, gamma=4.0, tol=1e-6).fit(X, score)
    np.testing.assert_allclose(model.predict(new), peer.predict(new), atol=1e-3)


def test_several_classes_are_told_from_the_rest(table):
    X, score, new = table
    y = np.array(["low", "mid", "high"])[np.digitize(score, [0.7, 1.3])]
    model = KernelSVC(2.0, gamma=4.0, tol=1e-9).fit(X, y)
    assert model.classes_.tolist() == ["high", "low", "mid"]
    for j, label in enumerate(model.classes_):
        alone = KernelSVC(2.0, gamma=4.0, tol=1e-9).fit(X, y == label)
        np.testing.assert_allclose(
            model.decision_function(new)[:, j], alone.decision_function(new), atol=1e-4
        )
    assert set(model.predict(new)) <= {"low", "mid", "high"}


@pytest.mark.parametrize("model", OTHERS, ids=repr)
def test_weights_equal_repetition(table, model):
    X, score, new = table
    model = clone(model).set_params(gamma=4.0, approximation="exact")
    y = score if isinstance(model, KernelSVR) else np.digitize(score, [0.7, 1.3])
    if not isinstance(model, KernelSVR):
        model.set_params(class_weight={0: 2.0})
    w = np.random.default_rng(0).integers(0, 4, len(y))
    ask = "predict" if isinstance(model, KernelSVR) else "decision_function"
    weighted = getattr(clone(model).fit(X, y, w), ask)(new)
    repeated = getattr(clone(model).fit(np.repeat(X, w, axis=0), np.repeat(y, w)), ask)(new)
    np.testing.assert_allclose(weighted, repeated, atol=2e-3)


def test_several_targets_are_problems_of_their_own(table):
    X, score, new = table
    both = KernelSVR(3.0, gamma=4.0).fit(X, np.stack([score, 2.0 - score], axis=1)).predict(new)
    one = KernelSVR(3.0, gamma=4.0).fit(X, score).predict(new)
    np.testing.assert_allclose(both[:, 0], one, atol=1e-3)
    np.testing.assert_allclose(both[:, 1], 2.0 - one, atol=1e-3)


@pytest.mark.parametrize("cuts", [[1.0], [0.7, 1.3]])
def test_calibrated_probabilities(table, cuts):
    rng = np.random.default_rng(5)
    X = rng.random((900, 3))
    score = np.sin(5 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(900)
    y = np.digitize(score, cuts)
    model = KernelSVC(1.0, gamma=1.0, approximation="nystrom", probability=True, random_state=0)
    model.fit(X[:600], y[:600])
    p = model.predict_proba(X[600:])
    assert p.shape == (300, len(cuts) + 1)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.predict_log_proba(X[600:]), np.log(p))
    np.testing.assert_array_equal(model.predict(X[600:]), model.classes_[p.argmax(axis=1)])
    for j in range(p.shape[1]):
        # Where it says 30 %, 30 % are.
        for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.0)):
            inside = (p[:, j] >= low) & (p[:, j] < high)
            if inside.sum() > 40:
                assert abs((y[600:] == j)[inside].mean() - p[inside, j].mean()) < 0.15
    again = clone(model).set_params(n_jobs=1).fit(X[:600], y[:600])
    np.testing.assert_array_equal(again.calibration_, model.calibration_)
    refit = model.set_params(probability=False).fit(X[:600], y[:600])
    assert not hasattr(refit, "calibration_")
    assert not hasattr(refit, "predict_proba")


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"C": 0.0}, r"C=0.0 must be a positive"),
        ({"tol": -1.0}, r"tol=-1.0 must be a positive"),
        ({"max_iter": 0}, r"max_iter=0 must be a whole number of at least 1"),
        ({"loss": "hing"}, r"loss='hing' is unknown.*Did you mean 'hinge'"),
        ({"calibration_folds": 1}, r"calibration_folds=1 must be a whole number of at least 2"),
        ({"approximation": "mekka"}, r"Did you mean 'meka'"),
    ],
)
def test_bad_parameters(table, parameters, text):
    X, score, _ = table
    with pytest.raises(gm.InputError, match=text):
        KernelSVC(**parameters).fit(X, score > 1.0)


def test_bad_targets(table):
    X, score, _ = table
    with pytest.raises(gm.InputError, match="one class"):
        KernelSVC().fit(X, np.ones(len(X)))
    with pytest.raises(gm.InputError, match="epsilon=-1 must be a finite number of at least 0"):
        KernelSVR(epsilon=-1).fit(X, score)
    with pytest.raises(gm.InputError, match="loss='hinge' is unknown"):
        KernelSVR(loss="hinge").fit(X, score)
    with pytest.raises(AttributeError, match="predict_proba"):
        _ = KernelSVC().fit(X, score > 1).predict_proba


def test_constant_targets_and_rows(table):
    X, _, new = table
    np.testing.assert_allclose(KernelSVR().fit(X, np.full(len(X), 4.0)).predict(new), 4.0, atol=0.11)
    flat = KernelSVC(loss="hinge").fit(np.ones((40, 2)), np.arange(40) % 4 == 0)
    assert not flat.predict(np.ones((3, 2))).any()


def test_a_fit_without_active_rows_prints_nothing(capfd):
    """LAPACK told of an illegal value where no residual was beyond epsilon."""
    X = np.random.default_rng(0).random((300, 3))
    for loss in ("epsilon_insensitive", "squared_epsilon_insensitive"):
        with pytest.warns(UserWarning, match="all within epsilon=3 of a constant"):
            KernelSVR(epsilon=3.0, loss=loss).fit(X, np.sin(6 * X[:, 0]))
    assert capfd.readouterr() == ("", "")


def test_too_many_classes_are_refused_before_any_work():
    X, y = np.random.default_rng(0).random((2000, 3)), np.repeat(np.arange(1000), 2)
    with pytest.raises(
        gm.InputError, match=r"1,000 outputs, each a problem of its own with .* 1,000 columns"
    ):
        KernelSVC().fit(X, y)


@pytest.mark.data
def test_letter_is_as_accurate_as_libsvm():
    data = load_dataset("letter")
    order = np.random.default_rng(0).permutation(len(data.X))[:6000]
    X, y = data.X[order].astype(np.float64) / data.X.std(axis=0), data.y[order] < 13
    (X, y), (new, truth) = (X[:1000], y[:1000]), (X[1000:], y[1000:])
    peer = SVC(C=10.0, gamma=0.1, tol=1e-5).fit(X, y)
    exact = KernelSVC(10.0, loss="hinge", gamma=0.1, approximation="exact").fit(X, y)
    np.testing.assert_allclose(exact.decision_function(new), peer.decision_function(new), atol=1e-3)
    sizes = gm.MultiResolution(root_rank=400, rank=250, n_blocks=2)
    compressed = KernelSVC(10.0, gamma=0.1, approximation=sizes, random_state=0).fit(X, y)
    assert compressed.score(new, truth) > peer.score(new, truth) - 0.01


@pytest.mark.parametrize(("intercept", "shift"), [(True, 5.0), (False, 0.0)])
def test_targets_within_epsilon_are_told(intercept, shift):
    X = np.random.default_rng(0).random((60, 2))
    y = 0.05 * np.sin(6 * X[:, 0]) + shift
    model = KernelSVR(fit_intercept=intercept, random_state=0)
    with pytest.warns(UserWarning, match=r"y lies .* epsilon=0.1 of a constant.*such as 0.00"):
        assert np.ptp(model.fit(X, y).predict(X)) < 1e-6
    with pytest.warns(UserWarning, match="column 1 of y lies"):
        model.fit(X, np.column_stack([20 * y, y]))
    weights = np.ones(60)
    y[3], weights[3] = 50.0, 0.0  # a row that does not count
    with pytest.warns(UserWarning, match="y lies between"):
        model.fit(X, y, weights)
    model.set_params(epsilon=0.01).fit(X, y, weights)
    KernelSVR().fit(X, np.full(60, 2.0))  # nothing to learn, and nothing lost


# ---- scikit-learn's CalibratedClassifierCV gives KernelSVC probabilities as good as its own ---------


@pytest.mark.parametrize("classes", [2, 3])
def test_both_calibrations_agree(classes):
    rng = np.random.default_rng(0)
    X = rng.random((300, 2))
    y = np.minimum((classes * X[:, 0] + 0.2 * rng.standard_normal(300)).astype(int).clip(0), classes - 1)
    machine = gm.KernelSVC(C=1.0, gamma=2.0, random_state=0)
    theirs = CalibratedClassifierCV(machine, cv=3, ensemble=False).fit(X, y).predict_proba(X)
    own = gm.KernelSVC(C=1.0, gamma=2.0, probability=True, random_state=0).fit(X, y).predict_proba(X)
    assert np.abs(theirs - own).mean() < 0.03


@pytest.mark.parametrize("n", [20, 60])
def test_units_of_weights_do_not_matter_where_c_is_searched(n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    y, w = X[:, 0] + 0.3 * X[:, 1] ** 3 > 0, np.random.default_rng(1).random(n)
    found = [
        gm.KernelSVC(C="auto", probability=True, random_state=0).fit(X, y, weights).predict_proba(X)
        for weights in (w, 4.0 * w)
    ]
    assert np.array_equal(*found)


@pytest.mark.parametrize("classes", [2, 3])
def test_rows_of_weight_zero_are_in_no_fold(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=80), [0.0, 0.7][: classes - 1])
    machine = gm.KernelSVC(probability=True, random_state=0)
    want = machine.fit(X, y).predict_proba(X)
    more, labels = np.vstack([X, 9.0 + X[:7]]), np.append(y, y[:7])
    found = machine.fit(more, labels, np.append(np.ones(80), np.zeros(7))).predict_proba(X)
    np.testing.assert_allclose(found, want, atol=1e-6)
