"""Average gradient outer product of a predictor: the directions along which its values change."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray, Rows
from gramian.engine import Engine
from gramian.exceptions import InputError, did_you_mean
from gramian.kernels.base import Kernel, as_rows
from gramian.kernels.columns import dense
from gramian.metric.differences import STEP, Group, by_switching
from gramian.metric.gradients import Gradients, MappedGradients, Predicts, gradients_of
from gramian.metric.metric import Metric

FORMS = ("full", "diagonal")
#: Bytes of the gradients of one tile, and its rows at least and at most.
TILE_BYTES, LEAST_ROWS, MOST_ROWS = 1 << 22, 8, 512
#: Products with M, and directions beyond the rank, from which its leading directions are found.
SWEEPS, BESIDE = 4, 10

Part = TypeVar("Part")


@dataclass(frozen=True)
class Differentiable:
    """The function x ↦ f(T(x)) whose gradients are averaged.

    predictor : f, a predictor of the library (gradients in closed form), or a function from rows (n, d) to
        values (n,) or (n, outputs) (by finite differences, as for explicit feature maps and function kernels)
    kernel : that of a :class:`~gramian.compression.predictor.Predictor`, which holds none
    metric : T, if the predictor takes rows under a metric
    steps : (d,), of finite differences, in the units that the predictor takes; by default a tenth of each
        column's deviation, 0 for constant ones
    """

    predictor: Predicts
    kernel: Kernel | None = None
    metric: Metric | None = None
    steps: Array | None = None

    def gradients(self, rows: Rows) -> Gradients:
        """Return the gradients by the features of ``rows``, which the default steps are taken from."""
        steps = self.steps
        if steps is None:
            steps = _steps(rows if self.metric is None else self.metric.apply(rows))
        found = gradients_of(self.predictor, self.kernel, np.asarray(steps, np.float64))
        return found if self.metric is None else MappedGradients(found, self.metric)


def outer_product(
    function: Differentiable | Predicts,
    rows: Rows,
    *,
    form: str = "full",
    weights: Array | None = None,
    switched: Sequence[Group] = (),
    levels: tuple[Array, Array] | None = None,
    rank: int | None = None,
    engine: Engine | None = None,
    until: float = math.inf,
) -> Float64Array:
    r"""Return M = Σ_i w_i Σ_o ∇f_o(x_i) ∇f_o(x_i)ᵀ / Σ_i w_i, the average gradient outer product.

    Parameters
    ----------
    function : f; a predictor that needs a kernel, a metric or steps of its own comes as a
        :class:`Differentiable`
    rows : (n, d), dense or CSR
    form : "full" for M, "diagonal" for its diagonal
    weights : (n,), none negative; one each by default
    switched : groups of columns whose values are switched in place of a derivative: one column of two values,
        or the one-hot columns of a category. They stand for slopes as
        :func:`~gramian.metric.differences.by_switching` says, so that of a category's block of M
        (e_c − e_c')ᵀ M (e_c − e_c') = mean (f(x with c) − f(x with c'))² for columns of 0 and 1
    levels : low and high value of each column, two arrays (d,); by default least and largest in ``rows``
    rank : if given, return F (d, rank) with F Fᵀ ≈ M without forming M, for many features: the leading
        directions of M, scaled
    engine : threads; serial by default
    until : when to end, on the clock of ``time.perf_counter``: M is then the average over the rows that were
        reached, some at least (not with ``rank``)

    Returns
    -------
    (d, d) symmetric; (d,) for ``form="diagonal"``; (d, rank) where ``rank`` is given

    Time, with m landmarks on a row's path: O(n m d outputs) for gradients, O(n outputs d²) for the full form,
    and an evaluation of the predictor at n rows for each switched value; with ``rank`` five times the
    gradients. Memory: the answer and, for each thread, a tile of gradients and another answer; independent of
    n. Sums are in float64 and the same for any number of threads.

    Raises
    ------
    InputError
        For precomputed kernels, weights that are negative or all zero, columns that are no features, and
        shapes that differ.

    Source: Radhakrishnan et al. 2024 (recursive feature machines).

    >>> M = outer_product(lambda x: 3.0 * x[:, 0] - x[:, 1], np.random.default_rng(0).random((20, 2)))
    >>> M.round(6).tolist()
    [[9.0, -3.0], [-3.0, 1.0]]
    """
    if form not in FORMS:
        raise InputError(
            f"form={form!r} is unknown. Choose 'full' or 'diagonal'." + did_you_mean(form, FORMS)
        )
    rows = as_rows(rows, "rows")
    engine = engine or Engine(1)
    n, d = int(rows.shape[0]), int(rows.shape[1])
    if n == 0:
        raise InputError("rows has no row; the average needs at least one. Pass rows of shape (n, d).")
    if not isinstance(function, Differentiable):
        function = Differentiable(function)
    slopes = _Slopes(
        function.gradients(rows),
        _groups(switched, d),
        *(column_levels(rows) if levels is None else (np.asarray(v, np.float64) for v in levels)),
    )
    share = _shares(weights, n)
    if rank is not None:
        return _leading(slopes, rows, share, _whole_rank(rank, d), engine)

    def part(tile: Float64Array) -> Float64Array:
        return np.einsum("if,if->f", tile, tile) if form == "diagonal" else tile.T @ tile

    total, counted = np.zeros(d if form == "diagonal" else (d, d)), 0.0
    with _tiles(slopes, rows, share, part, engine, until) as tiles:
        for found, mass in tiles:
            total += found
            counted += mass
    return total if until == math.inf else total / counted


@dataclass(frozen=True)
class _Slopes:
    """Gradients of a predictor, with the differences by switching in their place where asked for."""

    gradients: Gradients
    groups: tuple[IntArray, ...]
    low: Float64Array
    high: Float64Array

    def __call__(self, rows: Float64Array) -> Float64Array:
        out = self.gradients(rows)
        if self.groups:
            slopes = by_switching(self.gradients.values, rows, self.groups, self.low, self.high)
            for group, found in zip(self.groups, slopes, strict=True):
                out[:, group] = found
        return out


@contextmanager
def _tiles(
    slopes: _Slopes,
    rows: Rows,
    share: Float64Array,
    work: Callable[[Float64Array], Part],
    engine: Engine,
    until: float = math.inf,
) -> Iterator[Iterator[tuple[Part, float]]]:
    """Give an iterator of ``work`` on tiles of √w ∇f (rows · outputs, d) and the share of their rows.

    With a time to end the tiles come in random order, and no tile but the first is begun after it.
    """
    order = slopes.gradients.order(rows, engine)
    order = order[share[order] > 0]
    outputs = slopes.gradients.values(dense(rows[order[:1]], np.float64)).shape[1]
    height = int(np.clip(TILE_BYTES // (8 * rows.shape[1] * outputs), LEAST_ROWS, MOST_ROWS))

    slices = list(row_slices(len(order), height))
    if until < math.inf:
        slices = [slices[at] for at in np.random.default_rng(0).permutation(len(slices))]

    def tile(at: int) -> tuple[Part, float] | None:
        if at and time.perf_counter() > until:
            return None
        numbers = order[slices[at]]
        G = slopes(dense(rows[numbers], np.float64))
        G *= np.sqrt(share[numbers])[:, None, None]
        return work(np.moveaxis(G, 2, 1).reshape(-1, G.shape[1])), float(share[numbers].sum())

    with engine.results(tile, range(len(slices))) as found:
        yield (one for one in found if one is not None)


def _leading(slopes: _Slopes, rows: Rows, share: Float64Array, rank: int, engine: Engine) -> Float64Array:
    """Return the leading eigenvectors of M times the roots of their eigenvalues, by subspace iteration."""
    d = int(rows.shape[1])
    width = min(d, rank + BESIDE)
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((d, width)))[0]
    for sweep in range(SWEEPS + 1):
        last = sweep == SWEEPS

        def part(tile: Float64Array, V: Float64Array = V, last: bool = last) -> Float64Array:
            seen = tile @ V
            return seen.T @ seen if last else tile.T @ seen

        total = np.zeros((width, width) if last else (d, width))
        with _tiles(slopes, rows, share, part, engine) as tiles:
            for found, _ in tiles:
                total += found
        if not last:
            V = np.linalg.qr(total)[0]
    values, vectors = np.linalg.eigh(total)
    leading = slice(None, -rank - 1, -1)
    return (V @ vectors[:, leading]) * np.sqrt(np.maximum(values[leading], 0.0))


def _shares(weights: Array | None, n: int) -> Float64Array:
    if weights is None:
        return np.full(n, 1.0 / n)
    w = np.asarray(weights, np.float64)
    if w.shape != (n,) or not np.isfinite(w).all() or (w < 0).any() or not (w > 0).any():
        raise InputError(
            f"weights has shape {w.shape}; expected ({n},), one finite weight of at least 0 for each row, "
            "and one of them above 0."
        )
    return np.asarray(w / w.sum(), np.float64)


def _groups(switched: Sequence[Group], d: int) -> tuple[IntArray, ...]:
    groups = tuple(np.asarray(group) for group in switched)
    for group in groups:
        whole = group.ndim == 1 and group.dtype.kind in "iu" and group.size
        if not whole or group.min() < 0 or group.max() >= d or len(np.unique(group)) < len(group):
            raise InputError(
                f"switched holds {group.tolist()!r}; expected groups of columns from 0 to {d - 1}, each "
                "once: (3,) for a column of two values, (4, 5, 6) for the one-hot columns of a category."
            )
    columns = np.concatenate([*groups, np.zeros(0, np.intp)])
    if len(np.unique(columns)) < len(columns):
        raise InputError("switched names a column in two groups. Put each column into one group at most.")
    return tuple(group.astype(np.intp) for group in groups)


def column_levels(rows: Rows) -> tuple[Float64Array, Float64Array]:
    """Return least and largest value of each column."""
    found = []
    for name in ("min", "max"):
        values = getattr(rows, name)(axis=0)
        found.append(
            np.asarray(values.toarray() if hasattr(values, "toarray") else values, np.float64).ravel()
        )
    return found[0], found[1]


def _steps(rows: Rows) -> Float64Array:
    """Return the steps of finite differences: a tenth of each column's deviation, 0 for constant columns."""
    n, d = rows.shape
    low, high = column_levels(rows)
    mean, squares = np.zeros(d), np.zeros(d)
    for where in row_slices(n, MOST_ROWS):
        mean += dense(rows[where], np.float64).sum(axis=0) / n
    for where in row_slices(n, MOST_ROWS):
        squares += np.square(dense(rows[where], np.float64) - mean).sum(axis=0) / n
    return np.where(high > low, STEP * np.sqrt(squares), 0.0)


def _whole_rank(rank: object, d: int) -> int:
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or not 1 <= int(rank) <= d:
        raise InputError(f"rank={rank!r} must be a whole number from 1 to the {d} features.")
    return int(rank)
