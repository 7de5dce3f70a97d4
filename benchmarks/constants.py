"""Effects of the constants: what errors and times do at half and at twice each value.

GRAMIAN_DATA=folder python benchmarks/constants.py [--jobs 2]

A constant is a number that a module of the library binds to a name in capitals. Every program of
suite/programs.py trains on one to three thousand rows of a stored set and returns an error on other rows. A
constant is tried with programs that run a function which reads it, the quickest up to three seconds, twice:
at half and at twice its value. Integers are rounded and at least 1; of a share between ½ and 1, twice means
half as far from 1. Each try runs in a process of its own, in which the module is compiled with the other
number, on one thread; what takes twenty times as long as usual is stopped. Stored in
results/constants.jsonl are the ratios of error and processor time to those of the value itself; doors.py
writes the table of docs/contributing.md. A run goes on where it stopped: delete the file to begin anew.

Ratios of time within a fifth, and of error within a hundredth, are noise.
"""

from __future__ import annotations

import argparse
import ast
import importlib.machinery
import importlib.util
import json
import multiprocessing
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from suite.programs import programs

Number = int | float
Result = tuple[float, float]  #: error, seconds of processor time
SOURCE = Path(__file__).parents[1] / "src" / "gramian"
RESULTS = Path(__file__).parent / "results" / "constants.jsonl"
SLOWEST, SECONDS = 20.0, 3.0
PRELOADED = ("numpy", "pandas", "joblib", "scipy.optimize", "scipy.sparse.linalg", "sklearn.ensemble")
#: Folders whose constants say how much is read, shown or drawn; none of the programs goes there. The stored
#: run has two that have left the package since.
SHOWING = {"cli", "comparison", "demo.py", "plotting", "reporting", "baselines", "integrations", "summary"}


@dataclass(frozen=True)
class Constant:
    """A number with a name in a module of the library."""

    file: str  #: below src/gramian
    name: str
    value: Number

    @property
    def key(self) -> str:
        """Return file and name in one text."""
        return f"{self.file} {self.name}"

    @property
    def module(self) -> str:
        """Return the name of the module."""
        return ".".join(["gramian", *Path(self.file).with_suffix("").parts]).removesuffix(".__init__")

    def others(self) -> dict[str, Number]:
        """Return half and twice the value, as the module docstring says; as far as they differ."""
        twice = 1 - (1 - self.value) / 2 if 0.5 < self.value < 1 else 2 * self.value
        found: dict[str, Number] = {"half": self.value / 2, "twice": twice}
        if isinstance(self.value, int):
            found = {name: max(1, round(value)) for name, value in found.items()}
        return {name: value for name, value in found.items() if value != self.value}


def bound(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names in capitals that a module binds, and what it binds them to."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=True))
        for name, bound_to in pairs:
            if isinstance(name, ast.Name) and name.id.strip("_").isupper():
                yield name.id, bound_to


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of each file."""
    return {
        str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


@cache
def constants() -> tuple[Constant, ...]:
    """Return all constants: literals and sums, products and powers of literals."""
    found = []
    for file, tree in trees().items():
        for name, node in bound(tree):
            if any(
                isinstance(part, ast.Name | ast.Call | ast.Subscript | ast.Dict) for part in ast.walk(node)
            ):
                continue
            value = eval(compile(ast.Expression(node), file, "eval"), {})
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if number and value and np.isfinite(value):
                found.append(Constant(file, name, value))
    return tuple(found)


def of_numerics() -> list[Constant]:
    """Return the constants but those that say how much is read, shown or drawn."""
    return [one for one in constants() if one.file.partition("/")[0] not in SHOWING]


# ---- one process --------------------------------------------------------------------------------------


class Replaced(ast.NodeTransformer):
    """Puts a number in the place of an expression."""

    def __init__(self, node: ast.expr, value: Number) -> None:
        self.node, self.value = node, value

    def visit(self, node: ast.AST) -> Any:
        return ast.copy_location(ast.Constant(self.value), node) if node is self.node else super().visit(node)


class Changed(importlib.machinery.SourceFileLoader):
    """Loads one module with another number in the place of a constant."""

    def __init__(self, constant: Constant, value: Number) -> None:
        super().__init__(constant.module, str(SOURCE / constant.file))
        self.constant, self.value = constant, value

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path))
        (node,) = (node for name, node in bound(tree) if name == self.constant.name)
        tree = Replaced(node, self.value).visit(tree)
        return compile(ast.fix_missing_locations(tree), self.path, "exec")

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Return this loader for its module, as a finder of imports."""
        if fullname != self.constant.module:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)


def execute(wanted: list[str], changed: tuple[Constant, Number] | None, send: Any) -> None:
    """Run programs, and send (name, error, seconds) of each."""
    warnings.simplefilter("ignore")  # an error tells more than a warning here
    if changed is not None:
        sys.meta_path.insert(0, Changed(*changed))  # type: ignore[arg-type]
    every = programs()
    for name in wanted:
        began = time.process_time()
        try:
            error = every[name]()
        except Exception as failure:  # whatever it is, it is the answer to this value
            send.send((name, type(failure).__name__, time.process_time() - began))
        else:
            send.send((name, error, time.process_time() - began))


