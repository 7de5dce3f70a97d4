"""The registry of model files: the classes of their parts, each with a check that its parts fit together.

The parts of a class are its dataclass fields, and their types are its annotations. A check sees the parts by
name before anything is made or computed from them. A tree has to end, a number of a row, node or block has to
be in range, and sizes have to agree, so that no count in a file is larger than the arrays that it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from gramian._typing import Array
from gramian.model_file.container import require
from gramian.model_file.typed import check_parts

#: The parts of a value by name, and ``most``: numbers that the file can hold, which bounds a size that no
#: array of the part tells.
Parts = SimpleNamespace


@dataclass(frozen=True)
class Part:
    """A class whose values a model file may hold.

    check : raises if parts do not fit together.
    finite : whether NaN and infinity are refused, also in arrays.
    take, make : functions from a value to its parts, by name, and from class and parts back to it; by default
        the fields of a dataclass and the class itself. An estimator without them is held by its parameters
        and what it has learned.
    """

    kind: type[Any]
    check: Callable[[Parts], None] | None = None
    finite: bool = True
    take: Callable[[Any], dict[str, Any]] | None = None
    make: Callable[[type[Any], dict[str, Any]], object] | None = None

    @property
    def is_estimator(self) -> bool:
        """Whether values are held by their parameters."""
        return issubclass(self.kind, BaseEstimator) and self.take is None

    def parts(self, value: object) -> dict[str, Any]:
        """Return a value's parts by name."""
        return own_parts(value) if self.take is None else self.take(value)

    def made(self, parts: dict[str, Any], most: float) -> Any:
        """Return the value of these parts, of which types, numbers and sizes are checked first."""
        check_parts(self.kind, parts, finite=self.finite)
        if self.check is not None:
            self.check(Parts(**parts, most=most))
        return self.kind(**parts) if self.make is None else self.make(self.kind, parts)


#: All classes whose values a model file may hold, by name.
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


def own_parts(value: object) -> dict[str, Any]:
    """Return the arguments that would make a dataclass's value again."""
    return {field.name: getattr(value, field.name) for field in fields(value) if field.init}  # type: ignore[arg-type]


# ---- what checks are made of -------------------------------------------------------------------------------


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
