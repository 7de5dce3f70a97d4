"""The law of held-out errors: leave-one-out scores are those of as many fits to the other rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from adversary import kernels, references
from adversary.trial import Trial
from gramian._numerics import unit_roundoff


def held_out_errors_are_those_of_refits(trial: Trial) -> None:
    """Leave-one-out scores are those of as many fits to the other rows."""
    from adversary import dense

    case, model = trial.case, trial.model
    K, _ = dense.exact_matrices(case)
    Y, w = dense.targets_of(case), dense.weights_of(case)
    intercept = bool(case.value("fit_intercept", False))
    counts = np.ones(case.n) if w is None else w
    alphas = np.atleast_1d(case.value("alphas", (1e-3, 1e-2, 0.1, 1.0, 10.0)))
    some = np.random.default_rng(case.seed).permutation(case.n)[:4]
    error = dense.matrix_error(trial, K, exact=False)
    for number, alpha in enumerate(alphas):
        if dense.hopeless(case.n * error, alpha, w):
            trial.vacuous = True  # the references differ from each other too
            continue
        fit = references.ridge(K, Y, alpha, w, intercept)
        P = fit.shifted
        if intercept:
            P = P - np.outer(P.sum(axis=1), P.sum(axis=0)) / P.sum()
        inside = counts > 0
        scale = np.where(inside, np.diag(P), 1.0)
        # A row that alone decides the intercept has no held-out error.
        if (np.abs(scale) <= 1e-9 * np.abs(scale).max()).any():
            continue
        errors = np.where(inside[:, None], (P @ Y) / scale[:, None], Y - fit.values(K))
        for i in some:
            rest = np.arange(case.n) != i
            if counts[rest].any():
                other = references.ridge(
                    K[np.ix_(rest, rest)], Y[rest], alpha, None if w is None else w[rest], intercept
                )
                want = Y[i] - other.values(K[i : i + 1, rest])[0]
                assert np.allclose(errors[i], want, rtol=1e-5, atol=1e-6 * np.abs(Y).max()), (
                    "the references differ"
                )
        reach = np.abs(P).sum(axis=1) / np.abs(scale)
        slack = (
            error
            * reach[:, None]
            * (np.abs(fit.a).sum(axis=0) + np.abs(errors) * np.abs(P).sum(axis=1)[:, None])
        )
        residual = max(model.solution_.residual, 1e-14) * np.abs(Y).max() * reach[:, None]
        slack = slack + residual
        # Rows of weight 0 are no landmarks, and may lie apart from all that are.
        apart = np.sqrt(dense.LEFT * kernels.cutoff(case, K, dense.tiles_of(model)) * np.abs(K).max())
        slack = slack + np.where(inside[:, None], 0.0, apart * np.abs(fit.a).sum(axis=0))
        # A held-out residual is one of the fit over 1 − h, h the row's leverage; 1 − h = alpha P_ii / w_i.
        kept = np.where(inside, np.minimum(alpha * np.abs(scale) / np.where(inside, counts, 1.0), 1.0), 1.0)
        slack = slack + (unit_roundoff(np.float64) / kept)[:, None] * np.abs(errors)
        # Sums over rows are rounded in units of the heaviest row.
        heavy = counts.max() / np.where(inside, counts, counts.max())
        slack = slack + (unit_roundoff(np.float64) * heavy / kept)[:, None] * np.abs(Y).max()
        floor = 1e3 * unit_roundoff(np.float64) * np.abs(Y).max() * (1.0 + reach[:, None])
        slack = dense.SAFETY * slack + 1e-9 * np.abs(errors) + floor
        mean = counts @ errors**2 / counts.sum()
        allowed = counts @ (2.0 * np.abs(errors) * slack + slack**2) / counts.sum()
        got = -model.cv_results_["scores"][number, 0]
        trial.near(
            f"the held-out error of alpha={alpha:g}", got, mean.mean(), allowed.mean() + 1e-12 * mean.mean()
        )
        if hasattr(model, "loo_residuals_") and alpha == model.alpha_:
            trial.near("loo_residuals_", np.reshape(model.loo_residuals_, Y.shape), errors, slack)


LAWS: dict[str, Any] = {
    "held-out errors": (
        held_out_errors_are_those_of_refits,
        lambda case: case.estimator == "KernelRidgeCV" and kernels.is_plainly_exact(case),
    )
}
