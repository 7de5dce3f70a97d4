"""Held-out errors of a path over alpha, against refits without each row on the same features."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge as Peer

import gramian as gm
from gramian.approximations.multiresolution import MultiResolutionBuilder
from gramian.compression.builder import BuildSettings
from gramian.compression.sums import accumulate
from gramian.data.source import ArraySource
from gramian.engine import Engine
from gramian.exceptions import AccuracyWarning
from gramian.ridge.held_out import EXACT, MEAN, UNSEEN, held_out
from gramian.ridge.path import EliminatedHat, SpectralHat, alpha_path

ALPHAS = (1e-3, 0.05, 2.0)
ENGINE = Engine(1)
BUILDERS = {
    "one level": gm.MultiResolution(root_rank=25, n_levels=1).builder(),
    "two levels": gm.MultiResolution(root_rank=12, rank=6, n_blocks=5).builder(),
    "three levels": gm.MultiResolution(root_rank=9, rank=5, n_blocks=6, n_levels=3).builder(),
    "meka": gm.MEKA(rank=8, n_blocks=4).builder(),
    "meka, indefinite": gm.MEKA(rank=8, n_blocks=4, core="sampled").builder(),
    "nystrom": gm.Nystrom(rank=20).builder(),
    "blocks": gm.BlockDiagonal(rank=12, n_blocks=4).builder(),
    "random features": gm.RandomFourier(rank=30).builder(),
    "exact": MultiResolutionBuilder.root_only(90),
}


def table(n=90, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    Y = np.column_stack([np.sin(6 * X[:, 0]) * X[:, 1], np.cos(4 * X[:, 2])])
    return X, Y + 0.1 * rng.standard_normal((n, 2)), rng.uniform(0.2, 2.0, n)


def setting(name, *, weighted, intercept, alphas=ALPHAS, spectral=True):
    X, Y, w = table()
    weights = w if weighted else None
    if intercept:
        Y = Y - np.average(Y, axis=0, weights=weights)
    source = ArraySource(X)
    kernel = gm.Gaussian(0.7)
    settings = BuildSettings(kernel, np.dtype(np.float64), np.random.default_rng(1), ENGINE)
    features = BUILDERS[name].build(source, settings)
    common = {"chunk_rows": 40, "engine": ENGINE}
    sums = accumulate(features, source, Y, weights, with_ones=intercept, **common)
    mass = (len(X) if weights is None else weights.sum()) if intercept else None
    path = alpha_path(features, sums, alphas, mass=mass, engine=ENGINE, spectral=spectral)
    return features, source, Y, weights, path, common


def dense_gram(features, source):
    """K̃ of all rows, from the features that a unit holds: f on shared nodes, or w C w."""
    n = source.shape[0]
    F = np.zeros((n, features.rank))
    for numbers, unit, block in features.leaf_blocks(source, chunk_rows=n, engine=ENGINE):
        for segments in unit.levels:
            for segment in segments:
                start = features.forest.path_rank(segment.node)
                r = features.forest.ranks[segment.node]
                at = features.offsets[segment.node]
                F[numbers[segment.rows], at : at + r] = block[segment.rows, start : start + r]
    C = np.eye(features.rank) if features.core is None else features.core.to_dense()
    return F @ C @ F.T, F, C


def refit_residuals(K, Y, alpha, weights, intercept):
    """y_i − ŷ_i for each row i left out, by n dense solves of kernel ridge with weights and intercept."""
    n = len(K)
    w = np.ones(n) if weights is None else weights
    out = np.empty_like(Y)
    for i in range(n):
        on = np.delete(np.arange(n), i)
        system = K[np.ix_(on, on)] + alpha * np.diag(1.0 / w[on])
        right = Y[on]
        if intercept:
            one = np.ones((n - 1, 1))
            system = np.block([[system, one], [one.T, np.zeros((1, 1))]])
            right = np.vstack([right, np.zeros((1, 2))])
        dual = np.linalg.solve(system, right)
        out[i] = Y[i] - K[i, on] @ dual[: n - 1] - (dual[-1] if intercept else 0.0)
    return out


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", [name for name in BUILDERS if name != "meka, indefinite"])
def test_leave_one_out_equals_n_refits(name, weighted, intercept):
    features, source, Y, weights, path, common = setting(name, weighted=weighted, intercept=intercept)
    found = held_out(path, features, source, Y, weights, rule=EXACT, keep=True, **common)
    K, _, _ = dense_gram(features, source)
    w = np.ones(len(Y)) if weights is None else weights
    for k, alpha in enumerate(ALPHAS):
        expected = refit_residuals(K, Y, alpha, weights, intercept)
        np.testing.assert_allclose(found.residuals[:, k], expected, rtol=0, atol=1e-8)
        np.testing.assert_allclose(found.losses[k], w @ expected**2 / w.sum(), rtol=1e-8)


def test_of_all_rows_as_landmarks_it_equals_n_refits_of_kernel_ridge():
    features, source, Y, weights, path, common = setting("exact", weighted=True, intercept=False)
    found = held_out(path, features, source, Y, weights, rule=EXACT, keep=True, **common)
    X = source.rows(slice(None))
    for k, alpha in enumerate(ALPHAS):
        peer = Peer(alpha=alpha, kernel="rbf", gamma=1 / (2 * 0.7**2))
        for i in (0, 17, 89):
            on = np.delete(np.arange(90), i)
            peer.fit(X[on], Y[on], sample_weight=weights[on])
            expected = Y[i] - peer.predict(X[i : i + 1])[0]
            np.testing.assert_allclose(found.residuals[i, k], expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gramian.NumericalWarning")
@pytest.mark.parametrize("name", ["meka, indefinite", "meka", "three levels"])
def test_leverages_are_the_diagonal_of_the_hat_matrix_that_was_solved_with(name):
    features, source, _, weights, path, _ = setting(name, weighted=True, intercept=False)
    for k in range(len(ALPHAS)):
        hat = np.empty((90, 90))
        for j in range(90):
            unit_target = np.eye(90)[:, [j]]
            sums = accumulate(features, source, unit_target, weights, chunk_rows=90, engine=ENGINE)
            one = alpha_path(features, sums, ALPHAS[k : k + 1], mass=None, engine=ENGINE)
            for numbers, unit, F in features.leaf_blocks(source, chunk_rows=90, engine=ENGINE):
                hat[numbers, j] = one.fitted(F, unit)[:, 0, 0]
        for numbers, unit, F in features.leaf_blocks(source, chunk_rows=90, engine=ENGINE):
            h = path.leverages(F, unit)[:, k] * weights[numbers]
            np.testing.assert_allclose(h, np.diag(hat)[numbers], atol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
def test_gcv_divides_by_the_mean_leverage(intercept):
    features, source, Y, weights, path, common = setting("two levels", weighted=True, intercept=intercept)
    args = (path, features, source, Y, weights)
    exact = held_out(*args, rule=EXACT, keep=True, **common)
    plain = held_out(*args, rule=UNSEEN, keep=True, **common)
    found = held_out(*args, rule=MEAN, keep=True, **common)
    h = 1.0 - plain.residuals[:, :, 0] / exact.residuals[:, :, 0]
    expected = plain.residuals / (1.0 - h.mean(axis=0))[:, None]
    np.testing.assert_allclose(found.residuals, expected, rtol=1e-9)
    losses = np.einsum("i,ikp->kp", weights, expected**2) / weights.sum()
    np.testing.assert_allclose(found.losses, losses, rtol=1e-9)


def test_standard_errors_are_those_of_the_weighted_mean():
    features, source, Y, weights, path, common = setting("one level", weighted=True, intercept=True)
    found = held_out(path, features, source, Y, weights, rule=EXACT, keep=True, **common)
    gap = found.residuals**2 - found.losses
    expected = np.sqrt(np.einsum("i,ikp->kp", weights**2, gap**2)) / weights.sum()
    np.testing.assert_allclose(found.errors, expected, rtol=1e-8)


def test_one_factorisation_for_all_alphas_gives_what_one_each_gives():
    *_, spectral, _ = setting("one level", weighted=True, intercept=True)
    features, source, _, _, each, _ = setting("one level", weighted=True, intercept=True, spectral=False)
    assert isinstance(spectral.hat, SpectralHat)
    assert isinstance(each.hat, EliminatedHat)
    for numbers, unit, F in features.leaf_blocks(source, chunk_rows=90, engine=ENGINE):
        assert len(numbers)
        np.testing.assert_allclose(spectral.fitted(F, unit), each.fitted(F, unit), atol=1e-9)
        np.testing.assert_allclose(spectral.leverages(F, unit), each.leverages(F, unit), atol=1e-9)


def test_a_row_that_fits_itself_is_told():
    features, source, Y, weights, path, common = setting(
        "exact", weighted=False, intercept=False, alphas=(1e-17,)
    )
    with pytest.warns(AccuracyWarning, match="leverage of [0-9]+ rows is 1 up to rounding"):
        held_out(path, features, source, Y, weights, rule=EXACT, **common)
