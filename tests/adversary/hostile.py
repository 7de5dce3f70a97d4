"""Hostile inputs × estimators: each with the kind of answer that it has to have.

An input either works (finite answers of the right shape) or is refused: a ``ValueError`` or ``TypeError``
whose text is ours or scikit-learn's, never a bare message of NumPy, LAPACK or Python. What fails leaves the
estimator as it was, and a good fit works afterwards.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_regressor

import gramian as gm
from adversary.trial import Broken, takes_weights

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
Y = np.sin(X[:, 0]) + 0.1 * X[:, 1]
LABELS = np.where(Y > 0, "yes", "no")

#: Texts of other libraries that say nothing about what to do.
FORBIDDEN = (
    "LinAlgError",
    "operands could not be broadcast",
    "'<' not supported",
    "object is not",
    "out of bounds",
    "unexpected keyword",
    "object has no attribute",
    "not subscriptable",
    "unsupported operand",
    "ufunc",
    "cannot unpack",
    "truth value of an array",
    "leading minor",
    "did not converge",
    "division by zero",
    "inhomogeneous",
    "must match the size",
    "zero-size array",
    "cannot convert float",
    "illegal value",
)
WORKS, REFUSED, EITHER = "works", "refused", "works or refused"

MODELS: dict[str, Any] = {
    "KernelRidge": gm.KernelRidge(),
    "KernelRidge exact": gm.KernelRidge(approximation="exact"),
    "KernelRidge meka": gm.KernelRidge(approximation=gm.MEKA(rank=5, n_blocks=2), random_state=0),
    "KernelRidge standardize": gm.KernelRidge(standardize=True),
    "KernelRidgeClassifier": gm.KernelRidgeClassifier(),
    "KernelRidgeCV": gm.KernelRidgeCV(alphas=(0.1, 1.0), random_state=0),
    "KernelSVC": gm.KernelSVC(),
    "KernelSVC hinge": gm.KernelSVC(loss="hinge"),
    "KernelSVR": gm.KernelSVR(),
    "KernelLogisticRegression": gm.KernelLogisticRegression(),
    "DCSVC": gm.DCSVC(),
    "GaussianProcessRegressor": gm.GaussianProcessRegressor(optimizer=None),
    "KernelPCA": gm.KernelPCA(n_components=2),
    "Nystrom": gm.Nystrom(rank=5, random_state=0),
    "MultiResolution": gm.MultiResolution(root_rank=8, rank=4, n_blocks=2, random_state=0),
    "MEKA": gm.MEKA(rank=5, n_blocks=2, random_state=0),
    "BlockBasis": gm.BlockBasis(rank=1, n_blocks=1, random_state=0),
    "KALS": gm.KALS(rank=5, random_state=0),
    "RandomFourier": gm.RandomFourier(rank=10, random_state=0),
    "DCPredClassifier": gm.DCPredClassifier(random_state=0),
    "DCPredRegressor": gm.DCPredRegressor(random_state=0),
    "FastKernelRegressor": gm.FastKernelRegressor(
        gm.KernelRidge(), n_levels=0, n_units=4, n_directions=2, random_state=0
    ),
}


@dataclass(frozen=True)
class Bad:
    """An input, and the kind of answer expected; ``make`` takes (X, y) and returns X, y, weights."""

    kind: str
    make: Callable[[Any, Any], tuple[Any, Any, Any]]


def _with(value: Any, dtype: Any = np.float64) -> Callable[[Any, Any], tuple[Any, Any, Any]]:
    def make(X: Any, y: Any) -> tuple[Any, Any, Any]:
        bad = X.astype(dtype)
        bad[7, 1] = value
        return bad, y, None

    return make


def _rows(function: Callable[[Any], Any], kind: str) -> Bad:
    return Bad(kind, lambda X, y: (function(X), y, None))


def _targets(function: Callable[[Any], Any], kind: str) -> Bad:
    return Bad(kind, lambda X, y: (X, function(y), None))


def _weights(function: Callable[[int], Any], kind: str) -> Bad:
    return Bad(kind, lambda X, y: (X, y, function(len(X))))


def _at(values: Any, value: Any) -> Any:
    out = np.array(values, dtype=object if isinstance(value, str) or value is None else None)
    out[3] = value
    return out


def _duplicated_csr(X: Any) -> Any:
    row, col = np.nonzero(X)
    twice = (np.concatenate([X[row, col] / 2] * 2), (np.concatenate([row] * 2), np.concatenate([col] * 2)))
    matrix = sp.coo_array(twice, shape=X.shape)
    return sp.csr_array(matrix)


def _raw_csr(X: Any) -> Any:
    """Return CSR with entries given twice, explicit zeros and indices that are not sorted."""
    n, d = X.shape
    columns = np.tile(np.r_[np.arange(d)[::-1], 0], n)
    values = np.hstack([X[:, ::-1], np.zeros((n, 1))]).ravel()
    return sp.csr_array((values, columns, (d + 1) * np.arange(n + 1)), shape=X.shape)


def _frame(X: Any, **columns: Any) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(**columns)


def _same_names(X: Any) -> Any:
    frame = _frame(X)
    frame.columns = ["a", "a", "b"]
    return frame


INPUTS: dict[str, Bad] = {
    "NaN": Bad(REFUSED, _with(np.nan)),
    "infinity": Bad(REFUSED, _with(np.inf)),
    "1e160": Bad(EITHER, _with(1e160)),
    "1e300": Bad(EITHER, _with(1e300)),
    "all 1e-300": _rows(lambda X: 1e-300 * X, EITHER),
    "complex": _rows(lambda X: X + 1j, REFUSED),
    "text": _rows(lambda X: np.full(X.shape, "red"), REFUSED),
    "objects": _rows(lambda X: np.array([[object()] * 3] * len(X)), REFUSED),
    "numbers as objects": _rows(lambda X: X.astype(object), WORKS),
    "None in X": _rows(lambda X: _at(X.ravel(), None).reshape(X.shape), REFUSED),
    "X is None": _rows(lambda X: None, REFUSED),
    "no rows": Bad(REFUSED, lambda X, y: (X[:0], y[:0], None)),
    "no columns": _rows(lambda X: X[:, :0], REFUSED),
    "one row": Bad(EITHER, lambda X, y: (X[:1], y[:1], None)),
    "two rows": Bad(EITHER, lambda X, y: (X[:2], y[:2], None)),
    "flat": _rows(lambda X: X[:, 0], REFUSED),
    "number": _rows(lambda X: np.float64(3.0), REFUSED),
    "three axes": _rows(lambda X: X[:, :, None], REFUSED),
    "generator": _rows(lambda X: (row for row in X), REFUSED),
    "lists": Bad(WORKS, lambda X, y: (X.tolist(), list(y), None)),
    "ragged lists": _rows(lambda X: [[1.0], [1.0, 2.0]] * (len(X) // 2), REFUSED),
    "dates": _rows(lambda X: np.full(X.shape, np.datetime64("2020-01-01")), EITHER),
    "datetime objects": _rows(lambda X: np.full(X.shape, datetime(2020, 1, 1), object), REFUSED),
    "int64 beyond 2**53": Bad(EITHER, _with(2**60 + 1, np.int64)),
    "masked": _rows(lambda X: np.ma.masked_greater(X, 1.0), REFUSED),
    "big-endian": _rows(lambda X: X.astype(">f8"), WORKS),
    "half precision": _rows(lambda X: X.astype(np.float16), WORKS),
    "long double": _rows(lambda X: X.astype(np.longdouble), WORKS),
    "bytes": _rows(lambda X: (X > 0).astype(np.int8), WORKS),
    "read-only": _rows(lambda X: np.broadcast_to(X[:, :1], X.shape), WORKS),
    "all the same": _rows(np.ones_like, EITHER),
    "all zeros": _rows(np.zeros_like, EITHER),
    "CSR in disorder": _rows(_raw_csr, EITHER),
    "CSR with duplicates": _rows(_duplicated_csr, EITHER),
    "CSR with NaN": _rows(lambda X: sp.csr_array(_with(np.nan)(X, None)[0]), REFUSED),
    "CSR of no entries": _rows(lambda X: sp.csr_array(X.shape), EITHER),
    "COO": _rows(sp.coo_array, EITHER),
    "frame": _rows(_frame, WORKS),
    "frame with one name twice": _rows(_same_names, EITHER),
    "frame with text": _rows(lambda X: _frame(X, b="Berlin"), REFUSED),
    "frame with a missing value": _rows(lambda X: _frame(_with(np.nan)(X, None)[0]), REFUSED),
    "y is None": _targets(lambda y: None, REFUSED),
    "y too short": _targets(lambda y: y[:-1], REFUSED),
    "y of three axes": _targets(lambda y: np.asarray(y)[:, None, None], REFUSED),
    "y is a number": _targets(lambda y: 3.0, REFUSED),
    "y with NaN": _targets(lambda y: _at(y, np.nan if y.dtype.kind == "f" else None), REFUSED),
    "y infinite": _targets(lambda y: np.full(len(y), np.inf), REFUSED),
    "y complex": _targets(lambda y: np.full(len(y), 1j), REFUSED),
    "y of objects": _targets(lambda y: np.array([object() for _ in y]), REFUSED),
    "y mixed": _targets(lambda y: np.array([1, "a"] * (len(y) // 2), object), REFUSED),
    "y of one value": _targets(lambda y: np.full(len(y), y[0]), EITHER),
    "y of 1e300": _targets(lambda y: np.where(np.arange(len(y)) == 0, 1e300, 1.0), EITHER),
    "weights negative": _weights(lambda n: np.r_[-1.0, np.ones(n - 1)], REFUSED),
    "weights NaN": _weights(lambda n: np.r_[np.nan, np.ones(n - 1)], REFUSED),
    "weights zero": _weights(np.zeros, REFUSED),
    "weights too short": _weights(lambda n: np.ones(n - 1), REFUSED),
    "weights of two axes": _weights(lambda n: np.ones((n, 1)), REFUSED),
    "weights text": _weights(lambda n: np.full(n, "a"), REFUSED),
    "weights all but one zero": _weights(lambda n: np.r_[1.0, np.zeros(n - 1)], EITHER),
    "weights 1e300": _weights(lambda n: np.full(n, 1e300), EITHER),
}

#: Wrong values of parameters by name.
WRONG: dict[str, tuple[Any, ...]] = {
    "alpha": (-1.0, 0.0, np.nan, np.inf, "1", None, True),
    "C": (-1.0, 0.0, np.nan, np.inf, "1", None),
    "kernel": ("rfb", 3, None, gm.Gaussian, "sigmoid"),
    "gamma": (-1.0, 0.0, np.nan, np.inf, "1", [1.0]),
    "rank": (0, -1, 2.5, "5", None, True),
    "n_blocks": (0, -1, 2.5, "5"),
    "n_components": (0, -1, 2.5, "2"),
    "memory_budget": ("much", -1, 0, None, "2 parsecs"),
    "tile_dtype": ("float16", None, 64),
    "random_state": ("a", -1, 1.5),
    "n_jobs": (0, "2", 1.5),
    "approximation": ("mekka", 3, None, gm.MEKA),
    "fit_intercept": ("no", 2, None),
    "standardize": ("yes", 2, None),
    "tol": (-1.0, 0.0, np.nan, "1"),
    "max_iter": (0, -1, 2.5, "9"),
    "noise": (-1.0, 0.0, np.nan, "1"),
    "loss": ("hing", None, 3),
    "epsilon": (-0.1, np.nan, "1"),
    "class_weight": ("balance", 3, [1, 2]),
    "alphas": ((), (-1.0,), "1", 3.0, None),
    "landmarks": ("k-means", 3, None),
    "partition": ("kmean", 3, None),
    "verbose": ("a",),
}


def outputs(model: Any, rows: Any) -> np.ndarray:
    """Return what the model answers, dense."""
    found = model.predict(rows) if hasattr(model, "predict") else model.transform(rows)
    return np.asarray(found.toarray() if sp.issparse(found) else found)


def good(name: str) -> tuple[Any, Any]:
    """Return rows and targets that the model takes."""
    return X, LABELS if is_classifier(MODELS[name]) else Y


def text_is_ours(error: Exception) -> None:
    """Raise where an error's class or text is another library's."""
    text = str(error)
    if not isinstance(error, ValueError | TypeError) or isinstance(error, np.linalg.LinAlgError):
        raise Broken(f"{type(error).__name__}: {text}") from error
    foreign = [phrase for phrase in FORBIDDEN if phrase in text]
    if foreign or not text:
        raise Broken(f"the text of the error is no help ({foreign}): {text[:200]}") from error
    if len(text) > 4000:  # scikit-learn quotes an array as NumPy abbreviates it
        raise Broken(f"the error has {len(text)} characters: {text[:100]}") from error


def answer(name: str, bad: Bad) -> str:
    """Fit a model to an input; return "works" or "refused", or raise ``Broken``."""
    rows, y = good(name)
    given, target, weights = bad.make(rows.copy(), y.copy())
    model = clone(MODELS[name])
    options = {} if weights is None else {"sample_weight": weights}
    before = set(vars(model))
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            model.fit(given, target, **options)
            found = outputs(model, rows[:5])
            kind = WORKS
        except Exception as error:
            text_is_ours(error)
            kind = REFUSED
    foreign = [str(w.message) for w in heard if issubclass(w.category, RuntimeWarning)]
    if foreign:
        raise Broken(f"NumPy's warning is the answer: {foreign[0]}")
    if kind == WORKS:
        if found.dtype.kind == "f" and not np.isfinite(found).all() and not heard:
            raise Broken("the answers are not finite, without a warning")
        if len(found) != 5:
            raise Broken(f"5 rows have {len(found)} answers")
    elif set(vars(model)) != before:
        raise Broken(f"a fit that failed left {sorted(set(vars(model)) - before)}")
    if bad.kind not in (kind, EITHER):
        raise Broken(f"it {kind}; expected: {bad.kind}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not np.array_equal(outputs(model.fit(rows, y), rows), outputs(clone(model).fit(rows, y), rows)):
            raise Broken("a good fit afterwards differs from a fresh one")
    return kind


def asked(name: str, bad: Bad, model: Any) -> str:
    """Ask a fitted model about an input; return "works" or "refused", or raise ``Broken``."""
    rows, y = good(name)
    given = bad.make(rows.copy(), y.copy())[0]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            found = outputs(model, given)
            kind = WORKS
        except Exception as error:
            text_is_ours(error)
            return REFUSED
    if any(issubclass(w.category, RuntimeWarning) for w in heard):
        raise Broken(f"NumPy's warning is the answer: {heard[0].message}")
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise Broken("the answers are not finite")
    return kind


def wrong_parameter(name: str, parameter: str, value: Any) -> None:
    """Fit with a wrong value of a parameter; raise ``Broken`` unless it is refused and named."""
    rows, y = good(name)
    model = clone(MODELS[name]).set_params(**{parameter: value})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(rows, y)
    except Exception as error:
        text_is_ours(error)
        if parameter not in str(error):
            raise Broken(f"the error does not name {parameter}: {error}") from error
        return
    raise Broken(f"{parameter}={value!r} is taken")


def applies(name: str, what: str) -> bool:
    """Return whether an input can be given to a model: weights and targets only where it has them."""
    model = MODELS[name]
    supervised = is_classifier(model) or is_regressor(model)
    if what.startswith("weights"):
        return takes_weights(model)
    if what in ("y infinite", "y of 1e300", "y complex", "y mixed", "y of objects", "y with NaN"):
        return supervised and not (is_classifier(model) and what == "y of 1e300")
    return supervised or not what.startswith("y")


def missing_value(parameter: str, value: Any, name: str) -> bool:
    """Return whether a value is one that the parameter has, for this model."""
    plain = clone(MODELS[name]).get_params().get(parameter)
    if parameter in ("tol", "epsilon") and plain == value:
        return True
    own = value is None and (plain is None or parameter in ("gamma", "rank", "n_blocks"))
    return own or (parameter == "kernel" and name == "GaussianProcessRegressor" and value is None)
