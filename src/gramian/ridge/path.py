r"""Ridge solutions for many alphas from one set of sums, and the diagonal of each one's hat matrix.

FᵀΩF and FᵀΩy do not depend on alpha. Nested bases are eliminated once for each alpha; where a core couples
the blocks, or a root stands alone, one eigendecomposition serves all:

    f_iᵀ(FᵀΩF + alpha·I)⁻¹f_i           = Σ_k (qᵏᵀf_i)²/(λ_k + alpha),         FᵀΩF = Q Λ Qᵀ,
    w_iᵀC(A C + alpha·I)⁻¹w_i           = Σ_k (eᵏᵀT⁻ᵀw_i)² λ_k/(λ_k + alpha),   A = TᵀT,  T C Tᵀ = E Λ Eᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from gramian._numerics import descending_eigh, gram_factor, ridge_tolerance, unit_roundoff
from gramian._tiles import blas_for
from gramian._typing import Float64Array, FloatArray
from gramian.compression.features import FeatureMap, Unit
from gramian.engine import Engine
from gramian.ridge.sums import solve_eliminated, split_intercept, warn_if_missed
from gramian.solvers.arrowhead import ArrowheadFactor, Forest, NodeSums
from gramian.solvers.coupled import CoupledSystem
from gramian.solvers.solution import Solution, Status, relative_residual

#: Eigenvectors that rows are multiplied with at a time: 2 MB for a unit of 256 rows.
STRIPE = 1024


@dataclass(frozen=True)
class EliminatedHat:
    """By one block factorisation for each alpha. Time O(R_path²) a row and alpha."""

    factors: tuple[ArrowheadFactor, ...]

    def diagonal(self, F: FloatArray, unit: Unit) -> Float64Array:
        """Return the sums of squares of the whitened rows."""
        out = np.empty((len(F), len(self.factors)))
        for k, factor in enumerate(self.factors):
            rows = F.astype(np.float64)
            for segment in chain.from_iterable(reversed(unit.levels)):
                factor.blocks.forward(segment.node, rows[segment.rows])
            out[:, k] = np.einsum("ij,ij->i", rows, rows)
        return out


@dataclass(frozen=True)
class SpectralHat:
    """By eigenvectors of all alphas: f ↦ Σ_k (m_kᵀf)² share_k. Time O(R_own R) a row for all alphas."""

    maps: tuple[Float64Array, ...]  #: per node (r, R): its features to coordinates of the eigenvectors
    shares: Float64Array  #: (R, alphas)

    def diagonal(self, F: FloatArray, unit: Unit) -> Float64Array:
        """Return the shares' sums of the rows' squared coordinates."""
        out = np.zeros((len(F), self.shares.shape[1]))
        for segment in unit.levels[-1]:
            to = self.maps[segment.node]
            rows = F[segment.rows, : len(to)].astype(np.float64)
            for start in range(0, to.shape[1], STRIPE):
                part = slice(start, start + STRIPE)
                coordinates = rows @ to[:, part]
                np.square(coordinates, out=coordinates)
                out[segment.rows] += coordinates @ self.shares[part]
        return out


#: What one set of sums says of the leverage f_iᵀ(FᵀΩF + alpha·I)⁻¹f_i of rows, for each alpha.
Hat = EliminatedHat | SpectralHat


@dataclass(frozen=True)
class AlphaPath:
    """The solutions for ``alphas``, on given features and sums.

    ``beta[k]`` has one (r, outputs) array per node, ``offsets`` (alphas, outputs) is the unpenalised
    intercept's. ``ones`` are A⁻¹s of each alpha and ``left`` Σw − sᵀA⁻¹s, s = FᵀΩ1, None without intercept.
    """

    alphas: Float64Array
    forest: Forest
    beta: tuple[list[Float64Array], ...]
    offsets: Float64Array
    solutions: tuple[Solution, ...]
    hat: Hat | None
    ones: tuple[list[Float64Array], ...] | None
    left: Float64Array

    def without_hat(self) -> AlphaPath:
        """Return the solutions alone, without the factors that leverages come from."""
        return replace(self, hat=None)

    def fitted(self, F: FloatArray, unit: Unit) -> Float64Array:
        """Return f(x) + b of a unit's rows, shape (rows, alphas, outputs)."""
        values = self._times(F, unit, self._by_node)
        return values.reshape(len(F), len(self.alphas), -1) + self.offsets

    def leverages(self, F: FloatArray, unit: Unit) -> Float64Array:
        r"""Return h_i/w_i, shape (rows, alphas): what a row's own target moves its prediction by, per weight.

        h_i/w_i = f_iᵀA⁻¹f_i + (1 − f_iᵀA⁻¹s)²/(Σw − sᵀA⁻¹s), the second with an unpenalised intercept.
        """
        assert self.hat is not None
        h = self.hat.diagonal(F, unit)
        if self.ones is not None:
            h += (1.0 - self._times(F, unit, self._ones_by_node)) ** 2 / self.left
        return h

    @cached_property
    def _by_node(self) -> list[Float64Array]:
        return [np.concatenate(nodes, axis=1) for nodes in zip(*self.beta, strict=True)]

    @cached_property
    def _ones_by_node(self) -> list[Float64Array]:
        assert self.ones is not None
        return [np.stack(nodes, axis=1) for nodes in zip(*self.ones, strict=True)]

    def _times(self, F: FloatArray, unit: Unit, coefficients: Sequence[Float64Array]) -> Float64Array:
        out = np.zeros((len(F), coefficients[0].shape[1]))
        for segment in chain.from_iterable(unit.levels):
            own = coefficients[segment.node]
            start = self.forest.path_rank(segment.node)
            out[segment.rows] += F[segment.rows, start : start + len(own)].astype(np.float64) @ own
        return out


