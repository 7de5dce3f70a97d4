"""Kernels by scikit-learn's names and parameters, as estimators take them, and as dicts for JSON."""

from __future__ import annotations

import functools
import inspect
import numbers
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from gramian._checks import positive_number
from gramian.exceptions import InputError, ModelFileError, did_you_mean
from gramian.kernels.base import Constant, FunctionKernel, Kernel, Product, Scaled, Sum
from gramian.kernels.dot_products import Cosine, Linear, Polynomial
from gramian.kernels.families import (
    Cauchy,
    Exponential,
    Family,
    Gaussian,
    Laplacian,
    Matern,
    RationalQuadratic,
)
from gramian.kernels.mapped import OnFeatures, Periodic
from gramian.kernels.powered import PoweredExponential
from gramian.kernels.precomputed import Precomputed

#: Every family of kernels with a formula: names, model files, gradients and messages follow from this list.
FAMILIES: tuple[type[Family], ...] = (
    Gaussian,
    Laplacian,
    Exponential,
    Matern,
    RationalQuadratic,
    Cauchy,
    PoweredExponential,
    Polynomial,
    Linear,
    Cosine,
)
BY_NAME = {name: family for family in FAMILIES for name in family.names}

#: The name for kernel values passed in place of rows.
PRECOMPUTED = "precomputed"

#: The gamma that is 1/(n_features · X.var()), which needs the rows.
SCALE = "scale"

#: Names of kernels without a gamma.
WITHOUT_GAMMA = tuple(name for name, family in BY_NAME.items() if family.gamma_rule is None)

#: Every name of a formula that :func:`resolve_kernel` accepts.
KERNEL_NAMES = tuple(BY_NAME)

_REFUSED = {
    "sigmoid": "tanh(gamma x·z + coef0) is not positive semi-definite, so no approximation here is "
    "valid for it. Use 'rbf' or 'poly'",
    "chi2": "the chi-squared kernels are not offered. Use 'laplacian', or pass the callable "
    "sklearn.metrics.pairwise.chi2_kernel",
    "additive_chi2": "it is not positive semi-definite. Use 'laplacian'",
}


def resolve_kernel(
    kernel: object,
    *,
    n_features: int,
    gamma: float | str | None = None,
    degree: int = 3,
    coef0: float = 1.0,
    kernel_params: Mapping[str, Any] | None = None,
) -> Kernel:
    """Return the kernel that an estimator's parameters describe.

    A name stands for a formula in ``gamma``, as in ``sklearn.metrics.pairwise``: "rbf" (or
    "gaussian") exp(−γ‖x−z‖₂²); "laplacian" exp(−γ‖x−z‖₁); "exponential" (or "matern12")
    exp(−γ‖x−z‖₂); "matern32", "matern52" with lengthscale 1/γ; "rational_quadratic" 1/(1 + γ‖x−z‖²)
    and "cauchy" the same; "powered_exponential" exp(−γ‖x−z‖_p^q); "poly" (or "polynomial")
    (γ x·z + coef0)^degree; "linear" x·z and "cosine", which ignore gamma. "precomputed" means that kernel
    values are passed in place of rows.

    Parameters
    ----------
    kernel : a :class:`Kernel`, a name, or a callable f(X, Z) that returns the (n, m) block
    n_features : columns of the data; ``gamma=None`` means 1/n_features
    gamma : positive number; must be None for a :class:`Kernel` or a callable, which carry their own. "scale"
        is checked, but stands for None here: a caller that has the rows passes the number
    degree, coef0 : of "poly" only
    kernel_params : keyword arguments of a callable, bound in a copy; p and q of "powered_exponential"

    Returns
    -------
    Kernel

    Raises
    ------
    InputError
        For an unknown name, a parameter out of range, or one that does not go with ``kernel``.

    >>> resolve_kernel("rbf", n_features=3, gamma=0.5)
    Gaussian(lengthscale=1.0)
    """
    if gamma is not None:
        _check_gamma(gamma)
    powered = isinstance(kernel, str) and kernel in PoweredExponential.names
    own = isinstance(kernel, Kernel | str) or not callable(kernel)
    if kernel_params is not None and own and not powered:
        raise InputError(
            f"kernel_params={kernel_params!r} was given with kernel={kernel!r}, but it holds arguments of a "
            "callable kernel. Pass kernel_params=None."
        )
    if isinstance(kernel, Kernel):
        if gamma is not None:
            raise InputError(
                f"gamma={gamma!r} was given with {kernel!r}, but a Kernel instance carries its lengthscale. "
                "Pass gamma=None, or a name such as kernel='rbf'."
            )
        return kernel
    if isinstance(kernel, str) and kernel == PRECOMPUTED:
        if gamma is not None:
            raise InputError(
                f"gamma={gamma!r} was given with kernel='precomputed', whose values are computed already. "
                "Pass gamma=None."
            )
        return Precomputed()
    if isinstance(kernel, str):
        if powered:
            return _powered(_value(gamma, n_features), kernel_params)
        return _by_name(kernel, _value(gamma, n_features), degree, coef0)
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        raise InputError(
            f"kernel={kernel.__name__} is a class; expected an instance. Pass kernel={kernel.__name__}()."
        )
    if not callable(kernel):
        raise InputError(
            f"kernel={kernel!r} has type {type(kernel).__name__}; expected a name such as 'rbf', a gramian "
            "Kernel, or a callable f(X, Z) that returns an (n, m) array."
        )
    if gamma is not None:
        raise InputError(
            f"gamma={gamma!r} was given with a callable kernel, which has its own parameters. Pass "
            f"gamma=None and kernel_params={{'gamma': {gamma!r}}}."
        )
    return FunctionKernel(_bound(kernel, kernel_params))


