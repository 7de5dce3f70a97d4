"""TabularRegressor and TabularClassifier: what they learn, say and promise, on tables with a known answer."""

from __future__ import annotations

import copy
import pickle
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from clock import Clock
from sklearn.metrics import log_loss

import gramian as gm
from gramian._budget import parse_bytes
from gramian.engine import Engine, Run
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.summaries import shown_summary
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import AccuracyWarning, InputError
from gramian.fast.probabilities import Calibration
from gramian.metric.metric import Metric
from gramian.model_file.records import PartRecords
from gramian.operators.kernel import KernelOperator
from gramian.ridge.planning import plan_ridge
from gramian.tables import base as tabular_base
from gramian.tables import intervals
from gramian.tables.effort import EFFORTS
from gramian.tables.holdout import HoldOut
from gramian.tables.ridge_mean import RidgeMean, members_of, ridge_estimator
from gramian.tables.scoring import MappedTarget
from gramian.tables.search import Descent
from gramian.tables.small_problem import POWERS, Point, SmallProblem, Workspace
from gramian.tables.target import TargetTransform
from gramian.tables.training import boosting
from gramian.tables.training import fit as tabular_fit
from gramian.tables.training import logistic as tabular_logistic
from gramian.tables.training import member as tabular_member
from gramian.tables.training.model_factory import ModelFactory

#: Settings that are quick to compare.
QUICK: dict[str, Any] = {
    "kernel": "laplacian",
    "metric": "diagonal",
    "scaling": "standard",
    "random_state": 0,
    "include": (),
}
SMALL: dict[str, Any] = {"n_levels": 0, "n_units": 8, "n_directions": 2}


def mixed_table(n: int, seed: int = 0) -> tuple[Any, Any]:
    """A table of objects: a number with gaps, a category, a skewed number, a boolean; and its target."""
    rng = np.random.default_rng(seed)
    a, town = rng.random(n), rng.choice(["Bath", "Hull", "York"], n)
    table = np.empty((n, 4), object)
    table[:, 0], table[:, 1] = a, town
    table[:, 2], table[:, 3] = np.exp(rng.standard_normal(n)), rng.random(n) < 0.5
    table[::11, 0] = None
    y = np.where([cell is None for cell in table[:, 0]], 1.0, np.sin(5 * a)) + (town == "Hull")
    return table, y


@pytest.fixture(scope="module")
def fitted() -> tuple[Any, Any, Any]:
    table, y = mixed_table(600)
    return gm.TabularRegressor(**QUICK).fit(table, y), table, y


@pytest.fixture(scope="module")
def fitted_classes() -> tuple[Any, Any, Any]:
    table, y = mixed_table(600)
    labels = np.where(y > 1.5, "high", np.where(y < 0.7, "low", "middle"))
    return gm.TabularClassifier(**QUICK).fit(table, labels), table, labels


# ---- the search --------------------------------------------------------------------------------


def trial_error(model: Any, kernel: str) -> float:
    return min(trial.error for trial in model.search_.trials if trial.setting.kernel == kernel)


@pytest.mark.slow
def test_the_laplacian_wins_on_steps_along_columns() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((1500, 4))
    y = np.floor(4 * X[:, 0]) + 2.0 * (X[:, 1] > 0.5)
    model = gm.TabularRegressor(kernel=("laplacian", "gaussian"), scaling="standard", random_state=0).fit(
        X, y
    )
    assert model.search_.setting.kernel == "laplacian"
    assert trial_error(model, "laplacian") < trial_error(model, "gaussian")


@pytest.mark.slow
def test_the_gaussian_wins_on_a_smooth_function_of_rotated_columns() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 4))
    y = np.sin(X.sum(axis=1)) + (X @ [1.0, -1.0, 1.0, -1.0]) ** 2 / 4
    model = gm.TabularRegressor(kernel=("laplacian", "gaussian"), scaling="standard", random_state=0).fit(
        X, y
    )
    assert model.search_.setting.kernel == "gaussian"
    assert trial_error(model, "gaussian") < 0.1 * trial_error(model, "laplacian")
    assert model.metric_.matrix is not None  # it mixes the columns


@pytest.mark.parametrize("kernel", POWERS)
def test_a_judgement_is_that_of_a_dense_solve(kernel: str) -> None:
    rng = np.random.default_rng(1)
    rows, y, w = rng.standard_normal((30, 3)), rng.standard_normal((30, 2)), rng.random(30) + 0.5
    scales = np.array([1.0, 0.5, 2.0])
    target = MappedTarget(y, y)
    problem = SmallProblem(rows, y, w, 20, target.loss(slice(20, 30), w), (), (rows.min(0), rows.max(0)))
    point = Point(kernel, Metric(scales=scales, spreads=np.ones(3)), 1.7, 0.3)
    judged = problem.fit([(point, [0.3, 3.0])], Workspace())
    p, q = POWERS[kernel]
    distances = np.linalg.norm((rows[:, None] - rows[None]) * scales, ord=p, axis=2)
    K = np.exp(-((distances / 1.7) ** q))
    for each, alpha in zip(judged, (0.3, 3.0)):
        coefficients = np.linalg.solve(K[:20, :20] + np.diag(alpha / w[:20]), y[:20])
        wrong = y[20:] - K[20:, :20] @ coefficients
        variance = np.average(
            (y[20:] - np.average(y[20:], axis=0, weights=w[20:])) ** 2, axis=0, weights=w[20:]
        )
        expected = np.average(wrong**2, axis=0, weights=w[20:]).sum() / (2 * variance.mean())
        assert each.error == pytest.approx(expected, rel=5e-3)
        np.testing.assert_allclose(each.coefficients, coefficients, atol=1e-3)


