"""Figures 4 to 7 of the block basis factorization paper: bandwidth and F1 on clusters that are made.

The paper gives radii and shapes, and few numbers of points; those here are ours. The SVM is scikit-learn's,
with C = 10, scored on test rows that are drawn anew.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.linalg as la
from sklearn.metrics import f1_score
from sklearn.svm import SVC
from suite.results import Line

import gramian as gm
from papers.items import Item, Run, Value
from papers.page import markdown_table, number

C = 10.0
ALL = "all classes"


def svm_scores(
    X: np.ndarray, new: np.ndarray, y: np.ndarray, truth: np.ndarray, grid: tuple[float, ...], c: float = C
) -> tuple[np.ndarray, np.ndarray]:
    """Return accuracy and F1 of each class on new rows, for each bandwidth."""
    labels = np.unique(np.concatenate([y, truth]))
    accuracy, f1 = [], []
    for h in grid:
        predicted = SVC(C=c, gamma=h**-2.0, cache_size=500).fit(X, y).predict(new)
        accuracy.append((predicted == truth).mean())
        f1.append(f1_score(truth, predicted, labels=labels, average=None, zero_division=0.0))
    return np.asarray(accuracy), np.asarray(f1)


def last_best(scores: np.ndarray) -> int:
    """Return the last place of the highest score: of equal bandwidths the paper takes the largest."""
    return len(scores) - 1 - int(np.argmax(scores[::-1]))


def disc(rng: np.random.Generator, count: int, centre: tuple[float, ...], radius: float) -> np.ndarray:
    """Draw points uniformly from a ball."""
    d = len(centre)
    points = rng.normal(size=(count, d))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(centre) + radius * rng.random((count, 1)) ** (1.0 / d) * points


def overlapping(rng: np.random.Generator, times: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a large disc and eight of radius 0.2 across its edge, of another class (Figure 4)."""
    angles = 2 * np.pi * np.arange(8) / 8
    small = [disc(rng, 40 * times, (np.cos(a), np.sin(a)), 0.2) for a in angles]
    return labelled_parts([disc(rng, 800 * times, (0.0, 0.0), 1.0), np.concatenate(small)])


