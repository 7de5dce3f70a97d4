"""Entries keep their digits far from the origin, for any lengthscale, with outliers and duplicates."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.base import clone

import gramian as gm
from gramian._numerics import distance_error, entry_tolerance
from gramian.kernels import Cauchy, Kernel, compiled

FLOAT32, FLOAT64 = 2e-5, 1e-7


@pytest.fixture(scope="module", autouse=True, params=[10**18, 0], ids=["numpy", "numba"])
def either_path(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let NumPy compute all tiles, or compiled loops (NumPy again, if numba is not installed)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "LEAST_ENTRIES", request.param)
        yield


#: Each family with its formula in r² (or, for the last, in the city-block distance).
FAMILIES: dict[str, tuple[Callable[[float], Kernel], Callable[[np.ndarray], np.ndarray]]] = {
    "gaussian": (gm.Gaussian, lambda t: np.exp(-t / 2)),
    "exponential": (gm.Exponential, lambda t: np.exp(-np.sqrt(t))),
    "matern12": (lambda e: gm.Matern(e, nu=0.5), lambda t: np.exp(-np.sqrt(t))),
    "matern32": (lambda e: gm.Matern(e, nu=1.5), lambda t: (1 + np.sqrt(3 * t)) * np.exp(-np.sqrt(3 * t))),
    "matern52": (
        lambda e: gm.Matern(e, nu=2.5),
        lambda t: (1 + np.sqrt(5 * t) + 5 * t / 3) * np.exp(-np.sqrt(5 * t)),
    ),
    "rq slow": (lambda e: gm.RationalQuadratic(e, shape=0.02), lambda t: (1 + t / 0.04) ** -0.02),
    "rq fast": (lambda e: gm.RationalQuadratic(e, shape=1e6), lambda t: np.exp(-1e6 * np.log1p(t / 2e6))),
    "cauchy": (Cauchy, lambda t: 1 / (1 + t)),
    "laplacian": (gm.Laplacian, lambda t: np.exp(-t)),
}
families = pytest.mark.parametrize("name", FAMILIES)


def oracle(name: str, X: np.ndarray, Z: np.ndarray, ell: float) -> np.ndarray:
    """Differences first, then the units: nothing is lost that the data hold."""
    metric = "cityblock" if name == "laplacian" else "euclidean"
    r = cdist(np.asarray(X, np.float64), np.asarray(Z, np.float64), metric) / ell
    return FAMILIES[name][1](r if name == "laplacian" else r * r)


def worst(name: str, X: np.ndarray, Z: np.ndarray, ell: float) -> float:
    block = FAMILIES[name][0](ell)(X, Z)
    assert np.isfinite(block).all()
    assert block.min() >= 0
    assert block.max() <= 1 + FLOAT32
    return float(np.abs(block - oracle(name, X, Z, ell)).max())


def near_pairs(rng: np.random.Generator, d: int, ell: float, spread: float, offset: float) -> tuple:
    """Points whose norms exceed their distances: where a product of norms loses its digits."""
    Z = offset + ell * spread * rng.standard_normal((24, d)) / np.sqrt(d)
    steps = rng.standard_normal((24, d)) / np.sqrt(d) * 10.0 ** rng.uniform(-6, 0.7, (24, 1))
    X = np.vstack([Z + ell * steps, Z[:3]])
    return X, Z


@given(
    name=st.sampled_from(sorted(FAMILIES)),
    d=st.sampled_from([2, 3, 10, 54, 200]),
    ell=st.sampled_from([1e-6, 1e-3, 0.1, 1.0, 30.0, 1e6]),
    spread=st.sampled_from([0.0, 1.0, 4.0, 8.0, 15.0, 100.0, 1e6]),
    offset=st.sampled_from([0.0, 1e3, 1e4, -1e4]),
    outlier=st.booleans(),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=250, deadline=None, derandomize=True)
def test_any_scale_offset_and_outlier(
    name: str, d: int, ell: float, spread: float, offset: float, outlier: bool, seed: int
) -> None:
    X, Z = near_pairs(np.random.default_rng(seed), d, ell, spread, offset)
    if outlier:
        Z[0] += 1e6
        X[1] -= 1e6
        X[2] = Z[0] + ell / d
    assert worst(name, X, Z, ell) < FLOAT64
    single = FAMILIES[name][0](ell)(X, Z, dtype=np.float32)
    assert np.abs(single - oracle(name, X, Z, ell)).max() < FLOAT32
    # float32 data are data of their own: the truth is the kernel of the rounded numbers.
    assert worst(name, X.astype(np.float32), Z.astype(np.float32), ell) < FLOAT32


@families
@pytest.mark.parametrize("d", [2, 54, 200, 784])
@pytest.mark.parametrize("kind", ["gauss", "repeated", "positive"])
def test_float32_at_the_edge_of_its_range(name: str, d: int, kind: str) -> None:
    rng = np.random.default_rng(d)
    for norm in np.linspace(2, 14, 7):
        b = {
            "gauss": rng.standard_normal((60, d)),
            "repeated": np.repeat(rng.standard_normal((60, 1)), d, axis=1),
            "positive": rng.random((60, d)),
        }[kind]
        Z = (norm * b / np.linalg.norm(b, axis=1, keepdims=True)).astype(np.float32)
        step = rng.standard_normal((60, d))
        step *= rng.uniform(0, 1, (60, 1)) / np.linalg.norm(step, axis=1, keepdims=True)
        assert worst(name, Z + step.astype(np.float32), Z, 1.0) < FLOAT32


@pytest.mark.parametrize("d", [2, 20, 200, 784])
def test_the_error_model_bounds_the_product(d: int) -> None:
    rng = np.random.default_rng(d)
    Z = 20 * rng.standard_normal((200, d)).astype(np.float32) / np.sqrt(d)
    X = Z + rng.standard_normal(Z.shape).astype(np.float32) / np.sqrt(d)
    square = (Z.astype(float) ** 2).sum(axis=1)
    product = (X**2).sum(axis=1) - 2 * np.diag(X @ Z.T) + (Z**2).sum(axis=1)
    exact = ((X.astype(float) - Z) ** 2).sum(axis=1)
    assert (np.abs(product - exact) <= 2 * distance_error(square, d, np.float32)).all()
    assert entry_tolerance("float32") == FLOAT32
    assert entry_tolerance(float) < FLOAT64


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "laplacian"])
def test_most_columns_stay_in_float32(name: str) -> None:
    """Far columns cost double; a single outlier must not make the others far."""
    Z = np.random.default_rng(0).standard_normal((100, 54)).astype(np.float32)
    Z[0] += 1e3
    columns = FAMILIES[name][0](10.0).against(Z)
    expected = 100 if name in ("exponential", "matern12") else 1
    assert columns._far.size == expected  # type: ignore[attr-defined]


@families
def test_identical_rows_far_from_the_origin(name: str) -> None:
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((30, 7)) * 10.0 ** rng.uniform(-3, 6, (30, 1))
    for rows in (Z, Z.astype(np.float32), sp.csr_array(Z)):
        twin = rows.copy()
        for ell in (1e-6, 1e-2, 1.0):
            same = np.diag(FAMILIES[name][0](ell)(rows, twin))
            np.testing.assert_allclose(same, 1.0, atol=FLOAT64 if rows.dtype == np.float64 else FLOAT32)


@families
@pytest.mark.parametrize("gamma", [1e-12, 1e12])
def test_extreme_gamma(name: str, gamma: float) -> None:
    rng = np.random.default_rng(2)
    Z = np.repeat(rng.standard_normal((20, 3)), 2, axis=0)
    X = np.vstack([Z, Z[:5] + 1e-6])
    for ell in (gamma**-0.5, 1 / gamma):
        for x, z in ((X, Z), (X.astype("f4"), Z.astype("f4"))):
            assert worst(name, x, z, ell) < (FLOAT64 if x.dtype == np.float64 else FLOAT32)


@families
@pytest.mark.parametrize("size", [1e3, 1e17, 1e30, 1e200])
def test_rows_that_overflow_have_a_value(name: str, size: float) -> None:
    Z = np.random.default_rng(3).standard_normal((6, 4))
    Z[0] = size
    X = np.vstack([Z, -Z[:1]])
    with np.errstate(over="ignore", invalid="ignore"):
        truth = np.nan_to_num(oracle(name, X, Z, 1.0))
    block = FAMILIES[name][0](1.0)(X, Z)
    np.testing.assert_allclose(block, truth, atol=FLOAT64)
    # In float32, r² itself ends at 3e38; only a kernel that decays as r^0.04 is not zero by then.
    if size < (1e18 if name == "rq slow" else 1e38):
        block = FAMILIES[name][0](1.0)(X.astype("f4"), Z.astype("f4"))
        truth = oracle(name, X.astype("f4"), Z.astype("f4"), 1.0)
        np.testing.assert_allclose(block, truth, atol=FLOAT32)


@families
def test_thin_sparse_rows_with_large_norms(name: str) -> None:
    rng = np.random.default_rng(4)
    Z = sp.random_array((40, 300), density=0.01, rng=rng, format="csr")
    Z.data = 1e3 * Z.data.round(2) + 1.0
    X = sp.vstack([Z, Z[:5] * (1 + 1e-8)], format="csr")
    for ell in (1e-4, 1.0, 1e3):
        block = FAMILIES[name][0](ell)(X, Z)
        assert np.abs(block - oracle(name, X.toarray(), Z.toarray(), ell)).max() < FLOAT64


def test_nan_stays_nan() -> None:
    X = np.ones((3, 2))
    X[1, 0] = np.nan
    block = gm.Gaussian()(X, np.ones((2, 2)))
    np.testing.assert_array_equal(np.isnan(block), [[False] * 2, [True] * 2, [False] * 2])


@pytest.mark.parametrize("approximation", ["auto", "meka", "nystrom", "kals"])
@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint64])
def test_whole_numbers_far_from_zero_keep_their_differences_in_float32_tiles(approximation, kind):
    """Such as dates or identifiers: rounded to float32, rows of 10⁸ and 10⁸ + 2 are one."""
    X = (100_000_000 + np.arange(0, 60, 2)[:, None]).astype(kind)
    y = np.sin(np.arange(30.0))
    model = gm.KernelRidge(
        0.1, gamma=0.125, approximation=approximation, tile_dtype="float32", random_state=0
    )
    floats = X.astype(float)
    whole = clone(model).fit(X, y).predict(X)
    np.testing.assert_allclose(whole, clone(model).fit(floats, y).predict(floats), atol=1e-5)
    K = np.exp(-0.125 * (floats - floats.T) ** 2)
    np.testing.assert_allclose(whole, K @ np.linalg.solve(K + 0.1 * np.eye(30), y), atol=1e-3)
