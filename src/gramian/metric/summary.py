"""Facts and tables of a learned metric for the summary of an estimator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gramian.estimator.summaries import Evidence
from gramian.metric.input import Input
from gramian.metric.learning import Round
from gramian.metric.metric import Metric
from gramian.summary import Grid, short

#: Features that are named.
MOST_FEATURES = 10


def with_metric(evidence: Evidence, found: Input, names: Sequence[str] | None = None) -> Evidence:
    """Return what a model states, with facts and tables about the metric of its input if it has one."""
    if found.metric is None:
        return evidence
    named = [f"x{j}" for j in range(found.metric.n_features)] if names is None else [*map(str, names)]
    facts, grids = _facts(found.metric, found.rounds, named), _grids(found.metric, found.rounds, named)
    return replace(evidence, metric=tuple(facts), metric_grids=tuple(grids))


def _facts(metric: Metric, rounds: tuple[Round, ...] | None, names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield form, errors before and after, and the features that count most."""
    form = "diagonal" if metric.matrix is None else "full"
    if rounds is None:
        yield "metric", f"{form}, given"
    elif not rounds:
        yield "metric", f"{form}: too few rows to learn one, so that features stay as they are"
    else:
        place = next(i for i, each in enumerate(rounds) if each.kept)
        errors = f"held-out error {rounds[0].error:.4g} → {rounds[place].error:.4g}"
        if place == 0:
            errors = f"held-out error {rounds[0].error:.4g} without one, which no round lowered"
        undone = sum(bool(each.undone) for each in rounds)
        taken_back = f", {undone} undone" if undone else ""
        yield "metric", f"{form}, round {place} of {len(rounds) - 1}{taken_back}: {errors}"
    most = [f"{name} {share:.1%}" for name, share in _leading(metric, names)[:3]]
    yield "important features", short(", ".join(most))


def _grids(metric: Metric, rounds: tuple[Round, ...] | None, names: list[str]) -> Iterator[Grid]:
    """Yield the rounds, and the shares and lengthscales of the most important features."""
    if rounds:
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
        yield Grid("Rounds of the metric", columns, lines)
    scales = dict(zip(names, metric.lengthscales, strict=True))
    shares = tuple((name, f"{share:.2%}", f"{scales[name]:.4g}") for name, share in _leading(metric, names))
    note = f"The first {MOST_FEATURES} of {metric.n_features}." if metric.n_features > len(shares) else ""
    yield Grid("Features in the metric", ("feature", "share", "lengthscale"), shares, note)


def _leading(metric: Metric, names: list[str]) -> list[tuple[str, float]]:
    """Return names and shares of the features that count most, in descending order."""
    shares = metric.importances
    order = np.argsort(-shares, kind="stable")[:MOST_FEATURES]
    return [(names[j], float(shares[j])) for j in order]
