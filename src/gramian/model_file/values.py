"""Conversion of parameters to JSON that keeps their types: tuples, dicts, arrays, kernels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from inspect import signature
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

from gramian._typing import Array
from gramian.approximations.approximation import Approximation
from gramian.approximations.methods import BUILDERS, METHODS
from gramian.compression.builder import Builder, sizes_of
from gramian.compression.plan import Plan
from gramian.estimator.constraints import check_parameters
from gramian.exact.exact import Exact
from gramian.exceptions import InputError, ModelFileError
from gramian.kernels import Kernel
from gramian.kernels.spec import kernel_from_spec, kernel_to_spec
from gramian.metric.learned_metric import LearnedMetric
from gramian.metric.metric import Metric
from gramian.model_file.container import CURE, LEAST_ROOM, PLAIN_KINDS, extent
from gramian.model_file.typed import check_parts

#: Uses of the bytes of a file by parts that share arrays: models of an ensemble share their training rows.
#: Chosen by hand.
SHARED = 32
Made = TypeVar("Made")
_APPROXIMATIONS: dict[str, type[BaseEstimator]] = {
    kind.__name__: kind for kind in (*METHODS.values(), Exact, LearnedMetric)
}
#: Parameters that may be any object and that a fitted model no longer needs.
LEFT_OUT = ("teacher", "checkpoint", "engine")
_BUILDERS: dict[str, type[Builder]] = {kind.__name__: kind for kind in BUILDERS}


class AllowedBytes:
    """Bytes that the parts of a model may take, from the size of its file; no limit without a size.

    Parts may share an array, and each of them may compute another array of that size from it. ``most`` bounds
    a single count, such as the length of an empty array's other axis.
    """

    def __init__(self, file_bytes: float = math.inf) -> None:
        self.most = max(file_bytes, LEAST_ROOM)
        self._left = SHARED * self.most

    def take(self, array: Array) -> None:
        """Count another use of an array, its empty axes as if they held one number."""
        self._left -= extent(array.shape, array.dtype)
        if self._left < 0:
            raise ModelFileError(
                f"its parts use the same arrays over and over, in all more than {SHARED} times the bytes of "
                f"the file. {CURE}"
            )


class Values:
    """Converter of values to JSON and back; arrays are kept in ``arrays`` under their own names."""

    def __init__(
        self, arrays: dict[str, Array], room: AllowedBytes | None = None, names: dict[int, str] | None = None
    ) -> None:
        self.arrays, self.room = arrays, room or AllowedBytes()
        self._names: dict[int, str] = {} if names is None else names

    def write(self, where: str, value: object) -> Any:
        """Return JSON for a value; ``where`` names it in the error for one that has none."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{where}={value!r} cannot be stored: a model file holds finite numbers only.")
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, list | tuple):
            return {type(value).__name__: [self.write(f"{where}[{i}]", v) for i, v in enumerate(value)]}
        if isinstance(value, dict):
            pairs = [[self.write(where, k), self.write(f"{where}[{k!r}]", v)] for k, v in value.items()]
            return {"dict": pairs}
        if isinstance(value, np.ndarray) and value.dtype.kind in PLAIN_KINDS and value.ndim:
            return {"array": self._store(value)}
        if isinstance(value, Kernel):
            return {"kernel": kernel_to_spec(value)}
        if isinstance(value, FrozenEstimator):
            value = value.estimator  # the model has its landmarks; a new fit would choose others
        if isinstance(value, Metric):
            return {"metric": self._fields(value)}
        if isinstance(value, Plan):
            return {"plan": self._fields(value, "builder"), "builder": self._builder(value.builder)}
        if isinstance(value, Approximation | Exact | LearnedMetric):
            return {"approximation": type(value).__name__, "params": self.write_params(value)}
        raise InputError(
            f"{where}={value!r} has type {type(value).__name__}, which a model file cannot hold. Set it to "
            "a number, a text or an array, or save the model with pickle."
        )

    def _store(self, array: Array) -> str:
        # A plan refers to the same points as the estimator's parameters: store them once.
        name = self._names.setdefault(id(array), f"value_{len(self._names)}")
        self.arrays[name] = array
        return name

    def read(self, stored: Any) -> Any:
        """Return the value from the JSON of :meth:`write`."""
        if not isinstance(stored, dict):
            return stored
        if "array" in stored:
            array = self.arrays[stored["array"]]
            self.room.take(array)
            return array
        if "kernel" in stored:
            return kernel_from_spec(stored["kernel"])
        if "metric" in stored:
            return Metric(**self._read_fields(stored["metric"]))
        if "plan" in stored:
            return self._plan(stored)
        if "approximation" in stored:
            kind = _known_class(stored["approximation"], _APPROXIMATIONS)
            return self.read_params(kind, stored["params"])
        if "dict" in stored:
            keys = [self.read(key) for key, _ in stored["dict"]]
            if len(set(keys)) < len(keys):
                raise ModelFileError(f"a table of {len(keys)} values names one of them twice. {CURE}")
            return dict(zip(keys, (self.read(value) for _, value in stored["dict"])))
        if "tuple" in stored:
            return tuple(self.read(value) for value in stored["tuple"])
        return [self.read(value) for value in stored["list"]]

    def write_params(self, estimator: BaseEstimator) -> dict[str, Any]:
        """Return an estimator's constructor parameters as JSON.

        A generator as ``random_state`` and the parameters of :data:`LEFT_OUT` become None.
        """
        params = estimator.get_params(deep=False)
        params.update({name: None for name in LEFT_OUT if name in params})
        if not isinstance(params.get("random_state", 0), int | np.integer):
            params["random_state"] = None
        return {name: self.write(name, value) for name, value in params.items()}

    def read_params(self, kind: type[Made], stored: Mapping[str, Any]) -> Made:
        """Return a new estimator with the stored parameters and defaults for missing ones."""
        return self._made(kind, signature(kind).parameters, stored)

    def _made(self, kind: type[Made], known: Iterable[str], stored: Mapping[str, Any]) -> Made:
        unknown = sorted(set(stored) - set(known))
        if unknown:
            raise ModelFileError(
                f"{kind.__name__} is stored with the parameter {unknown[0]!r}, which it does not have "
                "here. The file comes from a newer version: upgrade gramian."
            )
        found = kind(**{name: self.read(value) for name, value in stored.items()})
        if isinstance(found, BaseEstimator):
            check_parameters(found)
        return found

    def _builder(self, builder: Builder) -> dict[str, Any]:
        builder = sizes_of(builder)
        return {"class": type(builder).__name__, "fields": self._fields(builder)}

    def _fields(self, value: Any, *left_out: str) -> dict[str, Any]:
        names = [field.name for field in fields(value) if field.name not in left_out]
        return {name: self.write(name, getattr(value, name)) for name in names}

    def _read_builder(self, stored: Mapping[str, Any]) -> Builder:
        kind = _known_class(stored["class"], _BUILDERS)
        own = {field.name for field in fields(kind)}  # type: ignore[arg-type]
        return self._made(kind, own, stored["fields"])

    def _plan(self, stored: Mapping[str, Any]) -> Plan:
        parts = self._read_fields(stored["plan"])
        check_parts("Plan", Plan, parts, finite=False)
        plan = Plan(builder=self._read_builder(stored["builder"]), **parts)
        if min(plan.chunk_rows, plan.n_threads) < 1:
            raise ModelFileError(
                f"a plan has {plan.chunk_rows} rows a chunk and {plan.n_threads} threads; expected at least "
                f"1 of each. {CURE}"
            )
        return plan

    def _read_fields(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.read(value) for name, value in stored.items()}


def _known_class(name: Any, kinds: Mapping[str, type[Made]]) -> type[Made]:
    if name not in kinds:
        raise ModelFileError(f"the class {name!r} is not one of {', '.join(kinds)}. {CURE}")
    return kinds[name]
