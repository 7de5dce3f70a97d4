"""Targets as the passes read them: a few thousand rows at a time, never expanded whole."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray
from gramian.estimators.base import checked_weights
from gramian.exceptions import InputError, did_you_mean

_BLOCK = 65_536


class Targets:
    """Numbers of shape (n, outputs), produced for a slice of rows and shifted by ``shift``."""

    shape: tuple[int, int]
    shift: Float64Array | float = 0.0

    def _block(self, where: slice) -> Float64Array:
        raise AssertionError("each kind of target defines its block")

    def __getitem__(self, where: slice) -> Float64Array:
        return self._block(where) - self.shift

    def mean(self, weights: Array | None) -> Float64Array:
        """Return the weighted mean of each column, accumulated in float64."""
        total, mass = np.zeros(self.shape[1]), 0.0
        for where in row_slices(self.shape[0], _BLOCK):
            block = self._block(where)
            w = np.ones(len(block)) if weights is None else weights[where]
            total += w @ block
            mass += float(w.sum())
        return total / mass


class NumberTargets(Targets):
    """Real targets y of shape (n,) or (n, outputs); ``flat`` says which."""

    def __init__(self, y: Any, n_rows: int) -> None:
        if sp.issparse(y):
            raise InputError("y is a sparse matrix; pass a dense array of shape (n,) or (n, outputs).")
        array = np.asarray(y)
        if array.ndim == 2 and array.shape[1] == 1:
            array = column_or_1d(array, warn=True)
        _check_length(array, n_rows)
        if array.ndim > 2 or array.ndim < 1 or array.size == 0:
            raise InputError(f"y has shape {array.shape}; expected ({n_rows},) or ({n_rows}, outputs).")
        if array.dtype.kind == "c":
            raise InputError("Complex data not supported: y must hold real numbers.")
        if array.dtype.kind not in "fiub":
            try:
                array = array.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise InputError(
                    f"y has dtype {array.dtype} and cannot be read as numbers ({error}). For class "
                    "labels use KernelRidgeClassifier."
                ) from None
        for where in row_slices(len(array), _BLOCK):
            if array.dtype.kind == "f" and not np.isfinite(array[where]).all():
                raise InputError("Input y contains NaN or infinity. Drop such rows first.")
        self._y = array
        self.flat = array.ndim == 1
        self.shape = (n_rows, 1 if self.flat else array.shape[1])

    def _block(self, where: slice) -> Float64Array:
        block = np.asarray(self._y[where], np.float64)
        return block.reshape(len(block), self.shape[1])


class TakenTargets(NumberTargets):
    """The targets of some rows, which are read as they are asked for."""

    def __init__(self, targets: NumberTargets, numbers: IntArray) -> None:
        self._y, self._numbers, self.flat = targets._y, numbers, targets.flat
        self.shape = (len(numbers), targets.shape[1])

    def _block(self, where: slice) -> Float64Array:
        block = np.asarray(self._y[self._numbers[where]], np.float64)
        return block.reshape(len(block), self.shape[1])


class ClassTargets(Targets):
    """Labels as columns of ±1: one column for two classes, else one for each."""

    def __init__(self, y: Any, n_rows: int) -> None:
        array = column_or_1d(np.asarray(y), warn=True)
        _check_length(array, n_rows)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError("Input y contains NaN or infinity. Drop such rows first.")
        check_classification_targets(array[:_BLOCK])
        found: Array = array[:0]
        for where in row_slices(n_rows, _BLOCK):
            found = np.unique(np.concatenate([found, np.unique(array[where])]))
        if found.dtype.kind == "f" and not (found == np.floor(found)).all():
            # The first block may hold whole numbers by chance.
            raise InputError(
                "Unknown label type: continuous. y holds fractions; for such targets use KernelRidge."
            )
        if len(found) < 2:
            raise InputError(
                f"y has one class ({found[0]!r}); a classifier needs at least 2 classes. Check how y "
                "was selected."
            )
        self.classes = found
        self._y = array
        self.shape = (n_rows, 1 if len(found) == 2 else len(found))

    def codes(self, where: slice) -> Array:
        """Return the class number of each row."""
        return np.searchsorted(self.classes, self._y[where])

    def _block(self, where: slice) -> Float64Array:
        codes = self.codes(where)
        if len(self.classes) == 2:
            return 2.0 * codes.astype(np.float64)[:, None] - 1.0
        block = np.full((len(codes), len(self.classes)), -1.0)
        block[np.arange(len(codes)), codes] = 1.0
        return block

    def weights(self, class_weight: Any, sample_weight: Any) -> Array | None:
        """Return row weights: the sample's times the class's; None where both are None."""
        sample = checked_weights(sample_weight, self.shape[0])
        if class_weight is None:
            return sample
        per_class = self._per_class(class_weight, sample)
        out = np.ones(self.shape[0]) if sample is None else sample.copy()
        for where in row_slices(self.shape[0], _BLOCK):
            out[where] *= per_class[self.codes(where)]
        return out

    def _per_class(self, class_weight: Any, sample: Array | None) -> Array:
        if isinstance(class_weight, str):
            if class_weight != "balanced":
                raise InputError(
                    f"class_weight={class_weight!r} is unknown. Give None, 'balanced' or a dict from "
                    "class to weight." + did_you_mean(class_weight, ["balanced"])
                )
            mass = np.zeros(len(self.classes))
            for where in row_slices(self.shape[0], _BLOCK):
                w = None if sample is None else sample[where]
                mass += np.bincount(self.codes(where), weights=w, minlength=len(mass))
            safe = np.where(mass > 0, mass, 1.0)
            return mass.sum() / (np.count_nonzero(mass) * safe)
        if not isinstance(class_weight, dict):
            raise InputError(
                f"class_weight={class_weight!r} has type {type(class_weight).__name__}. Give None, "
                "'balanced' or a dict from class to weight."
            )
        unknown = [c for c in class_weight if c not in self.classes]
        if unknown:
            raise InputError(
                f"class_weight names {unknown[0]!r}, which is not a class of y "
                f"({', '.join(map(str, self.classes))})."
            )
        for label, value in class_weight.items():
            real = isinstance(value, numbers.Real) and not isinstance(value, bool)
            if not real or not 0 <= float(value) < float("inf"):
                raise InputError(
                    f"class_weight gives {value!r} to class {label!r}; give a finite number of at least 0."
                )
        return np.asarray([float(class_weight.get(c, 1.0)) for c in self.classes])


def _check_length(y: Array, n_rows: int) -> None:
    if y.ndim and y.shape[0] != n_rows:
        raise InputError(
            f"X has {n_rows} rows, but y has {y.shape[0]}. Found input variables with inconsistent "
            "numbers of samples; give one target for each row."
        )
