"""Exported fast models of tables: each target takes raw rows and agrees with the model on new rows."""

from __future__ import annotations

import copy
import ctypes
import datetime
import os
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from fast_models import assert_agree, values_of
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from table_models import MAKERS, NEW, PLAIN, TRAIN, classifier, model, rows_of

import gramian as gm
from gramian.exceptions import InputError
from gramian.export.onnx_table import number_type
from gramian.export.table import CODE, _levels, table_form
from gramian.fast.serving.predictor import WIDE_ROWS
from gramian.tables.compression import FastTabularClassifier

pytestmark = pytest.mark.filterwarnings("ignore:These columns are not used")
CC = shutil.which("cc")
needs_cc = pytest.mark.skipif(CC is None, reason="no C compiler named cc")
STRICT = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
every_model = pytest.mark.parametrize("name", MAKERS)


@cache
def lost_of(name):
    """Return what the model's own arithmetic loses to float32 on rows without far numbers.

    There are as many rows as it takes for the model to compute in float32: it asks few in float64.
    """
    fitted = model(name)
    encoded = fitted.transform_rows(rows_of(name)[40:])
    encoded = np.tile(encoded, (1 + WIDE_ROWS // len(encoded), 1))
    double = copy.copy(fitted.model_)
    double.predictor_ = double.predictor_.astype(np.dtype(np.float64))
    ask, exact = (getattr(one, "decision_function", one.predict) for one in (fitted.model_, double))
    values, wanted = (np.reshape(of(encoded), (len(encoded), -1)) for of in (ask, exact))
    back = getattr(fitted, "_back", lambda values: values)
    return float(np.abs(back(values) - back(wanted)).max())


def assert_answers(name, found, rows):
    """Within 1e-5 of the values' distance from their median, and some times what the model itself loses."""
    expected = values_of(model(name), rows)
    assert found.shape == expected.shape
    limit = 1e-5 * (1.0 + np.abs(expected - np.median(expected, axis=0))) + 4.0 * lost_of(name)
    assert (np.abs(found - expected) <= limit).all()


def assert_classes(name, found, rows):
    """The classes of all rows that are not on a border up to rounding."""
    fitted = model(name)
    values = values_of(fitted, rows)
    best = np.sort(np.column_stack([values, 0 * values]) if values.ndim == 1 else values, axis=1)
    clear = best[:, -1] - best[:, -2] > 1e-5 + 8.0 * lost_of(name)
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(np.asarray(found)[clear], fitted.predict(rows)[clear])


@every_model
def test_numpy_file(name, tmp_path):
    gm.export(model(name), tmp_path / "model.py")
    module, rows = runpy.run_path(str(tmp_path / "model.py")), rows_of(name)
    found = module["decision"](rows)
    assert_answers(name, found, rows)
    np.testing.assert_array_equal(module["decision"](rows.tolist()), found)
    if hasattr(model(name), "classes_"):
        assert_classes(name, module["predict"](rows), rows)
        assert_agree(module["predict_proba"](rows), model(name).predict_proba(rows), 4.0 * lost_of(name))
    else:
        np.testing.assert_array_equal(module["predict"](rows), found)
        with pytest.raises(AttributeError, match="no probabilities"):
            module["predict_proba"](rows)
    assert len(module["predict"](rows[:0])) == 0
    with pytest.raises(ValueError, match="expected"):
        module["predict"](rows[:, :2])
    with pytest.raises(ValueError, match="2 cells; expected"):
        module["predict"]([[1.0, 2.0]])


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # by convert_dtypes of pandas 2.1
def test_a_numpy_file_takes_frames_days_and_text_as_dates(tmp_path):
    pandas = pytest.importorskip("pandas")
    gm.export(model("two classes"), tmp_path / "model.py")
    module = runpy.run_path(str(tmp_path / "model.py"))
    found = module["decision"](NEW)
    frame = pandas.DataFrame({str(j): column for j, column in enumerate(NEW.T)}).convert_dtypes()
    np.testing.assert_allclose(module["decision"](frame), found, rtol=0, atol=1e-12)
    start = datetime.datetime(1970, 1, 1)
    for form in (
        lambda when: (np.datetime64(when) - np.datetime64(start)) / np.timedelta64(1, "D"),
        lambda when: f" {np.datetime64(when)} ",
        lambda when: f"{np.datetime64(when)}+00:00",
        lambda when: np.datetime64(when).item().replace(tzinfo=datetime.UTC),
        np.datetime64,
    ):
        rows = NEW.copy()
        rows[:, 4] = [None if when is None else form(when) for when in NEW[:, 4]]
        np.testing.assert_allclose(module["decision"](rows), found, rtol=0, atol=1e-6)
    rows = NEW.copy()
    rows[:, 8] = [None if t is None else t / datetime.timedelta(days=1) for t in NEW[:, 8]]
    np.testing.assert_allclose(module["decision"](rows), found, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("place", "cell", "words"),
    [
        (0, "12", "held number cells in training and now holds '12'"),
        (0, np.inf, "holds infinity"),
        (2, 3, "held text in training and now holds 3. Pass text"),
        (3, 2, "held booleans in training. Pass booleans, or 0 and 1"),
        (4, "soon", "'soon', no date such as 2024-05-31"),
        (5, "two", "held code cells"),
        (8, "two", "held duration cells"),
    ],
)
def test_a_numpy_file_refuses_cells_of_another_kind(place, cell, words, tmp_path):
    gm.export(model("two classes"), tmp_path / "model.py")
    rows = NEW[:3].copy()
    rows[1, place] = cell
    with pytest.raises(ValueError, match=words):
        runpy.run_path(str(tmp_path / "model.py"))["predict"](rows)


def test_a_numpy_file_needs_numpy_only_and_reads_csv(tmp_path):
    gm.export(model("three classes"), tmp_path / "towns.py")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONIOENCODING": "utf-8"}
    block = "import sys; sys.modules.update(gramian=None, scipy=None, sklearn=None, pandas=None)\n"
    rows = [row for row in NEW[40:60].tolist() if "" not in row]
    text = "".join(",".join(word(cell) for cell in row) + "\n" for row in rows)
    done = subprocess.run(
        [sys.executable, "-c", block + "import towns; towns._main()"],
        env=environment,
        input=text,
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert done.stdout.split() == model("three classes").predict(np.array(rows, object)).tolist()


def word(cell):
    """Return a cell as a CSV file has it."""
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, datetime.timedelta):
        return repr(cell / datetime.timedelta(days=1))
    return '"' + str(cell).replace('"', '""') + '"'


class Cell(ctypes.Structure):
    _fields_ = (("number", ctypes.c_double), ("text", ctypes.c_char_p))


def cells_of(rows):
    """Return raw rows as an array of C cells, dates and durations as days."""
    found = (Cell * rows.size)()
    for at, cell in enumerate(rows.ravel().tolist()):
        if isinstance(cell, str):
            found[at] = Cell(np.nan, cell.encode())
        elif isinstance(cell, datetime.datetime | datetime.timedelta):
            span = cell - datetime.datetime(1970, 1, 1) if isinstance(cell, datetime.datetime) else cell
            found[at] = Cell(span / datetime.timedelta(days=1), None)
        else:
            found[at] = Cell(np.nan if cell is None else cell, None)
    return found


@needs_cc
@every_model
def test_c_file(name, tmp_path):
    gm.export(model(name), tmp_path / "my model.c")
    library, source = str(tmp_path / "model.so"), str(tmp_path / "my model.c")
    subprocess.run([CC, *STRICT, "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
    loaded, rows = ctypes.CDLL(library), rows_of(name)
    rows, width = rows[:-1], rows.shape[1]
    cells, n = cells_of(rows), ctypes.c_long(len(rows))
    values = np.empty_like(values_of(model(name), rows), np.float64)
    pointer = ctypes.c_void_p
    loaded.my_model_decision_batch(cells, n, pointer(values.ctypes.data))
    assert_answers(name, values, rows)
    row, one = ctypes.byref(cells, 3 * width * ctypes.sizeof(Cell)), np.empty_like(np.atleast_1d(values[3]))
    loaded.my_model_decision(row, pointer(one.ctypes.data))
    np.testing.assert_array_equal(one, np.atleast_1d(values[3]))
    if not hasattr(model(name), "classes_"):
        assert not hasattr(loaded, "my_model_predict")
        assert not hasattr(loaded, "my_model_probabilities")
        return
    places = np.empty(len(rows), np.intc)
    loaded.my_model_predict_batch(cells, n, pointer(places.ctypes.data))
    assert_classes(name, model(name).classes_[places], rows)
    assert loaded.my_model_predict(row) == places[3]
    expected, chances = model(name).predict_proba(rows), np.empty(len(model(name).classes_))
    for i in range(len(rows)):
        row = ctypes.byref(cells, i * width * ctypes.sizeof(Cell))
        loaded.my_model_probabilities(row, pointer(chances.ctypes.data))
        assert_agree(chances, expected[i], 4.0 * lost_of(name))


def inputs_of(session, rows, names):
    """Return raw rows as the inputs of a session, by name."""
    found = {}
    for one in session.get_inputs():
        column = rows[:, names.index(one.name)].tolist()
        if one.type == "tensor(string)":
            found[one.name] = np.array(["" if cell is None else cell for cell in column], object)
        else:
            numbers = [cell.number for cell in cells_of(np.array(column, object))]
            found[one.name] = np.array(numbers, np.float32 if one.type == "tensor(float)" else np.float64)
    return found


def session_of(path):
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 2
    return runtime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


@every_model
def test_onnx(name, tmp_path):
    onnx = pytest.importorskip("onnx")
    gm.export(model(name), tmp_path / "model.onnx")
    made = onnx.load(tmp_path / "model.onnx")
    others = [("ai.onnx.ml", 2)] if name.startswith("level means") else []
    assert [(opset.domain, opset.version) for opset in made.opset_import] == [("", 19), *others]
    session, rows, fitted = session_of(tmp_path / "model.onnx"), rows_of(name), model(name)
    used = [str(j) for j in range(rows.shape[1]) if fitted.columns_.columns[j].width]
    assert [one.name for one in session.get_inputs()] == used
    kinds = {one.type for one in session.get_inputs()}
    number = "tensor(float)" if name == "narrow" else "tensor(double)"
    assert kinds == ({number} if name == "narrow" else {number, "tensor(string)"})
    outputs = [one.name for one in session.get_outputs()]
    assert outputs == (["label", "decision", "probabilities"] if hasattr(fitted, "classes_") else ["value"])
    for n in (0, 1, len(rows)):
        found = session.run(None, inputs_of(session, rows[:n], fitted.columns_.column_names))
        if not n:
            assert len(found[0]) == 0
        elif hasattr(fitted, "classes_"):
            assert_answers(name, found[1], rows[:n])
            if n > 1:
                assert_classes(name, found[0], rows)
            assert_agree(found[2], fitted.predict_proba(rows[:n]), 4.0 * lost_of(name))
        else:
            assert_answers(name, found[0], rows[:n])


def test_onnx_inputs_have_the_names_of_columns_that_are_free(tmp_path):
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("onnx")
    names = ["label", "constant_3", "tile", "unsqueeze_0", "", "decision", "tile_values", "_"]
    frame = pandas.DataFrame(PLAIN, columns=names)
    fitted = classifier("auto", ["no", "yes"], frame)
    gm.export(fitted, tmp_path / "model.onnx")
    session = session_of(tmp_path / "model.onnx")
    inputs = [one.name for one in session.get_inputs()]
    assert inputs == ["label_", "constant_3", "tile", "unsqueeze_0", "_", "decision_", "tile_values", "__"]
    values = session.run(["decision"], dict(zip(inputs, PLAIN.T)))[0]
    np.testing.assert_allclose(values, fitted.decision_function(frame), rtol=0, atol=1e-4)


def test_onnx_numbers_hold_the_codes_of_many_levels():
    found = table_form(model("level means"))
    narrow = replace(found, dtype=np.dtype(np.float32))
    assert number_type(narrow) is np.float32
    codes = next(each for each in narrow.columns if each.kind == CODE and each.lookups)
    (place, levels, values), *_ = codes.lookups
    wide = replace(codes, lookups=((place, levels + 2.0**24, values),))
    assert number_type(replace(narrow, columns=(wide,))) is np.float64


def test_onnx_refuses_empty_text_beside_missing_text(tmp_path):
    pytest.importorskip("onnx")
    fitted = classifier("auto", ["no", "yes"], TRAIN[:, [0, 1, 2, 3, 7, 9, 10]])
    columns = list(fitted.columns_.columns)
    # As in files of models that were trained when blank text was a category.
    columns[2] = replace(columns[2], categories=("", *columns[2].categories[1:]))
    fitted.columns_ = replace(fitted.columns_, columns=tuple(columns))
    with pytest.raises(InputError, match="Column '2' has empty text as a category, and missing values"):
        gm.export(fitted, tmp_path / "model.onnx")


def test_tables_that_cannot_be_exported(tmp_path):
    path = tmp_path / "model.py"
    with pytest.raises(InputError, match="FastTabularClassifier is not fitted"):
        gm.export(FastTabularClassifier(), path)
    with pytest.raises(InputError, match="FastTabularClassifier cannot be exported behind a Standard"):
        gm.export(make_pipeline(StandardScaler(), model("two classes")), path)
    rows = TRAIN.copy()
    rows[:30, 2] = "a\0b"
    with pytest.raises(InputError, match=r"Column '2' has the category 'a\\x00b', which is no text"):
        gm.export(classifier("auto", ["no", "yes"], rows[:, [0, 1, 2, 3, 7, 9, 10]]), path)
    assert not os.listdir(tmp_path)
    with pytest.raises(InputError, match="Column '7' has booleans and the numbers 0 or 1"):
        _levels("7", ("1", "True"), CODE)


@pytest.mark.parametrize("suffix", [".onnx", ".py", ".c"])
@pytest.mark.parametrize("name", ["three classes", "scores"])
def test_a_loaded_model_is_the_same_file(name, suffix, tmp_path):
    if suffix == ".onnx":
        pytest.importorskip("onnx")
    gm.save(model(name), tmp_path / "m.gramian")
    for folder, fitted in (("a", model(name)), ("b", gm.load(tmp_path / "m.gramian"))):
        (tmp_path / folder).mkdir()
        gm.export(fitted, tmp_path / folder / f"m{suffix}")
    first, second = ((tmp_path / folder / f"m{suffix}").read_bytes() for folder in "ab")
    assert first == second


@pytest.mark.parametrize(
    "kind", [gm.TabularRegressor, pytest.param(gm.TabularClassifier, marks=pytest.mark.slow)]
)
def test_compressed_estimators_of_tables(kind, tmp_path):
    classes = kind is gm.TabularClassifier
    size = np.array(TRAIN[:200, 0], float)
    y = np.exp(np.nan_to_num(size) + (TRAIN[:200, 3] == True))  # noqa: E712
    options = {} if classes else {"target": "log"}
    slow = kind(kernel="laplacian", metric=None, scaling="robust", random_state=0, **options)
    slow.fit(TRAIN[:200], np.where(y > np.median(y), "dear", "cheap") if classes else y)
    fast = slow.compress(TRAIN[:200], n_levels=0, n_units=6, n_directions=3, dtype="float64")
    gm.export(fast, tmp_path / "model.py")
    found = runpy.run_path(str(tmp_path / "model.py"))
    if classes:
        assert_agree(found["predict_proba"](NEW), fast.predict_proba(NEW))
    else:
        np.testing.assert_allclose(found["predict"](NEW), fast.predict(NEW), rtol=1e-4)


def test_a_pipeline_of_one_table_model_is_that_model(tmp_path):
    for folder, fitted in (("a", model("narrow")), ("b", make_pipeline("passthrough", model("narrow")))):
        (tmp_path / folder).mkdir()
        gm.export(fitted, tmp_path / folder / "m.py")
    first, second = ((tmp_path / folder / "m.py").read_bytes() for folder in "ab")
    assert first == second


@pytest.mark.parametrize(("train", "new"), [(np.float64, np.float32), (np.float32, np.float64)])
def test_the_python_file_knows_codes_in_the_other_precision(train, new, tmp_path):
    rng = np.random.default_rng(0)
    codes, number = rng.integers(0, 8, 300), rng.integers(0, 64, 300) / 64.0
    rows = np.column_stack([codes * 0.1 + 0.05, number])
    y = rng.standard_normal(8)[codes] + number
    sizes = {"n_levels": 0, "n_units": 4, "n_directions": 2, "random_state": 0}
    fast = gm.compress(y, rows.astype(train), categorical=[0], **sizes)
    gm.export(fast, tmp_path / "codes.py")
    found = runpy.run_path(str(tmp_path / "codes.py"))["predict"](rows.astype(new))
    np.testing.assert_allclose(found, fast.predict(rows.astype(new)), atol=1e-5)
    np.testing.assert_allclose(found, fast.predict(rows.astype(train)), atol=1e-5)


def written_otherwise(levels):
    """Return rows with a code and the text of a date, as two programs write them, and a maker of models.

    60 levels are so many that each has a number beside the one-hot columns.
    """
    rng = np.random.default_rng(0)
    codes = np.concatenate([np.arange(levels), rng.integers(0, levels, 20 * levels)])
    days = np.datetime64("2020-01-01") + codes
    number = rng.integers(0, 64, len(codes)) / 64.0
    y = rng.standard_normal(levels)[codes] + number
    rows = np.empty((len(codes), 3), object)
    rows[:, 0], rows[:, 1], rows[:, 2] = codes * 0.1 + 0.05, np.datetime_as_string(days), number
    other = rows.copy()
    other[:, 0] = (codes * 0.1 + 0.05).astype(np.float32).astype(float)
    other[:, 1] = [f"{day} 00:00:00" for day in rows[:, 1]]
    sizes = {"n_levels": 0, "n_units": 4, "n_directions": 2, "random_state": 0}
    return rows, other, lambda rows: gm.compress(y, rows, categorical=[0, 1], **sizes)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("levels", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_files_know_levels_that_are_written_otherwise(levels, back, tmp_path):
    rows, other, fit = written_otherwise(levels)
    rows, other = (other, rows) if back else (rows, other)
    fast = fit(rows)
    np.testing.assert_allclose(fast.predict(other), fast.predict(rows), atol=1e-6)
    gm.export(fast, tmp_path / "m.py")
    found = runpy.run_path(str(tmp_path / "m.py"))["predict"](other)
    np.testing.assert_allclose(found, fast.predict(rows), atol=1e-5)
    if CC is None:
        return
    gm.export(fast, tmp_path / "m.c")
    library = str(tmp_path / "m.so")
    subprocess.run([CC, *STRICT, "-shared", "-fPIC", "-o", library, str(tmp_path / "m.c"), "-lm"], check=True)
    for table in (rows, other):
        values = np.empty(len(table))
        loaded, n, pointer = ctypes.CDLL(library), ctypes.c_long(len(table)), ctypes.c_void_p
        loaded.m_decision_batch(cells_of(table), n, pointer(values.ctypes.data))
        np.testing.assert_allclose(values, fast.predict(rows).ravel(), atol=1e-5)
