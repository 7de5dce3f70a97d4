"""Conversion of fitted parts to JSON and arrays: frozen dataclasses field by field."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array
from gramian.approximations.explicit import ExplicitColumns
from gramian.compression.basis import Basis
from gramian.compression.expansion import PairwisePredictor
from gramian.compression.features import FeatureMap
from gramian.data.scaled import Scaler
from gramian.exact.predictor import ExactPredictor
from gramian.exact.solve import Stage
from gramian.exceptions import ModelFileError
from gramian.fast.dcpred.center_tree import CenterTree
from gramian.fast.dcpred.pseudo_landmarks import MonomialColumns, TriangleColumns
from gramian.fast.dcpred.training import DCPred, Leaf, LeafReport
from gramian.fast.fidelity import Fidelity
from gramian.fast.learning.distill import Shape
from gramian.fast.probabilities import Calibration
from gramian.fast.serving.predictor import FastPredictor
from gramian.fast.serving.router import TreeRouter
from gramian.gp.learning import Learned
from gramian.gp.posterior import Posterior
from gramian.kernels import Kernel
from gramian.kernels.columns import Columns
from gramian.landmarks.partition import BisectionPartition, CenterPartition
from gramian.metric.learning import Round
from gramian.model_file.arrays import check_tree
from gramian.model_file.container import CURE, PLAIN_KINDS
from gramian.model_file.maps import map_from_arrays, map_to_arrays
from gramian.model_file.values import Values
from gramian.ridge.kernel_search import Refinement
from gramian.solvers.arrowhead import Forest
from gramian.solvers.core import CoupledCore
from gramian.solvers.path_factor import PathFactor
from gramian.tables import Column, Scaling, TableColumns, TargetTransform
from gramian.tables.column import LevelMeans
from gramian.tables.intervals import Spread
from gramian.tables.search import SearchResult, Setting, SettingResult
from gramian.tables.small_problem import ExactFit, Point
from gramian.tables.target import OutputMap


@dataclass(frozen=True)
class Recipe:
    """A pair of functions that take a value apart into named parts and rebuild it from them."""

    parts: Callable[[Any], dict[str, Any]]
    make: Callable[..., Any]


def _by_fields(kind: type[Any]) -> Recipe:
    """Return the recipe of a dataclass, whose parts are its constructor's arguments."""
    names = [field.name for field in fields(kind) if field.init]
    return Recipe(lambda value: {name: getattr(value, name) for name in names}, kind)


class Records(Values):
    """Converter for fitted parts: those of :data:`RECIPES`, sparse rows, texts, arrays in any layout."""

    @property
    def plain(self) -> Values:
        """Converter with the same arrays for parameters from users: finite numbers, no fitted parts."""
        values = Values(self.arrays)
        values._names = self._names
        return values

    def write_learned(self, kept: Mapping[str, Any], apart: tuple[str, ...]) -> dict[str, Any]:
        """Return JSON for learned attributes without those in ``apart``, which the file holds elsewhere."""
        return {name: self.write(name, value) for name, value in kept.items() if name not in apart}

    def read_learned(self, model: Any, stored: Mapping[str, Any], apart: tuple[str, ...]) -> dict[str, Any]:
        """Return what :meth:`write_learned` wrote; raise for an attribute that the model does not state."""
        known = [name for name in model._learned_names() if name not in apart]
        for name in stored:
            if name not in known:
                raise ModelFileError(
                    f"{name!r} is not something that a {type(model).__name__} learns. {CURE}"
                )
        return {name: self.read(value) for name, value in stored.items()}

    def write(self, where: str, value: Any) -> Any:
        """Return JSON for a value, and store its arrays separately."""
        name = type(value).__name__
        if name in RECIPES and not isinstance(value, ExplicitColumns):
            parts = RECIPES[name].parts(value)
            return {"record": name, "parts": {k: self.write(f"{where}.{k}", v) for k, v in parts.items()}}
        if isinstance(value, ExplicitColumns):
            prefix = f"map_{len(self.arrays)}"
            info, arrays = map_to_arrays(value, prefix)
            self.arrays.update(arrays)
            return {"map": info, "prefix": prefix, "features": value.n_features, "dtype": value.dtype.name}
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
        if value.dtype.kind not in PLAIN_KINDS or value.flags.c_contiguous:
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
            name = EARLIER_NAMES.get(stored["record"], stored["record"])
            if name not in RECIPES:
                known = ", ".join(RECIPES)
                raise ModelFileError(f"the part {name!r} is not one of {known}. {CURE}")
            parts = {part: self.read(value) for part, value in stored["parts"].items()}
            return RECIPES[name].make(**parts)
        if "map" in stored:
            return map_from_arrays(
                stored["map"], self.arrays, stored["prefix"], int(stored["features"]), stored["dtype"]
            )
        if "csr" in stored:
            parts = {name: self.read(value) for name, value in stored["csr"].items()}
            kind = sp.csr_matrix if stored["matrix"] else sp.csr_array
            rows = kind((parts["data"], parts["indices"], parts["indptr"]), shape=tuple(stored["shape"]))
            rows.check_format(full_check=True)
            return rows
        if "texts" in stored:
            texts = np.empty(len(stored["texts"]), object)
            texts[:] = [str(text) for text in stored["texts"]]
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


