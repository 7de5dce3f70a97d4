"""Streams refuse what they would not read: parameters that were changed, and sums over other inputs."""

from __future__ import annotations

import pickle
from copy import deepcopy

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

import gramian as gm
from gramian.compression.features import same_values

RNG = np.random.default_rng(0)
X = RNG.random((2400, 2))
Y = np.sin(6 * X[:, 0])
FEW = slice(0, 200)


@pytest.fixture(scope="module")
def fitted():
    return gm.Nystrom(gamma=6.0, rank=20, random_state=0).fit(X[FEW])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("standardize", True),
        ("metric", "diagonal"),
        ("approximation", "nystrom"),
        ("approximation__rank", 5),
        ("tile_dtype", "float64"),
        ("random_state", 1),
        ("gamma", "scale"),
    ],
)
@pytest.mark.whole
def test_parameters_that_it_reads_no_more_stay(name, value):
    start = gm.Nystrom(rank=20) if "__" in name else "auto"
    model = gm.KernelRidge(gamma=6.0, approximation=start, random_state=0)
    waiting = clone(model).partial_fit(X[FEW], Y[FEW]).set_params(**{name: value})
    assert waiting.partial_fit(X[FEW], Y[FEW]).n_rows_waiting_ == 400  # nothing was chosen yet
    model = pickle.loads(pickle.dumps(model.partial_fit(X, Y))).partial_fit(X[FEW], Y[FEW])
    model.set_params(**{name: value})
    text = rf"{name.split('__')[0]}=.*but the stream was started with .*Change it before the first call"
    for go_on in (lambda: model.partial_fit(X[FEW], Y[FEW]), lambda: model.forget(0.5)):
        with pytest.raises(gm.InputError, match=f"(?s){text}"):
            go_on()


def test_a_generator_and_a_frozen_map_are_no_changes(fitted):
    model = gm.KernelRidge(approximation=FrozenEstimator(fitted), gamma=None, random_state=RNG)
    model.partial_fit(X[FEW], Y[FEW])
    for later in (model, deepcopy(model), pickle.loads(pickle.dumps(model))):
        rows = later.n_rows_seen_ + 200
        assert later.set_params(alpha=0.5, n_jobs=1).partial_fit(X[FEW], Y[FEW]).n_rows_seen_ == rows


def test_rows_that_wait_are_not_merged_into_sums_of_rows_that_are_scaled_otherwise():
    waiting = gm.KernelRidge(gamma=6.0, random_state=0).partial_fit(X[FEW], Y[FEW])
    summed = gm.KernelRidge(gamma=6.0, standardize=True, random_state=0).partial_fit(X, Y)
    with pytest.raises(gm.InputError, match=r"has standardize=False, the other True\. Start both alike"):
        waiting.merge(summed)
    assert waiting.set_params(standardize=True).merge(summed).n_rows_seen_ == 2600


def test_maps_in_memory_maps_and_in_other_bytes_are_the_same(tmp_path):
    model = gm.KernelRidge(gamma=6.0, approximation=gm.MEKA(rank=5, n_blocks=3), random_state=0).partial_fit(
        X, Y
    )
    path = str(tmp_path / "model.joblib")
    joblib.dump(model, path)
    both = joblib.load(path, mmap_mode="r").merge(joblib.load(path))
    np.testing.assert_allclose(both.predict(X[FEW]), model.merge(deepcopy(model)).predict(X[FEW]))
    values = np.arange(6.0).reshape(2, 3)
    assert same_values(values, np.asfortranarray(values))
    assert same_values(values, values.astype(">f8"))
    assert not same_values(values, values.astype(np.float32))
    assert not same_values(values, values + 1.0)
