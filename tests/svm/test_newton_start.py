"""Newton's method for losses: starts from samples, and the gap that float32 tiles leave."""

from __future__ import annotations

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from pairs import pairs

import gramian as gm
from gramian.approximations.multiresolution import MultiResolutionBuilder
from gramian.compression.costs import Workload
from gramian.compression.plan import make_plan
from gramian.data.source import as_source
from gramian.engine import Engine, Run
from gramian.estimator.labelled import LabelledRows
from gramian.exceptions import AccuracyWarning
from gramian.solvers.newton import Minimum
from gramian.solvers.newton_system import NewtonPoint
from gramian.solvers.solution import Status
from gramian.svm import newton_check, newton_training
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


# ---- the gap that float32 tiles leave ---------------------------------------------------------------

LOSSES = {
    "epsilon": (gm.KernelSVR(), lambda y, f: np.maximum(np.abs(y - f) - 0.1, 0.0)),
    "squared epsilon": (
        gm.KernelSVR(loss="squared_epsilon_insensitive"),
        lambda y, f: np.maximum(np.abs(y - f) - 0.1, 0.0) ** 2,
    ),
    "hinge": (gm.KernelSVC(loss="hinge"), lambda y, f: np.maximum(1.0 - y * f, 0.0)),
    "squared hinge": (gm.KernelSVC(), lambda y, f: np.maximum(1.0 - y * f, 0.0) ** 2),
    "logistic": (gm.KernelLogisticRegression(), lambda y, f: np.logaddexp(0.0, -y * f)),
}
#: Rows, features, offset, kernel, C; and whether float32 misses by so much that it has to be said.
TABLES = {
    "far": ((20, 20, 100.0, "linear", 0.5), True),
    "farther": ((300, 5, 1000.0, "linear", 0.5), True),
    "powers": ((300, 5, 10.0, "poly", 0.5), True),
    "near": ((300, 5, 0.0, "linear", 0.5), False),
    "gaussian": ((300, 5, 0.0, "rbf", 100.0), False),
}


def objective(model, X, y, loss):
    """C Σ ℓ + ‖f‖²/2 of what the model serves, its coefficients read off the predictor."""
    (Z,), ((weights,),) = model.predictor_.landmarks, model.predictor_.weights
    kernel, weights = model.kernel_, weights.astype(np.float64)
    f = kernel(X, Z, dtype=np.float64) @ weights + model.intercept_
    norm = float(np.vdot(weights, kernel(Z, dtype=np.float64) @ weights))
    return model.C * float(loss(y, f[:, 0]).sum()) + 0.5 * norm


@pytest.mark.parametrize(("name", "table"), pairs(LOSSES, TABLES))
def test_the_gap_of_float32_tiles_is_that_of_the_true_objective(name, table):
    (n, d, offset, kernel, C), coarse = TABLES[table]
    model, loss = LOSSES[name]
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, d)) + offset, rng.standard_normal(n)
    y = y if isinstance(model, gm.KernelSVR) else np.sign(y)
    options = {"C": C, "kernel": kernel}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        best = objective(type(model)(**{**model.get_params(), **options}).fit(X, y), X, y, loss)
    short = type(model)(**{**model.get_params(), **options, "tile_dtype": "float32"})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", AccuracyWarning)
        short.fit(X, y)
    reached = objective(short, X, y, loss)
    left = (reached - best) / reached
    # The model serves coefficients that were rounded to float32 after the gap was computed.
    assert short.solution_.residual >= 0.5 * left - 1e-4
    assert short.solution_.residual <= 10.0 * left + newton_check.FLOAT32_GAP
    if short.solution_.residual > newton_check.FLOAT32_GAP:
        assert short.solution_.status is Status.LIMIT
        assert len(told) == 1
    if coarse and "logistic" not in name:
        assert left > 1e-3
    if not coarse:
        assert not told
        assert short.solution_.residual < 1e-4


@pytest.mark.parametrize(
    "approximation",
    [gm.Nystrom(rank=60), gm.MultiResolution(rank=20, n_blocks=4), gm.MEKA(rank=20, n_blocks=4)],
)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_gap_of_other_approximations(approximation, loss):
    rng = np.random.default_rng(1)
    X = rng.random((400, 3)).astype(np.float32)
    y = np.sin(7 * X[:, 0]) + X[:, 1] > 0.6
    found = {}
    for dtype in ("float32", "float64"):
        model = gm.KernelSVC(
            C=10.0, loss=loss, gamma=3.0, approximation=approximation, tile_dtype=dtype, random_state=0
        ).fit(X, y)
        found[dtype] = model.solution_
    assert found["float32"].status is Status.CONVERGED
    assert found["float32"].residual < 1e-4


def test_classes_that_are_coupled_or_apart():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((200, 4)) + 1000.0
    y = (X[:, :3] - 1000.0).argmax(axis=1)
    for model in (gm.KernelLogisticRegression(), gm.KernelSVC(), gm.KernelSVC(loss="hinge")):
        model.set_params(kernel="linear", tile_dtype="float32")
        with pytest.warns(AccuracyWarning):
            model.fit(X, y)
        assert model.solution_.residual > newton_check.FLOAT32_GAP


def test_a_random_map_keeps_the_gap_of_its_own_numbers():
    X = np.random.default_rng(3).random((200, 3))
    y = X[:, 0] > 0.5
    model = gm.KernelSVC(approximation="randomfourier", tile_dtype="float32", random_state=0).fit(X, y)
    assert model.solution_.residual < 1e-5


def test_the_bases_that_there_are_show_rounding_too(monkeypatch):
    """Where the budget holds no second whitening, the directions that float32 left out do not count."""
    X = np.random.default_rng(0).standard_normal((20, 20)) + 100.0
    y = np.random.default_rng(1).standard_normal(20)
    found = []
    for squares in (newton_check.SQUARES, 1e9):
        monkeypatch.setattr(newton_check, "SQUARES", squares)
        with pytest.warns(AccuracyWarning, match="in float64 the objective is .* Pass tile_dtype='float64'"):
            model = gm.KernelSVR(0.5, kernel="linear", tile_dtype="float32").fit(X, y)
        found.append(model.solution_.residual)
    assert min(found) > newton_check.FLOAT32_GAP


def test_the_check_makes_no_copy_of_the_bases():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2_000, 4))
    builder = MultiResolutionBuilder(root_rank=200, rank=100, n_blocks=6)
    run = Run(10**8, Engine(1), "float32", rng)
    plan = make_plan(builder, Workload(*X.shape, 1, 8), run)
    features = plan.build(as_source(X), gm.Gaussian(2.0), run)
    point = NewtonPoint.zeros(features.rank, 1)
    tracemalloc.start()
    try:
        wide, _ = newton_check.widened(features, point, len(X), 0)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert wide.dtype == np.float64
    assert taken < 0.25 * features.nbytes  # landmarks of the products; 2 with V and P in float64