def trace(name: str, _: None, send: Any) -> None:
    """Run a program, and send the functions of the library that it ran: file and names that they read."""
    warnings.simplefilter("ignore")
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and "gramian" in frame.f_code.co_filename:
            seen.add(frame.f_code)

    program = programs()[name]
    threading.setprofile(note)
    sys.setprofile(note)
    program()
    sys.setprofile(None)
    ran = {(str(Path(code.co_filename).relative_to(SOURCE)), code.co_names) for code in seen}
    send.send((name, sorted(ran), 0.0))


def in_process(
    task: Callable[..., None], wanted: Any, changed: Any, seconds: float
) -> list[tuple[str, Any, float]]:
    """Run a task in a process of its own; return what it sent within the seconds."""
    context = multiprocessing.get_context("forkserver")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=task, args=(wanted, changed, send))
    process.start()
    send.close()
    found, end = [], time.monotonic() + seconds
    while receive.poll(max(0.0, end - time.monotonic())):
        try:
            found.append(receive.recv())
        except EOFError:
            break
    process.kill()
    process.join()
    return found


# ---- which programs read which constant -----------------------------------------------------------------


@cache
def imported(file: str) -> dict[str, str]:
    """Return the module from which a file takes each name that it imports."""
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(trees()[file])
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


@cache
def at_import(file: str) -> frozenset[str]:
    """Return the names in capitals that a file reads while it is imported: defaults, other constants."""
    found = set()
    left: list[ast.AST] = [trees()[file]]
    while left:
        node = left.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            left += [node.args, *node.decorator_list]
        elif not isinstance(node, ast.Lambda):
            left += ast.iter_child_nodes(node)
    return frozenset(found)


def read_by(ran: list[tuple[str, tuple[str, ...]]]) -> Iterator[Constant]:
    """Yield the constants that functions read: in their bodies, or as their module was imported."""
    named = {(file, name) for file, names in ran for name in names}
    named |= {(file, name) for file, _ in ran for name in at_import(file)}
    modules = {(imported(file).get(name, ""), name) for file, name in named}
    for constant in constants():
        if (constant.file, constant.name) in named or (constant.module, constant.name) in modules:
            yield constant


def baseline(pool: Any) -> dict[str, Any]:
    """Return error and seconds of each program, the programs that read each constant, and counts."""
    from joblib import delayed

    names = list(programs())
    usual: dict[str, Result] = {}
    reads: dict[str, list[str]] = {}
    for told in pool(delayed(in_process)(execute, [name], None, 600.0) for name in names):
        for name, error, seconds in told:
            usual[name] = error, seconds
            print(f"{name:28}{error:8.4}{seconds:8.2f} s", flush=True)
    for told in pool(delayed(in_process)(trace, name, None, 600.0) for name in names):
        for name, ran, _ in told:
            for constant in read_by(ran):
                reads.setdefault(constant.key, []).append(name)
    return {"all": len(constants()), "of_numerics": len(of_numerics()), "usual": usual, "reads": reads}


def quickest(names: list[str], usual: dict[str, Result]) -> list[str]:
    """Return the quickest of some programs, at least one, as many as take SECONDS."""
    ranked = sorted(names, key=lambda name: usual[name][1])
    spent = np.cumsum([usual[name][1] for name in ranked])
    return ranked[: max(1, int((spent <= SECONDS).sum()))]


def ratios_of(
    constant: Constant, value: Number, wanted: list[str], usual: dict[str, Result]
) -> dict[str, tuple[float | str, float]]:
    """Return error and seconds of programs with another value over the usual; of failures the name."""
    most = 10 + SLOWEST * sum(usual[name][1] for name in wanted)
    told = {name: (error, s) for name, error, s in in_process(execute, wanted, (constant, value), most)}
    found: dict[str, tuple[float | str, float]] = {}
    for name in wanted:
        error, seconds = told.get(name, ("stopped", most))
        ratio = error if isinstance(error, str) else round(error / usual[name][0], 4)
        found[name] = ratio, round(seconds / usual[name][1], 3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--only", default="", help="a part of the path of the files whose constants are tried"
    )
    options = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    from joblib import Parallel, delayed
    from papers.lines import provenance

    multiprocessing.set_forkserver_preload(list(PRELOADED))

    tried = [one for one in of_numerics() if options.only in one.file]
    pool = Parallel(options.jobs, prefer="threads")
    if not RESULTS.exists():
        RESULTS.write_text(json.dumps({**baseline(pool), **provenance(1)}) + "\n", encoding="utf-8")
    about, *stored = (json.loads(text) for text in RESULTS.read_text(encoding="utf-8").splitlines())
    done = {(line["file"], line["name"], line["which"]) for line in stored}

    def attempt(constant: Constant, which: str, value: Number) -> None:
        wanted = quickest(about["reads"][constant.key], about["usual"])
        line = {"file": constant.file, "name": constant.name, "value": constant.value, "which": which}
        line |= {"tried": value, "ratios": ratios_of(constant, value, wanted, about["usual"])}
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(*line.values(), flush=True)

    pool(
        delayed(attempt)(constant, which, value)
        for constant in tried
        if constant.key in about["reads"]
        for which, value in constant.others().items()
        if (constant.file, constant.name, which) not in done
    )


if __name__ == "__main__":
    main()
