"""Bandwidth against F1 of small classes: Table 1 and Figures 2 to 7 of the block basis factorization paper.

The kernel is exp(−‖x − y‖²/h²). Features lie in [−1, 1]: the squared radii of the classes are then those of
Table 1. "SVC" is the paper's experiment, a kernel SVM with the hinge on random 80 % of the rows, scored on
the other 20 %; "report" is ``gm.bandwidth_report``, five folds of at most 2,000 rows. The paper does not
state C; it is 10 here. EMG and Otto are not at hand.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import scipy.linalg as la
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC
from suite.results import Line

import gramian as gm
from gramian.data import load_dataset
from papers.items import Item, Run, Value
from papers.meka_methods import unit_box
from papers.page import number

C = 10.0
#: Table 1: for the class with this label the paper's n_i and r_i².
TABLE_1 = {
    "ctg": {3: (51, 1.0), 5: (71, 1.2), 7: (241, 1.4), 6: (318, 1.3), 2: (555, 1.4)},
    "gesture": {
        0: (2741, 1.8e-2),
        3: (998, 2.7e-2),
        1: (2097, 1.4e-1),
        4: (1087, 1.9e-1),
        2: (2948, 2.3e-1),
    },
}
#: Bandwidths of Figure 2, the paper's among them, and how many random splits the SVC has.
GRIDS = {
    "ctg": (0.25, 0.35, 0.5, 0.71, 1.0, 1.42, 2.0, 2.8),
    "gesture": (0.044, 0.088, 0.125, 0.18, 0.25, 0.35, 0.5, 1.0),
    "pendigits": (0.25, 0.5, 1.0, 1.42, 2.0, 4.0),
    "mushroom": (0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
}
SPLITS = {"ctg": 10, "gesture": 1, "pendigits": 1, "mushroom": 1}
#: Section 2.2 and Figure 3: h of cross-validation, a good h of the smallest class, and the drop of its F1
#: from the latter to the former.
SECTION_2 = {"ctg": (1.42, 0.5, 1.0), "gesture": (0.25, 0.088, 0.05)}
#: Values of C beside 10.
PENALTIES = {"ctg": (1.0, 10.0, 100.0), "gesture": (1.0, 10.0)}
#: Singular values that Figure 3 shows, and the rows that they are computed of.
PLACES, ROWS_3 = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000), 4_000
ALL = "all classes"


@cache
def labelled(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features in [−1, 1] and labels; of ctg the 23 that the paper has."""
    if name == "ctg":
        with np.load(Path(os.environ["GRAMIAN_DATA"]) / "ctg.npz") as file:
            return unit_box(file["X_raw23"].astype(np.float64), -1.0), file["y"]
    data = load_dataset(name)
    return unit_box(np.asarray(data.X, np.float64), -1.0), np.asarray(data.y)


