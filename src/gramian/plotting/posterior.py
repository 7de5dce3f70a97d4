"""Display of a Gaussian process along one feature: mean, band, and the training rows."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from gramian._checks import is_index, whole_number
from gramian._typing import Array, Float64Array, RowsLike
from gramian.data.formats.frames import frame_kind, maker_like
from gramian.exceptions import InputError, did_you_mean
from gramian.plotting.canvas import BLUE, INK, ORANGE, Axes, Display, caption, padded, pyplot, scale_axis

#: Up to this many rows have strong marks; more rows are drawn fainter. Chosen by hand.
STRONG = 200


class PosteriorDisplay(Display):
    """Plot of a Gaussian process's mean and band along one feature, with the other features fixed.

    Build it with :meth:`from_estimator`; the constructor stores given numbers.

    Parameters
    ----------
    grid : (q,) values of the feature.
    mean, std : (q,) mean and deviation of the process there.
    level : probability that the band mean ± z·std covers a value.
    rows : (n,) the feature of the training rows; ``targets`` (n,) their targets, optional.
    samples : (q, s) draws of the process, optional.
    feature_name, target_name : labels of the axes.
    fixed : the other features' names and values, for the note.
    with_noise : whether ``std`` is that of new observations rather than of the function.

    Attributes
    ----------
    low, high : (q,) the ends of the band.
    figure_, ax_ : set by :meth:`plot`; ``line_`` the mean, ``band_``, ``points_`` (or None), ``samples_``.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).uniform(0, 10, (200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(200)
    >>> gp = gm.GaussianProcessRegressor(random_state=0).fit(X, y)
    >>> display = PosteriorDisplay.from_estimator(gp, X, y, n_points=50)
    >>> bool(np.abs(display.mean[5:45] - np.sin(display.grid[5:45])).max() < 0.2)
    True
    """

    def __init__(
        self,
        grid: ArrayLike,
        mean: ArrayLike,
        std: ArrayLike,
        *,
        level: float = 0.9,
        rows: ArrayLike | None = None,
        targets: ArrayLike | None = None,
        samples: ArrayLike | None = None,
        feature_name: str = "x",
        target_name: str = "y",
        fixed: str = "",
        with_noise: bool = False,
    ) -> None:
        if isinstance(level, bool) or not isinstance(level, numbers.Real) or not 0.0 < float(level) < 1.0:
            raise InputError(f"level={level!r} is no share between 0 and 1. Give 0.9 for a 90 % band.")
        self.grid: Float64Array = np.asarray(grid, np.float64)
        self.mean: Float64Array = np.asarray(mean, np.float64)
        self.std: Float64Array = np.asarray(std, np.float64)
        self.level: float = float(level)
        width = float(ndtri(0.5 + 0.5 * self.level)) * self.std
        self.low: Float64Array = self.mean - width
        self.high: Float64Array = self.mean + width
        self.rows: Float64Array | None = None if rows is None else np.asarray(rows, np.float64)
        self.targets: Float64Array | None = None if targets is None else np.asarray(targets, np.float64)
        self.samples: Float64Array | None = None if samples is None else np.asarray(samples, np.float64)
        self.feature_name: str = feature_name
        self.target_name: str = target_name
        self.fixed: str = fixed
        self.with_noise: bool = with_noise

    @classmethod
    def from_estimator(
        cls,
        model: BaseEstimator,
        X: RowsLike,
        y: ArrayLike | None = None,
        *,
        feature: int | str = 0,
        output: int = 0,
        level: float = 0.9,
        include_noise: bool = False,
        n_points: int = 200,
        sample_kw: Mapping[str, Any] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Predict and draw along one feature, over its range in X, with the others at their medians.

        Parameters
        ----------
        model : a fitted :class:`gramian.GaussianProcessRegressor`, or scikit-learn's.
        X : (n, d) dense rows or a data frame, as for ``fit``; y : (n,) or (n, outputs) their targets. Without
            y the rows are drawn as ticks at the bottom.
        feature : number or name of a column. output : number of the output to draw, if there are several.
        level : probability that the band covers a value.
        include_noise : whether the band is for new observations (gramian's model) rather than the function.
        n_points : number of points at which the process is evaluated.
        sample_kw : arguments of the model's ``sample_y``, for example ``{"n_samples": 3}``; None draws no
            functions of the posterior. Time O(n_points³).
        ax : as for :meth:`plot`.

        With more than one feature the training rows do not lie on the drawn slice, so they are fainter.

        Errors: ``InputError`` for a model without deviations, sparse rows, or a feature that does not exist;
        ``NotFittedError``; ``MissingPackageError`` without matplotlib.
        """
        pyplot(cls.__name__)
        _check(model, include_noise)
        n_points = whole_number("n_points", n_points, 2)
        names, values = _table(X)
        column = _column(feature, names, values.shape[1])
        targets = None
        if y is not None:
            targets = _one(y, output).astype(np.float64)
            if len(targets) != len(values):
                raise InputError(
                    f"y has {len(targets)} targets, but X has {len(values)} rows. Pass one target for each "
                    "row."
                )
        # Margins beyond the rows show how the band widens without data.
        grid = np.linspace(*padded(values[:, column], log=False, share=0.05), n_points)
        at = np.tile(np.median(values, axis=0), (n_points, 1))
        at[:, column] = grid
        make = maker_like(X)  # models check the names of columns
        asked = at if make is None else make(at)
        options = {"include_noise": True} if include_noise else {}
        mean, std = (_one(found, output) for found in model.predict(asked, return_std=True, **options))
        samples = None
        if sample_kw is not None:
            drawn = np.asarray(model.sample_y(asked, **sample_kw))
            samples = drawn if drawn.ndim == 2 else drawn[:, output]
        others = [(name, at[0, j]) for j, name in enumerate(names) if j != column]
        fixed = ""
        if len(others) > 3:
            fixed = f"the other {len(others)} features at their medians"
        elif others:
            fixed = ", ".join(f"{name} = {value:.3g}" for name, value in others)
        return cls(
            grid,
            mean,
            std,
            level=level,
            rows=values[:, column],
            targets=targets,
            samples=samples,
            feature_name=names[column],
            fixed=fixed,
            with_noise=include_noise,
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw band, samples, mean and rows on ``ax``; None for a new figure."""
        axes = self._open(ax, (6.8, 4.0))
        seen = [each for each in (self.low, self.high, self.targets, self.samples) if each is not None]
        ends, name = (float(self.grid.min()), float(self.grid.max())), self.feature_name
        scale_axis(axes, "x", ends, f"{name}   ({self.fixed})" if self.fixed else name, log=False)
        whole = padded(np.concatenate([*map(np.ravel, seen)]), log=False)
        scale_axis(axes, "y", whole, self.target_name, log=False)
        of = "new observations" if self.with_noise else "the function"
        self.band_ = axes.fill_between(
            self.grid,
            self.low,
            self.high,
            color=BLUE,
            alpha=0.18,
            linewidth=0,
            label=f"{100.0 * self.level:.3g} % band of {of}",
            zorder=2,
        )
        self.samples_ = []
        if self.samples is not None and self.samples.shape[1]:
            self.samples_ = axes.plot(
                self.grid, self.samples, color=BLUE, linewidth=0.8, alpha=0.55, zorder=2.5
            )
            self.samples_[0].set_label("draws of the function")
        self.points_ = None
        if self.rows is not None:
            # Without targets the rows are ticks at the bottom.
            n, ticks, y = len(self.rows), self.targets is None, self.targets
            look = {"marker": "o", "markersize": 4.0 if n <= STRONG else 2.5, "markeredgewidth": 0}
            if ticks:
                y = np.full(n, 0.015)
                look = {"marker": "|", "markersize": 7, "transform": axes.get_xaxis_transform()}
            opacity = float(np.clip(0.9 * np.sqrt(STRONG / max(n, STRONG)), 0.15, 0.9))
            (self.points_,) = axes.plot(
                self.rows,
                y,
                linestyle="none",
                color=INK if ticks else ORANGE,
                alpha=opacity * (0.5 if self.fixed and not ticks else 1.0),
                label=f"{n:,} rows",
                zorder=3,
                **look,
            )
        (self.line_,) = axes.plot(self.grid, self.mean, color=BLUE, linewidth=2.0, label="mean", zorder=4)
        handles = [self.line_, self.band_, *self.samples_[:1], *filter(None, [self.points_])]
        legend = axes.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(-0.01, 1.0),
            ncols=len(handles),
            labelcolor=INK,
            frameon=False,
            fontsize=9,
            handlelength=1.4,
            columnspacing=1.4,
            borderaxespad=0.2,
        )
        for handle in legend.legend_handles[2:]:
            handle.set_alpha(0.9)  # one mark alone would be too faint to see
        caption(axes, f"What the process knows of {self.target_name} along {self.feature_name}", lift=16.0)
        return self


def _check(model: BaseEstimator, include_noise: bool) -> None:
    """Raise if a model does not predict deviations or is not fitted."""
    predict = getattr(model, "predict", None)
    known = set() if predict is None else set(inspect.signature(predict).parameters)
    if "return_std" not in known:
        raise InputError(
            f"model has type {type(model).__name__}, which predicts no deviations; expected a fitted "
            "Gaussian process. Pass gramian.GaussianProcessRegressor().fit(X, y)."
        )
    if include_noise and "include_noise" not in known:
        raise InputError(
            f"include_noise=True, but {type(model).__name__} has no such option. Pass "
            "gramian.GaussianProcessRegressor, or include_noise=False."
        )
    check_is_fitted(model, "n_features_in_")  # a process predicts before fit too


def _table(X: Any) -> tuple[list[str], Float64Array]:
    """Return the names and the values of the columns of X."""
    if frame_kind(X) == "Arrow":
        X = X.to_pandas()
    named = [str(name) for name in X.columns] if frame_kind(X) else None
    if hasattr(X, "tocsr"):
        raise InputError("X is sparse; a slice along one feature needs its columns. Pass X.toarray().")
    values = np.asarray(X)
    if values.ndim != 2 or values.dtype.kind not in "fiub" or not len(values):
        raise InputError(
            f"X has shape {values.shape} and dtype {values.dtype}; expected rows of numbers, (n, d). Pass "
            "the rows that the model was fitted to."
        )
    names = named or (["x"] if values.shape[1] == 1 else [f"feature {j}" for j in range(values.shape[1])])
    return names, values.astype(np.float64)


def _column(feature: int | str, names: list[str], width: int) -> int:
    if isinstance(feature, str):
        if feature not in names:
            raise InputError(
                f"feature={feature!r} is no column of X.{did_you_mean(feature, names)} Give one of "
                f"{', '.join(names[:8])}{' …' if width > 8 else ''}, or its number."
            )
        return names.index(feature)
    if not is_index(feature, width):
        raise InputError(
            f"feature={feature!r} is no column of X, which has {width}. Give a number from 0 to {width - 1}."
        )
    return int(feature)


def _one(values: ArrayLike, output: int) -> Array:
    """Return one output of values of shape (n,) or (n, outputs)."""
    values = np.asarray(values)
    count = 1 if values.ndim == 1 else values.shape[1]
    if not is_index(output, count):
        raise InputError(f"output={output!r} is none of the {count}. Give a number from 0 to {count - 1}.")
    return values if values.ndim == 1 else values[:, output]
