"""LightGBM, the same forest compiled and in ONNX Runtime, and CatBoost: the extra ``peers`` has them.

Nothing is imported before a function is called. Every library has one thread.
"""

from __future__ import annotations

import ctypes
import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from serving.boosting import Chosen, search
from serving.clock import Served, one_of
from serving.dense import answers_of
from serving.problems import Problem, Rows

#: Larger forests are not compiled: the C compiler takes minutes.
MOST_COMPILED_LEAVES = 30_000
#: LightGBM's names of a float32 array, of values before the sigmoid, in its C interface.
FLOAT32, RAW = 0, 1


def _installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) for module in modules)


def lightgbm(problem: Problem, quick: bool, _: Any = None) -> Iterator[Served]:
    """LightGBM's own evaluator; then treelite's compiled C and ONNX Runtime, for the same forests."""
    for chosen in search(problem, quick, _lightgbm_errors):
        start = time.perf_counter()
        booster = _booster(problem, chosen.rate, chosen.leaves, chosen.rounds, problem.train)
        seconds = chosen.seconds + time.perf_counter() - start

        def values(X: np.ndarray, booster: Any = booster) -> np.ndarray:
            return booster.predict(X, raw_score=True, num_threads=1)

        nbytes = len(booster.model_to_string())
        batch = answers_of(problem, values)
        yield Served("LightGBM", chosen.text, batch, _fast_row(booster), seconds, nbytes, trees=True)
        if _installed("treelite", "tl2cgen") and chosen.leaves * booster.num_trees() <= MOST_COMPILED_LEAVES:
            yield _compiled(problem, booster, chosen, seconds)
        if _installed("onnxmltools", "onnxruntime"):
            yield _onnx(problem, booster, chosen, seconds)


def _booster(problem: Problem, rate: float, leaves: int, rounds: int, rows: Any, **options: Any) -> Any:
    import lightgbm

    objective = {0: "regression", 2: "binary"}.get(problem.n_classes, "multiclass")
    parameters = {
        "objective": objective,
        "metric": {0: "rmse", 2: "binary_error"}.get(problem.n_classes, "multi_error"),
        "learning_rate": rate,
        "num_leaves": leaves,
        "num_threads": 1,
        "verbosity": -1,
        "seed": 0,
    }
    if problem.n_classes > 2:
        parameters["num_class"] = problem.n_classes
    return lightgbm.train(parameters, lightgbm.Dataset(rows.trees, rows.y), rounds, **options)


def _lightgbm_errors(problem: Problem, rate: float, leaves: int, rounds: int, parts: Any) -> list[float]:
    import lightgbm

    X, y, held, wanted = parts
    seen: dict[str, dict[str, list[float]]] = {}
    options = {
        "valid_sets": [lightgbm.Dataset(held, wanted)],
        "callbacks": [lightgbm.record_evaluation(seen)],
    }
    _booster(problem, rate, leaves, rounds, Rows(X, X, y), **options)
    return next(iter(seen["valid_0"].values()))


def _fast_row(booster: Any) -> Callable[[np.ndarray], object]:
    """Return LightGBM's fastest call for one row: of its C interface, with everything prepared."""
    from lightgbm.basic import _LIB

    columns, outputs = booster.num_feature(), booster.num_model_per_iteration()
    config, length = ctypes.c_void_p(), ctypes.c_int64()
    failed = _LIB.LGBM_BoosterPredictForMatSingleRowFastInit(
        booster._handle, RAW, 0, -1, FLOAT32, columns, b"num_threads=1", ctypes.byref(config)
    )
    if failed:
        raise RuntimeError("LightGBM could not prepare its call for one row")
    out = np.empty(outputs)
    ask, into = _LIB.LGBM_BoosterPredictForMatSingleRowFast, ctypes.c_void_p(out.ctypes.data)

    def one(x: np.ndarray, keep: Any = booster) -> np.ndarray:
        ask(config, ctypes.c_void_p(x.ctypes.data), ctypes.byref(length), into)
        return out

    return one


