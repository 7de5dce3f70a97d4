"""Laws that hold for every estimator, whatever the configuration, and the table of all laws by name."""

from __future__ import annotations

import contextlib
import copy
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

import gramian as gm
from adversary import dense, kernels, units
from adversary.cases import Case, class_of, put
from adversary.trial import Broken, Refused, Trial, takes_weights
from gramian.approximations.approximation import Approximation

#: Containers whose numbers lie in memory as those of a plain array: products then round alike.
SAME_LAYOUT = ("read-only",)


def fits(trial: Trial) -> None:
    """The configuration can be fitted, and every warning tells an amount."""
    assert trial.model is not None


def answers_are_finite(trial: Trial) -> None:
    """Answers are finite and have the shapes that scikit-learn's estimators give."""
    case, m = trial.case, len(trial.case.new)
    found = trial.answered
    for name, values in found.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise Broken(f"{name} holds values that are not finite, without a warning")
        if len(values) != m:
            raise Broken(f"{name} has {len(values)} rows; expected {m}")
    if "predict" in found:
        want = (m,) if case.n_classes else (m, *np.shape(case.y)[1:])
        if found["predict"].shape != want:
            raise Broken(f"predict has shape {found['predict'].shape}; expected {want}")
    if "predict_proba" in found:
        p = found["predict_proba"]
        trial.near("the sum of probabilities", p.sum(axis=1), np.ones(m), 1e-12)
        if p.min() < 0:
            raise Broken(f"a probability is {p.min():.3g}")


def same_bits_when_refitted(trial: Trial) -> None:
    """A second fit with the same seed gives the same bits, also of a model that was fitted to other rows."""
    case = trial.case
    model = case.model()
    if not case.precomputed:
        # Rows of the same scale, for which gamma was drawn: others may be beyond the tiles' range.
        other = replace(case, container="array", seed=case.seed + 1)
        known = dict(trial.amounts)
        trial.fit(model, other.X, other.y)
        trial.amounts = known  # what is said of other rows widens no tolerance of these
    trial.fit(model, trial.rows, case.y, case.w)
    trial.same("after a refit", trial.answers(model, trial.new), trial.answered)


def same_bits_when_pickled(trial: Trial) -> None:
    """A pickled and a deeply copied model answer with the same bits."""
    want = trial.answered
    for kept in (pickle.loads(pickle.dumps(trial.model)), copy.deepcopy(trial.model)):
        trial.same("after pickling", trial.answers(kept, trial.new), want)


def same_bits_when_saved(trial: Trial) -> None:
    """``gm.save`` and ``gm.load`` give the same bits."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.gramian"
        gm.save(trial.model, path)
        trial.same("after gm.load", trial.answers(gm.load(path), trial.new), trial.answered)


def same_bits_with_any_threads(trial: Trial) -> None:
    """The number of threads changes no bit."""
    other = trial.case.threads % 3 + 1
    trial.same(f"with n_jobs={other}", trial.answers(trial.again(n_jobs=other), trial.new), trial.answered)


def nothing_is_written_to(trial: Trial) -> None:
    """Rows, targets, weights and parameters are as they were before the fit."""
    case = trial.case
    if case.precomputed:
        X = trial.gram(case.X).copy()
    else:
        X = put(case.X, "csr" if case.container in ("csr", "csc") else "array")
    parts = [X.data, X.indices, X.indptr] if hasattr(X, "indptr") else [X]
    given = [*parts, np.array(case.y), *([] if case.w is None else [case.w.copy()])]
    before = [a.copy() for a in given]
    for a in given:
        a.setflags(write=False)
    model = case.model()
    said = {name: repr(value) for name, value in model.get_params().items()}
    trial.fit(model, X, given[len(parts)], None if case.w is None else given[-1])
    trial.answers(model, X)
    for a, b in zip(given, before):
        if not np.array_equal(a, b):
            raise Broken("fit wrote into the caller's arrays")
    for name, value in model.get_params().items():
        if repr(value) != said[name]:
            raise Broken(f"fit changed the parameter {name} from {said[name]} to {value!r}")


def failed_fits_change_nothing(trial: Trial) -> None:
    """A fit that fails leaves a fitted model as it was."""
    model, want = trial.model, trial.answered
    before = dict(vars(model))
    bad = np.array(trial.gram(trial.case.X) if trial.case.precomputed else trial.case.X, np.float64)
    bad[-1, -1] = np.nan
    try:
        model.fit(bad, trial.case.y)
    except ValueError as error:
        if "NaN" not in str(error):
            raise Broken(f"NaN is refused with: {error}") from error
    else:
        raise Broken("a NaN in X is not refused")
    changed = {k for k in before.keys() | vars(model).keys() if vars(model).get(k) is not before.get(k)}
    if changed:
        raise Broken(f"a failed fit changed {sorted(changed)}")
    trial.same("after a failed fit", trial.answers(model, trial.new), want)


def parts_answer_as_the_whole(trial: Trial) -> None:
    """A row's answer does not depend on the rows that are asked about with it."""
    new, whole = trial.case.new, trial.answered
    new = trial.gram(new) if trial.case.precomputed else new
    kind = trial.case.container if trial.case.container in ("csr", "frame") else "array"
    kind = "csr" if trial.case.container == "csc" else kind
    # Votes of pairs of classes jump where a pair is tied.
    votes = trial.case.estimator == "DCSVC" and len(trial.model.classes_) > 2
    for part in (slice(0, 1), slice(3, 9)):
        found = trial.answers(trial.model, put(new[part], kind))
        for name, values in found.items():
            if name == "std":  # a variance is a difference of numbers as large as the prior's, k(x, x)
                prior = dense.prior_sizes(trial)[part].max() * float(trial.model.y_std_.max()) ** 2
                largest = float((whole[name] ** 2).max()) + prior
                trial.near("variance of some rows", values**2, whole[name][part] ** 2, 1e-8 * largest)
            elif values.dtype.kind == "f" and not votes and not (name == "predict" and trial.case.n_classes):
                trial.near(
                    f"{name} of some rows",
                    values,
                    whole[name][part],
                    2.0 * dense.rounding(trial, whole[name]),
                )


