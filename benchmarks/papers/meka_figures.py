"""Figures 1c, 2, 3 and 5 of the MEKA paper: error by gamma, partition, memory, time and blocks.

The paper prints no numbers beside these curves; what its text says of them is checked, place by place. Every
method stores the same numbers, n·m of them: Nyström and random features with rank m, MEKA with rank k of c
blocks where n·k + (c·k)² = n·m, BKA whole blocks of m rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans
from suite.results import Line

import gramian as gm
from gramian.compression.randomized_svd import randomized_eigh
from papers.items import Item, Run, Value
from papers.meka_methods import (
    BASELINES,
    BKA,
    LITERAL,
    OURS,
    OURS_NARROW,
    PAPER,
    Found,
    Method,
    below,
    curves_of,
    frontier,
    in_words,
    measure,
    some_rows,
)
from papers.page import markdown_table

ERROR_ROWS = 300
OTHERS = [method.name for method in BASELINES]
NYSTROM = ["Nys", "RNys", "KNys", "ENys"]
PROJECTION = "MEKA, projection"


@dataclass(frozen=True)
class Sweep:
    """A data set with the blocks and sizes of Figure 3."""

    gamma: float
    n_blocks: int
    sizes: tuple[int, ...]


FIGURE_3 = {
    "pendigits": Sweep(2.0, 5, (20, 50, 100, 200)),
    "ijcnn1": Sweep(1.0, 10, (50, 100, 200, 400)),
    "covtype_100k": Sweep(10.0, 15, (50, 100, 200, 400)),
}
ROWS_1C, ROWS_3, ROWS_5 = 5_000, 20_000, 10_000
GAMMAS_1C = (0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
GAMMAS_2 = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
GAMMAS_5A = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
BLOCKS_5B = (5, 10, 15, 20, 25)
MEMORY_1C, MEMORY_5A, RANK_5B = 100, 160, 100


# ---- figure 1c -------------------------------------------------------------------------------------


def figure_1(name: str, run: Run) -> Iterator[Value]:
    """Error by gamma on 5,000 rows of covtype; SVD is the best matrix of the rank."""
    X = some_rows(name, run.rows(ROWS_1C))
    for g in GAMMAS_1C[3:5] if run.quick else GAMMAS_1C:
        setting = {"rows": len(X), "gamma": g, "numbers a row": MEMORY_1C}
        yield Value("SVD", "relative error", best(X, g, MEMORY_1C), setting)
        methods = (*PAPER, BKA, *OURS, *OURS_NARROW)
        for method, found in each(methods, X, g, MEMORY_1C, 5):
            yield Value(method.name, "relative error", found.error, setting)


def figure_1_verdict(lines: list[Line]) -> str:
    """Say at which gamma the blocked methods err less than the others."""
    (curves,) = curves_of(lines, "gamma").values()
    narrow = OURS_NARROW[0].name
    rows = [
        [method, *(below(curves, method, others) for others in (NYSTROM, ["SVD"], [LITERAL]))]
        for method in (LITERAL, PROJECTION, "BKA", narrow)
    ]
    rows[0][-1] = ""
    said = below(curves, narrow, ["SVD", "BKA", LITERAL, *OTHERS])
    head = ("gamma at which the error is lower", "than all Nyström methods", "than the exact SVD")
    return (
        markdown_table((*head, "than MEKA, literal"), rows)
        + f"\n\n{narrow} is below all of the paper's methods {said}."
    )


def best(X: np.ndarray, gamma: float, rank: int) -> float:
    """Return the relative error of K's leading eigenvectors, by a randomized factorization of four powers."""
    K = gaussian(gamma)(X.astype(np.float64), dtype=np.float64)
    values, _ = randomized_eigh(K, rank, 4, 20, np.random.default_rng(0))
    return float(np.sqrt(max(1.0 - np.square(values[:rank]).sum() / np.square(K).sum(), 0.0)))


def gaussian(gamma: float) -> gm.Gaussian:
    return gm.Gaussian((0.5 / gamma) ** 0.5)


# ---- figure 2 --------------------------------------------------------------------------------------


def figure_2(name: str, run: Run) -> Iterator[Value]:
    """Error of BKA with five blocks on 500 rows: by k-means, by spectral clustering of G, at random.

    Spectral clustering maximizes the relaxed ratio association of G∘G, the paper's equation (2): k-means on
    its five leading eigenvectors.
    """
    X = some_rows(name, 500).astype(np.float64)
    labels = {"k-means": grouped(X), "random": np.random.default_rng(0).integers(5, size=len(X))}
    for g in GAMMAS_2[::3] if run.quick else GAMMAS_2:
        squares = np.square(gaussian(g)(X, dtype=np.float64))
        vectors = np.linalg.eigh(squares)[1][:, -5:]
        for method, label in {**labels, "spectral clustering": grouped(vectors)}.items():
            left = squares[label[:, None] != label].sum() / squares.sum()
            yield Value(method, "relative error", float(np.sqrt(left)), {"gamma": g})


def grouped(points: np.ndarray) -> np.ndarray:
    return KMeans(5, n_init=10, random_state=0).fit_predict(points)


