"""Conversion of scikit-learn's preprocessing steps to descriptions and arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from gramian._typing import Array, RowsLike
from gramian.exceptions import InputError, ModelFileError, quoted
from gramian.model_file.estimators import feature_names, set_feature_names
from gramian.model_file.records import PartRecords
from gramian.model_file.structure import check_shape, require
from gramian.model_file.typed import describe_value, is_finite

#: Steps whose learned values are numbers or one array element per feature: class, learned attributes.
SCALERS: dict[str, tuple[type[BaseEstimator], tuple[str, ...]]] = {
    "StandardScaler": (StandardScaler, ("mean_", "scale_", "var_", "n_samples_seen_")),
    "MinMaxScaler": (
        MinMaxScaler,
        ("min_", "scale_", "data_min_", "data_max_", "data_range_", "n_samples_seen_"),
    ),
    "RobustScaler": (RobustScaler, ("center_", "scale_")),
}
KNOWN = (*SCALERS, "OneHotEncoder", "ColumnTransformer", "Pipeline")
#: Containers that scikit-learn's steps can give.
OUTPUTS = ("default", "pandas", "polars")
#: Parameters of an encoder, other than its categories, that a file stores.
_ENCODER_PARAMS = ("drop", "sparse_output", "handle_unknown")


def write_step(where: str, step: BaseEstimator, values: PartRecords) -> dict[str, Any]:
    """Return the description of a fitted step; ``where`` names it in the error for an unknown one."""
    kind = type(step)
    if kind is Pipeline:
        inner = [[name, write_step(f"{where}, step {name!r}", one, values)] for name, one in step.steps]
        return {"class": "Pipeline", "steps": inner}
    if kind not in (OneHotEncoder, ColumnTransformer, *(known for known, _ in SCALERS.values())):
        raise InputError(
            f"{where} is a {kind.__name__}, which a model file cannot hold. It holds {', '.join(KNOWN)}, "
            "'passthrough' and 'drop'. Save the model with pickle, or train on rows that are already "
            "transformed."
        )
    check_is_fitted(step)
    stored: dict[str, Any] = {
        "class": kind.__name__,
        "n_features": int(step.n_features_in_),
        "feature_names": feature_names(step),
        "output": getattr(step, "_sklearn_output_config", {}).get("transform"),
    }
    if kind is ColumnTransformer:
        return stored | _columns_parts(where, step, values)
    if kind is OneHotEncoder:
        return stored | _encoder_parts(where, step, values)
    params = {name: values.plain.write(name, value) for name, value in step.get_params(deep=False).items()}
    learned = {name: values.write(name, getattr(step, name)) for name in SCALERS[kind.__name__][1]}
    return stored | {"params": params, "learned": learned}


def read_step(stored: Mapping[str, Any], values: PartRecords) -> Any:
    """Return the fitted step that :func:`write_step` described."""
    name = stored["class"]
    if name == "Pipeline":
        steps = [(step, read_step(one, values)) for step, one in stored["steps"]]
        check_chain([step for _, step in steps])
        return Pipeline(steps)
    if name == "ColumnTransformer":
        step = _columns(stored, values)
    elif name == "OneHotEncoder":
        step = _encoder(stored, values)
    elif name in SCALERS:
        step = _scaler(stored, values)
    else:
        raise ModelFileError(
            f"the step {name!r} is not one of {', '.join(KNOWN)}. The file may come from a newer version: "
            "upgrade gramian."
        )
    step.n_features_in_ = _count(stored, values)
    set_feature_names(step, stored["feature_names"])
    if stored["output"] is not None:
        require(
            stored["output"] in OUTPUTS, f"a step gives {quoted(stored['output'])}; expected one of {OUTPUTS}"
        )
        step.set_output(transform=stored["output"])
    return step


def _count(stored: Mapping[str, Any], values: PartRecords) -> int:
    """Return the number of features of a step; raise for one that the file cannot hold."""
    found = stored["n_features"]
    fits = type(found) is int and 0 < found <= values.room.most
    require(fits, f"a step has {quoted(found)} features, which is no number that the file can hold")
    return int(found)


def _inputs(step: BaseEstimator) -> int:
    """Return the number of columns that a fitted step takes."""
    return _inputs(step.steps[0][1]) if isinstance(step, Pipeline) else int(step.n_features_in_)


def check_chain(steps: Sequence[Any], n_features: int | None = None) -> None:
    """Raise if fitted steps do not take the columns that the one before gives; ``n_features`` follow."""
    wanted = [*(_inputs(step) for step in steps[1:]), *([] if n_features is None else [n_features])]
    for step, count in zip(steps, wanted):
        require(width_of(step) == count, f"the steps give {width_of(step)} columns; expected {count}")


def width_of(step: BaseEstimator) -> int:
    """Return the number of columns that a fitted step gives."""
    if isinstance(step, Pipeline):
        return width_of(step.steps[-1][1])
    if isinstance(step, ColumnTransformer):
        return max(part.stop for part in step.output_indices_.values())
    if isinstance(step, OneHotEncoder):
        dropped = 0 if step.drop_idx_ is None else sum(index is not None for index in step.drop_idx_)
        return sum(map(len, step.categories_)) - dropped
    return int(step.n_features_in_)


# ---- scalers and encoders -----------------------------------------------------------------------


#: Learned numbers that a scaler lacks where these parameters are off.
WITHOUT = {
    "mean_": ("with_mean",),
    "center_": ("with_centering",),
    "scale_": ("with_std", "with_scaling"),
    "var_": ("with_std",),
}


def _scaler(stored: Mapping[str, Any], values: PartRecords) -> Any:
    kind, names = SCALERS[stored["class"]]
    scaler = values.read_params(kind, stored["params"])
    for name in names:
        value = values.read(stored["learned"][name])
        if isinstance(value, np.ndarray):
            check_shape(name, value, (_count(stored, values),) if value.ndim else ())
        numbers = (name == "n_samples_seen_" and isinstance(value, int | float)) or (
            isinstance(value, np.ndarray) and value.dtype.kind in "iuf"
        )
        lacking = value is None and any(
            getattr(scaler, flag, None) is False for flag in WITHOUT.get(name, ())
        )
        require(
            lacking or (numbers and is_finite(value)),
            f"{name!r} of a step is {describe_value(value)}; expected numbers",
        )
        setattr(scaler, name, value)
    return scaler


def _encoder_parts(where: str, encoder: OneHotEncoder, values: PartRecords) -> dict[str, Any]:
    if encoder.min_frequency is not None or encoder.max_categories is not None:
        raise InputError(
            f"{where} groups infrequent categories (min_frequency or max_categories), which a model file "
            "cannot hold. Leave both None, or save the model with pickle."
        )
    params = {name: getattr(encoder, name) for name in _ENCODER_PARAMS}
    if params["drop"] is not None and not isinstance(params["drop"], str):
        params["drop"] = np.asarray(params["drop"])
    return {
        "params": {name: values.write(f"{where}: {name}", value) for name, value in params.items()},
        "dtype": np.dtype(encoder.dtype).name,
        "categories": [values.write(f"{where}: categories", one) for one in encoder.categories_],
    }


def _encoder(stored: Mapping[str, Any], values: PartRecords) -> OneHotEncoder:
    categories: list[Array] = [values.read(one) for one in stored["categories"]]
    given = all(isinstance(one, np.ndarray) and one.ndim == 1 and len(one) for one in categories)
    require(given and len(categories) == _count(stored, values), "an encoder lacks categories of a column")
    require(np.dtype(str(stored["dtype"])).kind in "biuf", f"an encoder gives {quoted(stored['dtype'])}")
    params = {name: values.read(stored["params"][name]) for name in _ENCODER_PARAMS}
    numeric = all(one.dtype.kind in "biuf" for one in categories)
    first = np.empty((1, len(categories)), float if numeric else object)
    first[0] = [one[0] for one in categories]
    encoder = OneHotEncoder(
        categories=[list(one) for one in categories], dtype=np.dtype(str(stored["dtype"])).type, **params
    ).fit(first)
    # Restore the dtypes of the columns it was fitted on; the array for the fit had a single dtype.
    encoder.categories_ = categories
    return encoder.set_params(categories="auto")


# ---- columns ------------------------------------------------------------------------------------


class _Zeros(TransformerMixin, BaseEstimator):
    """A placeholder for a fitted transformer that returns as many columns, all zero."""

    def __init__(self, width: int) -> None:
        self.width = width

    def fit(self, X: RowsLike, y: ArrayLike | None = None) -> _Zeros:
        return self

    def transform(self, X: Sized) -> Array:
        return np.zeros((len(X), self.width))


def _columns_parts(where: str, step: ColumnTransformer, values: PartRecords) -> dict[str, Any]:
    given = {name: transformer for name, transformer, _ in step.transformers} | {"remainder": step.remainder}
    # The remainder is listed only if there are columns left for it.
    parts = []
    for name, fitted, columns in step.transformers_:
        indices = _indices(step, columns)
        # 'passthrough' becomes a FunctionTransformer when it is fitted; without columns nothing is fitted.
        plain = given[name] if isinstance(given[name], str) else None if indices else "drop"
        one = plain or write_step(f"{where}, transformer {name!r}", fitted, values)
        parts.append([name, one, indices])
    return {
        "transformers": parts,
        "weights": values.plain.write("transformer_weights", step.transformer_weights),
        "sparse_threshold": float(step.sparse_threshold),
        "sparse_output": bool(step.sparse_output_),
        "verbose_feature_names_out": bool(step.verbose_feature_names_out),
    }


def _indices(step: ColumnTransformer, columns: Any) -> list[int]:
    """Return the positions of columns that were given by name, position, slice or mask."""
    every = np.arange(step.n_features_in_)
    chosen = [columns] if isinstance(columns, str) or np.isscalar(columns) else columns
    names = list(getattr(step, "feature_names_in_", ()))
    if isinstance(chosen, slice) and any(isinstance(end, str) for end in (chosen.start, chosen.stop)):
        # A slice of names includes both ends.
        start = 0 if chosen.start is None else names.index(chosen.start)
        stop = len(names) if chosen.stop is None else names.index(chosen.stop) + 1
        chosen = slice(start, stop, chosen.step)
    elif not isinstance(chosen, slice):
        chosen = list(chosen)
        if any(isinstance(one, str) for one in chosen):
            return [names.index(one) for one in chosen]
        chosen = np.asarray(chosen, bool if chosen and isinstance(chosen[0], bool | np.bool_) else int)
    return [int(index) for index in every[chosen]]


def _columns(stored: Mapping[str, Any], values: PartRecords) -> ColumnTransformer:
    fitted: dict[str, Any] = {}
    given, remainder = [], "drop"
    named = [int(index) for _, _, indices in stored["transformers"] for index in indices]
    count = _count(stored, values)
    require(set(named) == set(range(count)), f"the columns of {count} features are not all named")
    for name, one, indices in stored["transformers"]:
        fitted[name] = one if isinstance(one, str) else read_step(one, values)
        require(
            isinstance(one, str) or _inputs(fitted[name]) == len(indices),
            f"the transformer {name!r} takes another number of columns than {len(indices)}",
        )
        standing = one if isinstance(one, str) else _Zeros(width_of(fitted[name]))
        if name == "remainder":
            remainder = standing
        else:
            given.append((name, standing, [int(index) for index in indices]))
    choices = [stored[name] for name in ("sparse_output", "verbose_feature_names_out")]
    require(all(type(one) is bool for one in choices), "a choice of the columns is neither true nor false")
    step = ColumnTransformer(
        given,
        remainder=remainder,
        sparse_threshold=float(stored["sparse_threshold"]),
        transformer_weights=values.read(stored["weights"]),
        verbose_feature_names_out=stored["verbose_feature_names_out"],
    )
    # Fit placeholders, so that scikit-learn sets up what transform needs, then replace them.
    step.fit(np.zeros((2, count)))
    step.sparse_output_ = stored["sparse_output"]
    step.transformers_ = [
        (name, one if isinstance(fitted[name], str) else fitted[name], columns)
        for name, one, columns in step.transformers_
    ]
    step.transformers = [(name, fitted[name], columns) for name, _, columns in given]
    if "remainder" in fitted:
        step.remainder = fitted["remainder"]
    return step
