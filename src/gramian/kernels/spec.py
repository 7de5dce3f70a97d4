"""Conversion of kernels to plain dicts that JSON can hold, and back; model files store kernels this way."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from gramian.exceptions import InputError, ModelFileError
from gramian.kernels.base import Constant, FunctionKernel, Kernel, Product, Scaled, Sum
from gramian.kernels.mapped import OnFeatures, Periodic
from gramian.kernels.resolve import FAMILIES

_LISTED: tuple[type[Any], ...] = (*FAMILIES, Constant, OnFeatures, Periodic, Product, Scaled, Sum)
_CLASSES = {kind.__name__: kind for kind in _LISTED}
#: Key of the family's name.
_KIND = "family"


def kernel_to_spec(kernel: Kernel) -> dict[str, Any]:
    """Return a kernel as a dict of strings, numbers, lists and dicts.

    Parameters
    ----------
    kernel : any family, or a sum, product or scaling of them

    Returns
    -------
    dict with ``"family"`` and the fields of that family; :func:`kernel_from_spec` reads it

    Raises
    ------
    InputError
        For a :class:`FunctionKernel` or a user's own class, whose code a file cannot hold.

    >>> from gramian import Gaussian
    >>> kernel_to_spec(Gaussian(lengthscale=2.0))
    {'family': 'Gaussian', 'lengthscale': 2.0}
    """
    if isinstance(kernel, FunctionKernel):
        raise InputError(
            f"{kernel!r} is a function, whose code a model file cannot hold. Save the model with pickle, or "
            "use a kernel built from gramian's families."
        )
    name = type(kernel).__name__
    if _CLASSES.get(name) is not type(kernel):
        raise InputError(
            f"{kernel!r} has type {name}; expected one of {', '.join(_CLASSES)}. Save the model with pickle, "
            "or use a kernel built from these."
        )
    spec: dict[str, Any] = {_KIND: name}
    for field in fields(kernel):  # type: ignore[arg-type]
        value = getattr(kernel, field.name)
        if isinstance(value, Kernel):
            value = kernel_to_spec(value)
        spec[field.name] = list(value) if isinstance(value, tuple) else value
    return spec


def kernel_from_spec(spec: object) -> Kernel:
    """Return the kernel that :func:`kernel_to_spec` wrote.

    Raises
    ------
    ModelFileError
        For a dict that names no family, or whose fields are not that family's.

    >>> kernel_from_spec({"family": "Gaussian", "lengthscale": 2.0})
    Gaussian(lengthscale=2.0)
    """
    try:
        return _read(spec)
    except RecursionError:
        raise ModelFileError(
            "the stored kernel is nested too deeply. The file is damaged: save the model again."
        ) from None


def _read(spec: object) -> Kernel:
    if not isinstance(spec, Mapping) or not isinstance(spec.get(_KIND), str):
        raise ModelFileError(
            f"the kernel is stored as {reprlib.repr(spec)}; expected a dict with the key {_KIND!r}. "
            "The file is damaged: save the model again."
        )
    name = spec[_KIND]
    if name not in _CLASSES:
        raise ModelFileError(
            f"the kernel family {name!r} is not one of {', '.join(_CLASSES)}. The file may come from a newer "
            "version: upgrade gramian."
        )
    known = {field.name: field for field in fields(_CLASSES[name])}
    values = {key: value for key, value in spec.items() if key != _KIND}
    required = {key for key, field in known.items() if field.default is MISSING}
    if not required <= set(values) <= set(known):
        stored = sorted(map(str, values))
        raise ModelFileError(
            f"the kernel {name} is stored with the fields {stored}; expected {sorted(known)}. The "
            "file is damaged or comes from a newer version: upgrade gramian, or save the model again."
        )
    for key, value in values.items():
        if known[key].type == "Kernel":
            values[key] = _read(value)
    try:
        kernel: Kernel = _CLASSES[name](**values)
    except InputError as error:
        raise ModelFileError(f"the kernel {name} is stored with a bad value: {error}") from error
    return kernel
