"""Fitted estimators and their parts as JSON and arrays, and back: one layout for all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from itertools import accumulate
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

from gramian._typing import Array
from gramian.compression.builder import Builder, sizes_of
from gramian.estimator.constraints import check_parameters
from gramian.exceptions import InputError, ModelFileError, quoted
from gramian.kernels import Kernel
from gramian.kernels.columns import Columns
from gramian.kernels.resolve import kernel_from_spec, kernel_to_spec
from gramian.model_file.container import CURE, LEAST_ROOM, PLAIN_KINDS, extent, require
from gramian.model_file.estimators import FINITE, check_answer, feature_names, set_feature_names
from gramian.model_file.parts import KNOWN, PARAMETERS
from gramian.model_file.registry import PARTS, check_shape, is_finite
from gramian.solvers.solution import Solution, Status

#: Uses of the bytes of a file by parts that share arrays: models of an ensemble share their training rows.
#: Chosen by hand.
SHARED = 32
#: Parameters that may be any object and that a fitted model no longer needs.
LEFT_OUT = ("teacher", "checkpoint", "engine")


class PartRecords:
    """Converter of models and values to JSON and back; ``arrays`` keeps arrays under names of its own.

    ``file_bytes`` is the size of the file that is read: it bounds every single count, such as the length of
    an empty array's other axis, and a multiple of it the arrays of all parts. Parts may share an array, and
    each of them may compute another array of that size from it.
    """

    def __init__(self, arrays: dict[str, Array], file_bytes: float = math.inf) -> None:
        self.arrays, self._names = arrays, dict[int, str]()
        self._most = max(file_bytes, LEAST_ROOM)
        self._left = SHARED * self._most

    # ---- estimators ----------------------------------------------------------------------------------------

    def write_model(self, model: BaseEstimator) -> dict[str, Any]:
        """Return class, parameters and learned attributes of a fitted estimator."""
        # First what is learned: that a kernel is a function is said best of the kernel itself.
        learned = {name: self.write(name, value) for name, value in model._state().items()}
        return {
            "class": type(model).__name__,
            "params": self._write_params(model),
            "n_features": model.n_features_in_,
            "feature_names": feature_names(model),
            "learned": learned,
        }

    def _write_params(self, estimator: BaseEstimator) -> dict[str, Any]:
        """Return constructor parameters; a generator and those of :data:`LEFT_OUT` become None."""
        params = estimator.get_params(deep=False)
        params.update({name: None for name in LEFT_OUT if name in params})
        if not isinstance(params.get("random_state", 0), int | np.integer):
            params["random_state"] = None
        return {name: self._write_param(name, value) for name, value in params.items()}

    def _write_param(self, name: str, value: object) -> Any:
        if isinstance(value, FrozenEstimator):
            value = value.estimator  # the model has its landmarks; a new fit would choose others
        kind = type(value).__name__
        if isinstance(value, BaseEstimator) and kind in PARAMETERS:
            return {"approximation": kind, "params": self._write_params(value)}
        if not isinstance(value, np.ndarray) and not is_finite(value):
            raise InputError(f"{name}={value!r} cannot be stored: a model file holds finite numbers only.")
        return self.write(name, value)

    def read_model(self, stored: Mapping[str, Any]) -> Any:
        """Return the fitted estimator of :meth:`write_model`, checked by its answers to two rows."""
        name = stored["class"]
        if name not in KNOWN:
            raise ModelFileError(
                f"the model is a {name!r}; expected one of {', '.join(KNOWN)}. The file may come from a "
                "newer version: upgrade gramian."
            )
        model = self._read_params(KNOWN[name], stored["params"])
        n_features = stored["n_features"]
        # Every model has a number or more for each feature, and a row of them is asked below.
        fits = type(n_features) is int and 0 < n_features <= self._most
        require(fits, f"a model has {quoted(n_features)} features, which is no number that the file can hold")
        model.n_features_in_ = n_features
        unknown = [each for each in stored["learned"] if each not in model._learned_names()]
        require(not unknown, f"{''.join(unknown[:1])!r} is not something that a {name} learns")
        learned = {key: self.read(value) for key, value in stored["learned"].items()}
        for each in FINITE:
            finite = each not in learned or is_finite(learned[each])
            require(finite, f"{each!r} of a {name} holds NaN or infinity")
        model._restore(learned)
        check_answer(model)
        set_feature_names(model, stored["feature_names"])  # behind the check, whose row has no names
        return model

    def _read_params(self, kind: type[Any], stored: Mapping[str, Any]) -> Any:
        """Return a new estimator with the stored parameters and defaults for missing ones."""
        unknown = sorted(set(stored) - set(signature(kind).parameters))
        if unknown:
            raise ModelFileError(
                f"{kind.__name__} is stored with the parameter {unknown[0]!r}, which it does not have "
                "here. The file comes from a newer version: upgrade gramian."
            )
        found = kind(**{name: self.read(value) for name, value in stored.items()})
        check_parameters(found)
        return found

    # ---- values --------------------------------------------------------------------------------------------

    def write(self, where: str, value: object) -> Any:
        """Return JSON for a value, and store its arrays; ``where`` names it in the error for one without."""
        if isinstance(value, Solution):
            value = replace(value, value=np.empty(0))  # it is as long as the training rows
        if isinstance(value, Builder):
            value = sizes_of(value)
        if isinstance(value, np.generic):
            value = value.item()
        kind = type(value)
        if isinstance(value, BaseEstimator) and KNOWN.get(kind.__name__) is kind:
            return {"model": self.write_model(value)}
        part = PARTS.get(kind.__name__)
        if part is not None and part.kind is kind:
            parts = {name: self.write(f"{where}.{name}", each) for name, each in part.take(value).items()}
            return {"record": kind.__name__, "parts": parts}
        match value:
            case Status():
                return {"status": value.name}
            case float() if not math.isfinite(value):
                return {"number": repr(value)}
            case None | bool() | int() | float():
                return value
            case str():
                return str(value)
            case tuple() if (together := _stacked(value)) is not None:
                return {"stacked": self.write(where, together), "rows": [each.shape[0] for each in value]}
            case list() | tuple():
                return {type(value).__name__: [self.write(f"{where}[{i}]", v) for i, v in enumerate(value)]}
            case dict():
                pairs = [[self.write(where, k), self.write(f"{where}[{k!r}]", v)] for k, v in value.items()]
                return {"dict": pairs}
            case slice():
                return {"slice": [value.start, value.stop]}
            case np.dtype():
                return {"dtype": value.name}
            case np.ndarray():
                return self._write_array(where, value)
            case Kernel():
                return {"kernel": kernel_to_spec(value)}
            case Columns():
                return None  # of landmarks, which tell them
        if sp.issparse(value):
            parts = {name: self.write(where, getattr(value, name)) for name in ("data", "indices", "indptr")}
            shape: Any = value.shape  # type: ignore[attr-defined]
            return {"csr": parts, "shape": list(shape), "matrix": isinstance(value, sp.csr_matrix)}
        raise InputError(
            f"{where}={value!r} has type {type(value).__name__}, which a model file cannot hold. Set it to "
            "a number, a text or an array, or save the model with pickle."
        )

    def _write_array(self, where: str, value: Array) -> Any:
        if value.ndim == 0:
            return self.write(where, value.item())
        if value.dtype == object and all(isinstance(text, str) for text in value.ravel()):
            return {"texts": [str(text) for text in value.ravel()]}
        if value.dtype.kind not in PLAIN_KINDS:
            raise InputError(
                f"{where} holds {value.dtype} with other things than text ({quoted(value.flat[0])}), which a "
                "model file cannot hold. Fit with numbers or text as labels."
            )
        if not value.flags.c_contiguous:
            # Keep the order of the axes, since it changes how products are rounded.
            axes = sorted(range(value.ndim), key=lambda axis: -abs(value.strides[axis]))
            plain = np.ascontiguousarray(value.transpose(axes))
            return {"laid": self._write_array(where, plain), "axes": axes}
        # A plan refers to the same points as the estimator's parameters: store them once.
        name = self._names.setdefault(id(value), f"value_{len(self._names)}")
        self.arrays[name] = value
        return {"array": name}

    def read(self, stored: Any) -> Any:
        """Return the value from the JSON of :meth:`write`."""
        match stored:
            case {"record": name, "parts": parts}:
                if name not in PARTS:
                    known = ", ".join(sorted(PARTS))
                    raise ModelFileError(f"the part {name!r} is not one of {known}. {CURE}")
                return PARTS[name].made({key: self.read(each) for key, each in parts.items()}, self._most)
            case {"model": model}:
                return self.read_model(model)
            case {"approximation": name, "params": params}:
                require(name in PARAMETERS, f"the class {name!r} is no estimator that a file holds")
                return self._read_params(PARAMETERS[name], params)
            case {"status": name}:
                return Status[name]
            case {"number": text}:
                return float(text)
            case {"list": items}:
                return [self.read(each) for each in items]
            case {"tuple": items}:
                return tuple(self.read(each) for each in items)
            case {"stacked": rows, "rows": counts}:
                together = self.read(rows)
                require(min(counts) >= 0, "an array has a negative number of rows")
                check_shape("arrays together", together, (sum(counts), *together.shape[1:]))
                return tuple(together[end - n : end] for n, end in zip(counts, accumulate(counts)))
            case {"dict": pairs}:
                keys = [self.read(key) for key, _ in pairs]
                twice = len(set(keys)) < len(keys)
                require(not twice, f"a table of {len(keys)} values names one of them twice")
                return dict(zip(keys, (self.read(value) for _, value in pairs)))
            case {"slice": ends}:
                return slice(*ends)
            case {"dtype": name}:
                return np.dtype(str(name))
            case {"texts": items}:
                require(all(isinstance(text, str) for text in items), "a list of texts holds others")
                texts = np.empty(len(items), object)
                texts[:] = items
                return texts
            case {"laid": plain, "axes": axes}:
                return self.read(plain).transpose(np.argsort(axes))
            case {"array": name}:
                array = self.arrays[name]
                self._left -= extent(array.shape, array.dtype)
                if self._left < 0:
                    raise ModelFileError(
                        "its parts use the same arrays over and over, in all more than "
                        f"{SHARED} times the bytes of the file. {CURE}"
                    )
                return array
            case {"kernel": spec}:
                return kernel_from_spec(spec)
            case {"csr": parts, "shape": shape, "matrix": matrix}:
                return self._read_sparse(parts, shape, matrix)
            case dict():
                raise ValueError(f"no value is stored as {quoted(stored)}")
        return stored

    def _read_sparse(self, parts: Mapping[str, Any], shape: list[int], matrix: bool) -> Any:
        """Return CSR rows, of sizes and numbers of columns that were checked."""
        data, indices, indptr = (self.read(parts[name]) for name in ("data", "indices", "indptr"))
        n, d = shape
        whole = all(type(size) is int for size in (n, d))
        require(whole and 0 < d <= self._most, f"sparse rows have the shape {quoted((n, d))}")
        check_shape("indptr", indptr, (n + 1,))
        check_shape("indices", indices, data.shape)
        require(data.dtype.kind in "fiub" and np.isfinite(data).all(), "sparse rows hold NaN or infinity")
        rows = (sp.csr_matrix if matrix else sp.csr_array)((data, indices, indptr), shape=(n, d))
        rows.check_format(full_check=True)  # bounds of every row and column
        return rows


def _stacked(values: tuple[Any, ...]) -> Any:
    """Return several arrays, or sparse rows, of one kind as one; None for anything else."""
    kinds = {_kind(each) for each in values}
    if len(values) < 2 or len(kinds) > 1 or None in kinds:
        return None
    return sp.vstack(values, format="csr") if sp.issparse(values[0]) else np.concatenate(values)


def _kind(value: Any) -> Any:
    """Return what arrays that are stored together have in common; None for an array of its own."""
    if isinstance(value, np.ndarray):
        alone = not value.ndim or not value.flags.c_contiguous or value.dtype.kind not in PLAIN_KINDS
        return None if alone else (value.dtype, value.shape[1:])
    sparse = bool(sp.issparse(value))
    return (type(value), value.dtype, value.shape[1:]) if sparse else None
