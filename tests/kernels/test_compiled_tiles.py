"""Compiled loops beside NumPy and SciPy: equal up to rounding, the same bits however tiles are cut."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import gramian as gm
from gramian.kernels import Kernel, PoweredExponential, compiled
from gramian.kernels.cityblock import CityblockColumns
from gramian.operators import KernelOperator

needs_numba = pytest.mark.skipif(not compiled.available(), reason="numba is not installed")
types = pytest.mark.parametrize("dtype", [np.float32, np.float64])
#: Maps of a tile of squared distances (or, for the Laplacian's, of the exponent).
MAPS: dict[str, Callable[[np.ndarray], None]] = {
    "exp": compiled.exp_in_place,
    "matern12": gm.Matern(nu=0.5).map_tile,
    "matern32": gm.Matern(nu=1.5).map_tile,
    "matern52": gm.Matern(nu=2.5).map_tile,
    "powered": PoweredExponential(p=2.0, q=0.3).map_tile,
    "rooted": PoweredExponential(p=1.0, q=0.5).map_tile,
}
KERNELS = [
    gm.Gaussian(1.3),
    gm.Matern((0.5, 1.0, 2.0, 3.0, 1.0), nu=2.5),
    gm.Laplacian((0.5, 1.0, 2.0, 3.0, 1.0)),
    PoweredExponential(2.0, p=1.0, q=0.4),
    0.6 * gm.Exponential(2.0) + 0.4 * gm.Laplacian(4.0),  # of size 1 as the others, which the bounds are for
]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(compiled, "LEAST_ENTRIES", 0)
    with compiled.part_of_block(1, 1):
        yield


def rows(n: int, dtype: type, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.standard_normal((n, 4)), rng.integers(0, 2, n)]).astype(dtype)


@needs_numba
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(("dtype", "least", "error"), [(np.float32, -69, 1e-7), (np.float64, -650, 3e-16)])
def test_exponentials_are_accurate(dtype: type, least: float, error: float) -> None:
    top = float(np.log(np.finfo(dtype).max))
    t = np.linspace(least, top - 1e-4, 200_001).astype(dtype)
    truth = np.exp(t.astype(np.longdouble))
    compiled.exp_in_place(t)
    assert float(np.abs(t / truth - 1).max()) < error
    odd = [np.nan, np.inf, -np.inf, 0, -0.0, 1e-40, -1e-300, top + 1, 1e30, least - 1, -1e30]
    odd = np.array(odd, dtype)
    with np.errstate(over="ignore"):
        expected = np.where(odd < least, 0, np.exp(odd))
    compiled.exp_in_place(odd)
    np.testing.assert_array_equal(odd, expected)


@needs_numba
@types
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.usefixtures("always")
def test_maps_agree_with_numpy(name: str, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    info = np.finfo(dtype)
    odd = [0, info.smallest_subnormal, info.tiny, info.tiny / 3, 1, 69, 4761, info.max, np.inf, np.nan]
    t = np.concatenate([odd, np.geomspace(info.tiny, 1e6, 2000)]).astype(dtype)
    t = -t if name == "exp" else t
    by_numpy, by_loop = t.copy(), t.copy()
    MAPS[name](by_loop)
    with np.errstate(over="ignore"), monkeypatch.context() as patch:
        patch.setattr(compiled, "compiles", lambda: False)
        MAPS[name](by_numpy)
    np.testing.assert_allclose(by_loop, by_numpy, rtol=0, atol=4 * info.eps)
    # A number has the same bits wherever it stands, in a vector, a remainder or a tile with gaps.
    for k in range(1, 12):
        part = t[k : 3 * k].copy()
        MAPS[name](part)
        np.testing.assert_array_equal(part, by_loop[k : 3 * k])
    gaps = np.repeat(t[:2000], 2).reshape(50, 80)[:, ::2]
    MAPS[name](gaps)
    np.testing.assert_array_equal(gaps.ravel(), by_loop[:2000])


@needs_numba
@types
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels_agree_with_numpy(kernel: Kernel, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Z = rows(150, dtype), rows(90, dtype, 1)
    X[:9], X[9:12], X[12] = Z[:9], 1e4 * Z[:3], np.finfo(dtype).max / 8
    expected = kernel(X, Z)
    monkeypatch.setattr(compiled, "LEAST_ENTRIES", 0)
    found = kernel(X, Z)
    np.testing.assert_allclose(found, expected, rtol=0, atol=4e-7 if dtype is np.float32 else 2e-15)
    np.testing.assert_array_equal(kernel(X, Z, n_jobs=2), found)


@needs_numba
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("types", [("f4", "f4"), ("f8", "f4"), ("f4", "f8"), ("u1", "f4"), ("i8", "i8")])
def test_distances_of_all_types_of_rows(types: tuple[str, str]) -> None:
    X, Z = (50 * rows(60, np.float64, k) for k in range(2))
    X, Z = np.abs(X).astype(types[0]), np.abs(Z).astype(types[1])
    inverse = np.linspace(0.5, 2.0, 5)
    truth = cdist(X.astype(float), Z.astype(float), "cityblock", w=inverse)
    for tile in (np.float32, np.float64):
        columns = CityblockColumns(Z, tile, 1.0 / inverse, lambda t: None)
        found = columns(X)
        np.testing.assert_allclose(found, truth, rtol=1e-14 if tile is np.float64 else 1e-6)
        # Neither the rows nor the columns beside them change a distance.
        np.testing.assert_array_equal(np.vstack([columns(X[i : i + 7]) for i in range(0, 60, 7)]), found)
        part = CityblockColumns(Z[:13], tile, 1.0 / inverse, lambda t: None)
        np.testing.assert_array_equal(part(X), found[:, :13])


@needs_numba
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("lengthscale", [1e-40, 1e-20, 1e20, 1e40])
def test_lengthscales_beyond_float32(lengthscale: float) -> None:
    X = np.minimum(lengthscale * np.arange(3.0)[:, None], 1e38).astype(np.float32)
    truth = np.exp(-np.abs(X.astype(float) - X.T.astype(float)) / lengthscale)
    np.testing.assert_allclose(gm.Laplacian(lengthscale)(X, X.copy()), truth, atol=1e-6)


def test_loops_serve_large_problems_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "LEAST_ENTRIES", 1500)
    loaded: list[int] = []
    monkeypatch.setattr(compiled, "compiled_loops", lambda: loaded.append(1))
    X = rows(60, np.float64)
    kernel, v = gm.Laplacian(), np.ones(24)
    for n_jobs in (1, 2):
        kernel(X, X[:24], n_jobs=n_jobs)
        kernel.matvec(X, X[:24], v, n_jobs=n_jobs)
        KernelOperator(kernel, X[:38], n_jobs=n_jobs) @ np.ones(38)
        assert not loaded
        for many in (
            lambda: kernel(X, X[:25], n_jobs=n_jobs),  # noqa: B023
            lambda: kernel.matvec(X, X[:25], np.ones(25), n_jobs=n_jobs),  # noqa: B023
            lambda: KernelOperator(kernel, X[:39], n_jobs=n_jobs) @ np.ones(39),  # noqa: B023
        ):
            many()
            assert loaded
            loaded.clear()
    kernel(X[:2], X[:2])
    assert not loaded


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("reason", ["switched off", "not to be imported"])
def test_without_loops_numpy_answers(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows(60, np.float32)
    expected = gm.Laplacian().against(X)(X)
    if reason == "switched off":
        monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    else:  # as without numba, and as with one that does not fit NumPy
        monkeypatch.delattr("gramian._loops", raising=False)
        monkeypatch.setitem(sys.modules, "gramian._loops", None)
    for function in (compiled.available, compiled.compiled_loops):
        function.cache_clear()
    try:
        assert not compiled.compiles()
        np.testing.assert_allclose(gm.Laplacian().against(X)(X), expected, atol=1e-6)
    finally:
        for function in (compiled.available, compiled.compiled_loops):
            function.cache_clear()


@needs_numba
@pytest.mark.usefixtures("always")
def test_no_cache_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    from gramian import _loops as loops

    def njit(cache: bool = False, **options: object) -> Callable[[object], object]:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(loops.numba, "njit", njit)
    assert loops.compiled(rows) is rows
    # A disk that is full is seen when code is to be stored; by then it is compiled.
    failures = [OSError("No space left on device")]

    def loop(t: np.ndarray) -> None:
        if failures:
            raise failures.pop()
        t += 1

    monkeypatch.setattr(loops, "exponential", loop)
    t = np.zeros((2, 3))
    compiled.exp_in_place(t)
    np.testing.assert_array_equal(t, 1.0)


def test_small_problems_do_not_import_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "compiled_loops", lambda: pytest.fail("numba was imported"))
    X = rows(300, np.float64)
    for kernel in ("rbf", "laplacian", "matern32"):
        gm.KernelRidge(alpha=0.1, kernel=kernel, random_state=0).fit(X, X[:, 0]).predict(X)
