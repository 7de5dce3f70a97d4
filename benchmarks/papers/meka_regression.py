"""Table 3 and Figure 4 of the MEKA paper: kernel ridge regression on every approximation.

The paper's equation (5) is min ‖G a − y‖² + λ‖a‖², solved by (G² + λI) a = G y. The usual kernel
ridge regression, which is the library's, is (G + αI) a = y: the same as (G² + αG) a = G y. Both are solved
here exactly, from the eigenvalues of each approximation, with α = λ.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from suite.results import Line

from gramian._numerics import gram_factor
from papers.items import Item, Run, Value
from papers.meka_methods import (
    BASELINES,
    LITERAL,
    MEKA_LITERAL,
    OURS,
    Method,
    Sizes,
    curves_of,
    fitted,
    frontier,
    rows_of,
)
from papers.page import markdown_table, number

EQUATION_5, RIDGE = "(G² + λI) a = G y", "(G + λI) a = y"
PROJECTION = "MEKA, projection"


@dataclass(frozen=True)
class Setting:
    gamma: float
    rank: int
    n_blocks: int
    penalty: float  #: λ
    published: tuple[float, ...]  #: of the baselines and MEKA, in the order of the methods
    splits: int

    def memory(self, n: int, rank: int | None = None) -> float:
        """Numbers a row of MEKA."""
        k = rank or self.rank
        return k + (k * self.n_blocks) ** 2 / n


TABLE_3 = {
    "wine": Setting(2.0**-10, 128, 3, 2.0**-4, (0.7514, 0.7555, 0.7568, 0.7732, 0.7459, 0.7509, 0.7375), 5),
    "cadata": Setting(4.0, 128, 5, 2.0**-3, (0.1504, 0.1505, 0.1386, 0.1462, 0.1334, 0.1502, 0.1209), 5),
    "cpusmall": Setting(4.0, 256, 5, 2.0**-4, (8.8747, 8.6973, 6.9638, 9.2831, 9.6795, 10.2601, 6.1130), 3),
    "census_house16H": Setting(
        2.0**-4, 256, 5, 2.0**-5, (0.0679, 0.0653, 0.0578, 0.0697, 0.0727, 0.0732, 0.0490), 3
    ),
    "covtype_100k": Setting(
        4.0, 256, 10, 2.0**-2, (0.8197, 0.8216, 0.8172, 0.8454, 0.8011, 0.8026, 0.7106), 1
    ),
}
#: Sets whose rows are not the paper's: 16 of census' 137 features, 100,000 of covtype's rows.
OTHER_ROWS = ("census_house16H", "covtype_100k")
#: MEKA's rank k; the others have its memory.
FIGURE_4 = ("cadata", "cpusmall", "census_house16H")
RANKS_4 = (25, 50, 100, 200)
METHODS_4 = ("Nys", "KNys", "RKS", LITERAL, PROJECTION)


def table_3(name: str, run: Run) -> Iterator[Value]:
    """Test RMSE, mean of random 80/20 splits, random features at k and at 2k numbers a row.

    The recompressed core of covtype takes too much memory.
    """
    s = TABLE_3[name]
    ours = [m for m in OURS if name != "covtype_100k" or m.name != "MEKA, recompressed"]
    rows = int(0.8 * run.rows(len(rows_of(name)[0])))
    entries: list[tuple[Method, float, float | None]] = [
        *(
            (method, float(times * s.rank), printed)
            for method, printed in zip(BASELINES, s.published, strict=False)
            for times in range(1, method.numbers + 1)
        ),
        (MEKA_LITERAL, s.memory(rows), s.published[-1]),
        *((method, s.memory(rows), None) for method in ours),
    ]
    for method, memory, printed in entries:
        setting = {
            "k": s.rank,
            "c": s.n_blocks,
            "gamma": s.gamma,
            "λ": s.penalty,
            "numbers a row": round(memory),
        }
        found = [regression(method, name, s, memory, run, seed) for seed in run.seeds(s.splits)]
        kept = [f for f in found if f is not None]
        if len(kept) < len(found):
            yield Value(method.name, "share of singular fits", 1.0 - len(kept) / len(found), setting)
        for solved in (EQUATION_5, RIDGE) if kept else ():
            yield Value(
                method.name,
                "test rmse",
                float(np.mean([f.rmse[solved] for f in kept])),
                {**setting, "solves": solved},
                printed if solved == EQUATION_5 else None,
                float(np.median([f.seconds for f in kept])),
            )


def table_3_verdict(lines: list[Line]) -> str:
    """Compare MEKA with the best low-rank method, by either equation."""
    rows = []
    for name in dict.fromkeys(line["set"] for line in lines):
        own = [line for line in lines if line["set"] == name and line["measure"] == "test rmse"]
        five, ridge = (
            {line["method"]: line["value"] for line in own if line["setting"]["solves"] == kind}
            for kind in (EQUATION_5, RIDGE)
        )
        low_rank = min((m for m in five if not m.startswith("MEKA")), key=lambda m: five[m])
        literal = number(five[LITERAL]) if LITERAL in five else "no fit"
        rival = f"{number(five[low_rank])} ({low_rank})"
        best = number(min(ridge[m] for m in five if m in BASELINE_NAMES))
        mark = f"{name} (other rows than the paper's)" if name in OTHER_ROWS else name
        rows.append([mark, "equation (5)", literal, number(five[PROJECTION]), rival])
        rows.append([mark, "kernel ridge regression", "", number(ridge[PROJECTION]), best])
    return markdown_table(("set", "solved by", LITERAL, PROJECTION, "best low rank"), rows)


BASELINE_NAMES = [method.name for method in BASELINES]


def figure_4(name: str, run: Run) -> Iterator[Value]:
    """Test RMSE by equation (5), and seconds of fit and solve, by k at MEKA's memory; one split."""
    s = TABLE_3[name]
    rows = int(0.8 * run.rows(len(rows_of(name)[0])))
    for k in RANKS_4[:2] if run.quick else RANKS_4:
        for method in (m for m in (*BASELINES, MEKA_LITERAL, *OURS) if m.name in METHODS_4):
            found = regression(method, name, s, s.memory(rows, k), run, 0)
            if found is not None:
                setting = {"k": k, "c": s.n_blocks, "gamma": s.gamma, "λ": s.penalty}
                yield Value(method.name, "test rmse", found.rmse[EQUATION_5], setting)
                yield Value(method.name, "seconds", found.seconds, setting)