def test_the_loss_is_the_relative_squared_error_in_the_targets_own_units() -> None:
    own = np.exp(np.linspace(0.0, 4.0, 40))[:, None]
    transform = TargetTransform.learn(own[:, 0], "log")
    mapped = transform.forward(own[:, 0])[:, None]
    weights = np.linspace(1.0, 2.0, 40)
    residuals = 0.1 * np.sin(np.arange(10.0))[:, None]
    guess = transform.backward((mapped[:10] - residuals)[:, 0])
    mean = np.average(own[:10, 0], weights=weights[:10])
    variance = np.average((own[:10, 0] - mean) ** 2, weights=weights[:10])
    expected = np.average((own[:10, 0] - guess) ** 2, weights=weights[:10]) / variance
    assert MappedTarget(mapped, own, transform).loss(slice(0, 10), weights)(residuals) == pytest.approx(
        expected
    )


def test_threads_do_not_change_the_result() -> None:
    table, y = mixed_table(300)
    one, two = (gm.TabularRegressor(**QUICK, n_jobs=n).fit(table, y) for n in (1, 2))
    np.testing.assert_allclose(one.predict(table), two.predict(table), rtol=1e-6, atol=1e-8)
    assert one.search_.setting == two.search_.setting


@pytest.mark.slow
def test_a_setting_without_a_learned_metric_says_so() -> None:
    table, y = mixed_table(300)
    model = gm.TabularRegressor(metric=None, random_state=0).fit(table, y)
    assert len(model.search_.trials) > 3
    assert {trial.metric for trial in model.search_.trials} == {None}


@pytest.mark.slow
def test_a_round_that_the_time_cuts_short_keeps_what_the_rounds_before_found(monkeypatch: Any) -> None:
    """The second round ends at once: the best of the first is still the best."""
    table, y = mixed_table(900)
    run, rounds = Descent.run, []

    def cut(self: Descent) -> bool:
        rounds.append(self.n_rows)
        if len(rounds) > 1:
            self.deadline = -np.inf
        return run(self)

    monkeypatch.setattr(Descent, "run", cut)
    with pytest.warns(AccuracyWarning, match="too short for the whole search"):
        found = gm.TabularRegressor(**{**QUICK, "scaling": "auto"}).fit(table, y).search_
    assert len(rounds) == 2
    assert not found.finished
    assert found.n_rows == rounds[0]
    assert found.best is not None
    assert found.best.error == min(trial.error for trial in found.trials)


def test_importances_find_two_of_ten_columns() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((800, 10))
    model = gm.TabularRegressor(**QUICK).fit(X, np.sin(6 * X[:, 3]) + X[:, 7] ** 2)
    shares = model.feature_importances_
    assert set(np.argsort(-shares)[:2]) == {3, 7}
    assert shares[[3, 7]].sum() > 0.95
    assert shares.sum() == pytest.approx(1.0)


# ---- the last fit ------------------------------------------------------------------------------


def test_sums_of_a_part_and_the_rest_are_those_of_one_fit() -> None:
    """The penalty is that which separate fits to the same part choose, and the end is the fit to all rows."""
    rng = np.random.default_rng(0)
    X = rng.random((3000, 3))
    y = np.sin(6 * X[:, 0]) + 0.3 * rng.standard_normal(3000)
    source = gm.data.source.ArraySource(X)
    point = Point("gaussian", Metric(scales=np.ones(3), spreads=np.ones(3)), 0.5, 1.0)
    asked: list[float] = []

    def loss(values: Any, held: Any) -> float:
        asked.append(float(np.mean((y[held] - values[:, 0]) ** 2)))
        return asked[-1]

    effort = EFFORTS["default"]
    labelled = LabelledRows(source, NumberTargets(y, 3000))
    resources = Run(25_000_000, Engine(1))
    fit = tabular_fit.last_fit(
        [ModelFactory(labelled, point, resources, 0, HoldOut(), effort)],
        loss,
        boost=False,
        learn=False,
        switched=(),
        rng=np.random.default_rng(0),
        deadline=np.inf,
    )
    assert len(fit.held) == 600
    assert float(np.mean((y[fit.held] - fit.values[:, 0]) ** 2)) == min(asked)
    # The same landmarks: those of the part's rows, with the sums of all.
    rest = np.setdiff1d(np.arange(3000), fit.held)
    again = gm.KernelRidge(
        fit.model.alpha,
        kernel=gm.Gaussian(0.5 / np.sqrt(2)),
        metric=point.metric,
        approximation=fit.model.approximation,
        fit_intercept=True,
        memory_budget="25MB",
        random_state=0,
        n_jobs=1,
    ).partial_fit(X[rest], y[rest])
    np.testing.assert_allclose(again._decision(X[fit.held]), fit.values, atol=1e-5)
    again.partial_fit(X[fit.held], y[fit.held])
    np.testing.assert_allclose(again.predict(X[:50]), fit.model.predict(X[:50]), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [gm.TabularRegressor, gm.TabularClassifier])
