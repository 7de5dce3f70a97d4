"""Kernels for tables: powers of norms, groups of features, and distances along features of few values."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import gramian as gm
from gramian.exact.loo import per_feature
from gramian.exceptions import InputError
from gramian.kernels import OnFeatures, PoweredExponential, kernel_from_spec, kernel_to_spec
from gramian.kernels.cityblock import Bundles, distances_by_loop
from gramian.kernels.compiled import available
from gramian.kernels.precomputed import Precomputed

POWERS = [(2.0, 2.0), (2.0, 1.9), (2.0, 1.0), (2.0, 0.3), (1.0, 1.0), (1.0, 0.5), (1.4, 1.1), (0.7, 0.7)]
powers = pytest.mark.parametrize(("p", "q"), POWERS)
FLOAT32, FLOAT64 = 2e-5, 1e-7


def oracle(X: np.ndarray, Z: np.ndarray, ell: float, p: float, q: float) -> np.ndarray:
    """Differences first, then the units: nothing is lost that the data hold."""
    differences = np.abs(np.asarray(X, float)[:, None] - np.asarray(Z, float)[None]) / ell
    return np.exp(-((differences**p).sum(axis=2) ** (q / p)))


@powers
def test_positive_semi_definite_over_its_range(p: float, q: float) -> None:
    rng = np.random.default_rng(0)
    for X in (rng.standard_normal((80, 6)), np.vstack([np.eye(20), -np.eye(20)])):
        for ell in (0.5, 3.0):
            values = np.linalg.eigvalsh(PoweredExponential(ell, p=p, q=q)(X))
            assert values.min() > -1e-10 * values.max()


def test_outside_the_range_it_would_not_be() -> None:
    """The corners of a cube show it: what the constructor refuses has a negative eigenvalue."""
    X = np.array(list(np.ndindex(*(2,) * 6)), float)
    values = np.linalg.eigvalsh(oracle(X, X, 4.0, 1.0, 2.0))
    assert values.min() < -1e-3
    with pytest.raises(InputError, match="positive semi-definite only for 0 < q <= p <= 2"):
        PoweredExponential(p=1.0, q=2.0)


def test_the_named_families_are_cases() -> None:
    rng = np.random.default_rng(1)
    X, Z = rng.standard_normal((20, 3)), rng.standard_normal((9, 3))
    for kernel, same in (
        (PoweredExponential(2.0, p=2, q=2), gm.Gaussian(2**0.5)),
        (PoweredExponential(2.0), gm.Exponential(2.0)),
        (PoweredExponential((1.0, 2.0, 3.0), p=1, q=1), gm.Laplacian((1.0, 2.0, 3.0))),
    ):
        np.testing.assert_allclose(kernel(X, Z), same(X, Z), atol=1e-12)


@pytest.mark.slow
@given(
    power=st.sampled_from(POWERS),
    d=st.sampled_from([2, 5, 40]),
    ell=st.sampled_from([1e-3, 0.1, 1.0, 1e3]),
    spread=st.sampled_from([0.0, 1.0, 15.0, 1e4]),
    offset=st.sampled_from([0.0, 1e3]),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=120, deadline=None, derandomize=True)
def test_any_scale_and_offset(
    power: tuple[float, float], d: int, ell: float, spread: float, offset: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    Z = offset + ell * spread * rng.standard_normal((24, d)) / np.sqrt(d)
    steps = rng.standard_normal((24, d)) / np.sqrt(d) * 10.0 ** rng.uniform(-6, 0.7, (24, 1))
    X = np.vstack([Z + ell * steps, Z[:3]])
    p, q = power
    kernel = PoweredExponential(ell, p=p, q=q)
    truth = oracle(X, Z, ell, p, q)
    np.testing.assert_allclose(kernel(X, Z), truth, atol=FLOAT64)
    np.testing.assert_allclose(kernel(X, Z, dtype=np.float32), truth, atol=FLOAT32)
    x, z = X.astype(np.float32), Z.astype(np.float32)
    np.testing.assert_allclose(kernel(x, z), oracle(x, z, ell, p, q), atol=FLOAT32)


def table(n: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers, a constant, booleans, one-hot categories, counts: what an encoded table looks like."""
    return np.column_stack(
        [
            rng.standard_normal((n, 2)),
            np.full(n, 3.5),
            rng.integers(0, 2, n) * 0.7 - 0.1,
            np.eye(4)[rng.integers(0, 4, n)] * np.array([1.0, 2.0, 0.3, 0.5]),
            rng.integers(0, 5, n),
            rng.integers(0, 9, n),
        ]
    )


