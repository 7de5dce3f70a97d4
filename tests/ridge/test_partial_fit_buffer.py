"""First rows of a stream wait until there are enough to choose scale, metric and landmarks from."""

from __future__ import annotations

import pickle
import warnings
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

import gramian as gm
from gramian.data.source import ArraySource, as_source
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import NumberTargets
from gramian.model_file import load, save
from gramian.ridge.streaming import FIRST_ROWS, bytes_of, joined


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2)) * [1.0, 500.0]
    return X, np.sin(6 * X[:, 0]) * np.cos(7 * X[:, 1] / 500.0) + 0.05 * rng.standard_normal(n)


def ridge(**parameters):
    sizes = gm.MultiResolution(root_rank=40, rank=20, n_blocks=4)
    options = {"gamma": 5.0, "standardize": True, "fit_intercept": True, "tile_dtype": "float64"}
    options |= {"random_state": 0, **parameters}
    return gm.KernelRidge(0.05, approximation=sizes, **options)


def in_chunks(model, X, y, cuts, weights=None, **more):
    for a, b in zip([0, *cuts], [*cuts, len(y)]):
        w = None if weights is None else weights[a:b]
        model.partial_fit(X[a:b], y[a:b], w, **more)
    return model


@pytest.mark.slow
def test_one_row_does_not_decide_for_all():
    X, y = rows(5000)
    model = in_chunks(gm.KernelRidge(0.01, gamma=5.0, standardize=True, random_state=0), X, y, [1])
    assert model.score(X, y) > 0.97
    assert (model.n_rows_seen_, model.n_rows_waiting_) == (5000, 0)
    assert model.scaler_.scale[1] > 100.0


@pytest.mark.parametrize("cuts", [[1, 600], [1, 2, 3, 500], [700, 1400], [1999], [*range(50, 2400, 50)]])
@pytest.mark.parametrize("weighted", [False, True])
def test_chunks_of_any_size_are_one_call(cuts, weighted):
    # None of the chunks is enough by itself; the last one completes the rows.
    X, y = rows(2400 if len(cuts) < 9 else FIRST_ROWS)
    weights = 0.1 + np.random.default_rng(1).random(len(y)) if weighted else None
    whole = ridge().partial_fit(X, y, weights)
    model = in_chunks(ridge(), X, y, [k for k in cuts if k < len(y)], weights)
    assert model.n_rows_waiting_ == 0
    np.testing.assert_allclose(model.predict(X), whole.predict(X), atol=1e-9)


def test_waiting_rows_are_said_and_predicted_from():
    X, y = rows(900)
    model = ridge()
    for k in range(3):
        model.partial_fit(X[300 * k : 300 * (k + 1)], y[300 * k : 300 * (k + 1)])
        assert model.n_rows_waiting_ == model.n_rows_seen_ == 300 * (k + 1)
        assert model._stream.summed is None
        assert model.predict(X).shape == (900,)
        assert (model.n_blocks_, model.plan_.n_blocks) == (4, 4)
    assert model.score(X, y) > 0.9
    never = in_chunks(ridge(), X, y, [300, 600])
    np.testing.assert_array_equal(never.predict(X), model.predict(X))
    np.testing.assert_array_equal(ridge().partial_fit(X, y).predict(X), model.predict(X))
    # What is chosen in the end does not depend on questions before.
    more, other = rows(1500, 1)
    seeds = [np.random.default_rng(7), np.random.default_rng(7)]
    asked, quiet = (in_chunks(ridge(random_state=seed), X, y, [300]) for seed in seeds)
    asked.predict(X)
    np.testing.assert_array_equal(
        asked.partial_fit(more, other).predict(X), quiet.partial_fit(more, other).predict(X)
    )
    assert asked.n_rows_waiting_ == 0


