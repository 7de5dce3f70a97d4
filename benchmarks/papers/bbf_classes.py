"""Bandwidth against F1 of small classes: section 2.2 of the block basis factorization paper, with its table.

The kernel is exp(−‖x − y‖²/h²). Features lie in [−1, 1]: the squared radii of the classes are then those of
Table 1. "SVC" is the paper's experiment, a kernel SVM with the hinge on random 80 % of the rows, scored on
the other 20 %; "report" is ``papers.bandwidth_report``, five folds of at most 2,000 rows. The paper does not
state C; it is 10 here. EMG and Otto are not at hand.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import scipy.linalg as la
from sklearn.model_selection import train_test_split
from suite.datasets import load_dataset
from suite.results import Line

import gramian as gm
from papers.bandwidth_report import BandwidthCost, BandwidthReport, bandwidth_report
from papers.bbf_clusters import ALL, CLUSTERS, C, last_best, svm_scores
from papers.items import Item, Run, Value
from papers.meka_methods import unit_box
from papers.page import markdown_table

#: Table 1: for the class with this label the paper's n_i and r_i².
TABLE_1 = {
    "ctg": {3: (51, 1.0), 5: (71, 1.2), 7: (241, 1.4), 6: (318, 1.3), 2: (555, 1.4)},
    "gesture": {0: (2741, 1.8e-2), 3: (998, 2.7e-2), 1: (2097, 1.4e-1), 4: (1087, 1.9e-1), 2: (2948, 2.3e-1)},
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
#: Values of C by which the drop is measured.
PENALTIES = {"ctg": (1.0, 10.0, 100.0), "gesture": (1.0, 10.0)}
#: Singular values that Figure 3 shows, and the rows that they are computed of.
PLACES, ROWS_3 = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000), 4_000


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


@cache
def report(name: str, run: Run) -> BandwidthReport:
    X, y = labelled(name)
    more = {"n_rows": 400, "folds": 2} if run.quick else {}
    grid = GRIDS[name]
    return bandwidth_report(X, y, bandwidths=grid, C=C, standardize=False, random_state=0, **more)


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


def costs(who: str, cost: BandwidthCost) -> Iterator[Value]:
    yield Value(who, "rank", cost.rank)
    yield Value(who, "blocks", cost.n_blocks)


def section_2_verdict(lines: list[Line]) -> str:
    """Compare the best h of small classes with that of all classes."""
    best: dict[tuple[str, str, str], float] = {}
    for line in lines:
        if line["measure"] == "best h":
            method, of = line["method"].split(" (")[0].split(", ")
            best[method, of, line["set"]] = line["value"]
    sets = list(dict.fromkeys(line["set"] for line in lines))
    rows = []
    for method in ("SVC", "report"):
        for kind in ("fewest rows", "smallest radius"):
            ratios = [best[method, kind, name] / best[method, ALL, name] for name in sets]
            words = ["smaller" if ratio < 1 else "larger" if ratio > 1 else "the same" for ratio in ratios]
            rows.append([method, kind, *words])
    return markdown_table(("best h beside that of all classes", "class with the", *sets), rows)


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


def penalties_verdict(lines: list[Line]) -> str:
    """Give the largest drop of F1 over the penalties beside the paper's."""
    rows = []
    for name in dict.fromkeys(line["set"] for line in lines):
        drops = {
            line["setting"]["C"]: line
            for line in lines
            if (line["set"], line["measure"]) == (name, "drop of F1 at h of all")
        }
        c = max(drops, key=lambda c: drops[c]["value"])
        rows.append([name, f"{drops[c]['value']:.0%}", f"{c:g}", f"{drops[c]['published']:.0%}"])
    return markdown_table(("set", "largest drop of F1", "at C", "paper"), rows)


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
    """Give the number of singular values above a hundredth of the first, of those that are measured."""
    rows = []
    for name in dict.fromkeys(line["set"] for line in lines):
        by_h: dict[float, int] = {}
        for line in lines:
            if line["set"] == name:
                kept = line["setting"]["i"] if line["value"] >= 0.01 else 0
                by_h[line["setting"]["h"]] = max(by_h.get(line["setting"]["h"], 0), kept)
        rows += [[name, f"{h:g}", str(last)] for h, last in by_h.items()]
    return markdown_table(("set", "h", "last of these singular values above a hundredth of the first"), rows)


ITEMS: tuple[Item, ...] = (
    Item("table 1", tuple(TABLE_1), table_1),
    Item("section 2.2", tuple(GRIDS), section_2, verdict=section_2_verdict),
    Item("section 2.2, penalty", tuple(PENALTIES), penalties, verdict=penalties_verdict),
    Item("figure 2", tuple(GRIDS), figure_2, across="h", logarithmic="x"),
    Item("figure 3", tuple(SECTION_2), figure_3, across="i", verdict=figure_3_verdict),
    *CLUSTERS,
)
