r"""Gradient of the log marginal likelihood with respect to log parameters, by reverse-mode differentiation.

Landmarks and blocks are fixed. Let F be the features of the rows, Λ = diag(k(x, x)) − diag(F Fᵀ) + noise·I,
Σ = F Fᵀ + Λ, S = FᵀΛ⁻¹F + I and a = Σ⁻¹y. Then

    d log p(y) = tr(M dΣ),  M = ½ (a aᵀ − Σ⁻¹),
    F̄ = 2 (M F − diag(M) F),  the adjoint of the features on each row's path,

where M F follows from aᵀF = βᵀ and Σ⁻¹F = Λ⁻¹ F S⁻¹; a row needs only the columns of its own path.

Adjoints are passed back node by node, from the leaves up. Node b has landmarks Z_b and features
f_b = (k(x, Z_b) − f_A N_bᵀ) V_b, with f_A the features of its ancestors, N_b = f_A(Z_b), and
V_b V_bᵀ = G_b⁻¹, G_b = k(Z_b, Z_b) − N_b N_bᵀ. The likelihood does not change when a node's features are
rotated, so

    adjoint of k(x, Z_b):  V_b f̄_b;    of f_A:  −P_b f̄_b;    of G_b:  −½ V_b sym(F_bᵀ F̄_b) V_bᵀ;
    of N_b:  −V_b F̄_bᵀ F_A − 2 Ḡ_b N_b,

with P_b = N_bᵀ V_b. The landmarks then pass N̄_b on to the ancestors as if they were rows. Only the
r × (r + path) products F̄_bᵀ [F_b | F_A] and weighted sums of the kernel's derivatives run over the rows.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import numpy as np

from gramian._typing import Array, Float64Array, FloatArray, IntArray, Rows
from gramian.compression.basis import features_above
from gramian.compression.features import FeatureMap, Unit
from gramian.compression.sums import map_source
from gramian.gp.likelihood import MarginalLikelihood, Observations
from gramian.gp.prior import residual_diagonal
from gramian.kernels.columns import dense
from gramian.kernels.gradient import contract, contracted_diagonal, log_parameters


@dataclass
class _Adjoints:
    """Sums over rows for one node: F̄_bᵀF_b and F̄_bᵀF_A."""

    own: Float64Array
    above: Float64Array


@dataclass
class _GradientPart:
    slope: Float64Array  #: derivatives in the kernel's log parameters
    noise: float  #: Σ M_ii noise_i
    nodes: list[tuple[int, Float64Array, Float64Array]]


def gradient(found: MarginalLikelihood, data: Observations, *, by_kernel: bool = True) -> Float64Array:
    """Return the derivatives of log p(y) in the kernel's log parameters and, last, in the log of the noise.

    ``by_kernel=False`` returns only the derivative in the noise, for kernels whose gradient is not known.

    Makes a second pass over the rows and one over the landmarks. Time O(n (m d + m r + path²) + Σ m_b (path²
    + m d)) for m landmarks on a path and m_b in node b; memory as for the likelihood, and a unit's weights.
    """
    features = found.features
    forest, kernel = features.forest, features.kernel
    adjoints = [
        _Adjoints(np.zeros((r, r)), np.zeros((r, forest.path_rank(b)))) for b, r in enumerate(forest.ranks)
    ]
    slope, noise = np.zeros(len(log_parameters(kernel)) if by_kernel else 0), 0.0

    def work(numbers: IntArray, unit: Unit, X: Rows, F: FloatArray) -> _GradientPart:
        noise = data.noise(found.noise, numbers)
        return _part(found, X, np.asarray(F, np.float64), data.targets[numbers], noise, unit, by_kernel)

    done = map_source(features, data.source, work, chunk_rows=data.chunk_rows, engine=data.engine)
    with closing(done) as parts:
        for part in parts:
            slope += part.slope
            noise += part.noise
            _add(adjoints, part)
    for level in reversed(forest.levels if by_kernel else ()):

        def landmarks(node: int) -> _GradientPart:
            return _landmarks(features, node, adjoints[node])

        with data.engine.results(landmarks, range(level.start, level.stop)) as below:
            for part in below:
                slope += part.slope
                _add(adjoints, part)
    return np.append(slope, noise)


def _add(adjoints: list[_Adjoints], part: _GradientPart) -> None:
    for node, own, above in part.nodes:
        adjoints[node].own += own
        adjoints[node].above += above


def _part(
    found: MarginalLikelihood,
    X: Rows,
    F: Float64Array,
    Y: Array,
    noise: float | Float64Array,
    unit: Unit,
    by_kernel: bool,
) -> _GradientPart:
    """Return the contribution of one unit of rows: compute its F̄, then go back through the rows' paths."""
    features, forest = found.features, found.features.forest
    outputs = Y.shape[1]
    total = residual_diagonal(features.kernel, X, F) + noise
    Z = F.copy()
    for segment in unit.upwards:
        found.factor.forward(segment.node, Z[segment.rows])
    explained = np.einsum("ij,ij->i", Z, Z)
    for segment in unit.segments:
        found.factor.backward(segment.node, Z[segment.rows])
    # Z is now F S⁻¹ on the path. The blocks of beta on each row's path give the fit and aᵀF.
    a = np.array(Y, np.float64)
    for segment in unit.segments:
        own = F[segment.rows, forest.columns(segment.node)]
        a[segment.rows] -= own @ found.beta[segment.node]
    a /= total[:, None]
    diagonal = 0.5 * (np.einsum("ij,ij->i", a, a) - outputs * (1.0 / total - explained / total**2))
    if not by_kernel:
        return _GradientPart(np.zeros(0), float(np.sum(noise * diagonal)), [])
    adjoint = Z
    adjoint *= -(outputs / total)[:, None]
    adjoint -= 2.0 * diagonal[:, None] * F
    for segment in unit.segments:
        own = a[segment.rows] @ found.beta[segment.node].T
        adjoint[segment.rows, forest.columns(segment.node)] += own
    points = np.asarray(dense(X), np.float64)
    slope = contracted_diagonal(features.kernel, points, diagonal)
    part = _GradientPart(slope, float(np.sum(noise * diagonal)), [])
    for segment in unit.upwards:
        rows = segment.rows
        _back(features, segment.node, points[rows], F[rows], adjoint[rows], part)
    return part


