"""The table of what constructor parameters may be: complete, used, documented, and obeyed by every fit."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
from every_estimator import ESTIMATORS, HOSTS, QUICK, X, Y, fit, parameters
from sklearn.base import BaseEstimator

import gramian as gm
from gramian.estimator.constraints import CONSTRAINTS, check_parameters

EVERY = pytest.mark.parametrize("kind", ESTIMATORS.values(), ids=ESTIMATORS.keys())


def test_the_table_is_complete_and_every_public_estimator_is_walked():
    public = {name for name in gm.__all__ if inspect.isclass(getattr(gm, name))}
    public = {name for name in public if issubclass(getattr(gm, name), BaseEstimator)}
    assert public <= set(ESTIMATORS)
    assert len(ESTIMATORS) >= 31
    assert {name for kind in ESTIMATORS.values() for name in parameters(kind)} == set(CONSTRAINTS)


@EVERY
def test_the_memory_budget_has_one_default(kind):
    budget = parameters(kind).get("memory_budget")
    assert budget is None or budget.default == "1GB"


# ---- the documentation -------------------------------------------------------------------------------

WORDS = {word: word for constraint in CONSTRAINTS.values() for word in constraint.kinds}
WORDS |= {"number": "float", "function": "callable", "classifier": "estimator", "mask": "array"}


def documented(kind):
    """Return the kinds that the section Parameters gives to each parameter, None among them."""
    found = {}
    section = re.search(r"\nParameters\n-+\n(.*?)(\n\n|\Z)", inspect.getdoc(kind), re.S)
    for line in section[1].splitlines() if section else ():
        names, colon, head = line.partition(" : ")
        if not colon or line.startswith(" "):
            continue
        head = re.sub(r" of [^,]*|, default=(?!None).*", "", head)
        kinds = {"str"} if '"' in head else set()
        kinds |= {"bool"} if re.search("True|False", head) else set()
        kinds |= {"None"} if re.search("None|optional", head) else set()
        kinds |= {"sequence"} if head.startswith("(") else set()
        if not head.startswith(("(", "as ")):
            head = re.sub(r'"[^"]*"|:\w+:`[^`]*`', "", head)
            kinds |= {WORDS[word] for word in re.findall(r"\w+", head) if word in WORDS}
        for name in names.split(", ") if kinds else ():
            found[name] = kinds
    return found


DOCUMENTED = {name: documented(kind) for name, kind in ESTIMATORS.items()}


def test_every_parameter_is_documented_with_the_kinds_of_the_table():
    known = {name: set() for name in CONSTRAINTS}
    for kinds in DOCUMENTED.values():
        for name, of_class in kinds.items():
            known[name] |= of_class
    for name, constraint in CONSTRAINTS.items():
        assert known[name] - {"None"} == constraint.kinds, name
        assert not constraint.none or "None" in known[name], name


@EVERY
def test_what_is_documented_is_accepted(kind):
    check_parameters(kind())
    for name, kinds in DOCUMENTED[kind.__name__].items():
        assert name in parameters(kind)
        if "None" in kinds:
            check_parameters(kind(**{name: None}))


# ---- values ------------------------------------------------------------------------------------------

SAMPLES = {
    "bool": True,
    "int": 3,
    "float": 2.5,
    "str": "no such name",
    "list": [0.5, "x"],
    "dict": {"no such class": "no number"},
    "None": None,
}
#: Which samples stand for a kind: a whole number is a number, a list is what holds several values.
ALSO = {"float": {"int", "float"}, "sequence": {"list"}, "array": {"list"}, "tuple": {"list"}}
#: Samples that a parameter takes although its kinds have another name for them.
TAKEN = {
    "verbose": {"bool"},
    "random_state": {"bool"},  # to NumPy a seed of 1
    "degree": {"float"},  # 3.0 is 3, and 2.5 is told by the polynomial kernel
    "categorical": {"dict"},
    "memory_budget": {"float"},
    "max_bytes": {"float"},
    "refine": {"None"},
    "cv": {"list"},
}


def wrong_values(kind, name):
    """Return values of kinds that the parameter does not have, and names that are none of its own."""
    constraint = CONSTRAINTS[name]
    taken = set().union(TAKEN.get(name, ()), *(ALSO.get(each, {each}) for each in constraint.kinds))
    if constraint.none or parameters(kind)[name].default is None:
        taken |= {"None"}
    if name != "checkpoint":
        taken -= {"str", "dict"} if name != "categorical" else {"str"}
    return [value for sample, value in SAMPLES.items() if sample not in taken] + [object()]


@pytest.mark.filterwarnings("ignore")  # of fits to few rows in no time
@EVERY
def test_every_wrong_value_is_refused_by_name_and_leaves_the_estimator_as_it_was(kind):
    quick, host = QUICK.get(kind.__name__, {}), HOSTS.get(kind.__name__, lambda settings: settings)
    fitted = fit(host(kind(**quick)))
    for name in parameters(kind):
        for value in wrong_values(kind, name):
            bad = host(kind(**{**quick, name: value}))
            fitted.set_params(**bad.get_params(deep=False))
            before = dict(vars(fitted))
            with pytest.raises(gm.InputError, match=re.escape(name)):
                fit(fitted)
            assert vars(fitted).keys() == before.keys()
            assert all(vars(fitted)[key] is kept for key, kept in before.items())


@EVERY
def test_constructors_only_store(kind):
    for name in parameters(kind):
        value = object()
        assert getattr(kind(**{name: value}), name) is value


def test_kinds_of_numpy_count_as_those_of_python():
    model = gm.KernelRidge(
        fit_intercept=np.True_, standardize=np.False_, verbose=np.int64(0), degree=np.int32(2), kernel="poly"
    )
    assert model.fit(X, Y).predict(X[:2]).shape == (2,)
    for flag in (1, 0, np.int64(1), "yes"):
        with pytest.raises(gm.InputError, match=r"fit_intercept=.* must be True or False"):
            gm.KernelRidge(fit_intercept=flag).fit(X, Y)
    assert gm.MEKA(rank=np.int64(3), n_blocks=np.uint8(2)).fit(X).rank_ == 6


def test_partial_fit_and_plan_check_them_too():
    model = gm.KernelRidge(random_state=0).partial_fit(X, Y).set_params(verbose="a")
    with pytest.raises(gm.InputError, match="verbose='a' must be a whole number of at least 0"):
        model.partial_fit(X, Y)
    assert model.n_rows_seen_ == 60
    with pytest.raises(gm.InputError, match="verbose='a'"):
        model.plan(X)


def test_estimators_in_parameters_are_checked_too():
    for approximation in (gm.MultiResolution(sparse_output="no"), gm.Exact(tol="small")):
        with pytest.raises(gm.InputError, match=r"sparse_output='no' must be True or False|tol='small' must"):
            gm.KernelRidge(approximation=approximation).fit(X, Y)


def test_a_parameter_of_a_subclass_is_its_own():
    class Named(gm.KernelRidge):
        def __init__(self, alpha=1.0, *, label=None):
            super().__init__(alpha)
            self.label = label

    assert Named(label=object()).fit(X, Y).predict(X).shape == (60,)


def test_messages_show_little_of_a_long_value():
    with pytest.raises(gm.InputError) as error:
        gm.KernelRidge(fit_intercept="x" * 10_000).fit(X, Y)
    assert len(str(error.value)) < 130
