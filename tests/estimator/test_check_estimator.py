"""scikit-learn's `check_estimator(Class())` for every public class with a `fit`, by its defaults."""

from __future__ import annotations

import inspect

import pytest
from rounded_checks import run_check
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import gramian as gm

PUBLIC = {name: getattr(home, name) for home in (gm, gm.approximations) for name in home.__all__}
ESTIMATORS = {
    name: kind
    for name, kind in PUBLIC.items()
    if inspect.isclass(kind) and issubclass(kind, BaseEstimator) and hasattr(kind, "fit")
}
#: Why a row of weight 2 is not the same as two rows: as a rule, something is drawn by the number of rows.
DRAWN = {
    "DCPredClassifier": "rows are assigned to leaves by clusters that start from drawn rows",
    "DCPredRegressor": "rows are assigned to leaves by clusters that start from drawn rows",
    "FastKernelClassifier": "the units start from drawn rows, and other drawn rows stop the descent",
    "FastKernelRegressor": "the units start from drawn rows, and other drawn rows stop the descent",
    "GaussianProcessRegressor": "two equal targets at one row say that there is no noise; a weight does not",
    "KernelRidgeCV": "the rows that the kernel is chosen on are drawn",
    "TabularClassifier": "the held-out rows are drawn",
    "TabularRegressor": "the held-out rows are drawn",
}
#: Tolerances of comparisons that ask for 1e-7: a solver that ends at 1e-3 as SVC's.
ROUNDED = {"DCSVC": 1e-2}
#: What the quick suite checks: a regressor, a classifier and a transformer.
QUICK = ("KernelRidge", "KernelSVC", "Nystrom")


def expected_failures(estimator):
    reason = DRAWN.get(type(estimator).__name__)
    names = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return dict.fromkeys(names, reason) if reason else {}


def with_checks(kinds):
    return parametrize_with_checks([kind() for kind in kinds], expected_failed_checks=expected_failures)


def run(estimator, check):
    tolerance = ROUNDED.get(type(estimator).__name__)
    if tolerance is None:
        check(estimator)
    else:
        run_check(estimator, check, tolerance)


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:the learned kernel explains nothing")  # the checks' targets are random
@with_checks(ESTIMATORS[name] for name in QUICK)
def test_sklearn_check_by_default(estimator, check):
    run(estimator, check)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:the learned kernel explains nothing")  # the checks' targets are random
@pytest.mark.filterwarnings("ignore:5 rows are too few to compare settings")  # the others have weight 0
@with_checks(kind for name, kind in ESTIMATORS.items() if name not in QUICK)
def test_sklearn_check_of_the_others_by_default(estimator, check):
    run(estimator, check)
