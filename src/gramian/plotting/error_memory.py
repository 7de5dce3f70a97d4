"""Display of relative error against bytes for compressed matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from gramian._budget import format_bytes
from gramian._checks import whole_number
from gramian._typing import RandomState, RowsLike
from gramian.approximations.approximation import Approximation
from gramian.exceptions import InputError
from gramian.plotting.canvas import Axes, Display, caption, padded, pyplot, scale_axis
from gramian.plotting.curves import checked_points, draw_curves, flat_items, members, records_of


class ErrorMemoryDisplay(Display):
    """Plot of the relative error ‖K − K̃‖_F/‖K‖_F against stored bytes, a line with intervals for each method.

    Build it with :meth:`from_approximations` or :meth:`from_results`; the constructor stores given numbers.

    Parameters
    ----------
    methods : list of str
        The method of each point; points of a method are joined in order of their bytes.
    nbytes, errors : array-like (points,)
        Bytes of the compressed matrix, and its relative error.
    low, high : array-like (points,), optional
        The 95 % interval of each error; no bar is drawn if they are not finite.
    n_rows : int, optional
        Rows of the matrix, for a note about its uncompressed size.

    Attributes
    ----------
    names, nbytes, errors, low, high : the points, sorted by bytes within a method.
    figure_, ax_ : set by :meth:`plot`; ``lines_`` a line for each method.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((500, 3))
    >>> several = [gm.Nystrom(gamma=1.0, rank=r, random_state=0) for r in (40, 10, 20)]
    >>> display = ErrorMemoryDisplay.from_approximations(several, X, n_rows=100)
    >>> display.names, bool((np.diff(display.nbytes) > 0).all()), bool((np.diff(display.errors) < 0).all())
    (['Nystrom', 'Nystrom', 'Nystrom'], True, True)
    """

    def __init__(
        self,
        methods: Iterable[object],
        nbytes: ArrayLike,
        errors: ArrayLike,
        *,
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
        n_rows: int | None = None,
    ) -> None:
        if (low is None) != (high is None):
            raise InputError("an interval has two ends: pass both low and high, or none.")
        ends = {} if low is None else {"low": low, "high": high}
        names, found = checked_points(methods, nbytes=nbytes, errors=errors, **ends)
        for key in ("nbytes", "errors"):
            if not np.isfinite(found[key]).all():
                raise InputError(f"{key} holds NaN or infinity. Pass finite numbers, or leave the point out.")
        if (found["nbytes"] <= 0).any():
            raise InputError("nbytes holds a number that is not positive. Pass the bytes of each matrix.")
        own = [k[np.argsort(found["nbytes"][k], kind="stable")] for k in members(names).values()]
        order = np.concatenate(own)
        self.names = [names[k] for k in order]
        self.nbytes, self.errors = found["nbytes"][order], found["errors"][order]
        self.low, self.high = (found[end][order] if ends else None for end in ("low", "high"))
        self.n_rows = n_rows

    @classmethod
    def from_approximations(
        cls,
        approximations: Any,
        X: RowsLike,
        *,
        n_rows: int = 2000,
        random_state: RandomState = 0,
        ax: Axes | None = None,
        log: bool = True,
    ) -> Self:
        """Estimate and draw the error of approximations over the rows of X; unfitted ones are fitted first.

        Parameters
        ----------
        approximations : list of approximations, named by their class, or a mapping from names to an
            approximation or a list of them. Fitted ones are used as they are. Copies of the others are fitted
            to X one at a time and then released.
        X : (n, d) rows.
        n_rows, random_state : as for ``relative_error``.
        ax, log : as for :meth:`plot`.

        Time: the fits, and O(n_rows · n · (d + r)) each.

        Errors: ``InputError`` for objects that are no approximations, or were fitted to another number of
        rows; ``MissingPackageError`` without matplotlib.
        """
        pyplot(cls.__name__)
        n_rows = whole_number("n_rows", n_rows, 1)
        points = []
        for name, given in _named(approximations):
            fitted = given if hasattr(given, "operator_") else clone(given).fit(X)
            error = fitted.relative_error(X, n_rows=n_rows, random_state=random_state)
            points.append(
                (name, fitted.operator_.shape[0], fitted.nbytes_, float(error), error.low, error.high)
            )
        names, rows, nbytes, errors, low, high = zip(*points, strict=True)
        if len(set(rows)) > 1:
            raise InputError(
                f"the approximations were fitted to {', '.join(f'{n:,}' for n in sorted(set(rows)))} rows, "
                "so that their bytes do not compare. Pass unfitted ones, or all fitted to the rows of X."
            )
        return cls(names, nbytes, errors, low=low, high=high, n_rows=rows[0]).plot(ax, log=log)

    @classmethod
    def from_results(
        cls,
        results: Iterable[Mapping[str, Any]],
        *,
        method: str = "method",
        nbytes: str = "model_bytes",
        errors: str = "error",
        low: str | None = None,
        high: str | None = None,
        n_rows: int | None = None,
        ax: Axes | None = None,
        log: bool = True,
    ) -> Self:
        """Draw stored results, one mapping for each point; the parameters name its fields."""
        pyplot(cls.__name__)
        fields = {"method": method, "nbytes": nbytes, "errors": errors}
        fields |= {key: field for key, field in (("low", low), ("high", high)) if field is not None}
        found = records_of(results, fields)
        return cls(
            found["method"],
            found["nbytes"],
            found["errors"],
            low=found.get("low"),
            high=found.get("high"),
            n_rows=n_rows,
        ).plot(ax, log=log)

    def plot(self, ax: Axes | None = None, *, log: bool = True) -> Self:
        """Draw the lines.

        ax : axes to draw on; None for a new figure. log : logarithmic axes; the axis of the errors only if
        all are positive.
        """
        axes = self._open(ax, (6.8, 4.4))
        by_error = log and bool((self.errors > 0).all())
        seen = self.errors
        if self.low is not None and self.high is not None:
            ends = np.concatenate([self.low, self.high])
            # An interval that reaches 0 has no lower end on a logarithmic axis, so it sets no limit.
            seen = np.concatenate([seen, ends[np.isfinite(ends) & ((ends > 0) | (not by_error))]])
        scale_axis(axes, "x", padded(self.nbytes, log=log, share=0.1), "Stored bytes", unit="B", log=log)
        name = r"Relative error  $\|K - \tilde{K}\|_F \,/\, \|K\|_F$"
        scale_axis(axes, "y", padded(seen, log=by_error, share=0.08), name, log=by_error)
        notes = []
        if self.n_rows is not None:
            whole = format_bytes(8.0 * self.n_rows**2)
            notes.append(f"{self.n_rows:,} rows, whose matrix takes {whole} uncompressed")
        self.lines_ = draw_curves(axes, self.names, self.nbytes, self.errors)
        if self.low is not None and self.high is not None:
            notes.append("bars: 95 % intervals")
            for line, own in zip(self.lines_, members(self.names).values(), strict=True):
                known = own[np.isfinite(self.low[own]) & np.isfinite(self.high[own])]
                x, low, high = self.nbytes[known], self.low[known], self.high[known]
                axes.vlines(x, low, high, color=line.get_color(), linewidth=1.2, alpha=0.7)
        caption(axes, "What memory buys", "; ".join(notes))
        return self


def _named(approximations: Any) -> list[tuple[str, Approximation]]:
    """Return each approximation with its name, checked."""
    if isinstance(approximations, Mapping):
        found = flat_items(approximations)
    else:
        several = approximations if isinstance(approximations, Iterable) else [approximations]
        found = [(type(one).__name__, one) for one in several]
    if not found:
        raise InputError("approximations is empty. Pass at least one, such as [gramian.MEKA(rank=20)].")
    for name, one in found:
        if not isinstance(one, Approximation):
            raise InputError(
                f"{name!r} has type {type(one).__name__}; expected an approximation. Pass instances such as "
                "gramian.MEKA(rank=20), fitted or not, in a list or by name."
            )
    return found
