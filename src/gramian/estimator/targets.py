"""Targets that passes read a few thousand rows at a time and never expand as a whole."""

from __future__ import annotations

import numbers
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray
from gramian.data.cells import is_missing
from gramian.data.column import BLOCK, StoredColumn, as_column, map_values
from gramian.data.distributed import Partitioned
from gramian.data.values import LARGEST, refuse_times
from gramian.data.written import written_advice
from gramian.estimator.labels import (
    check_finite,
    check_labels,
    checked_weights,
    comparable,
    found_classes,
    label_array,
    named_row,
    refuse_heavy,
    refuse_name,
)
from gramian.exceptions import InputError, did_you_mean, listed, quoted, shortened, user_level

#: Least accepted size of an output's largest value: squares of errors a millionth of it keep their digits.
LEAST = 1e-140
#: Different texts up to which they are classes, whatever they look like. Chosen by hand.
MOST_OF_TEXT = 20


class Targets(ABC):
    """Numbers of shape (n, outputs), produced for a slice of rows and shifted by ``shift``."""

    shape: tuple[int, int]
    shift: Float64Array | float = 0.0
    #: The values as they were given.
    values: Array | StoredColumn

    @abstractmethod
    def encode(self, values: Array) -> Float64Array:
        """Return the numbers that stand for the values of some rows, checked, shape (rows, outputs)."""

    def part(self, numbers: IntArray | None) -> Self:
        """Return the targets of these rows (None: all), read into memory, with no shift of their own."""
        part = copy(self)
        part.values = self.values[slice(0, self.shape[0]) if numbers is None else numbers]
        part.shape = (len(part.values), self.shape[1])
        part.shift = 0.0
        return part

    def encoder(self) -> Callable[[Array], Float64Array]:
        """Return a function from values of any rows to their numbers, which can be sent elsewhere."""
        bare = copy(self)
        del bare.values
        return bare.numbers

    def numbers(self, values: Array) -> Float64Array:
        """Return the numbers that stand for the values of some rows, less the shift."""
        return self.encode(values) - self.shift

    def _block(self, where: slice) -> Float64Array:
        return self.encode(self.values[where])

    def __getitem__(self, where: slice) -> Float64Array:
        return self._block(where) - self.shift

    def mean(self, weights: Array | None) -> Float64Array:
        """Return the weighted mean of each column, accumulated in float64."""
        total, mass = np.zeros(self.shape[1]), 0.0
        for where in row_slices(self.shape[0], BLOCK):
            block = self._block(where)
            w = np.ones(len(block)) if weights is None else weights[where]
            total += w @ block
            mass += float(w.sum())
        return total / mass

    def centre(self, weights: Array | None) -> Float64Array:
        """Return a constant near the mean: the mean, or of stored values that of the first, unweighted ones.

        It costs one block, where a mean costs a pass over the values.
        """
        if isinstance(self.values, StoredColumn):
            return self._block(slice(0, min(BLOCK, self.shape[0]))).mean(axis=0)
        return self.mean(weights)


class NumberTargets(Targets):
    """Real targets y of shape (n,) or (n, outputs); ``flat`` says which.

    One column of shape (n, 1) is an output like others: predictions of it have shape (n, 1). An error
    about labels recommends ``classifier``.
    """

    #: Numbers of the rows of ``values`` that these are the targets of; None: of all.
    rows: IntArray | None = None

    def __init__(
        self, y: ArrayLike, n_rows: int, *, squared: bool = True, classifier: str = "KernelRidgeClassifier"
    ) -> None:
        if sp.issparse(y):
            raise InputError("y is a sparse matrix; pass a dense array of shape (n,) or (n, outputs).")
        refuse_name(y)
        array = as_column(y)
        _check_length(array, n_rows)
        if array.ndim > 2 or array.ndim < 1 or 0 in array.shape:
            raise InputError(f"y has shape {array.shape}; expected ({n_rows},) or ({n_rows}, outputs).")
        if array.dtype.kind == "c":
            raise InputError("Complex data not supported: y must hold real numbers.")
        if array.dtype.kind not in "fiub":
            array = _read_as_numbers(array, classifier)
        self.values = array
        self.check = _check_squares if squared else check_finite
        self.unchecked = isinstance(array, StoredColumn)  # stored values are checked as they are read
        self.flat = array.ndim == 1
        self.shape = (n_rows, 1 if self.flat else array.shape[1])
        if not self.unchecked:
            for where in row_slices(len(array), BLOCK):
                self.check(array[where], where.start)

    def refuse_tiny(self) -> None:
        """Raise if an output's values are so small that squared errors would underflow, but not all 0.

        Reads the values up to the first block in which every output has a larger one: as a rule, one block.
        """
        if isinstance(self.values, Partitioned):
            return
        sizes = np.zeros(self.shape[1])
        for where in row_slices(self.shape[0], BLOCK):
            sizes = np.maximum(sizes, np.abs(self._block(where)).max(axis=0))
            if (sizes >= LEAST).all():
                return
        for j in np.flatnonzero((sizes < LEAST) & (sizes > 0.0)):
            which = "y holds" if self.flat else f"column {j} of y holds"
            raise InputError(
                f"{which} values of size up to {sizes[j]:.3g}, other than 0; sizes under {LEAST:g} are "
                "refused: squared errors would underflow to 0. Divide y by its size."
            )

    def encode(self, values: Array) -> Float64Array:
        """Return the values as float64, shape (rows, outputs)."""
        if self.unchecked:
            self.check(values)
        block = np.asarray(values, np.float64)
        return block.reshape(len(block), self.shape[1])

    def taken(self, numbers: IntArray) -> Self:
        """Return the targets of these rows, read as they are asked for, with no shift of their own."""
        taken = copy(self)
        taken.rows = numbers if self.rows is None else self.rows[numbers]
        taken.shape = (len(numbers), self.shape[1])
        taken.shift = 0.0
        return taken

    def part(self, numbers: IntArray | None) -> Self:
        """Return the targets of these rows (None: all), in memory if these are not taken from others."""
        if self.rows is None:
            return super().part(numbers)
        return self.taken(np.arange(self.shape[0]) if numbers is None else numbers)

    def _block(self, where: slice) -> Float64Array:
        return self.encode(self.values[where if self.rows is None else self.rows[where]])


