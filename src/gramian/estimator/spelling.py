"""Misspelt constructor parameters: errors that name the nearest parameter."""

from __future__ import annotations

import functools
import inspect
from typing import Any, TypeVar

from sklearn.base import BaseEstimator

from gramian.exceptions import InputError, did_you_mean

Kind = TypeVar("Kind", bound=type[BaseEstimator])


def spelled(cls: Kind) -> Kind:
    """Make the constructor and ``set_params`` of an estimator's class name the parameter that was meant."""
    if "set_params" not in vars(cls):
        cls.set_params = _set_params
    own: Any = vars(cls).get("__init__")
    taken = {} if own is None else inspect.signature(own).parameters
    if own is None or any(each.kind is each.VAR_KEYWORD for each in taken.values()):
        return cls
    known = [name for name in taken if name != "self"]

    @functools.wraps(own)
    def checked(self: Any, *args: Any, **given: Any) -> None:
        for name in given:
            if name not in known:
                raise TypeError(f"{type(self).__name__} has no parameter {name!r}.{_meant(name, known)}")
        own(self, *args, **given)

    cls.__init__ = checked
    return cls


def _set_params(self: Any, **params: Any) -> Any:
    """Set parameters, also nested ones such as ``approximation__rank``; return the estimator."""
    known = self._get_param_names()
    for name in params:
        if name.partition("__")[0] not in known:
            raise InputError(
                f"{type(self).__name__} has no parameter {name!r} (Invalid parameter {name!r} for "
                f"estimator {self!r}).{_meant(name, known)}"
            )
    return BaseEstimator.set_params(self, **params)


def _meant(name: str, known: list[str]) -> str:
    return did_you_mean(name, known) or f" Its parameters are {', '.join(known)}."
