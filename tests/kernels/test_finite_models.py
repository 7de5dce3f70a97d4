"""Fits without a finite answer are errors with the remedy; values too small to matter are exactly 0."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gramian as gm
from gramian._numerics import drop_tiny
from gramian.kernels.compiled import exp_in_place

X = np.random.default_rng(0).random((60, 3))
Y = np.sin(5 * X[:, 0])
CLASSES = X[:, 0] > 0.5
CUBIC = {"kernel": "poly", "degree": 3}
MODELS = {
    "ridge": (gm.KernelRidge(**CUBIC), Y),
    "exact": (gm.KernelRidge(approximation="exact", **CUBIC), Y),
    "cg": (gm.KernelRidge(approximation=gm.Exact(solver="cg", max_iter=20), **CUBIC), Y),
    "minres": (gm.KernelRidge(approximation=gm.Exact(solver="minres", max_iter=20), **CUBIC), Y),
    "askotch": (gm.KernelRidge(approximation=gm.Exact(solver="askotch", max_iter=8), **CUBIC), Y),
    "meka": (gm.KernelRidge(approximation=gm.MEKA(rank=10, n_blocks=3), **CUBIC), Y),
    "svr": (gm.KernelSVR(**CUBIC), Y),
    "svc": (gm.KernelSVC(**CUBIC), CLASSES),
    "hinge": (gm.KernelSVC(loss="hinge", **CUBIC), CLASSES),
    "logistic": (gm.KernelLogisticRegression(**CUBIC), CLASSES),
    "pca": (gm.KernelPCA(2, **CUBIC), None),
}


@pytest.mark.parametrize(("dtype", "size"), [("float64", 1e110), ("float32", 1e15)])
@pytest.mark.parametrize("name", MODELS)
def test_kernel_values_that_overflow_are_told(name, dtype, size):
    model, y = MODELS[name]
    model.set_params(tile_dtype=dtype).fit(X, y)
    before = dict(model.__dict__)
    with pytest.raises(gm.InputError, match=rf"k\(x, x\) of Polynomial.* beyond the range of {dtype}. Scale"):
        model.fit(size * X, y)
    assert model.__dict__ == before


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("name", ["ridge", "svr", "svc", "logistic"])
def test_a_late_row_that_overflows_is_told(name):
    """Only the first 1,024 rows are looked at before the fit; a later one may become a landmark."""
    rows = np.random.default_rng(1).standard_normal((1500, 3))
    y = rows[:, 0] > 0 if name in ("svc", "logistic") else rows[:, 0].copy()
    rows[1400, 0] = 1e120
    with pytest.raises((gm.NumericalError, gm.InputError), match=r"overflow|beyond the range"):
        MODELS[name][0].set_params(tile_dtype="auto").fit(rows, y)


def test_a_function_that_gives_no_numbers_is_no_model():
    def kernel(A, B):
        return np.where(np.arange(len(A))[:, None] == 3, np.nan, A @ B.T)

    for approximation in ("exact", gm.Exact(solver="minres", max_iter=5), gm.Nystrom(rank=10)):
        model = gm.KernelRidge(kernel=kernel, approximation=approximation)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises((gm.NumericalError, gm.InputError)):
                model.fit(X, Y)
        assert not hasattr(model, "predictor_")


def test_coefficients_that_are_not_finite_are_no_model(monkeypatch):
    from gramian.exact import predictor

    solved = predictor.solve_exact

    def broken(*given, **options):
        found, stages = solved(*given, **options)
        found.value[3] = np.nan
        return found, stages

    model = gm.KernelRidge(gamma=1.0, approximation="exact").fit(X, Y)
    before = dict(model.__dict__)
    monkeypatch.setattr(predictor, "solve_exact", broken)
    with pytest.raises(gm.NumericalError, match="KernelRidge ended with coefficients that are not finite"):
        model.fit(X, Y)
    assert model.__dict__ == before


def test_an_error_of_linear_algebra_says_whose_it_is(monkeypatch):
    from gramian.spectra import kernel_pca

    def broken(*given, **options):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setattr(kernel_pca, "exact_components", broken)
    with pytest.raises(
        gm.NumericalError, match=r"KernelPCA could not factor a matrix .*did not converge.* Scale"
    ):
        gm.KernelPCA(2).fit(X)


def test_a_failed_fit_leaves_a_fast_model_as_it_was():
    model = gm.FastKernelRegressor(random_state=0)
    with pytest.raises(gm.InputError):
        model.fit(X, Y, sample_weight=np.full(60, -1.0))
    assert not hasattr(model, "n_features_in_")


def test_auto_takes_float64_where_float32_overflows():
    rows = np.random.default_rng(1).random((3500, 2)) * 1e15
    model = gm.KernelRidge(alpha=1e80, approximation=gm.Nystrom(rank=20), **CUBIC).fit(rows, rows[:, 0])
    assert model.plan_.dtype == "float64"


# ---- kernel values too small to matter are exactly 0 ------------------------------------------------


@pytest.mark.parametrize(("dtype", "least"), [(np.float32, -69.0), (np.float64, -650.0)])
def test_an_exponential_is_zero_before_it_loses_digits(dtype: type, least: float) -> None:
    t = np.linspace(1.2 * least, 0.0, 2001).astype(dtype)
    found, floor = t.copy(), np.exp(dtype(least))
    exp_in_place(found)
    assert not found[t <= least].any()
    assert not ((found > 0) & (found < np.finfo(dtype).tiny)).any()
    assert (np.abs(found - np.exp(t)) <= floor + np.finfo(dtype).eps * np.exp(t)).all()
    large = np.exp(t) > 1e8 * floor if dtype is np.float32 else np.exp(t) > 1e17 * floor
    np.testing.assert_array_equal(found[large], np.exp(t[large]))
    strided = np.repeat(t, 3).reshape(-1, 3)[:, 1]
    exp_in_place(strided)
    np.testing.assert_array_equal(strided, found)
    only = t[t >= least]  # without a smaller value, all keep their digits
    expected = np.exp(only)
    exp_in_place(only)
    np.testing.assert_array_equal(only, expected)
    odd = np.array([np.nan, -np.inf, 0.0], dtype)
    exp_in_place(odd)
    np.testing.assert_array_equal(odd, np.array([np.nan, 0.0, 1.0], dtype))


@pytest.mark.parametrize(
    "kernel", [gm.Gaussian(), gm.Laplacian(), gm.Matern(nu=1.5), gm.Matern(nu=2.5), gm.Exponential()]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_hold_no_subnormal_numbers(kernel: gm.Kernel, dtype: type) -> None:
    far = 160.0 if dtype is np.float32 else 1600.0
    distances = np.linspace(0.0, far if kernel != gm.Gaussian() else np.sqrt(2.0 * far), 3000)[:, None]
    tile = kernel(distances.astype(dtype), np.zeros((1, 1), dtype))
    assert tile.dtype == dtype
    assert not ((tile > 0) & (tile < np.finfo(dtype).tiny)).any()
    assert (tile == 0).any()
    assert tile[0, 0] == 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiny_features_are_dropped_and_others_stay(dtype: type) -> None:
    rng = np.random.default_rng(0)
    about = np.finfo(dtype)
    values = rng.standard_normal(4000).astype(dtype)
    values *= (10.0 ** rng.uniform(np.log10(about.tiny), 0.0, 4000)).astype(dtype)
    found = values.copy()
    drop_tiny(found)
    least = np.abs(found[found != 0]).min()
    assert about.tiny <= least**2 < 1e6 * about.tiny
    assert (np.abs(found - values) <= least + about.eps * np.abs(values)).all()
    np.testing.assert_array_equal(found[np.abs(values) > 1e-2], values[np.abs(values) > 1e-2])


def test_features_of_a_wide_table_hold_no_numbers_that_slow_their_products() -> None:
    X = np.random.default_rng(0).standard_normal((600, 30)) * 2.0
    root = gm.MultiResolution(gamma=0.5, root_rank=60, n_blocks=4, rank=20, random_state=0).fit(X)
    Phi = np.abs(root.transform(X.astype(np.float32)).data)
    assert not ((Phi > 0) & (Phi < np.finfo(Phi.dtype).tiny)).any()