def classes_are_those_of_the_values(trial: Trial) -> None:
    """``predict`` is the class of the largest probability; without probabilities, of the largest value."""
    found, classes = trial.answered, trial.model.classes_
    name = "predict_proba" if "predict_proba" in found else "decision_function"
    if name in found:
        values = found[name]
        if values.ndim == 1:
            values = np.column_stack([-values, values])
        top = np.sort(values, axis=1)
        tied = name == "decision_function" and top[:, -1] == top[:, -2]
        wrong = ~np.asarray(tied) & (classes[values.argmax(axis=1)] != found["predict"])
        if wrong.any():
            raise Broken(f"predict is not the argmax of {name} in {np.count_nonzero(wrong)} rows")
    unknown = set(found["predict"].tolist()) - set(np.asarray(trial.case.y).tolist())
    if unknown:
        raise Broken(f"predict gives labels that are not in y: {unknown}")


def containers_hold_the_same_rows(trial: Trial) -> None:
    """Any container of the same rows gives the same model."""
    case = trial.case
    plain = trial.fit(case.model(), put(case.X, "array"), case.y, case.w)
    got = trial.answers(plain, case.new)
    if case.container in SAME_LAYOUT:
        trial.same(f"of rows in an array and {case.container}", got, trial.answered)
        return
    for name, want in trial.answered.items():
        if want.dtype.kind == "f" and not (case.n_classes and name == "predict"):
            allowed = 2.0 * dense.rounding(trial, want) + 2.0 * dense.model_slack(trial, name)
            trial.near(f"{name} of rows in an array", got[name], want, allowed)


def whole_weights_are_repeats(trial: Trial) -> None:
    """Rows of weight 2 count as two rows, rows of weight 0 as none."""
    case = trial.case
    counts = np.asarray(case.w, np.intp)
    rows, y = np.repeat(case.X, counts, axis=0), np.repeat(case.y, counts, axis=0)
    options = {"approximation": frozen(trial)} if "gm." in case.options.get("approximation", "") else {}
    plain = {name: getattr(type(trial.model)(), name) for name in dense.KERNEL} if options else {}
    weighted = trial.fit(case.model(**plain, **options), put(case.X, "array"), case.y, case.w)
    repeated = trial.fit(case.model(**plain, **options), rows, y)
    got, want = trial.answers(repeated, case.new), trial.answers(weighted, case.new)
    name = "decision_function" if "decision_function" in want else "predict"
    matrix = dense.frozen_matrices(trial, options["approximation"].estimator) if options else None
    trial.near(
        f"{name} of repeated rows", got[name], want[name], 2.0 * dense.model_slack(trial, name, matrix)
    )


def order_of_rows_is_of_no_account(trial: Trial) -> None:
    """A permutation of the rows changes rounding only, where no random choice among rows is made."""
    case = trial.case
    order = np.random.default_rng(case.seed).permutation(case.n)
    w = None if case.w is None else case.w[order]
    kind = "list" if case.container == "list" else "array"  # a list of float32 numbers is float64
    other = trial.fit(case.model(), put(case.X[order], kind), np.asarray(case.y)[order], w)
    got, want = trial.answers(other, case.new), trial.answered
    name = "decision_function" if "decision_function" in want else "predict"
    trial.near(f"{name} of permuted rows", got[name], want[name], 2.0 * dense.model_slack(trial, name))


