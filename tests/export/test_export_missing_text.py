"""Exported models of tables take the text and numbers that say missing as the model does."""

from __future__ import annotations

import ctypes
import runpy
import shutil
import subprocess

import numpy as np
import pytest

import gramian as gm

pandas = pytest.importorskip("pandas")
N = 300
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def model():
    X = pandas.DataFrame({"x": RNG.normal(size=N), "c": RNG.choice(["NA", "DE", "FR"], N)})
    X.loc[::7, "x"] = -999.0
    y = np.where(X.x < -9, 3.0, X.x) + X.c.map({"NA": 5, "DE": 0, "FR": 1}) + 0.01 * RNG.normal(size=N)
    teacher = gm.TabularRegressor(
        effort="fast", kernel="laplacian", random_state=0, missing=["NA", "-999"]
    ).fit(X, y)
    return gm.compress(teacher, X, n_levels=1, n_units=3, n_directions=2, random_state=0)


ROWS = [{"x": x, "c": c} for x in (0.5, -999.0, None) for c in ("DE", "NA", " NA ", "", None)]


def test_numpy_and_c_files(model, tmp_path):
    expected = model.predict(ROWS)
    assert len(set(expected.round(6))) == 4  # DE or missing, a number or missing
    gm.export(model, tmp_path / "m.py")
    found = runpy.run_path(str(tmp_path / "m.py"))["predict"](ROWS)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    if shutil.which("cc") is None:
        pytest.skip("no C compiler named cc")
    gm.export(model, tmp_path / "m.c")
    shared = tmp_path / "m.so"
    words = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", str(tmp_path / "m.c")]
    subprocess.run([*words, "-o", str(shared), "-lm"], check=True)

    class Cell(ctypes.Structure):
        _fields_ = (("number", ctypes.c_double), ("text", ctypes.c_char_p))

    decide, out = ctypes.CDLL(str(shared)).m_decision, ctypes.c_double()
    for row, value in zip(ROWS, expected, strict=True):
        x = np.nan if row["x"] is None else row["x"]
        text = None if row["c"] is None else row["c"].encode()
        decide((Cell * 2)(Cell(x, None), Cell(np.nan, text)), ctypes.byref(out))
        assert out.value == pytest.approx(value, rel=1e-4, abs=1e-4)


def test_onnx(model, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    gm.export(model, tmp_path / "m.onnx")
    session = runtime.InferenceSession(tmp_path / "m.onnx")
    # Text is not stripped there, as docs/export.md says: " NA " is an unknown category.
    rows = [row for row in ROWS if row["c"] is not None]
    kind = np.float64 if "double" in session.get_inputs()[0].type else np.float32
    given = {
        "x": np.array([np.nan if row["x"] is None else row["x"] for row in rows], kind),
        "c": np.array([row["c"] for row in rows], object),
    }
    found = session.run(None, given)[0].ravel()
    want = model.predict([row | {"c": row["c"].replace(" NA ", "unknown")} for row in rows])
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
