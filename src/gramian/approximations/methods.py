"""Table of the approximations by the names that ``approximation=`` accepts."""

from __future__ import annotations

from gramian.approximations.approximation import Approximation
from gramian.approximations.block_basis import BlockBasis, BlockBasisBuilder
from gramian.approximations.block_basis_sampled import SampledBasisBuilder
from gramian.approximations.block_diagonal import (
    BlockDiagonal,
    BlockDiagonalBuilder,
    LowRankPlusBlocks,
    LowRankPlusBlocksBuilder,
)
from gramian.approximations.clustered_low_rank import ClusteredLowRank, ClusteredLowRankBuilder
from gramian.approximations.kals import KALS, KALSBuilder
from gramian.approximations.meka import MEKA, MEKABuilder
from gramian.approximations.multiresolution import MultiResolution, MultiResolutionBuilder
from gramian.approximations.nystrom import EnsembleNystrom, EnsembleNystromBuilder, Nystrom, NystromBuilder
from gramian.approximations.polynomial_maps import (
    RandomMaclaurin,
    RandomMaclaurinBuilder,
    TensorSketch,
    TensorSketchBuilder,
)
from gramian.approximations.random_fourier import (
    Fastfood,
    FastfoodBuilder,
    RandomFourier,
    RandomFourierBuilder,
)
from gramian.approximations.truncated_eigen import TruncatedEigen, TruncatedEigenBuilder
from gramian.compression.builder import Builder

METHODS: dict[str, type[Approximation]] = {
    "multiresolution": MultiResolution,
    "meka": MEKA,
    "bbf": BlockBasis,
    "nystrom": Nystrom,
    "ensemblenystrom": EnsembleNystrom,
    "kals": KALS,
    "blockdiagonal": BlockDiagonal,
    "lowrankplusblocks": LowRankPlusBlocks,
    "truncatedeigen": TruncatedEigen,
    "clusteredlowrank": ClusteredLowRank,
    "randomfourier": RandomFourier,
    "fastfood": Fastfood,
    "randommaclaurin": RandomMaclaurin,
    "tensorsketch": TensorSketch,
}
#: Builders of all methods, which model files may name.
BUILDERS: tuple[type[Builder], ...] = (
    BlockBasisBuilder,
    ClusteredLowRankBuilder,
    TruncatedEigenBuilder,
    LowRankPlusBlocksBuilder,
    BlockDiagonalBuilder,
    EnsembleNystromBuilder,
    FastfoodBuilder,
    KALSBuilder,
    MEKABuilder,
    MultiResolutionBuilder,
    NystromBuilder,
    RandomFourierBuilder,
    RandomMaclaurinBuilder,
    SampledBasisBuilder,
    TensorSketchBuilder,
)
