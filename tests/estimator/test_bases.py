"""Bases of the public estimators: few, and none that a reader has to climb."""

import inspect

import pytest
from sklearn.base import BaseEstimator

import gramian as gm

ESTIMATORS = [
    kind
    for kind in (getattr(gm, name) for name in gm.__all__)
    if inspect.isclass(kind) and issubclass(kind, BaseEstimator)
]


def own(kind):
    return kind.__module__.startswith("gramian")


def chain(kind):
    """Return how many classes of the library stand above one, along the longest way."""
    return max((1 + chain(base) for base in kind.__bases__ if own(base)), default=0)


@pytest.mark.whole
@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_two_classes_of_the_library_stand_above_an_estimator_at_most(kind):
    assert chain(kind) <= 2


@pytest.mark.whole
@pytest.mark.parametrize(
    "name",
    [
        "DCPredClassifier",
        "DCPredRegressor",
        "DCSVC",
        "GaussianProcessRegressor",
        "KernelLogisticRegression",
        "KernelPCA",
        "KernelRidge",
        "KernelRidgeCV",
        "KernelRidgeClassifier",
        "KernelSVC",
        "KernelSVR",
    ],
)
def test_one_base_and_one_mixin(name):
    above = {kind.__name__ for kind in getattr(gm, name).__mro__[1:] if own(kind)}
    assert "KernelEstimator" in above
    # Ridge models alone learn from streams: what they share stands between.
    assert above - {"KernelEstimator", "RidgeEstimator"} <= {"Classifier", "Regressor"}
    assert len(above) <= 2 + name.startswith("KernelRidge")
