"""scikit-learn's preprocessing steps as parts of model files: their parameters and what they have learned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from gramian.exceptions import InputError, quoted
from gramian.model_file.container import require
from gramian.model_file.estimators import feature_names, set_feature_names
from gramian.model_file.registry import Parts, check_shape, describe_value, hold, holds, is_finite

#: Learned attributes of the steps that have numbers, or one for each feature.
SCALERS: dict[type[BaseEstimator], tuple[str, ...]] = {
    StandardScaler: ("mean_", "scale_", "var_", "n_samples_seen_"),
    MinMaxScaler: ("min_", "scale_", "data_min_", "data_max_", "data_range_", "n_samples_seen_"),
    RobustScaler: ("center_", "scale_"),
}
STEPS = (*SCALERS, OneHotEncoder, ColumnTransformer, Pipeline)
#: Containers that scikit-learn's steps can give.
OUTPUTS = ("default", "pandas", "polars")
#: Parameters of an encoder, other than its categories, that a file stores.
_ENCODER_PARAMS = ("drop", "sparse_output", "handle_unknown")


def check_step(where: str, step: BaseEstimator) -> None:
    """Raise for a step that is not fitted or that no file holds; ``where`` names it in the error."""
    if type(step) not in STEPS:
        known = ", ".join(kind.__name__ for kind in STEPS)
        raise InputError(
            f"{where} is a {type(step).__name__}, which a model file cannot hold. It holds {known}, "
            "'passthrough' and 'drop'. Save the model with pickle, or train on rows that are already "
            "transformed."
        )
    if isinstance(step, Pipeline):
        for name, one in step.steps:
            check_step(f"{where}, step {name!r}", one)
        return
    check_is_fitted(step)
    if isinstance(step, OneHotEncoder) and (step.min_frequency, step.max_categories) != (None, None):
        raise InputError(
            f"{where} groups infrequent categories (min_frequency or max_categories), which a model file "
            "cannot hold. Leave both None, or save the model with pickle."
        )
    if isinstance(step, ColumnTransformer):
        for name, one, _ in _transformers(step):
            if not isinstance(one, str):
                check_step(f"{where}, transformer {name!r}", one)


def check_chain(steps: Sequence[Any]) -> None:
    """Raise if fitted steps, or a model behind them, do not take the columns that the one before gives."""
    for step, after in pairwise(steps):
        width, wanted = width_of(step), after.n_features_in_
        require(width == wanted, f"the steps give {width} columns; expected {wanted}")


def width_of(step: BaseEstimator) -> int:
    """Return the number of columns that a fitted step gives; raise for anything that is no step."""
    require(type(step) in STEPS, f"a {type(step).__name__} is no step before a model")
    if isinstance(step, Pipeline):
        return width_of(step.steps[-1][1])
    if isinstance(step, ColumnTransformer):
        return max(part.stop for part in step.output_indices_.values())
    if isinstance(step, OneHotEncoder):
        dropped = 0 if step.drop_idx_ is None else sum(index is not None for index in step.drop_idx_)
        return sum(map(len, step.categories_)) - dropped
    return int(step.n_features_in_)


def _made_pipeline(kind: type[Pipeline], parts: dict[str, Any]) -> Pipeline:
    steps = [step for _, step in parts["steps"]]
    check_chain(steps)
    width_of(steps[-1])  # the last one is a step too
    return kind([*parts["steps"]])


hold(Pipeline, finite=False, take=lambda step: {"steps": tuple(step.steps)}, make=_made_pipeline)


def _common(step: BaseEstimator) -> dict[str, Any]:
    """Return what a file holds of every step."""
    output = getattr(step, "_sklearn_output_config", {}).get("transform")
    return {"n_features": int(step.n_features_in_), "names": feature_names(step), "output": output}


def _check_common(p: Parts) -> None:
    fits = type(p.n_features) is int and 0 < p.n_features <= p.most
    require(fits, f"a step has {quoted(p.n_features)} features, which is no number that the file can hold")
    known = p.output in (None, *OUTPUTS)
    require(known, f"a step gives {quoted(p.output)}; expected one of {OUTPUTS}")


def _finished(step: BaseEstimator, parts: dict[str, Any]) -> BaseEstimator:
    """Give a step that was made again what :func:`_common` took."""
    step.n_features_in_ = parts["n_features"]
    set_feature_names(step, parts["names"])
    return step if parts["output"] is None else step.set_output(transform=parts["output"])


# ---- scalers and encoders ----------------------------------------------------------------------------------

#: Learned numbers that a scaler lacks where these parameters are off.
WITHOUT = {
    "mean_": ("with_mean",),
    "center_": ("with_centering",),
    "scale_": ("with_std", "with_scaling"),
    "var_": ("with_std",),
}


def _scaler_parts(step: BaseEstimator) -> dict[str, Any]:
    learned = {name: getattr(step, name) for name in SCALERS[type(step)]}
    return {"params": step.get_params(deep=False), "learned": learned, **_common(step)}


def _made_scaler(kind: type[Any], parts: dict[str, Any]) -> BaseEstimator:
    params, learned = parts["params"], parts["learned"]
    scaler = kind(**params)
    for name in SCALERS[kind]:
        value = learned[name]
        one = name == "n_samples_seen_" and isinstance(value, int | float)
        several = isinstance(value, np.ndarray) and value.dtype.kind in "iuf"
        off = value is None and any(params.get(flag) is False for flag in WITHOUT.get(name, ()))
        fits = off or ((one or several) and is_finite(value))
        require(fits, f"{name!r} of a step is {describe_value(value)}; expected numbers")
        if several:
            check_shape(name, value, (parts["n_features"],))
        setattr(scaler, name, value)
    return _finished(scaler, parts)


hold(*SCALERS, check=_check_common, finite=False, take=_scaler_parts, make=_made_scaler)


def _encoder_parts(step: OneHotEncoder) -> dict[str, Any]:
    params = {name: getattr(step, name) for name in _ENCODER_PARAMS}
    if params["drop"] is not None and not isinstance(params["drop"], str):
        params["drop"] = np.asarray(params["drop"])
    categories = tuple(step.categories_)
    return {"params": params, "dtype": np.dtype(step.dtype), "categories": categories, **_common(step)}


def _made_encoder(kind: type[OneHotEncoder], parts: dict[str, Any]) -> BaseEstimator:
    categories, dtype = parts["categories"], parts["dtype"].type
    numeric = all(one.dtype.kind in "biuf" for one in categories)
    first = np.empty((1, len(categories)), float if numeric else object)
    first[0] = [one[0] for one in categories]
    encoder = kind(categories=[list(one) for one in categories], dtype=dtype, **parts["params"])
    encoder.fit(first).set_params(categories="auto")
    # Restore the dtypes of the columns it was fitted on; the array for the fit had a single dtype.
    encoder.categories_ = [*categories]
    return _finished(encoder, parts)


@holds(OneHotEncoder, finite=False, take=_encoder_parts, make=_made_encoder)
def _encoder(p: Parts) -> None:
    _check_common(p)
    given = all(isinstance(one, np.ndarray) and one.ndim == 1 and len(one) for one in p.categories)
    require(given and len(p.categories) == p.n_features, "an encoder lacks categories of a column")
    require(p.dtype.kind in "biuf", f"an encoder gives {quoted(p.dtype)}")


# ---- columns -----------------------------------------------------------------------------------------------


def _stand_in(one: BaseEstimator | str) -> BaseEstimator | str:
    """Return a transformer that gives as many columns as a fitted one, all zero, or its text."""
    if isinstance(one, str):
        return one
    width = width_of(one)
    return FunctionTransformer(lambda X: np.zeros((len(X), width)))


def _transformers(step: ColumnTransformer) -> Iterator[tuple[str, Any, list[int]]]:
    """Yield name, fitted transformer (or its text) and columns; the remainder if columns are left for it."""
    given = {name: transformer for name, transformer, _ in step.transformers} | {"remainder": step.remainder}
    for name, fitted, columns in step.transformers_:
        indices = _indices(step, columns)
        # 'passthrough' becomes a FunctionTransformer when it is fitted; without columns nothing is fitted.
        plain = given[name] if isinstance(given[name], str) else None if indices else "drop"
        yield name, plain or fitted, indices


def _indices(step: ColumnTransformer, columns: Any) -> list[int]:
    """Return the positions of columns that were given by name, position, slice or mask."""
    names, every = list(getattr(step, "feature_names_in_", ())), range(step.n_features_in_)
    if isinstance(columns, slice):
        ends = (columns.start, columns.stop)
        start, stop = (names.index(end) if isinstance(end, str) else end for end in ends)
        # A slice of names includes both ends.
        return list(every[start : stop + 1 if isinstance(columns.stop, str) else stop : columns.step])
    chosen: list[Any] = [columns] if np.isscalar(columns) else list(columns)
    if chosen and isinstance(chosen[0], bool | np.bool_):
        return [number for number, used in enumerate(chosen) if used]
    return [names.index(one) if isinstance(one, str) else every[one] for one in chosen]


def _columns_parts(step: ColumnTransformer) -> dict[str, Any]:
    return {
        "transformers": tuple(_transformers(step)),
        "transformer_weights": step.transformer_weights,
        "sparse_threshold": float(step.sparse_threshold),
        "sparse_output": bool(step.sparse_output_),
        "verbose_feature_names_out": bool(step.verbose_feature_names_out),
        **_common(step),
    }


def _made_columns(kind: type[ColumnTransformer], parts: dict[str, Any]) -> BaseEstimator:
    transformers = parts["transformers"]
    fitted = {name: one for name, one, _ in transformers}
    given = {name: (name, _stand_in(one), indices) for name, one, indices in transformers}
    rest = given.pop("remainder", ("", "drop", []))[1]
    choices = ("sparse_threshold", "transformer_weights", "verbose_feature_names_out")
    step = kind([*given.values()], remainder=rest, **{name: parts[name] for name in choices})
    # Fit stand-ins, so that scikit-learn sets up what transform needs, then replace them.
    step.fit(np.zeros((2, parts["n_features"])))
    step.sparse_output_ = parts["sparse_output"]
    step.transformers_ = [
        (name, one if isinstance(fitted[name], str) else fitted[name], columns)
        for name, one, columns in step.transformers_
    ]
    step.transformers = [(name, fitted[name], columns) for name, _, columns in given.values()]
    step.remainder = fitted.get("remainder", "drop")
    return _finished(step, parts)


@holds(ColumnTransformer, finite=False, take=_columns_parts, make=_made_columns)
def _columns(p: Parts) -> None:
    _check_common(p)
    named = [index for _, _, indices in p.transformers for index in indices]
    whole = all(type(index) is int for index in named) and set(named) == set(range(p.n_features))
    require(whole, f"the columns of {p.n_features} features are not all named")
    for name, one, indices in p.transformers:
        fits = isinstance(one, str) or getattr(one, "n_features_in_", None) == len(indices)
        require(fits, f"the transformer {name!r} takes another number of columns than {len(indices)}")
    choices = (p.sparse_output, p.verbose_feature_names_out)
    require(all(type(one) is bool for one in choices), "a choice of the columns is neither true nor false")
