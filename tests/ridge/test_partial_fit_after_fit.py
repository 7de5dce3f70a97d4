"""``partial_fit``, ``forget`` and ``merge`` after ``fit``: the model is that of one stream over all rows."""

from __future__ import annotations

import pickle
import weakref
from copy import copy, deepcopy

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

import gramian as gm
from gramian.compression.features import same_values
from gramian.data.source import ArraySource
from gramian.model_file import load, save

N = 2600
SIZES = gm.MultiResolution(root_rank=20, rank=8, n_blocks=4)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.random((N, 2))
    Y = np.column_stack([np.sin(6 * X[:, 0]), X[:, 0] * X[:, 1]]) + 0.1 * rng.standard_normal((N, 2))
    return X, Y, rng.random(N)


@pytest.fixture(scope="module")
def landmarks(rows):
    return gm.MultiResolution(gamma=6.0, root_rank=20, rank=8, n_blocks=4, random_state=0).fit(rows[0][:300])


def ridge(**parameters):
    options = {"gamma": 6.0, "standardize": True, "fit_intercept": True, "tile_dtype": "float64"}
    return gm.KernelRidge(0.05, approximation=SIZES, random_state=0, **{**options, **parameters})


@pytest.mark.slow
@pytest.mark.parametrize("cut", [40, 2100])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_model_is_that_of_one_stream_over_both(rows, cut, weighted):
    X, Y, weights = rows
    first, rest = ((X[part], Y[part], weights[part] if weighted else None) for part in halves(cut))
    expected = ridge().partial_fit(*first).partial_fit(*rest)
    model = ridge().fit(*first).partial_fit(*rest)
    assert (model.n_rows_seen_, model.n_rows_waiting_) == (N, expected.n_rows_waiting_)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    more = model.partial_fit(*first), expected.partial_fit(*first)
    np.testing.assert_array_equal(more[0].predict(X), more[1].predict(X))


def frame_of(X):
    return pytest.importorskip("pandas").DataFrame(X)


@pytest.mark.slow
@pytest.mark.parametrize(
    "form", [sp.csr_array, ArraySource, frame_of, np.ndarray.tolist], ids=lambda form: form.__name__
)
def test_rows_of_any_form_are_gone_on_from(rows, form, tmp_path):
    X, Y, _ = rows
    expected = ridge(standardize=False).partial_fit(X[:2100], Y[:2100]).partial_fit(X[2100:], Y[2100:])
    model = ridge(standardize=False).fit(form(X[:2100]), Y[:2100]).partial_fit(form(X[2100:]), Y[2100:])
    assert np.abs(model.predict(form(X)) - expected.predict(X)).max() < 1e-8


def test_a_memmap_is_read_again_and_a_source_brings_its_target(rows, tmp_path):
    X, Y, _ = rows
    expected = ridge().partial_fit(X[:2100], Y[:2100]).partial_fit(X[2100:], Y[2100:]).predict(X)
    np.save(tmp_path / "X.npy", X[:2100])
    stored = np.load(tmp_path / "X.npy", mmap_mode="r")
    source = ArraySource(X[:2100])
    source.target = Y[:2100]
    for model in (ridge().fit(stored, Y[:2100]), ridge().fit(source)):
        np.testing.assert_array_equal(model.partial_fit(X[2100:], Y[2100:]).predict(X), expected)


def test_a_classifier_needs_no_classes(rows):
    X = rows[0]
    y = np.array(["low", "middle", "high"])[(3 * X[:, 0]).astype(int)]
    model = gm.KernelRidgeClassifier(0.05, gamma=6.0, approximation=SIZES, random_state=0)
    expected = (
        clone(model).partial_fit(X[:600], y[:600], classes=np.unique(y)).partial_fit(X[600:900], y[600:900])
    )
    model.fit(X[:600], y[:600])
    with pytest.raises(gm.InputError, match="are not those of the rows so far"):
        model.partial_fit(X[600:], y[600:], classes=["low", "high"])
    model.partial_fit(X[600:900], y[600:900])
    np.testing.assert_array_equal(model.decision_function(X), expected.decision_function(X))
    model.partial_fit(X[900:], y[900:], classes=["low", "middle", "high"])
    assert model.n_rows_seen_ == N


