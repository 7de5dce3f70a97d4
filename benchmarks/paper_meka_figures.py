"""Figures 1c, 3 and 5 of the MEKA paper: error against memory, time, gamma and blocks.

Run by paper_meka.py. The paper prints no numbers beside these curves (Table 2 has a point of each); what its
text says of them is checked, place by place. Every method stores the same numbers, n·m of them: Nyström and
random features with rank m, MEKA with rank k of c blocks where n·k + (c·k)² = n·m, BKA whole blocks of m
rows. Some six minutes of one core, half of it for BlockBasis, which tries numbers of blocks.

1c: error by gamma on 5,000 rows of covtype, m = 100, c = 5; SVD is the best matrix of rank m.
3: error by m and by seconds on 20,000 rows (pendigits: all 10,992) with the gamma and c of Table 2.
5a: error by gamma on 20,000 rows of ijcnn1, m = 160, c = 10. 5b: error by c from 5 to 25 on all 49,990 rows
of ijcnn1 with k = 100, where the others have the rank k + (c·k)²/n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from meka_comparison import BKA, OURS, OURS_NARROW, PAPER, Found, Method, measure, some_rows

import gramian as gm
from gramian.compression.randomized_svd import randomized_eigh

ERROR_ROWS = 300
MEKA = ("MEKA, sampled", "MEKA, projection", "MEKA, recompressed")
NYSTROM = ("Nys", "RNys", "KNys", "ENys")
OTHERS = (*NYSTROM, "RKS", "fastfood")

#: Errors by method and place on the x axis.
Curves = dict[str, dict[float, Found]]


@dataclass(frozen=True)
class Sweep:
    """A data set with the blocks, rows and sizes of Figure 3."""

    name: str
    gamma: float
    n_blocks: int
    sizes: tuple[int, ...]


FIGURE_3 = (
    Sweep("pendigits", 2.0, 5, (20, 50, 100, 200)),
    Sweep("ijcnn1", 1.0, 10, (50, 100, 200, 400)),
    Sweep("covtype_100k", 10.0, 15, (50, 100, 200, 400)),
)
GAMMAS_1C = (0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
GAMMAS_5A = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
BLOCKS_5B = (5, 10, 15, 20, 25)


@dataclass(frozen=True)
class Panel:
    """One plot: errors by place, or by seconds."""

    title: str
    x: str
    curves: Curves


def figures(path: str | None) -> None:
    first, sweeps, last = figure_1c(), figure_3(), figure_5()
    if path:
        draw([first, *last, *sweeps], path)


def figure_1c() -> Panel:
    X, memory, n_blocks = some_rows("covtype_100k", 5000), 100, 5
    methods = (*PAPER, BKA, *OURS, *OURS_NARROW)
    curves: Curves = {"SVD": {g: Found(best(X, g, memory), 0.0, memory) for g in GAMMAS_1C}}
    for g in GAMMAS_1C:
        extend(curves, methods, X, g, memory, n_blocks, at=g)
    show("Figure 1c: error by gamma, covtype (5,000 rows), m = 100, c = 5", curves)
    meka, narrow = MEKA[0], OURS_NARROW[1].name
    claim("low rank (SVD) below BKA, for small gamma", below(curves, "SVD", ("BKA",)))
    claim("BKA below the Nystrom methods, for large gamma", below(curves, "BKA", NYSTROM))
    claim("MEKA below the Nystrom methods, for all", below(curves, meka, NYSTROM))
    claim("MEKA below the exact SVD, for all", below(curves, meka, ("SVD",)))
    claim("ours: BlockBasis below all but BKA", below(curves, "BlockBasis", ("SVD", *OTHERS, *MEKA)))
    claim(f"ours: {narrow} below all of the paper's", below(curves, narrow, ("SVD", "BKA", *OTHERS, meka)))
    return Panel("1c: covtype, m = 100", "gamma", curves)


def figure_3() -> list[Panel]:
    by_memory, by_time = [], []
    for s in FIGURE_3:
        X, curves = some_rows(s.name, 20_000), Curves()
        for size in s.sizes:
            extend(curves, (*PAPER, *OURS), X, s.gamma, size, s.n_blocks, at=size)
        show(f"Figure 3: error by m, {s.name} ({len(X):,} rows), gamma {s.gamma:g}, c = {s.n_blocks}", curves)
        show("the same fits: seconds", curves, "seconds")
        claim("MEKA below all others at the same memory", below(curves, MEKA[0], OTHERS))
        claim("MEKA below all others in as many seconds", sooner(curves, MEKA[0], OTHERS))
        by_memory.append(Panel(f"3: {s.name}", "memory / n", curves))
        by_time.append(Panel(f"3: {s.name}", "seconds", curves))
    return [*by_memory, *by_time]


def figure_5() -> list[Panel]:
    methods = tuple(m for m in (*PAPER, *OURS) if m.name != "BlockBasis")
    X, curves = some_rows("ijcnn1", 20_000), Curves()
    for g in GAMMAS_5A:
        extend(curves, methods, X, g, 160, 10, at=g)
    show("Figure 5a: error by gamma, ijcnn1 (20,000 rows), m = 160, c = 10", curves)
    claim("MEKA below all others, for all", below(curves, MEKA[0], OTHERS))
    gaps = np.diff([curves["KNys"][g].error - curves[MEKA[0]][g].error for g in GAMMAS_5A])
    claim("the gap to k-means Nystrom grows with gamma", dict(zip(GAMMAS_5A[1:], gaps > 0, strict=True)))
    first = Panel("5a: ijcnn1, m = 160", "gamma", curves)

    X, curves, rank = some_rows("ijcnn1", 10**9), Curves(), 100
    for c in BLOCKS_5B:
        extend(curves, methods, X, 1.0, rank + (c * rank) ** 2 / len(X), c, at=c)
    show(f"Figure 5b: error by blocks c, ijcnn1 ({len(X):,} rows), gamma 1, k = 100", curves)
    claim("MEKA below all others, for all", below(curves, MEKA[0], OTHERS))
    errors = [found.error for found in curves[MEKA[0]].values()]
    print(f"  said to be stable in c: errors of MEKA from {min(errors):.4f} to {max(errors):.4f}")
    return [first, Panel("5b: ijcnn1, k = 100", "blocks c", curves)]


def best(X: np.ndarray, gamma: float, rank: int) -> float:
    """Relative error of the leading eigenvectors of K, by a randomized factorization with four powers."""
    K = gm.Gaussian((0.5 / gamma) ** 0.5)(X.astype(np.float64), dtype=np.float64)
    values, _ = randomized_eigh(K, rank, 4, 20, np.random.default_rng(0))
    return float(np.sqrt(max(1.0 - np.square(values[:rank]).sum() / np.square(K).sum(), 0.0)))


def extend(
    curves: Curves,
    methods: tuple[Method, ...],
    X: np.ndarray,
    gamma: float,
    memory: float,
    n_blocks: int,
    *,
    at: float,
) -> None:
    for method in methods:
        found = measure(method, X, gamma, memory, n_blocks, error_rows=ERROR_ROWS, seed=0)
        curves.setdefault(method.name, {})[at] = found


def below(curves: Curves, name: str, others: tuple[str, ...]) -> dict[float, bool]:
    """Say at each place whether a method errs no more than the others; 2 %, or 1e-4, is a draw."""
    return {
        x: all(mine.error <= max(1.02 * curves[other][x].error, 1e-4) for other in others)
        for x, mine in curves[name].items()
    }


def sooner(curves: Curves, name: str, others: tuple[str, ...]) -> dict[float, bool]:
    """Say for each size whether no fit of the others has both less error and less time."""
    return {
        x: not any(
            f.error < mine.error and f.seconds < mine.seconds
            for other in others
            for f in curves[other].values()
        )
        for x, mine in curves[name].items()
    }


def show(title: str, curves: Curves, field: str = "error") -> None:
    places = next(iter(curves.values())).keys()
    print(f"\n{title}\n{'method':19} " + " ".join(f"{x:>9g}" for x in places))
    for name, found in curves.items():
        print(f"{name:19} " + " ".join(f"{getattr(f, field):9.3g}" for f in found.values()), flush=True)


def claim(text: str, holds: dict[float, bool]) -> None:
    missed = [f"{x:g}" for x, here in holds.items() if not here]
    found = [f"{x:g}" for x, here in holds.items() if here]
    print(f"  {text}: at {', '.join(found) or 'none'}" + (f"; not at {', '.join(missed)}" if missed else ""))


def draw(panels: list[Panel], path: str) -> None:
    """Three panels to a row; the paper's methods are dashed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = list(panels[0].curves)
    dashed = {"SVD", BKA.name, *(method.name for method in PAPER)}
    colours = dict(zip(names, plt.colormaps["tab20"].colors, strict=False))
    rows = -(-len(panels) // 3)
    figure, axes = plt.subplots(rows, 3, figsize=(15, 4 * rows + 1))
    for axis, p in zip(axes.flat, panels, strict=True):
        for name, found in p.curves.items():
            x = [f.seconds for f in found.values()] if p.x == "seconds" else list(found)
            style = "--" if name in dashed else "-"
            errors = [f.error for f in found.values()]
            axis.plot(x, errors, style, marker="o", markersize=3, color=colours[name], label=name)
        axis.set(title=p.title, xlabel=p.x, ylabel="relative error", yscale="log")
        axis.set_xscale("linear" if p.x == "blocks c" else "log")
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="lower center", ncols=8, fontsize=8)
    figure.tight_layout(rect=(0.0, 0.04, 1.0, 1.0))
    figure.savefig(path, dpi=150)
    print(f"\nfigure written to {path}")
