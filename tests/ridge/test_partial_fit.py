"""Streams: rows in several calls are as one fit to all of them; fading, merging, failing, frozen maps."""

from __future__ import annotations

import pickle
import tracemalloc
from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

import gramian as gm
from gramian.compression.features import difference
from gramian.data.source import ArraySource
from gramian.engine import Engine

ALPHA, GAMMA = 0.05, 6.0
CHUNKS = (slice(0, 1), slice(1, 200), slice(200, 230), slice(230, 600))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.random((600, 2))
    Y = np.column_stack([np.sin(6 * X[:, 0]) + 3.0, X[:, 0] * X[:, 1]]) + 0.1 * rng.standard_normal((600, 2))
    return X, Y, rng.random(600)


@pytest.fixture(scope="module")
def fitted(rows):
    maker = gm.MultiResolution(gamma=GAMMA, root_rank=20, rank=8, n_blocks=4, random_state=0)
    return maker.fit(rows[0][:300])


def ridge(fitted, **parameters):
    return gm.KernelRidge(alpha=ALPHA, approximation=FrozenEstimator(fitted), **parameters)


def streamed(model, X, Y, weights=None, **more):
    for chunk in CHUNKS:
        model.partial_fit(X[chunk], Y[chunk], None if weights is None else weights[chunk], **more)
    return model


def dense(fitted, X, Y, weights, intercept, new):
    """Ridge of the features by the normal equations of all rows at once."""
    F, G = fitted.transform(X).toarray(), fitted.transform(new).toarray()
    mean = weights @ Y / weights.sum() if intercept else 0.0
    centre = weights @ F / weights.sum() if intercept else 0.0
    F, G = F - centre, G - centre
    system = (F.T * weights) @ F + ALPHA * np.eye(F.shape[1])
    return G @ np.linalg.solve(system, F.T @ (weights[:, None] * (Y - mean))) + mean


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_chunks_give_what_the_normal_equations_of_all_rows_give(rows, fitted, intercept, weighted):
    X, Y, weights = rows
    model = streamed(ridge(fitted, fit_intercept=intercept), X, Y, weights if weighted else None)
    expected = dense(fitted, X, Y, weights if weighted else np.ones(len(X)), intercept, X)
    assert np.abs(model.predict(X) - expected).max() < 1e-10
    whole = clone(model).fit(X, Y, weights if weighted else None)
    assert np.abs(model.predict(X) - whole.predict(X)).max() < 1e-10
    assert np.abs(model.intercept_ - whole.intercept_).max() < 1e-10
    assert (model.n_rows_seen_, model.n_blocks_, model.rank_) == (600, 4, whole.rank_)


@pytest.mark.parametrize("method", ["multiresolution", "meka", "nystrom", "randomfourier"])
def test_the_first_rows_make_the_map_of_any_method(rows, method):
    X, Y, _ = rows
    sizes = {
        "multiresolution": gm.MultiResolution(root_rank=20, rank=8, n_blocks=4),
        "meka": gm.MEKA(rank=8, n_blocks=3),
        "nystrom": gm.Nystrom(rank=20),
        "randomfourier": gm.RandomFourier(rank=30),
    }[method]
    model = gm.KernelRidge(ALPHA, gamma=GAMMA, approximation=sizes, tile_dtype="float64", random_state=0)
    one = clone(model).partial_fit(X[:300], Y[:300])
    several = clone(model).partial_fit(X[:300], Y[:300]).partial_fit(X[300:], Y[300:])
    twice = one.partial_fit(X[300:450], Y[300:450]).partial_fit(X[450:], Y[450:])
    assert np.abs(several.predict(X) - twice.predict(X)).max() < 1e-9
    assert np.mean((several.predict(X) - Y) ** 2) < 0.2


def test_sparse_rows_and_sources_are_streamed_as_arrays_are(rows, fitted):
    X, Y, _ = rows
    expected = streamed(ridge(fitted), X, Y).predict(X)
    for form in (sp.csr_array, ArraySource):
        model = ridge(fitted)
        for chunk in CHUNKS:
            model.partial_fit(form(X[chunk]), Y[chunk])
        assert np.abs(model.predict(X) - expected).max() < 1e-10
    source = ArraySource(X)
    source.target = Y
    assert np.abs(ridge(fitted).partial_fit(source).predict(X) - expected).max() < 1e-10


