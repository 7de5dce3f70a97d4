"""The unit of sample weights does not matter to a model that searches for its penalty."""

import numpy as np
import pytest
from every_estimator import ESTIMATORS, HOSTS, LABELS, QUICK, Y, parameters
from sklearn.base import is_classifier
from sklearn.utils.validation import has_fit_parameter

import gramian as gm
from gramian.estimator.labels import relative_weights

RNG = np.random.default_rng(3)
X = np.column_stack([Y, RNG.random((60, 2))])
WEIGHTS = np.where(RNG.random(60) < 0.1, 0.0, RNG.uniform(0.5, 1.5, 60))
#: Settings under which an estimator searches for its penalty, or has none; without a clock.
SEARCHES = {
    "FastKernelClassifier": QUICK["FastKernelClassifier"],
    "FastKernelRegressor": QUICK["FastKernelRegressor"],
    "GaussianProcessRegressor": {},
    "KernelLogisticRegression": {"C": "auto"},
    "KernelRidge": {"alpha": "auto"},
    "KernelRidgeCV": {},
    "KernelRidgeClassifier": {"alpha": "auto"},
    "KernelSVC": {"C": "auto"},
    "KernelSVR": {"C": "auto"},
    "TabularClassifier": {"kernel": "laplacian", "metric": None},
    "TabularRegressor": {"kernel": "laplacian", "metric": None},
}
#: Public estimators whose penalty is the user's, and that divide it by the weights.
GIVEN = {"DCPredClassifier", "DCPredRegressor", "DCSVC"}


def test_every_public_estimator_with_weights_is_in_one_list():
    public = {name for name in ESTIMATORS if name in gm.__all__ and name not in HOSTS}
    weighted = {name for name in public if has_fit_parameter(ESTIMATORS[name], "sample_weight")}
    assert weighted == SEARCHES.keys() | GIVEN


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "KernelSVR")) for name in SEARCHES]
)
def test_a_factor_of_all_weights_changes_no_model(name):
    kind = ESTIMATORS[name]
    fixed = {"random_state": 0} if "random_state" in parameters(kind) else {}
    model, y = kind(**SEARCHES[name], **fixed), LABELS if is_classifier(kind()) else np.sin(6 * X[:, 0])
    found = []
    for weights in (WEIGHTS, WEIGHTS * 3e-9):
        model.fit(X, y, sample_weight=weights)
        answer = getattr(model, "decision_function", None) or model.predict
        found.append(np.asarray(answer(X), np.float64))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-4)


def test_class_weights_have_no_unit_either():
    model = gm.KernelRidgeClassifier("auto", random_state=0)
    want = model.set_params(class_weight={"a": 1.0, "b": 3.0}).fit(X, LABELS).decision_function(X)
    found = model.set_params(class_weight={"a": 1e-9, "b": 3e-9}).fit(X, LABELS).decision_function(X)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


def test_relative_weights_have_mean_1_over_the_rows_that_count():
    np.testing.assert_allclose(relative_weights(np.array([0.0, 2e-9, 6e-9])), [0.0, 0.5, 1.5])
    assert relative_weights(None) is None
