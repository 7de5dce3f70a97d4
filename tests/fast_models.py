"""Fitted fast models of every form, for the tests of exports and of single rows."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gramian as gm

RNG = np.random.default_rng(7)
#: 1,100 rows: more than two tiles of an ONNX graph. 6 features: four that loops take together, and two.
X = RNG.normal(size=(1100, 6)).astype(np.float32)


def wave(rows: Any) -> Any:
    return np.sin(2.0 * rows[:, 0]) + rows[:, 1] * rows[:, 2]


def kinds(rows: Any) -> Any:
    """Return a decision value for each of three classes."""
    return np.column_stack([wave(rows), rows[:, 3], -rows[:, 0]])


#: The same rows, far from 0 for how much they vary, as float32 holds them.
FAR = X + np.float32(1000.0)
LABELS = np.argmax(kinds(X), axis=1)
NAMES = np.array(["ant", 'b"\\??/', "Käfer"])[LABELS]


def units_at(points: Any, centers: Any, log_scales: Any) -> Any:
    """Return the units' values, each by its formula."""
    return 1.0 / (1.0 + ((np.exp(log_scales) * (points[:, None] - centers)) ** 2).sum(axis=2))


def values_at(points: Any, units: Any) -> Any:
    """Return the values of a leaf at its points."""
    linear = points @ units.linear[:, :-1].T + units.linear[:, -1]
    return linear + units_at(points, units.centers, units.log_scales) @ units.weights.T


def wave_far(rows: Any) -> Any:
    return wave(np.asarray(rows, np.float64) - 1000.0)


def sizes(n_levels: int, n_units: int, n_directions: int, dtype: str = "float32") -> dict[str, Any]:
    shape = {"n_levels": n_levels, "n_units": n_units, "n_directions": n_directions}
    return {**shape, "dtype": dtype, "learn": "teacher", "random_state": 0}


def two(**shape: Any) -> Any:
    return gm.FastKernelClassifier(wave, **shape).fit(X, np.where(wave(X) > 0, 3, -7))


def one(**shape: Any) -> Any:
    return gm.FastKernelRegressor(wave, **shape).fit(X, wave(X))


def scaled() -> Any:
    rows = 5.0 + 3.0 * X
    fast = gm.FastKernelClassifier(kinds, **sizes(1, 4, 3))
    return make_pipeline(StandardScaler(), fast).fit(rows, LABELS)


MAKERS = {
    "two classes": lambda: two(**sizes(2, 5, 3)),
    "names": lambda: gm.FastKernelClassifier(kinds, **sizes(3, 4, 3)).fit(X, NAMES),
    "float labels": lambda: gm.FastKernelClassifier(kinds, **sizes(0, 4, 2)).fit(X, 2.0 * LABELS),
    "true or false": lambda: gm.FastKernelClassifier(wave, **sizes(1, 3, 2)).fit(X, wave(X) > 0),
    "one leaf": lambda: one(**sizes(0, 6, 4)),
    "no units": lambda: one(**sizes(2, 0, 2)),
    "linear": lambda: one(**sizes(0, 0, 1)),
    # In float64: one of its units is so narrow that float32 has three digits of it.
    "two stages": lambda: one(**sizes(5, 2, 2, "float64")),
    "two targets": lambda: gm.FastKernelRegressor(
        lambda rows: kinds(rows)[:, :2] * [1.0, 40.0] + 300.0, **sizes(2, 4, 4)
    ).fit(X, kinds(X)[:, :2] * [1.0, 40.0] + 300.0),
    "three features": lambda: gm.FastKernelRegressor(wave, **sizes(2, 4, 3)).fit(X[:, :3], wave(X)),
    "float16": lambda: two(**sizes(1, 4, 3, "float16")),
    "scaled": scaled,
    "far": lambda: gm.FastKernelRegressor(wave_far, **sizes(2, 5, 3)).fit(FAR, wave_far(FAR)),
    "far and linear": lambda: gm.FastKernelRegressor(wave_far, **sizes(0, 0, 1)).fit(FAR, wave_far(FAR)),
}


@cache
def model(name: str) -> Any:
    return MAKERS[name]()


def rows_of(name: str) -> Any:
    if name == "three features":
        return X[:, :3]
    if name.startswith("far"):
        return FAR
    return 5.0 + 3.0 * X if name == "scaled" else X


def values_of(fitted: Any, rows: Any) -> Any:
    """Return decision values, or the predictions of a regressor."""
    return fitted.decision_function(rows) if hasattr(fitted, "decision_function") else fitted.predict(rows)


@cache
def rounding(name: str) -> float:
    """Return what the model's own values lose to float32: training may find units that are narrow."""
    fitted, rows = model(name), rows_of(name)
    if name == "scaled":
        fitted, rows = fitted[-1], fitted[0].transform(rows)
    p = fitted.predictor_
    lost = np.abs(p(rows) - p.astype(np.dtype(np.float64))(rows)).max(axis=0)
    return float((lost * getattr(fitted, "y_std_", 1.0)).max()) if p.dtype == np.float32 else 0.0


def assert_agree(found: Any, expected: Any, lost: float = 0.0) -> None:
    """Within 1e-5 of the values' size, and some times what the model itself loses to rounding."""
    assert found.shape == expected.shape
    atol = 1e-5 * max(1.0, np.abs(expected).max()) + 4.0 * lost
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
