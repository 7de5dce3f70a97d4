"""The sampled rows of a table's search: in every scaling, without and with level means."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from gramian._typing import Float64Array, IntArray
from gramian.tables import EncodedRows, Scaling
from gramian.tables.column import LevelLookup, LevelMeans
from gramian.tables.encoded import FitRows, read_once
from gramian.tables.level_means import MOST_ROWS, level_groups, level_lookups, level_means, with_means
from gramian.tables.scoring import MappedTarget
from gramian.tables.search import TableSearchResult
from gramian.tables.small_problem import Setting, SmallProblem

#: Parts of the rows, each of whose rows get the numbers of their levels from the other parts. Chosen by hand.
FOLDS = 5
#: Part of the remaining time for scalings after the first. Chosen by hand.
PART = 0.25


@dataclass(frozen=True)
class SearchRows:
    """Encoded rows of a table as the search compares them, and as its choice needs them.

    ``forms`` are all rows, without level means (False) and with them (True), if a category has enough rows
    for them; categories of many levels have a number for each level in both. ``scalings`` by name for each
    form; ``scaled`` the sampled rows (m, width) by name of the scaling, held-out rows first, under 0 without
    level means and under a number of fitted rows with the means of these. ``targets`` of these rows for each
    transformation; ``weights`` (m,) or None; ``n_held_out`` how many are held out; ``switched`` the columns
    whose values are switched in place of a derivative.
    """

    forms: dict[bool, EncodedRows]
    scalings: dict[tuple[str, bool], Scaling]
    scaled: dict[tuple[str, int], Float64Array]
    whole: bool  #: whether there was time for all scalings
    targets: dict[str, MappedTarget]
    weights: Float64Array | None
    n_held_out: int
    switched: tuple[tuple[int, ...], ...]

    @classmethod
    def of(
        cls, fit: FitRows, targets: dict[str, MappedTarget], sizes: Sequence[int], names: Sequence[str]
    ) -> Self:
        """Learn level means and scalings with these names, and apply them to the sampled rows.

        ``sizes`` : how many of the rows that are not held out the rounds fit. No row's own target is in the
        number of its level. Scalings after the first are left out where they would take more than ``PART`` of
        the remaining time.
        """
        began = time.perf_counter()
        deadline = began + PART * (fit.deadline - began)
        rows, sample, n_held, rng = fit.rows, fit.sample, fit.n_held_out, fit.rng
        numbers, weights = sample[n_held:], fit.weights
        counts = None if fit.own_weights is None else fit.own_weights[numbers]
        every, columns = np.arange(rows.shape[0]), rows.columns.columns
        lookups, known_own = tuple[LevelLookup, ...](), np.zeros((len(every), 0))
        many = any(each.infrequent for each in columns)
        folds = fit.holdout.folds(every, FOLDS, rng) if many else None  # None for times
        if folds is not None:
            given, missing = fit.responses(every), rows.columns.missing
            lookups, known_own = level_lookups(
                columns, rows.order, rows.table, given, weights, folds, missing
            )
        single = {each.column for each in lookups}
        features = [each for each in rows.columns.features if each.column not in single]
        groups = level_groups(features, rows.take, numbers, counts)

        def means_of(numbers: IntArray, like: Sequence[LevelMeans] = ()) -> tuple[LevelMeans, ...]:
            w = None if weights is None else weights[numbers]
            return level_means(groups, rows.take, numbers, fit.responses(numbers), w, like)

        wide = replace(rows.columns, lookups=lookups)
        forms = {False: EncodedRows(wide, rows.table, known_own) if lookups else rows}
        known = {0: tuple[LevelMeans, ...]()}
        if groups:
            counted = every if weights is None else np.flatnonzero(weights > 0)
            few = len(counted) <= MOST_ROWS
            means = means_of(counted if few else rng.choice(counted, MOST_ROWS, replace=False))
            forms[True] = EncodedRows(replace(wide, means=means), rows.table, known_own)
            # The search's means know no more rows than the fits that they are compared with.
            known |= {size: means_of(sample[n_held : n_held + size], means) for size in sizes}
        encoded = np.asarray(rows.take(sample), np.float64)
        scalings: dict[tuple[str, bool], Scaling] = {}
        scaled: dict[tuple[str, int], Float64Array] = {}
        whole = True
        for levels, form in forms.items():
            once, how, start = read_once(form), dict[str, Scaling](), time.perf_counter()
            for name in names:
                each = (time.perf_counter() - start) / max(1, len(how))
                # One more is learned, and then all are applied, which takes about as long each.
                if how and time.perf_counter() + (len(how) + 2) * each > deadline:
                    break
                how[name] = Scaling.learn(
                    once, form.columns, how=name, sample_weight=fit.own_weights, rng=rng
                )
            whole = whole and len(how) == len(names)
            # Scalings that treat every column alike are compared once, under the first of their names.
            distinct = {scaling.methods: name for name, scaling in reversed(how.items())}
            kept = [name for name in how if name in distinct.values()]
            scalings |= {(name, levels): how[name] for name in kept}
            for size in sizes if levels else (0,):
                block = np.hstack([with_means(encoded, known[size]), known_own[sample]])
                scaled |= {(name, size): np.asarray(how[name].apply(block), np.float64) for name in kept}
        sampled = None if weights is None else np.asarray(weights[sample], np.float64)
        return cls(forms, scalings, scaled, whole, targets, sampled, n_held, fit.switched)

    def problem_of(self, setting: Setting, n_fit: int) -> SmallProblem:
        """Return the exact problem of a setting; held-out rows are first in the sample but last in it."""
        rows = self.scaled[setting.scaling, n_fit if setting.levels else 0]
        target, weights = self.targets[setting.target], self.weights
        held, fit = slice(0, self.n_held_out), slice(self.n_held_out, self.n_held_out + n_fit)
        chosen = np.r_[fit, held]
        return SmallProblem(
            rows[chosen],
            target.centred(fit, weights)[chosen],
            None if weights is None else weights[chosen],
            n_fit,
            target.loss(held, weights),
            self.switched,
            (rows.min(axis=0), rows.max(axis=0)),
        )

    def sensitivities(self, search: TableSearchResult, deadline: float) -> Float64Array:
        """Return E (∂f/∂x_j)² var x_j of the best fit f for each encoded column; ones if there is none."""
        if search.best is None:
            return np.ones(self.scaled[search.setting.scaling, 0].shape[1])
        problem = self.problem_of(search.setting, search.n_rows)
        return problem.outer_product(search.best, "diagonal", deadline) * problem.rows.var(axis=0)
