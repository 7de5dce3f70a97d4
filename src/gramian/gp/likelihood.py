r"""Log marginal likelihood of K̃ + D + noise·I, from sums over one pass of the rows, and its gradient.

With K̃ = F Fᵀ, Λ = D + noise·I (diagonal) and the arrowhead matrix S = FᵀΛ⁻¹F + I,

    log p(y) = −½ (yᵀΛ⁻¹y − bᵀS⁻¹b + log det S + Σ log Λ_i + n log 2π),   b = FᵀΛ⁻¹y,

summed over the outputs, which share the kernel. Source: Snelson and Ghahramani 2006 and 2007.

**Gradient** with respect to log parameters, by reverse-mode differentiation. Landmarks and blocks are fixed.
Let F be the features of the rows, Λ = diag(k(x, x)) − diag(F Fᵀ) + noise·I, Σ = F Fᵀ + Λ, S = FᵀΛ⁻¹F + I and
a = Σ⁻¹y. Then

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

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg as la
from numpy.typing import ArrayLike

from gramian._checks import numbers_of
from gramian._typing import Array, Float64Array, FloatArray, IntArray, Rows
from gramian.compression.basis import features_above
from gramian.compression.features import FeatureMap, Unit
from gramian.compression.sums import UnitSums, add_unit, unit_products
from gramian.data.fingerprint import fingerprint
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.exceptions import InputError, quoted
from gramian.gp.dense import FAILED, dense_likelihood, noise_of
from gramian.gp.prior import Hyperparameters, residual_diagonal, with_kernel
from gramian.kernels.columns import dense
from gramian.kernels.gradient import contract, contracted_diagonal, log_parameters
from gramian.solvers.arrowhead import ArrowheadFactor, NodeSums, PathFactor

#: A node's number with F̄_bᵀF_b and F̄_bᵀF_A of some rows.
Adjoints = tuple[int, Float64Array, Float64Array]


@dataclass(frozen=True)
class Observations:
    """Rows, their targets (n, outputs) and weights (n,), None where all are 1; read in chunks."""

    source: RowSource
    targets: Float64Array
    chunk_rows: int
    engine: Engine = field(default_factory=Engine)
    weights: Float64Array | None = None


@dataclass(frozen=True)
class MarginalLikelihood:
    """Result of one pass for a given prior and noise: log p(y) and the posterior of the features' weights."""

    value: float
    features: FeatureMap
    noise: float
    factor: PathFactor  #: factor of S
    beta: tuple[Float64Array, ...]  #: S⁻¹FᵀΛ⁻¹y, the weights' posterior mean, one (r, outputs) array per node


def log_evidence(features: FeatureMap, noise: float, data: Observations) -> MarginalLikelihood:
    """Return log p(y) and the posterior of the features' weights.

    Needs features of float64 bases and ``noise`` > 0. Time O(n (m d + m r + path²)) and the elimination of S;
    memory: the sums and one chunk, independent of n.
    """
    outputs = data.targets.shape[1]
    forest = features.forest
    sums = NodeSums.zeros_of(forest, outputs)
    logdet = square = 0.0

    def work(numbers: IntArray, unit: Unit, X: Rows, F: FloatArray) -> tuple[UnitSums, float, float]:
        wide = np.asarray(F, np.float64)
        total = residual_diagonal(features.kernel, X, wide) + noise_of(noise, data.weights, numbers)
        scale = 1.0 / np.sqrt(total)[:, None]
        Y = data.targets[numbers] * scale
        parts = unit_products(forest, unit, wide * scale, Y)
        return parts, float(np.log(total).sum()), float(np.vdot(Y, Y))

    done = features.map_source(data.source, work, chunk_rows=data.chunk_rows, engine=data.engine)
    with closing(done) as units:
        for parts, own_logdet, own_square in units:
            add_unit(sums, parts)
            logdet += own_logdet
            square += own_square
    factor = ArrowheadFactor(forest, sums, 1.0, data.engine)
    beta = factor.solve([s.rhs for s in sums])
    explained = sum(float(np.vdot(s.rhs, b)) for s, b in zip(sums, beta, strict=True))
    n = data.source.shape[0]
    constant = factor.blocks.logdet + logdet + n * np.log(2.0 * np.pi)
    value = -0.5 * (square - explained + outputs * constant)
    return MarginalLikelihood(value, features, noise, factor.blocks, tuple(beta))


