"""Survey of kernel sketching (Wu 2016): Figure 1b, the risk of formula (5), leverage scores, Maclaurin.

The synthetic set: 2,000 points in 100 dimensions, 1,600 in four balls of radius 0.5 and 400 from a standard
normal law in the first two coordinates, the other 98 standard normal; Gaussian kernel of width 6; y = K a +
noise of variance 0.01 with a standard normal. By the letter of the text the 98 coordinates drown the balls,
so that the same set with 98 coordinates of deviation 0.1 stands beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import scipy.linalg as la
from scipy.sparse.linalg import eigsh
from suite.results import Line

import gramian as gm
from gramian.approximations import Nystrom, RandomFourier, RandomMaclaurin, TensorSketch
from gramian.kernels.resolve import resolve_kernel
from gramian.landmarks.rules import METHODS as RULES
from gramian.operators import KernelOperator
from gramian.spectra import leverage_scores
from papers import kals
from papers.items import Item, Paper, Run, Value
from papers.meka_methods import in_words
from papers.page import markdown_table

WIDTH, LAMBDA, VARIANCE = 6.0, 0.1, 0.01
N_ROWS = 2000
COUNTS = (10, 20, 50, 100, 200, 500, 1000)
LAMBDAS = (1e-1, 1e-3, 1e-5)
#: Centres of the four balls in the first two coordinates: the paper's scatter plot names none.
CENTRES = 2.0 * np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
#: Deviation of the 98 other coordinates, by the name of the set.
SPREADS = {"synthetic": 1.0, "synthetic, flat": 0.1}


class Problem:
    """Rows, K, the noiseless f* = K a and the noisy y of one seed."""

    def __init__(self, spread: float, seed: int, n_rows: int = N_ROWS) -> None:
        self.X = synthetic(seed, spread)[:n_rows]
        self.kernel = gm.Gaussian(WIDTH)
        self.K = self.kernel(self.X)
        rng = np.random.default_rng(1000 + seed)
        self.truth = self.K @ rng.standard_normal(n_rows)
        self.y = self.truth + np.sqrt(VARIANCE) * rng.standard_normal(n_rows)
        self.norm = norm2(self.K)

    def spectral(self, F: np.ndarray) -> float:
        """Return ‖K − F Fᵀ‖₂/‖K‖₂."""
        return norm2(self.K - F @ F.T) / self.norm

    def exact(self) -> np.ndarray:
        """Return F with F Fᵀ = K."""
        values, U = la.eigh(self.K)
        return np.asarray(U * np.sqrt(np.maximum(values, 0.0)))

    def risk(self, F: np.ndarray, lam: float) -> float:
        r"""Return formula (5) for K̂ = F Fᵀ: nλ²‖(K̂ + nλI)⁻¹f*‖² + (σ²/n) tr K̂²(K̂ + nλI)⁻²."""
        U, values, ridge = *self._factored(F), len(self.X) * lam
        inside = U.T @ self.truth
        outside = self.truth - U @ inside
        bias = np.square(ridge / (values + ridge) * inside).sum() + np.square(outside).sum()
        return float((bias + VARIANCE * np.square(values / (values + ridge)).sum()) / len(self.X))

    def rmse(self, F: np.ndarray, alpha: float) -> float:
        """Return the root mean squared error against y of ridge regression on F, in sample."""
        U, values = self._factored(F)
        fitted = U @ (values / (values + alpha) * (U.T @ self.y))
        return float(np.sqrt(np.mean(np.square(self.y - fitted))))

    @staticmethod
    def _factored(F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        U, s, _ = la.svd(F, full_matrices=False)
        return U, np.square(s)


def synthetic(seed: int, spread: float) -> np.ndarray:
    """Return the survey's points, shape (2000, 100), the last 98 coordinates of deviation ``spread``."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N_ROWS, 100))
    angle, radius = rng.uniform(0.0, 2.0 * np.pi, 1600), 0.5 * np.sqrt(rng.random(1600))
    disc = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    X[:, 2:] *= spread
    X[:1600, :2] = CENTRES[np.arange(1600) % 4] + disc
    return X[np.random.default_rng(seed).permutation(N_ROWS)]


