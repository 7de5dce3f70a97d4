"""The choice of a kernel: what it finds on rows made by a known function, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.data.source import as_source
from gramian.estimator.labelled import LabelledRows, labelled_classes, labelled_numbers
from gramian.exact.loo import leave_one_out, refine_kernel
from gramian.exceptions import BudgetError
from gramian.kernels import Exponential, Gaussian, Laplacian, Matern
from gramian.selection.kernel_choice import KernelChoice, choose_kernel

FAMILIES = (Gaussian(), Matern(nu=1.5), Exponential(), Laplacian())
BUDGET = 10**9


def smooth_rows(n: int, *, weights: np.ndarray | None = None) -> LabelledRows:
    """Rows of which two features of four matter, on very different scales."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4)) * [1.0, 100.0, 1.0, 1.0]
    y = np.sin(2.0 * X[:, 0]) + np.cos(X[:, 1] / 100.0) + 0.1 * rng.standard_normal(n)
    return labelled_numbers(as_source(X), y, weights)


def chosen(rows: LabelledRows, families=FAMILIES, **options) -> KernelChoice:
    settings = {"each_feature": True, "intercept": True, "memory_bytes": BUDGET, **options}
    found = choose_kernel(rows, families, rng=np.random.default_rng(1), **settings)
    assert found is not None
    return found


@pytest.mark.slow
def test_the_noise_is_reached_and_features_without_use_get_long_lengthscales():
    found = chosen(smooth_rows(1500))
    assert found.errors.min() < 0.03  # the noise is 0.01, the targets' variance about 0.6
    scale = np.asarray(found.kernel.lengthscale) / [1.0, 100.0, 1.0, 1.0]
    assert scale[:2].max() < scale[2:].min()
    assert (found.n_rows, found.n_held_out) == (1000, 500)


def test_one_family_with_one_lengthscale_beats_its_start():
    rows = smooth_rows(600)
    found = chosen(rows, (Gaussian(),), each_feature=False)
    assert np.ndim(found.kernel.lengthscale) == 0
    assert len(found.errors) == len(found.tried) == 2  # on few rows, then on more


@pytest.mark.slow
def test_the_choice_is_the_same_for_the_same_seed():
    rows = smooth_rows(300)
    first, again = chosen(rows), chosen(rows)
    assert (first.kernel, first.alpha) == (again.kernel, again.alpha)


@pytest.mark.slow
def test_rows_of_weight_0_are_not_looked_at():
    weights = np.ones(400)
    weights[200:] = 0.0
    rows = smooth_rows(400, weights=weights)
    spoiled = rows.targets[slice(0, 400)].ravel().copy()
    spoiled[200:] = 1e6
    other = labelled_numbers(rows.source, spoiled, weights)
    assert chosen(rows).kernel == chosen(other).kernel


@pytest.mark.slow
def test_separable_classes_end_without_an_error():
    X = np.random.default_rng(0).standard_normal((400, 3))
    found = chosen(labelled_classes(as_source(X), X[:, 0] > 0))
    assert np.isfinite(found.errors).any()
    assert found.errors.min() < 0.3


def test_too_few_rows_choose_nothing():
    rng = np.random.default_rng(0)
    few = smooth_rows(39)
    options = {"each_feature": True, "intercept": True, "memory_bytes": BUDGET}
    assert choose_kernel(few, FAMILIES, rng=rng, **options) is None


def test_a_budget_without_room_for_the_rows_says_how_much_is_needed():
    rows = smooth_rows(400)
    with pytest.raises(BudgetError, match="to choose a kernel for 4 features: at least"):
        chosen(rows, memory_bytes=10_000)


def test_without_time_one_kernel_is_tried():
    found = chosen(smooth_rows(400), seconds=1e-9)
    assert 1 <= len(found.tried) <= 2


def test_a_prior_holds_lengthscales_near_their_start():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    Y = np.sin(X[:, :1])
    start = Gaussian((1.0, 1.0, 1.0))
    free = refine_kernel(start, X, Y, 0.1)
    held = refine_kernel(start, X, Y, 0.1, prior=0.05)
    away = [np.abs(np.log(f.kernel.lengthscale)).max() for f in (free, held)]
    assert away[1] < 0.5 < away[0]
    assert held.after == pytest.approx(leave_one_out(held.kernel, X, Y, held.alpha).loss / 80)


def test_refinement_ends_where_the_error_is_enough():
    X = np.random.default_rng(0).standard_normal((80, 2))
    Y = np.sin(X[:, :1])
    full = refine_kernel(Gaussian(1.0), X, Y, 0.1)
    early = refine_kernel(Gaussian(1.0), X, Y, 0.1, enough=full.before / 2)
    assert full.after < early.after <= full.before / 2
    assert early.evaluations < full.evaluations
