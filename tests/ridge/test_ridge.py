"""Ridge regression by streaming sums, against dense solves with the same features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.kernel_ridge
from sklearn.base import clone
from sklearn.linear_model import Ridge

import gramian as gm
from gramian.compression.storage import dense_features
from gramian.compression.sums import accumulate
from gramian.data.source import as_source
from gramian.engine import Engine
from gramian.ridge.sums import split_intercept

ALPHA, GAMMA = 0.05, 8.0


def tree(**sizes):
    return gm.MultiResolution(**{"root_rank": 20, "rank": 8, "n_blocks": 6, **sizes})


APPROXIMATIONS = {
    "nystrom": tree(n_levels=1),
    "two levels": tree(),
    "three levels": tree(n_levels=3, n_blocks=9),
    "tree": tree(partition="tree", landmarks="uniform"),
    "meka": gm.MEKA(rank=12, n_blocks=4),
    "meka singular": gm.MEKA(rank=12, n_blocks=4, rank_rule="singular"),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    X = rng.random((400, 3))
    Y = np.stack([np.sin(6 * X[:, 0]), X[:, 1] * X[:, 2], rng.standard_normal(400)], axis=1)
    return X, Y, rng.random((90, 3)), rng.random(400) + 0.1


def named(approximations):
    return pytest.mark.parametrize("approximation", approximations.values(), ids=approximations.keys())


def features_of(approximation, X, new):
    """The features of training and new rows, dense, as the same random state builds them."""
    fitted = type(approximation)(**{**approximation.get_params(), "gamma": GAMMA, "random_state": 0}).fit(X)
    F, G = fitted.transform(X), fitted.transform(new)
    return fitted, *(f.toarray() if sp.issparse(f) else f for f in (F, G))


def ridge(approximation="exact", **parameters):
    return gm.KernelRidge(
        **{"alpha": ALPHA, "gamma": GAMMA, "random_state": 0, **parameters, "approximation": approximation}
    )


@named(APPROXIMATIONS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("chunk_rows", [64, 333, 10_000])
def test_streaming_sums_equal_dense_products(data, approximation, weighted, chunk_rows):
    X, Y, new, w = data
    fitted, F, _ = features_of(approximation, X, new)
    if isinstance(approximation, gm.MEKA):  # the sums are of W, before the core
        F = dense_features(
            replace(fitted.features_, core=None), as_source(X), chunk_rows=200, engine=Engine(1)
        )
    w = w if weighted else np.ones(len(X))
    forest, offsets = fitted.features_.forest, fitted.features_.offsets
    sums = accumulate(
        fitted.features_, as_source(X), Y, w if weighted else None, chunk_rows=chunk_rows, engine=Engine(2)
    )
    for node, found in enumerate(sums):
        own = F[:, offsets[node] : offsets[node] + forest.ranks[node]] * w[:, None]
        above = [F[:, offsets[a] : offsets[a] + forest.ranks[a]] for a in forest.path(node)]
        np.testing.assert_allclose(found.gram, own.T @ (own / w[:, None]), atol=1e-9)
        np.testing.assert_allclose(found.rhs, own.T @ Y, atol=1e-9)
        if above:
            np.testing.assert_allclose(found.cross, own.T @ np.hstack(above), atol=1e-9)


@named(APPROXIMATIONS)
@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
def test_predictions_equal_the_dense_solve(data, approximation, intercept):
    X, Y, new, w = data
    _, F, G = features_of(approximation, X, new)
    dense = Ridge(ALPHA, fit_intercept=intercept, solver="cholesky").fit(F, Y, sample_weight=w)
    model = ridge(approximation, fit_intercept=intercept).fit(X, Y, sample_weight=w)
    np.testing.assert_allclose(model.predict(new), dense.predict(G), atol=1e-7)
    np.testing.assert_allclose(model.predict(X), dense.predict(F), atol=1e-7)
    assert model.solution_.residual < 1e-9
    assert model.rank_ == F.shape[1]
    if intercept:
        np.testing.assert_allclose(model.intercept_, dense.intercept_, atol=1e-6)


def test_an_indefinite_core_is_clipped_and_says_so(data):
    X, Y, _, _ = data
    sampled = gm.MEKA(
        rank=20, n_blocks=6, core="sampled", core_oversampling=0.5, gamma=GAMMA, random_state=0
    ).fit(X)
    values, vectors = np.linalg.eigh(sampled.operator_.to_dense())
    assert values[0] < -1e-6
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    expected = positive @ np.linalg.solve(positive + ALPHA * np.eye(len(X)), Y)
    with pytest.warns(gm.NumericalWarning, match=r"indefinite: negative eigenvalues with sum .* clipped"):
        model = ridge(gm.MEKA(rank=20, n_blocks=6, core="sampled", core_oversampling=0.5)).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-7)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly"])
@pytest.mark.parametrize("approximation", ["exact", "auto"])
def test_the_exact_plan_is_sklearns_kernel_ridge(data, kernel, approximation):
    X, Y, new, w = data
    ours = ridge(approximation, kernel=kernel, gamma=0.7).fit(X, Y, sample_weight=w)
    theirs = sklearn.kernel_ridge.KernelRidge(alpha=ALPHA, kernel=kernel, gamma=0.7)
    np.testing.assert_allclose(ours.predict(new), theirs.fit(X, Y, sample_weight=w).predict(new), atol=1e-6)


def test_one_column_and_flat_targets_keep_their_shapes(data):
    X, Y, new, _ = data
    assert ridge().fit(X, Y).predict(new).shape == (90, 3)
    assert ridge().fit(X, Y[:, 0]).predict(new).shape == (90,)
    assert ridge().fit(X, Y[:, 0].tolist()).score(X, Y[:, 0]) > 0.9
    assert ridge("meka").fit(X, (Y[:, 0] > 0)).predict(new[:1]).shape == (1,)


@pytest.mark.parametrize("labels", [[0, 1], ["no", "yes"], [3, -1, 7], list("abcdefghijkl")])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_classifier_is_ridge_on_plus_minus_one(data, labels, class_weight):
    X, Y, new, w = data
    codes = np.digitize(Y[:, 1] + 0.3 * X[:, 0], np.linspace(0.1, 0.7, len(labels))[:-1])
    classes, y = np.unique(np.asarray(labels)[codes], return_inverse=True)
    signs = 2.0 * (y[:, None] == np.arange(len(classes))) - 1.0
    if class_weight:
        counts = np.bincount(y, weights=w)
        w = w * (w.sum() / (len(classes) * counts))[y]
    model = gm.KernelRidgeClassifier(ALPHA, gamma=GAMMA, class_weight=class_weight, random_state=0)
    model.fit(X, classes[y], sample_weight=data[3])
    regression = ridge("auto", fit_intercept=True).fit(X, signs, sample_weight=w)
    scores = regression.predict(new)
    assert model.classes_.tolist() == classes.tolist()
    found = model.decision_function(new)
    if len(classes) == 2:
        assert found.shape == (90,)
        np.testing.assert_allclose(found, scores[:, 1], atol=1e-8)
    else:
        assert found.shape == (90, len(classes))
        np.testing.assert_allclose(found, scores, atol=1e-8)
    np.testing.assert_array_equal(model.predict(new), classes[scores.argmax(axis=1)])


def test_class_weights_multiply_row_weights(data):
    X, Y, new, _ = data
    y = np.where(Y[:, 1] > 0.3, "b", "a")
    by_class = gm.KernelRidgeClassifier(ALPHA, gamma=GAMMA, class_weight={"b": 3.0}).fit(X, y)
    by_row = gm.KernelRidgeClassifier(ALPHA, gamma=GAMMA).fit(X, y, np.where(y == "b", 3.0, 1.0))
    np.testing.assert_allclose(by_class.decision_function(new), by_row.decision_function(new), atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.float16, np.uint32, ">f4"])
@pytest.mark.parametrize("approximation", ["auto", tree()], ids=["auto", "tree"])
def test_memmap_equals_memory(tmp_path, data, dtype, approximation):
    X, Y, _, _ = data
    X = np.round(X * 100).astype(dtype)
    on_disk = np.memmap(tmp_path / "x.bin", dtype, "w+", shape=X.shape)
    on_disk[:] = X
    model = ridge(approximation, gamma=1e-3)
    expected = model.fit(X, Y).predict(X)
    np.testing.assert_allclose(model.fit(on_disk, Y).predict(on_disk), expected, atol=1e-3)


def test_float32_tiles_agree_with_float64(data):
    X, Y, new, _ = data
    for approximation in (tree(), gm.MEKA(rank=12, n_blocks=4)):
        wide = ridge(approximation, alpha=0.5, tile_dtype="float64").fit(X, Y).predict(new)
        narrow = ridge(approximation, alpha=0.5, tile_dtype="float32").fit(X, Y).predict(new)
        assert np.abs(wide - narrow).max() < 5e-3 * np.abs(Y).max()


def test_plan_says_what_a_fit_takes(data):
    X, Y, _, _ = data
    model = ridge(tree())
    plan = model.plan(X, Y)
    assert (plan.method, plan.root_rank, plan.rank, plan.n_blocks, plan.dtype) == (
        "multiresolution",
        20,
        8,
        6,
        "float64",
    )
    assert plan.peak_bytes == max(plan.bytes.values()) <= plan.memory_budget == 10**9
    assert set(plan.bytes) == set(plan.seconds) == {"sample", "bases", "sums", "solve", "fold"}
    assert not plan.used_bytes
    used = model.fit(X, Y).plan_
    assert replace(used, used_bytes={}, used_seconds={}) == plan
    assert all(used.used_bytes[phase] <= used.bytes[phase] for phase in used.used_bytes)
    assert "budget 1 GB" in str(used)


def test_an_unresolved_intercept_stays_at_the_mean():
    # All ones are explained by the features: the divisor vanishes, and b with it.
    from gramian.solvers.arrowhead import NodeSums

    sums = [NodeSums(np.array([[4.0]]), np.zeros((1, 0)), np.array([[1.0, 4.0]]))]
    beta, offset = split_intercept([np.array([[0.25, 1.0]])], sums, 4.0, np.float64)
    assert offset.tolist() == [0.0]
    assert beta[0].tolist() == [[0.25]]


def test_a_missed_residual_warns_with_the_remedy(data, monkeypatch):
    X, Y, _, _ = data
    monkeypatch.setattr("gramian.ridge.sums.ridge_tolerance", lambda dtype: 0.0)
    for approximation in (tree(), gm.MEKA(rank=12, n_blocks=4)):
        with pytest.warns(
            gm.AccuracyWarning, match=r"relative residual of .*above the target 0.*Raise alpha"
        ):
            ridge(approximation).fit(X, Y)


@pytest.mark.slow
def test_auto_draws_landmarks_of_thin_sparse_rows():
    X = sp.random(1800, 3000, density=0.004, format="csr", random_state=0)
    y = np.asarray(X[:, :40].sum(axis=1)).ravel()
    model = gm.KernelRidge(0.1, gamma=0.5, random_state=0).fit(X, y)
    assert model.plan_.builder.landmarks == "uniform"
    assert all(sp.issparse(Z) for Z in model.predictor_.landmarks)
    dense = gm.KernelRidge(0.1, gamma=0.5, random_state=0).fit(X.toarray(), y)
    assert dense.plan_.builder.landmarks == "kmeans"
    few = gm.KernelRidge(0.1, gamma=0.5).fit(X[:300], y[:300])
    exact = gm.KernelRidge(0.1, gamma=0.5, approximation="exact").fit(X[:300].toarray(), y[:300])
    np.testing.assert_allclose(few.predict(X[300:]), exact.predict(X[300:]), atol=1e-8)


@pytest.mark.parametrize(
    "estimator", [gm.KernelRidge(), gm.KernelRidge(approximation="exact"), gm.KernelRidgeCV()]
)
def test_targets_far_from_zero_warn_unless_there_is_an_intercept(estimator):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = 2_000.0 + np.c_[1e3 * X[:, 0], X[:, 1]]
    with pytest.warns(UserWarning, match=r"column 1 of y lies around 2e\+03 .* Pass fit_intercept=True"):
        clone(estimator).fit(X, y)
    clone(estimator).set_params(fit_intercept=True).fit(X, y)
    clone(estimator).fit(X, y - 2_000.0)
