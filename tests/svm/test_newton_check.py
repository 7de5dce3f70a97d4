"""The gap that float32 tiles leave, against objectives of the exact kernel in float64."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from pairs import pairs

import gramian as gm
from gramian.approximations.multiresolution import MultiResolutionBuilder
from gramian.compression.costs import Workload
from gramian.compression.plan import make_plan
from gramian.data.source import as_source
from gramian.engine import Engine, Run
from gramian.exceptions import AccuracyWarning
from gramian.solvers.newton_system import NewtonPoint
from gramian.solvers.solution import Status
from gramian.svm import newton_check

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
