"""Parameters as values: the kernel, the run and the setup of a fit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

import gramian as gm
from gramian.approximations.setup import FitSetup
from gramian.data.source import as_source
from gramian.data.subset import SubsetRows
from gramian.engine import Engine, Run
from gramian.estimator.parameters import KernelParameters, settled_run
from gramian.kernels.precomputed import Precomputed, StoredMatrix, StoredRows
from gramian.ridge.planning import ridge_setup

X = np.random.default_rng(0).random((300, 4))
Y = np.sin(5.0 * X[:, 0])
QUICK = gm.LearnedMetric(rounds=1, powers=(1.0,), bandwidth=False)


def test_a_kernel_by_name_takes_its_gamma_from_the_columns():
    assert KernelParameters().resolve(2) == gm.Gaussian(1.0)
    assert KernelParameters("laplacian", gamma=2.0).resolve_for(as_source(X)) == gm.Laplacian(0.5)


def test_a_precomputed_kernel_has_the_values_of_the_rows_however_they_are_taken():
    stored = StoredMatrix(X @ X.T, symmetric=True)
    own = KernelParameters("precomputed")
    assert own.precomputed
    assert not KernelParameters(gm.Gaussian()).precomputed
    for source in (StoredRows(stored), SubsetRows(StoredRows(stored), np.arange(3))):
        found = own.resolve_for(source)
        assert isinstance(found, Precomputed)
        np.testing.assert_array_equal(found(source.rows(slice(0, 3))), (X @ X.T)[:3, :3])


@pytest.mark.parametrize(
    ("changes", "untouched"),
    [
        ({}, True),
        ({"coef0": 1, "degree": 3.0}, True),
        ({"gamma": 0.25}, False),
        ({"kernel": gm.Gaussian()}, False),
        ({"kernel_params": {}}, False),
    ],
)
def test_untouched_parameters_are_those_by_default(changes, untouched):
    assert KernelParameters(**changes).untouched == untouched


@pytest.mark.parametrize(("tile_dtype", "expected"), [("auto", "float64"), ("float32", "float32")])
def test_rows_settle_the_precision(tile_dtype, expected):
    found = settled_run(Run(10**6, Engine(3), tile_dtype), as_source(X), gm.Gaussian(), 1.0)
    assert (found.dtype.name, found.engine.n_threads, found.memory_bytes) == (expected, 3, 10**6)


def test_a_setup_reads_its_estimator_once():
    state = np.random.RandomState(0)
    model = gm.KernelRidge(0.1, gamma=2.0, memory_budget="10MB", n_jobs=2, random_state=state)
    found = ridge_setup(model)
    model.set_params(gamma=3.0, memory_budget="20MB", n_jobs=1)
    assert found.kernel.gamma == 2.0
    assert found.alpha == 0.1
    assert found.run == Run(10_000_000, Engine(2), "auto", state)
    assert found.with_memory(4).run.memory_bytes == 4
    assert found.automatic
    assert not found.frozen
    # A plan draws from a copy of the generator, a fit from the generator itself.
    assert found.run.random_state is state
    assert found.planning().run.random_state is not state


def test_a_frozen_approximation_is_seen():
    fitted = gm.Nystrom(rank=5, random_state=0).fit(X)
    assert FitSetup.of(gm.KernelRidge(approximation=FrozenEstimator(fitted))).frozen


def test_a_penalty_that_is_chosen_goes_with_a_learned_metric():
    model = gm.KernelRidge("auto", metric=QUICK, random_state=0).fit(X, Y)
    assert model.alpha_ > 0
    assert model.feature_importances_.argmax() == 0


def test_rounds_of_a_metric_do_not_compare_their_smaller_budget_with_an_instance():
    inner = gm.Nystrom(rank=40, memory_budget="300MB")
    model = gm.KernelRidge(0.1, approximation=inner, memory_budget="300MB", metric=QUICK, random_state=0)
    assert model.fit(X, Y).rank_ == 40


def test_a_gaussian_process_refuses_parameters_of_an_instance_that_would_have_no_effect():
    model = gm.GaussianProcessRegressor(approximation=gm.MultiResolution(gamma=2.0), random_state=0)
    with pytest.raises(gm.InputError, match="gamma is taken from GaussianProcessRegressor"):
        model.fit(X, Y)
