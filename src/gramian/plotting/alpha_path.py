"""Display of the choice of a ridge penalty: held-out error against alpha, one line per gamma."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from gramian._checks import is_index
from gramian._typing import Float64Array, IntArray
from gramian.exceptions import InputError
from gramian.plotting.canvas import (
    INK,
    NOTE_SIZE,
    ORANGE,
    QUIET,
    Axes,
    Display,
    caption,
    name_lines,
    padded,
    pyplot,
    scale_axis,
    text_of,
)
from gramian.ridge.cross_validation import KernelRidgeCV

#: Colour of the chosen line, and the darkest and palest grey of the others: narrow kernels dark, wide ones
#: pale.
CHOSEN, DARK, PALE = ORANGE, 0.35, 0.75
#: Number of ticks (degrees of freedom) on the upper axis.
FREEDOMS = 5


class AlphaPathDisplay(Display):
    """Held-out errors of every alpha and gamma that :class:`gramian.KernelRidgeCV` compared.

    A ring marks the choice. The band is one standard error about the chosen gamma's line. Dashed lines are
    gammas that were dropped early: their errors come from fits to fewer rows. The upper axis shows the
    effective degrees of freedom tr K̃ (K̃ + alpha·I)⁻¹ along the chosen line.

    Build it with :meth:`from_estimator`; the constructor stores given numbers.

    Parameters
    ----------
    alphas : (a,) penalties.
    scores : (a, g) held-out scores, larger is better.
    chosen : (alpha index, gamma index) of the choice; None if it is not among the lines.
    gammas : (g,), optional.
    standard_errors : (a, g), optional; NaN if unknown.
    degrees_of_freedom : (a, g), optional.
    n_rows : (g,) rows that each gamma was last compared on, optional.
    score_name : str
        Name of the score, for the axis. Scores that are negative errors are drawn as errors, on a logarithmic
        axis.

    Attributes
    ----------
    order : (a,) indices that sort ``alphas``.
    values : (a, g) drawn values: errors if ``is_error``, else scores.
    figure_, ax_ : set by :meth:`plot`; ``lines_`` a line for each gamma, ``mark_`` the choice, ``top_`` the
        upper axis or None.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(300)
    >>> model = gm.KernelRidgeCV(gammas=[0.1, 10, 1000], random_state=0).fit(X, y)
    >>> display = AlphaPathDisplay.from_estimator(model)
    >>> alpha, gamma = display.chosen
    >>> bool(display.alphas[alpha] == model.alpha_), bool(display.gammas[gamma] == model.gamma_)
    (True, True)
    """

    def __init__(
        self,
        alphas: ArrayLike,
        scores: ArrayLike,
        chosen: tuple[int, int] | None,
        *,
        gammas: ArrayLike | None = None,
        standard_errors: ArrayLike | None = None,
        degrees_of_freedom: ArrayLike | None = None,
        n_rows: ArrayLike | None = None,
        score_name: str = "Mean squared error, held out",
        is_error: bool = True,
    ) -> None:
        self.alphas: Float64Array = np.asarray(alphas, np.float64)
        self.scores: Float64Array = np.asarray(scores, np.float64)
        if self.scores.ndim != 2 or len(self.scores) != len(self.alphas):
            raise InputError(
                f"scores has shape {self.scores.shape}, but there are {len(self.alphas)} alphas; expected "
                f"({len(self.alphas)}, gammas). Pass a row for each alpha and a column for each gamma."
            )
        self.order: IntArray = np.argsort(self.alphas, kind="stable")
        self.values = -self.scores if is_error else self.scores
        self.is_error, self.score_name, self.chosen = is_error, score_name, chosen
        count = self.scores.shape[1]
        self.gammas, self.n_rows = _shaped("gammas", gammas, (count,)), _shaped("n_rows", n_rows, (count,))
        self.standard_errors = _shaped("standard_errors", standard_errors, self.scores.shape)
        self.degrees_of_freedom = _shaped("degrees_of_freedom", degrees_of_freedom, self.scores.shape)

    @classmethod
    def from_estimator(cls, model: KernelRidgeCV, *, output: int = 0, ax: Axes | None = None) -> Self:
        """Draw the results that a fitted search keeps in ``cv_results_``.

        Parameters
        ----------
        model : a fitted :class:`gramian.KernelRidgeCV`.
        output : number of the output to draw, if each has its own alpha (``alpha_per_target=True``).
        ax : as for :meth:`plot`.

        Errors: ``InputError`` for another model, an output that does not exist, or a single alpha and gamma
        (no path); ``NotFittedError``; ``MissingPackageError`` without matplotlib.
        """
        pyplot(cls.__name__)
        if not isinstance(model, KernelRidgeCV):
            raise InputError(
                f"model has type {type(model).__name__}; expected a fitted KernelRidgeCV, which has compared "
                "alphas. Pass gramian.KernelRidgeCV(alphas=...).fit(X, y)."
            )
        found = getattr(model, "cv_results_", None)
        if found is None:
            raise NotFittedError(
                "This KernelRidgeCV is not fitted yet, so it has no path. Call fit(X, y) first."
            )
        alphas, gammas = found["alphas"], found["gammas"]
        scores, errors = found["scores"], found["standard_errors"]
        if len(alphas) < 2:
            raise InputError(
                "the model compared one alpha, which is no path. Fit with several: alphas=(0.01, 0.1, 1)."
            )
        alpha = np.atleast_1d(model.alpha_)
        if scores.ndim == 3:
            if not is_index(output, scores.shape[2]):
                raise InputError(f"output={output!r} is none of the model's {scores.shape[2]} outputs.")
            scores, errors = scores[:, :, output], errors[:, :, output]
            alpha = alpha[[output]]
        elif output != 0:
            raise InputError(
                f"output={output!r}: the model chose one alpha for all outputs. Leave output out, or fit "
                "with alpha_per_target=True."
            )
        refined = getattr(model, "refinement_", None)
        if refined is not None and refined.kept:
            chosen = None  # the refined kernel is not among these lines
        else:
            column = (
                0 if gammas is None or model.gamma_ is None else int(np.argmin(abs(gammas - model.gamma_)))
            )
            chosen = (int(np.argmin(abs(alphas - alpha[0]))), column)
        name, is_error = _named(model)
        return cls(
            alphas,
            scores,
            chosen,
            gammas=gammas,
            standard_errors=errors,
            # Model files of earlier releases do not have them.
            degrees_of_freedom=found.get("degrees_of_freedom"),
            n_rows=found["n_rows"],
            score_name=name,
            is_error=is_error,
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the lines on ``ax``; None for a new figure."""
        axes = self._open(ax, (6.8, 4.6))
        alphas, values = self.alphas[self.order], self.values[self.order]
        log = self.is_error and bool((values > 0).all())
        scale_axis(axes, "x", padded(alphas, log=True, share=0.05), "Ridge penalty alpha", log=True)
        scale_axis(axes, "y", padded(values, log=log, share=0.1), self.score_name, log=log)
        count, best = values.shape[1], None if self.chosen is None else self.chosen[1]
        # Gammas that were last compared on fewer rows than the chosen one.
        dropped = np.zeros(count, bool) if self.n_rows is None else self.n_rows < self.n_rows.max()
        ranks = np.arange(count) if self.gammas is None else np.argsort(np.argsort(-self.gammas))
        self.lines_, notes = [], []
        for k, rank in enumerate(ranks):
            grey = str(round(DARK + (PALE - DARK) * rank / max(count - 1, 1), 3))
            self.lines_ += axes.plot(
                alphas,
                values[:, k],
                color=CHOSEN if k == best else grey,
                linewidth=2.2 if k == best else 1.2,
                linestyle="--" if dropped[k] else "-",
                marker="o",
                markersize=4.0 if k == best else 2.5,
                zorder=4 if k == best else 3,
            )
        self.mark_ = None
        if self.chosen is not None:
            spread = None if self.standard_errors is None else self.standard_errors[self.order, best]
            if spread is not None and np.isfinite(spread).all():
                notes.append("band: one standard error")
                limits, middle = axes.get_ylim(), values[:, best]
                axes.fill_between(
                    alphas, middle - spread, middle + spread, color=CHOSEN, alpha=0.15, linewidth=0, zorder=2
                )
                axes.set_ylim(limits)
            (self.mark_,) = axes.plot(
                self.alphas[self.chosen[0]],
                self.values[self.chosen],
                marker="o",
                markersize=11.0,
                markerfacecolor="none",
                markeredgecolor=INK,
                markeredgewidth=1.6,
                linestyle="none",
                zorder=5,
            )
        if self.n_rows is not None and dropped.any():
            notes.append(f"dashed: dropped on a part of the {int(self.n_rows.max()):,} rows")
        if self.gammas is not None and count > 1:
            name_lines(axes, self.lines_, [f"gamma {text_of(gamma)}" for gamma in self.gammas])
        caption(axes, self._title(), "; ".join(notes), lift=self._draw_freedom(alphas))
        return self

    def _draw_freedom(self, alphas: Float64Array) -> float:
        """Draw the upper axis with degrees of freedom; return how far to move the title up."""
        self.top_ = None
        if self.degrees_of_freedom is None or self.chosen is None:
            return 0.0
        freedom = self.degrees_of_freedom[self.order, self.chosen[1]]
        if not np.isfinite(freedom).all():
            return 0.0
        every = -(-len(alphas) // FREEDOMS)
        self.top_ = self.ax_.secondary_xaxis("top")
        digits = 1 if freedom.max() < 100.0 else 0
        self.top_.set_xticks(alphas[::every], [f"{f:,.{digits}f}" for f in freedom[::every]])
        self.top_.minorticks_off()
        self.top_.spines["top"].set_visible(False)
        self.top_.tick_params(length=0, labelsize=NOTE_SIZE, labelcolor=QUIET)
        self.top_.set_xlabel("Effective degrees of freedom", fontsize=NOTE_SIZE, color=QUIET)
        return 27.0

    def _title(self) -> str:
        if self.chosen is None:
            return "Held-out error of every alpha, before refinement"
        i, k = self.chosen
        gamma = "" if self.gammas is None else f", gamma {text_of(self.gammas[k])}"
        return f"Chosen: alpha {text_of(self.alphas[i])}{gamma}"


def _shaped(name: str, given: ArrayLike | None, shape: tuple[int, ...]) -> Float64Array | None:
    if given is None:
        return None
    values = np.asarray(given, np.float64)
    if values.shape != shape:
        raise InputError(f"{name} has shape {values.shape}; expected {shape}, as scores has it.")
    return values


def _named(model: KernelRidgeCV) -> tuple[str, bool]:
    """Return the name of a model's scores, and whether they are negative errors."""
    held: dict[str | None, str] = {None: "leave-one-out", "gcv": "generalised cross-validation"}
    rule = model.cv if model.cv is None or isinstance(model.cv, str) else "folds"
    how = held.get(rule, "held-out folds")
    if model.scoring is None:
        return f"Mean squared error, {how}", True
    name = model.scoring if isinstance(model.scoring, str) else "score"
    if name.startswith("neg_"):
        return f"{name[4:].replace('_', ' ').capitalize()}, {how}", True
    return f"{name}, {how}", False