def norm2(matrix: np.ndarray) -> float:
    """Spectral norm of a symmetric matrix, to six digits."""
    start = np.random.default_rng(0).standard_normal(len(matrix))
    return float(abs(eigsh(matrix, k=1, which="LM", tol=1e-6, v0=start, return_eigenvectors=False)[0]))


@cache
def problem(name: str, seed: int, n_rows: int) -> Problem:
    return Problem(SPREADS[name], seed, n_rows)


Make = Callable[[Problem, int, int], Any]  #: (problem, features, seed) → approximation


def fourier(draws: str) -> Make:
    """Return random Fourier features; a cosine and a sine are two of the features."""
    return lambda p, count, seed: RandomFourier(
        p.kernel, rank=count, draws=draws, tile_dtype="float64", random_state=seed
    )


def nystrom(landmarks: str, oversampling: float = 1.0) -> Make:
    return lambda p, count, seed: Nystrom(
        p.kernel,
        rank=count,
        landmarks=landmarks,
        oversampling=oversampling,
        tile_dtype="float64",
        random_state=seed,
    )


def by_scores(lam: float) -> Make:
    """Return Nyström on rows drawn by their exact scores ℓ(λ), formula (9)."""

    def make(p: Problem, count: int, seed: int) -> Nystrom:
        scores = leverage_scores(KernelOperator(p.kernel, p.X), len(p.X) * lam, method="direct").values
        rng = np.random.default_rng(seed)
        drawn = rng.choice(len(p.X), min(count, len(p.X)), replace=False, p=scores / scores.sum())
        return Nystrom(
            p.kernel,
            rank=count,
            landmarks=p.X[np.sort(drawn)],
            oversampling=1.0,
            recompress=False,
            tile_dtype="float64",
        )

    return make


PAPERS_OWN: dict[str, Make] = {
    "random Fourier": fourier("iid"),
    "vanilla Nyström": nystrom("uniform"),
    "leverage Nyström": by_scores(LAMBDA),
}
METHODS = PAPERS_OWN | {
    "leverage Nyström, estimated scores": nystrom("leverage"),
    "Fourier, orthogonal draws": fourier("orthogonal"),
    "Nyström, random pivots": nystrom("rpcholesky"),
    "Nyström, 5 pivots a feature cut": nystrom("rpcholesky", 5.0),
}


def _features(p: Problem, make: Make, count: int, seed: int) -> np.ndarray:
    return np.asarray(make(p, count, seed).fit(p.X).transform(p.X), np.float64)


def figure_1b(name: str, run: Run) -> Iterator[Value]:
    """Both panels: the spectral error; the RMSE with alpha = nλ and, since that is far too much, with λ."""
    n, seeds = run.rows(N_ROWS) // (4 if run.quick else 1), run.seeds(5)
    for method, make in METHODS.items():
        for count in COUNTS[:4] if run.quick else COUNTS:
            found = []
            for seed in seeds:
                p = problem(name, seed, n)
                began = time.perf_counter()
                F = _features(p, make, count, seed)
                took = time.perf_counter() - began
                found.append((p.spectral(F), p.rmse(F, n * LAMBDA), p.rmse(F, LAMBDA), took))
            spectral, rmse, less, took = np.median(found, axis=0)
            size = {"features": count}
            yield Value(method, "relative spectral error", spectral, size, seconds=took)
            yield Value(method, "rmse", rmse, size)
            yield Value(method, "rmse, alpha without n", less, size)


