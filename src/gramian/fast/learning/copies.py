"""Synthetic rows between the rows of a leaf, for a teacher to label."""

from __future__ import annotations

import numpy as np

from gramian._typing import Array, Float64Array, IntArray

#: A copy of a row lies up to this fraction of the way to another row of its leaf. Chosen by hand.
MIXED = 0.8


def two_valued(rows: Float64Array) -> Array:
    """Return a mask (d,) of the features that have at most two values."""
    return np.asarray(((rows == rows.min(axis=0)) | (rows == rows.max(axis=0))).all(axis=0))


def between(
    rows: Float64Array,
    members: list[IntArray],
    counts: list[int],
    noise: Float64Array,
    two: Array,
    rng: np.random.Generator,
) -> tuple[Float64Array, IntArray]:
    r"""Return synthetic copies of rows, ``counts[s]`` for leaf s, and the number of the row that each copies.

    members : the rows of each leaf; noise : σ of each feature (d,); two : mask of two-valued features.

    With row b another row of the same leaf, the copy of row a is a + t (b − a) + σ ε with t uniform up to
    MIXED and ε normal. Two-valued features are copied together: from b with probability t, else from a. Real
    rows never lie between the two values, and a one-hot encoded category must keep exactly one level.
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
