"""The problem of a table's search: sampled rows in every scaling, the target in every transformation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gramian._typing import Float64Array
from gramian.tables.descent import Setting
from gramian.tables.mapped_target import MappedTarget
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