class ClassTargets(Targets):
    """Labels as columns of ±1: one column for two classes, else one for each.

    ``classes`` names them all where the rows at hand may lack some; ``regressor`` is what an error recommends
    for numbers.
    """

    def __init__(
        self, y: ArrayLike, n_rows: int, classes: Array | None = None, *, regressor: str = "KernelRidge"
    ) -> None:
        array = label_array(y)
        _check_length(array, n_rows)
        #: Whether the classes are given, so that these rows may lack some.
        self._named = classes is not None
        if classes is None:
            classes = found_classes(array, regressor)
            _refuse_written(classes, n_rows, regressor)
        if len(classes) < 2:
            raise InputError(
                f"y has one class ({quoted(classes.tolist()[0])}); a classifier needs at least 2 classes. "
                "Check how y was selected."
            )
        self.classes = classes
        self.values = array
        self.shape = (n_rows, 1 if len(classes) == 2 else len(classes))

    def encode(self, values: Array) -> Float64Array:
        """Return ±1 for each class, shape (rows, outputs)."""
        codes = class_codes(self.classes, values)
        if len(self.classes) == 2:
            return 2.0 * codes.astype(np.float64)[:, None] - 1.0
        block = np.full((len(codes), len(self.classes)), -1.0)
        block[np.arange(len(codes)), codes] = 1.0
        return block

    def codes(self, where: slice) -> Array:
        """Return the class number of each row."""
        return class_codes(self.classes, self.values[where])

    def weights(self, class_weight: object, sample_weight: ArrayLike | None) -> Array | None:
        """Return row weights: the sample's times the class's; None where both are None."""
        weights = checked_weights(sample_weight, self.shape[0])
        if class_weight is not None:
            per_class = self._per_class(class_weight, weights)
            work = partial(_row_weights, self.classes, per_class)
            weights = np.concatenate(list(map_values(work, self.values, weights)))
            refuse_heavy("sample_weight times class_weight", weights)
            if not (self._named or weights.any()):
                raise InputError(
                    "sample_weight times class_weight is 0 for all rows; give a class that has rows of "
                    "weight above 0 a positive weight."
                )
        return weights

    def mass(self, weights: Array | None) -> Array:
        """Return the sum of the weights of each class."""
        mass = np.zeros(len(self.classes))
        for part in map_values(partial(_class_mass, self.classes), self.values, weights):
            mass += part
        return mass

    def _per_class(self, class_weight: object, sample: Array | None) -> Array:
        if isinstance(class_weight, str):
            if class_weight != "balanced":
                raise InputError(
                    f"class_weight={quoted(class_weight)} is unknown. Give None, 'balanced' or a dict from "
                    "class to weight." + did_you_mean(class_weight, ["balanced"])
                )
            mass = self.mass(sample)
            safe = np.where(mass > 0, mass, 1.0)
            return mass.sum() / (np.count_nonzero(mass) * safe)
        if not isinstance(class_weight, dict):
            raise InputError(
                f"class_weight={quoted(class_weight)} has type {type(class_weight).__name__}. Give None, "
                "'balanced' or a dict from class to weight."
            )
        self._warn_of_near_names(class_weight)
        for label, value in class_weight.items():
            real = isinstance(value, numbers.Real) and not isinstance(value, bool)
            if not real or not 0 <= float(value) < float("inf"):
                raise InputError(
                    f"class_weight gives {quoted(value)} to class {quoted(label)}; give a finite number of "
                    "at least 0."
                )
        return np.asarray([float(class_weight.get(c, 1.0)) for c in self.classes])

    def _warn_of_near_names(self, class_weight: dict[object, object]) -> None:
        """Warn of a label that is no class, if a class that is not named is written much like it.

        Any other label is that of a class which these rows lack, as a fold of cross-validation may.
        """
        known = self.classes.tolist()
        unnamed = [str(c) for c in known if c not in class_weight]
        for label in class_weight:
            word = isinstance(label, str) and label.isalpha()
            near = "" if label in known else did_you_mean(label, unnamed, cutoff=0.7 if word else 1.0)
            if near:
                warnings.warn(
                    f"class_weight names {quoted(label)}, which is not a class of y "
                    f"({_listed(self.classes)}), so that it has no effect.{near}",
                    UserWarning,
                    stacklevel=user_level(),
                )