def test_copies_pickles_and_files(tmp_path):
    X, y = rows(2500)
    model = in_chunks(ridge(), X[:800], y[:800], [1])
    expected = model.predict(X)
    for other in (pickle.loads(pickle.dumps(model)), deepcopy(model)):
        np.testing.assert_array_equal(other.predict(X), expected)
        other.partial_fit(X[800:1500], y[800:1500]).partial_fit(X[1500:], y[1500:])
        assert other.score(X, y) > 0.9
    assert model.n_rows_waiting_ == 800
    save(model, tmp_path / "m.gramian")
    np.testing.assert_array_equal(load(tmp_path / "m.gramian").predict(X), expected)
    assert not hasattr(clone(model), "n_rows_waiting_")
    assert not hasattr(model.fit(X, y), "n_rows_waiting_")


def test_forgetting_fades_waiting_rows():
    X, y = rows(2400)
    faded = np.ones(2400)
    faded[:1000] = 0.25
    expected = ridge().partial_fit(X, y, faded)
    model = ridge().partial_fit(X[:1000], y[:1000]).forget(0.5).forget(0.5)
    assert model.n_rows_waiting_ == 1000
    model.partial_fit(X[1000:], y[1000:])
    np.testing.assert_allclose(model.predict(X), expected.predict(X), atol=1e-9)


def test_merging_adds_waiting_rows():
    X, y = rows(6000)
    left, right = ridge().partial_fit(X[:900], y[:900]), ridge().partial_fit(X[900:1500], y[900:1500])
    state = dict(vars(right))
    both = deepcopy(left).merge(right)
    np.testing.assert_array_equal(both.predict(X), ridge().partial_fit(X[:1500], y[:1500]).predict(X))
    assert (both.n_rows_waiting_, vars(right)) == (1500, state)
    begun = ridge().partial_fit(X[1500:], y[1500:])
    expected = deepcopy(begun).partial_fit(X[:900], y[:900])
    for merged in (deepcopy(begun).merge(left), deepcopy(left).merge(begun)):
        assert (merged.n_rows_seen_, merged.n_rows_waiting_) == (5400, 0)
        np.testing.assert_allclose(merged.predict(X), expected.predict(X), atol=1e-9)
    for other, message in (
        (ridge().partial_fit(X[:5, :1], y[:5]), "X has 1 features"),
        (ridge().partial_fit(X[:5], np.c_[y, y][:5]), "y has 2 outputs"),
    ):
        before = dict(vars(left))
        with pytest.raises(ValueError, match=message):
            left.merge(other)
        assert vars(left) == before


@pytest.mark.slow
def test_classes_wait_too():
    X, y = rows(2400)
    labels = np.where(y > 0.3, "high", np.where(y < -0.3, "low", "middle"))
    model = gm.KernelRidgeClassifier(
        0.05, gamma=5.0, standardize=True, class_weight={"low": 2.0}, random_state=0
    )
    whole = clone(model).partial_fit(X, labels, classes=np.unique(labels))
    parts = clone(model).partial_fit(X[:1], labels[:1], classes=np.unique(labels))
    with pytest.raises(gm.InputError, match=r"none.*is not one of the classes"):
        parts.partial_fit(X[:2], ["low", "none"])
    parts.partial_fit(X[1:900], labels[1:900]).partial_fit(X[900:], labels[900:])
    gap = parts.decision_function(X) - whole.decision_function(X)
    assert np.abs(gap).max() < 1e-5
    assert parts.score(X, labels) > 0.9


def test_sparse_rows_sources_and_the_callers_arrays():
    X, y = rows(2400)
    expected = ridge(standardize=False, gamma=1e-4).partial_fit(X, y).predict(X)
    for form in (sp.csr_array, ArraySource, np.array):
        model = ridge(standardize=False, gamma=1e-4)
        for chunk in (slice(0, 700), slice(700, 2400)):
            part, target = form(X[chunk]), y[chunk].copy()
            model.partial_fit(part, target)
            if form is np.array and chunk.start == 0:
                part[:], target[:] = 0.0, 0.0
        # Distances of sparse and of dense rows round apart, and the solve (gamma 1e-4) makes that larger.
        assert np.abs(model.predict(X) - expected).max() < 1e-6
    mixed = ridge().partial_fit(sp.csr_array(X[:300]), y[:300]).partial_fit(X[300:900], y[300:900])
    assert mixed.score(X, y) > 0.9


