"""Figures 11 and 18: seconds by the number of rows, and beside the improved fast Gauss transform.

The paper's numbers of seconds are of MATLAB and C++ on another machine; only the growth is compared, by the
exponent of n in a fit to all points.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from suite.datasets import load_dataset
from suite.results import Line

import gramian as gm
from papers.bbf_methods import gaussian, standardised
from papers.bbf_structure import members_of
from papers.fast_gauss import ImprovedFastGauss
from papers.items import Item, Run, Value
from papers.meka_methods import curves_of
from papers.page import markdown_table

PAPER, OURS = "BBF", "ours"
GROUPS, RANK = 15, 30
SHARES = (0.125, 0.25, 0.5, 1.0)
FACTORIZATION, APPLICATION, TOTAL = "s of the factorization", "s of a product", "s in all"
#: Figure 18: rows by dimension, h and the tolerance; in 40 dimensions the blocks of BBF have a rank of 100.
ROWS_18, H_18, TOLERANCE = {5: (2_000, 4_000, 8_000, 16_000), 40: (1_000, 2_000, 4_000, 8_000)}, 0.5, 1e-3
RANK_40 = 100


def figure_11(name: str, run: Run) -> Iterator[Value]:
    """A share of each of 15 clusters, ever larger; h = 2, all blocks of rank 30, columns by Algorithm 3."""
    X = standardised(load_dataset(name).X).astype(np.float32)
    X = X[np.random.default_rng(0).permutation(len(X))[: run.rows(10**9)]]
    groups = members_of(X, GROUPS)
    for share in SHARES[:2] if run.quick else SHARES:
        rows = X[np.sort(np.concatenate([group[: max(1, round(share * len(group)))] for group in groups]))]
        setting = {"h": 2.0, "blocks": GROUPS, "rank": RANK, "n": len(rows)}
        for method, options in ((PAPER, {"core": "sampled", "sampling": "important"}), (OURS, {})):
            a = gm.BlockBasis(gamma=0.25, rank=RANK, n_blocks=GROUPS, random_state=0, **options)
            a.set_params(tile_dtype="float32", memory_budget="4GB")
            start = time.perf_counter()
            a.fit(rows)
            yield Value(method, FACTORIZATION, time.perf_counter() - start, setting)


def exponents(measure: str) -> Any:
    def verdict(lines: list[Line]) -> str:
        """Give the powers of n by which the seconds grow."""
        rows = []
        for name, curves in curves_of(lines, "n", measure).items():
            for method, curve in curves.items():
                if len(curve) > 1:
                    slope = np.polyfit(np.log(list(curve)), np.log(list(curve.values())), 1)[0]
                    rows.append([name, method, f"n^{slope:.2f}"])
        return markdown_table(("set", "method", f"the {measure} grow as"), rows)

    return verdict


def figure_18(name: str, run: Run) -> Iterator[Value]:
    """Ten centres in the unit cube with a deviation of 0.1: seconds of a product, and in all.

    In 5 dimensions ranks are by the rule at the tolerance. In 40 the rule asks for more numbers than K has,
    and blocks have a rank of 100. The transform refuses 40 dimensions, where one expansion would take
    10^5 terms: it then has a cluster for each row, of one term, which is the direct sum.
    """
    d = int(name.split()[-1])
    for n in ROWS_18[d][: 2 if run.quick else None]:
        rng = np.random.default_rng(0)
        X = rng.random((10, d))[rng.integers(10, size=n)] + 0.1 * rng.standard_normal((n, d))
        q = rng.random(n)
        some = rng.choice(n, 300, replace=False)
        truth = gaussian(H_18**-2.0)(X[some], X, dtype=np.float64) @ q
        size = {"tol": TOLERANCE} if d < 10 else {"rank": RANK_40}
        for method in (PAPER, "IFGT"):
            start = time.perf_counter()
            if method == PAPER:
                product = block_basis(X, size)
                label = f"{method}, {'tolerance 0.001' if d < 10 else f'rank {RANK_40}'}"
            else:
                product, label = transform(X)
            made = time.perf_counter()
            sums = product(q)
            end = time.perf_counter()
            setting = {"h": H_18, "n": n}
            yield Value(label, TOTAL, end - start, setting)
            yield Value(label, APPLICATION, end - made, setting)
            gap = np.linalg.norm(sums[some] - truth) / np.linalg.norm(truth)
            yield Value(label, "relative error", float(gap), setting)


def block_basis(X: np.ndarray, size: dict[str, float]) -> Any:
    a = gm.BlockBasis(
        gamma=H_18**-2.0,
        core="sampled",
        sampling="important",
        n_blocks=10,
        tile_dtype="float64",
        memory_budget="4GB",
        random_state=0,
        **size,
    )
    operator = a.fit(X).operator_
    return lambda q: operator @ q


def transform(X: np.ndarray) -> tuple[Any, str]:
    scale = H_18 / np.sqrt(2.0)
    try:
        return ImprovedFastGauss(X, scale, epsilon=TOLERANCE).matvec, "IFGT"
    except gm.InputError:
        made = ImprovedFastGauss(X, scale, epsilon=TOLERANCE, n_clusters=len(X))
        return made.matvec, "IFGT, a cluster for each row"


TIMES = (
    Item(
        "figure 11",
        ("census_house16H", "covtype_100k"),
        figure_11,
        across="n",
        verdict=exponents(FACTORIZATION),
    ),
    Item("figure 18", ("dimension 5", "dimension 40"), figure_18, across="n", verdict=exponents(TOTAL)),
)
