"""One random configuration as a frozen value: rows, targets, weights, container and estimator, from a seed.

A :class:`Case` prints as the expression that makes it, so that a failure is a script of a few lines
(:func:`script`). Everything it holds follows from its fields: equal cases have equal arrays.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.frozen import FrozenEstimator

import gramian as gm

#: What the expressions of a case's parameters may name.
NAMES = {"gm": gm, "np": np, "FrozenEstimator": FrozenEstimator}
#: Rows that a model is asked about and was not fitted to.
NEW_ROWS = 17


def class_of(name: str) -> Any:
    """Return the estimator class of that name."""
    return getattr(gm if name in gm.__all__ else gm.approximations, name)


def _duplicated(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X[rng.integers(max(1, len(X) // 4), size=len(X))]


def _outlier(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.vstack([1e6 * X[:1], X[1:]])


def _constant(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.hstack([np.full((len(X), 1), 3.0), X[:, 1:]])


def _sparse(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(X.shape) < 0.7, 0.0, X)


#: Shapes of data: from standard normal rows to the rows of the case.
ROWS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "plain": lambda X, rng: X,
    "duplicates": _duplicated,
    "one row repeated": lambda X, rng: np.repeat(X[:1], len(X), axis=0),
    "constant column": _constant,
    "offset 1e4": lambda X, rng: X + 1e4,
    "offset 1e7": lambda X, rng: X + 1e7,
    "tiny": lambda X, rng: 1e-9 * X,
    "huge": lambda X, rng: 1e9 * X,
    "mixed scales": lambda X, rng: X * np.logspace(-5, 5, X.shape[1]),
    "whole numbers": lambda X, rng: np.round(2.0 * X),
    "mostly zeros": _sparse,
    "clusters": lambda X, rng: 0.05 * X + 10.0 * rng.integers(4, size=(len(X), 1)),
    "one line": lambda X, rng: np.outer(X[:, 0], np.linspace(0.5, 1.0, X.shape[1])),
    "outlier": _outlier,
}
DTYPES = ("float64", "float32", "int64", "int32", "uint8", "bool")
CONTAINERS = ("array", "fortran", "read-only", "strided", "csr", "csc", "frame", "memmap", "source", "list")
#: Kinds of numeric targets; classes are written "3 classes of text", and so on.
NUMBERS = ("number", "column", "2 outputs", "3 outputs", "constant", "shifted", "whole")
LABELS = ("text", "int", "bool", "float")
WEIGHTS = ("none", "ones", "random", "whole", "one heavy")


@dataclass(frozen=True)
class Case:
    """A configuration: what is fitted, to which rows; ``parameters`` hold expressions by name."""

    estimator: str
    parameters: tuple[tuple[str, str], ...] = ()
    n: int = 30
    d: int = 2
    rows: str = "plain"
    dtype: str = "float64"
    container: str = "array"
    target: str = "number"
    weights: str = "none"
    threads: int = 1
    seed: int = 0

    def __repr__(self) -> str:
        shown = [repr(self.estimator)]
        plain = {f.name: f.default for f in fields(self)}
        shown += [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)[1:]
            if getattr(self, f.name) != plain[f.name]
        ]
        return f"Case({', '.join(shown)})"

    # ---- the estimator --------------------------------------------------------------------------

    @property
    def options(self) -> dict[str, str]:
        """The parameters as a dict from name to expression."""
        return dict(self.parameters)

    def value(self, name: str, default: Any = None) -> Any:
        """Return the value of a parameter, ``default`` where it is not set."""
        text = self.options.get(name)
        return default if text is None else eval(text, dict(NAMES))

    @property
    def expression(self) -> str:
        """The estimator as code."""
        given = self.options
        kind = class_of(self.estimator)
        if "n_jobs" in kind._get_param_names():
            given.setdefault("n_jobs", str(self.threads))
        if "random_state" in kind._get_param_names():
            given.setdefault("random_state", "0")
        home = "gm" if self.estimator in gm.__all__ else "gm.approximations"
        return f"{home}.{self.estimator}({', '.join(f'{name}={text}' for name, text in given.items())})"

    def model(self, **changes: Any) -> Any:
        """Return the estimator, unfitted, with some parameters changed."""
        return eval(self.expression, dict(NAMES)).set_params(**changes)

    # ---- the rows -------------------------------------------------------------------------------

    @property
    def precomputed(self) -> bool:
        """Whether the model takes kernel values instead of rows."""
        return self.options.get("kernel") == "'precomputed'"

    @cached_property
    def _both(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng([self.seed, 1])
        made = ROWS[self.rows](rng.standard_normal((self.n, self.d)), np.random.default_rng([self.seed, 2]))
        fresh = rng.standard_normal((NEW_ROWS, self.d))
        new = ROWS[self.rows](fresh, np.random.default_rng([self.seed, 3]))
        new[: min(4, self.n)] = made[:4][: min(4, self.n)]  # rows of the training are asked about too
        return typed(made, self.dtype), typed(new, self.dtype)

    @property
    def X(self) -> np.ndarray:
        """Rows (n, d) in their dtype, before they are put into the container."""
        return self._both[0]

    @property
    def new(self) -> np.ndarray:
        """Rows (17, d) to predict; the first ones are rows of the training."""
        return self._both[1]

    # ---- targets and weights --------------------------------------------------------------------

    @property
    def n_classes(self) -> int:
        """Classes asked for; 0 for numbers."""
        return int(self.target.split()[0]) if "classes" in self.target else 0

    @cached_property
    def signal(self) -> np.ndarray:
        """A smooth function of the rows with noise, of the order of 1."""
        rng = np.random.default_rng([self.seed, 4])
        X = np.asarray(self.X, np.float64)
        spread = X.std(axis=0)
        Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        return np.asarray(np.sin(Z @ rng.standard_normal(self.d)) + 0.2 * rng.standard_normal(self.n))

    @cached_property
    def y(self) -> Any:
        """Targets (n,), (n, 1) or (n, outputs), or labels (n,)."""
        f = self.signal
        if not self.n_classes:
            made: dict[str, Callable[[], np.ndarray]] = {
                "number": lambda: f,
                "column": lambda: f[:, None],
                "2 outputs": lambda: np.column_stack([f, 100.0 * f[::-1]]),
                "3 outputs": lambda: np.column_stack([f, -f, np.ones(len(f))]),
                "constant": lambda: np.full(len(f), 7.0),
                "shifted": lambda: 1e6 + f,
                "whole": lambda: np.round(3.0 * f).astype(np.int64),
            }
            return made[self.target]()
        rng = np.random.default_rng([self.seed, 5])
        codes = np.argsort(np.argsort(f)) * self.n_classes // self.n
        if "rare" in self.target:
            codes = np.where(codes == 0, 1, codes)  # one row of the first class is left
            codes[rng.integers(self.n)] = 0
        codes[: self.n_classes] = np.arange(self.n_classes)[: self.n]
        return labelled(codes, self.target.split()[3], self.n_classes)

    @cached_property
    def w(self) -> np.ndarray | None:
        """Weights (n,), or None."""
        rng = np.random.default_rng([self.seed, 6])
        if self.weights == "none":
            return None
        if self.weights == "ones":
            return np.ones(self.n)
        if self.weights == "random":
            return np.asarray(rng.uniform(0.1, 3.0, self.n))
        if self.weights == "one heavy":
            return np.where(np.arange(self.n) == self.n // 2, 1e4, 1.0)
        whole = rng.integers(0, 4, self.n).astype(np.float64)
        whole[: max(2, self.n_classes)] = 1.0  # no class without a row that counts
        return whole


def typed(X: np.ndarray, dtype: str) -> np.ndarray:
    """Return rows in a dtype, rounded and clipped where it holds whole numbers."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return X.astype(kind)
    if kind.kind == "b":
        return np.median(X, axis=0) < X
    bounds = np.iinfo(kind)
    low, high = max(bounds.min, -(2**31)), min(bounds.max, 2**31 - 1)
    return np.clip(np.round(10.0 * X), low, high).astype(kind)


