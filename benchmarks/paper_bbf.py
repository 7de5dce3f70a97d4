"""Figures 1 and 11 to 18 and Table 4 of the block basis factorization paper beside ours.

GRAMIAN_DATA=folder python benchmarks/paper_bbf.py [--only NAMES] [--seeds 2] [--figure PREFIX]

spectra: Figure 1 and Table 4, ranks and stable ranks against 1/h².
search: section 3.2.2, blocks that the paper's rule chooses.
linear: Figure 11, seconds against n at fixed ranks.
bases: Figure 12, bases from block rows or from diagonal blocks.
structure: Figure 13, blocks against one low rank, both with exact inner matrices.
memory: Figure 14, error against memory; synthetic: Figure 15, the same in two dimensions.
sweep: Figure 16, error against 1/h², with the ratio to the ideal factorization.
ridge: Figure 17, test RMSE against memory.
gauss: Figure 18, the improved fast Gauss transform against n for d = 5 and 40.

The text prints few of its figures' numbers; what it prints stands beside ours. "paper's BBF" is
BlockBasis(core="sampled"), "ours" BlockBasis(). Memory is in numbers a row: n·memory numbers in all. h is
that of exp(−‖x − y‖²/h²). Each part draws PREFIX-NAME.png with --figure. In all some 13 minutes of one core,
six of them for the sweep.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.linalg as la
from bbf_comparison import PAPER, Matrix, Panel, against_memory, draw, gaussian, methods
from block_basis import SWEEP, ideal, rows
from papers.fast_gauss import ImprovedFastGauss

import gramian as gm
from gramian.approximations.block_basis_search import BlockSearch
from gramian.compression.builder import block_members
from gramian.compression.column_sampling import BlockRow, sample_columns
from gramian.compression.randomized_svd import randomized_eigh, randomized_svd
from gramian.compression.rank_sharing import Size
from gramian.data import load_dataset
from gramian.engine import Engine
from gramian.landmarks.partition import fit_partition

#: Table 4: 1/h² → stable rank, 100·‖M_r‖_F/‖M‖_F, l_r; r = 100 and 252.
TABLE_4 = {
    "abalone z": (
        100,
        {
            0.25: (2, 99.99, 4.34),
            1.0: (4, 99.86, 2.03),
            4.0: (5, 97.33, 1.94),
            25.0: (15, 72.00, 5.20),
            100.0: (175, 33.40, 12.60),
            400.0: (931, 19.47, 20.66),
            1000.0: (1155, 16.52, 20.88),
        },
    ),
    "pendigits z": (
        252,
        {0.25: (6, 99.79, 1.83), 1.0: (12, 93.64, 2.02), 4.0: (207, 49.60, 4.86), 25.0: (2794, 19.85, 14.78)},
    ),
}
#: Figure 14: set → 1/h², exact SVD at 100 n, and what Algorithm 5 gives there.
FIGURE_14 = {
    "abalone z": (1.0, 0.051, 0.041),
    "pendigits z": (0.25, 0.134, 0.093),
    "ctg 23": (4.0, 0.493, 0.64),
}
#: Figure 17: (h, lambda) of the Laplacian kernel exp(−‖x − y‖/h).
FIGURE_17 = {
    "abalone": (4.0, 2.0**-4),
    "cpusmall": (2.0**4.94, 2.0**-5),
    "mushroom": (2.0**4.63, 2.0**-5),
    "pendigits": (2.0**2.6, 2.0**-5),
}


def spectra(seeds: int) -> list[Panel]:
    """Figure 1: rank of abalone at h = 4; Table 4."""
    panels = []
    values = la.eigvalsh(gaussian(1 / 16)(rows("abalone z"), dtype=np.float64), driver="evd")[::-1]
    found = [int(np.argmax(values < tol * values[0])) for tol in (1e-4, 1e-3, 1e-2)]
    print(f"numerical ranks of abalone at h = 4, tol 1e-4, 1e-3, 1e-2: {found} (paper 66, 28, 11)")
    print(f"\n{'set':12} {'1/h²':>7} {'stable rank':>17} {'100·head/norm':>17} {'l_r':>15}   ours (paper)")
    for name, (r, table) in TABLE_4.items():
        X = rows(name).astype(np.float32)
        panel = Panel(name, "1/h²", "stable rank")
        for inverse_square, printed in table.items():
            K = gaussian(inverse_square)(X)
            total = float(np.square(K, dtype=np.float64).sum())
            # The flatter the spectrum, the more powers its eigenvectors take.
            values, vectors = randomized_eigh(K, r, 10 if len(X) < 5000 else 2, 30, np.random.default_rng(0))
            head = float(np.square(values, dtype=np.float64).sum())
            score = np.sort(np.square(vectors).sum(axis=1))[::-1][r - 1] * len(X) / r
            ours = (np.ceil(total / float(values[0]) ** 2), 100 * np.sqrt(head / total), score)
            panel.add("ours", inverse_square, ours[0])
            panel.add("paper", inverse_square, printed[0])
            cells = [f"{o:8.6g} ({p:6g})" for o, p in zip(np.round(ours, 2), printed, strict=True)]
            print(f"{name:12} {inverse_square:7.2f} " + " ".join(cells), flush=True)
        panels.append(panel)
    return panels


def search(seeds: int) -> list[Panel]:
    """Section 3.2.2: blocks by the paper's rule, for sizes and tolerances."""
    for name, (inverse_square, *_) in FIGURE_14.items():
        X = rows(name)
        found = BlockSearch(X, len(X), gaussian(inverse_square), np.random.default_rng(0), Engine(None))
        sizes = [found.for_size(Size(m * len(X))) for m in (25.0, 50.0, 100.0, 200.0)]
        tols = [found.for_tolerance(tol) for tol in (0.3, 0.1, 0.03)]
        print(f"{name:12} blocks {[s.n_blocks for s in sizes]} at 25, 50, 100, 200 numbers a row")
        print(f"{'':12} blocks {[s.n_blocks for s in tols]} for tol 0.3, 0.1, 0.03", flush=True)
    return []


