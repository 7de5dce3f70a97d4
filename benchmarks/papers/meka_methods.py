"""Shared parts of the MEKA paper's items: its rows, its methods and ours at a given memory, the measure."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from suite.datasets import load_dataset
from suite.results import Line

import gramian as gm
from gramian.approximations import LowRankPlusBlocks
from gramian.exceptions import NumericalError
from gramian.landmarks.rules import lloyd
from gramian.operators import DiagonalPlus

#: Rows on which the paper runs k-means, for KNys and for MEKA, and enough Lloyd rounds to converge.
CLUSTERED_ROWS, LLOYD_ROUNDS = 20_000, 40


@dataclass(frozen=True)
class Sizes:
    """What a method is made for: ``memory`` numbers a row, ``n_blocks`` blocks where it has any."""

    X: np.ndarray
    memory: float
    n_blocks: int
    seed: int

    @property
    def rank(self) -> int:
        return max(1, round(self.memory))

    @property
    def block_rank(self) -> int:
        """The rank k of MEKA's blocks that n·k + (c·k)² = n·memory leaves."""
        square = self.n_blocks**2 / len(self.X)
        return max(1, round((np.sqrt(1.0 + 4.0 * square * self.memory) - 1.0) / (2.0 * square)))


@dataclass(frozen=True)
class Method:
    name: str
    make: Callable[[Sizes], Any]  #: an estimator without its kernel; its time is part of the fit's
    #: Numbers a row over the stated rank at which the printed figures of Table 2 are reproduced.
    numbers: int = 1


# ---- rows ------------------------------------------------------------------------------------------


def unit_box(X: np.ndarray, low: float = 0.0) -> np.ndarray:
    """Scale columns to [low, 1]; constant columns become low."""
    span = X.max(axis=0) - X.min(axis=0)
    return low + (1.0 - low) * (X - X.min(axis=0)) / np.where(span > 0, span, 1.0)


@cache
def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = load_dataset(name)
    X, y = data.X.astype(np.float64), data.y.astype(np.float64)
    if name == "ijcnn1":
        return X[: data.n_train], y[: data.n_train]
    if name == "pendigits":
        return unit_box(X), y
    if name == "covtype_100k":
        return unit_box(X), np.where(y == 2, 1.0, -1.0)
    if name == "cadata":
        return unit_box(X, -1.0), unit_box(y[:, None])[:, 0]
    if name == "census_house16H":  # heavy tails: in a box nearly all rows would be one point
        return (X - X.mean(axis=0)) / X.std(axis=0), unit_box(y[:, None])[:, 0]
    return (unit_box(X, -1.0), y) if name == "cpusmall" else (X, y)


def some_rows(name: str, count: int) -> np.ndarray:
    """Return at most so many rows in float32, drawn at random."""
    X = rows_of(name)[0]
    picked = np.random.default_rng(0).permutation(len(X))[:count]
    return X[np.sort(picked)].astype(np.float32)


# ---- methods ---------------------------------------------------------------------------------------


def meka(core: str, landmarks: str | None = None, oversampling: float | None = None) -> Callable[..., Any]:
    # Where much is recompressed, pivots err a tenth less than centroids; with few landmarks centroids do.
    chosen = landmarks or ("rpcholesky" if core == "recompressed" else "kmeans")
    return lambda s: gm.MEKA(
        rank=s.block_rank, n_blocks=s.n_blocks, core=core, landmarks=chosen, oversampling=oversampling
    )


def nystrom(svd: str = "exact") -> Callable[..., Any]:
    return lambda s: gm.Nystrom(rank=s.rank, landmarks="uniform", oversampling=2.0, recompress=False, svd=svd)


def centroids(X: np.ndarray, count: int, seed: int, rows: int = CLUSTERED_ROWS) -> np.ndarray:
    """Return centres of k-means, run to the end on at most so many rows."""
    rng = np.random.default_rng(seed)
    sample = X[rng.permutation(len(X))[:rows]]
    return lloyd(sample, min(count, len(sample)), LLOYD_ROUNDS, rng)


def clustered(s: Sizes) -> Any:
    return gm.Nystrom(rank=s.rank, landmarks=centroids(s.X, 2 * s.rank, s.seed), recompress=False)


@dataclass
class Experts:
    """Ensemble Nyström as here compared: the mean of experts, each of its own uniform columns cut to a rank.

    ``gm.EnsembleNystrom`` does not cut its experts; with the cut the same memory holds better ones.
    """

    rank: int
    n_experts: int = 3
    parameters: dict[str, Any] = field(default_factory=dict)

    def set_params(self, **parameters: Any) -> Experts:
        self.parameters.update(parameters)
        return self

    def fit(self, X: np.ndarray) -> Experts:
        seeds = np.random.default_rng(self.parameters.get("random_state")).integers(
            2**31, size=self.n_experts
        )
        one = gm.Nystrom(rank=self.rank, landmarks="uniform", oversampling=2.0, recompress=False)
        one.set_params(**self.parameters)
        self.experts = [
            gm.Nystrom(**{**one.get_params(), "random_state": int(seed)}).fit(X) for seed in seeds
        ]
        self.rank_ = sum(expert.rank_ for expert in self.experts)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        features = np.concatenate([expert.transform(X) for expert in self.experts], axis=1)
        return features / np.sqrt(self.n_experts)

    def relative_error(self, X: np.ndarray, *, n_rows: int, random_state: int) -> float:
        return error_of_features(self.experts[0].kernel_, X, self.transform(X), n_rows, random_state)


def even(rank: int) -> int:
    return 2 * max(1, round(rank / 2))


