"""Search for the nearest rows and the posterior from them, made from the checked parts of a model file."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian._typing import Float64Array, IntArray
from gramian.gp.nearest import NearestRows
from gramian.gp.neighbours import NeighbourPosterior
from gramian.kernels import Kernel
from gramian.landmarks.partition import BisectionPartition
from gramian.model_file.structure import check_routing, check_shape, require, tiles, whole


def made_nearest(
    points: Float64Array,
    numbers: IntArray,
    partition: BisectionPartition,
    starts: IntArray,
    nearest: IntArray,
    kept: IntArray,
) -> NearestRows:
    """Return the search, or raise if a leaf or a row that it names does not exist."""
    check_shape("points", points, (None, None))
    count, leaves = len(points), partition.n_blocks
    check_routing(partition, points.shape[1])
    check_shape("numbers", numbers, (count,))
    check_shape("starts", starts, (leaves + 1,))
    check_shape("nearest", nearest, (leaves, None))
    check_shape("kept", kept, (leaves,))
    starts = whole("starts", starts, count + 1)
    every = starts[0] == 0 and starts[-1] == count and (np.diff(starts) >= 0).all()
    require(bool(every), "the leaves of the nearest rows do not hold all rows")
    nearest = whole("nearest", nearest, leaves)
    kept = whole("kept", kept, nearest.shape[1] + 1)
    require(bool((kept > 0).all()), "a leaf of the nearest rows searches no rows")
    return NearestRows(points, whole("numbers", numbers, count), partition, starts, nearest, kept)


def made_neighbours(
    kernel: Kernel,
    noise: float,
    scale: Float64Array | None,
    near: NearestRows,
    targets: Float64Array,
    count: int,
    dtype: np.dtype[Any],
    weights: Float64Array | None = None,
) -> NeighbourPosterior:
    """Return the posterior, or raise if targets, scale and weights are not those of the rows."""
    tiles(dtype)
    rows, width = near.points.shape
    check_shape("targets", targets, (rows, None))
    if scale is not None:
        check_shape("scale", scale, (width,))
    if weights is not None:
        check_shape("weights", weights, (rows,))
    require(noise > 0, f"neighbours have a noise of {noise}")
    require(0 < count <= rows, f"{count} neighbours are wanted of {rows} rows")
    return NeighbourPosterior(kernel, noise, scale, near, targets, count, dtype, weights)
