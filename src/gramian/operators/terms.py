"""Products and entries of A_1B_1ᵀ + … + A_LB_Lᵀ with a core in the last term, used by all operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gramian._typing import Float64Array, IntArray
from gramian.engine import Engine
from gramian.operators.basis import BasisLevel
from gramian.solvers.core import CoupledCore


def product(
    left: Sequence[BasisLevel],
    right: Sequence[BasisLevel],
    core: CoupledCore | None,
    values: Float64Array,
    engine: Engine,
) -> Float64Array:
    """Return Σ A_l (B_lᵀ V), with A_L (C (B_LᵀV)) as the last term if there is a core.

    Time O((n + m) r p + R² p).
    """
    out = np.zeros((left[0].n_rows, *values.shape[1:]))
    for up, down in zip(left, right, strict=True):
        inner = down.adjoint(values, engine)
        if down is right[-1] and core is not None:
            inner = core.multiply(inner)
        out += up.matmul(inner, engine)
    return out


def entries(
    left: Sequence[BasisLevel],
    right: Sequence[BasisLevel],
    core: CoupledCore | None,
    rows: IntArray,
    cols: IntArray,
) -> Float64Array:
    """Return the dense sub-block of these rows and columns."""
    out = np.zeros((len(rows), len(cols)))
    for up, down in zip(left, right, strict=True):
        above, below = up.gather(rows), down.gather(cols)
        if down is right[-1] and core is not None:
            for s, (i, a) in above.items():
                for t, (j, b) in below.items():
                    if not core.is_zero(s, t):
                        out[np.ix_(i, j)] += a @ core.block(s, t) @ b.T
        else:
            for s in above.keys() & below.keys():
                (i, a), (j, b) = above[s], below[s]
                out[np.ix_(i, j)] += a @ b.T
    return out