LITERAL = "MEKA, literal"
KNYS = Method("KNys", clustered)
#: As the paper describes them: 2·k uniform columns or centroids cut to the rank k, three experts that share
#: the memory, k features. The printed errors of the random features are those of k frequencies with a sine
#: and a cosine each, 2·k numbers a row.
BASELINES = (
    Method("Nys", nystrom()),
    Method("RNys", nystrom("randomized")),
    KNYS,
    Method("ENys", lambda s: Experts(max(1, round(s.memory / 3)))),
    Method("RKS", lambda s: gm.RandomFourier(rank=even(s.rank)), 2),
    Method("fastfood", lambda s: gm.Fastfood(rank=even(s.rank)), 2),
)
MEKA_LITERAL = Method(LITERAL, meka("literal", "uniform", 2.0))
PAPER = (*BASELINES, MEKA_LITERAL)
OURS = (
    Method("MEKA, sampled with a ridge", meka("sampled")),
    Method("MEKA, projection, uniform columns", meka("projection", "uniform", 2.0)),
    Method("MEKA, projection", meka("projection")),
    Method("MEKA, recompressed", meka("recompressed")),
)
#: For narrow kernels, whose diagonal (and what lies next to it) no low rank reaches.
OURS_NARROW = (
    Method("BlockBasis + diag", lambda s: gm.BlockBasis(rank=s.rank - 1, diagonal=True)),
    Method(
        "LowRankPlusBlocks",
        lambda s: LowRankPlusBlocks(
            root_rank=round(s.memory / 2), n_blocks=max(1, round(2 * len(s.X) / s.memory))
        ),
    ),
)
BKA = Method("BKA", lambda s: gm.BlockDiagonal(n_blocks=max(1, round(len(s.X) / s.memory))))


# ---- measures --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    error: float
    seconds: float
    memory: float  #: numbers stored, for each row


def fitted(method: Method, s: Sizes, gamma: float) -> tuple[Any, float] | None:
    """Return the fitted estimator and its seconds; None where the literal least squares are singular."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        a = method.make(s)
        # What the recompressed core of covtype takes.
        a.set_params(gamma=gamma, tile_dtype="float32", random_state=s.seed, memory_budget="8GB")
        try:
            a.fit(s.X)
        except NumericalError:
            return None
        return a, time.perf_counter() - start


def measure(
    method: Method, X: np.ndarray, gamma: float, memory: float, n_blocks: int, *, error_rows: int, seed: int
) -> Found | None:
    """Return error, seconds and numbers of a fit; None where the literal least squares are singular."""
    found = fitted(method, Sizes(X, memory, n_blocks, seed), gamma)
    if found is None:
        return None
    a, seconds = found
    error = a.relative_error(X, n_rows=error_rows, random_state=1000 + seed)
    return Found(float(error), seconds, numbers(a) / len(X))


def numbers(a: Any) -> int:
    """Numbers stored: bases and, where there is one, the core."""
    if isinstance(a, Experts):
        return sum(map(numbers, a.experts))
    stored = isinstance(a.operator_, DiagonalPlus)
    operator = a.operator_.operator if stored else a.operator_
    bases = sum(block.size for level in operator.levels for block in level.blocks)
    core = a.rank_**2 if a.features_.core is not None else 0
    return bases + core + (len(a.operator_.added) if stored else 0)


def error_of_features(
    kernel: Any, X: np.ndarray, features: np.ndarray, n_rows: int, random_state: int
) -> float:
    """Return the relative error of F Fᵀ over rows drawn uniformly, as the paper measures it."""
    rows = np.random.default_rng(random_state).permutation(len(X))[:n_rows]
    exact = kernel(X[rows], X, dtype=np.float64)
    left = exact - features[rows].astype(np.float64) @ features.T.astype(np.float64)
    return float(np.sqrt(np.square(left).sum() / np.square(exact).sum()))


# ---- what lines say --------------------------------------------------------------------------------

#: Values by set, method and place on the horizontal axis.
Curves = dict[str, dict[str, dict[Any, float]]]


def curves_of(lines: list[Line], across: str, measure: str = "relative error") -> Curves:
    found: Curves = {}
    for line in lines:
        if line["measure"] == measure:
            curve = found.setdefault(line["set"], {}).setdefault(line["method"], {})
            curve[line["setting"][across]] = line["value"]
    return found


def below(curves: dict[str, dict[Any, float]], name: str, others: list[str]) -> str:
    """Say at which places a method errs no more than any of the others; 2 %, or 1e-4, is a draw."""
    mine = curves.get(name, {})
    places = sorted({place for curve in curves.values() for place in curve})
    holds = [
        place
        for place in places
        if place in mine
        and all(
            mine[place] <= max(1.02 * curves[o][place], 1e-4) for o in others if place in curves.get(o, {})
        )
    ]
    return in_words(holds, places)


def frontier(
    errors: dict[str, dict[Any, float]], seconds: dict[str, dict[Any, float]], name: str, others: list[str]
) -> str:
    """Say at which places no fit of the others, at any place, has both less error and less time."""
    rivals = [(errors[o][place], seconds[o][place]) for o in others for place in errors.get(o, {})]
    holds = [
        place
        for place, error in errors.get(name, {}).items()
        if not any(e < error and t < seconds[name][place] for e, t in rivals)
    ]
    return in_words(holds, sorted({place for curve in errors.values() for place in curve}))


def in_words(holds: list[Any], places: list[Any]) -> str:
    """Say where a claim holds, among all places."""
    if len(holds) == len(places):
        return "everywhere"
    if not holds:
        return "nowhere"
    missed = [place for place in places if place not in holds]
    if len(missed) < len(holds):
        return f"everywhere but at {', '.join(f'{p:g}' for p in missed)}"
    return f"at {', '.join(f'{p:g}' for p in holds)} only"
