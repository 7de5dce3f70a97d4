"""partition="kernel": blocks of what a kernel calls near."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import gramian as gm
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.landmarks.partition import FeaturePartition, fit_partition, partition_bytes


def kernel_partition(rows, n_blocks, kernel, seed=0, **options):
    return fit_partition(
        rows, n_blocks, method="kernel", kernel=kernel, rng=np.random.default_rng(seed), **options
    )


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(1).random((1500, 3))


def test_a_row_goes_where_the_angle_is_smallest(rows):
    kernel = gm.Gaussian(lengthscale=0.3)
    partition = kernel_partition(rows, 12, kernel)
    assert isinstance(partition, FeaturePartition)
    new = np.random.default_rng(2).random((200, 3))
    scores = kernel(new, partition.landmarks) @ partition.weights
    labels = partition.route(new)
    np.testing.assert_array_equal(labels, scores.argmax(axis=1))
    np.testing.assert_array_equal(partition.route(new, Engine(3)), labels)
    np.testing.assert_array_equal(partition.route(new[50:51]), labels[50:51])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(partition)).route(new), labels)


def test_features_within_a_block_are_alike(rows):
    kernel = gm.Gaussian(lengthscale=0.3)
    labels = kernel_partition(rows, 12, kernel).route(rows)
    K = kernel(rows)
    same = labels[:, None] == labels
    assert K[same].mean() > 3 * K[~same].mean()
    assert np.bincount(labels, minlength=12).min() > 0


@pytest.mark.parametrize("lengthscale", [0.03, 0.3, 3.0])
def test_blocks_are_balanced_at_any_lengthscale(rows, lengthscale):
    counts = np.bincount(kernel_partition(rows, 10, gm.Gaussian(lengthscale)).route(rows), minlength=10)
    assert counts.max() < 5 * len(rows) / 10


def test_levels_nest(rows):
    partition = kernel_partition(rows, 12, gm.Gaussian(0.3), n_levels=2)
    (above,) = partition.ancestors
    assert len(above) == partition.n_blocks
    assert (np.diff(above) >= 0).all()
    assert set(above) == set(range(above.max() + 1))
    assert above.max() > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_block_and_few_rows(rows, dtype):
    rows = rows.astype(dtype)
    assert kernel_partition(rows, 1, gm.Gaussian()).n_blocks == 1
    few = kernel_partition(rows[:3], 8, gm.Gaussian(0.1))
    assert sorted(few.route(rows[:3])) == [0, 1, 2]
    same = kernel_partition(np.repeat(rows[:1], 20, axis=0), 4, gm.Gaussian())
    assert same.n_blocks == 1


def test_sparse_rows_and_a_function(rows):
    thin = sp.csr_array(np.where(rows > 0.7, rows, 0.0))
    kernel = gm.Polynomial(degree=2, offset=1.0)
    np.testing.assert_array_equal(
        kernel_partition(thin, 6, kernel).route(thin), kernel_partition(thin.toarray(), 6, kernel).route(thin)
    )

    def shared(A, B):
        return np.minimum(A[:, None], B[None]).sum(axis=2)

    a = gm.MEKA(kernel=shared, rank=40, n_blocks=4, partition="kernel", random_state=0).fit(rows)
    assert a.relative_error(rows, n_rows=200, random_state=0) < 0.05


def test_a_seed_decides(rows):
    first, second, other = (kernel_partition(rows, 8, gm.Gaussian(0.2), seed).weights for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert first.shape != other.shape or not np.array_equal(first, other)


def test_bytes_are_planned(rows):
    many = np.random.default_rng(0).random((20_000, 3))
    tracemalloc.start()
    kernel_partition(many, 50, gm.Gaussian(0.3))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < partition_bytes("kernel", 20_000, 50, 3, 3, 8)


def test_it_needs_a_kernel(rows):
    with pytest.raises(InputError, match=r"clusters by the kernel\. Pass kernel=, or take 'kmeans'"):
        fit_partition(rows, 4, method="kernel", rng=np.random.default_rng(0))


def test_model_files_do_not_hold_it(rows, tmp_path):
    method = gm.MEKA(rank=5, n_blocks=4, partition="kernel")
    model = gm.KernelRidge(approximation=method, random_state=0).fit(rows, rows[:, 0])
    with pytest.raises(InputError, match="has type FeaturePartition, which a model file cannot hold"):
        gm.save(model, tmp_path / "m.gramian")
