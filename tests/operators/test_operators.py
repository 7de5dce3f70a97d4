"""Laws that every operator keeps, over a market of operators and their dense oracles."""

from __future__ import annotations

import pickle
import tracemalloc
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg as la
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_market import (
    MARKET,
    N,
    Stall,
    block_sparse_core,
    dense_psd_core,
    global_and_blocks,
    global_and_core,
    psd,
)

from gramian.exceptions import AccuracyWarning, InputError, NumericalWarning
from gramian.operators import BasisLevel, BlockOperator, CoupledCore
from gramian.operators import basis as basis_module

pytestmark = pytest.mark.usefixtures("one_blas_thread")


@pytest.fixture(params=["float64", "float32"])
def dtype(request):
    return request.param


@pytest.fixture(params=MARKET, ids=lambda f: f.__name__)
def stall(request, dtype) -> Stall:
    return request.param(np.random.default_rng(7), dtype)


ALPHAS = (1e-3, 1.0, 100.0)


def close(got, want, scale=None, rel=1e-9):
    scale = np.abs(want).max(initial=0.0) if scale is None else scale
    np.testing.assert_allclose(got, want, rtol=0, atol=rel * scale + np.finfo(float).tiny)


def quiet(stall: Stall, call: Callable[[BlockOperator], object], **options):
    """Run a call that clips: exactly the operators with an indefinite core may warn, and must."""
    operator = stall.operator(**options)
    values = la.eigvalsh(
        stall.oracle() if len(stall.levels) == 1 else Stall(stall.levels[-1:], stall.core).oracle()
    )
    if values.min() > -1e-6 * values.max(initial=1.0):
        return call(operator), operator
    with pytest.warns(NumericalWarning, match=r"S = T C Tᵀ is indefinite: negative eigenvalues with sum -"):
        result = call(operator)
    close(operator.clipped_, -values[values < 0].sum())
    return result, operator


def test_dense_form_products_and_symmetry(stall):
    k, op = stall.oracle(), stall.operator()
    n = len(k)
    rng = np.random.default_rng(0)
    v, w = rng.standard_normal((n, 3)), rng.standard_normal((n, 3))
    close(op.to_dense(), k)
    close(op @ v, k @ v)
    close(op @ v[:, 0], k @ v[:, 0])
    close(op.T @ v, k.T @ v)
    close(v.T @ op, v.T @ k)
    close(w.T @ (op @ v), (op.adjoint @ w).T @ v, scale=np.abs(k).max() * n)
    close(op @ (2.0 * v - 3.0 * w), 2.0 * (op @ v) - 3.0 * (op @ w), scale=np.abs(k).max() * n)
    assert op.shape == k.shape
    assert op.ndim == 2
    assert op.dtype == (op @ v).dtype == op.to_dense().dtype == np.float64
    assert (op @ v[:, :0]).shape == (n, 0)


def test_diagonal_trace_and_entries(stall):
    k, op = stall.oracle(), stall.operator()
    rng = np.random.default_rng(1)
    rows, cols = rng.integers(len(k), size=11), rng.integers(len(k), size=6)
    close(op.diagonal(), np.diag(k), scale=np.abs(k).max())
    close(op.trace(), np.trace(k), scale=np.abs(k).max() * len(k))
    close(op.entries(rows, cols), k[np.ix_(rows, cols)], scale=np.abs(k).max())
    assert op.entries([], cols).shape == (0, 6)
    for s in range(op.n_blocks):
        own = op.block_rows(s)
        close(op.block(s), k[np.ix_(own, own)], scale=np.abs(k).max())


@pytest.mark.parametrize("alpha", ALPHAS)
def test_solve(stall, alpha):
    k = stall.oracle(clip=True)
    y = np.random.default_rng(2).standard_normal((len(k), 2))
    found, op = quiet(stall, lambda op: op.solution(y, alpha))
    want = la.solve(k + alpha * np.eye(len(k)), y, assume_a="pos")
    close(found.value, want)
    close(op.solve(y[:, 0], alpha), want[:, 0])
    assert found.residual < 1e-9
    assert found.iterations == 0
    assert found.clipped == op.clipped_


@pytest.mark.parametrize("alpha", ALPHAS)
def test_logdet(stall, alpha):
    k = stall.oracle(clip=True)
    got, _ = quiet(stall, lambda op: op.logdet(alpha))
    want = np.linalg.slogdet(k + alpha * np.eye(len(k)))[1]
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_leverages(stall, alpha):
    k = stall.oracle(clip=True)
    got, _ = quiet(stall, lambda op: op.leverages(alpha))
    want = np.diag(la.solve(k + alpha * np.eye(len(k)), k, assume_a="pos"))
    np.testing.assert_allclose(got, want, atol=1e-8)
    assert got.min(initial=0.0) >= 0.0