def surrounded(rng: np.random.Generator, times: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a disc with two small ones in holes of it (Figure 6)."""
    centres, radii = ((-0.5, 0.0), (0.5, 0.0)), (0.08, 0.3)
    large = disc(rng, 1500 * times, (0.0, 0.0), 1.2)
    for centre, radius in zip(centres, radii, strict=True):
        large = large[np.linalg.norm(large - np.asarray(centre), axis=1) > radius]
    return labelled_parts(
        [large, disc(rng, 50 * times, centres[0], radii[0]), disc(rng, 200 * times, centres[1], radii[1])]
    )


def in_ten_dimensions(rng: np.random.Generator, times: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a large ball in dimension 10 around two of radius 0.5 and 1.5 (Figure 7)."""
    centres = [(-1.5, *[0.0] * 9), (1.5, *[0.0] * 9)]
    return labelled_parts(
        [
            disc(rng, 1000 * times, (0.0,) * 10, 4.0),
            disc(rng, 100 * times, centres[0], 0.5),
            disc(rng, 300 * times, centres[1], 1.5),
        ]
    )


def labelled_parts(parts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


MADE = {
    "figure 4": (overlapping, (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.5, 3.0), ("large", "small")),
    "figure 6": (
        surrounded,
        (0.02, 0.04, 0.08, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
        ("surrounding", "small", "larger"),
    ),
    "figure 7": (
        in_ten_dimensions,
        (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
        ("surrounding", "small", "larger"),
    ),
}


def made(figure: str, run: Run) -> Iterator[Value]:
    """F1 of each class by bandwidth, on test rows five times as many; means over seeds."""
    make, grid, names = MADE[figure]
    found = []
    for seed in run.seeds(5):
        rng = np.random.default_rng(seed)
        (X, y), (new, truth) = make(rng, 1), make(rng, 5)
        found.append(svm_scores(X, new, y, truth, grid))
    accuracy, f1 = (np.mean([each[i] for each in found], axis=0) for i in (0, 1))
    for i, h in enumerate(grid):
        yield Value(ALL, "accuracy", accuracy[i], {"h": h})
        for k, name in enumerate(names):
            yield Value(f"{name} ({(y == k).sum()} rows)", "f1", f1[i, k], {"h": h})


def figure_4(name: str, run: Run) -> Iterator[Value]:
    """A large cluster and small ones across its edge."""
    return made("figure 4", run)


def figure_6(name: str, run: Run) -> Iterator[Value]:
    """Two small clusters of different radii within a large one."""
    return made("figure 6", run)


def figure_7(name: str, run: Run) -> Iterator[Value]:
    """The same in dimension 10, with the numerical ranks argmin_k σ_k < tol σ_1 of the training rows."""
    yield from made("figure 7", run)
    X, _ = in_ten_dimensions(np.random.default_rng(0), 1)
    for h in MADE["figure 7"][1]:
        values = la.eigvalsh(gm.Gaussian(h / 2**0.5)(X), check_finite=False)
        for tol in (1e-2, 1e-3):
            count = int((values >= tol * values[-1]).sum())
            yield Value("numerical rank", "rank", count, {"h": h, "tolerance": tol})


def curves_verdict(lines: list[Line]) -> str:
    """Give where each curve has its maximum, of equal ones at the largest h, and what is left at the end."""
    rows, wide = [], max(line["setting"]["h"] for line in lines if line["measure"] != "rank")
    for method in dict.fromkeys(line["method"] for line in lines if line["measure"] != "rank"):
        curve = {line["setting"]["h"]: line["value"] for line in lines if line["method"] == method}
        best = max(curve, key=lambda h: (curve[h], h))
        rows.append([method, f"{best:g}", number(curve[best]), number(curve[wide])])
    return markdown_table(("clusters", "best h", "score there", f"at h = {wide:g}"), rows)


GRID_5 = tuple(float(h) for h in np.geomspace(0.02, 4.0, 20).round(4))
SIDES_5, SIGMAS_5 = (2, 3, 4, 6, 8, 10), (0.02, 0.04, 0.06, 0.08, 0.1, 0.125)


def checkerboard(rng: np.random.Generator, side: int, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Return Gaussian clusters on a square grid in [0, 1]², with alternating labels."""
    at = (np.arange(side) + 0.5) / side
    centres = np.asarray([(a, b) for a in at for b in at])
    labels = np.asarray([(i + j) % 2 for i in range(side) for j in range(side)])
    repeated = max(2000 // side**2, 20)
    X = np.repeat(centres, repeated, axis=0)
    return X + sigma * rng.normal(size=X.shape), np.repeat(labels, repeated)


def figure_5(name: str, run: Run) -> Iterator[Value]:
    """The largest bandwidth of the highest accuracy by σ: more clusters in the box, or the same four."""
    more = [("4 to 100 clusters that fill the box", side, 0.25 / side) for side in SIDES_5]
    same = [("4 clusters that shrink", 2, sigma) for sigma in SIGMAS_5]
    for method, side, sigma in more + same:
        best = []
        for seed in run.seeds(3):
            rng = np.random.default_rng(seed)
            (X, y), (new, truth) = checkerboard(rng, side, sigma), checkerboard(rng, side, sigma)
            accuracy, _ = svm_scores(X, new, y, truth, GRID_5[::4] if run.quick else GRID_5)
            best.append(last_best(accuracy))
        grid = GRID_5[::4] if run.quick else GRID_5
        yield Value(method, "best h", float(np.median([grid[i] for i in best])), {"σ": round(sigma, 4)})


def figure_5_verdict(lines: list[Line]) -> str:
    """Give the line that fits the best h by σ."""
    rows = []
    for method in dict.fromkeys(line["method"] for line in lines):
        pairs = [(line["setting"]["σ"], line["value"]) for line in lines if line["method"] == method]
        sigma, best = np.asarray(pairs).T
        r = np.corrcoef(sigma, best)[0, 1] if np.ptp(best) > 0 else 0.0
        rows.append([method, f"{r:.2f}", f"{float(np.polyfit(sigma, best, 1)[0]):.2f}"])
    return markdown_table(("clusters", "correlation of σ and the best h", "slope"), rows)


CLUSTERS: tuple[Item, ...] = (
    Item("figure 4", ("made",), figure_4, across="h", logarithmic="x", verdict=curves_verdict),
    Item("figure 5", ("made",), figure_5, across="σ", logarithmic="", verdict=figure_5_verdict),
    Item("figure 6", ("made",), figure_6, across="h", logarithmic="x", verdict=curves_verdict),
    Item("figure 7", ("made",), figure_7, across="h", logarithmic="x", verdict=curves_verdict),
)
