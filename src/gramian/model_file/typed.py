"""Check of the parts that a model file holds against the annotations of what is made from them."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, partial
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from gramian.exceptions import ModelFileError, quoted
from gramian.kernels.columns import Columns
from gramian.model_file.container import CURE, require

#: Most bytes of a number in an array: longer ones depend on the machine.
MOST_BYTES = 8
#: What JSON gives for numbers and texts. A whole number stands for a float too; a truth value for neither.
PLAIN: dict[Any, set[type]] = {int: {int}, float: {int, float}, str: {str}, bool: {bool}}


def check_parts(made_by: type[object], parts: Mapping[str, Any], *, finite: bool) -> None:
    """Raise if a part is not of the type that a class is annotated with.

    finite : refuse NaN and infinity too, in single numbers and in arrays. Time O(bytes of the arrays).
    """
    what, hints = made_by.__name__, _hints(made_by)  # type: ignore[arg-type]
    for name, value in parts.items():
        if name in hints and not fits(value, hints[name]):
            raise ModelFileError(
                f"{name!r} of a {what} is {describe_value(value)}; expected {_named(hints[name])}. {CURE}"
            )
        require(not finite or is_finite(value), f"{name!r} of a {what} holds NaN or infinity")


@cache
def _hints(made_by: type[object]) -> dict[str, Any]:
    """Return the types of the fields of a dataclass, or of the arguments of another class."""
    by_fields = is_dataclass(made_by) or made_by.__init__ is object.__init__
    return get_type_hints(made_by if by_fields else made_by.__init__)


def fits(value: object, hint: Any) -> bool:
    """Return whether a value is of an annotated type, and its items of theirs.

    >>> fits((1, 2), tuple[int, ...]), fits((1, "a"), tuple[int, ...]), fits(True, int)
    (True, False, False)
    """
    if hint is Any:
        return True
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if hint in (None, types.NoneType):
        return value is None
    if hint is Columns and isinstance(value, partial | None):  # bound to kernel and landmarks later
        return True
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _holds(value.dtype, get_args(inner[1])[0])
    if origin is np.dtype:
        return isinstance(value, np.dtype)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if inner[1:] == (...,) and inner[0] in PLAIN:
            return set(map(type, value)) <= PLAIN[inner[0]]
        own = [inner[0]] * len(value) if inner[1:] == (...,) else list(inner)
        return len(own) == len(value) and all(map(fits, value, own))
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(
            fits(key, inner[0]) and fits(one, inner[1]) for key, one in value.items()
        )
    if origin is not None and issubclass(origin, Sequence):
        return isinstance(value, list | tuple) and all(fits(one, inner[0]) for one in value)
    if hint in PLAIN:
        return type(value) in PLAIN[hint]
    return isinstance(value, origin or hint)


def _holds(dtype: np.dtype[Any], scalar: Any) -> bool:
    """Return whether an array's dtype is that of an annotation such as ``NDArray[np.floating[Any]]``."""
    if scalar is Any:
        return True
    kind = get_origin(scalar) or scalar
    # Whole numbers may have been stored by a machine whose np.intp is shorter.
    kind = np.signedinteger if issubclass(kind, np.signedinteger) else kind
    return np.issubdtype(dtype, kind) and dtype.itemsize <= MOST_BYTES


def is_finite(value: Any) -> bool:
    """Return whether a number, or every number of an array or of a tuple of them, is finite."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        return set(map(type, value)) <= {int, str, bool} or all(map(is_finite, value))
    if hasattr(value, "indptr"):
        value = value.data
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "f" or bool(np.isfinite(value).all())
    return not isinstance(value, float) or bool(np.isfinite(value))


def describe_value(value: object) -> str:
    """Return what a value is, in a few words however large it is."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} and shape {value.shape}"
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)} items"
    return f"{quoted(value)} ({type(value).__name__})"


def _named(hint: object) -> str:
    text = getattr(hint, "__name__", None) if get_origin(hint) is None else None
    return (text or str(hint)).replace("numpy.", "").replace("gramian.", "").replace("typing.", "")