def linear(seeds: int) -> list[Panel]:
    """Figure 11: seconds of the factorization at fixed ranks against n."""
    panels = []
    for name in ("census_house16H", "covtype_100k"):
        X = load_dataset(name).X.astype(np.float32)
        X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-6)
        order = np.random.default_rng(0).permutation(len(X))
        panel = Panel(f"{name}, h = 2", "n", "seconds")
        counts = [round(len(X) * share) for share in (1 / 8, 1 / 4, 1 / 2, 1.0)]
        for label, options in ((PAPER, {"core": "sampled", "sampling": "important"}), ("ours", {})):
            for n in counts:
                start = time.perf_counter()
                a = gm.BlockBasis(gamma=0.25, rank=30, n_blocks=15, random_state=0, **options)
                a.set_params(tile_dtype="float32", memory_budget="4GB").fit(X[order[:n]])
                panel.add(label, n, time.perf_counter() - start)
            took = np.array([y for _, y in panel.curves[label]])
            slope = np.polyfit(np.log(counts), np.log(took), 1)[0]
            print(
                f"{name:16} {label:12} n {counts} seconds {np.round(took, 2)} exponent {slope:.2f}",
                flush=True,
            )
        panels.append(panel)
    return panels


def inner(K: np.ndarray, members: list[np.ndarray], bases: list[np.ndarray]) -> float:
    """Return the relative error of orthonormal bases with C_st = U_sᵀ K_st U_t."""
    kept = 0.0
    for mine, U in zip(members, bases, strict=True):
        strip = U.T @ K[mine]
        kept += sum(np.square(strip[:, other] @ V).sum() for other, V in zip(members, bases, strict=True))
    total = float(np.square(K).sum())
    return float(np.sqrt(max(total - kept, 0.0) / total))


