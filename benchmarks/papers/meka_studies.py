"""Studies of MEKA's parts: the threshold ε, the rank rules, and why k-means Nyström is as good as printed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from suite.results import Line

import gramian as gm
from gramian.landmarks.rules import lloyd
from papers.items import Item, Run, Value
from papers.meka_methods import (
    CLUSTERED_ROWS,
    LLOYD_ROUNDS,
    Method,
    Sizes,
    error_of_features,
    fitted,
    numbers,
    some_rows,
)
from papers.page import markdown_table, number

ROWS, ERROR_ROWS = 20_000, 300
#: gamma, rank k, blocks c of Table 2, and its printed error of k-means Nyström.
SETS = {
    "pendigits": (2.0, 128, 5, 0.0828),
    "ijcnn1": (1.0, 128, 10, 0.0234),
    "covtype_100k": (10.0, 256, 15, 0.2752),
}
EPSILONS = (1e-8, 1e-4, 1e-2, 0.03, 0.1, 0.3, 1.0)


# ---- epsilon ---------------------------------------------------------------------------------------


def epsilon(name: str, run: Run) -> Iterator[Value]:
    """Error, share of the core's blocks that are kept, and seconds by ε, with 30 blocks of rank 64."""
    gamma = SETS[name][0]
    X = some_rows(name, run.rows(ROWS))
    for e in EPSILONS[::3] if run.quick else EPSILONS:
        for core, landmarks, oversampling in (("projection", "kmeans", None), ("literal", "uniform", 2.0)):

            def make(
                s: Sizes, e: float = e, core: str = core, z: str = landmarks, m: Any = oversampling
            ) -> Any:
                return gm.MEKA(rank=64, n_blocks=30, core=core, landmarks=z, oversampling=m, epsilon=e)

            found = fitted(Method(core, make), Sizes(X, 64, 30, 0), gamma)
            if found is None:
                continue
            a, seconds = found
            c = range(a.features_.partition.n_blocks)
            kept = np.mean([not a.features_.core.is_zero(s, t) for s in c for t in c if s < t])
            setting = {"rows": len(X), "ε": e, "k": 64, "c": 30, "gamma": gamma}
            error = float(a.relative_error(X, n_rows=ERROR_ROWS, random_state=1))
            yield Value(f"MEKA, {core}", "relative error", error, setting)
            yield Value(f"MEKA, {core}", "share of pairs kept", float(kept), setting)
            yield Value(f"MEKA, {core}", "fit seconds", seconds, setting)


def epsilon_verdict(lines: list[Line]) -> str:
    """Say which ε raises the error of the projection core by at most 1 %, and what it saves."""
    rows = []
    for name in dict.fromkeys(line["set"] for line in lines):
        own = [line for line in lines if line["set"] == name and line["method"] == "MEKA, projection"]
        found: dict[str, dict[float, float]] = {}
        for line in own:
            found.setdefault(line["measure"], {})[line["setting"]["ε"]] = line["value"]
        errors, kept, took = (
            found[measure] for measure in ("relative error", "share of pairs kept", "fit seconds")
        )
        least = min(errors.values())
        largest = max(e for e, error in errors.items() if error <= 1.01 * least)
        saved = (f"{kept[largest]:.0%}", f"{took[largest] / took[min(took)]:.2f}")
        rows.append([name, f"{largest:g}", *saved, number(errors[max(errors)] / least)])
    head = ("set", "largest ε with at most 1 % more error", "pairs kept", "seconds / those of the least ε")
    return markdown_table((*head, "error without any pair / least error"), rows)


# ---- rank rules ------------------------------------------------------------------------------------


def ranks(name: str, run: Run) -> Iterator[Value]:
    """The same rank everywhere, the largest eigenvalues of all blocks, and ranks by all rows' energy."""
    gamma, k, c, _ = SETS[name]
    X = some_rows(name, run.rows(ROWS))
    k = k // 2
    rules = {
        "(i), equal ranks": {"rank_rule": "equal"},
        "(ii), largest singular values": {"rank_rule": "singular"},
        "recompressed: by all rows": {"core": "recompressed", "landmarks": "rpcholesky"},
    }
    for rule, parameters in rules.items():
        found = []
        for seed in run.seeds(3):

            def make(s: Sizes, parameters: dict[str, Any] = parameters) -> Any:
                return gm.MEKA(rank=k, n_blocks=c, **parameters)

            a, seconds = fitted(Method(rule, make), Sizes(X, k, c, seed), gamma) or (None, 0.0)
            error = float(a.relative_error(X, n_rows=ERROR_ROWS, random_state=seed))
            own = a.features_.forest.ranks
            found.append((error, seconds, numbers(a) / len(X), min(own), max(own)))
        error, seconds, memory, least, most = np.median(found, axis=0)
        setting = {"rows": len(X), "k": k, "c": c, "gamma": gamma, "ranks": f"{least:.0f} to {most:.0f}"}
        yield Value(rule, "relative error", error, setting, seconds=seconds)
        yield Value(rule, "numbers a row", memory, setting)