def test_where_memory_keeps_the_matrix_the_last_model_is_exact(kind: Any) -> None:
    import tracemalloc

    rng = np.random.default_rng(0)
    X = rng.random((4000, 3))
    y = np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1]) + 0.1 * rng.standard_normal(4000)
    target = y if kind is gm.TabularRegressor else np.digitize(y, [-0.4, 0.4])
    kind(**QUICK, n_jobs=1).fit(
        X[:3000], target[:3000]
    )  # imports modules and loops, which are no part of a fit
    tracemalloc.start()
    try:
        model = kind(**QUICK, memory_budget="60MB", n_jobs=1).fit(X, target)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60e6
    assert model.plan_.method == "exact"
    _, inner = members_of(model.model_)[0]
    assert inner.solution_.status.value == "converged"
    assert inner.solution_.residual <= 0.01
    rows = model.transform_rows(X)
    regression = kind is gm.TabularRegressor
    again = (gm.KernelRidge if regression else gm.KernelRidgeClassifier)(
        **{
            **inner.get_params(deep=False),
            "approximation": gm.Exact(solver="cholesky"),
            "memory_budget": "1GB",
        }
    )
    again.fit(rows, model.target_.forward(y) if regression else target)
    truth = again._decision(rows[:500])
    found = inner._decision(rows[:500])[:, : truth.shape[1]]  # beside them are a logistic model's
    assert np.sqrt(np.mean((found - truth) ** 2)) < 0.03 * truth.std()
    blocks = kind(**QUICK, memory_budget="40MB").fit(X, target)
    assert blocks.plan_.method == "multiresolution"
    assert model.score(X, target) > blocks.score(X, target) - 0.01


def factory_of(n: int, alpha: float, memory: str, weights: Any = None) -> ModelFactory:
    X = np.random.default_rng(0).random((n, 3))
    point = Point("laplacian", Metric(scales=np.ones(3)), 1.0, alpha)
    rows = LabelledRows(gm.data.ArraySource(X), NumberTargets(X[:, 0], n), weights)
    return ModelFactory(rows, point, Run(parse_bytes(memory), Engine(1)), 0)


def test_tiles_of_an_exact_model_suit_its_penalty() -> None:
    usual = factory_of(4000, 0.1, "60MB").exact_factory()
    assert usual is not None
    assert (usual.resources.tile_dtype, usual.point.alpha) == ("float32", 0.1)
    least = usual.least_float32
    raised = factory_of(4000, least / 5, "60MB").exact_factory()
    assert raised is not None
    assert (raised.resources.tile_dtype, raised.point.alpha) == ("float32", least)
    assert factory_of(4000, least / 20, "60MB").exact_factory() is None  # float64 needs twice as much
    fine = factory_of(4000, least / 20, "120MB").exact_factory()
    assert fine is not None
    assert (fine.resources.tile_dtype, fine.point.alpha) == ("float64", least / 20)
    weighted = factory_of(4000, 0.1, "60MB", np.full(4000, 10.0))
    assert weighted.least_float32 == 10 * least
    few = factory_of(2000, 1e-9, "40MB").exact_factory()
    assert few is not None
    assert few.exact_solver().solver == "cholesky"
    assert factory_of(2000, 1e-9, "30MB").exact_factory() is None