class Signs:
    """Class codes in memory, read as columns of ±1: one column for two classes, else one for each."""

    def __init__(self, labels: ClassTargets) -> None:
        self._n_classes = len(labels.classes)
        # Codes of a byte or two a row.
        self.codes = labels.codes(slice(None)).astype(np.min_scalar_type(-self._n_classes))
        self.shape = labels.shape

    def __getitem__(self, where: slice) -> Float64Array:
        codes = self.codes[where]
        if self._n_classes == 2:
            return 2.0 * codes[:, None] - 1.0
        block = np.full((len(codes), self._n_classes), -1.0)
        block[np.arange(len(codes)), codes] = 1.0
        return block


def class_codes(labels: Array, values: Array) -> Array:
    """Return the class number of each value; raise for one that is no class. ``labels`` are the classes'."""
    classes, values = comparable(labels, values)
    try:
        codes = np.minimum(np.searchsorted(classes, values), len(classes) - 1)
    except TypeError:  # labels that cannot be compared with the classes
        check_labels(np.concatenate([labels.astype(object), values]))
        raise
    wrong = classes[codes] != values
    if wrong.any():
        raise InputError(
            f"y holds {quoted(values[wrong].tolist()[0])}, which is not one of the classes "
            f"({_listed(labels)}). Name all classes at the first call."
        )
    return codes


def _class_mass(labels: Array, values: Array, weights: Array | None) -> Array:
    """Return the sum of the weights of each class."""
    return np.bincount(class_codes(labels, values), weights=weights, minlength=len(labels))


def _row_weights(labels: Array, per_class: Array, values: Array, weights: Array | None) -> Array:
    """Return the weight of each row: its own times its class's."""
    own = per_class[class_codes(labels, values)]
    return own if weights is None else weights * own


def _read_as_numbers(array: Array | StoredColumn, classifier: str) -> Array:
    """Return a target of objects or text as float64; raise with what it is where that is no number."""
    refuse_times("y", array)
    values = np.asarray(array)
    if values.dtype.kind == "O" and any(gone := list(map(is_missing, values.ravel().tolist()))):
        row = named_row(np.reshape(gone, values.shape))
        raise InputError(f"Input y contains NaN or another missing value{row}. Drop such rows first.")
    try:
        return values.astype(object).astype(np.float64)  # errors then quote text as Python does
    except (TypeError, ValueError) as error:
        cure = written_advice([str(value) for value in values.ravel()[:BLOCK].tolist()])
        raise InputError(
            f"y has dtype {array.dtype} and cannot be read as numbers ({shortened(str(error))}). "
            + (cure or f"For class labels use {classifier}.")
        ) from None


def _refuse_written(classes: Array, n_rows: int, regressor: str) -> None:
    """Raise for text that looks like numbers or times of day, of which nearly every row has its own."""
    if not MOST_OF_TEXT < len(classes) > n_rows / 2 or classes.dtype.kind not in "OUT":
        return
    if advice := written_advice(list(map(str, classes.tolist()))):
        raise InputError(
            f"y holds {len(classes):,} different texts in {n_rows:,} rows. {advice} Then use {regressor}."
        )


def _listed(labels: Array) -> str:
    return listed(labels.tolist())


def _check_squares(values: Array, first: int | None = None) -> None:
    """Raise for targets that are not finite, or whose squared errors would overflow."""
    check_finite(values, first)
    largest = float(max(values.max(initial=0), -values.min(initial=0))) if values.dtype == np.float64 else 0.0
    if largest > LARGEST:
        raise InputError(
            f"y holds a value of size {largest:.3g}; numbers beyond {LARGEST:g} are refused: squared errors "
            "would overflow. Divide y by its size."
        )


def _check_length(y: Array | StoredColumn, n_rows: int) -> None:
    if y.ndim and y.shape[0] != n_rows:
        raise InputError(
            f"X has {n_rows} rows, but y has {y.shape[0]}. Found input variables with inconsistent "
            "numbers of samples; give one target for each row."
        )
