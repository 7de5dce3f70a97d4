"""Facts and tables of a learned metric for the summary of an estimator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gramian.metric.learning import Round
from gramian.metric.metric import Metric
from gramian.summary import Grid, short

#: Features that are named.
MOST_FEATURES = 10


def metric_facts(model: Any) -> Iterator[tuple[str, str]]:
    """Yield form, errors before and after, and the features that count most."""
    metric: Metric | None = vars(model).get("metric_")
    if metric is None:
        return
    form = "diagonal" if metric.matrix is None else "full"
    rounds: tuple[Round, ...] | None = vars(model).get("metric_rounds_")
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
    most = [f"{name} {share:.1%}" for name, share in _leading(model, metric)[:3]]
    yield "important features", short(", ".join(most))


def metric_grids(model: Any) -> Iterator[Grid]:
    """Yield the rounds, and the shares and lengthscales of the most important features."""
    metric: Metric | None = vars(model).get("metric_")
    if metric is None:
        return
    rounds: tuple[Round, ...] = vars(model).get("metric_rounds_", ())
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
    scales = dict(zip(_names(model, metric), metric.lengthscales, strict=True))
    shares = tuple((name, f"{share:.2%}", f"{scales[name]:.4g}") for name, share in _leading(model, metric))
    note = f"The first {MOST_FEATURES} of {metric.n_features}." if metric.n_features > len(shares) else ""
    yield Grid("Features in the metric", ("feature", "share", "lengthscale"), shares, note)


def _leading(model: Any, metric: Metric) -> list[tuple[str, float]]:
    """Return names and shares of the features that count most, in descending order."""
    shares = metric.importances
    names = _names(model, metric)
    order = np.argsort(-shares, kind="stable")[:MOST_FEATURES]
    return [(names[j], float(shares[j])) for j in order]


def _names(model: Any, metric: Metric) -> list[str]:
    names = vars(model).get("feature_names_in_")
    return [f"x{j}" for j in range(metric.n_features)] if names is None else [str(name) for name in names]