def alpha_path(
    features: FeatureMap,
    sums: Sequence[NodeSums],
    alphas: Sequence[float] | Float64Array,
    *,
    mass: float | None,
    engine: Engine,
    spectral: bool = True,
) -> AlphaPath:
    """Solve for every alpha.

    Parameters
    ----------
    sums : what :func:`gramian.compression.sums.accumulate` gave, ``with_ones`` for an intercept
    mass : Σw, for an unpenalised intercept; None without one
    spectral : decompose a lone root (5 R² numbers) instead of factoring it for each alpha

    Cost: one elimination for each alpha, or one eigendecomposition (of R' numbers, at most 10,000, where a
    core couples blocks: more raise ``InputError``) and products. Memory: the factors.
    """
    forest = features.forest
    solved: list[tuple[list[Float64Array], Solution]]
    hat: Hat
    if features.core is not None:
        solved, hat = _coupled(features, sums, alphas, engine)
    elif len(forest.ranks) == 1 and spectral:
        solved, hat = _lone(sums[0], alphas)
    else:
        factors = tuple(ArrowheadFactor(forest, sums, alpha, engine) for alpha in alphas)
        solved, hat = [solve_eliminated(f, forest, sums) for f in factors], EliminatedHat(factors)
    beta, ones, offsets, left = [], [], [], []
    for values, _ in solved:
        offset = np.zeros(values[0].shape[1])
        if mass is not None:
            explained = sum(float(s.rhs[:, -1] @ b[:, -1]) for s, b in zip(sums, values, strict=True))
            ones.append([b[:, -1] for b in values])
            rest = mass - explained
            # As split_intercept: what drowns in rounding is no intercept, and takes no leverage.
            left.append(rest if rest > unit_roundoff(features.dtype) * mass else np.inf)
            values, offset = split_intercept(values, sums, mass, features.dtype)
        beta.append(values)
        offsets.append(offset)
    return AlphaPath(
        np.asarray(alphas, np.float64),
        forest,
        tuple(beta),
        np.asarray(offsets),
        tuple(solution for _, solution in solved),
        hat,
        tuple(ones) if mass is not None else None,
        np.asarray(left),
    )


def _lone(
    sums: NodeSums, alphas: Sequence[float] | Float64Array
) -> tuple[list[tuple[list[Float64Array], Solution]], Hat]:
    with blas_for(len(sums.gram)):
        values, vectors = descending_eigh(sums.gram)
    values = np.maximum(values, 0.0)
    turned = vectors.T @ sums.rhs
    solved = []
    for alpha in alphas:
        beta = vectors @ (turned / (values + alpha)[:, None])
        gap = sums.rhs - sums.gram @ beta - alpha * beta
        # One step of refinement, as after an elimination.
        beta += vectors @ ((vectors.T @ gap) / (values + alpha)[:, None])
        gap = sums.rhs - sums.gram @ beta - alpha * beta
        residual = relative_residual(gap, sums.rhs)
        warn_if_missed(residual, ridge_tolerance(np.float64))
        solved.append(([beta], Solution(beta, Status.DIRECT, 0, residual)))
    return solved, SpectralHat((vectors,), 1.0 / np.add.outer(values, np.asarray(alphas, np.float64)))


def _coupled(
    features: FeatureMap, sums: Sequence[NodeSums], alphas: Sequence[float] | Float64Array, engine: Engine
) -> tuple[list[tuple[list[Float64Array], Solution]], Hat]:
    core = features.core
    assert core is not None
    parts = [gram_factor(s.gram) for s in sums]
    system = CoupledSystem([t for t, _ in parts], core, engine=engine)
    values, vectors = system.eigh()
    right = [inverse.T @ s.rhs for (_, inverse), s in zip(parts, sums, strict=True)]
    solved = []
    for alpha in alphas:
        solution = system.solve(right, float(alpha))
        warn_if_missed(solution.residual, ridge_tolerance(np.float64))
        beta = core.multiply(system.expand(system.positive_part(solution.value)))
        solved.append((core.split(beta), solution))
    maps = tuple(inverse @ rows for (_, inverse), rows in zip(parts, system.split(vectors), strict=True))
    return solved, SpectralHat(maps, values[:, None] / np.add.outer(values, np.asarray(alphas, np.float64)))