def _value(gamma: float | str | None, n_features: int) -> float:
    return 1.0 / n_features if gamma is None or isinstance(gamma, str) else float(gamma)


def _by_name(name: str, gamma: float, degree: int, coef0: float) -> Kernel:
    if name in _REFUSED:
        raise InputError(f"kernel={name!r} is not available: {_REFUSED[name]}.")
    if name not in KERNEL_NAMES:
        known = sorted((*KERNEL_NAMES, PRECOMPUTED))
        names = ", ".join(map(repr, known))
        raise InputError(
            f"kernel={name!r} is not a known name.{did_you_mean(name, known)} Give one of {names}, a "
            "gramian Kernel, or a callable f(X, Z)."
        )
    if name not in Polynomial.names:
        return BY_NAME[name].by_name(name, gamma)
    if isinstance(coef0, bool) or not isinstance(coef0, numbers.Real) or not 0 <= coef0 < float("inf"):
        raise InputError(
            f"coef0={coef0!r} is not a number of at least 0. Give coef0 >= 0, else the polynomial kernel is "
            "not positive semi-definite."
        )
    return Polynomial(gamma**-0.5, degree=degree, offset=float(coef0))


def _powered(gamma: float, params: Mapping[str, Any] | None) -> Kernel:
    given = {} if params is None else params
    if not isinstance(given, Mapping) or not set(given) <= {"p", "q"}:
        raise InputError(
            f"kernel_params={params!r} was given with kernel='powered_exponential', which takes p and "
            "q. Pass for example kernel_params={'p': 1.0, 'q': 0.7}."
        )
    unit = PoweredExponential(**given)
    return PoweredExponential(gamma ** (-1.0 / unit.q), unit.p, unit.q)


def _check_gamma(gamma: object) -> None:
    if isinstance(gamma, str):
        if gamma != SCALE:
            raise InputError(
                f"gamma={gamma!r} is unknown here. Give a positive number, 'scale' for 1/(n_features · "
                f"X.var()), or None for 1/n_features.{did_you_mean(gamma, [SCALE])}"
            )
        return
    try:
        positive_number("gamma", gamma)
    except InputError as error:
        raise InputError(f"{error} gamma=None means 1/n_features.") from None


def _bound(function: Callable[..., Any], params: Mapping[str, Any] | None) -> Callable[..., Any]:
    if params and (not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params)):
        raise InputError(
            f"kernel_params={params!r} is not a dict of argument names and values. Pass for example "
            "kernel_params={'gamma': 0.5}."
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of some compiled functions
        signature = None
    if signature is not None:
        try:
            signature.bind(None, None, **(params or {}))
        except TypeError as error:
            raise InputError(
                f"kernel={function!r} cannot be called as f(X, Z, **kernel_params) with kernel_params="
                f"{params!r} ({error}). Give a function of two blocks of rows, and its other arguments in "
                "kernel_params."
            ) from None
    return functools.partial(function, **params) if params else function


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
