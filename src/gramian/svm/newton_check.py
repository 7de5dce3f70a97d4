"""Distance of a float32-trained model from its minimum, measured with float64 tiles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gramian._typing import Float64Array
from gramian.compression.basis import build_basis
from gramian.compression.features import FeatureMap
from gramian.engine import Engine
from gramian.solvers.losses import Loss, Proximal, Softmax
from gramian.solvers.newton import Newton
from gramian.solvers.newton_system import NewtonPoint, factored_by
from gramian.solvers.quasi_newton import minimise_coupled
from gramian.svm.newton_sums import FeatureTiles, LossPasses

#: Relative gap that float32 tiles may leave without a warning. Kernels of values up to 1 leave 4e-7 to 7e-5
#: (C = 100, 300 rows), products of rows far from the origin 1e-3 to 0.07 (tests/svm/test_newton_start.py).
FLOAT32_GAP = 1e-3
#: Matrices (landmarks, landmarks) that whitening again in float64 holds.
SQUARES = 4
#: Width of the first parabolas when minimising in float64, relative to a start from nothing.
WARM = 0.1
#: Width factor of a proximal loss that is so large that its duals stay at their anchors.
FIXED = 1e200


def float64_gap(
    passes: LossPasses, loss: Loss, newton: Newton, point: NewtonPoint, size: int, spare: int
) -> Float64Array | None:
    """Return the relative gap of the objective at ``point``, for each output (one of a coupled loss).

    It is measured with float64 tiles of the features that ``passes`` has in float32. Gram matrices of
    ``size`` outputs are held at a time; ``spare`` is as for :func:`widened`. For a smooth loss the gap is the
    decrease that a Newton step predicts, from one pass. For a proximal loss it is the duality gap of the
    anchors, from two passes. If that exceeds :data:`FLOAT32_GAP`, poor anchors may be the cause, and the gap
    is measured from a minimum found in float64. None for explicit feature maps, whose random numbers are
    drawn in float32.
    """
    tiles, outputs = passes.tiles, np.arange(passes.targets.shape[1])
    if any(node.vectors is None for node in tiles.features.nodes):
        return None
    features, point = widened(tiles.features, point, tiles.source.shape[0], spare)
    # Half the rows and threads: as many bytes as in float32.
    engine = Engine(max(1, tiles.engine.n_threads // 2))
    wide = FeatureTiles(features, tiles.source, max(1, tiles.chunk_rows // 2), engine)
    rows = LossPasses(wide, passes.targets, passes.weights, passes.phases, "check", anchors=passes.anchors)
    factored = factored_by(features.forest, newton.core, newton.alpha, engine)
    newton = replace(newton, factored=factored, engine=engine, coarse=False)
    # The bound of a loss of pieces would say how far float32 rounds f, not how far the minimum is.
    step = replace(newton, max_iterations=0, coarse=True)
    if not loss.separable:
        return minimise_coupled(step, rows, point, outputs, loss, Softmax.bound, memory=1).gap
    groups = [outputs[i : i + size] for i in range(0, len(outputs), size)]
    if not isinstance(loss, Proximal):
        return np.concatenate([step.minimise(rows, point.columns(g), g, loss).gap for g in groups])
    # The duality gap, with duals that stay at their anchors.
    fixed, floor = replace(loss, rho=FIXED), max(newton.floor, np.finfo(float).tiny)  # type: ignore[type-var]
    losses, gaps = rows.anchor(point, outputs, fixed)
    now = rows.evaluate(point, None, outputs, fixed, curvatures=0)
    gaps = gaps + newton.unstationary(*newton.gradient(point, now.slope, now.slope_offset))
    value = losses + 0.5 * newton.alpha * point.inner(point)
    gap = gaps / np.maximum(value, floor)
    if not gap.max(initial=0.0) <= max(newton.tol, FLOAT32_GAP):
        minima = [newton.minimise(rows, point.columns(g), g, loss, sharpness=WARM) for g in groups]
        least = np.concatenate([m.objective * (1.0 - m.gap) for m in minima])
        gap = np.fmin(gap, (value - least) / np.maximum(value, floor))
    return gap


def widened(
    features: FeatureMap, point: NewtonPoint, n_rows: int, spare: int
) -> tuple[FeatureMap, NewtonPoint]:
    """Return the features with float64 tiles, and the point in them.

    If all rows are landmarks and ``spare`` bytes hold a second whitening, the bases are whitened again in
    float64. This brings back directions of the exact K that the float32 cutoff had left out.
    """
    basis, kernel = features.nodes[0], features.kernel
    m = basis.landmarks.shape[0]
    if features.core is None and len(features.nodes) == 1 and m >= n_rows and 8 * SQUARES * m * m <= spare:
        new = build_basis(kernel, np.float64, basis.landmarks, m)
        inner = new.columns(basis.landmarks) @ basis.folded(point.beta)
        beta = new.matrix.T @ inner
        return FeatureMap.lone(new, features.partition, kernel), NewtonPoint(beta, beta, point.offset)
    # V and P stay in float32: each product with a tile takes a copy in float64, of one node at a time.
    nodes = tuple(
        replace(node, columns=kernel.against(node.landmarks, np.float64)) for node in features.nodes
    )
    return replace(features, nodes=nodes, dtype=np.dtype(np.float64)), point
