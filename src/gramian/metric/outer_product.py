"""Average gradient outer product of a predictor: the directions along which its values change."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

import numpy as np

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray, Rows
from gramian.engine import Engine
from gramian.exceptions import InputError, did_you_mean
from gramian.kernels.base import as_rows
from gramian.kernels.columns import dense
from gramian.metric.gradients import Differentiable, Group, Predicts, by_switching, column_levels

FORMS = ("full", "diagonal")
#: Bytes of the gradients of one tile, and its rows at least and at most.
TILE_BYTES, LEAST_ROWS, MOST_ROWS = 1 << 22, 8, 512
#: Products with M, and directions beyond the rank, from which its leading directions are found.
SWEEPS, BESIDE = 4, 10

#: From what is computed of a tile of √w ∇f (rows · outputs, d) to these parts and the shares of their rows;
#: None where the time was over.
Tiles: TypeAlias = (
    "Callable[[Callable[[Float64Array], Float64Array]], "
    "AbstractContextManager[Iterator[tuple[Float64Array, float] | None]]]"
)


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
    deadline: float = math.inf,
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
        :func:`~gramian.metric.gradients.by_switching` says, so that of a category's block of M
        (e_c − e_c')ᵀ M (e_c − e_c') = mean (f(x with c) − f(x with c'))² for columns of 0 and 1
    levels : low and high value of each column, two arrays (d,); by default least and largest in ``rows``
    rank : if given, return F (d, rank) with F Fᵀ ≈ M without forming M, for many features: the leading
        directions of M, scaled
    engine : threads; serial by default
    deadline : when to end, by ``time.perf_counter``: M is then the average over the rows reached, some at
        least (not with ``rank``)

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
    f = function if isinstance(function, Differentiable) else Differentiable(function)
    f, groups = f.settled(rows), _groups(switched, d)
    low, high = (np.asarray(v, np.float64) for v in (column_levels(rows) if levels is None else levels))
    share = _shares(weights, n)
    most = None if rank is None else _whole_rank(rank, d)
    order = f.order(rows, engine)
    order = order[share[order] > 0]
    outputs = f.values(dense(rows[order[:1]], np.float64)).shape[1]
    slices = list(
        row_slices(len(order), int(np.clip(TILE_BYTES // (8 * d * outputs), LEAST_ROWS, MOST_ROWS)))
    )
    if deadline < math.inf:  # tiles come in random order, and none but the first is begun after the end
        slices = [slices[at] for at in np.random.default_rng(0).permutation(len(slices))]

    def tiles(
        work: Callable[[Float64Array], Float64Array],
    ) -> AbstractContextManager[Iterator[tuple[Float64Array, float] | None]]:
        def tile(at: int) -> tuple[Float64Array, float] | None:
            if at and time.perf_counter() > deadline:
                return None
            numbers = order[slices[at]]
            some = dense(rows[numbers], np.float64)
            G = f.gradients(some)
            for group, slopes in zip(groups, by_switching(f.values, some, groups, low, high), strict=True):
                G[:, group] = slopes
            G *= np.sqrt(share[numbers])[:, None, None]
            return work(np.moveaxis(G, 2, 1).reshape(-1, d)), float(share[numbers].sum())

        return engine.results(tile, range(len(slices)))

    if most is not None:
        return _leading(tiles, d, most)

    def part(tile: Float64Array) -> Float64Array:
        return np.einsum("if,if->f", tile, tile) if form == "diagonal" else tile.T @ tile

    total, counted = np.zeros(d if form == "diagonal" else (d, d)), 0.0
    with tiles(part) as sums:
        for own, mass in filter(None, sums):
            total += own
            counted += mass
    return total if deadline == math.inf else total / counted


def _leading(tiles: Tiles, d: int, rank: int) -> Float64Array:
    """Return the leading eigenvectors of M times the roots of their eigenvalues, by subspace iteration."""
    width = min(d, rank + BESIDE)
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((d, width)))[0]
    for sweep in range(SWEEPS + 1):
        last = sweep == SWEEPS

        def part(tile: Float64Array, V: Float64Array = V, last: bool = last) -> Float64Array:
            seen = tile @ V
            return seen.T @ seen if last else tile.T @ seen

        total = np.zeros((width, width) if last else (d, width))
        with tiles(part) as sums:
            for own, _ in filter(None, sums):
                total += own
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


def _whole_rank(rank: object, d: int) -> int:
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or not 1 <= int(rank) <= d:
        raise InputError(f"rank={rank!r} must be a whole number from 1 to the {d} features.")
    return int(rank)
