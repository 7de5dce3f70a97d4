"""Registry of model files: the classes of their parts, and checks that parts fit the class and each other.

The parts of a class are its dataclass fields, and their types are its annotations. A check sees the parts by
name before anything is made or computed from them. A tree has to end, a number of a row, node or block has to
be in range, and sizes have to agree, so that no count in a file is larger than the arrays that it is about.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from gramian._typing import Array
from gramian.exceptions import ModelFileError, quoted
from gramian.kernels.columns import Columns
from gramian.model_file.container import CURE, require

#: Most bytes of a number in an array: longer ones depend on the machine.
MOST_BYTES = 8
#: Types of what JSON gives for numbers, texts and null. A whole number stands for a float too, a truth value
#: for neither.
PLAIN: dict[Any, set[type]] = {
    **{kind: {kind} for kind in (int, str, bool, types.NoneType)},
    float: {int, float},
}

#: The parts of a value by name, and ``most``: numbers that the file can hold, which bounds a size that no
#: array of the part tells.
Parts = SimpleNamespace


def own_parts(value: object) -> dict[str, Any]:
    """Return the arguments that would make a dataclass's value again."""
    return {field.name: getattr(value, field.name) for field in fields(value) if field.init}  # type: ignore[arg-type]


@dataclass(frozen=True)
class Part:
    """A class whose values a model file holds by their parts.

    check : raises if parts do not fit together.
    finite : whether NaN and infinity are refused, also in arrays.
    take, make : functions from a value to its parts, by name, and from class and parts back to it; by default
        the fields of a dataclass and the class itself.
    """

    kind: type[Any]
    check: Callable[[Parts], None] | None = None
    finite: bool = True
    take: Callable[[Any], dict[str, Any]] = own_parts
    make: Callable[[type[Any], dict[str, Any]], object] | None = None

    def made(self, parts: dict[str, Any], most: float) -> Any:
        """Return the value of these parts, of which types, numbers and sizes are checked first."""
        check_parts(self.kind, parts, finite=self.finite)
        if self.check is not None:
            self.check(Parts(**parts, most=most))
        return self.kind(**parts) if self.make is None else self.make(self.kind, parts)


#: All classes whose values a model file holds by their parts, by name.
PARTS: dict[str, Part] = {}


def hold(*kinds: type[Any], **options: Any) -> None:
    """Let model files hold values of these classes; options are those of :class:`Part`."""
    PARTS.update({kind.__name__: Part(kind, **options) for kind in kinds})


def holds(*kinds: type[Any], **options: Any) -> Callable[[Callable[[Parts], None]], Callable[[Parts], None]]:
    """Let model files hold values of these classes, checked by the function that this decorates."""

    def register(check: Callable[[Parts], None]) -> Callable[[Parts], None]:
        hold(*kinds, check=check, **options)
        return check

    return register


# ---- types and numbers -------------------------------------------------------------------------------------


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
    origin, inner = get_origin(hint), get_args(hint)
    if origin is None:
        if hint is Any or (hint is Columns and isinstance(value, partial | None)):  # bound to landmarks later
            return True
        return type(value) in PLAIN[hint] if hint in PLAIN else isinstance(value, hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if origin is np.dtype:
        return isinstance(value, np.dtype)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _holds(value.dtype, get_args(inner[1])[0])
    if issubclass(origin, Mapping):
        return isinstance(value, dict) and all(
            fits(key, inner[0]) and fits(one, inner[1]) for key, one in value.items()
        )
    if not isinstance(value, tuple) and (origin is tuple or not isinstance(value, list)):
        return False
    if origin is tuple and inner[1:] != (...,):
        return len(inner) == len(value) and all(map(fits, value, inner))
    if inner[0] in PLAIN:
        return set(map(type, value)) <= PLAIN[inner[0]]
    return all(fits(one, inner[0]) for one in value)


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


# ---- shapes and ranges -------------------------------------------------------------------------------------


def check_shape(name: str, array: ArrayLike, shape: tuple[int | None, ...]) -> None:
    """Raise if an array has another shape; None stands for any length."""
    found = np.shape(array) if not hasattr(array, "shape") else array.shape
    if len(found) != len(shape) or any(b not in (None, a) for a, b in zip(found, shape)):
        expected = str(tuple("any" if b is None else b for b in shape)).replace("'", "")
        require(False, f"the array {name!r} has shape {found}; expected {expected}")


def shapes(parts: object, **expected: tuple[int | str | None, ...]) -> dict[str, int]:
    """Raise if an array, or one of a tuple of them, has another shape; return the lengths that are named.

    A name stands for the same length everywhere, None for any. Parts that are None are passed over.
    """
    named: dict[str, int] = {}
    for name, shape in expected.items():
        for array in _arrays(parts, name):
            known = (named.get(size) if isinstance(size, str) else size for size in shape)
            check_shape(name, array, tuple(known))
            named |= {size: n for size, n in zip(shape, array.shape) if isinstance(size, str)}
    return named


def within(parts: object, **below: int) -> None:
    """Raise if arrays hold anything but whole numbers from 0 up to, and without, a bound."""
    for name, bound in below.items():
        for array in _arrays(parts, name):
            whole = array.dtype.kind in "iu"
            fits = not array.size or (whole and 0 <= array.min() <= array.max() < bound)
            require(fits, f"the array {name!r} holds numbers outside 0 … {bound - 1}")


def _arrays(parts: object, name: str) -> Iterator[Array]:
    value = getattr(parts, name)
    yield from value if isinstance(value, tuple) else () if value is None else (value,)


def tiles(dtype: np.dtype[Any]) -> None:
    """Raise unless tiles are of a float type."""
    require(dtype in (np.float32, np.float64), f"tiles are stored as {dtype}; expected float32 or float64")