def labelled(codes: np.ndarray, kind: str, n_classes: int) -> np.ndarray:
    """Return class codes as labels of a kind."""
    if kind == "bool" and n_classes == 2:
        return np.asarray(codes == 1)
    if kind == "text":
        return np.asarray([f"class {chr(97 + c)}" for c in codes])
    if kind == "float":
        return np.asarray(2.0 * codes - 3.0)
    return np.asarray(10 * codes - 7)


def put(X: np.ndarray, container: str) -> Any:
    """Return the rows in a container; files lie in a folder that goes with the process."""
    if container == "fortran":
        return np.asfortranarray(X)
    if container == "read-only":
        X = X.copy()
        X.setflags(write=False)
        return X
    if container == "strided":
        wide = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)
        return wide[::2, ::3]
    if container in ("csr", "csc"):
        return sp.csr_array(X) if container == "csr" else sp.csc_array(X)
    if container == "list":
        return X.tolist()
    if container == "frame":
        import pandas as pd

        return pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    if container in ("memmap", "source"):
        path = Path(_folder().name) / f"{abs(hash((X.tobytes(), X.shape, X.dtype.str)))}.npy"
        np.save(path, np.ascontiguousarray(X))
        return np.load(path, mmap_mode="r") if container == "memmap" else gm.open_data(path)
    return X.copy()


_kept: list[tempfile.TemporaryDirectory[str]] = []


def _folder() -> tempfile.TemporaryDirectory[str]:
    if not _kept:
        _kept.append(tempfile.TemporaryDirectory(prefix="gramian-adversary-"))
    return _kept[0]


def close_files() -> None:
    """Remove the files that containers lie in."""
    while _kept:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _kept.pop().cleanup()


SCRIPT = '''"""{title}

Run it at the root of the repository: PYTHONPATH=tests python THIS_FILE
"""

from adversary.cases import Case
from adversary.laws import check

case = Case(
{arguments}
)
print(case.expression)
check(case, {law!r})
'''


def script(case: Case, law: str, text: str) -> str:
    """Return a script that checks one law of a case, with what happened as its first lines."""
    inside = repr(case)[len("Case(") : -1]
    parts = inside if len(inside) < 100 else inside.replace(", parameters=", ",\n    parameters=")
    title = " ".join(f"{law}: {text}".split())[:400].replace('"""', "'''").replace("\\", "/")
    return SCRIPT.format(title=title, arguments=f"    {parts},", law=law)