def test_eigvalsh(stall):
    k, op = stall.oracle(), stall.operator()
    count = min(len(k), op.rank)
    values = la.eigvalsh(k)
    want = np.sort(values[np.argsort(-np.abs(values))[:count]])[::-1]
    got = op.eigvalsh()
    assert got.shape == (count,)
    close(got, want, scale=np.abs(values).max())
    assert op.clipped_ == 0.0  # as built: nothing is clipped for it


def test_alphas_in_turn_do_not_disturb_each_other(stall):
    y = np.random.default_rng(3).standard_normal(stall.levels[0].n_rows)
    first, op = quiet(stall, lambda op: op.solve(y, 1.0))
    op.solve(y, 100.0)
    op.logdet(1e-3)
    np.testing.assert_array_equal(op.solve(y, 1.0), first)


def test_threads_do_not_change_a_bit(stall, monkeypatch):
    monkeypatch.setattr(basis_module, "TILE_ROWS", 8)
    monkeypatch.setattr(basis_module, "_SMALL", 0)
    levels = [BasisLevel(b.n_rows, [b.rows(s) for s in range(b.n_blocks)], b.blocks) for b in stall.levels]
    tiled = Stall(levels, stall.core)
    y = np.random.default_rng(4).standard_normal((levels[0].n_rows, 2))

    def everything(op):
        return op @ y, op.solve(y, 0.5), op.logdet(0.5), op.diagonal(), op.eigvalsh()

    one, _ = quiet(tiled, everything, n_jobs=1)
    two, _ = quiet(tiled, everything, n_jobs=2)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    close(one[0], stall.oracle() @ y)


