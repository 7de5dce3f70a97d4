"""Table of the values each constructor parameter accepts, and the check at the start of every fit.

A parameter means the same in every class that has it, so the table is keyed by the parameter's name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from gramian._checks import (
    flag,
    not_negative,
    path,
    positive_number,
    real_number,
    several,
    verbosity,
    whole_number,
)

Check = Callable[[str, Any], object]


@dataclass(frozen=True)
class Constraint:
    """What a parameter may be.

    kinds : the kinds of its values, as docstrings call them.
    check : raises :class:`InputError` for a name and a value that is of none of these kinds, or out of range
        in every class. None where the function that reads the parameter always does, and knows more: the
        names that a class offers, the kernel that the value goes with.
    none : whether None is a value also where it is not the default.
    """

    kinds: frozenset[str]
    check: Check | None = None
    none: bool = False


def check_parameters(estimator: BaseEstimator) -> None:
    """Raise for the first constructor parameter of an estimator that cannot be right, whatever the data.

    Parameters that are estimators themselves (``approximation=gm.MEKA(...)``) are checked like it. Parameters
    that the table does not know, of somebody's subclass, are left alone.
    """
    kind: Any = type(estimator)
    defaults = _defaults(kind)
    for name, value in estimator.get_params(deep=False).items():
        constraint = CONSTRAINTS.get(name)
        if constraint is None or constraint.check is None:
            continue
        if value is None and (constraint.none or defaults.get(name, ...) is None):
            continue
        constraint.check(name, value)


@functools.cache
def _defaults(kind: Callable[..., object]) -> dict[str, Any]:
    """Return the default of each constructor parameter of a class."""
    return {name: each.default for name, each in inspect.signature(kind).parameters.items()}


# ---- checks ------------------------------------------------------------------------------------------


def nested(name: str, value: object) -> None:
    """Check the parameters of a value that is an estimator; any other value is left to who reads it."""
    if isinstance(value, BaseEstimator) and not isinstance(value, type):
        check_parameters(value)


def penalty(name: str, value: ArrayLike) -> None:
    """Check a penalty; "auto" and several numbers are left to the fit, as not all classes have them."""
    if not (isinstance(value, str) and value == "auto") and (isinstance(value, str) or np.ndim(value) != 1):
        positive_number(name, value)


# ---- the table ---------------------------------------------------------------------------------------


def _rows(names: str, kinds: str, check: Check | None = None, *, none: bool = False) -> dict[str, Constraint]:
    constraint = Constraint(frozenset(kinds.split()), check, none)
    return dict.fromkeys(names.split(), constraint)


def _whole(least: int) -> Check:
    return functools.partial(_of_at_least, least)


def _of_at_least(least: int, name: str, value: object) -> int:
    return whole_number(name, value, least)


CONSTRAINTS: dict[str, Constraint] = {
    **_rows(
        "alpha_per_target diagonal exact_low fit_intercept fit_inverse_transform learn_noise normalize_y "
        "probability recompress sparse_output standardize store_cv_results warm_start",
        "bool",
        flag,
    ),
    **_rows("verbose", "int", verbosity),
    # Sizes and counts. Classes that offer a narrower range say so themselves.
    **_rows("learning_rows", "int", _whole(2), none=True),
    **_rows("branching calibration_folds exact_rows leaf_size pseudo_degree", "int", _whole(2)),
    **_rows(
        "batch_rows block gradient_rows max_iter n_blocks n_components n_directions n_entries n_experts "
        "n_landmarks n_rounds root_rank rounds",
        "int",
        _whole(1),
    ),
    **_rows("n_iter n_pseudo n_restarts_optimizer patience", "int", _whole(0)),
    # A root without blocks has no use for their rank: 0 there, at least 1 elsewhere.
    **_rows("n_levels n_units rank", "int", whole_number),
    **_rows("rows", "int", _whole(60)),
    **_rows("n_leaves", "int str"),
    **_rows("early", "bool int"),
    # Numbers.
    **_rows("core_oversampling floor held_out time_limit", "float", positive_number),
    **_rows("noise", "float array"),
    **_rows("C", "float str", penalty),
    **_rows("alpha", "float str array", penalty),
    **_rows("cutoff epsilon", "float", not_negative),
    **_rows("coef0 oversampling tol", "float", real_number),
    **_rows("degree", "int", real_number),
    **_rows("gamma", "float str"),
    **_rows("n_jobs", "int"),
    **_rows("random_state", "int Generator RandomState"),
    **_rows("max_bytes memory_budget", "int str"),
    **_rows("cost", "str float"),
    # Names, which each class checks against its own.
    **_rows(
        "columns core decision_function_shape draws dtype effort form learn loss partition rank_rule "
        "sampling scaling solver svd target tile_dtype weights",
        "str",
    ),
    **_rows("calibration pseudo", "str", none=True),
    **_rows("landmarks", "str array list"),
    **_rows("powers", "str sequence"),
    **_rows("ard bandwidth", "str bool"),
    **_rows("refine", "str bool"),
    **_rows("scoring", "str callable"),
    **_rows("class_weight", "str dict"),
    **_rows("optimizer", "str callable", none=True),
    # What is made of several values.
    **_rows("bounds gammas switched", "sequence"),
    **_rows("alphas", "sequence str"),
    **_rows("categorical", "list array", several),
    **_rows("missing", "list", none=True),
    **_rows("include", "str tuple"),
    **_rows("kernel_params", "dict"),
    **_rows("cv", "str int splitter", none=True),
    # Objects.
    **_rows("kernel", "str tuple Kernel callable"),
    **_rows("metric", "str LearnedMetric Metric", nested, none=True),
    **_rows("approximation", "str approximation", nested),
    **_rows("preconditioner", "str approximation", nested),
    **_rows("teacher", "estimator callable"),
    **_rows("checkpoint", "str path", path),
    **_rows("engine", "DaskEngine"),
}
