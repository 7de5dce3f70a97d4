"""Symmetric core C that couples the blocks, stored dense or as some of its blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gramian._numerics import rank_cutoff
from gramian._typing import Array, Float64Array, FloatArray
from gramian.exceptions import InputError


class CoupledCore:
    """A symmetric R × R matrix cut into blocks C_st of r_s × r_t, R = Σ r_s; frozen after construction.

    Parameters
    ----------
    values : ndarray (R, R), or mapping from (s, t) with s ≤ t to ndarray (r_s, r_t)
        The whole matrix, or its upper blocks; a missing pair is a zero block. Kept without a copy if already
        float64 and symmetric, and for a matrix an ndarray.
    ranks : sequence of int
        r_s per block; 0 is allowed.
    psd : bool
        Whether the matrix is known to be positive semi-definite. Systems then use Cholesky, and report jitter
        if it is not; otherwise they clip negative eigenvalues.

    Raises ``InputError`` if shapes do not fit or a diagonal block is not symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> core = CoupledCore({(0, 0): np.eye(1), (0, 1): np.full((1, 2), 3.0)}, (1, 2))
    >>> core.multiply(np.array([1.0, 1.0, 1.0])).tolist()
    [7.0, 3.0, 3.0]
    """

    def __init__(
        self, values: Array | Mapping[tuple[int, int], Array], ranks: Sequence[int], *, psd: bool = False
    ) -> None:
        self.ranks = tuple(int(r) for r in ranks)
        self.psd = bool(psd)
        self.offsets = np.concatenate([[0], np.cumsum(self.ranks)]).astype(np.intp)
        self._dense: Float64Array | None = None
        self._blocks: dict[tuple[int, int], Float64Array] = {}
        if isinstance(values, Mapping):
            for key in sorted(values):
                self._blocks[key] = self._checked(key, np.asarray(values[key], np.float64))
        else:
            dense = np.asarray(values, np.float64)
            if dense.shape != (self.size, self.size):
                raise InputError(
                    f"The core has shape {dense.shape}, but the ranks sum to {self.size}. "
                    f"Pass a symmetric matrix of shape ({self.size}, {self.size})."
                )
            self._dense = _symmetric(dense, "The core")

    @property
    def size(self) -> int:
        """R."""
        return int(self.offsets[-1])

    @property
    def shape(self) -> tuple[int, int]:
        """(R, R)."""
        return self.size, self.size

    @property
    def nbytes(self) -> int:
        """Bytes of the stored blocks."""
        if self._dense is not None:
            return self._dense.nbytes
        return sum(b.nbytes for b in self._blocks.values())

    def split(self, stacked: FloatArray) -> list[Any]:
        """Cut (R, p) into one (r_s, p) view per block."""
        return np.split(stacked, self.offsets[1:-1])

    def split_columns(self, strip: FloatArray) -> list[Any]:
        """Cut (m, R) into one (m, r_t) view per block."""
        return np.split(strip, self.offsets[1:-1], axis=1)

    def block(self, s: int, t: int) -> Float64Array:
        """Return C_st; a zero matrix if it is not stored."""
        if self._dense is not None:
            return self._dense[self._slice(s), self._slice(t)]
        if (s, t) in self._blocks:
            return self._blocks[s, t]
        if (t, s) in self._blocks:
            return self._blocks[t, s].T
        return np.zeros((self.ranks[s], self.ranks[t]))

    @property
    def is_dense(self) -> bool:
        """Whether C is stored whole."""
        return self._dense is not None

    def is_zero(self, s: int, t: int) -> bool:
        """Return whether C_st is not stored in a block-sparse core."""
        return self._dense is None and (min(s, t), max(s, t)) not in self._blocks

    def row_strip(self, s: int) -> Float64Array:
        """Return the block row C_s,: (r_s, R)."""
        if self._dense is not None:
            return self._dense[self._slice(s)]
        strip = np.zeros((self.ranks[s], self.size))
        for t in range(len(self.ranks)):
            if not self.is_zero(s, t):
                strip[:, self._slice(t)] = self.block(s, t)
        return strip

    def multiply(self, values: FloatArray) -> Float64Array:
        """Return C values for (R,) or (R, p)."""
        if self._dense is not None:
            return self._dense @ values
        out = np.zeros(values.shape)
        for (s, t), block in self._blocks.items():
            out[self._slice(s)] += block @ values[self._slice(t)]
            if s != t:
                out[self._slice(t)] += block.T @ values[self._slice(s)]
        return out

    def to_dense(self) -> Float64Array:
        """Return C as a new (R, R) array."""
        if self._dense is not None:
            return self._dense.copy()
        return np.concatenate(
            [np.zeros((0, self.size))] + [self.row_strip(s) for s in range(len(self.ranks))]
        )

    def _slice(self, s: int) -> slice:
        return slice(self.offsets[s], self.offsets[s + 1])

    def _checked(self, key: tuple[int, int], block: Float64Array) -> Float64Array:
        s, t = key
        if not 0 <= s <= t < len(self.ranks):
            raise InputError(
                f"The core has a block at {key}, but a key (s, t) needs 0 <= s <= t < "
                f"{len(self.ranks)}. Pass the upper blocks only; the lower ones follow by symmetry."
            )
        if block.shape != (self.ranks[s], self.ranks[t]):
            raise InputError(
                f"Block {key} of the core has shape {block.shape}, but the ranks ask for "
                f"({self.ranks[s]}, {self.ranks[t]})."
            )
        return _symmetric(block, f"Block {key} of the core") if s == t else block


def _symmetric(matrix: Float64Array, what: str) -> Float64Array:
    """Return the matrix made exactly symmetric; raise if it is off by more than float32 rounding."""
    if np.array_equal(matrix, matrix.T):
        return matrix
    gap = float(np.abs(matrix - matrix.T).max())
    largest = float(np.abs(matrix).max())
    if not gap <= rank_cutoff(np.float32) * largest:
        raise InputError(
            f"{what} must be symmetric, but entries differ from their mirror by up to {gap:.3g} "
            f"(largest entry {largest:.3g}). Pass (C + C.T) / 2 if that is what you mean."
        )
    return (matrix + matrix.T) / 2
