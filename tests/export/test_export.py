"""Exported models: each target against the model, run by what it is written for; what cannot be exported."""

from __future__ import annotations

import ctypes
import os
import pickle
import runpy
import shutil
import subprocess
import sys

import numpy as np
import pytest
from fast_models import LABELS, MAKERS, X, assert_agree, model, rounding, rows_of, sizes, values_of, wave
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

import gramian as gm
from gramian.exceptions import AccuracyWarning, InputError, MissingPackageError
from gramian.export.c_source import _identifier, _whole
from gramian.export.description import describe
from gramian.export.onnx import TILE_ROWS

CC = shutil.which("cc")
needs_cc = pytest.mark.skipif(CC is None, reason="no C compiler named cc")
every_model = pytest.mark.parametrize("name", MAKERS)
STRICT = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]


def labels_of(fitted, rows):
    found = fitted.predict(rows)
    return found.astype(np.int64) if found.dtype == bool else found


@every_model
def test_numpy_file(name, tmp_path):
    gm.export(model(name), tmp_path / "model.py")
    module, rows = runpy.run_path(str(tmp_path / "model.py")), rows_of(name)
    assert_agree(module["decision"](rows), values_of(model(name), rows), rounding(name))
    if hasattr(model(name), "classes_"):
        np.testing.assert_array_equal(module["predict"](rows), labels_of(model(name), rows))
    assert len(module["predict"](rows[:0])) == 0
    with pytest.raises(ValueError, match=r"expected \(n, [36]\)"):
        module["predict"](rows[:, :2])