# ---- parts that hold what others imply ----------------------------------------------------------


def _leaf_parts(leaf: Leaf) -> dict[str, Any]:
    """Return the parts of a leaf without its columns, which follow from kernel and landmarks."""
    columns = leaf.columns
    expansion: dict[str, Any] | None = None if columns is None else {}
    if isinstance(columns, MonomialColumns):
        expansion = {"left": columns.left, "right": columns.right}
    elif isinstance(columns, TriangleColumns):
        expansion = {"points": columns.points, "upper": bool(columns.upper)}
    return {
        "landmarks": leaf.landmarks,
        "expansion": expansion,
        "beta": leaf.beta,
        "bias": leaf.bias,
        "report": leaf.report,
    }


def _leaf(kernel: Kernel, parts: Mapping[str, Any]) -> Leaf:
    landmarks, expansion, bias = parts["landmarks"], parts["expansion"], parts["bias"]
    columns: Columns | None = None
    if expansion is not None and "left" in expansion:
        left, right = (np.asarray(expansion[name], np.intp) for name in ("left", "right"))
        columns = MonomialColumns(kernel, landmarks, left, right, bias.dtype)
    elif expansion is not None and "points" in expansion:
        columns = TriangleColumns(
            kernel, landmarks, expansion["points"], bias.dtype, upper=expansion["upper"]
        )
    elif expansion is not None:
        columns = kernel.against(landmarks, bias.dtype)
    return Leaf(landmarks, columns, parts["beta"], bias, parts["report"])


def _dcpred_parts(model: DCPred) -> dict[str, Any]:
    return {
        "partition": model.partition,
        "leaves": [_leaf_parts(leaf) for leaf in model.leaves],
        "kernel": model.kernel,
        "n_features": model.n_features,
    }


def _dcpred(partition: Any, leaves: list[Any], kernel: Kernel, n_features: int) -> DCPred:
    return DCPred(partition, tuple(_leaf(kernel, parts) for parts in leaves), kernel, n_features)


def _basis_parts(basis: Basis) -> dict[str, Any]:
    names = ("landmarks", "vectors", "projection", "values", "dropped", "negative")
    explicit = basis.columns if basis.vectors is None else None
    return {**{name: getattr(basis, name) for name in names}, "explicit": explicit}


def _feature_parts(features: FeatureMap) -> dict[str, Any]:
    nodes = [_basis_parts(basis) for basis in features.nodes]
    names = ("kernel", "partition", "forest", "core", "dtype", "notes")
    return {**{name: getattr(features, name) for name in names}, "nodes": nodes}


def _features(nodes: list[Any], kernel: Kernel, dtype: Any, **rest: Any) -> FeatureMap:
    def basis(parts: dict[str, Any]) -> Basis:
        explicit = parts.pop("explicit")
        columns = kernel.against(parts["landmarks"], dtype) if explicit is None else explicit
        return Basis(columns=columns, **parts)

    return FeatureMap(kernel=kernel, dtype=dtype, nodes=tuple(basis(parts) for parts in nodes), **rest)


def _core_parts(core: CoupledCore) -> dict[str, Any]:
    blocks = range(len(core.ranks))
    values: Any = (
        core.to_dense()
        if core.is_dense
        else {(s, t): core.block(s, t) for s in blocks for t in blocks[s:] if not core.is_zero(s, t)}
    )
    return {"values": values, "ranks": list(core.ranks), "psd": core.psd}


def _bisection(children: Array, **parts: Any) -> BisectionPartition:
    check_tree(children, len(parts["thresholds"]))
    return BisectionPartition(children=np.asarray(children, np.intp), **parts)


#: The parts that a model file may hold, by their class.
RECIPES: dict[str, Recipe] = {
    kind.__name__: _by_fields(kind)
    for kind in (
        Calibration,
        CenterPartition,
        CenterTree,
        Column,
        ExactFit,
        ExactPredictor,
        FastPredictor,
        Fidelity,
        Forest,
        LeafReport,
        Learned,
        LevelMeans,
        OutputMap,
        PairwisePredictor,
        PathFactor,
        Point,
        Posterior,
        Refinement,
        Round,
        Scaler,
        Scaling,
        SearchResult,
        Setting,
        SettingResult,
        Shape,
        Spread,
        Stage,
        TableColumns,
        TargetTransform,
        TreeRouter,
    )
} | {
    "BisectionPartition": Recipe(_by_fields(BisectionPartition).parts, _bisection),
    "CoupledCore": Recipe(_core_parts, CoupledCore),
    "DCPred": Recipe(_dcpred_parts, _dcpred),
    "FeatureMap": Recipe(_feature_parts, _features),
}
#: Classes that had another name in earlier releases.
EARLIER_NAMES = {"Found": "SearchResult", "Judged": "ExactFit", "Trial": "SettingResult"}
