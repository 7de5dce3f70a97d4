"""Single rows: plain arrays against the batched predictor, the loops as Python and as numba compiles them."""

from __future__ import annotations

import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from fast_models import MAKERS, X, assert_agree, kinds, model, rounding, rows_of, sizes, wave
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import gramian as gm
from gramian.exceptions import InputError, MissingPackageError
from gramian.fast.cost import dummy
from gramian.fast.learning.distill import Shape
from gramian.fast.serving import compiled
from gramian.fast.serving.compiled import (
    SingleRow,
    UncompiledRow,
    available,
    compiled_loops,
    loops,
    single_row,
)
from gramian.fast.serving.flat import flatten
from gramian.fast.serving.predictor import FEW, bumps_in_place, denominators

needs_numba = pytest.mark.skipif(not available(), reason="numba is not installed")
#: Levels, units and directions: no leaves, stages of one, two and three, no units.
SHAPES = [Shape(0, 5, 3), Shape(1, 3, 1), Shape(4, 2, 2), Shape(6, 3, 2), Shape(9, 1, 2), Shape(3, 0, 2)]


def made_up(shape, outputs):
    return dummy(shape, 6, outputs, np.random.default_rng(3)).astype(np.dtype(np.float64))


def by_definition(flat, x):
    """Return f(x) of plain arrays as their docstring says."""
    if flat.center is not None:
        x = x - flat.center
    z = x @ flat.projection - flat.offset
    node = 0
    for _ in range(flat.levels):
        node = 2 * node + (2 if flat.planes[node] @ np.append(z, 1.0) > 0 else 1)
    leaf = node - (2**flat.levels - 1)
    form = np.concatenate([z, [1.0], z * z]) @ flat.forms[leaf]
    return (1.0 / np.maximum(1.0, form[: flat.n_units])) @ flat.weights[leaf] + form[flat.n_units :]


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_plain_arrays_and_loops_are_the_predictor(shape, outputs):
    predictor = made_up(shape, outputs)
    flat = flatten(predictor, 2.0, np.arange(outputs))
    sizes_ = (flat.n_features, flat.n_directions, flat.levels, flat.n_units, flat.n_outputs)
    assert sizes_ == (6, shape.n_directions, shape.n_levels, shape.n_units, outputs)
    assert flat.n_leaves == 2**shape.n_levels
    expected = 2.0 * predictor(X[:40].astype(np.float64)) + np.arange(outputs)
    parts = (flat.projection, flat.offset, flat.planes, flat.forms, flat.weights)
    numbers = np.concatenate([part.ravel() for part in parts])
    for x, value in zip(X.astype(np.float64), expected):
        np.testing.assert_allclose(by_definition(flat, x), value, atol=1e-10)
        out = np.empty(outputs)
        loops(x, numbers, np.array(sizes_), out)
        np.testing.assert_allclose(out, value, atol=1e-10)


def test_scaling_moves_into_the_projection():
    flat = flatten(made_up(Shape(2, 3, 2), 2))
    mean, scale = np.array([1.0, -2.0, 0.5, 0.0, 3.0, 0.0]), np.array([2.0, 0.5, 3.0, 1.0, 1.0, 9.0])
    centers = replace(flat, center=np.arange(6.0))
    for before, deviation in ((flat, scale), (flat, 0.01 * scale), (centers, scale)):
        after = before.after_scaling(mean, scale, deviation)
        assert (after.center is None) == (before is flat and deviation is scale)
        for x in X[:20].astype(np.float64):
            found = by_definition(after, x)
            np.testing.assert_allclose(found, by_definition(before, (x - mean) / scale), atol=1e-9)


def test_float16_is_computed_in_float32():
    assert flatten(made_up(Shape(1, 2, 2), 1).astype(np.dtype(np.float16))).dtype == np.float32


@pytest.mark.slow
@needs_numba
@pytest.mark.parametrize("name", [name for name in MAKERS if name != "scaled"])
def test_predict_one_is_predict(name):
    fitted, expected = model(name), model(name).predict(rows_of(name))
    found = [fitted.predict_one(x) for x in rows_of(name)]
    assert {type(value) for value in found} == {type(expected[0])}
    if hasattr(fitted, "classes_"):
        np.testing.assert_array_equal(found, expected)
    else:
        assert_agree(np.array(found), expected, rounding(name))


@pytest.mark.slow
@needs_numba
def test_compiled_values_are_those_of_the_batch():
    for outputs in (1, 3):
        for shape in SHAPES:
            predictor = made_up(shape, outputs).astype(np.dtype(np.float32))
            one = SingleRow(flatten(predictor))
            assert_agree(np.array([one(x) for x in X[:100]]), predictor(X[:100]))


@needs_numba
def test_rows_of_any_kind_are_taken():
    fitted, x = model("one leaf"), X[3]
    frozen = x.copy()
    frozen.setflags(write=False)
    strided = np.repeat(x, 2)[::2]
    kinds_of_row = (x.tolist(), tuple(x.tolist()), x.astype(np.float64), x[None], frozen, strided)
    assert {fitted.predict_one(row) for row in kinds_of_row} == {fitted.predict_one(x)}


