"""Pictures of a report: predictions next to the true values, importances, searches, and a model's inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import Pipeline

from gramian._numerics import rank_cutoff
from gramian._random import as_generator
from gramian._typing import Array, Float64Array
from gramian.compression.features import BlockSizes
from gramian.compression.plan import Plan
from gramian.estimator.summaries import FitFacts
from gramian.kernels.columns import dense
from gramian.kernels.precomputed import Precomputed
from gramian.plotting.alpha_path import AlphaPathDisplay
from gramian.plotting.bars import BAR, FRAME, ImportanceDisplay
from gramian.plotting.canvas import (
    BLUE,
    INK,
    NOTE_SIZE,
    ORANGE,
    Axes,
    name_axes,
    padded,
    scale_axis,
    text_of,
    write_cells,
)
from gramian.reporting.document import Picture, axes, draw_svg
from gramian.reporting.judging import CLASSIFICATION, Judgement, behind
from gramian.ridge.cross_validation import KernelRidgeCV
from gramian.spectra.kernel_pca import KernelPCA
from gramian.summary import short

#: Largest number of points in a scatter plot; bins of a histogram, and of probabilities; largest number of
#: classes that a confusion matrix names. Chosen by hand.
MOST_POINTS, BINS, PROBABILITY_BINS, NAMED_CLASSES = 4000, 40, 10, 20
#: Most settings of a search, most features whose importance, and most blocks that are drawn as a bar each.
#: Chosen by hand.
MOST_TRIALS, MOST_IMPORTANT, MOST_BARS = 12, 20, 80
#: Largest order of a core, or of the landmarks' Gram matrix, whose eigenvalues are drawn. Chosen by hand.
MOST_EIGENVALUES = 1500
#: Levels of the intervals whose coverage is drawn.
LEVELS = np.linspace(0.05, 0.99, 20)


def pictures_of(model: BaseEstimator, judged: Judgement | None, *, seed: int = 0) -> Iterator[Picture]:
    """Yield the pictures of a fitted estimator (or pipeline) and of its predictions."""
    last = model[-1] if isinstance(model, Pipeline) else model
    if judged is not None:
        yield from of_predictions(judged, last, seed)
    yield from of_importances(last)
    yield from of_path(next(iter(behind(last)), last))
    yield from of_inside(last, seed)


# ---- predictions ------------------------------------------------------------------------------


def of_predictions(judged: Judgement, model: BaseEstimator, seed: int) -> Iterator[Picture]:
    """Yield confusion matrix and calibration for classes, or residuals and coverage for numbers."""
    y, predicted = judged.y, judged.predicted
    if y is None or predicted is None:
        return
    if judged.task == CLASSIFICATION:
        yield _confusion(y, predicted)
        if judged.probabilities is not None:
            yield _reliability(y, model.classes_, judged.probabilities)
        return
    y, predicted = y.astype(np.float64), predicted.astype(np.float64)
    shown = np.arange(len(y))
    if len(y) > MOST_POINTS:
        shown = as_generator(seed).permutation(len(y))[:MOST_POINTS]
    figure, ax = axes((4.2, 3.8))
    _diagonal(ax, min(y.min(), predicted.min()), max(y.max(), predicted.max()))
    opacity = float(np.clip(300 / len(shown), 0.15, 0.8))
    ax.scatter(y[shown], predicted[shown], s=9, color=BLUE, alpha=opacity, linewidths=0, rasterized=True)
    name_axes(ax, "true", "predicted")
    some = "" if len(shown) == len(y) else f"{len(shown):,} of {len(y):,} rows, drawn at random. "
    yield draw_svg(figure, "Predicted against true", f"{some}On the dashed line predictions are right.")
    residuals = y - predicted
    figure, ax = axes((4.2, 3.8))
    ax.hist(residuals, BINS, color=BLUE, alpha=0.85)
    ax.axvline(0.0, color=INK, linewidth=1.0, linestyle="--")
    name_axes(ax, "true − predicted", "rows")
    low, middle, high = np.quantile(residuals, (0.05, 0.5, 0.95))
    spread = f"Median {middle:.3g}; nine of ten lie from {low:.3g} to {high:.3g}."
    yield draw_svg(figure, "Residuals", spread)
    if judged.deviations is not None:
        scores = abs(residuals / judged.deviations)
        held = [np.mean(scores <= ndtri(0.5 + level / 2)) for level in (*LEVELS, 0.95)]
        caption = f"95 % intervals hold {held.pop():.1%} of the true values."
        yield _coverage(LEVELS, held, caption)


def of_coverage(judged: Judgement) -> Iterator[Picture]:
    """Yield the coverage of the intervals of a model of tables."""
    if len(judged.coverage) > 1:
        levels, shares = zip(*judged.coverage.items(), strict=True)
        yield _coverage(levels, shares, f"Intervals of {judged.coverage_text}.")


def _coverage(levels: Sequence[float] | Array, shares: Sequence[Any], caption: str) -> Picture:
    figure, ax = axes()
    _diagonal(ax, 0.0, 1.0)
    ax.plot(levels, shares, color=BLUE, linewidth=1.6, marker="o", markersize=3)
    name_axes(ax, "level of the interval", "share of true values in it")
    return draw_svg(figure, "Coverage of the intervals", caption)


def _diagonal(ax: Axes, low: float, high: float) -> None:
    ax.plot([low, high], [low, high], color=INK, linewidth=1.0, linestyle="--")


def _confusion(y: Array, predicted: Array) -> Picture:
    true, said = y.astype(str), predicted.astype(str)
    classes = np.union1d(true, said)
    counts = confusion_matrix(true, said, labels=classes)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = min(6.0, 2.6 + 0.42 * len(classes))
    figure, ax = axes((side + 0.8, side))
    image = ax.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    figure.colorbar(image, ax=ax, shrink=0.8, label="share of the class")
    ax.grid(False)
    ticks = range(0, len(classes), -(-len(classes) // NAMED_CLASSES))
    names = [short(classes[t], 14) for t in ticks]
    ax.set_xticks(ticks, names, rotation=45 if max(map(len, names)) > 3 else 0, ha="center")
    ax.set_yticks(ticks, names)
    name_axes(ax, "predicted", "true")
    if len(classes) <= NAMED_CLASSES:
        texts = (f"{count:,}" if count else "" for count in counts.flat)
        write_cells(ax, texts, shares > 0.55, size=8.0)
    worst = int(np.argmin(np.where(counts.sum(axis=1) > 0, np.diag(shares), np.inf)))
    caption = (
        f"{int(np.trace(counts)):,} of {len(y):,} rows are right; of {short(classes[worst], 14)} "
        f"{shares[worst, worst]:.1%}, the least of all classes."
    )
    return draw_svg(figure, "Confusion", caption)


def _reliability(y: Array, classes: Array, probabilities: Float64Array) -> Picture:
    """Draw how often the likeliest class is right, against its predicted probability."""
    sure = probabilities.max(axis=1)
    right = classes[probabilities.argmax(axis=1)].astype(str) == y.astype(str)
    edges = np.linspace(0.0, 1.0, PROBABILITY_BINS + 1)
    bins = np.clip(np.digitize(sure, edges) - 1, 0, PROBABILITY_BINS - 1)
    _, bins, counts = np.unique(bins, return_inverse=True, return_counts=True)
    thought, was = np.bincount(bins, sure) / counts, np.bincount(bins, right) / counts
    figure, ax = axes()
    _diagonal(ax, 0.0, 1.0)
    ax.plot(thought, was, color=BLUE, linewidth=1.2)
    ax.scatter(thought, was, s=12 + 90 * counts / counts.max(), color=BLUE, zorder=3)
    low = min(0.98 * float(min(thought.min(), was.min())), 0.9)
    ax.set_xlim(low, 1.01)
    ax.set_ylim(low, 1.03)
    name_axes(ax, "probability of the likeliest class", "share of rows where it is right")
    gap = float((counts * abs(was - thought)).sum() / counts.sum())
    caption = f"On the dashed line probabilities are frequencies; the mean distance from it is {gap:.3g}."
    return draw_svg(figure, "Calibration", caption)


# ---- the model --------------------------------------------------------------------------------


def of_trials(model: BaseEstimator) -> Iterator[Picture]:
    """Yield the validation errors of the settings that the search of a model of tables compared."""
    trials = sorted(getattr(getattr(model, "search_", None), "trials", ()), key=lambda each: each.error)
    if len(trials) < 2:
        return
    ordered, names = trials[:MOST_TRIALS], []
    figure, ax = axes((6.4, 1.2 + 0.26 * len(ordered)))
    for each in ordered:
        target = f", {each.setting.target}" if getattr(each.setting, "target", None) else ""
        names.append(f"{each.setting.kernel}, {each.setting.scaling}{target} ({each.n_rows:,} rows)")
    colours = [BLUE if each.kept else "#9fb8cc" for each in ordered]
    ax.barh(np.arange(len(ordered)), [each.error for each in ordered], 0.72, color=colours)
    ax.set_yticks(np.arange(len(ordered)), names, fontsize=7)
    ax.invert_yaxis()
    ax.grid(False, axis="y")
    name_axes(ax, "validation error, as a share of the variance", "")
    caption = "The dark bar was chosen. Settings that did badly on few rows were not tried on more."
    yield draw_svg(figure, "Settings compared on held-out rows", caption)


def of_inside(model: BaseEstimator, seed: int) -> Iterator[Picture]:
    """Yield blocks, spectrum and phases of a model, or of the first of those behind a model of tables."""
    last = next(iter(behind(model)), model)
    stated = last._evidence()
    yield from of_blocks(stated.blocks)
    yield from of_spectrum(last, stated, seed)
    if stated.plan is not None:
        yield from of_phases(stated.plan)


def of_path(model: BaseEstimator) -> Iterator[Picture]:
    """Yield the errors of each alpha of a cross-validated ridge model."""
    if isinstance(model, KernelRidgeCV) and len(np.asarray(model.cv_results_["alphas"])) > 1:
        figure, ax = axes((6.4, 3.8))
        AlphaPathDisplay.from_estimator(model, ax=ax)
        yield draw_svg(figure, "The search for alpha", "What every alpha was worth on rows left out.")


def of_importances(model: BaseEstimator) -> Iterator[Picture]:
    """Yield the importances of the features, if the model has any."""
    if getattr(model, "feature_importances_", None) is None:
        return
    figure, ax = axes((6.4, FRAME + BAR * min(MOST_IMPORTANT, len(model.feature_importances_))))
    shown = ImportanceDisplay.from_estimator(model, n_features=MOST_IMPORTANT, title="", ax=ax)
    how = "Shares" if shown.errors is None else "By permutation of held-out rows; shares"
    said = f"Most of all at {short(shown.feature_names[shown.order[0]], 14)}. {how} add up to 1."
    yield draw_svg(figure, "What the model looks at", said)


def of_blocks(blocks: BlockSizes) -> Iterator[Picture]:
    """Yield the sizes of the blocks of each level."""
    for name, sizes in [(name, np.sort(sizes)[::-1]) for name, sizes in blocks if len(sizes) > 1]:
        figure, ax = axes()
        if len(sizes) <= MOST_BARS:
            ax.bar(np.arange(len(sizes)) + 0.5, sizes, 0.84, color=BLUE)
        else:
            ax.stairs(sizes, np.arange(len(sizes) + 1), color=BLUE, fill=True)
        what = name.split(",")[0]
        name_axes(ax, "block, the largest first", what)
        ax.set_ylim(0, 1.08 * max(1, sizes.max()))
        ax.set_xlim(0, len(sizes))
        ax.grid(False, axis="x")
        spread = f"{sizes.min():,}" + (f" to {sizes.max():,}" if sizes.min() < sizes.max() else " each")
        yield draw_svg(
            figure, f"Blocks: {name}", f"{len(sizes):,} blocks, {what} {spread}, {sizes.sum():,} together."
        )


def of_spectrum(model: object, stated: FitFacts, seed: int) -> Iterator[Picture]:
    """Yield the eigenvalues of the principal components, or those of :func:`spectrum`."""
    found: tuple[Float64Array, str, str] | None = (
        (model.eigenvalues_, "the components", "Eigenvalues of the components.")
        if isinstance(model, KernelPCA)
        else spectrum(stated, seed)
    )
    if found is None:
        return
    values, of, caption = found
    top = float(values.max(initial=0.0))
    kept = values[values > rank_cutoff(np.float64) * top]
    if len(kept) < 2:
        return
    figure, ax = axes()
    ax.plot(np.arange(1, len(kept) + 1), kept / top, color=BLUE, linewidth=1.6)
    scale_axis(ax, "y", padded(kept / top, log=True), log=True)
    name_axes(ax, "eigenvalue", "share of the largest")
    ax.set_xlim(1, len(kept))
    tail = "" if len(kept) == len(values) else f" {len(values) - len(kept):,} are zero to rounding."
    yield draw_svg(figure, f"Spectrum of {of}", caption + tail)


def spectrum(stated: FitFacts, seed: int) -> tuple[Float64Array, str, str] | None:
    """Return eigenvalues, largest first, their source, and a caption; None if there are none.

    They belong to the core that couples the blocks, or else to the kernel on the landmarks (support vectors,
    training rows) of the block with the most, at most 1,500. Time O(1500³).
    """
    core, kernel = stated.core, stated.kernel
    if core is not None and core.size <= MOST_EIGENVALUES:
        caption = f"The core couples {len(core.ranks):,} blocks."
        return np.asarray(np.linalg.eigvalsh(core.to_dense())[::-1], np.float64), "the core", caption
    # A transformer without landmarks has none.
    points: Any = max(stated.points, key=lambda points: points.shape[0], default=None)
    if points is None or points.shape[0] < 2 or kernel is None or isinstance(kernel, Precomputed):
        return None
    chosen = as_generator(seed).permutation(points.shape[0])[:MOST_EIGENVALUES]
    gram = np.asarray(kernel(dense(points[np.sort(chosen)], np.float64), dtype=np.float64))
    some = f"{len(chosen):,} of the " * (len(chosen) < points.shape[0])
    caption = f"Kernel matrix of {some}{points.shape[0]:,} landmarks of the largest node."
    values = np.asarray(np.linalg.eigvalsh(gram)[::-1], np.float64)
    return values, "the kernel on the landmarks", caption


def of_phases(plan: Plan) -> Iterator[Picture]:
    """Yield bytes and seconds of each phase of a fit."""
    budget = plan.memory_budget
    figure, ax = _bars(
        (("predicted peak", plan.bytes, BLUE), ("held at its end", plan.used_bytes, ORANGE)), "B"
    )
    if budget < 20 * max([*plan.bytes.values(), *plan.used_bytes.values()]):
        ax.axvline(budget, color=INK, linewidth=1.0, linestyle="--")
        ax.annotate(
            "budget",
            (budget, 1.0),
            (-3, -10),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="right",
            fontsize=NOTE_SIZE,
            color=INK,
        )
        ax.set_xlim(right=max(ax.get_xlim()[1], 1.05 * budget))
    yield draw_svg(figure, "Bytes per phase", f"Of a budget of {text_of(budget, 'B')}.")
    if plan.used_seconds:
        figure, _ = _bars((("took", plan.used_seconds, ORANGE),), "s")
        total = sum(plan.used_seconds.values())
        yield draw_svg(figure, "Seconds per phase", f"{text_of(total, 's')} together.")


def _bars(series: Sequence[tuple[str, Mapping[str, Any], str]], unit: str) -> tuple[Any, Any]:
    """Draw a group of horizontal bars for each phase, from top to bottom."""
    figure, ax = axes()
    series = [one for one in series if one[1]]
    phases = list(dict.fromkeys(phase for _, values, _ in series for phase in values))
    places, height = np.arange(len(phases)), 0.8 / len(series)
    top = max((value for _, values, _ in series for value in values.values()), default=0.0) or 1.0
    for k, (name, values, colour) in enumerate(series):
        widths = [values.get(phase, 0.0) for phase in phases]
        at = places + (k - (len(series) - 1) / 2) * height
        bars = ax.barh(at, widths, height, color=colour, label=name)
        texts = [text_of(values[phase], unit) if phase in values else "" for phase in phases]
        ax.bar_label(bars, texts, padding=3.0, fontsize=7)
    ax.set_yticks(places, phases)
    ax.invert_yaxis()
    scale_axis(ax, "x", (0.0, 1.18 * top), unit=unit, log=False)
    ax.grid(False, axis="y")
    ax.legend(fontsize=NOTE_SIZE, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return figure, ax
