"""Class labels and sample weights as users give them: checks, conversion, and the labels that rows have."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from gramian._checks import refuse_masked
from gramian._typing import Array
from gramian.data.cells import is_missing
from gramian.data.column import BLOCK, StoredColumn, as_column, map_values
from gramian.data.values import LARGEST, as_array
from gramian.exceptions import InputError, quoted, shortened

#: Names of the types that labels may have.
_NUMBERS, _BOOLEANS, _TEXT = "numbers", "booleans", "text"


def label_array(y: ArrayLike) -> Array | StoredColumn:
    """Return labels as an array (n,) of text, booleans or numbers that are equal to the given ones.

    Stored labels are returned unchanged. Raises ``InputError`` for labels that are missing, of several types,
    of a type that labels cannot have, or numbers that 64 bits cannot hold exactly.
    """
    refuse_name(y)
    array = as_column(y)
    if isinstance(array, StoredColumn):
        return array
    if array.dtype.kind == "T":  # NumPy's own text, which scikit-learn does not know
        array = array.astype(object)
    if array.dtype.kind == "c":
        raise InputError("Complex data not supported: y must hold labels, text, whole numbers or booleans.")
    if isinstance(y, list | tuple) and array.ndim == 1:  # NumPy has converted values of several types to one
        labels = _settled(np.fromiter(y, object, len(y)))
        return array if labels.dtype == object else labels
    if array.ndim != 1 and array.shape[1:] != (1,):
        hot = (
            " Of one-hot columns pass their names: y.idxmax(axis=1) of a frame, y.argmax(axis=1) of an array."
        )
        raise InputError(
            f"y should be a 1d array, got an array of shape {array.shape}: expected one label for each row."
            + (hot if array.ndim == 2 else "")
        )
    array = column_or_1d(array, warn=True)
    check_finite(array, 0)
    return _settled(array)


def refuse_name(y: object) -> None:
    """Raise for the name of a column where its values are expected."""
    if isinstance(y, str):
        raise InputError(
            f"y is the text {quoted(y)}; expected one target for each row. Pass the column: "
            f"table[{quoted(y)}]."
        )


def found_classes(array: Array | StoredColumn, regressor: str) -> Array:
    """Return the different labels, ascending, by blocks of rows, where the values lie.

    ``regressor`` is recommended for numbers that are no labels.
    """
    head = _settled(array[slice(0, min(BLOCK, len(array)))])
    _check_whole(head, regressor)
    check_classification_targets(head)
    parts = list(map_values(_labels, array))
    if len({part.dtype for part in parts}) > 1 and _wide(parts):
        classes = np.unique(_settled(np.concatenate([part.astype(object) for part in parts])))
    else:
        classes = np.unique(np.concatenate(parts))
    _check_whole(classes, regressor)  # the first block may hold whole numbers by chance
    return classes


def _check_whole(values: Array, regressor: str) -> None:
    """Raise for labels that are fractions, or floats so large that they round whole numbers."""
    if values.dtype.kind != "f":
        return
    if not (values == np.floor(values)).all():
        raise InputError(
            f"Unknown label type: continuous. y holds fractions; for such targets use {regressor}."
        )
    largest = float(np.abs(values).max(initial=0.0))
    if largest > 2.0 / np.finfo(values.dtype).eps:
        raise InputError(
            f"y holds the label {largest:.17g} as {values.dtype}, which rounds whole numbers of that size, "
            "so that different labels may be one. Pass integers, or text (a column of a CSV file: "
            f"categorical=[name], on the command line --text name). For numbers use {regressor}."
        )


def comparable(classes: Array, values: Array) -> tuple[Array, Array]:
    """Return classes and labels in types that NumPy compares without rounding."""
    if classes.dtype == values.dtype or not _wide([classes, values]):
        return classes, values
    return classes.astype(object), values.astype(object)


def check_labels(values: Array) -> str:
    """Return the type of labels; raise for labels that are missing or that cannot be compared or stored."""
    kind = values.dtype.kind
    if kind == "O":
        return _type_of_objects(values.tolist())
    check_finite(values)
    if kind not in "biufcUT":
        return _type_of_objects(list(values))  # the elements keep the type that they are refused for
    return _BOOLEANS if kind == "b" else _TEXT if kind in "UT" else _NUMBERS


def check_finite(values: Array, first: int | None = None) -> None:
    """Raise for targets or labels that are NaN or infinite; ``first``: the number of the first row."""
    if values.dtype.kind == "f" and not (fine := np.isfinite(values)).all():
        row = "" if first is None else named_row(~fine, first)
        raise InputError(f"Input y contains NaN or infinity{row}. Drop such rows first.")


def named_row(bad: Array, first: int = 0) -> str:
    """Return words that name the first bad row; ``bad`` (n, ...) begins with the row of number ``first``."""
    row = int(bad.reshape(len(bad), -1).any(axis=1).argmax())
    return f", first in row {first + row:,} (from 0)"


def _labels(values: Array) -> Array:
    """Return the different labels of some rows, ascending."""
    return np.unique(_settled(values))


def _wide(arrays: Sequence[Array]) -> bool:
    """Return whether all arrays are numbers, and some are integers that float64 may round."""
    if any(array.dtype.kind not in "iuf" for array in arrays):
        return False
    return any(array.dtype.kind in "iu" and array.dtype.itemsize == 8 for array in arrays)


def _settled(values: Array) -> Array:
    """Return checked labels: objects that are numbers or booleans as an array of their own type."""
    if check_labels(values) == _TEXT or values.dtype != object or not len(values):
        return values
    given = values.tolist()
    unsigned = (
        isinstance(given[0], numbers.Integral) and min(given) >= 0 and (1 << 63) <= max(given) < (1 << 64)
    )
    labels = np.asarray(given, np.uint64 if unsigned else None)
    if labels.dtype == object or set(labels.tolist()) != set(given):
        raise InputError(
            f"y holds labels that are numbers beyond 64 bits (such as {quoted(max(given, key=abs))}) or too "
            "large to stand beside the others. Make text of them: np.asarray(y, object).astype(str)."
        )
    return labels


def _type_of_objects(labels: list[Any]) -> str:
    """Return the type of labels that are Python objects."""
    try:
        distinct = list(dict.fromkeys(labels))
    except TypeError:  # without a hash, such as a list
        distinct = labels
    for label in distinct:
        if is_missing(label):
            raise InputError(
                f"Input y contains NaN or another missing label ({label!r}). Drop such rows, or give them a "
                "label of their own."
            )
    examples = dict[str, Any]()
    for label in dict(zip(map(type, labels), labels)).values():  # one of each type: 0 equals False
        examples.setdefault(_type_of(label), label)
    if len(examples) > 1:
        (first, one), (second, other), *_ = examples.items()
        raise InputError(
            f"y mixes labels of different types: {first} (such as {quoted(one)}) and {second} (such as "
            f"{quoted(other)}). Give all labels one type, for example np.asarray(y, object).astype(str)."
        )
    kind = next(iter(examples), _TEXT)
    if kind not in (_TEXT, _NUMBERS, _BOOLEANS):
        raise _refused(examples[kind])
    return kind


def _type_of(label: object) -> str:
    """Return what a label is called in an error: labels of one name can be sorted."""
    if isinstance(label, str):
        return _TEXT
    if isinstance(label, bool | np.bool_):
        return _BOOLEANS
    if isinstance(label, numbers.Real | np.integer) and not isinstance(label, np.timedelta64 | Fraction):
        return _NUMBERS
    return f"values of type {type(label).__name__}"


def _refused(label: object) -> InputError:
    cure = "[label.decode() for label in y]" if isinstance(label, bytes) else "[str(label) for label in y]"
    return InputError(
        f"y holds values of type {type(label).__name__} (such as {quoted(label)}). Labels are text, whole "
        f"numbers or booleans. Make text of them: {cure}."
    )


#: Bits to which weights are rounded where only their ratios count. Chosen by hand.
BITS = 30


def checked_weights(sample_weight: ArrayLike | None, n_rows: int) -> Array | None:
    """Return sample weights as float64 of shape (n,), or None; all must be finite, none negative."""
    if sample_weight is None:
        return None
    refuse_masked("sample_weight", sample_weight)
    if isinstance(sample_weight, numbers.Real):
        weights = np.full(n_rows, float(sample_weight))
    else:
        try:
            weights = as_array("sample_weight", sample_weight, np.float64)
        except InputError:
            raise
        except (TypeError, ValueError) as error:
            raise InputError(
                f"sample_weight has type {type(sample_weight).__name__} and cannot be read as numbers "
                f"({shortened(str(error))}). Give one weight for each row."
            ) from None
    if weights.shape != (n_rows,):
        raise InputError(
            f"sample_weight has shape {weights.shape}; expected ({n_rows},), one weight for each row."
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError("sample_weight holds negative, infinite or NaN entries; give weights >= 0.")
    if not (weights > 0).any():
        raise InputError("sample_weight is zero everywhere; at least one row must count.")
    refuse_heavy("sample_weight", weights)
    return weights


def refuse_heavy(name: str, weights: Array) -> None:
    """Raise for weights that are so large that sums and products of them would overflow."""
    if weights.max(initial=0.0) > LARGEST:
        raise InputError(
            f"{name} holds {weights.max():.3g}; numbers beyond {LARGEST:g} are refused: sums and products of "
            "them would overflow. Divide all weights by the largest."
        )


def effective_rows(weights: Array) -> float:
    """Return how many rows of equal weight tell as much as these: (Σw)²/Σw². Source: Kish 1965.

    >>> effective_rows(np.array([3.7, 3.7, 1e-9]))
    2.0
    """
    shares = np.asarray(weights, np.float64) / weights.max()
    return round(float(shares.sum() ** 2 / np.square(shares).sum()), 6)


def relative_weights(weights: Array | None) -> Array | None:
    """Return weights divided by the mean of those above 0; None stands for weights of 1.

    Fits that search for their penalty use these: a penalty is measured in the unit of the weights, and the
    candidates are meant for weights of mean 1. So weights that sum to 1 give the model that weights of mean 1
    give: they are rounded to 30 bits, because the last bits, which change with the unit, would decide between
    equals. Time O(n).

    >>> weights = np.array([1.0, 2.0, 5.0])
    >>> bool((relative_weights(3.7 * weights) == relative_weights(weights)).all())
    True
    """
    if weights is None:
        return None
    sizes, exponents = np.frexp(weights / weights[weights > 0].mean())
    return np.asarray(np.ldexp(np.round(np.ldexp(sizes, BITS)), exponents - BITS))
