"""Recipes that take fitted parts apart for a model file and make them again, by their class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, TypedDict

import numpy as np

from gramian._typing import Array, Float64Array, FloatArray, Rows
from gramian.approximations.polynomial_maps import MaclaurinColumns, TensorSketchColumns
from gramian.approximations.random_fourier import FastfoodColumns, FourierColumns
from gramian.compression.expansion import PairwisePredictor
from gramian.data.scaled import Scaler
from gramian.estimator.base import KernelEstimator
from gramian.exact.predictor import ExactPredictor
from gramian.exact.solve import Stage
from gramian.exceptions import ModelFileError
from gramian.fast.dcpred.center_tree import CenterTree
from gramian.fast.dcpred.leaf import Leaf, LeafReport
from gramian.fast.dcpred.pseudo_landmarks import MonomialColumns, TriangleColumns
from gramian.fast.dcpred.training import DCPred
from gramian.fast.fidelity import Fidelity
from gramian.fast.learning.distill import Shape
from gramian.fast.probabilities import Calibration
from gramian.fast.serving.predictor import FastPredictor
from gramian.fast.serving.router import TreeRouter
from gramian.gp.calibration import BandCheck
from gramian.gp.learning import Learned, LearningStage
from gramian.gp.nearest import NearestRows
from gramian.gp.neighbours import NeighbourPosterior
from gramian.gp.posterior import Posterior
from gramian.gp.row_scale import RowScale
from gramian.kernels import Kernel
from gramian.kernels.columns import Columns
from gramian.landmarks.partition import BisectionPartition, CenterPartition, Partition
from gramian.metric.learning import Round
from gramian.model_file.neighbours import made_nearest, made_neighbours
from gramian.model_file.predictors import (
    feature_parts,
    made_features,
    made_map,
    made_predictor,
    predictor_parts,
)
from gramian.model_file.structure import check_shape, check_structure
from gramian.model_file.typed import check_parts
from gramian.ridge.kernel_search import Refinement
from gramian.selection.kernel_choice import KernelChoice
from gramian.solvers.arrowhead import Forest
from gramian.solvers.core import CoupledCore
from gramian.solvers.path_factor import PathFactor
from gramian.solvers.solution import Solution, Status
from gramian.tables import Column, Scaling, TableColumns, TargetTransform
from gramian.tables.boosting.boosted import Boosted, LevelPairs
from gramian.tables.boosting.contributions import Contributions
from gramian.tables.boosting.trees import Trees
from gramian.tables.column import LevelLookup, LevelMeans
from gramian.tables.intervals import Spread
from gramian.tables.ridge_mean import RidgeMean
from gramian.tables.search import Setting, SettingResult, TableSearchResult
from gramian.tables.small_problem import ExactFit, Point
from gramian.tables.target import OutputMap


@dataclass(frozen=True)
class Recipe:
    """A pair of functions that take a value apart into named parts and rebuild it from them.

    typed : the class or function whose annotations the parts have to follow, by default ``make``.
    """

    parts: Callable[[Any], dict[str, Any]]
    make: Callable[..., Any]
    typed: Any = None


def _by_fields(kind: type[Any]) -> Recipe:
    """Return the recipe of a dataclass, whose parts are its constructor's arguments."""
    names = [field.name for field in fields(kind) if field.init]
    return Recipe(lambda value: {name: getattr(value, name) for name in names}, kind)


def make_part(name: str, parts: dict[str, Any], most: float) -> Any:
    """Return a fitted part made from its own parts, by the name of its class.

    Types, finite numbers, shapes and ranges are checked first, so that nothing is computed from parts that do
    not fit together. most : as for :func:`.check_structure`.
    """
    recipe = RECIPES[name]
    check_parts(name, recipe.typed or recipe.make, parts, finite=name not in EVIDENCE)
    check_structure(name, parts, most)
    return recipe.make(**parts)


#: Parts that no prediction is computed from, whose numbers may be infinite or NaN: what a fit has tried.
EVIDENCE = (
    *("BandCheck", "Contributions", "ExactFit", "Fidelity", "KernelChoice", "LeafReport", "Learned"),
    *("LearningStage", "Point", "Refinement", "Round", "SettingResult", "Solution", "Stage"),
    "TableSearchResult",
)


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
        "limits": leaf.limits,
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
    return Leaf(landmarks, columns, parts["beta"], bias, parts["limits"], parts["report"])


class _LeafParts(TypedDict):
    """Parts of a leaf of a divided model."""

    landmarks: Rows | None
    expansion: dict[str, Rows | bool] | None
    beta: FloatArray
    bias: FloatArray
    limits: FloatArray
    report: LeafReport


