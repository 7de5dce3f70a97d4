"""One run over sets and methods: a stored line for each model."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from papers.lines import provenance
from suite.results import Line, append
from suite.results import read as read_lines

from gramian.exceptions import GramianError, InputError, did_you_mean
from serving import boosting, dense, peers
from serving.clock import Served, batch_nanoseconds, single_nanoseconds
from serving.dense import Teacher, teach
from serving.problems import Problem, load

#: What tells two lines apart.
KEY = ("set", "method", "size")
LIBRARIES = ("lightgbm", "catboost", "treelite", "tl2cgen", "onnxmltools", "onnxruntime", "numba")


@dataclass(frozen=True)
class Method:
    """Yields the fitted models of a problem; ``makes`` names them, ``needs`` is the module that they take."""

    models: Callable[[Problem, bool, Teacher], Iterator[Served]]
    makes: tuple[str, ...]
    needs: str | None = None


METHODS = {
    "ours": Method(dense.compressed, ("gm.compress",)),
    "teacher": Method(dense.teacher, ("teacher",)),
    "linear": Method(dense.linear, ("linear model",)),
    "mlp": Method(dense.distilled, ("distilled MLP",)),
    "ldkl": Method(dense.local_deep, ("LDKL",)),
    "dcpred": Method(dense.dc_pred, ("DC-Pred++",)),
    "boosting": Method(boosting.hist, ("HistGradientBoosting",)),
    "lightgbm": Method(
        peers.lightgbm, ("LightGBM", "LightGBM, treelite", "LightGBM, ONNX Runtime"), "lightgbm"
    ),
    "catboost": Method(peers.catboost, ("CatBoost",), "catboost"),
}
#: Every method of a line, in the order of tables and colours.
NAMES = tuple(name for method in METHODS.values() for name in method.makes)


def available() -> list[str]:
    return [n for n, method in METHODS.items() if not method.needs or importlib.util.find_spec(method.needs)]


def check(names: list[str]) -> list[str]:
    """Return the names, or say which is unknown or not installed."""
    for name in names:
        if name not in METHODS:
            raise InputError(
                f"method {name!r} is unknown.{did_you_mean(name, METHODS)} There are: {', '.join(METHODS)}."
            )
        if name not in available():
            raise InputError(f"method {name!r} needs {METHODS[name].needs}. Install it with: make peers")
    return names


@dataclass(frozen=True)
class Settings:
    """Sizes of a run."""

    n_rows: int
    batch_rows: int
    seconds: float  #: of each timing
    quick: bool = False


def run(sets: list[str], methods: list[str], settings: Settings, out: Path) -> Iterator[Line]:
    """Measure, and write lines; yield them as they come. The file is of one run: it is written anew."""
    out.unlink(missing_ok=True)
    about = provenance(1)
    about["versions"] |= {name: version for name in LIBRARIES if (version := _version(name))}
    for name in sets:
        problem = load(name, settings.n_rows)
        taught = teach(problem, settings.quick)
        for method in methods:
            start = time.perf_counter()
            try:
                for served in METHODS[method].models(problem, settings.quick, taught):
                    line = measured(problem, served, settings) | about
                    append(out, line)
                    yield line
            except (GramianError, ValueError, ArithmeticError, RuntimeError) as failure:
                line = {
                    "set": name,
                    "method": METHODS[method].makes[0],
                    "size": "",
                    "failure": f"{type(failure).__name__}: {failure}".splitlines()[0][:200],
                    "seconds": round(time.perf_counter() - start, 2),
                    **about,
                }
                append(out, line)
                yield line


def measured(problem: Problem, served: Served, settings: Settings) -> Line:
    """Return the error and times of a model."""
    rows = problem.test.trees if served.trees else problem.test.dense
    single = None if served.one is None else single_nanoseconds(served.one, rows, settings.seconds)
    return {
        "set": problem.name,
        "task": "regression" if problem.regression else "classification",
        "n_train": len(problem.train.y),
        "n_classes": problem.n_classes,
        "method": served.method,
        "size": served.size,
        "error": round(problem.error(served.batch(rows)), 5),
        "batch_ns": round(batch_nanoseconds(served.batch, rows, settings.batch_rows, settings.seconds), 1),
        "batch_rows": settings.batch_rows,
        "single_ns": None if single is None else round(single, 1),
        "seconds": round(served.seconds, 2),
        "bytes": int(served.nbytes),
    }


def read(path: Path) -> list[Line]:
    """Return the lines of a run."""
    return read_lines(path, KEY)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def line_text(line: dict[str, Any]) -> str:
    """Return a line for the terminal."""
    where = f"{line['set']:16} {line['method']:24} {line['size']:34}"
    if "failure" in line:
        return f"{where} failed: {line['failure']}"
    single = "" if line["single_ns"] is None else f"{line['single_ns']:10,.0f}"
    return (
        f"{where} error {line['error']:.4f}  batch {line['batch_ns']:9,.0f} ns  one {single:>10} ns  "
        f"fit {line['seconds']:7.1f} s  {line['bytes'] / 1e3:9,.1f} kB"
    )
