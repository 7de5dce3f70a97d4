"""Conversion of the learned attributes that an estimator states, one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gramian.exceptions import ModelFileError
from gramian.model_file.container import CURE
from gramian.model_file.records import Records


def write_learned(kept: Mapping[str, Any], values: Records, apart: tuple[str, ...]) -> dict[str, Any]:
    """Return JSON for learned attributes without those in ``apart``, which the file holds elsewhere."""
    return {name: values.write(name, value) for name, value in kept.items() if name not in apart}


def read_learned(
    model: Any, stored: Mapping[str, Any], values: Records, apart: tuple[str, ...]
) -> dict[str, Any]:
    """Return the learned attributes of :func:`write_learned`; raise for one that the model does not state."""
    known = [name for name in model._learned_names() if name not in apart]
    for name in stored:
        if name not in known:
            raise ModelFileError(f"{name!r} is not something that a {type(model).__name__} learns. {CURE}")
    return {name: values.read(value) for name, value in stored.items()}