def _compiled(problem: Problem, booster: Any, chosen: Chosen, seconds: float) -> Served:
    """Return the forest as C, by treelite and tl2cgen, and the C compiler."""
    import tl2cgen
    import treelite

    start = time.perf_counter()
    forest = treelite.frontend.from_lightgbm(booster)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "forest.so"
        tl2cgen.export_lib(
            forest, toolchain="gcc", libpath=path, params={"parallel_comp": 8, "quantize": 0}, nthread=1
        )
        seconds += time.perf_counter() - start
        predictor, nbytes = tl2cgen.Predictor(path, nthread=1), path.stat().st_size
        library = ctypes.CDLL(str(path))  # stays open when its file is gone

    def values(X: np.ndarray) -> np.ndarray:
        return predictor.predict(tl2cgen.DMatrix(X, dtype="float32"), pred_margin=True).reshape(len(X), -1)

    entries, out = np.empty(booster.num_feature()), np.empty(booster.num_model_per_iteration())
    addresses = ctypes.c_void_p(entries.ctypes.data), 1, ctypes.c_void_p(out.ctypes.data)

    def one(x: np.ndarray) -> np.ndarray:
        entries[:] = x  # thresholds are float64, and so are the entries
        out.fill(0.0)  # the trees are added to what is there
        library.predict(*addresses)
        return out

    batch = answers_of(problem, values)
    return Served("LightGBM, treelite", chosen.text, batch, one, seconds, nbytes, trees=True)


def _onnx(problem: Problem, booster: Any, chosen: Chosen, seconds: float) -> Served:
    import onnxmltools
    import onnxruntime
    from onnxmltools.convert.common.data_types import FloatTensorType

    start = time.perf_counter()
    kind = [("X", FloatTensorType([None, booster.num_feature()]))]
    file = onnxmltools.convert_lightgbm(booster, initial_types=kind, zipmap=False).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(file, options, ["CPUExecutionProvider"])
    seconds += time.perf_counter() - start
    first = [session.get_outputs()[0].name]

    def batch(X: np.ndarray) -> np.ndarray:
        return session.run(first, {"X": X})[0].reshape(len(X))

    return Served("LightGBM, ONNX Runtime", chosen.text, batch, one_of(batch), seconds, len(file), trees=True)


def catboost(problem: Problem, quick: bool, _: Any = None) -> Iterator[Served]:
    """CatBoost's own evaluator; its trees are symmetric, of depth 4 and 6 for 15 and 63 leaves."""
    for chosen in search(problem, quick, _catboost_errors, symmetric=True):
        start = time.perf_counter()
        model = _catboost_model(problem, chosen.rate, chosen.leaves, chosen.rounds)
        model.fit(problem.train.trees, problem.train.y)
        seconds = chosen.seconds + time.perf_counter() - start

        def values(X: np.ndarray, model: Any = model) -> np.ndarray:
            return model.predict(X, prediction_type="RawFormulaVal", thread_count=1)

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.cbm"
            model.save_model(str(path))
            nbytes = path.stat().st_size
        yield Served(
            "CatBoost", chosen.text, answers_of(problem, values), values, seconds, nbytes, trees=True
        )


def _catboost_model(problem: Problem, rate: float, leaves: int, rounds: int) -> Any:
    import catboost

    kind = catboost.CatBoostRegressor if problem.regression else catboost.CatBoostClassifier
    return kind(
        iterations=rounds,
        learning_rate=rate,
        depth=leaves.bit_length(),
        eval_metric="RMSE" if problem.regression else "Accuracy",
        thread_count=1,
        random_seed=0,
        verbose=False,
        allow_writing_files=False,
    )


def _catboost_errors(problem: Problem, rate: float, leaves: int, rounds: int, parts: Any) -> list[float]:
    X, y, held, wanted = parts
    model = _catboost_model(problem, rate, leaves, rounds)
    model.fit(X, y, eval_set=(held, wanted), use_best_model=False)
    found = model.get_evals_result()["validation"]
    return found["RMSE"] if problem.regression else [1.0 - value for value in found["Accuracy"]]
