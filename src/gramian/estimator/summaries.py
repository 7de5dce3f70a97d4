"""Summary of a fitted estimator, read from its learned attributes; nothing is computed from rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gramian._budget import format_bytes
from gramian._numerics import ridge_tolerance
from gramian.compression.features import FeatureMap
from gramian.compression.predictor import Predictor
from gramian.compression.report import report_sizes
from gramian.solvers.solution import Solution, Status
from gramian.summary import Grid, Summary, short, spread_grid

#: What an estimator serves from, by name: one that has one of these is fitted.
SERVES = ("predictor_", "features_", "posterior_", "model_", "_stream", "_waiting")
#: Statuses of a solver that did what it should.
GOOD = (Status.DIRECT, Status.CONVERGED)
#: Classes that are named.
MOST_CLASSES = 10
Fact = tuple[str, str]


def is_fitted(model: BaseEstimator) -> bool:
    """Return whether there is something to summarise."""
    return any(name in vars(model) for name in SERVES)


def summary_of(model: Any) -> Summary:
    """Return sizes, memory, scores, evidence of the solver, warnings and parameters of a fitted estimator.

    Time O(blocks + parameters); the rows are not needed, so that the model may come from a file.
    """
    facts = [*_data(model), *kernel_facts(model), *model._own_facts(), *evidence_facts(model)]
    grids = [*model._own_grids(), *_blocks(model), *phase_grids(model), *state_grids(model)]
    return Summary(type(model).__name__, tuple(facts), tuple(grids), tuple(warning_texts(model)))


def evidence_facts(model: Any) -> Iterator[Fact]:
    """Yield sizes, memory, scores, the solver's evidence and the time of a fit."""
    yield from _sizes(model)
    yield from _quality(model)
    yield from _solver(model)
    yield from _time(model)


def state_grids(model: Any) -> tuple[Grid, Grid]:
    """Return the parameters and the learned attributes as tables."""
    return _parameters(model), _learned(model)


def learned(model: Any, name: str, default: Any = None) -> Any:
    """Return an attribute that the model holds already: ``getattr`` would make a stream solve its system."""
    return vars(model).get(name, default)


# ---- facts -------------------------------------------------------------------------------------


def rows_of(model: Any) -> int | None:
    """Return the number of training rows, where the model knows it."""
    held = vars(model)
    if "operator_" in held:
        return int(model.operator_.shape[0])
    if "n_rows_seen_" in held:
        return int(model.n_rows_seen_)
    if "leaves_" in held:
        return sum(leaf.n_rows for leaf in model.leaves_)
    return getattr(learned(model, "plan_"), "n_rows", 0) or None


def _data(model: Any) -> Iterator[Fact]:
    n = rows_of(model)
    rows = "" if n is None else f"{n:,} rows × "
    yield "trained on", f"{rows}{model.n_features_in_:,} features"
    waiting = learned(model, "n_rows_waiting_", 0)
    if waiting:
        yield "waiting", f"{waiting:,} rows, until there are enough to choose landmarks from"
    yield from class_facts(model)


def class_facts(model: Any) -> Iterator[Fact]:
    """Yield the classes of a classifier."""
    classes = learned(model, "classes_")
    if classes is not None:
        names = ", ".join(str(label) for label in classes[:MOST_CLASSES])
        yield "classes", short(f"{len(classes)}: {names}" + ", …" * (len(classes) > MOST_CLASSES))


def kernel_facts(model: Any) -> Iterator[Fact]:
    """Yield the kernel and what regularises the model."""
    if "kernel_" in vars(model):
        yield "kernel", short(repr(model.kernel_))
    for name, attributes in (("alpha", ("alpha_", "alpha")), ("C", ("C",)), ("noise variance", ("noise_",))):
        value = next((getattr(model, each) for each in attributes if hasattr(model, each)), None)
        if value is not None:
            yield name, _number(value)


