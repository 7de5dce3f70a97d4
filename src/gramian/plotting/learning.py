"""Display of how a Gaussian process learned: its parameters, stage by stage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from gramian._typing import Float64Array, IntArray
from gramian.exceptions import InputError
from gramian.gp.learning import Learned
from gramian.gp.prior import Hyperparameters
from gramian.gp.regressor import GaussianProcessRegressor
from gramian.plotting.canvas import (
    COLOURS,
    INK,
    Axes,
    Display,
    caption,
    name_lines,
    padded,
    pyplot,
    scale_axis,
    text_of,
)

#: Most parameters that have a colour and a name of their own, so that names find room. Chosen by hand.
NAMED = 8
PALE = "0.75"


class LearningDisplay(Display):
    """Hyperparameters of a Gaussian process at the end of each stage of learning, a line for each.

    Open marks are where the starts of the first stage ended; marks far apart, with losses alike, mean that
    the rows do not tell these optima apart. The dashed line marks the stage that was kept, the one that
    predicts left-out rows best. If lines still rise or fall there, raise ``learning_rows``.

    Build it with :meth:`from_estimator`; the constructor stores given numbers.

    Parameters
    ----------
    values : (s, p) positive parameters at the end of each stage.
    n_rows : (s,) rows of each stage.
    chosen : number of the stage that was kept.
    names : (p,) names of the parameters; by default "parameter 0", ….
    losses : (s,) loss of each stage on rows left out; NaN where it is not known.
    starts : (r, p) parameters that each start of the first stage reached, optional.
    start_losses : (r,) their losses, optional.

    Attributes
    ----------
    named : (at most 8,) numbers of the parameters that are drawn in colour: noise, signal variance, and the
        shortest lengthscales, which matter most. The others are grey.
    figure_, ax_ : set by :meth:`plot`; ``lines_`` a line for each parameter, ``starts_`` the open marks,
        ``mark_`` the dashed line.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).uniform(0, 10, (700, 2))
    >>> gp = gm.GaussianProcessRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> display = LearningDisplay.from_estimator(gp)
    >>> display.names
    ['signal variance', 'lengthscale[0]', 'lengthscale[1]', 'noise']
    >>> display.values.shape, bool(np.allclose(np.log(display.values[display.chosen]), gp.theta_))
    ((2, 4), True)
    """

    def __init__(
        self,
        values: ArrayLike,
        n_rows: ArrayLike,
        chosen: int,
        *,
        names: Iterable[str] | None = None,
        losses: ArrayLike | None = None,
        starts: ArrayLike | None = None,
        start_losses: ArrayLike | None = None,
    ) -> None:
        self.values: Float64Array = np.asarray(values, np.float64)
        if self.values.ndim != 2 or not self.values.size or not (self.values > 0.0).all():
            raise InputError(
                f"values has shape {self.values.shape}; expected positive numbers, a row for each stage "
                "and a column for each parameter."
            )
        stages, count = self.values.shape
        self.n_rows: IntArray = np.asarray(n_rows, np.int64)
        self.losses: Float64Array = np.asarray(np.full(stages, np.nan) if losses is None else losses)
        self.names = [f"parameter {i}" for i in range(count)] if names is None else list(names)
        self.starts: Float64Array = np.asarray(np.ones((0, count)) if starts is None else starts, np.float64)
        self.start_losses: Float64Array = np.asarray(
            np.full(len(self.starts), np.nan) if start_losses is None else start_losses, np.float64
        )
        for name, found, wanted in (
            ("n_rows", self.n_rows.shape, (stages,)),
            ("losses", self.losses.shape, (stages,)),
            ("names", (len(self.names),), (count,)),
            ("starts", self.starts.shape[1:], (count,)),
            ("start_losses", self.start_losses.shape, (len(self.starts),)),
        ):
            if found != wanted:
                raise InputError(
                    f"{name} has shape {found}; expected {wanted}, as values {self.values.shape} has it."
                )
        if not 0 <= chosen < stages:
            raise InputError(f"chosen={chosen!r} is none of the {stages} stages, which are numbered from 0.")
        self.chosen = int(chosen)
        lengths = np.array(["lengthscale" in name for name in self.names])
        # Short lengthscales are those of features that matter; variances come before all of them.
        self.named: IntArray = np.sort(np.argsort(np.where(lengths, self.values[chosen], 0.0))[:NAMED])

    @classmethod
    def from_estimator(cls, model: GaussianProcessRegressor, *, ax: Axes | None = None) -> Self:
        """Draw what a fitted model keeps in ``optimizer_report_``; ``ax`` as for :meth:`plot`.

        Errors: ``InputError`` for another model, and one that learned nothing (``optimizer=None``);
        ``NotFittedError``; ``MissingPackageError`` without matplotlib.
        """
        pyplot(cls.__name__)
        if not isinstance(model, GaussianProcessRegressor):
            raise InputError(
                f"model has type {type(model).__name__}; expected a fitted GaussianProcessRegressor. Pass "
                "gramian.GaussianProcessRegressor().fit(X, y)."
            )
        check_is_fitted(model, "posterior_")
        learned: Learned | None = model.optimizer_report_
        if learned is None:
            raise InputError("the model learned nothing, so there is nothing to draw. Fit with an optimizer.")
        stages = learned.stages
        return cls(
            np.exp([stage.theta for stage in stages]),
            [stage.n_rows for stage in stages],
            # The stage whose θ was kept: an interrupted one, or the last, where no loss chose.
            next(i for i in reversed(range(len(stages))) if np.array_equal(stages[i].theta, learned.theta)),
            names=_names(model),
            losses=[stage.loss for stage in stages],
            starts=np.exp([start.theta for start in learned.starts]) if learned.starts else None,
            start_losses=[start.loss for start in learned.starts] if learned.starts else None,
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the lines on ``ax``; None for a new figure."""
        axes = self._open(ax, (6.8, 4.6))
        stages = np.arange(len(self.values), dtype=np.float64)
        seen = np.concatenate([self.values.ravel(), self.starts.ravel()])
        scale_axis(axes, "x", (-0.3, stages[-1] + 0.7), "Rows of each stage", log=False)
        scale_axis(axes, "y", padded(seen, log=True, share=0.1), "Parameter", log=True)
        texts = ["" if np.isnan(loss) else f"\nloss {text_of(loss)}" for loss in self.losses]
        axes.set_xticks(stages, [f"{n:,}{text}" for n, text in zip(self.n_rows, texts, strict=True)])
        colours = dict(zip(self.named.tolist(), COLOURS, strict=False))
        self.mark_ = axes.axvline(self.chosen, color=INK, linewidth=1.0, linestyle="--", zorder=1)
        self.lines_, self.starts_ = [], []
        for i, values in enumerate(self.values.T):
            look = {"color": colours.get(i, PALE), "marker": "o", "zorder": 4 if i in colours else 2}
            self.lines_ += axes.plot(stages, values, linewidth=1.6, markersize=4.0, **look)
            self.starts_ += axes.plot(
                np.zeros(len(self.starts)),
                self.starts[:, i],
                linestyle="none",
                markersize=7.0,
                markerfacecolor="none",
                **look,
            )
        name_lines(axes, [self.lines_[i] for i in self.named], [self.names[i] for i in self.named])
        grey = len(self.names) - len(self.named)
        others = f"; grey: {grey} other parameters" if grey else ""
        title = f"Kept: stage {self.chosen + 1} of {len(self.values)}"
        known = self.start_losses[~np.isnan(self.start_losses)]
        if len(known) > 1:
            title += f"; starts reached losses of {', '.join(map(text_of, known))}"
        caption(axes, title, f"open marks: where each start ended{others}")
        return self


def _names(model: GaussianProcessRegressor) -> list[str] | None:
    """Return the names of the parameters, with the names of the columns where lengthscales are theirs."""
    theta = model.theta_
    names = list(Hyperparameters(model.kernel_, model.noise_, model.learn_noise).names)
    if len(names) != len(theta):
        return None
    columns = getattr(model, "feature_names_in_", None)
    if columns is not None:
        named = {f"lengthscale[{i}]": f"lengthscale of {column}" for i, column in enumerate(columns)}
        names = [named.get(name, name) for name in names]
    return names
