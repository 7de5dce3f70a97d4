"""Every estimator class of the library, with what makes its fit quick, for tests that walk all of them."""

from __future__ import annotations

import inspect

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

import gramian as gm

RNG = np.random.default_rng(0)
X = RNG.random((60, 3))
Y = X[:, 0]
LABELS = np.where(Y > 0.5, "b", "a")


def _estimators():
    """Return every estimator class with a constructor of its own, by name; no base that cannot be fitted."""
    found, todo = {}, [BaseEstimator]
    while todo:
        for kind in todo.pop().__subclasses__():
            todo.append(kind)
            ours = kind.__module__.startswith("gramian.")
            base = bool(kind.__subclasses__()) and not hasattr(kind, "fit")
            if ours and "__init__" in vars(kind) and not base and not kind.__name__.startswith("_"):
                found[kind.__name__] = kind
    return dict(sorted(found.items()))


ESTIMATORS = _estimators()
#: Constructor arguments under which a fit is quick.
QUICK = {
    "TabularClassifier": {"time_limit": 0.01},
    "TabularRegressor": {"time_limit": 0.01},
    "FastKernelClassifier": {"n_levels": 0, "n_units": 2, "n_directions": 1},
    "FastKernelRegressor": {"n_levels": 0, "n_units": 2, "n_directions": 1},
    "BlockBasis": {"rank": 3, "n_blocks": 2},
}
#: Settings in another estimator's parameter, which is fitted for them.
HOSTS = {
    "Exact": lambda settings: gm.KernelRidge(approximation=settings),
    "LearnedMetric": lambda settings: gm.KernelRidge(metric=settings),
}


def parameters(kind):
    """Return the constructor's parameters."""
    return inspect.signature(kind).parameters


def fit(model, rows=X, y=None, **kwargs):
    """Fit to rows, and to targets that suit the model."""
    return model.fit(rows, target(model) if y is None else y, **kwargs)


def target(model):
    """Return labels for a classifier, numbers for others."""
    return LABELS if is_classifier(model) else Y
