"""TensorSketch as a transformer."""

from __future__ import annotations

from typing import Any

from gramian.approximations.explicit_transformer import ExplicitMap
from gramian.approximations.tensor_sketch_map import TensorSketchBuilder
from gramian.estimator.base import whole_number


class TensorSketch(ExplicitMap):
    r"""TensorSketch: the polynomial kernel (x·z/ℓ² + offset)^degree by hashed features.

    φ(x) = FFT⁻¹(Π_j FFT(C_j y)), y = (x/ℓ, √offset), is a CountSketch of the d^degree monomials, none of
    which is formed.

    Parameters
    ----------
    kernel : "polynomial", "linear", such a :class:`Kernel`, or a positive multiple of one
    rank : int
        Features, the buckets of the hashes; a number without large prime factors makes the FFT fast.
    Other parameters and attributes as for :class:`MEKA`.

    Time O(n degree (d + rank log rank)), stored entries in place of d for sparse rows; memory O(degree·d)
    for the map.

    Source: Pham and Pagh 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.approximations.tensor_sketch import TensorSketch
    >>> X = np.random.default_rng(0).random((300, 5))
    >>> a = TensorSketch(degree=2, rank=2000, random_state=0).fit(X)
    >>> a.rank_, bool(a.relative_error(X) < 0.05)
    (2000, True)
    """

    def __init__(
        self,
        kernel: Any = "polynomial",
        *,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        rank: int = 1000,
        memory_budget: int | str = "2GB",
        tile_dtype: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.rank = rank
        self.memory_budget = memory_budget
        self.tile_dtype = tile_dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _builder(self) -> TensorSketchBuilder:
        return TensorSketchBuilder(rank=whole_number("rank", self.rank, 1))
