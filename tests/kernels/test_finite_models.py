"""Fits that end without a finite answer: an error with the remedy, and the estimator as it was."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gramian as gm

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