def ranks_verdict(lines: list[Line]) -> str:
    """Compare the rules for the ranks with equal ranks."""
    rows = []
    for name in dict.fromkeys(line["set"] for line in lines):
        own = [line for line in lines if line["set"] == name]
        error, memory = (
            {line["method"][:4]: line["value"] for line in own if line["measure"] == measure}
            for measure in ("relative error", "numbers a row")
        )
        for rule, method in (("(ii)", "rule (ii)"), ("reco", "recompressed")):
            rows.append([name, method, *(number(of[rule] / of["(i),"]) for of in (error, memory))])
    return markdown_table(("set", "ranks", "error / that of rule (i)", "numbers / those of rule (i)"), rows)


# ---- k-means Nyström -------------------------------------------------------------------------------


def centroid_study(name: str, run: Run) -> Iterator[Value]:
    """Error of k-means Nyström of rank k: how many centroids, how well clustered, cut to the rank how."""
    gamma, k, _, printed = SETS[name]
    X = some_rows(name, run.rows(10**9))
    kernel = gm.Gaussian((0.5 / gamma) ** 0.5)
    for times in (1, 2):
        count = times * k
        for rows, rounds in ((10 * count, 4), (CLUSTERED_ROWS, 4), (CLUSTERED_ROWS, LLOYD_ROUNDS)):
            rng = np.random.default_rng(0)
            began = time.perf_counter()
            sample = X[rng.permutation(len(X))[:rows]]
            Z = lloyd(sample, count, rounds, rng).astype(np.float64)
            weights = np.bincount(nearest(sample, Z), minlength=count).astype(float)
            clustered = time.perf_counter() - began
            for cut in ("K(Z, Z)", "K(Z, Z), weighted", "all rows") if times == 2 else ("none",):
                began = time.perf_counter()
                F = features(kernel, X, Z, k, cut, weights)
                took = clustered + time.perf_counter() - began
                setting = {"k": k, "centroids": count, "cut by": cut, "rows": rows, "rounds": rounds}
                error = error_of_features(kernel, X, F, ERROR_ROWS, 1)
                # Zhang, Tsang and Kwok (2008) have as many centroids as the rank; the paper says 2k of Nys.
                yield Value("KNys", "relative error", error, setting, printed, took)


def features(
    kernel: gm.Gaussian, X: np.ndarray, Z: np.ndarray, k: int, cut: str, weights: np.ndarray
) -> np.ndarray:
    """Return Nyström features of rank k: cut by eigenvectors of K(Z, Z), or of all rows' features."""
    roots = np.sqrt(weights / weights.mean() + 1e-9) if cut.endswith("weighted") else np.ones(len(Z))
    values, vectors = np.linalg.eigh(roots[:, None] * kernel(Z, dtype=np.float64) * roots)
    kept = values > 1e-12 * values[-1] if cut == "all rows" else np.arange(len(values)) >= len(values) - k
    vectors = roots[:, None] * vectors[:, kept] / np.sqrt(np.maximum(values[kept], 1e-12 * values[-1]))
    columns = kernel(X.astype(np.float64), Z, dtype=np.float32)
    F = columns @ vectors.astype(np.float32)
    if cut == "all rows":
        F = F @ np.linalg.eigh((F.T @ F).astype(np.float64))[1][:, -k:].astype(np.float32)
    return F


def nearest(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return ((Z**2).sum(axis=1) - 2.0 * X.astype(np.float64) @ Z.T).argmin(axis=1)


def centroid_verdict(lines: list[Line]) -> str:
    """Give the error over the printed one by centroids, clustering and cut."""
    rows = []
    for name in dict.fromkeys(line["set"] for line in lines):
        own = [line for line in lines if line["set"] == name]
        by = {
            tuple(line["setting"][n] for n in ("centroids", "cut by", "rows", "rounds")): line for line in own
        }
        k = own[0]["setting"]["k"]
        keys = (
            (2 * k, "K(Z, Z)", 20 * k, 4),
            (2 * k, "K(Z, Z)", CLUSTERED_ROWS, LLOYD_ROUNDS),
            (2 * k, "K(Z, Z), weighted", CLUSTERED_ROWS, LLOYD_ROUNDS),
            (2 * k, "all rows", CLUSTERED_ROWS, LLOYD_ROUNDS),
            (k, "none", CLUSTERED_ROWS, LLOYD_ROUNDS),
        )
        rows.append([name, *(number(by[key]["value"] / by[key]["published"]) for key in keys)])
    head = ("ten rows a centroid", "20,000 rows, to the end", "weighted by their rows", "cut by all rows")
    return markdown_table(("error / printed error, 2k centroids", *head, "k centroids"), rows)


STUDIES = (
    Item("epsilon", ("ijcnn1", "covtype_100k"), epsilon, across="ε", verdict=epsilon_verdict),
    Item("rank rules", tuple(SETS), ranks, verdict=ranks_verdict),
    Item("k-means nystrom", tuple(SETS), centroid_study, verdict=centroid_verdict),
)
