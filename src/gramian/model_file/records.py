"""Fitted estimators and their parts as JSON and arrays, and back: one layout for all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array
from gramian.exceptions import InputError, ModelFileError, quoted
from gramian.model_file.container import CURE, PLAIN_KINDS
from gramian.model_file.estimators import (
    KNOWN,
    check_answer,
    check_learned,
    feature_names,
    is_known,
    set_feature_names,
)
from gramian.model_file.recipes import RECIPES, make_part
from gramian.model_file.structure import check_shape, require
from gramian.model_file.values import Values

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


class PartRecords(Values):
    """Converter for fitted parts: those of :data:`RECIPES`, sparse rows, texts, arrays in any layout."""

    @property
    def plain(self) -> Values:
        """Converter with the same arrays for parameters from users: finite numbers, no fitted parts."""
        return Values(self.arrays, self.room, self._names)

    def write_model(self, model: BaseEstimator) -> dict[str, Any]:
        """Return class, parameters and learned attributes of a fitted estimator."""
        # First what is learned: that a kernel is a function is said best of the kernel itself.
        learned = {name: self.write(name, value) for name, value in model._state().items()}
        return {
            "class": type(model).__name__,
            "params": self.plain.write_params(model),
            "n_features": model.n_features_in_,
            "feature_names": feature_names(model),
            "learned": learned,
        }

    def read_model(self, stored: Mapping[str, Any]) -> Any:
        """Return the fitted estimator of :meth:`write_model`, checked by its answers to two rows."""
        name = stored["class"]
        if name not in KNOWN:
            raise ModelFileError(
                f"the model is a {name!r}; expected one of {', '.join(KNOWN)}. The file may come from a "
                "newer version: upgrade gramian."
            )
        model = self.read_params(KNOWN[name], stored["params"])
        n_features = stored["n_features"]
        # Every model has a number or more for each feature, and a row of them is asked below.
        fits = type(n_features) is int and 0 < n_features <= self.room.most
        require(fits, f"a model has {quoted(n_features)} features, which is no number that the file can hold")
        model.n_features_in_ = n_features
        known = model._learned_names()
        for attribute in stored["learned"]:
            if attribute not in known:
                raise ModelFileError(f"{attribute!r} is not something that a {name} learns. {CURE}")
        learned = {key: self.read(value) for key, value in stored["learned"].items()}
        check_learned(KNOWN[name], learned)
        model._restore(learned)
        check_answer(model)
        set_feature_names(model, stored["feature_names"])  # behind the check, whose row has no names
        return model

    def write(self, where: str, value: object) -> Any:
        """Return JSON for a value, and store its arrays separately."""
        name = type(value).__name__
        if is_known(value):
            return {"model": self.write_model(value)}
        if name in RECIPES:
            parts = RECIPES[name].parts(value)
            return {"record": name, "parts": {k: self.write(f"{where}.{k}", v) for k, v in parts.items()}}
        if sp.issparse(value):
            parts = {part: self.write(where, getattr(value, part)) for part in ("data", "indices", "indptr")}
            shape: Any = value.shape  # type: ignore[attr-defined]
            return {"csr": parts, "shape": list(shape), "matrix": isinstance(value, sp.csr_matrix)}
        if isinstance(value, np.ndarray):
            return self._array(where, value)
        if isinstance(value, np.dtype):
            return {"dtype": value.name}
        if isinstance(value, slice):
            return {"slice": [value.start, value.stop]}
        if isinstance(value, float | np.floating) and not math.isfinite(value):
            return {"number": repr(float(value))}
        return super().write(where, value)

    def _array(self, where: str, value: Array) -> Any:
        if value.ndim == 0:
            return self.write(where, value.item())
        if value.dtype == object and all(isinstance(text, str) for text in value.ravel()):
            return {"texts": [str(text) for text in value.ravel()]}
        if value.dtype.kind not in PLAIN_KINDS:
            raise InputError(
                f"{where} holds {value.dtype} with other things than text ({quoted(value.flat[0])}), which a "
                "model file cannot hold. Fit with numbers or text as labels."
            )
        if value.flags.c_contiguous:
            return super().write(where, value)
        # Keep the order of the axes, since it changes how products are rounded.
        axes = sorted(range(value.ndim), key=lambda axis: -abs(value.strides[axis]))
        plain = np.ascontiguousarray(value.transpose(axes))
        return {"laid": super().write(where, plain), "axes": axes}

    def read(self, stored: Any) -> Any:
        """Return the value from the JSON of :meth:`write`."""
        if not isinstance(stored, dict):
            return stored
        if "record" in stored:
            name = stored["record"]
            if name not in RECIPES:
                known = ", ".join(RECIPES)
                raise ModelFileError(f"the part {name!r} is not one of {known}. {CURE}")
            parts = {part: self.read(value) for part, value in stored["parts"].items()}
            return make_part(name, parts, self.room.most)
        if "model" in stored:
            return self.read_model(stored["model"])
        if "csr" in stored:
            return self._sparse(stored)
        if "texts" in stored:
            require(all(isinstance(text, str) for text in stored["texts"]), "a list of texts holds others")
            texts = np.empty(len(stored["texts"]), object)
            texts[:] = stored["texts"]
            return texts
        if "laid" in stored:
            return self.read(stored["laid"]).transpose(np.argsort(stored["axes"]))
        if "dtype" in stored:
            return np.dtype(str(stored["dtype"]))
        if "slice" in stored:
            return slice(*stored["slice"])
        if "number" in stored:
            return float(stored["number"])
        return super().read(stored)

    def _sparse(self, stored: Mapping[str, Any]) -> Any:
        """Return CSR rows, of sizes and numbers of columns that were checked."""
        data, indices, indptr = (self.read(stored["csr"][name]) for name in ("data", "indices", "indptr"))
        n, d = stored["shape"]
        whole = all(type(size) is int for size in (n, d))
        require(whole and 0 < d <= self.room.most, f"sparse rows have the shape {quoted((n, d))}")
        check_shape("indptr", indptr, (n + 1,))
        check_shape("indices", indices, data.shape)
        require(data.dtype.kind in "fiub" and np.isfinite(data).all(), "sparse rows hold NaN or infinity")
        rows = (sp.csr_matrix if stored["matrix"] else sp.csr_array)((data, indices, indptr), shape=(n, d))
        rows.check_format(full_check=True)  # bounds of every row and column
        return rows