def test_precision_is_that_of_a_million_rows(rows):
    X, Y, _ = rows
    sizes = gm.MultiResolution(root_rank=20, rank=8, n_blocks=4)
    model = gm.KernelRidge(1.0, kernel="laplacian", gamma=3.0, approximation=sizes, random_state=0)
    assert clone(model).fit(X, Y).plan_.dtype == "float64"
    assert clone(model).partial_fit(X, Y).plan_.dtype == "float32"
    assert clone(model).set_params(alpha=1e-3).partial_fit(X, Y).plan_.dtype == "float64"


class TestCoefficientsOnDemand:
    def test_they_are_found_once_for_a_state(self, rows, fitted):
        X, Y, _ = rows
        model = streamed(ridge(fitted), X, Y)
        assert not {"predictor_", "intercept_", "solution_"} & set(vars(model))
        first = model.predictor_
        assert model.predictor_ is first
        assert model.solution_.residual < 1e-10
        assert set(model.plan_.used_seconds) == {"sums", "solve", "fold"}
        model.partial_fit(X[:5], Y[:5])
        assert "predictor_" not in vars(model)
        assert model.predictor_ is not first

    def test_alpha_is_that_of_the_latest_call(self, rows, fitted):
        X, Y, _ = rows
        model = ridge(fitted).partial_fit(X[:300], Y[:300]).set_params(alpha=2.0)
        assert np.array_equal(model.predict(X), ridge(fitted).partial_fit(X[:300], Y[:300]).predict(X))
        model.partial_fit(X[300:], Y[300:])
        assert (
            np.abs(model.predict(X) - ridge(fitted).set_params(alpha=2.0).fit(X, Y).predict(X)).max() < 1e-10
        )

    def test_copies_and_pickles_go_on(self, rows, fitted):
        X, Y, _ = rows
        expected = streamed(ridge(fitted, fit_intercept=True), X, Y).predict(X)
        half = ridge(fitted, fit_intercept=True).partial_fit(X[:300], Y[:300])
        for other in (pickle.loads(pickle.dumps(half)), deepcopy(half)):
            other.partial_fit(X[300:], Y[300:])
            assert np.abs(other.predict(X) - expected).max() < 1e-10
        assert half.n_rows_seen_ == 300

    def test_a_file_keeps_the_predictor_and_no_sums(self, rows, fitted, tmp_path):
        X, Y, _ = rows
        model = streamed(ridge(fitted), X, Y)
        gm.save(model, tmp_path / "model.gramian")
        loaded = gm.load(tmp_path / "model.gramian")
        assert np.array_equal(loaded.predict(X), model.predict(X))
        assert (loaded.n_rows_seen_, loaded.n_blocks_) == (600, 4)
        assert isinstance(loaded.approximation, gm.MultiResolution)
        with pytest.raises(gm.InputError, match="neither the rows of its fit nor their sums"):
            loaded.forget(0.1)

    def test_an_unfitted_model_has_nothing(self):
        model = gm.KernelRidge()
        assert not hasattr(model, "predictor_")
        for ask in (lambda: model.predict(np.ones((1, 2))), lambda: model.forget(0.1)):
            with pytest.raises(NotFittedError):
                ask()


class Failing(ArraySource):
    """Rows that can't be read past the first ``limit``."""

    def __init__(self, X, error, limit):
        super().__init__(X)
        self.error, self.limit = error, limit

    def rows(self, where):
        if where.stop > self.limit:
            raise self.error
        return super().rows(where)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("disk gone")])
