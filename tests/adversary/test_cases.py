"""A hundred random configurations of one seed, each with all of its laws; and that the laws can fail."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

import gramian as gm
from adversary.cases import CONTAINERS, Case, close_files, put, script
from adversary.draw import SHARES, draw
from adversary.judge import judged
from adversary.laws import LAWS, check, laws_of
from adversary.shrink import shrink
from adversary.trial import Broken

SEED, COUNT = 1, 100


@pytest.fixture(autouse=True, scope="module")
def _files():
    yield
    close_files()


@pytest.mark.parametrize("number", range(COUNT), ids=lambda k: f"{k}-{draw(SEED, k).estimator}")
def test_case(number):
    if draw(SEED, number).container == "frame":
        pytest.importorskip("pandas")
    verdict = judged(SEED, number)
    for failure in verdict.failures:
        print(script(failure.case, failure.law, failure.text))
    assert not verdict.failures, "; ".join(f"{f.law}: {f.text}" for f in verdict.failures)


def test_a_case_prints_as_what_makes_it():
    for number in range(30):
        case = draw(SEED, number)
        assert eval(repr(case), {"Case": Case}) == case
        assert compile(script(case, "fits", "text with 'quotes' and \"quotes\""), "script", "exec")


def test_every_container_holds_the_same_rows():
    X = Case("KernelRidge", n=7, d=3).X
    without_pandas = find_spec("pandas") is None
    for kind in CONTAINERS:
        if kind == "frame" and without_pandas:
            continue
        held = put(X, kind)
        if kind == "source":
            held = held.rows(slice(0, 7))
        held = held.toarray() if hasattr(held, "toarray") else np.asarray(held)
        np.testing.assert_array_equal(held, X)
    close_files()


def test_every_estimator_and_law_is_drawn():
    drawn = [draw(SEED, number) for number in range(1500)]
    assert {name for name in SHARES if name != "approximation"} <= {case.estimator for case in drawn}
    assert {law for case in drawn for law in laws_of(case)} == set(LAWS)


@pytest.mark.parametrize("factor", [1.01, 1.0 + 1e-6])
def test_a_penalty_that_is_a_little_wrong_is_noticed(monkeypatch, factor):
    case = Case("KernelRidge", (("alpha", "0.1"), ("gamma", "0.5")), n=60)
    check(case, "ridge is dense ridge")
    right = gm.KernelRidge._penalty
    monkeypatch.setattr(gm.KernelRidge, "_penalty", lambda self: factor * right(self))
    with pytest.raises(Broken, match="times the tolerance"):
        check(case, "ridge is dense ridge")


def test_weights_that_are_ignored_are_noticed(monkeypatch):
    case = Case("KernelRidge", (("gamma", "0.5"),), n=40, weights="whole")
    right = gm.KernelRidge.fit
    monkeypatch.setattr(gm.KernelRidge, "fit", lambda self, X, y, sample_weight=None: right(self, X, y))
    for law in ("ridge is dense ridge", "weights are repeats"):
        with pytest.raises(Broken):
            check(case, law)


def test_a_seed_that_is_not_used_is_noticed(monkeypatch):
    case = Case("Nystrom", (("rank", "5"), ("landmarks", "'uniform'")), n=40)
    right, fits = gm.Nystrom.fit, iter(range(100))

    def fit(self, X, y=None):
        return right(self.set_params(random_state=next(fits)), X)

    monkeypatch.setattr(gm.Nystrom, "fit", fit)
    with pytest.raises(Broken, match="after a refit differs"):
        check(case, "refitted")


def test_shrinking_keeps_the_failure_and_drops_the_rest(monkeypatch):
    right = gm.KernelRidge.predict
    monkeypatch.setattr(gm.KernelRidge, "predict", lambda self, X: right(self, X) + (self.alpha == 100.0))
    case = replace(draw(SEED, 9), estimator="KernelRidge", target="number", n=90, d=4, container="array")
    case = replace(case, parameters=(("kernel", "'cauchy'"), ("alpha", "100.0"), ("fit_intercept", "True")))
    small = shrink(case, "ridge is dense ridge")
    assert small.parameters == (("alpha", "100.0"),)
    assert (small.n, small.d, small.rows, small.weights) == (1, 1, "plain", "none")