def test_numpy_file_needs_numpy_only_and_reads_csv(tmp_path):
    gm.export(model("names"), tmp_path / "insects.py")
    block = "import sys; sys.modules.update(gramian=None, scipy=None, sklearn=None)\n"
    code = block + "import insects, numpy as np; print(insects.predict(np.zeros((2, 6))))"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONIOENCODING": "utf-8"}
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, env=environment, capture_output=True, check=True, encoding="utf-8")
    assert done.stdout.strip() == str(model("names").predict(np.zeros((2, 6))))
    text = "\n".join(",".join(map(repr, row.tolist())) for row in X[:5])
    done = subprocess.run(
        [sys.executable, "insects.py"],
        cwd=tmp_path,
        env=environment,
        input=text,
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert done.stdout.split("\n")[:-1] == model("names").predict(X[:5]).tolist()


@every_model
def test_onnx(name, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    gm.export(model(name), tmp_path / "model.onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 2
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), options, ["CPUExecutionProvider"])
    rows = rows_of(name).astype(np.float32)
    outputs = [output.name for output in session.get_outputs()]
    assert outputs == (["label", "decision"] if hasattr(model(name), "classes_") else ["value"])
    # No rows, one, and numbers of them beside those that fill tiles.
    for n in (0, 1, TILE_ROWS - 1, TILE_ROWS, TILE_ROWS + 1, len(rows)):
        *labels, values = session.run(None, {"X": rows[:n]})
        assert values.dtype == np.float32
        if not n:
            assert len(values) == 0
            continue
        assert_agree(values, values_of(model(name), rows[:n]), rounding(name))
        for found in labels:
            np.testing.assert_array_equal(found, labels_of(model(name), rows[:n]))


@every_model
def test_onnx_has_standard_operators_and_no_more_constants_than_the_model(name, tmp_path):
    onnx = pytest.importorskip("onnx")
    gm.export(model(name), tmp_path / "model.onnx")
    made = onnx.load(tmp_path / "model.onnx")
    assert [(opset.domain, opset.version) for opset in made.opset_import] == [("", 17)]

    def nodes(graph):
        for node in graph.node:
            yield node
            for attribute in node.attribute:
                yield from nodes(attribute.g)

    assert {node.domain for node in nodes(made.graph)} == {""}
    used = {name for node in nodes(made.graph) for name in node.input}
    assert {constant.name for constant in made.graph.initializer} <= used
    flat = describe(model(name), "model").flat
    numbers = sum(a.size for a in (flat.projection, flat.offset, flat.planes, flat.forms, flat.weights))
    kept = [onnx.numpy_helper.to_array(c) for c in made.graph.initializer]
    assert sum(a.size for a in kept if a.dtype == flat.dtype) <= numbers + 10


@needs_cc
@every_model
def test_c_file(name, tmp_path):
    gm.export(model(name), tmp_path / "my model.c")
    library, source = str(tmp_path / "model.so"), str(tmp_path / "my model.c")
    subprocess.run([CC, *STRICT, "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
    loaded = ctypes.CDLL(library)
    rows, expected = np.ascontiguousarray(rows_of(name), np.float32), values_of(model(name), rows_of(name))
    pointer, n = ctypes.c_void_p, len(rows)
    values = np.empty(expected.shape, np.float32)
    loaded.my_model_decision_batch(pointer(rows.ctypes.data), ctypes.c_long(n), pointer(values.ctypes.data))
    assert_agree(values, expected, rounding(name))
    one = np.empty_like(np.atleast_1d(values[3]))
    loaded.my_model_decision(pointer(rows[3].ctypes.data), pointer(one.ctypes.data))
    np.testing.assert_array_equal(one, np.atleast_1d(values[3]))
    if not hasattr(model(name), "classes_"):
        assert not hasattr(loaded, "my_model_predict")
        return
    places = np.empty(n, np.intc)
    loaded.my_model_predict_batch(pointer(rows.ctypes.data), ctypes.c_long(n), pointer(places.ctypes.data))
    np.testing.assert_array_equal(model(name).classes_[places], model(name).predict(rows_of(name)))
    assert loaded.my_model_predict(pointer(rows[5].ctypes.data)) == places[5]


@needs_cc
@pytest.mark.parametrize("name", ["two classes", "names", "float labels", "two targets"])
def test_c_program_reads_csv(name, tmp_path):
    gm.export(model(name), tmp_path / "m.c")
    program = str(tmp_path / "m")
    subprocess.run([CC, *STRICT, "-Dm_MAIN", "-o", program, str(tmp_path / "m.c"), "-lm"], check=True)

    def run(text):
        return subprocess.run([program], input=text, capture_output=True, encoding="utf-8")

    lines = [",".join(map(repr, row.tolist())) for row in X[:20]]
    done = run("\r\n".join(lines))  # no end of the last line
    expected = model(name).predict(X[:20])
    assert not done.returncode
    found = done.stdout.splitlines()
    if expected.dtype.kind == "f":
        found = [line.split(",") for line in found] if expected.ndim == 2 else found
        np.testing.assert_allclose(np.array(found, np.float64), expected, rtol=1e-4)
    else:
        assert found == [str(label) for label in expected]
    for wrong in ("1,2,3,4,5", "1,2,3,4,5,6,7", "1,2,3,4,5,six", "1,2,,4,5,6", ""):
        done = run(lines[0] + "\n" + wrong + "\n")
        assert (done.returncode, done.stderr) == (1, "line 2: expected 6 numbers between commas\n")
    assert run("").returncode == 0


@pytest.mark.parametrize("suffix", [".onnx", ".py", ".c"])
def test_the_same_model_is_the_same_file(suffix, tmp_path):
    if suffix == ".onnx":
        pytest.importorskip("onnx")
    again = pickle.loads(pickle.dumps(model("two targets").set_params(teacher=None)))
    for folder, fitted in (("a", model("two targets")), ("b", again)):
        (tmp_path / folder).mkdir()
        gm.export(fitted, tmp_path / folder / f"m{suffix}")
    first, second = ((tmp_path / folder / f"m{suffix}").read_bytes() for folder in "ab")
    assert first == second


def test_an_export_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.py"
    path.write_text("old")

    def full(_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        gm.export(model("linear"), path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["model.py"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (gm.FastKernelClassifier(), "FastKernelClassifier is not fitted: call fit first"),
        (make_pipeline(StandardScaler(), gm.FastKernelRegressor()), "FastKernelRegressor is not fitted"),
        (SVC(), r"A SVC cannot be exported.*gramian\.compress\(model, X\) makes one"),
        (make_pipeline(MinMaxScaler(), SVC()), "Pipeline of MinMaxScaler, SVC cannot"),
        (make_pipeline(StandardScaler(), SVC()), "A SVC cannot"),
        (3, "A int cannot"),
    ],
)
def test_models_that_cannot_be_exported(wrong, words, tmp_path):
    with pytest.raises(InputError, match=words):
        gm.export(wrong, tmp_path / "model.py")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("model.onxn", r"ends in '.onxn'. Did you mean '.onnx'\?"),
        ("model", r"one of \.onnx, \.py, \.c"),
        ("folder/model.py", "does not exist"),
    ],
)
def test_paths_that_cannot_be_written(path, words, tmp_path):
    with pytest.raises(InputError, match=words):
        gm.export(model("linear"), tmp_path / path)


def test_a_folder_is_not_a_file(tmp_path):
    (tmp_path / "model.c").mkdir()
    with pytest.raises(InputError, match="it is a folder"):
        gm.export(model("linear"), tmp_path / "model.c")


def test_labels_and_numbers_that_cannot_be_written(tmp_path):
    fitted = gm.FastKernelClassifier(wave, **sizes(0, 0, 1)).fit(X, LABELS > 0)
    fitted.classes_ = np.array([b"no", b"yes"])
    with pytest.raises(InputError, match="only labels that are numbers or text"):
        gm.export(fitted, tmp_path / "model.py")
    fitted.classes_ = np.array(["no", "yes"], dtype=object)
    assert describe(fitted, "m").labels.dtype.kind == "U"
    fitted.classes_ = np.array(["a\0b", "a\0c"])  # the same label to C
    with pytest.raises(InputError, match=r"has the class 'a\\x00b', which is no text in UTF-8 without NUL"):
        gm.export(fitted, tmp_path / "model.c")
    huge = gm.FastKernelRegressor(lambda rows: 1e60 * wave(rows), **sizes(0, 2, 1))
    huge.fit(X, 1e60 * wave(X).astype(np.float64))
    with pytest.raises(InputError, match="float32 cannot hold"):
        gm.export(huge, tmp_path / "model.py")


def test_onnx_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'gramian\[export\]'"):
        gm.export(model("linear"), tmp_path / "model.onnx")


def test_pipelines_of_one_step_or_an_idle_scaler():
    fitted = model("scaled")[1]
    alone = describe(make_pipeline("passthrough", fitted), "m").flat
    np.testing.assert_array_equal(alone.projection, describe(fitted, "m").flat.projection)
    idle = StandardScaler(with_mean=False, with_std=False).fit(X)
    same = describe(make_pipeline(idle, fitted), "m").flat
    np.testing.assert_array_equal(same.projection, alone.projection)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("with_std", [True, False, None])
def test_features_far_from_zero_in_files_that_take_float64_and_float32(tmp_path, with_std, dtype):
    far, y = X.astype(np.float64) + 1e7 * X.std(axis=0), wave(X)
    fast = gm.FastKernelRegressor(**sizes(0, 2, 2) | {"learn": "labels", "dtype": dtype})
    fitted = fast if with_std is None else make_pipeline(StandardScaler(with_std=with_std), fast)
    fitted.fit(far, y)
    gm.export(fitted, tmp_path / "far.py")
    module = runpy.run_path(str(tmp_path / "far.py"))
    np.testing.assert_allclose(module["predict"](far), fitted.predict(far), atol=1e-5)
    gm.save(fast, tmp_path / "fast.gramian")
    for again in (fast, gm.load(tmp_path / "fast.gramian")):
        told = again if with_std is None else make_pipeline(fitted[0], again)
        with pytest.warns(AccuracyWarning, match=r"(1e\+07|9\.\de\+06) times its .* rows in float32"):
            gm.export(told, tmp_path / "far.c")


def test_c_names_and_numbers():
    assert [_identifier(name) for name in ("a-b c", "2x", "_x", "ü")] == [
        "a_b_c",
        "model_2x",
        "model_x",
        "model_",
    ]
    assert [_whole(value) for value in (5, -(2**63))] == ["5LL", f"(-{2**63 - 1}LL - 1)"]
