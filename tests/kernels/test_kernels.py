"""Every kernel against a dense float64 oracle, and laws for all of them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

import gramian as gm
from gramian.exceptions import InputError
from gramian.kernels import (
    Cauchy,
    Constant,
    Cosine,
    Kernel,
    OnFeatures,
    Periodic,
    PoweredExponential,
    Product,
    Scaled,
    Sum,
)
from gramian.kernels.columns import is_thin

D = 5
PER_FEATURE = (0.5, 1.0, 2.0, 4.0, 3.0)
#: (p, q) of the powered exponential: by products, by city blocks, by powers.
POWERS = ((2.0, 2.0), (2.0, 1.0), (2.0, 0.4), (1.0, 1.0), (1.0, 0.6), (1.5, 1.5), (0.8, 0.5))
Oracle = Callable[[np.ndarray, np.ndarray], np.ndarray]


def differences(x: np.ndarray, z: np.ndarray, ell: object) -> np.ndarray:
    return (x.astype(float)[:, None, :] - z.astype(float)[None, :, :]) / np.asarray(ell)


def r2(x: np.ndarray, z: np.ndarray, ell: object) -> np.ndarray:
    return (differences(x, z, ell) ** 2).sum(axis=2)


def r1(x: np.ndarray, z: np.ndarray, ell: object) -> np.ndarray:
    return np.abs(differences(x, z, ell)).sum(axis=2)


def rp(x: np.ndarray, z: np.ndarray, ell: object, p: float) -> np.ndarray:
    return (np.abs(differences(x, z, ell)) ** p).sum(axis=2) ** (1 / p)


def dot(x: np.ndarray, z: np.ndarray, ell: object) -> np.ndarray:
    return (x.astype(float) / np.asarray(ell)) @ (z.astype(float) / np.asarray(ell)).T


def matern(nu: float, r: np.ndarray) -> np.ndarray:
    a = np.sqrt(2 * nu) * r
    return {0.5: np.ones_like(a), 1.5: 1 + a, 2.5: 1 + a + a**2 / 3}[nu] * np.exp(-a)


def cosine(x: np.ndarray, z: np.ndarray, ell: object) -> np.ndarray:
    sizes = np.sqrt(np.outer(np.diag(dot(x, x, ell)), np.diag(dot(z, z, ell))))
    return np.where(sizes > 0, dot(x, z, ell) / np.where(sizes > 0, sizes, 1), 0.0)


def sine_squared(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    sines = np.sin(np.pi * differences(x, z, 1.0) / 3.0)
    return np.exp(-2.0 * (sines**2).sum(axis=-1) / 1.5**2)


def _markets() -> list[tuple[Kernel, Oracle]]:
    table: list[tuple[Kernel, Oracle]] = []
    for ell in (1.7, PER_FEATURE):
        table += [
            (gm.Gaussian(ell), lambda x, z, e=ell: np.exp(-r2(x, z, e) / 2)),
            (gm.Exponential(ell), lambda x, z, e=ell: np.exp(-np.sqrt(r2(x, z, e)))),
            (gm.Matern(ell, nu=0.5), lambda x, z, e=ell: matern(0.5, np.sqrt(r2(x, z, e)))),
            (gm.Matern(ell, nu=1.5), lambda x, z, e=ell: matern(1.5, np.sqrt(r2(x, z, e)))),
            (gm.Matern(ell, nu=2.5), lambda x, z, e=ell: matern(2.5, np.sqrt(r2(x, z, e)))),
            (gm.RationalQuadratic(ell, shape=0.3), lambda x, z, e=ell: (1 + r2(x, z, e) / 0.6) ** -0.3),
            (Cauchy(ell), lambda x, z, e=ell: 1 / (1 + r2(x, z, e))),
            (gm.Laplacian(ell), lambda x, z, e=ell: np.exp(-r1(x, z, e))),
            (gm.Linear(ell), lambda x, z, e=ell: dot(x, z, e)),
            *(
                (
                    PoweredExponential(ell, p=p, q=q),
                    lambda x, z, e=ell, p=p, q=q: np.exp(-(rp(x, z, e, p) ** q)),
                )
                for p, q in POWERS
            ),
            (gm.Polynomial(ell, degree=3, offset=0.5), lambda x, z, e=ell: (dot(x, z, e) + 0.5) ** 3),
            (gm.Polynomial(ell, degree=9, offset=2), lambda x, z, e=ell: (dot(x, z, e) + 2) ** 9),
            (Cosine(ell), lambda x, z, e=ell: cosine(x, z, e)),
        ]
    table += [
        (
            OnFeatures(gm.Gaussian(2.0), (0, 3)) * OnFeatures(gm.Laplacian((1, 2, 4)), (4, 1, 2)),
            lambda x, z: (
                np.exp(-r2(x[:, [0, 3]], z[:, [0, 3]], 2.0) / 2)
                * np.exp(-r1(x[:, [4, 1, 2]], z[:, [4, 1, 2]], (1, 2, 4)))
            ),
        ),
        (Periodic(gm.Gaussian(1.5), 3.0), sine_squared),
        (gm.Laplacian(2.0) + 0.7 * Constant(), lambda x, z: np.exp(-r1(x, z, 2.0)) + 0.7),
        (
            2.5 * gm.Gaussian(2.0) + gm.Linear(3.0),
            lambda x, z: 2.5 * np.exp(-r2(x, z, 2.0) / 2) + dot(x, z, 3.0),
        ),
        (
            gm.Laplacian(4.0) * gm.Polynomial(3.0, degree=2),
            lambda x, z: np.exp(-r1(x, z, 4.0)) * (dot(x, z, 3.0) + 1) ** 2,
        ),
    ]
    return table


MARKET = _markets()
market = pytest.mark.parametrize(("kernel", "oracle"), MARKET, ids=[repr(k) for k, _ in MARKET])
stationary = pytest.mark.parametrize(
    "kernel", [k for k, _ in MARKET if hasattr(k, "distance_factor")], ids=repr
)


def frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


@pytest.fixture
def X() -> np.ndarray:
    return frozen(np.random.default_rng(1).standard_normal((37, D)))


@pytest.fixture
def Z() -> np.ndarray:
    return frozen(np.random.default_rng(2).standard_normal((11, D)) + 0.3)


def scale_of(kernel: Kernel, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.sqrt(np.outer(kernel.diagonal(X.astype(float)), kernel.diagonal(Z.astype(float)))) + 1e-300


@market
def test_block_equals_the_oracle(kernel: Kernel, oracle: Oracle, X: np.ndarray, Z: np.ndarray) -> None:
    before = X.copy(), Z.copy()
    np.testing.assert_allclose(
        kernel(X, Z) / scale_of(kernel, X, Z), oracle(X, Z) / scale_of(kernel, X, Z), atol=1e-8
    )
    assert kernel(X, Z).dtype == np.float64
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(Z, before[1])


@market
def test_float32_keeps_to_the_tolerance(kernel: Kernel, oracle: Oracle, X: np.ndarray, Z: np.ndarray) -> None:
    x, z = frozen(X.astype(np.float32)), frozen(Z.astype(np.float32))
    block = kernel(x, z)
    assert block.dtype == np.float32
    assert np.abs((block - oracle(x, z)) / scale_of(kernel, x, z)).max() < 2e-5
    assert kernel(X, Z, dtype="float32").dtype == np.float32
    assert kernel.diagonal(x).dtype == np.float64
    # The diagonal of a float64 block has float64's digits, whatever the dtype of the rows.
    double = kernel(x, x, dtype=np.float64)
    np.testing.assert_allclose(np.diag(double), np.diag(oracle(x.astype(float), x.astype(float))), rtol=1e-12)
    assert kernel(x, Z).dtype == np.float64


@market
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int8", "bool", "float16", "longdouble"])
def test_other_number_types(kernel: Kernel, oracle: Oracle, dtype: str) -> None:
    rng = np.random.default_rng(3)
    x, z = (frozen(rng.integers(0, 6, (n, D)).astype(dtype)) for n in (9, 4))
    size = scale_of(kernel, x, z)
    np.testing.assert_allclose(kernel(x, z) / size, oracle(x, z) / size, atol=1e-8)
    np.testing.assert_allclose(kernel.diagonal(x), np.diag(oracle(x, x)), rtol=1e-12)
    small = kernel(x, z.astype(np.float32))
    assert np.abs((small - oracle(x, z)) / size).max() < 2e-5


#: Density, which side is sparse, and type. The quick suite meets each value, the slow one every combination.
SPARSE = list(product((0.01, 0.3), ("X", "Z", "both"), ("float64", "float32", "int64")))
QUICK = {(0.3, "both", "float64"), (0.01, "X", "float32"), (0.3, "Z", "int64")}


@market
@pytest.mark.parametrize(
    ("density", "which", "dtype"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in SPARSE],
)
def test_sparse_rows(kernel: Kernel, oracle: Oracle, density: float, which: str, dtype: str) -> None:
    rng = np.random.default_rng(4)
    x, z = ((rng.random((n, D)) < density) * rng.integers(1, 4, (n, D)).astype(dtype) for n in (40, 30))
    x[3], z[5] = x[4], x[4]
    x[6, 2] = z[7, 1] = 2
    assert is_thin(sp.csr_array(x)) == is_thin(sp.csr_array(z)) == (density < 0.1)
    sx = sp.csr_matrix(x) if which != "Z" else x
    sz = sp.csr_array(z) if which != "X" else z
    size = np.maximum(scale_of(kernel, x, z), 1e-6)
    tolerance = 2e-5 if dtype == "float32" else 1e-7
    assert np.abs((kernel(sx, sz) - oracle(x, z)) / size).max() < tolerance
    np.testing.assert_allclose(kernel.diagonal(sx), np.diag(oracle(x, x)), rtol=1e-6)
    V = rng.standard_normal((len(z), 2))
    np.testing.assert_allclose(kernel.matvec(sx, sz, V), oracle(x, z) @ V, atol=1e-4, rtol=1e-4)


@market
def test_symmetric_with_its_diagonal_and_positive(kernel: Kernel, oracle: Oracle, X: np.ndarray) -> None:
    gram = kernel(X)
    size = scale_of(kernel, X, X)
    np.testing.assert_allclose(gram / size, gram.T / size, atol=1e-8)
    np.testing.assert_array_equal(np.diag(gram), kernel.diagonal(X))
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(oracle(X, X)), rtol=1e-12)
    np.testing.assert_array_equal(kernel(X, X), gram)
    assert np.linalg.eigvalsh((gram + gram.T) / 2).min() > -1e-7 * np.trace(gram)


@market
def test_matvec_is_the_block_times_the_vector(
    kernel: Kernel, oracle: Oracle, X: np.ndarray, Z: np.ndarray
) -> None:
    rng = np.random.default_rng(5)
    for V in (rng.standard_normal(len(Z)), rng.standard_normal((len(Z), 3)), np.ones((len(Z), 0), int)):
        np.testing.assert_allclose(kernel.matvec(X, Z, V), kernel(X, Z) @ V, rtol=1e-10, atol=1e-9)
    v = rng.standard_normal(len(X))
    size = float(kernel.diagonal(X).max())
    np.testing.assert_allclose(kernel.matvec(X, None, v) / size, kernel(X) @ v / size, atol=1e-6)
    single = kernel.matvec(X.astype(np.float32), Z.astype(np.float32), np.ones(len(Z), np.float32))
    assert single.dtype == np.float32


@market
def test_any_number_of_threads_gives_the_same(kernel: Kernel, oracle: Oracle) -> None:
    rng = np.random.default_rng(6)
    X, Z = rng.standard_normal((2100, D)), rng.standard_normal((7, D))
    np.testing.assert_array_equal(kernel(X, Z, n_jobs=1), kernel(X, Z, n_jobs=2))
    V = rng.standard_normal((7, 2))
    np.testing.assert_array_equal(kernel.matvec(X, Z, V, n_jobs=1), kernel.matvec(X, Z, V, n_jobs=2))


@market
def test_evaluator_writes_into_any_slice(
    kernel: Kernel, oracle: Oracle, X: np.ndarray, Z: np.ndarray
) -> None:
    wide = np.full((len(X), len(Z) + 4), np.pi)
    kernel.against(Z).write(X, wide[:, 2:-2])
    np.testing.assert_allclose(wide[:, 2:-2], kernel(X, Z), rtol=1e-10)
    assert (wide[:, :2] == np.pi).all()
    assert (wide[:, -2:] == np.pi).all()


@market
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_empty_sides(kernel: Kernel, oracle: Oracle, convert: Callable, Z: np.ndarray) -> None:
    none, some = convert(np.empty((0, D))), convert(Z)
    assert kernel(none, some).shape == (0, len(Z))
    assert kernel(some, none).shape == (len(Z), 0)
    assert kernel(none).shape == (0, 0)
    assert kernel.diagonal(none).shape == (0,)
    assert kernel.matvec(none, some, np.ones(len(Z))).shape == (0,)
    np.testing.assert_array_equal(kernel.matvec(some, none, np.ones(0)), np.zeros(len(Z)))


@market
def test_a_value_with_hash_and_pickle(kernel: Kernel, oracle: Oracle) -> None:
    twin = pickle.loads(pickle.dumps(kernel))
    assert twin == kernel
    assert hash(twin) == hash(kernel)
    assert eval(repr(kernel), vars(gm.kernels).copy()) == kernel
    assert sum(kernel == other for other, _ in MARKET) == 1
    with pytest.raises(AttributeError, match="cannot assign"):
        kernel.lengthscale = 2.0  # type: ignore[attr-defined]


@stationary
def test_exact_ones_on_the_diagonal(kernel: Kernel, X: np.ndarray) -> None:
    for x in (X, X.astype(np.float32) + np.float32(1e4)):
        assert (np.diag(kernel(x)) == 1.0).all()


def test_memory_map(tmp_path, X: np.ndarray, Z: np.ndarray) -> None:
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    for kernel, _ in MARKET:
        block = kernel(mapped, Z)
        assert type(block) is np.ndarray
        np.testing.assert_array_equal(block, kernel(X, Z))
        assert type(kernel.diagonal(mapped)) is np.ndarray


def test_lists_are_rows() -> None:
    kernel = gm.Gaussian(2.0)
    rows = [[0.0, 1.0], [2.0, 3.0]]
    np.testing.assert_array_equal(kernel(rows), kernel(np.array(rows)))
    np.testing.assert_array_equal(kernel.diagonal(rows), [1.0, 1.0])


def test_rows_of_zeros_have_a_cosine_of_zero(Z: np.ndarray) -> None:
    rows = np.vstack([np.zeros(D), np.full(D, 1e-30), np.full(D, 1e30)])
    for dtype in (np.float32, np.float64):
        block = Cosine()(rows.astype(dtype), Z.astype(dtype))
        np.testing.assert_allclose(block, cosine(rows, Z, 1.0), atol=1e-6)
        np.testing.assert_array_equal(Cosine().diagonal(rows.astype(dtype)), [0, 1, 1])


def test_algebra() -> None:
    a, b = gm.Gaussian(2.0), gm.Linear(3.0)
    assert a + b == Sum(a, b)
    assert a * b == Product(a, b)
    assert 2 * a == a * 2.0 == np.float64(2) * a == np.float32(2) * a == Scaled(2.0, a)
    assert a + b != b + a
    assert gm.Gaussian([1, 2]) == gm.Gaussian(np.array([1.0, 2.0])) == gm.Gaussian((1.0, 2.0))
    assert gm.Gaussian(1) != gm.Laplacian(1)
    for wrong in (lambda: a + 1.0, lambda: a * [2], lambda: np.ones(3) * a, lambda: 2 + a):
        with pytest.raises(TypeError, match=r"unsupported operand|can't multiply"):
            wrong()


ROWS = np.ones((4, 2))
ERRORS: list[tuple[Callable[[], object], str]] = [
    (lambda: gm.Gaussian(0), "lengthscale=0 must be a positive, finite number"),
    (lambda: gm.Gaussian(np.nan), "lengthscale=nan must be a positive"),
    (lambda: gm.Gaussian(np.inf), "lengthscale=inf must be a positive"),
    (lambda: gm.Gaussian(True), "lengthscale=True must be a positive"),
    (lambda: gm.Gaussian(np.bool_(True)), "must be a positive, finite number"),
    (lambda: gm.Gaussian("1"), "lengthscale='1' must be a positive, finite number"),
    (lambda: gm.Gaussian(None), "lengthscale=None must be a positive, finite number"),
    (lambda: gm.Gaussian([]), "lengthscale is empty; give a positive number, or one per feature"),
    (lambda: gm.Gaussian([1.0, -2.0]), r"lengthscale\[1\]=-2.0 must be a positive"),
    (
        lambda: gm.Gaussian(np.ones((2, 2))),
        r"lengthscale\[0\]=\[1.0, 1.0\] must be a positive, finite number",
    ),
    (
        lambda: gm.Gaussian([1.0, 2.0, 3.0])(ROWS),
        "lengthscale has 3 values, but the rows have 2 features. Give",
    ),
    (lambda: gm.Matern(nu=2), "nu=2 is not a smoothness offered here. Give 0.5, 1.5 or 2.5"),
    (lambda: gm.Matern(nu="a"), "nu='a' must be a positive, finite number"),
    (lambda: gm.RationalQuadratic(shape=-1), "shape=-1 must be a positive"),
    (lambda: gm.Polynomial(degree=0), "degree=0 must be a positive"),
    (lambda: gm.Polynomial(degree=2.5), "degree=2.5 is not whole; give an integer of at least 1"),
    (lambda: gm.Polynomial(degree=np.nan), "degree=nan must be a positive"),
    (lambda: gm.Polynomial(offset=-1), "offset=-1 is not a number of at least 0. Give offset >= 0"),
    (lambda: gm.Polynomial(offset="a"), "offset='a' is not a number"),
    (lambda: gm.Polynomial(offset=np.nan), "offset=nan is not a number"),
    (lambda: -1.0 * gm.Gaussian(), "factor=-1.0 must be a positive"),
    (lambda: True * gm.Gaussian(), "factor=True must be a positive, finite number"),
    (
        lambda: gm.Gaussian()(np.ones(3)),
        r"X has shape \(3,\) and dtype float64; expected a two-dimensional .*reshape",
    ),
    (
        lambda: gm.Gaussian()(ROWS, np.ones(2)),
        r"Z has shape \(2,\) .* Use Z.reshape\(-1, 1\) for one feature",
    ),
    (lambda: gm.Gaussian()(ROWS * 1j), "dtype complex128; expected a two-dimensional array of real numbers"),
    (lambda: gm.Gaussian()(sp.csr_array(ROWS * 1j)), "dtype complex128; expected"),
    (lambda: gm.Gaussian()([["a", "b"]]), "expected a two-dimensional array of real numbers"),
    (lambda: gm.Gaussian().diagonal(np.ones(3)), r"X has shape \(3,\)"),
    (
        lambda: gm.Gaussian()(ROWS, np.ones((4, 3))),
        "X has 2 features, but Z has 3. Pass rows with the same features",
    ),
    (
        lambda: gm.Gaussian().matvec(ROWS, ROWS, np.ones(3)),
        r"V has shape \(3,\), but k\(X, Z\) has 4 columns. Pass V",
    ),
    (lambda: gm.Gaussian().matvec(ROWS, ROWS, np.ones((4, 1, 1))), r"V has shape \(4, 1, 1\)"),
    (lambda: gm.Gaussian().matvec(ROWS, ROWS, list("abcd")), "V has dtype <U1; expected numbers. Convert it"),
    (
        lambda: gm.Gaussian()(ROWS, dtype="float16"),
        "dtype='float16' is not a tile type. Give 'float32' or 'float64'",
    ),
]


@pytest.mark.parametrize(("call", "text"), ERRORS, ids=[text for _, text in ERRORS])
def test_errors_say_what_to_do(call: Callable[[], object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()


def test_a_misspelt_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="lenghtscale"):
        gm.Gaussian(lenghtscale=1.0)  # type: ignore[call-arg]
