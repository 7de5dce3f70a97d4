"""Pictures of a model: blocks, spectrum, search, bytes and seconds of its fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline

from gramian._numerics import rank_cutoff
from gramian._random import as_generator
from gramian._typing import Array, Float64Array
from gramian.compression.features import BlockSizes
from gramian.compression.plan import Plan
from gramian.estimator.summaries import Evidence
from gramian.kernels.columns import dense
from gramian.kernels.precomputed import Precomputed
from gramian.plotting.alpha_path import AlphaPathDisplay
from gramian.plotting.canvas import COLOURS, INK, NOTE_SIZE, cut, name_axes, padded, scale_axis, text_of
from gramian.plotting.importance import ImportanceDisplay
from gramian.reporting.drawing import Picture, axes, draw_svg
from gramian.reporting.judging import Judgement, behind
from gramian.reporting.prediction_pictures import of_predictions
from gramian.ridge.cross_validation import KernelRidgeCV
from gramian.spectra.kernel_pca import KernelPCA

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


BLUE, ORANGE = COLOURS[0], COLOURS[1]
#: Largest number of features whose importance is drawn. Chosen by hand.
MOST_IMPORTANT = 20
#: Largest number of blocks that are drawn as one bar each. Chosen by hand.
MOST_BARS = 80
#: Largest order of a core, or of the landmarks' Gram matrix, whose eigenvalues are drawn. Chosen by hand.
MOST_EIGENVALUES = 1500


def pictures_of(model: BaseEstimator, judged: Judgement | None, *, seed: int = 0) -> Iterator[Picture]:
    """Yield the pictures of a fitted estimator (or pipeline) and of its predictions."""
    last = model[-1] if isinstance(model, Pipeline) else model
    if judged is not None:
        yield from of_predictions(judged, last, seed)
    yield from of_importances(last)
    yield from of_path(next(iter(behind(last)), last))
    yield from of_inside(last, seed)


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
    figure, ax = axes((6.4, 1.5 + 0.27 * min(MOST_IMPORTANT, len(model.feature_importances_))))
    shown = ImportanceDisplay.from_estimator(model, n_features=MOST_IMPORTANT, title="", ax=ax)
    first = shown.feature_names[shown.order[0]]
    said = f"Most of all at {cut(first)}. Shares add up to 1."
    if shown.errors is not None:
        said = f"Most of all at {cut(first)}. By permutation of held-out rows; shares add up to 1."
    yield draw_svg(figure, "What the model looks at", said)


# ---- the model ---------------------------------------------------------------------------------


def of_blocks(blocks: BlockSizes) -> Iterator[Picture]:
    """Yield the sizes of the blocks of each level."""
    levels = [(name, np.sort(sizes)[::-1]) for name, sizes in blocks if len(sizes) > 1]
    for name, sizes in levels:
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


def of_spectrum(model: object, stated: Evidence, seed: int) -> Iterator[Picture]:
    """Yield the eigenvalues of the principal components, or those of :func:`spectrum`."""
    if isinstance(model, KernelPCA):
        found: Any = model.eigenvalues_, "the components", "Eigenvalues of the components."
    else:
        found = spectrum(stated, seed)
    if found is None:
        return
    values, of, caption = found
    top = float(values.max(initial=0.0))
    kept = values[values > rank_cutoff(np.float64) * top]
    if len(kept) < 2:
        return
    figure, ax = axes()
    ax.plot(np.arange(1, len(kept) + 1), kept / top, color=BLUE, linewidth=1.6)
    name_axes(ax, "eigenvalue", "share of the largest")
    scale_axis(ax, "y", padded(kept / top, log=True), log=True)
    ax.set_xlim(1, len(kept))
    tail = "" if len(kept) == len(values) else f" {len(values) - len(kept):,} are zero to rounding."
    yield draw_svg(figure, f"Spectrum of {of}", caption + tail)


def spectrum(stated: Evidence, seed: int) -> tuple[Float64Array, str, str] | None:
    """Return eigenvalues, largest first, their source, and a caption; None if there are none.

    They belong to the core that couples the blocks, or else to the kernel on the landmarks (support vectors,
    training rows) of the block with the most, at most 1,500. Time O(1500³).
    """
    core, kernel = stated.core, stated.kernel
    if core is not None and core.size <= MOST_EIGENVALUES:
        return _descending(core.to_dense()), "the core", f"The core couples {len(core.ranks):,} blocks."
    # A transformer without landmarks has none.
    points: Any = max(stated.points, key=lambda points: points.shape[0], default=None)
    if points is None or points.shape[0] < 2 or kernel is None or isinstance(kernel, Precomputed):
        return None
    chosen = as_generator(seed).permutation(points.shape[0])[:MOST_EIGENVALUES]
    gram = np.asarray(kernel(dense(points[np.sort(chosen)], np.float64), dtype=np.float64))
    some = f"{len(chosen):,} of the " * (len(chosen) < points.shape[0])
    caption = f"Kernel matrix of {some}{points.shape[0]:,} landmarks of the largest node."
    return _descending(gram), "the kernel on the landmarks", caption


def _descending(matrix: Array) -> Float64Array:
    """Return the eigenvalues of a symmetric matrix, largest first."""
    return np.asarray(np.linalg.eigvalsh(matrix), np.float64)[::-1]


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


def _bars(series: Sequence[tuple[str, dict[str, Any], str]], unit: str) -> tuple[Any, Any]:
    """Draw a group of horizontal bars for each phase, from top to bottom."""
    figure, ax = axes()
    series = [one for one in series if one[1]]
    phases = list(dict.fromkeys(phase for _, values, _ in series for phase in values))
    places, height = np.arange(len(phases)), 0.8 / len(series)
    top = max((value for _, values, _ in series for value in values.values()), default=0.0) or 1.0
    for k, (name, values, colour) in enumerate(series):
        widths = [values.get(phase, 0.0) for phase in phases]
        at = places + (k - (len(series) - 1) / 2) * height
        ax.barh(at, widths, height, color=colour, label=name)
        for y, phase in zip(at, phases, strict=True):
            if phase in values:
                label = text_of(values[phase], unit)
                ax.annotate(
                    label, (values[phase], y), (3, 0), textcoords="offset points", va="center", fontsize=7
                )
    ax.set_yticks(places, phases)
    ax.invert_yaxis()
    scale_axis(ax, "x", (0.0, 1.18 * top), unit=unit, log=False)
    ax.grid(False, axis="y")
    ax.legend(fontsize=NOTE_SIZE, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return figure, ax
