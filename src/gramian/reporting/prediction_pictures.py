"""Pictures of predictions next to the true values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from gramian._random import as_generator
from gramian._typing import Array, Float64Array
from gramian.plotting.canvas import COLOURS, INK, cut, name_axes
from gramian.reporting.drawing import Picture, axes, draw_svg
from gramian.reporting.judging import Judgement

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


BLUE = COLOURS[0]
#: Largest number of points in a scatter plot; bins of a histogram, and of probabilities; largest number of
#: classes that a confusion matrix names. Chosen by hand.
MOST_POINTS, BINS, PROBABILITY_BINS, NAMED_CLASSES = 4000, 40, 10, 20
#: Most settings of a search that are drawn. Chosen by hand.
MOST_TRIALS = 12
#: Levels of the intervals whose coverage is drawn.
LEVELS = np.linspace(0.05, 0.99, 20)


def of_predictions(judged: Judgement, model: BaseEstimator, seed: int) -> Iterator[Picture]:
    """Yield confusion matrix and calibration for classes, or residuals and coverage for numbers."""
    y, predicted = judged.y, judged.predicted
    if y is None or predicted is None:
        return
    if judged.task == "classification":
        yield _confusion(y, predicted)
        if judged.probabilities is not None:
            yield _reliability(y, model.classes_, judged.probabilities)
        return
    y, predicted = y.astype(np.float64), predicted.astype(np.float64)
    yield _against(y, predicted, seed)
    yield _residuals(y - predicted)
    if judged.deviations is not None:
        yield _coverage((y - predicted) / judged.deviations)


def _confusion(y: Array, predicted: Array) -> Picture:
    classes = np.unique(np.concatenate([y.astype(str), predicted.astype(str)]))
    rows, columns = np.searchsorted(classes, y.astype(str)), np.searchsorted(classes, predicted.astype(str))
    counts = np.zeros((len(classes), len(classes)), np.intp)
    np.add.at(counts, (rows, columns), 1)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = min(6.0, 2.6 + 0.42 * len(classes))
    figure, ax = axes((side + 0.8, side))
    image = ax.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    figure.colorbar(image, ax=ax, shrink=0.8, label="share of the class")
    ax.grid(False)
    ticks = range(0, len(classes), -(-len(classes) // NAMED_CLASSES))
    names = [cut(classes[t]) for t in ticks]
    ax.set_xticks(ticks, names, rotation=45 if max(map(len, names)) > 3 else 0, ha="center")
    ax.set_yticks(ticks, names)
    name_axes(ax, "predicted", "true")
    if len(classes) <= NAMED_CLASSES:
        for (s, t), count in np.ndenumerate(counts):
            if count:
                colour = "white" if shares[s, t] > 0.55 else INK
                ax.text(t, s, f"{count:,}", ha="center", va="center", color=colour, fontsize=8)
    worst = int(np.argmin(np.where(counts.sum(axis=1) > 0, np.diag(shares), np.inf)))
    caption = (
        f"{int(np.trace(counts)):,} of {len(y):,} rows are right; of {cut(classes[worst])} "
        f"{shares[worst, worst]:.1%}, the least of all classes."
    )
    return draw_svg(figure, "Confusion", caption)


def _reliability(y: Array, classes: Array, probabilities: Float64Array) -> Picture:
    """Draw how often the likeliest class is right, against its predicted probability."""
    sure = probabilities.max(axis=1)
    right = classes[probabilities.argmax(axis=1)].astype(str) == y.astype(str)
    edges = np.linspace(0.0, 1.0, PROBABILITY_BINS + 1)
    bins = np.clip(np.digitize(sure, edges) - 1, 0, PROBABILITY_BINS - 1)
    used = np.unique(bins)
    thought = np.array([sure[bins == b].mean() for b in used])
    was = np.array([right[bins == b].mean() for b in used])
    counts = np.array([(bins == b).sum() for b in used])
    figure, ax = axes()
    ax.plot([0, 1], [0, 1], color=INK, linewidth=1.0, linestyle="--")
    ax.plot(thought, was, color=BLUE, linewidth=1.2)
    ax.scatter(thought, was, s=12 + 90 * counts / counts.max(), color=BLUE, zorder=3)
    low = min(0.98 * float(min(thought.min(), was.min())), 0.9)
    ax.set_xlim(low, 1.01)
    ax.set_ylim(low, 1.03)
    name_axes(ax, "probability of the likeliest class", "share of rows where it is right")
    gap = float((counts * abs(was - thought)).sum() / counts.sum())
    caption = f"On the dashed line probabilities are frequencies; the mean distance from it is {gap:.3g}."
    return draw_svg(figure, "Calibration", caption)


def _against(y: Float64Array, predicted: Float64Array, seed: int) -> Picture:
    shown = np.arange(len(y))
    if len(y) > MOST_POINTS:
        shown = as_generator(seed).permutation(len(y))[:MOST_POINTS]
    figure, ax = axes((4.2, 3.8))
    ends = [min(y.min(), predicted.min()), max(y.max(), predicted.max())]
    ax.plot(ends, ends, color=INK, linewidth=1.0, linestyle="--")
    opacity = float(np.clip(300 / len(shown), 0.15, 0.8))
    ax.scatter(y[shown], predicted[shown], s=9, color=BLUE, alpha=opacity, linewidths=0, rasterized=True)
    name_axes(ax, "true", "predicted")
    some = "" if len(shown) == len(y) else f"{len(shown):,} of {len(y):,} rows, drawn at random. "
    return draw_svg(figure, "Predicted against true", f"{some}On the dashed line predictions are right.")


def _residuals(residuals: Float64Array) -> Picture:
    figure, ax = axes((4.2, 3.8))
    ax.hist(residuals, BINS, color=BLUE, alpha=0.85)
    ax.axvline(0.0, color=INK, linewidth=1.0, linestyle="--")
    name_axes(ax, "true − predicted", "rows")
    low, middle, high = np.quantile(residuals, (0.05, 0.5, 0.95))
    return draw_svg(
        figure, "Residuals", f"Median {middle:.3g}; nine of ten lie from {low:.3g} to {high:.3g}."
    )


def _coverage(scores: Float64Array) -> Picture:
    """Draw the share of true values inside the intervals of a Gaussian process."""
    covered = np.array([np.mean(abs(scores) <= ndtri(0.5 + level / 2)) for level in LEVELS])
    at = float(np.mean(abs(scores) <= ndtri(0.975)))
    return _shares(LEVELS, covered, f"95 % intervals hold {at:.1%} of the true values.")


def _shares(levels: Sequence[float] | Array, shares: Sequence[float] | Array, caption: str) -> Picture:
    figure, ax = axes()
    ax.plot([0, 1], [0, 1], color=INK, linewidth=1.0, linestyle="--")
    ax.plot(levels, shares, color=BLUE, linewidth=1.6, marker="o", markersize=3)
    name_axes(ax, "level of the interval", "share of true values in it")
    return draw_svg(figure, "Coverage of the intervals", caption)


def of_shares(judged: Judgement) -> Iterator[Picture]:
    """Yield the coverage of the intervals of a model of tables."""
    if len(judged.coverage) > 1:
        told = ", ".join(f"{level:.0%} hold {share:.1%}" for level, share in judged.coverage.items())
        yield _shares(list(judged.coverage), list(judged.coverage.values()), f"Intervals of {told}.")


def of_trials(model: BaseEstimator) -> Iterator[Picture]:
    """Yield the validation errors of the settings that the search of a model of tables compared."""
    trials = getattr(getattr(model, "search_", None), "trials", ())
    if len(trials) < 2:
        return
    ordered = sorted(trials, key=lambda each: each.error)[:MOST_TRIALS]
    figure, ax = axes((6.4, 1.2 + 0.26 * len(ordered)))
    places = np.arange(len(ordered))
    colours = [BLUE if each.kept else "#9fb8cc" for each in ordered]
    ax.barh(places, [each.error for each in ordered], 0.72, color=colours)
    names = []
    for each in ordered:
        target = f", {each.setting.target}" if getattr(each.setting, "target", None) else ""
        names.append(f"{each.setting.kernel}, {each.setting.scaling}{target} ({each.n_rows:,} rows)")
    ax.set_yticks(places, names, fontsize=7)
    ax.invert_yaxis()
    ax.grid(False, axis="y")
    name_axes(ax, "validation error, as a share of the variance", "")
    caption = "The dark bar was chosen. Settings that did badly on few rows were not tried on more."
    yield draw_svg(figure, "Settings compared on held-out rows", caption)
