"""``approximation="auto"``: the spectrum is judged by different rows, repeated ones change nothing."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import gramian as gm
from gramian.approximations.auto import Probe, probe_rows
from gramian.data.source import as_source

RNG = np.random.default_rng(0)
ROUGH = RNG.standard_normal((4000, 5))
#: One row in twenty is another's copy: a probe of 500 meets a dozen of them.
COPIED = np.concatenate([ROUGH[:3800], ROUGH[:200]])[RNG.permutation(4000)]


def sizes(X, gamma, **params):
    plan = gm.KernelRidge(alpha=0.1, gamma=gamma, random_state=0, **params).plan(X)
    return plan.reason, plan.root_rank, plan.n_blocks, plan.rank, plan.dtype


def probed(X, gamma):
    kernel = gm.Gaussian(lengthscale=1.0 / np.sqrt(2.0 * gamma))
    rows = probe_rows(as_source(X), np.random.default_rng(0), 10**9)
    return Probe(rows, kernel, X.shape[0])


@pytest.mark.parametrize("gamma", [1e-3, 0.3, 3.0])
def test_repeated_rows_give_the_plan_of_different_ones(gamma):
    expected = sizes(ROUGH, gamma)
    assert sizes(COPIED, gamma) == expected
    assert sizes(sp.csr_array(COPIED), gamma) == sizes(sp.csr_array(ROUGH), gamma)
    # A repetition up to rounding is one too.
    assert sizes(COPIED + 1e-9 * RNG.standard_normal(COPIED.shape), gamma) == expected


def test_repeated_rows_of_a_stored_matrix_give_the_plan_of_different_ones():
    def stored(X):
        K = gm.Gaussian(lengthscale=1.0)(X[:1600])
        reason, *found = sizes(K, None, kernel="precomputed")
        return reason, found

    copied = np.concatenate([ROUGH[:1500], ROUGH[:100]])
    assert stored(copied) == stored(ROUGH)
    assert "root and blocks" in stored(copied)[0]


@pytest.mark.parametrize("gamma", [0.01, 1.0])
def test_different_rows_are_counted_as_an_obvious_count_does(gamma):
    X = np.repeat(ROUGH[:150], RNG.integers(1, 4, 150), axis=0)
    _, counts = np.unique(X, axis=0, return_counts=True)
    found = probed(X, gamma)
    values, n_distinct, n_single = found.spectrum
    assert (n_distinct, n_single) == (150, int((counts == 1).sum()))
    assert found.least == pytest.approx(values[149])


def test_a_gamma_that_makes_all_rows_alike_makes_no_repetitions():
    found = probed(ROUGH, 1e-18)
    assert found.spectrum[1:] == (500, 500)
    assert "root suffices" in sizes(ROUGH, 1e-18)[0]


def test_few_different_rows_are_all_landmarks_of_a_root():
    X = ROUGH[RNG.integers(0, 20, 4000)]
    reason, root, blocks, *_ = sizes(X, 1.0)
    assert reason == "few different rows: a root has them all"
    assert (root, blocks) == (1000, 1)
    assert sizes(np.ones((4000, 3)), 1.0)[2] == 1
