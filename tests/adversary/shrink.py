"""Make a failing case smaller: fewer rows and columns, plain data, default parameters."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields, replace

from adversary.cases import Case
from adversary.judge import LIMIT, limited
from adversary.laws import LAWS, check

#: Simplest values of the fields that have one.
PLAIN = {
    f.name: f.default for f in fields(Case) if f.name not in ("estimator", "parameters", "n", "d", "target")
}


def why(case: Case, law: str) -> str | None:
    """Return the failure's class and text, or None where the law holds or does not apply."""
    try:
        if not LAWS[law][1](case):
            return None
        with limited(LIMIT):
            check(case, law)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def failure(case: Case, law: str) -> str | None:
    """Return the kind of failure: the error's class."""
    text = why(case, law)
    return None if text is None else text.split(":")[0]


def smaller(case: Case) -> Iterator[Case]:
    """Yield cases that differ in one respect and are simpler, the boldest first."""
    for n in (1, 2, 5, case.n // 4, case.n // 2, 3 * case.n // 4, case.n - 1):
        if 0 < n < case.n:
            yield replace(case, n=n)
    for d in (1, 2, case.d // 2, case.d - 1):
        if 0 < d < case.d:
            yield replace(case, d=d)
    for name, value in PLAIN.items():
        if getattr(case, name) != value:
            yield replace(case, **{name: value})
    simple = "2 classes of int" if case.n_classes else "number"
    if case.target != simple:
        yield replace(case, target=simple)
    for k in range(len(case.parameters)):
        yield replace(case, parameters=case.parameters[:k] + case.parameters[k + 1 :])


def shrink(case: Case, law: str, *, seconds: float = 30.0) -> Case:
    """Return a case that fails the same law in the same kind of way, as small as some seconds allow."""
    kind, until = failure(case, law), time.monotonic() + seconds
    if kind is None:
        return case
    found = True
    while found and time.monotonic() < until:
        found = False
        for candidate in smaller(case):
            if time.monotonic() > until:
                break
            if failure(candidate, law) == kind:
                case, found = candidate, True
                break
    return case