def test_a_call_that_fails_adds_nothing_while_rows_wait():
    X, y = rows(900)
    model = ridge().partial_fit(X[:300], y[:300])
    model.predict(X)
    state = dict(vars(model))
    bad = X.copy()
    bad[-1, 0] = np.nan
    for X_bad, y_bad, message in (
        (bad, y, "contains NaN"),
        (X[:, :1], y, "X has 1 features"),
        (X, y[:10], "X has 900 rows, but y has 10"),
        (X, np.c_[y, y], "y has 2 outputs, but the rows so far have 1"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(X_bad, y_bad)
    assert vars(model) == state
    for parameters, message in (
        ({"kernel": "rfb"}, "not a known name"),
        ({"approximation": "nystrm"}, "unknown"),
        ({"alpha": -1.0}, "alpha"),
        ({"memory_budget": "1kB"}, "too small"),
    ):
        fresh = ridge().set_params(**parameters)
        with pytest.raises(ValueError, match=message):
            fresh.partial_fit(X[:3], y[:3])
        assert not hasattr(fresh, "n_rows_seen_")


def test_waiting_ends_at_a_part_of_the_memory_budget():
    rng = np.random.default_rng(0)
    X = rng.random((600, 400))
    y = X[:, 0].copy()
    model = gm.KernelRidge(approximation=gm.Nystrom(rank=20), memory_budget="16MB", random_state=0, n_jobs=1)
    for k in range(6):
        model.partial_fit(X[100 * k : 100 * (k + 1)], y[100 * k : 100 * (k + 1)])
        held = bytes_of(model._stream.waiting) if model.n_rows_waiting_ else 0
        assert held <= 1_000_000
    assert model.n_rows_waiting_ == 0
    assert model.plan_.peak_bytes <= 16_000_000


def test_nothing_waits_for_given_landmarks():
    X, y = rows(600)
    landmarks = gm.MultiResolution(gamma=5.0, root_rank=20, rank=8, n_blocks=4, random_state=0).fit(X)
    model = gm.KernelRidge(approximation=FrozenEstimator(landmarks)).partial_fit(X[:1], y[:1])
    assert (model.n_rows_waiting_, model.n_rows_seen_) == (0, 1)


def test_rows_of_weight_0_are_not_counted():
    X, y = rows(2500)
    weights = np.zeros(2500)
    weights[:50] = 1.0
    model = ridge().partial_fit(X, y, weights)
    assert (model.n_rows_waiting_, model.n_rows_seen_) == (2500, 2500)
    far = X.copy()
    far[50:] *= 1000.0
    found = ridge().partial_fit(far, y, weights).predict(X)
    np.testing.assert_allclose(model.predict(X), found, atol=1e-9)


def test_a_summary_needs_no_choice():
    X, y = rows(100)
    model = ridge().partial_fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = model._repr_html_()
    assert "could not be made" not in page
    assert "100 rows, until there are enough to choose" in page
    assert model._stream.summed is None


def test_metric_and_importances_wait_too():
    X, y = rows(400)
    model = gm.KernelRidge(0.1, standardize=True, metric="diagonal", random_state=0)
    with pytest.raises(AttributeError):
        model.feature_importances_  # noqa: B018
    model.partial_fit(X, y)
    assert model.feature_importances_.shape == (2,)


def test_a_buffer_keeps_order_and_weights():
    one = LabelledRows(as_source(np.eye(2)), NumberTargets(np.zeros(2), 2))
    both = joined(one, replace(one, weights=np.full(2, 0.5)))
    assert both.weights.tolist() == [1.0, 1.0, 0.5, 0.5]
    assert sp.issparse(joined(one, replace(one, source=as_source(sp.csr_array(np.eye(2))))).rows)
