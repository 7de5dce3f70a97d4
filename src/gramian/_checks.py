"""Checks of single parameters: flags, numbers, names, paths. Each names the parameter in its error."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Collection, Iterable
from typing import Any, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike

from gramian._typing import Float64Array
from gramian.exceptions import InputError, did_you_mean, quoted, shortened


def flag(name: str, value: object) -> bool:
    """Return True or False, or raise with the parameter's name."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name}={quoted(value)} must be True or False.")
    return bool(value)


def real_number(name: str, value: object) -> float:
    """Return a finite float or raise with the parameter's name."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise InputError(f"{name}={quoted(value)} must be a finite number.")
    return float(value)


def positive_number(name: str, value: object, *, why: str = "") -> float:
    """Return a positive finite float or raise with the parameter's name, and why it must be positive."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < math.inf:
        reason = f": {why}" if why else ""
        raise InputError(f"{name}={quoted(value)} must be a positive, finite number{reason}.")
    return float(value)


def refuse_masked(name: str, values: object) -> None:
    """Raise for masked arrays, also in a list, with a masked value: NumPy would read the value behind it."""
    parts = values if isinstance(values, list | tuple) else [values]
    if count := sum(int(np.ma.count_masked(v)) for v in parts if isinstance(v, np.ma.MaskedArray)):
        raise InputError(
            f"{name} is a masked array, and {count} of its values {'are' if count > 1 else 'is'} masked. "
            f"Fill them in ({name}.filled(value)), or drop their rows."
        )


def numbers_of(name: str, values: ArrayLike | None, cure: str) -> Float64Array:
    """Return values as a float64 array, or raise with their name and with what to give in their place.

    >>> numbers_of("y", ["a"], "Give one number for each row.")
    Traceback (most recent call last):
    ...
    gramian.exceptions.InputError: y cannot be read as numbers (could not convert string to float: 'a'). \
Give one number for each row.
    """
    refuse_masked(name, values)
    try:
        if np.asarray(values).dtype.kind == "c":
            raise TypeError("they are complex")
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} cannot be read as numbers ({shortened(str(error))}). {cure}") from None


def positive_numbers(name: str, values: ArrayLike) -> Float64Array:
    """Return a non-empty sequence of positive finite numbers as an array, or raise with its name."""
    if isinstance(values, str) or not is_iterable(values):
        raise InputError(f"{name}={values!r} is not a sequence. Give positive numbers, such as (0.1, 1.0).")
    checked = [positive_number(f"{name}[{i}]", value) for i, value in enumerate(cast(Iterable[Any], values))]
    if not checked:
        raise InputError(f"{name}={values!r} is empty. Give at least one positive number.")
    return np.asarray(checked, np.float64)


def positive_alpha(alpha: object) -> float:
    """Return a ridge penalty as a float, or raise if it is not positive and finite."""
    return positive_number("alpha", alpha, why="K̃ + alpha·I is singular without it")


def not_negative(name: str, value: object) -> float:
    """Return a finite float of at least 0 or raise with the parameter's name."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < math.inf:
        raise InputError(f"{name}={quoted(value)} must be a finite number of at least 0.")
    return float(value)


def whole_number(name: str, value: object, least: int | None = None) -> int:
    """Return an integer, of at least ``least`` if that is given, or raise with the parameter's name."""
    if (
        isinstance(value, bool)
        or not isinstance(value, numbers.Integral)
        or (least is not None and int(value) < least)
    ):
        bound = "" if least is None else f" of at least {least}"
        raise InputError(f"{name}={quoted(value)} must be a whole number{bound}.")
    return int(value)


def is_index(value: object, stop: int, start: int = 0) -> TypeGuard[int]:
    """Return whether a value is a whole number from ``start`` to ``stop`` − 1."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and start <= int(value) < stop


def verbosity(name: str, value: object) -> int:
    """Return an integer of at least 0, 1 for True, or raise with the parameter's name."""
    return int(value) if isinstance(value, bool | np.bool_) else whole_number(name, value, 0)


def one_of(name: str, value: object, choices: Collection[str]) -> str:
    """Return the value, or raise, with the nearest choice, if it is not among the choices."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(
            f"{name}={quoted(value)} is unknown. Choose one of {', '.join(choices)}."
            + did_you_mean(value, choices)
        )
    return value


def path(name: str, value: object) -> str:
    """Return a path as text or raise with the parameter's name."""
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{name}={quoted(value)} is not a path. Give a text, a pathlib.Path, or None.")
    return os.fspath(value)


def several(name: str, value: object) -> Iterable[Any]:
    """Return a collection of values, or raise with the parameter's name for a single one."""
    if isinstance(value, str):
        raise InputError(f"{name}={quoted(value)} is a string; give a list: [{quoted(value)}].")
    if not is_iterable(value):
        raise InputError(f"{name}={quoted(value)} must be a list, tuple or array.")
    return cast(Iterable[Any], value)


def is_iterable(value: object) -> bool:
    """Return whether a value is a collection; an array without axes is none, though it looks like one."""
    try:
        iter(cast("Iterable[object]", value))
    except TypeError:
        return False
    return True
