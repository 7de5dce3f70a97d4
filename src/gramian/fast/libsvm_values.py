"""Decision values of scikit-learn's Gaussian SVMs computed in tiles, much faster than libsvm's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.svm import SVC, SVR, NuSVC, NuSVR

from gramian._typing import Array, Float64Array
from gramian.compression.expansion import PairwisePredictor
from gramian.engine import Engine
from gramian.kernels.lookup import resolve_kernel


def libsvm_values(model: Any, engine: Engine) -> Callable[[Array], Float64Array] | None:
    """Return rows → the model's values; for two classes and for numbers its own to rounding.

    For more classes a class's is half of the least of its pairs' values, v_k = ½ min_j f_kj: where a class
    wins all its pairs it is the largest, v_k − v_j = f_kj for the j nearest to winning, and it is continuous.
    scikit-learn's count votes, which jump by 1 and hide how nearly a class won.

    None where the model is not a fitted SVC, NuSVC, SVR or NuSVR with ``kernel="rbf"`` on dense rows. Time
    O(n m d) by matrix products, some ten times less than libsvm's.
    """
    known = type(model) in (SVC, NuSVC, SVR, NuSVR) and model.kernel == "rbf"
    if not known or not hasattr(model, "support_vectors_") or issparse(model.support_vectors_):
        return None
    classifies = isinstance(model, SVC | NuSVC)
    n_classes = len(model.classes_) if classifies else 2
    counts = model.n_support_ if classifies else [len(model.support_vectors_), 0]
    # For two classes scikit-learn turns libsvm's signs, and PairwisePredictor's agree with libsvm's.
    sign = 1.0 if n_classes > 2 else -1.0
    predictor = PairwisePredictor(
        np.asarray(model.support_vectors_),
        np.repeat(np.arange(n_classes), counts),
        np.zeros(len(model.support_vectors_), np.intp),
        sign * np.asarray(model.dual_coef_),
        sign * np.asarray(model.intercept_)[None],
        resolve_kernel("rbf", n_features=model.n_features_in_, gamma=model._gamma),
        None,
        None,
    )

    def values(rows: Array) -> Float64Array:
        found = predictor(np.asarray(rows, np.float64), engine)
        if n_classes == 2:
            return -found.ravel()
        worst = np.full((len(found), n_classes), np.inf)
        for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
            np.minimum(worst[:, i], found[:, pair], out=worst[:, i])
            np.minimum(worst[:, j], -found[:, pair], out=worst[:, j])
        return 0.5 * worst

    return values
