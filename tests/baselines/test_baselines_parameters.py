"""Baselines as estimators: parameters, widths, targets, sources and summaries; models that files refuse."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp
from baselines import (
    AESVMClassifier,
    FastfoodLinearClassifier,
    FastfoodLinearRegressor,
    LDKLClassifier,
    NystromLinearClassifier,
    NystromLinearRegressor,
    ReducedSetClassifier,
)
from sklearn.base import clone, is_classifier

import gramian as gm
from gramian.data.source import as_source
from gramian.estimator.parameters import KernelParameters

pytestmark = pytest.mark.whole  # each configuration is about another class

RNG = np.random.default_rng(0)
X = RNG.random((60, 3)) * [1.0, 5.0, 2.0]
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(60) + 0.5
LABELS = np.where(X[:, 1] > 2.5, "<b>yes</b>", "no")
MODELS = [
    AESVMClassifier(random_state=0),
    FastfoodLinearClassifier(20, random_state=0),
    FastfoodLinearRegressor(20, random_state=0),
    LDKLClassifier(2, n_epochs=2, random_state=0),
    NystromLinearClassifier(10, random_state=0),
    NystromLinearRegressor(10, random_state=0),
    ReducedSetClassifier(5, n_starts=1, n_steps=2),
]
EVERY = pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
WITH_GAMMA = pytest.mark.parametrize(
    "model", [m for m in MODELS if "gamma" in m.get_params()], ids=lambda m: type(m).__name__
)
CLASSIFIER = pytest.mark.parametrize(
    "model", [m for m in MODELS if is_classifier(m)], ids=lambda m: type(m).__name__
)
REGRESSOR = pytest.mark.parametrize(
    "model", [m for m in MODELS if not is_classifier(m)], ids=lambda m: type(m).__name__
)


def target(model):
    return LABELS if is_classifier(model) else Y


def answer(model, rows):
    return model.decision_function(rows) if is_classifier(model) else model.predict(rows)


@EVERY
def test_wrong_values_are_refused_by_name_and_leave_the_model_as_it_was(model):
    fitted = clone(model).fit(X, target(model))
    for name in model.get_params():
        for value in (object(), "no such name", [0.5, "x"]):
            fitted.set_params(**{**model.get_params(), name: value})
            before = dict(vars(fitted))
            with pytest.raises(gm.InputError, match=re.escape(name)):
                fitted.fit(X, target(model))
            assert vars(fitted).keys() == before.keys()
            assert all(vars(fitted)[key] is kept for key, kept in before.items())


@EVERY
def test_numbers_out_of_range_are_refused_by_name(model):
    for name in model.get_params().keys() - {"random_state", "n_jobs", "loss", "form"}:
        with pytest.raises(gm.InputError, match=f"{name}=-1.* must be"):
            clone(model).set_params(**{name: -1}).fit(X, target(model))


@WITH_GAMMA
def test_gamma_scale_is_the_number_that_it_stands_for(model):
    gamma = KernelParameters(gamma="scale").settled(as_source(X)).gamma
    found, want = (
        answer(clone(model).set_params(gamma=value).fit(X, target(model)), X) for value in ("scale", gamma)
    )
    np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6)


@WITH_GAMMA
def test_one_width_for_columns_of_other_scales_is_warned_of(model):
    with pytest.warns(UserWarning, match=r"X differ in scale by a factor of.* Scale the columns first"):
        clone(model).set_params(gamma=1.0).fit(X * [1.0, 5e4, 1.0], target(model))


@EVERY
def test_other_sparse_formats_give_what_csr_gives(model):
    rows = np.where(X < 1.0, 0.0, X)
    want = answer(clone(model).fit(sp.csr_array(rows), target(model)), sp.csr_array(rows))
    for form in (sp.csc_matrix, sp.coo_array):
        found = answer(clone(model).fit(form(rows), target(model)), form(rows))
        np.testing.assert_array_equal(found, want)


@REGRESSOR
def test_scaled_targets_scale_the_answers(model):
    model = clone(model).set_params(gamma=0.5)
    expected = model.fit(X, Y).predict(X)
    for factor in (2.0**-20, 2.0**460, 2.0**-140, 2.0**-460):  # float32 does not hold the last two
        found = model.fit(X, factor * Y).predict(X)
        np.testing.assert_allclose(found / factor, expected, rtol=0, atol=1e-5, err_msg=str(factor))
    with pytest.raises(gm.InputError, match=r"y holds values of size up to .*e-170, other than 0.*Divide y"):
        model.fit(X, 1e-170 * Y)


@CLASSIFIER
def test_a_source_brings_its_own_target(model, tmp_path):
    np.savez(tmp_path / "rows.npz", X=X, y=LABELS)
    source = gm.open_data(tmp_path / "rows.npz", target="y")
    found, want = clone(model).fit(source), clone(model).fit(X, LABELS)
    np.testing.assert_array_equal(found.predict(X), want.predict(X))
    assert found.score(source) == want.score(X, LABELS)


@CLASSIFIER
def test_a_summary_names_the_classes(model):
    summary = clone(model).fit(X, LABELS).summary()
    assert dict(summary.facts)["classes"] == "2: <b>yes</b>, no"
    assert summary.warnings == ()


def test_model_files_refuse_them(tmp_path):
    with pytest.raises(
        gm.InputError, match=r"the model is NystromLinearClassifier; .*Save other models with"
    ):
        gm.save(NystromLinearClassifier(10).fit(X, LABELS), tmp_path / "m.gramian")
