"""Measure the house: how much there is, and what a call enters on its way.

    python tests/project/house.py [KernelRidge.fit]

prints the counts of the package and, for calls of the public interface, the functions and files that each
enters and how deep it goes; with the name of a call, its functions in the order in which it enters them.
Calls are traced, not declared, in a process of their own: what an earlier call has cached or imported is not
entered again. Functions without a name (lambdas, comprehensions) are not counted.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import json
import os
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(importlib.util.find_spec("gramian").origin).parent
#: What many functions carry from floor to floor, by what shows it in a file.
CONCERNS = {
    "engine": r"engine",
    "generator": r"\brng\b",
    "progress": r"phases|progress",
    "clock": r"perf_counter|\buntil\b|deadline|TimeEstimate",
}
LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
#: Parameters from which a function has many.
MANY = 7


@cache
def inventory() -> dict[str, int]:
    """Return how much there is in the package."""
    counts = Counter[str]()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        counts["files"] += 1
        counts["tokens"] += sum(token.type not in LAYOUT for token in tokens)
        counts.update(f"files with {name}" for name, shown in CONCERNS.items() if re.search(shown, text))
        for node in ast.walk(ast.parse(text)):
            counts["nodes"] += 1
            counts.update(kinds(node))
    return dict(counts)


def kinds(node: ast.AST) -> Iterator[str]:
    """Yield what a node counts as."""
    if isinstance(node, ast.stmt):
        yield "statements"
    if isinstance(node, ast.ClassDef):
        yield "classes"
        decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
        if "dataclass" in decorators or "approximation" in decorators:
            yield "dataclasses"
        if any("Protocol" in ast.unparse(each) for each in node.bases):
            yield "protocols"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield "functions"
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        bound = bool(node.args.args) and node.args.args[0].arg in ("self", "cls")
        if len(given) - bound >= MANY and node.name != "__init__":
            yield "functions of many parameters"


def calls() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield calls of the public interface on a few hundred rows; a prediction comes after its fit."""
    import numpy as np
    import pandas as pd
    from sklearn.ensemble import RandomForestRegressor

    import gramian as gm

    rng, one = np.random.default_rng(0), {"random_state": 0, "n_jobs": 1}
    X, v = rng.random((400, 3)), np.ones(400)
    y = np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1])
    ridge = gm.KernelRidge(alpha=1e-2, gamma=5.0, **one)
    yield "KernelRidge.fit", lambda: ridge.fit(X, y)
    yield "KernelRidge.predict", lambda: ridge.predict(X[:50])
    meka = gm.MEKA(gamma=2.0, rank=20, n_blocks=3, **one)
    yield "MEKA.fit", lambda: meka.fit(X)
    yield "MEKA.operator_ @ v", lambda: meka.operator_ @ v
    yield "KernelSVC.fit", lambda: gm.KernelSVC(gamma=5.0, **one).fit(X, y > 0)
    process = gm.GaussianProcessRegressor(**one)
    yield "GaussianProcessRegressor.fit", lambda: process.fit(X, y)
    yield "GaussianProcessRegressor.predict", lambda: process.predict(X[:20], return_std=True)
    forest = RandomForestRegressor(20, random_state=0, n_jobs=1).fit(X, y)
    yield "compress", lambda: gm.compress(forest, X, **one)
    columns = {"a": rng.random(240), "town": rng.choice(["Bath", "Hull", "York"], 240), "b": rng.random(240)}
    table = pd.DataFrame(columns)
    table.loc[::20, "a"] = np.nan
    fast = gm.TabularClassifier(effort="fast", **one)
    yield "TabularClassifier.fit", lambda: fast.fit(table, (table.b > 0.5) ^ (table.town == "Hull"))
    yield "TabularClassifier.predict", lambda: fast.predict(table[:10])


def entered(work: Callable[[], object]) -> list[tuple[int, str, str]]:
    """Return depth, file and name of the package's functions in the order in which a call enters them."""
    found: list[tuple[int, str, str]] = []
    stack: list[Any] = []
    root = str(SOURCE) + os.sep

    def see(frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root):
            if not code.co_name.startswith("<"):
                found.append((len(stack), code.co_filename.removeprefix(root), code.co_qualname))
            stack.append(frame)
        elif event == "return" and stack and stack[-1] is frame:
            stack.pop()

    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def walks() -> dict[str, dict[str, int]]:
    """Return for each call how many functions and files it enters, and how deep."""
    found = {}
    for name, work in calls():
        way = entered(work)
        found[name] = {
            "functions": len({(file, function) for _, file, function in way}),
            "files": len({file for _, file, _ in way}),
            "depth": max(depth for depth, *_ in way),
        }
    return found


def main(name: str | None) -> None:
    """Print the counts and walks as JSON, or the walk of one call."""
    if name is None:
        print(json.dumps({"inventory": inventory(), "walks": walks()}, indent=1))
        return
    seen = set()
    for each, work in calls():
        for depth, file, function in entered(work):
            if each == name and (file, function) not in seen:
                seen.add((file, function))
                print(f"{'  ' * depth}{file}: {function}")


if __name__ == "__main__":
    main(*(sys.argv[1:] or [None]))