@pytest.mark.slow
def test_a_solve_is_finer_where_little_is_left_to_explain() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((3500, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1]
    errors = {}
    for noise in (0.3, 0.0):
        model = gm.TabularRegressor(**QUICK).fit(X, y + noise * rng.standard_normal(3500))
        assert model.plan_.method == "exact"
        _, inner = members_of(model.model_)[0]
        errors[noise] = inner.approximation.tol
    assert errors[0.3] == tabular_member.EXACT_TOL
    assert errors[0.0] < 0.1 * tabular_member.EXACT_TOL
    assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 0.01 * y.std()


@pytest.mark.slow
def test_beside_one_exact_model_the_second_is_of_blocks(monkeypatch: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((3500, 2))
    y = np.sin(8 * X[:, 0]) + np.floor(3 * X[:, 1]) + 0.3 * rng.standard_normal(3500)
    kept = []
    averaged = tabular_fit._average
    monkeypatch.setattr(tabular_fit, "_average", lambda *given: kept.append(given[0]) or averaged(*given))
    monkeypatch.setattr("gramian.tables.training.rounds.NEAR", 10.0)
    for memory, methods in (("50MB", ["exact", "multiresolution"]), ("100MB", ["exact", "exact"])):
        kept.clear()
        gm.TabularRegressor(**{**QUICK, "kernel": "auto"}, memory_budget=memory).fit(X, y)
        assert [each.model.plan.method for each in kept[0]] == methods
        assert all(
            ridge_estimator(each.setup, each.model).memory_budget == parse_bytes(memory) for each in kept[0]
        )


@pytest.mark.parametrize(
    ("gains", "n_members", "method"),
    [((1, 1), 2, "exact"), ((1, 0), 1, "exact"), ((0, 0), 1, "multiresolution")],
)
def test_large_models_are_those_that_small_ones_speak_for(
    monkeypatch: Any, gains: tuple[int, ...], n_members: int, method: str
) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((600, 2))
    y = np.sin(8 * X[:, 0]) + np.floor(3 * X[:, 1]) + 0.3 * rng.standard_normal(600)
    asked, averaged = [], tabular_fit._average

    def look(first: Any, others: Any, held: Any, loss: Any) -> tuple[tuple[float, float, bool], ...]:
        asked.append([first.shape, *(each.shape for each in others)])
        return tuple((float(gain), 0.5, bool(gain)) for gain in gains)

    monkeypatch.setattr(tabular_fit, "look", look)
    monkeypatch.setattr(tabular_fit, "_average", lambda *given: asked.append(given[0]) or averaged(*given))
    monkeypatch.setattr("gramian.tables.training.rounds.NEAR", 10.0)
    monkeypatch.setattr("gramian.tables.training.model_factory.EXACT_ROWS", 100)
    quick = {**QUICK, "kernel": "auto", "metric": "diagonal", "include": ("boosting",)}
    model = gm.TabularRegressor(**quick, memory_budget="40MB").fit(X, y)
    shapes, members = asked
    assert shapes == [(120, 1)] * 3
    assert [each.model.plan.method for each in members] == [method] * n_members
    assert model.contributions_.looks == tuple((float(gain), 0.5, bool(gain)) for gain in gains)
    assert f"{sum(gains) or 'none'} of 2 fitted large" in " ".join(str(model.summary()).split())


@pytest.mark.slow
def test_a_mean_of_two_kernels_is_served_kept_and_compressed(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((400, 2))
    y = np.sin(8 * X[:, 0]) + np.floor(3 * X[:, 1]) + 0.3 * rng.standard_normal(400)
    model = gm.TabularRegressor(include=(), random_state=0).fit(X, y)
    single = copy.deepcopy(model)
    other = gm.KernelRidge(0.1, gamma=1.0).fit(model.transform_rows(X), model.target_.forward(y))
    own = members_of(single.model_)[0][1]
    model.model_ = RidgeMean.of([other, own], [0.25, 0.75])
    expected = 0.25 * model.target_.backward(other.predict(model.transform_rows(X)))
    expected += 0.75 * model.target_.backward(
        members_of(single.model_)[0][1].predict(model.transform_rows(X))
    )
    np.testing.assert_allclose(model.predict(X), expected)  # the map of the target is a line
    gm.save(model, tmp_path / "mean.gramian")
    loaded = gm.load(tmp_path / "mean.gramian")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.model_.weights_.tolist() == [0.75, 0.25]
    assert "weight 0.75 in" in str(shown_summary(loaded))
    assert loaded.compress(X, **SMALL).score(X, y) > 0.3


@pytest.mark.slow
def test_many_rows_are_streamed_and_classes_of_one_row_stay_in_the_sums() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((3000, 3))
    labels = (X[:, 0] > 0.5).astype(int)
    labels[7] = 5
    model = gm.TabularClassifier(**QUICK, memory_budget="30MB").fit(X, labels)
    assert model.plan_.method == "multiresolution"
    assert model.score(X, labels) > 0.95
    assert model.predict_proba(X[:3]).shape == (3, 3)


@pytest.mark.slow
def test_rounds_of_few_rows_have_every_class(monkeypatch: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((3000, 3))
    labels = (X[:, 0] > 0.5).astype(int)
    labels[rng.choice(3000, 8, replace=False)] = 5 + np.arange(8) // 2
    monkeypatch.setitem(EFFORTS, "default", replace(EFFORTS["default"], round_rows=(500, 500)))
    drawn = []
    draw = ModelFactory.drawn
    monkeypatch.setattr(ModelFactory, "drawn", lambda *given: drawn.append(draw(*given)) or drawn[-1])
    model = gm.TabularClassifier(**QUICK).fit(X, labels)
    assert len(model.metric_rounds_) > 0
    assert all(500 <= len(each) <= 504 and len(set(labels[each])) == 6 for each in drawn)
    assert model.score(X, labels) > 0.95


@pytest.mark.slow
def test_nothing_is_tried_beyond_classes_that_are_told_apart(monkeypatch: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 2)) + 20.0 * rng.integers(0, 2, (3000, 1))
    tried = []
    best = tabular_member.best_penalty

    def counted(work: Any, *given: Any) -> Any:
        return best(lambda held, alpha: tried.append(alpha) or work(held, alpha), *given)

    monkeypatch.setattr(tabular_member, "best_penalty", counted)
    model = gm.TabularClassifier(**QUICK).fit(X, X[:, 0] > 10.0)
    assert len(model.metric_rounds_) == 1
    assert len(tried) == 1
    assert model.score(X, X[:, 0] > 10.0) == 1.0


@pytest.mark.slow
def test_many_rows_have_as_many_blocks_as_memory_holds() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((20_000, 4))
    point = Point("laplacian", Metric(scales=np.ones(4)), 1.0, 0.1)
    rows = LabelledRows(gm.data.ArraySource(X), NumberTargets(X[:, 0], len(X)))
    factory = ModelFactory(rows, point, Run(40_000_000, Engine(1)), 0)
    tight = factory.with_resources(memory_bytes=1, tile_dtype="float64")
    # Small steps, so that little memory is left unused, down to the least.
    least = []
    for each in factory.approximations:
        with pytest.raises(gm.BudgetError) as caught:
            plan_ridge(tight.setup(each), rows.source, 1)
        least.append(caught.value.least_bytes)
    ratios = np.array(least[2:-1]) / np.array(least[1:-2])
    assert (ratios > 0.7).all()
    assert (ratios < 1.0).all()
    assert [each.n_levels for each in factory.approximations[-2:]] == [2, 1]
    fits = [
        factory.plan(each, np.arange(20_000), streamed=True) is not None for each in factory.approximations
    ]
    assert fits == sorted(fits)
    assert factory.approximations[fits.index(True)].n_levels == 2


def test_weight_0_is_a_row_that_is_not_there() -> None:
    table, y = mixed_table(400)
    kept = np.arange(400) % 3 > 0
    table[~kept, 1] = "nowhere"
    weighted = gm.TabularRegressor(**QUICK).fit(table, y, kept.astype(float))
    alone = gm.TabularRegressor(**QUICK).fit(table[kept], y[kept], np.ones(kept.sum()))
    np.testing.assert_array_equal(weighted.predict(table), alone.predict(table))
    labels = np.where(y > 1, "b", "a")
    labels[~kept] = "c"
    classifier = gm.TabularClassifier(**QUICK).fit(table, labels, kept.astype(float))
    assert classifier.classes_.tolist() == ["a", "b", "c"]
    assert classifier.predict_proba(table)[:, 2].max() < 0.01
    assert "c" not in classifier.predict(table)


def test_class_weights_shift_the_boundary() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 2))
    labels = (X[:, 0] + rng.standard_normal(600) > 1.2).astype(int)
    plain = gm.TabularClassifier(**QUICK).fit(X, labels)
    balanced = gm.TabularClassifier(**QUICK, class_weight="balanced").fit(X, labels)
    assert balanced.predict(X).mean() > plain.predict(X).mean() + 0.1


def test_a_target_of_one_column_is_answered_by_one_column(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((200, 3))
    y = X[:, 0] + X[:, 1] ** 2
    flat = gm.TabularRegressor(**QUICK).fit(X, y)
    model = gm.TabularRegressor(**QUICK).fit(X, y[:, None])
    assert flat.predict(X).shape == (200,)
    assert model.predict(X).shape == (200, 1)
    assert (y[:, None] - model.predict(X)).shape == (200, 1)
    np.testing.assert_array_equal(model.predict(X)[:, 0], flat.predict(X))
    assert model.predict_interval(X, 0.8).shape == (200, 1, 2)
    fast = model.compress(X, y[:, None], **SMALL)
    for each in (model, fast):
        gm.save(each, tmp_path / "m.gramian")
        assert gm.load(tmp_path / "m.gramian").predict(X).shape == (200, 1)


# ---- intervals and probabilities ---------------------------------------------------------------


def test_intervals_cover_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((6000, 3))
    y = np.exp(np.sin(5 * X[:, 0]) + 0.5 * rng.standard_normal(6000))
    model = gm.TabularRegressor(**QUICK, target="log").fit(X[:2000], y[:2000])
    for coverage in (0.5, 0.9):
        ends = model.predict_interval(X[2000:], coverage)
        inside = (ends[:, 0] <= y[2000:]) & (y[2000:] <= ends[:, 1])
        # Of 400 held-out rows: the standard error of the coverage is 0.015 at 0.9 and 0.025 at 0.5.
        assert abs(inside.mean() - coverage) < (0.03 if coverage == 0.9 else 0.075)
        assert (ends[:, 0] <= model.predict(X[2000:])).all()


@pytest.mark.slow
def test_probabilities_are_those_of_the_held_out_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 2))
    p = 1.0 / (1.0 + np.exp(-2.0 * X[:, 0]))
    labels = np.where(rng.random(3000) < p, "yes", "no")
    model = gm.TabularClassifier(**QUICK).fit(X[:2000], labels[:2000])
    found = model.predict_proba(X[2000:])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    best = log_loss(labels[2000:], np.stack([1 - p, p], axis=1)[2000:], labels=model.classes_)
    assert log_loss(labels[2000:], found, labels=model.classes_) < best + 0.03
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X[:9])), model.predict_proba(X[:9]))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_predicted_class_is_the_likeliest(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    X = rng.standard_normal((900, 2))
    # Rare and noisy classes, of which an offset of the log odds would move the boundary.
    codes = (X[:, 0] + rng.standard_normal(900) > 1.3).astype(int) + (n_classes == 3) * (X[:, 1] > 1.0)
    labels = np.array(["a", "b", "c"])[codes]
    model = gm.TabularClassifier(**QUICK).fit(X[:300], labels[:300])
    for found in (model, model.compress(X[:300], labels[:300], **SMALL)):
        likeliest = found.classes_[found.predict_proba(X).argmax(axis=1)]
        np.testing.assert_array_equal(found.predict(X), likeliest)
        values = found.decision_function(X)
        largest = (values > 0).astype(int) if n_classes == 2 else values.argmax(axis=1)
        np.testing.assert_array_equal(found.predict(X), found.classes_[largest])


def test_of_classes_alike_the_first_is_predicted() -> None:
    X = np.array([[0.0], [0.0], [1.0], [1.0]])
    with pytest.warns(AccuracyWarning):
        model = gm.TabularClassifier(**QUICK).fit(X, ["b", "a", "a", "b"])
    p = model.predict_proba(X)
    np.testing.assert_allclose(p, 0.5)
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])