def gradient(likelihood: MarginalLikelihood, data: Observations, *, by_kernel: bool = True) -> Float64Array:
    """Return the derivatives of log p(y) in the kernel's log parameters and, last, in the log of the noise.

    ``by_kernel=False`` returns only the derivative in the noise, for kernels whose gradient is not known.

    Makes a second pass over the rows and one over the landmarks. Time O(n (m d + m r + path²) + Σ m_b (path²
    + m d)) for m landmarks on a path and m_b in node b; memory as for the likelihood, and a unit's weights.
    """
    features = likelihood.features
    forest, kernel = features.forest, features.kernel
    own = [np.zeros((r, r)) for r in forest.ranks]
    above = [np.zeros((r, forest.path_rank(b))) for b, r in enumerate(forest.ranks)]
    slope, noise = np.zeros(len(log_parameters(kernel)) if by_kernel else 0), 0.0

    def add(parts: Iterable[Adjoints]) -> None:
        for node, inner, outer in parts:
            own[node] += inner
            above[node] += outer

    def work(
        numbers: IntArray, unit: Unit, X: Rows, F: FloatArray
    ) -> tuple[Float64Array, float, list[Adjoints]]:
        noise = noise_of(likelihood.noise, data.weights, numbers)
        return _part(likelihood, X, np.asarray(F, np.float64), data.targets[numbers], noise, unit, by_kernel)

    done = features.map_source(data.source, work, chunk_rows=data.chunk_rows, engine=data.engine)
    with closing(done) as parts:
        for own_slope, own_noise, nodes in parts:
            slope += own_slope
            noise += own_noise
            add(nodes)
    for level in reversed(forest.levels if by_kernel else ()):

        def landmarks(node: int) -> tuple[Float64Array, list[Adjoints]]:
            return _landmarks(features, node, own[node], above[node])

        with data.engine.results(landmarks, range(level.start, level.stop)) as below:
            for own_slope, nodes in below:
                slope += own_slope
                add(nodes)
    return np.append(slope, noise)


def _part(
    likelihood: MarginalLikelihood,
    X: Rows,
    F: Float64Array,
    Y: Array,
    noise: float | Float64Array,
    unit: Unit,
    by_kernel: bool,
) -> tuple[Float64Array, float, list[Adjoints]]:
    """Return what one unit of rows adds to the slope by kernel and by noise, and to the nodes' adjoints.

    Computes its F̄, then goes back through the rows' paths.
    """
    features, forest = likelihood.features, likelihood.features.forest
    outputs = Y.shape[1]
    total = residual_diagonal(features.kernel, X, F) + noise
    Z = F.copy()
    for segment in unit.upwards:
        likelihood.factor.forward(segment.node, Z[segment.rows])
    explained = np.einsum("ij,ij->i", Z, Z)
    for segment in unit.segments:
        likelihood.factor.backward(segment.node, Z[segment.rows])
    # Z is now F S⁻¹ on the path. The blocks of beta on each row's path give the fit and aᵀF.
    a = np.array(Y, np.float64)
    for segment in unit.segments:
        own = F[segment.rows, forest.columns(segment.node)]
        a[segment.rows] -= own @ likelihood.beta[segment.node]
    a /= total[:, None]
    diagonal = 0.5 * (np.einsum("ij,ij->i", a, a) - outputs * (1.0 / total - explained / total**2))
    if not by_kernel:
        return np.zeros(0), float(np.sum(noise * diagonal)), []
    adjoint = Z
    adjoint *= -(outputs / total)[:, None]
    adjoint -= 2.0 * diagonal[:, None] * F
    for segment in unit.segments:
        own = a[segment.rows] @ likelihood.beta[segment.node].T
        adjoint[segment.rows, forest.columns(segment.node)] += own
    points = np.asarray(dense(X), np.float64)
    slope, nodes = contracted_diagonal(features.kernel, points, diagonal), list[Adjoints]()
    for segment in unit.upwards:
        rows = segment.rows
        _back(features, segment.node, points[rows], F[rows], adjoint[rows], slope, nodes)
    return slope, float(np.sum(noise * diagonal)), nodes


def _back(
    features: FeatureMap,
    node: int,
    X: Float64Array,
    F: Float64Array,
    adjoint: Float64Array,
    slope: Float64Array,
    nodes: list[Adjoints],
) -> None:
    """Pass the adjoint of one node's features back to its ancestors' features, and add to slope and nodes."""
    basis, start = features.nodes[node], features.forest.path_rank(node)
    if not basis.rank:
        return
    own = adjoint[:, start : start + basis.rank]
    above = F[:, :start]
    nodes.append((node, own.T @ F[:, start : start + basis.rank], own.T @ above))
    landmarks = np.asarray(dense(basis.landmarks), np.float64)
    slope += contract(features.kernel, X, landmarks, own @ basis.matrix.T)
    if start:
        adjoint[:, :start] -= own @ basis.projection.T


