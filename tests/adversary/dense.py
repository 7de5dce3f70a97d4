"""Laws against dense references: ridge, held-out errors, Gaussian processes, principal components."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from adversary import held_out, kernels, minima, references
from adversary.cases import Case, put
from adversary.trial import Broken, Trial
from gramian._numerics import rank_cutoff, ridge_tolerance, unit_roundoff
from gramian.approximations.approximation import Approximation

KERNEL = ("kernel", "gamma", "degree", "coef0", "kernel_params")
RIDGES = ("KernelRidge", "KernelRidgeClassifier", "KernelRidgeCV")
#: Relative residual that iterations of an exact solve may leave: the default of ``Exact(tol=…)``.
EXACT_TOL = 1e-6
#: Bounds here are of first order, and sizes of errors are those of a model of rounding.
SAFETY = 8.0
#: What whitening all rows leaves of K, over its cutoff.
LEFT = 4.0


def tiles_of(model: Any) -> np.dtype[Any]:
    """Return the type of the tiles that a fitted model computes with."""
    for name in ("predictor_", "features_"):
        if hasattr(getattr(model, name, None), "dtype"):
            return np.dtype(getattr(model, name).dtype)
    return np.dtype(np.float32 if getattr(model, "tile_dtype", "auto") == "float32" else np.float64)


def weights_of(case: Case) -> np.ndarray | None:
    """Return what each row counts: its weight times that of its class; None where all count as one.

    A process that learns its noise divides weights by their mean over the rows that count.
    """
    w = case.w
    if w is not None and case.estimator == "GaussianProcessRegressor" and learns_noise(case):
        w = w / w[w > 0].mean()
    if case.value("class_weight") is None:
        return w
    base = np.ones(case.n) if w is None else w
    codes = np.unique(case.y, return_inverse=True)[1]
    mass = np.bincount(codes, weights=base)
    return np.asarray(base * (mass.sum() / (np.count_nonzero(mass) * np.where(mass > 0, mass, 1.0)))[codes])


def learns_noise(case: Case) -> bool:
    """Return whether a Gaussian process learns its noise."""
    return bool(case.value("optimizer", "lbfgs")) and bool(case.value("learn_noise", True))


def targets_of(case: Case) -> np.ndarray:
    """Return targets as float64 (n, outputs); of classes ±1 for one against the rest."""
    if not case.n_classes:
        return np.asarray(case.y, np.float64).reshape(case.n, -1)
    classes, codes = np.unique(case.y, return_inverse=True)
    if len(classes) == 2:
        return np.asarray(2.0 * codes[:, None] - 1.0)
    return np.where(codes[:, None] == np.arange(len(classes)), 1.0, -1.0)


def rows_of(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return training and new rows in float64, standardised where the model does that."""
    X, new = np.asarray(case.X, np.float64), np.asarray(case.new, np.float64)
    if case.value("standardize", False):
        w = weights_of(case)
        # Differences from the first row: those of a constant column are exactly 0.
        mean = X[0] + np.average(X - X[0], axis=0, weights=w)
        spread = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
        spread = np.where(spread > 10.0 * np.finfo(np.float64).eps * np.abs(mean), spread, 1.0)
        centre = 0.0 if case.container == "csr" else mean
        # As documented: scaled rows are float32 where the rows are, or are integers of up to 16 bits.
        kind = case.X.dtype
        small = kind == np.float32 or (kind.kind in "iu" and kind.itemsize <= 2)
        type_ = np.float32 if small else np.float64
        given = np.float64 if case.container == "list" else type_  # a list holds Python's numbers
        X = ((X - centre) / spread).astype(given).astype(np.float64)
        new = ((new - centre) / spread).astype(type_).astype(np.float64)
    return X, new


