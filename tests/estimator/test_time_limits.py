"""Time limits, by a clock that work moves: what ends where it is, and what is left for the last model."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pytest
from clock import Clock
from threadpoolctl import threadpool_info, threadpool_limits

import gramian as gm
from gramian.compression.plan import Plan
from gramian.data.source import ArraySource
from gramian.engine import Engine, Run
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import NumberTargets
from gramian.exact import predictor
from gramian.exact.penalties import IterativeTrials
from gramian.exceptions import AccuracyWarning
from gramian.metric.metric import Metric
from gramian.metric.outer_product import outer_product
from gramian.ridge.sums import RidgeSums
from gramian.tables import base as tabular_base
from gramian.tables import input as tabular_input
from gramian.tables.input import rows_in_time
from gramian.tables.small_problem import Point, SmallProblem
from gramian.tables.training.model_factory import ModelFactory
from gramian.tables.training.rounds import time_small_fit
from gramian.tables.training.time import TimeEstimate

#: Rows on which reading is timed here.
READ_ROWS = 10_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def rows_and_target(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.random((n, 3))
    return X, np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1]) + 0.05 * rng.standard_normal(n)


def fitted(n: int, limit: float, clock: Clock, **options: Any) -> tuple[Any, float, str]:
    """Return a fitted regressor, the seconds on the clock, and what was warned of."""
    X, y = rows_and_target(n)
    began = clock.now
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = gm.TabularRegressor(
            kernel="gaussian", scaling="standard", random_state=0, n_jobs=1, time_limit=limit, **options
        ).fit(X, y)
    said = " ".join(str(one.message) for one in told if issubclass(one.category, AccuracyWarning))
    return model, clock.now - began, said


def slow_sums(clock: Clock, rate: float) -> None:
    """Let the sums of a row take ``rate`` seconds for each square of its features."""

    def seconds(sums: Any, features: Any, rows: Any, *_: Any) -> float:
        forest = features.forest
        width = max(forest.path_rank(node) + forest.ranks[node] for node in range(len(forest.ranks)))
        return rate * rows.shape[0] * width**2

    clock.moved_by(RidgeSums, "add_rows", seconds)
    clock.moved_by(SmallProblem, "_fitted", lambda *_: 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [6.0, 20.0, 60.0])
def test_the_last_model_takes_what_the_time_affords(clock: Clock, limit: float) -> None:
    """A full model of these rows would take some 30 seconds: 9,600 rows, 900 features, and the penalties."""
    slow_sums(clock, 4e-9)
    model, took, said = fitted(12_000, limit, clock, memory_budget="40MB")
    assert took <= 1.2 * limit + 2.0
    assert model.plan_.method == "multiresolution"
    assert model.plan_.n_levels == 2  # blocks, on some of the rows where need be, and not a root of 100
    X, y = rows_and_target(13_000)
    assert model.score(X[12_000:], y[12_000:]) > 0.9
    if "of 12,000 rows" in said:
        assert "Raise it" in said
        assert "drawn at random, to suit time_limit" in model.plan_.reason


@pytest.mark.repeat
@pytest.mark.slow
def test_more_time_gives_more(clock: Clock) -> None:
    slow_sums(clock, 4e-9)
    sizes = []
    for limit in (6.0, 20.0, 10_000.0):
        plan = fitted(12_000, limit, clock, memory_budget="40MB")[0].plan_
        sizes.append((plan.reason == "as large as memory and time allow", plan.root_rank + plan.rank))
    assert sizes == sorted(sizes)
    assert sizes[-1][0]
    assert sizes[0] < sizes[-1]


@pytest.mark.slow
def test_a_limit_that_ends_nothing_changes_nothing(clock: Clock) -> None:
    free, *_ = fitted(3_000, 1e6, clock, memory_budget="25MB")
    X, y = rows_and_target(3_000)
    same = gm.TabularRegressor(
        kernel="gaussian", scaling="standard", random_state=0, n_jobs=1, memory_budget="25MB"
    ).fit(X, y)
    np.testing.assert_allclose(free.predict(X[:50]), same.predict(X[:50]), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_exact_models_are_given_up_where_their_solves_take_too_long(clock: Clock) -> None:
    """Every product with K takes a second: the first penalty is cut, and blocks are fitted instead."""
    clock.moved_by(SmallProblem, "_fitted", lambda *_: 0.001)
    slow_sums(clock, 1e-12)
    from gramian.exact.system import ExactSystem

    clock.moved_by(ExactSystem, "fast", lambda *_: 1.0)
    model, took, _ = fitted(4_000, 10.0, clock)
    assert took <= 1.2 * 10.0 + 2.0
    assert model.plan_.method == "multiresolution"
    X, y = rows_and_target(5_000)
    assert model.score(X[4_000:], y[4_000:]) > 0.9


def test_the_pace_is_measured_by_a_part_of_the_time(clock: Clock) -> None:
    """A hundred outputs on 2,000 rows would take 16 of 20 seconds: 500 rows tell the pace as well."""
    rng = np.random.default_rng(0)
    X = rng.random((2_400, 3))
    factory = ModelFactory(
        LabelledRows(ArraySource(X), NumberTargets(rng.standard_normal((len(X), 100)), len(X))),
        Point("gaussian", Metric(scales=np.ones(3)), 0.5, 1.0),
        Run(100_000_000, Engine(1), "float64"),
        seed=0,
    )
    fits: list[int] = []

    def seconds(factory: Any, model: Any, numbers: Any) -> float:
        fits.append(len(numbers))
        return 0.0

    clock.moved_by(ModelFactory, "fit", seconds)
    clock.moved_by(predictor, "solve_exact", lambda system, *_, **__: 4e-6 * len(system) ** 2)
    time_small_fit(factory, np.arange(len(X)), TimeEstimate(clock.now + 20.0))
    assert fits == [500]
    time_small_fit(factory, np.arange(len(X)), TimeEstimate(clock.now + 2_000.0))
    assert fits == [500, 500, 2_000]


def test_blas_has_one_thread_under_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads would wait for each other on a busy machine, at each small matrix."""
    seen: list[int] = []
    real = tabular_base.last_fit

    def watched(*given: Any, **options: Any) -> Any:
        seen.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")
        return real(*given, **options)

    monkeypatch.setattr(tabular_base, "last_fit", watched)
    X, y = rows_and_target(100)
    with threadpool_limits(2, user_api="blas"):
        gm.TabularRegressor(kernel="gaussian", scaling="standard", time_limit=5.0, random_state=0).fit(X, y)
        after = [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
    assert set(seen) == {1}
    assert set(after) == {2}


@pytest.mark.slow
def test_solves_of_penalties_end_at_the_time(clock: Clock) -> None:
    X, y = rows_and_target(3_000)

    def trials(until: float) -> IterativeTrials:
        return IterativeTrials(
            gm.Laplacian(0.3),
            X[:2_500],
            X[2_500:],
            y[:2_500, None],
            None,
            Engine(1),
            np.float64,
            2**30,
            np.random.default_rng(0),
            tol=1e-10,
            deadline=until,
        )

    cut, whole = trials(clock.now), trials(np.inf)
    found, truth = cut.values(1e-3), whole.values(1e-3)
    assert cut.cut
    assert not whole.cut
    assert np.isfinite(found).all()
    assert np.linalg.norm(found - truth) > 1e-8 * np.linalg.norm(truth)


def test_a_judgement_ends_at_the_time_with_what_it_has(clock: Clock) -> None:
    X, y = rows_and_target(120)
    levels = X.min(axis=0), X.max(axis=0)
    problem = SmallProblem(X, y[:, None], None, 80, lambda r: float(np.mean(r**2)), (), levels)
    from gramian.tables.small_problem import Workspace

    clock.moved_by(SmallProblem, "_fitted", lambda *_: 1.0)
    point = Point("gaussian", Metric(scales=np.ones(3)), 0.5, 1.0)
    tries = [(point, (1.0, 0.1, 0.01)), (point, (0.5,))]
    assert len(problem.fit(tries, Workspace())) == 4
    assert len(problem.fit(tries, Workspace(), clock.now + 1.5)) == 2
    assert len(problem.fit(tries, Workspace(), clock.now - 1.0)) == 1


def test_an_outer_product_that_ends_early_is_an_average_of_fewer_rows() -> None:
    X = np.random.default_rng(0).random((4_000, 2))

    def linear(rows: np.ndarray) -> np.ndarray:
        return 3.0 * rows[:, :1] - rows[:, 1:]

    truth = [[9.0, -3.0], [-3.0, 1.0]]
    for until in (0.0, np.inf, time.perf_counter() + 1e6):
        np.testing.assert_allclose(outer_product(linear, X, deadline=until), truth, atol=1e-6)


def test_only_rows_that_can_be_read_are_taken(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular_input, "READ_ROWS", READ_ROWS)
    X = np.zeros((50_000, 2))
    codes = np.zeros(50_000, np.intp)
    codes[[7, 49_999]] = 1, 2
    took: list[float] = []

    def read(table: Any) -> None:
        clock.now += 1e-4 * table.shape[0]  # 5 seconds for all of them, each time
        took.append(clock.now)

    rng = np.random.default_rng(0)
    assert rows_in_time(X, np.inf, read, rng) is None
    assert rows_in_time(X, clock.now + 1e3, read, rng) is None
    some = rows_in_time(X, clock.now + 21.0, read, rng, lambda: codes)
    assert some is not None
    assert READ_ROWS <= len(some) <= 0.4 * 20.0 / 4e-4 + 3
    assert {7, 49_999} <= set(some.tolist())
    few = rows_in_time(X, clock.now, read, rng)
    assert few is not None
    assert 0.5 * READ_ROWS < len(few) <= READ_ROWS


@pytest.mark.slow
def test_slow_reading_uses_some_rows_and_says_so(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular_input, "READ_ROWS", READ_ROWS)
    from gramian.tables import EncodedRows

    X, y = rows_and_target(40_000)
    clock.moved_by(EncodedRows, "_encoded", lambda rows, where, n: 1e-4 * n)
    began = clock.now
    options = {"kernel": "gaussian", "scaling": "standard", "random_state": 0, "n_jobs": 1}
    with pytest.warns(AccuracyWarning, match=r"[\d,]+ of 40,000 rows were read, drawn at random"):
        model = gm.TabularRegressor(**options, time_limit=10.0, memory_budget="20MB").fit(X, y)
    assert clock.now - began <= 1.2 * 10.0 + 2.0
    assert model.score(X[:1000], y[:1000]) > 0.9
    with pytest.warns(AccuracyWarning, match="rows were read"):
        classes = gm.TabularClassifier(**options, time_limit=10.0, memory_budget="20MB").fit(
            X, np.where(np.arange(40_000) == 39_999, 2, y > 0)
        )
    assert classes.classes_.tolist() == [0, 1, 2]


def test_a_pace_goes_by_phase_and_method(clock: Clock) -> None:
    def plan(method: str, planned: dict[str, float], used: dict[str, float]) -> Plan:
        return Plan(method, None, 1, 1, 1, 1, 1, "float64", 1, 1, 1, {}, planned, 1, used_seconds=used)  # type: ignore[arg-type]

    pace = TimeEstimate(clock.now + 100.0)
    assert pace.seconds(plan("exact", {"solve": 2.0}, {})) == 2.0
    pace.note(plan("multiresolution", {"bases": 1.0, "sums": 1.0}, {"bases": 2.0, "sums": 8.0}))
    assert pace.seconds(plan("multiresolution", {"bases": 1.0, "sums": 10.0, "fold": 1.0}, {})) == 87.0
    assert pace.seconds(plan("exact", {"solve": 2.0}, {})) == 10.0
    pace.note(plan("exact", {"solve": 1.0}, {"solve": 3.0}))
    assert pace.seconds(plan("exact", {"solve": 2.0}, {})) == 6.0
    assert pace.part(0.25).left == 25.0
    clock.now += 101.0
    assert pace.is_over
    assert pace.left == 0.0
    assert not TimeEstimate(np.inf).limited
