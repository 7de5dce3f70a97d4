"""DC-Pred++: pseudo-landmarks: Figure 1, monomials of higher degree, and MEKA with pseudo-landmarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.linalg as la
from suite.datasets import load_dataset
from suite.results import Line

import gramian as gm
from gramian.compression.cores import coupled_blocks, ridge_inverse
from gramian.engine import Engine
from gramian.fast.cost import linear_nanoseconds, seconds_per_row
from gramian.fast.dcpred.leaves import Leaf, LeafReport
from gramian.fast.dcpred.model import DCPred
from gramian.fast.dcpred.pseudo_landmarks import expand, fit_core
from gramian.fast.dcpred.training import CORE_ROWS, ROUNDS
from gramian.kernels import Kernel
from gramian.landmarks.partition import fit_partition
from gramian.landmarks.routing import Partition
from gramian.landmarks.rules import lloyd
from papers.items import Run, Value
from papers.page import markdown_table, number

#: gamma of each set; rows have features in [-1, 1] (usps), [0, 1] (mnist) or unit variance.
GAMMAS = {"usps": 0.008, "mnist": 0.02, "letter": 0.1}
#: Landmarks of Figure 1; the paper takes 2 to 30.
LANDMARKS = (2, 5, 10, 20, 30)
#: Rows of the kernel matrix, and of a timed batch.
ROWS, BATCH_ROWS = 2000, 4096


def rows_of(name: str, count: int) -> np.ndarray:
    """Return ``count`` rows of a set, drawn and scaled."""
    X = load_dataset(name).X
    drawn = np.random.default_rng(0).choice(len(X), count, replace=False)
    rows = np.asarray(X[drawn], np.float64)
    if name == "mnist":
        return rows / 255.0
    return rows if name == "usps" else (rows - rows.mean(axis=0)) / rows.std(axis=0)


class Timed:
    """Times a linear model that DC-Pred++'s predictor takes with the given landmarks in each leaf."""

    def __init__(self, X: np.ndarray) -> None:
        rng = np.random.default_rng(0)
        self.batch = np.asarray(X[rng.integers(len(X), size=BATCH_ROWS)], np.float32)
        self.linear = linear_nanoseconds(self.batch, 1)

    def __call__(
        self, kernel: Kernel, partition: Partition, leaves: Sequence[tuple[np.ndarray, Any]]
    ) -> float:
        def leaf(landmarks: np.ndarray, columns: Any) -> Leaf:
            beta = np.ones((columns.n_columns, 1), np.float32)
            limits = np.array([[-np.inf], [np.inf]], np.float32)
            return Leaf(landmarks, columns, beta, np.zeros(1, np.float32), limits, LeafReport(0))

        fitted = DCPred(partition, tuple(leaf(*one) for one in leaves), kernel, self.batch.shape[1])
        own = 1e9 * seconds_per_row(fitted, self.batch)
        self.linear = min(self.linear, linear_nanoseconds(self.batch, 1))
        return own / self.linear


def errors_and_costs(name: str, run: Run, sizes: Sequence[int], kinds: dict[str, Any]) -> Iterator[Value]:
    """Yield error and cost of C̄ W̄ C̄ᵀ on all rows; kinds: pseudo-landmarks, their number for m, degree."""
    X = rows_of(name, run.rows(ROWS))
    kernel = gm.Gaussian(lengthscale=(0.5 / GAMMAS[name]) ** 0.5)
    G, timed = kernel(X), Timed(X)
    norm = np.linalg.norm(G)
    whole = fit_partition(X, 1, rng=np.random.default_rng(0))
    for m in sizes[:2] if run.quick else sizes:
        Z = lloyd(X, m, ROUNDS, np.random.default_rng(m))
        for method, (pseudo, count, degree) in kinds.items():
            p = count(m)

            def columns(
                dtype: Any, Z: np.ndarray = Z, p: int = p, pseudo: Any = pseudo, degree: int = degree
            ) -> Any:
                return expand(kernel, Z, X, p, pseudo, np.random.default_rng(0), dtype, degree=degree)

            C = columns(np.float64)(X)
            if method == "Nyström":
                inner = C @ la.pinvh(kernel(Z)) @ C.T
            else:
                L = C @ fit_core(C, G)
                inner = L @ L.T
            setting = {"landmarks": m, "pseudo": C.shape[1] - m}
            yield Value(method, "relative error", float(np.linalg.norm(G - inner) / norm), setting)
            yield Value(method, "x linear", timed(kernel, whole, [(Z, columns(np.float32))]), setting)


def every_product(m: int) -> int:
    """Return the number of monomials of degree 2."""
    return m * (m + 1) // 2


def figure_1(name: str, run: Run) -> Iterator[Value]:
    """Figure 1: Nyström without and with pseudo-landmarks."""
    kinds = {
        "Nyström": (None, lambda m: 0, 2),
        "Nyström, core (5)": (None, lambda m: 0, 2),
        "Nys-triangle, upper": ("triangle-upper", lambda m: 4 * m, 2),
        "Nys-triangle, lower": ("triangle-lower", lambda m: 4 * m, 2),
        "Nys-dp, 4 m drawn": ("monomials", lambda m: 4 * m, 2),
        "Nys-dp, all": ("monomials", every_product, 2),
    }
    yield from errors_and_costs(name, run, LANDMARKS, kinds)


