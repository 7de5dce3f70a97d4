"""Parts of model files beside those of :mod:`.predictors`: estimators, fast models, tables, evidence."""

from __future__ import annotations

from typing import Any

from gramian.approximations.methods import BUILDERS, METHODS
from gramian.compression.plan import Plan
from gramian.data.scaled import Scaler
from gramian.estimator.base import KernelEstimator
from gramian.exact import exact, solve
from gramian.fast import estimators, fidelity, probabilities
from gramian.fast.dcpred.estimators import DCPredClassifier, DCPredRegressor
from gramian.fast.dcpred.leaves import LeafReport
from gramian.fast.learning.distill import Shape
from gramian.fast.serving.predictor import FastPredictor
from gramian.fast.serving.router import STAGE_LEVELS, TreeRouter, stage_width
from gramian.gp import calibration, learning, regressor
from gramian.metric import metric
from gramian.metric.learning import LearnedMetric, Round
from gramian.model_file.container import require
from gramian.model_file.predictors import MOST_LEVELS
from gramian.model_file.registry import Parts, check_shape, hold, holds, shapes, tiles
from gramian.ridge import cross_validation, kernel_search, ridge
from gramian.selection.kernel_choice import KernelChoice
from gramian.solvers.solution import Solution
from gramian.spectra.kernel_pca import KernelPCA
from gramian.svm import classifier, dcsvc, logistic
from gramian.svm.regressor import KernelSVR
from gramian.tables import (
    Column,
    Scaling,
    TableColumns,
    TargetTransform,
    compression,
    intervals,
    search,
    small_problem,
    target,
)
from gramian.tables.boosting import boosted, trees
from gramian.tables.classifier import TabularClassifier
from gramian.tables.column import LevelLookup, LevelMeans
from gramian.tables.regressor import TabularRegressor
from gramian.tables.ridge_mean import RidgeMean

hold(Column, LevelLookup, LevelMeans, TargetTransform, Shape, small_problem.Setting, metric.Metric)
hold(boosted.LevelPairs, intervals.Spread, probabilities.Calibration, trees.Trees)
# No prediction is computed from these: what a fit has tried, whose numbers may be infinite or NaN.
hold(calibration.BandCheck, boosted.Contributions, fidelity.Fidelity, solve.Stage, finite=False)
hold(KernelChoice, LeafReport, Round, Solution, kernel_search.Refinement, *BUILDERS, finite=False)
hold(learning.Learned, learning.LearningStage, small_problem.ExactFit, small_problem.Point, finite=False)
hold(search.SettingResult, search.TableSearchResult, finite=False)


@holds(Plan, finite=False)
def _plan(p: Parts) -> None:
    require(
        min(p.chunk_rows, p.n_threads) >= 1,
        f"a plan has {p.chunk_rows} rows a chunk and {p.n_threads} threads; expected at least 1 of each",
    )


# ---- estimators --------------------------------------------------------------------------------------------


def _by_name(*kinds: type[Any]) -> dict[str, type[Any]]:
    return {kind.__name__: kind for kind in kinds}


#: Fitted estimators that a model file may hold, by name.
KNOWN = {
    **_by_name(ridge.KernelRidge, ridge.KernelRidgeClassifier, cross_validation.KernelRidgeCV, KernelPCA),
    **_by_name(classifier.KernelSVC, KernelSVR, dcsvc.DCSVC, logistic.KernelLogisticRegression),
    **_by_name(*METHODS.values(), DCPredClassifier, DCPredRegressor, regressor.GaussianProcessRegressor),
    **_by_name(estimators.FastKernelClassifier, estimators.FastKernelRegressor),
    **_by_name(TabularRegressor, TabularClassifier),
    **_by_name(compression.FastTabularRegressor, compression.FastTabularClassifier),
}
#: Estimators that a parameter may be: those, and two that are never fitted themselves.
PARAMETERS = KNOWN | _by_name(exact.Exact, LearnedMetric)


# ---- fast models -------------------------------------------------------------------------------------------


@holds(TreeRouter)
def _router(p: Parts) -> None:
    require(len(p.stages) == len(p.levels) <= MOST_LEVELS, "a router lacks stages")
    trees = 1
    for planes, levels in zip(p.stages, p.levels):
        require(0 < levels <= STAGE_LEVELS, f"a stage of a router has {levels} levels")
        check_shape("stages", planes, (trees, stage_width(levels), p.stages[0].shape[-1]))
        trees *= 2**levels


@holds(FastPredictor)
def _fast(p: Parts) -> None:
    leaves, stages = p.router.n_leaves, p.router.stages
    named = shapes(p, offset=("r",), projection=("d", "r"), weights=(leaves, "outputs", "units"))
    r = named["r"]
    shapes(p, center=(named.get("d", r),), forms=(leaves, named["units"] + named["outputs"], 2 * r + 1))
    shapes(p.router, stages=(None, None, r + 1))
    types = {a.dtype for a in (p.offset, p.forms, p.weights, *stages)}
    require(len(types) == 1, f"the arrays of a fast model have the dtypes {sorted(map(str, types))}")


# ---- tables ------------------------------------------------------------------------------------------------


@holds(TableColumns)
def _columns(p: Parts) -> None:
    places = sorted(column.place for column in p.columns)
    require(places == list(range(len(places))), "the columns of a table are not numbered in order")
    tiles(p.dtype)


@holds(Scaling)
def _scaling(p: Parts) -> None:
    shapes(p, shift=(len(p.methods),), scale=(len(p.methods),), tables=(2, None))
    stepped = p.methods.count("quantile")
    require(stepped == len(p.tables), f"{len(p.tables)} tables scale {stepped} columns")
    require(all(table.shape[1] for table in p.tables), "a table of a scaling is empty")


@holds(target.OutputMap)
def _output(p: Parts) -> None:
    if p.how == "quantile":
        require(p.knots is not None and len(p.knots) > 0, "a quantile map has no knots")
        shapes(p, scores=(len(p.knots),))
        require(p.scores is not None, "a quantile map has no scores")


@holds(Scaler)
def _scaler(p: Parts) -> None:
    shapes(p, mean=("d",), scale=("d",))


@holds(boosted.Boosted)
def _boosted(p: Parts) -> None:
    shapes(p, means=(sum(map(len, p.groups)),))
    require(min(map(min, p.groups), default=0) >= 0, "a group has a place below 0")
    for pair in p.pairs:
        own = pair.first, pair.second
        require(0 <= min(own) <= max(own) < len(p.groups), "a pair of levels is of an unknown group")
        check_shape("values of pairs", pair.values, tuple(len(p.groups[j]) + 1 for j in own))
    require(all(0 <= one < p.n_classes for one in p.classes), "boosting has seen unknown classes")


def _made_mean(kind: type[RidgeMean], parts: dict[str, Any]) -> RidgeMean:
    classes, calibration, boosted = (parts.get(name) for name in ("classes_", "calibration_", "boosted_"))
    share = parts.get("share_", 0.0)
    return kind.of(parts["members_"], parts["weights_"], classes, calibration, boosted, share)


@holds(RidgeMean, take=vars, make=_made_mean)
def _mean(p: Parts) -> None:
    members = p.members_
    models = all(isinstance(each, KernelEstimator) for each in members)
    require(models and len(members) > 0, "a mean has no models")
    require(p.n_features_in_ == members[0].n_features_in_, "a mean has other features than its models")
    shapes(p, weights_=(len(members),))
    for pair in (("calibration_", "classes_"), ("boosted_", "share_")):
        both = hasattr(p, pair[0]) == hasattr(p, pair[1])
        require(both, f"a mean of models has only one of {pair}")
