"""Synthetic rows between the rows of a leaf, for a teacher to label."""

from __future__ import annotations

import numpy as np

from gramian._typing import Array, Float64Array, IntArray

#: A copy of a row lies up to this part of the way to another row of its leaf.
MIXED = 0.8


def two_valued(rows: Float64Array) -> Array:
    """Return which features have at most two values, shape (d,)."""
    return np.asarray(((rows == rows.min(axis=0)) | (rows == rows.max(axis=0))).all(axis=0))


def between(
    rows: Float64Array,
    members: list[IntArray],
    counts: list[int],
    noise: Float64Array,
    two: Array,
    rng: np.random.Generator,
) -> tuple[Float64Array, IntArray]:
    r"""Return copies of rows, ``counts[s]`` of leaf s, and the row of which each is one.

    members : the rows of each leaf; noise : σ of each feature (d,); two : features of two values.

    A copy of row a towards row b of its leaf is a + t (b − a) + σ ε with t uniform up to MIXED and ε
    normal. Features of two values are all taken from b with probability t, else from a: between its two
    values a local kernel knows no row at all, and the levels of a category stay one of them.
    """
    first, second = (
        np.concatenate([rng.choice(mine, count) for mine, count in zip(members, counts, strict=True)])
        for _ in range(2)
    )
    copies = rows[second] - rows[first]
    part = MIXED * rng.random((len(first), 1))
    copies *= part
    copies += rows[first]
    copies += noise * rng.standard_normal(copies.shape)
    if two.any():
        source = np.where(rng.random(len(first)) < part[:, 0], second, first)
        copies[:, two] = rows[np.ix_(source, two)]
    return copies, first