@pytest.mark.parametrize("ell", [1.5, tuple(np.linspace(0.5, 3.0, 10))])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_of_few_values_give_the_same_distances(ell: object, dtype: type) -> None:
    rng = np.random.default_rng(0)
    Z, X = table(200, rng).astype(dtype), table(90, rng).astype(dtype)
    X[::3] = rng.standard_normal((30, 10)).astype(dtype)  # values that no point has
    X[:5] = Z[:5]
    truth = np.exp(-cdist(X / np.asarray(ell), Z / np.asarray(ell), "cityblock"))
    kernel = gm.Laplacian(ell)  # type: ignore[arg-type]
    block = kernel(X, Z)
    np.testing.assert_allclose(block, truth, atol=1e-12 if dtype is np.float64 else 1e-6)
    assert block.max() <= 1.0
    columns = kernel.against(Z)
    np.testing.assert_array_equal(columns._few.features, np.arange(2, 9))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(kernel(sp.csr_array(X), sp.csr_array(Z)), block)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(columns))(X), columns(X))
    assert columns.nbytes >= 200 * 3 * 8


def test_only_features_of_few_values() -> None:
    rng = np.random.default_rng(0)
    Z, X = rng.integers(0, 3, (100, 4)), rng.integers(0, 4, (30, 4))
    truth = np.exp(-cdist(X, Z, "cityblock"))
    np.testing.assert_allclose(gm.Laplacian()(X, Z), truth, atol=1e-12)


@pytest.mark.parametrize("width", [1e6, 1e8, 1e100])
def test_wide_features_keep_their_digits(width: float) -> None:
    """A product of widths would round distances near 0; they are then taken by differences."""
    rng = np.random.default_rng(0)
    Z = np.column_stack([width * rng.integers(0, 2, 100), rng.standard_normal(100)])
    X = Z + np.array([0.0, 1e-3])
    np.testing.assert_allclose(gm.Laplacian()(X, Z), np.exp(-cdist(X, Z, "cityblock")), atol=1e-8)


def test_a_sharp_peak_is_exact_at_equal_rows() -> None:
    Z = table(100, np.random.default_rng(0))
    kernel = PoweredExponential(0.1, p=1.0, q=0.2)
    np.testing.assert_array_equal(np.diag(kernel(Z, Z.copy())), 1.0)


def test_groups_of_features() -> None:
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((20, 5)), rng.standard_normal((7, 5))
    group = OnFeatures(gm.Matern((1.0, 2.0)), [3, 0])
    assert group == OnFeatures(gm.Matern((1.0, 2.0)), np.array([3, 0]))
    assert group.features == (3, 0)
    np.testing.assert_array_equal(group(X, Z), gm.Matern((1.0, 2.0))(X[:, [3, 0]], Z[:, [3, 0]]))
    np.testing.assert_array_equal(group.diagonal(X), 1.0)
    linear = OnFeatures(gm.Linear(), range(2))
    np.testing.assert_allclose(linear.diagonal(X), (X[:, :2] ** 2).sum(axis=1))
    np.testing.assert_allclose((group + linear)(sp.csr_array(X), sp.csr_array(Z)), (group + linear)(X, Z))
    assert group(X.astype("f4"), Z.astype("f4")).dtype == np.float32
    widened = per_feature(2.0 * OnFeatures(gm.Gaussian(2.0), (0, 4)), 5)
    assert widened == 2.0 * OnFeatures(gm.Gaussian((2.0, 2.0)), (0, 4))


