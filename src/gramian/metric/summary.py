"""Facts and tables of a learned metric for the summary of an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gramian.estimator.summaries import Evidence
from gramian.metric.input import Input
from gramian.summary import Grid, short

#: Features that are named.
MOST_FEATURES = 10


def with_metric(evidence: Evidence, found: Input, names: Sequence[str] | None = None) -> Evidence:
    """Return what a model states, with facts and tables about the metric of its input if it has one.

    The facts are its form, the errors before and after, and the features that count most; the tables its
    rounds, and the shares and lengthscales of these features.
    """
    metric, rounds, grids = found.metric, found.rounds, list[Grid]()
    if metric is None:
        return evidence
    form = "diagonal" if metric.matrix is None else "full"
    if rounds is None:
        text = f"{form}, given"
    elif not rounds:
        text = f"{form}: too few rows to learn one, so that features stay as they are"
    else:
        place = next(i for i, each in enumerate(rounds) if each.kept)
        errors = f"held-out error {rounds[0].error:.4g} → {rounds[place].error:.4g}"
        if place == 0:
            errors = f"held-out error {rounds[0].error:.4g} without one, which no round lowered"
        undone = sum(bool(each.undone) for each in rounds)
        taken_back = f", {undone} undone" if undone else ""
        text = f"{form}, round {place} of {len(rounds) - 1}{taken_back}: {errors}"
        lines = tuple(
            (
                str(i),
                f"{each.error:.4g}",
                f"{each.power:.3g}",
                f"{each.bandwidth:.3g}",
                f"{each.seconds:.2g}",
                "kept" if each.kept else f"undone: {each.undone}" if each.undone else "",
            )
            for i, each in enumerate(rounds)
        )
        columns = ("round", "held-out error", "power", "bandwidth", "seconds", "")
        grids.append(Grid("Rounds of the metric", columns, lines))
    named = [f"x{j}" for j in range(metric.n_features)] if names is None else [*map(str, names)]
    shares, lengths = metric.importances, metric.lengthscales
    order = np.argsort(-shares, kind="stable")[:MOST_FEATURES]
    note = f"The first {MOST_FEATURES} of {metric.n_features}." if metric.n_features > len(order) else ""
    features = tuple((named[j], f"{shares[j]:.2%}", f"{lengths[j]:.4g}") for j in order)
    grids.append(Grid("Features in the metric", ("feature", "share", "lengthscale"), features, note))
    most = short(", ".join(f"{named[j]} {shares[j]:.1%}" for j in order[:3]))
    return replace(
        evidence, metric=(("metric", text), ("important features", most)), metric_grids=tuple(grids)
    )
