"""The average gradient outer product, against finite differences of what the models predict."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError

import gramian as gm
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.kernels import Cauchy, FunctionKernel
from gramian.metric.gradients import Differentiable, by_switching
from gramian.metric.outer_product import outer_product
from gramian.outer_product import average_gradient_outer_product

D = 4


def data(n: int = 240, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, D))
    y = np.stack([np.sin(5 * X[:, 0]) + X[:, 1], np.cos(4 * X[:, 1]) * X[:, 2]], axis=1)
    return X, y


def slopes(function: Callable, X: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """The obvious oracle: central differences, (n, d, outputs)."""
    out = []
    for j in range(X.shape[1]):
        step = np.zeros(X.shape[1])
        step[j] = h
        found = (np.asarray(function(X + step)) - np.asarray(function(X - step))) / (2 * h)
        out.append(found.reshape(len(X), -1))
    return np.stack(out, axis=1)


def dense_product(G: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    w = np.ones(len(G)) if weights is None else weights
    return np.einsum("i,ifo,igo->fg", w / w.sum(), G, G)


def ridge(kernel: gm.Kernel, approximation: object) -> tuple[gm.KernelRidge, np.ndarray]:
    X, y = data()
    model = gm.KernelRidge(
        alpha=1e-2, kernel=kernel, approximation=approximation, tile_dtype="float64", random_state=0
    )
    return model.fit(X, y), X[:60] + 1e-3


APPROXIMATIONS = {
    "exact": "exact",
    "nystrom": gm.Nystrom(rank=30),
    "leaves": gm.MultiResolution(root_rank=20, rank=10, n_blocks=3),
    "levels": gm.MultiResolution(root_rank=15, rank=8, n_blocks=2, n_levels=3),
    "meka": gm.MEKA(rank=10, n_blocks=3),
    "fourier": gm.RandomFourier(rank=60),
    "bka": gm.BlockDiagonal(n_blocks=3, rank=20),
}


@pytest.mark.parametrize("name", APPROXIMATIONS)
def test_predictors_agree_with_differences(name: str) -> None:
    model, X = ridge(gm.Gaussian(0.5), APPROXIMATIONS[name])
    steps = np.full(D, 1e-5)
    M = outer_product(Differentiable(model.predictor_, model.kernel_, steps=steps), X)
    truth = slopes(model.predict, X)
    # Rows whose leaf changes within the step have no derivative.
    assert np.abs(truth).max() < 1e3
    np.testing.assert_allclose(M, dense_product(truth), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "kernel",
    [gm.Laplacian(1.0), gm.Matern(0.8, nu=1.5) + gm.Linear(), 2.0 * gm.Gaussian(1.0) * Cauchy(1.0)],
    ids=repr,
)
@pytest.mark.parametrize("approximation", ["exact", "leaves"])
def test_kernels_agree_with_differences(kernel: gm.Kernel, approximation: str) -> None:
    model, X = ridge(kernel, APPROXIMATIONS[approximation])
    M = outer_product(Differentiable(model.predictor_, model.kernel_), X)
    np.testing.assert_allclose(M, dense_product(slopes(model.predict, X, 1e-6)), rtol=1e-4, atol=1e-6)


def test_a_function_kernel_and_any_function_go_by_differences() -> None:
    def f(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        return np.asarray(gm.Gaussian(0.7)(X, Z, dtype=float))

    model, X = ridge(FunctionKernel(f), "exact")
    truth = dense_product(slopes(model.predict, X))
    steps = np.full(D, 1e-5)
    for predictor in (model.predictor_, model.predict):
        np.testing.assert_allclose(outer_product(Differentiable(predictor, steps=steps), X), truth, rtol=1e-5)


def test_forms_weights_threads_and_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    model, X = ridge(gm.Gaussian(0.5), APPROXIMATIONS["leaves"])
    weights = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    f, found = Differentiable(model.predictor_, model.kernel_), {"weights": weights}
    M = outer_product(f, X, **found)
    np.testing.assert_allclose(M, dense_product(slopes(model.predict, X), weights), rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(M, outer_product(f, X, **found, engine=Engine(2)))
    diagonal = outer_product(f, X, **found, form="diagonal")
    np.testing.assert_allclose(diagonal, M.diagonal(), rtol=1e-12)
    repeated = np.repeat(X, weights.astype(int), axis=0)
    np.testing.assert_allclose(outer_product(f, repeated), M, rtol=1e-12)
    np.testing.assert_allclose(outer_product(f, sp.csr_array(X), **found), M, rtol=1e-10)
    monkeypatch.setattr("gramian.metric.outer_product.LEAST_ROWS", 1)
    monkeypatch.setattr("gramian.metric.outer_product.MOST_ROWS", 7)
    np.testing.assert_allclose(outer_product(f, X, **found), M, rtol=1e-12)


def test_low_rank_factor_has_the_leading_directions() -> None:
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((40, 3)))[0] * np.array([3.0, 2.0, 1.0])
    X = rng.standard_normal((300, 40))

    def f(rows: np.ndarray) -> np.ndarray:
        return np.sin(rows @ directions)

    M, factor = outer_product(f, X), outer_product(f, X, rank=3)
    assert factor.shape == (40, 3)
    np.testing.assert_allclose(factor @ factor.T, M, atol=1e-6 * np.abs(M).max())
    values = np.linalg.eigvalsh(M)[::-1]
    np.testing.assert_allclose(np.square(outer_product(f, X, rank=1)).sum(), values[0], rtol=1e-6)


def switched_data() -> tuple[np.ndarray, list[tuple[int, ...]]]:
    rng = np.random.default_rng(0)
    category = rng.integers(0, 3, 80)
    return np.column_stack([rng.random(80), rng.integers(0, 2, 80), np.eye(3)[category]]), [(1,), (2, 3, 4)]


def test_switched_columns_tell_categories_apart_as_the_function_does() -> None:
    X, groups = switched_data()

    def f(rows: np.ndarray) -> np.ndarray:
        effect = rows[:, 2:] @ np.array([0.0, 1.0, 5.0])
        return rows[:, 0] ** 2 + (3.0 + rows[:, 0]) * rows[:, 1] + effect * rows[:, 0]

    M = outer_product(f, X, switched=groups)
    # A column of two values: the mean square of what the switch does.
    np.testing.assert_allclose(M[1, 1], np.mean((3.0 + X[:, 0]) ** 2), rtol=1e-10)
    block, effects = M[2:, 2:], (0.0, 1.0, 5.0)
    for c, other in ((0, 1), (0, 2), (1, 2)):
        step = np.eye(3)[c] - np.eye(3)[other]
        truth = (effects[c] - effects[other]) ** 2 * np.mean(X[:, 0] ** 2)
        np.testing.assert_allclose(step @ block @ step, truth, rtol=1e-10)
    np.testing.assert_allclose(block.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(M, M.T)
    assert np.linalg.eigvalsh(M).min() > -1e-12


def test_switched_columns_in_other_units_give_the_same_distances() -> None:
    """Scaled and moved columns scale the metric so that the same switch has the same length."""
    X, groups = switched_data()
    scale, shift = np.array([1.0, 3.0, 2.0, 0.5, 4.0]), np.array([0.0, -1.0, 0.2, 0.0, 3.0])

    def f(rows: np.ndarray) -> np.ndarray:
        return np.sin(rows @ np.array([1.0, 2.0, 0.3, -0.7, 1.9]))

    M = outer_product(f, X, switched=groups)
    moved = outer_product(lambda rows: f((rows - shift) / scale), X * scale + shift, switched=groups)
    np.testing.assert_allclose(moved * np.outer(scale, scale), M, atol=1e-10)


def test_switched_columns_of_a_predictor() -> None:
    X, groups = switched_data()
    y = X[:, 0] + 2 * X[:, 1] + X[:, 3] * X[:, 0]
    model = gm.KernelRidge(alpha=1e-3, kernel=gm.Gaussian(1.5), tile_dtype="float64", random_state=0).fit(
        X, y
    )
    M = outer_product(Differentiable(model.predictor_, model.kernel_), X, switched=groups, form="full")
    G = slopes(model.predict, X)
    two = np.stack([X, X])
    two[0, :, 1], two[1, :, 1] = 0, 1
    G[:, 1, 0] = model.predict(two[1]) - model.predict(two[0])
    values = []
    for c in range(3):
        rows = X.copy()
        rows[:, 2:] = np.eye(3)[c]
        values.append(model.predict(rows))
    G[:, 2:, 0] = np.stack(values, axis=1) - np.mean(values, axis=0)[:, None]
    np.testing.assert_allclose(M, dense_product(G), rtol=1e-5, atol=1e-8)


def test_a_column_that_never_changes_has_no_slope() -> None:
    X = np.column_stack([np.random.default_rng(0).random(30), np.full(30, 0.1), np.ones(30)])
    M = outer_product(lambda rows: rows.sum(axis=1), X, switched=[(2,)])
    np.testing.assert_allclose(M, np.diag([1.0, 0.0, 0.0]), atol=1e-12)
    levels = np.zeros(3), np.ones(3)
    M = outer_product(lambda rows: rows.sum(axis=1), X, switched=[(2,)], levels=levels)
    assert M[2, 2] == pytest.approx(1.0)
    (found,) = by_switching(lambda rows: rows[:, :1], X, [(1, 2)], X.min(axis=0), X.max(axis=0))
    np.testing.assert_array_equal(found, 0.0)


def test_nothing_is_written_into_the_rows() -> None:
    X, groups = switched_data()
    X.setflags(write=False)
    before = X.copy()
    outer_product(lambda rows: rows[:, 0], X, switched=groups, weights=np.ones(80))
    np.testing.assert_array_equal(X, before)


def test_memory_does_not_grow_with_the_rows() -> None:
    import tracemalloc

    peaks = []
    for n in (2_000, 8_000):
        X = np.random.default_rng(0).random((n, 30))
        tracemalloc.start()
        outer_product(lambda rows: np.repeat(np.sin(rows[:, :1]), 8, axis=1), X)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 2e6
    for first, second in pairwise(peaks):
        assert second < 1.3 * first


Fit = Callable[[np.ndarray, np.ndarray], object]
LABELS = ("low", "high", "middle")
MODELS: dict[str, tuple[Fit, str]] = {
    "ridge": (lambda X, y: gm.KernelRidge(1e-2, gamma=2.0, random_state=0).fit(X, y), "predict"),
    "standardized": (
        lambda X, y: gm.KernelRidge(1e-2, gamma=0.2, standardize=True, random_state=0).fit(
            X * [1, 3, 0.1, 9], y
        ),
        "predict",
    ),
    "intercept": (
        lambda X, y: gm.KernelRidge(1e-2, kernel="laplacian", fit_intercept=True, random_state=0).fit(X, y),
        "predict",
    ),
    "cv": (lambda X, y: gm.KernelRidgeCV((1e-2,), gamma=2.0, random_state=0).fit(X, y), "predict"),
    "ridge classifier": (
        lambda X, y: gm.KernelRidgeClassifier(1e-2, gamma=2.0, random_state=0).fit(X, labels(y)),
        "decision_function",
    ),
    "logistic": (
        lambda X, y: gm.KernelLogisticRegression(gamma=2.0, random_state=0).fit(X, labels(y)),
        "decision_function",
    ),
    "svc": (lambda X, y: gm.KernelSVC(gamma=2.0, random_state=0).fit(X, labels(y)), "decision_function"),
    "svr": (
        lambda X, y: gm.KernelSVR(gamma=2.0, loss="squared_epsilon_insensitive", random_state=0).fit(X, y),
        "predict",
    ),
    "process": (
        lambda X, y: gm.GaussianProcessRegressor(optimizer=None, random_state=0).fit(X, y * [1.0, 50.0]),
        "predict",
    ),
    "dcsvc": (
        lambda X, y: gm.DCSVC(gamma=2.0, leaf_size=100, decision_function_shape="ovo", random_state=0).fit(
            X, labels(y)
        ),
        "decision_function",
    ),
    "metric": (
        lambda X, y: gm.KernelRidge(
            1e-2, gamma=2.0, metric=gm.Metric(scales=[1.0, 2.0, 0.5, 0.1]), random_state=0
        ).fit(X, y),
        "predict",
    ),
    "directions": (
        lambda X, y: gm.KernelRidge(
            1e-2,
            gamma=2.0,
            standardize=True,
            metric=gm.Metric(matrix=np.random.default_rng(0).standard_normal((D, 3))),
            random_state=0,
        ).fit(X, y),
        "predict",
    ),
}


def labels(y: np.ndarray) -> np.ndarray:
    return np.asarray(LABELS)[np.digitize(y[:, 0], [0.3, 1.0])]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_by_the_features_as_they_came(name: str) -> None:
    X, y = data()
    fit, method = MODELS[name]
    model, rows = fit(X, y), X * [1, 3, 0.1, 9] if name == "standardized" else X
    rows = rows[:50] + 1e-3
    M = average_gradient_outer_product(model, rows)
    truth = slopes(getattr(model, method), rows, 1e-6)
    np.testing.assert_allclose(M, dense_product(truth), rtol=1e-4, atol=1e-5 * np.abs(M).max())
    diagonal = average_gradient_outer_product(model, rows, form="diagonal")
    np.testing.assert_allclose(diagonal, M.diagonal(), rtol=1e-10)
    factor = average_gradient_outer_product(model, rows, rank=D)
    np.testing.assert_allclose(factor @ factor.T, M, atol=1e-8 * np.abs(M).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    "fit",
    [
        lambda X, y: gm.DCPredRegressor(alpha=1e-3, gamma=2.0, n_leaves=2, random_state=0).fit(X, y),
        lambda X, y: gm.FastKernelRegressor(n_levels=0, n_units=12, n_directions=3, random_state=0).fit(X, y),
        lambda X, y: gm.KernelRidge(1e-2, gamma=2.0, approximation="randomfourier", random_state=0).fit(X, y),
        lambda X, y: RandomForestRegressor(20, random_state=0).fit(X, y),
    ],
    ids=["dcpred", "fast", "explicit", "forest"],
)
def test_other_models_by_differences(fit: Fit) -> None:
    """Wide steps smooth what has kinks: the feature that nothing depends on stays last by far."""
    X, y = data(400)
    found = average_gradient_outer_product(fit(X, y), X, form="diagonal", n_rows=200, random_state=0)
    assert found.argmin() == 3
    assert found[3] < 0.3 * found[:3].min()
    assert 2.0 < found[0] < 40.0  # of sin(5 x), 12 in the mean


def test_rows_are_drawn_from_those_with_a_weight() -> None:
    X, y = data()
    model = gm.KernelRidge(1e-2, gamma=2.0, random_state=0).fit(X, y)
    weights = np.zeros(len(X))
    weights[:40] = np.arange(40)
    M = average_gradient_outer_product(model, X, sample_weight=weights)
    np.testing.assert_allclose(M, dense_product(slopes(model.predict, X[:40]), weights[:40]), rtol=1e-5)
    drawn = [average_gradient_outer_product(model, X, n_rows=30, random_state=s) for s in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.abs(drawn[0] - drawn[2]).max() > 1e-3
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))
    named = gm.KernelRidge(1e-2, gamma=2.0, random_state=0).fit(frame, y)
    found = average_gradient_outer_product(named, frame)
    np.testing.assert_allclose(found, average_gradient_outer_product(model, X), rtol=1e-10)


ROWS = np.random.default_rng(0).random((5, 3))
AGOP = average_gradient_outer_product
ERRORS: list[tuple[Callable[[], object], str]] = [
    (lambda: outer_product(np.sum, ROWS, form="diag"), "form='diag' is unknown. Choose 'full' or 'diagonal'"),
    (lambda: outer_product(np.sum, ROWS[:0]), "rows has no row; the average needs at least one"),
    (lambda: outer_product(3, ROWS), "predictor has type int; expected a predictor of the library"),
    (
        lambda: outer_product(lambda rows: rows[:2, 0], ROWS),
        r"values of shape \(.*; expected \(1,\)|expected",
    ),
    (
        lambda: outer_product(lambda rows: rows[:, 0], ROWS, weights=-np.ones(5)),
        r"weights has shape \(5,\); expected \(5,\), one finite weight of at least 0",
    ),
    (lambda: outer_product(lambda rows: rows[:, 0], ROWS, weights=np.zeros(5)), "one of them above 0"),
    (lambda: outer_product(lambda rows: rows[:, 0], ROWS, weights=np.ones(4)), r"weights has shape \(4,\)"),
    (
        lambda: outer_product(lambda rows: rows[:, 0], ROWS, switched=[(0, 3)]),
        r"switched holds \[0, 3\]; expected groups of columns from 0 to 2, each once",
    ),
    (lambda: outer_product(lambda rows: rows[:, 0], ROWS, switched=[(0.5,)]), "expected groups of columns"),
    (lambda: outer_product(lambda rows: rows[:, 0], ROWS, switched=[(1, 1)]), "expected groups of columns"),
    (
        lambda: outer_product(lambda rows: rows[:, 0], ROWS, switched=[(1,), (1, 2)]),
        "switched names a column in two groups",
    ),
    (lambda: outer_product(lambda rows: rows[:, 0], ROWS, rank=4), "rank=4 must be a whole number from 1 to"),
    (
        lambda: AGOP(gm.KernelRidge(kernel="precomputed").fit(np.eye(5), np.arange(5.0)), np.eye(5)),
        "kernel='precomputed' has no features along which values could change",
    ),
    (lambda: AGOP(gm.Nystrom(rank=2).fit(ROWS), ROWS), "Nystrom maps rows to features and predicts nothing"),
    (lambda: AGOP("model", ROWS), "model has type str, which has neither predict of numbers nor"),
    (lambda: AGOP(np.sum, ROWS, n_rows=0), "n_rows=0 must be a whole number of at least 1"),
    (lambda: AGOP(np.sum, ROWS, sample_weight=np.ones(4)), r"sample_weight has shape \(4,\)"),
    (
        lambda: outer_product(ridge(gm.Gaussian(), "nystrom")[0].predictor_, ROWS),
        "kernel=None was given with a Predictor, which holds no kernel. Pass the one that it was",
    ),
]


@pytest.mark.parametrize(("call", "text"), ERRORS, ids=[text for _, text in ERRORS])
def test_errors_say_what_to_do(call: Callable[[], object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()


def test_a_model_that_is_not_fitted_says_so() -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        average_gradient_outer_product(gm.KernelRidge(), ROWS)


@pytest.mark.parametrize(
    "model",
    [
        gm.KernelRidge(1e-3, gamma=1.0, standardize=True),
        gm.GaussianProcessRegressor(standardize=True, optimizer=None),
        gm.DCPredRegressor(1e-3, gamma=1.0, n_leaves=1, standardize=True, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_gradients_are_by_the_features_as_they_were_passed(model):
    X, y = data()
    X = X * [1.0, 50.0, 0.1, 1.0]
    model = clone(model).fit(X, y[:, 0])
    found = average_gradient_outer_product(model, X, form="diagonal")
    steps = 1e-4 * X.std(axis=0)
    expected = np.square(slopes(lambda rows: model.predict(rows * steps), X / steps, 1.0)).mean(axis=(0, 2))
    np.testing.assert_allclose(found, expected / steps**2, rtol=0.05)
