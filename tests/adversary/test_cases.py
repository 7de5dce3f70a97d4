"""A hundred random configurations of one seed, each with all of its laws; and that the laws can fail."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

import gramian as gm
from adversary import references
from adversary.cases import CONTAINERS, Case, close_files, put, script
from adversary.draw import SHARES, draw
from adversary.judge import judged
from adversary.laws import LAWS, check, laws_of
from adversary.shrink import shrink
from adversary.trial import Broken
from gramian.ridge import training

SEED, COUNT = 1, 100
#: Cases beyond the first hundred that failed once: (seed, number). They are run with the slow tests.
ONCE = [(1, k) for k in (219, 633, 673, 1271, 1367, 1739, 1856, 2122, 2301, 2679, 3438, 3967, 4973, 5804)]
ONCE += [(5, 879), (5, 1279)]
ONCE += [(34, k) for k in (82, 389, 401, 412, 434, 1267, 1332, 1401, 1950, 1952, 7687)]


@pytest.fixture(autouse=True, scope="module")
def _files():
    yield
    close_files()


@pytest.mark.parametrize(
    ("seed", "number"),
    [
        *((SEED, number) for number in range(COUNT)),
        *(pytest.param(*case, marks=(pytest.mark.slow, pytest.mark.whole)) for case in ONCE),
    ],
    ids=lambda value: str(value),
)
def test_case(seed, number):
    if draw(seed, number).container == "frame":
        pytest.importorskip("pandas")
    verdict = judged(seed, number)
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
    right = training.solve_ridge

    def wrong(features, sums, alpha, engine):
        return right(features, sums, factor * alpha, engine)

    monkeypatch.setattr(training, "solve_ridge", wrong)
    with pytest.raises(Broken, match="times the tolerance"):
        check(case, "ridge is dense ridge")


def test_a_variance_that_is_a_little_wrong_is_noticed(monkeypatch):
    options = (("gamma", "0.5"), ("noise", "0.1"), ("optimizer", "None"))
    case = Case("GaussianProcessRegressor", options, n=40, d=3)
    check(case, "posterior")
    right = gm.GaussianProcessRegressor.predict

    def predict(self, X, return_std=False):
        found = right(self, X, return_std=return_std)
        return (found[0], 1.0001 * found[1]) if return_std else found

    monkeypatch.setattr(gm.GaussianProcessRegressor, "predict", predict)
    with pytest.raises(Broken, match="the variance"):
        check(case, "posterior")


@pytest.mark.slow
@pytest.mark.parametrize("intercept", [True, False])
def test_the_least_hinge_objective_is_that_of_a_long_descent(intercept):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), np.sign(rng.standard_normal(40))
    K, cost = X @ X.T, rng.uniform(0.1, 2.0, 40)
    found = references.hinge_bound(K, y, cost, intercept)
    beta, b, best = np.zeros(3), 0.0, np.inf
    for step in 1.0 / np.sqrt(1.0 + np.arange(20_000)):
        values = X @ beta + b
        best = min(best, cost @ np.maximum(1 - y * values, 0) + 0.5 * beta @ beta)
        active = cost * y * (y * values < 1)
        beta = beta - 0.02 * step * (beta - X.T @ active)
        b = b + 0.02 * step * active.sum() * intercept
    assert found <= best * (1 + 1e-9)
    assert best <= found * 1.001


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