def _sizes(model: Any) -> Iterator[Fact]:
    plan = learned(model, "plan_")
    if plan is not None:
        yield "method", f"{plan.method} ({plan.reason})"
    if "operator_" in vars(model):
        report = report_sizes(type(model).__name__, model.features_, model.operator_)
        skipped = ("method", "rows")
        yield from ((name, text) for name, text in report.rows() if name not in skipped)
        yield "error", "not measured: report(X) estimates it with its interval, and says where it is"
        return
    blocks = block_sizes(model)
    if blocks:
        yield "blocks", f"{len(blocks[-1][1]):,}"
    if "rank_" in vars(model):
        yield "rank", f"{model.rank_:,}"
    yield from _own_sizes(model)
    size, n = model_bytes(model), rows_of(model)
    if size:
        dense = "" if not n else f", {size / (8 * n * n):.2g} of the {format_bytes(8 * n * n)} of K"
        yield "model", format_bytes(size) + dense


def _own_sizes(model: Any) -> Iterator[Fact]:
    """Yield the sizes that only one kind of model has."""
    if "n_support_" in vars(model):
        counts = np.atleast_1d(model.n_support_)
        each = ", ".join(f"{count:,}" for count in counts[:MOST_CLASSES])
        by_class = f" (by class: {each})" if len(counts) > 1 else ""
        yield "support vectors", short(f"{int(counts.sum()):,}{by_class}")
    shape = learned(model, "shape_")
    if shape is not None and hasattr(shape, "n_units"):
        yield (
            "shape",
            f"{2**shape.n_levels:,} leaves of {shape.n_units:,} units, {shape.n_directions:,} directions",
        )
    if "learned_" in vars(model):
        yield "learned from", str(model.learned_)


def _quality(model: Any) -> Iterator[Fact]:
    for name, attribute in (
        ("best score", "best_score_"),
        ("validation score", "validation_score_"),
        ("log marginal likelihood", "log_marginal_likelihood_value_"),
    ):
        if attribute in vars(model):
            yield name, f"{float(getattr(model, attribute)):.5g}"


def _solver(model: Any) -> Iterator[Fact]:
    solution = learned(model, "solution_")
    if isinstance(solution, Solution):
        steps = f", {solution.iterations:,} iterations" if solution.iterations else ""
        # What Newton's steps leave is a gap of the objective.
        left = "relative gap" if hasattr(model, "C") else "relative residual"
        yield "solver", f"{solution.status.value}{steps}, {left} {solution.residual:.2g}"
    elif "n_iter_" in vars(model):
        yield "iterations", f"{int(np.max(model.n_iter_)):,}"


def _time(model: Any) -> Iterator[Fact]:
    plan = learned(model, "plan_")
    if plan is not None:
        yield (
            "budget",
            f"{format_bytes(plan.memory_budget)}, predicted peak {format_bytes(plan.peak_bytes)}, "
            f"{plan.dtype} tiles",
        )
        if plan.used_seconds:
            yield "fit took", f"{sum(plan.used_seconds.values()):.3g} s"


# ---- sizes -------------------------------------------------------------------------------------


def block_sizes(model: Any) -> list[tuple[str, list[int]]]:
    """Return a name and the size of each block for every level: ranks, or landmarks where they are folded."""
    found = feature_map(model)
    if found is not None:
        forest = found.forest
        return [(f"rank, level {i}", list(forest.ranks[level])) for i, level in enumerate(forest.levels)]
    predictor = learned(model, "predictor_")
    if isinstance(predictor, Predictor):
        nodes = [np.unique(level) for level in predictor.leaf_levels]
        return [
            (f"landmarks, level {i}", [int(predictor.columns[node].n_columns) for node in level])
            for i, level in enumerate(nodes)
        ]
    leaves = learned(model, "leaves_")
    if leaves:
        return [("rows", [leaf.n_rows for leaf in leaves]), ("rank", [leaf.rank for leaf in leaves])]
    return []


def feature_map(model: Any) -> FeatureMap | None:
    """Return the bases of an approximation or a Gaussian process; None where they are not kept."""
    holder = next((learned(model, name) for name in ("posterior_", "_stream") if name in vars(model)), None)
    found = learned(model, "features_", getattr(holder, "features", None))
    return found if isinstance(found, FeatureMap) else None


def model_bytes(model: Any) -> int:
    """Return the bytes of what predictions are made from: weights and points."""
    size = getattr(learned(model, "predictor_"), "model_bytes", None)
    if size is not None:
        return int(size)
    if "_stream" in vars(model):
        return int(model._stream.features.nbytes)
    for attribute in ("features_", "posterior_", "model_", "predictor_"):
        size = getattr(learned(model, attribute), "nbytes", None)
        if size is not None:
            return int(size)
    return 0


