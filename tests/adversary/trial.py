"""One case under test: models fitted with every warning read, answers, and comparisons with a tolerance."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

import gramian as gm
from adversary import kernels
from adversary.cases import Case, put

#: Warnings that report an amount, and what the amount widens: an error of the matrix, a relative residual, a
#: relative gap of the objective; "told" are changes that were announced and change no tolerance.
AMOUNTS = (
    (re.compile(r"; ([\d.e+-]+) was added to its diagonal"), "matrix"),
    (re.compile(r"negative eigenvalues with sum -([\d.e+-]+)"), "matrix"),
    (re.compile(r"(?:predicted|is) ([\d.e+-]+) of its value above its minimum"), "gap"),
    (re.compile(r"relative residual(?: of)? ([\d.e+-]+)"), "residual"),
    (re.compile(r"ended with residual ([\d.e+-]+) relative to"), "residual"),
    (re.compile(r"residuals up to ([\d.e+-]+) times tol"), "residual"),
    (re.compile(r"violation of ([\d.e+-]+)"), "gap"),
    (re.compile(r"leverage of (\d+) rows is 1"), "leverage"),
    (re.compile(r"(?:with|from) a gradient of ([\d.e+-]+)"), "gradient"),
    (re.compile(r"gradient is down to ([\d.e+-]+)"), "gradient"),
    (re.compile(r"(?:rank|n_components)=(\d+).*(?:rows|cut)"), "told"),
    (re.compile(r"(\d+) rows are too few to compare"), "told"),
    (re.compile(r"the best alpha, ([\d.e+-]+)"), "told"),
    (re.compile(r"differ in scale by a factor of ([\d.e+-]+)"), "told"),
    (re.compile(r"ended at the bounds of .*\(([\d.e+-]+)\)"), "told"),
    (re.compile(r"y lies around -?([\d.e+-]+) and varies by"), "told"),
    (re.compile(r"squared error is ([\d.e+-]+) of their variance"), "told"),
)
#: Refusals of configurations that the generator draws: each says why in words, and is promised in the docs.
REFUSALS = (
    "The partition is uneven",  # the plan's memory would not hold it; the text names other partitions
    "has one class",
    "is indefinite: a jitter of",  # alpha under the rounding of K: documented in docs/numerics.md
    "kernel matrix of a leaf is not positive semi-definite",
    "at least 2 samples",  # held-out errors of one row
    "requires at least 2",
    "number of classes",  # one class
    "Sparse data was passed",  # an estimator that takes none
    "is sparse",
    "sparse",
)


class Broken(AssertionError):
    """A law that does not hold; ``excess`` is the error over its tolerance."""

    def __init__(self, text: str, excess: float = float("inf")) -> None:
        super().__init__(text)
        self.excess = excess


class Refused(Exception):
    """A configuration that the library declines, in words that are promised."""


@dataclass
class Trial:
    """A case, its fitted model, and the largest error over tolerance that was seen so far."""

    case: Case
    amounts: dict[str, float] = field(default_factory=dict)
    worst: float = 0.0
    vacuous: bool = False  #: whether a tolerance was infinite: alpha is under what float64 resolves of K

    # ---- fits -----------------------------------------------------------------------------------

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Read the warnings of the body: amounts widen tolerances, any other warning breaks the law."""
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            yield
        for one in heard:
            self._hear(one.category, str(one.message))

    def _hear(self, category: type[Warning], text: str) -> None:
        for pattern, kind in AMOUNTS:
            found = pattern.search(text)
            if found and issubclass(category, gm.NumericalWarning | gm.AccuracyWarning | UserWarning):
                self.amounts[kind] = max(self.amounts.get(kind, 0.0), float(found[1].rstrip(".")))
                return
        raise Broken(f"a {category.__name__} without an amount: {text}")

    def fit(self, model: Any, X: Any, y: Any = None, w: np.ndarray | None = None) -> Any:
        """Return the model, fitted; raise ``Refused`` for a refusal that is promised."""
        given = {} if w is None or not takes_weights(model) else {"sample_weight": w}
        with self.listening(), self.refusable():
            return model.fit(X, y, **given)

    @contextmanager
    def refusable(self) -> Iterator[None]:
        """Turn a refusal that is promised into ``Refused``, and another one into a broken law."""
        try:
            yield
        except (TypeError, ValueError, np.linalg.LinAlgError) as error:
            if any(text in str(error) for text in REFUSALS):
                raise Refused(str(error)) from error
            if isinstance(error, gm.InputError):
                raise Broken(f"refused: {error}") from error
            raise

    @cached_property
    def rows(self) -> Any:
        """The rows in the case's container; kernel values where they are precomputed."""
        if self.case.precomputed:
            return self.gram(self.case.X)
        return put(self.case.X, self.case.container)

    def gram(self, X: np.ndarray) -> np.ndarray:
        """Return values for ``kernel='precomputed'``: those of the default kernel."""
        plain = Case("KernelRidge", n=self.case.n, d=self.case.d)
        return kernels.matrix(plain, X, self.case.X)

    @cached_property
    def new(self) -> Any:
        """Rows that are asked about: an array, CSR for a model of sparse rows, a frame for one of frames."""
        if self.case.precomputed:
            return self.gram(self.case.new)
        kind = self.case.container
        return put(self.case.new, kind if kind in ("csr", "frame") else "csr" if kind == "csc" else "array")

    @cached_property
    def model(self) -> Any:
        """The case's model, fitted to its rows."""
        return self.fit(self.case.model(), self.rows, self.case.y, self.case.w)

    def again(self, **changes: Any) -> Any:
        """Return a further fit of the case, with some parameters changed."""
        return self.fit(self.case.model(**changes), self.rows, self.case.y, self.case.w)

    # ---- answers --------------------------------------------------------------------------------

    def answers(self, model: Any, rows: Any) -> dict[str, np.ndarray]:
        """Return everything that the model says of the rows, as dense arrays by name."""
        found: dict[str, Any] = {}
        with self.listening():
            for name in ("predict", "decision_function", "predict_proba", "transform"):
                if hasattr(model, name):
                    found[name] = getattr(model, name)(rows)
            if isinstance(model, gm.GaussianProcessRegressor):
                found["std"] = model.predict(rows, return_std=True)[1]
        return {name: np.asarray(a.toarray() if sp.issparse(a) else a) for name, a in found.items()}

    @cached_property
    def answered(self) -> dict[str, np.ndarray]:
        """The model's answers for the new rows."""
        return self.answers(self.model, self.new)

    # ---- comparisons ----------------------------------------------------------------------------

    def near(self, what: str, got: Any, want: Any, tolerance: Any) -> None:
        """Compare within a tolerance, entry by entry; the excess is kept."""
        got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
        if got.shape != want.shape:
            raise Broken(f"{what} has shape {got.shape}; expected {want.shape}")
        if not np.isfinite(got).all():
            raise Broken(f"{what} holds {np.count_nonzero(~np.isfinite(got))} values that are not finite")
        if not got.size:
            return
        # A tolerance of 0 asks for equal numbers.
        allowed = np.maximum(np.broadcast_to(tolerance, got.shape), np.finfo(np.float64).tiny)
        if np.isinf(allowed).all():
            self.vacuous = True
        over = np.abs(got - want) / allowed
        excess = float(over.max())
        self.worst = max(self.worst, excess)
        if excess > 1.0:
            at = np.unravel_index(int(over.argmax()), over.shape)
            raise Broken(
                f"{what} is {got[at]:.10g} at {tuple(map(int, at))}; expected {want[at]:.10g} within "
                f"{allowed[at]:.2g}: {excess:.3g} times the tolerance",
                excess,
            )

    def same(self, what: str, got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
        """Compare answers bit by bit."""
        for name, expected in want.items():
            if not np.array_equal(got[name], expected, equal_nan=expected.dtype.kind == "f"):
                different = got[name] != expected
                raise Broken(f"{name} {what} differs in {np.count_nonzero(different)} of {different.size}")


def takes_weights(model: Any) -> bool:
    """Return whether ``fit`` takes sample weights."""
    return "sample_weight" in type(model).fit.__code__.co_varnames
