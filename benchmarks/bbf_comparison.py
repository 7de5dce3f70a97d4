"""Shared parts of the block basis factorization paper's scripts: matrix, methods, plots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import gramian as gm
from gramian.compression.randomized_svd import randomized_eigh
from gramian.compression.rank_sharing import Size

#: Columns of K that errors of large sets are measured on.
ERROR_COLUMNS = 1_000
#: Name of the published algorithm in tables and plots.
PAPER = "paper's BBF"


@dataclass
class Panel:
    """One plot: curves by name."""

    title: str
    x: str
    y: str
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, name: str, x: float, y: float) -> None:
        self.curves.setdefault(name, []).append((x, y))


class Matrix:
    """K on all rows, and errors of approximations: on all columns, or on 1,000 of a large set."""

    def __init__(self, X: np.ndarray, kernel: gm.Gaussian, seed: int = 0) -> None:
        n = len(X)
        self.X, self.kernel = X, kernel
        rng = np.random.default_rng(seed)
        self.columns = (
            np.sort(rng.choice(n, min(n, ERROR_COLUMNS), replace=False)) if n > 5000 else np.arange(n)
        )
        self.K = kernel(X, dtype=np.float64)
        self.some = self.K[:, self.columns]
        self.unit = np.zeros((n, len(self.columns)))
        self.unit[self.columns, np.arange(len(self.columns))] = 1.0

    def error(self, a: object) -> float:
        return float(np.linalg.norm(self.some - a.operator_ @ self.unit) / np.linalg.norm(self.some))

    def tails(self, ranks: list[int]) -> list[float]:
        """Relative errors of the best low ranks."""
        values, _ = randomized_eigh(self.K, max(ranks), 3, 20, np.random.default_rng(0))
        total = float(np.square(self.K).sum())
        return [float(np.sqrt(max(total - np.square(values[:r]).sum(), 0.0) / total)) for r in ranks]


def gaussian(inverse_square: float) -> gm.Gaussian:
    return gm.Gaussian((0.5 / inverse_square) ** 0.5)


def bytes_of(n: int, memory: float) -> int:
    # The order of the rows is kept beside float64 numbers.
    return int(8 * n * memory) + 8 * n


def methods(n: int, memory: float, n_blocks: int, seed: int) -> dict[str, Callable[..., object]]:
    """Return estimators of about n·memory numbers; MEKA has the blocks of the paper's BBF."""
    r = max(1, round(Size(n * memory).equal_rank(n, n_blocks)))
    common = {"tile_dtype": "float64", "memory_budget": "4GB", "random_state": seed}
    thin = {"oversampling": 1.0, "recompress": False, **common}
    return {
        "uniform Nyström": lambda **k: gm.Nystrom(rank=int(memory), landmarks="uniform", **thin, **k),
        "k-means Nyström": lambda **k: gm.Nystrom(rank=int(memory), landmarks="kmeans", **thin, **k),
        "MEKA": lambda **k: gm.MEKA(rank=r, n_blocks=n_blocks, core="sampled", **common, **k),
        PAPER: lambda **k: gm.BlockBasis(
            core="sampled", n_blocks=n_blocks, max_bytes=bytes_of(n, memory), **common, **k
        ),
        "ours": lambda **k: gm.BlockBasis(max_bytes=bytes_of(n, memory), **common, **k),
    }


def against_memory(
    name: str, matrix: Matrix, inverse_square: float, n_blocks: int, sizes: tuple[int, ...], seeds: int
) -> Panel:
    """Compare all methods at sizes of so many numbers a row, and print the table."""
    n = len(matrix.X)
    panel = Panel(f"{name}, 1/h² = {inverse_square:g}", "memory / n", "relative error")
    for size, tail in zip(sizes, matrix.tails(list(sizes)), strict=True):
        panel.add("SVD", size, tail)
        for seed in range(seeds):
            for label, make in methods(n, size, n_blocks, seed).items():
                if label == "ours" and seed:
                    continue
                error = matrix.error(make(gamma=inverse_square).fit(matrix.X))
                panel.add(label, size, error)
    print(f"{panel.title}: mean (worst) of {seeds} seeds at memory {list(sizes)}; ours: one seed")
    for label, points in panel.curves.items():
        cells = []
        for size in sizes:
            errors = [y for x, y in points if x == size]
            cells.append(f"{np.mean(errors):9.2e} ({max(errors):8.2e})")
        panel.curves[label] = [(s, float(np.mean([y for x, y in points if x == s]))) for s in sizes]
        print(f"  {label:16} " + " ".join(cells), flush=True)
    return panel


def draw(panels: list[Panel], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 4), squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        for name, points in panel.curves.items():
            axis.loglog(*zip(*points, strict=True), marker="o", markersize=3, label=name)
        axis.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    print(f"figure written to {path}")