def test_a_calibration_is_the_likeliest_of_a_grid() -> None:
    rng = np.random.default_rng(0)
    values, codes = rng.uniform(-1.0, 1.0, (500, 3)), rng.integers(0, 3, 500)
    values[np.arange(500), codes] += 0.8
    found = Calibration.of_labels(values, codes, None)
    targets = np.full((500, 3), 0.1 / 500.3)
    targets[np.arange(500), codes] = 500.1 / 500.3

    def loss(slope: float, bend: float) -> float:
        return -float((targets * Calibration(slope, bend).log_probabilities(values)).sum())

    grid = [(slope, bend) for slope in np.linspace(0.0, 4.0, 41) for bend in np.linspace(0.0, 4.0, 41)]
    assert loss(found.slope, found.bend) <= min(loss(*pair) for pair in grid) + 1e-3
    assert Calibration.of_labels(np.zeros((0, 3)), np.zeros(0, np.intp), None) == Calibration(2.0, 0.0)


def noisy_classes(n: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    odds = 4.0 * X[:, 0] + 2.0 * X[:, 1] * X[:, 2]
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-odds)), "yes", "no")


def test_logistic_models_are_used_where_they_help_and_served_kept_and_compressed(tmp_path: Any) -> None:
    X, y = noisy_classes(500)
    new, wanted = noisy_classes(2_000, 1)
    model = gm.TabularClassifier(include=(), random_state=0).fit(X, y)
    assert model.calibration_.logistic > 0.0
    assert all(len(member.intercept_) == 2 for member in model.model_.members_)
    p = model.predict_proba(new)
    assert log_loss(wanted, p) < 0.9 * log_loss(wanted, np.broadcast_to([0.5, 0.5], p.shape))
    np.testing.assert_array_equal(model.predict(new), model.classes_[(p[:, 1] > 0.5).astype(int)])
    np.testing.assert_allclose(model.decision_function(new), np.log(p[:, 1] / p[:, 0]), atol=1e-6)
    gm.save(model, tmp_path / "classes.gramian")
    loaded = gm.load(tmp_path / "classes.gramian")
    np.testing.assert_array_equal(loaded.predict_proba(new), p)
    assert "log odds g of logistic models" in str(shown_summary(loaded))
    fast = loaded.compress(X, **SMALL)
    assert np.abs(fast.predict_proba(new) - p).mean() < 0.1


