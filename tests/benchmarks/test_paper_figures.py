"""The accuracy that the project promises on real data, without any timing."""

from __future__ import annotations

import numpy as np
import pytest
from suite.datasets import load_dataset

import gramian as gm

pytestmark = [pytest.mark.data]


def unit_box(X, low=0.0):
    span = X.max(axis=0) - X.min(axis=0)
    return low + (1.0 - low) * (X - X.min(axis=0)) / np.where(span > 0, span, 1.0)


def pendigits():
    return unit_box(load_dataset("pendigits").X.astype(np.float64)).astype(np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_meka_on_pendigits(seed):
    X = pendigits()
    a = gm.MEKA(gamma=2.0, rank=128, n_blocks=5, tile_dtype="float32", random_state=seed).fit(X)
    assert a.relative_error(X, n_rows=1000, random_state=50 + seed) <= 0.041
    stored = sum(block.size for level in a.operator_.levels for block in level.blocks) + a.rank_**2
    assert stored <= len(X) * 128 + (128 * 5) ** 2


@pytest.mark.repeat
def test_the_sampled_core_never_blows_up():
    X = pendigits()
    for seed in range(20):
        a = gm.MEKA(
            gamma=2.0, rank=128, n_blocks=5, core="sampled", tile_dtype="float32", random_state=seed
        ).fit(X)
        assert a.relative_error(X, n_rows=100, random_state=seed) <= 1.3 * 0.0811


def test_meka_on_ijcnn1():
    data = load_dataset("ijcnn1")
    X = data.X[: data.n_train]
    a = gm.MEKA(gamma=1.0, rank=128, n_blocks=10, random_state=0).fit(X)
    assert a.relative_error(X, n_rows=300, random_state=1) <= 0.0020


@pytest.mark.parametrize(
    ("name", "box", "gamma", "rank", "n_blocks", "alpha", "bar"),
    [("wine", False, 2.0**-10, 128, 3, 2.0**-4, 0.740), ("cpusmall", True, 4.0, 256, 5, 2.0**-4, 6.2)],
)
@pytest.mark.filterwarnings("ignore:Columns .* differ in scale")  # as in the paper
def test_kernel_ridge_with_meka(name, box, gamma, rank, n_blocks, alpha, bar):
    data = load_dataset(name)
    X, y = data.X.astype(np.float64), data.y.astype(np.float64)
    X = unit_box(X, -1.0) if box else X
    errors = []
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(X))
        cut = int(0.8 * len(X))
        model = gm.KernelRidge(
            alpha, gamma=gamma, approximation=gm.MEKA(rank=rank, n_blocks=n_blocks), random_state=seed
        ).fit(X[order[:cut]], y[order[:cut]])
        errors.append(np.sqrt(np.mean((model.predict(X[order[cut:]]) - y[order[cut:]]) ** 2)))
    assert np.mean(errors) <= bar


@pytest.mark.parametrize(
    ("sizes", "bar"),
    [
        (
            {"root_rank": 300, "n_blocks": 300, "rank": 100, "oversampling": 1.0, "landmarks": "uniform"},
            0.112,
        ),
        ({"root_rank": 400, "n_blocks": 150, "rank": 400, "oversampling": 1.0}, 0.100),
        (None, 0.102),
    ],
    ids=["fast", "accurate", "auto"],
)
def test_multiresolution_on_covtype(sizes, bar):
    data = load_dataset("covtype_100k")
    X, y = data.X.astype(np.float64), data.y == 2
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:80_000], order[80_000:]
    mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
    X = ((X - mean) / np.where(scale > 0, scale, 1.0)).astype(np.float32)
    model = gm.KernelRidgeClassifier(
        0.1,
        gamma=0.3,
        approximation="auto" if sizes is None else gm.MultiResolution(**sizes),
        memory_budget="1.5GB",
        random_state=0,
    ).fit(X[train], y[train])
    assert 1.0 - model.score(X[test], y[test]) <= bar
    assert model.solution_.residual < 1e-8