@lru_cache(maxsize=4)
def exact_matrices(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return K of the training rows and k(new, training)."""
    X, new = rows_of(case)
    return kernels.matrix(case, X, X), kernels.matrix(case, new, X)


def frozen_matrices(trial: Trial, inner: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return K̃ of the training rows and K̃(new, training) of a fitted approximation."""
    case = trial.case
    with trial.listening():
        return inner.operator_.to_dense(), inner.cross(put(case.new, "array")) @ np.eye(case.n)


def entry_error(trial: Trial, X: np.ndarray, dtype: Any) -> float:
    """Return how far an entry of a tile may be from the model's kernel; a Gaussian process learns its own."""
    case = trial.case
    if case.estimator == "GaussianProcessRegressor" and isinstance(case.value("kernel", "rbf"), str):
        options = case.options | {"gamma": repr(kernels.gamma_of(trial.model.kernel_))}
        case = replace(case, parameters=tuple(options.items()))
    return kernels.entry_error(case, X, dtype)


def matrix_error(trial: Trial, K: np.ndarray, exact: bool) -> float:
    """Return how far an entry of the model's matrix may be from K: tiles, algebra, cutoff, warned amounts."""
    case, dtype = trial.case, tiles_of(trial.model)
    largest = float(np.abs(np.diag(K)).max(initial=0.0))
    error = entry_error(trial, rows_of(case)[0], dtype) * largest
    w = weights_of(case)
    # Weights are in the matrix that is factored, and rows of little weight carry its rounding.
    root = np.ones(len(K)) if w is None else np.sqrt(w)
    size = float((root[:, None] * np.abs(K) * root).sum(axis=0).max(initial=0.0)) / float(
        (root[root > 0] ** 2).min()
    )
    error += 4.0 * unit_roundoff(np.float64) * size
    if not exact:
        error += LEFT * kernels.cutoff(case, K, dtype)
    return error + trial.amounts.get("matrix", 0.0)


def solves_exactly(case: Case) -> bool:
    """Return whether K itself is factored; the others take every row as a landmark, up to the cutoff."""
    asked = case.value("approximation", "auto") == "exact"
    return asked and case.estimator != "KernelRidgeCV"


def alpha_of(trial: Trial) -> float:
    """Return the penalty of a ridge model, or the noise of a Gaussian process."""
    case = trial.case
    if case.estimator == "GaussianProcessRegressor":
        return float(trial.model.noise_)
    return float(getattr(trial.model, "alpha_", case.value("alpha", 1.0)))


def model_slack(
    trial: Trial,
    name: str,
    matrices: tuple[np.ndarray, np.ndarray] | None = None,
    own: np.ndarray | None = None,
) -> np.ndarray:
    """Return how far a ridge model's or Gaussian process's answers may be from the dense solution."""
    case, model = trial.case, trial.model
    if matrices is None:
        matrices, own = exact_matrices(case), kernels.sizes(case, rows_of(case)[1])
    K, cross = matrices
    if case.precomputed:
        own = np.ones(len(cross))  # the values of the default kernel
    alpha, w = alpha_of(trial), weights_of(case)
    exact = solves_exactly(case)
    Y, factor = targets_of(case), np.ones(1)
    if case.estimator == "GaussianProcessRegressor":
        Y, _, factor = normalised(case, Y)
    fit = references.ridge(K, Y, alpha, w, bool(case.value("fit_intercept", case.n_classes > 0)))
    error = matrix_error(trial, K, exact)
    counted = Y if w is None else Y * np.sqrt(w)[:, None]
    solution = getattr(model, "solution_", None)
    target = EXACT_TOL if exact else ridge_tolerance(tiles_of(model))
    residual = max(trial.amounts.get("residual", 0.0), min(solution.residual, target) if solution else 0.0)
    size = residual * np.linalg.norm(counted, axis=0).max(initial=0.0)
    slack = fit.shift(cross, error, size if exact else 0.0)
    if not exact:
        # The residual is that of the features' system: FᵀF β = Fᵀy.
        largest = float(np.linalg.eigvalsh(K)[-1]) * (1.0 if w is None else float(w.max()))
        length = np.sqrt(np.abs(cross).max(axis=1) + np.diag(K).max())
        slack = slack + size * np.sqrt(max(largest, 0.0)) / alpha * length[:, None]
    values = fit.values(cross)
    slack = (slack + 64.0 * unit_roundoff(np.float64) * (np.abs(values) + np.abs(Y).max())) * factor
    slack = slack + 64.0 * unit_roundoff(np.float64) * np.abs(targets_of(case)).max()
    if hopeless(case.n * error, alpha, w):
        slack = np.full_like(slack, np.inf)
    slack = SAFETY * slack
    between = np.zeros(len(cross)) if exact or own is None else apart(case, model, K, cross, own)
    if name == "std":
        moved = variance_slack(fit, cross, error, between)[:, None] * factor**2
        deviation = trial.answered["std"].reshape(len(cross), -1)
        slack = np.minimum(np.sqrt(moved), moved / np.maximum(deviation, 1e-300))
    else:
        slack = slack + (between[:, None] * np.abs(fit.a).sum(axis=0)) * factor
    return np.asarray(slack.reshape(np.shape(trial.answered[name])) if name in trial.answered else slack)


def variance_slack(fit: references.Dense, cross: np.ndarray, error: float, between: np.ndarray) -> np.ndarray:
    """Bound the change of k(x, x) − c B c, c = k(x, X) and B = (K + noise I)⁻¹, for each new row x.

    ``error`` bounds changes of the entries of K, of c and of k(x, x): to first order (1 + ‖c B‖₁)² of it.
    ``between`` bounds what whitening leaves out of c alone, r (:func:`apart`): 2 |r B c| + r B r of it.
    """
    pull = np.abs(cross @ fit.shifted).sum(axis=1)
    left = between * (2.0 * pull + between * np.abs(fit.shifted).sum())
    return np.asarray(SAFETY * error * (1.0 + pull) ** 2 + left)


def apart(case: Case, model: Any, K: np.ndarray, cross: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Bound |k(x, x_i) − K̃(x, x_i)| for each new row x: the root of what whitening leaves of both diagonals.

    All rows are landmarks, so that a training row keeps the cutoff only; a row that lies apart keeps more.
    Where no eigenvalue is under the cutoff nothing is left out.
    """
    left = LEFT * kernels.cutoff(case, K, tiles_of(model))
    values, vectors = np.linalg.eigh(K)
    keep = values > left
    if keep.all():
        return np.zeros(len(cross))
    explained = ((cross @ vectors[:, keep]) ** 2 / values[keep]).sum(axis=1)
    return np.asarray(np.sqrt(left * (np.maximum(own - explained, 0.0) + left)))


def hopeless(error: float, alpha: float, w: np.ndarray | None) -> bool:
    """Return whether an error of K of this norm is not small beside alpha: nothing can be said then."""
    return error * (1.0 if w is None else float(w.max())) > 0.1 * alpha


def rounding(trial: Trial, values: np.ndarray) -> float:
    """Return how far one model's answer for a row may move with the shapes of products alone."""
    case, model = trial.case, trial.model
    dtype = tiles_of(model)
    X = np.vstack([rows_of(case)[0], rows_of(case)[1]])
    error = entry_error(trial, X, dtype) if not case.estimator.startswith("Fast") else 1e-4
    if case.estimator.startswith(("Fast", "DCPred")):
        # Float32 models round the rows themselves, which lie far from 0 beside their spread.
        single = case.estimator.startswith("Fast") or case.dtype in ("float32", "uint8", "bool")
        spread = float(np.ptp(X, axis=0).max()) or 1.0
        far = 1.0 + float(np.abs(X).max()) / spread
        return float((1e-4 * far if single else 1e-5) * (1.0 + np.abs(values).max(initial=0.0)))
    if "Fourier" in case.expression or "Fastfood" in case.expression:
        # Phases are as large as rows are far from 0.
        gamma = float(case.value("gamma", 1.0 / case.d))
        phases = np.sqrt(2.0 * gamma * case.d) * float(np.abs(X).max())
        error = max(error, 16.0 * unit_roundoff(np.float64) * phases)
    if isinstance(model, Approximation):
        # Features are tiles times V, whose columns are as long as 1/√(cutoff λ).
        white = 1.0 / np.sqrt(rank_cutoff(dtype, residual=True))
        return float(SAFETY * error * np.sqrt(case.n) * white * (np.abs(values).max(initial=0.0) + 1e-300))
    predictor = getattr(model, "predictor_", None)
    size = 0.0
    if hasattr(predictor, "coefficients"):
        size = float(np.abs(predictor.coefficients).sum(axis=0).max(initial=0.0))
    elif hasattr(predictor, "weights"):
        size = float(
            sum(
                max((np.abs(w).sum(axis=0).max(initial=0.0) for w in level), default=0.0)
                for level in predictor.weights
            )
        )
    elif case.estimator == "DCSVC":
        size = float(np.abs(model.dual_coef_).sum())
    elif hasattr(model, "posterior_"):
        size = float(
            sum(
                max(np.abs(w).sum(axis=0).max(initial=0.0) for w in level)
                for level in model.posterior_.predictor.weights
            )
        ) * float(model.y_std_.max())
    largest = float(np.abs(kernels.sizes(case, X)).max()) if not case.precomputed else 1.0
    slopes = None if hasattr(model, "posterior_") else getattr(model, "calibration_", None)
    steep = 1.0 if slopes is None else max(1.0, float(np.abs(slopes).max()))
    own = 64.0 * unit_roundoff(np.float64) * float(np.abs(values).max(initial=0.0))
    return SAFETY * error * size * largest * steep + own


# ---- ridge ------------------------------------------------------------------------------------------


def _compare(trial: Trial, what: str, matrices: tuple[np.ndarray, np.ndarray] | None, model: Any) -> None:
    case = trial.case
    name = "decision_function" if case.n_classes else "predict"
    K, cross = exact_matrices(case) if matrices is None else matrices
    intercept = bool(case.value("fit_intercept", case.n_classes > 0))
    fit = references.ridge(K, targets_of(case), alpha_of(trial), weights_of(case), intercept)
    want = fit.values(cross)
    got = trial.answers(model, trial.new)[name].reshape(want.shape)
    slack = model_slack(trial, name, matrices).reshape(want.shape)
    trial.near(f"{name} ({what})", got, want, slack)


def ridge_is_dense_ridge(trial: Trial) -> None:
    """The model of K itself is the solution of (K + alpha I) a = y."""
    case = trial.case
    if case.precomputed:
        _compare(trial, "precomputed", (trial.gram(case.X), trial.gram(case.new)), trial.model)
        return
    _compare(trial, "dense K", None, trial.model)


def ridge_on_a_map_is_dense_ridge(trial: Trial) -> None:
    """The model on a fitted approximation is the solution with that very K̃."""
    from adversary.laws import frozen

    shared = frozen(trial)
    plain = {name: getattr(type(trial.model)(), name) for name in KERNEL}
    model = trial.again(approximation=shared, **plain)
    _compare(trial, "dense K̃", frozen_matrices(trial, shared.estimator), model)


def ridge_is_linear_in_y(trial: Trial) -> None:
    """Targets that are sums give predictions that are sums; the map does not look at y."""
    case = trial.case
    Y = targets_of(case)
    pair = np.column_stack([Y[:, 0], 3.0 * Y[:, 0]])
    got = trial.answers(trial.fit(case.model(), trial.rows, pair, case.w), trial.new)["predict"]
    alone = trial.answers(trial.fit(case.model(), trial.rows, Y[:, 0], case.w), trial.new)["predict"].ravel()
    K = trial.gram(case.X) if case.precomputed else exact_matrices(case)[0]
    condition = (
        float(np.abs(K).sum(axis=0).max()) / alpha_of(trial) * (1.0 if case.w is None else case.w.max())
    )
    # Where the intercept explains all, as for one row repeated, the rest is rounding over alpha.
    moved = max(1e-12, unit_roundoff(tiles_of(trial.model))) * condition
    if moved > 10.0:
        trial.vacuous = True
        return
    size = rounding(trial, alone) * 32.0
    size += (1e-6 + moved) * (np.abs(alone).max() + np.abs(Y).max())
    trial.near("predict of y beside 3 y", got[:, 0], alone, size)
    trial.near("predict of 3 y", got[:, 1], 3.0 * alone, 3.0 * size)


# ---- Gaussian processes -----------------------------------------------------------------------------


def normalised(case: Case, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return targets as the process models them, their means and their scales."""
    if not case.value("normalize_y", True):
        return Y, np.zeros(Y.shape[1]), np.ones(Y.shape[1])
    w = weights_of(case)
    mean = np.average(Y, axis=0, weights=w)
    spread = np.sqrt(np.average((Y - mean) ** 2, axis=0, weights=w))
    spread = np.where(spread > 10.0 * np.finfo(np.float64).eps * np.abs(mean), spread, 1.0)
    return (Y - mean) / spread, mean, spread


def prior_sizes(trial: Trial) -> np.ndarray:
    """Return k(x, x) of each new row, of the kernel that a Gaussian process has learned."""
    new = rows_of(trial.case)[1]
    return np.diag(kernels.of_instance(trial.model.kernel_, new, new, trial.case))


def posterior_is_the_textbooks(trial: Trial) -> None:
    """Mean, deviation and likelihood are those of the exact process with the kernel that was learned."""
    case, model = trial.case, trial.model
    X, new = rows_of(case)
    K, cross, own = (
        kernels.of_instance(model.kernel_, A, B, case) for A, B in ((X, X), (new, X), (new, new))
    )
    w = weights_of(case)
    Y, mean, spread = normalised(case, targets_of(case))
    want = references.posterior(K, cross, own, Y, model.noise_, w)
    error = matrix_error(trial, K, exact=False)
    slack = model_slack(trial, "predict", (K, cross), np.diag(own)).reshape(len(new), -1)
    got = trial.answered
    trial.near("the mean", got["predict"].reshape(slack.shape), want.mean * spread + mean, slack)
    fit = references.ridge(K, Y, model.noise_, w)
    between = apart(case, model, K, cross, np.diag(own))
    allowed = variance_slack(fit, cross, error, between)[:, None] * spread**2
    if hopeless(case.n * error, model.noise_, w):
        allowed = np.full_like(allowed, np.inf)
    variance = np.maximum(np.diag(want.covariance), 0.0)[:, None] * spread**2
    trial.near("the variance", got["std"].reshape(variance.shape) ** 2, variance, allowed)
    # A difference of sums as large as ‖y‖²/noise.
    rounded = case.n * unit_roundoff(np.float64) * float((Y**2).sum()) / model.noise_
    allowed = rounded + error * (
        0.5 * (np.abs(fit.a).sum(axis=0) ** 2).sum() + Y.shape[1] * np.abs(fit.shifted).sum()
    )
    if hopeless(case.n * error, model.noise_, w):
        return
    trial.near(
        "log p(y)",
        model.log_marginal_likelihood_value_,
        want.likelihood,
        8.0 * allowed + 1e-8 * (abs(want.likelihood) + case.n),
    )


# ---- components -------------------------------------------------------------------------------------


def components_are_those_of_the_dense_matrix(trial: Trial) -> None:
    """Eigenvalues and scores are those of the centred K."""
    case, model = trial.case, trial.model
    K, _ = exact_matrices(case)
    want = references.components(K)
    got = np.asarray(model.eigenvalues_)
    error = case.n * matrix_error(trial, K, exact=False) + 1e-8 * (want[0] if len(want) else 0.0)
    size = min(len(got), case.n)
    trial.near("eigenvalues_", got[:size], want[:size], error)
    there = int(np.count_nonzero(want > 10.0 * error))
    if len(got) < min(there, case.value("n_components") or case.n):
        raise Broken(f"{len(got)} components were found; {there} are there")
    scores = trial.answers(model, trial.rows)["transform"]
    trial.near("the scores' products", scores.T @ scores, np.diag(got), 4.0 * error)


LAWS: dict[str, Any] = {
    "ridge is dense ridge": (
        ridge_is_dense_ridge,
        lambda case: case.estimator in RIDGES and (kernels.is_plainly_exact(case) or case.precomputed),
    ),
    "ridge on a map": (
        ridge_on_a_map_is_dense_ridge,
        lambda case: (
            case.estimator in RIDGES[:2]
            and "gm." in case.options.get("approximation", "")
            and "standardize" not in case.options
        ),
    ),
    "linear in y": (ridge_is_linear_in_y, lambda case: case.estimator == "KernelRidge"),
    "posterior": (posterior_is_the_textbooks, lambda case: case.estimator == "GaussianProcessRegressor"),
    "components": (
        components_are_those_of_the_dense_matrix,
        lambda case: case.estimator == "KernelPCA" and kernels.is_plainly_exact(case),
    ),
    **minima.LAWS,
    **held_out.LAWS,
}
