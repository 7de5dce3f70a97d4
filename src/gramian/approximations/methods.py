"""Table of the approximations by the names that ``approximation=`` accepts, and their builders."""

from __future__ import annotations

from gramian.approximations.approximation import Approximation
from gramian.approximations.block_basis import BlockBasis
from gramian.approximations.block_diagonal import BlockDiagonal, LowRankPlusBlocks
from gramian.approximations.clustered_low_rank import ClusteredLowRank
from gramian.approximations.kals import KALS
from gramian.approximations.meka import MEKA
from gramian.approximations.multiresolution import MultiResolution
from gramian.approximations.nystrom import EnsembleNystrom, Nystrom
from gramian.approximations.polynomial_maps import RandomMaclaurin, TensorSketch
from gramian.approximations.random_fourier import Fastfood, RandomFourier
from gramian.approximations.truncated_eigen import TruncatedEigen
from gramian.compression.builder import Builder

METHODS: dict[str, type[Approximation]] = {
    kind.builders[0].method: kind
    for kind in (
        *(MultiResolution, MEKA, BlockBasis, Nystrom, EnsembleNystrom, KALS, BlockDiagonal),
        *(LowRankPlusBlocks, TruncatedEigen, ClusteredLowRank, RandomFourier, Fastfood),
        *(RandomMaclaurin, TensorSketch),
    )
}
#: Builders of all methods, which model files may name.
BUILDERS: tuple[type[Builder], ...] = tuple(builder for kind in METHODS.values() for builder in kind.builders)
