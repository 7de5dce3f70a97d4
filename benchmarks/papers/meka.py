"""The MEKA paper (Si, Hsieh and Dhillon, ICML 2014): its items, and Table 2, the error of the matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from suite.results import Line

from papers.items import Item, Paper, Run, Value
from papers.meka_digits import DIGITS
from papers.meka_figures import FIGURES
from papers.meka_methods import BASELINES, KNYS, LITERAL, MEKA_LITERAL, OURS, Method, measure, some_rows
from papers.meka_regression import REGRESSIONS
from papers.meka_studies import STUDIES
from papers.page import markdown_table, number

ALL_ROWS = 10**9


@dataclass(frozen=True)
class Setting:
    """A row of Table 2."""

    gamma: float
    rank: int
    n_blocks: int
    published: tuple[float, ...]  #: of the baselines and MEKA, in the order of the methods
    seeds: int

    def memory(self, n: int) -> float:
        """Numbers a row of MEKA."""
        return self.rank + (self.rank * self.n_blocks) ** 2 / n


TABLE_2 = {
    "pendigits": Setting(2.0, 128, 5, (0.1325, 0.1361, 0.0828, 0.2881, 0.4404, 0.4726, 0.0811), 5),
    "ijcnn1": Setting(1.0, 128, 10, (0.0423, 0.0385, 0.0234, 0.1113, 0.2972, 0.2975, 0.0082), 3),
    "covtype_100k": Setting(10.0, 256, 15, (0.3700, 0.3738, 0.2752, 0.5646, 0.8825, 0.8920, 0.1192), 2),
}
#: Of the cores that are fitted to a sample of entries, for their worst case.
SAMPLED_SEEDS = 10
SAMPLED = (LITERAL, "MEKA, sampled with a ridge")


def table_2(name: str, run: Run) -> Iterator[Value]:
    """Every method at the paper's setting. The recompressed core of covtype takes 4 GB and is left out."""
    s = TABLE_2[name]
    X = some_rows(name, run.rows(ALL_ROWS))
    memory = s.memory(len(X))
    for method, printed in zip(BASELINES, s.published, strict=False):
        yield from table_2_row(method, X, s, s.rank * method.numbers, run.seeds(s.seeds), printed)
    yield from table_2_row(KNYS, X, s, memory, run.seeds(s.seeds), None)
    yield from table_2_row(MEKA_LITERAL, X, s, memory, run.seeds(sampled_seeds(s)), s.published[-1])
    for method in OURS:
        if name == "covtype_100k" and method.name == "MEKA, recompressed":
            continue
        seeds = sampled_seeds(s) if method.name in SAMPLED else s.seeds
        yield from table_2_row(method, X, s, memory, run.seeds(seeds), None)


def sampled_seeds(s: Setting) -> int:
    return SAMPLED_SEEDS if s.seeds > 2 else s.seeds


def table_2_row(
    method: Method, X: np.ndarray, s: Setting, memory: float, seeds: range, published: float | None
) -> Iterator[Value]:
    """Yield the median and the worst error of the seeds."""
    every = [measure(method, X, s.gamma, memory, s.n_blocks, error_rows=500, seed=seed) for seed in seeds]
    found = [f for f in every if f is not None]
    setting = {"k": s.rank, "c": s.n_blocks, "gamma": s.gamma, "seeds": len(seeds)}
    if len(found) < len(every):
        yield Value(method.name, "share of singular fits", 1.0 - len(found) / len(every), setting)
    if found:
        setting["numbers a row"] = round(found[0].memory)
        errors, seconds = [f.error for f in found], float(np.median([f.seconds for f in found]))
        yield Value(method.name, "relative error", float(np.median(errors)), setting, published, seconds)
        yield Value(method.name, "worst relative error", max(errors), setting)


def table_2_verdict(lines: list[Line]) -> str:
    """Compare each MEKA with the printed error and with the best low-rank method at its memory."""
    rows = []
    for name in dict.fromkeys(line["set"] for line in lines):
        own = [line for line in lines if line["set"] == name]
        median = {line["method"]: line["value"] for line in own if line["measure"] == "relative error"}
        worst = {line["method"]: line["value"] for line in own if line["measure"] == "worst relative error"}
        # The last of two rows of a method is that at MEKA's memory.
        low_rank = min(value for method, value in median.items() if not method.startswith("MEKA"))
        printed = TABLE_2[name].published[-1]
        for method in (LITERAL, "MEKA, projection, uniform columns", "MEKA, projection"):
            if method in median:
                ratios = (median[method] / printed, worst[method] / printed, median[method] / low_rank)
                rows.append([name, method, *map(number, ratios)])
            else:
                rows.append([name, method, *["every fit was singular"] * 3])
    over = ("error / printed error", "worst seed / printed error", "error / best low rank at its memory")
    return markdown_table(("set", "method", *over), rows)


PAPER = Paper(
    "meka",
    "meka.md",
    (
        Item("table 2", tuple(TABLE_2), table_2, verdict=table_2_verdict),
        *REGRESSIONS,
        *FIGURES,
        *STUDIES,
        *DIGITS,
    ),
)
