"""DC-Pred++: operations, bytes and stages of a prediction, beside two ways to run a linear model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp
from fast_prediction import dcpred, fast_call, model_bytes, problem, score
from suite.results import Line

from gramian.engine import Engine
from gramian.fast.cost import linear_nanoseconds, seconds_per_row
from papers.dcpred_sweeps import TABLE_1
from papers.items import Run, Value
from papers.page import markdown_table, number

#: Leaves and landmarks: sizes whose operations are within the paper's cost, and those of the best accuracy.
SIZES = ((1, 8), (4, 4), (4, 8), (8, 4), (8, 16), (8, 32))
#: Operations that a value of the exponential counts as: what a polynomial of its float32 version takes.
EXPONENTIAL = 20


def operations(d: int, leaves: int, m: int) -> dict[str, int]:
    """Return multiplications and additions a row of each stage, with all products of two kernel values.

    The pairs of m kernel values and 1 are summed as one quadratic form, two operations a pair; the paper's
    way takes three for each of m (m + 1)/2 products, and two for each kernel value.
    """
    return {
        "leaf": 2 * leaves * d if leaves > 1 else 0,
        "kernel values": 2 * (d + 2) * m + EXPONENTIAL * m,
        "pseudo-landmarks": min(2 * (m + 1) ** 2, 3 * m * (m + 1) // 2 + 2 * m),
    }


def cost(name: str, run: Run) -> Iterator[Value]:
    """Yield accuracy, operations, bytes and nanoseconds of DC-Pred++ by size, and of linear models."""
    setting, (X, y, X_test, y_test) = problem(name, 0)
    most, most_test = run.rows(len(X)), run.rows(len(X_test))
    X, y, X_test, y_test = X[:most], y[:most], X_test[:most_test], y_test[:most_test]
    batch = np.ascontiguousarray(X_test, np.float32)
    n, d = batch.shape
    pairs = sp.csr_array(X_test)
    weights = np.ones(d)
    yield Value("X @ w, float32", "operations", 2 * d)
    yield Value("X @ w, float32", "ns a row", linear_nanoseconds(batch, 1))
    yield Value("index and value, float64", "operations", 2 * pairs.nnz / n)
    yield Value("index and value, float64", "ns a row", _row_nanoseconds(lambda: pairs @ weights, n))
    for leaves, m in SIZES[::5] if run.quick else SIZES:
        where = {"leaves": leaves, "landmarks": m}
        tuned = dcpred(setting, leaves, m, 0)
        parameters, _ = tuned.best(setting, X, y, 0)
        model = tuned.make(**parameters).fit(X, y)
        yield Value("DC-Pred++", "accuracy", score(setting, y_test, model.predict(X_test)), where)
        for stage, count in operations(d, leaves, m).items():
            yield Value("DC-Pred++", f"operations, {stage}", count, where)
        yield Value("DC-Pred++", "operations", sum(operations(d, leaves, m).values()), where)
        yield Value("DC-Pred++", "bytes", model_bytes(model), where)
        call, tree, engine = fast_call(model), model.model_, Engine(1)
        yield Value("DC-Pred++", "ns a row", _row_nanoseconds(lambda call=call: call(batch), n), where)
        route = lambda tree=tree, engine=engine: tree.partition.route(batch, engine)  # noqa: E731
        yield Value("DC-Pred++", "ns a row, leaf", _row_nanoseconds(route, n), where)


def _row_nanoseconds(call: Callable[[], object], n: int) -> float:
    """Return the nanoseconds a row of the fastest of several runs, on one thread."""
    return 1e9 * seconds_per_row(lambda _: call(), np.empty(n))


def cost_verdict(lines: list[Line]) -> str:
    """Say what the multiple of a linear model consists of, at the best size and within the paper's."""
    rows = []
    for name in dict.fromkeys(line["set"] for line in lines):
        found: dict[tuple[str, str], dict[str, float]] = {}
        for line in lines:
            if line["set"] == name:
                key = (line["method"], str(line["setting"]))
                found.setdefault(key, {})[line["measure"]] = line["value"]
        linear = next(value for (method, _), value in found.items() if method.startswith("X @ w"))
        pairs = next(value for (method, _), value in found.items() if method.startswith("index"))
        sizes = [value for (method, _), value in found.items() if method == "DC-Pred++"]
        paper, times = TABLE_1[name]["DC-Pred++"]
        best = max(sizes, key=lambda size: size["accuracy"])
        within = [size for size in sizes if size["operations"] <= times * linear["operations"]]
        small = max(within, key=lambda size: size["accuracy"], default=None)
        rows.append(
            [
                name,
                f"{number(paper)} at {number(times)}",
                f"{number(best['accuracy'])} at {number(best['operations'] / linear['operations'])}",
                number(best["ns a row"] / linear["ns a row"]),
                number(best["ns a row"] / pairs["ns a row"]),
                "none" if small is None else number(small["accuracy"]),
            ]
        )
    head = (
        "times a linear model",
        "paper",
        "ours, operations",
        "ours, time over X @ w",
        "time over index and value",
        "accuracy within the paper's multiple in operations",
    )
    return markdown_table(head, rows)