def test_pickling(stall):
    op = stall.operator()
    y = np.random.default_rng(5).standard_normal(op.shape[0])
    before, _ = quiet(stall, lambda op: op.solve(y, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        op.solve(y, 1.0)
        back = pickle.loads(pickle.dumps(op))
        assert back.clipped_ == 0.0  # factorisations stay behind
        np.testing.assert_array_equal(back.solve(y, 1.0), before)
    np.testing.assert_array_equal(back @ y, op @ y)


def test_as_scipy(stall):
    op = stall.operator()
    v = np.random.default_rng(6).standard_normal((op.shape[0], 3))
    other = op.as_scipy()
    assert other.shape == op.shape
    assert other.dtype == op.dtype
    close(other @ v, op @ v)
    assert other.matvec(v[:, :1]).shape == (op.shape[0], 1)
    close(other.matvec(v[:, :1])[:, 0], op @ v[:, 0])
    close(other.H @ v, op @ v)
    close(other.T @ v[:, 0], op @ v[:, 0])


def test_nbytes_and_rank(stall):
    op = stall.operator()
    blocks = sum(b.nbytes for level in stall.levels for b in level.blocks)
    core = stall.core.nbytes if stall.core else 0
    numbers = 8 * sum(level.row_offsets[-1] for level in stall.levels)
    assert blocks + core <= op.nbytes <= blocks + core + numbers
    assert op.rank == sum(level.rank for level in stall.levels)


def test_inputs_are_read_only_and_stay_as_they_were(stall):
    arrays = [b for level in stall.levels for b in level.blocks]
    arrays += [level._order for level in stall.levels if level._order is not None]
    y = np.random.default_rng(8).standard_normal((stall.levels[0].n_rows, 2))
    arrays.append(y)
    before = [a.copy() for a in arrays]
    for a in arrays:
        a.flags.writeable = False
    for call in (lambda op: op.solve(y, 1.0), lambda op: op.logdet(1.0)):
        quiet(stall, call)
    op = stall.operator()
    _ = op @ y, op.diagonal(), op.eigvalsh(), op.to_dense(), op.entries(np.arange(1), np.arange(1))
    for a, b in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_stored_blocks_are_not_copied():
    g = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    op = BlockOperator.from_parts(50, G=g)
    assert np.shares_memory(op.levels[0].blocks[0], g)
    assert op.nbytes == g.nbytes


def test_from_parts_equals_the_levels():
    stall = global_and_core(np.random.default_rng(0), "float64")
    g, w = stall.levels
    rows = [w.rows(s) for s in range(w.n_blocks)]
    op = BlockOperator.from_parts(N, g.blocks[0], rows, w.blocks, stall.core.to_dense())
    close(op.to_dense(), stall.oracle())
    assert repr(op).startswith("<BlockOperator 90 × 90: 1 + 3 blocks, core, rank 18,")
    dense = BlockOperator.from_parts(N, g.blocks[0], core=psd(np.random.default_rng(1), 6))
    assert dense.rank == 6


def test_conjugate_gradients_beyond_the_direct_limit():
    rng = np.random.default_rng(0)
    y = rng.standard_normal((N, 2))
    for make in (dense_psd_core, block_sparse_core, global_and_core):
        stall = make(rng, "float64")
        op = BlockOperator(stall.levels, stall.core, n_jobs=1, direct_limit=5)
        found = op.solution(y, 1.0)
        close(found.value, la.solve(stall.oracle() + np.eye(N), y), rel=1e-5)
        assert found.iterations > 0
        with pytest.raises(InputError, match=r"The log-determinant of the coupled system needs a dense"):
            op.logdet(1.0)
        with pytest.raises(InputError, match=r"The eigenvalues .*beyond direct_limit=5"):
            op.eigvalsh()


def test_eigvalsh_of_a_large_tree_is_refused():
    stall = global_and_blocks(np.random.default_rng(0), "float64")
    op = BlockOperator(stall.levels, direct_limit=10)
    with pytest.raises(
        InputError, match=r"The eigenvalues need a dense matrix of 20 × 20 \(3.2 kB\), beyond"
    ):
        op.eigvalsh()


@pytest.mark.filterwarnings("ignore::gramian.exceptions.NumericalWarning")
def test_a_hopeless_alpha_warns():
    rng = np.random.default_rng(0)
    op = BlockOperator.from_parts(N, G=1e4 * rng.standard_normal((N, 4)), n_jobs=1)
    with pytest.warns(AccuracyWarning, match=r"alpha=1e-10 ended with relative residual .* Raise alpha\."):
        op.solve(rng.standard_normal(N), 1e-10)


def test_memory_does_not_grow_by_a_copy_of_the_bases():
    n, rank = 100_000, 40
    g = np.zeros((n, rank), np.float32)
    g[np.arange(n), np.arange(n) % rank] = 1.0
    op, y = BlockOperator.from_parts(n, G=g, n_jobs=1), np.ones(n)
    tracemalloc.start()
    try:
        _ = op @ y
        product = tracemalloc.get_traced_memory()[1]
        op.solve(y, 1.0)
        solve = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    tile, vector = 3 * 8 * 4096 * rank, y.nbytes
    assert product < tile + 4 * vector
    assert solve < tile + 10 * vector
    assert solve < op.nbytes


def test_float32_blocks_are_summed_in_float64():
    g = np.full((200_001, 1), 1.0 + 2.0**-20, np.float32)
    op = BlockOperator.from_parts(len(g), G=g, n_jobs=1)
    exact = float(g[0, 0]) ** 2
    # In float32 the sums of 200,001 rows are wrong by 1e-7 or more.
    np.testing.assert_allclose(op.trace(), exact * len(g), rtol=1e-11)
    np.testing.assert_allclose((op @ np.ones(len(g)))[0], exact * len(g), rtol=1e-11)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.booleans())
@settings(max_examples=20, deadline=None)
def test_random_nested_levels(seed, depth, with_core):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    sets, levels = [rng.permutation(n)], []
    for _ in range(depth):
        ranks = rng.integers(0, 5, size=len(sets))
        blocks = [rng.standard_normal((len(r), k)) for r, k in zip(sets, ranks, strict=True)]
        levels.append(BasisLevel(n, sets, blocks))
        sets = [part for r in sets for part in np.split(r, np.sort(rng.integers(0, len(r) + 1, 2)))]
    ranks = levels[-1].ranks
    core = CoupledCore(psd(rng, sum(ranks)) if sum(ranks) else np.zeros((0, 0)), ranks, psd=True)
    stall = Stall(levels, core if with_core else None)
    op, k, y = stall.operator(), stall.oracle(), rng.standard_normal((n, 2))
    close(op @ y, k @ y, scale=np.abs(k).max(initial=1.0) * n)
    close(op.solve(y, 0.1), la.solve(k + 0.1 * np.eye(n), y, assume_a="pos"))
    np.testing.assert_allclose(
        op.logdet(0.1), np.linalg.slogdet(k + 0.1 * np.eye(n))[1], rtol=1e-9, atol=1e-8
    )
