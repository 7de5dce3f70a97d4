"""The problem of a table's search: sampled rows in every scaling, the target in every transformation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from gramian._typing import Float64Array
from gramian.estimator.progress import shown_bar
from gramian.tables.descent import Setting
from gramian.tables.scoring import MappedTarget
from gramian.tables.search import TableSearchResult
from gramian.tables.small_problem import SmallProblem


@dataclass(frozen=True)
class TableProblem:
    """The rows on which a search compares settings: in each scaling, with each target transformation.

    rows : (m, d) for each scaling, held-out rows first, under 0 without level means and under a number of
    fitted rows with the means of these; targets : for each transformation; weights : (m,) or None; groups :
    columns whose values are switched in place of a derivative; n_held_out : held-out rows.
    """

    rows: dict[tuple[str, int], Float64Array]
    targets: dict[str, MappedTarget]
    weights: Float64Array | None
    groups: tuple[tuple[int, ...], ...]
    n_held_out: int

    def at(self, setting: Setting, n_fit: int) -> SmallProblem:
        """Return the exact problem of a setting; held-out rows are first in the sample but last in it."""
        rows = self.rows[setting.scaling, n_fit if setting.levels else 0]
        target = self.targets[setting.target]
        held = slice(0, self.n_held_out)
        chosen = np.r_[self.n_held_out : self.n_held_out + n_fit, held]
        fit = slice(self.n_held_out, self.n_held_out + n_fit)
        weights = self.weights
        return SmallProblem(
            rows[chosen],
            target.centred(fit, weights)[chosen],
            None if weights is None else weights[chosen],
            n_fit,
            target.loss(held, weights),
            self.groups,
            (rows.min(axis=0), rows.max(axis=0)),
        )

    def sensitivities(self, found: TableSearchResult, until: float = math.inf) -> Float64Array:
        """Return E (∂f/∂x_j)² var x_j of the best fit f for each encoded column; ones if there is none."""
        if found.best is None:
            return np.ones(self.rows[found.setting.scaling, 0].shape[1])
        problem = self.at(found.setting, found.n_rows)
        return problem.outer_product(found.best, "diagonal", until) * problem.rows.var(axis=0)


@contextmanager
def shown_search(
    whole: TableProblem, n_settings: int, verbose: int
) -> Iterator[tuple[Callable[[Setting, int], SmallProblem], Callable[[float], object]]]:
    """Yield functions that make the search's problems and, with ``verbose``, show its best error."""
    with shown_bar(verbose, total=n_settings, unit="settings", desc="search") as bar:

        def problem(setting: Setting, n_fit: int) -> SmallProblem:
            bar.set_description(f"search on {n_fit:,} rows")
            if bar.total is not None and bar.n >= bar.total:
                bar.total += 1  # a later round, whose number of settings was not known before
            bar.update(1)
            return whole.at(setting, n_fit)

        yield problem, lambda error: bar.set_postfix_str(f"best error {error:.3g} of the variance")
