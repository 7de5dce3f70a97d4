"""Effects of the constants that were chosen by hand: errors and seconds at half and at twice the value.

GRAMIAN_DATA=folder python benchmarks/constants.py [--folders gp,exact] [--workers 2]

Every number of a module of the library whose comment says that it was chosen by hand is set to half and to
twice its value (of a share above 1/2, its distance from 1), everywhere it was imported, and small fits of
what its folder is about are made again: the same rows, seeds and settings. A number that sets a default of a
parameter is read when its module is imported, and shows nothing here; so does one that only larger fits
reach. Lines are stored in results/constants.jsonl; doors.py writes what matters to docs/numerics.md.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import multiprocessing
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from papers.lines import provenance
from threadpoolctl import threadpool_limits

HERE = Path(__file__).parent
RESULTS, SOURCE = HERE / "results" / "constants.jsonl", HERE.parent / "src" / "gramian"
#: Seconds after which a trial counts as too slow.
LIMIT = 60


@dataclass(frozen=True)
class Constant:
    """A number in a module, which may be one of several that are set in one line."""

    module: str
    name: str
    value: float

    @property
    def folder(self) -> str:
        """The folder of the module, "" at the top."""
        return self.module.split(".")[1] if self.module.count(".") > 1 else ""

    def changed(self) -> tuple[Any, Any]:
        """Return half and twice the value."""
        if isinstance(self.value, int):
            return max(1, self.value // 2), 2 * self.value
        if 0.5 < self.value < 1.0:
            return 1.0 - 2.0 * (1.0 - self.value), 1.0 - 0.5 * (1.0 - self.value)
        return 0.5 * self.value, 2.0 * self.value


def by_hand(folders: Collection[str]) -> Iterator[Constant]:
    """Yield the constants of folders whose comment says that they were chosen by hand."""
    for path in sorted(SOURCE.rglob("*.py")):
        inside = path.relative_to(SOURCE).parts[:-1]
        if (inside[0] if inside else "") not in folders:
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.split("\n")
        module = ".".join(("gramian", *path.relative_to(SOURCE).with_suffix("").parts))
        for node in ast.parse(text).body:
            if not isinstance(node, ast.Assign):
                continue
            first = node.lineno - 1
            while lines[first - 1].startswith("#"):
                first -= 1
            if not re.search("by hand", " ".join(lines[first : node.lineno]), re.IGNORECASE):
                continue
            known = vars(importlib.import_module(module))
            for name in [each.id for each in ast.walk(node.targets[0]) if isinstance(each, ast.Name)]:
                if type(known[name]) in (int, float) and known[name] > 0:
                    yield Constant(module, name, known[name])


# ---- small fits ----------------------------------------------------------------------------------


@cache
def rows(name: str, count: int) -> tuple[Any, ...]:
    """Return rows to learn from and 1,000 others of a set, numbers z-scaled."""
    from gramian.data import load_dataset

    data = load_dataset(name)
    order = np.random.default_rng(0).permutation(len(data.y))[: count + 1_000]
    X, y = np.asarray(data.X, np.float64)[order], np.asarray(data.y)[order]
    X = (X - X[:count].mean(axis=0)) / np.maximum(X[:count].std(axis=0), 1e-12)
    return X[:count], y[:count], X[count:], y[count:]


@cache
def frames(name: str, count: int) -> tuple[Any, ...]:
    """Return rows to learn from and 1,000 others of a table with categories."""
    import pandas as pd

    frame = pd.read_parquet(Path(os.environ["GRAMIAN_DATA"]).parent / "tables" / f"{name}.parquet")
    frame = frame.sample(count + 1_000, random_state=0)
    y = np.asarray(frame.pop("__target__"))
    return frame[:count], y[:count], frame[count:], y[count:]


def relative(model: Any, X: Any, y: Any) -> float:
    """Return the RMSE over the targets' deviation, or the log-loss or share of wrong classes."""
    from sklearn.metrics import log_loss

    if hasattr(model, "classes_"):
        if hasattr(model, "predict_proba"):
            return float(log_loss(y, model.predict_proba(X), labels=model.classes_))
        return float(np.mean(model.predict(X) != y))
    return float(np.sqrt(np.mean((np.asarray(model.predict(X)) - y) ** 2)) / np.std(y))


def tables() -> list[float]:
    """Return errors of a regression with categories, and of classes."""
    import gramian as gm

    X, y, new, truth = frames("used_cars_us", 500)
    found = relative(gm.TabularRegressor(random_state=0, n_jobs=1).fit(X, y), new, truth)
    X, y, new, labels = frames("adult", 500)
    return [found, relative(gm.TabularClassifier(random_state=0, n_jobs=1).fit(X, y), new, labels)]


def ridge() -> list[float]:
    """Return errors of ridge regression on compressed kernels, and of approximations."""
    import gramian as gm

    X, y, new, truth = rows("cadata", 3_000)
    same: dict[str, Any] = {"gamma": 0.25, "alpha": 0.05, "random_state": 0, "n_jobs": 1}
    errors = [
        relative(gm.KernelRidge(**same, approximation=chosen, memory_budget="200MB").fit(X, y), new, truth)
        for chosen in ("auto", "lowrankplusblocks", "meka", "nystrom")
    ]
    return [*errors, float(gm.BlockBasis(gamma=0.5, random_state=0).fit(X[:1_500]).relative_error(X[:1_500]))]


def exact() -> list[float]:
    """Return errors of an exact solve, and of a penalty chosen by leave-one-out."""
    import gramian as gm

    X, y, new, truth = rows("cadata", 2_500)
    solved = gm.KernelRidge(gamma=0.25, alpha=1e-2, approximation="exact", random_state=0, n_jobs=1)
    chosen = gm.KernelRidgeCV(random_state=0, n_jobs=1)
    return [relative(model.fit(X, y), new, truth) for model in (solved, chosen)]


