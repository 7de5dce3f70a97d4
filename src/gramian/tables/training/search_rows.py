"""The sampled rows of a table's search: in every scaling, without and with level means."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.tables import EncodedRows, Scaling
from gramian.tables.column import LevelLookup, LevelMeans
from gramian.tables.descent import Setting
from gramian.tables.encoded import read_once
from gramian.tables.holdout import HoldOut
from gramian.tables.level_means import MOST_ROWS, level_groups, level_lookups, level_means, with_means

#: Parts of the rows, each of whose rows get the numbers of their levels from the other parts. Chosen by hand.
FOLDS = 5
#: Part of the remaining time for scalings after the first. Chosen by hand.
PART = 0.25


@dataclass(frozen=True)
class SearchRows:
    """Encoded rows of a table as the search compares them, and as its choice needs them.

    ``forms`` are all rows, without level means (False) and with them (True), if a category has enough rows
    for them; categories of many levels have a number for each level in both. ``scalings`` by name for each
    form; ``scaled`` the sampled rows (m, width) by name of the scaling, under 0 without level means and under
    a number of fitted rows with the means of these.
    """

    forms: dict[bool, EncodedRows]
    scalings: dict[tuple[str, bool], Scaling]
    scaled: dict[tuple[str, int], Float64Array]
    whole: bool  #: whether there was time for all scalings

    @classmethod
    def of(
        cls,
        rows: EncodedRows,
        sampled: tuple[IntArray, int],
        sizes: Sequence[int],
        names: Sequence[str],
        respond: Callable[[IntArray], Float64Array],
        weights: tuple[Array | None, Array | None],
        holdout: HoldOut,
        rng: np.random.Generator,
        until: float = math.inf,
    ) -> Self:
        """Learn level means and scalings with these names, and apply them to the sampled rows.

        ``sampled`` are the numbers of the rows, held-out rows first, and how many these are; ``sizes``
        how many of the others the rounds fit; ``respond`` gives the targets (m, outputs) of rows by
        their numbers; ``weights`` are those of the rows, (n,) or None, for means and for scales;
        ``holdout`` parts the rows, so that no row's own target is in the number of its level. Scalings after
        the first are left out where they would take more than ``PART`` of the time ``until`` then.
        """
        began = time.perf_counter()
        until = began + PART * (until - began)
        (sample, n_held), (own, for_scales) = sampled, weights
        numbers = sample[n_held:]
        counts = None if for_scales is None else for_scales[numbers]
        lookups, known_own = _lookups(rows, respond, own, holdout, rng)
        single = {each.column for each in lookups}
        features = [each for each in rows.columns.features if each.column not in single]
        groups = level_groups(features, rows.take, numbers, counts)

        def means_of(numbers: IntArray, like: Sequence[LevelMeans] = ()) -> tuple[LevelMeans, ...]:
            w = None if own is None else own[numbers]
            return level_means(groups, rows.take, numbers, respond(numbers), w, like)

        wide = replace(rows.columns, lookups=lookups)
        forms = {False: rows.under(wide, known_own) if lookups else rows}
        known = {0: tuple[LevelMeans, ...]()}
        if groups:
            counted = np.arange(rows.shape[0]) if own is None else np.flatnonzero(own > 0)
            few = len(counted) <= MOST_ROWS
            means = means_of(counted if few else rng.choice(counted, MOST_ROWS, replace=False))
            forms[True] = rows.under(replace(wide, means=means), known_own)
            # The search's means know no more rows than the fits that they are compared with.
            known |= {size: means_of(sample[n_held : n_held + size], means) for size in sizes}
        encoded = np.asarray(rows.take(sample), np.float64)
        scalings: dict[tuple[str, bool], Scaling] = {}
        scaled: dict[tuple[str, int], Float64Array] = {}
        whole = True
        for levels, form in forms.items():
            once, columns = read_once(form), form.columns
            how: dict[str, Scaling] = {}
            start = time.perf_counter()
            for name in names:
                each = (time.perf_counter() - start) / max(1, len(how))
                # One more is learned, and then all are applied, which takes about as long each.
                if how and time.perf_counter() + (len(how) + 2) * each > until:
                    break
                how[name] = Scaling.learn(once, columns, how=name, sample_weight=for_scales, rng=rng)
            whole = whole and len(how) == len(names)
            # Scalings that treat every column alike are compared once, under the first of their names.
            distinct = {scaling.methods: name for name, scaling in reversed(how.items())}
            kept = [name for name in how if name in distinct.values()]
            scalings |= {(name, levels): how[name] for name in kept}
            for size in sizes if levels else (0,):
                block = np.hstack([with_means(encoded, known[size]), known_own[sample]])
                scaled |= {(name, size): np.asarray(how[name].apply(block), np.float64) for name in kept}
        return cls(forms, scalings, scaled, whole)

    def of_setting(self, setting: Setting) -> tuple[EncodedRows, Scaling]:
        """Return all rows and the scaling of a setting."""
        return self.forms[setting.levels], self.scalings[setting.scaling, setting.levels]


def _lookups(
    rows: EncodedRows,
    respond: Callable[[IntArray], Float64Array],
    weights: Array | None,
    holdout: HoldOut,
    rng: np.random.Generator,
) -> tuple[tuple[LevelLookup, ...], Float64Array]:
    """Return numbers for the levels of categories of many levels, and those of the rows; none for times."""
    every = np.arange(rows.shape[0])
    many = any(each.infrequent for each in rows.columns.columns)
    folds = holdout.folds(every, FOLDS, rng) if many else None
    if folds is None:
        return (), np.zeros((len(every), 0))
    columns = rows.columns.columns
    return level_lookups(
        columns, rows.order, rows.table, respond(every), weights, folds, rows.columns.missing
    )
