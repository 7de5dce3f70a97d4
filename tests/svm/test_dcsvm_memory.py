"""Memory of the parts of the exact SVM, as tracemalloc counts it."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import gramian as gm
from gramian.engine import Engine, Run
from gramian.svm.dcsvc import DCSVC
from gramian.svm.dcsvc_training import LEAST_BYTES, DCSVCParameters
from gramian.svm.divide.active_set_cg import TwoLevel
from gramian.svm.divide.gram import SIDE, TILE_BYTES, Gram, SymmetricTiles
from gramian.svm.divide.pivots import _factor


def rows_of(X, kernel, threads):
    return Gram(X, kernel, Run(10**8, Engine(threads), "float64", np.random.default_rng(0)))


def traced_peak(work):
    """Return the bytes by which memory grows at most during a call."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_tiles_on_their_way_are_within_the_cache():
    X = np.random.default_rng(0).random((6 * SIDE, 3))
    tile = 4 * SIDE**2
    tiles = SymmetricTiles(rows_of(X, gm.Gaussian(0.5), 2), 5 * tile)
    assert tiles.dtype == np.float32
    first, later = (traced_peak(lambda: tiles.matvec(np.ones(len(X)))) for _ in range(2))
    assert first <= (5 + 2.5) * tile
    assert later <= 2.5 * tile  # one a thread, none kept on


def test_a_symmetric_matrix_is_made_in_one_square():
    X = np.random.default_rng(0).random((1_500, 3))
    gram = rows_of(X, gm.Gaussian(0.5), 1)
    peak = traced_peak(lambda: gram.square())
    assert peak <= 1.3 * 8 * len(X) ** 2  # a tile and its slices beside it


def test_a_preconditioner_keeps_its_bytes_on_every_face():
    X = np.random.default_rng(0).random((4_000, 3))
    allowed = 30_000_000

    def faces():
        near = TwoLevel(rows_of(X, gm.Gaussian(0.5), 2), allowed)
        for count in (len(X), len(X) // 2, len(X)):
            near.on(np.arange(len(X)) < count)

    assert traced_peak(faces) <= allowed + 2 * TILE_BYTES


def test_a_factor_is_made_in_one_square():
    X = np.random.default_rng(0).random((3_000, 3))
    peak = traced_peak(lambda: _factor(rows_of(X, gm.Gaussian(0.05), 1)))
    assert peak <= 1.1 * 8 * len(X) ** 2


@pytest.mark.slow
def test_the_least_budget_holds_a_fit_by_working_sets():
    # Noise keeps most rows at or near the margin, so that pivots do not settle and tiles fill their cache.
    rng = np.random.default_rng(0)
    X = rng.random((6_000, 8))
    signal = np.sin(6.0 * X[:, 0]) + np.cos(5.0 * X[:, 1]) * X[:, 2] + 0.5 * rng.standard_normal(len(X))
    model = DCSVC(10.0, gamma=20.0, memory_budget=LEAST_BYTES, random_state=0, n_jobs=2)
    assert traced_peak(lambda: model.fit(X, signal > np.median(signal))) <= LEAST_BYTES


def test_threads_are_as_many_as_the_budget_holds():
    few = DCSVCParameters.of(DCSVC(n_jobs=64, memory_budget=LEAST_BYTES)).settled()
    assert few.engine.n_threads == 2
    assert 0.5 * LEAST_BYTES <= few.memory_bytes < LEAST_BYTES
    assert DCSVCParameters.of(DCSVC(n_jobs=64, memory_budget=10**10)).settled().engine.n_threads == 64
