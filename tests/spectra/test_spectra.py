"""Kernel PCA against scikit-learn's, and arguments of the spectral functions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import KernelPCA as Reference
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gramian as gm
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.operators import KernelOperator
from gramian.spectra import components as principal
from gramian.spectra import effective_dimension, leverage_scores, log_determinant, top_eigenpairs

RNG = np.random.default_rng(0)
X = RNG.standard_normal((260, 4)) + 1.0
NEW = RNG.standard_normal((40, 4)) + 1.0
#: More rows than are solved by a dense eigendecomposition.
MANY = RNG.standard_normal((2300, 3))

KERNELS = {
    "rbf": {"gamma": 0.2},
    "cosine": {},
    "poly": {"gamma": 0.2, "degree": 2, "coef0": 1.0},
    "linear": {},
}


def close(found, want, atol=1e-8):
    """Scores agree up to the sign of each column."""
    scale = max(1.0, np.abs(want).max())
    np.testing.assert_allclose(np.abs(found), np.abs(want), atol=atol * scale)
    turn = np.sign((found * want).sum(axis=0))
    np.testing.assert_allclose(found * turn, want, atol=atol * scale)


def reference(rows, count, **kernel):
    return Reference(count, eigen_solver="dense", **kernel).fit(rows)


@pytest.mark.parametrize("approximation", ["exact", "whole"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_scores_equal_those_of_sklearn(kernel, approximation):
    count = 4
    if approximation == "whole":
        # All rows as landmarks: the approximation is K itself.
        approximation = gm.Nystrom(rank=len(X), landmarks=X, oversampling=1.0)
    want = reference(X, count, kernel=kernel, **KERNELS[kernel])
    found = gm.KernelPCA(count, kernel=kernel, approximation=approximation, **KERNELS[kernel]).fit(X)
    np.testing.assert_allclose(found.eigenvalues_, want.eigenvalues_, rtol=1e-8)
    close(found.transform(X), want.transform(X))
    close(found.transform(NEW), want.transform(NEW))
    close(found.fit_transform(X), want.fit_transform(X))


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.05, 2.0])
def test_iterations_on_the_exact_kernel(gamma):
    want = reference(MANY, 6, kernel="rbf", gamma=gamma)
    found = gm.KernelPCA(6, gamma=gamma, approximation="exact", tol=1e-10, random_state=0).fit(MANY)
    assert found.solution_.iterations > 1
    assert found.solution_.residual <= 1e-10
    np.testing.assert_allclose(found.eigenvalues_, want.eigenvalues_, rtol=1e-8)
    close(found.transform(MANY[:300]), want.transform(MANY[:300]))


def test_iterations_take_few_passes_over_k(monkeypatch):
    seen = []
    product = KernelOperator._product

    def counted(self, values):
        seen.append(values.shape)
        return product(self, values)

    monkeypatch.setattr(KernelOperator, "_product", counted)
    gm.KernelPCA(5, gamma=0.1, approximation="exact", random_state=0).fit(MANY)
    assert len(seen) <= 12


def test_all_components():
    want = reference(X, None, kernel="rbf", gamma=0.2)
    found = gm.KernelPCA(gamma=0.2).fit(X)
    assert found.eigenvalues_.shape == want.eigenvalues_.shape
    scores = found.transform(X)
    centred = np.eye(len(X)) - 1.0 / len(X)
    K = gm.Gaussian((1 / 0.4) ** 0.5)(X)
    np.testing.assert_allclose(scores @ scores.T, centred @ K @ centred, atol=1e-8)


def test_more_components_than_there_are():
    found = gm.KernelPCA(7, kernel="linear").fit(X)
    assert (found.eigenvalues_ > 0).sum() == 4
    assert found.transform(NEW).shape == (40, 7)
    assert not found.transform(NEW)[:, 4:].any()
    assert gm.KernelPCA(kernel="linear").fit(X).eigenvalues_.shape == (4,)
    by_features = gm.KernelPCA(7, kernel="linear", approximation="nystrom").fit(X)
    np.testing.assert_allclose(by_features.eigenvalues_, found.eigenvalues_, atol=1e-8)
    assert not by_features.transform(NEW)[:, 4:].any()


def test_constant_rows_have_no_components():
    for approximation in ("exact", "nystrom"):
        found = gm.KernelPCA(2, approximation=approximation).fit(np.ones((30, 3)))
        assert not found.eigenvalues_.any()
        assert not found.transform(X[:5, :3]).any()


@pytest.mark.parametrize(
    "approximation",
    [
        gm.Nystrom(rank=40),
        gm.MEKA(rank=12, n_blocks=3),
        gm.MultiResolution(root_rank=20, rank=6, n_blocks=4, n_levels=2),
        gm.RandomFourier(n_components=60) if "n_components" in gm.RandomFourier().get_params() else gm.KALS(),
    ],
    ids=lambda a: type(a).__name__,
)
def test_components_are_those_of_the_approximation(approximation):
    rows = X.astype(np.float64)
    found = gm.KernelPCA(5, gamma=0.2, approximation=approximation, random_state=0).fit(rows)
    inner = type(approximation)(**{**approximation.get_params(), "gamma": 0.2, "random_state": 0})
    F = inner.fit(rows).transform(rows)
    F = np.asarray(F.toarray() if sp.issparse(F) else F, np.float64)
    F -= F.mean(axis=0)
    want = np.linalg.eigvalsh(F @ F.T)[::-1][:5]
    scores = found.transform(rows)
    np.testing.assert_allclose(scores.mean(axis=0), 0.0, atol=1e-9 * np.abs(scores).max())
    np.testing.assert_allclose(scores.T @ scores, np.diag(found.eigenvalues_), atol=1e-7 * want[0])
    np.testing.assert_allclose(found.eigenvalues_, want, rtol=1e-6)


def test_many_features_go_by_lanczos(monkeypatch):
    from gramian.spectra import components as by_features

    options = {"gamma": 0.5, "approximation": gm.MultiResolution(root_rank=60, rank=10, n_blocks=8)}
    whole = gm.KernelPCA(4, random_state=0, **options).fit(MANY)
    monkeypatch.setattr(by_features, "DENSE_FEATURES", 10)
    found = gm.KernelPCA(4, random_state=0, **options).fit(MANY)
    assert found.solution_.iterations > 0
    np.testing.assert_allclose(found.eigenvalues_, whole.eigenvalues_, rtol=1e-8)
    close(found.transform(MANY), whole.transform(MANY))


@pytest.mark.slow
def test_auto_is_near_the_exact_one():
    found = gm.KernelPCA(5, gamma=0.2, random_state=0).fit(MANY)
    want = reference(MANY, 5, kernel="rbf", gamma=0.2)
    assert found.plan_.method == "nystrom"
    np.testing.assert_allclose(found.eigenvalues_, want.eigenvalues_, rtol=1e-5)
    close(found.transform(NEW[:, :3]), want.transform(NEW[:, :3]), atol=1e-4)


@pytest.mark.parametrize("gamma", [0.1, None])
def test_inverse_transform_equals_that_of_sklearn(gamma):
    options = {"kernel": "rbf", "gamma": gamma, "fit_inverse_transform": True, "alpha": 0.05}
    want = Reference(3, eigen_solver="dense", **options).fit(X)
    found = gm.KernelPCA(3, **options).fit(X)
    back = found.inverse_transform(found.transform(NEW))
    np.testing.assert_allclose(back, want.inverse_transform(want.transform(NEW)), atol=1e-8)


@pytest.mark.slow
def test_inverse_transform_of_many_rows():
    pca = gm.KernelPCA(60, gamma=0.3, fit_inverse_transform=True, alpha=1e-3, random_state=0).fit(MANY)
    assert pca.plan_.method == "nystrom"
    back = pca.inverse_transform(pca.transform(MANY))
    assert back.shape == MANY.shape
    assert np.abs(back - MANY).mean() < 0.02
    flat = gm.KernelPCA(3, fit_inverse_transform=True).fit(X[:, :1])
    assert flat.inverse_transform(flat.transform(X[:, :1])).shape == (len(X), 1)


def test_precomputed_kernel():
    K, K_new = gm.Gaussian(1.0)(X), gm.Gaussian(1.0)(NEW, X)
    want = gm.KernelPCA(4, kernel=gm.Gaussian(1.0), approximation="exact").fit(X)
    found = gm.KernelPCA(4, kernel="precomputed").fit(K)
    close(found.transform(K_new), want.transform(NEW))
    with pytest.raises(gm.InputError, match="no rows to go back to"):
        gm.KernelPCA(4, kernel="precomputed", fit_inverse_transform=True).fit(K)


def test_named_columns_sparse_rows_and_pipelines():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    out = gm.KernelPCA(3).set_output(transform="pandas").fit(frame).transform(frame)
    assert out.columns.tolist() == ["kernelpca0", "kernelpca1", "kernelpca2"]
    thin = sp.csr_array(X)
    dense = gm.KernelPCA(3).fit(X)
    close(gm.KernelPCA(3).fit(thin).transform(thin), dense.transform(X))
    with pytest.raises(gm.InputError, match=r"X.toarray\(\)"):
        gm.KernelPCA(3, fit_inverse_transform=True).fit(thin)
    assert make_pipeline(StandardScaler(), gm.KernelPCA(2)).fit_transform(X).shape == (len(X), 2)


def test_model_file_keeps_both_ways(tmp_path):
    model = gm.KernelPCA(3, gamma=0.2, fit_inverse_transform=True, random_state=0).fit(X)
    for fitted in (model, model.set_params(approximation="nystrom").fit(X)):
        gm.save(fitted, tmp_path / "m.gramian")
        loaded = gm.load(tmp_path / "m.gramian")
        scores = fitted.transform(NEW)
        np.testing.assert_array_equal(loaded.transform(NEW), scores)
        np.testing.assert_array_equal(loaded.inverse_transform(scores), fitted.inverse_transform(scores))
        np.testing.assert_array_equal(loaded.eigenvalues_, fitted.eigenvalues_)
        assert loaded.get_feature_names_out().tolist() == fitted.get_feature_names_out().tolist()


def test_a_missed_tolerance_warns_and_memory_is_told(monkeypatch):
    with pytest.raises(gm.BudgetError, match="Give n_components"):
        gm.KernelPCA(approximation="exact", memory_budget="20MB").fit(MANY)
    with pytest.raises(gm.BudgetError, match="too small for the exact system of 2300 rows"):
        gm.KernelPCA(500, approximation="exact", memory_budget="20MB").fit(MANY)
    options = {"tol": 1e-8, "dtype": "float64", "engine": Engine(1), "rng": np.random.default_rng(0)}
    with pytest.raises(gm.BudgetError, match="too small for 500 components of 2300 rows"):
        principal.exact_components(gm.Gaussian(1.0), MANY, 500, memory_bytes=10**7, **options)
    monkeypatch.setattr(principal, "MAX_PRODUCTS", 2)
    with pytest.warns(gm.AccuracyWarning, match="eigenpairs ended with residual"):
        found = gm.KernelPCA(3, gamma=20.0, approximation="exact", tol=1e-12).fit(MANY)
    assert found.solution_.residual > 1e-12


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"n_components": 0}, "n_components=0 must be a whole number"),
        ({"tol": 0.0}, r"tol=0\.0 must be a positive"),
        ({"alpha": -1.0, "fit_inverse_transform": True}, r"alpha=-1\.0 must be a positive"),
        ({"approximation": gm.Exact()}, "KernelPCA has none"),
        ({"approximation": "nystroem"}, "Did you mean 'nystrom'"),
    ],
)
def test_bad_parameters(parameters, text):
    with pytest.raises(gm.InputError, match=text):
        gm.KernelPCA(**parameters).fit(X)


def test_the_way_back_has_to_be_learned():
    with pytest.raises(gm.InputError, match="fit_inverse_transform was False"):
        gm.KernelPCA(2).fit(X).inverse_transform(np.zeros((1, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refit = gm.KernelPCA(2, fit_inverse_transform=True).fit(X)
        refit.set_params(fit_inverse_transform=False).fit(X)
    assert not hasattr(refit, "inverse_")


@pytest.mark.parametrize("n_rows", [50, 200])
def test_equal_eigenvalues_are_found_all_the_same(n_rows):
    """K = I: LAPACK returned no eigenvector of I − 11ᵀ/n, and scores were 0."""
    X = np.random.default_rng(0).random((n_rows, 3))
    found = gm.KernelPCA(2, gamma=1e9).fit(X)
    np.testing.assert_allclose(found.eigenvalues_, [1.0, 1.0], rtol=1e-12)
    scores = found.transform(X)
    np.testing.assert_allclose(scores.T @ scores, np.eye(2), atol=1e-12)


def test_scores_of_a_frame_go_back_to_rows():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.random.default_rng(0).random((30, 3)), columns=list("abc"))
    pca = gm.KernelPCA(2, fit_inverse_transform=True).fit(frame)
    want = pca.inverse_transform(pca.transform(frame))
    scores = pca.set_output(transform="pandas").transform(frame)
    np.testing.assert_array_equal(pca.inverse_transform(scores), want)  # and without a warning
    with pytest.raises(gm.InputError, match=r"X has shape \(2, 3\); expected scores of shape \(n, 2\)"):
        pca.inverse_transform(np.ones((2, 3)))


def test_an_indefinite_function_warns_beyond_the_rows_of_a_dense_matrix():
    def kernel(A, B):
        return np.tanh(1.0 + 5.0 * (A @ B.T))

    with pytest.warns(gm.NumericalWarning, match="256 of the 2300 rows is indefinite: negative eigenvalues"):
        gm.KernelPCA(1, kernel=kernel, approximation="exact", tol=1e-3, random_state=0).fit(abs(MANY))


# ---- arguments of the spectral functions ------------------------------------------------------------

ROWS = np.random.default_rng(0).random((40, 2))
K = KernelOperator(gm.Gaussian(0.3), ROWS)


@pytest.mark.parametrize("n", [1, 2, 16])
@pytest.mark.parametrize("method", ["auto", "direct", "stochastic"])
def test_few_rows_are_exact_by_every_method(n: int, method: str) -> None:
    few, alpha = KernelOperator(gm.Gaussian(0.3), ROWS[:n]), 0.1
    inverse = np.linalg.inv(gm.Gaussian(0.3)(ROWS[:n]) + alpha * np.eye(n))
    found = log_determinant(few, alpha, method=method, n_probes=16)
    assert found == pytest.approx(-np.linalg.slogdet(inverse)[1])
    assert found.standard_error == 0.0
    size = effective_dimension(few, alpha, method=method, n_probes=16)
    assert size == pytest.approx(n - alpha * np.trace(inverse))
    scores = leverage_scores(few, alpha, method=method, n_probes=16).values
    np.testing.assert_allclose(scores, 1.0 - alpha * np.diag(inverse))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: top_eigenpairs(K, 2.5), "count=2.5 must be a whole number of at least 1"),
        (lambda: top_eigenpairs(K, "3"), "count='3' must be a whole number"),
        (lambda: top_eigenpairs(K, 41), "41 eigenpairs of a matrix of 40 rows: ask for 1 to 40"),
        (lambda: top_eigenpairs(K, 2, max_products=0), "max_products=0 must be a whole number"),
        (lambda: top_eigenpairs(K, 2, start=np.full((40, 2), np.nan)), "start holds NaN.*finite vectors"),
        (lambda: top_eigenpairs(K, 2, start=np.ones((40, 0))), r"start has shape \(40, 0\).*\(40, q\)"),
        (lambda: top_eigenpairs(K, 2, start=np.ones((40, 1)) * 1j), "start cannot be read.*complex"),
        (lambda: top_eigenpairs(K, 2, start=[["a"]] * 40), "start cannot be read as numbers.*one column a"),
        (lambda: log_determinant(K, ["a"] * 40), "alpha cannot be read as numbers.*Give 40 positive numbers"),
        (lambda: log_determinant(KernelOperator(gm.Gaussian(), ROWS[:0]), 0.1), "operator has no rows"),
    ],
)
def test_bad_arguments_say_what_to_do(call, text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()


@pytest.mark.parametrize("call", [lambda K: top_eigenpairs(K, 2), lambda K: log_determinant(K, 0.1)])
@pytest.mark.parametrize(
    ("value", "kernel", "text"),
    [
        (np.nan, gm.Gaussian(0.3), "rows hold NaN or infinity. Drop such rows"),
        (np.inf, gm.Gaussian(0.3), "rows hold NaN or infinity"),
        (1e160, gm.Gaussian(0.3), "X holds 1e.160 in row 3, column 1"),
        (1e120, gm.kernels.Polynomial(1.0), "is inf on some of the rows, beyond the range of float64. Scale"),
    ],
)
def test_rows_without_finite_kernel_values_are_refused(call, value: float, kernel, text: str) -> None:
    rows = np.random.default_rng(0).random((300, 2))
    rows[3, 1] = value
    with pytest.raises(InputError, match=text):
        call(KernelOperator(kernel, rows))


@pytest.mark.parametrize(
    "model",
    [
        gm.DCSVC(kernel="poly", random_state=0),
        gm.KernelPCA(2, kernel="poly", approximation="nystrom", random_state=0),
    ],
)
def test_a_late_row_on_which_the_kernel_overflows_is_refused(model) -> None:
    rows = np.random.default_rng(0).random((1200, 2))
    rows[1100, 1] = 1e120  # the first thousand rows decide on the type of tiles
    with pytest.raises(InputError, match="is inf on some of the rows"):
        model.fit(rows, rows[:, 0] > 0.5)