def _landmarks(
    features: FeatureMap, node: int, own: Float64Array, above: Float64Array
) -> tuple[Float64Array, list[Adjoints]]:
    """Return the contribution of a node's Gram matrix and of its landmarks' ancestor features."""
    kernel, basis = features.kernel, features.nodes[node]
    slope, nodes = np.zeros(len(log_parameters(kernel))), list[Adjoints]()
    if not basis.rank:
        return slope, nodes
    points = np.asarray(dense(basis.landmarks), np.float64)
    vectors = np.asarray(basis.matrix, np.float64)
    gram = -0.25 * vectors @ (own + own.T) @ vectors.T
    slope += contract(kernel, points, points, gram)
    path = features.forest.path(node)
    if path:
        ancestors = tuple(features.nodes[a] for a in path)
        N = features_above(kernel, basis.landmarks, ancestors)
        adjoint = -vectors @ above - 2.0 * gram @ N
        for ancestor in reversed(path):
            stop = features.forest.path_rank(ancestor) + features.nodes[ancestor].rank
            _back(features, ancestor, points, N[:, :stop], adjoint[:, :stop], slope, nodes)
    return slope, nodes


@dataclass(frozen=True)
class LikelihoodObjective:
    """Log marginal likelihood as a function of θ, for fixed landmarks and blocks."""

    features: FeatureMap
    hyper: Hyperparameters
    data: Observations
    #: Whether every row is a landmark of the root. The model is then exact, and dense algebra is cheaper.
    exact: bool = False
    fingerprint: str | None = None  #: of the rows at the fit, which a user may write over; targets are copies

    def moved(self, theta: Array) -> LikelihoodObjective:
        """Return the objective whose own kernel and noise are those of θ."""
        return replace(self, hyper=self.hyper.at(theta))

    def checked(self, theta: ArrayLike) -> Float64Array:
        """Return a user's θ as numbers; raise for a wrong number of them, or if the rows have changed."""
        size = len(self.hyper.theta)
        values = numbers_of("theta", theta, f"Give {size} numbers.")
        with np.errstate(over="ignore"):
            meant = np.exp(values)
        if values.shape != (size,) or not (np.isfinite(meant) & (meant > 0.0)).all():
            raise InputError(
                f"theta={quoted(theta)} has shape {values.shape}; expected {size} numbers: the logarithms of "
                f"the parameters, positive and finite, of {self.hyper.kernel!r}"
                + (" and of the noise." if self.hyper.learn_noise else ".")
            )
        if self.fingerprint is not None and fingerprint(self.data.source) != self.fingerprint:
            raise InputError(
                "the rows that fit was given have been changed since, so that the likelihood at another "
                "theta is not known. Pass a copy to fit, or fit again."
            )
        return values

    def likelihood(self) -> MarginalLikelihood:
        """Return the evidence for the objective's own kernel and noise."""
        features = with_kernel(self.features, self.hyper.kernel, self.data.engine)
        return log_evidence(features, self.hyper.noise, self.data)

    def value(self, theta: Array) -> tuple[float, Float64Array]:
        """Return log p(y) for θ, and its gradient."""
        by_kernel = bool(len(self.hyper.own))
        if self.exact:
            at = self.hyper.at(theta)
            n = self.data.source.shape[0]
            rows, targets = self.data.source.rows(slice(0, n)), self.data.targets[:n]
            value, full = dense_likelihood(
                at.kernel, at.noise, rows, targets, self.data.weights, by_kernel=by_kernel
            )
        else:
            likelihood = self.moved(theta).likelihood()
            value, full = likelihood.value, gradient(likelihood, self.data, by_kernel=by_kernel)
        return value, self.hyper.slope(full)

    def loss(self, theta: Array) -> tuple[float, Float64Array]:
        """Return −log p(y) and its gradient; a very large value if a factorisation fails."""
        try:
            value, slope = self.value(theta)
        except la.LinAlgError:
            return FAILED, np.zeros(len(theta))
        return (-value, -slope) if np.isfinite(value) else (FAILED, np.zeros(len(theta)))
