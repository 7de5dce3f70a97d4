"""One penalty for each output: the answer of a fit for each output, on every path."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge

import gramian as gm

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1], X[:, 0] * X[:, 1]]) + 0.1 * RNG.normal(size=(120, 3))
ALPHAS = np.array([0.5, 0.01, 0.5])
WEIGHTS = RNG.random(120) + 0.5


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "approximation",
    ["exact", gm.Exact(solver="cg", tol=1e-10), "nystrom", gm.MEKA(rank=10, n_blocks=2), "multiresolution"],
)
def test_it_is_a_fit_for_each_output(approximation, intercept):
    model = gm.KernelRidge(
        ALPHAS, gamma=0.3, approximation=approximation, fit_intercept=intercept, random_state=0
    ).fit(X, Y, WEIGHTS)
    for j, alpha in enumerate(ALPHAS):
        one = clone(model).set_params(alpha=alpha).fit(X, Y[:, j], WEIGHTS)
        np.testing.assert_allclose(model.predict(X)[:, j], one.predict(X), rtol=1e-6, atol=1e-8)
    assert model.intercept_.shape == (3,)
    assert model.solution_.residual < 1e-6


def test_alphas_that_were_chosen_can_be_given_back():
    found = gm.KernelRidgeCV((0.01, 0.1, 1.0), gamma=0.3, alpha_per_target=True, random_state=0).fit(X, Y)
    model = gm.KernelRidge(found.alpha_, gamma=0.3, random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), found.predict(X), rtol=1e-6, atol=1e-8)
    theirs = KernelRidge(alpha=found.alpha_, kernel="rbf", gamma=0.3).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), atol=1e-6)
    assert model.alpha is found.alpha_


@pytest.mark.parametrize("waits", [True, False])
def test_streams(waits):
    rows, targets = (X, Y) if waits else (np.tile(X, (18, 1)), np.tile(Y, (18, 1)))
    model = gm.KernelRidge(ALPHAS.tolist(), gamma=0.3, random_state=0).partial_fit(rows, targets)
    one = gm.KernelRidge(0.01, gamma=0.3, random_state=0).partial_fit(rows, targets)
    np.testing.assert_allclose(model.predict(X)[:, 1], one.predict(X)[:, 1], rtol=1e-6, atol=1e-8)
    model.set_params(alpha=ALPHAS[:2])
    with pytest.raises(gm.InputError, match="alpha holds 2 penalties, but y has 3 outputs"):
        model.partial_fit(rows, targets)


def test_files_summaries_plans_and_checkpoints(tmp_path):
    model = gm.KernelRidge(ALPHAS, gamma=0.3, checkpoint=tmp_path, random_state=0).fit(X, Y)
    gm.save(model, tmp_path / "model.gramian")
    loaded = gm.load(tmp_path / "model.gramian")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.alpha, ALPHAS)
    assert "alpha" in str(model.summary())
    assert "alpha" in model._repr_html_()
    assert model.plan(X, Y).rank == model.plan_.rank
    assert gm.KernelRidge(ALPHAS, metric="diagonal", random_state=0).fit(X, Y).predict(X).shape == (120, 3)


def test_other_numbers_of_penalties_are_refused():
    with pytest.raises(gm.InputError, match="alpha holds 3 penalties, but y has 1 outputs"):
        gm.KernelRidge(ALPHAS).fit(X, Y[:, 0])
    with pytest.raises(gm.InputError, match=r"alpha\[1\]=-1.0 must be a positive, finite number"):
        gm.KernelRidge([1.0, -1.0, 1.0]).fit(X, Y)
    with pytest.raises(gm.InputError, match=r"alpha=array.* must be a positive, finite number"):
        gm.KernelRidgeClassifier(ALPHAS).fit(X, (X[:, 0] > 0).astype(int))
    with pytest.raises(gm.InputError, match=r"alpha=.* must be a positive, finite number"):
        gm.KernelRidge(ALPHAS[None]).fit(X, Y)
    assert gm.KernelRidge([0.5]).fit(X, Y[:, 0]).predict(X).shape == (120,)
