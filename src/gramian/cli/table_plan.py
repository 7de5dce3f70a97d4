"""Plan of the table model for ``gramian plan``: columns, search, and plan of the last fit."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from gramian._budget import parse_bytes
from gramian._typing import Array
from gramian.approximations.multiresolution import MultiResolution
from gramian.cli.settings import AUTO, TABLE_KERNELS, TrainingOptions
from gramian.cli.table_training import columns_facts, unused_columns
from gramian.compression.plan import Plan
from gramian.data.mapped import map_rows
from gramian.data.stored_table import StoredTable
from gramian.engine import Engine, Run
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import ClassTargets, NumberTargets
from gramian.exact.exact import Exact
from gramian.exceptions import BudgetError
from gramian.metric.metric import Metric
from gramian.reporting.judging import REGRESSION
from gramian.ridge.planning import plan_ridge
from gramian.tables import EncodedRows, Scaling, TableColumns
from gramian.tables.base import SEARCH_MEMORY
from gramian.tables.effort import DEFAULT, EFFORTS
from gramian.tables.search import n_held_out, round_sizes
from gramian.tables.small_problem import Point
from gramian.tables.training.model_factory import ModelFactory


def facts(
    table: StoredTable, y: Array, task: str, settings: TrainingOptions
) -> tuple[list[tuple[str, str]], Plan]:
    """Return the encoding of the columns, the planned search, and the plan of the last fit.

    The kernel is the first one that the search would compare, with one bandwidth for all features. If the
    search ends with two kernels, the last fit is made for both.

    Raises ``BudgetError`` if the memory holds no model.
    """
    rng = np.random.default_rng(settings.seed)
    columns = TableColumns.learn(
        table, categorical=settings.categorical or None, missing=settings.missing or None, rng=rng
    )
    unused_columns(columns)  # raises if they are most of them
    rows = EncodedRows(columns, table)
    source = map_rows(rows, Scaling.learn(rows, columns, rng=rng))
    n, d = source.shape
    kernel = TABLE_KERNELS[0] if settings.kernel == AUTO else settings.kernel
    point = Point(kernel, Metric(scales=np.ones(d)), float(d), 0.1)
    sizes = ", ".join(
        f"{size:,}"
        for size in round_sizes(n, parse_bytes(settings.memory) // SEARCH_MEMORY, EFFORTS[DEFAULT])
    )
    found = [
        *columns_facts(columns),
        ("search", f"rounds of {sizes} rows, scored on {n_held_out(n):,} held-out rows"),
    ]
    targets = (NumberTargets if task == REGRESSION else ClassTargets)(y, n)
    resources = Run(parse_bytes(settings.memory), Engine(settings.threads))
    factory = ModelFactory(LabelledRows(source, targets), point, resources, settings.seed)
    whole = factory.exact()
    options: list[Exact | MultiResolution] = [] if whole is None else [whole.exactly()]
    options += factory.approximations
    for approximation in options[:-1]:
        with suppress(BudgetError):
            return found, plan_ridge(factory.parameters(approximation), source, targets.shape[1])
    return found, plan_ridge(factory.parameters(options[-1]), source, targets.shape[1])