@pytest.mark.slow
def test_logistic_models_that_take_too_long_are_left_out(monkeypatch: Any) -> None:
    X, y = noisy_classes(300)
    monkeypatch.setattr(tabular_logistic, "MOST_WORK", 0.0)
    monkeypatch.setattr(tabular_logistic, "FOLD_WORK", 0.0)
    model = gm.TabularClassifier(random_state=0).fit(X, y)
    assert model.calibration_.logistic == 0.0
    assert model.score(X, y) > 0.7


def test_probabilities_of_separated_classes_are_not_timid() -> None:
    values = np.concatenate([np.linspace(0.5, 1.2, 100), np.linspace(-1.2, -0.5, 100)])[:, None]
    codes = np.repeat([1, 0], 100)
    p = np.exp(Calibration.of_labels(values, codes, None).log_probabilities(values))
    assert -np.log(p[np.arange(200), codes]).mean() < 1.0 / 1000  # a row of the wrong class: 1/200


# ---- fast models, files, shows -----------------------------------------------------------------


def test_compressed_regressor_stands_for_its_model(fitted: Any, tmp_path: Any) -> None:
    model, table, y = fitted
    fast = model.compress(table, y, **SMALL)
    assert fast.score(table, y) > 0.8
    assert fast.fit(table) is fast
    assert fast.cost_.nanoseconds > 0
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fast)).predict(table), fast.predict(table))
    gm.save(fast, tmp_path / "fast.gramian")
    loaded = gm.load(tmp_path / "fast.gramian")
    np.testing.assert_array_equal(loaded.predict(table), fast.predict(table))
    assert fast.predict(table[:0:-1]).shape == (599,)
    with pytest.raises(InputError, match="expecting 4 features"):
        fast.predict(np.ones((3, 2)))


@pytest.mark.slow
def test_compressed_classifier_stands_for_its_model(fitted_classes: Any, tmp_path: Any) -> None:
    model, table, labels = fitted_classes
    fast = model.compress(table, **SMALL)
    assert (fast.predict(table) == model.predict(table)).mean() > 0.8
    assert np.abs(fast.predict_proba(table) - model.predict_proba(table)).mean() < 0.15
    with pytest.raises(InputError, match="no row of class 'high'"):
        model.compress(table[labels != "high"], labels[labels != "high"], **SMALL)
    two = gm.TabularClassifier(**QUICK).fit(table, labels == "high")
    fast = two.compress(table, labels == "high", **SMALL)
    assert np.abs(fast.predict_proba(table) - two.predict_proba(table)).mean() < 0.15
    assert fast.decision_function(table).shape == (600,)


@pytest.mark.parametrize("kind", ["fitted", "fitted_classes"])
def test_model_files_give_the_same_model(kind: str, request: Any, tmp_path: Any) -> None:
    model, table, _ = request.getfixturevalue(kind)
    gm.save(model, tmp_path / "m.gramian")
    loaded = gm.load(tmp_path / "m.gramian")
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    assert loaded.search_.trials == model.search_.trials
    assert vars(loaded).keys() == vars(model).keys()
    assert str(shown_summary(loaded)) == str(shown_summary(model))
    if kind == "fitted":
        np.testing.assert_array_equal(loaded.predict_interval(table), model.predict_interval(table))
    else:
        np.testing.assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (lambda state: state["learned"].update(predict=1), "'predict' is not something that a Tabular"),
        (lambda state: state.update(n_features=3), r"have \(4, 8, 8\) columns; expected 3, 8 and 8"),
        (
            lambda state: state["learned"]["target_"]["parts"]["outputs"]["tuple"].clear(),
            "the model has 1 outputs, but 0 targets",
        ),
    ],
)
def test_a_file_whose_parts_do_not_fit_is_refused(fitted: Any, edit: Any, match: str) -> None:
    values = PartRecords({})
    header = values.write_model(fitted[0])
    edit(header)
    with pytest.raises(ValueError, match=match):
        values.read_model(header)