def test_a_call_that_breaks_off_adds_nothing(rows, fitted, error):
    X, Y, _ = rows
    model = ridge(fitted, fit_intercept=True).partial_fit(X[:300], Y[:300])
    before = model.predict(X)
    state = dict(vars(model))
    many = np.tile(X, (10, 1))
    with pytest.raises(type(error)):
        model.partial_fit(Failing(many, error, 5000), np.tile(Y, (10, 1)))
    bad = X[300:].copy()
    bad[-1, 0] = np.nan
    for X_bad, Y_bad, message in (
        (bad, Y[300:], "contains NaN"),
        (X[300:, :1], Y[300:], "X has 1 features"),
        (X[300:], Y[:10], "X has 300 rows, but y has 10"),
        (X[300:], Y[300:, 0], "y has 1 outputs, but the rows so far have 2"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(X_bad, Y_bad)
    assert vars(model) == state
    assert np.array_equal(model.predict(X), before)
    fresh = ridge(fitted)
    with pytest.raises(type(error)):
        fresh.partial_fit(Failing(many, error, 2000), np.tile(Y, (10, 1)))
    assert not hasattr(fresh, "n_rows_seen_")


def test_nodes_that_no_row_meets_are_shared(rows, fitted):
    X, Y, _ = rows
    model = ridge(fitted).partial_fit(X, Y)
    before = model._stream.summed
    leaf = int(fitted.features_.partition.route(X[:1])[0])
    model.partial_fit(X[:1], Y[:1])
    shared = [a is b for a, b in zip(before.sums.nodes, model._stream.summed.sums.nodes, strict=True)]
    assert shared == [node not in (0, 1 + leaf) for node in range(5)]
    assert before.sums.n_rows == 600


@pytest.mark.slow
def test_memory_is_the_plan_s_whatever_the_number_of_rows():
    rng = np.random.default_rng(2)
    sizes = gm.MultiResolution(root_rank=150, rank=60, n_blocks=12)
    model = gm.KernelRidge(gamma=GAMMA, approximation=sizes, memory_budget="24MB", random_state=0, n_jobs=1)
    tracemalloc.start()
    try:
        for n in (10_000, 40_000):
            X = rng.random((n, 3))
            y = X[:, 0].copy()
            tracemalloc.reset_peak()
            held = tracemalloc.get_traced_memory()[0]
            model.partial_fit(X, y).predictor_  # noqa: B018
            peak = tracemalloc.get_traced_memory()[1] - (held if n == 10_000 else X.nbytes + y.nbytes)
            assert peak <= model.plan_.peak_bytes <= 24_000_000
    finally:
        tracemalloc.stop()


class TestForget:
    def test_rows_fade_as_weights_do(self, rows, fitted):
        X, Y, weights = rows
        model = ridge(fitted, fit_intercept=True)
        faded = weights.copy()
        for k, chunk in enumerate(CHUNKS):
            faded[chunk] *= 0.7 ** (len(CHUNKS) - 1 - k)
            if k:
                assert model.forget(0.3) is model
            model.partial_fit(X[chunk], Y[chunk], weights[chunk])
        assert np.abs(model.predict(X) - dense(fitted, X, Y, faded, True, X)).max() < 1e-10
        assert model.n_rows_seen_ == 600

    def test_it_follows_a_target_that_drifts(self, rows, fitted):
        X = rows[0]
        keeping, fading = ridge(fitted), ridge(fitted)
        for step in range(8):
            target = np.sin(6 * X[:, 0] + 0.5 * step)
            keeping.partial_fit(X, target)
            fading.forget(0.8) if step else None
            fading.partial_fit(X, target)
        errors = [np.sqrt(np.mean((m.predict(X) - target) ** 2)) for m in (keeping, fading)]
        assert errors[1] < 0.25 * errors[0]

    @pytest.mark.parametrize("share", [-0.1, 1.0, True, "half", np.nan])
    def test_other_shares_are_refused(self, rows, fitted, share):
        X, Y, _ = rows
        with pytest.raises(gm.InputError, match="at least 0 and under 1"):
            ridge(fitted).partial_fit(X, Y).forget(share)


class TestMerge:
    def test_it_is_a_fit_to_both(self, rows, fitted):
        X, Y, weights = rows
        left = ridge(fitted, fit_intercept=True).partial_fit(X[:200], Y[:200], weights[:200])
        right = ridge(fitted, fit_intercept=True).partial_fit(X[200:], Y[200:], weights[200:])
        right = pickle.loads(pickle.dumps(right)).set_params(alpha=9.0)
        state, before = dict(vars(right)), right.predict(X)
        assert left.merge(right) is left
        assert np.abs(left.predict(X) - dense(fitted, X, Y, weights, True, X)).max() < 1e-10
        assert left.n_rows_seen_ == 600
        assert right.n_rows_seen_ == 400
        assert np.array_equal(right.predict(X), before)
        assert right._stream is state["_stream"]

    def test_other_maps_targets_and_models_are_refused(self, rows, fitted):
        X, Y, _ = rows
        model = ridge(fitted).partial_fit(X, Y)
        own = gm.KernelRidge(ALPHA, gamma=GAMMA, tile_dtype="float64", random_state=1)
        own.partial_fit(np.tile(X, (4, 1)), np.tile(Y, (4, 1)))  # so many that none waits
        labels = (X[:, 0] > 0.5).astype(int)
        for other, message in (
            (own, "feature maps: the ranks or numbers of blocks"),
            (ridge(fitted).partial_fit(X, Y[:, 0]), "has 2 outputs, the other 1"),
            (ridge(fitted, fit_intercept=True).partial_fit(X, Y), "fit_intercept=False, the other with True"),
            (
                pickle.loads(pickle.dumps(ridge(fitted).fit(X, Y))),
                "neither the rows of its fit nor their sums",
            ),
            (gm.KernelRidgeClassifier().fit(X, labels), "expected a KernelRidge"),
        ):
            with pytest.raises(gm.InputError, match=message):
                model.merge(other)
        with pytest.raises(NotFittedError):
            model.merge(ridge(fitted))


@pytest.mark.parametrize(
    "maker",
    [
        gm.MultiResolution(gamma=GAMMA, root_rank=10, rank=4, n_blocks=3),
        gm.MEKA(gamma=GAMMA, rank=4, n_blocks=3),
        gm.MEKA(gamma=GAMMA, rank=4, n_blocks=3, partition="kernel"),
        gm.RandomFourier(gamma=GAMMA, rank=20),
    ],
    ids=lambda m: f"{type(m).__name__}-{getattr(m, 'partition', '')}",
)
def test_maps_are_the_same_by_their_numbers(rows, maker):
    X = rows[0]
    mine = clone(maker).set_params(random_state=0).fit(X).features_
    assert difference(mine, pickle.loads(pickle.dumps(mine))) is None
    assert difference(mine, clone(maker).set_params(random_state=0).fit(X).features_) is None
    assert difference(mine, clone(maker).set_params(random_state=1).fit(X).features_) is not None
    assert "kernels" in difference(mine, clone(maker).set_params(gamma=1.0).fit(X).features_)
    assert "types" in difference(mine, clone(maker).set_params(tile_dtype="float32").fit(X).features_)


class TestFrozen:
    def test_the_map_is_taken_as_it_is(self, rows, fitted):
        X, Y, _ = rows
        for model in (ridge(fitted).fit(X, Y), clone(ridge(fitted)).partial_fit(X, Y)):
            assert model.kernel_ == fitted.kernel_
            assert model.plan_.reason == "of the given approximation"
            assert np.abs(model.predict(X) - dense(fitted, X, Y, np.ones(600), False, X)).max() < 1e-10
        assert ridge(fitted, gamma=GAMMA).plan(X).n_blocks == 4
        search = GridSearchCV(ridge(fitted), {"alpha": [0.01, 10.0]}, cv=3).fit(X, Y)
        assert search.best_params_ == {"alpha": 0.01}
        assert search.best_estimator_.approximation.estimator is fitted
        other = gm.KernelSVR(approximation=FrozenEstimator(fitted)).fit(X, Y[:, 1])
        assert other.kernel_ == fitted.kernel_

    def test_what_does_not_go_with_it_is_refused(self, rows, fitted):
        X, Y, _ = rows
        labels = gm.MultiResolution(root_rank=5)
        scaler = gm.KernelRidge(approximation=FrozenEstimator(StandardScaler().fit(X)))
        stored = gm.Nystrom("precomputed", rank=5, landmarks="uniform").fit(X @ X.T)
        for model, message in (
            (ridge(fitted, gamma=1.0), "that of the frozen approximation is Gaussian"),
            (ridge(fitted, kernel="laplacian"), "the kernel is Laplacian"),
            (ridge(fitted, tile_dtype="float32"), "has float64 tiles"),
            (scaler, "FrozenEstimator\\(StandardScaler\\(...\\)\\) holds no feature map"),
            (gm.KernelRidge(approximation=FrozenEstimator(stored)), "matrix of kernel values"),
        ):
            with pytest.raises(gm.InputError, match=message):
                model.fit(X, Y)
        with pytest.raises(gm.InputError, match="was fitted with 2"):
            ridge(fitted).fit(X[:, :1], Y)
        with pytest.raises(NotFittedError):
            gm.KernelRidge(approximation=FrozenEstimator(labels)).fit(X, Y)


class TestClasses:
    def test_chunks_may_lack_classes(self, rows, fitted):
        X = rows[0]
        y = np.array(["low", "middle", "high"])[(3 * X[:, 0]).astype(int)]
        order = np.argsort(X[:, 0])
        X, y = X[order], y[order]
        model = gm.KernelRidgeClassifier(
            ALPHA, approximation=FrozenEstimator(fitted), class_weight={"low": 2.0}
        )
        whole = clone(model).fit(X, y)
        parts = clone(model)
        with pytest.raises(gm.InputError, match="classes must be passed on the first call"):
            parts.partial_fit(X[:100], y[:100])
        parts.partial_fit(X[:100], y[:100], classes=["middle", "low", "high"])
        with pytest.raises(gm.InputError, match=r"none.*is not one of the classes"):
            parts.partial_fit(X[:2], ["low", "none"])
        with pytest.raises(gm.InputError, match="are not those of the rows so far"):
            parts.partial_fit(X[:2], y[:2], classes=["low", "high"])
        rest = clone(model).partial_fit(X[100:], y[100:], classes=np.unique(y))
        parts.merge(rest)
        gap = parts.decision_function(X) - whole.decision_function(X)
        assert np.abs(gap).max() < 1e-10
        assert parts.score(X, y) > 0.9
        two = clone(model).set_params(class_weight=None).partial_fit(X, y == "low", classes=[False, True])
        with pytest.raises(gm.InputError, match="Name the same classes"):
            parts.merge(two)

    @pytest.mark.parametrize("classes", [[], [[0, 1]], [0.5, 1.5]])
    def test_classes_that_are_none_are_refused(self, rows, classes):
        with pytest.raises(ValueError, match=r"one label a class|Unknown label type"):
            gm.KernelRidgeClassifier().partial_fit(rows[0], np.zeros(600, int), classes=classes)


class TestRefusals:
    @pytest.mark.parametrize(
        ("model", "message"),
        [
            (gm.KernelRidge(approximation="exact"), "all rows at once"),
            (gm.KernelRidge(approximation=gm.Exact()), "all rows at once"),
            (gm.KernelRidge(kernel="precomputed"), "kernel values of all rows"),
            (gm.KernelRidgeClassifier(class_weight="balanced"), "needs the labels of all rows"),
        ],
    )
    def test_where_there_is_no_stream_there_is_no_partial_fit(self, model, message):
        assert not hasattr(model, "partial_fit")
        with pytest.raises(AttributeError, match=message):
            model.partial_fit(np.ones((3, 2)), np.zeros(3))

    def test_parameters_of_the_map_stay(self, rows):
        X, Y, _ = rows
        model = gm.KernelRidge(gamma=GAMMA, random_state=0)
        model.partial_fit(np.tile(X, (4, 1)), np.tile(Y, (4, 1)))
        with pytest.raises(gm.InputError, match="the kernel is now Laplacian"):
            clone_with(model, kernel="laplacian").partial_fit(X, Y)
        with pytest.raises(gm.InputError, match="was started with False"):
            clone_with(model, fit_intercept=True).partial_fit(X, Y)
        with pytest.raises(gm.InputError, match="takes at least one row"):
            model.partial_fit(ArraySource(X[:0]), Y[:0])

    def test_another_penalty_is_another_model_of_the_same_stream(self, rows, fitted):
        X, Y, _ = rows
        model = streamed(ridge(fitted), X, Y)
        before = model.predict(X)
        other = model._stream.with_penalty(3.0)
        assert model.alpha == ALPHA
        np.testing.assert_array_equal(model.predict(X), before)
        expected = streamed(ridge(fitted).set_params(alpha=3.0), X, Y).predict(X)
        np.testing.assert_allclose(other.values(ArraySource(X), Engine(1)), expected, atol=1e-12)

    def test_what_is_not_there_is_refused_in_python_s_words(self, rows, fitted):
        X, Y, _ = rows
        with pytest.raises(AttributeError, match="'KernelRidge' object has no attribute 'rank_'"):
            _ = gm.KernelRidge().rank_
        with pytest.raises(AttributeError, match="'KernelRidge' object has no attribute 'scaler_'"):
            _ = ridge(fitted).partial_fit(X, Y).scaler_
        with pytest.raises(AttributeError, match="this KernelRidge has no metric_"):
            _ = ridge(fitted).partial_fit(X, Y).feature_importances_


def clone_with(model, **parameters):
    return deepcopy(model).set_params(**parameters)


def test_models_of_other_columns_are_not_merged():
    pd = pytest.importorskip("pandas")
    X = np.random.default_rng(0).random((40, 2))
    one, other, array = (
        gm.KernelRidge().partial_fit(rows, X[:, 0])
        for rows in (pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(X, columns=["b", "a"]), X)
    )
    with pytest.raises(gm.InputError, match=r"has the columns 'a', 'b', the other 'b', 'a'.*same order"):
        one.merge(other)
    assert one.merge(array).n_rows_seen_ == 80
