"""Facts that a fitted estimator states about itself, and their display; no rows are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from gramian._budget import format_bytes
from gramian._typing import Rows
from gramian.compression.features import BlockSizes, FeatureMap
from gramian.compression.plan import Plan
from gramian.compression.report import Report
from gramian.kernels.base import Kernel
from gramian.solvers.core import CoupledCore
from gramian.summary import Grid, Summary, round_decimals, short, spread_grid

#: Classes that are named.
MOST_CLASSES = 10
Fact = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class FitFacts:
    """Sizes, scores and warnings of a fit, from which its summary and its pictures are made.

    Each class of estimators states them in ``_evidence``, beside its fit, as far as it has them.
    """

    n_rows: int = 0  #: training rows; 0 if unknown
    waiting: int = 0  #: rows of a stream that wait until there are enough of them
    kernel: Kernel | None = None
    penalty: Mapping[str, Any] = field(default_factory=dict)  #: what regularises the model, by name
    metric: Sequence[Fact] = ()  #: about the learned metric
    metric_grids: Sequence[Grid] = ()
    plan: Plan | None = None
    report: Report | None = None  #: of a compressed matrix: takes the place of the sizes below
    blocks: BlockSizes = ()
    block_rows: Sequence[int] = ()  #: training rows of each leaf block, where their bases are stored
    rank: int | None = None
    sizes: Sequence[Fact] = ()  #: sizes that only this kind of model has
    nbytes: int = 0  #: what predictions are made from: weights and points; 0 if unknown
    core: CoupledCore | None = None
    points: Sequence[Rows] = ()  #: of each node, those that kernel values are taken with
    scores: Mapping[str, Any] = field(default_factory=dict)  #: by name
    solver: Sequence[Fact] = ()
    warnings: Sequence[str] = ()

    @classmethod
    def of_map(cls, features: FeatureMap) -> Self:
        """Return the evidence of a feature map."""
        return cls(
            kernel=features.kernel,
            blocks=features.block_sizes,
            rank=features.rank,
            nbytes=features.nbytes,
            core=features.core,
            points=tuple(basis.landmarks for basis in features.nodes),
            warnings=features.warnings,
        )

    def model_facts(self) -> Iterator[Fact]:
        """Yield the kernel and what regularises the model."""
        if self.kernel is not None:
            yield "kernel", short(round_decimals(repr(self.kernel)))
        yield from ((name, number(value)) for name, value in self.penalty.items())

    def fit_facts(self, *, spent: bool = True) -> Iterator[Fact]:
        """Yield sizes, memory, scores and the solver's evidence; with ``spent`` budget and seconds."""
        if self.plan is not None:
            yield "method", self.plan.title
        if self.report is None:
            yield from self._sizes()
        else:
            _, _, *facts = self.report.rows()  # its method and rows are said already
            yield from facts
            yield "error", "not measured: report(X) estimates it with its interval, and says where it is"
        yield from ((name, number(value, 5)) for name, value in self.scores.items())
        yield from self.solver
        if self.plan is not None and spent:
            yield from self.plan.spent()

    def _sizes(self) -> Iterator[Fact]:
        if self.blocks:
            yield "blocks", f"{len(self.blocks[-1][1]):,}"
        if self.rank is not None:
            yield "rank", f"{self.rank:,}"
        yield from self.sizes
        if self.nbytes:
            dense = 8 * self.n_rows**2
            of_dense = f", {self.nbytes / dense:.2g} of the {format_bytes(dense)} of K" if dense else ""
            yield "model", format_bytes(self.nbytes) + of_dense

    def grids(self) -> Iterator[Grid]:
        """Yield the tables about metric, blocks and phases."""
        yield from self.metric_grids
        if self.blocks:
            yield spread_grid("Blocks", "size", self.blocks)
        if len(self.block_rows) > 1:
            yield spread_grid("Rows of the blocks", "level", [("leaves", self.block_rows)])
        if self.plan is not None:
            yield self.plan.phases()


def summary_of(model: BaseEstimator, stated: FitFacts, classes: Sequence[Fact] = ()) -> Summary:
    """Return sizes, memory, scores, evidence of the solver, warnings and parameters of a fitted estimator.

    ``classes`` are the facts about those of a classifier. Time O(blocks + parameters); the rows are not
    needed, so that the model may come from a file.
    """
    rows = f"{stated.n_rows:,} rows × " if stated.n_rows else ""
    facts = [("trained on", f"{rows}{model.n_features_in_:,} features")]
    if stated.waiting:
        text = f"{stated.waiting:,} rows, until there are enough to choose landmarks from"
        facts.append(("waiting", text))
    facts += [*classes, *stated.model_facts(), *stated.metric, *stated.fit_facts()]
    grids = (*stated.grids(), *state_grids(model))
    return Summary(type(model).__name__, tuple(facts), grids, tuple(stated.warnings))


def state_grids(model: BaseEstimator) -> tuple[Grid, Grid]:
    """Return the parameters and the learned attributes; properties, which may compute, are left alone."""
    learned = {
        name: value for name, value in sorted(vars(model).items()) if name.endswith("_") and name[0] != "_"
    }
    return _values_grid("Parameters", model.get_params(deep=False)), _values_grid(
        "Learned attributes", learned
    )


def _values_grid(title: str, values: Mapping[str, Any]) -> Grid:
    return Grid(title, ("name", "value"), tuple((name, _value(value)) for name, value in values.items()))


def _value(value: object) -> str:
    """Return a value as a short text; of large things the type and the shape."""
    if isinstance(value, np.ndarray) and value.size <= 6:
        return short(np.array2string(value, precision=4, separator=", "), 80)
    if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic):
        return f"{type(value).__name__} {value.dtype} {tuple(value.shape)}"
    if value is None or isinstance(value, bool | int | float | str | np.generic | BaseEstimator):
        return short(round_decimals(repr(value.item() if isinstance(value, np.generic) else value)), 80)
    if isinstance(value, tuple | list | dict):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


def number(value: object, digits: int = 4) -> str:
    """Return a number with some digits, or another value as a short text."""
    return f"{float(value):.{digits}g}" if isinstance(value, int | float | np.number) else _value(value)


def check_has_fit(model: BaseEstimator) -> None:
    """Raise ``NotFittedError`` for an estimator without a fit to summarise."""
    check_is_fitted(model, msg="This %(name)s is not fitted: call fit before summary.")


def shown_summary(model: BaseEstimator) -> Summary | None:
    """Return the summary of a fitted estimator, or None before a fit."""
    try:
        summary: Summary = model.summary()
        return summary
    except NotFittedError:
        return None
    # A notebook that prints a model should never end in a traceback.
    except Exception as error:
        text = f"The summary could not be made ({type(error).__name__}: {error}). Please report this."
        return Summary(type(model).__name__, (), warnings=(text,))