def figure_2_verdict(lines: list[Line]) -> str:
    (curves,) = curves_of(lines, "gamma").values()
    near = [g for g, error in curves["k-means"].items() if error <= 1.1 * curves["spectral clustering"][g]]
    return (
        "K-means of the rows errs at most a tenth more than spectral clustering of the matrix "
        f"{in_words(near, list(curves['k-means']))}, and less than random blocks "
        f"{below(curves, 'k-means', ['random'])}."
    )


# ---- figure 3 --------------------------------------------------------------------------------------


def figure_3(name: str, run: Run) -> Iterator[Value]:
    """Error and seconds by memory on 20,000 rows (pendigits: all)."""
    s = FIGURE_3[name]
    X = some_rows(name, run.rows(ROWS_3))
    ours = [method for method in OURS if method.name != "MEKA, recompressed" or name == "pendigits"]
    for size in s.sizes[:2] if run.quick else s.sizes:
        setting = {"rows": len(X), "numbers a row": size, "c": s.n_blocks, "gamma": s.gamma}
        for method, found in each((*PAPER, *ours), X, s.gamma, size, s.n_blocks):
            yield Value(method.name, "relative error", found.error, setting)
            yield Value(method.name, "fit seconds", found.seconds, setting)


def figure_3_verdict(lines: list[Line]) -> str:
    """Say at which memory MEKA errs least, and where no low-rank fit has both less error and less time."""
    errors, seconds = curves_of(lines, "numbers a row"), curves_of(lines, "numbers a row", "fit seconds")
    rows = [
        [name, method, below(curves, method, OTHERS), frontier(curves, seconds[name], method, OTHERS)]
        for name, curves in errors.items()
        for method in (LITERAL, PROJECTION)
    ]
    frontiers = "no low-rank fit has both less error and less time"
    return markdown_table(("set", "method", "below all low-rank methods of its memory", frontiers), rows)


# ---- figure 5 --------------------------------------------------------------------------------------


def figure_5a(name: str, run: Run) -> Iterator[Value]:
    """Error by gamma with ten blocks."""
    X = some_rows(name, run.rows(ROWS_5))
    for g in GAMMAS_5A[::3] if run.quick else GAMMAS_5A:
        for method, found in each((*PAPER, *OURS), X, g, MEMORY_5A, 10):
            setting = {"rows": len(X), "gamma": g, "numbers a row": MEMORY_5A}
            yield Value(method.name, "relative error", found.error, setting)


def figure_5a_verdict(lines: list[Line]) -> str:
    (curves,) = curves_of(lines, "gamma").values()
    gammas = sorted(curves[PROJECTION])
    gaps = [curves["KNys"][g] - curves[PROJECTION][g] for g in gammas]
    grows = [g for g, gap, last in zip(gammas[1:], gaps[1:], gaps, strict=False) if gap > last]
    return (
        f"Literal MEKA is below all low-rank methods {below(curves, LITERAL, OTHERS)}, our projection core "
        f"{below(curves, PROJECTION, OTHERS)}. Its gap to k-means Nyström grows with gamma "
        f"{in_words(grows, gammas[1:])}."
    )


def figure_5b(name: str, run: Run) -> Iterator[Value]:
    """Error by blocks c with k = 100, where the others have the rank k + (c·k)²/n."""
    X = some_rows(name, run.rows(ROWS_3))
    methods = [method for method in (*PAPER, *OURS) if method.name != "MEKA, recompressed"]
    for c in BLOCKS_5B[:2] if run.quick else BLOCKS_5B:
        for method, found in each(methods, X, 1.0, RANK_5B + (c * RANK_5B) ** 2 / len(X), c):
            yield Value(method.name, "relative error", found.error, {"rows": len(X), "c": c, "k": RANK_5B})


def figure_5b_verdict(lines: list[Line]) -> str:
    (curves,) = curves_of(lines, "c").values()
    rows = [
        [name, f"{max(curves[name].values()) / min(curves[name].values()):.1f}", below(curves, name, OTHERS)]
        for name in (LITERAL, PROJECTION)
        if name in curves
    ]
    return markdown_table(("method", "largest error over the smallest", "below all low-rank methods"), rows)


# ---- shared ----------------------------------------------------------------------------------------


def each(
    methods: Iterable[Method], X: np.ndarray, gamma: float, memory: float, n_blocks: int
) -> Iterator[tuple[Method, Found]]:
    """Yield what each method does on these rows; a literal core that is singular is no point."""
    for method in methods:
        found = measure(method, X, gamma, memory, n_blocks, error_rows=ERROR_ROWS, seed=0)
        if found is not None:
            yield method, found


FIGURES = (
    Item("figure 1", ("covtype_100k",), figure_1, across="gamma", verdict=figure_1_verdict),
    Item("figure 2", ("covtype_100k",), figure_2, across="gamma", verdict=figure_2_verdict),
    Item("figure 3", tuple(FIGURE_3), figure_3, across="numbers a row", verdict=figure_3_verdict),
    Item("figure 5a", ("ijcnn1",), figure_5a, across="gamma", verdict=figure_5a_verdict),
    Item("figure 5b", ("ijcnn1",), figure_5b, across="c", logarithmic="y", verdict=figure_5b_verdict),
)