@pytest.mark.slow
def test_a_fitted_model_holds_no_training_rows_beside_those_of_its_predictor() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((6000, 1))
    model = gm.TabularRegressor(**QUICK, memory_budget="30MB").fit(X, X[:, 0])
    # The held-out rows have residuals, their spread and their predictions.
    assert len(pickle.dumps(model)) < len(pickle.dumps(model.model_)) + 70_000
    assert model.search_.best.coefficients.shape[0] == 0


def test_the_summary_says_what_was_chosen_and_left_out() -> None:
    table, y = mixed_table(400)
    table[:, 3] = 1.0
    model = gm.TabularRegressor(**QUICK, target="none").fit(table, y)
    text = str(shown_summary(model))
    for part in (
        "400 rows × 4 columns",
        "Column '3' is constant and is not used.",
        "important columns",
        "Laplacian(",
        "squared error",
        "intervals",
        "chosen",
        "not used: constant",
        "missing values",
        "3 categories",
        "standard",
    ):
        assert part in text, part
    assert "important columns" in model._repr_html_inner()
    with pytest.warns(AccuracyWarning, match="too few"):
        few = gm.TabularRegressor(**QUICK).fit(table[:4], y[:4])
    assert "nothing was compared" in str(shown_summary(few))
    assert "too few for a coverage of 90%" in str(shown_summary(few))


def test_transformed_rows_are_what_the_model_takes(fitted: Any) -> None:
    model, table, _ = fitted
    rows = model.transform_rows(table[:9])
    assert rows.shape == (9, len(model.columns_.feature_names))
    again = model.target_.backward(model.model_.predict(rows))
    np.testing.assert_allclose(again, model.predict(table[:9]))


# ---- limits ------------------------------------------------------------------------------------


def test_the_least_time_gives_the_cheapest_model_and_says_so() -> None:
    table, y = mixed_table(3000)
    with pytest.warns(AccuracyWarning, match="no setting was compared, the smallest model was fitted"):
        model = gm.TabularRegressor(**QUICK, time_limit=1e-6).fit(table, y)
    assert model.plan_.builder.root_rank == 100
    assert model.score(table, y) > 0.5
    with pytest.warns(AccuracyWarning, match="no setting was compared"):
        classes = gm.TabularClassifier(**QUICK, time_limit=1e-6).fit(table, y > 1)
    assert classes.score(table, y > 1) > 0.7


