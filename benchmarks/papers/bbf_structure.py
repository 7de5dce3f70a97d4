"""Figures 9, 12 and 13: ranks of block rows, where bases come from, and blocks against one low rank."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.linalg as la
from suite.datasets import load_dataset
from suite.results import Line

import gramian as gm
from gramian.approximations.block_basis_sampled import BlockRow, sample_columns
from gramian.compression.builder import block_members
from gramian.compression.randomized_svd import randomized_svd
from gramian.compression.recompression import Size
from gramian.landmarks.partition import fit_partition
from papers.bbf_methods import gaussian, rows, some, training_rows
from papers.items import Item, Run, Value
from papers.meka_methods import below, curves_of
from papers.page import markdown_table, number

#: 1/h² of all three.
BANDWIDTH, BLOCKS = 0.25, 10


def members_of(X: np.ndarray, n_blocks: int) -> list[np.ndarray]:
    labels = fit_partition(X, n_blocks, rng=np.random.default_rng(0)).route(X)
    return block_members(labels, n_blocks)


# ---- figure 9 --------------------------------------------------------------------------------------

#: Radius and size of the paper's clusters, and of the whole set.
CLUSTERS = (
    *((42.4, 752), (41.3, 603), (37.6, 729), (24.3, 733), (24.2, 1571)),
    *((23.0, 588), (21.8, 1006), (21.6, 421), (21.4, 236), (21.3, 855)),
)
FULL = 62.8


def figure_9a(name: str, run: Run) -> Iterator[Value]:
    """Ten clusters of the training rows by k-means, the widest first; radii over that of all rows.

    A radius here is the median distance to the centre, of raw features; the paper does not define its own.
    """
    data = load_dataset("pendigits")
    X = some(np.asarray(data.X[: data.n_train], np.float64), run.rows(10**9))
    whole = radius(X)
    found = sorted(((radius(X[m]), len(m)) for m in members_of(X, BLOCKS)), reverse=True)
    for i, ((mine, size), (printed, count)) in enumerate(zip(found, CLUSTERS, strict=True), start=1):
        yield Value(f"cluster {i}", "radius over the full one", mine / whole, {}, printed / FULL)
        yield Value(f"cluster {i}", "rows", size, {}, count)


def figure_9a_verdict(lines: list[Line]) -> str:
    mine = [line for line in lines if line["measure"] == "radius over the full one"]
    ours, printed = max(line["value"] for line in mine), max(line["published"] for line in mine)
    return (
        f"Every cluster is narrower than the set: at most {number(ours)} times, the paper {number(printed)}."
    )


def radius(X: np.ndarray) -> float:
    return float(np.median(np.linalg.norm(X - X.mean(axis=0), axis=1)))


def figure_9b(name: str, run: Run) -> Iterator[Value]:
    """Singular values over the first, of K and of its block rows, at some places."""
    X = some(training_rows(), run.rows(10**9))
    K = gaussian(BANDWIDTH)(X, dtype=np.float64)
    places = [p for p in (1, 10, 30, 100, 200, 400) if p <= len(X) // BLOCKS // 2]
    values = randomized_svd(K, max(places), 3, 20, np.random.default_rng(0)).values
    yield from decay("whole matrix", values, places)
    for i, mine in enumerate(sorted(members_of(X, BLOCKS), key=len, reverse=True), start=1):
        strip = K[mine]
        squares = la.eigvalsh(strip @ strip.T)[::-1]
        yield from decay(f"block row {i}", np.sqrt(np.maximum(squares, 0.0)), places)


def decay(method: str, values: np.ndarray, places: list[int]) -> Iterator[Value]:
    for p in places:
        if p <= len(values):
            yield Value(method, "singular value over the first", values[p - 1] / values[0], {"p": p})


def figure_9b_verdict(lines: list[Line]) -> str:
    """Count the block rows whose singular values fall faster than those of the whole matrix."""
    (curves,) = curves_of(lines, "p", "singular value over the first").values()
    whole = curves.pop("whole matrix")
    places = [p for p in whole if p > 1]
    faster = [f"{sum(c.get(p, 0.0) < whole[p] for c in curves.values())} of {len(curves)}" for p in places]
    return markdown_table(
        ("singular value", *map(str, places)), [["block rows that have fallen further", *faster]]
    )


# ---- figures 12 and 13 -----------------------------------------------------------------------------


def inner(K: np.ndarray, members: list[np.ndarray], bases: list[np.ndarray]) -> np.ndarray:
    """Return ‖M_st − U_s U_sᵀ M_st U_t U_tᵀ‖_F²/‖M‖_F² of every block, for orthonormal bases."""
    left = np.zeros((len(members), len(members)))
    for s, (mine, U) in enumerate(zip(members, bases, strict=True)):
        strip = K[mine]
        half = U.T @ strip
        for t, (other, V) in enumerate(zip(members, bases, strict=True)):
            left[s, t] = np.square(strip[:, other]).sum() - np.square(half[:, other] @ V).sum()
    return np.maximum(left, 0.0) / np.square(K).sum()


def pivoted(
    X: np.ndarray, kernel: gm.Kernel, mine: np.ndarray, columns: np.ndarray, r: int, rng: np.random.Generator
) -> np.ndarray:
    """Algorithm 1 and Algorithm 4 on K(mine, columns)."""
    found = sample_columns(BlockRow(kernel, X[mine], X[columns]), r, 2, rng)
    return randomized_svd(found.matrix, r, 2, 10, rng).left


def figure_12(name: str, run: Run) -> Iterator[Value]:
    """The paper states neither h nor blocks nor ranks: ours are chosen so that the first number agrees."""
    X, rank = some(rows(name), run.rows(10**9)), 57
    kernel = gaussian(BANDWIDTH)
    K, members, every = kernel(X, dtype=np.float64), members_of(X, BLOCKS), np.arange(len(X))
    rng = np.random.default_rng(0)
    cases = {
        "block rows, SVD": (1.4e-3, lambda m: leading(K[m] @ K[m].T, rank)),
        "diagonal blocks, SVD": (6.3e-3, lambda m: leading(K[np.ix_(m, m)], rank)),
        "block rows, randomized": (1.5e-2, lambda m: pivoted(X, kernel, m, every, rank, rng)),
        "diagonal blocks, randomized": (4.0e-2, lambda m: pivoted(X, kernel, m, m, rank, rng)),
    }
    setting = {"h": 2.0, "blocks": BLOCKS, "rank": rank}
    for method, (printed, basis) in cases.items():
        left = inner(K, members, [basis(m) for m in members])
        own = float(np.trace(left))
        yield Value(method, "relative error", float(np.sqrt(left.sum())), setting, printed)
        yield Value(method, "in diagonal blocks", float(np.sqrt(own)), setting)
        yield Value(method, "in other blocks", float(np.sqrt(left.sum() - own)), setting)


def leading(symmetric: np.ndarray, rank: int) -> np.ndarray:
    n = len(symmetric)
    return np.asarray(la.eigh(symmetric, subset_by_index=(max(0, n - rank), n - 1))[1])


def figure_12_verdict(lines: list[Line]) -> str:
    """Compare bases from diagonal blocks with those from block rows."""
    found = {(line["method"], line["measure"]): line for line in lines}
    rows = []
    for kind in ("SVD", "randomized"):
        mine, other = (
            [found[f"{where}, {kind}", m]["value"] for m in ("relative error", "in diagonal blocks")]
            for where in ("block rows", "diagonal blocks")
        )
        printed = [
            found[f"{where}, {kind}", "relative error"]["published"]
            for where in ("block rows", "diagonal blocks")
        ]
        ratios = (other[0] / mine[0], printed[1] / printed[0], other[1] / mine[1])
        rows.append([kind, *map(number, ratios)])
    head = ("error from diagonal blocks / from block rows", "whole matrix", "whole matrix, paper")
    return markdown_table((*head, "diagonal blocks"), rows)


def figure_13(name: str, run: Run) -> Iterator[Value]:
    """The same column samples under ten blocks and under one low rank, inner matrices exact, all rows.

    2r columns are drawn, by leverage scores of rank r, uniformly or by Algorithm 1, and cut to r.
    """
    X, kernel = some(rows(name), run.rows(10**9)), gaussian(BANDWIDTH)
    K, n = kernel(X, dtype=np.float64), len(X)
    seeds = run.seeds(3 if n < 5_000 else 1)
    sizes = (25,) if run.quick else (25, 50, 100)
    for shape, count in (("BBF", BLOCKS), ("LR", 1)):
        members = members_of(X, count)
        ranks = {memory: round(Size(memory * n).equal_rank(n, count)) for memory in sizes}
        most = max(ranks.values())
        exact = [randomized_svd(K[m], min(most, len(m)), 2, 20, np.random.default_rng(0)) for m in members]
        for memory, r in ranks.items():
            setting = {"h": 2.0, "seeds": len(seeds), "numbers a row": memory}
            best = [found.left[:, :r] for found in exact]
            yield Value(f"{shape}, svd", "relative error", root(inner(K, members, best)), setting)
            for rule in ("rand", "unif", "ls"):
                errors = []
                for seed in seeds:
                    rng = np.random.default_rng(seed)
                    bases = []
                    for mine, found in zip(members, exact, strict=True):
                        if rule == "rand":
                            bases.append(pivoted(X, kernel, mine, np.arange(n), min(r, len(mine)), rng))
                            continue
                        scores = np.square(found.right[:, :r]).sum(axis=1)
                        weights = None if rule == "unif" else scores / scores.sum()
                        columns = rng.choice(n, 2 * r, replace=False, p=weights)
                        drawn = K[np.ix_(mine, columns)]
                        bases.append(randomized_svd(drawn, min(r, len(mine)), 2, 10, rng).left)
                    errors.append(root(inner(K, members, bases)))
                yield Value(f"{shape}, {rule}", "relative error", float(np.mean(errors)), setting)


def root(left: np.ndarray) -> float:
    return float(np.sqrt(left.sum()))


def figure_13_verdict(lines: list[Line]) -> str:
    """Say where ten blocks are below one low rank."""
    rows = [
        [name, rule, *(below(curves, f"BBF, {rule}", [f"LR, {other}"]) for other in (rule, "svd"))]
        for name, curves in curves_of(lines, "numbers a row").items()
        for rule in ("svd", "rand", "unif", "ls")
    ]
    return markdown_table(("set", "rule", "ten blocks below one low rank of the rule", "below the SVD"), rows)


STRUCTURE = (
    Item("figure 9a", ("pendigits",), figure_9a, verdict=figure_9a_verdict),
    Item("figure 9b", ("pendigits",), figure_9b, across="p", verdict=figure_9b_verdict),
    Item("figure 12", ("abalone",), figure_12, verdict=figure_12_verdict),
    Item("figure 13", ("abalone", "pendigits"), figure_13, across="numbers a row", verdict=figure_13_verdict),
)