# ---- tables ------------------------------------------------------------------------------------


def _blocks(model: Any) -> Iterator[Grid]:
    sizes = block_sizes(model)
    if sizes:
        yield spread_grid("Blocks", "size", sizes)
    operator = learned(model, "operator_")
    rows = getattr(getattr(operator, "operator", operator), "levels", None)
    if rows and len(rows[-1].blocks) > 1:
        counts = [int(block.shape[0]) for block in rows[-1].blocks]
        yield spread_grid("Rows of the blocks", "level", [("leaves", counts)])


def phase_grids(model: Any) -> Iterator[Grid]:
    """Yield the plan's phases with their predicted and used bytes."""
    plan = learned(model, "plan_")
    if plan is not None:
        yield plan.phases()


def _parameters(model: Any) -> Grid:
    params = model.get_params(deep=False)
    return Grid("Parameters", ("name", "value"), tuple((name, _value(v)) for name, v in params.items()))


def _learned(model: Any) -> Grid:
    """Return the learned attributes; properties, which may compute, are left alone."""
    names = [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]
    rows = tuple((name, _value(getattr(model, name))) for name in sorted(names))
    return Grid("Learned attributes", ("name", "value"), rows)


def _value(value: Any) -> str:
    """Return a value as a short text; of large things the type and the shape."""
    if isinstance(value, np.ndarray) and value.size <= 6:
        return short(np.array2string(value, precision=4, separator=", "), 80)
    if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic):
        return f"{type(value).__name__} {value.dtype} {tuple(value.shape)}"
    if value is None or isinstance(value, bool | int | float | str | np.generic | BaseEstimator):
        return short(repr(value) if not isinstance(value, np.generic) else repr(value.item()), 80)
    if isinstance(value, tuple | list | dict):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


def _number(value: Any) -> str:
    return f"{float(value):.4g}" if isinstance(value, int | float | np.number) else _value(value)


# ---- warnings ----------------------------------------------------------------------------------


def warning_texts(model: Any) -> Iterator[str]:
    """Yield what the fit has warned of, as far as its evidence tells."""
    solution = learned(model, "solution_")
    if isinstance(solution, Solution):
        yield from _solution_warnings(model, solution)
    operator = learned(model, "operator_")
    if operator is not None and operator.clipped_:
        yield f"Negative eigenvalues with sum {-operator.clipped_:.3g} were clipped to zero in a solve."
    found = feature_map(model)
    negative = found.notes.get("negative eigenvalues clipped") if found is not None else None
    if negative:
        yield f"Negative eigenvalues of the kernel matrix, with sum {-negative:.3g}, were clipped to zero."
    learning = learned(model, "learning_")
    if learning is not None and not learning.converged:
        yield (
            f"Learning stopped after {learning.iterations} iterations. Raise max_iter, or scale the features."
        )
    violation = learned(model, "violation_")
    if violation is not None and float(np.max(violation)) > float(model.tol):
        yield f"The solver stopped at a violation of {float(np.max(violation)):.3g}, above tol={model.tol:g}."
    missed = [leaf for leaf in learned(model, "leaves_", ()) if not leaf.converged]
    if missed:
        yield f"{len(missed)} of {len(model.leaves_)} local models missed their tolerance. Lower C."


def _solution_warnings(model: Any, solution: Solution) -> Iterator[str]:
    if solution.status is Status.LIMIT and hasattr(model, "C"):
        yield (
            f"The objective ended a predicted {solution.residual:.2g} of its value above its minimum. Raise "
            "max_iter or tol, or lower C."
        )
    elif solution.status not in GOOD:
        yield f"The solver ended with relative residual {solution.residual:.2g}: {solution.status.value}."
    elif solution.status is Status.DIRECT and solution.residual > ridge_tolerance(np.float64):
        yield (
            f"The system was solved to a relative residual of {solution.residual:.2g} only. Raise alpha, or "
            "lower the rank."
        )
    if solution.jitter:
        yield (
            f"{solution.jitter:.3g} was added to the diagonal of a matrix that was not positive definite in "
            "floating point. A larger alpha, or tile_dtype='float64', avoids this."
        )
    if solution.clipped:
        yield f"Negative eigenvalues with sum {-solution.clipped:.3g} were clipped to zero."
