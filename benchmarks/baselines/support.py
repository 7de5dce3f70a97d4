"""Exact SVMs from libsvm, one per class against the rest, merged into one set of support vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.svm import SVC

from baselines.base import WeightedRows
from gramian._checks import positive_number
from gramian._typing import Float64Array, Rows
from gramian.engine import Engine
from gramian.kernels.columns import dense


@dataclass(frozen=True, eq=False)
class SupportVectors:
    """Expansion f(x) = Σ_i k(x_i, x) α_i + b over the support vectors of all machines.

    rows : (n_sv, d) in float64; coefficients : (n_sv, outputs), y_i α_i; intercept : (outputs,).
    """

    rows: Float64Array
    coefficients: Float64Array
    intercept: Float64Array


def support_vectors(
    rows: WeightedRows, *, C: float, gamma: float, tol: float, engine: Engine
) -> SupportVectors:
    """Solve min ½‖w‖² + C Σ_i weight_i max(0, 1 − y_i f(x_i)) for each column of the targets by libsvm.

    Time O(n² d) to O(n³) a machine, memory O(n d) and libsvm's cache of 200 MB.
    """
    C, tol = positive_number("C", C), positive_number("tol", tol)
    X: Rows = rows.floats

    def machine(output: int) -> SVC:
        model = SVC(C=C, gamma=gamma, tol=tol)
        return model.fit(X, rows.targets[:, output], sample_weight=rows.weights)

    machines = engine.map(machine, range(rows.targets.shape[1]))
    kept = np.unique(np.concatenate([m.support_ for m in machines]))
    coefficients = np.zeros((len(kept), len(machines)))
    for output, model in enumerate(machines):
        coefficients[np.searchsorted(kept, model.support_), output] = dense(model.dual_coef_)[0]
    intercept = np.array([float(m.intercept_[0]) for m in machines])
    return SupportVectors(np.asarray(dense(X[kept]), np.float64), coefficients, intercept)