def frozen(trial: Trial) -> FrozenEstimator:
    """Return the case's approximation, fitted to its rows once, for models that shall share it."""
    case = trial.case
    inner = clone(case.value("approximation"))
    given = {name: case.value(name) for name in dense.KERNEL if name in case.options}
    if "tile_dtype" in case.options:
        given["tile_dtype"] = case.value("tile_dtype")
    inner.set_params(**given, random_state=0, n_jobs=case.threads)
    return FrozenEstimator(trial.fit(inner, put(case.X, "array")))


def chunks_add_up(trial: Trial) -> None:
    """``partial_fit`` of chunks is ``partial_fit`` of all rows at once, on a map that is the same."""
    case = trial.case
    shared = frozen(trial)
    plain = {name: getattr(type(trial.model)(), name) for name in dense.KERNEL}
    X, y = put(case.X, "array"), np.asarray(case.y)
    whole, parts = (case.model(approximation=shared, **plain) for _ in range(2))
    classes = {"classes": np.unique(y)} if case.n_classes else {}

    def w(where: slice) -> dict[str, Any]:
        return {} if case.w is None else {"sample_weight": case.w[where]}

    with trial.listening(), trial.refusable():
        whole.partial_fit(X, y, **classes, **w(slice(None)))
        cuts = [0, max(1, case.n // 3), max(1, case.n // 2), case.n]
        for start, stop in pairwise(cuts):
            if start < stop and (case.w is None or case.w[start:stop].any()):
                parts.partial_fit(X[start:stop], y[start:stop], **classes, **w(slice(start, stop)))
    name = "decision_function" if case.n_classes else "predict"
    got, want = (trial.answers(m, case.new)[name] for m in (parts, whole))
    slack = dense.model_slack(trial, name, dense.frozen_matrices(trial, shared.estimator))
    trial.near(f"{name} after chunks", got, want, 2.0 * slack)


Check = Callable[[Trial], None]
Condition = Callable[[Case], bool]


def _kind(case: Case) -> type:
    return type(class_of(case.estimator)())


def _any(case: Case) -> bool:
    return True


def _ridge(case: Case) -> bool:
    return case.estimator in ("KernelRidge", "KernelRidgeClassifier")


def _approximation(case: Case) -> bool:
    return issubclass(_kind(case), Approximation)


def _dense_model(case: Case) -> bool:
    """Whether the model's distance from a dense solution is known."""
    ridge = _ridge(case) or case.estimator == "GaussianProcessRegressor"
    learned = case.estimator == "GaussianProcessRegressor" and "optimizer" not in case.options
    return ridge and kernels.is_plainly_exact(case) and not learned and not case.precomputed


def _frozen(case: Case) -> bool:
    return "gm." in case.options.get("approximation", "") and "standardize" not in case.options


#: Laws by name, with the cases for which each is checked. What is left out, and why: repeats and permutations
#: of an approximation whose landmarks or blocks are drawn from the rows (the frozen map's are checked).
LAWS: dict[str, tuple[Check, Condition]] = {
    "fits": (fits, _any),
    "answers are finite": (answers_are_finite, _any),
    "refitted": (same_bits_when_refitted, _any),
    "pickled": (same_bits_when_pickled, _any),
    # Kernel values that were passed have no formula for a model file to name; gm.save says so.
    "saved": (same_bits_when_saved, lambda case: not case.precomputed),
    "threads": (same_bits_with_any_threads, _any),
    "nothing is written to": (nothing_is_written_to, _any),
    "failed fits": (failed_fits_change_nothing, lambda case: case.container not in ("csr", "csc")),
    "parts": (parts_answer_as_the_whole, _any),
    "classes": (
        classes_are_those_of_the_values,
        lambda case: case.n_classes > 0 and case.estimator != "DCSVC",
    ),
    "containers": (
        containers_hold_the_same_rows,
        lambda case: (
            case.container in SAME_LAYOUT or (_dense_model(case) and case.container not in ("array", "list"))
        ),
    ),
    "weights are repeats": (
        whole_weights_are_repeats,
        lambda case: (
            case.weights == "whole"
            and _ridge(case)
            and (_dense_model(case) or _frozen(case))
            and takes_weights(_kind(case)())
        ),
    ),
    "permuted": (order_of_rows_is_of_no_account, _dense_model),
    "chunks": (
        chunks_add_up,
        lambda case: _ridge(case) and _frozen(case) and "class_weight" not in case.options,
    ),
    **dense.LAWS,
    **units.LAWS,
}


def laws_of(case: Case) -> list[str]:
    """Return the names of the laws that are checked for a case."""
    return [name for name, (_, applies) in LAWS.items() if applies(case)]


def check(case: Case, law: str) -> Trial:
    """Check one law of a case; raise ``Broken`` where it does not hold."""
    trial = Trial(case)
    with contextlib.suppress(Refused):
        LAWS[law][0](trial)
    return trial
