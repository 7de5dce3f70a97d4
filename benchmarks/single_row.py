"""One row at a time, and a batch: compiled loops, batch engine and exported files of the same fast models.

[GRAMIAN_DATA=folder] python benchmarks/single_row.py [--sets digits,letter,usps] [--rows 300]

us: microseconds of one call for one row (median over the rows, after a first call); ns: nanoseconds a row in
a batch of 8,192 on one thread. off: largest difference of a decision value from the model's own, over the
largest value. C is called through ctypes, for the batch only: it works row by row. digits is scikit-learn's;
letter (A-M against N-Z) and usps (ten classes) need the folder.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import runpy
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC
from suite.datasets import load_dataset

import gramian as gm
from gramian.fast.cost import seconds_per_row
from gramian.fast.serving.compiled import available, single_row

BATCH_ROWS = 8_192


@dataclass(frozen=True)
class Setting:
    gamma: float
    C: float
    #: Levels, units and directions.
    shape: tuple[int, int, int]


SETS = {
    "digits": Setting(0.02, 10.0, (1, 12, 8)),
    "letter": Setting(3.0, 10.0, (4, 24, 8)),
    "usps": Setting(0.008, 10.0, (2, 20, 16)),
}


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels: digits and letter in [-1, 1], usps as it is."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X / 8.0 - 1.0, y
    data = load_dataset(name)
    X, y = np.asarray(data.X, np.float64), np.asarray(data.y)
    if name == "letter":
        low, high = X.min(axis=0), X.max(axis=0)
        return 2.0 * (X - low) / np.where(high > low, high - low, 1.0) - 1.0, np.where(y < 13, 1, -1)
    return X, y


def microseconds(call: Callable[[np.ndarray], object], rows: np.ndarray) -> float:
    """Median time of a call over the rows, ten calls a row so that the clock's own time is lost."""
    call(rows[0])
    took = []
    for row in rows:
        start = time.perf_counter()
        for _ in range(10):
            call(row)
        took.append((time.perf_counter() - start) / 10)
    return 1e6 * statistics.median(took)


@dataclass(frozen=True)
class Way:
    """One way to ask for the predictions of one row, for those of a batch, and for decision values."""

    one: Callable[[np.ndarray], object] | None = None
    batch: Callable[[np.ndarray], object] | None = None
    values: Callable[[np.ndarray], np.ndarray] | None = None


def numpy_file(model: Any, folder: Path) -> Way:
    gm.export(model, folder / "model.py")
    module = runpy.run_path(str(folder / "model.py"))
    return Way(lambda x: module["predict"](x[None]), module["predict"], module["decision"])


def onnx_file(model: Any, folder: Path) -> Way:
    import onnxruntime

    gm.export(model, folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, ["CPUExecutionProvider"])

    def ask(X: np.ndarray) -> Any:
        return session.run(None, {"X": X})

    return Way(lambda x: ask(x[None]), ask, lambda X: ask(X)[1])


def c_file(model: Any, folder: Path) -> Way:
    gm.export(model, folder / "model.c")
    library, source = str(folder / "model.so"), str(folder / "model.c")
    subprocess.run(
        ["cc", "-std=c99", "-O3", "-march=native", "-shared", "-fPIC", "-o", library, source, "-lm"],
        check=True,
    )
    decide = ctypes.CDLL(library).model_decision_batch
    decide.argtypes = (ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p)
    outputs = model.predictor_.n_outputs

    def values(X: np.ndarray) -> np.ndarray:
        out = np.empty((len(X), outputs), np.float32)
        decide(X.ctypes.data, len(X), out.ctypes.data)
        return out.ravel() if outputs == 1 else out

    return Way(None, values, values)


def ways(model: Any, taught: Any, folder: Path) -> dict[str, Way]:
    predictor = model.predictor_
    found = {
        "predict": Way(lambda x: model.predict(x[None]), model.predict, model.decision_function),
        "batch engine": Way(lambda x: predictor(x[None]), predictor, lambda X: predictor(X).squeeze()),
        "exact SVM": Way(lambda x: taught.predict(x[None])),
        "NumPy file": numpy_file(model, folder),
    }
    if available():
        one = single_row(predictor)
        found["predict_one, compiled"] = Way(
            model.predict_one, None, lambda X: np.array([*map(one, X)]).squeeze()
        )
    else:
        print("numba is not installed: predict_one takes a few calls of NumPy")
    if importlib.util.find_spec("onnxruntime"):
        found["ONNX"] = onnx_file(model, folder)
    else:
        print("onnxruntime is not installed: no ONNX")
    if shutil.which("cc"):
        found["C"] = c_file(model, folder)
    else:
        print("no C compiler named cc: no C")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="digits,letter,usps")
    parser.add_argument("--rows", type=int, default=300)
    args = parser.parse_args()
    print(f"{'set':8} {'way':22} {'us a call':>10} {'ns in batch':>12} {'off':>9}")
    for name in args.sets.split(","):
        setting = SETS[name]
        X, y = table(name)
        taught = SVC(C=setting.C, gamma=setting.gamma).fit(X[:8_000], y[:8_000])
        sizes = dict(zip(("n_levels", "n_units", "n_directions"), setting.shape, strict=True))
        model = gm.compress(taught, X[:8_000], y[:8_000], random_state=0, **sizes)
        rng = np.random.default_rng(0)
        batch = np.ascontiguousarray(X[rng.integers(len(X), size=BATCH_ROWS)], np.float32)
        expected = model.decision_function(batch)
        with tempfile.TemporaryDirectory() as folder:
            for title, way in ways(model, taught, Path(folder)).items():
                one = f"{microseconds(way.one, batch[: args.rows]):.2f}" if way.one else ""
                ns = f"{1e9 * seconds_per_row(way.batch, batch):.0f}" if way.batch else ""
                apart = (
                    np.abs(way.values(batch) - expected).max() / np.abs(expected).max()
                    if way.values
                    else None
                )
                off = "" if apart is None else f"{apart:.1e}"
                print(f"{name:8} {title:22} {one:>10} {ns:>12} {off:>9}", flush=True)


if __name__ == "__main__":
    main()
