"""Support vector machines and logistic regression whose kernel, gamma or C is "auto"."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import gramian as gm
from gramian.exceptions import InputError
from gramian.kernels import Laplacian

CLASSIFIERS = (gm.KernelSVC, gm.KernelLogisticRegression)
KINDS = (*CLASSIFIERS, gm.KernelSVR)


def waves(n: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) * [1.0, 10.0, 1.0]
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * X[:, 1] + 0.1 * rng.standard_normal(n)


def target(kind: type, y: np.ndarray) -> np.ndarray:
    return y if kind is gm.KernelSVR else np.where(y > 0.0, "above", "below")


def made(kind: type, **params: object):
    quick = {"loss": "squared_epsilon_insensitive", "epsilon": 0.01} if kind is gm.KernelSVR else {}
    return kind(**{"random_state": 0, **quick, **params})


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_choice_is_much_better_than_the_defaults(kind):
    X, y = waves()
    new, truth = waves(seed=1)
    auto, usual = (
        made(kind, **params).fit(X, target(kind, y)).score(new, target(kind, truth))
        for params in ({"C": "auto", "kernel": "auto"}, {})
    )
    assert auto > usual + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_model_is_that_of_a_fit_with_what_was_chosen(kind):
    X, y = waves()
    m = made(kind, C="auto", kernel="auto").fit(X, target(kind, y))
    same = made(kind, C=m.C_, kernel=m.kernel_).fit(X, target(kind, y))
    answers = [one.predict(X) if kind is gm.KernelSVR else one.decision_function(X) for one in (m, same)]
    np.testing.assert_allclose(answers[0], answers[1], atol=0.02 * np.std(answers[1]))
    assert m.choice_.kernel == m.kernel_
    assert m.plan_.used_seconds["choice"] > 0


def test_C_has_the_least_held_out_loss_of_fits_without_the_fold():
    X, y = waves(100)
    m = gm.KernelSVR("auto", kernel=gm.Gaussian((1.0, 30.0, 5.0)), loss="squared_epsilon_insensitive")
    m.set_params(random_state=0, epsilon=0.01).fit(X, y)

    def error(C: float) -> float:
        """Return the mean squared error over ten folds, which are not those of the fit."""
        fold = np.random.default_rng(7).permutation(100) % 10
        total = 0.0
        for k in range(10):
            one = clone(m).set_params(C=C).fit(X[fold != k], y[fold != k])
            total += float(np.sum((one.predict(X[fold == k]) - y[fold == k]) ** 2))
        return total

    grid = m.C_ * np.array([0.01, 1.0, 100.0])
    assert np.argmin([error(C) for C in grid]) == 1


@pytest.mark.slow
def test_targets_in_another_unit_have_the_same_kernel_and_a_C_in_that_unit():
    X, y = waves(120)
    one, other = (
        gm.KernelSVR("auto", gamma="auto", epsilon=0.1 * unit, random_state=0).fit(X, unit * y)
        for unit in (1.0, 1000.0)
    )
    assert pytest.approx(1000.0 * one.C_, rel=1e-3) == other.C_
    np.testing.assert_allclose(other.predict(X), 1000.0 * one.predict(X), atol=20.0)


@pytest.mark.parametrize("kind", KINDS)
def test_gamma_alone_keeps_the_family_and_C(kind):
    X, y = waves(100)
    m = made(kind, kernel="laplacian", gamma="auto").fit(X, target(kind, y))
    assert isinstance(m.kernel_, Laplacian)
    assert np.ndim(m.kernel_.lengthscale) == 0
    assert not hasattr(m, "C_")
    m.set_params(gamma=None).fit(X, target(kind, y))
    assert not hasattr(m, "choice_")


@pytest.mark.parametrize(
    "kind", [pytest.param(gm.KernelSVC, marks=pytest.mark.slow), gm.KernelLogisticRegression]
)
def test_classes_and_weights(kind):
    X, y = waves(240)
    labels = np.digitize(y, [-0.5, 0.5])
    m = made(kind, C="auto", kernel="auto", class_weight="balanced").fit(X, labels)
    assert m.score(X, labels) > 0.8
    weights = np.where(np.arange(240) < 200, 1.0, 0.0)
    spoiled = np.where(weights > 0, labels, 1)
    kept = [made(kind, C="auto", gamma="auto").fit(X, v, weights) for v in (labels, spoiled)]
    assert kept[0].kernel_ == kept[1].kernel_
    assert pytest.approx(kept[1].C_) == kept[0].C_


@pytest.mark.slow
def test_probabilities_are_calibrated_at_the_C_that_was_chosen():
    X, y = waves()
    m = gm.KernelSVC("auto", kernel="auto", probability=True, random_state=0).fit(X, target(gm.KernelSVC, y))
    assert m.predict_proba(X).shape == (200, 2)
    assert m.C_ > 0


@pytest.mark.slow
def test_a_learned_metric_goes_with_C_alone():
    X, y = waves(120)
    for kind in KINDS:
        m = made(kind, C="auto", metric="diagonal", standardize=True).fit(X, target(kind, y))
        assert m.C_ > 0
        assert m.metric_.importances[0] > 0
    ridge = gm.KernelRidge("auto", metric="diagonal", standardize=True, random_state=0).fit(X, y)
    assert ridge.alpha_ > 0


@pytest.mark.parametrize("kind", KINDS)
def test_few_rows_get_the_usual_values(kind):
    X, y = waves(30)
    m = made(kind, C="auto", kernel="auto", gamma="auto").fit(X, target(kind, y))
    assert pytest.approx(40 / 30) == m.C_
    assert not hasattr(m, "choice_")
    np.testing.assert_array_equal(m.predict(X), made(kind, C=m.C_).fit(X, target(kind, y)).predict(X))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_clone_pickle_file_and_plan(kind, tmp_path):
    X, y = waves(120)
    y = target(kind, y)
    m = made(kind, C="auto", kernel="auto")
    assert m.plan(X, y).peak_bytes == made(kind).plan(X, y).peak_bytes
    m.fit(X, y)
    again = clone(m).fit(X, y)
    assert (again.kernel_, again.C_) == (m.kernel_, m.C_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(m)).predict(X), m.predict(X))
    gm.save(m, tmp_path / "model")
    loaded = gm.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), m.predict(X))
    assert (loaded.choice_.kernel, loaded.C_) == (m.choice_.kernel, m.C_)


def test_C_of_a_precomputed_matrix():
    X, y = waves(100)
    labels = target(gm.KernelSVC, y)
    given = gm.KernelSVC("auto", kernel="precomputed", random_state=0).fit(gm.Gaussian(2.0)(X), labels)
    named = gm.KernelSVC("auto", kernel=gm.Gaussian(2.0), random_state=0).fit(X, labels)
    assert pytest.approx(named.C_) == given.C_


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kernel": "auto", "metric": "diagonal"}, "both would learn the distance"),
        ({"kernel": "auto", "gamma": 1.0}, "lengthscales of its own"),
        ({"gamma": "auto", "kernel": "linear"}, "no gamma to choose"),
        ({"gamma": "auto", "kernel": gm.Gaussian(1.0)}, "no gamma to choose"),
        ({"C": "best"}, "positive, finite number"),
        ({"gamma": "best"}, "gamma='best'"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_go_together_is_refused(kind, params, message):
    X, y = waves(60)
    m = made(kind, **params)
    with pytest.raises(InputError, match=message):
        m.fit(X, target(kind, y))
    assert not hasattr(m, "predictor_")


def test_frozen_landmarks_have_their_kernel():
    X, y = waves(80)
    frozen = FrozenEstimator(gm.MultiResolution(random_state=0).fit(X))
    with pytest.raises(InputError, match="kernel is fixed"):
        gm.KernelSVR(kernel="auto", approximation=frozen).fit(X, y)


@parametrize_with_checks([made(kind, C="auto", kernel="auto") for kind in KINDS])
def test_scikit_learns_checks(estimator, check):
    check(estimator)
