"""Data and small models for the tests of DC-Pred++."""

from __future__ import annotations

import numpy as np

from gramian.fast.dcpred.estimators import DCPredClassifier, DCPredRegressor
from gramian.fast.dcpred.pseudo_landmarks import PSEUDO

RNG = np.random.default_rng(0)
X = RNG.random((900, 3))
TARGET = np.sin(7 * X[:, 0]) + X[:, 1] * X[:, 2]
LABELS = np.where(TARGET > 0.6, "yes", "no")
THREE = np.array(["red", "green", "blue"])[np.digitize(TARGET, [0.0, 0.8])]
NEW = RNG.random((400, 3))
KINDS = (None, *PSEUDO)


def classifier(**parameters):
    options = {"gamma": 3.0, "n_leaves": 6, "n_landmarks": 6, "n_pseudo": 10, "dtype": "float64"}
    return DCPredClassifier(**{"C": 10.0, "random_state": 0, "n_jobs": 1, **options, **parameters})


def regressor(**parameters):
    options = {"gamma": 3.0, "n_leaves": 6, "n_landmarks": 6, "n_pseudo": 10, "dtype": "float64"}
    return DCPredRegressor(**{"alpha": 1e-3, "random_state": 0, "n_jobs": 1, **options, **parameters})


def members(model, rows=X):
    at = model.model_.partition.route(rows)
    return [np.flatnonzero(at == leaf) for leaf in range(model.n_leaves_)]
