"""The coupled core and its system against dense matrices."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.linalg as la
from hypothesis import given, settings
from hypothesis import strategies as st

from gramian.engine import Engine
from gramian.exceptions import AccuracyWarning, InputError, NumericalWarning
from gramian.solvers.core import CoupledCore
from gramian.solvers.coupled import CoupledSystem, ridge_coefficients
from gramian.solvers.solution import Status

RANKS = (4, 0, 3, 5)
R = sum(RANKS)


pytestmark = pytest.mark.usefixtures("one_blas_thread")


def psd_matrix(seed: int = 0, size: int = R) -> np.ndarray:
    a = np.random.default_rng(seed).standard_normal((size, size))
    return a @ a.T / size


def symmetric(seed: int = 0) -> np.ndarray:
    a = np.random.default_rng(seed).standard_normal((R, R))
    return a + a.T


def cut(dense: np.ndarray, keep=lambda s, t: True) -> dict[tuple[int, int], np.ndarray]:
    at = np.concatenate([[0], np.cumsum(RANKS)])
    pairs = [(s, t) for s in range(len(RANKS)) for t in range(s, len(RANKS)) if keep(s, t)]
    return {(s, t): dense[at[s] : at[s + 1], at[t] : at[t + 1]] for s, t in pairs}


def sparse_psd() -> CoupledCore:
    dense = np.diag(np.full(R, 8.0)) + 0.1 * symmetric()
    return CoupledCore(cut(dense, lambda s, t: s == t or (s, t) == (0, 3)), RANKS, psd=True)


CORES = {
    "dense psd": lambda: CoupledCore(psd_matrix(), RANKS, psd=True),
    "dense of unknown sign": lambda: CoupledCore(psd_matrix(), RANKS),
    "dense indefinite": lambda: CoupledCore(symmetric(), RANKS),
    "blocks psd": sparse_psd,
    "blocks indefinite": lambda: CoupledCore(cut(symmetric(), lambda s, t: (s, t) != (0, 2)), RANKS),
    "no blocks": lambda: CoupledCore({}, RANKS, psd=True),
    "float32": lambda: CoupledCore(psd_matrix().astype(np.float32), RANKS, psd=True),
}


@pytest.fixture(params=CORES)
def core(request) -> CoupledCore:
    return CORES[request.param]()


def factors(seed: int = 0, rows: tuple[int, ...] = RANKS) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((m, r)) for m, r in zip(rows, RANKS, strict=True)]


def dense_system(core: CoupledCore, ts: list[np.ndarray], *, clip: bool = False) -> np.ndarray:
    t = la.block_diag(*ts)
    s = t @ core.to_dense() @ t.T
    if clip:
        values, vectors = la.eigh(s)
        s = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return s


def clips(core: CoupledCore) -> bool:
    return la.eigvalsh(core.to_dense()).min() < -1e-8


def quiet(core: CoupledCore, call):
    if not clips(core):
        return call()
    with pytest.warns(NumericalWarning, match=r"S = T C Tᵀ is indefinite: .* were clipped to zero"):
        return call()


def test_core_laws(core):
    c = core.to_dense()
    v = np.random.default_rng(1).standard_normal((R, 3))
    np.testing.assert_array_equal(c, c.T)
    np.testing.assert_allclose(core.multiply(v), c @ v, atol=1e-13)
    np.testing.assert_allclose(core.multiply(v[:, 0]), c @ v[:, 0], atol=1e-13)
    assert core.shape == c.shape
    at = core.offsets
    for s in range(len(RANKS)):
        np.testing.assert_array_equal(core.row_strip(s), c[at[s] : at[s + 1]])
        for t in range(len(RANKS)):
            block = c[at[s] : at[s + 1], at[t] : at[t + 1]]
            np.testing.assert_array_equal(core.block(s, t), block)
            assert not core.is_zero(s, t) or not block.any()
    back = pickle.loads(pickle.dumps(core))
    np.testing.assert_array_equal(back.to_dense(), c)
    assert back.psd == core.psd


def test_core_bytes():
    assert CORES["dense psd"]().nbytes == 8 * R * R
    assert sparse_psd().nbytes == 8 * (16 + 9 + 25 + 20)
    mine = psd_matrix()
    assert np.shares_memory(CoupledCore(mine, RANKS).row_strip(0), mine)
    assert not np.shares_memory(CoupledCore(mine, RANKS).to_dense(), mine)


def test_rounding_asymmetry_is_averaged():
    dense = psd_matrix()
    dense[0, 5] += 1e-9
    core = CoupledCore(dense, RANKS)
    np.testing.assert_array_equal(core.to_dense(), (dense + dense.T) / 2)


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("rows", [RANKS, (2, 0, 3, 9)], ids=["square", "rectangular"])
def test_solve_and_logdet(core, alpha, rows):
    ts = factors(rows=rows)
    size = sum(rows)
    b = np.random.default_rng(2).standard_normal((size, 3))
    system = CoupledSystem(ts, core, engine=Engine(2))
    s = dense_system(core, ts, clip=True) + alpha * np.eye(size)
    found = quiet(core, lambda: system.solve(b, alpha))
    want = la.solve(s, b, assume_a="pos")
    scale = np.abs(want).max()
    np.testing.assert_allclose(found.value, want, rtol=0, atol=1e-9 * scale)
    np.testing.assert_allclose(system.solve(system.split(b), alpha).value, found.value, atol=1e-12 * scale)
    np.testing.assert_allclose(system.solve(b[:, 0], alpha).value, want[:, 0], atol=1e-9 * scale)
    assert found.status is Status.DIRECT
    assert found.residual < 1e-10
    assert (found.clipped > 1e-8) == clips(core)
    assert found.clipped == system.clipped
    want_logdet = np.linalg.slogdet(s)[1]
    np.testing.assert_allclose(system.logdet(alpha), want_logdet, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(system.logdet(alpha, 50), want_logdet + (50 - size) * np.log(alpha), rtol=1e-9)


def test_products_and_eigenvalues(core):
    ts = factors(3)
    system = CoupledSystem(ts, core)
    s = dense_system(core, ts)
    v = np.random.default_rng(3).standard_normal((R, 2))
    np.testing.assert_allclose(system.to_dense(), s, atol=1e-12)
    np.testing.assert_array_equal(system.to_dense(), system.to_dense().T)
    np.testing.assert_allclose(system.multiply(v), s @ v, atol=1e-11)
    np.testing.assert_allclose(system.eigenvalues(), la.eigvalsh(s), atol=1e-11)
    assert system.clipped == 0.0
    values, vectors = quiet(core, system.eigh)
    assert system.eigh()[0] is values  # cached, and warned about once
    plus = dense_system(core, ts, clip=True)
    np.testing.assert_allclose((vectors * values) @ vectors.T, plus, atol=1e-11)
    np.testing.assert_allclose(system.multiply_clipped(v), plus @ v, atol=1e-11)
    # With the eigendecomposition at hand, every alpha uses it.
    np.testing.assert_allclose(system.solve(v, 0.1).value, la.solve(plus + 0.1 * np.eye(R), v), atol=1e-9)
    np.testing.assert_allclose(system.logdet(0.1), np.linalg.slogdet(plus + 0.1 * np.eye(R))[1])


@pytest.mark.parametrize("name", ["dense psd", "blocks psd", "no blocks"])
def test_conjugate_gradients_beyond_the_limit(name):
    core = CORES[name]()
    ts = factors(4)
    b = np.random.default_rng(4).standard_normal((R, 2))
    found = CoupledSystem(ts, core, direct_limit=3).solve(b, 0.5, tol=1e-12)
    want = CoupledSystem(ts, core).solve(b, 0.5).value
    np.testing.assert_allclose(found.value, want, rtol=0, atol=1e-9)
    assert found.status is Status.CONVERGED
    assert found.iterations > 0
    assert found.residual <= 1e-12


def test_block_jacobi_solves_a_block_diagonal_system_at_once():
    core = CoupledCore(cut(psd_matrix(), lambda s, t: s == t), RANKS, psd=True)
    found = CoupledSystem(factors(5), core, direct_limit=3).solve(np.ones(R), 1e-3)
    assert found.iterations == 1


def test_an_indefinite_core_beyond_the_limit_warns():
    system = CoupledSystem(factors(6), CORES["dense indefinite"](), direct_limit=3)
    with pytest.warns(AccuracyWarning, match=r"raise alpha, or raise direct_limit so that negative"):
        found = system.solve(np.ones(R), 1e-3)
    assert found.status is Status.INDEFINITE


def test_the_iteration_limit_warns():
    system = CoupledSystem(factors(6), CORES["dense psd"](), direct_limit=3)
    with pytest.warns(AccuracyWarning, match=r"after 2 iterations: stopped at the iteration limit"):
        system.solve(np.ones(R), 1e-3, max_iterations=2)


def test_a_broken_promise_of_psd_is_reported():
    core = CoupledCore(np.array([[1.0, 1.0 + 1e-15], [1.0 + 1e-15, 1.0]]), (2,), psd=True)
    with pytest.warns(NumericalWarning, match=r"S \+ alpha·I was not positive definite"):
        found = CoupledSystem([np.eye(2)], core).solve(np.ones(2), 1e-17)
    assert found.jitter > 0
    with pytest.raises(la.LinAlgError, match=r"the system S \+ alpha·I is indefinite"):
        CoupledSystem([np.eye(2)], CoupledCore(np.diag([1.0, -1.0]), (2,), psd=True)).solve(np.ones(2), 0.1)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([1e-2, 1.0, 50.0]))
@settings(max_examples=20, deadline=None)
def test_ridge_coefficients(seed, psd, alpha):
    rng = np.random.default_rng(seed)
    blocks = [rng.standard_normal((int(rng.integers(1, 20)), r)) for r in RANKS]
    w = la.block_diag(*blocks)
    core = CoupledCore(psd_matrix(seed), RANKS, psd=psd)
    y = rng.standard_normal((len(w), 2))
    k = w @ core.to_dense() @ w.T
    fitted = k @ la.solve(k + alpha * np.eye(len(k)), y, assume_a="pos")
    beta, solution = ridge_coefficients([b.T @ b for b in blocks], core, w.T @ y, alpha)
    np.testing.assert_allclose(w @ beta, fitted, rtol=0, atol=1e-8)
    a, c = w.T @ w, core.to_dense()
    np.testing.assert_allclose(
        beta, c @ la.solve(a @ c + alpha * np.eye(R), w.T @ y), rtol=0, atol=1e-7 * np.abs(beta).max()
    )
    assert solution.residual < 1e-9
    one, _ = ridge_coefficients([b.T @ b for b in blocks], core, w.T @ y[:, 0], alpha)
    np.testing.assert_allclose(one, beta[:, 0], atol=1e-9 * np.abs(beta).max())


def test_ridge_coefficients_of_an_indefinite_core_clip():
    rng = np.random.default_rng(0)
    blocks = [rng.standard_normal((20, r)) for r in RANKS]
    w, core, alpha = la.block_diag(*blocks), CORES["dense indefinite"](), 0.1
    y = rng.standard_normal(len(w))
    values, vectors = la.eigh(w @ core.to_dense() @ w.T)
    k = (vectors * np.maximum(values, 0.0)) @ vectors.T
    beta, solution = quiet(core, lambda: ridge_coefficients([b.T @ b for b in blocks], core, w.T @ y, alpha))
    np.testing.assert_allclose(w @ beta, k @ la.solve(k + alpha * np.eye(len(k)), y), atol=1e-9)
    np.testing.assert_allclose(solution.clipped, -values[values < 0].sum())


def test_ridge_coefficients_beyond_the_limit():
    grams = [t.T @ t for t in factors(8)]
    core, b = CORES["dense psd"](), np.random.default_rng(8).standard_normal((R, 2))
    direct, _ = ridge_coefficients(grams, core, b, 1.0)
    iterated, solution = ridge_coefficients(grams, core, b, 1.0, direct_limit=3)
    assert solution.iterations > 0
    np.testing.assert_allclose(iterated, direct, rtol=0, atol=1e-6 * np.abs(direct).max())


def test_nothing_is_written_to():
    dense, ts, b = psd_matrix(), factors(9), np.ones((R, 2))
    for a in (dense, *ts, b):
        a.flags.writeable = False
    for psd in (True, False):
        core = CoupledCore(dense, RANKS, psd=psd)
        system = CoupledSystem(ts, core)
        system.solve(b, 1.0)
        system.eigh()
        ridge_coefficients([t.T @ t for t in ts], core, b, 1.0)
        CoupledSystem(ts, core, direct_limit=3).solve(b, 1.0)
    np.testing.assert_array_equal(b, 1.0)


BAD = {
    r"core has shape \(3, 3\), but the ranks sum to 2": lambda: CoupledCore(np.eye(3), (1, 1)),
    r"The core must be symmetric, but entries differ from their mirror by up to 1 ": lambda: CoupledCore(
        np.array([[1.0, 2.0], [1.0, 1.0]]), (1, 1)
    ),
    r"Block \(0, 0\) of the core must be symmetric": lambda: CoupledCore(
        {(0, 0): np.triu(np.ones((2, 2)))}, (2,)
    ),
    r"block at \(1, 0\), but a key \(s, t\) needs 0 <= s <= t < 2": lambda: CoupledCore(
        {(1, 0): np.ones((1, 1))}, (1, 1)
    ),
    r"Block \(0, 1\) of the core has shape \(2, 1\), but the ranks ask for \(1, 2\)": lambda: CoupledCore(
        {(0, 1): np.ones((2, 1))}, (1, 2)
    ),
    r"factors have \(2,\) columns, but the core has ranks \(1, 1\)": lambda: CoupledSystem(
        [np.eye(2)], CoupledCore(np.eye(2), (1, 1))
    ),
    r"right-hand side has shape \(3,\), but the system has 2 rows": lambda: CoupledSystem(
        [np.eye(2)], CoupledCore(np.eye(2), (2,))
    ).solve(np.ones(3), 1.0),
    r"alpha=0 must be a positive": lambda: CoupledSystem([np.eye(2)], CoupledCore(np.eye(2), (2,))).solve(
        np.ones(2), 0
    ),
    r"alpha=inf must be a positive": lambda: CoupledSystem([np.eye(2)], CoupledCore(np.eye(2), (2,))).logdet(
        float("inf")
    ),
    r"S of the coupled system needs a dense matrix of 2 × 2 \(32 B\), beyond direct_limit=1": lambda: (
        CoupledSystem([np.eye(2)], CoupledCore(np.eye(2), (2,)), direct_limit=1).to_dense()
    ),
    r"rhs has shape \(3, 1\), but the core has 2 rows": lambda: ridge_coefficients(
        [np.eye(2)], CoupledCore(np.eye(2), (2,)), np.ones((3, 1)), 1.0
    ),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_arguments(text):
    with pytest.raises(InputError, match=text):
        BAD[text]()