def chosen() -> list[float]:
    """Return errors where kernel and penalty are chosen by held-out rows."""
    import gramian as gm

    same: dict[str, Any] = {"kernel": "auto", "gamma": "auto", "random_state": 0, "n_jobs": 1}
    X, y, new, truth = rows("cadata", 1_200)
    found = relative(gm.KernelRidge(alpha="auto", **same).fit(X, y), new, truth)
    X, y, new, labels = rows("letter", 1_200)
    return [found, relative(gm.KernelSVC(C="auto", **same).fit(X, y < 14), new, labels < 14)]


def svm() -> list[float]:
    """Return errors of losses that Newton's method minimises, and of the divided SVM."""
    import gramian as gm

    X, y, new, truth = rows("letter", 1_200)
    same: dict[str, Any] = {"gamma": 0.1, "random_state": 0, "n_jobs": 1}
    models = [gm.KernelSVC(C=10.0, **same), gm.KernelLogisticRegression(C=10.0, **same)]
    few = y < np.median(y)
    two = gm.DCSVC(C=10.0, **same).fit(X, few)
    numbers = gm.KernelSVR(C=1.0, **same).fit(rows("cadata", 1_200)[0], rows("cadata", 1_200)[1] / 1e5)
    return [
        *(relative(model.fit(X, y), new, truth) for model in models),
        relative(two, new, truth < np.median(y)),
        relative(numbers, rows("cadata", 1_200)[2], rows("cadata", 1_200)[3] / 1e5),
    ]


def gp() -> list[float]:
    """Return the error and the negative log density of a Gaussian process."""
    import gramian as gm

    X, y, new, truth = rows("cpusmall", 2_100)
    model = gm.GaussianProcessRegressor(learning_rows=2_500, random_state=0, n_jobs=1).fit(X, y)
    mean, deviation = model.predict(new, return_std=True, include_noise=True)
    density = 0.5 * ((truth - mean) / deviation) ** 2 + np.log(deviation / np.std(truth))
    return [relative(model, new, truth), float(np.exp(density.mean()))]


def fast() -> list[float]:
    """Return errors of fast models that replace a regression and a classifier."""
    import gramian as gm

    X, y, new, truth = rows("cadata", 1_200)
    teacher = gm.KernelRidge(gamma=0.25, alpha=0.05, random_state=0, n_jobs=1).fit(X, y)
    found = [relative(gm.compress(teacher, X, cost=30, random_state=0, n_jobs=1), new, truth)]
    found.append(relative(gm.DCPredRegressor(gamma=0.25, random_state=0, n_jobs=1).fit(X, y), new, truth))
    X, y, new, labels = rows("letter", 1_200)
    model = gm.FastKernelClassifier(random_state=0, n_jobs=1).fit(X, y % 3)
    return [*found, relative(model, new, labels % 3)]


#: The fits that tell of a folder's constants. Other folders make pages, pictures and files.
FITS: dict[str, tuple[Callable[[], list[float]], ...]] = {
    "tables": (tables,),
    "gp": (gp,),
    "fast": (fast,),
    "svm": (svm,),
    "exact": (exact,),
    "selection": (chosen,),
    "metric": (tables,),
    "solvers": (ridge, exact, svm),
    **dict.fromkeys(("compression", "landmarks", "approximations", "kernels", "operators"), (ridge,)),
}


# ---- trials --------------------------------------------------------------------------------------


def trial(work: tuple[Constant | None, Any, str]) -> dict[str, Any]:
    """Return errors and seconds of a folder's fits with one constant changed, in a process of its own."""
    constant, value, folder = work
    warnings.simplefilter("ignore")
    if constant is not None:
        for module in [each for name, each in sys.modules.items() if name.startswith("gramian")]:
            known = vars(module).get(constant.name)
            if type(known) is type(constant.value) and known == constant.value:
                setattr(module, constant.name, value)
    signal.alarm(LIMIT)
    began = time.process_time()
    try:
        with threadpool_limits(1):
            errors = [error for fit in FITS[folder] for error in fit()]
    except Exception as error:  # a value that the library refuses is a result too
        return {"failed": f"{type(error).__name__}: {error}"[:200]}
    return {"errors": errors, "seconds": time.process_time() - began}


def too_slow(*_: Any) -> None:
    """End a trial that took too long."""
    raise TimeoutError(f"more than {LIMIT} s")


def main() -> None:
    """Try every constant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folders", help="names, separated by commas (default: all)")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    wanted = options.folders.split(",") if options.folders else list(FITS)
    constants = list(by_hand(wanted))
    signal.signal(signal.SIGALRM, too_slow)
    work: list[tuple[Constant | None, Any, str]] = [(None, None, folder) for folder in wanted]
    work += [(each, value, each.folder) for each in constants for value in each.changed()]
    with multiprocessing.get_context("fork").Pool(options.workers, maxtasksperchild=1) as pool:
        found = []
        for number, one in enumerate(pool.imap(trial, work)):
            found.append(one)
            print(number, len(work), work[number], one, flush=True)
    about, usual = provenance(1), dict(zip(wanted, found, strict=False))
    lines = []
    for number, each in enumerate(constants):
        half, twice = found[len(wanted) + 2 * number : len(wanted) + 2 * number + 2]
        line = {"module": each.module, "name": each.name, "value": each.value}
        lines.append(line | {"usual": usual[each.folder], "half": half, "twice": twice} | about)
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
