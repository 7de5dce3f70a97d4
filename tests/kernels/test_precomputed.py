"""kernel="precomputed": values in place of rows, for every method with a global basis."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.kernel_ridge import KernelRidge as DenseRidge
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

import gramian as gm
from gramian._numerics import whiten
from gramian.approximations import ClusteredLowRank, LowRankPlusBlocks
from gramian.data.source import as_source
from gramian.exceptions import InputError, NumericalWarning
from gramian.kernels.precomputed import Precomputed, StoredMatrix, check_kernel_matrix

KERNEL = gm.Gaussian(lengthscale=0.4)
#: Methods with one global basis whose landmarks are picked, or that take all rows.
GLOBAL = {
    "nystrom": gm.Nystrom(rank=20, random_state=0),
    "nystrom uniform": gm.Nystrom(rank=20, landmarks="uniform", oversampling=2.0, random_state=0),
    "nystrom leverage": gm.Nystrom(rank=20, landmarks="leverage", random_state=0),
    "nystrom randomized": gm.Nystrom(rank=15, svd="randomized", recompress=False, random_state=0),
    "nystrom pivoted-qr": gm.Nystrom(rank=20, landmarks="pivoted-qr", random_state=0),
    "root": gm.MultiResolution(
        root_rank=30, n_levels=1, landmarks="uniform", sparse_output=False, random_state=0
    ),
    "ensemble": gm.EnsembleNystrom(rank=10, n_experts=3, random_state=0),
    "kals": gm.KALS(rank=10, landmarks="uniform", random_state=0),
    "eigen": gm.TruncatedEigen(rank=15, random_state=0),
}

#: Methods with blocks, on the partition that asks the kernel.
BLOCKS = {
    "multiresolution": gm.MultiResolution(root_rank=20, rank=8, n_blocks=5, sparse_output=False),
    "three levels": gm.MultiResolution(root_rank=20, rank=8, n_blocks=6, n_levels=3, sparse_output=False),
    "meka": gm.MEKA(rank=8, n_blocks=5),
    "meka recompressed": gm.MEKA(rank=8, n_blocks=5, core="recompressed"),
    "meka sampled": gm.MEKA(rank=6, n_blocks=4, core="sampled"),
    "bbf": gm.BlockBasis(rank=10),
    "bbf sampled": gm.BlockBasis(rank=10, n_blocks=4, core="sampled"),
    "diagonal": gm.BlockDiagonal(n_blocks=6),
    "low rank plus blocks": LowRankPlusBlocks(root_rank=15, n_blocks=6),
    "clustered": ClusteredLowRank(rank=10, n_blocks=4),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X, new = rng.random((300, 3)), rng.random((40, 3))
    return X, new, KERNEL(X), KERNEL(new, X), np.sin(5 * X[:, 0]) + X[:, 1]


def of(estimator, kernel, **parameters):
    """A clone with another kernel."""
    return type(estimator)(**(estimator.get_params() | {"kernel": kernel} | parameters))


@pytest.mark.parametrize("name", GLOBAL)
def test_values_give_what_points_give(name, data):
    X, new, K, K_new, _ = data
    points, values = of(GLOBAL[name], KERNEL).fit(X), of(GLOBAL[name], "precomputed").fit(K)
    np.testing.assert_allclose(values.operator_.to_dense(), points.operator_.to_dense(), atol=1e-8)
    F, F_new = values.transform(K), values.transform(K_new)
    np.testing.assert_allclose(F @ F.T, values.operator_.to_dense(), atol=1e-10)
    np.testing.assert_allclose(F_new @ F.T, points.transform(new) @ points.transform(X).T, atol=1e-8)
    np.testing.assert_allclose(values.cross(K_new).to_dense(), F_new @ F.T, atol=1e-8)
    assert values.rank_ == points.rank_
    assert values.n_features_in_ == 300


def blocks_of(name, kernel):
    method = BLOCKS[name]
    rules = {"landmarks": "rpcholesky"} if "landmarks" in method.get_params() else {}
    return of(method, kernel, partition="kernel", random_state=0, **rules)


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_values_are_blocks_of_points(name, data):
    X, new, K, K_new, _ = data
    points, values = blocks_of(name, KERNEL).fit(X), blocks_of(name, "precomputed").fit(K)
    assert points.features_.partition.n_blocks > 1
    np.testing.assert_allclose(values.operator_.to_dense(), points.operator_.to_dense(), atol=1e-7)
    F, F_new = values.transform(K), values.transform(K_new)
    if name != "meka sampled":  # whose core need not be definite
        np.testing.assert_allclose(F @ F.T, values.operator_.to_dense(), atol=1e-8)
    np.testing.assert_allclose(F_new @ F.T, points.transform(new) @ points.transform(X).T, atol=1e-6)
    assert values.relative_error(K, n_rows=300) == pytest.approx(
        points.relative_error(X, n_rows=300), rel=1e-3
    )
    np.testing.assert_allclose(values.block_errors(K), points.block_errors(X), atol=1e-6)
    again = pickle.loads(pickle.dumps(values))
    np.testing.assert_array_equal(again.transform(K_new), F_new)
    assert len(pickle.dumps(values.features_)) < len(pickle.dumps(points.features_))


@pytest.mark.slow
def test_ridge_on_blocks(data):
    X, new, K, K_new, y = data
    for name in ("multiresolution", "meka", "bbf"):
        options = {"alpha": 0.1, "approximation": blocks_of(name, "rbf"), "random_state": 0}
        points = gm.KernelRidge(kernel=KERNEL, **options).fit(X, y)
        values = gm.KernelRidge(kernel="precomputed", **options).fit(K, y)
        np.testing.assert_allclose(values.predict(K_new), points.predict(new), atol=1e-5)


def test_quality_over_the_training_matrix(data):
    X, _, K, _, _ = data
    points = of(GLOBAL["root"], KERNEL, root_rank=12).fit(X)
    values = of(GLOBAL["root"], "precomputed", root_rank=12).fit(K)
    for ask in (
        lambda a, rows: a.relative_error(rows, n_rows=100, random_state=1),
        lambda a, rows: a.trace_error(rows),
        lambda a, rows: a.spectral_error(rows, n_rows=None, random_state=1),
        lambda a, rows: a.block_errors(rows)[0],
    ):
        assert ask(values, K) == pytest.approx(ask(points, X), rel=1e-6)
    exact = np.linalg.norm(K - values.operator_.to_dense()) / np.linalg.norm(K)
    assert values.relative_error(K, n_rows=300) == pytest.approx(exact)
    assert "The basis is global" in str(values.report(K, n_rows=100, random_state=0))


@pytest.mark.parametrize("approximation", ["auto", "exact"])
def test_exact_ridge_is_scikit_learns(approximation, data):
    _, _, K, K_new, y = data
    ours = gm.KernelRidge(alpha=0.1, kernel="precomputed", approximation=approximation).fit(K, y)
    theirs = DenseRidge(alpha=0.1, kernel="precomputed").fit(K, y)
    np.testing.assert_allclose(ours.predict(K_new), theirs.predict(K_new), atol=1e-7)
    np.testing.assert_allclose(ours.predict(K), theirs.predict(K), atol=1e-7)


def test_ridge_on_any_global_basis(data):
    X, new, K, K_new, y = data
    for method in GLOBAL.values():
        points = gm.KernelRidge(alpha=0.1, kernel=KERNEL, approximation=method, random_state=0).fit(X, y)
        values = gm.KernelRidge(alpha=0.1, kernel="precomputed", approximation=method, random_state=0).fit(
            K, y
        )
        np.testing.assert_allclose(values.predict(K_new), points.predict(new), atol=1e-6)


def test_classifier(data):
    X, new, K, K_new, y = data
    labels = np.where(y > y.mean(), "high", "low")
    points = gm.KernelRidgeClassifier(alpha=0.1, kernel=KERNEL).fit(X, labels)
    values = gm.KernelRidgeClassifier(alpha=0.1, kernel="precomputed").fit(K, labels)
    np.testing.assert_allclose(values.decision_function(K_new), points.decision_function(new), atol=1e-7)
    assert (values.predict(K_new) == points.predict(new)).all()


def test_cross_validation_takes_rows_and_columns(data):
    X, _, K, _, y = data
    grid = {"alpha": [1e-3, 1e-1, 1e1]}
    values = GridSearchCV(gm.KernelRidge(kernel="precomputed"), grid, cv=3).fit(K, y)
    points = GridSearchCV(gm.KernelRidge(kernel=KERNEL), grid, cv=3).fit(X, y)
    assert values.best_params_ == points.best_params_
    np.testing.assert_allclose(
        values.cv_results_["mean_test_score"], points.cv_results_["mean_test_score"], rtol=1e-7
    )
    assert cross_val_predict(values.best_estimator_, sp.csr_array(K), y, cv=3).shape == y.shape


FORMS = {
    "fortran": np.asfortranarray,
    "strided": lambda K: np.repeat(K, 2, axis=1)[:, ::2],
    "csr": sp.csr_array,
    "csc": sp.csc_matrix,
    "frame": lambda K: pytest.importorskip("pandas").DataFrame(K),
    "list": lambda K: K.tolist(),
    "read-only": lambda K: np.frombuffer(K.tobytes()).reshape(K.shape),
}


@pytest.mark.parametrize("form", FORMS)
def test_layouts(form, data):
    _, _, K, K_new, y = data
    plain = gm.KernelRidge(alpha=0.1, kernel="precomputed", approximation=GLOBAL["nystrom"], random_state=0)
    expected = plain.fit(K, y).predict(K_new)
    given = FORMS[form](K)
    found = plain.fit(given, y).predict(FORMS[form](K_new))
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_integers_and_float32(data):
    _, _, K, K_new, y = data
    a = gm.KernelRidge(alpha=0.1, kernel="precomputed").fit(K.astype(np.float32), y)
    np.testing.assert_allclose(
        a.predict(K_new.astype(np.float32)),
        gm.KernelRidge(alpha=0.1, kernel="precomputed").fit(K, y).predict(K_new),
        atol=1e-4,
    )
    whole = np.random.default_rng(0).integers(0, 3, (300, 40))
    counts = whole @ whole.T
    F = gm.Nystrom(kernel="precomputed", rank=40, random_state=0).fit(counts).transform(counts)
    np.testing.assert_allclose(F @ F.T, counts, rtol=1e-8)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    rng = np.random.default_rng(2)
    X = rng.random((4000, 2)).astype(np.float32)
    path = tmp_path_factory.mktemp("values") / "K.dat"
    K = np.memmap(path, np.float32, "w+", shape=(4000, 4000))
    K[:] = KERNEL(X)
    K.flush()
    return np.memmap(path, np.float32, "r", shape=(4000, 4000)), X


def test_a_file_is_read_by_needed_blocks(large, monkeypatch):
    K, X = large
    pages = []
    read = StoredMatrix._read

    def counted(matrix, rows, columns):
        pages.append(len(rows) * matrix._pages(columns))
        return read(matrix, rows, columns)

    monkeypatch.setattr(StoredMatrix, "_read", counted)
    tracemalloc.start()
    a = gm.KernelRidge(
        alpha=0.1,
        kernel="precomputed",
        approximation=gm.MultiResolution(root_rank=100, n_levels=1, landmarks="uniform"),
        random_state=0,
        n_jobs=1,
    ).fit(K, X[:, 0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < K.nbytes / 4
    # The landmarks' rows are read, four pages each, and the probe's 500 × 500: not the 16,000 pages of K.
    assert sum(pages) < 0.4 * K.nbytes / 4096
    np.testing.assert_allclose(a.predict(K[:300]), X[:300, 0], atol=0.05)


def test_a_file_gives_what_the_array_gives(large):
    K, _ = large
    plain = gm.Nystrom(kernel="precomputed", rank=30, random_state=0)
    F = plain.fit(K).transform(K[:100])
    expected = plain.fit(np.array(K)).transform(np.array(K[:100]))
    np.testing.assert_array_equal(F, expected)


def test_auto_takes_blocks_for_rough_kernels():
    X = np.random.default_rng(3).random((2000, 3))
    rough, y = gm.Gaussian(lengthscale=0.1)(X), np.sin(20 * X[:, 0])
    a = gm.KernelRidge(alpha=1e-3, kernel="precomputed", memory_budget="30MB", random_state=0).fit(rough, y)
    assert a.plan_.n_blocks > 1
    assert a.plan_.builder.partition == "kernel"
    assert a.plan_.peak_bytes <= 30e6
    assert a.score(rough, y) > 0.95


def test_a_fitted_model_keeps_no_matrix(data):
    _, _, K, K_new, y = data
    method = of(GLOBAL["root"], "precomputed", root_rank=10)
    for model in (
        method.fit(K),
        gm.KernelRidge(kernel="precomputed", approximation=method, random_state=0).fit(K, y),
    ):
        stored = pickle.dumps(model)
        assert len(stored) < K.nbytes / 8
        again = pickle.loads(stored)
        ask = "predict" if hasattr(model, "predict") else "transform"
        np.testing.assert_array_equal(getattr(again, ask)(K_new), getattr(model, ask)(K_new))
        assert repr(model.kernel_) == "Precomputed()"
        assert model.kernel_.matrix is None


def test_given_landmarks_are_numbers(data):
    X, _, K, _, _ = data
    numbers = np.array([[3], [17], [250]])
    values = gm.Nystrom(kernel="precomputed", rank=3, landmarks=numbers).fit(K)
    points = gm.Nystrom(kernel=KERNEL, rank=3, landmarks=X[numbers[:, 0]]).fit(X)
    np.testing.assert_allclose(values.operator_.to_dense(), points.operator_.to_dense(), atol=1e-10)
    np.testing.assert_array_equal(values.landmarks_, numbers)


# ---- what is not a kernel matrix ----------------------------------------------------------------


def test_negative_eigenvalues_are_clipped_and_reported(data):
    K = data[2]
    values, vectors = np.linalg.eigh(K)
    turned = (vectors * np.where(np.arange(300) < 297, values, -0.1 * values)) @ vectors.T
    turned = 0.5 * (turned + turned.T) + 1.5 * np.eye(300)
    negative = np.linalg.eigvalsh(turned)
    exact = gm.MultiResolution(kernel="precomputed", root_rank=300, n_levels=1, landmarks="uniform")
    assert negative.min() < -1
    with pytest.warns(NumericalWarning, match=r"matrix of 300 landmarks is indefinite: negative eigenvalues"):
        a = exact.fit(turned)
    clipped = a.features_.notes["negative eigenvalues clipped"]
    assert clipped == pytest.approx(-negative[negative < 0].sum())
    w, V = np.linalg.eigh(turned)
    np.testing.assert_allclose(a.operator_.to_dense(), (V * np.maximum(w, 0)) @ V.T, atol=1e-9)


@pytest.mark.parametrize("rank", [1, 2])
def test_whitening_an_indefinite_matrix_keeps_its_positive_part(rank):
    turned = np.array([[0.0, 1.0], [1.0, 0.0]])
    white = whiten(turned, rank, 1e-13, definite=False)
    assert white.values == pytest.approx([1.0])
    assert white.negative == pytest.approx(1.0)
    shifted = whiten(turned + 0.5 * np.eye(2), rank, 1e-13, definite=False)
    assert (shifted.values[0], shifted.negative) == pytest.approx((1.5, 0.5))


def test_whitening_a_definite_matrix_takes_pivots(data):
    K = data[2]
    checked, plain = (whiten(K, 300, 1e-13, definite=d) for d in (False, True))
    np.testing.assert_array_equal(checked.vectors, plain.vectors)
    assert checked.negative == 0.0


def test_rounding_is_no_matter(data):
    single = KERNEL(data[0].astype(np.float32)).astype(np.float64)
    assert np.linalg.eigvalsh(single).min() < -1e-8
    a = gm.MultiResolution(kernel="precomputed", root_rank=300, n_levels=1, landmarks="uniform").fit(single)
    assert 0 < a.features_.notes["negative eigenvalues clipped"] < 1e-3
    np.testing.assert_allclose(a.operator_.to_dense(), single, atol=1e-5)


def swapped(K):
    K = K.copy()
    K[7, 3] += 0.5
    return K


MATRICES = {
    "rows": (
        lambda K: K[:, :3],
        r"X has shape \(300, 3\); .* a square matrix. Pass K\(X, X\) of shape \(n, n\)",
    ),
    "not symmetric": (
        swapped,
        r"X is not symmetric: X\[3, 7\] is 0\.\d+ and X\[7, 3\] is .*\(0.5\).*Pass \(K \+ K",
    ),
    "sparse": (lambda K: sp.csr_array(swapped(K)), r"X is not symmetric: X\[3, 7\] is"),
    "distances": (
        lambda K: 1 - K,
        r"the diagonal of X is zero, as in a matrix of distances. Pass kernel values",
    ),
    "negative": (lambda K: K - 2 * np.diag(np.arange(300) == 5), r"X\[5, 5\] is -1, but k\(x, x\) cannot be"),
    "nan": (lambda K: np.where(np.eye(300), np.nan, K), "contains NaN"),
    "one dimension": (lambda K: K[0], "Expected 2D array, got 1D array"),
    "source": (as_source, "X is a ArraySource; with kernel='precomputed' it is a matrix of kernel values"),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("estimator", [gm.KernelRidge(kernel="precomputed"), GLOBAL["nystrom"]])
def test_matrices_that_are_refused(name, estimator, data):
    change, text = MATRICES[name]
    estimator = of(estimator, "precomputed")
    with pytest.raises(ValueError, match=text):
        estimator.fit(change(data[2]), data[4])


def test_large_matrices_are_checked_by_tiles(large):
    K = np.array(large[0])
    check_kernel_matrix(K)
    K[:2000] *= 1.5
    with pytest.raises(InputError, match="X is not symmetric"):
        check_kernel_matrix(K)


def test_too_many_rows():
    n = 2**24 + 1
    empty = sp.csr_array((n, n))
    with pytest.raises(InputError, match=r"takes at most 16777216. Pass the rows themselves"):
        check_kernel_matrix(empty)


def test_a_file_with_nan(large, tmp_path):
    broken = np.memmap(tmp_path / "K.dat", np.float32, "w+", shape=(4000, 4000))
    broken[:] = large[0]
    broken[5, 8] = broken[8, 5] = np.inf
    with pytest.raises(
        InputError, match=r"X contains NaN or infinity: X\[(5, 8|8, 5)\] is inf. Drop that row"
    ):
        gm.KernelRidge(kernel="precomputed", approximation="exact").fit(broken, np.ones(4000))
    small = np.memmap(tmp_path / "small.dat", np.float64, "w+", shape=(40, 40))
    small[:] = np.eye(40)
    small[5, 8] = small[8, 5] = np.inf
    with pytest.raises(InputError, match=r"X contains NaN or infinity: X\[5, 8\] is inf"):
        gm.KernelRidge(kernel="precomputed").fit(small, np.zeros(40))
    broken[3, 3] = np.nan
    with pytest.raises(InputError, match=r"X contains NaN or infinity: X\[3, 3\]"):
        gm.KernelRidge(kernel="precomputed").fit(broken, np.zeros(4000))


# ---- what cannot be asked -----------------------------------------------------------------------


def test_wrong_width(data):
    _, _, K, _, y = data
    text = (
        r"X has 7 features, but KernelRidge is expecting 300 features as input\. With kernel='precomputed' X "
        r"has one column for each training row. Pass K\(X_new, X_train\) of shape \(m, 300\)"
    )
    with pytest.raises(InputError, match=text):
        gm.KernelRidge(kernel="precomputed").fit(K, y).predict(K[:, :7])


def test_errors_need_the_training_matrix(data):
    _, _, K, K_new, _ = data
    a = of(GLOBAL["nystrom"], "precomputed").fit(K)
    text = (
        r"X has shape \(40, 300\), but the kernel values .* Pass the training matrix K\(X, X\) of shape \(300"
    )
    for ask in (a.relative_error, a.trace_error, a.spectral_error, a.block_errors, a.report):
        with pytest.raises(InputError, match=text):
            ask(K_new)
    with pytest.raises(InputError, match="X is not symmetric"):
        a.relative_error(swapped(K))


REFUSED = {
    "kmeans": (
        gm.Nystrom(rank=5, landmarks="kmeans"),
        "landmarks='kmeans' averages points, which a precomputed",
    ),
    "weighted": (gm.Nystrom(rank=5, landmarks="weighted-kmeans"), "'weighted-kmeans' averages points"),
    "blocks": (
        gm.MultiResolution(n_blocks=4, landmarks="uniform"),
        r"clusters points, which a precomputed kernel does not have\. Take partition='kernel', or a method",
    ),
    "tree": (gm.BlockDiagonal(n_blocks=4), "partition='tree' clusters points"),
    "meka": (gm.MEKA(rank=5, n_blocks=4), "partition='kmeans' clusters points"),
    "epsilon": (
        gm.MEKA(rank=5, n_blocks=1, landmarks="uniform", epsilon=0.1),
        "epsilon=0.1 compares means of blocks, which a precomputed kernel does not have. Take epsilon=0",
    ),
    "bbf": (gm.BlockBasis(rank=5, n_blocks=4), "partition='kmeans' clusters points"),
    "fourier": (gm.RandomFourier(), "Precomputed"),
    "fastfood": (gm.Fastfood(), "Precomputed"),
    "maclaurin": (gm.RandomMaclaurin(), "Precomputed"),
    "sketch": (gm.TensorSketch(), "Precomputed"),
    "gamma": (
        gm.Nystrom(rank=5, gamma=2.0),
        "gamma=2.0 was given with kernel='precomputed'.* Pass gamma=None",
    ),
    "landmarks": (
        gm.Nystrom(rank=2, landmarks=np.array([[1.0], [300.0]])),
        "landmarks holds 300, .* is the number of a training row. Give whole numbers from 0 to 299",
    ),
    "fractions": (gm.Nystrom(rank=2, landmarks=np.array([[0.5]])), "landmarks holds 0.5"),
    "points": (
        gm.Nystrom(rank=2, landmarks=np.ones((2, 3))),
        r"landmarks has shape \(2, 3\); expected \(m, 1\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_methods_that_need_points(name, data):
    estimator, text = REFUSED[name]
    with pytest.raises(InputError, match=text):
        of(estimator, "precomputed").fit(data[2])


def test_parts_of_a_model_have_no_values(data):
    a = of(GLOBAL["nystrom"], "precomputed").fit(data[2])
    with pytest.raises(InputError, match=r"does not keep the precomputed matrix. Call its methods with"):
        a.kernel_(np.zeros((2, 1)), np.ones((2, 1)))
    with pytest.raises(InputError, match=r"does not keep the precomputed matrix. Pass it to the method"):
        a.kernel_.diagonal(np.zeros((2, 1)))
    with pytest.raises(InputError, match=r"X has shape \(40, 300\) and no kernel values of its rows"):
        Precomputed(StoredMatrix(data[3])).diagonal(np.zeros((2, 1)))


def test_model_files_hold_no_precomputed_kernel(data, tmp_path):
    _, _, K, _, y = data
    with pytest.raises(
        InputError, match=r"Precomputed\(\) has type Precomputed; .* Save the model with pickle"
    ):
        gm.save(gm.KernelRidge(kernel="precomputed").fit(K, y), tmp_path / "m.gramian")


def test_the_tag_says_pairwise():
    assert gm.KernelRidge(kernel="precomputed").__sklearn_tags__().input_tags.pairwise
    assert not gm.KernelRidge().__sklearn_tags__().input_tags.pairwise


NOT_KERNELS = {
    "check_positive_only_tag_during_fit": "a matrix with a negative diagonal",
    "check_classifiers_one_label_sample_weights": "a matrix that is not symmetric",
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        gm.KernelRidge(kernel="precomputed"),
        gm.KernelRidgeClassifier(kernel="precomputed"),
        gm.Nystrom(kernel="precomputed", rank=5),
    ],
    expected_failed_checks=lambda estimator: NOT_KERNELS,
)
def test_sklearn_check(estimator, check):
    check(estimator)
