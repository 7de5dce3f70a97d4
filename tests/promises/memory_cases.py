"""The fits whose memory is measured: a table of estimators, data and budgets.

    python tests/promises/memory_cases.py NAME

runs one of them in this process, for ``test_memory.py``: it makes the data, warms up with a fit to few rows,
writes "ready", waits for a line, fits, and writes a line with what the budget had to hold.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

import gramian as gm
from gramian.approximations import ClusteredLowRank, LowRankPlusBlocks
from gramian.kernels.compiled import LEAST_ENTRIES, part_of_block

#: Rows of the fit that warms up: imports, compiled code and tables of the libraries.
WARM_ROWS = 400


@dataclass(frozen=True)
class Data:
    """Rows, targets and weights, the same in every run."""

    n: int = 50_000
    d: int = 8
    kind: str = "float64"  #: float64, float32, csr, memmap or frame
    outputs: int = 1
    classes: int = 0
    weighted: bool = False

    def make(self) -> tuple[Any, Any, Any]:
        rng = np.random.default_rng(0)
        dtype = np.float64 if self.kind == "float64" else np.float32
        X = rng.random((self.n, self.d), dtype=dtype)
        signal = np.sin(6.0 * X[:, 0]) + np.cos(5.0 * X[:, 1]) * X[:, 2]
        y: Any = signal + 0.1 * rng.standard_normal(self.n)
        if self.classes:
            cuts = np.quantile(y, np.linspace(0, 1, self.classes + 1)[1:-1])
            y = np.searchsorted(cuts, y)
        elif self.outputs > 1:
            y = np.stack([np.roll(y, k) + X[:, 1] * k for k in range(self.outputs)], axis=1)
        weights = rng.random(self.n) + 0.5 if self.weighted else None
        return self._stored(X, rng), y, weights

    def _stored(self, X: Any, rng: np.random.Generator) -> Any:
        if self.kind == "csr":
            return sp.random_array(X.shape, density=0.05, format="csr", dtype=np.float64, rng=rng)
        if self.kind == "memmap":
            with tempfile.NamedTemporaryFile() as file:  # unlinked at once, and mapped still
                mapped = np.memmap(file, X.dtype, "w+", shape=X.shape)
            mapped[:] = X
            mapped.flush()
            return mapped
        if self.kind == "frame":
            import pandas as pd

            table = pd.DataFrame(X, columns=[f"x{k}" for k in range(self.d)])
            table["kind"] = pd.Categorical(np.array(list("abcdefgh"))[rng.integers(0, 8, self.n)])
            return table
        return X


@dataclass(frozen=True)
class Case:
    """An estimator, its data and the bytes that its fit may take.

    ``beside``: what the documentation says is not counted, of the fitted model, in bytes.
    """

    make: Callable[[str], Any]
    budget: str
    data: Data = Data()
    chunks: int = 0  #: ``partial_fit`` by this many chunks instead of ``fit``
    beside: Callable[[Any], int] = lambda model: 0
    fit: Callable[[Any, Any, Any], Any] | None = None  #: from model, X and y, instead of the method


RUN = {"random_state": 0, "n_jobs": 2}


def ridge(approximation: Any = "auto", kind: Any = gm.KernelRidge, **options: Any) -> Callable[[str], Any]:
    given = {"alpha": 0.1, "gamma": 2.0, "approximation": approximation, **RUN, **options}
    return lambda budget: kind(memory_budget=budget, **given)


def of(kind: Any, **options: Any) -> Callable[[str], Any]:
    given = {**RUN, **options}
    return lambda budget: kind(memory_budget=budget, **given)


def unbudgeted(kind: Any, **options: Any) -> Callable[[str], Any]:
    return lambda budget: kind(**{**RUN, **options})


def compressed(model: Any, X: Any, y: Any) -> Any:
    model.fit(X, y)
    return gm.compress(model, X, y, n_levels=2, n_units=8, n_directions=3, **RUN)


def stored(model: Any) -> int:
    """Return the bytes of the compressed training rows, which stay in the fitted approximation."""
    return int(model.nbytes_)


WIDE, MANY = Data(40_000, 100), Data(200_000, 8, "float32")
TWO, TEN = Data(20_000, 8, classes=2), Data(40_000, 8, classes=10)
FIVE = Data(20_000, 8, classes=5)
FEW_TEN = Data(8_000, 8, classes=10)  #: for solvers whose time grows with rows · classes · iterations
SMALL = Data(6_000, 8)
SPARSE = Data(40_000, 1_000, "csr")

CASES: dict[str, Case] = {
    "ridge, auto": Case(ridge(), "100MB"),
    "ridge, auto, 300 MB": Case(ridge(), "300MB", MANY),
    "ridge, float32": Case(ridge(), "150MB", Data(200_000, 20, "float32")),
    "ridge, float64 tiles": Case(ridge(tile_dtype="float64"), "100MB", MANY),
    "ridge, memmap": Case(ridge(), "100MB", Data(400_000, 20, "memmap")),
    "ridge, sparse": Case(ridge(gamma=0.1), "150MB", SPARSE),
    "ridge, many outputs": Case(ridge(), "200MB", Data(40_000, 8, outputs=20)),
    "ridge, weights": Case(ridge(fit_intercept=True), "100MB", Data(100_000, 8, weighted=True)),
    "ridge, standardize": Case(ridge(standardize=True), "100MB", WIDE),
    "ridge, standardize memmap": Case(ridge(standardize=True), "100MB", Data(100_000, 40, "memmap")),
    "ridge, exact": Case(ridge("exact"), "300MB", SMALL),
    "ridge, exact in tiles": Case(ridge("exact", alpha=1.0), "100MB", Data(12_000, 8)),
    "ridge, meka": Case(ridge(gm.MEKA(rank=80, n_blocks=15)), "100MB"),
    "ridge, block basis": Case(ridge(gm.BlockBasis(rank=60, n_blocks=10)), "150MB"),
    "ridge, nystrom": Case(ridge(gm.Nystrom(rank=300)), "200MB"),
    "ridge, multi-resolution": Case(
        ridge(gm.MultiResolution(root_rank=300, rank=60, n_blocks=40)), "100MB", MANY
    ),
    "ridge, kals": Case(ridge(gm.KALS(rank=100)), "200MB"),
    "ridge, random Fourier": Case(ridge(gm.RandomFourier(rank=1_000)), "100MB"),
    "classes, ten": Case(ridge(kind=gm.KernelRidgeClassifier), "150MB", TEN),
    "classes, sparse": Case(
        ridge(kind=gm.KernelRidgeClassifier, gamma=0.1), "150MB", Data(40_000, 1_000, "csr", classes=10)
    ),
    "cv, alphas": Case(of(gm.KernelRidgeCV, gamma=2.0), "100MB"),
    "cv, gammas": Case(of(gm.KernelRidgeCV, gammas=(0.5, 2.0, 8.0)), "100MB", Data(20_000, 8)),
    "cv, folds": Case(of(gm.KernelRidgeCV, gamma=2.0, cv=3), "100MB", Data(20_000, 8)),
    "cv, root": Case(of(gm.KernelRidgeCV, gamma=2.0, approximation=gm.Nystrom(rank=300)), "200MB"),
    "svc": Case(of(gm.KernelSVC, gamma=2.0), "100MB", TWO),
    "svc, 50,000 rows": Case(of(gm.KernelSVC, gamma=2.0), "100MB", Data(50_000, 8, classes=2)),
    "svc, ten classes": Case(of(gm.KernelSVC, gamma=2.0), "150MB", FEW_TEN),
    "svr": Case(of(gm.KernelSVR, gamma=2.0), "100MB", Data(10_000, 8)),
    "logistic": Case(of(gm.KernelLogisticRegression, gamma=2.0), "100MB", Data(50_000, 8, classes=2)),
    "logistic, ten classes": Case(of(gm.KernelLogisticRegression, gamma=2.0), "200MB", FEW_TEN),
    "logistic, five classes": Case(of(gm.KernelLogisticRegression, gamma=2.0), "50MB", FIVE),
    "svc, five classes": Case(of(gm.KernelSVC, gamma=2.0), "50MB", FIVE),
    "dcsvc": Case(of(gm.DCSVC, gamma=2.0), "100MB", TWO),
    "dcsvc, early": Case(of(gm.DCSVC, gamma=2.0, early=True), "100MB", Data(40_000, 8, classes=2)),
    "dcsvc, three classes": Case(of(gm.DCSVC, gamma=2.0), "150MB", Data(15_000, 8, classes=3)),
    "gp": Case(of(gm.GaussianProcessRegressor, learning_rows=3_000), "150MB", Data(20_000, 8)),
    "gp, ard": Case(of(gm.GaussianProcessRegressor, ard=True, learning_rows=3_000), "200MB", Data(6_000, 8)),
    "pca": Case(of(gm.KernelPCA, n_components=20, gamma=2.0, approximation=gm.Nystrom(rank=200)), "150MB"),
    "table, regression": Case(of(gm.TabularRegressor, time_limit=20), "300MB", Data(20_000, 8, kind="frame")),
    "table, boosting": Case(
        of(gm.TabularRegressor, include=("boosting",)), "300MB", Data(10_000, 8, kind="frame")
    ),
    "table, classes": Case(
        of(gm.TabularClassifier, time_limit=20), "300MB", Data(20_000, 8, kind="frame", classes=3)
    ),
    "meka": Case(of(gm.MEKA, gamma=2.0, rank=80, n_blocks=15), "100MB", beside=stored),
    "multi-resolution": Case(
        of(gm.MultiResolution, gamma=2.0, root_rank=200, rank=50, n_blocks=30), "100MB", beside=stored
    ),
    "nystrom": Case(of(gm.Nystrom, gamma=2.0, rank=200), "100MB", beside=stored),
    "ensemble of nystroms": Case(of(gm.EnsembleNystrom, gamma=2.0, rank=100), "100MB", beside=stored),
    "block basis": Case(of(gm.BlockBasis, gamma=2.0, rank=60, n_blocks=10), "150MB", beside=stored),
    "block basis, sampled": Case(
        of(gm.BlockBasis, gamma=2.0, rank=20, n_blocks=8, core="sampled"), "200MB", beside=stored
    ),
    "block diagonal": Case(of(gm.BlockDiagonal, gamma=2.0, rank=100), "100MB", beside=stored),
    "low rank plus blocks": Case(
        of(LowRankPlusBlocks, gamma=2.0, root_rank=200), "100MB", Data(20_000, 8), beside=stored
    ),
    "clustered low rank": Case(
        of(ClusteredLowRank, gamma=2.0, rank=20), "150MB", Data(10_000, 8), beside=stored
    ),
    "truncated eigen": Case(of(gm.TruncatedEigen, gamma=2.0, rank=50), "150MB", SMALL, beside=stored),
    "kals": Case(of(gm.KALS, gamma=2.0, rank=100), "200MB", Data(20_000, 8), beside=stored),
    "random Fourier": Case(of(gm.RandomFourier, gamma=2.0, rank=500), "100MB", beside=stored),
    "fastfood": Case(of(gm.Fastfood, gamma=2.0, rank=500), "100MB", beside=stored),
    "random Maclaurin": Case(of(gm.RandomMaclaurin, gamma=0.5, rank=500), "100MB", beside=stored),
    "tensor sketch": Case(of(gm.TensorSketch, gamma=0.5, rank=500), "100MB", beside=stored),
    "stream, ridge": Case(ridge(), "100MB", MANY, chunks=10),
    "stream, multi-resolution": Case(
        ridge(gm.MultiResolution(root_rank=200, rank=50, n_blocks=30)), "100MB", MANY, chunks=10
    ),
    "stream, classes": Case(ridge(kind=gm.KernelRidgeClassifier), "150MB", TEN, chunks=8),
    # These have no budget; the bytes are what their documentation says for these sizes.
    "dcpred, classes": Case(unbudgeted(gm.DCPredClassifier, gamma=2.0), "200MB", Data(20_000, 8, classes=2)),
    "dcpred, regression": Case(unbudgeted(gm.DCPredRegressor, gamma=2.0), "200MB", Data(20_000, 8)),
    "fast, classes": Case(
        lambda budget: gm.FastKernelClassifier(
            ridge(kind=gm.KernelRidgeClassifier)(budget), n_levels=2, n_units=8, n_directions=3, **RUN
        ),
        "150MB",
        Data(20_000, 8, classes=3),
    ),
    "fast, regression": Case(
        lambda budget: gm.FastKernelRegressor(ridge()(budget), n_levels=2, n_units=8, n_directions=3, **RUN),
        "150MB",
        Data(20_000, 8),
    ),
    "compress": Case(ridge(), "150MB", Data(20_000, 8), fit=compressed),
}


def fitted(case: Case, X: Any, y: Any, weights: Any) -> Any:
    model = case.make(case.budget)
    if case.fit is not None:
        return case.fit(model, X, y)
    if case.chunks:
        more = {} if not case.data.classes else {"classes": np.arange(case.data.classes)}
        for rows in np.array_split(np.arange(len(y)), case.chunks):
            part = slice(rows[0], rows[-1] + 1)
            model.partial_fit(X[part], y[part], **more)
        return model
    return model.fit(X, y) if weights is None else model.fit(X, y, sample_weight=weights)


def warm_up(case: Case) -> None:
    """Fit the case's estimator to few rows: what a process takes once is not the fit's."""
    few = Data(WARM_ROWS, case.data.d, case.data.kind, case.data.outputs, case.data.classes)
    try:
        fitted(Case(case.make, "300MB", few, 2 if case.chunks else 0, fit=case.fit), *few.make())
    except gm.InputError:
        # Its sizes need more rows: warmed up by another.
        gm.KernelRidge(n_jobs=2).fit(*Data(WARM_ROWS).make()[:2])
    with part_of_block(LEAST_ENTRIES, 1):  # loops that large problems take
        for dtype in (np.float32, np.float64):
            gm.Laplacian().against(np.zeros((1, 1), dtype))(np.zeros((1, 1), dtype))


def main(name: str) -> None:
    case = CASES[name]
    warnings.simplefilter("ignore")
    data = case.data.make()
    warm_up(case)
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # free memory that the process has already would hide as much growth
        trim(0)
    print("ready", flush=True)
    sys.stdin.readline()
    model = fitted(case, *data)
    print(json.dumps({"beside": case.beside(model), "plan": str(getattr(model, "plan_", ""))}), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1])
