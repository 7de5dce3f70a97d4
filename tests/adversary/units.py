"""Laws of units, names and types: what changes how data are written, and not what they say."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import gramian as gm
from adversary import dense, kernels
from adversary.cases import Case, class_of, put
from adversary.trial import Broken, Trial
from gramian._numerics import unit_roundoff
from gramian.data.source import as_source
from gramian.ridge.checkpoint import SumsCheckpoint

#: Units of weights; exponents of two of other units: within float32, beyond it, and near the ends of float64.
POWERS_OF_TWO = (2.0**-20, 4.0, 2.0**20)
WEIGHTS = (*POWERS_OF_TWO, 3.7, 1e-3)
TARGETS = (-20, 60, -140, 140, -440, 440)
ROWS = (-60, -40, 0, 40, 50)
#: Estimators that divide weights by their mean, because they choose their penalty; parameters that choose it.
RELATIVE = ("KernelRidgeCV", "FastKernelRegressor", "FastKernelClassifier")
CHOOSE = {"KernelRidge": "alpha", "KernelRidgeClassifier": "alpha", "KernelSVC": "C", "KernelSVR": "C"}
REGRESSORS = (
    *("KernelRidge", "KernelRidgeCV", "KernelSVR", "GaussianProcessRegressor"),
    *("DCPredRegressor", "FastKernelRegressor"),
)


def _one(case: Case, choices: Any) -> Any:
    return choices[case.seed % len(choices)]


# ---- units -------------------------------------------------------------------------------------------


def units_of_weights(trial: Trial) -> None:
    """Weights in another unit give the same bits, where the penalty is searched for.

    In a unit that is no power of two a weight may lie between two numbers of 30 bits, once in a million. The
    last fit of a support vector machine has C times the weights as they are given, which round then.
    """
    case, chosen = trial.case, CHOOSE.get(trial.case.estimator)
    options: dict[str, Any] = {} if chosen is None else {chosen: "auto"}
    if case.estimator == "KernelRidgeCV":
        options = {"alphas": gm.KernelRidgeCV().alphas}
    assert case.w is not None
    factor = float(_one(case, POWERS_OF_TWO if chosen == "C" else WEIGHTS))
    found = [trial.fit(case.model(**options), trial.rows, case.y, w) for w in (case.w, factor * case.w)]
    want, got = (trial.answers(model, trial.new) for model in found)
    trial.same(f"with weights in units of {factor:g}", got, want)


def units_of_targets(trial: Trial) -> None:
    """Targets times 2^k give answers times 2^k: the same bits, if float32 holds both."""
    case = trial.case
    exponent = _one(case, TARGETS)
    factor = 2.0**exponent
    options: dict[str, Any] = {}
    if case.estimator == "KernelSVR":
        plain = type(case.model())()
        options["epsilon"] = factor * case.value("epsilon", plain.epsilon)
        if "squared" not in case.options.get("loss", ""):
            options["C"] = factor * case.value("C", plain.C)
    y = factor * np.asarray(case.y, np.float64)
    want = trial.answered
    if case.estimator == "DCPredRegressor" and abs(exponent) >= 90 and "dtype" not in case.options:
        options["dtype"] = "float64"  # as it stores the model of such targets
        want = trial.answers(trial.again(dtype="float64"), trial.new)
    got = trial.answers(trial.fit(case.model(**options), trial.rows, y, case.w), trial.new)
    got = {name: values / factor for name, values in got.items()}
    if abs(exponent) < 90:
        trial.same(f"with targets in units of {factor:g}", got, want)
        return
    for name, values in want.items():
        allowed = 32.0 * dense.rounding(trial, values) + 1e-5 * (1.0 + np.abs(values).max(initial=0.0))
        if case.estimator == "KernelRidge" and _plain(case):
            allowed = 2.0 * dense.model_slack(trial, name)
        trial.near(f"{name} with targets in units of {factor:g}", got[name], values, allowed)


# ---- types -------------------------------------------------------------------------------------------


def float32_rows_are_float64_rows(trial: Trial) -> None:
    """float32 rows of any size give the model of the same numbers in float64."""
    case = trial.case
    exponent = _one(case, ROWS) if _scales(case) else 0
    options = {"gamma": case.value("gamma") * 4.0**-exponent} if exponent else {}
    with np.errstate(over="ignore"):
        rows, new = (np.ldexp(X, exponent) for X in (case.X, case.new))
    sizes = np.abs(np.vstack([rows, new]))
    if not np.isfinite(sizes).all() or (0 < sizes[sizes > 0].min(initial=1.0) < 1e-37):
        rows, new, options = case.X, case.new, {}  # float32 does not hold these
    single = trial.fit(case.model(**options), rows, case.y, case.w)
    double = trial.fit(case.model(**options), rows.astype(np.float64), case.y, case.w)
    want, got = trial.answers(single, new), trial.answers(double, new.astype(np.float64))
    name = "decision_function" if "decision_function" in want else "predict"
    allowed = 2.0 * dense.model_slack(trial, name)
    trial.near(f"{name} of float64 rows of size 2^{exponent}", got[name], want[name], allowed)


def _scales(case: Case) -> bool:
    """Whether the model of scaled rows is known: the Gaussian kernel with its gamma given."""
    return case.options.get("kernel", "'rbf'") == "'rbf'" and 1e-9 < case.value("gamma", 0.0) < 1e9


# ---- names -------------------------------------------------------------------------------------------


class Source:
    """A row source of somebody else, with names."""

    def __init__(self, frame: Any) -> None:
        self._rows, self.feature_names = frame.to_numpy(), list(frame.columns)
        self.shape, self.dtype = self._rows.shape, self._rows.dtype

    def rows(self, where: slice) -> np.ndarray:
        return self._rows[where]

    def take(self, indices: np.ndarray) -> np.ndarray:
        return self._rows[indices]


def _tables() -> dict[str, Callable[[Any], Any]]:
    """Return what makes each kind of table with names of a pandas frame."""
    import polars as pl
    import pyarrow as pa

    return {
        "pandas": lambda table: table,
        "polars": pl.from_pandas,
        "lazy": lambda table: pl.from_pandas(table).lazy(),
        "arrow": lambda table: pa.Table.from_pandas(table, preserve_index=False),
        "batch": lambda table: pa.RecordBatch.from_pandas(table, preserve_index=False),
        "records": lambda table: table.to_dict("records"),
        "opened": gm.open_data,
        "source": lambda table: as_source(Source(table)),
    }


def columns_in_another_order(trial: Trial) -> None:
    """Columns are matched by name: in another order, kind of table and wider type they are the same rows."""
    case, kinds = trial.case, _tables()
    names = list(kinds)
    at_fit, asked = names[case.seed % len(names)], names[case.seed // 8 % len(names)]
    model = trial.fit(case.model(), kinds[at_fit](put(case.X, "frame")), case.y, case.w)
    frame = put(case.new, "frame")
    want = trial.answers(model, kinds[at_fit](frame))
    order = np.random.default_rng(case.seed).permutation(case.d)
    # As documented, scaled rows are float32 where the given ones are: wider ones are rounded otherwise.
    kept = case.value("standardize", False) or not case.seed % 2
    wider = frame.iloc[:, order].astype(frame.dtypes.iloc[0] if kept else np.float64)
    got = trial.answers(model, kinds[asked](wider))
    for name, values in want.items():
        what = f"{name} of columns in another order, {at_fit} then {asked}"
        if values.dtype.kind == "f" and not (case.n_classes and name == "predict"):
            # Small types are scaled in float32, and some tables hold them as float64.
            small = float(np.abs(values).max(initial=0.0)) if case.value("standardize", False) else 0.0
            allowed = 2.0 * dense.rounding(trial, values) + 64.0 * unit_roundoff(np.float32) * small
            trial.near(what, got[name], values, allowed)


# ---- checkpoints -------------------------------------------------------------------------------------


def checkpoints_know_their_data(trial: Trial) -> None:
    """A checkpoint goes on to the same bits, and is refused if one number of the data has changed."""
    case = trial.case
    with tempfile.TemporaryDirectory() as folder:

        def fit(X: np.ndarray, y: Any, w: np.ndarray | None) -> Any:
            return trial.fit(case.model(checkpoint=folder), X, y, w)

        X, y = put(case.X, "array"), np.array(case.y)
        with mock.patch.object(SumsCheckpoint, "finish", return_value=None):  # as of a fit that ended early
            want = trial.answers(fit(X, y, case.w), case.new)
            if not (Path(folder) / "sums.npz").exists():
                return  # the exact system was solved, which sums nothing
            trial.same("after going on", trial.answers(fit(X, y, case.w), case.new), want)
        at = case.seed % case.n
        other_X, other_y = X.copy(), y.copy()
        other_X[at, case.seed % case.d] += 1
        other_y[at] = y[(at + 1) % case.n] if case.n_classes else y[at] + 1
        changed = {"rows": (other_X, y, case.w), "targets": (X, other_y, case.w)}
        if case.w is not None and case.w[at] > 0:
            changed["weights"] = (X, y, np.where(np.arange(case.n) == at, 2.0 * case.w, case.w))
        for what, data in changed.items():
            if np.array_equal(data[0], X) and np.array_equal(data[1], y) and data[2] is case.w:
                continue  # the number was as large as float32 holds, or the label the same
            try:
                fit(*data)
            except Broken as error:
                if not any(text in str(error) for text in ("another fit", "rows of weight 0 only")):
                    raise
            else:
                raise Broken(f"a checkpoint of other {what} is taken")


def _kind(case: Case) -> type:
    return type(class_of(case.estimator)())


def _plain(case: Case) -> bool:
    return kernels.is_plainly_exact(case) and not case.precomputed


LAWS: dict[str, Any] = {
    "units of weights": (
        units_of_weights,
        lambda case: (
            case.weights not in ("none", "ones")
            and (case.estimator in RELATIVE or (case.estimator in CHOOSE and case.seed % 8 == 0))
            and not case.precomputed
        ),
    ),
    "units of targets": (
        units_of_targets,
        # A Gaussian process scales targets to the deviation 1, as asked, unless they are constant.
        lambda case: (
            case.estimator in REGRESSORS
            and (
                case.estimator != "GaussianProcessRegressor"
                or ("normalize_y" not in case.options and bool(np.ptp(dense.targets_of(case), axis=0).all()))
            )
        ),
    ),
    "float32 rows": (
        float32_rows_are_float64_rows,
        lambda case: (
            case.dtype == "float32"
            and case.estimator in ("KernelRidge", "KernelRidgeClassifier")
            and _plain(case)
            and not case.value("standardize", False)  # scaled rows are float32 where the given ones are
        ),
    ),
    "names": (
        columns_in_another_order,
        lambda case: case.container == "frame" and case.dtype != "bool" and not case.precomputed,
    ),
    "checkpoints": (
        checkpoints_know_their_data,
        lambda case: (
            case.estimator in ("KernelRidge", "KernelRidgeClassifier")
            and case.options.get("approximation") != "'exact'"
            and not case.precomputed
            and case.seed % 4 == 0
        ),
    ),
}