KERNELS = [
    PoweredExponential((1.0, 2.0, 3.0), p=1.0, q=0.5),
    2.0 * OnFeatures(PoweredExponential(2.0, p=2.0, q=1.5), (0, 2)) + OnFeatures(gm.Linear(), (1,)),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.filterwarnings(
    "ignore:learning ended at the bounds:gramian.AccuracyWarning"
)  # column 2 says nothing
def test_models_are_fitted_learned_and_saved(kernel: gm.Kernel, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((150, 3))
    y = np.sin(5 * X[:, 0]) + X[:, 1]
    assert kernel_from_spec(kernel_to_spec(kernel)) == kernel
    model = gm.KernelRidge(alpha=1e-3, kernel=kernel, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    gm.save(model, tmp_path / "model.gramian")
    loaded = gm.load(tmp_path / "model.gramian")
    assert loaded.kernel_ == kernel
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    as_given = gm.GaussianProcessRegressor(kernel=kernel, optimizer=None, random_state=0).fit(X, y)
    learned = gm.GaussianProcessRegressor(kernel=kernel, random_state=0).fit(X, y)
    assert learned.log_marginal_likelihood_value_ > as_given.log_marginal_likelihood_value_ + 1.0


ROWS = np.ones((4, 2))
ERRORS: list[tuple[Callable[[], object], str]] = [
    (lambda: PoweredExponential(p=2.5, q=1.0), r"p=2.5 and q=1.0 are out of range: .* for 0 < q <= p <= 2"),
    (lambda: PoweredExponential(p=0.5, q=1.0), "p=0.5 and q=1.0 are out of range"),
    (lambda: PoweredExponential(p=0), "p=0 must be a positive, finite number"),
    (lambda: PoweredExponential(q="a"), "q='a' must be a positive, finite number"),
    (lambda: PoweredExponential(-1.0), "lengthscale=-1.0 must be a positive"),
    (lambda: OnFeatures(gm.Gaussian(), ()), r"features=\(\) must name columns by whole numbers from 0"),
    (lambda: OnFeatures(gm.Gaussian(), (1, 1)), "each once, at least one"),
    (lambda: OnFeatures(gm.Gaussian(), (-1,)), r"features=\(-1,\) must name columns"),
    (lambda: OnFeatures(gm.Gaussian(), (True,)), "must name columns"),
    (lambda: OnFeatures(gm.Gaussian(), (0.5,)), "must name columns"),
    (lambda: OnFeatures(gm.Gaussian(), "ab"), "features='ab' must name columns"),
    (lambda: OnFeatures(gm.Gaussian(), 3), "features=3 must name columns"),
    (lambda: OnFeatures("rbf", (0,)), "kernel='rbf' is not a kernel of rows"),
    (lambda: OnFeatures(Precomputed(), (0,)), "is not a kernel of rows. Give one such as"),
    (
        lambda: OnFeatures(gm.Gaussian(), (0, 2))(ROWS),
        "names column 2, but the rows have 2 features, numbered from 0",
    ),
    (
        lambda: OnFeatures(gm.Gaussian((1.0, 2.0)), (0,))(ROWS),
        "lengthscale has 2 values, but the rows have 1",
    ),
]


@pytest.mark.parametrize(("call", "text"), ERRORS, ids=[text for _, text in ERRORS])
def test_errors_say_what_to_do(call: Callable[[], object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()


# ---- city-block distances along bundles of features of which a point has at most one that is not 0 ---

needs_numba = pytest.mark.skipif(not available(), reason="numba is not installed")


def one_hot(rng, n, heights):
    return np.eye(len(heights))[rng.integers(0, len(heights), n)] * heights


def bundled_table(rng, n):
    """Two numbers, three categories with a height for each level, a count and a switch."""
    return np.hstack(
        [
            rng.standard_normal((n, 2)),
            one_hot(rng, n, np.linspace(0.3, 1.0, 9)),
            one_hot(rng, n, -np.linspace(0.5, 2.0, 5)),
            rng.integers(0, 4, (n, 1)),
            one_hot(rng, n, np.full(4, 0.7)),
            rng.integers(0, 2, (n, 1)),
        ]
    )


def test_each_category_is_a_bundle_and_its_levels_keep_their_heights():
    Z = np.ascontiguousarray(bundled_table(np.random.default_rng(0), 300).T)
    found = Bundles.of(Z, np.full(len(Z), 2.0))
    assert found.alone.tolist() == [0, 1, 16, 21]
    assert found.bundled.tolist() == [*range(2, 16), *range(17, 21)]
    assert found.ends.tolist() == [9, 14, 18]
    np.testing.assert_allclose(found.heights[2:11], np.linspace(0.3, 1.0, 9))
    at = found.places[0].astype(int)
    np.testing.assert_allclose(found.sizes[0], 2.0 * Z[at, np.arange(300)])


def test_features_of_several_numbers_or_that_overlap_are_no_bundle():
    rng = np.random.default_rng(0)
    Z = np.zeros((8, 50))
    Z[:4] = rng.standard_normal((4, 50))
    Z[4:] = rng.random((4, 50)) < 0.8
    found = Bundles.of(Z, np.ones(8))
    assert found.alone.tolist() == list(range(8))
    assert not len(found.ends)


@needs_numba
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_are_those_of_scipy_also_for_rows_that_are_no_such_points(dtype):
    rng = np.random.default_rng(1)
    X, Z = (bundled_table(rng, n).astype(dtype) for n in (60, 200))
    X[0, 2:11] = 0  # a level that the points do not have
    X[1, 2:11] *= 3  # another height
    X[2, 2:11] = rng.standard_normal(9)  # more than one level
    X[3] = -X[3]
    X[4] = 0
    weights = rng.uniform(0.5, 2.0, X.shape[1])
    columns = np.ascontiguousarray(Z.T)
    bundles, out = Bundles.of(columns, weights.astype(dtype)), np.empty((60, 200), dtype)
    assert len(bundles.ends) == 3
    distances_by_loop(X, columns, weights, bundles, out)
    truth = cdist(X.astype(np.float64), Z.astype(np.float64), "cityblock", w=weights)
    np.testing.assert_allclose(out, truth, rtol=40 * np.finfo(dtype).eps)


@needs_numba
def test_a_row_has_the_distance_zero_from_itself_and_its_distances_are_symmetric():
    Z = bundled_table(np.random.default_rng(2), 100)
    columns, out = np.ascontiguousarray(Z.T), np.empty((100, 100))
    weights = np.linspace(0.1, 3.0, len(columns))
    distances_by_loop(Z, columns, weights, Bundles.of(columns, weights), out)
    assert not np.diagonal(out).any()
    np.testing.assert_array_equal(out, out.T)


@needs_numba
def test_values_that_are_not_finite_reach_only_their_own_row():
    rng = np.random.default_rng(3)
    X, Z = bundled_table(rng, 4), bundled_table(rng, 50)
    X[1, 3], X[2, 18] = np.nan, np.inf
    columns, out = np.ascontiguousarray(Z.T), np.empty((4, 50))
    weights = np.ones(len(columns))
    distances_by_loop(X, columns, weights, Bundles.of(columns, weights), out)
    np.testing.assert_allclose(out[[0, 3]], cdist(X[[0, 3]], Z, "cityblock"), rtol=1e-14)
    assert np.isnan(out[1]).all()
    assert np.isinf(out[2]).all()
