"""Shapley values: of sums of products exactly, of any other function from drawn orders of the players."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray

#: Draws of the background that cover its values evenly, which make one estimate together; fewest estimates,
#: from whose spread the standard error comes. Chosen by hand.
STRATA, LEAST_ESTIMATES = 4, 4


def product_shares(present: Float64Array, absent: Float64Array, weights: Float64Array) -> Float64Array:
    r"""Return the Shapley values of f_i = Σ_j c_ij Π_p a_pij, in which an absent player p counts b_pj.

    φ_ip = Σ_j c_ij ∫₀¹ (a_pij − b_pj) Π_{q ≠ p} (b_qj + t (a_qij − b_qj)) dt. The integrand is a polynomial
    of degree P − 1 in t for P players, so Gauss' rule of ⌈P/2⌉ nodes gives the integral without an error.

    present : (P, n, m), a; absent : (P, 1, m), b; weights : (n, m), c. Returns (n, P), whose rows add up to
    f_i − Σ_j c_ij Π_p b_pj. Time O(n m P²), memory four arrays of the shape of ``present``.
    Source: Owen 1972 (multilinear extension); Mohammadi et al. 2025, arXiv 2505.16516 (product kernels).
    """
    gains = present - absent
    before, factors, sums = np.empty_like(present), np.empty_like(present), np.zeros_like(present)
    nodes, masses = np.polynomial.legendre.leggauss((len(present) + 1) // 2)
    for node, mass in zip(0.5 * (nodes + 1.0), 0.5 * masses, strict=True):
        np.multiply(gains, node, out=factors)
        factors += absent
        before[0] = mass * weights
        for p in range(1, len(present)):
            np.multiply(before[p - 1], factors[p - 1], out=before[p])
        after = np.ones_like(weights)
        for p in reversed(range(len(present))):
            before[p] *= after
            after *= factors[p]
        sums += before
    return np.einsum("pnm,pnm->np", gains, sums)


def sampled_shares(
    predict: Callable[[Array, IntArray], Float64Array],
    rows: Array,
    background: Array,
    players: Sequence[IntArray],
    n_draws: int,
    most_rows: int,
) -> tuple[Float64Array, Float64Array]:
    """Return Shapley values (n, P) of rows (n, d), and their standard errors, from drawn orders of players.

    Along an order, a player's contribution is the change of the prediction as its places change from those of
    a drawn background row to the row's own. Each draw serves an order and its reverse; every player's places
    are drawn by themselves. All rows share the draws, so that the empty coalition has one value for all.

    predict : from rows (k, d) and the numbers (k,) of the rows that they are copies of to numbers (k,);
    background : (b, d); players : the places of each; n_draws : rounded up to whole estimates; most_rows :
    predicted at a time. Time of n_draws · 2 P predictions a row.
    Source: Castro, Gómez and Tejada 2009; Mitchell et al. 2022 (reversed orders); McKay et al. 1979 (strata).
    """
    rng = np.random.default_rng(0)
    n, count = len(rows), len(players)
    estimates = max(LEAST_ESTIMATES, -(-n_draws // STRATA))
    owner = np.full(rows.shape[1], count)
    for p, places in enumerate(players):
        owner[places] = p
    found = np.zeros((estimates, n, count))
    for estimate in found:
        for start in _strata(background, players, rng):
            order = rng.permutation(count)
            for way in (order, order[::-1]):
                rank = np.empty(count + 1, np.intp)
                rank[way], rank[count] = np.arange(count), count
                # Step s has the row's own places of the first s players; no player owns the other places.
                own = rank[owner] < np.arange(count + 1)[:, None]
                own[:, owner == count] = True
                for part in row_slices(n, max(1, most_rows // (count + 1))):
                    changed = np.where(own[:, None, :], rows[part], start)
                    numbers = np.tile(np.arange(part.start, part.stop), count + 1)
                    values = predict(changed.reshape(-1, rows.shape[1]), numbers).reshape(count + 1, -1)
                    estimate[part, way] += np.diff(values, axis=0).T
        estimate /= 2.0 * STRATA
    return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(estimates)


def _strata(background: Array, players: Sequence[IntArray], rng: np.random.Generator) -> Array:
    """Return drawn rows (STRATA, d): each player's places from a part of the sorted background each."""
    drawn = np.repeat(background[:1], STRATA, axis=0)
    for places in players:
        order = np.lexsort(background[:, places[::-1]].T)
        at = (rng.permutation(STRATA) + rng.random(STRATA)) * (len(order) / STRATA)
        drawn[:, places] = background[np.ix_(order[at.astype(np.intp)], places)]
    return drawn
