"""scikit-learn's `check_estimator(Class())` for every public class with a `fit`, by its defaults."""

from __future__ import annotations

import inspect

import pytest
from rounded_checks import FLOAT32, run_check
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import gramian as gm

PUBLIC = {name: getattr(home, name) for home in (gm, gm.approximations) for name in home.__all__}
ESTIMATORS = {
    name: kind
    for name, kind in PUBLIC.items()
    if inspect.isclass(kind) and issubclass(kind, BaseEstimator) and hasattr(kind, "fit")
}
#: Why a row of weight 2 is not the same as two rows: something is drawn by the number of rows.
DRAWN = {
    "DCPredClassifier": "rows are assigned to leaves by clusters that start from drawn rows",
    "DCPredRegressor": "rows are assigned to leaves by clusters that start from drawn rows",
    "DCSVC": "the problem is divided by clusters of drawn rows",
    "FastKernelClassifier": "the units start from drawn rows, and other drawn rows stop the descent",
    "FastKernelRegressor": "the units start from drawn rows, and other drawn rows stop the descent",
    "TabularClassifier": "the held-out rows are drawn",
    "TabularRegressor": "the held-out rows are drawn",
}
#: Models with float32 answers whose defaults take a minute for all checks.
FAST = ("FastKernelClassifier", "FastKernelRegressor")


def expected_failures(estimator):
    reason = DRAWN.get(type(estimator).__name__)
    names = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return dict.fromkeys(names, reason) if reason else {}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [kind() for name, kind in ESTIMATORS.items() if name not in FAST],
    expected_failed_checks=expected_failures,
)
def test_sklearn_check_by_default(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([ESTIMATORS[name]() for name in FAST], expected_failed_checks=expected_failures)
def test_sklearn_check_of_float32_answers(estimator, check):
    run_check(estimator, check, FLOAT32)