def risk(name: str, run: Run) -> Iterator[Value]:
    """Formula (5) of every sketch over that of the exact kernel, for several λ."""
    n, seeds = run.rows(N_ROWS) // (4 if run.quick else 1), run.seeds(3)
    for lam in LAMBDAS:
        exact = {seed: problem(name, seed, n).risk(problem(name, seed, n).exact(), lam) for seed in seeds}
        size = {"lambda": lam}
        yield Value("exact kernel", "risk", float(np.median(list(exact.values()))), size | {"features": n})
        for method, make in (PAPERS_OWN | {"leverage Nyström": by_scores(lam)}).items():
            for count in COUNTS[:4] if run.quick else COUNTS:
                ratios = []
                for seed in seeds:
                    p = problem(name, seed, n)
                    ratios.append(p.risk(_features(p, make, count, seed), lam) / exact[seed])
                yield Value(method, "risk over exact", float(np.median(ratios)), size | {"features": count})


def leverage(name: str, run: Run) -> Iterator[Value]:
    """How uneven the scores are at a given λ, and what drawing by them gains over drawing uniformly."""
    n, seeds = run.rows(N_ROWS) // (4 if run.quick else 1), run.seeds(5)
    for lam in LAMBDAS:
        uneven, dimension, ratios = [], [], []
        for seed in seeds:
            p = problem(name, seed, n)
            scores = leverage_scores(KernelOperator(p.kernel, p.X), n * lam, method="direct").values
            uneven.append(scores.max() / scores.mean())
            dimension.append(scores.sum())
            count = int(np.clip(2 * scores.sum(), 5, n // 2))
            mine, plain = (
                p.risk(_features(p, make, count, seed), lam) for make in (by_scores(lam), nystrom("uniform"))
            )
            ratios.append(mine / plain)
        size = {"lambda": lam}
        yield Value("exact scores", "effective dimension", float(np.median(dimension)), size)
        yield Value("exact scores", "largest score over mean", float(np.median(uneven)), size)
        yield Value("leverage Nyström", "risk over uniform's", float(np.median(ratios)), size)


def maclaurin(name: str, run: Run) -> Iterator[Value]:
    """Random features of (x·z + 1)³ on rows of norm 1, the other family that the survey describes."""
    X = synthetic(0, SPREADS["synthetic, flat"])[: run.rows(N_ROWS) // (4 if run.quick else 1)]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    kernel = resolve_kernel("poly", n_features=X.shape[1], gamma=1.0, degree=3, coef0=1.0)
    K = kernel(X)
    largest = norm2(K)
    makers: dict[str, Callable[[int, int], Any]] = {
        "Maclaurin, powers drawn": lambda r, s: RandomMaclaurin(
            kernel, rank=r, powers="drawn", random_state=s
        ),
        "Maclaurin, powers shared": lambda r, s: RandomMaclaurin(kernel, rank=r, random_state=s),
        "TensorSketch": lambda r, s: TensorSketch(kernel, rank=r, random_state=s),
        "vanilla Nyström": lambda r, s: Nystrom(
            kernel, rank=r, landmarks="uniform", oversampling=1.0, random_state=s
        ),
    }
    for method, make in makers.items():
        for count in (50, 100, 200, 500, 1000):
            errors = []
            for seed in run.seeds(5):
                F = np.asarray(make(count, seed).fit(X).transform(X), np.float64)
                errors.append(norm2(K - F @ F.T) / largest)
            yield Value(method, "relative spectral error", float(np.median(errors)), {"features": count})


def pruning(name: str, run: Run) -> Iterator[Value]:
    """The survey's future work: random features that the data show to matter little are removed.

    A linear model on all drawn frequencies tells their importance, the squared norm of what each adds to the
    fitted values; those that add the least are removed, and the model is fitted again. Beside it as many
    frequencies as are left, drawn once. RMSE on held-out rows over the deviation of y.
    """
    X, y = _table(name, run.rows(8000))
    half = len(X) // 2
    kept = 200
    for times in (1, 2, 4, 8):
        errors = []
        for seed in run.seeds(5):
            F = RandomFourier(rank=kept * times, draws="iid", random_state=seed).fit(X[:half])
            A, B = (np.asarray(F.transform(part), np.float64) for part in (X[:half], X[half:]))
            features = np.arange(A.shape[1])
            while len(features) > kept:
                w = _ridge(A[:, features], y[:half])
                matter = np.square(w) * np.square(A[:, features]).sum(axis=0)
                most = max(kept, len(features) // 2)
                features = features[np.sort(np.argsort(-matter)[:most])]
            w = _ridge(A[:, features], y[:half])
            errors.append(np.sqrt(np.mean((B[:, features] @ w - y[half:]) ** 2)) / y[half:].std())
        size = {"features": kept, "drawn a feature kept": times}
        yield Value("random Fourier, pruned", "rmse", float(np.median(errors)), size)


def _table(name: str, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    from suite.datasets import load_dataset

    data = load_dataset(name)
    order = np.random.default_rng(0).permutation(len(data.y))[:n_rows]
    X, y = data.X[order].astype(np.float64), data.y[order].astype(np.float64)
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12), y - y.mean()


def _ridge(A: np.ndarray, y: np.ndarray, alpha: float = 0.1) -> np.ndarray:
    gram = A.T @ A
    gram.flat[:: len(gram) + 1] += alpha
    return np.asarray(la.solve(gram, A.T @ y, assume_a="pos"))


def landmark_rules(name: str, run: Run) -> Iterator[Value]:
    """Spectral error over the exact SVD's on 1,000 rows by the rule for landmarks: r, or 5 r cut to r.

    Ranks and gammas are those of the KALS paper's table, but for cpusmall, where its errors are rounding.
    """
    setting = kals.SETS[name]
    gamma = 2.0**-5 if name == "cpusmall" else setting.gamma
    ratios: dict[tuple[str, float], list[float]] = {}
    for seed in run.seeds(5):
        X = kals.table_of(name)
        X = X[np.random.default_rng(seed).choice(len(X), kals.SCORED, replace=False)]
        K = gm.Gaussian((0.5 / gamma) ** 0.5)(X)
        best = np.linalg.eigvalsh(K)[-setting.rank - 1]
        for rule in RULES:
            for times in (1.0, 5.0):
                a = Nystrom(
                    gamma=gamma,
                    rank=setting.rank,
                    landmarks=rule,
                    oversampling=times,
                    tile_dtype="float64",
                    random_state=seed,
                ).fit(X)
                ratios.setdefault((rule, times), []).append(
                    float(np.linalg.norm(K - a.operator_.to_dense(), 2) / best)
                )
    for (rule, times), found in ratios.items():
        size = {"rank": setting.rank, "landmarks a rank": int(times)}
        yield Value(rule, "spectral error over the SVD's", float(np.median(found)), size)
        if times > 1:
            yield Value(rule, "worst spectral error over the SVD's", float(max(found)), size)


def verdict_1b(lines: list[Line]) -> str:
    """Say at how many features the two claims of the paper's text hold."""
    rows = []
    for name in dict.fromkeys(line["set"] for line in lines):
        for measure in ("relative spectral error", "rmse", "rmse, alpha without n"):
            found = {
                (line["method"], line["setting"]["features"]): line["value"]
                for line in lines
                if (line["set"], line["measure"]) == (name, measure)
            }
            counts = sorted({count for _, count in found})
            first = [c for c in counts if found["vanilla Nyström", c] < found["random Fourier", c]]
            second = [c for c in counts if found["leverage Nyström", c] < found["vanilla Nyström", c]]
            rows.append([name, measure, in_words(first, counts), in_words(second, counts)])
    head = ("set", "measure", "vanilla Nyström below random Fourier")
    return markdown_table((*head, "leverage Nyström below vanilla Nyström"), rows)


PAPER = Paper(
    "survey",
    "sketching-survey.md",
    (
        Item("figure 1b", tuple(SPREADS), figure_1b, across="features", verdict=verdict_1b),
        Item("risk", tuple(SPREADS), risk, across="features"),
        Item("leverage", tuple(SPREADS), leverage),
        Item("maclaurin", ("synthetic, flat",), maclaurin, across="features"),
        Item("pruning", ("cpusmall", "cadata"), pruning, across="drawn a feature kept"),
        Item("landmark rules", ("german", "satimage", "wine", "cpusmall"), landmark_rules),
    ),
)