def _back(
    features: FeatureMap,
    node: int,
    X: Float64Array,
    F: Float64Array,
    adjoint: Float64Array,
    part: _GradientPart,
) -> None:
    """Pass the adjoint of one node's features back to the kernel's parameters and its ancestors' features."""
    basis, start = features.nodes[node], features.forest.path_rank(node)
    if not basis.rank:
        return
    own = adjoint[:, start : start + basis.rank]
    above = F[:, :start]
    part.nodes.append((node, own.T @ F[:, start : start + basis.rank], own.T @ above))
    landmarks = np.asarray(dense(basis.landmarks), np.float64)
    part.slope += contract(features.kernel, X, landmarks, own @ basis.matrix.T)
    if start:
        adjoint[:, :start] -= own @ basis.projection.T


def _landmarks(features: FeatureMap, node: int, sums: _Adjoints) -> _GradientPart:
    """Return the contribution of a node's Gram matrix and of its landmarks' ancestor features."""
    kernel, basis = features.kernel, features.nodes[node]
    part = _GradientPart(np.zeros(len(log_parameters(kernel))), 0.0, [])
    if not basis.rank:
        return part
    points = np.asarray(dense(basis.landmarks), np.float64)
    vectors = np.asarray(basis.matrix, np.float64)
    gram = -0.25 * vectors @ (sums.own + sums.own.T) @ vectors.T
    part.slope += contract(kernel, points, points, gram)
    path = features.forest.path(node)
    if path:
        ancestors = tuple(features.nodes[a] for a in path)
        N = features_above(kernel, basis.landmarks, ancestors)
        adjoint = -vectors @ sums.above - 2.0 * gram @ N
        for ancestor in reversed(path):
            stop = features.forest.path_rank(ancestor) + features.nodes[ancestor].rank
            _back(features, ancestor, points, N[:, :stop], adjoint[:, :stop], part)
    return part