def sampled_basis(
    X: np.ndarray,
    kernel: gm.Gaussian,
    mine: np.ndarray,
    columns: np.ndarray,
    r: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Algorithm 1 and Algorithm 4 on K(mine, columns)."""
    found = sample_columns(BlockRow(kernel, X[mine], X[columns]), 2 * r, 2, rng)
    return randomized_svd(found.matrix, r, 2, 10, rng).left


def bases(seeds: int) -> list[Panel]:
    """Figure 12: abalone; h, blocks and ranks are not printed, chosen so that the first number agrees."""
    X, kernel, n_blocks, r = rows("abalone z"), gaussian(0.25), 10, 57
    K = kernel(X, dtype=np.float64)
    members = block_members(fit_partition(X, n_blocks, rng=np.random.default_rng(0)).route(X), n_blocks)
    every, rng = np.arange(len(X)), np.random.default_rng(0)
    whole = [np.linalg.eigh(K[m] @ K[m].T)[1][:, ::-1] for m in members]
    own = [np.linalg.eigh(K[np.ix_(m, m)])[1][:, ::-1] for m in members]
    found = (
        inner(K, members, [U[:, :r] for U in whole]),
        inner(K, members, [U[:, :r] for U in own]),
        inner(K, members, [sampled_basis(X, kernel, m, every, r, rng) for m in members]),
        inner(K, members, [sampled_basis(X, kernel, m, m, r, rng) for m in members]),
    )
    labels = ("block rows, SVD", "diagonal blocks, SVD", "block rows, sampled", "diagonal blocks, sampled")
    print(f"abalone, h = 2, {n_blocks} blocks of rank {r} (h, blocks and ranks are ours)")
    for label, error, paper in zip(labels, found, (1.4e-3, 6.3e-3, 1.5e-2, 4.0e-2), strict=True):
        print(f"  {label:25} {error:.1e} (paper {paper:.1e})")
    return []


def structure(seeds: int) -> list[Panel]:
    """Figure 13: the same sampling rules under blocks and under one low rank, inner matrices exact."""
    panels = []
    for name, n_blocks in (("abalone z", 10), ("pendigits z", 10)):
        X = rows(name)[:3000]
        kernel = gaussian(0.25)
        K = kernel(X, dtype=np.float64)
        panel = Panel(f"{name}, {len(X)} rows, h = 2", "memory / n", "relative error")
        for shape, count in (("BBF", n_blocks), ("low rank", 1)):
            labels = fit_partition(X, count, rng=np.random.default_rng(0)).route(X)
            members = block_members(labels, count)
            eigen = [
                randomized_svd(K[m], min(160, len(m)), 3, 20, np.random.default_rng(0)).left for m in members
            ]
            for memory in (25, 50, 100):
                r = round(Size(memory * len(X)).equal_rank(len(X), count))
                rng = np.random.default_rng(0)
                drawn = [rng.choice(len(X), r, replace=False) for _ in members]
                uniform = [
                    la.qr(K[np.ix_(m, c)], mode="economic")[0] for m, c in zip(members, drawn, strict=True)
                ]
                every = np.arange(len(X))
                found = {
                    "svd": [U[:, :r] for U in eigen],
                    "rand": [sampled_basis(X, kernel, m, every, min(r, len(m)), rng) for m in members],
                    "unif": uniform,
                }
                for rule, chosen in found.items():
                    panel.add(f"{shape}, {rule}", memory, inner(K, members, chosen))
        print(panel.title, "at memory", [25, 50, 100])
        for label, points in panel.curves.items():
            print(f"  {label:15} " + " ".join(f"{y:.2e}" for _, y in points), flush=True)
        panels.append(panel)
    return panels


def memory(seeds: int) -> list[Panel]:
    """Figure 14 without EMG, which is not among the data sets."""
    panels = []
    for name, (inverse_square, svd, algorithm_5) in FIGURE_14.items():
        matrix = Matrix(rows(name), gaussian(inverse_square))
        panels.append(against_memory(name, matrix, inverse_square, 20, (25, 50, 100), seeds))
        at = {label: dict(points)[100] for label, points in panels[-1].curves.items()}
        print(f"  at 100: SVD {at['SVD']:.3f} (trials {svd}), {PAPER} {at[PAPER]:.3f} (trials {algorithm_5})")
    return panels


def synthetic(seeds: int) -> list[Panel]:
    """Figure 15: 100 Gaussian clusters (h = 0.0127); two small clusters in a large one (h = 0.25)."""
    rng = np.random.default_rng(0)
    side = np.stack(np.meshgrid(np.arange(10), np.arange(10)), axis=-1).reshape(-1, 2) / 10
    clusters = np.concatenate([rng.normal(c, 0.01, (40, 2)) for c in side])
    angle, radius = 2 * np.pi * rng.random(3000), np.sqrt(rng.random(3000))
    disc = 4 * np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    small = np.concatenate([disc, rng.normal((1, 1), 0.1, (500, 2)), rng.normal((-1, -1), 0.3, (500, 2))])
    panels = []
    for name, X, h in (("100 clusters", clusters, 0.0127), ("small in large", small, 0.25)):
        matrix = Matrix(X, gaussian(h**-2.0))
        panel = against_memory(name, matrix, h**-2.0, 20, (10, 25, 50), seeds)
        some = np.arange(0, len(X), 16)
        for epsilon in (1e-1, 1e-2, 1e-4):
            transform = ImprovedFastGauss(X, h / np.sqrt(2), epsilon=epsilon)
            error = _gap(transform.matvec(np.eye(len(X))[:, some]), matrix.K[:, some])
            numbers = transform.nbytes / 8 / len(X)
            panel.add("IFGT", numbers, error)
            print(
                f"  IFGT epsilon {epsilon:g}: {transform.n_clusters} clusters, degree {transform.degree}, "
                f"{numbers:.0f} numbers a row, error {error:.1e}"
            )
        panels.append(panel)
    return panels


def sweep(seeds: int) -> list[Panel]:
    """Figure 16: error against 1/h² at M = 100·n."""
    panels = []
    heads = ("SVD", "MEKA", PAPER, "ours", "ideal", "ratio", "blocks")
    print(f"{'set':12} {'1/h²':>7}" + "".join(f"{head:>12}" for head in heads))
    for name, gammas in (("abalone z", SWEEP["abalone z"]), ("pendigits z", (0.1, 1.0, 25.0))):
        X = rows(name)
        panel = Panel(name, "1/h²", "relative error")
        for gamma in gammas:
            matrix = Matrix(X, gaussian(gamma))
            made = methods(len(X), 100, 20, 0)
            ours = made["ours"](gamma=gamma).fit(X)
            labels = ours.features_.partition.route(X)
            found = {
                "SVD": matrix.tails([100])[0],
                "MEKA": matrix.error(made["MEKA"](gamma=gamma).fit(X)),
                PAPER: matrix.error(made[PAPER](gamma=gamma).fit(X)),
                "ours": _gap(ours.operator_.to_dense(), matrix.K),  # as exact as the ideal
                "ideal": ideal(matrix.K, labels, 100 * len(X)),
            }
            for label, error in found.items():
                panel.add(label, gamma, error)
            print(
                f"{name:12} {gamma:7.2f}"
                + "".join(f"{error:12.6f}" for error in found.values())
                + f"{found['ours'] / found['ideal']:12.3f}{ours.operator_.n_blocks:12d}",
                flush=True,
            )
        panels.append(panel)
    return panels


def ridge(seeds: int) -> list[Panel]:
    """Figure 17: Laplacian kernel, 80/20 split; K_test is exact, as in the paper, or the surrogate."""
    panels = []
    for name, (h, lam) in FIGURE_17.items():
        data = load_dataset(name)
        X, y = data.X.astype(np.float64), data.y.astype(np.float64)
        X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        order = np.random.default_rng(0).permutation(len(X))
        cut = round(0.8 * len(X))
        train, test = order[:cut], order[cut:]
        y -= y[train].mean()
        kernel = gm.Exponential(h)
        K, K_test = kernel(X[train], dtype=np.float64), kernel(X[test], X[train], dtype=np.float64)
        K[np.diag_indices(cut)] += lam

        def rmse(values: np.ndarray, wanted: np.ndarray = y[test]) -> float:
            return float(np.sqrt(np.mean((values - wanted) ** 2)))

        exact = rmse(K_test @ la.solve(K, y[train], assume_a="pos"))
        panel = Panel(f"{name}, h = {h:.3g}", "memory / n", "test RMSE")
        print(f"{name}: exact {exact:.4f}; with the exact K_test / with the surrogate, at memory 25, 50, 100")
        lines: dict[str, list[str]] = {}
        for size in (25, 50, 100):
            panel.add("exact", size, exact)
            for label, make in methods(cut, size, 10, 0).items():
                a = make(kernel=kernel).fit(X[train])
                alpha = a.operator_.solve(y[train], alpha=lam)
                full, surrogate = rmse(K_test @ alpha), rmse(a.cross(X[test]) @ alpha)
                panel.add(label, size, full)
                lines.setdefault(label, []).append(f"{full:7.4f} / {surrogate:7.4f}")
        for label, cells in lines.items():
            print(f"  {label:16} " + "   ".join(cells), flush=True)
        panels.append(panel)
    return panels


def gauss(seeds: int) -> list[Panel]:
    """Figure 18: 10 centres in the unit cube, deviation 0.1, h = 0.5, tolerance 1e-3; seconds in all.

    In 40 features K has no low ranks at that tolerance, and the rule says so: blocks of rank 100 there.
    """
    panels = []
    for d, size in ((5, {"tol": 1e-3}), (40, {"rank": 100})):
        panel = Panel(f"d = {d}", "n", "seconds in all")
        for n in (2_000, 4_000, 8_000, 16_000):
            rng = np.random.default_rng(0)
            X = rng.random((10, d))[rng.integers(10, size=n)] + 0.1 * rng.standard_normal((n, d))
            q = rng.random(n)
            some = rng.choice(n, 300, replace=False)
            truth = gaussian(4.0)(X[some], X, dtype=np.float64) @ q
            start = time.perf_counter()
            options = {"core": "sampled", "sampling": "important", "n_blocks": 10, **size}
            a = gm.BlockBasis(gamma=4.0, tile_dtype="float64", memory_budget="4GB", random_state=0, **options)
            sums = a.fit(X).operator_ @ q
            took = time.perf_counter() - start
            panel.add(PAPER, n, took)
            line = f"d {d:2d} n {n:6d}: {PAPER} {took:6.2f} s, error {_gap(sums[some], truth):.0e}; "
            try:
                start = time.perf_counter()
                transform = ImprovedFastGauss(X, 0.5 / np.sqrt(2), epsilon=1e-3)
                sums = transform.matvec(q)
                panel.add("IFGT", n, time.perf_counter() - start)
                line += (
                    f"IFGT {panel.curves['IFGT'][-1][1]:6.2f} s, {transform.n_clusters} clusters of "
                    f"{transform.n_terms} terms, error {_gap(sums[some], truth):.0e}"
                )
            except gm.InputError as error:
                line += f"IFGT refuses: {str(error).split(':')[0]}"
            print(line, flush=True)
        panels.append(panel)
    return panels


def _gap(values: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(values - truth) / np.linalg.norm(truth))


PARTS = {
    f.__name__: f for f in (spectra, search, linear, bases, structure, memory, synthetic, sweep, ridge, gauss)
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--figure", help="prefix of the pictures")
    args = parser.parse_args()
    for name in args.only.split(","):
        start = time.perf_counter()
        print(f"\n== {name}: {str(PARTS[name].__doc__).split(chr(10))[0]}", flush=True)
        panels = PARTS[name](args.seeds)
        if args.figure and panels:
            draw(panels, f"{args.figure}-{name}.png")
        print(f"({time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