@pytest.mark.parametrize("n", [300, 2100])
def test_a_call_that_fails_leaves_the_fitted_model(rows, n):
    X, Y, _ = rows
    model = ridge().fit(X[:n], Y[:n])
    state, before = dict(vars(model)), model.predict(X)
    bad = X[n:].copy()
    bad[-1, 0] = np.nan
    for X_bad, Y_bad, message in (
        (bad, Y[n:], "contains NaN"),
        (X[n:, :1], Y[n:], "X has 1 features"),
        (X[n:], Y[n:, 0], "y has 1 outputs, but the rows so far have 2"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(X_bad, Y_bad)
    assert vars(model) == state
    np.testing.assert_array_equal(model.predict(X), before)


def test_nothing_is_copied_and_a_new_fit_lets_go(rows):
    X, Y, _ = rows
    mine = X.copy()
    model = ridge().fit(mine, Y)
    assert model._fit_data.X is mine
    gone = weakref.ref(mine)
    del mine
    model.fit(X, Y)
    assert gone() is None
    assert "_fit_data" not in vars(model.partial_fit(X, Y))


def test_rows_that_were_written_over_are_refused(rows):
    X, Y, _ = rows
    for name in ("X", "y", "sample_weight"):
        arrays = {"X": X[:600].copy(), "y": Y[:600].copy(), "sample_weight": np.ones(600)}
        model = ridge().fit(**arrays)
        arrays[name][:] = 0.5
        state = dict(vars(model))
        with pytest.raises(gm.InputError, match=f"the array {name} that fit was given has been changed"):
            model.partial_fit(X[600:], Y[600:])
        assert vars(model) == state


def test_pickles_copies_and_files_leave_the_rows_out(rows, tmp_path):
    X, Y, _ = rows
    model = ridge().fit(X, Y)
    assert len(pickle.dumps(model)) < X.nbytes + Y.nbytes + len(pickle.dumps(without(model)))
    save(model, tmp_path / "m.gramian")
    for other in (
        pickle.loads(pickle.dumps(model)),
        copy(model),
        deepcopy(model),
        load(tmp_path / "m.gramian"),
    ):
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
        with pytest.raises(gm.InputError, match="neither the rows of its fit nor their sums"):
            other.forget(0.5)
        with pytest.warns(UserWarning, match="partial_fit starts anew"):
            other.partial_fit(X[:50], Y[:50])
        assert other.n_rows_seen_ == 50
    assert "_fit_data" in vars(model)


def test_forgetting_and_merging_go_on_too(rows, landmarks):
    X, Y, weights = rows
    model = gm.KernelRidge(0.05, approximation=FrozenEstimator(landmarks), fit_intercept=True)
    faded = np.concatenate([0.5 * weights[:900], weights[900:]])
    expected = clone(model).fit(X, Y, faded).predict(X)
    one = clone(model).fit(X[:900], Y[:900], weights[:900]).forget(0.5)
    other = clone(model).fit(X[900:], Y[900:], weights[900:])
    state = dict(vars(other))
    assert np.abs(one.merge(other).predict(X) - expected).max() < 1e-9
    assert vars(other) == state
    waiting = ridge().fit(X[:300], Y[:300]).forget(0.5)
    assert waiting.n_rows_waiting_ == 300


def test_what_has_no_stream_still_has_none(rows):
    X, Y, _ = rows
    X, Y = X[:100], Y[:100]
    stored = gm.KernelRidge(kernel="precomputed", approximation="exact").fit(X @ X.T, Y)
    assert "_fit_data" not in vars(stored)
    exact = gm.KernelRidge(gamma=6.0, approximation="exact").fit(X, Y)
    for model, message in ((stored, "neither the rows"), (exact, "approximation='exact' solves with")):
        assert not hasattr(model, "partial_fit")
        with pytest.raises(gm.InputError, match=message):
            model.forget(0.5)
    # What "auto" has found may be given to a stream, which then takes the rows that it was found from.
    chosen = gm.KernelRidge(alpha="auto", gamma=6.0, random_state=0).fit(X, Y)
    assert not hasattr(chosen, "partial_fit")
    assert chosen.set_params(alpha=chosen.alpha_).partial_fit(X, Y).n_rows_seen_ == 200


def test_models_inside_of_others_hold_no_rows():
    rng = np.random.default_rng(0)
    X = rng.random((120, 3))
    pca = gm.KernelPCA(2, gamma=1.0, fit_inverse_transform=True).fit(X)
    assert "_fit_data" not in vars(pca.inverse_)
    table = gm.TabularRegressor(effort="fast", random_state=0).fit(X, X[:, 0])
    assert all("_fit_data" not in vars(found) for found in held_in(table, gm.KernelRidge))


def held_in(value, kind, seen=None):
    """Return all objects of a kind that an object refers to."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return []
    seen.add(id(value))
    parts = (
        value
        if isinstance(value, list | tuple)
        else vars(value).values()
        if hasattr(value, "__dict__")
        else ()
    )
    found = [one for part in parts for one in held_in(part, kind, seen)]
    return [value, *found] if isinstance(value, kind) else found


def halves(cut):
    return slice(0, cut), slice(cut, N)


def without(model):
    found = copy(model)
    vars(found).pop("_fit_data", None)
    return found


# ---- streams refuse what they would not read --------------------------------------------------------

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
