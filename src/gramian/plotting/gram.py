"""Display of the Gram matrix before and after ordering by block, and of the compression error."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from gramian._checks import whole_number
from gramian._random import as_generator
from gramian._typing import Array, Float64Array, IntArray, RandomState, RowsLike
from gramian.approximations.approximation import Approximation
from gramian.compression.storage import operator_of
from gramian.data.source import ArraySource, sample_rows
from gramian.engine import Engine
from gramian.estimator.base import read_paired_rows
from gramian.exceptions import InputError
from gramian.kernels.precomputed import bound
from gramian.plotting.canvas import Axes, Display, pyplot, write_cells

#: With up to this many blocks every cell shows its number and every block has a tick. Chosen by hand.
LABELLED_BLOCKS = 12
TITLES = ("Rows in random order", "Rows ordered by block", "Relative error per pair of blocks")


class GramDisplay(Display):
    r"""The Gram matrix of sampled rows, before and after ordering by block, and the error per pair of blocks.

    The third panel shows e_st = ‖K_st − K̃_st‖_F / ‖K_st‖_F for blocks s and t of the partition.

    Build it with :meth:`from_estimator`; the constructor stores given numbers.

    Parameters
    ----------
    gram : (n, n) entries of K for rows in random order.
    approximate : (n, n) entries of K̃ for the same rows.
    labels : (n,) block of each row.
    name : name of the approximation, for titles.

    Attributes
    ----------
    order : (n,) row numbers sorted by block.
    blocks : (c,) the blocks with rows in the sample; ``sizes`` (c,) their numbers of rows.
    block_errors : (c, c), the e_st.
    relative_error : ‖K − K̃‖_F / ‖K‖_F over the sample.
    figure_, axes_ : set by :meth:`plot`: the figure and its three panels.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((500, 3))
    >>> a = gm.MEKA(gamma=2.0, rank=40, n_blocks=4, random_state=0).fit(X)
    >>> display = GramDisplay.from_estimator(a, X, n_rows=200)
    >>> len(display.axes_), display.block_errors.shape
    (3, (4, 4))
    """

    def __init__(
        self, gram: Float64Array, approximate: Float64Array, labels: IntArray, *, name: str = "approximation"
    ) -> None:
        self.gram, self.approximate, self.labels, self.name = gram, approximate, labels, name
        # A stable sort keeps the random order of the rows within a block.
        self.order: IntArray = np.argsort(labels, kind="stable")
        self.blocks, self.sizes = np.unique(labels, return_counts=True)
        starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])

        def norms(matrix: Float64Array) -> Float64Array:
            squares = matrix[np.ix_(self.order, self.order)] ** 2
            return np.sqrt(np.add.reduceat(np.add.reduceat(squares, starts, axis=0), starts, axis=1))

        self.block_errors = _ratio(norms(gram - approximate), norms(gram))
        self.relative_error = float(_ratio(np.linalg.norm(gram - approximate), np.linalg.norm(gram)))

    @classmethod
    def from_estimator(
        cls,
        approximation: Approximation,
        X: RowsLike,
        *,
        n_rows: int = 600,
        ax: Axes | None = None,
        random_state: RandomState = 0,
    ) -> Self:
        """Draw rows of X at random, compute both matrices and plot them.

        Parameters
        ----------
        approximation : a fitted :class:`gramian.MEKA` or :class:`gramian.MultiResolution`.
        X : (n, d) rows of any kind that the estimator takes, from the training rows or not.
        n_rows : number of rows to show; all if X has fewer.
        ax : as for :meth:`plot`.
        random_state : seed for the choice of rows and their order.

        Time O(n_rows²(d + rank)), memory 8·n_rows² bytes a matrix.

        Errors: ``InputError`` for an object that is no approximation, ``NotFittedError``, and
        ``MissingPackageError`` without matplotlib.
        """
        pyplot(cls.__name__)  # raise before the work if it is missing
        if not isinstance(approximation, Approximation):
            raise InputError(
                f"approximation has type {type(approximation).__name__}; expected a fitted approximation. "
                "Pass gramian.MEKA(...).fit(X) or gramian.MultiResolution(...).fit(X)."
            )
        check_is_fitted(approximation, "features_")
        n_rows = whole_number("n_rows", n_rows, 1)
        rng = as_generator(random_state)
        source = read_paired_rows(approximation, X)
        sampled = sample_rows(source, n_rows, rng)[0]
        rows = sampled[rng.permutation(sampled.shape[0])]
        features = bound(approximation.features_, source)
        # Use the operator of these rows with the core as it was built, even if that is not definite.
        operator = operator_of(
            features, ArraySource(rows), chunk_rows=approximation.plan_.chunk_rows, engine=Engine(1)
        )
        return cls(
            np.asarray(features.kernel(rows, dtype=np.float64), np.float64),
            operator.to_dense(force=True),
            features.partition.route(rows),
            name=type(approximation).__name__,
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the three panels.

        ax : three axes to draw on, or one to be divided in three; None for a new figure.
        """
        self.figure_, self.axes_ = _panels(ax)
        shuffled, ordered, errors = self.axes_
        low, high = colour_range(self.gram)
        for panel, matrix in (shuffled, self.gram), (ordered, self.gram[np.ix_(self.order, self.order)]):
            panel.set(xlabel="row", ylabel="row")
            image = panel.imshow(matrix, cmap="Blues", vmin=low, vmax=high)
        # The two matrices share a colour scale, so its bar stands beside the second.
        extend = "max" if float(self.gram.max()) > high else "neither"
        self.figure_.colorbar(image, ax=ordered, shrink=0.75, extend=extend, label="$k(x_i, x_j)$")
        ends = np.cumsum(self.sizes)
        for edge in ends[:-1] - 0.5:
            ordered.axhline(edge, color="0.35", linewidth=0.4)
            ordered.axvline(edge, color="0.35", linewidth=0.4)
        if len(self.sizes) <= LABELLED_BLOCKS:
            _number_blocks(ordered, ends - (self.sizes + 1) / 2.0, self.blocks)
            ordered.set(xlabel="block", ylabel="block")
        self._draw_errors(errors)
        notes = (
            f"Gram matrix of {len(self.gram):,} sampled rows",
            f"{len(self.sizes)} blocks, of {self.sizes.min()} to {self.sizes.max()} of these rows",
            f"{self.name}, overall {self.relative_error:.2g}",
        )
        for panel, title, note in zip(self.axes_, TITLES, notes, strict=True):
            panel.set_title(f"{title}\n{note}", fontsize=11)
        return self

    def _draw_errors(self, panel: Axes) -> None:
        shown = self.block_errors
        top = float(shown.max()) or 1.0
        image = panel.imshow(shown, cmap="OrRd", vmin=0.0, vmax=top)
        self.figure_.colorbar(
            image, ax=panel, shrink=0.75, label=r"$\|K_{st} - \tilde{K}_{st}\|_F \, / \, \|K_{st}\|_F$"
        )
        panel.set(xlabel="block $t$", ylabel="block $s$")
        # Choose ticks by position in the list of blocks, since blocks without sampled rows are left out.
        ticks = np.arange(0, len(shown), -(-len(shown) // LABELLED_BLOCKS))
        _number_blocks(panel, ticks, self.blocks[ticks])
        if len(shown) <= LABELLED_BLOCKS:
            # Shrink the digits so that they fit a cell.
            write_cells(
                panel, map(error_text, shown.flat), shown > 0.6 * top, size=min(10.0, 60.0 / len(shown))
            )


def _number_blocks(panel: Axes, places: Array, blocks: Array) -> None:
    """Write the numbers of blocks at both axes, without ticks."""
    panel.set_xticks(places, list(map(str, blocks)))
    panel.set_yticks(places, list(map(str, blocks)))
    panel.tick_params(length=0)


def colour_range(gram: Array) -> tuple[float, float]:
    """Return the ends of the colour scale: from 0 (or less) to the 99 % quantile of the entries.

    Otherwise the diagonal and near copies would take half the scale and leave the blocks pale.

    >>> colour_range(np.eye(2)), colour_range(np.zeros((2, 2)))
    ((0.0, 1.0), (0.0, 1.0))
    """
    low, high = min(0.0, float(gram.min())), float(np.quantile(gram, 0.99))
    # If almost all entries are 0, the quantile is 0 too, so use the largest entry.
    high = high if high > low else float(gram.max())
    return low, high if high > low else low + 1.0


def error_text(value: float) -> str:
    """Return a number as short text: three decimals, without the zero before the point.

    >>> error_text(0.0123), error_text(1.5), error_text(2e-6)
    ('.012', '1.5', '2e-06')
    """
    if value == 0.0 or value >= 0.9995:
        return f"{value:.2g}"
    return f"{value:.0e}" if value < 0.0005 else f"{value:.3f}"[1:]


def _ratio(part: ArrayLike, whole: ArrayLike) -> Float64Array:
    """Return part/whole, or 0 if both are 0 (blocks so far apart that k underflows)."""
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.where(part > 0, np.inf, 0.0), where=whole > 0)


def _panels(ax: Axes | None) -> tuple[Any, Array]:
    """Return a figure and three axes: new ones, the caller's three, or the caller's one divided."""
    if ax is None:
        return pyplot("GramDisplay").subplots(1, 3, figsize=(14.0, 4.6), layout="constrained")
    axes = np.ravel(np.asarray(ax, dtype=object))
    if len(axes) == 3:
        return axes[0].figure, axes
    if len(axes) != 1:
        raise InputError(f"ax has {len(axes)} axes; expected 1 (divided in three) or 3.")
    parent = axes[0]
    place = parent.get_subplotspec()
    if place is None:
        raise InputError(
            "ax is not part of a grid of subplots, so it cannot be divided in three. Pass axes from "
            "plt.subplots(), or three axes."
        )
    parent.set_axis_off()
    return parent.figure, place.subgridspec(1, 3, wspace=0.5).subplots()