@pytest.mark.parametrize(
    ("n", "a_row", "limits"),
    [(500, 2e-5, (0.1, 1.0, 10.0)), pytest.param(50_000, 2e-6, (0.1, 1.0), marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("effort", list(EFFORTS))
def test_every_effort_keeps_every_limit(
    effort: str, n: int, a_row: float, limits: tuple[float, ...], monkeypatch: Any
) -> None:
    """By a clock that counted work moves: rows that are fitted, growing trees, products with K."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    clock = Clock(monkeypatch)
    clock.moved_by(SmallProblem, "fit", lambda problem, grids, *_: a_row * problem.n_fit * len(grids))
    clock.moved_by(ModelFactory, "fit", lambda _, __, numbers: a_row * len(numbers))
    clock.moved_by(ModelFactory, "add", lambda _, __, numbers, *___: a_row * len(numbers))
    clock.moved_by(boosting._Learner, "grow", lambda *_: 0.05)
    clock.moved_by(KernelOperator, "_product", lambda K, *_: 1e-9 * K.shape[0] ** 2)
    for limit in limits:
        began = clock.now
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
            model = gm.TabularRegressor(effort=effort, time_limit=limit, random_state=0, n_jobs=1).fit(X, y)
        assert clock.now - began <= 1.2 * limit + 0.5
        assert model.score(X, y) > 0.5
        assert np.isfinite(model.predict(X[:1])).all()
        with pytest.raises(InputError, match="0 sample"):
            model.predict(X[:0])


@pytest.mark.slow
def test_a_small_budget_works_and_one_too_small_says_the_least() -> None:
    import tracemalloc

    rng = np.random.default_rng(0)
    X = rng.random((20_000, 6))
    y = np.sin(5 * X[:, 0]) + X[:, 1]
    tracemalloc.start()
    try:
        model = gm.TabularRegressor(**QUICK, memory_budget="20MB", n_jobs=1).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6
    assert model.score(X, y) > 0.95
    with pytest.raises(gm.BudgetError, match="too small for the smallest model of 20,000 rows") as caught:
        gm.TabularRegressor(**QUICK, memory_budget="1kB").fit(X, y)
    least = caught.value.least_bytes
    assert gm.TabularRegressor(**QUICK, memory_budget=int(1.2 * least)).fit(X, y).score(X, y) > 0.9
    # Exact models of few rows give way to smaller ones.
    small = gm.TabularRegressor(**QUICK, memory_budget="10MB").fit(X[:2000], y[:2000])
    assert small.plan_.method == "multiresolution"


# ---- intervals, quantiles and sets ---------------------------------------------------------------


def test_the_sample_of_the_search_fits_into_the_budget() -> None:
    X = np.random.default_rng(0).random((3000, 40))
    model = gm.TabularRegressor(**{**QUICK, "memory_budget": "20MB"})
    model._learn_columns(X, None, np.random.default_rng(0), None)
    sample, _ = model._sample(3000, None, np.random.default_rng(0), HoldOut())
    copies = len(tabular_base.SCALINGS) * 3
    assert 8 * 40 * copies * len(sample) <= 20e6 / tabular_base.ROWS_MEMORY


def uneven(n: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return X, np.sin(5 * X[:, 0]) + (0.05 + 0.6 * X[:, 1]) * rng.standard_normal(n)


@pytest.mark.slow
def test_intervals_follow_the_errors_of_each_row(tmp_path: Any) -> None:
    X, y = uneven(600, 0)
    new, wanted = uneven(3_000, 1)
    model = gm.TabularRegressor(random_state=0).fit(X, y)
    assert model.spread_ is not None
    low, high = model.predict_interval(new).T
    inside = (low <= wanted) & (wanted <= high)
    calm, loud = new[:, 1] < 0.3, new[:, 1] > 0.7
    assert 0.85 < inside.mean() < 0.95
    assert min(inside[calm].mean(), inside[loud].mean()) > 0.82
    assert (high - low)[loud].mean() > 2.0 * (high - low)[calm].mean()
    quantiles = model.predict_quantiles(new, [0.1, 0.5, 0.9])
    assert quantiles.shape == (3_000, 3)
    assert (np.diff(quantiles, axis=1) > 0).all()
    below = (wanted[:, None] < quantiles).mean(axis=0)
    np.testing.assert_allclose(below, [0.1, 0.5, 0.9], atol=0.05)
    gm.save(model, tmp_path / "model.gramian")
    loaded = gm.load(tmp_path / "model.gramian")
    np.testing.assert_array_equal(loaded.predict_quantiles(new), quantiles)
    assert "width follows the row" in str(shown_summary(loaded))


@pytest.mark.slow
def test_errors_of_one_size_have_one_spread() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((500, 2))
    y = np.sin(5 * X[:, 0]) + 0.2 * rng.standard_normal(500)
    model = gm.TabularRegressor(random_state=0).fit(X, y)
    low, high = model.predict_interval(X).T
    assert model.spread_ is None or np.ptp(high - low) < 0.5 * (high - low).mean()


def test_quantiles_of_several_targets_and_wrong_ones() -> None:
    X, y = uneven(200, 0)
    model = gm.TabularRegressor(**QUICK).fit(X, np.stack([y, -y], axis=1))
    assert model.predict_quantiles(X[:4], [0.25, 0.75]).shape == (4, 2, 2)
    single = model.predict_quantiles(X[:4], 0.25)
    np.testing.assert_array_equal(single, model.predict_quantiles(X[:4], [0.25])[..., 0])
    for wrong, message in (
        ("0.5", r"quantiles='0\.5' is a string; give a list"),
        (None, "quantiles=None must be a list, tuple or array"),
        ([0.5, 1.0], r"quantiles=1\.0 must be a number between 0 and 1"),
        ([float("nan")], "must be a number between 0 and 1"),
        ([0.9999], r"quantiles: 0\.9999 needs 9999 held-out rows"),
        ([], "quantiles is empty"),
    ):
        with pytest.raises(InputError, match=message):
            model.predict_quantiles(X, wrong)


@pytest.mark.slow
def test_sets_of_classes_cover_as_often_as_asked(tmp_path: Any) -> None:
    X, y = noisy_classes(600)
    new, wanted = noisy_classes(3_000, 1)
    model = gm.TabularClassifier(random_state=0).fit(X, y)
    codes = np.searchsorted(model.classes_, wanted)
    sizes = []
    for coverage in (0.7, 0.9, 0.97):
        inside = model.predict_set(new, coverage)
        assert inside.shape == (3_000, 2)
        assert inside.any(axis=1).all()
        assert inside[np.arange(3_000), codes].mean() > coverage - 0.04
        sizes.append(inside.sum(axis=1).mean())
    assert sizes == sorted(sizes)
    gm.save(model, tmp_path / "model.gramian")
    np.testing.assert_array_equal(gm.load(tmp_path / "model.gramian").predict_set(new, 0.97), inside)
    with pytest.raises(InputError, match=r"coverage=1\.5 must be a number between 0 and 1"):
        model.predict_set(X, 1.5)
    with pytest.raises(InputError, match=r"coverage=0\.9999 needs 9999 held-out rows"):
        model.predict_set(X, 0.9999)


@pytest.mark.parametrize("estimator", [gm.TabularRegressor, gm.TabularClassifier])
@pytest.mark.slow
def test_efforts_search_more_or_less(estimator: Any) -> None:
    X, y = uneven(1_500, 0)
    y = y if estimator is gm.TabularRegressor else y > 0.5
    judged = {}
    for effort in ("fast", "default"):
        model = estimator(random_state=0, scaling="standard", effort=effort).fit(X, y)
        judged[effort] = model.search_.n_judged
        assert len(getattr(model.model_, "members_", [model.model_])) <= (2 if effort == "default" else 1)
        assert len(model.metric_rounds_) <= (6 if effort == "default" else 2)
        assert model.score(X, y) > 0.5
    assert judged["fast"] < judged["default"]
    with pytest.raises(InputError, match="effort='slow'"):
        estimator(effort="slow").fit(X, y)


def test_a_small_budget_learns_the_spread_from_fewer_rows(monkeypatch: Any) -> None:
    X, y = uneven(1_000, 0)
    monkeypatch.setattr(intervals, "BYTES", 10_000)  # of 300 rows
    model = gm.TabularRegressor(**QUICK).fit(X, y)
    assert model.spread_ is not None
    assert 250 < len(model.spread_.predictor.rows) < 350
    assert len(model.residuals_) == 1_000
    low, high = model.predict_interval(X).T
    assert 0.8 < ((low <= y) & (y <= high)).mean() < 0.97