@pytest.mark.parametrize("numba", [pytest.param(True, marks=needs_numba), False])
def test_rows_of_another_length(numba, monkeypatch):
    monkeypatch.setattr(compiled, "available", lambda: numba)
    fitted = copy.deepcopy(model("two classes"))
    for wrong in ([1.0, 2.0], X[:2], []):
        with pytest.raises(InputError, match=r"but the model was fitted with 6 features"):
            fitted.predict_one(wrong)
    with pytest.raises(NotFittedError):
        gm.FastKernelClassifier().predict_one(X[0])


@pytest.mark.parametrize("name", ["two classes", "names", "one leaf", "two targets"])
def test_without_numba_a_row_is_predicted_by_numpy(name, monkeypatch):
    monkeypatch.setattr(compiled, "available", lambda: False)
    fitted = copy.deepcopy(model(name))
    found = [fitted.predict_one(x) for x in X[:50]]
    assert type(single_row(fitted.predictor_)) is UncompiledRow
    expected = model(name).predict(X[:50])
    assert {type(value) for value in found} == {type(expected[0])}
    if expected.dtype.kind == "f":
        assert_agree(np.array(found), expected, rounding(name))
    else:
        np.testing.assert_array_equal(found, expected)


def test_the_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gramian._loops", None)
    compiled_loops.cache_clear()
    with pytest.raises(MissingPackageError, match=r"pip install 'gramian\[jit\]'"):
        SingleRow(flatten(made_up(Shape(0, 1, 1), 1)))
    compiled_loops.cache_clear()


@needs_numba
def test_copies_pickles_and_clones_hold_no_compiled_code():
    fitted = gm.FastKernelRegressor(wave, **sizes(1, 2, 2)).fit(X, wave(X))
    before = set(vars(fitted))
    answer = fitted.predict_one(X[0])
    assert set(vars(fitted)) == before
    for again in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted), copy.copy(fitted)):
        assert not again.predictor_.kept or again.predictor_ is fitted.predictor_
        assert again.predict_one(X[0]) == answer
    assert not hasattr(clone(fitted), "predictor_")


@needs_numba
def test_a_new_fit_is_compiled_anew():
    fitted = gm.FastKernelRegressor(wave, **sizes(1, 2, 2)).fit(X, wave(X))
    fitted.predict_one(X[0])
    fitted.set_params(teacher=lambda rows: kinds(rows)[:, 1]).fit(X, kinds(X)[:, 1])
    assert_agree(np.atleast_1d(fitted.predict_one(X[0])), fitted.predict(X[:1]))
    assert single_row(fitted.predictor_) is single_row(fitted.predictor_)


@needs_numba
def test_threads_may_share_a_model():
    fitted, expected = model("two targets"), model("two targets").predict(X)
    with ThreadPoolExecutor(4) as pool:
        found = np.array(list(pool.map(fitted.predict_one, X)))
    assert_agree(found, expected, rounding("two targets"))


@needs_numba
def test_large_targets_keep_their_digits():
    targets = 1e6 + wave(X).astype(np.float64)
    fitted = gm.FastKernelRegressor(lambda rows: 1e6 + wave(rows), **sizes(0, 4, 3)).fit(X, targets)
    found = np.array([fitted.predict_one(x) for x in X[:100]])
    np.testing.assert_allclose(found, fitted.predict(X[:100]), rtol=0, atol=1e-4)


# ---- units of fast models ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("many", [False, True])
def test_bumps_are_reciprocals_that_exceed_one_nowhere(dtype, many):
    special = np.array([1.0, 1.0 - 1e-4, -3.0, 0.0, np.inf, -np.inf, np.nan, 4.0, 1e37], dtype)
    found = np.tile(special, FEW if many else 1)
    bumps_in_place(found)
    expected = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 1.0, np.nan, 0.25, dtype(1) / dtype(1e37)], dtype)
    np.testing.assert_array_equal(found, np.tile(expected, FEW if many else 1))
    # A parent's slice, as the engine passes it, is written in place.
    whole = np.full((3, 4), 2.0, dtype)
    bumps_in_place(whole[:2])
    np.testing.assert_array_equal(whole, [[0.5] * 4] * 2 + [[2.0] * 4])


def test_denominators_are_one_plus_the_scaled_square_distance():
    rng = np.random.default_rng(0)
    centers, log_scales, z = rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), rng.normal(size=(9, 3))
    terms = np.column_stack([z, np.ones(9), z**2])
    expected = [
        [1.0 + sum((np.exp(s) * (a - c)) ** 2 for s, a, c in zip(scales, row, center, strict=True))
         for center, scales in zip(centers, log_scales, strict=True)]
        for row in z
    ]  # fmt: skip
    np.testing.assert_allclose(terms @ denominators(centers, log_scales).T, expected, rtol=1e-12)