def _dcpred_parts(model: DCPred) -> dict[str, Any]:
    return {
        "partition": model.partition,
        "leaves": [_leaf_parts(leaf) for leaf in model.leaves],
        "kernel": model.kernel,
        "n_features": model.n_features,
    }


def _dcpred(partition: Partition, leaves: list[_LeafParts], kernel: Kernel, n_features: int) -> DCPred:
    return DCPred(partition, tuple(_leaf(kernel, parts) for parts in leaves), kernel, n_features)


def _core_parts(core: CoupledCore) -> dict[str, Any]:
    blocks = range(len(core.ranks))
    values: Any = (
        core.to_dense()
        if core.is_dense
        else {(s, t): core.block(s, t) for s in blocks for t in blocks[s:] if not core.is_zero(s, t)}
    )
    return {"values": values, "ranks": list(core.ranks), "psd": core.psd}


def _solution_parts(solution: Solution) -> dict[str, Any]:
    """Return the evidence of a solution without its value, which is as long as the training rows."""
    names = [field.name for field in fields(solution) if field.name not in ("value", "status")]
    return {"status": solution.status.name, **{name: getattr(solution, name) for name in names}}


def _solution(status: str, **evidence: Any) -> Solution:
    return Solution(value=np.empty(0), status=Status[status], **evidence)


def _mean_parts(mean: RidgeMean) -> dict[str, Any]:
    names = ("members", "weights", "classes", "calibration", "boosted")
    return {name: getattr(mean, f"{name}_", None) for name in names} | {"share": getattr(mean, "share_", 0.0)}


def _mean(
    members: list[KernelEstimator],
    weights: Float64Array,
    classes: Array | None,
    calibration: Calibration | None,
    boosted: Boosted | None,
    share: float,
) -> RidgeMean:
    check_shape("weights", weights, (len(members),))
    return RidgeMean.of(members, weights.tolist(), classes, calibration, boosted, share)


#: The kernel of a fast model's units, which its file names.
UNIT = "1/(1 + q)"


def _fast_predictor(unit: str = "exp(-q)", **parts: Any) -> FastPredictor:
    if unit != UNIT:
        raise ModelFileError(
            f"its fast model has units {unit}, and this gramian computes {UNIT}. Compress the model again "
            "with gramian.compress and save the result, or load the file with the gramian that wrote it."
        )
    made = FastPredictor(**parts)
    if made.center is not None:
        check_shape(
            "center", made.center, (len(made.offset if made.projection is None else made.projection),)
        )
    return made


#: The parts that a model file may hold, by their class.
RECIPES: dict[str, Recipe] = (
    {
        kind.__name__: _by_fields(kind)
        for kind in (
            BandCheck,
            BisectionPartition,
            Boosted,
            Calibration,
            CenterPartition,
            CenterTree,
            Column,
            Contributions,
            ExactFit,
            ExactPredictor,
            Fidelity,
            Forest,
            KernelChoice,
            LeafReport,
            Learned,
            LearningStage,
            LevelLookup,
            LevelMeans,
            LevelPairs,
            OutputMap,
            PairwisePredictor,
            PathFactor,
            Point,
            Posterior,
            Refinement,
            Round,
            RowScale,
            Scaler,
            Scaling,
            TableSearchResult,
            Setting,
            SettingResult,
            Shape,
            Spread,
            Stage,
            TableColumns,
            TargetTransform,
            TreeRouter,
            Trees,
        )
    }
    | {
        kind.__name__: Recipe(_by_fields(kind).parts, partial(made_map, kind), kind)
        for kind in (FastfoodColumns, FourierColumns, MaclaurinColumns, TensorSketchColumns)
    }
    | {
        "CoupledCore": Recipe(_core_parts, CoupledCore),
        "DCPred": Recipe(_dcpred_parts, _dcpred),
        "FastPredictor": Recipe(
            lambda predictor: {"unit": UNIT} | _by_fields(FastPredictor).parts(predictor),
            _fast_predictor,
            FastPredictor,
        ),
        "FeatureMap": Recipe(feature_parts, made_features),
        "NearestRows": Recipe(_by_fields(NearestRows).parts, made_nearest),
        "NeighbourPosterior": Recipe(_by_fields(NeighbourPosterior).parts, made_neighbours),
        "Predictor": Recipe(predictor_parts, made_predictor),
        "RidgeMean": Recipe(_mean_parts, _mean),
        "Solution": Recipe(_solution_parts, _solution),
    }
)