def degree(name: str, run: Run) -> Iterator[Value]:
    """Monomials of degree 2, 3 and 4: as many as there are of degree 2, and four times as many."""
    kinds = {
        "degree 2": ("monomials", every_product, 2),
        "degree 3": ("monomials", every_product, 3),
        "degree 4": ("monomials", every_product, 4),
        "degree 3, four times as many": ("monomials", lambda m: 4 * every_product(m), 3),
    }
    yield from errors_and_costs(name, run, (5, 10, 20), kinds)


def meka(name: str, run: Run) -> Iterator[Value]:
    """MEKA with m landmarks a block, the same with pseudo-landmarks, and with 4 m landmarks."""
    X = rows_of(name, run.rows(2 * ROWS))
    kernel = gm.Gaussian(lengthscale=(0.5 / GAMMAS[name]) ** 0.5)
    G, timed = kernel(X), Timed(X)
    norm = np.linalg.norm(G)
    partition = fit_partition(X, 10, rng=np.random.default_rng(0))
    labels = partition.route(X)
    members = [np.flatnonzero(labels == s) for s in range(partition.n_blocks)]
    for m in (5, 10) if run.quick else (5, 10, 20, 40):
        for method, count, p in (
            ("MEKA", m, 0),
            ("MEKA, pseudo-landmarks", m, 3 * m),
            ("MEKA, 4 m", 4 * m, 0),
        ):
            rng = np.random.default_rng(0)
            points, features, inverses, leaves = [], [], [], []
            for own in members:
                Z = lloyd(X[own], min(count, len(own)), ROUNDS, rng)
                C = expand(kernel, Z, X[own], p, "monomials", np.random.default_rng(0))(X[own])
                sampled = rng.choice(len(own), min(CORE_ROWS, len(own)), replace=False)
                W = C @ fit_core(C[sampled], kernel(X[own[sampled]]))
                seen = rng.choice(len(own), min(3 * W.shape[1], len(own)), replace=False)
                left_over = float(np.maximum(1.0 - np.square(W[seen]).sum(axis=1), 0.0).mean())
                points.append(X[own[seen]])
                inverses.append(ridge_inverse(W[seen], left_over).T)
                features.append(W)
                small = expand(kernel, Z, X[own], p, "monomials", np.random.default_rng(0), np.float32)
                leaves.append((Z, small))
            core = coupled_blocks(kernel, points, inverses, None, Engine(1), psd=False)
            W = np.zeros((len(X), core.size))
            for own, part, first in zip(members, features, core.offsets[:-1], strict=True):
                W[own, first : first + part.shape[1]] = part
            setting = {"landmarks": count, "rank": max(part.shape[1] for part in features)}
            error = float(np.linalg.norm(G - W @ core.multiply(W.T)) / norm)
            yield Value(method, "relative error", error, setting)
            yield Value(method, "x linear", timed(kernel, partition, leaves), setting)


def pairs(
    lines: list[Line], methods: tuple[str, str]
) -> dict[tuple[str, int], dict[str, tuple[float, float]]]:
    """Return {(set, landmarks): {measure: values of the two methods}}."""
    found: dict[tuple[str, int], dict[str, dict[str, float]]] = {}
    for line in lines:
        if line["method"] in methods:
            at = found.setdefault((line["set"], line["setting"]["landmarks"]), {})
            at.setdefault(line["measure"], {})[line["method"]] = line["value"]
    return {
        key: {measure: (values[methods[0]], values[methods[1]]) for measure, values in at.items()}
        for key, at in found.items()
        if all(len(values) == 2 for values in at.values())
    }


def gains(lines: list[Line], plain: str, others: Sequence[str]) -> str:
    """Give by what factors the error falls and the cost rises, least to most over sets and landmarks."""
    rows = []
    for other in others:
        found = pairs(lines, (plain, other)).values()
        error = [one["relative error"][1] / one["relative error"][0] for one in found]
        cost = [one["x linear"][1] / one["x linear"][0] for one in found]
        rows.append([other, *(f"{number(min(r))} to {number(max(r))}" for r in (error, cost))])
    return markdown_table(
        (f"against {plain} with the same landmarks", "times the error", "times the cost"), rows
    )


def figure_1_verdict(lines: list[Line]) -> str:
    """Compare both kinds of pseudo-landmarks with none."""
    others = ("Nys-triangle, upper", "Nys-triangle, lower", "Nys-dp, 4 m drawn", "Nys-dp, all")
    return gains(lines, "Nyström", others)


def degree_verdict(lines: list[Line]) -> str:
    """Compare degrees at the same number of monomials, and more of them."""
    return gains(lines, "degree 2", ("degree 3", "degree 4", "degree 3, four times as many"))


def meka_verdict(lines: list[Line]) -> str:
    """Compare MEKA with and without pseudo-landmarks."""
    return gains(lines, "MEKA", ["MEKA, pseudo-landmarks"])
