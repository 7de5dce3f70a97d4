"""Starts from samples of the rows: the samples, and that they change no minimum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import gramian as gm
from gramian.data.source import as_source
from gramian.estimator.labelled import LabelledRows
from gramian.solvers.newton import Minimum
from gramian.solvers.newton_system import NewtonPoint
from gramian.svm import newton_training
from gramian.svm.newton_training import LEAST_ROWS, MOST_ROWS, nested_samples, row_bytes

RNG = np.random.default_rng(1)
X = RNG.random((2600, 3))
SCORE = np.sin(5 * X[:, 0]) + X[:, 1] + 0.2 * RNG.standard_normal(2600)
CLASSES = np.digitize(SCORE, [0.5, 0.9, 1.3])


def sizes_of(n: int, room: int) -> list[int]:
    rows = LabelledRows(as_source(np.broadcast_to(0.0, (n, 10))), np.zeros((n, 1)))
    return [sample.n for sample in nested_samples(rows, room, np.random.default_rng(0))]


def test_sizes_halve_down_to_the_least():
    assert sizes_of(2600, 10**9) == [650, 1300]
    assert sizes_of(4 * MOST_ROWS, 10**9)[-1] == MOST_ROWS
    assert sizes_of(10**5, 600 * (2 * 80 + 16)) == [600]
    assert sizes_of(10**5, -1) == sizes_of(2 * LEAST_ROWS - 1, 10**9) == []


def test_samples_are_nested_parts_with_their_targets_and_weights():
    weights = (np.arange(2600) % 3 > 0) * (1.0 + np.arange(2600))
    targets = np.stack([SCORE, weights], axis=1)
    rows = LabelledRows(as_source(np.column_stack([X, SCORE])), targets, weights)
    first, second = nested_samples(rows, 10**9, np.random.default_rng(0))
    for sample, size in ((first, 650), (second, 1300)):
        block = sample.source.rows(slice(0, size))
        assert sample.source.shape == (size, 4)
        np.testing.assert_array_equal(sample.targets, np.column_stack([block[:, 3], sample.weights]))
        assert (sample.weights > 0).all()
    assert set(first.weights) <= set(second.weights)
    # Fewer rows of positive weight than asked for are all there is.
    few, _ = nested_samples(replace(rows, weights=(np.arange(2600) < 40) * 1.0), 10**9, RNG)
    assert few.source.shape == (40, 4)


def test_bytes_of_rows():
    assert row_bytes(as_source(X)) == 24
    assert row_bytes(as_source(sp.csr_array(np.eye(10)))) == 16


MODELS = {
    "squared hinge": (gm.KernelSVC(3.0, tol=1e-11), CLASSES),
    "hinge": (gm.KernelSVC(3.0, loss="hinge", tol=1e-8), CLASSES),
    "two classes": (gm.KernelSVC(3.0, tol=1e-11), CLASSES > 1),
    "logistic": (gm.KernelLogisticRegression(3.0, tol=1e-11), CLASSES > 1),
    "regression": (gm.KernelSVR(3.0, loss="squared_epsilon_insensitive", tol=1e-11), SCORE),
    "absolute": (gm.KernelSVR(3.0, tol=1e-8), SCORE),
}
METHODS = [gm.MultiResolution(root_rank=40, rank=20, n_blocks=4), gm.MEKA(rank=20, n_blocks=4)]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=["nested", "coupled"])
@pytest.mark.parametrize(("model", "y"), MODELS.values(), ids=MODELS.keys())
def test_the_minimum_is_that_from_f_0(monkeypatch, model, y, method):
    model.set_params(gamma=4.0, approximation=method, random_state=0, n_jobs=1, tile_dtype="float64")
    ask = "predict" if isinstance(model, gm.KernelSVR) else "decision_function"
    w = RNG.random(len(X)) * (RNG.random(len(X)) > 0.1)
    found = getattr(model.fit(X, y, w), ask)(X[:200])
    passes = model.n_iter_
    monkeypatch.setattr(newton_training, "nested_samples", lambda *_: [])
    expected = getattr(model.fit(X, y, w), ask)(X[:200])
    np.testing.assert_allclose(found, expected, atol=2e-4)
    assert passes <= 1.3 * model.n_iter_


@pytest.mark.slow
def test_no_gram_matrix_of_all_rows_where_few_are_active(monkeypatch):
    """Counted, not timed: near the minimum the rows with curvature stand for their sums."""
    formed = []
    add = newton_training.LossPasses.evaluate

    def counted(self, *args, **kwargs):
        out = add(self, *args, **kwargs)
        formed.append((self.targets.shape[0], sum(c.rows is None for c in out.curvature)))
        return out

    monkeypatch.setattr(newton_training.LossPasses, "evaluate", counted)
    rows = np.random.default_rng(0).random((2000, 6))
    y = np.digitize(rows[:, :3].sum(axis=1), [1.0, 1.5, 2.0])
    gm.KernelSVC(10.0, gamma=2.0, approximation="exact", n_jobs=1).fit(rows, y)
    whole = [dense for n, dense in formed if n == 2000]
    assert len(whole) > 2
    assert sum(whole) == 0


def test_the_better_of_two_minima_is_kept_output_by_output():
    first, second = (
        Minimum(
            NewtonPoint(np.full((2, k), v), np.full((2, k), v), np.full(k, v)),
            np.full(k, v),
            np.array(gaps),
            5,
        )
        for v, k, gaps in ((1.0, 3, [0.1, 0.2, 0.3]), (2.0, 2, [0.15, 0.25]))
    )
    found = first.updated(np.array([1, 2]), second)
    assert found.point.beta[0].tolist() == found.objective.tolist() == [1.0, 2.0, 2.0]
    assert found.gap.tolist() == [0.1, 0.15, 0.25]
    worse = first.updated(np.array([0, 1]), second)
    assert worse.point.offset.tolist() == [1.0, 1.0, 1.0]
    assert worse.iterations == 10


def test_outputs_that_miss_the_gap_from_narrow_parabolas_begin_again_from_wide_ones(monkeypatch):
    asked = []
    minimise = newton_training.Newton.minimise

    def narrow_fails(self, passes, start, outputs, loss, *, sharpness):
        found = minimise(self, passes, start, outputs, loss, sharpness=sharpness)
        asked.append((sharpness, len(outputs)))
        if sharpness < 1.0 and passes.targets.shape[0] == len(X):
            found.gap[::2] = 1.0
        return found

    monkeypatch.setattr(newton_training.Newton, "minimise", narrow_fails)
    method = gm.Nystrom(rank=30)
    model = gm.KernelSVC(3.0, loss="hinge", gamma=4.0, approximation=method, n_jobs=1).fit(X, CLASSES)
    assert asked[-2:] == [(newton_training.WARM_SHARPNESS, 4), (1.0, 2)]
    assert model.solution_.residual <= 1e-6
