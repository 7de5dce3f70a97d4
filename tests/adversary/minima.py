"""Laws of models that minimise a loss, and of compressed matrices: true objectives, dense algebra of K̃."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from adversary import kernels, references
from adversary.cases import Case, class_of
from adversary.trial import Broken, Trial
from gramian._numerics import rank_cutoff, unit_roundoff
from gramian.approximations.approximation import Approximation
from gramian.svm.newton_training import FLOOR

NEWTON = ("KernelSVC", "KernelSVR", "KernelLogisticRegression")
#: Methods that are K itself when every row is a landmark.
FULL = {
    "Nystrom": "rank",
    "MultiResolution": "root_rank",
    "LowRankPlusBlocks": "root_rank",
    "TruncatedEigen": "rank",
}


def _loss(case: Case) -> str:
    if case.estimator == "KernelSVR":
        return str(case.value("loss", "epsilon_insensitive"))
    if case.estimator == "KernelSVC":
        return str(case.value("loss", "squared_hinge"))
    return "logistic" if len(np.unique(case.y)) == 2 else "softmax"


def objective_is_the_minimum(trial: Trial) -> None:
    """C Σ w ℓ(y, f) + ½‖f‖² of the values that the model answers with is the least, to what it reports."""
    from adversary import dense

    case, model = trial.case, trial.model
    K, _ = dense.exact_matrices(case)
    loss, intercept = _loss(case), bool(case.value("fit_intercept", True))
    epsilon = float(case.value("epsilon", 0.1))
    w = dense.weights_of(case)
    cost = case.value("C", 1.0) * (np.ones(case.n) if w is None else w)
    found = trial.answers(model, trial.rows)
    f = found["decision_function" if case.n_classes else "predict"].reshape(case.n, -1).astype(np.float64)
    if loss == "softmax":
        codes = np.unique(case.y, return_inverse=True)[1]
        problems = [(codes, f, model.solution_.value, f.shape[1])]
    else:
        Y = dense.targets_of(case)
        problems = [(Y[:, j], f[:, j], model.solution_.value[:, j : j + 1], 1) for j in range(Y.shape[1])]
    error = dense.matrix_error(trial, K, exact=False)
    relative = max(
        trial.amounts.get("gap", 0.0), float(model.tol), 4.0 * unit_roundoff(dense.tiles_of(model))
    )
    total = sum(_value(loss, y, values, beta, cost, epsilon) for y, values, beta, _ in problems)
    mass = float(cost.sum())
    for y, values, beta, outputs in problems:
        got = _value(loss, y, values, beta, cost, epsilon)
        if loss == "hinge":
            want = references.hinge_bound(K, y, cost, intercept)
        elif loss == "epsilon_insensitive":
            want = references.tube_bound(K, y, cost, epsilon, intercept)
        else:
            want = references.smooth_minimum(loss, K, y, cost, intercept, epsilon=epsilon, outputs=outputs)
        size = FLOOR * mass * (float(np.std(y)) or 1.0 if case.estimator == "KernelSVR" else 1.0)
        # The dual is at most the slopes; a change E of K moves the minimum by ½ αᵀEα.
        slope = cost.sum() if loss in ("hinge", "epsilon_insensitive") else np.sqrt(2.0 * cost.sum() * got)
        rounding = 0.5 * error * slope**2 + dense.rounding(trial, values) * slope
        allowed = 3.0 * relative * max(got, total, size) + rounding
        trial.near("the objective", max(got, want), want, allowed + 1e-9 * abs(want))


def _value(
    loss: str, y: np.ndarray, f: np.ndarray, beta: np.ndarray, cost: np.ndarray, epsilon: float
) -> float:
    return float(cost @ references.loss_values(loss, y, f, epsilon) + 0.5 * (np.asarray(beta) ** 2).sum())


def dual_is_the_maximum(trial: Trial) -> None:
    """α of the divide-and-conquer SVM is feasible, and its dual objective the largest to ``tol``."""
    from adversary import dense

    case, model = trial.case, trial.model
    K, cross = dense.exact_matrices(case)
    y = dense.targets_of(case)[:, 0]
    w = dense.weights_of(case)
    cost = case.value("C", 1.0) * (np.ones(case.n) if w is None else w)
    signed = np.zeros(case.n)
    signed[model.support_] = np.asarray(model.dual_coef_).ravel()
    alpha = np.abs(signed)
    intercept = bool(case.value("fit_intercept", True))
    if (alpha > cost * (1.0 + 1e-6)).any():
        raise Broken(f"a coefficient is {alpha.max():.6g}; at most {cost.max():.6g} is allowed")
    if intercept:
        trial.near("Σ y α", signed.sum(), 0.0, 1e-6 * max(alpha.sum(), 1e-12))
    got = alpha.sum() - 0.5 * signed @ K @ signed
    want = references.hinge_bound(K, y, cost, intercept)
    violation = max(trial.amounts.get("gap", 0.0), float(model.tol))
    error = dense.matrix_error(trial, K, exact=True)
    allowed = 2.0 * violation * cost.sum() + error * alpha.sum() ** 2 + 1e-9 * abs(want)
    trial.near("the dual objective", min(got, want), want, allowed)
    values = cross @ signed + model.intercept_
    slack = dense.rounding(trial, values) + error * alpha.sum()
    trial.near("decision_function", trial.answered["decision_function"], values.ravel(), slack)


# ---- compressed matrices ----------------------------------------------------------------------------


def operator_is_its_dense_matrix(trial: Trial) -> None:
    """Features, products, diagonal, trace, eigenvalues, solve and log-determinant are those of one K̃ ⪰ 0."""
    from adversary import dense

    case, a = trial.case, trial.model
    op = a.operator_
    with trial.listening():
        M = np.asarray(op.to_dense(), np.float64)
        F, G = (_array(a.transform(rows)) for rows in (trial.rows, trial.new))
        cross = np.asarray(a.cross(trial.new) @ np.eye(case.n))
    u = unit_roundoff(dense.tiles_of(a))
    size = float(np.abs(M).max(initial=0.0))
    close = 64.0 * u * np.sqrt(max(F.shape[1], 1)) * (size + float((F**2).sum(axis=1).max(initial=0.0)))
    close += 2.0 * dense.rounding(trial, F) * float(np.abs(F).sum(axis=1).max(initial=0.0))
    trial.near("K̃ᵀ", M.T, M, close)
    trial.near("F Fᵀ", F @ F.T, M, close)
    trial.near("cross @ I", cross, G @ F.T, close)
    trial.near("diagonal()", op.diagonal(), np.diag(M), close)
    trial.near("trace()", op.trace(), np.trace(M), case.n * close)
    V = np.random.default_rng(case.seed).standard_normal((case.n, 2))
    trial.near("K̃ @ V", op @ V, M @ V, close * np.abs(V).sum())
    values = np.linalg.eigvalsh(0.5 * (M + M.T))
    if values[0] < -case.n * close - 1e-300:
        raise Broken(f"K̃ has the eigenvalue {values[0]:.3g} beside {values[-1]:.3g}")
    largest = max(float(values[-1]), 0.0)
    for alpha in (1.0, 1e-3 * largest or 1.0):
        with trial.listening():
            x, logdet = op.solve(V, alpha), op.logdet(alpha)
        condition = (largest + alpha) / alpha
        moved = case.n * (close + 1e-10 * largest) / alpha
        residual = 1e-8 * condition + trial.amounts.get("residual", 0.0)
        back = (M + alpha * np.eye(case.n)) @ x
        allowed = (residual + moved) * np.abs(V).max() * case.n + close * np.abs(x).sum()
        trial.near(f"(K̃ + {alpha:.3g} I) x", back, V, allowed)
        want = float(np.linalg.slogdet(M + alpha * np.eye(case.n))[1])
        trial.near(f"logdet({alpha:.3g})", logdet, want, case.n * moved + 1e-9 * (abs(want) + case.n))


def errors_are_the_true_ones(trial: Trial) -> None:
    """``trace_error`` is exact, and so is ``relative_error`` from all rows."""
    from adversary import dense

    case, a = trial.case, trial.model
    K, _ = dense.exact_matrices(case)
    with trial.listening():
        M = np.asarray(a.operator_.to_dense(), np.float64)
        trace, whole = a.trace_error(trial.rows), a.relative_error(trial.rows, n_rows=case.n, random_state=1)
    error = dense.matrix_error(trial, K, exact=False) + 1e-9 * float(np.abs(K).max(initial=0.0))
    total, norm = float(np.trace(K)), float(np.linalg.norm(K))
    if total > 0 and norm > 0:
        trial.near("trace_error", float(trace), np.trace(K - M) / total, 4.0 * case.n * error / total)
        want = float(np.linalg.norm(K - M)) / norm
        trial.near(
            "relative_error of all rows", float(whole), want, 4.0 * case.n * error / norm + 1e-6 * want
        )


def full_rank_is_the_matrix_itself(trial: Trial) -> None:
    """With as many landmarks as rows K̃ is K, up to the cutoff of directions that are rounding."""
    from adversary import dense

    case, a = trial.case, trial.model
    K, _ = dense.exact_matrices(case)
    M = np.asarray(a.operator_.to_dense(), np.float64)
    dtype = dense.tiles_of(a)
    error = dense.matrix_error(trial, K, exact=False)
    noise = kernels.entry_error(case, case.X, dtype) / np.sqrt(rank_cutoff(dtype, residual=True))
    lost = case.n * rank_cutoff(dtype, residual=True) + noise
    trial.near("K̃ of full rank", M, K, error + lost * float(np.abs(K).max(initial=0.0)))


def _array(values: Any) -> np.ndarray:
    return np.asarray(values.toarray() if sp.issparse(values) else values, np.float64)


def _approximation(case: Case) -> bool:
    return issubclass(class_of(case.estimator), Approximation)


def _full(case: Case) -> bool:
    given = case.options
    rows = given.get("landmarks", "'rpcholesky'") != "'kmeans'" or case.estimator == "TruncatedEigen"
    return case.estimator in FULL and int(given[FULL[case.estimator]]) >= case.n and rows


LAWS: dict[str, Any] = {
    "objective": (
        objective_is_the_minimum,
        lambda case: case.estimator in NEWTON and kernels.is_plainly_exact(case),
    ),
    "dual": (dual_is_the_maximum, lambda case: case.estimator == "DCSVC" and len(np.unique(case.y)) == 2),
    "operator": (operator_is_its_dense_matrix, _approximation),
    "errors": (errors_are_the_true_ones, _approximation),
    "full rank": (full_rank_is_the_matrix_itself, _full),
}