def figure_4_verdict(lines: list[Line]) -> str:
    """Say at which k no low-rank fit has both less error and less time."""
    errors, seconds = curves_of(lines, "k", "test rmse"), curves_of(lines, "k", "seconds")
    rows = []
    for name, curves in errors.items():
        low_rank = [m for m in curves if m in BASELINE_NAMES]
        rows.append([name, *(frontier(curves, seconds[name], m, low_rank) for m in (LITERAL, PROJECTION))])
    head = "k at which no low-rank fit has both less error and less time"
    return markdown_table((f"{head}: set", LITERAL, PROJECTION), rows)


@dataclass(frozen=True)
class Regression:
    rmse: dict[str, float]
    seconds: float


def regression(
    method: Method, name: str, s: Setting, memory: float, run: Run, seed: int
) -> Regression | None:
    """Return the errors on a split; None where the literal least squares are singular."""
    X, y = rows_of(name)
    order = np.random.default_rng(seed).permutation(len(X))[: run.rows(len(X))]
    cut = int(0.8 * len(order))
    train, test = order[:cut], order[cut:]
    rows, targets = X[train].astype(np.float32), y[train]
    began = time.perf_counter()
    found = fitted(method, Sizes(rows, memory, s.n_blocks, seed), s.gamma)
    if found is None:
        return None
    values, own, mapped = spectrum(found[0], rows, targets, X[test].astype(np.float32))
    answers = {
        EQUATION_5: mapped @ (values**2 / (values**2 + s.penalty) * own),
        RIDGE: mapped @ (np.maximum(values, 0.0) / (np.maximum(values, 0.0) + s.penalty) * own),
    }
    took = time.perf_counter() - began
    rmse = {kind: float(np.sqrt(np.mean((f - y[test]) ** 2))) for kind, f in answers.items()}
    return Regression(rmse, took)


def spectrum(
    a: Any, X: np.ndarray, y: np.ndarray, new: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return eigenvalues σ of K̃, the parts of y in its eigenvectors, and those vectors at new rows.

    K̃ = V diag(σ) Vᵀ: a function f(σ) of it answers with (vectors at new rows) @ (f(σ) · Vᵀy). Negative
    eigenvalues of a core that is fitted to samples stay as they are.
    """
    features = getattr(a, "features_", None)
    if features is None or features.core is None:
        F, G = (a.transform(rows).astype(np.float64) for rows in (X, new))
        root, inverse = gram_factor(F.T @ F)
        values, vectors = np.linalg.eigh(root @ root.T)
        return values, vectors.T @ (inverse.T @ (F.T @ y)), G @ (inverse @ vectors)
    labels, others = features.partition.route(X), features.partition.route(new)
    roots, inverses, parts = [], [], []
    for s, basis in enumerate(features.nodes):
        W = at(basis, X[labels == s])
        root, inverse = gram_factor(W.T @ W)
        roots.append(root)
        inverses.append(inverse)
        parts.append(inverse.T @ (W.T @ y[labels == s]))
    core = features.core
    cuts = np.cumsum([0, *(len(root) for root in roots)])
    S = np.zeros((cuts[-1], cuts[-1]))
    for s, left in enumerate(roots):
        for t, right in enumerate(roots):
            S[cuts[s] : cuts[s + 1], cuts[t] : cuts[t + 1]] = left @ core.block(s, t) @ right.T
    values, vectors = np.linalg.eigh(0.5 * (S + S.T))
    mapped = np.zeros((len(new), len(values)))
    for s, basis in enumerate(features.nodes):
        if (others == s).any():
            mapped[others == s] = at(basis, new[others == s]) @ (inverses[s] @ vectors[cuts[s] : cuts[s + 1]])
    return values, vectors.T @ np.concatenate(parts), mapped


def at(basis: Any, rows: np.ndarray) -> np.ndarray:
    """Return w(x) of rows in float64."""
    out = np.zeros((len(rows), basis.rank), basis.columns.dtype)
    basis.write(rows, np.zeros((len(rows), 0), out.dtype), out)
    return out.astype(np.float64)


REGRESSIONS = (
    Item("table 3", tuple(TABLE_3), table_3, verdict=table_3_verdict),
    Item("figure 4", FIGURE_4, figure_4, across="k", verdict=figure_4_verdict),
)