def some(X: np.ndarray, y: np.ndarray, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    chosen = np.random.default_rng(seed).permutation(len(X))[:count]
    return X[chosen], y[chosen]


def squared_radius(X: np.ndarray) -> float:
    return float(np.median(((X - X.mean(axis=0)) ** 2).sum(axis=1)))


# ---- table 1 -----------------------------------------------------------------------------------------


def table_1(name: str, run: Run) -> Iterator[Value]:
    """Rows and squared median radius of the classes that the paper selects."""
    X, y = labelled(name)
    for label, (count, squared) in TABLE_1[name].items():
        members = X[y == label]
        yield Value(f"class {label}", "rows", len(members), published=count)
        yield Value(f"class {label}", "squared radius", squared_radius(members), published=squared)


# ---- figure 2, section 2.2 -------------------------------------------------------------------------------


@cache
def svc_curves(name: str, run: Run, c: float = C) -> tuple[np.ndarray, np.ndarray]:
    """Return the test accuracy (grid,) and F1 (grid, classes) of the paper's experiment."""
    X, y = some(*labelled(name), run.rows(10**9))
    splits = [train_test_split(X, y, test_size=0.2, random_state=s) for s in run.seeds(SPLITS[name])]
    found = [svm_scores(*split, GRIDS[name], c) for split in splits]
    return np.mean([a for a, _ in found], axis=0), np.mean([f for _, f in found], axis=0)


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


@cache
def report(name: str, run: Run) -> gm.svm.bandwidth_report.BandwidthReport:
    X, y = labelled(name)
    more = {"n_rows": 400, "folds": 2} if run.quick else {}
    grid = GRIDS[name]
    return gm.bandwidth_report(X, y, bandwidths=grid, C=C, standardize=False, random_state=0, **more)


def shown_classes(name: str) -> list[int]:
    return list(TABLE_1.get(name) or np.unique(labelled(name)[1]))


def figure_2(name: str, run: Run) -> Iterator[Value]:
    """F1 of each class, and the accuracy of all, by bandwidth."""
    X, y = labelled(name)
    labels = np.unique(y).tolist()
    accuracy, f1 = svc_curves(name, run)
    ours = report(name, run)
    for i, h in enumerate(GRIDS[name]):
        yield Value(f"SVC, {ALL}", "accuracy", accuracy[i], {"h": h})
        yield Value(f"report, {ALL}", "accuracy", ours.costs[i].accuracy, {"h": h})
    for label in shown_classes(name):
        k = labels.index(label)
        about = f"class {label} ({(y == label).sum():,} rows, r² {squared_radius(X[y == label]):.2g})"
        for i, h in enumerate(GRIDS[name]):
            yield Value(f"SVC, {about}", "f1", f1[i, k], {"h": h})
            yield Value(f"report, {about}", "f1", ours.f1[i, k], {"h": h})


def last_best(scores: np.ndarray) -> int:
    """Return the last place of the highest score: of equal bandwidths the paper takes the largest."""
    return len(scores) - 1 - int(np.argmax(scores[::-1]))


def section_2(name: str, run: Run) -> Iterator[Value]:
    """Best bandwidths, the drop of F1 at the best for all, and what the kernel costs at each."""
    X, y = labelled(name)
    labels, grid = np.unique(y).tolist(), GRIDS[name]
    printed = SECTION_2.get(name, (None, None, None))
    accuracy, f1 = svc_curves(name, run)
    ours = report(name, run)
    fewest = min(labels, key=lambda label: int((y == label).sum()))
    tightest = min(labels, key=lambda label: squared_radius(X[y == label]))
    own = np.asarray([cost.accuracy for cost in ours.costs])
    for method, all_rows, by_class in (("SVC", accuracy, f1), ("report", own, ours.f1)):
        overall = last_best(all_rows)
        yield Value(f"{method}, {ALL}", "best h", grid[overall], published=printed[0])
        yield from costs(f"{method}, {ALL}", ours.costs[overall])
        for kind, label in {"fewest rows": fewest, "smallest radius": tightest}.items():
            scores = by_class[:, labels.index(label)]
            at, small = last_best(scores), kind == "smallest radius"
            who = f"{method}, {kind} (class {label})"
            yield Value(who, "best h", grid[at], published=printed[1] if small else None)
            drop = float(1.0 - scores[overall] / scores[at]) if scores[at] else 0.0
            yield Value(who, "F1 at best h", scores[at])
            yield Value(who, "drop of F1 at h of all", drop, published=printed[2] if small else None)
            yield from costs(who, ours.costs[at])


def costs(who: str, cost: gm.svm.bandwidth_report.BandwidthCost) -> Iterator[Value]:
    yield Value(who, "rank", cost.rank)
    yield Value(who, "blocks", cost.n_blocks)


def section_2_verdict(lines: list[Line]) -> str:
    said = []
    for method in ("SVC", "report"):
        best = {}
        for line in lines:
            if line["measure"] == "best h" and line["method"].startswith(method):
                best[line["set"], line["method"].split(" (")[0].split(", ")[1]] = line["value"]
        for kind in ("fewest rows", "smallest radius"):
            groups: dict[str, list[str]] = {"smaller": [], "the same": [], "larger": []}
            for name in dict.fromkeys(name for name, _ in best):
                ratio = best[name, kind] / best[name, ALL]
                groups["smaller" if ratio < 1 else "larger" if ratio > 1 else "the same"].append(name)
            parts = [f"{how} on {', '.join(names)}" for how, names in groups.items() if names]
            said.append(f"{method}: the best h of the class with the {kind} is {'; '.join(parts)}.")
    return " ".join(said)


def penalties(name: str, run: Run) -> Iterator[Value]:
    """The class of smallest radius for several C, on which the drop depends."""
    X, y = labelled(name)
    labels, grid = np.unique(y).tolist(), GRIDS[name]
    tightest = min(labels, key=lambda label: squared_radius(X[y == label]))
    overall_h, own_h, printed = SECTION_2[name]
    for c in PENALTIES[name]:
        accuracy, f1 = svc_curves(name, run, c)
        scores = f1[:, labels.index(tightest)]
        overall, at = last_best(accuracy), last_best(scores)
        who, setting = f"SVC, class {tightest}", {"C": c}
        yield Value(who, "best h of all", grid[overall], setting, published=overall_h)
        yield Value(who, "accuracy", accuracy[overall], setting)
        yield Value(who, "best h", grid[at], setting, published=own_h)
        yield Value(who, "F1 at best h", scores[at], setting)
        drop = float(1.0 - scores[overall] / scores[at]) if scores[at] else 0.0
        yield Value(who, "drop of F1 at h of all", drop, setting, published=printed)


# ---- figure 3 ----------------------------------------------------------------------------------------


def figure_3(name: str, run: Run) -> Iterator[Value]:
    """Singular values over the largest one, at the paper's h of all classes and of the smallest class."""
    X, _ = some(*labelled(name), run.rows(ROWS_3))
    for h in SECTION_2[name][:2]:
        values = la.eigvalsh(gm.Gaussian(h / 2**0.5)(X), check_finite=False)[::-1]
        for place in PLACES:
            setting = {"rows": len(X), "h": h, "i": place}
            yield Value(
                "singular value", "σ_i/σ_1", max(float(values[place - 1] / values[0]), 1e-16), setting
            )


def figure_3_verdict(lines: list[Line]) -> str:
    said = []
    for name in dict.fromkeys(line["set"] for line in lines):
        by_h: dict[float, int] = {}
        for line in lines:
            if line["set"] == name:
                kept = line["setting"]["i"] if line["value"] >= 0.01 else 0
                by_h[line["setting"]["h"]] = max(by_h.get(line["setting"]["h"], 0), kept)
        (wide, few), (narrow, many) = by_h.items()
        said.append(
            f"On {name} the last of these singular values above a hundredth of the first is number {few} at "
            f"h = {wide:g}, and number {many} at h = {narrow:g}."
        )
    return " ".join(said)


# ---- figures 4 to 7: made data ------------------------------------------------------------------------


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
    """Say where each curve has its maximum, of equal ones at the largest h, and what is left at the end."""
    said = []
    for method in dict.fromkeys(line["method"] for line in lines if line["measure"] != "rank"):
        curve = {line["setting"]["h"]: line["value"] for line in lines if line["method"] == method}
        best = max(curve, key=lambda h: (curve[h], h))
        wide = max(curve)
        said.append(
            f"{method}: best h {best:g} ({number(curve[best])}), at h = {wide:g} {number(curve[wide])}."
        )
    return " ".join(said)


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
    said = []
    for method in dict.fromkeys(line["method"] for line in lines):
        pairs = [(line["setting"]["σ"], line["value"]) for line in lines if line["method"] == method]
        sigma, best = np.asarray(pairs).T
        r = np.corrcoef(sigma, best)[0, 1] if np.ptp(best) > 0 else 0.0
        slope = float(np.polyfit(sigma, best, 1)[0])
        said.append(f"{method}: correlation of σ and h* {r:.2f}, slope {slope:.2f}.")
    return " ".join(said)


ITEMS: tuple[Item, ...] = (
    Item("table 1", tuple(TABLE_1), table_1),
    Item("section 2.2", tuple(GRIDS), section_2, verdict=section_2_verdict),
    Item("section 2.2, penalty", tuple(PENALTIES), penalties),
    Item("figure 2", tuple(GRIDS), figure_2, across="h", logarithmic="x"),
    Item("figure 3", tuple(SECTION_2), figure_3, across="i", verdict=figure_3_verdict),
    Item("figure 4", ("made",), figure_4, across="h", logarithmic="x", verdict=curves_verdict),
    Item("figure 5", ("made",), figure_5, across="σ", logarithmic="", verdict=figure_5_verdict),
    Item("figure 6", ("made",), figure_6, across="h", logarithmic="x", verdict=curves_verdict),
    Item("figure 7", ("made",), figure_7, across="h", logarithmic="x", verdict=curves_verdict),
)
